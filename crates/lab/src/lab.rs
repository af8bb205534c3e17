//! The whole datacenter in one piece: network, clock, machines, Proxmox and the Image Factory, saved and loaded as one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::Dialer;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::charts::Charts;
use crate::dhcp::Dhcp;
use crate::factory::{Factory, PUBLIC_FACTORY, SavedFactory};
use crate::faults::Faults;
use crate::outside::{Outside, Runner, SavedOutside};
use crate::pki::{Pki, PkiError};
use crate::proxmox::{self, Datacenter, DatacenterSpec, SavedDatacenter, Surroundings};
use crate::talos::{Durations, Ground, Machines, SavedMachines};
use crate::{Fabric, Pace};

use crate::handle::files::WORLD;
use crate::own::write_private;

/// What a lab should be.
#[derive(Clone, Debug)]
pub struct LabSpec {
    /// Decides what the machines make up; the datacenter has a seed of its own.
    pub seed: u64,
    /// How many times faster than the clock on the wall.
    pub speed: f64,
    /// Simulated Unix time at the start. Clients that check certificates should live in the same time.
    pub epoch: i64,
    /// Hosts, storages, accounts, VMs of others.
    pub datacenter: DatacenterSpec,
    /// Base URLs at which an Image Factory answers.
    pub factories: Vec<String>,
    /// URLs of chart repositories and registries (`oci://…`) at whose hosts charts are served.
    pub charts: Vec<String>,
    /// Who runs what is inside the VMs; the lab itself unless told.
    pub runner: Option<Runner>,
    /// The DHCP server of the network, if it has one.
    pub dhcp: Option<Dhcp>,
}

impl Default for LabSpec {
    fn default() -> Self {
        Self {
            seed: 1,
            speed: 1.0,
            epoch: 1_767_225_600,
            datacenter: DatacenterSpec::default(),
            factories: vec![PUBLIC_FACTORY.into()],
            charts: Vec::new(),
            runner: None,
            dhcp: None,
        }
    }
}

/// What a running lab should have. A world that has no hosts yet gets them; one that has is left as it is, unless it is to
/// be extended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    /// Hosts, storages, accounts, VMs of others.
    pub datacenter: DatacenterSpec,
    /// The same of other clusters that are worked on together: a new world has all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<DatacenterSpec>,
    /// Base URLs at which an Image Factory answers.
    pub factories: Vec<String>,
    /// URLs of chart repositories and registries (`oci://…`) at whose hosts charts are served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<String>,
    /// Addresses that the network's DHCP server reserves, by MAC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, IpNet>,
    /// Networks in which it reserves any free address, by MAC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub anywhere: BTreeMap<String, IpNet>,
    /// Host names that it gives, by MAC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// Add hosts, storages, bridges and accounts to a world that has some.
    pub extend: bool,
}

