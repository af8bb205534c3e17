//! A bench: one lab, one inventory, one store, and as many engines as processes that come and go.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use daedal_dial::{Dialer, Routes, Target};
use daedal_engine::{
    AccountReport, Accounts, Clock, Effect, EffectKind, Effects, Engine, Entropy, Gate, HostFiles, Limits,
    NoFiles, Parts, Report, Run, StepState, Verdict,
};
use daedal_inventory::{Cluster, Source, load};
use daedal_lab::proxmox::{Datacenter, DatacenterSpec, HostSpec, TokenSpec};
use daedal_lab::{Dhcp, Lab, LabSpec, Pace};
use daedal_planner::{
    Account, AccountStep, Plan, PlanError, Secret, World, plan_account, plan_apply, plan_destroy,
};
use daedal_proxmox::{CallCounter, Client, Counts, Observer, Token, Trust};
use daedal_store::Store;
use daedal_talos_client::{Client as TalosClient, ConnectOptions, Reset, WipedPartition};
use daedal_talos_config::{ApiRole, SecretsBundle};
use futures::future::BoxFuture;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Notify, OnceCell};

pub const TOKEN: &str = "daedal@pve!cli";
pub const CANARY: &str = "c0ffee00-cafe-4bad-8bad-decafc0ffee0";
pub const EPOCH: i64 = 1_790_000_000;

/// A way to boot, and the network it happens on.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// `boot:` as the inventory says it.
    pub boot: &'static str,
    /// Who gives out addresses.
    pub dhcp: Giving,
}

/// What the network's DHCP server gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giving {
    /// There is none.
    Nothing,
    /// To every node the address that is declared for it.
    Reserved,
    /// Any address.
    Any,
}

impl Way {
    pub const USUAL: Self = Self { boot: "{}", dhcp: Giving::Nothing };
    pub const fn new(boot: &'static str, dhcp: Giving) -> Self {
        Self { boot, dhcp }
    }
}

/// A whole test bench.
pub struct Bench {
    pub lab: Lab,
    pub cluster: Cluster,
    pub folder: tempfile::TempDir,
    pub counter: Arc<CallCounter>,
}

/// The files of the lab's first host, as whoever logs in there sees them.
struct OnFirstHost(Datacenter);

impl HostFiles for OnFirstHost {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Option<Vec<u8>>>> {
        let read = self.0.read_file(&self.0.first_host(), path);
        Box::pin(std::future::ready(Ok(read.ok())))
    }

    fn write<'a>(&'a self, path: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, std::io::Result<()>> {
        let written = self.0.write_file(&self.0.first_host(), path, bytes.to_vec());
        Box::pin(std::future::ready(written.map_err(|error| std::io::Error::other(format!("{error:?}")))))
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<()>> {
        let removed = self.0.remove_file(&self.0.first_host(), path);
        Box::pin(std::future::ready(removed.map_err(|error| std::io::Error::other(format!("{error:?}")))))
    }
}

impl Bench {
    /// A lab with two hosts and an inventory of so many nodes.
    pub fn new(control_planes: usize, workers: usize) -> Self {
        Self::with(control_planes, workers, |_| {})
    }

    /// The same with a changed datacenter.
    pub fn with(control_planes: usize, workers: usize, change: impl FnOnce(&mut DatacenterSpec)) -> Self {
        Self::on(Way::USUAL, control_planes, workers, change)
    }

    /// The same whose nodes boot another way.
    pub fn booting(way: Way, control_planes: usize, workers: usize) -> Self {
        Self::on(way, control_planes, workers, |_| {})
    }

    /// A lab for one way to boot.
    pub fn on(
        way: Way,
        control_planes: usize,
        workers: usize,
        change: impl FnOnce(&mut DatacenterSpec),
    ) -> Self {
        Self::made(way, control_planes, workers, LabSpec::default().factories, change)
    }

    /// One control plane and one worker where only these factories answer.
    pub fn with_factories(factories: Vec<String>) -> Self {
        Self::made(Way::USUAL, 1, 1, factories, |_| {})
    }

