//! Our secrets, configs and patches against Talos' own library and talosctl.
//!
//! Runs only when `DAEDAL_PEERS` names the folder with the built peers (`cargo xtask conformance talos`).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use daedal_talos::{
    SecretsBundle, Talosconfig,
    config::{
        ClusterOptions, Cni, Discovery, Install, Link, MachineConfig, NodeOptions, Patch, RegistryMirror,
        Role, Route,
    },
};
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value as Json, json};

/// Talos' library at these versions, with the contract that each is asked for.
const TOOLS: [(&str, &str, &str); 6] = [
    ("v1.12.4", "v1.8", "v1.31.0"),
    ("v1.12.4", "v1.9", "v1.32.0"),
    ("v1.12.4", "v1.10", "v1.33.0"),
    ("v1.12.4", "v1.11", "v1.34.0"),
    ("v1.12.4", "v1.12", "v1.35.0"),
    ("v1.13.0", "v1.13", "v1.36.0"),
];

/// Those whose network is in documents, which the patches here are for.
const WITH_DOCUMENTS: &[(&str, &str, &str)] = TOOLS.split_at(4).1;

fn has_documents(contract: &str) -> bool {
    WITH_DOCUMENTS.iter().any(|(_, with, _)| *with == contract)
}

/// The peer's path, or `None` after saying that it was skipped.
fn peer(folder: &str, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("DAEDAL_PEERS").map(|peers| PathBuf::from(peers).join(folder).join(program));
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        println!("skipped: {folder}/{program} is not there (DAEDAL_PEERS)");
    }
    found
}

/// One running `config-tool`: a JSON request per line, a JSON answer per line.
struct ConfigTool {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ConfigTool {
    fn start(version: &str) -> Option<Self> {
        let path = peer(&format!("config-tool-{version}"), "config-tool")?;
        let mut process = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Some(Self { process, requests, answers })
    }

    /// The resulting config, or the error.
    fn ask(&mut self, request: &Json) -> Result<MachineConfig, String> {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Json = serde_json::from_str(&line).unwrap();
        if answer["ok"] == true {
            Ok(MachineConfig::from_yaml(answer["config"].as_str().unwrap()).unwrap())
        } else {
            Err(format!("{}: {}", answer["step"], answer["error"]))
        }
    }

    /// A config as the library reads and writes it again: zero values gone, keys in order.
    fn normal(&mut self, config: &MachineConfig) -> Result<MachineConfig, String> {
        self.ask(&json!({"config": config.to_yaml().expose()}))
    }

    fn patched(&mut self, config: &MachineConfig, patch: &str) -> Result<MachineConfig, String> {
        self.ask(&json!({"config": config.to_yaml().expose(), "patches": [patch]}))
    }
}

impl Drop for ConfigTool {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bundle() -> &'static SecretsBundle {
    static BUNDLE: OnceLock<SecretsBundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(7), now, 2048).unwrap()
    })
}

fn cluster(contract: &str, kubernetes: &str) -> ClusterOptions {
    ClusterOptions::new("c1", "https://10.0.0.20:6443", format!("{contract}.0"), kubernetes)
}