/// Why a lab could not be started, saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A certificate could not be made.
    #[error("could not set up the lab's certificates")]
    Pki(#[from] PkiError),
    /// A key could not be made.
    #[error("could not make the machines' key")]
    Key(#[from] rcgen::Error),
    /// The saved world could not be read or written.
    #[error("could not {action} the lab's world at {path}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The saved world is not one.
    #[error("could not understand the lab's world at {path}")]
    Content {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Its VMs run outside, and nobody named the command that runs them.
    #[error("its VMs run outside the lab, and this command line names no --lab-runner")]
    NoRunner,
    /// The lab runs its VMs itself.
    #[error("the lab runs its VMs itself; --lab-runner needs a new world")]
    UnusedRunner,
}

#[derive(Serialize, Deserialize)]
struct World {
    seed: u64,
    now: i64,
    factories: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    charts: Vec<String>,
    pki: Pki,
    datacenter: SavedDatacenter,
    machines: SavedMachines,
    factory: SavedFactory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outside: Option<SavedOutside>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dhcp: Option<Dhcp>,
}

/// A running lab. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Lab {
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    factories: Mutex<Vec<String>>,
    charts: Charts,
    chart_urls: Mutex<Vec<String>>,
    fabric: Fabric,
    pace: Pace,
    pki: Pki,
    faults: Faults,
    machines: Machines,
    factory: Factory,
    outside: Option<Outside>,
    datacenter: Datacenter,
    /// Whoever writes the world: one at a time, or an older world would follow a newer one.
    saving: Mutex<()>,
}

impl Lab {
    /// Starts a new lab. Must be called inside a tokio runtime.
    pub fn new(spec: LabSpec) -> Result<Self, LabError> {
        let pki = Pki::generate("Lab CA")?;
        let pace = Pace::new(spec.speed, spec.epoch);
        let mut parts = Parts::new(
            spec.seed,
            spec.factories,
            pki,
            pace,
            SavedMachines::default(),
            SavedFactory::default(),
        )?;
        parts.run_outside(spec.runner.map(|runner| (runner, SavedOutside::default())));
        parts.serve_charts(&spec.charts)?;
        spec.dhcp.into_iter().for_each(|dhcp| parts.fabric.serve_dhcp(dhcp));
        name(&parts.fabric, &spec.datacenter);
        let datacenter = Datacenter::start(&spec.datacenter, parts.surroundings())?;
        Ok(parts.assemble(datacenter))
    }

    /// Goes on with the lab saved in a folder; none when there is none. `now` is the time on the wall: the lab's clock
    /// never goes back. A world whose VMs run outside needs the runner named again: what is kept names no command.
    pub fn load(dir: &Path, speed: f64, now: i64, runner: Option<Runner>) -> Result<Option<Self>, LabError> {
        let path = dir.join(WORLD);
        let shown = path.display().to_string();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LabError::File { action: "read", path: shown, source }),
        };
        let world: World =
            serde_json::from_slice(&bytes).map_err(|source| LabError::Content { path: shown, source })?;
        let outside = match (runner, world.outside) {
            (Some(runner), Some(saved)) => Some((runner, saved)),
            (None, None) => None,
            (None, Some(_)) => return Err(LabError::NoRunner),
            (Some(_), None) => return Err(LabError::UnusedRunner),
        };
        let pace = Pace::resumed(speed, now, world.now);
        let mut parts =
            Parts::new(world.seed, world.factories, world.pki, pace, world.machines, world.factory)?;
        parts.run_outside(outside);
        parts.serve_charts(&world.charts)?;
        world.dhcp.into_iter().for_each(|dhcp| parts.fabric.serve_dhcp(dhcp));
        parts.set_resuming(true);
        let datacenter = Datacenter::resume(world.datacenter, parts.surroundings())?;
        parts.set_resuming(false);
        Ok(Some(parts.assemble(datacenter)))
    }

    /// Keeps the lab in a folder, so that a crash in between leaves the old one.
    pub fn save(&self, dir: &Path) -> Result<(), LabError> {
        let inner = &self.inner;
        let _alone = inner.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World {
            seed: inner.seed,
            now: inner.pace.now(),
            factories: inner.factories.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            charts: inner.chart_urls.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            pki: inner.pki.clone(),
            datacenter: inner.datacenter.save(),
            machines: inner.machines.save(),
            factory: inner.factory.save(),
            outside: inner.outside.as_ref().map(Outside::save),
            dhcp: inner.fabric.dhcp(),
        };
        let path = dir.join(WORLD);
        let shown = path.display().to_string();
        let bytes =
            serde_json::to_vec(&world).map_err(|source| LabError::Content { path: shown.clone(), source })?;
        write_private(&path, &bytes).map_err(|source| LabError::File { action: "write", path: shown, source })
    }

    /// The lab's network.
    pub fn fabric(&self) -> &Fabric {
        &self.inner.fabric
    }

    /// Opens streams to the lab's addresses.
    pub fn dialer(&self) -> Dialer {
        Arc::new(self.inner.fabric.clone())
    }

    /// The lab's certificate authority.
    pub fn pki(&self) -> &Pki {
        &self.inner.pki
    }

    /// The lab's clock.
    pub fn pace(&self) -> Pace {
        self.inner.pace
    }

    /// The Proxmox cluster.
    pub fn datacenter(&self) -> &Datacenter {
        &self.inner.datacenter
    }

    /// What runs inside the VMs.
    pub fn machines(&self) -> &Machines {
        &self.inner.machines
    }

    /// The command that runs the VMs, if the lab does not run them itself.
    pub fn runner(&self) -> Option<&Path> {
        self.inner.outside.as_ref().map(|outside| outside.runner().command.as_path())
    }

    /// The Image Factory.
    pub fn factory(&self) -> &Factory {
        &self.inner.factory
    }

    /// The chart repositories.
    pub fn charts(&self) -> &Charts {
        &self.inner.charts
    }

    /// What goes wrong on purpose, and the log of all calls.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// Furnishes a new world, or extends an old one where that is wanted. What is around the datacenter (factories, names,
    /// reservations) is always added.
    pub fn ensure(&self, wanted: &Wanted) -> Result<(), LabError> {
        let inner = &self.inner;
        let mut factories = inner.factories.lock().unwrap_or_else(PoisonError::into_inner);
        for url in &wanted.factories {
            if !factories.contains(url) {
                inner.factory.listen(url, &inner.fabric, &inner.pki, &inner.faults, inner.pace)?;
                factories.push(url.clone());
            }
        }
        let mut charts = inner.chart_urls.lock().unwrap_or_else(PoisonError::into_inner);
        for url in &wanted.charts {
            if !charts.contains(url) {
                inner.charts.listen(url, &inner.fabric, &inner.pki, &inner.faults, inner.pace)?;
                charts.push(url.clone());
            }
        }
        name(&inner.fabric, &wanted.datacenter);
        if !wanted.reservations.is_empty() || !wanted.anywhere.is_empty() {
            let mut dhcp = inner.fabric.dhcp().unwrap_or_else(|| Dhcp::reserved([]));
            dhcp.reservations.extend(wanted.reservations.clone());
            dhcp.names.extend(wanted.names.clone());
            wanted.anywhere.iter().for_each(|(mac, network)| dhcp.reserve_any(mac, *network));
            inner.fabric.serve_dhcp(dhcp);
        }
        if wanted.extend || inner.datacenter.hosts().is_empty() {
            for spec in std::iter::once(&wanted.datacenter).chain(&wanted.beside) {
                inner.datacenter.ensure(spec)?;
            }
        }
        Ok(())
    }
}