    fn made(
        way: Way,
        control_planes: usize,
        workers: usize,
        factories: Vec<String>,
        change: impl FnOnce(&mut DatacenterSpec),
    ) -> Self {
        let cluster = cluster_booting(way.boot, control_planes, workers);
        let mut datacenter = DatacenterSpec {
            hosts: vec![HostSpec::new("atlas", 64, 256 << 30), HostSpec::new("boreas", 64, 256 << 30)],
            tokens: vec![TokenSpec::minimal(TOKEN, CANARY)],
            ..DatacenterSpec::default()
        };
        if cluster.boot.by_snippet() {
            let storages = datacenter.hosts.iter_mut().flat_map(|host| &mut host.storages);
            for storage in storages.filter(|storage| storage.kind == "dir") {
                storage.content.push("snippets".into());
            }
        }
        change(&mut datacenter);
        let dhcp = match way.dhcp {
            Giving::Nothing => None,
            Giving::Reserved => Some(Dhcp::reserved(
                cluster.nodes.iter().filter_map(|node| Some((node.mac.clone(), node.address?))),
            )),
            Giving::Any => Some(Dhcp::from("10.0.9.1/16".parse().unwrap())),
        };
        let lab =
            Lab::new(LabSpec { datacenter, factories, epoch: EPOCH, dhcp, ..LabSpec::default() }).unwrap();
        Self { lab, cluster, folder: tempfile::tempdir().unwrap(), counter: Arc::new(CallCounter::new()) }
    }

    /// The bench of one control plane and one worker, both up. The first caller makes it; the others get a copy.
    pub async fn created() -> Self {
        static SAVED: OnceCell<tempfile::TempDir> = OnceCell::const_new();
        let saved = SAVED
            .get_or_init(|| async {
                let bench = Self::new(1, 1);
                assert_done(&bench.apply().await, "apply");
                bench.lab.save(bench.folder.path()).unwrap();
                bench.folder
            })
            .await;
        Self::load(saved.path(), cluster(1, 1), 0)
    }

    /// The same bench, so many days after it was made.
    pub async fn created_days_ago(days: i64) -> Self {
        let made = Self::created().await;
        Self::load(made.folder.path(), made.cluster.clone(), days)
    }

    /// The bench of three control planes and two workers, all up. The first caller makes it; the others get a copy.
    pub async fn created_large() -> Self {
        static SAVED: OnceCell<tempfile::TempDir> = OnceCell::const_new();
        let saved = SAVED
            .get_or_init(|| async {
                let bench = Self::new(3, 2);
                assert_done(&bench.apply().await, "apply");
                bench.lab.save(bench.folder.path()).unwrap();
                bench.folder
            })
            .await;
        Self::load(saved.path(), cluster(3, 2), 0)
    }

    /// Another bench like this one, from what was last saved in its folder.
    pub fn copy(&self) -> Self {
        Self::load(self.folder.path(), self.cluster.clone(), 0)
    }

    fn load(saved: &Path, cluster: Cluster, days_later: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(saved, folder.path());
        let lab = Lab::load(folder.path(), 1.0, EPOCH + days_later * 86_400, None).unwrap().unwrap();
        Self { lab, cluster, folder, counter: Arc::new(CallCounter::new()) }
    }

    /// A new process on this bench.
    pub fn engine(&self) -> Engine {
        self.engine_through(Effects::default())
    }

    /// A new process whose effects pass a gate.
    pub fn engine_through(&self, effects: Effects) -> Engine {
        self.engine_over(self.lab.dialer(), effects)
    }

    /// A new process that reaches the lab over this network.
    pub fn engine_over(&self, network: Dialer, effects: Effects) -> Engine {
        self.engine_watched(network, effects, self.counter.clone())
    }

    /// The same whose calls to Proxmox somebody else watches.
    pub fn engine_watched(&self, network: Dialer, effects: Effects, observer: Arc<dyn Observer>) -> Engine {
        Engine::new(self.parts(network, effects, observer))
    }

    /// A new process with this store, and whatever it has locked.
    pub fn engine_on(&self, store: Store, effects: Effects) -> Engine {
        Engine::new(Parts { store, ..self.parts(self.lab.dialer(), effects, self.counter.clone()) })
    }

