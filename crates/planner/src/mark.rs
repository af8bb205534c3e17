//! The ownership mark on a guest, and the judgement whose a guest is.

use std::collections::HashMap;

use daedal_inventory::{Cluster, Node, Role};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::digest::node_digest;
use crate::world::Ownership;

/// The line of a guest's description that says whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Cluster uuid.
    pub cluster: Uuid,
    /// Node name.
    pub node: String,
    /// VMID it was made with: a copy or a restore under another one is not ours.
    pub vmid: u32,
    /// How many times this node was made anew, from 1.
    pub generation: u32,
    /// Digest of what was asked for.
    pub digest: String,
    /// It still waits for its first config, which it gets in maintenance mode.
    #[serde(default)]
    pub waiting: bool,
}

/// What the line starts with.
const PREFIX: &str = "daedal-mark ";
/// What it ends with while the node waits for its first config.
const WAITING: &str = " state=waiting";

impl Mark {
    /// The mark a node's VM gets when it is made.
    pub fn of(cluster: &Cluster, node: &Node) -> Self {
        Self {
            cluster: cluster.uuid,
            node: node.name.clone(),
            vmid: node.vmid,
            generation: 1,
            digest: node_digest(cluster, node),
            waiting: false,
        }
    }

    /// The mark of a VM that is made now: on some boot paths it waits for its config then.
    pub fn newborn(cluster: &Cluster, node: &Node) -> Self {
        Self { waiting: cluster.boot.through_maintenance(), ..Self::of(cluster, node) }
    }

    /// The line, without a line break.
    pub fn line(&self) -> String {
        let state = if self.waiting { WAITING } else { "" };
        format!(
            "{PREFIX}cluster={} node={} vmid={} generation={} digest={}{state}",
            self.cluster, self.node, self.vmid, self.generation, self.digest
        )
    }

    /// Reads one line; none if it is not exactly what [`Mark::line`] writes.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (fields, waiting) = match line.strip_suffix(WAITING) {
            Some(fields) => (fields, true),
            None => (line, false),
        };
        let mut value = values(fields, PREFIX)?;
        let mark = Self {
            cluster: value("cluster")?.parse().ok()?,
            node: value("node")?.to_owned(),
            vmid: value("vmid")?.parse().ok()?,
            generation: value("generation")?.parse().ok()?,
            digest: value("digest")?.to_owned(),
            waiting,
        };
        (mark.line() == line).then_some(mark)
    }

    /// Finds the mark in a description.
    pub fn find(description: &str) -> FoundMark {
        let mut lines = marked(description, PREFIX);
        match (lines.next(), lines.next()) {
            (None, _) => FoundMark::None,
            (Some(line), None) => Self::parse(line).map_or(FoundMark::Damaged, FoundMark::One),
            (Some(_), Some(_)) => FoundMark::Damaged,
        }
    }
}

