//! The world seen with the inventory in hand: what each declared node's VM is, and what stands in the way.

pub(crate) mod claimed;

use std::collections::{HashMap, HashSet};

use daedal_inventory::{Cluster, Node};

use crate::error::{count, other_secrets};
use crate::fix::{Command, Fix};
use crate::names;
use crate::plan::{About, Level, Note};
use crate::world::{
    ConfigView, EtcdView, GuestView, Likeness, MemberView, NodeView, Ownership, TalosView, Unobserved,
    VmConfig, World,
};

/// What a declared node's VM is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State<'w> {
    /// There is none, and its VMID is free.
    Absent,
    /// A create task of ours still runs.
    Creating { guest: &'w GuestView, upid: &'w str },
    /// It is there and ours.
    Present(Present<'w>),
    /// Something stands in the way; a note says what. The node is not touched.
    Blocked {
        /// Whether what stands there may hold an etcd of this cluster.
        suspect: bool,
        /// Whether a config medium of this node may still be wanted by what stands there.
        keep_media: bool,
        /// Host of what stands there.
        host: Option<&'w str>,
    },
}

/// A VM that is ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'w> {
    pub(crate) guest: &'w GuestView,
    pub(crate) config: &'w VmConfig,
    /// Digest in its mark.
    pub(crate) digest: &'w str,
}

impl<'w> Present<'w> {
    /// The config medium of this node in its drive, of whatever age; other people's ISOs do not count.
    pub(crate) fn own_medium(&self, cluster: &Cluster) -> Option<&'w str> {
        let Ownership::Ours { node, .. } = &self.guest.ownership else { return None };
        let of_node =
            |volid: &&str| names::media_node(cluster, names::volid_file(volid)) == Some(node.as_str());
        self.config.media.as_deref().filter(of_node)
    }

    /// The boot ISO in its drive; other people's ISOs do not count.
    pub(crate) fn boot_iso(&self, cluster: &Cluster) -> Option<&'w str> {
        self.config.iso.as_deref().filter(|volid| names::is_boot_iso(cluster, volid))
    }

    /// Whether nothing says that it ever answered: its medium is only taken out, and its mark only stops saying that it
    /// waits, after it did.
    pub(crate) fn newborn(&self, cluster: &Cluster) -> bool {
        self.config.waiting || self.own_medium(cluster).is_some()
    }

    /// Whether Proxmox would refuse changes.
    pub(crate) fn locked(&self) -> bool {
        self.guest.lock.is_some()
    }
}

/// A declared node and what was found of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSurvey<'w> {
    pub(crate) node: &'w Node,
    pub(crate) state: State<'w>,
    /// What it says of itself; all unknown if it was not asked.
    pub(crate) view: &'w NodeView,
}

impl<'w> NodeSurvey<'w> {
    /// Whether it answers over mTLS with our keys.
    pub(crate) fn up(&self) -> bool {
        matches!(self.view.talos, TalosView::Configured { .. })
    }

    /// Host of the VM, if there is one.
    pub(crate) fn host(&self) -> Option<&'w str> {
        match self.state {
            State::Absent => None,
            State::Creating { guest, .. } => Some(&guest.host),
            State::Present(present) => Some(&present.guest.host),
            State::Blocked { host, .. } => host,
        }
    }
}

/// The survey.
#[derive(Debug)]
pub(crate) struct Survey<'w> {
    /// Every declared node in declared order.
    pub(crate) nodes: Vec<NodeSurvey<'w>>,
    /// VMs of ours whose node is no longer declared.
    pub(crate) undeclared: Vec<&'w GuestView>,
    /// What the user should know.
    pub(crate) notes: Vec<Note>,
}

/// Everything that claims to be a node of this cluster, by node name.
pub(crate) fn claims(world: &World) -> HashMap<&str, Vec<&GuestView>> {
    let mut claims: HashMap<&str, Vec<&GuestView>> = HashMap::new();
    for guest in world.guests.values() {
        if let Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } = &guest.ownership {
            claims.entry(node).or_default().push(guest);
        }
    }
    claims
}

/// A member of etcd of which nobody can say for certain whose it is: it may be any control plane's whose own is not known.
pub(crate) fn nobodys_member<'w>(cluster: &Cluster, world: &'w World) -> Option<&'w MemberView> {
    let claims = claims(world);
    let known = |name: &str| cluster.node(name).is_some() || claims.contains_key(name);
    world.members.iter().find(|member| member.guessed || !known(&member.name))
}

static UNASKED: NodeView = NodeView {
    talos: TalosView::Unreachable,
    etcd: EtcdView::Unknown,
    ready: None,
    elsewhere: None,
    kubelet: None,
    config: ConfigView::Unknown,
    versions: None,
    schematic: None,
};

