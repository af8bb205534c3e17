//! What Proxmox keeps to guard a cluster's VMs: names and comments by which it is known as this cluster's.

use daedal_inventory::{Cluster, Node};

/// The rule of high availability that keeps the control planes on different hosts.
pub fn ha_rule(cluster: &Cluster) -> String {
    format!("daedal-{}-apart", cluster.name)
}

/// The group of high availability that gives a control plane a preferred host.
pub fn ha_group(cluster: &Cluster, node: &Node) -> String {
    format!("daedal-{}-{}", cluster.name, node.name)
}

/// The resource of high availability that a VM is.
pub fn ha_resource(vmid: u32) -> String {
    format!("vm:{vmid}")
}

/// The VM that such a resource is.
pub fn ha_managed(resource: &str) -> Option<u32> {
    resource.strip_prefix("vm:")?.parse().ok()
}

/// The comment on every object of high availability.
pub fn ha_comment(cluster: &Cluster) -> String {
    format!("control planes of {}, kept by daedal", cluster.name)
}

/// The job that backs up the VMs.
pub fn backup_job(cluster: &Cluster) -> String {
    format!("daedal-{}", cluster.name)
}

/// The comment on that job.
pub fn backup_comment(cluster: &Cluster) -> String {
    format!("Talos cluster {}, kept by daedal", cluster.name)
}

/// The IP set on a VM that holds the addresses of everything in its cluster.
pub const IP_SET: &str = "cluster";

/// How the comments of our rules on a VM begin.
pub const RULE_COMMENT: &str = "daedal: ";

/// The source that names the IP set in a rule.
pub fn from_set() -> String {
    format!("+{IP_SET}")
}

/// Whether a rule on a VM is ours: its comment says so.
pub fn is_our_rule(comment: Option<&str>) -> bool {
    comment.is_some_and(|comment| comment.starts_with(RULE_COMMENT))
}
