//! Real charts, read from Go's module cache, under many value sets.

use std::path::{Path, PathBuf};
use std::process::Command;

use daedal_helm::Chart;

use crate::peer::{Helm, Outcome};
use crate::peers;
use crate::sets::{Set, derived};
use crate::verifiers::{Verifiers, blocks};

/// A chart inside a published Go module.
struct Listed {
    module: &'static str,
    version: &'static str,
    path: &'static str,
    /// Further value sets.
    sets: &'static [(&'static str, &'static str)],
}

const CHARTS: &[Listed] = &[
    Listed {
        module: "github.com/cilium/cilium",
        version: "v1.16.5",
        path: "install/kubernetes/cilium",
        sets: &[
            (
                "hubble ui",
                "hubble: {relay: {enabled: true}, ui: {enabled: true}, tls: {auto: {method: cronJob}}}",
            ),
            (
                "gateway",
                "{kubeProxyReplacement: 'true', ingressController: {enabled: true}, gatewayAPI: {enabled: true}, hubble: {enabled: false}}",
            ),
            (
                "clustermesh",
                "clustermesh: {useAPIServer: true, apiserver: {tls: {auto: {method: cronJob}}}}\nhubble: {tls: {auto: {method: cronJob}}}",
            ),
            (
                "wireguard",
                "encryption: {enabled: true, type: wireguard}\nbgpControlPlane: {enabled: true}\nprometheus: {enabled: true}\nhubble: {tls: {auto: {method: cronJob}}}",
            ),
            (
                "eni",
                "ipam: {mode: eni}\neni: {enabled: true}\nhubble: {tls: {auto: {method: certmanager, certManagerIssuerRef: {name: x, kind: Issuer}}}}",
            ),
            (
                "talos",
                "ipam: {mode: kubernetes}\nkubeProxyReplacement: true\nk8sServiceHost: localhost\nk8sServicePort: 7445\ncgroup: {autoMount: {enabled: false}, hostRoot: /sys/fs/cgroup}\nsecurityContext: {capabilities: {ciliumAgent: [CHOWN, KILL, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_ADMIN, SYS_RESOURCE, DAC_OVERRIDE, FOWNER, SETGID, SETUID], cleanCiliumState: [NET_ADMIN, SYS_ADMIN, SYS_RESOURCE]}}\nhubble: {tls: {auto: {method: cronJob}}}",
            ),
            (
                "preflight",
                "{preflight: {enabled: true}, agent: false, operator: {enabled: false}, hubble: {enabled: false}}",
            ),
        ],
    },
    Listed {
        module: "sigs.k8s.io/metrics-server",
        version: "v0.7.2",
        path: "charts/metrics-server",
        sets: &[],
    },
    Listed {
        module: "sigs.k8s.io/external-dns",
        version: "v0.15.0",
        path: "charts/external-dns",
        sets: &[(
            "webhook",
            "provider: {name: webhook, webhook: {image: {repository: r, tag: t}}}\nserviceMonitor: {enabled: true}",
        )],
    },
    Listed {
        module: "sigs.k8s.io/node-feature-discovery",
        version: "v0.16.6",
        path: "deployment/helm/node-feature-discovery",
        sets: &[(
            "topology",
            "topologyUpdater: {enable: true, createCRDs: true}\nprometheus: {enable: true}",
        )],
    },
    Listed {
        module: "github.com/kyverno/kyverno",
        version: "v1.13.1",
        path: "charts/kyverno",
        sets: &[
            (
                "lean",
                "{backgroundController: {enabled: false}, cleanupController: {enabled: false}, reportsController: {enabled: false}}",
            ),
            ("no crds", "{crds: {install: false}, grafana: {enabled: true}}"),
        ],
    },
    Listed {
        module: "github.com/kyverno/kyverno",
        version: "v1.13.1",
        path: "charts/kyverno-policies",
        sets: &[("restricted", "{podSecurityStandard: restricted, validationFailureAction: Enforce}")],
    },
    Listed {
        module: "github.com/sergelogvinov/proxmox-csi-plugin",
        version: "v0.9.0",
        path: "charts/proxmox-csi-plugin",
        sets: &[(
            "clusters",
            "config: {clusters: [{url: 'https://x:8006/api2/json', insecure: false, token_id: a, token_secret: b, region: r}]}\nstorageClass: [{name: s, storage: data, reclaimPolicy: Delete, fstype: xfs, cache: none, ssd: true}]",
        )],
    },
    Listed {
        module: "sigs.k8s.io/kueue",
        version: "v0.9.1",
        path: "charts/kueue",
        sets: &[("certs", "{enableCertManager: true, enablePrometheus: true}")],
    },
    Listed {
        module: "github.com/crossplane/crossplane",
        version: "v1.18.1",
        path: "cluster/charts/crossplane",
        sets: &[],
    },
    Listed {
        module: "github.com/aquasecurity/trivy-operator",
        version: "v0.22.0",
        path: "deploy/helm",
        sets: &[("built-in server", "operator: {builtInTrivyServer: true}\ntrivy: {mode: ClientServer}")],
    },
    Listed {
        module: "sigs.k8s.io/secrets-store-csi-driver",
        version: "v1.4.7",
        path: "charts/secrets-store-csi-driver",
        sets: &[(
            "windows",
            "{windows: {enabled: true}, syncSecret: {enabled: true}, enableSecretRotation: true}",
        )],
    },
    Listed {
        module: "github.com/cert-manager/trust-manager",
        version: "v0.14.0",
        path: "deploy/charts/trust-manager",
        sets: &[(
            "secrets",
            "{secretTargets: {enabled: true, authorizedSecretsAll: true}, app: {webhook: {tls: {helmCert: {enabled: true}}}}}",
        )],
    },
    Listed {
        module: "sigs.k8s.io/scheduler-plugins",
        version: "v0.29.7",
        path: "manifests/install/charts/as-a-second-scheduler",
        sets: &[],
    },
    Listed {
        module: "github.com/cert-manager/cert-manager",
        version: "v1.21.2",
        path: "deploy/charts/cert-manager",
        sets: &[(
            "crds",
            "{crds: {enabled: true}, prometheus: {enabled: true, servicemonitor: {enabled: true}}}",
        )],
    },
    Listed {
        module: "github.com/open-policy-agent/gatekeeper/v3",
        version: "v3.17.0",
        path: "charts/gatekeeper",
        sets: &[],
    },
    Listed {
        module: "github.com/dapr/dapr",
        version: "v1.14.0",
        path: "charts/dapr",
        sets: &[("ha", "{global: {ha: {enabled: true}}}")],
    },
    Listed {
        module: "sigs.k8s.io/descheduler",
        version: "v0.36.0",
        path: "charts/descheduler",
        sets: &[("deployment", "{kind: Deployment, leaderElection: {enabled: true}}")],
    },
    Listed {
        module: "github.com/aws/karpenter-provider-aws",
        version: "v1.0.8",
        path: "charts/karpenter",
        sets: &[],
    },
    // From here on: taken up after the engine was done, and rendered without a difference at once.
    Listed {
        module: "github.com/k8snetworkplumbingwg/sriov-network-operator",
        version: "v1.4.0",
        path: "deployment/sriov-network-operator-chart",
        sets: &[],
    },
    Listed {
        module: "github.com/NVIDIA/gpu-operator",
        version: "v1.11.1",
        path: "deployments/gpu-operator",
        sets: &[],
    },
    Listed {
        module: "sigs.k8s.io/cluster-api-operator",
        version: "v0.15.1",
        path: "hack/charts/cluster-api-operator",
        sets: &[],
    },
    Listed {
        module: "open-cluster-management.io/ocm",
        version: "v0.15.0",
        path: "deploy/klusterlet/chart/klusterlet",
        sets: &[],
    },
    Listed {
        module: "open-cluster-management.io/ocm",
        version: "v0.15.0",
        path: "deploy/cluster-manager/chart/cluster-manager",
        sets: &[],
    },
    Listed {
        module: "github.com/grafana/k6-operator",
        version: "v0.0.19",
        path: "charts/k6-operator",
        sets: &[],
    },
    Listed {
        module: "github.com/zalando/postgres-operator",
        version: "v1.13.0",
        path: "charts/postgres-operator",
        sets: &[],
    },
    Listed {
        module: "github.com/bitnami-labs/sealed-secrets",
        version: "v0.27.3",
        path: "helm/sealed-secrets",
        sets: &[],
    },
    Listed { module: "sigs.k8s.io/lws", version: "v0.5.0", path: "charts/lws", sets: &[] },
    Listed {
        module: "k8s.io/cloud-provider-openstack",
        version: "v1.31.2",
        path: "charts/manila-csi-plugin",
        sets: &[],
    },
];

