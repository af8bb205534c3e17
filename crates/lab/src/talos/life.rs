//! A machine's life: from power-on through configuration to its services, and through reboots to the end.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::config::MachineConfig;
use super::firmware::{self, Verdict};
use super::kubelet;
use super::media::{self, Cidata};
use super::node::{Node, Order, Stage};
use super::services;
use super::world::{Shared, chain};
use super::{apid, network};
use crate::image::SystemImage;
use crate::machine::Firmware;

/// What a boot ends in.
enum Next {
    Reboot,
    Off,
}

/// Runs a machine until the plug is pulled or it powers itself off.
pub(crate) async fn live(shared: Arc<Shared>, node: Arc<Node>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let power = node.power.clone();
    tokio::select! {
        () = power.cancelled() => {}
        () = boots(&shared, &node, &mut orders) => {}
    }
}

async fn boots(shared: &Arc<Shared>, node: &Arc<Node>, orders: &mut mpsc::UnboundedReceiver<Order>) {
    loop {
        let next = tokio::select! {
            next = obey(shared, node, orders) => next,
            () = boot(shared, node) => Next::Off,
        };
        shared.silence(node);
        node.resumed.store(false, Ordering::Relaxed);
        kubelet::mark_lost(shared, node);
        match next {
            Next::Reboot => {}
            Next::Off => {
                node.update(|s| {
                    s.stage = None;
                    s.halted = true;
                });
                if let Some(tell) = shared.halting.get() {
                    tell(node.vmid);
                }
                return;
            }
        }
    }
}

/// Waits for an order that ends this boot and carries it out.
async fn obey(shared: &Arc<Shared>, node: &Arc<Node>, orders: &mut mpsc::UnboundedReceiver<Order>) -> Next {
    let Some(order) = orders.recv().await else { return std::future::pending().await };
    let now = shared.pace.now();
    match order {
        Order::Reboot { actor } => {
            node.console("[talos] reboot via API received");
            services::sequence(node, "reboot", &actor, now);
            node.set_stage(Stage::Rebooting, now);
            services::stopping(node, &actor, now);
            shared.pass(node, shared.durations.stop).await;
            Next::Reboot
        }
        Order::Shutdown { actor } => {
            node.console("[talos] shutdown via API received");
            services::sequence(node, "shutdown", &actor, now);
            node.set_stage(Stage::ShuttingDown, now);
            services::stopping(node, &actor, now);
            shared.pass(node, shared.durations.stop).await;
            Next::Off
        }
        Order::Reset { actor, labels, whole_disk, graceful, reboot } => {
            node.console("[talos] reset request received");
            services::sequence(node, "reset", &actor, now);
            node.set_stage(Stage::Resetting, now);
            if graceful {
                shared.pass(node, shared.durations.leave).await;
                services::leave_etcd(shared, node);
            }
            services::stopping(node, &actor, shared.pace.now());
            shared.pass(node, shared.durations.stop).await;
            wipe(shared, node, &labels, whole_disk);
            if reboot { Next::Reboot } else { Next::Off }
        }
        Order::Upgrade { actor, image, stage } => {
            node.console(format!("[talos] upgrade to {} requested", image.version));
            services::sequence(node, "upgrade", &actor, now);
            node.set_stage(if stage { Stage::Rebooting } else { Stage::Upgrading }, now);
            services::stopping(node, &actor, now);
            shared.pass(node, shared.durations.install).await;
            install(shared, node, image);
            Next::Reboot
        }
    }
}

/// Puts a system on the disk.
pub(crate) fn install(shared: &Arc<Shared>, node: &Arc<Node>, image: SystemImage) {
    let Some(disk) = node.disk.as_deref() else { return };
    let running = { node.state().image.clone() };
    let mut world = shared.world();
    let saved = world.disks.entry(disk.to_owned()).or_default();
    saved.previous = running;
    saved.system = Some(SystemImage { installer: false, ..image });
    saved.wiped = false;
}

