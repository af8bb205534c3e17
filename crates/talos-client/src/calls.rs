//! What one can ask of a node, with replies as plain data.

use std::{io::Read, time::Duration};

use daedal_talos_config::Secret;
use futures::{Stream, StreamExt};
use tonic::Streaming;

use crate::{
    Error, Result,
    connect::Client,
    failure::{Failure, FailureKind},
    proto::{
        common,
        machine::{self, ApplyConfigurationRequest, apply_configuration_request, reboot_request},
        storage,
    },
};

/// How a new config takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// At once if possible, otherwise with a reboot.
    Auto,
    /// At once, or not at all.
    NoReboot,
    /// With a reboot.
    Reboot,
    /// At the next reboot.
    Staged,
    /// At once, and undone after this time unless applied for good.
    Try(Duration),
}

/// What became of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The mode the node chose.
    pub mode: ApplyMode,
    /// What the node wants to be known.
    pub warnings: Vec<String>,
    /// The node's words; a text diff for a dry run.
    pub details: String,
}

/// What became of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// etcd starts now.
    Started,
    /// There is etcd data on the node: it was done before.
    AlreadyDone,
}

/// A node's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVersion {
    /// Such as `v1.12.0`.
    pub tag: String,
    /// Such as `amd64`.
    pub arch: String,
    /// Such as `nocloud`.
    pub platform: String,
}

/// A member of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its id.
    pub id: u64,
    /// The node's name; empty until the member has started.
    pub hostname: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
    /// It follows, but does not vote yet.
    pub is_learner: bool,
}

/// How a member of etcd is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// The member's id.
    pub member_id: u64,
    /// The leader it follows; 0 if there is none.
    pub leader: u64,
    /// Size of its database in bytes.
    pub db_size: i64,
    /// How many of them hold something; defragmenting frees the others.
    pub db_size_in_use: i64,
    /// The version that etcd speaks, such as `3.6.5`.
    pub protocol_version: String,
    /// The version that its data are written for, such as `3.6` (since 1.11).
    pub storage_version: Option<String>,
    /// Index of the newest entry.
    pub raft_index: u64,
    /// Term of the election.
    pub raft_term: u64,
    /// Index of the newest entry applied.
    pub raft_applied_index: u64,
    /// It follows, but does not vote yet.
    pub is_learner: bool,
    /// What it complains about.
    pub errors: Vec<String>,
}

/// A service of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Such as `etcd`.
    pub id: String,
    /// Such as `Running`.
    pub state: String,
    /// Whether it is healthy, if that is known.
    pub healthy: Option<bool>,
    /// What it said last.
    pub message: String,
}

pub(super) trait HasMetadata {
    fn metadata(&self) -> Option<&common::Metadata>;
}

macro_rules! has_metadata {
    ($package:ident: $($message:ident),* $(,)?) => {
        $(impl HasMetadata for $package::$message {
            fn metadata(&self) -> Option<&common::Metadata> {
                self.metadata.as_ref()
            }
        })*
    };
}

has_metadata!(machine:
    Version,
    ApplyConfiguration,
    Bootstrap,
    Reboot,
    Shutdown,
    Reset,
    EtcdMembers,
    EtcdStatus,
    EtcdRemoveMemberById,
    EtcdLeaveCluster,
    EtcdForfeitLeadership,
    EtcdAlarm,
    EtcdAlarmDisarm,
    EtcdDefragment,
    EtcdDowngradeValidate,
    EtcdDowngradeEnable,
    EtcdDowngradeCancel,
    EtcdRecover,
    ServiceList,
    Hostname,
    Upgrade,
    Rollback,
    MetaWrite,
    MetaDelete,
    ImagePull,
);
has_metadata!(storage: Disks, BlockDeviceWipe);

impl Client {
    pub(super) fn only<M: HasMetadata>(&self, operation: &'static str, messages: Vec<M>) -> Result<M> {
        let message = messages
            .into_iter()
            .next()
            .ok_or_else(|| self.failed(operation, Failure::new(FailureKind::Other, "the reply is empty")))?;
        Failure::of_metadata(message.metadata()).map_err(|failure| self.failed(operation, failure))?;
        Ok(message)
    }

    /// Which Talos runs.
    pub async fn version(&self) -> Result<NodeVersion> {
        let reply = self.call("version", self.machine().version(self.request(()))).await?;
        let message = self.only("version", reply.messages)?;
        let version = message.version.unwrap_or_default();
        Ok(NodeVersion {
            tag: version.tag,
            arch: version.arch,
            platform: message.platform.unwrap_or_default().name,
        })
    }

