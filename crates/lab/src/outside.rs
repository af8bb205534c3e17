//! VMs whose insides run elsewhere: a command switches them on and off, and connections to their addresses are passed on
//! to the real network.
//!
//! So the lab plays Proxmox for machines that are real. The command is called as `COMMAND power-on`, `power-off` or
//! `forget` (the disk is gone for good), with the VM in its environment: `LAB_VM_ID`, `LAB_VM_NAME`, `LAB_VM_MAC`,
//! `LAB_VM_ADDRESS`, `LAB_VM_CORES`, `LAB_VM_MEMORY` (bytes), `LAB_VM_MEDIA` (the ISO in its first CD drive) and
//! `LAB_VM_CONFIG` (the machine config on it). The last two are empty where there is none: the VM boots from its disk. For
//! one VM the calls follow one another. A VM is found on the network once its `power-on` has ended well.
//!
//! The command is never kept: a folder must not decide what is run.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::own::{make_folder, write_private};
use crate::talos::media::{self, Cidata};
use crate::talos::network::{self, Link};
use crate::{Fabric, GuestInterface, Guests, Hardware, MachineConfig};

/// Who runs what is inside the VMs. It comes from the command line only.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The command.
    pub command: PathBuf,
    /// Where the media are put for it.
    pub folder: PathBuf,
}

/// VMs that a [`Runner`] runs. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Outside {
    shared: Arc<Shared>,
}

struct Shared {
    runner: Runner,
    fabric: Fabric,
    runtime: Handle,
    vms: Mutex<BTreeMap<u32, Vm>>,
    /// By VMID, and not by VM: the next VM of that number waits until the last one is forgotten.
    queues: Mutex<BTreeMap<u32, mpsc::UnboundedSender<Order>>>,
    resuming: AtomicBool,
}

struct Vm {
    known: Known,
    running: bool,
}

/// What must be remembered of a VM, because its media tell it at the first start only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Known {
    name: String,
    mac: String,
    cores: u32,
    memory: u64,
    disk: Option<String>,
    addresses: Vec<IpAddr>,
}

/// What outlives the lab's process.
pub(crate) type SavedOutside = BTreeMap<u32, Known>;

struct Order {
    verb: &'static str,
    environment: Vec<(&'static str, String)>,
    done: oneshot::Sender<bool>,
}

impl Outside {
    /// VMs on a network. Must be called inside a tokio runtime.
    pub(crate) fn new(runner: Runner, fabric: Fabric, saved: SavedOutside) -> Self {
        let outside = Self {
            shared: Arc::new(Shared {
                runner,
                fabric,
                runtime: Handle::current(),
                vms: Mutex::default(),
                queues: Mutex::default(),
                resuming: AtomicBool::new(false),
            }),
        };
        for (vmid, known) in saved {
            outside.vms().insert(vmid, Vm { known, running: false });
        }
        outside
    }

    /// Who runs them.
    pub(crate) fn runner(&self) -> &Runner {
        &self.shared.runner
    }

    /// What must be remembered.
    pub(crate) fn save(&self) -> SavedOutside {
        self.vms().iter().map(|(vmid, vm)| (*vmid, vm.known.clone())).collect()
    }

    /// While it is set, VMs that are switched on have been running all the while.
    pub(crate) fn set_resuming(&self, resuming: bool) {
        self.shared.resuming.store(resuming, Ordering::Relaxed);
    }

    fn vms(&self) -> MutexGuard<'_, BTreeMap<u32, Vm>> {
        self.shared.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue of calls of the command, one after the other.
    fn orders(&self, vmid: u32) -> mpsc::UnboundedSender<Order> {
        let (sender, mut orders) = mpsc::unbounded_channel::<Order>();
        let command = self.shared.runner.command.clone();
        self.shared.runtime.spawn(async move {
            while let Some(Order { verb, environment, done }) = orders.recv().await {
                let mut call = tokio::process::Command::new(&command);
                call.arg(verb).envs(environment).stdin(std::process::Stdio::null());
                let succeeded = match call.output().await {
                    Ok(output) if output.status.success() => true,
                    Ok(output) => {
                        let said = String::from_utf8_lossy(&output.stderr);
                        tracing::warn!(vmid, verb, status = %output.status, %said, "lab: the runner failed");
                        false
                    }
                    Err(error) => {
                        tracing::warn!(vmid, verb, %error, "lab: the runner cannot be started");
                        false
                    }
                };
                // Mostly nobody waits for it.
                let _ = done.send(succeeded);
            }
        });
        sender
    }