fn wipe(shared: &Arc<Shared>, node: &Arc<Node>, labels: &[String], whole_disk: bool) {
    let Some(disk) = node.disk.as_deref() else { return };
    let mut world = shared.world();
    let saved = world.disks.entry(disk.to_owned()).or_default();
    let hit = |label: &str| whole_disk || labels.iter().any(|l| l == label);
    if hit("EPHEMERAL") {
        saved.etcd = None;
        saved.recovery = None;
    }
    if hit("STATE") {
        saved.config = None;
        saved.network_config = None;
        saved.hostname = None;
    }
    if hit("META") {
        saved.meta.clear();
    }
    saved.wiped |= whole_disk;
    world.forget_empty_clusters();
}

/// One boot. Returns only when there is nothing to boot.
async fn boot(shared: &Arc<Shared>, node: &Arc<Node>) {
    let hardware = node.hardware();
    let now = shared.pace.now();
    let disk = node.disk.clone().unwrap_or_default();
    let boots = {
        let mut world = shared.world();
        if disk.is_empty() {
            0
        } else {
            let saved = world.disks.entry(disk.clone()).or_default();
            saved.boots += 1;
            saved.boots
        }
    };
    let digest = Sha256::digest(format!("{}/{}/{disk}/{boots}", shared.seed, hardware.uuid));
    let boot_id = digest.first_chunk::<16>().map(|b| uuid::Builder::from_random_bytes(*b).into_uuid());
    node.update(|s| {
        s.session = node.power.child_token();
        s.boot_id = boot_id.unwrap_or_default().to_string();
        s.booted_at = now;
        s.stage = Some(Stage::Booting);
        s.config = None;
        s.links.clear();
        // What a system told before it was booted again is gone with its memory.
        s.events.clear();
        s.serial = 0;
        s.boot_line = s.lines;
        s.etcd_left = false;
        s.versions.clear();
    });
    node.console("SeaBIOS / OVMF: booting");
    shared.pass(node, shared.durations.kernel).await;
    let Some(image) = bootable(shared, node) else {
        node.console("No bootable device.");
        return std::future::pending().await;
    };
    let Some(secure) = admitted(shared, node, &image).await else { return std::future::pending().await };
    node.console(format!("[    0.000000] Linux version 6.18.1-talos (Talos {})", image.version));
    node.console(format!("[talos] booting Talos {}", image.version));
    node.update(|s| {
        s.image = Some(image.clone());
        s.secure = secure;
    });
    for id in ["machined", "syslogd", "udevd"] {
        node.service(id, "Running", true, shared.pace.now());
    }

    let (config, cidata) = acquire(shared, node, &image).await;
    let config = Arc::new(config);
    if image.installer {
        node.set_stage(Stage::Installing, shared.pace.now());
        node.console("[talos] installing to disk");
        shared.pass(node, shared.durations.install).await;
        // What is installed is what the configuration names.
        let named = config.text_at("/machine/install/image");
        let named = named.and_then(|name| apid::machine::installer(name, &image, &*shared.schematics));
        install(shared, node, named.unwrap_or(image));
        // An installed machine boots from its disk.
        let _ = node.orders.send(Order::Reboot { actor: "install".into() });
        return std::future::pending().await;
    }
    settle_identity(shared, node, &config, cidata.as_ref());
    node.update(|s| s.config = Some(config.clone()));
    claim(shared, node).await;
    services::run(shared, node, &config).await;
}

/// Whether the firmware starts a system, and checked its signature; none when it does not start.
async fn admitted(shared: &Arc<Shared>, node: &Arc<Node>, image: &SystemImage) -> Option<bool> {
    let firmware = node.hardware().firmware;
    let mut verdict = firmware::judge(&firmware, image, &shared.world().enrolled);
    if let (Verdict::Enrolls, Firmware::Uefi { variables, .. }) = (verdict, &firmware) {
        node.console("systemd-boot: enrolling secure boot keys: auto");
        shared.world().enrolled.insert(variables.clone());
        shared.pass(node, shared.durations.kernel).await;
        verdict = firmware::judge(&firmware, image, &shared.world().enrolled);
    }
    match verdict {
        Verdict::Boots { secure } => Some(secure),
        Verdict::Enrolls => None,
        Verdict::Refused(why) => {
            node.console(why);
            None
        }
    }
}

