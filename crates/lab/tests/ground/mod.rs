//! Machines on a network, without a hypervisor, and the secrets and media to boot them with.
#![allow(dead_code, missing_docs, reason = "each test file uses its own part")]

use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_lab::faults::Faults;
use daedal_lab::{
    Disk, Durations, Fabric, Format, Ground, Guests as _, Hardware, Machines, Pace, SavedMachines,
    SystemImage,
};
use daedal_talos_client::{Client, ConnectOptions};
use daedal_talos_config::nocloud::Cidata;
use daedal_talos_config::{
    ApiRole, ClientCredentials, ClusterOptions, DEFAULT_LIFETIME, Link, MachineConfig, NodeOptions, Role,
    Route, SecretsBundle,
};
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub const EPOCH: i64 = 1_794_768_000;

pub fn moment() -> Timestamp {
    Timestamp::from_second(EPOCH).unwrap()
}

pub struct Cluster {
    pub secrets: SecretsBundle,
    pub options: ClusterOptions,
    pub vip: Option<std::net::IpAddr>,
}

impl Cluster {
    pub fn new(seed: u64) -> Self {
        let secrets =
            SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(seed), moment(), 1024).unwrap();
        let options = ClusterOptions::new("home", "https://10.0.0.20:6443", "v1.12.0", "v1.35.0");
        Self { secrets, options, vip: Some("10.0.0.20".parse().unwrap()) }
    }

    pub fn config(&self, role: Role, name: &str, last: u8) -> MachineConfig {
        let mut node = NodeOptions::new(role, name);
        node.links = vec![Link {
            addresses: vec![format!("{}/16", address(last)).parse().unwrap()],
            routes: vec![Route { destination: None, gateway: "10.0.0.1".parse().unwrap(), metric: None }],
            ..Link::new(mac(last).parse().unwrap())
        }];
        node.vip = self.vip.filter(|_| role == Role::ControlPlane);
        MachineConfig::generate(&self.secrets, &self.options, &node).unwrap()
    }

    pub fn iso(&self, role: Role, name: &str, last: u8) -> Vec<u8> {
        Cidata::new(&self.config(role, name, last), name).to_iso().unwrap().to_vec()
    }

    pub fn credentials(&self) -> ClientCredentials {
        let mut rng = StdRng::seed_from_u64(7);
        self.secrets.client_credentials(ApiRole::Admin, DEFAULT_LIFETIME, &mut rng, moment()).unwrap()
    }
}

pub fn mac(last: u8) -> String {
    format!("BC:24:11:00:00:{last:02X}")
}

pub fn address(last: u8) -> String {
    format!("10.0.0.{last}")
}

/// A machine with its medium, by a number that may be greater than 255.
pub fn numbered(cluster: &Cluster, role: Role, name: &str, number: u16) -> Hardware {
    let [high, low] = number.to_be_bytes();
    let mac = format!("BC:24:11:00:{high:02X}:{low:02X}");
    let mut node = NodeOptions::new(role, name);
    node.links = vec![Link {
        addresses: vec![format!("10.0.{high}.{low}/16").parse().unwrap()],
        ..Link::new(mac.parse().unwrap())
    }];
    node.vip = cluster.vip.filter(|_| role == Role::ControlPlane);
    let config = MachineConfig::generate(&cluster.secrets, &cluster.options, &node).unwrap();
    let mut hardware = hardware(low, vec![Cidata::new(&config, name).to_iso().unwrap().to_vec()]);
    hardware.vmid = u32::from(number);
    hardware.macs = vec![mac];
    hardware.uuid = format!("00000000-0000-4000-8000-00000000{number:04x}");
    hardware.disk = hardware.disk.map(|disk| Disk { identity: format!("disk-{number}"), ..disk });
    hardware
}

pub fn image(version: &str) -> SystemImage {
    SystemImage {
        version: version.into(),
        schematic: "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515".into(),
        platform: "nocloud".into(),
        arch: "amd64".into(),
        extensions: vec!["siderolabs/qemu-guest-agent".into()],
        kernel_args: vec![],
        installer: false,
        secure_boot: false,
        meta: Default::default(),
    }
}

pub fn hardware(last: u8, cdroms: Vec<Vec<u8>>) -> Hardware {
    Hardware {
        vmid: 300 + u32::from(last),
        name: format!("vm-{last}"),
        host: "atlas".into(),
        uuid: format!("00000000-0000-4000-8000-0000000000{last:02x}"),
        machine: "x86_64".into(),
        macs: vec![mac(last)],
        cores: 4,
        memory: 8 << 30,
        disk: Some(Disk {
            identity: format!("disk-{last}"),
            image: image("v1.12.0").encode(Format::Qcow2),
            size: 40 << 30,
        }),
        cdroms,
        agent: true,
        firmware: Default::default(),
    }
}

pub struct Lab {
    pub fabric: Fabric,
    pub pace: Pace,
    pub faults: Faults,
    pub machines: Machines,
}

impl Lab {
    pub fn new() -> Self {
        Self::with(1.0, SavedMachines::default())
    }

    pub fn with(speed: f64, saved: SavedMachines) -> Self {
        let fabric = Fabric::default();
        let (pace, faults) = (Pace::new(speed, EPOCH), Faults::default());
        let ground = Ground {
            fabric: fabric.clone(),
            pace,
            durations: Durations::default(),
            faults: faults.clone(),
            seed: 1,
            factory: None,
        };
        let machines = Machines::new(ground, saved).unwrap();
        Self { fabric, pace, faults, machines }
    }

    pub fn dialer(&self) -> Dialer {
        Arc::new(self.fabric.clone())
    }

    pub fn boot(&self, cluster: &Cluster, role: Role, name: &str, last: u8) {
        self.machines.power_on(hardware(last, vec![cluster.iso(role, name, last)]));
    }

    pub fn answers(&self, last: u8, port: u16) -> bool {
        self.fabric.targets().contains(&Target::new(address(last), port))
    }

    /// Waits until something answers, and says how long that took.
    pub async fn wait(&self, host: &str, port: u16) -> Duration {
        let start = tokio::time::Instant::now();
        let target = Target::new(host, port);
        let mut changes = self.fabric.changes();
        tokio::time::timeout(Duration::from_secs(600), async {
            while !self.fabric.targets().contains(&target) {
                changes.changed().await.unwrap();
            }
        })
        .await
        .unwrap_or_else(|_| panic!("nothing ever answers on {target}"));
        start.elapsed()
    }

    pub async fn client(&self, cluster: &Cluster, last: u8) -> Client {
        self.wait(&address(last), 50000).await;
        let target = Target::new(address(last), 50000);
        Client::connect(self.dialer(), target, &cluster.credentials(), &options()).await.unwrap()
    }

    /// Bootstraps as soon as it is possible.
    pub async fn bootstrap(&self, client: &Client) {
        for _ in 0..100 {
            if client.bootstrap().await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("bootstrap is never accepted");
    }
}

pub fn options() -> ConnectOptions {
    ConnectOptions { clock: Some(Arc::new(moment)), ..ConnectOptions::default() }
}

/// Waits until a machine says that it is ready.
pub async fn until_ready(client: &Client) -> Duration {
    use futures::StreamExt as _;
    let start = tokio::time::Instant::now();
    let mut events = client.watch_machine_status().await.unwrap();
    loop {
        let status = events.next().await.unwrap().unwrap();
        if status.stage == "running" && status.ready {
            return start.elapsed();
        }
    }
}
