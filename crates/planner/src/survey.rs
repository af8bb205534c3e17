//! The world seen with the inventory in hand: what each declared node's VM is, and what stands in the way.

pub(crate) mod claimed;

use std::collections::{HashMap, HashSet};

use daedal_inventory::{Cluster, Node};

use crate::advice::{Advice, GuestName, VmidTaken};
use crate::names;
use crate::plan::{Level, Note};
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
            notes.problem(Advice::VmidsUnclear { nodes: hidden, hosts });
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
                    let (guest, why) = (guest.into(), why.clone());
                    notes.warning(Advice::LookAlike { guest, why, likeness: *likeness });
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
    let vms = on_vmids.filter(rival).count();
    if vms == 0 {
        return;
    }
    notes.problem(match claims(world).is_empty() {
        true => Advice::SecretsUnused { vms },
        false => Advice::SecretsMixed { vms },
    });
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
    let (name, vmid) = (node.name.clone(), node.vmid);
    if let Ownership::LookAlike { why, likeness: Likeness::OtherSecrets } = &guest.ownership {
        notes.problem(Advice::OtherStore { node: name, guest: guest.into(), why: why.clone() });
        return State::Blocked { suspect: true, keep_media: false, host: None };
    }
    let (suspect, by) = match &guest.ownership {
        Ownership::Foreign => (false, VmidTaken::Foreign),
        Ownership::LookAlike { why, likeness: Likeness::LostMark } => {
            (true, VmidTaken::LostMark { why: why.clone() })
        }
        Ownership::LookAlike { why, .. } => (true, VmidTaken::LookAlike { why: why.clone() }),
        Ownership::Unreadable { why } => (true, VmidTaken::Unreadable { why: why.clone() }),
        Ownership::Template { .. } => (false, VmidTaken::Template),
        Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } => {
            (false, VmidTaken::Node { name: node.clone() })
        }
    };
    notes.problem(Advice::VmidTaken { node: name, vmid, guest: guest.into(), by });
    // What is somebody else's for sure wants no medium of ours.
    let theirs = matches!(
        guest.ownership,
        Ownership::LookAlike { likeness: Likeness::Copy | Likeness::OtherMark, .. }
    );
    State::Blocked { suspect, keep_media: suspect && !theirs, host: None }
}

/// Where a node is, as far as that is known.
fn at(node: &Node, world: &World) -> Option<String> {
    world.address(node).map(|address| address.to_string())
}

pub(crate) fn several_claim<'w>(node: &Node, several: &[&'w GuestView], notes: &mut Notes) -> State<'w> {
    let guests = several.iter().map(|guest| GuestName::from(*guest)).collect();
    notes.problem(Advice::SeveralClaim { node: node.name.clone(), guests, for_apply: true });
    State::Blocked { suspect: true, keep_media: true, host: None }
}

/// A guest with everything needed to find it.
pub(crate) fn full_name(guest: &GuestView) -> String {
    GuestName::from(guest).to_string()
}

/// Notes in the making.
#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<Note>);

impl Notes {
    pub(crate) fn add(&mut self, level: Level, advice: Advice) {
        self.0.push(Note { level, advice });
    }

    pub(crate) fn problem(&mut self, advice: Advice) {
        self.add(Level::Problem, advice);
    }

    pub(crate) fn warning(&mut self, advice: Advice) {
        self.add(Level::Warning, advice);
    }

    pub(crate) fn info(&mut self, advice: Advice) {
        self.add(Level::Info, advice);
    }

    /// Says what could not be seen, and why.
    pub(crate) fn unobserved(&mut self, unobserved: &Unobserved) {
        let Unobserved { what, why, fix } = unobserved.clone();
        self.warning(Advice::NotSeen { what, why, fix });
    }

    /// What matters most first; otherwise in the order it was noted.
    pub(crate) fn sorted(mut self) -> Vec<Note> {
        self.0.sort_by_key(|note| std::cmp::Reverse(note.level));
        self.0
    }
}
