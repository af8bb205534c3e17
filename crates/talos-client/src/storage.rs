//! A node's disks: seen, and wiped one by one.

use std::time::Duration;

use crate::{
    Result,
    connect::Client,
    proto::storage::{self, block_device_wipe_descriptor::Method, disk::DiskType},
};

/// What a disk is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDiskKind {
    /// Solid state.
    Ssd,
    /// It turns.
    Hdd,
    /// Solid state on NVMe.
    Nvme,
    /// A memory card.
    Sd,
    /// An optical drive.
    Cd,
}

/// A disk of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDisk {
    /// Such as `/dev/sda`.
    pub device: String,
    /// Bytes.
    pub size: u64,
    /// Its model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Its uuid.
    pub uuid: String,
    /// Its world-wide id.
    pub wwid: String,
    /// What it is made of, if that is known.
    pub kind: Option<NodeDiskKind>,
    /// Where it is plugged in.
    pub bus_path: String,
    /// Whether Talos runs from it.
    pub is_system: bool,
    /// Whether it cannot be written.
    pub is_read_only: bool,
}

/// How thoroughly a device is wiped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WipeMethod {
    /// Only what marks it as something: quick.
    #[default]
    Fast,
    /// Every byte.
    Zeroes,
}

/// A disk or partition to wipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceWipe {
    /// Such as `sdb` or `sdb1`, without `/dev/`.
    pub device: String,
    /// How thoroughly.
    pub method: WipeMethod,
    /// Also if it is a volume of the node.
    pub skip_volume_check: bool,
    /// Also if it is part of another device, such as a volume group.
    pub skip_secondary_check: bool,
    /// The partition itself goes too.
    pub drop_partition: bool,
}

impl Client {
    /// The node's disks; also in maintenance mode.
    pub async fn disks(&self) -> Result<Vec<NodeDisk>> {
        let reply = self.call("list disks", self.storage().disks(self.request(()))).await?;
        let disks = self.only("list disks", reply.messages)?.disks;
        Ok(disks
            .into_iter()
            .map(|disk| NodeDisk {
                kind: match disk.r#type() {
                    DiskType::Unknown => None,
                    DiskType::Ssd => Some(NodeDiskKind::Ssd),
                    DiskType::Hdd => Some(NodeDiskKind::Hdd),
                    DiskType::Nvme => Some(NodeDiskKind::Nvme),
                    DiskType::Sd => Some(NodeDiskKind::Sd),
                    DiskType::Cd => Some(NodeDiskKind::Cd),
                },
                device: disk.device_name,
                size: disk.size,
                model: disk.model,
                serial: disk.serial,
                uuid: disk.uuid,
                wwid: disk.wwid,
                bus_path: disk.bus_path,
                is_system: disk.system_disk,
                is_read_only: disk.readonly,
            })
            .collect())
    }

    /// Wipes disks or partitions that nothing uses, without a reboot; in maintenance mode since 1.11.
    pub async fn wipe_devices(&self, devices: &[DeviceWipe]) -> Result<()> {
        let wire = devices.iter().map(|wipe| storage::BlockDeviceWipeDescriptor {
            device: wipe.device.clone(),
            method: match wipe.method {
                WipeMethod::Fast => Method::Fast,
                WipeMethod::Zeroes => Method::Zeroes,
            }
            .into(),
            skip_volume_check: wipe.skip_volume_check,
            drop_partition: wipe.drop_partition,
            skip_secondary_check: wipe.skip_secondary_check,
        });
        let request = self.request(storage::BlockDeviceWipeRequest { devices: wire.collect() });
        // The node answers when it is done, and a large disk takes its time.
        let thorough = devices.iter().any(|wipe| wipe.method == WipeMethod::Zeroes);
        let patience = if thorough { Duration::from_mins(60) } else { self.call_timeout };
        let mut storage = self.storage();
        let reply = self.call_within("wipe devices", patience, storage.block_device_wipe(request)).await?;
        self.only("wipe devices", reply.messages).map(drop)
    }
}
