//! The sentence of every kind of advice.

use daedal_machine::guards::IP_SET;
use daedal_machine::size;
use daedal_planner::{
    Advice, Died, GuestName, Likeness, MediaHidden, Missing, NotEvicted, ObjectKind, TemplateObstacle,
    UnlistedRisk, VmidTaken, some_of,
};

use crate::{addons, difference};

/// What an earlier phase has not done for so many nodes.
fn phase_missing(nodes: usize, what: Missing) -> &'static str {
    match (what, nodes) {
        (Missing::Secrets, _) => "It has no secrets yet.",
        (Missing::Vm, 1) => "It has no VM yet.",
        (Missing::Vm, _) => "They have no VMs yet.",
        (Missing::Start, 1) => "Its VM does not run.",
        (Missing::Start, _) => "Their VMs do not run.",
        (Missing::Config, 1) => "It waits for its machine config.",
        (Missing::Config, _) => "They wait for their machine configs.",
        (Missing::Answer, 1) => "It does not answer over mutual TLS.",
        (Missing::Answer, _) => "They do not answer over mutual TLS.",
        (Missing::Endpoint, _) => "Its API server does not answer.",
        (Missing::Ready, 1) => "It is not Ready.",
        (Missing::Ready, _) => "They are not Ready.",
    }
}

/// Where a node is.
fn at(address: Option<&String>) -> &str {
    address.map_or("its address", String::as_str)
}