    /// Somebody else's process on the same datacenter, with a store and secrets of its own.
    pub fn rival(&self, folder: &Path, effects: Effects) -> Engine {
        let keys = daedal_store::Keyring::in_file(folder.join("key.txt"));
        keys.make().unwrap();
        let uuid = self.cluster.uuid.to_string();
        Engine::new(Parts {
            store: Store::in_folder(folder.join("store"), &self.cluster.name, uuid, keys),
            outputs: folder.join("outputs"),
            new_secrets: Arc::new(|_, _| {
                let cluster_secret =
                    daedal_talos_config::Secret::new("cml2YWwgcml2YWwgcml2YWwgcml2YWwgcml2YWwhISE=");
                Ok(SecretsBundle { cluster_secret, ..secrets().clone() })
            }),
            author: "rival@mill".into(),
            ..self.parts(self.lab.dialer(), effects, self.counter.clone())
        })
    }

    /// What an engine for another cluster in the same datacenter is made of: a store and secrets of its own, and everything else
    /// as these parts.
    pub fn beside(parts: &Parts, cluster: &Cluster, folder: &Path) -> Parts {
        let keys = daedal_store::Keyring::in_file(folder.join("key.txt"));
        keys.make().unwrap();
        Parts {
            store: Store::in_folder(folder.join("store"), &cluster.name, cluster.uuid.to_string(), keys),
            outputs: folder.join("outputs"),
            new_secrets: Arc::new(|rng, now| SecretsBundle::generate_with_key_size(rng, now, 1024)),
            entropy: Entropy::from_seed([8; 32]),
            ..parts.clone()
        }
    }

    /// What an engine for this bench is made of.
    pub fn parts(&self, network: Dialer, effects: Effects, observer: Arc<dyn Observer>) -> Parts {
        let trust = Trust::Ca(self.lab.pki().ca_pem().to_owned());
        let token = Token::new(&self.cluster.proxmox.token_id, CANARY).unwrap();
        let proxmox = Client::builder(&self.cluster.proxmox.endpoint, token)
            .dialer(network.clone())
            .trust(trust.clone())
            .observer(observer)
            .build()
            .unwrap();
        let factory =
            daedal_image_factory::Factory::new(&self.cluster.talos.factory, network.clone(), &trust).unwrap();
        Parts {
            proxmox,
            factory,
            routes: Routes::same(network),
            host_files: Some(Arc::new(OnFirstHost(self.lab.datacenter().clone()))),
            store: self.store(),
            outputs: self.outputs(),
            author: "tester@bench".into(),
            clock: Arc::new(LabClock(self.lab.pace())),
            entropy: Entropy::from_seed([7; 32]),
            new_secrets: Arc::new(|_, _| Ok(secrets().clone())),
            effects,
            addons: Arc::new(NoFiles),
            limits: Limits::default(),
        }
    }

    pub fn store(&self) -> Store {
        let keys = daedal_store::Keyring::in_file(self.folder.path().join("key.txt"));
        keys.make().unwrap();
        Store::in_folder(
            self.folder.path().join("store"),
            &self.cluster.name,
            self.cluster.uuid.to_string(),
            keys,
        )
    }

    pub fn outputs(&self) -> PathBuf {
        self.folder.path().join("outputs")
    }

    /// What a new process sees and would do.
    pub async fn look(&self) -> (World, Result<Plan, PlanError>) {
        let engine = self.engine();
        let world = engine.observe(&self.cluster).await.unwrap();
        let plan = plan_apply(&self.cluster, &engine.images(&self.cluster), &world);
        (world, plan)
    }

    /// `apply` in a new process. An error is one that ends the run before it begins.
    pub async fn apply_through(&self, effects: Effects) -> Result<Report, daedal_engine::Error> {
        let engine = self.engine_through(effects);
        let world = engine.observe(&self.cluster).await?;
        let plan = plan_apply(&self.cluster, &engine.images(&self.cluster), &world)
            .unwrap_or_else(|error| panic!("no plan: {error}\n{world:#?}"));
        engine.execute(&self.cluster, &world, &plan, &Run::silent()).await
    }

    pub async fn apply(&self) -> Report {
        self.apply_through(Effects::default()).await.unwrap()
    }

    /// `destroy` in a new process.
    pub async fn destroy_through(&self, effects: Effects) -> Result<Report, daedal_engine::Error> {
        let engine = self.engine_through(effects);
        let world = engine.observe(&self.cluster).await?;
        let plan = plan_destroy(&self.cluster, &world).unwrap();
        engine.execute(&self.cluster, &world, &plan, &Run::silent()).await
    }

