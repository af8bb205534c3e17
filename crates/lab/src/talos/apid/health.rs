//! The cluster's health as a control plane finds it out: one check after the other, each until it holds.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daedal_talos_client::proto::cluster::cluster_service_server::ClusterService;
use daedal_talos_client::proto::cluster::{HealthCheckProgress, HealthCheckRequest};
use futures::stream::BoxStream;
use tonic::{Request, Response, Status};

use super::Api;
use crate::kubernetes::Store;
use crate::talos::config::{MachineConfig, Role, Trust};
use crate::talos::node::{Node, Stage};
use crate::talos::world::World;

/// What is looked at, in the order and the words of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Etcd,
    Members,
    MembersAreControlPlanes,
    Apid,
    Memory,
    Disks,
    Diagnostics,
    Kubelet,
    Booted,
    Reported,
    StaticPods,
    Components,
    Ready,
    KubeProxy,
    CoreDns,
    Schedulable,
}

const CHECKS: [(Check, &str); 16] = [
    (Check::Etcd, "etcd to be healthy"),
    (Check::Members, "etcd members to be consistent across nodes"),
    (Check::MembersAreControlPlanes, "etcd members to be control plane nodes"),
    (Check::Apid, "apid to be ready"),
    (Check::Memory, "all nodes memory sizes"),
    (Check::Disks, "all nodes disk sizes"),
    (Check::Diagnostics, "no diagnostics"),
    (Check::Kubelet, "kubelet to be healthy"),
    (Check::Booted, "all nodes to finish boot sequence"),
    (Check::Reported, "all k8s nodes to report"),
    (Check::StaticPods, "all control plane static pods to be running"),
    (Check::Components, "all control plane components to be ready"),
    (Check::Ready, "all k8s nodes to report ready"),
    (Check::KubeProxy, "kube-proxy to report ready"),
    (Check::CoreDns, "coredns to report ready"),
    (Check::Schedulable, "all k8s nodes to report schedulable"),
];

/// How a check came out.
enum Outcome {
    Holds,
    /// There is nothing to check.
    Skipped,
    NotYet,
}

impl From<bool> for Outcome {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::NotYet }
    }
}

/// The machines that are to be healthy: addresses, and whether each is a control plane.
type Wanted = Vec<(IpAddr, Role)>;

fn judge(check: Check, world: &World, disk: &str, trust: &Trust, wanted: &Wanted) -> Outcome {
    let at = |address: &IpAddr| world.addresses.get(address).and_then(|vmid| world.nodes.get(vmid));
    let nodes: Vec<(Role, Option<&Arc<Node>>)> = wanted.iter().map(|(ip, role)| (*role, at(ip))).collect();
    let all = |holds: &dyn Fn(&Node) -> bool| nodes.iter().all(|(_, node)| node.is_some_and(|n| holds(n)));
    let planes = |holds: &dyn Fn(&Node) -> bool| {
        let mut planes = nodes.iter().filter(|(role, _)| *role == Role::ControlPlane);
        planes.all(|(_, node)| node.is_some_and(|n| holds(n)))
    };
    let service = |id: &'static str| move |n: &Node| n.state().services.get(id).is_some_and(|s| s.healthy);
    let store: Option<&Arc<Store>> = world.kubernetes(trust).map(|c| &c.store);
    let exists = |resource: &str, name: &str| {
        let (objects, _) = store.map(|s| s.list(resource, Some("kube-system"))).unwrap_or_default();
        objects.iter().any(|o| o["metadata"]["name"] == name)
    };
    match check {
        Check::Etcd => planes(&service("etcd")).into(),
        Check::Members => world.cluster_of_disk(disk).is_some_and(|c| world.has_quorum(c)).into(),
        Check::MembersAreControlPlanes => world
            .cluster_of_disk(disk)
            .is_some_and(|c| {
                let planes = wanted.iter().filter(|(_, role)| *role == Role::ControlPlane);
                let (count, members) = (planes.clone().count(), c.members.len());
                count == members
                    && planes.into_iter().all(|(ip, _)| c.members.iter().any(|m| m.address == *ip))
            })
            .into(),
        Check::Apid => all(&|n| n.state().apid).into(),
        Check::Memory | Check::Disks | Check::Diagnostics => all(&|_| true).into(),
        Check::Kubelet => planes(&service("kubelet")).into(),
        Check::Booted => all(&|n| n.state().stage == Some(Stage::Running)).into(),
        Check::Reported => store.is_some_and(|s| s.list("nodes", None).0.len() == wanted.len()).into(),
        Check::StaticPods | Check::Components => planes(&|n| n.state().api_server).into(),
        Check::Ready => all(&|n| n.state().ready).into(),
        Check::KubeProxy if !exists("apps/daemonsets", "kube-proxy") => Outcome::Skipped,
        Check::CoreDns if !exists("apps/deployments", "coredns") => Outcome::Skipped,
        Check::KubeProxy | Check::CoreDns => Outcome::Holds,
        Check::Schedulable => store
            .is_some_and(|s| s.list("nodes", None).0.iter().all(|n| n["spec"]["unschedulable"] != true))
            .into(),
    }
}

