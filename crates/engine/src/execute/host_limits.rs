//! Which steps queue where.

use std::collections::BTreeMap;
use std::sync::Arc;

use daedal_inventory::Cluster;
use daedal_planner::{Action, Plan, Step, World};

use crate::execute::limiter::Limiter;
use crate::site::{Place, Site};

/// Where the steps of a run queue: at places that all runs on the site share.
pub(super) struct HostLimits<'a> {
    site: &'a Site,
    /// Where disks are made, by host.
    creates: BTreeMap<String, String>,
}

impl<'a> HostLimits<'a> {
    pub(super) fn new(site: &'a Site, cluster: &Cluster, world: &World, plan: &Plan) -> Self {
        let storage = &cluster.proxmox.disks_storage;
        let mut creates = BTreeMap::new();
        for host in plan.steps.iter().filter_map(|step| step.host.as_ref()) {
            let shared =
                world.hosts.get(host).and_then(|view| view.storages.get(storage)).is_some_and(|s| s.shared);
            let key = if shared { storage.clone() } else { format!("{storage} on {host}") };
            creates.insert(host.clone(), key);
        }
        Self { site, creates }
    }

    /// Where questions to the guest agents of a host queue.
    pub(super) fn agents(&self, host: &str) -> Option<Arc<Limiter>> {
        let is_used = self.creates.contains_key(host);
        is_used.then(|| self.site.limiter(Place::Agents(host.to_owned())))
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
            | Action::RestoreMark { .. }
            | Action::MarkConfigured { .. } => Place::Configs(host),
            _ => return None,
        };
        Some(self.site.limiter(place))
    }
}
