//! The steps that bring the disk image to every storage that needs it.

use std::collections::HashMap;

use daedal_inventory::Cluster;

use crate::graph::{Graph, Subject};
use crate::names::ImageRef;
use crate::plan::{Action, Impact, StepId};
use crate::size;
use crate::volumes::{Place, Volumes};
use crate::world::World;

/// Which step a host's image waits for.
#[derive(Debug, Default)]
pub(crate) struct ImageSteps {
    by_place: HashMap<Place, StepId>,
    /// Steps that make schematics known, by id.
    registered: HashMap<String, StepId>,
    /// Steps after which an image can be downloaded, by file.
    sources: HashMap<String, StepId>,
}

impl ImageSteps {
    /// Adds what is needed so that an image is on a host's storage, checked.
    pub(crate) fn bring(
        &mut self,
        cluster: &Cluster,
        image: &ImageRef,
        world: &World,
        volumes: &Volumes<'_>,
        host: &str,
        graph: &mut Graph,
    ) {
        let storage = &cluster.proxmox.images_storage;
        let volid = image.volid(storage);
        let declared_sha = cluster.talos.image_sha256.as_ref();
        let pin =
            world.image_pin(&image.file).filter(|pin| declared_sha.is_none_or(|sha| *sha == pin.sha256));
        let place = volumes.place(host, &image.file);
        if self.by_place.contains_key(&place) {
            return;
        }
        let there = volumes.find(host, &volid);
        // Shorter than it should be, it is what a broken transfer left. A longer one is somebody's other build of the
        // same version: the download refuses to replace it and says so.
        let broken = |size: u64| size != 0 && pin.is_some_and(|pin| size < pin.size);
        let subject = Subject { node: None, host: Some(host) };
        let download = Action::DownloadImage {
            content: image.content,
            storage: storage.clone(),
            file: image.file.clone(),
            url: image.url.clone(),
        };
        if let (Some(volume), Some(pin)) = (there, pin)
            && volume.size == pin.size
        {
            // Asked to download what it has, Proxmox compares the checksum and transfers nothing.
            let reason = "it is there: only its SHA-256 is compared";
            self.by_place.insert(place, graph.add(subject, download, reason, []));
            return;
        }
        let source = match self.sources.get(&image.file) {
            Some(source) => *source,
            None => {
                let registered = self.register(&image.schematic_id, graph);
                let source = match pin {
                    Some(_) => registered,
                    None => {
                        let action = Action::PinImage { file: image.file.clone(), url: image.url.clone() };
                        let reason = "its size and SHA-256 are not known yet";
                        graph.add(Subject::default(), action, reason, [Some(registered)])
                    }
                };
                self.sources.insert(image.file.clone(), source);
                source
            }
        };
        let mut deleted = None;
        if let Some(volume) = there.filter(|volume| broken(volume.size)) {
            let right = pin.map_or(0, |pin| pin.size);
            let reason = format!("it has {}, not {}", size::show(volume.size), size::show(right));
            let action = Action::DeleteImage { volid: volid.clone() };
            deleted = Some(graph.add_with(subject, action, reason, [Some(source)], Impact::Destroy));
        }
        let reason = match there {
            Some(_) if deleted.is_some() => "the right one is needed",
            Some(_) => "it is there, but must be checked against its SHA-256",
            None => "it is not there",
        };
        self.by_place.insert(place, graph.add(subject, download, reason, [Some(source), deleted]));
    }

    /// The factory knows a schematic only after it was told once; telling it again changes nothing.
    pub(crate) fn register(&mut self, id: &str, graph: &mut Graph) -> StepId {
        *self.registered.entry(id.to_owned()).or_insert_with(|| {
            let action = Action::RegisterSchematic { id: id.to_owned() };
            graph.add(Subject::default(), action, "the factory builds only what it was told of", [])
        })
    }

    /// The step after which the image can be imported on a host; none where no VM was to be made.
    pub(crate) fn ready_on(&self, volumes: &Volumes<'_>, host: &str, image: &ImageRef) -> Option<StepId> {
        self.by_place.get(&volumes.place(host, &image.file)).copied()
    }
}
