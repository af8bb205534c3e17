//! Options against the real generator, and its patcher where it has no option: every version, both roles.

mod cluster;
mod machine;
mod network;

use daedal_talos_config::{ClusterOptions, Dhcp, Hostname, MachineConfig, Marks, NodeOptions, Role, Secret};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value as Json, json};

use crate::peer::{CONTRACTS, ConfigTool, Contract, Tally, bundle, difference};

const PER_CONTRACT_AND_ROLE: usize = 45;

/// What we are asked for, and what the real tools are told to get there.
struct Case {
    contract: Contract,
    role: Role,
    cluster: ClusterOptions,
    node: NodeOptions,
    /// Patches in the order of application.
    patches: Vec<String>,
    chosen: Vec<&'static str>,
    aliases: usize,
}

#[expect(clippy::needless_pass_by_value, reason = "the many calls read better")]
impl Case {
    fn new(contract: Contract, role: Role, endpoint: &str) -> Self {
        let version = format!("v1.{}.0", contract.minor);
        let cluster = ClusterOptions::new("c1", endpoint, version, contract.kubernetes);
        let mut node = NodeOptions::new(role, Hostname::Stable);
        node.install.disk = Some("/dev/sda".into());
        Self { contract, role, cluster, node, patches: Vec::new(), chosen: Vec::new(), aliases: 0 }
    }

    /// What we are asked for, to see whether it changes.
    fn options(&self) -> String {
        format!("{:?} {:?}", self.cluster, self.node)
    }

    fn minor(&self) -> u32 {
        self.contract.minor
    }

    fn has_documents(&self) -> bool {
        self.minor() >= 12
    }

    fn is_split(&self) -> bool {
        self.minor() >= 14
    }

    fn is_control_plane(&self) -> bool {
        self.role == Role::ControlPlane
    }

    fn patch(&mut self, patch: Json) {
        self.patches.push(patch.to_string());
    }

    fn document(&mut self, kind: &str, name: Option<&str>, fields: Json) {
        let mut document = json!({"apiVersion": "v1alpha1", "kind": kind});
        if let Some(name) = name {
            document["name"] = name.into();
        }
        for (key, value) in fields.as_object().unwrap() {
            document[key] = value.clone();
        }
        self.patch(document);
    }

    fn dhcp_documents(&mut self, link: &str, dhcp: Dhcp) {
        for (asked, kind) in [(dhcp.ipv4, "DHCPv4Config"), (dhcp.ipv6, "DHCPv6Config")] {
            if asked {
                let metric = dhcp.route_metric.map(|metric| json!({"routeMetric": metric}));
                self.document(kind, Some(link), metric.unwrap_or_else(|| json!({})));
            }
        }
    }

    /// A value at a place of the main document before, in a document since.
    fn either(&mut self, since: u32, main: Json, kind: &str, fields: Json) {
        if self.minor() >= since { self.document(kind, None, fields) } else { self.patch(main) }
    }
}