impl<'w> Survey<'w> {
    pub(crate) fn new(cluster: &'w Cluster, world: &'w World) -> Self {
        let claims = claims(world);
        let mut notes = Notes::default();
        let mut hidden = Vec::new();
        let nodes = cluster
            .nodes
            .iter()
            .map(|node| {
                let view = world.nodes.get(&node.name).unwrap_or(&UNASKED);
                let claimants = claims.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
                let state = match claimants {
                    [] => unclaimed(node, world, &mut notes, &mut hidden),
                    [guest] => claimed::claimed(cluster, node, guest, view, world, &mut notes),
                    several => several_claim(node, several, &mut notes),
                };
                NodeSurvey { node, state, view }
            })
            .collect();
        if !hidden.is_empty() {
            let hosts: Vec<String> = world.unlisted_hosts.iter().cloned().collect();
            notes.problem(
                crate::error::some_of(&hidden),
                format!(
                    "Not created: the guests on {} could not be listed, and one of them may have the VMID.",
                    hosts.join(", ")
                ),
                Some("give the token VM.Audit, or bring the host back, and run again".into()),
            );
        }
        unused_secrets(cluster, world, &mut notes);
        let declared: HashSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        let vmids: HashSet<u32> = cluster.nodes.iter().map(|node| node.vmid).collect();
        let mut undeclared = Vec::new();
        for guest in world.guests.values() {
            match &guest.ownership {
                Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. }
                    if !declared.contains(node.as_str()) =>
                {
                    undeclared.push(guest);
                }
                Ownership::LookAlike { why, likeness } if !vmids.contains(&guest.vmid) => {
                    notes.warning(full_name(guest), look_alike(why, *likeness));
                }
                _ => {}
            }
        }
        Self { nodes, undeclared, notes: notes.0 }
    }

    /// VMs that were made with secrets of this cluster.
    pub(crate) fn vms_with_secrets(world: &World) -> Vec<&GuestView> {
        let made = |guest: &&GuestView| {
            matches!(
                &guest.ownership,
                Ownership::Ours { .. } | Ownership::HalfMade { task_running: true, .. }
            )
        };
        world.guests.values().filter(made).collect()
    }

    /// A guest on one of our VMIDs of which nobody can say that it is not a VM of this cluster, and why.
    pub(crate) fn doubtful_vm(cluster: &Cluster, world: &'w World) -> Option<(&'w GuestView, &'w str)> {
        let on_vmid = cluster.nodes.iter().filter_map(|node| world.guests.get(&node.vmid));
        on_vmid.into_iter().find_map(|guest| match &guest.ownership {
            Ownership::LookAlike { why, .. } | Ownership::Unreadable { why } => Some((guest, why.as_str())),
            _ => None,
        })
    }
}

/// Another store created the cluster, at the same time or before: the secrets of this one fit nothing, or not all of it.
fn unused_secrets(cluster: &Cluster, world: &World, notes: &mut Notes) {
    let rival = |guest: &&GuestView| {
        matches!(guest.ownership, Ownership::LookAlike { likeness: Likeness::OtherSecrets, .. })
    };
    let on_vmids = cluster.nodes.iter().filter_map(|node| world.guests.get(&node.vmid));
    let theirs = on_vmids.filter(rival).count();
    if theirs == 0 {
        return;
    }
    let (text, fix) = match claims(world).is_empty() {
        true => (
            format!(
                "Those of this store are unused: another store created this cluster ({}) with others.",
                count(theirs)
            ),
            other_secrets(),
        ),
        false => (
            format!("{} of this cluster {} created with others.", count(theirs), were(theirs)),
            "move those VMs away, or give their nodes other VMIDs in the inventory".into(),
        ),
    };
    notes.problem("secrets", text, Some(fix));
}