    fn order(&self, vmid: u32, verb: &'static str, media: &Media) -> oneshot::Receiver<bool> {
        let (done, ended) = oneshot::channel();
        if let Some(vm) = self.vms().get(&vmid) {
            let known = &vm.known;
            let address = known.addresses.first().map(ToString::to_string).unwrap_or_default();
            let path = |path: &Option<PathBuf>| {
                path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            };
            let environment = vec![
                ("LAB_VM_ID", vmid.to_string()),
                ("LAB_VM_NAME", known.name.clone()),
                ("LAB_VM_MAC", known.mac.clone()),
                ("LAB_VM_ADDRESS", address),
                ("LAB_VM_CORES", known.cores.to_string()),
                ("LAB_VM_MEMORY", known.memory.to_string()),
                ("LAB_VM_MEDIA", path(&media.iso)),
                ("LAB_VM_CONFIG", path(&media.config)),
            ];
            let mut queues = self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = queues.entry(vmid).or_insert_with(|| self.orders(vmid));
            let _ = queue.send(Order { verb, environment, done });
        }
        ended
    }
}

/// Files for the command.
#[derive(Default)]
struct Media {
    iso: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Media {
    fn put(folder: &Path, vmid: u32, cdroms: &[Vec<u8>], cidata: Option<&Cidata>) -> Self {
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.join(format!("{vmid}-{name}"));
            let written = make_folder(folder).and_then(|()| write_private(&path, bytes));
            match written {
                Ok(()) => Some(path),
                Err(error) => {
                    tracing::warn!(vmid, %error, "lab: the runner's media cannot be written");
                    None
                }
            }
        };
        let config = cidata.and_then(Cidata::machine_config).and_then(Result::ok);
        Self {
            iso: cdroms.iter().find(|bytes| !bytes.is_empty()).and_then(|bytes| put("media.iso", bytes)),
            config: config.and_then(|text| put("config.yaml", text.as_bytes())),
        }
    }
}

impl Guests for Outside {
    fn power_on(&self, hardware: Hardware) {
        let Hardware { vmid, name, macs, cores, memory, disk, cdroms, .. } = hardware;
        let cidata = media::cidata(&cdroms);
        let disk = disk.map(|disk| disk.identity);
        let addresses = {
            let mut vms = self.vms();
            let vm = vms.entry(vmid).or_insert_with(|| Vm { known: Known::default(), running: false });
            if vm.known.disk != disk {
                vm.known.addresses.clear();
            }
            if let Some(links) = cidata.as_ref().and_then(|cidata| links(&macs, cidata)) {
                vm.known.addresses = addresses(&links);
            }
            let addresses = std::mem::take(&mut vm.known.addresses);
            let mac = macs.first().cloned().unwrap_or_default();
            vm.known = Known { name, mac, cores, memory, disk, addresses: addresses.clone() };
            vm.running = true;
            addresses
        };
        if self.shared.resuming.load(Ordering::Relaxed) {
            self.shared.fabric.pass_on(&addresses);
            return;
        }
        let media = Media::put(&self.shared.runner.folder, vmid, &cdroms, cidata.as_ref());
        let started = self.order(vmid, "power-on", &media);
        let outside = self.clone();
        self.shared.runtime.spawn(async move {
            // Whoever was switched off or forgotten meanwhile is not to be found.
            let same = |vm: &Vm| vm.running && vm.known.addresses == addresses;
            if started.await.unwrap_or(false) && outside.vms().get(&vmid).is_some_and(same) {
                outside.shared.fabric.pass_on(&addresses);
            }
        });
    }

    fn power_off(&self, vmid: u32) {
        let running = match self.vms().get_mut(&vmid) {
            Some(vm) => std::mem::take(&mut vm.running),
            None => false,
        };
        if running {
            drop(self.order(vmid, "power-off", &Media::default()));
        }
    }

    fn shut_down(&self, vmid: u32) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        if let Some(vm) = self.vms().get_mut(&vmid) {
            vm.running = false;
        }
        let ended = self.order(vmid, "power-off", &Media::default());
        Box::pin(async move { ended.await.unwrap_or(false) })
    }

    fn forget(&self, disk_identity: &str) {
        let found = {
            let vms = self.vms();
            vms.iter().find(|(_, vm)| vm.known.disk.as_deref() == Some(disk_identity)).map(|(vmid, _)| *vmid)
        };
        let Some(vmid) = found else { return };
        drop(self.order(vmid, "forget", &Media::default()));
        if let Some(vm) = self.vms().remove(&vmid) {
            self.shared.fabric.keep(&vm.known.addresses);
        }
    }