fn bootable(shared: &Arc<Shared>, node: &Arc<Node>) -> Option<SystemImage> {
    let hardware = node.hardware();
    let world = shared.world();
    let saved = node.disk.as_deref().and_then(|d| world.disks.get(d));
    let wiped = saved.is_some_and(|s| s.wiped);
    let native = |image: &SystemImage| {
        matches!((image.arch.as_str(), hardware.machine.as_str()), ("amd64", "x86_64") | ("arm64", "aarch64"))
    };
    saved
        .and_then(|s| s.system.clone())
        .filter(|_| !wiped)
        .or_else(|| {
            let disk = hardware.disk.as_ref().filter(|_| !wiped)?;
            SystemImage::decode(&disk.image)
        })
        .or_else(|| media::installer(&hardware.cdroms))
        .filter(native)
}

/// Finds the machine's configuration: on its disk, on a cidata drive, or by waiting in maintenance mode.
async fn acquire(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    image: &SystemImage,
) -> (MachineConfig, Option<Cidata>) {
    let mut watch = node.watch();
    let mut broken = String::new();
    loop {
        watch.mark_unchanged();
        let cdroms = node.hardware().cdroms;
        let cidata = if image.platform == "nocloud" { media::cidata(&cdroms) } else { None };
        let stored = {
            let world = shared.world();
            node.disk.as_deref().and_then(|d| world.disks.get(d)?.config.clone())
        };
        let given = stored.map(Ok).or_else(|| cidata.as_ref()?.machine_config());
        let problem = match given {
            None => {
                maintenance(shared, node, cidata.as_ref(), image).await;
                continue;
            }
            Some(Ok(text)) => match MachineConfig::load(&text, &image.version) {
                Ok(config) => match apid::server_tls(shared, node, &config) {
                    Ok(_) => {
                        store_config(shared, node, &text);
                        return (config, cidata);
                    }
                    Err(error) => chain(&error),
                },
                Err(error) => chain(&error),
            },
            Some(Err(problem)) => problem,
        };
        if problem != broken {
            let event = daedal_talos_client::proto::machine::ConfigLoadErrorEvent { error: problem.clone() };
            node.event("machine.ConfigLoadErrorEvent", &event, "", shared.pace.now());
        }
        node.console(format!(
            "[talos] controller failed {{\"component\": \"controller-runtime\", \"controller\": \"config.AcquireController\", \"error\": \"error parsing platform config: {}\"}}",
            problem.replace('\n', "\\n")
        ));
        broken = problem;
        shared.pass(node, shared.durations.config_retry).await;
    }
}

/// Keeps a configuration on the STATE partition.
pub(crate) fn store_config(shared: &Arc<Shared>, node: &Arc<Node>, text: &str) {
    if let Some(disk) = node.disk.as_deref() {
        shared.world().disks.entry(disk.to_owned()).or_default().config = Some(text.to_owned());
    }
}

