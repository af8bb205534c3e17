//! etcd through the node API: bootstrap, members, snapshots; and the admin kubeconfig.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_talos_client::proto::machine::{
    BootstrapRequest, EtcdMember, EtcdMemberStatus, EtcdMembers, EtcdStatus,
};
use tonic::Status;

use super::Api;
use crate::kubernetes::Store;
use crate::talos::etcd::Cluster;
use crate::talos::keys::Authority;
use crate::talos::services::{self, BootstrapRefusal};
use crate::talos::snapshot;
use crate::talos::version_at_least;
use crate::talos::world::World;

const NOT_RUNNING: &str = "etcd is not running on this node";
/// How soon a node asks its own etcd again that does not answer.
const ETCD_RETRY: Duration = Duration::from_millis(500);

impl Api {
    pub(super) fn bootstrap_etcd(&self, request: &BootstrapRequest) -> Result<(), Status> {
        let version = { self.node.state().image.as_ref().map(|i| i.version.clone()).unwrap_or_default() };
        if version_at_least(&version, 13) {
            self.control_plane("bootstrap")?;
        }
        let store = if request.recover_etcd {
            let disk = self.node.disk.clone().unwrap_or_default();
            let saved = { self.shared.world().disks.get(&disk).and_then(|d| d.recovery.clone()) };
            let bytes =
                saved.ok_or_else(|| Status::failed_precondition("no etcd snapshot to recover from"))?;
            let saved = snapshot::read(&bytes, request.recover_skip_hash_check);
            Some(Store::load(saved.map_err(|error| Status::unknown(error.to_string()))?))
        } else {
            None
        };
        services::bootstrap(&self.shared, &self.node, store).map_err(|refusal| match refusal {
            BootstrapRefusal::NotControlPlane => {
                Status::failed_precondition("bootstrap can only be performed on a control plane node")
            }
            BootstrapRefusal::NotYet => Status::failed_precondition("bootstrap is not available yet"),
            BootstrapRefusal::Already => Status::already_exists("etcd data directory is not empty"),
        })
    }

    /// Does something with this machine's cluster.
    fn with_cluster<R>(
        &self,
        what: &str,
        act: impl FnOnce(&World, &Cluster) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.control_plane(what)?;
        let world = self.shared.world();
        let disk = self.node.disk.as_deref().unwrap_or_default();
        let running = self.node.state().etcd;
        match world.cluster_of_disk(disk) {
            Some(cluster) if running => act(&world, cluster),
            _ => Err(Status::unavailable(NOT_RUNNING)),
        }
    }

    /// As a node answers from its etcd: as long as that does not run, not at all.
    pub(super) async fn patiently<R>(&self, ask: impl Fn() -> Result<R, Status>) -> Result<R, Status> {
        loop {
            match ask() {
                Err(status) if status.message() == NOT_RUNNING => tokio::time::sleep(ETCD_RETRY).await,
                answer => return answer,
            }
        }
    }

    fn quorate(world: &World, cluster: &Cluster) -> Result<(), Status> {
        if world.has_quorum(cluster) {
            Ok(())
        } else {
            Err(Status::unavailable("etcdserver: request timed out, possibly due to loss of quorum"))
        }
    }

    /// The members, which only a quorum tells: also when a node asks its own etcd.
    pub(super) fn etcd_members(&self) -> Result<EtcdMembers, Status> {
        self.with_cluster("member list", |world, cluster| {
            Self::quorate(world, cluster)?;
            let mut members: Vec<EtcdMember> = cluster
                .members
                .iter()
                .map(|m| EtcdMember {
                    id: m.id,
                    hostname: m.name.clone(),
                    peer_urls: vec![format!("https://{}:2380", m.address)],
                    client_urls: vec![format!("https://{}:2379", m.address)],
                    is_learner: m.learner,
                })
                .collect();
            members.sort_by_key(|m| m.id);
            Ok(EtcdMembers {
                metadata: None,
                legacy_members: members.iter().map(|m| m.hostname.clone()).collect(),
                members,
            })
        })
    }

    pub(super) fn etcd_member_status(&self) -> Result<EtcdStatus, Status> {
        let version = { self.node.state().image.as_ref().map(|i| i.version.clone()).unwrap_or_default() };
        let modern = version_at_least(&version, 11);
        let disk = self.node.disk.clone().unwrap_or_default();
        self.with_cluster("etcd status", |world, cluster| {
            let me = cluster.member_on(&disk).ok_or_else(|| Status::not_found("not a member"))?;
            let index = cluster.store.revision() + 10;
            let errors =
                if world.has_quorum(cluster) { Vec::new() } else { vec!["etcdserver: no leader".into()] };
            let member_status = EtcdMemberStatus {
                protocol_version: if modern { "3.6.7" } else { "3.5.21" }.into(),
                storage_version: if modern { "3.6.0" } else { "3.5.0" }.into(),
                db_size: 5 << 20,
                db_size_in_use: 3 << 20,
                leader: cluster.leader.unwrap_or(0),
                raft_index: index,
                raft_term: cluster.term,
                raft_applied_index: index,
                errors,
                is_learner: me.learner,
                member_id: me.id,
            };
            Ok(EtcdStatus { metadata: None, member_status: Some(member_status) })
        })
    }