/// A module's folder: Go writes capitals as `!` and the small letter.
fn escaped(module: &str) -> String {
    module.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii_uppercase() {
            out.push('!');
        }
        out.push(c.to_ascii_lowercase());
        out
    })
}

/// Where a module lies, fetched if it is not there yet and may be.
fn module(listed: &Listed, offline: bool) -> Option<PathBuf> {
    let name = format!("{}@{}", listed.module, listed.version);
    let folder = peers::modules()?.join(escaped(&name));
    if !folder.is_dir() && !offline {
        Command::new("go").args(["mod", "download", &name]).env("GOFLAGS", "-mod=mod").status().ok()?;
    }
    folder.is_dir().then_some(folder)
}

/// Compares the listed charts, or the given ones. How many differences there are.
pub fn run(helm: &Helm, verifiers: Option<&Verifiers>, paths: &[&String], offline: bool) -> usize {
    println!(
        "\n{:<34} {:<9} {:>5} {:>8} {:>8} {:>8} {:>6}",
        "chart", "version", "sets", "objects", "refused", "worded", "differ"
    );
    let mut different = 0;
    if paths.is_empty() {
        for listed in CHARTS {
            let Some(folder) = module(listed, offline) else {
                println!("{:<34} {:<9} skipped: not in the module cache", listed.module, listed.version);
                continue;
            };
            different += chart(helm, verifiers, &folder.join(listed.path), listed.sets);
        }
    } else {
        for path in paths {
            different += chart(helm, verifiers, Path::new(path), &[]);
        }
    }
    println!("refused: both refuse the values; worded: the refusals differ in wording only");
    different
}