/// Everything that can be said, said.
fn everything(contract: &str, kubernetes: &str, role: Role) -> MachineConfig {
    let mut cluster = cluster(contract, kubernetes);
    cluster.cni = Cni::None;
    cluster.kube_proxy = false;
    cluster.schedule_on_control_planes = true;
    cluster.cert_sans = vec!["api.example.org".into(), "10.0.0.20".into()];
    cluster.discovery = Discovery::Service("https://discovery.example.org/".into());
    cluster.dns_domain = "example.internal".into();
    cluster.registry_mirrors = vec![RegistryMirror {
        registry: "docker.io".into(),
        endpoints: vec!["https://mirror.example.org".into()],
        skip_fallback: contract != "v1.8",
    }];
    let mut node = NodeOptions::new(role, "node-1");
    let address = |text: &str| vec![text.parse().unwrap()];
    node.links = vec![
        Link {
            mac: "BC:24:11:00:00:01".parse().unwrap(),
            mtu: Some(1450),
            addresses: address("10.0.0.11/16"),
            routes: vec![
                Route { destination: None, gateway: "10.0.0.1".parse().unwrap(), metric: None },
                Route {
                    destination: Some("192.168.0.0/16".parse().unwrap()),
                    gateway: "10.0.0.2".parse().unwrap(),
                    metric: Some(2048),
                },
            ],
        },
        Link {
            mac: "BC:24:11:00:00:02".parse().unwrap(),
            mtu: None,
            addresses: Vec::new(),
            routes: Vec::new(),
        },
    ];
    node.nameservers = vec!["1.1.1.1".parse().unwrap(), "2606:4700:4700::1111".parse().unwrap()];
    if contract != "v1.8" {
        node.search_domains = vec!["example.org".into()];
    }
    node.time_servers = vec!["time.example.org".into()];
    node.install = Install {
        disk: Some("/dev/sda".into()),
        image: Some("factory.talos.dev/nocloud-installer/abc:v1.12.0".into()),
    };
    node.labels.insert("example.org/rack".into(), "off".into());
    node.annotations.insert("example.org/note".into(), "a: b # c".into());
    node.taints.insert("dedicated".into(), "db:NoSchedule".into());
    if role == Role::ControlPlane {
        node.vip = Some("10.0.0.20".parse().unwrap());
    }
    MachineConfig::generate(bundle(), &cluster, &node).unwrap()
}

fn sorted(config: &MachineConfig) -> Json {
    let mut documents: Vec<Json> =
        config.documents().iter().map(|document| serde_json::to_value(document).unwrap()).collect();
    documents.sort_by_key(|document| format!("{}/{}", document["kind"], document["name"]));
    documents.into()
}

#[track_caller]
fn same(ours: &MachineConfig, theirs: &MachineConfig, what: &str) {
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    if ours != theirs {
        let path = first_difference(&ours, &theirs, String::new());
        panic!("{what}: differs at {path}");
    }
}

fn first_difference(ours: &Json, theirs: &Json, path: String) -> String {
    match (ours, theirs) {
        (Json::Object(a), Json::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                if a.get(key) != b.get(key) {
                    let null = Json::Null;
                    let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                    return first_difference(a, b, format!("{path}.{key}"));
                }
            }
            path
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            let index = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            first_difference(&a[index], &b[index], format!("{path}[{index}]"))
        }
        _ => format!("{path}: ours {ours}, theirs {theirs}"),
    }
}

#[test]
fn generated_configs_are_those_of_the_library() {
    for (version, contract, kubernetes) in TOOLS {
        let Some(mut tool) = ConfigTool::start(version) else { continue };
        let secrets = bundle().to_yaml();
        for role in [Role::ControlPlane, Role::Worker] {
            let mut node = NodeOptions::new(role, "node-1");
            node.install.disk = Some("/dev/sda".into());
            let ours = MachineConfig::generate(bundle(), &cluster(contract, kubernetes), &node).unwrap();
            // Their default name must go before ours can be set.
            let documents = "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete\n---\n\
                         apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: node-1\n";
            let patch =
                if has_documents(contract) { documents } else { "machine: {network: {hostname: node-1}}" };
            let theirs = tool
                .ask(&json!({
                    "generate": {
                        "cluster": "c1", "endpoint": "https://10.0.0.20:6443", "type": role.as_str(),
                        "contract": contract, "kubernetes": kubernetes.trim_start_matches('v'),
                        "secrets": secrets.expose(), "disk": "/dev/sda",
                    },
                    "patches": [patch],
                    "validate": {"mode": "metal", "strict": true},
                }))
                .unwrap();
            same(&ours, &theirs, &format!("{contract} {role:?}"));
        }
    }
}

#[test]
fn everything_we_can_generate_is_valid_and_understood() {
    for (version, contract, kubernetes) in TOOLS {
        let Some(mut tool) = ConfigTool::start(version) else { continue };
        for role in [Role::ControlPlane, Role::Worker] {
            let ours = everything(contract, kubernetes, role);
            assert_eq!(ours.lint(), []);
            for mode in ["cloud", "metal"] {
                let request = json!({
                    "config": ours.to_yaml().expose(), "validate": {"mode": mode, "strict": has_documents(contract)},
                });
                let theirs =
                    tool.ask(&request).unwrap_or_else(|error| panic!("{contract} {role:?} {mode}: {error}"));
                same(&ours, &theirs, &format!("{contract} {role:?} {mode}"));
            }
        }
    }
}

