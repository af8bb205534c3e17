//! What a VM is made of besides cores, memory and its system disk: written, resolved and read in one shape.

use daedal_talos_config::Arch;
pub use daedal_talos_config::BondMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::options::Route;

/// A VM's hardware. Disks, network cards and devices of the cluster and the pool are merged; the pool's single values win.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Hardware {
    /// The chipset: `q35` by default, `virt` for arm64, which has no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Chipset>,
    /// The firmware: `ovmf` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// A TPM 2.0; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<bool>,
    /// The processor's model, such as `host`; `x86-64-v2-AES` by default, with which VMs can be moved between hosts, and
    /// `host` for arm64, which has no such common ground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Whether the guest sees NUMA nodes; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<bool>,
    /// A serial console on a socket; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_console: Option<bool>,
    /// A watchdog device (i6300esb) that resets a VM which hangs; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<bool>,
    /// When the VM starts with its host, relative to others. Needs Sys.Modify on `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_order: Option<u32>,
    /// Seconds to wait after this VM's start before the host starts the next one. Needs Sys.Modify on `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay: Option<u32>,
    /// Empty disks besides the system disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<ExtraDisk>,
    /// Network cards besides the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<ExtraNic>,
    /// The first card and all `bonded` ones as one interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    /// PCI devices of the host, by the name of their resource mapping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<String>,
}

/// A chipset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Chipset {
    /// PCI Express.
    Q35,
    /// The older one.
    I440fx,
    /// The only one of arm64.
    Virt,
}

impl Chipset {
    /// Its name in a VM's config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::I440fx => "pc",
            Self::Virt => "virt",
        }
    }
}

impl Hardware {
    /// The chipset that is declared, or the usual one of this architecture.
    pub fn chipset(&self, arch: Arch) -> Chipset {
        self.machine.unwrap_or(match arch {
            Arch::Amd64 => Chipset::Q35,
            Arch::Arm64 => Chipset::Virt,
        })
    }

    /// The processor that is declared, or the usual one of this architecture: the least Talos runs on, the same on every
    /// host, so that a VM can be moved; arm64 has no such model.
    pub fn processor(&self, arch: Arch) -> &str {
        self.cpu.as_deref().unwrap_or(match arch {
            Arch::Amd64 => "x86-64-v2-AES",
            Arch::Arm64 => "host",
        })
    }
}

/// A firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// UEFI.
    #[default]
    Ovmf,
    /// BIOS.
    Seabios,
}

/// An empty disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtraDisk {
    /// Its size, such as `100GiB`.
    #[schemars(example = "100GiB")]
    pub size: String,
    /// The storage it is on; the one of the system disks by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
}

/// A further network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtraNic {
    /// Its bridge; the first card's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// Its VLAN tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
    /// Its MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65520))]
    pub mtu: Option<u16>,
    /// Whether it gets its address by DHCP; by default if it has no `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<bool>,
    /// Address of the pool's first node on it, with a prefix length, such as `10.50.0.11/24`; the other nodes count on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "10.50.0.11/24")]
    pub address: Option<String>,
    /// Routes through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Whether it belongs to the `bond`, whose first card is the VM's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bonded: Option<bool>,
}

/// Several network cards as one interface, which has the node's address, routes and VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bond {
    /// How the cards are used.
    pub mode: BondMode,
    /// Its name; `bond0` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By what a card is chosen, in the modes that choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_policy: Option<HashPolicy>,
    /// How often partners greet each other in `802.3ad`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacp_rate: Option<LacpRate>,
    /// Milliseconds between checks of the cards' state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miimon: Option<u32>,
}

/// By what a bond chooses a card, in the kernel's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HashPolicy {
    /// Hardware addresses.
    #[serde(rename = "layer2")]
    Layer2,
    /// Hardware and network addresses.
    #[serde(rename = "layer2+3")]
    Layer23,
    /// Network addresses and ports.
    #[serde(rename = "layer3+4")]
    Layer34,
}

impl HashPolicy {
    /// The kernel's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Layer23 => "layer2+3",
            Self::Layer34 => "layer3+4",
        }
    }
}

/// How often partners of a bond greet each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LacpRate {
    /// Every 30 seconds.
    Slow,
    /// Every second.
    Fast,
}

impl LacpRate {
    /// The kernel's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Fast => "fast",
        }
    }
}

impl Hardware {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what somebody nearer says.
    pub(crate) fn extend(&mut self, nearer: &Self) {
        fn take<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        take(&mut self.machine, &nearer.machine);
        take(&mut self.firmware, &nearer.firmware);
        take(&mut self.tpm, &nearer.tpm);
        take(&mut self.cpu, &nearer.cpu);
        take(&mut self.numa, &nearer.numa);
        take(&mut self.serial_console, &nearer.serial_console);
        take(&mut self.watchdog, &nearer.watchdog);
        take(&mut self.start_order, &nearer.start_order);
        take(&mut self.start_delay, &nearer.start_delay);
        take(&mut self.bond, &nearer.bond);
        self.disks.extend(nearer.disks.iter().cloned());
        self.nics.extend(nearer.nics.iter().cloned());
        self.pci.extend(nearer.pci.iter().cloned());
    }
}