pub(super) fn of(advice: &Advice) -> String {
    match advice {
        Advice::TlsNotVerified { endpoint } => format!(
            "The certificate of {endpoint} is not verified: whoever is on the way can read the token and the machine \
             configs."
        ),
        Advice::NotSeen { why, .. } => could_not_be_seen(why),
        Advice::NotAsDeclared { what, declared, found, stays, .. } => difference::sentence(what, declared, found, stays),
        Advice::PhaseMissing { nodes, what, .. } => phase_missing(nodes.len(), *what).to_owned(),
        Advice::PhaseLeft { steps, after, .. } => {
            let (plural, are) = if *steps == 1 { ("", "is") } else { ("s", "are") };
            let after = after.map(|after| format!(" for after {after}")).unwrap_or_default();
            format!("{steps} step{plural} of this phase {are} left{after}.")
        }
        Advice::OutputsLater {} => {
            "They are written once the addresses of the nodes are known, which nobody declared.".to_owned()
        }
        Advice::NoControlPlane { .. } => {
            "Not brought up: no control plane can come up, and a worker gets its certificate from one.".to_owned()
        }
        Advice::SignaturesNotChecked {} => {
            "Secure boot is asked for, but the firmware of new VMs does not check signatures: disk images of Talos before \
             v1.14 do not put their keys into it."
                .to_owned()
        }
        Advice::FirstContactUnverified { .. } => {
            "First contact unverified: the config, which holds keys, goes to whoever answers in maintenance mode with the \
             node's SMBIOS uuid. The node's key is verified only from then on."
                .to_owned()
        }
        Advice::AddonNotRendered { why, .. } => format!("It is left as it is, because it cannot be rendered: {why}."),
        Advice::AddonOwned { owner, object, .. } => {
            format!("It is left alone: {object} belongs to {}.", addons::owner(owner))
        }
        Advice::AddonConflict { object, conflicts, .. } => format!(
            "{object} is left as it is: other managers own fields that it would change: {}.",
            addons::conflicts(conflicts)
        ),
        Advice::AddonRefused { object, why, .. } => {
            format!("{object} is left as it is, because Kubernetes refuses the declared one: {}.", why.trim_end_matches('.'))
        }
        Advice::AddonHooksNotRun { hooks, .. } => format!(
            "Its chart has hooks, which are not run: {}. What they make or check is left to you.",
            some_of(hooks)
        ),
        Advice::AddonObjectsStay { objects, .. } => format!(
            "No longer part of it, and not removed, because everything in them would be lost: {}.",
            some_of(objects)
        ),
        Advice::AddonsAssumed { version } => format!(
            "The cluster does not exist yet: charts are rendered for Kubernetes {version} and what it serves by itself."
        ),
        Advice::NoCni {} => "Nodes stay NotReady until an add-on brings a network (`cni: none`), so this plan does not \
                             wait for them."
            .to_owned(),
        Advice::EtcdInDoubt { suspects } => format!(
            "Not bootstrapped: {} may hold this cluster's etcd and cannot be asked. New control planes wait to join it.",
            some_of(suspects)
        ),
        Advice::EvenMembers { members } => format!(
            "{members} voting members survive the loss of {}, no more than {} would: an odd number is better.",
            members.saturating_sub(1) / 2,
            members.saturating_sub(1)
        ),
        Advice::SecretsUnused { vms } => format!(
            "Those of this store are unused: another store created this cluster ({}) with others.",
            some(*vms, "VM")
        ),
        Advice::SecretsMixed { vms } => {
            format!("{} of this cluster {} created with others.", some(*vms, "VM"), if *vms == 1 { "was" } else { "were" })
        }
        Advice::HostUnusable { why, .. } => format!("No new nodes go there: {why}."),
        Advice::StoppedGuests { guests, cores, memory, fits, .. } => format!(
            "{guests} stopped guest{} there ({cores} vCPU, {} of memory) {} not counted and {} if started.",
            if *guests == 1 { "" } else { "s" },
            size::show(*memory),
            if *guests == 1 { "is" } else { "are" },
            if *fits { "would still fit" } else { "would not fit any more" },
        ),
        Advice::ControlPlanesOnOneHost { there, all, .. } => {
            format!("Holds {there} of {all} control planes: if this host fails, etcd is lost.")
        }
        Advice::HostUnlisted { risk, .. } => format!("Its guests could not be listed: {}.", may_be_there(*risk)),
        Advice::VmidsUnclear { hosts, .. } => format!(
            "Not created: the guests on {} could not be listed, and one of them may have the VMID.",
            hosts.join(", ")
        ),
        Advice::VmsUnclear { hosts, .. } => {
            format!("Not seen: the guests on {} could not be listed, and a VM may be there.", some_of(hosts))
        }
        Advice::StorageUnseen { storage } => {
            format!("It cannot be seen, and the disks of {} are on it.", some_of(&storage.nodes))
        }
        Advice::StorageFaulty { storage, fault, .. } => format!(
            "It {}, and the disks of {} are on it: they fail sooner or later.",
            fault,
            some_of(&storage.nodes)
        ),
        Advice::StorageNearlyFull { storage, available, total } => format!(
            "It is nearly full: {} of {} are free. VMs on it stop when it is full: {}.",
            size::show(*available),
            size::show(*total),
            some_of(&storage.nodes)
        ),
        Advice::LeftOverVolumes { volumes, .. } => {
            let volumes: Vec<String> = volumes.iter().map(ToString::to_string).collect();
            format!("Left over, used by no VM: {}.", some_of(&volumes))
        }
        Advice::VolumeBesideVm { vmid, .. } => {
            format!("It stays: VM {vmid} has its number, and Proxmox deletes it only once that VM is gone.")
        }
        Advice::MediaMayBeLeft { hidden: MediaHidden::Offline, .. } => {
            "The host is offline: config media with keys of this cluster may be left there.".to_owned()
        }
        Advice::MediaMayBeLeft { hidden: MediaHidden::Unlisted { why }, .. } => {
            format!("{}. Config media with keys of this cluster may be left there.", could_not_be_seen(why))
        }
        Advice::VmsMayBeLeft { why, .. } => {
            format!("{}. VMs of this cluster may be left there.", could_not_be_seen(why))
        }
        Advice::MediumInUse { volid, guest, .. } => format!(
            "The config medium {volid} is in the drive of {guest}; it holds keys, but is not deleted while it is used."
        ),
        Advice::SeveralClaim { guests, .. } => several_claim(guests),
        Advice::VmidTaken { vmid, guest, by, .. } => vmid_taken(*vmid, guest, by),
        Advice::OtherStore { guest, why, .. } => {
            format!("{guest} is this node for another store: {why}. It is not touched.")
        }
        Advice::OtherVmid { guest, declared, .. } => {
            format!("{guest} is this node, but the inventory gives it VMID {declared}. It is not touched.")
        }
        Advice::HostOffline { guest, leaving: false, .. } => {
            format!("Its VM {} is on {}, which is offline.", guest.vmid, guest.host)
        }
        Advice::HostOffline { guest, .. } => format!("{guest} stays: its host is offline."),
        Advice::DiedHalfWay { died, goes_on: true, .. } => {
            format!("{}; the rest of the cluster goes on without it.", died_half_way(died))
        }
        Advice::DiedHalfWay { died, .. } => format!("{}.", died_half_way(died)),
        Advice::TemplateDied { died, cloning: true } => format!("{}, and nothing is cloned.", died_half_way(died)),
        Advice::TemplateDied { died, .. } => format!("{}.", died_half_way(died)),
        Advice::StillCreated { guest, .. } => format!("{guest} is still being created."),
        Advice::TurnedIntoTemplate { guest, .. } => format!("{guest} was turned into a template. It is not touched."),
        Advice::VmUnreadable { guest, .. } => format!("The config of {guest} could not be read. It is not touched."),
        Advice::NoSystemDisk { guest, .. } => format!("{guest} has no system disk. It is not touched."),
        Advice::OtherCluster { guest, address, .. } => format!(
            "What answers on {} belongs to another cluster: another machine has the address, or the stored secrets are not \
             the ones {guest} was made with. Nothing is sent there, and the VM is not touched.",
            at(address.as_ref())
        ),
        Advice::OtherAddress { found, declared, .. } => format!(
            "It is Ready at {found}, and the inventory says {}. The address of a node that runs is not changed, and nothing \
             answers where it should be.",
            at(declared.as_ref())
        ),
        Advice::FormerMember { .. } => {
            "It lost its disk's content and waits for a config, but the other control planes still list it as a member of \
             etcd. It cannot join while that entry is there. It is not touched."
                .to_owned()
        }
        Advice::ConfigLost { address, .. } => format!(
            "It had its config once, but what answers on {} waits for one and could not be verified as this node. The config \
             holds keys and is not sent there a second time.",
            at(address.as_ref())
        ),
        Advice::ConfigNotSeen { running, .. } => {
            let what = match running {
                true => "The one it runs on could not be seen, so this plan does not change it.",
                false => {
                    "The one it runs on can be seen once the node is started: `apply` then looks again, and changes it in \
                     the same run."
                }
            };
            format!("Its declared machine config changed after it was made. {what}")
        }
        Advice::VmLocked { vmid, lock, running, .. } => format!(
            "Its VM {vmid} is locked ({lock}). It is left as it is{}; run again when the lock is gone.",
            if *running { "" } else { ", stopped" }
        ),
        Advice::NoSuchNode { .. } => {
            "There is no such node: no VM, no member of etcd, no node of Kubernetes.".to_owned()
        }
        Advice::KnownAs { known_as, .. } => format!("Kubernetes knows it as {known_as}."),
        Advice::VmMayBeHidden { hosts, .. } => {
            format!("The guests on {} could not be listed: its VM may run there.", some_of(hosts))
        }
        Advice::VmInDoubt { guest, why, likeness, .. } => {
            let unread = if likeness.is_none() { "its config could not be read: " } else { "" };
            format!("{guest} may be its VM: {unread}{why}. Nothing of the node is touched.")
        }
        Advice::NoApiServer { .. } => {
            "No API server answers, so it can be neither drained nor taken out of Kubernetes, and it may hold what is left \
             of etcd. It is not touched."
                .to_owned()
        }
        Advice::IsEndpoint { .. } => {
            "Its address is the API server's endpoint: every node and kubeconfig would lead to nothing.".to_owned()
        }
        Advice::MembersUnknown { .. } => {
            "No control plane says which members etcd has, and this may be one. It is not touched.".to_owned()
        }
        Advice::MemberUnclear { member, id, .. } => {
            let name = member_name(member, id);
            format!("It is not known whose member of etcd {name} is: it may be this one. It is not touched.")
        }
        Advice::LastControlPlane { .. } => "No declared control plane would be left in etcd. It stays.".to_owned(),
        Advice::StillLearning { members, .. } => {
            format!("{} still learns and does not vote in etcd yet. It stays until then.", some_of(members))
        }
        Advice::MembersSilent { members, .. } => format!(
            "{} does not serve etcd, so the quorum could be lost without this one. It stays.",
            some_of(members)
        ),
        Advice::PodsNotEvicted { why, .. } => {
            let why = match why {
                NotEvicted::AsAsked => "this was asked for",
                NotEvicted::NotReady => "it is not Ready",
                NotEvicted::NotRunning => "it does not run",
            };
            format!("Its pods are not evicted: {why}. They end with it.")
        }
        Advice::VmProtected { guest, .. } => {
            format!("{guest} is protected against removal in Proxmox. It is not touched.")
        }
        Advice::CannotDestroyLocked { guest, lock, .. } => {
            format!("{guest} is locked ({lock}) and cannot be destroyed now.")
        }
        Advice::MarkNotProven { guest, .. } => format!(
            "{guest} has an old mark, which names no secrets, and what answers at its address does not know those of this \
             store: it may be somebody else's. It is not touched."
        ),
        Advice::ForeignGuest { .. } => "Has one of our VMIDs but is not ours. It is not touched.".to_owned(),
        Advice::LookAlike { why, likeness, .. } | Advice::LookAlikeStays { why, likeness, .. } => {
            let whose = match likeness {
                Likeness::LostMark => "May be ours",
                Likeness::Copy | Likeness::OtherMark | Likeness::OtherSecrets => "Looks like ours but is not",
            };
            format!("{whose}: {why}. It is not touched.")
        }
        Advice::IncompleteTemplate { running, .. } => format!(
            "It is an incomplete template of this cluster, and stays.{}",
            if *running { " It runs." } else { "" }
        ),
        Advice::GuestUnreadable { why, .. } => format!("Its config could not be read: {why}. It is not touched."),
        Advice::TemplatesStay { vmids } => {
            format!("What stays: {}, for the next apply to clone from.", some_templates(vmids))
        }
        Advice::ImagesStay {} => {
            "Disk images and boot ISOs stay on the storage, so that the next apply need not download them.".to_owned()
        }
        Advice::TemplateBlocked { guest, because, .. } => {
            format!("{} It is not touched, and nothing is cloned.", template_blocked(guest, because))
        }
        Advice::TemplateProtected { guest, .. } => format!(
            "{guest} is made of something else than is declared now, and the cluster is protected (`protect: true`). It is \
             not replaced, and nothing is cloned."
        ),
        Advice::TemplateLinked { linked, .. } => {
            format!("It stays: the disks of {} are linked to it.", linked.join(", "))
        }
        Advice::TemplateLocked { lock, .. } => format!("It is locked ({lock}) and cannot be destroyed now."),
        Advice::NoVms { .. } => "None of its VMs exists.".to_owned(),
        Advice::NoVmYet { .. } => "No VM exists for it yet, so there is nothing to guard.".to_owned(),
        Advice::MarkUnsigned { guest, .. } => format!(
            "{guest} has an old mark, which names no secrets: nothing proves that it is this store's. It is not touched."
        ),
        Advice::ObjectTaken { .. } => "It exists and is not this cluster's. It is not changed.".to_owned(),
        Advice::ObjectStays { .. } => "It stays: it is not this cluster's.".to_owned(),
        Advice::ObjectKept { kind, nodes, .. } => format!(
            "It is not changed: it {} {}, whose VMs are not proven ours and would be left out.",
            if *kind == ObjectKind::BackupJob { "backs up" } else { "names" },
            some_of(nodes)
        ),
        Advice::TooFewHosts { control_planes, hosts, .. } => format!(
            "Left out: {} cannot be on different hosts, Proxmox has {}.",
            some(*control_planes, "control plane"),
            some(*hosts, "host")
        ),
        Advice::GroupInUse { user, .. } => format!("It stays: HA resource {user} uses it."),
        Advice::DatacenterFirewall {} => {
            "The VMs' firewalls filter only while the firewall of the datacenter is on, which this does not change."
                .to_owned()
        }
        Advice::FirewallUnreadable { why, .. } => {
            let why = why.as_deref().unwrap_or("it was not asked for");
            format!("The firewall of its VM could not be read: {why}.")
        }
        Advice::FirewallStays { .. } => {
            "The firewall of its VM is on and has no rule of this program. It stays.".to_owned()
        }
        Advice::IpSetStays { .. } => {
            format!("The IP set {IP_SET} of its VM stays: a rule of somebody else uses it.")
        }
    }
}

