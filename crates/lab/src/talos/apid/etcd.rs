//! etcd through the node API: bootstrap, members, snapshots; and the admin kubeconfig.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_talos::proto::machine::{BootstrapRequest, EtcdMember, EtcdMemberStatus, EtcdMembers, EtcdStatus};
use sha2::{Digest, Sha256};
use tonic::Status;

use super::Api;
use crate::kubernetes::{SavedStore, Store};
use crate::talos::etcd::Cluster;
use crate::talos::keys::Authority;
use crate::talos::services::{self, BootstrapRefusal};
use crate::talos::version_at_least;
use crate::talos::world::World;

/// Snapshots are padded to whole pages of this size, then closed with a SHA-256.
const PAGE: usize = 512;
/// Opens the lab's snapshots.
const SNAPSHOT_MAGIC: &[u8; 8] = b"LABETCD\n";

impl Api {
    pub(super) fn bootstrap_etcd(&self, request: &BootstrapRequest) -> Result<(), Status> {
        let store = if request.recover_etcd {
            let disk = self.node.disk.clone().unwrap_or_default();
            let saved = { self.shared.world().disks.get(&disk).and_then(|d| d.recovery.clone()) };
            let bytes =
                saved.ok_or_else(|| Status::failed_precondition("no etcd snapshot to recover from"))?;
            Some(read_snapshot(&bytes, request.recover_skip_hash_check)?)
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
    fn with_cluster<R>(&self, act: impl FnOnce(&World, &Cluster) -> Result<R, Status>) -> Result<R, Status> {
        self.control_plane("etcd")?;
        let world = self.shared.world();
        let disk = self.node.disk.as_deref().unwrap_or_default();
        let running = self.node.state().etcd;
        match world.cluster_of_disk(disk) {
            Some(cluster) if running => act(&world, cluster),
            _ => Err(Status::unavailable("error building etcd client: etcd is not running on this node")),
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
        self.with_cluster(|world, cluster| {
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
            Ok(EtcdMembers { metadata: None, legacy_members: Vec::new(), members })
        })
    }

    pub(super) fn etcd_member_status(&self) -> Result<EtcdStatus, Status> {
        let version = { self.node.state().image.as_ref().map(|i| i.version.clone()).unwrap_or_default() };
        let modern = version_at_least(&version, 11);
        let disk = self.node.disk.clone().unwrap_or_default();
        self.with_cluster(|world, cluster| {
            let me = cluster.member_on(&disk).ok_or_else(|| Status::not_found("not a member"))?;
            let index = cluster.store.revision() + 10;
            let errors =
                if world.has_quorum(cluster) { Vec::new() } else { vec!["etcdserver: no leader".into()] };
            let member_status = EtcdMemberStatus {
                protocol_version: if modern { "3.6.6" } else { "3.5.21" }.into(),
                storage_version: if modern { "3.6.0".into() } else { String::new() },
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

    pub(super) fn etcd_remove(&self, member: u64) -> Result<(), Status> {
        let id = self.with_cluster(|world, cluster| {
            Self::quorate(world, cluster)?;
            let found = cluster.members.iter().any(|m| m.id == member);
            if found { Ok(cluster.id) } else { Err(Status::not_found("etcdserver: member not found")) }
        })?;
        if let Some(cluster) = self.shared.world().clusters.get_mut(&id) {
            cluster.members.retain(|m| m.id != member);
        }
        self.shared.settle();
        Ok(())
    }

    /// Refuses to leave when that would end the cluster.
    pub(super) fn check_leave(&self) -> Result<(), Status> {
        self.with_cluster(|world, cluster| {
            Self::quorate(world, cluster)?;
            if cluster.members.len() == 1 {
                return Err(Status::failed_precondition(
                    "etcd member can't leave: it is the only member of the cluster",
                ));
            }
            Ok(())
        })
    }

    /// The checks that the old upgrade call makes by itself.
    pub(super) fn check_upgrade(&self) -> Result<(), Status> {
        self.with_cluster(|world, cluster| {
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
        let (id, next) = self.with_cluster(|world, cluster| {
            Self::quorate(world, cluster)?;
            let me = cluster.member_on(&disk).map(|m| m.id);
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
        let saved = self.with_cluster(|world, cluster| {
            Self::quorate(world, cluster)?;
            Ok(cluster.store.save())
        })?;
        let content = serde_json::to_vec(&saved).map_err(|e| Status::internal(e.to_string()))?;
        let mut bytes = SNAPSHOT_MAGIC.to_vec();
        bytes.extend_from_slice(&(content.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&content);
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        Ok(bytes)
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
            STANDARD.encode(ca),
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

fn read_snapshot(bytes: &[u8], skip_hash: bool) -> Result<Store, Status> {
    let bad = |why: &str| Status::invalid_argument(format!("error recovering etcd from snapshot: {why}"));
    let body = if bytes.len() % PAGE == 32 {
        let (body, digest) = bytes.split_at(bytes.len() - 32);
        if !skip_hash && Sha256::digest(body)[..] != *digest {
            return Err(bad("snapshot checksum mismatch"));
        }
        body
    } else if skip_hash {
        bytes
    } else {
        return Err(bad("snapshot missing hash but --skip-hash-check=false"));
    };
    let rest = body.strip_prefix(SNAPSHOT_MAGIC).ok_or_else(|| bad("invalid database"))?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(|| bad("invalid database"))?;
    let content = usize::try_from(u64::from_be_bytes(*length)).ok().and_then(|l| rest.get(..l));
    let saved: SavedStore =
        content.and_then(|c| serde_json::from_slice(c).ok()).ok_or_else(|| bad("invalid database"))?;
    Ok(Store::load(saved))
}