    /// A plan that somebody made from a look, executed in a new process.
    pub async fn execute(&self, world: &World, plan: &Plan) -> Report {
        self.engine().execute(&self.cluster, world, plan, &Run::silent()).await.unwrap()
    }

    pub async fn destroy(&self) -> Report {
        self.destroy_through(Effects::default()).await.unwrap()
    }

    /// Everything is as declared, and nothing else was left behind.
    pub async fn assert_converged(&self, after: &str) {
        let (world, plan) = self.look().await;
        let plan = plan.unwrap_or_else(|error| panic!("{after}: no plan: {error}"));
        assert!(plan.is_empty(), "{after}: something is left to do: {:#?}\n{:#?}", plan.steps, world.nodes);
        let mut expected: Vec<(u32, &str, bool)> =
            self.cluster.nodes.iter().map(|node| (node.vmid, node.name.as_str(), true)).collect();
        expected.sort_unstable();
        let vms = self.vms();
        let found: Vec<(u32, &str, bool)> = vms.iter().map(|vm| (vm.0, vm.2.as_str(), vm.3)).collect();
        assert_eq!(found, expected, "{after}: the VMs");
        self.assert_no_orphans(after);
        assert_eq!(self.bootstraps(), 1, "{after}: etcd was bootstrapped that many times");
        assert_eq!(
            self.stored_secrets(),
            Some(secrets().to_yaml().expose().to_owned()),
            "{after}: the secrets"
        );
    }

    /// The VMs that are no templates of ours.
    pub fn vms(&self) -> Vec<(u32, String, String, bool)> {
        let template = |name: &str| name.starts_with("talos-v");
        self.lab.datacenter().vms().into_iter().filter(|vm| !template(&vm.2)).collect()
    }

    /// Nothing of the cluster but the image is on the storages.
    pub fn assert_destroyed(&self, after: &str) {
        assert_eq!(self.vms(), [], "{after}: the VMs");
        self.assert_no_orphans(after);
    }

    /// The same where every VM has so many disks.
    pub fn assert_destroyed_with(&self, after: &str, disks: usize) {
        assert_eq!(self.vms(), [], "{after}: the VMs");
        self.assert_no_orphans_with(after, disks);
    }

    /// Every volume is an image, or a disk of a VM that exists: two each (system and EFI).
    pub fn assert_no_orphans(&self, after: &str) {
        self.assert_no_orphans_with(after, 2);
    }

    fn assert_no_orphans_with(&self, after: &str, each: usize) {
        let vms: Vec<u32> = self.lab.datacenter().vms().iter().map(|vm| vm.0).collect();
        let volumes = self.lab.datacenter().volumes();
        let disks = volumes.iter().filter(|volume| volume.contains("-disk-")).count();
        // What somebody put there for the inventory to name is theirs.
        let named = self.cluster.boot.iso.as_deref().map(|volume| volume.replace("local:", ""));
        let others: Vec<&String> = volumes
            .iter()
            .filter(|volume| !named.as_ref().is_some_and(|named| volume.ends_with(named)))
            .filter(|volume| !["-disk-", "/talos-v"].iter().any(|known| volume.contains(known)))
            // A cloud-init drive belongs to its VM like its disks.
            .filter(|volume| !vms.iter().any(|vmid| volume.ends_with(&format!(":vm-{vmid}-cloudinit"))))
            .collect();
        assert!(others.is_empty(), "{after}: left behind: {others:?}");
        let there = self.cluster.nodes.iter().filter(|node| vms.contains(&node.vmid));
        let more: usize = there.map(|node| node.disks.len()).sum();
        assert_eq!(disks, each * vms.len() + more, "{after}: disks of {vms:?}: {volumes:?}");
    }

    /// A client of a node's own API.
    pub async fn talos(&self, node: &str) -> TalosClient {
        let node = self.cluster.node(node).unwrap();
        let (rng, from) = (&mut StdRng::seed_from_u64(3), Timestamp::from_second(EPOCH - 60).unwrap());
        let lifetime = jiff::SignedDuration::from_hours(24);
        let credentials = secrets().client_credentials(ApiRole::Admin, lifetime, rng, from).unwrap();
        let pace = self.lab.pace();
        let now: daedal_talos_client::Clock = Arc::new(move || Timestamp::from_second(pace.now()).unwrap());
        let options = ConnectOptions { clock: Some(now), ..ConnectOptions::default() };
        let target = Target::new(node.ip().unwrap().to_string(), 50_000);
        TalosClient::connect(self.lab.dialer(), target, &credentials, &options).await.unwrap()
    }