fn were(number: usize) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// A node nobody claims to be: absent, unless its VMID is taken or may be.
pub(crate) fn unclaimed<'w>(
    node: &Node,
    world: &'w World,
    notes: &mut Notes,
    hidden: &mut Vec<String>,
) -> State<'w> {
    let Some(guest) = world.guests.get(&node.vmid) else {
        if world.unlisted_hosts.is_empty() {
            return State::Absent;
        }
        hidden.push(node.name.clone());
        return State::Blocked { suspect: true, keep_media: true, host: None };
    };
    let who = full_name(guest);
    if let Ownership::LookAlike { why, likeness: Likeness::OtherSecrets } = &guest.ownership {
        let text = format!("{who} is this node for another store: {why}. It is not touched.");
        notes.problem(node.name.clone(), text, None);
        return State::Blocked { suspect: true, keep_media: false, host: None };
    }
    let another_vmid = format!("give {} another VMID in the inventory, or move that guest away", node.name);
    let (suspect, text, fix) = match &guest.ownership {
        Ownership::Foreign => (
            false,
            format!("Its VMID {} is taken by {who}, which is not ours. Neither is touched.", node.vmid),
            another_vmid.into(),
        ),
        Ownership::LookAlike { why, likeness: Likeness::LostMark } => (
            true,
            format!(
                "Its VMID {} is taken by {who}, which may be this node: {why}. It is not touched.",
                node.vmid
            ),
            Fix::from("if it is this node, give it its mark back: ")
                .run(Command::NodeMark(node.name.clone())),
        ),
        Ownership::LookAlike { why, .. } => (
            true,
            format!(
                "Its VMID {} is taken by {who}, which looks like ours but is not: {why}. Neither is touched.",
                node.vmid
            ),
            format!("look at `qm config {}` on {}; {another_vmid}", guest.vmid, guest.host).into(),
        ),
        Ownership::Unreadable { why } => (
            true,
            format!(
                "Its VMID {} is taken by {who}, whose config could not be read: {why}. It is not touched.",
                node.vmid
            ),
            Fix::from("let the token read it (VM.Audit on the path of its VMs: `")
                .run(Command::CheckLive)
                .words(format!("` prints the command), or bring {} back, and run again", guest.host)),
        ),
        Ownership::Template { .. } => (
            false,
            format!(
                "Its VMID {} is taken by {who}, a template of this cluster. Neither is touched.",
                node.vmid
            ),
            another_vmid.into(),
        ),
        Ownership::Ours { node: other, .. } | Ownership::HalfMade { node: other, .. } => (
            false,
            format!(
                "Its VMID {} is taken by {who}, which is our node {other}. Neither is touched.",
                node.vmid
            ),
            format!("give {} a VMID in the inventory that is free", node.name).into(),
        ),
    };
    notes.problem(node.name.clone(), text, Some(fix));
    // What is somebody else's for sure wants no medium of ours.
    let theirs = matches!(
        guest.ownership,
        Ownership::LookAlike { likeness: Likeness::Copy | Likeness::OtherMark, .. }
    );
    State::Blocked { suspect, keep_media: suspect && !theirs, host: None }
}

/// What is said of a guest that looks like ours.
pub(crate) fn look_alike(why: &str, likeness: Likeness) -> String {
    let whose = match likeness {
        Likeness::LostMark => "May be ours",
        Likeness::Copy | Likeness::OtherMark | Likeness::OtherSecrets => "Looks like ours but is not",
    };
    format!("{whose}: {why}. It is not touched.")
}

/// Where a node is, for people.
fn at(node: &Node, world: &World) -> String {
    world.address(node).map_or_else(|| "its address".to_owned(), |address| address.to_string())
}

pub(crate) fn several_claim<'w>(node: &Node, several: &[&'w GuestView], notes: &mut Notes) -> State<'w> {
    let all: Vec<String> = several.iter().map(|guest| full_name(guest)).collect();
    let text = format!("{} all claim to be this node. None of them is touched.", all.join(" and "));
    let fix = "keep one and remove the mark (the `daedal-mark` line of the description) from the others";
    notes.problem(node.name.clone(), text, Some(fix.into()));
    State::Blocked { suspect: true, keep_media: true, host: None }
}

/// A guest with everything needed to find it.
pub(crate) fn full_name(guest: &GuestView) -> String {
    match guest.name.as_str() {
        "" => format!("VM {} on {}", guest.vmid, guest.host),
        name => format!("VM {} \"{name}\" on {}", guest.vmid, guest.host),
    }
}

/// Notes in the making.
#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<Note>);

impl Notes {
    pub(crate) fn add(
        &mut self,
        level: Level,
        about: impl Into<About>,
        text: impl Into<String>,
        fix: Option<Fix>,
    ) {
        self.0.push(Note { level, about: about.into(), text: text.into(), fix });
    }

    pub(crate) fn problem(&mut self, about: impl Into<About>, text: impl Into<String>, fix: Option<Fix>) {
        self.add(Level::Problem, about, text, fix);
    }

    pub(crate) fn warning(&mut self, about: impl Into<About>, text: impl Into<String>) {
        self.add(Level::Warning, about, text, None);
    }

    /// Says what could not be seen, and why.
    pub(crate) fn unobserved(&mut self, unobserved: &Unobserved) {
        let text = format!("Could not be seen: {}", unobserved.why);
        self.add(Level::Warning, unobserved.what.to_string(), text, unobserved.fix.clone());
    }

    pub(crate) fn info(&mut self, about: impl Into<About>, text: impl Into<String>) {
        self.add(Level::Info, about, text, None);
    }

    /// What matters most first; otherwise in the order it was noted.
    pub(crate) fn sorted(mut self) -> Vec<Note> {
        self.0.sort_by_key(|note| std::cmp::Reverse(note.level));
        self.0
    }
}
