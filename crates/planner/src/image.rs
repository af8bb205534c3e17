//! The steps that bring the disk image to every storage that needs it.

use std::collections::HashMap;

use daedal_inventory::Cluster;

use crate::graph::{Graph, Subject};
use crate::names::{self, ImageRef};
use crate::plan::{Action, Impact, StepId};
use crate::size;
use crate::volumes::{Place, Volumes};
use crate::world::World;

/// Which step a host's image waits for.
#[derive(Debug, Default)]
pub(crate) struct ImageSteps {
    by_place: HashMap<Place, StepId>,
}

impl ImageSteps {
    /// Adds what is needed so that the image is on every one of these hosts' storages, checked.
    pub(crate) fn plan<'a>(
        cluster: &Cluster,
        image: &ImageRef,
        world: &World,
        volumes: &Volumes<'_>,
        hosts: impl Iterator<Item = &'a str>,
        graph: &mut Graph,
    ) -> Self {
        let storage = &cluster.proxmox.images_storage;
        let volid = names::image_volid(storage, &image.file);
        let declared_sha = cluster.talos.image_sha256.as_ref();
        let pin = world
            .image_pin
            .as_ref()
            .filter(|pin| pin.file == image.file && declared_sha.is_none_or(|sha| *sha == pin.sha256));
        let mut steps = Self::default();
        let mut source = None;
        let mut done: std::collections::HashSet<Place> = std::collections::HashSet::new();
        for host in hosts {
            let place = volumes.place(host, &image.file);
            if !done.insert(place.clone()) {
                continue;
            }
            let there = volumes.find(host, &volid);
            // Shorter than it should be, it is what a broken transfer left. A longer one is somebody's other build of the
            // same version: the download refuses to replace it and says so.
            let broken = |size: u64| size != 0 && pin.is_some_and(|pin| size < pin.size);
            let subject = Subject { node: None, host: Some(host) };
            let download = Action::DownloadImage {
                storage: storage.clone(),
                file: image.file.clone(),
                url: image.url.clone(),
            };
            if let (Some(volume), Some(pin)) = (there, pin)
                && volume.size == pin.size
            {
                // Asked to download what it has, Proxmox compares the checksum and transfers nothing.
                let reason = "it is there; its SHA-256 is compared";
                steps.by_place.insert(place, graph.add(subject, download, reason, []));
                continue;
            }
            // The factory knows a schematic only after it was told once; telling it again changes nothing.
            let source = *source.get_or_insert_with(|| {
                let action = Action::RegisterSchematic { id: image.schematic_id.clone() };
                let registered =
                    graph.add(Subject::default(), action, "the factory builds only what it was told of", []);
                if pin.is_some() {
                    return registered;
                }
                let action = Action::PinImage { file: image.file.clone(), url: image.url.clone() };
                let reason = "its size and SHA-256 are not known yet";
                graph.add(Subject::default(), action, reason, [Some(registered)])
            });
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
            steps.by_place.insert(place, graph.add(subject, download, reason, [Some(source), deleted]));
        }
        steps
    }

    /// The step after which the image can be imported on a host; none where no VM was to be made.
    pub(crate) fn ready_on(&self, volumes: &Volumes<'_>, host: &str, image: &ImageRef) -> Option<StepId> {
        self.by_place.get(&volumes.place(host, &image.file)).copied()
    }
}