#[tonic::async_trait]
impl ClusterService for Api {
    type HealthCheckStream = BoxStream<'static, Result<HealthCheckProgress, Status>>;

    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::HealthCheckStream>, Status> {
        let config = self.control_plane("health check")?;
        let request = request.into_inner();
        let wait = request.wait_timeout.map_or(0, |d| d.seconds.max(0) as u64);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(wait);
        let disk = self.node.disk.clone().unwrap_or_default();
        let wanted = self.wanted(&request)?;
        let listed: Vec<String> = wanted.iter().map(|(ip, _)| format!("\"{ip}\"")).collect();
        let (send, receive) = tokio::sync::mpsc::channel(8);
        let api = self.clone();
        tokio::spawn(async move {
            let say = |message: String| send.send(Ok(HealthCheckProgress { metadata: None, message }));
            let told = say(format!("discovered nodes: [{}]", listed.join(" "))).await;
            for (check, text) in CHECKS {
                let mut changes = api.shared.watch();
                if told.is_err() || say(format!("waiting for {text}: ...")).await.is_err() {
                    return;
                }
                loop {
                    changes.mark_unchanged();
                    let outcome =
                        { judge(check, &api.shared.world(), &disk, config.kubernetes_trust(), &wanted) };
                    let end = match outcome {
                        Outcome::Holds => "OK",
                        Outcome::Skipped => "SKIP",
                        Outcome::NotYet => {
                            tokio::select! {
                                () = tokio::time::sleep_until(deadline) => {
                                    let _ = send.send(Err(Status::unknown("context deadline exceeded"))).await;
                                    return;
                                }
                                changed = changes.changed() => if changed.is_err() { return },
                                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                            }
                            continue;
                        }
                    };
                    let _ = say(format!("waiting for {text}: {end}")).await;
                    break;
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receive))))
    }
}

impl Api {
    /// Which machines are asked about: those named, or those that have found each other.
    fn wanted(&self, request: &HealthCheckRequest) -> Result<Wanted, Status> {
        let named = request.cluster_info.clone().unwrap_or_default();
        let parse = |address: &String, role: Role| {
            let parsed = address.parse::<IpAddr>().map(|ip| (ip, role));
            parsed.map_err(|_| Status::unknown(format!("ParseAddr({address:?}): unable to parse IP")))
        };
        let planes = named.control_plane_nodes.iter().map(|a| parse(a, Role::ControlPlane));
        let wanted: Wanted = planes
            .chain(named.worker_nodes.iter().map(|a| parse(a, Role::Worker)))
            .collect::<Result<_, _>>()?;
        if !wanted.is_empty() {
            return Ok(wanted);
        }
        let own = self.config()?;
        let world = self.shared.world();
        let found = world.nodes.values().filter_map(|other| {
            let state = other.state();
            let ours = |c: &&Arc<MachineConfig>| c.kubernetes_trust().is_mutual(own.kubernetes_trust());
            let config = state.config.as_ref().filter(ours)?;
            Some((state.address?, config.role()))
        });
        Ok(found.collect())
    }
}
