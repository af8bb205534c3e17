//! Guests that may be the VM of a node although nothing proves it.

use daedal_inventory::Cluster;

use crate::advice::Advice;
use crate::judge::Judge;
use crate::names;
use crate::world::{GuestView, Likeness, Ownership, World};

/// Guests that may be the VM of a node: they have its name or SMBIOS uuid, and a mark that is lost, a copy's or of other secrets. Of
/// those that could not be read also every one with the cluster's tag that is of no declared node, as it may have been renamed.
pub fn may_be<'w>(cluster: &Cluster, world: &'w World, node: &str) -> Vec<&'w GuestView> {
    let uuid = Judge::new(cluster).smbios_uuid(node);
    let tag = format!("daedal-{}", cluster.name);
    let of_another = |guest: &GuestView| {
        cluster.nodes.iter().any(|other| other.vmid == guest.vmid || other.name == guest.name)
            || guest.template
            || names::is_template_name(&guest.name)
    };
    let may_be = |guest: &&GuestView| match &guest.ownership {
        Ownership::LookAlike {
            likeness: Likeness::LostMark | Likeness::Copy | Likeness::OtherSecrets,
            ..
        } => guest.name == node || guest.smbios == Some(uuid),
        Ownership::Unreadable { .. } => {
            guest.name == node || (guest.tags.contains(&tag) && !of_another(guest))
        }
        _ => false,
    };
    world.guests.values().filter(may_be).collect()
}

/// Why nothing proves that a node that is no longer declared has no VM; none if that is so.
pub fn in_doubt(cluster: &Cluster, world: &World, node: &str) -> Option<Advice> {
    let guest = may_be(cluster, world, node).into_iter().next()?;
    let (why, likeness) = match &guest.ownership {
        Ownership::LookAlike { why, likeness } => (why.clone(), Some(*likeness)),
        Ownership::Unreadable { why } => (why.clone(), None),
        _ => return None,
    };
    let (node, cluster) = (node.to_owned(), cluster.name.clone());
    Some(Advice::VmInDoubt { node, guest: guest.into(), why, likeness, cluster })
}