/// A description with another mark in it; whatever people wrote around it stays.
pub fn remark(description: &str, mark: &Mark) -> String {
    let lines = description.lines().map(|line| match line.trim_start().starts_with(PREFIX) {
        true => mark.line(),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The line of a template's description that says whose it is and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateMark {
    /// Cluster uuid.
    pub cluster: Uuid,
    /// The role it is for.
    pub role: Role,
    /// VMID it was made with.
    pub vmid: u32,
    /// Digest of what it is made of.
    pub digest: String,
}

impl TemplateMark {
    const PREFIX: &str = "daedal-template ";

    /// The line, without a line break.
    pub fn line(&self) -> String {
        let role = role_word(self.role);
        let Self { cluster, vmid, digest, .. } = self;
        format!("{}cluster={cluster} role={role} vmid={vmid} digest={digest}", Self::PREFIX)
    }

    /// The only such line of a description, if it is exactly what [`TemplateMark::line`] writes.
    pub fn find(description: &str) -> Option<Self> {
        let line = only_line(description, Self::PREFIX)?;
        let mut value = values(line, Self::PREFIX)?;
        let mark = Self {
            cluster: value("cluster")?.parse().ok()?,
            role: match value("role")? {
                "controlplane" => Role::ControlPlane,
                "worker" => Role::Worker,
                _ => return None,
            },
            vmid: value("vmid")?.parse().ok()?,
            digest: value("digest")?.to_owned(),
        };
        (mark.line() == line).then_some(mark)
    }
}

/// The line of a clone's description until it has its own uuid, network card and mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneMark {
    /// Cluster uuid.
    pub cluster: Uuid,
    /// Node it becomes.
    pub node: String,
    /// VMID it was cloned to.
    pub vmid: u32,
}

impl CloneMark {
    const PREFIX: &str = "daedal-clone ";

    /// The mark of a node's clone.
    pub fn of(cluster: &Cluster, node: &Node) -> Self {
        Self { cluster: cluster.uuid, node: node.name.clone(), vmid: node.vmid }
    }

    /// The line, without a line break.
    pub fn line(&self) -> String {
        let Self { cluster, node, vmid } = self;
        format!("{}cluster={cluster} node={node} vmid={vmid}", Self::PREFIX)
    }

    /// The only such line of a description, if it is exactly what [`CloneMark::line`] writes.
    pub fn find(description: &str) -> Option<Self> {
        let line = only_line(description, Self::PREFIX)?;
        let mut value = values(line, Self::PREFIX)?;
        let mark = Self {
            cluster: value("cluster")?.parse().ok()?,
            node: value("node")?.to_owned(),
            vmid: value("vmid")?.parse().ok()?,
        };
        (mark.line() == line).then_some(mark)
    }
}

/// The lines of a description that begin as a mark does, without the space around them.
fn marked<'a>(description: &'a str, prefix: &'static str) -> impl Iterator<Item = &'a str> {
    description.lines().filter(move |line| line.trim_start().starts_with(prefix)).map(str::trim)
}

fn only_line<'a>(description: &'a str, prefix: &'static str) -> Option<&'a str> {
    let mut lines = marked(description, prefix);
    lines.next().filter(|_| lines.next().is_none())
}

/// Reads the values of a mark's line by their keys, in the order in which they stand there.
fn values<'a>(line: &'a str, prefix: &str) -> Option<impl FnMut(&str) -> Option<&'a str>> {
    let mut words = line.strip_prefix(prefix)?.split(' ');
    Some(move |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('='))
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    }
}

/// What a description says about ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundMark {
    /// No mark.
    None,
    /// Exactly one, well-formed.
    One(Mark),
    /// Something that begins like a mark but is none, or several.
    Damaged,
}

/// The whole description a node's VM has: a sentence for people, then the mark.
pub fn description(cluster: &Cluster, node: &Node) -> String {
    described(cluster, node, &Mark::of(cluster, node))
}

/// The description a node's VM is made with.
pub fn first_description(cluster: &Cluster, node: &Node) -> String {
    described(cluster, node, &Mark::newborn(cluster, node))
}

fn described(cluster: &Cluster, node: &Node, mark: &Mark) -> String {
    let role = match node.role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
    };
    format!(
        "Talos {role} {} of cluster {}, made and kept by daedal. The line below says so; please leave it.\n\n{}",
        node.name,
        cluster.name,
        mark.line()
    )
}

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
}

