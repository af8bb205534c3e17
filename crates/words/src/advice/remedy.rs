//! What helps, for every kind of advice.

use daedal_planner::{
    Advice, Command, Died, Fix, GuestName, Likeness, Phase, StorageUse, UnlistedRisk, VmidTaken, destroying,
    freeing, freeing_unseen, other_secrets, some_of, strangers_address,
};

use crate::difference::remedy_of;

pub(super) fn of(advice: &Advice) -> Option<Fix> {
    let fix: Fix = match advice {
        Advice::TlsNotVerified { .. } => "set `tls: {fingerprint: …}` or `tls: {ca: …}`".into(),
        Advice::NotSeen { fix, .. } => return fix.clone(),
        Advice::PhaseMissing { phase, .. } => Command::Phase(*phase).into(),
        Advice::PhaseLeft { phase, after, .. } => {
            let fix = Fix::from("to go on: ");
            let fix = match after {
                Some(after) => fix.run(Command::Phase(*after)).words(", then "),
                None => fix,
            };
            fix.run(Command::Phase(*phase))
        }
        Advice::OutputsLater {} => Command::Phase(Phase::Provision).into(),
        Advice::NotAsDeclared { remedy, .. } => return remedy.as_ref().map(remedy_of),
        Advice::SignaturesNotChecked {} => {
            "`boot: {from: iso}`, `boot: {from: template, template: {made: iso}}`, or Talos v1.14".into()
        }
        Advice::FirstContactUnverified { .. } => {
            "give the token VM.Console (9.1 or later), so that the key is checked against what the node prints on its \
             serial console; or `boot: {config: cidata}`, which brings the config through Proxmox"
                .into()
        }
        Advice::EtcdInDoubt { .. } => "bring it back, or remove it for good, and run again".into(),
        Advice::SecretsUnused { .. } => other_secrets(),
        Advice::SecretsMixed { .. } => {
            "move those VMs away, or give their nodes other VMIDs in the inventory".into()
        }
        Advice::HostUnusable { fix, .. } => return fix.clone().map(Fix::from),
        Advice::HostUnlisted { risk: UnlistedRisk::Vms, .. } | Advice::MediaMayBeLeft { .. } => {
            "run destroy again when it can be seen".into()
        }
        Advice::VmsMayBeLeft { fix, .. } => {
            fix.clone().unwrap_or_else(|| "run destroy again when it can be seen".into())
        }
        Advice::HostUnlisted { .. } => "run again when it can be seen".into(),
        Advice::VmidsUnclear { .. } | Advice::VmsUnclear { .. } => {
            "give the token VM.Audit, or bring the host back, and run again".into()
        }
        Advice::StorageUnseen { storage: StorageUse { storage, host, .. } } => format!(
            "on {host}: pvesm status --storage {storage}; if it is there, grant the token Datastore.Audit on \
             /storage/{storage}"
        )
        .into(),
        Advice::StorageFaulty { storage: StorageUse { storage, host, .. }, fault, kind } => {
            fault.fix(kind, storage, host).into()
        }
        Advice::StorageNearlyFull { storage: StorageUse { storage, host, .. }, .. } => {
            format!("free some of it, or extend it; on {host}: pvesm list {storage}").into()
        }
        Advice::LeftOverVolumes { beside_vm: false, .. } => {
            Fix::from("to delete them: ").run(Command::VolumesPrune)
        }
        Advice::LeftOverVolumes { host, .. } => format!(
            "Proxmox deletes them only once their VM is gone; or on {host}: qm disk rescan --vmid VMID, then delete the \
             unused disk"
        )
        .into(),
        Advice::SeveralClaim { for_apply: true, .. } => {
            "keep one and remove the mark (the `daedal-mark` line of the description) from the others".into()
        }
        Advice::VmidTaken { node, guest, by, .. } => vmid_taken(node, guest, by),
        Advice::OtherVmid { node, guest, .. } => {
            format!("set `vmid: {}` for {node} in the inventory", guest.vmid).into()
        }
        Advice::HostOffline { guest, leaving: true, .. } => format!("bring {} back", guest.host).into(),
        Advice::HostOffline { guest, .. } => format!("bring {} back and run again", guest.host).into(),
        Advice::DiedHalfWay { died, .. } | Advice::TemplateDied { died, .. } => free(died).into(),
        Advice::StillCreated { .. } => "run again when it is made".into(),
        Advice::NoSystemDisk { guest, .. } => {
            format!("on {}: {}, then apply again", guest.host, destroying(guest.vmid)).into()
        }
        Advice::OtherCluster { node, .. } => strangers_address(node),
        Advice::OtherAddress { node, .. } => {
            format!("give {node} its address back; for another one, remove the node and let apply re-create it").into()
        }
        Advice::FormerMember { ask, .. } => {
            let ask = ask.as_deref().unwrap_or("<a control plane>");
            format!(
                "remove the stale etcd member first, then apply again: its id is in `talosctl -n {ask} etcd members`, and \
                 `talosctl -n {ask} etcd remove-member ID` removes it"
            )
            .into()
        }
        Advice::ConfigLost { guest: GuestName { vmid, host, .. }, .. } => format!(
            "if its disk is really lost: on {host}: qm stop {vmid} && {}, then apply again",
            destroying(*vmid)
        )
        .into(),
        Advice::NoSuchNode { undeclared, .. } if !undeclared.is_empty() => {
            format!("no longer declared are {}", some_of(undeclared)).into()
        }
        Advice::VmMayBeHidden { .. } => "bring it back and run again".into(),
        Advice::VmInDoubt { node, guest, likeness, cluster, .. } => in_doubt(node, guest, *likeness, cluster),
        Advice::NoApiServer { .. } | Advice::MembersUnknown { .. } => {
            "bring the control planes back and run again".into()
        }
        Advice::IsEndpoint { .. } => {
            "declare another `kubernetes.endpoint` (or a `network.vip`), apply it, and run again".into()
        }
        Advice::MemberUnclear { member, guessed, .. } => match (member.as_str(), guessed) {
            ("", false) => "run again when it has started".into(),
            ("", true) => "run again when the machine that it is on answers".into(),
            (name, true) => format!("run again when {name} answers and says which member it is").into(),
            (name, false) => Fix::from(Command::NodeRemove(name.to_owned())).words(", then run again"),
        },
        Advice::LastControlPlane { .. } => "declare another control plane, apply, and run again".into(),
        Advice::StillLearning { .. } => "run again when all other members vote".into(),
        Advice::MembersSilent { .. } => "bring all other members back, or remove the dead one first".into(),
        Advice::VmProtected { guest, .. } => {
            format!("on {}: qm set {} --protection 0", guest.host, guest.vmid).into()
        }
        Advice::CannotDestroyLocked { .. } | Advice::TemplateLocked { .. } => {
            "run again when the lock is gone".into()
        }
        Advice::LookAlikeStays { guest, likeness, cluster, node, .. } => {
            look_alike(guest, *likeness, cluster, node.as_ref())
        }
        Advice::GuestUnreadable { guest, .. } => let_read(guest),
        Advice::IncompleteTemplate { .. } => {
            Fix::from("to destroy it: ").run(Command::TemplatesPrune { all: false, protected: false })
        }
        Advice::TemplatesStay { .. } => {
            Fix::from("to destroy them: ").run(Command::TemplatesPrune { all: true, protected: false })
        }
        Advice::TemplateBlocked { .. } => "give the templates other VMIDs: `boot: {template: …}`".into(),
        Advice::TemplateProtected { .. } => {
            Fix::from(Command::TemplatesPrune { all: false, protected: true }).words(", then apply again")
        }
        Advice::NoVms { .. } => Fix::from("create them and run this again: ").run(Command::Apply),
        Advice::NoVmYet { .. } => Fix::from("create it and run this again: ").run(Command::Apply),
        Advice::MarkUnsigned { .. } => {
            Fix::from("sign its mark while its node answers, and run this again: ").run(Command::Apply)
        }
        Advice::ObjectTaken { .. } => "remove it in Proxmox, or rename it, and run this again".into(),
        Advice::ObjectKept { .. } => "solve the problems of these nodes, and run this again".into(),
        Advice::DatacenterFirewall {} => {
            "on a host: pvesh set /cluster/firewall/options --enable 1; or Datacenter → Firewall → Options".into()
        }
        Advice::AddonConflict { .. } => {
            "let the other manager give them up, or take them with `force: true` at this add-on".into()
        }
        Advice::AddonRefused { immutable: true, object, .. } => {
            format!("delete {object}, and run again: it is made anew").into()
        }
        Advice::AddonObjectsStay { objects, .. } => {
            let delete = |object: &String| {
                let (kind, name) = object.split_once(' ').unwrap_or(("object", object));
                format!("kubectl delete {} {name}", kind.to_lowercase())
            };
            let commands: Vec<String> = objects.iter().take(3).map(delete).collect();
            format!("if they are to go: {}", commands.join("; ")).into()
        }
        Advice::NoControlPlane { .. }
        | Advice::AddonNotRendered { .. }
        | Advice::AddonOwned { .. }
        | Advice::AddonRefused { .. }
        | Advice::AddonHooksNotRun { .. }
        | Advice::AddonsAssumed { .. }
        | Advice::NoCni {}
        | Advice::EvenMembers { .. }
        | Advice::StoppedGuests { .. }
        | Advice::ControlPlanesOnOneHost { .. }
        | Advice::VolumeBesideVm { .. }
        | Advice::MediumInUse { .. }
        | Advice::SeveralClaim { .. }
        | Advice::OtherStore { .. }
        | Advice::TurnedIntoTemplate { .. }
        | Advice::VmUnreadable { .. }
        | Advice::ConfigNotSeen { .. }
        | Advice::VmLocked { .. }
        | Advice::NoSuchNode { .. }
        | Advice::KnownAs { .. }
        | Advice::PodsNotEvicted { .. }
        | Advice::MarkNotProven { .. }
        | Advice::ForeignGuest { .. }
        | Advice::LookAlike { .. }
        | Advice::ImagesStay {}
        | Advice::TemplateLinked { .. }
        | Advice::ObjectStays { .. }
        | Advice::TooFewHosts { .. }
        | Advice::GroupInUse { .. }
        | Advice::FirewallUnreadable { .. }
        | Advice::FirewallStays { .. }
        | Advice::IpSetStays { .. } => return None,
    };
    Some(fix)
}