/// Serves maintenance mode until a configuration has been stored or the media change.
async fn maintenance(shared: &Arc<Shared>, node: &Arc<Node>, cidata: Option<&Cidata>, image: &SystemImage) {
    let hardware = node.hardware();
    let network_config = cidata.and_then(|c| c.network_config.clone());
    let mut links =
        network::configure(&hardware.macs, None, network_config.as_deref(), network::predictable(image));
    if let Some(meta) = meta_network(shared, node, image) {
        network::platform_resource(&mut links, &meta);
    }
    let leased = network::ask_dhcp(&mut links, &shared.fabric);
    let hostname = leased
        .or_else(|| cidata.and_then(Cidata::hostname))
        .unwrap_or_else(|| stable_hostname(&hardware.uuid));
    node.update(|s| {
        s.links = links;
        s.hostname = hostname;
    });
    shared.pass(node, shared.durations.maintenance).await;
    node.set_stage(Stage::Maintenance, shared.pace.now());
    node.console("[talos] entering maintenance service");
    let mut watch = node.watch();
    claim(shared, node).await;
    apid::serve_maintenance(shared, node);
    let media = hardware.cdroms;
    loop {
        watch.mark_unchanged();
        let configured = {
            let world = shared.world();
            node.disk.as_deref().and_then(|d| world.disks.get(d)).is_some_and(|d| d.config.is_some())
        };
        if configured || node.hardware().cdroms != media {
            break;
        }
        if watch.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    // The answer to who applied the configuration leaves before the listener goes.
    shared.pace.pass(std::time::Duration::from_millis(100)).await;
    shared.silence(node);
    node.update(|s| s.session = node.power.child_token());
    node.set_stage(Stage::Booting, shared.pace.now());
}

/// The network configuration in META, which only the metal platform reads.
fn meta_network(shared: &Arc<Shared>, node: &Arc<Node>, image: &SystemImage) -> Option<String> {
    const NETWORK: u8 = 0x0a;
    let written = {
        let world = shared.world();
        node.disk.as_deref().and_then(|disk| world.disks.get(disk)?.meta.get(&NETWORK).cloned())
    };
    written.or_else(|| image.meta.get(&NETWORK).cloned()).filter(|_| image.platform == "metal")
}

/// Network and hostname of a configured machine.
fn settle_identity(shared: &Arc<Shared>, node: &Arc<Node>, config: &MachineConfig, cidata: Option<&Cidata>) {
    let hardware = node.hardware();
    let (network_config, meta_hostname) = {
        let mut world = shared.world();
        let mut fallback = super::world::SavedDisk::default();
        let saved = match node.disk.as_deref() {
            Some(disk) => world.disks.entry(disk.to_owned()).or_default(),
            None => &mut fallback,
        };
        // What the platform said is kept on the disk for boots without the drive.
        if let Some(cidata) = cidata {
            saved.network_config = cidata.network_config.clone();
            saved.hostname = cidata.hostname();
        }
        (saved.network_config.clone(), saved.hostname.clone())
    };
    let image = { node.state().image.clone() };
    let predictable = image.as_ref().is_some_and(network::predictable);
    let mut links = network::configure(&hardware.macs, Some(config), network_config.as_deref(), predictable);
    // What the platform says counts only where the configuration says nothing.
    if links.iter().all(|link| link.addresses.is_empty())
        && let Some(meta) = image.and_then(|image| meta_network(shared, node, &image))
    {
        network::platform_resource(&mut links, &meta);
    }
    // A name that comes with a lease goes before the platform's.
    let leased = network::ask_dhcp(&mut links, &shared.fabric);
    let hostname = config
        .hostname()
        .map(str::to_owned)
        .or(leased)
        .or(meta_hostname)
        .unwrap_or_else(|| stable_hostname(&hardware.uuid));
    node.update(|s| {
        s.links = links;
        s.hostname = hostname;
    });
}

/// The name a machine gives itself, from its uuid.
pub(crate) fn stable_hostname(uuid: &str) -> String {
    let digest = Sha256::digest(uuid.to_ascii_lowercase());
    let letters: Vec<char> =
        digest.iter().map(|b| char::from_digit(u32::from(*b) % 36, 36).unwrap_or('a')).collect();
    format!("talos-{}-{}", letters[..3].iter().collect::<String>(), letters[3..6].iter().collect::<String>())
}

/// Puts the machine's address on the network; waits while another machine has it.
async fn claim(shared: &Arc<Shared>, node: &Arc<Node>) {
    let mut world_changes = shared.watch();
    let mut told = None;
    loop {
        world_changes.mark_unchanged();
        let address: Option<IpAddr> =
            { node.state().links.iter().flat_map(|l| &l.addresses).next().map(|net| net.addr()) };
        let Some(address) = address else {
            node.console("[talos] no addresses on any link: waiting for the network");
            return;
        };
        let holder = {
            let mut world = shared.world();
            match world.addresses.get(&address).copied().filter(|holder| *holder != node.vmid) {
                Some(holder) => Some(holder),
                None => {
                    world.addresses.insert(address, node.vmid);
                    None
                }
            }
        };
        let Some(holder) = holder else {
            node.update(|s| s.address = Some(address));
            node.console(format!("[talos] assigned address {address}"));
            return;
        };
        if told != Some(holder) {
            tracing::warn!(vmid = node.vmid, holder, %address, "lab: two machines want the same address");
            node.console(format!(
                "[talos] duplicate address detected: {address} is in use by another machine"
            ));
            told = Some(holder);
        }
        if world_changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