    fn media_changed(&self, _vmid: u32, _cdroms: Vec<Vec<u8>>) {}

    fn agent_interfaces(&self, vmid: u32) -> Option<Vec<GuestInterface>> {
        let vms = self.vms();
        let vm = vms.get(&vmid).filter(|vm| vm.running)?;
        let addresses = vm.known.addresses.iter().take(1).map(|address| (*address, 24)).collect();
        Some(vec![GuestInterface { name: "eth0".into(), mac: vm.known.mac.clone(), addresses }])
    }

    fn console(&self, _vmid: u32) -> Vec<String> {
        Vec::new()
    }
}

/// The network cards as the machine's config and platform data configure them.
fn links(macs: &[String], cidata: &Cidata) -> Option<Vec<Link>> {
    let text = cidata.machine_config().and_then(Result::ok);
    // The newest version knows what all others do: only the network part is read.
    let config = text.and_then(|text| MachineConfig::load(&text, "v1.14.0").ok());
    // A drive with a network and no config is for one that waits for its config there.
    if config.is_none() && cidata.network_config.is_none() {
        return None;
    }
    Some(network::configure(macs, config.as_ref(), cidata.network_config.as_deref(), false))
}

/// The machine's own address first, then the shared one it competes for.
fn addresses(links: &[Link]) -> Vec<IpAddr> {
    let own = links.iter().flat_map(|link| link.addresses.iter().map(ipnet::IpNet::addr));
    own.chain(links.iter().filter_map(|link| link.vip)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn hardware(vmid: u32) -> Hardware {
        Hardware {
            vmid,
            name: "cp-1".into(),
            host: "atlas".into(),
            uuid: String::new(),
            machine: "x86_64".into(),
            macs: vec!["BC:24:11:00:00:01".into()],
            cores: 2,
            memory: 1 << 30,
            disk: Some(crate::Disk { identity: "disk-1".into(), image: Vec::new(), size: 1 << 30 }),
            cdroms: vec![b"an ISO".to_vec()],
            agent: true,
            firmware: Default::default(),
        }
    }

    #[tokio::test]
    async fn the_runner_is_called_in_order_with_what_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let (command, log) = (folder.path().join("run"), folder.path().join("log"));
        let script = format!(
            "#!/bin/sh\nsleep 0.05\necho $1 $LAB_VM_ID $LAB_VM_NAME $LAB_VM_MAC $LAB_VM_MEDIA >>{}\n",
            log.display()
        );
        std::fs::write(&command, script).unwrap();
        std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o700)).unwrap();
        let runner = Runner { command, folder: folder.path().join("media") };
        let outside = Outside::new(runner, Fabric::default(), SavedOutside::new());
        outside.power_on(hardware(300));
        assert!(outside.agent_interfaces(300).is_some());
        outside.power_off(300);
        outside.power_off(300);
        assert!(outside.agent_interfaces(300).is_none());
        outside.set_resuming(true);
        outside.power_on(hardware(300));
        outside.set_resuming(false);
        assert!(outside.shut_down(300).await);
        outside.forget("another disk");
        outside.forget("disk-1");
        // Another VM of that number begins when the old one is forgotten.
        outside.power_on(hardware(300));
        let medium = folder.path().join("media/300-media.iso");
        let told = format!("300 cp-1 BC:24:11:00:00:01 {}", medium.display());
        let plain = "300 cp-1 BC:24:11:00:00:01";
        let wanted = format!(
            "power-on {told}\npower-off {plain}\npower-off {plain}\nforget {plain}\npower-on {told}\n"
        );
        // However busy the machine is; the bound only ends a test that would hang.
        for _ in 0..12_000 {
            if std::fs::read_to_string(&log).unwrap_or_default().len() >= wanted.len() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), wanted);
        assert_eq!(std::fs::read(medium).unwrap(), b"an ISO");
        assert_eq!(outside.save().len(), 1);
    }

    #[tokio::test]
    async fn connections_to_a_machine_outside_are_passed_on() {
        use daedal_dial::Dial as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = daedal_dial::Target::new(address.ip().to_string(), address.port());
        let fabric = Fabric::default();
        assert!(fabric.dial(&target).await.is_err(), "the lab reaches nothing by itself");
        fabric.pass_on(&[address.ip()]);
        assert!(fabric.dial(&target).await.is_ok());
        fabric.keep(&[address.ip()]);
        assert!(fabric.dial(&target).await.is_err());
    }
}