type Choice = (&'static str, fn(&mut Case, &mut StdRng));

/// Later ones may look at what earlier ones chose.
fn all_choices() -> Vec<Choice> {
    [machine::CHOICES, cluster::CHOICES, network::CHOICES].concat()
}

const ENDPOINTS: [&str; 3] =
    ["https://10.0.0.20:6443", "https://k8s.example.org:8443", "https://[fd00::20]:6443"];

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn options_give_what_the_real_generator_and_patcher_give() {
    let mut tally = Tally::new("options: generator, patcher and validator");
    let mut written_back = Tally::new("compare: the same configs as Talos writes them back");
    let key = Secret::new("key");
    let mut rng = StdRng::seed_from_u64(2024);
    let choices = all_choices();
    let mut often = vec![0usize; choices.len()];
    for contract in CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        let secrets = bundle().to_yaml();
        for role in [Role::ControlPlane, Role::Worker] {
            // Nothing; each alone; then many at once.
            let alone = (0..choices.len()).map(|choice| vec![choice]);
            let many = (0..PER_CONTRACT_AND_ROLE).map(|_| {
                let share = rng.gen_range(0.1..0.9);
                (0..choices.len()).filter(|_| rng.gen_bool(share)).collect::<Vec<usize>>()
            });
            let picks: Vec<Vec<usize>> = std::iter::once(vec![]).chain(alone).chain(many).collect();
            for pick in picks {
                let endpoint = ENDPOINTS.choose(&mut rng).unwrap();
                let mut case = Case::new(contract, role, endpoint);
                for index in pick {
                    let (name, choose) = choices[index];
                    let (options, told) = (case.options(), case.patches.len());
                    choose(&mut case, &mut rng);
                    // One that another excludes has done nothing, and counts for nothing.
                    if case.options() != options || case.patches.len() > told {
                        case.chosen.push(name);
                    }
                    // What the real tools were told nothing of was not compared.
                    often[index] += usize::from(case.patches.len() > told);
                }
                let what = format!("v1.{} {role:?} {:?}", contract.minor, case.chosen);
                let ours = MachineConfig::generate(bundle(), &case.cluster, &case.node)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let faults: Vec<String> =
                    ours.lint(contract.release()).iter().map(ToString::to_string).collect();
                let theirs = tool.ask(&json!({
                    "generate": {
                        "cluster": "c1", "endpoint": endpoint, "type": role.as_str(),
                        "contract": format!("v1.{}", contract.minor),
                        "kubernetes": contract.kubernetes.trim_start_matches('v'),
                        "secrets": secrets.expose(), "disk": "/dev/sda",
                    },
                    "patches": case.patches,
                    "validate": {"mode": "metal"},
                }));
                let judged = match theirs {
                    Err(error) => Some(format!("{what}: theirs: {error}")),
                    Ok(theirs) => difference(&ours, &theirs).map(|where_| format!("{what}: {where_}")),
                };
                let valid =
                    tool.ask(&json!({"config": ours.to_yaml().expose(), "validate": {"mode": "metal"}}));
                if let Ok(back) = &valid {
                    let seen = back.differences(&ours, &Marks::new(&key));
                    let same = seen.is_empty() && back.digest() == ours.digest();
                    written_back.case((!same).then(|| format!("{what}: {seen:?}")));
                }
                // nocloud is validated as `cloud`, and its disk images need no disk to install to.
                let mut node = case.node.clone();
                (node.install.disk, node.install.disk_selector) = (None, None);
                let diskless = MachineConfig::generate(bundle(), &case.cluster, &node).unwrap();
                let mut in_the_cloud = |config: &MachineConfig| {
                    tool.ask(&json!({"config": config.to_yaml().expose(), "validate": {"mode": "cloud"}}))
                        .err()
                };
                let cloud = in_the_cloud(&ours).or_else(|| in_the_cloud(&diskless));
                let judged = judged
                    .or_else(|| valid.err().map(|error| format!("{what}: not valid: {error}")))
                    .or_else(|| cloud.map(|error| format!("{what}: not valid in the cloud: {error}")))
                    .or_else(|| (!faults.is_empty()).then(|| format!("{what}: our lint: {faults:?}")));
                tally.case(judged);
            }
        }
    }
    let (compared, read_back) = (tally.cases(), written_back.cases());
    tally.done();
    written_back.done();
    if compared > 0 {
        let seldom: Vec<_> = choices.iter().zip(&often).filter(|(_, times)| **times <= 100).collect();
        let seldom: Vec<_> = seldom.iter().map(|((name, _), times)| (name, times)).collect();
        assert!(seldom.is_empty(), "compared too seldom: {seldom:?}");
        println!("the choice that was compared least took effect {} times", often.iter().min().unwrap());
        assert!(compared >= 500 && read_back == compared);
    }
}