    /// Gives the node a config, or asks what would happen.
    pub async fn apply_configuration(
        &self,
        config: &Secret,
        mode: ApplyMode,
        dry_run: bool,
    ) -> Result<Applied> {
        use apply_configuration_request::Mode;
        let (wire_mode, try_mode_timeout) = match mode {
            ApplyMode::Auto => (Mode::Auto, None),
            ApplyMode::NoReboot => (Mode::NoReboot, None),
            ApplyMode::Reboot => (Mode::Reboot, None),
            ApplyMode::Staged => (Mode::Staged, None),
            ApplyMode::Try(timeout) => (Mode::Try, prost_types::Duration::try_from(timeout).ok()),
        };
        let request = ApplyConfigurationRequest {
            data: config.expose().as_bytes().to_vec(),
            mode: wire_mode.into(),
            dry_run,
            try_mode_timeout,
        };
        let mut machine = self.machine();
        let reply = self.call("apply config", machine.apply_configuration(self.request(request))).await?;
        let message = self.only("apply config", reply.messages)?;
        Ok(Applied {
            mode: match message.mode() {
                Mode::Auto => ApplyMode::Auto,
                Mode::NoReboot => ApplyMode::NoReboot,
                Mode::Reboot => ApplyMode::Reboot,
                Mode::Staged => ApplyMode::Staged,
                Mode::Try => mode,
            },
            warnings: message.warnings,
            details: message.mode_details,
        })
    }

    /// Starts etcd on this node as the first member. Exactly one node of a cluster, once in its life.
    pub async fn bootstrap(&self) -> Result<Bootstrap> {
        let request = self.request(machine::BootstrapRequest::default());
        let mut machine = self.machine();
        let done = match self.call("bootstrap", machine.bootstrap(request)).await {
            Ok(reply) => self.only("bootstrap", reply.messages).map(|_| Bootstrap::Started),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if error.kind() == Some(FailureKind::AlreadyExists) => Ok(Bootstrap::AlreadyDone),
            other => other,
        }
    }

    /// The members of etcd as this node sees them.
    pub async fn etcd_members(&self) -> Result<Vec<EtcdMember>> {
        // Asked of its own etcd: any other way leads through the API server, which comes later than etcd.
        let request = self.request(machine::EtcdMemberListRequest { query_local: true });
        let reply = self.call("list etcd members", self.machine().etcd_member_list(request)).await?;
        let message = self.only("list etcd members", reply.messages)?;
        Ok(message
            .members
            .into_iter()
            .map(|member| EtcdMember {
                id: member.id,
                hostname: member.hostname,
                peer_urls: member.peer_urls,
                client_urls: member.client_urls,
                is_learner: member.is_learner,
            })
            .collect())
    }

    /// How this node's etcd member is.
    pub async fn etcd_status(&self) -> Result<EtcdStatus> {
        let reply = self.call("etcd status", self.machine().etcd_status(self.request(()))).await?;
        let status = self.only("etcd status", reply.messages)?.member_status.unwrap_or_default();
        Ok(EtcdStatus {
            member_id: status.member_id,
            leader: status.leader,
            db_size: status.db_size,
            db_size_in_use: status.db_size_in_use,
            protocol_version: status.protocol_version,
            storage_version: Some(status.storage_version).filter(|version| !version.is_empty()),
            raft_index: status.raft_index,
            raft_term: status.raft_term,
            raft_applied_index: status.raft_applied_index,
            is_learner: status.is_learner,
            errors: status.errors,
        })
    }

    /// Takes a member out of etcd.
    pub async fn etcd_remove_member(&self, member_id: u64) -> Result<()> {
        let request = self.request(machine::EtcdRemoveMemberByIdRequest { member_id });
        let mut machine = self.machine();
        let reply = self.call("remove etcd member", machine.etcd_remove_member_by_id(request)).await?;
        self.only("remove etcd member", reply.messages).map(drop)
    }

    /// Lets this node's member leave etcd.
    pub async fn etcd_leave_cluster(&self) -> Result<()> {
        let request = self.request(machine::EtcdLeaveClusterRequest {});
        let reply = self.call("leave etcd", self.machine().etcd_leave_cluster(request)).await?;
        self.only("leave etcd", reply.messages).map(drop)
    }

