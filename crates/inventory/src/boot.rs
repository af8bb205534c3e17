//! How nodes boot and get their configs.

use serde::{Deserialize, Serialize};

use crate::node::Role;

/// How a node boots and gets its config: its boot path, from which everything that differs between paths follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    /// What the VM boots from.
    pub from: BootFrom,
    /// How the config reaches it.
    pub config: BootConfig,
    /// Volume id of a boot ISO that is on a storage already, such as `local:iso/talos-1.12.0.iso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iso: Option<String>,
    /// Volume id of a disk image that is on a storage already, such as `local:import/talos-1.12.0.raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The format of disk images that are downloaded.
    #[serde(default, skip_serializing_if = "DiskFormat::is_usual")]
    pub format: DiskFormat,
    /// Where the templates are, if VMs are cloned from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Templates>,
    /// What is demanded of a first contact in maintenance mode; by default that it is verified where the token can do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_contact: Option<FirstContact>,
}

/// What is demanded of the first contact with a node that waits for its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstContact {
    /// Its key is the one that its VM prints on its serial console.
    Verified,
    /// Trust on first use: whoever answers with the VM's SMBIOS uuid gets the config.
    Tofu,
}

/// The templates that VMs are cloned from: one for each role, on each host where disks are local.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// VMID of the control planes' template on the first host.
    pub control_plane: u32,
    /// VMID of the workers' template on the first host.
    pub worker: u32,
    /// Whether clones are full copies.
    pub full: bool,
    /// Whether an ISO installs them; else a disk image is imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_iso: bool,
}

impl Templates {
    /// The VMID of a role's template on a host, by the host's place in the inventory.
    pub fn vmid(&self, role: Role, host: usize) -> u32 {
        let first = match role {
            Role::ControlPlane => self.control_plane,
            Role::Worker => self.worker,
        };
        u32::try_from(host).map_or(0, |host| first.saturating_sub(host.saturating_mul(2)))
    }
}

impl Boot {
    /// Whether the config travels in a file of ours on a storage: on a medium in a CD drive, or as a snippet.
    pub fn by_medium(&self) -> bool {
        self.config == BootConfig::Cidata || self.by_snippet()
    }

    /// Whether that file is a snippet, which Proxmox puts on its own cloud-init drive.
    pub fn by_snippet(&self) -> bool {
        self.config == BootConfig::Snippet
    }

    /// Whether VMs have Proxmox's own cloud-init drive.
    pub fn has_cloud_init(&self) -> bool {
        self.config == BootConfig::CloudInitDrive || self.by_snippet()
    }

    /// Whether the node first waits in maintenance mode, where it is given its config.
    pub fn through_maintenance(&self) -> bool {
        matches!(self.config, BootConfig::CloudInitDrive | BootConfig::Maintenance | BootConfig::Meta)
    }

    /// Whether the system disk is made from a disk image, directly or for the template.
    pub fn imports(&self) -> bool {
        self.from == BootFrom::DiskImage || (self.clones() && !self.installs_templates())
    }

    /// What nodes boot from or are made from, where it is on a storage already.
    pub fn volume(&self) -> Option<&str> {
        self.iso.as_deref().or(self.image.as_deref())
    }

    /// The storage on which that is.
    pub fn volume_storage(&self) -> Option<&str> {
        self.volume()?.split_once(':').map(|(storage, _)| storage)
    }

    /// The kinds of content that the images storage must take.
    pub fn files(&self) -> &'static [&'static str] {
        let iso = self.config == BootConfig::Cidata || self.takes_iso() && self.iso.is_none();
        match (self.imports() && self.image.is_none(), iso, self.by_snippet()) {
            (true, true, false) => &["import", "iso"],
            (true, true, true) => &["import", "iso", "snippets"],
            (true, false, false) => &["import"],
            (true, false, true) => &["import", "snippets"],
            (false, true, false) => &["iso"],
            (false, true, true) => &["iso", "snippets"],
            (false, false, true) => &["snippets"],
            (false, false, false) => &[],
        }
    }

    /// Whether templates are installed by an ISO.
    pub fn installs_templates(&self) -> bool {
        self.template.is_some_and(|templates| templates.by_iso)
    }

    /// Whether what the factory gives is an ISO.
    pub fn takes_iso(&self) -> bool {
        self.installs() || self.installs_templates()
    }

    /// Whether a new VM's disk has the size of what it was made from, and must grow.
    pub fn grows(&self) -> bool {
        !self.installs()
    }

    /// Whether VMs are cloned.
    pub fn clones(&self) -> bool {
        self.from == BootFrom::Template
    }

    /// Whether a boot ISO installs to an empty disk.
    pub fn installs(&self) -> bool {
        self.from == BootFrom::Iso
    }

    /// Whether every node has an image of its own, with its network in it.
    pub fn own_images(&self) -> bool {
        self.config == BootConfig::Meta
    }
}

/// A format of disk images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// QEMU's own, which holds only what is written.
    #[default]
    Qcow2,
    /// The disk byte by byte.
    Raw,
}

impl DiskFormat {
    /// As file names end.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
        }
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What a VM boots from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BootFrom {
    /// A disk image, imported.
    #[default]
    DiskImage,
    /// A clone of a template.
    Template,
    /// An ISO that installs to disk.
    Iso,
}

/// How a config reaches its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BootConfig {
    /// Our own ISO with the label `cidata`.
    #[default]
    Cidata,
    /// Proxmox's cloud-init drive for the network, then maintenance mode.
    CloudInitDrive,
    /// Maintenance mode at a discovered or reserved address.
    Maintenance,
    /// META key 0xa in a per-node schematic.
    Meta,
    /// `cicustom` user-data over SSH.
    Snippet,
}