/// So many of a thing.
fn some(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn could_not_be_seen(why: &str) -> String {
    format!("Could not be seen: {why}")
}

fn may_be_there(risk: UnlistedRisk) -> &'static str {
    match risk {
        UnlistedRisk::Vms => "VMs of this cluster may be left there",
        UnlistedRisk::Templates => "templates of this cluster may be there",
        UnlistedRisk::Volumes => "a VM there may use a volume, so that none is deleted",
    }
}

/// Some templates by their VMIDs.
pub(crate) fn some_templates(vmids: &[u32]) -> String {
    let names: Vec<String> = vmids.iter().map(ToString::to_string).collect();
    format!("template{} {}", if names.len() == 1 { "" } else { "s" }, some_of(&names))
}

/// A member of etcd, for people.
pub(super) fn member_name(name: &str, id: &str) -> String {
    match name {
        "" => format!("the unnamed member {id}"),
        name => name.to_owned(),
    }
}

fn several_claim(guests: &[GuestName]) -> String {
    let all: Vec<String> = guests.iter().map(ToString::to_string).collect();
    match &all[..] {
        [one, other] => format!("{one} and {other} both claim to be this node. Neither is touched."),
        all => format!("{} all claim to be this node. None of them is touched.", all.join(" and ")),
    }
}