fn name(fabric: &Fabric, spec: &DatacenterSpec) {
    for (name, address) in &spec.names {
        fabric.name(name, address);
    }
}

/// All parts but the one that needs the others.
struct Parts {
    seed: u64,
    factories: Vec<String>,
    charts: Charts,
    chart_urls: Vec<String>,
    fabric: Fabric,
    pace: Pace,
    pki: Pki,
    faults: Faults,
    machines: Machines,
    factory: Factory,
    outside: Option<Outside>,
}

impl Parts {
    fn new(
        seed: u64,
        factories: Vec<String>,
        pki: Pki,
        pace: Pace,
        machines: SavedMachines,
        factory: SavedFactory,
    ) -> Result<Self, LabError> {
        let fabric = Fabric::default();
        let faults = Faults::default();
        let factory = Factory::new(factory);
        for url in &factories {
            factory.listen(url, &fabric, &pki, &faults, pace)?;
        }
        let ground = Ground {
            fabric: fabric.clone(),
            pace,
            durations: Durations::default(),
            faults: faults.clone(),
            seed,
            factory: Some(factory.clone()),
        };
        let machines = Machines::new(ground, machines)?;
        let (charts, chart_urls) = (Charts::default(), Vec::new());
        Ok(Self {
            seed,
            factories,
            charts,
            chart_urls,
            fabric,
            pace,
            pki,
            faults,
            machines,
            factory,
            outside: None,
        })
    }

    fn serve_charts(&mut self, urls: &[String]) -> Result<(), LabError> {
        for url in urls {
            self.charts.listen(url, &self.fabric, &self.pki, &self.faults, self.pace)?;
        }
        self.chart_urls = urls.to_vec();
        Ok(())
    }

    fn run_outside(&mut self, wanted: Option<(Runner, SavedOutside)>) {
        self.outside = wanted.map(|(runner, saved)| Outside::new(runner, self.fabric.clone(), saved));
    }

    /// While it is set, machines that are switched on have been running all the while.
    fn set_resuming(&self, resuming: bool) {
        self.machines.set_resuming(resuming);
        if let Some(outside) = &self.outside {
            outside.set_resuming(resuming);
        }
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            fabric: self.fabric.clone(),
            pace: self.pace,
            guests: match &self.outside {
                Some(outside) => Arc::new(outside.clone()),
                None => Arc::new(self.machines.clone()),
            },
            faults: self.faults.clone(),
            pki: self.pki.clone(),
            durations: proxmox::Durations::default(),
        }
    }

    fn assemble(self, datacenter: Datacenter) -> Lab {
        self.machines.on_halt(datacenter.halt_listener());
        let Self {
            seed,
            factories,
            charts,
            chart_urls,
            fabric,
            pace,
            pki,
            faults,
            machines,
            factory,
            outside,
        } = self;
        Lab {
            inner: Arc::new(Inner {
                seed,
                factories: Mutex::new(factories),
                charts,
                chart_urls: Mutex::new(chart_urls),
                fabric,
                pace,
                pki,
                faults,
                machines,
                factory,
                outside,
                datacenter,
                saving: Mutex::new(()),
            }),
        }
    }
}
