//! Config media nobody needs any more.

use std::collections::{HashMap, HashSet};

use super::Planner;
use crate::advice::Advice;
use crate::graph::Subject;
use crate::names;
use crate::plan::Action;
use crate::survey::{State, Survey};
use crate::world::GuestView;

impl<'w> Planner<'w> {
    /// Config media nobody needs any more: they hold keys.
    pub(super) fn orphan_media(&mut self, survey: &Survey<'w>) {
        let keep: HashSet<&str> = survey
            .nodes
            .iter()
            .filter(|surveyed| {
                matches!(surveyed.state, State::Blocked { keep_media: true, .. } | State::Creating { .. })
            })
            .map(|surveyed| surveyed.node.name.as_str())
            .collect();
        let mut users: HashMap<&str, Vec<&GuestView>> = HashMap::new();
        for guest in self.world.guests.values() {
            if let Some(volid) = guest.config.as_ref().and_then(|config| config.media.as_deref()) {
                users.entry(volid).or_default().push(guest);
            }
        }
        let declared: HashSet<&str> =
            survey.nodes.iter().map(|surveyed| surveyed.node.name.as_str()).collect();
        for volume in self.volumes.all() {
            let (file, secrets) = (names::volid_file(&volume.volid), self.world.secrets_id.as_ref());
            let Some(node) = names::own_media_node(self.cluster, secrets, file) else { continue };
            let known = self.known_media.contains(&self.volumes.place(&volume.host, &volume.volid));
            if !names::may_be_medium(&volume.content) || keep.contains(node) || known {
                continue;
            }
            let user = users
                .get(volume.volid.as_str())
                .and_then(|guests| guests.iter().find(|guest| self.volumes.same(&guest.host, &volume.host)));
            if let Some(guest) = user {
                let (node, volid, guest) = (node.to_owned(), volume.volid.clone(), (*guest).into());
                self.notes.warning(Advice::MediumInUse { node, volid, guest });
                continue;
            }
            let subject = Subject { node: declared.contains(node).then_some(node), host: Some(&volume.host) };
            let action = Action::DeleteMedia { volid: volume.volid.clone() };
            self.graph.add(subject, action, "left over, and it holds keys", []);
        }
    }
}