fn chart(helm: &Helm, verifiers: Option<&Verifiers>, folder: &Path, more: &[(&str, &str)]) -> usize {
    let (name, version, defaults) = match Chart::load(folder) {
        Ok(chart) => {
            (chart.name().to_owned(), chart.metadata.version.clone(), chart.values.as_json().clone())
        }
        Err(_) => (folder.display().to_string(), String::new(), serde_json::Map::new()),
    };
    let mut sets = derived(&defaults);
    sets.extend(more.iter().map(|(name, yaml)| Set { name: (*name).into(), yaml: Some((*yaml).into()) }));
    let file = std::env::temp_dir().join(format!("helm-conformance-{}.yaml", std::process::id()));
    let (mut objects, mut refused, mut worded, mut different) = (0, 0, 0, 0);
    let mut notes = Vec::new();
    for set in &sets {
        let values =
            set.yaml.as_ref().filter(|yaml| std::fs::write(&file, yaml).is_ok()).map(|_| file.as_path());
        let theirs = helm.template(folder, values, true);
        let mine = helm.ours(folder, set.yaml.as_deref(), true);
        match (theirs, mine) {
            (Ok(theirs), Ok(mine)) => match compare(&theirs, &mine, || helm.template(folder, values, true)) {
                Ok(count) => {
                    objects += count;
                    if let Err(note) = verify(verifiers, &theirs, &mine) {
                        different += 1;
                        notes.push(format!("    {}: keys or certificates: {note}", set.name));
                    }
                }
                Err(note) => {
                    different += 1;
                    notes.push(format!("    {}: {note}", set.name));
                }
            },
            (Err(theirs), Err(mine)) => {
                refused += 1;
                if theirs != mine {
                    worded += 1;
                    if std::env::var_os("VERBOSE").is_some() {
                        notes.push(format!(
                            "    {}: worded\n      helm: {theirs}\n      ours: {mine}",
                            set.name
                        ));
                    }
                }
            }
            (Ok(_), Err(mine)) => {
                different += 1;
                notes.push(format!("    {}: only we refuse: {mine}", set.name));
            }
            (Err(theirs), Ok(_)) => {
                different += 1;
                notes.push(format!("    {}: only helm refuses: {theirs}", set.name));
            }
        }
    }
    let _ = std::fs::remove_file(file);
    println!(
        "{name:<34} {version:<9} {:>5} {objects:>8} {refused:>8} {worded:>8} {different:>6}",
        sets.len()
    );
    for note in notes {
        println!("{note}");
    }
    different
}

/// Has the verifiers look at the keys and certificates that comparing left out. What they do not accept of Helm either is
/// the chart's doing.
fn verify(verifiers: Option<&Verifiers>, theirs: &str, mine: &str) -> Result<(), String> {
    let (Some(verifiers), true) = (verifiers, theirs != mine) else { return Ok(()) };
    match verifiers.check(&blocks(mine)) {
        Err(problem) if verifiers.check(&blocks(theirs)).is_ok() => Err(problem),
        _ => Ok(()),
    }
}

/// How many objects agree, or the first line that does not. Lines that Helm itself prints differently the next time
/// (keys, certificates, random strings, and checksums of them) may differ; nothing else may.
fn compare(theirs: &str, mine: &str, again: impl FnOnce() -> Outcome) -> Result<usize, String> {
    let objects = |text: &str| text.lines().filter(|l| l.starts_with("# Source: ")).count();
    if theirs == mine {
        return Ok(objects(theirs));
    }
    let again = again()?;
    let (left, right): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), mine.lines().collect());
    let next: Vec<&str> = again.lines().collect();
    for (number, (a, b)) in left.iter().zip(&right).enumerate() {
        let key = |line: &str| line.split_once(':').map(|(k, _)| k.to_owned());
        let random = left.len() == next.len() && next[number] != *a && key(a) == key(b);
        if a != b && !random {
            let cut = |line: &str| line.chars().take(160).collect::<String>();
            return Err(format!("line {}:\n      helm: {}\n      ours: {}", number + 1, cut(a), cut(b)));
        }
    }
    if left.len() == right.len() {
        Ok(objects(theirs))
    } else {
        Err(format!("helm prints {} lines, we {}", left.len(), right.len()))
    }
}