fn vmid_taken(node: &str, guest: &GuestName, by: &VmidTaken) -> Fix {
    let another_vmid = format!("give {node} another VMID in the inventory, or move that guest away");
    match by {
        VmidTaken::Foreign | VmidTaken::Template => another_vmid.into(),
        VmidTaken::LostMark { .. } => {
            Fix::from("if it is this node, give it its mark back: ").run(Command::NodeMark(node.to_owned()))
        }
        VmidTaken::LookAlike { .. } => {
            format!("look at `qm config {}` on {}; {another_vmid}", guest.vmid, guest.host).into()
        }
        VmidTaken::Unreadable { .. } => let_read(guest),
        VmidTaken::Node { .. } => format!("give {node} a VMID in the inventory that is free").into(),
    }
}

/// What to do about a guest that has something of this cluster and is not proven to be its own.
fn look_alike(guest: &GuestName, likeness: Likeness, cluster: &str, node: Option<&String>) -> Fix {
    match (likeness, node) {
        (Likeness::LostMark, Some(node)) => Fix::from(format!("if it is {node}, give it its mark back: "))
            .run(Command::NodeMark(node.clone()))
            .words(", then run again"),
        // Only the VM of a declared node can be marked.
        (Likeness::LostMark, None) => {
            let node = if guest.name.is_empty() { "NODE" } else { &guest.name };
            Fix::from(format!(
                "if it is a node of this cluster, declare it again with `vmid: {}`, give it its mark back: ",
                guest.vmid
            ))
            .run(Command::NodeMark(node.to_owned()))
            .words(format!(", then run again; if it is not, remove the tag daedal-{cluster} from it"))
        }
        (Likeness::OtherSecrets, _) => "run destroy with the store that has its secrets (--state DIR)".into(),
        (Likeness::Copy | Likeness::OtherMark, _) => copy(guest, cluster),
    }
}

