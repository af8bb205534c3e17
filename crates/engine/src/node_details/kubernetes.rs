//! Kubernetes' side of a node: its object.

use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Node};
use daedal_planner::World;
use futures::future::select_ok;
use serde::Serialize;

use super::NotSeen;
use crate::addresses::{self, Addresses};
use crate::engine::Engine;
use crate::error::chain;
use crate::kubernetes::{API_SERVER_PORT, Kubernetes};
use crate::node_identities::NodeIdentities;

/// A node's object in Kubernetes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesDetails {
    /// The name that Kubernetes knows it by.
    pub name: String,
    /// Conditions.
    pub conditions: Vec<ConditionDetails>,
    /// Kubelet version.
    pub kubelet: String,
    /// Container runtime.
    pub runtime: String,
    /// Kernel.
    pub kernel: String,
    /// Operating system.
    pub os: String,
    /// Addresses.
    pub addresses: Vec<KubernetesAddress>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<TaintDetails>,
    /// Whether new pods may come.
    pub schedulable: bool,
}

/// A condition of a node, such as `Ready`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionDetails {
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    pub reason: String,
}

/// An address of a node as Kubernetes knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesAddress {
    /// Type, such as `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaintDetails {
    /// Key.
    pub key: String,
    /// Value; often empty.
    pub value: String,
    /// Effect, such as `NoSchedule`.
    pub effect: String,
}

impl Engine {
    pub(super) async fn kubernetes_page(
        &self,
        kubernetes: &Kubernetes,
        cluster: &Cluster,
        node: &Node,
    ) -> Result<KubernetesDetails, NotSeen> {
        let patience = self.parts.limits.call_timeout;
        let identities = &NodeIdentities::new(cluster, &World::default(), Addresses::default());
        let asked = cluster.control_planes().map(|plane| {
            let target = addresses::target(plane, API_SERVER_PORT);
            Box::pin(async move { kubernetes.node(&target, &node.name, identities, patience).await })
        });
        let found = match select_ok(asked.collect::<Vec<_>>()).await {
            Ok((Some(found), _)) => found,
            Ok((None, _)) => {
                return Err(NotSeen::Absent(format!("Kubernetes has no node {}.", node.name)));
            }
            Err(error) => return Err(NotSeen::Unseen(chain(&error))),
        };
        let (spec, status) = (found.spec.unwrap_or_default(), found.status.unwrap_or_default());
        let info = status.node_info.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        let addresses = status.addresses.unwrap_or_default().into_iter();
        let taints = spec.taints.unwrap_or_default().into_iter();
        Ok(KubernetesDetails {
            name: found.metadata.name.unwrap_or_default(),
            conditions: conditions
                .map(|condition| ConditionDetails {
                    kind: condition.type_,
                    status: condition.status,
                    reason: condition.reason.unwrap_or_default(),
                })
                .collect(),
            kubelet: info.kubelet_version,
            runtime: info.container_runtime_version,
            kernel: info.kernel_version,
            os: info.os_image,
            addresses: addresses
                .map(|address| KubernetesAddress { kind: address.type_, address: address.address })
                .collect(),
            labels: found.metadata.labels.unwrap_or_default(),
            taints: taints
                .map(|taint| TaintDetails {
                    key: taint.key,
                    value: taint.value.unwrap_or_default(),
                    effect: taint.effect,
                })
                .collect(),
            schedulable: !spec.unschedulable.unwrap_or(false),
        })
    }
}