    /// Makes another member the leader, if this one is it.
    pub async fn etcd_forfeit_leadership(&self) -> Result<()> {
        let request = self.request(machine::EtcdForfeitLeadershipRequest {});
        let mut machine = self.machine();
        let reply = self.call("forfeit etcd leadership", machine.etcd_forfeit_leadership(request)).await?;
        self.only("forfeit etcd leadership", reply.messages).map(drop)
    }

    /// A snapshot of etcd as it comes. The file is whole if its length modulo 512 is 32.
    pub async fn etcd_snapshot(&self) -> Result<impl Stream<Item = Result<Vec<u8>>> + Send + use<>> {
        let request = self.request(machine::EtcdSnapshotRequest {});
        let stream = self.call("etcd snapshot", self.machine().etcd_snapshot(request)).await?;
        Ok(self.pieces("etcd snapshot", stream.into(), false))
    }

    /// The admin kubeconfig that the node makes. Control planes only.
    pub async fn kubeconfig(&self) -> Result<Secret> {
        let stream = self.call("kubeconfig", self.machine().kubeconfig(self.request(()))).await?;
        let archive = self.collect("kubeconfig", stream).await?;
        read_kubeconfig(&archive)
            .map_err(|reason| self.failed("kubeconfig", Failure::new(FailureKind::Other, reason)))
    }

    /// A file of the node, whole.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>> {
        let request = self.request(machine::ReadRequest { path: path.into() });
        let stream = self.call("read file", self.machine().read(request)).await?;
        self.collect("read file", stream).await
    }

    /// Identifies the present boot: it changes with every start.
    pub async fn boot_id(&self) -> Result<String> {
        let bytes = self.read("/proc/sys/kernel/random/boot_id").await?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The node's services.
    pub async fn service_list(&self) -> Result<Vec<Service>> {
        let reply = self.call("list services", self.machine().service_list(self.request(()))).await?;
        let message = self.only("list services", reply.messages)?;
        Ok(message
            .services
            .into_iter()
            .map(|service| {
                let health = service.health.unwrap_or_default();
                Service {
                    id: service.id,
                    state: service.state,
                    healthy: (!health.unknown).then_some(health.healthy),
                    message: health.last_message,
                }
            })
            .collect())
    }

    /// The node's name.
    pub async fn hostname(&self) -> Result<String> {
        let reply = self.call("hostname", self.machine().hostname(self.request(()))).await?;
        Ok(self.only("hostname", reply.messages)?.hostname)
    }

    /// Reboots the node; with `powercycle` through the firmware instead of straight into the kernel. Returns the id
    /// of the action in the node's events.
    pub async fn reboot(&self, powercycle: bool) -> Result<String> {
        use reboot_request::Mode;
        self.reboot_as(if powercycle { Mode::Powercycle } else { Mode::Default }).await
    }

    /// Reboots a node that no longer can in order (since 1.12): nothing is drained, stopped or unmounted.
    pub async fn reboot_by_force(&self) -> Result<String> {
        self.reboot_as(reboot_request::Mode::Force).await
    }

    async fn reboot_as(&self, mode: reboot_request::Mode) -> Result<String> {
        let request = self.request(machine::RebootRequest { mode: mode.into() });
        let reply = self.call("reboot", self.machine().reboot(request)).await?;
        Ok(self.only("reboot", reply.messages)?.actor_id)
    }

    /// Powers the node off; with `force` without leaving the cluster properly.
    pub async fn shutdown(&self, force: bool) -> Result<String> {
        let request = self.request(machine::ShutdownRequest { force });
        let reply = self.call("shutdown", self.machine().shutdown(request)).await?;
        Ok(self.only("shutdown", reply.messages)?.actor_id)
    }

    async fn collect(&self, operation: &'static str, stream: Streaming<common::Data>) -> Result<Vec<u8>> {
        let mut parts = self.pieces(operation, stream.into(), false);
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(part) = parts.next().await {
                bytes.extend_from_slice(&part?);
            }
            Ok::<_, Error>(())
        };
        tokio::time::timeout(self.call_timeout, reading)
            .await
            .map_err(|_| self.failed(operation, Failure::timeout()))??;
        Ok(bytes)
    }
}

fn read_kubeconfig(archive: &[u8]) -> Result<Secret, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        if entry.path().is_ok_and(|path| path.ends_with("kubeconfig")) {
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(|error| error.to_string())?;
            return Ok(Secret::new(text));
        }
    }
    Err("there is no kubeconfig in the archive".into())
}
