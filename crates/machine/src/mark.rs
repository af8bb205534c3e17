//! The marks in guests' descriptions: whose a guest is, by which secrets, and who wrote it when.

use std::fmt;
use std::iter::Peekable;
use std::str::Split;

use daedal_inventory::{Cluster, Node, Role};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::digest::node_digest;
use crate::generation::Generation;

/// Names a cluster's secrets without telling anything of them: two stores with the same secrets have the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretsId(String);

impl SecretsId {
    /// The id of secrets: a digest of a key that has 256 random bits, so that nothing can be guessed from it.
    pub fn derive(key: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"daedal: id of a cluster's secrets\0");
        hasher.update(key);
        let mut id = hex::encode(hasher.finalize());
        id.truncate(16);
        Self(id)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| Self(text.to_owned()))
    }

    /// The first eight digits, for file names.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl fmt::Display for SecretsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What all marks that one run writes have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The cluster's secrets.
    pub secrets: Option<SecretsId>,
    /// The apply that writes them.
    pub generation: Option<Generation>,
}

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
    /// The generation of the cluster that wrote it, from 1.
    pub generation: u32,
    /// Digest of what was asked for.
    pub digest: String,
    /// The secrets it was made with; none in marks of older versions.
    #[serde(default)]
    pub secrets: Option<SecretsId>,
    /// Who wrote it, as `user@host`; none in marks of older versions.
    #[serde(default)]
    pub by: Option<String>,
    /// When, in RFC 3339; none in marks of older versions.
    #[serde(default)]
    pub at: Option<String>,
    /// Whether Proxmox's own protection flag was set by us.
    #[serde(default)]
    pub protected: bool,
    /// It still waits for its first config, which it gets in maintenance mode.
    #[serde(default)]
    pub waiting: bool,
}

/// What the line starts with.
const PREFIX: &str = "daedal-mark ";

impl Mark {
    /// The mark a node's VM has.
    pub fn of(cluster: &Cluster, node: &Node, stamp: &Stamp) -> Self {
        Self {
            cluster: cluster.uuid,
            node: node.name.clone(),
            vmid: node.vmid,
            generation: stamp.generation.as_ref().map_or(1, |one| one.number),
            digest: node_digest(cluster, node),
            secrets: stamp.secrets.clone(),
            by: stamp.generation.as_ref().map(|one| one.by.clone()),
            at: stamp.generation.as_ref().map(|one| one.at.clone()),
            protected: false,
            waiting: false,
        }
    }

    /// The mark of a VM that is made now: on some boot paths it waits for its config then.
    pub fn newborn(cluster: &Cluster, node: &Node, stamp: &Stamp) -> Self {
        let waiting = cluster.boot.through_maintenance();
        Self { waiting, protected: cluster.protect, ..Self::of(cluster, node, stamp) }
    }

    /// The line, without a line break. Older versions wrote it without what is optional here.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{PREFIX}cluster={} node={} vmid={} generation={} digest={}",
            self.cluster, self.node, self.vmid, self.generation, self.digest
        );
        let mut add = |key: &str, value: Option<&dyn fmt::Display>| {
            if let Some(value) = value {
                line.push_str(&format!(" {key}={value}"));
            }
        };
        add("secrets", self.secrets.as_ref().map(|id| id as &dyn fmt::Display));
        add("by", self.by.as_ref().map(|by| by as &dyn fmt::Display));
        add("at", self.at.as_ref().map(|at| at as &dyn fmt::Display));
        add("protection", self.protected.then_some(&"ours" as &dyn fmt::Display));
        add("state", self.waiting.then_some(&"waiting" as &dyn fmt::Display));
        line
    }

    /// The same mark, written by another run.
    pub fn again(self, stamp: &Stamp) -> Self {
        let generation = stamp.generation.clone();
        Self {
            secrets: stamp.secrets.clone().or(self.secrets),
            generation: generation.as_ref().map_or(self.generation, |one| one.number),
            by: generation.as_ref().map(|one| one.by.clone()).or(self.by),
            at: generation.map(|one| one.at).or(self.at),
            ..self
        }
    }

    /// The apply that wrote it; none in marks of older versions.
    pub fn applied(&self) -> Option<Generation> {
        let (by, at) = (self.by.clone()?, self.at.clone()?);
        Some(Generation { number: self.generation, by, at })
    }

    /// Reads one line; none if it is not exactly what [`Mark::line`] writes.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let mut words = Words::of(line, PREFIX)?;
        let mark = Self {
            cluster: words.next("cluster")?.parse().ok()?,
            node: words.next("node")?.to_owned(),
            vmid: words.next("vmid")?.parse().ok()?,
            generation: words.next("generation")?.parse().ok()?,
            digest: words.next("digest")?.to_owned(),
            secrets: words.next("secrets").and_then(SecretsId::parse),
            by: words.next("by").map(str::to_owned),
            at: words.next("at").map(str::to_owned),
            protected: words.next("protection").is_some(),
            waiting: words.next("state").is_some(),
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
    /// The secrets of the cluster that made it; none in marks of older versions.
    pub secrets: Option<SecretsId>,
}