    /// A node loses its config and its data, and boots again.
    pub async fn reset(&self, node: &str) {
        let client = self.talos(node).await;
        let mut reset = Reset::partitions(WipedPartition::State, [WipedPartition::Ephemeral]);
        reset.reboot = true;
        client.reset(&reset).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    }

    /// How many etcd clusters were ever bootstrapped in the lab.
    pub fn bootstraps(&self) -> u64 {
        let saved = serde_json::to_value(self.lab.machines().save()).unwrap();
        saved["last_cluster"].as_u64().unwrap()
    }

    pub fn stored_secrets(&self) -> Option<String> {
        let path = self.store().place().join("secrets.yaml.age");
        let sealed = self.store().keys().decrypt(&path, &std::fs::read(&path).ok()?).unwrap();
        let text = std::str::from_utf8(sealed.expose()).unwrap();
        Some(text.split_once('\n').unwrap().1.to_owned())
    }

    pub fn counts(&self) -> Counts {
        self.counter.counts()
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The inventory of a bench.
pub fn cluster(control_planes: usize, workers: usize) -> Cluster {
    cluster_of("{}", control_planes, workers, "")
}

/// The inventory of a bench whose nodes boot in some way.
pub fn cluster_booting(boot: &str, control_planes: usize, workers: usize) -> Cluster {
    cluster_of(boot, control_planes, workers, "")
}

/// The inventory of a bench with more in its `spec`: lines indented by two.
pub fn cluster_with(control_planes: usize, workers: usize, more: &str) -> Cluster {
    cluster_of("{}", control_planes, workers, more)
}

/// The inventory of another cluster for the same datacenter.
pub fn other_cluster(control_planes: usize, workers: usize) -> Cluster {
    let mut text = text_of("{}", control_planes, workers, "");
    for (home, away) in [
        ("name: home", "name: away"),
        ("vmid: 300", "vmid: 2300"),
        ("vmid: 1000", "vmid: 3000"),
        ("address: 10.0.1.1", "address: 10.0.11.1"),
        ("address: 10.0.2.1", "address: 10.0.12.1"),
        ("vip: 10.0.0.20", "vip: 10.0.0.30"),
    ] {
        text = text.replace(home, away);
    }
    cluster_from(text)
}

fn cluster_of(boot: &str, control_planes: usize, workers: usize, more: &str) -> Cluster {
    let mut text = text_of(boot, control_planes, workers, more);
    if boot.contains("snippet") {
        // They are put on the one host that the SSH server is.
        text = text.replace("hosts: [atlas, boreas]", "hosts: [atlas]");
        text.push_str("  reach: {ssh: {host: atlas.lan, user: root}}\n");
    }
    cluster_from(text)
}

fn text_of(boot: &str, control_planes: usize, workers: usize, more: &str) -> String {
    let worker_pool = if workers == 0 {
        String::new()
    } else {
        format!(
            "    - {{name: worker, role: worker, count: {workers}, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 1000, \
             address: 10.0.2.1}}\n"
        )
    };
    format!(
        "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: home}}
spec:
  environment: lab
  talos: {{version: v1.12.0, extensions: [qemu-guest-agent]}}
  kubernetes: {{version: v1.35.0}}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: \"{TOKEN}\", secret: {{env: X}}}}
    tls: {{insecure: true}}
    hosts: [atlas, boreas]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, dns: [1.1.1.1], vip: 10.0.0.20}}
  boot: {boot}
  pools:
    - {{name: cp, role: controlplane, count: {control_planes}, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 300, address: 10.0.1.1}}
{worker_pool}{more}"
    )
}

/// The inventory in a text.
pub fn cluster_from(text: String) -> Cluster {
    let source = Source { name: "cluster.yaml".into(), text };
    let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    load(&[source], &no_files).unwrap_or_else(|errors| panic!("{errors:?}")).cluster
}

/// One bundle for all tests: keys take time to make.
pub fn secrets() -> &'static SecretsBundle {
    static SECRETS: OnceLock<SecretsBundle> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let now = Timestamp::from_second(EPOCH - 3600).unwrap();
        SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(1), now, 1024).unwrap()
    })
}