impl<'a> Judge<'a> {
    /// A judge for this cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            by_name: cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            by_uuid: cluster.nodes.iter().map(|node| (node.uuid, node)).collect(),
            tag: format!("daedal-{}", cluster.name),
        }
    }

    /// Whose a guest is: ours only if mark, cluster uuid, VMID and SMBIOS uuid all agree. A guest that is still being
    /// made shows nothing of this; its task tells (see [`Ownership::HalfMade`]).
    pub fn judge(&self, guest: &Identity<'_>) -> Ownership {
        let look_alike = |why: String| Ownership::LookAlike { why, lost: false };
        let lost = |why: String| Ownership::LookAlike { why, lost: true };
        let same_uuid = guest.smbios.and_then(|uuid| self.by_uuid.get(&uuid));
        if let Some(mark) = TemplateMark::find(guest.description)
            && mark.cluster == self.cluster.uuid
            && same_uuid.is_none()
        {
            return match mark.vmid == guest.vmid {
                true => Ownership::Template { role: mark.role, digest: mark.digest },
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
                } else {
                    Ownership::Ours { node: mark.node, digest: mark.digest }
                }
            }
            FoundMark::One(mark) => same_uuid.map_or(Ownership::Foreign, |node| {
                look_alike(format!(
                    "it has the SMBIOS uuid of {} but its mark names cluster {}",
                    node.name, mark.cluster
                ))
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
    use super::*;
    use crate::fixture;

    fn identity<'a>(
        vmid: u32,
        description: &'a str,
        smbios: Option<Uuid>,
        tags: &'a [String],
    ) -> Identity<'a> {
        Identity { vmid, name: "x", description, smbios, tags }
    }

    #[test]
    fn a_mark_survives_the_way_through_a_description() {
        let cluster = fixture::home();
        let node = &cluster.nodes[0];
        let text = description(&cluster, node);
        assert_eq!(Mark::find(&text), FoundMark::One(Mark::of(&cluster, node)));
        // Proxmox strips trailing white space; people add lines and carriage returns.
        let edited = format!("note to self\r\n{}\r\n\r\nmore", text.trim_end());
        assert_eq!(Mark::find(&edited), FoundMark::One(Mark::of(&cluster, node)));
    }

    #[test]
    fn a_mark_says_whether_its_node_waits_for_a_config() {
        let mut cluster = fixture::home();
        cluster.boot.config = daedal_inventory::BootConfig::Maintenance;
        let node = &cluster.nodes[0];
        let first = format!("mine\n{}\nmore", first_description(&cluster, node));
        let FoundMark::One(mark) = Mark::find(&first) else { panic!("{first}") };
        assert!(mark.waiting);
        let later = remark(&first, &Mark { waiting: false, ..mark });
        assert_eq!(Mark::find(&later), FoundMark::One(Mark::of(&cluster, node)));
        assert!(later.starts_with("mine\n") && later.ends_with("\nmore"), "{later}");
    }

    #[test]
    fn templates_and_unfinished_clones_have_marks_of_their_own() {
        let cluster = fixture::home();
        let judge = Judge::new(&cluster);
        let node = &cluster.nodes[0];
        let (role, digest) = (Role::Worker, "ab".repeat(16));
        let template = TemplateMark { cluster: cluster.uuid, role, vmid: 999, digest: digest.clone() };
        let text = format!("a template\n{}", template.line());
        assert_eq!(TemplateMark::find(&text), Some(template));
        assert_eq!(judge.judge(&identity(999, &text, None, &[])), Ownership::Template { role, digest });
        assert_eq!(judge.judge(&identity(120, &text, None, &[])), Ownership::Foreign);
        let clone = CloneMark::of(&cluster, node).line();
        let half = judge.judge(&identity(300, &clone, Some(Uuid::nil()), &[]));
        assert!(
            matches!(&half, Ownership::HalfMade { node, task_running: true, .. } if node == "cp-1"),
            "{half:?}"
        );
        assert_eq!(judge.judge(&identity(301, &clone, Some(Uuid::nil()), &[])), Ownership::Foreign);
    }

    #[test]
    fn a_broken_or_doubled_mark_is_damaged() {
        let cluster = fixture::home();
        let line = Mark::of(&cluster, &cluster.nodes[0]).line();
        assert_eq!(Mark::find(&line.replace("vmid=300", "vmid=0300")), FoundMark::Damaged);
        assert_eq!(Mark::find(&line.replace(" generation=1", "")), FoundMark::Damaged);
        assert_eq!(Mark::find(&format!("{line}\n{line}")), FoundMark::Damaged);
        assert_eq!(Mark::find(&format!("{line} extra=1")), FoundMark::Damaged);
        assert_eq!(Mark::find("hello"), FoundMark::None);
    }

    #[test]
    fn only_full_agreement_makes_a_guest_ours() {
        let cluster = fixture::home();
        let node = &cluster.nodes[0];
        let text = description(&cluster, node);
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
        let theirs = description(&other, node);
        assert_eq!(judge.judge(&identity(300, &theirs, Some(Uuid::nil()), &[])), Ownership::Foreign);
        assert!(matches!(
            judge.judge(&identity(300, &theirs, Some(node.uuid), &[])),
            Ownership::LookAlike { .. }
        ));
        assert_eq!(judge.judge(&identity(300, "a NAS", None, &["nas".to_owned()])), Ownership::Foreign);
    }
}