#[test]
fn what_the_library_refuses_our_lint_finds() {
    let broken = [
        (Role::Worker, "machine: {ca: {key: LS0t}}"),
        (Role::ControlPlane, "machine: {ca: {$patch: delete}}"),
        (Role::Worker, "cluster: {controlPlane: {endpoint: {$patch: delete}}}"),
        (Role::Worker, "machine: {install: {extraKernelArgs: [a=b]}}"),
        (Role::Worker, "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable"),
        (Role::Worker, "persist: false"),
        (Role::Worker, "machine: {network: {interfaces: [{interface: eth0, vip: {ip: 10.0.0.9}}]}}"),
        (Role::Worker, "machine: {network: {hostname: x}}"),
        (Role::Worker, "machine: {type: other}"),
        (Role::Worker, "machine: {unknown: x}"),
    ];
    for (version, contract, kubernetes) in WITH_DOCUMENTS {
        let Some(mut tool) = ConfigTool::start(version) else { continue };
        for (role, patch) in &broken {
            let mut ours = everything(contract, kubernetes, *role);
            ours.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
            let request = json!({"config": ours.to_yaml().expose(), "validate": {"mode": "metal"}});
            assert!(tool.ask(&request).is_err(), "{version} accepts {patch}");
            assert!(!ours.lint().is_empty(), "lint misses {patch}");
        }
    }
}

#[test]
fn chosen_patches_do_the_same() {
    let patches = [
        "machine: {network: {nameservers: [9.9.9.9]}, certSANs: [x.example.org], sysctls: {net.core.somaxconn: '65535'}}",
        "machine: {certSANs: [], kubelet: {image: ''}, features: {kubePrism: {enabled: false, port: 0}}}",
        "machine: {kubelet: {extraArgs: {a: b}, extraMounts: [{destination: /a, type: bind, source: /a, options: [rw]}]}}",
        "cluster: {network: {podSubnets: [10.9.0.0/16], cni: {name: custom, urls: ['https://x']}}}",
        "cluster: {apiServer: {auditPolicy: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None}]}}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: {namespaces: [a]}}}, {name: X, configuration: {a: 1}}]}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, $patch: delete}]}}",
        "cluster: {apiServer: {admissionControl: {$patch: delete}}, discovery: {enabled: false}}",
        "cluster: {controlPlane: {localAPIServerPort: 6444}, allowSchedulingOnControlPlanes: false}",
        "machine: {network: {interfaces: [{interface: eth0, dhcp: true, vlans: [{vlanId: 4, dhcp: true}]}, {deviceSelector: {driver: virtio}, mtu: 9000}]}}",
        "machine: {nodeLabels: {example.org/rack: {$patch: delete}, new: label}}",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: net0\nmtu: 9000\naddresses: [{address: 10.1.0.1/24, routePriority: 0}]",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: net0\nroutes: [{gateway: 10.0.0.1, $patch: delete}]",
        "apiVersion: v1alpha1\nkind: ResolverConfig\n$patch: delete",
        "apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{address: 9.9.9.9}]\nsearchDomains: {disableDefault: true}",
        "apiVersion: v1alpha1\nkind: TimeSyncConfig\nenabled: false\nbootTimeout: 30s",
        "apiVersion: v1alpha1\nkind: DHCPv4Config\nname: net5",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: '!system_disk'}, minSize: 10GiB}",
        "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: x\nconfigFiles: [{content: a, mountPath: /a}]\nenvironment: [A=b]",
        "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable",
        "apiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: docker.io\nendpoints: [{url: 'https://second'}]\nskipFallback: false",
        "apiVersion: v1alpha1\nkind: KubeletConfig\nname: nothing",
        "machine: {network: {kubespan: {$patch: delete}}}",
        "machine: {sysctls: {missing: {$patch: delete}}}",
        "apiVersion: v1alpha1\nkind: SwapVolumeConfig\nname: missing\n$patch: delete",
    ];
    let mut compared = 0;
    for (version, contract, kubernetes) in WITH_DOCUMENTS {
        let Some(mut tool) = ConfigTool::start(version) else { continue };
        let config = everything(contract, kubernetes, Role::ControlPlane);
        for patch in patches {
            compared += 1;
            let theirs = tool.patched(&config, patch);
            let mut ours = config.clone();
            let done = Patch::from_yaml(patch).and_then(|patch| ours.apply_patch(&patch));
            match (done, theirs) {
                (Ok(()), Ok(theirs)) => {
                    let ours =
                        tool.normal(&ours).unwrap_or_else(|error| panic!("{version} {patch}: {error}"));
                    same(&ours, &theirs, &format!("{version} {patch}"));
                }
                (Err(_), Err(_)) => {}
                // Without a model of the types, a missing key of a map is not told from an unset field, and an unknown
                // kind not from a known one; the node has the last word.
                (Ok(()), Err(error))
                    if error.contains("lookup failed") || error.contains("not registered") => {}
                (ours, theirs) => panic!("{version} {patch}: ours {ours:?}, theirs {theirs:?}"),
            }
        }
    }
    println!("{compared} chosen patches compared");
}

