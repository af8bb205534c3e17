//! The seam between the hypervisor and what runs inside its VMs.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

/// What a VM looks like to the software inside it at power-on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hardware {
    /// VMID.
    pub vmid: u32,
    /// VM name.
    pub name: String,
    /// Proxmox host.
    pub host: String,
    /// SMBIOS uuid.
    pub uuid: String,
    /// What its processors are, as a kernel says it: `x86_64` or `aarch64`.
    pub machine: String,
    /// MACs of the NICs, upper-case, in order.
    pub macs: Vec<String>,
    /// vCPUs.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The system disk: the bytes it was imported from (a lab image is a few KiB), and its size now. None: blank.
    pub disk: Option<Disk>,
    /// Contents of the ISOs in the CD drives, in drive order.
    pub cdroms: Vec<Vec<u8>>,
    /// Whether Proxmox's agent option is on.
    pub agent: bool,
    /// What starts it.
    #[serde(default)]
    pub firmware: Firmware,
}

/// What starts a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Firmware {
    /// SeaBIOS.
    #[default]
    Bios,
    /// OVMF.
    Uefi {
        /// Identity of the EFI disk, which keeps its variables; empty without one.
        variables: String,
        /// Whether Microsoft's keys were put in when the EFI disk was made, so that only what they signed boots.
        foreign_keys: bool,
    },
}

/// A system disk. `identity` changes whenever the disk is made anew, so that a guest's saved state goes with its disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Disk {
    /// Unique for the life of this disk.
    pub identity: String,
    /// Bytes it was imported from; empty for a blank disk.
    pub image: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
}

/// A network interface as the guest agent tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestInterface {
    /// Name.
    pub name: String,
    /// MAC.
    pub mac: String,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Lines as they are printed.
pub type Lines = Pin<Box<dyn futures::Stream<Item = String> + Send>>;

/// Runs what is inside the VMs. The hypervisor calls it; it never calls back.
pub trait Guests: Send + Sync + 'static {
    /// Power on. Returns at once; booting goes on in the background.
    fn power_on(&self, hardware: Hardware);
    /// Pull the plug. After it returns nothing of the guest answers any more.
    fn power_off(&self, vmid: u32);
    /// Ask the guest to shut down; resolves true when it did.
    fn shut_down(&self, vmid: u32) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
    /// A disk was copied: what is on the one is on the other, too.
    fn copied(&self, _from: &str, _to: &str) {}
    /// What is on the one disk is kept under the other name, or brought back from there.
    fn set_aside(&self, _from: &str, _to: &str) {}
    /// The disk is gone for good.
    fn forget(&self, disk_identity: &str);
    /// Media in the CD drives changed while running.
    fn media_changed(&self, vmid: u32, cdroms: Vec<Vec<u8>>);
    /// What the guest agent answers; none while it is not up or not installed.
    fn agent_interfaces(&self, vmid: u32) -> Option<Vec<GuestInterface>>;
    /// Last lines of the serial console.
    fn console(&self, vmid: u32) -> Vec<String>;
    /// Every line that the serial console prints from now on; none if nothing prints there.
    fn console_from_now(&self, _vmid: u32) -> Option<Lines> {
        None
    }
}