impl TemplateMark {
    const PREFIX: &str = "daedal-template ";

    /// The line, without a line break.
    pub fn line(&self) -> String {
        let role = role_word(self.role);
        let Self { cluster, vmid, digest, .. } = self;
        let secrets = secrets_word(self.secrets.as_ref());
        format!("{}cluster={cluster} role={role} vmid={vmid} digest={digest}{secrets}", Self::PREFIX)
    }

    /// The only such line of a description, if it is exactly what [`TemplateMark::line`] writes.
    pub fn find(description: &str) -> Option<Self> {
        let line = only_line(description, Self::PREFIX)?;
        let mut words = Words::of(line, Self::PREFIX)?;
        let mark = Self {
            cluster: words.next("cluster")?.parse().ok()?,
            role: match words.next("role")? {
                "controlplane" => Role::ControlPlane,
                "worker" => Role::Worker,
                _ => return None,
            },
            vmid: words.next("vmid")?.parse().ok()?,
            digest: words.next("digest")?.to_owned(),
            secrets: words.next("secrets").and_then(SecretsId::parse),
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
    /// The cluster's secrets; none in marks of older versions.
    pub secrets: Option<SecretsId>,
}

impl CloneMark {
    const PREFIX: &str = "daedal-clone ";

    /// The mark of a node's clone.
    pub fn of(cluster: &Cluster, node: &Node, stamp: &Stamp) -> Self {
        let secrets = stamp.secrets.clone();
        Self { cluster: cluster.uuid, node: node.name.clone(), vmid: node.vmid, secrets }
    }

    /// The line, without a line break.
    pub fn line(&self) -> String {
        let Self { cluster, node, vmid, secrets } = self;
        let secrets = secrets_word(secrets.as_ref());
        format!("{}cluster={cluster} node={node} vmid={vmid}{secrets}", Self::PREFIX)
    }

    /// The only such line of a description, if it is exactly what [`CloneMark::line`] writes.
    pub fn find(description: &str) -> Option<Self> {
        let line = only_line(description, Self::PREFIX)?;
        let mut words = Words::of(line, Self::PREFIX)?;
        let mark = Self {
            cluster: words.next("cluster")?.parse().ok()?,
            node: words.next("node")?.to_owned(),
            vmid: words.next("vmid")?.parse().ok()?,
            secrets: words.next("secrets").and_then(SecretsId::parse),
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

/// The words of a mark's line, each a key and its value, read in the order in which they stand there.
struct Words<'a>(Peekable<Split<'a, char>>);

impl<'a> Words<'a> {
    fn of(line: &'a str, prefix: &str) -> Option<Self> {
        Some(Self(line.strip_prefix(prefix)?.split(' ').peekable()))
    }

    /// The next word's value; none if it has another key.
    fn next(&mut self, key: &str) -> Option<&'a str> {
        let value = self.0.peek()?.strip_prefix(key)?.strip_prefix('=')?;
        self.0.next();
        Some(value)
    }
}

fn secrets_word(secrets: Option<&SecretsId>) -> String {
    secrets.map(|id| format!(" secrets={id}")).unwrap_or_default()
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
pub fn description(cluster: &Cluster, node: &Node, stamp: &Stamp) -> String {
    described(cluster, node, &Mark::of(cluster, node, stamp))
}

/// The description a node's VM is made with.
pub fn first_description(cluster: &Cluster, node: &Node, stamp: &Stamp) -> String {
    described(cluster, node, &Mark::newborn(cluster, node, stamp))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn stamp() -> Stamp {
        Stamp { secrets: Some(SecretsId::derive(b"a key")), ..Stamp::default() }
    }

    #[test]
    fn marks_of_older_versions_are_read_and_newer_ones_say_more() {
        let old = "daedal-mark cluster=00000000-0000-0000-0000-000000000007 node=cp-1 vmid=300 generation=1 digest=ab";
        for line in [old.to_owned(), format!("{old} state=waiting")] {
            let mark = Mark::parse(&line).unwrap();
            assert_eq!((mark.secrets.as_ref(), mark.by.as_ref()), (None, None));
            assert_eq!(mark.waiting, line.ends_with("waiting"));
            let mark = Mark {
                secrets: stamp().secrets,
                by: Some("ann@desk".into()),
                at: Some("2026-11-18T01:00:00Z".into()),
                protected: true,
                ..mark
            };
            let said = mark.line();
            assert!(said.starts_with(&format!("{old} secrets=")), "{said}");
            assert_eq!(Mark::parse(&said), Some(mark));
        }
        for broken in [" secrets=short", " secrets=", " at=x by=y", " state=other", " by="] {
            let line = format!("{old}{broken}");
            assert!(Mark::parse(&line).is_none_or(|mark| mark.line() == line && broken == " by="), "{line}");
        }
    }

    #[test]
    fn an_id_tells_secrets_apart_and_nothing_of_them() {
        let id = SecretsId::derive(b"a key");
        assert_eq!(id, SecretsId::derive(b"a key"));
        assert_ne!(id, SecretsId::derive(b"another"));
        assert_eq!((id.to_string().len(), id.short().len()), (16, 8));
    }

    #[test]
    fn a_mark_survives_the_way_through_a_description() {
        let cluster = fixture::home();
        let node = &cluster.nodes[0];
        let text = description(&cluster, node, &stamp());
        assert_eq!(Mark::find(&text), FoundMark::One(Mark::of(&cluster, node, &stamp())));
        // Proxmox strips trailing white space; people add lines and carriage returns.
        let edited = format!("note to self\r\n{}\r\n\r\nmore", text.trim_end());
        assert_eq!(Mark::find(&edited), FoundMark::One(Mark::of(&cluster, node, &stamp())));
    }

    #[test]
    fn a_mark_says_whether_its_node_waits_for_a_config() {
        let mut cluster = fixture::home();
        cluster.boot.config = daedal_inventory::BootConfig::Maintenance;
        let node = &cluster.nodes[0];
        let first = format!("mine\n{}\nmore", first_description(&cluster, node, &stamp()));
        let FoundMark::One(mark) = Mark::find(&first) else { panic!("{first}") };
        assert!(mark.waiting);
        let later = remark(&first, &Mark { waiting: false, ..mark });
        assert_eq!(Mark::find(&later), FoundMark::One(Mark::of(&cluster, node, &stamp())));
        assert!(later.starts_with("mine\n") && later.ends_with("\nmore"), "{later}");
    }

    #[test]
    fn a_broken_or_doubled_mark_is_damaged() {
        let cluster = fixture::home();
        let line = Mark::of(&cluster, &cluster.nodes[0], &stamp()).line();
        assert_eq!(Mark::find(&line.replace("vmid=300", "vmid=0300")), FoundMark::Damaged);
        assert_eq!(Mark::find(&line.replace(" generation=1", "")), FoundMark::Damaged);
        assert_eq!(Mark::find(&format!("{line}\n{line}")), FoundMark::Damaged);
        assert_eq!(Mark::find(&format!("{line} extra=1")), FoundMark::Damaged);
        assert_eq!(Mark::find("hello"), FoundMark::None);
    }
}
