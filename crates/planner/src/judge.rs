//! The judgement whose a guest is.

use std::collections::HashMap;
use std::sync::OnceLock;

use daedal_inventory::{Cluster, Node};
use uuid::Uuid;

use crate::mark::{CloneMark, FoundMark, Mark, SecretsId, TemplateMark};
use crate::world::{Likeness, Ownership};

/// What was read from a guest's own config (never from the stale resource list) to judge whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// VMID.
    pub vmid: u32,
    /// Name.
    pub name: &'a str,
    /// Description.
    pub description: &'a str,
    /// SMBIOS uuid.
    pub smbios: Option<Uuid>,
    /// Tags.
    pub tags: &'a [String],
}

/// Judges whose a guest is. Indexes the cluster once, so that ten thousand guests are judged in linear time.
#[derive(Debug)]
pub struct Judge<'a> {
    cluster: &'a Cluster,
    by_name: HashMap<&'a str, &'a Node>,
    by_uuid: HashMap<Uuid, &'a Node>,
    tag: String,
    secrets: OnceLock<SecretsId>,
}

impl<'a> Judge<'a> {
    /// A judge for this cluster who knows no secrets of it: marks are judged without them.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            by_name: cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            by_uuid: cluster.nodes.iter().map(|node| (node.uuid, node)).collect(),
            tag: format!("daedal-{}", cluster.name),
            secrets: OnceLock::new(),
        }
    }

    /// A judge who knows which secrets the cluster has: a mark that names others is not ours.
    pub fn knowing(cluster: &'a Cluster, secrets: Option<SecretsId>) -> Self {
        let judge = Self::new(cluster);
        if let Some(secrets) = secrets {
            judge.learn(secrets);
        }
        judge
    }

    /// Learns which secrets the cluster has, once they are made; what was known before stays.
    pub fn learn(&self, secrets: SecretsId) {
        let _ = self.secrets.set(secrets);
    }

    /// The secrets that marks are judged by.
    pub fn secrets(&self) -> Option<&SecretsId> {
        self.secrets.get()
    }

    /// Why a mark is not ours although it names this cluster: it was written with other secrets.
    fn other_secrets(&self, marked: Option<&SecretsId>, by: Option<&str>) -> Option<Ownership> {
        let (marked, ours) = (marked?, self.secrets.get()?);
        let by = by.map(|by| format!(", by {by}")).unwrap_or_default();
        (marked != ours).then(|| Ownership::LookAlike {
            why: format!("it was made with other secrets than those of this store{by}"),
            likeness: Likeness::OtherSecrets,
        })
    }

    /// Whose a guest is: ours only if mark, cluster uuid, secrets, VMID and SMBIOS uuid all agree. A guest that is still being
    /// made shows nothing of this; its task tells (see [`Ownership::HalfMade`]).
    pub fn judge(&self, guest: &Identity<'_>) -> Ownership {
        let look_alike = |why: String| Ownership::LookAlike { why, likeness: Likeness::Copy };
        let lost = |why: String| Ownership::LookAlike { why, likeness: Likeness::LostMark };
        let same_uuid = guest.smbios.and_then(|uuid| self.by_uuid.get(&uuid));
        if let Some(mark) = TemplateMark::find(guest.description)
            && mark.cluster == self.cluster.uuid
            && same_uuid.is_none()
        {
            if let Some(other) = self.other_secrets(mark.secrets.as_ref(), None) {
                return other;
            }
            return match mark.vmid == guest.vmid {
                true => Ownership::Template { role: mark.role, digest: mark.digest, dead: false },
                // What was cloned from it by hand inherits the description.
                false => Ownership::Foreign,
            };
        }
        // A clone gets its own uuid and mark in the call after the one that makes it.
        if let Some(mark) = CloneMark::find(guest.description)
            && mark.cluster == self.cluster.uuid
            && mark.vmid == guest.vmid
            && self.by_name.get(mark.node.as_str()).is_some_and(|node| node.vmid == guest.vmid)
        {
            if let Some(other) = self.other_secrets(mark.secrets.as_ref(), None) {
                return other;
            }
            return Ownership::HalfMade { node: mark.node, task_running: true, upid: String::new() };
        }
        match Mark::find(guest.description) {
            FoundMark::One(mark) if mark.cluster == self.cluster.uuid => {
                if mark.vmid != guest.vmid {
                    look_alike(format!(
                        "its mark was made for VMID {}, so it is a copy or a restore",
                        mark.vmid
                    ))
                } else if guest.smbios != Some(self.smbios_uuid(&mark.node)) {
                    look_alike(format!(
                        "its mark says {} of this cluster but its SMBIOS uuid does not",
                        mark.node
                    ))
                } else if let Some(other) = self.other_secrets(mark.secrets.as_ref(), mark.by.as_deref()) {
                    other
                } else {
                    Ownership::Ours { node: mark.node, digest: mark.digest }
                }
            }
            FoundMark::One(mark) => same_uuid.map_or(Ownership::Foreign, |node| Ownership::LookAlike {
                why: format!(
                    "it has the SMBIOS uuid of {} but its mark names cluster {}",
                    node.name, mark.cluster
                ),
                likeness: Likeness::OtherMark,
            }),
            FoundMark::Damaged => lost("its mark is damaged or doubled".to_owned()),
            FoundMark::None if guest.tags.contains(&self.tag) => {
                lost(format!("it has the tag {} but no mark", self.tag))
            }
            FoundMark::None => same_uuid.map_or(Ownership::Foreign, |node| {
                lost(format!("it has the SMBIOS uuid of {} but no mark", node.name))
            }),
        }
    }

    /// The SMBIOS uuid of a node of this cluster, declared or not.
    pub fn smbios_uuid(&self, node: &str) -> Uuid {
        match self.by_name.get(node) {
            Some(node) => node.uuid,
            None => Uuid::new_v5(&self.cluster.uuid, node.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use daedal_inventory::Role;

    use super::*;
    use crate::digest::node_digest;
    use crate::fixture;
    use crate::mark::{Stamp, description};

    fn identity<'a>(
        vmid: u32,
        description: &'a str,
        smbios: Option<Uuid>,
        tags: &'a [String],
    ) -> Identity<'a> {
        Identity { vmid, name: "x", description, smbios, tags }
    }

    #[test]
    fn templates_and_unfinished_clones_have_marks_of_their_own() {
        let cluster = fixture::home();
        let judge = Judge::new(&cluster);
        let node = &cluster.nodes[0];
        let (role, digest) = (Role::Worker, "ab".repeat(16));
        let template =
            TemplateMark { cluster: cluster.uuid, role, vmid: 999, digest: digest.clone(), secrets: None };
        let text = format!("a template\n{}", template.line());
        assert_eq!(TemplateMark::find(&text), Some(template));
        assert_eq!(
            judge.judge(&identity(999, &text, None, &[])),
            Ownership::Template { role, digest, dead: false }
        );
        assert_eq!(judge.judge(&identity(120, &text, None, &[])), Ownership::Foreign);
        let clone = CloneMark::of(&cluster, node, &Stamp::default()).line();
        let half = judge.judge(&identity(300, &clone, Some(Uuid::nil()), &[]));
        assert!(
            matches!(&half, Ownership::HalfMade { node, task_running: true, .. } if node == "cp-1"),
            "{half:?}"
        );
        assert_eq!(judge.judge(&identity(301, &clone, Some(Uuid::nil()), &[])), Ownership::Foreign);
    }

    #[test]
    fn only_full_agreement_makes_a_guest_ours() {
        let cluster = fixture::home();
        let node = &cluster.nodes[0];
        let text = description(&cluster, node, &Stamp::default());
        let judge = Judge::new(&cluster);
        let ours = judge.judge(&identity(300, &text, Some(node.uuid), &[]));
        assert_eq!(ours, Ownership::Ours { node: "cp-1".into(), digest: node_digest(&cluster, node) });
        for (what, guest) in [
            ("restored under another VMID", identity(900, &text, Some(node.uuid), &[])),
            ("cloned, so another uuid", identity(300, &text, Some(Uuid::nil()), &[])),
            ("no uuid at all", identity(300, &text, None, &[])),
            ("our uuid without a mark", identity(300, "", Some(node.uuid), &[])),
            ("only our tag", identity(300, "", None, &["daedal-home".to_owned()])),
        ] {
            assert!(matches!(judge.judge(&guest), Ownership::LookAlike { .. }), "{what}");
        }
        let mut other = cluster.clone();
        other.uuid = Uuid::from_u128(7);
        let theirs = description(&other, node, &Stamp::default());
        assert_eq!(judge.judge(&identity(300, &theirs, Some(Uuid::nil()), &[])), Ownership::Foreign);
        assert!(matches!(
            judge.judge(&identity(300, &theirs, Some(node.uuid), &[])),
            Ownership::LookAlike { .. }
        ));
        assert_eq!(judge.judge(&identity(300, "a NAS", None, &["nas".to_owned()])), Ownership::Foreign);
    }

    #[test]
    fn a_mark_of_other_secrets_is_not_ours_and_one_without_any_is() {
        let cluster = fixture::home();
        let node = &cluster.nodes[0];
        let stamp = |key: &[u8]| Stamp { secrets: Some(SecretsId::derive(key)), ..Stamp::default() };
        let whose = |judge: &Judge<'_>, stamp: &Stamp| {
            let text = description(&cluster, node, stamp);
            judge.judge(&identity(300, &text, Some(node.uuid), &[]))
        };
        let ours = |ownership: &Ownership| matches!(ownership, Ownership::Ours { .. });
        let judge = Judge::knowing(&cluster, stamp(b"mine").secrets);
        assert!(ours(&whose(&judge, &stamp(b"mine"))));
        assert!(ours(&whose(&judge, &Stamp::default())), "a mark of an older version");
        let theirs = whose(&judge, &stamp(b"theirs"));
        assert!(
            matches!(&theirs, Ownership::LookAlike { likeness: Likeness::OtherSecrets, .. }),
            "{theirs:?}"
        );
        // Who has no secrets cannot tell them apart.
        assert!(ours(&whose(&Judge::new(&cluster), &stamp(b"theirs"))));
        let (role, digest, vmid) = (Role::Worker, "ab".to_owned(), 999);
        let template =
            TemplateMark { cluster: cluster.uuid, role, vmid, digest, secrets: stamp(b"theirs").secrets };
        let template = judge.judge(&identity(999, &template.line(), None, &[]));
        assert!(matches!(template, Ownership::LookAlike { .. }), "{template:?}");
    }
}