/// What to do about a copy, or about a guest of another cluster that has something of this one.
fn copy(guest: &GuestName, cluster: &str) -> Fix {
    Fix::from(format!(
        "look at `qm config {}` on {}; if it is to stay, remove the `daedal-mark` line from its notes and the tag \
         daedal-{cluster}, and give it another SMBIOS uuid",
        guest.vmid, guest.host
    ))
}

/// What lets a guest's config be read.
fn let_read(guest: &GuestName) -> Fix {
    Fix::from("let the token read it (VM.Audit on the path of its VMs: `")
        .run(Command::CheckLive)
        .words(format!("` prints the command), or bring {} back, and run again", guest.host))
}

/// What to do about a guest that may be the VM of a node that is no longer declared.
fn in_doubt(node: &str, guest: &GuestName, likeness: Option<Likeness>, cluster: &str) -> Fix {
    match likeness {
        Some(Likeness::LostMark) => {
            Fix::from(format!("if it is {node}, declare {node} again, give the VM its mark back: "))
                .run(Command::NodeMark(node.to_owned()))
                .words(", take the node out of the inventory again and run again")
        }
        Some(Likeness::OtherSecrets) => "use the store that has its secrets (--state DIR)".into(),
        Some(Likeness::Copy | Likeness::OtherMark) => copy(guest, cluster),
        None => let_read(guest).words(format!(
            "; if {} is lost for good, remove it from the Proxmox cluster, with its folder in /etc/pve/nodes",
            guest.host
        )),
    }
}

/// The command that frees a VM whose create or clone died half-way.
pub fn free(died: &Died) -> String {
    match died.unseen {
        true => freeing_unseen(&died.host, died.vmid, &died.lock),
        false => freeing(&died.host, died.vmid),
    }
}