    /// Whether etcd lets a member go: what remains must have a quorum that runs.
    fn removable(world: &World, cluster: &Cluster, member: u64) -> Result<(), Status> {
        Self::quorate(world, cluster)?;
        let Some(member) = cluster.members.iter().find(|m| m.id == member) else {
            return Err(Status::not_found("etcdserver: member not found"));
        };
        let refused = |why: &str| {
            Err(Status::unknown(format!(
                "failed to remove member: failed to remove member {}: {why}",
                member.id
            )))
        };
        let rest: Vec<_> = cluster.voters().filter(|m| m.id != member.id).collect();
        if rest.is_empty() {
            return refused("etcdserver: re-configuration failed due to not enough started members");
        }
        let healthy = rest.iter().filter(|m| world.healthy(m)).count();
        // One that is down already is no part of the quorum.
        if !member.learner && world.healthy(member) && healthy < rest.len() / 2 + 1 {
            return refused("etcdserver: unhealthy cluster");
        }
        Ok(())
    }

    pub(super) fn etcd_remove(&self, member: u64) -> Result<(), Status> {
        let id = self.with_cluster("etcd remove member", |world, cluster| {
            Self::removable(world, cluster, member)?;
            Ok(cluster.id)
        })?;
        if let Some(cluster) = self.shared.world().clusters.get_mut(&id) {
            cluster.members.retain(|m| m.id != member);
        }
        self.shared.settle();
        Ok(())
    }

    /// Refuses to leave when that would end the cluster.
    pub(super) fn check_leave(&self) -> Result<(), Status> {
        let disk = self.node.disk.clone().unwrap_or_default();
        self.with_cluster("etcd leave", |world, cluster| {
            let me = cluster.member_on(&disk).ok_or_else(|| Status::unknown("not a member of etcd"))?;
            Self::removable(world, cluster, me.id)
                .map_err(|status| Status::unknown(format!("failed to leave cluster: {}", status.message())))
        })
    }

    /// The checks that the old upgrade call makes by itself.
    pub(super) fn check_upgrade(&self) -> Result<(), Status> {
        self.with_cluster("etcd", |world, cluster| {
            if cluster.members.len() == 2 {
                return Err(Status::failed_precondition(
                    "etcd member count(2) is insufficient to maintain quorum if upgrade commences",
                ));
            }
            if let Some(member) = cluster.members.iter().find(|m| !world.healthy(m)) {
                return Err(Status::failed_precondition(format!(
                    "etcd member {} is not healthy; all members must be healthy to perform an upgrade",
                    member.name
                )));
            }
            Ok(())
        })
    }

    pub(super) fn etcd_forfeit(&self) -> Result<String, Status> {
        let disk = self.node.disk.clone().unwrap_or_default();
        let (id, next) = self.with_cluster("etcd forfeit leadership", |world, cluster| {
            Self::quorate(world, cluster)?;
            let me = cluster.member_on(&disk).map(|m| m.id);
            if cluster.members.len() == 1 {
                return Err(Status::unknown(
                    "failed to forfeit leadership: cannot forfeit leadership, only one member",
                ));
            }
            if cluster.leader != me {
                return Ok((cluster.id, None));
            }
            let next = cluster.voters().find(|m| Some(m.id) != me && world.healthy(m));
            Ok((cluster.id, next.map(|m| (m.id, m.name.clone()))))
        })?;
        let Some((leader, name)) = next else { return Ok(String::new()) };
        if let Some(cluster) = self.shared.world().clusters.get_mut(&id) {
            cluster.leader = Some(leader);
            cluster.term += 1;
        }
        self.shared.settle();
        Ok(name)
    }

    pub(super) fn etcd_snapshot_bytes(&self) -> Result<Vec<u8>, Status> {
        // A node asks its own etcd, which needs no quorum for this.
        let saved = self.with_cluster("etcd snapshot", |_, cluster| Ok(cluster.store.save()))?;
        Ok(snapshot::write(&saved))
    }

    pub(super) fn etcd_take_snapshot(&self, bytes: Vec<u8>) -> Result<(), Status> {
        if bytes.is_empty() {
            return Err(Status::invalid_argument("the snapshot is empty"));
        }
        let disk = self.node.disk.clone().unwrap_or_default();
        self.shared.world().disks.entry(disk).or_default().recovery = Some(bytes);
        Ok(())
    }

    /// A tar.gz with the admin's kubeconfig in it.
    pub(super) fn admin_kubeconfig(&self) -> Result<Vec<u8>, Status> {
        let config = self.control_plane("kubeconfig")?;
        let ca = config.pem_at("/cluster/ca/crt").unwrap_or_default();
        let key = config.pem_at("/cluster/ca/key").unwrap_or_default();
        let authority = Authority::new(&ca, &key).map_err(|e| Status::internal(e.to_string()))?;
        let (crt, key) = authority
            .client("admin", "system:masters", self.now(), 365 * 86_400)
            .map_err(|e| Status::internal(e.to_string()))?;
        let cluster = config.cluster_name();
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:\n    server: {}\n    certificate-authority-data: {}\nusers:\n- name: admin@{cluster}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\ncontexts:\n- context:\n    cluster: {cluster}\n    namespace: default\n    user: admin@{cluster}\n  name: admin@{cluster}\ncurrent-context: admin@{cluster}\n",
            config.endpoint(),
            STANDARD.encode(config.kubernetes_cas().concat()),
            STANDARD.encode(crt),
            STANDARD.encode(key),
        );
        pack("kubeconfig", text.as_bytes(), self.now()).map_err(|e| Status::internal(e.to_string()))
    }
}

fn pack(name: &str, content: &[u8], now: i64) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(now.max(0) as u64);
    archive.append_data(&mut header, name, content)?;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&archive.into_inner()?)?;
    packed.finish()
}
