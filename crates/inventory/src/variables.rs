//! Facts that patches may refer to: `${node.name}` and the like.

use crate::cluster::{Cluster, Node, Patch, Role};

/// What may stand between `${` and `}`.
pub(crate) const NAMES: [&str; 14] = [
    "cluster.name",
    "cluster.endpoint",
    "cluster.vip",
    "kubernetes.version",
    "network.cidr",
    "network.gateway",
    "node.address",
    "node.cidr",
    "node.mac",
    "node.name",
    "node.pool",
    "node.role",
    "node.vmid",
    "talos.version",
];

/// The first words of names; what begins otherwise is not ours and stays as it is.
const FAMILIES: [&str; 6] = ["cluster.", "kubernetes.", "network.", "node.", "talos.", "env."];

/// Every `${…}` that is ours, with what is inside.
pub(crate) fn used(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("${").filter_map(move |(at, _)| {
        let name = text[at + 2..].split_once('}')?.0;
        let escaped = text[..at].ends_with('$');
        (!escaped && FAMILIES.iter().any(|family| name.starts_with(family))).then_some(name)
    })
}

/// Replaces every `${…}` for which there is a value; `$${` becomes `${`.
pub(crate) fn replaced(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let inner = after[2..].split_once('}');
        match inner.and_then(|(name, tail)| Some((value(name)?, tail))) {
            Some((value, tail)) if !before.ends_with('$') => {
                out.push_str(before);
                out.push_str(&value);
                rest = tail;
            }
            _ => {
                out.push_str(before);
                out.push_str("${");
                rest = &after[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

impl Patch {
    /// A patch for nodes of either role, with nothing of the environment in it.
    pub fn new(origin: impl Into<String>, text: impl Into<String>) -> Self {
        Self { origin: origin.into(), text: text.into(), role: None, from_environment: Vec::new() }
    }

    /// Whether it is for nodes of a role.
    pub fn is_for(&self, role: Role) -> bool {
        self.role.is_none_or(|only| only == role)
    }

    /// Whether it speaks of the node it is applied to, so that no two nodes get the same.
    pub fn speaks_of_nodes(&self) -> bool {
        used(&self.text).any(|name| name.starts_with("node."))
    }

    /// What environment variables put into its text: nobody may see it, wherever it ends up.
    pub fn secret_texts(&self) -> impl Iterator<Item = &str> {
        self.from_environment.iter().map(|text| text.0.as_str())
    }

    /// The text for one node, facts in place.
    pub fn text_for(&self, cluster: &Cluster, node: &Node) -> String {
        let facts = replaced(&self.text, |name| {
            Some(match name {
                "cluster.name" => cluster.name.clone(),
                "cluster.endpoint" => cluster.kubernetes.endpoint_host.clone().unwrap_or_default(),
                "cluster.vip" => cluster.network.vip.map(|vip| vip.to_string()).unwrap_or_default(),
                "kubernetes.version" => format!("v{}", cluster.kubernetes.version),
                "network.cidr" => cluster.network.cidr.to_string(),
                "network.gateway" => cluster.network.gateway.to_string(),
                "node.address" => node.shown_address(),
                "node.cidr" => node.address.map(|address| address.to_string()).unwrap_or_default(),
                "node.mac" => node.mac.clone(),
                "node.name" => node.name.clone(),
                "node.pool" => node.pool.clone(),
                "node.role" => match node.role {
                    Role::ControlPlane => "controlplane".to_owned(),
                    Role::Worker => "worker".to_owned(),
                },
                "node.vmid" => node.vmid.to_string(),
                "talos.version" => format!("v{}", cluster.talos.version),
                _ => return None,
            })
        });
        facts.replace("$${", "${")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_replaced_and_the_rest_stays() {
        let text = "a: ${node.name} $${node.name} ${HOME} ${node.nope} ${unclosed";
        let out = replaced(text, |name| (name == "node.name").then(|| "w-1".to_owned()));
        assert_eq!(out, "a: w-1 $${node.name} ${HOME} ${node.nope} ${unclosed");
        assert_eq!(used(text).collect::<Vec<_>>(), ["node.name", "node.nope"]);
    }
}