fn vmid_taken(vmid: u32, guest: &GuestName, by: &VmidTaken) -> String {
    let taken = format!("Its VMID {vmid} is taken by {guest}");
    match by {
        VmidTaken::Foreign => format!("{taken}, which is not ours. Neither is touched."),
        VmidTaken::LostMark { why } => format!("{taken}, which may be this node: {why}. It is not touched."),
        VmidTaken::LookAlike { why } => {
            format!("{taken}, which looks like ours but is not: {why}. Neither is touched.")
        }
        VmidTaken::Unreadable { why } => {
            format!("{taken}, whose config could not be read: {why}. It is not touched.")
        }
        VmidTaken::Template => format!("{taken}, a template of this cluster. Neither is touched."),
        VmidTaken::Node { name } => format!("{taken}, which is our node {name}. Neither is touched."),
    }
}

fn template_blocked(guest: &GuestName, because: &TemplateObstacle) -> String {
    match because {
        TemplateObstacle::Taken => {
            format!("Its VMID is taken by {guest}, which is no template of this cluster.")
        }
        TemplateObstacle::OtherHost { host } => format!("{guest} has its VMID, but belongs on {host}."),
        TemplateObstacle::Locked { lock } => format!("{guest} is locked ({lock})."),
        TemplateObstacle::Linked { linked } => format!(
            "{guest} is made of something else than is declared now, and the disks of {} are linked to it.",
            some_of(linked)
        ),
    }
}

/// What is known of a VM once the task that made it died, without a full stop.
pub fn died_half_way(died: &Died) -> String {
    let Died { vmid, host, lock, unseen } = died;
    let task = if lock == "clone" { "A clone task for" } else { "The task that creates" };
    match unseen {
        true => format!(
            "{task} VM {vmid} on {host} died half-way. The VMID is taken, and the token may not see the VM: most likely it \
             is what the task left, which is not in its pool yet and locked ({lock}). No API token can free it"
        ),
        false => format!(
            "The task that makes VM {vmid} on {host} died half-way and left it locked ({lock}). No API token can free it"
        ),
    }
}
