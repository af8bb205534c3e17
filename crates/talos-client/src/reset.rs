//! Wiping a node.

use crate::{
    Result,
    connect::Client,
    proto::machine::{self, reset_request},
};

/// A partition that a reset may wipe on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WipedPartition {
    /// The config and identity of the node.
    State,
    /// Images, pods, etcd data.
    Ephemeral,
    /// Boot-time settings.
    Meta,
    /// What the firmware starts.
    Efi,
    /// The loader on machines without EFI.
    Bios,
    /// Kernels.
    Boot,
}

impl WipedPartition {
    fn label(self) -> &'static str {
        match self {
            Self::State => "STATE",
            Self::Ephemeral => "EPHEMERAL",
            Self::Meta => "META",
            Self::Efi => "EFI",
            Self::Bios => "BIOS",
            Self::Boot => "BOOT",
        }
    }
}

/// How to reset a node. What is wiped has to be said: a request that names nothing wipes the whole system disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Drain the node and leave etcd first.
    pub graceful: bool,
    /// Boot again afterwards instead of powering off.
    pub reboot: bool,
    system_disk: SystemDisk,
    user_disks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SystemDisk {
    Kept,
    Partitions(Vec<WipedPartition>),
    Whole,
}

impl Reset {
    fn of(system_disk: SystemDisk) -> Self {
        Self { graceful: false, reboot: false, system_disk, user_disks: Vec::new() }
    }

    /// Wipes these partitions of the system disk. There is a first one, because none would mean the whole disk.
    pub fn partitions(first: WipedPartition, more: impl IntoIterator<Item = WipedPartition>) -> Self {
        Self::of(SystemDisk::Partitions(std::iter::once(first).chain(more).collect()))
    }

    /// Wipes the whole system disk, operating system included.
    pub fn whole_system_disk() -> Self {
        Self::of(SystemDisk::Whole)
    }

    /// Wipes other disks only, such as `/dev/sdb`.
    pub fn user_disks(disks: impl IntoIterator<Item = String>) -> Self {
        Self::of(SystemDisk::Kept).and_user_disks(disks)
    }

    /// Wipes these disks too.
    #[must_use]
    pub fn and_user_disks(mut self, disks: impl IntoIterator<Item = String>) -> Self {
        self.user_disks.extend(disks);
        self
    }
}

impl Client {
    /// Wipes the node.
    pub async fn reset(&self, reset: &Reset) -> Result<String> {
        let (partitions, mode) = match &reset.system_disk {
            SystemDisk::Kept => (&[][..], reset_request::WipeMode::UserDisks),
            SystemDisk::Partitions(partitions) => (&partitions[..], reset_request::WipeMode::All),
            SystemDisk::Whole => (&[][..], reset_request::WipeMode::All),
        };
        let partitions = partitions
            .iter()
            .map(|partition| machine::ResetPartitionSpec { label: partition.label().into(), wipe: true });
        let request = self.request(machine::ResetRequest {
            graceful: reset.graceful,
            reboot: reset.reboot,
            system_partitions_to_wipe: partitions.collect(),
            user_disks_to_wipe: reset.user_disks.clone(),
            mode: mode.into(),
        });
        let reply = self.call("reset", self.machine().reset(request)).await?;
        Ok(self.only("reset", reply.messages)?.actor_id)
    }
}
