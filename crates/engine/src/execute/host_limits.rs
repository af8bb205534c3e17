//! Which steps queue where.

use std::collections::BTreeMap;
use std::sync::Arc;

use daedal_inventory::Cluster;
use daedal_planner::{Action, Plan, Step, World};

use crate::engine::Engine;
use crate::execute::limiter::Limiter;

/// What steps queue at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Creates(String),
    Tasks(String),
    Uploads(String),
    Configs(String),
    Agents(String),
}

/// The limiters of a run, by host and storage.
pub(super) struct HostLimits {
    places: BTreeMap<Place, Arc<Limiter>>,
    creates: BTreeMap<String, String>,
}

impl HostLimits {
    pub(super) fn new(engine: &Engine, cluster: &Cluster, world: &World, plan: &Plan) -> Self {
        let limits = &engine.parts.limits;
        let storage = &cluster.proxmox.disks_storage;
        let mut places = BTreeMap::new();
        let mut creates = BTreeMap::new();
        for host in plan.steps.iter().filter_map(|step| step.host.as_ref()) {
            let shared =
                world.hosts.get(host).and_then(|view| view.storages.get(storage)).is_some_and(|s| s.shared);
            let key = if shared { storage.clone() } else { format!("{storage} on {host}") };
            creates.insert(host.clone(), key.clone());
            places.entry(Place::Creates(key)).or_insert_with(|| Limiter::paced(limits.creates_per_storage));
            let mut add = |place, limit: usize| {
                places.entry(place).or_insert_with(|| Limiter::fixed(limit));
            };
            add(Place::Tasks(host.clone()), limits.tasks_per_host);
            add(Place::Uploads(host.clone()), limits.uploads_per_host);
            add(Place::Configs(host.clone()), limits.config_calls_per_host);
            // An agent that is not up yet holds one of the three API workers for seconds.
            add(Place::Agents(host.clone()), 1);
        }
        Self { places, creates }
    }

    /// Where questions to the guest agents of a host queue.
    pub(super) fn agents(&self, host: &str) -> Option<Arc<Limiter>> {
        self.places.get(&Place::Agents(host.to_owned())).cloned()
    }

    pub(super) fn of(&self, step: &Step) -> Option<Arc<Limiter>> {
        let host = step.host.clone()?;
        let place = match step.action {
            Action::CreateVm { .. } | Action::MakeTemplate { .. } => {
                Place::Creates(self.creates.get(&host)?.clone())
            }
            Action::GrowDisk { .. }
            | Action::StartVm { .. }
            | Action::StopVm { .. }
            | Action::DestroyVm { .. }
            | Action::DropTemplate { .. }
            | Action::DeleteVolume { .. }
            | Action::DeleteMedia { .. } => Place::Tasks(host),
            Action::UploadMedia { .. } => Place::Uploads(host),
            Action::UpdateVm { .. }
            | Action::FillIpSet { .. }
            | Action::DropIpSet { .. }
            | Action::SetFirewallRules { .. }
            | Action::SetFirewallOptions { .. }
            | Action::FilterCard { .. }
            | Action::AttachMedia { .. }
            | Action::EjectMedia { .. }
            | Action::MarkConfigured { .. } => Place::Configs(host),
            _ => return None,
        };
        self.places.get(&place).cloned()
    }
}