/// The lab's time is everybody's time.
struct LabClock(Pace);

impl Clock for LabClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.now()).unwrap()
    }
}

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Before,
    After,
}

/// A gate that lets the n-th effect (from 1) of those it is after never return.
pub struct Killer {
    after: Box<dyn Fn(&Effect) -> bool + Send + Sync>,
    nth: usize,
    point: Point,
    seen: Mutex<Vec<Effect>>,
    reached: Notify,
}

impl Killer {
    fn new(after: impl Fn(&Effect) -> bool + Send + Sync + 'static, nth: usize, point: Point) -> Arc<Self> {
        let (seen, reached) = (Mutex::default(), Notify::new());
        Arc::new(Self { after: Box::new(after), nth, point, seen, reached })
    }

    /// Kills at the n-th effect.
    pub fn nth(nth: usize, point: Point) -> Arc<Self> {
        Self::new(|_| true, nth, point)
    }

    /// Kills at the n-th effect of a kind.
    pub fn of_kind(kind: EffectKind, nth: usize, point: Point) -> Arc<Self> {
        Self::new(move |effect| effect.kind == kind, nth, point)
    }

    /// Kills at this very effect, the first time.
    pub fn at(effect: &Effect, point: Point) -> Arc<Self> {
        let wanted = effect.clone();
        Self::new(move |effect| *effect == wanted, 1, point)
    }

    /// Kills nobody; only takes note.
    pub fn never() -> Arc<Self> {
        Self::new(|_| false, 1, Point::Before)
    }

    /// The effects so far.
    pub fn seen(&self) -> Vec<Effect> {
        self.seen.lock().unwrap().clone()
    }

    /// The effect at which it kills, once it was reached.
    pub fn victim(&self) -> Option<Effect> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|effect| (self.after)(effect)).nth(self.nth - 1).cloned()
    }

    /// Runs a process until it ends or is killed. None: it was killed.
    pub async fn run<T>(self: &Arc<Self>, process: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            ended = process => Some(ended),
            () = self.reached.notified() => None,
        }
    }

    fn pass(&self, effect: &Effect, point: Point) -> Verdict<'_> {
        // The n-th is the last one seen when it arrives, and known by its subject when it returns.
        let here = point == self.point && self.victim().as_ref() == Some(effect);
        Box::pin(async move {
            if here {
                self.reached.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

impl Gate for Killer {
    fn before<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
        self.seen.lock().unwrap().push(effect.clone());
        self.pass(effect, Point::Before)
    }

    fn after<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
        self.pass(effect, Point::After)
    }
}

/// Every step of the report is done.
pub fn assert_done(report: &Report, what: &str) {
    let bad: Vec<_> = report.steps.iter().filter(|step| !step.state.is_done()).collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
}

/// The errors of a report, for messages.
pub fn errors(report: &Report) -> Vec<String> {
    report
        .steps
        .iter()
        .filter_map(|step| match &step.state {
            StepState::Failed { error, .. } => Some(format!("{:?} {}: {error}", step.node, step.stage)),
            _ => None,
        })
        .collect()
}

/// Why an account is not as it should be.
#[derive(Debug)]
pub enum AccountTrouble {
    /// No plan could be made.
    Plan(PlanError),
    /// It was not carried out.
    Run(daedal_engine::Error),
}

/// Looks at an account, and makes it what it should be: the steps that it took.
pub async fn ensure(
    account: &Account,
    admin: &daedal_proxmox::Client,
    effects: &Effects,
    secret: Secret,
    keep: impl AsyncFn(&daedal_proxmox::NewToken) -> std::io::Result<()>,
) -> Result<Vec<AccountStep>, AccountTrouble> {
    let accounts = Accounts { admin, effects, store: None, clock: Arc::new(daedal_engine::SystemClock) };
    let view = accounts.look(account).await.map_err(AccountTrouble::Run)?;
    let plan = plan_account(account, &view, secret).map_err(AccountTrouble::Plan)?;
    let report = accounts.execute((account, &view, secret), &plan, keep).await;
    match report.map_err(AccountTrouble::Run)? {
        AccountReport { failure: Some(error), .. } => Err(AccountTrouble::Run(error)),
        AccountReport { done, failure: None } => {
            assert_eq!(done, plan.steps.len());
            Ok(plan.steps)
        }
    }
}