/// A random patch of fields that exist.
fn random_patch(rng: &mut StdRng) -> String {
    let word =
        |rng: &mut StdRng| ["", "a", "b", "off", "1", "x.example.org"].choose(rng).unwrap().to_string();
    let words = |rng: &mut StdRng| -> Vec<String> {
        (0..rng.gen_range(0..3)).map(|_| format!("w{}", rng.gen_range(0..4))).collect()
    };
    let nets = |rng: &mut StdRng| -> Vec<String> {
        (0..rng.gen_range(0..3)).map(|_| format!("10.{}.0.0/16", rng.gen_range(0..9))).collect()
    };
    let mut fields: Vec<Json> = vec![
        json!({"machine": {"certSANs": words(rng)}}),
        json!({"machine": {"nodeLabels": {word(rng): word(rng)}}}),
        json!({"machine": {"sysctls": {"a": word(rng), "b": "2"}}}),
        json!({"machine": {"kubelet": {"image": word(rng), "clusterDNS": words(rng)}}}),
        json!({"machine": {"kubelet": {"extraConfig": {"a": rng.gen_range(0..3), "l": words(rng), "b": rng.r#gen::<bool>()}}}}),
        json!({"machine": {"install": {"wipe": rng.r#gen::<bool>(), "image": word(rng)}}}),
        json!({"machine": {"features": {"kubePrism": {"enabled": rng.r#gen::<bool>(), "port": rng.gen_range(0..3)}}}}),
        json!({"machine": {"network": {"interfaces": [
            {"interface": format!("eth{}", rng.gen_range(0..2)), "mtu": rng.gen_range(0..3),
             "addresses": words(rng), "vlans": [{"vlanId": rng.gen_range(1..3), "mtu": rng.gen_range(0..3)}]},
            {"deviceSelector": {"driver": word(rng)}, "dhcp": rng.r#gen::<bool>()},
        ]}}}),
        json!({"cluster": {"network": {"podSubnets": nets(rng)}}}),
        json!({"cluster": {"network": {"serviceSubnets": nets(rng), "dnsDomain": word(rng)}}}),
        json!({"cluster": {"apiServer": {"certSANs": words(rng), "env": {"A": word(rng)}}}}),
        json!({"cluster": {"apiServer": {"admissionControl": [
            {"name": "PodSecurity", "configuration": {"exemptions": {"namespaces": words(rng)}, "defaults": {"audit": "x"}}},
        ]}}}),
        json!({"cluster": {"apiServer": {"auditPolicy": {"rules": [{"level": "None"}]}}}}),
        json!({"cluster": {"scheduler": {"extraArgs": {"v": "4"}}, "etcd": {"advertisedSubnets": nets(rng)}}}),
        json!({"cluster": {"extraManifests": words(rng), "inlineManifests": [{"name": "n", "contents": "a: 1\n"}]}}),
        json!({"cluster": {"allowSchedulingOnControlPlanes": rng.r#gen::<bool>()}}),
    ];
    fields.shuffle(rng);
    let mut main = json!({});
    for field in fields.into_iter().take(rng.gen_range(1..5)) {
        join(&mut main, field);
    }
    let mut documents = vec![main];
    if rng.gen_bool(0.3) {
        documents.push(json!({
            "apiVersion": "v1alpha1", "kind": "LinkConfig", "name": format!("net{}", rng.gen_range(0..3)),
            "mtu": rng.gen_range(0..3) * 1400, "up": rng.r#gen::<bool>(),
            "addresses": [{"address": format!("10.8.0.{}/24", rng.gen_range(1..5))}],
        }));
    }
    if rng.gen_bool(0.3) {
        documents.push(json!({
            "apiVersion": "v1alpha1", "kind": "TimeSyncConfig", "ntp": {"servers": words(rng)},
        }));
    }
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}

fn join(left: &mut Json, right: Json) {
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => {
            for (key, value) in right {
                join(left.entry(key).or_insert(Json::Null), value);
            }
        }
        (left, right) => *left = right,
    }
}

#[test]
fn random_patches_do_the_same() {
    const CASES: u32 = 400;
    for (version, contract, kubernetes) in WITH_DOCUMENTS {
        let Some(mut tool) = ConfigTool::start(version) else { continue };
        let base = everything(contract, kubernetes, Role::ControlPlane);
        let mut rng = StdRng::seed_from_u64(11);
        let mut changed = 0;
        for _ in 0..CASES {
            let mut ours = base.clone();
            let mut theirs = base.clone();
            // Two in a row, so that patched meets patched.
            for _ in 0..2 {
                let patch = random_patch(&mut rng);
                theirs = tool
                    .patched(&theirs, &patch)
                    .unwrap_or_else(|error| panic!("{version} {patch}: {error}"));
                ours.apply_patch(&Patch::from_yaml(&patch).unwrap()).unwrap();
                ours = tool.normal(&ours).unwrap_or_else(|error| panic!("{version} {patch}: {error}"));
                same(&ours, &theirs, &format!("{version} {patch}"));
            }
            changed += u32::from(sorted(&ours) != sorted(&base));
        }
        assert!(changed > CASES / 2, "the patches do too little");
        println!("{version}: {CASES} random pairs of patches compared, {changed} changed the config");
    }
}

#[test]
fn secrets_are_exchanged_with_talosctl() {
    let Some(talosctl) = peer("talos-v1.12.0", "talosctl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&talosctl).args(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "talosctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();

    run(&["gen", "secrets", "-o", "theirs.yaml"]);
    let theirs = SecretsBundle::from_yaml(&read("theirs.yaml")).unwrap();
    assert_eq!(theirs.to_yaml().expose(), read("theirs.yaml"), "written as talosctl writes it");

    let now = Timestamp::now();
    let begin = std::time::Instant::now();
    let ours = SecretsBundle::generate(&mut rand::rngs::OsRng, now).unwrap();
    println!("a bundle with a 4096-bit service account key took {:?}", begin.elapsed());
    std::fs::write(folder.path().join("ours.yaml"), ours.to_yaml().expose()).unwrap();
    run(&["gen", "config", "c1", "https://10.0.0.20:6443", "--with-secrets", "ours.yaml", "-o", "out"]);
    run(&["validate", "-m", "metal", "-c", "out/controlplane.yaml"]);
    // They signed this client certificate with our authority's key.
    let talosconfig = Talosconfig::from_yaml(&read("out/talosconfig")).unwrap();
    assert_eq!(talosconfig.credentials.ca, ours.os.crt);

    let node = NodeOptions::new(Role::ControlPlane, "node-1");
    let config = MachineConfig::generate(&theirs, &cluster("v1.12", "v1.35.0"), &node).unwrap();
    std::fs::write(folder.path().join("ours-cp.yaml"), config.to_yaml().expose()).unwrap();
    run(&["validate", "-m", "cloud", "-c", "ours-cp.yaml"]);

    let rng = &mut StdRng::seed_from_u64(3);
    let credentials = ours
        .client_credentials(daedal_talos::ApiRole::Admin, daedal_talos::DEFAULT_LIFETIME, rng, now)
        .unwrap();
    let file = Talosconfig {
        context: "c1".into(),
        endpoints: vec!["127.0.0.1".into()],
        nodes: Vec::new(),
        credentials,
    };
    std::fs::write(folder.path().join("talosconfig"), file.to_yaml().unwrap().expose()).unwrap();
    let output = Command::new(&talosctl)
        .args(["--talosconfig", "talosconfig", "config", "info"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("os:admin") && text.contains("c1"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
