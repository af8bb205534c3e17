//! Every key of an inventory that all nodes are told of, found again in the machine config of each version of Talos.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use base64::Engine as _;
use daedal_inventory::{Cluster, Files, Source, load};
use daedal_talos_config::MachineConfig;
use serde_json::{Value as Json, json};

use super::secrets;
use crate::config::judged;

/// Some certificate and its key, which Talos v1.12 reads as PKCS #8 only.
static PAIR: LazyLock<(String, String)> = LazyLock::new(|| {
    let pair = secrets().os;
    (pair.crt.clone(), pair.key.expose().to_owned())
});

/// The same as Talos wants it under `machine`.
fn base64(pem: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(pem)
}

/// What stands beside the inventory.
struct Beside;

impl Files for Beside {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("ca.pem" | "client.pem") => Ok(PAIR.0.clone()),
            Some("client.key") => Ok(PAIR.1.clone()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("the {name}"))
    }
}

/// An inventory with these lines of its `spec`.
pub(super) fn loaded(spec: &str) -> Cluster {
    let text = format!(
        r#"
apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: whole}}
spec:
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: "daedal@pve!cli", secret: {{env: X}}}}
    tls: {{insecure: true}}
    hosts: [atlas]
    storage: {{disks: local-lvm, images: local}}
{spec}
"#
    );
    load(&[Source { name: "cluster.yaml".into(), text }], &Beside).unwrap().cluster
}

/// The inventory of a version, with its `kubernetes` and further lines.
fn inventory(talos: &str, kubernetes: &str, more: &str) -> Cluster {
    loaded(&format!(
        "
  talos: {{version: {talos}, installDisk: /dev/vda}}
  kubernetes: {kubernetes}
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, vip: 10.0.0.9, mtu: 1400, dns: [10.0.0.2, 10.0.0.3], ntp: [time.example.org, 10.0.0.4]}}
{more}
  pools:
    - {{name: cp, role: controlplane, count: 1}}
    - {{name: w, role: worker, count: 1}}"
    ))
}

const EVERYTHING: &str = "
    podSubnets: [10.32.0.0/16, 'fd00:32::/64']
    serviceSubnets: [10.33.0.0/16, 'fd00:33::/108']
    dnsDomain: k8s.example.org
    endpoint: api.example.org:8443
    certSANs: [203.0.113.5, '*.example.org']
    cniManifests: ['https://example.org/cni.yaml', 'https://example.org/more.yaml']
    discoveryService: 'https://discovery.example.org/'
    kubespan: true
    kubeProxy: false
    scheduleOnControlPlanes: true";

const REGISTRIES: &str = "
  registryMirrors:
    docker.io: {endpoints: ['https://one.lan/v2/hub', 'https://two.lan/v2/hub'], overridePath: true, skipFallback: true}
    ghcr.io: {endpoints: ['https://one.lan']}
  registries:
    one.lan: {auth: {username: me, password: {env: PASSWORD}}, tls: {ca: {file: ca.pem}}}
    two.lan: {auth: {auth: {env: AUTH}}, tls: {clientCertificate: {file: client.pem}, clientKey: {file: client.key}}}
    three.lan: {auth: {identityToken: {env: TOKEN}}, tls: {insecure: true}}
  machine: {searchDomains: [example.org]}";

/// A place in a config: the main document (an empty kind) or another by its kind and name, and a JSON pointer into it.
pub(super) type Place = (&'static str, &'static str, &'static str);

fn found(config: &MachineConfig, (kind, name, pointer): Place) -> Option<Json> {
    let documents: Vec<Json> =
        config.documents().iter().map(|document| serde_json::to_value(document).unwrap()).collect();
    let is = |document: &&Json| {
        document["kind"].as_str().unwrap_or_default() == kind && (name.is_empty() || document["name"] == name)
    };
    documents.iter().find(is)?.pointer(pointer).cloned()
}

#[track_caller]
pub(super) fn assert_all(talos: &str, config: &MachineConfig, expected: &[(Place, Json)]) {
    for (place, value) in expected {
        assert_eq!(found(config, *place).as_ref(), Some(value), "{talos}: {place:?} of {config:?}");
    }
}

#[track_caller]
pub(super) fn assert_none(talos: &str, config: &MachineConfig, places: &[Place]) {
    for place in places {
        assert_eq!(found(config, *place), None, "{talos}: {place:?} of {config:?}");
    }
}

pub(super) fn configs(cluster: &Cluster) -> [MachineConfig; 2] {
    ["cp-1", "w-1"].map(|name| judged(cluster, cluster.node(name).unwrap(), &secrets()).unwrap().config)
}

pub(super) const VERSIONS: [&str; 3] = ["v1.11.0", "v1.12.0", "v1.14.0"];

/// A config is kept as text, and read again by whoever compares it.
#[test]
fn a_config_is_read_as_it_was_made() {
    for talos in VERSIONS {
        for made in configs(&inventory(talos, EVERYTHING, REGISTRIES)) {
            let text = made.to_yaml();
            let read = MachineConfig::from_yaml(text.expose()).unwrap();
            assert_eq!(read.digest(), made.digest(), "{talos}");
            assert!(read.to_yaml() == text, "{talos}");
        }
    }
}

/// Mission: M19
#[test]
fn what_the_cluster_is_told_reaches_every_version() {
    let sans = json!(["203.0.113.5", "*.example.org"]);
    let manifests = json!(["https://example.org/cni.yaml", "https://example.org/more.yaml"]);
    let (pods, services) =
        (json!(["10.32.0.0/16", "fd00:32::/64"]), json!(["10.33.0.0/16", "fd00:33::/108"]));
    let discovery = "https://discovery.example.org/";
    let endpoint = "https://api.example.org:8443";
    for talos in VERSIONS {
        let cluster = inventory(talos, EVERYTHING, REGISTRIES);
        let [control_plane, worker] = configs(&cluster);
        let (everywhere, on_control_planes) = match talos {
            "v1.11.0" | "v1.12.0" => {
                let kubespan = (("", "", "/machine/network/kubespan"), json!({"enabled": true}));
                let everywhere = vec![
                    (("", "", "/cluster/controlPlane/endpoint"), json!(endpoint)),
                    (("", "", "/cluster/clusterName"), json!("whole")),
                    (("", "", "/cluster/network/dnsDomain"), json!("k8s.example.org")),
                    (("", "", "/cluster/network/podSubnets"), pods.clone()),
                    (("", "", "/cluster/network/serviceSubnets"), services.clone()),
                    (("", "", "/cluster/network/cni"), json!({"name": "custom", "urls": manifests})),
                    (("", "", "/cluster/discovery/enabled"), json!(true)),
                    (("", "", "/cluster/discovery/registries/service"), json!({"endpoint": discovery})),
                    (("", "", "/machine/certSANs"), sans.clone()),
                    (("", "", "/machine/install/disk"), json!("/dev/vda")),
                    kubespan,
                ];
                // Up to v1.11 the endpoint was put into the certificate by whoever generated the config.
                let server = match talos {
                    "v1.11.0" => json!(["api.example.org", "203.0.113.5", "*.example.org"]),
                    _ => sans.clone(),
                };
                let on_control_planes = vec![
                    (("", "", "/cluster/apiServer/certSANs"), server),
                    (("", "", "/cluster/proxy/disabled"), json!(true)),
                    (("", "", "/cluster/allowSchedulingOnControlPlanes"), json!(true)),
                ];
                (everywhere, on_control_planes)
            }
            _ => {
                let everywhere = vec![
                    (("KubeClusterConfig", "", "/endpoint"), json!(endpoint)),
                    (("KubeClusterConfig", "", "/clusterName"), json!("whole")),
                    (("KubeNetworkConfig", "", "/dnsDomain"), json!("k8s.example.org")),
                    (("KubeNetworkConfig", "", "/podSubnets"), pods.clone()),
                    (("KubeNetworkConfig", "", "/serviceSubnets"), services.clone()),
                    (("DiscoveryServiceConfig", "default", "/endpoint"), json!(discovery)),
                    (("KubeSpanConfig", "", "/enabled"), json!(true)),
                    (("", "", "/machine/certSANs"), sans.clone()),
                    (
                        ("UnattendedInstallConfig", "", "/provisioning/diskSelector/match"),
                        json!("disk.dev_path == \"/dev/vda\""),
                    ),
                ];
                let on_control_planes = vec![
                    (("KubeAPIServerConfig", "", "/certExtraSANs"), sans.clone()),
                    (("KubeProxyConfig", "", "/enabled"), json!(false)),
                    (("KubeExternalManifestConfig", "custom-cni", "/url"), manifests[0].clone()),
                    (("KubeExternalManifestConfig", "custom-cni-2", "/url"), manifests[1].clone()),
                    (("KubeServiceAccountConfig", "", "/issuer/issuerURL"), json!(endpoint)),
                ];
                assert_none(
                    talos,
                    &control_plane,
                    &[("KubeFlannelCNIConfig", "", ""), ("KubeNodeConfig", "", "/taints")],
                );
                (everywhere, on_control_planes)
            }
        };
        assert_all(talos, &control_plane, &everywhere);
        assert_all(talos, &control_plane, &on_control_planes);
        assert_all(talos, &worker, &everywhere);
        let only_there: Vec<Place> = on_control_planes.iter().map(|(place, _)| *place).collect();
        assert_none(talos, &worker, &only_there);
    }
}

/// Mission: M19
#[test]
fn registries_resolvers_and_clocks_reach_every_version() {
    let (time, domains) = (json!(["time.example.org", "10.0.0.4"]), json!(["example.org"]));
    let expected = |talos: &str| match talos {
        "v1.11.0" => vec![
            (
                ("", "", "/machine/registries"),
                json!({
                    "mirrors": {
                        "docker.io": {
                            "endpoints": ["https://one.lan/v2/hub", "https://two.lan/v2/hub"],
                            "overridePath": true,
                            "skipFallback": true,
                        },
                        "ghcr.io": {"endpoints": ["https://one.lan"]},
                    },
                    "config": {
                        "one.lan": {
                            "auth": {"username": "me", "password": "the PASSWORD"},
                            "tls": {"ca": base64(&PAIR.0)},
                        },
                        "two.lan": {
                            "auth": {"auth": "the AUTH"},
                            "tls": {"clientIdentity": {"crt": base64(&PAIR.0), "key": base64(&PAIR.1)}},
                        },
                        "three.lan": {
                            "auth": {"identityToken": "the TOKEN"},
                            "tls": {"insecureSkipVerify": true},
                        },
                    },
                }),
            ),
            (("", "", "/machine/time/servers"), time.clone()),
            (("", "", "/machine/network/nameservers"), json!(["10.0.0.2", "10.0.0.3"])),
            (("", "", "/machine/network/searchDomains"), domains.clone()),
            (("", "", "/machine/network/interfaces/0/mtu"), json!(1400)),
        ],
        _ => vec![
            (
                ("RegistryMirrorConfig", "docker.io", "/endpoints"),
                json!([
                    {"url": "https://one.lan/v2/hub", "overridePath": true},
                    {"url": "https://two.lan/v2/hub", "overridePath": true},
                ]),
            ),
            (("RegistryMirrorConfig", "docker.io", "/skipFallback"), json!(true)),
            (("RegistryMirrorConfig", "ghcr.io", "/endpoints"), json!([{"url": "https://one.lan"}])),
            (("RegistryAuthConfig", "one.lan", "/username"), json!("me")),
            (("RegistryAuthConfig", "one.lan", "/password"), json!("the PASSWORD")),
            (("RegistryAuthConfig", "two.lan", "/auth"), json!("the AUTH")),
            (("RegistryAuthConfig", "three.lan", "/identityToken"), json!("the TOKEN")),
            (("RegistryTLSConfig", "one.lan", "/ca"), json!(PAIR.0)),
            (("RegistryTLSConfig", "two.lan", "/clientIdentity"), json!({"cert": PAIR.0, "key": PAIR.1})),
            (("RegistryTLSConfig", "three.lan", "/insecureSkipVerify"), json!(true)),
            (("TimeSyncConfig", "", "/ntp/servers"), time.clone()),
            (
                ("ResolverConfig", "", "/nameservers"),
                json!([{"address": "10.0.0.2"}, {"address": "10.0.0.3"}]),
            ),
            (("ResolverConfig", "", "/searchDomains/domains"), domains.clone()),
            (("LinkConfig", "net0", "/mtu"), json!(1400)),
        ],
    };
    for talos in VERSIONS {
        let cluster = inventory(talos, EVERYTHING, REGISTRIES);
        for config in configs(&cluster) {
            assert_all(talos, &config, &expected(talos));
        }
        let [control_plane, worker] = configs(&cluster);
        let vip = match talos {
            "v1.11.0" => ("", "", "/machine/network/interfaces/0/vip/ip"),
            _ => ("Layer2VIPConfig", "10.0.0.9", "/name"),
        };
        assert_all(talos, &control_plane, &[(vip, json!("10.0.0.9"))]);
        assert_none(talos, &worker, &[vip]);
    }
}

/// The other side of every switch, and what holds where nothing is said.
#[test]
fn switches_that_are_off_and_defaults_reach_every_version() {
    for talos in VERSIONS {
        let [off, worker] = configs(&inventory(talos, "{cni: none, discovery: false}", ""));
        let [plain, _] = configs(&inventory(talos, "{}", ""));
        let (none, all) = match talos {
            "v1.14.0" => {
                let taint = json!({"node-role.kubernetes.io/control-plane": "NoSchedule"});
                let all = vec![
                    (
                        ("DiscoveryServiceConfig", "default", "/endpoint"),
                        json!("https://discovery.talos.dev/"),
                    ),
                    (("KubeFlannelCNIConfig", "", "/backendType"), json!("vxlan")),
                    (("KubeNodeConfig", "", "/taints"), taint),
                    (("KubeClusterConfig", "", "/endpoint"), json!("https://10.0.0.9:6443")),
                    (("KubeNetworkConfig", "", "/podSubnets"), json!(["10.244.0.0/16"])),
                    (("KubeNetworkConfig", "", "/serviceSubnets"), json!(["10.96.0.0/12"])),
                    (("KubeNetworkConfig", "", "/dnsDomain"), json!("cluster.local")),
                ];
                for config in [&off, &worker] {
                    assert_none(talos, config, &[("DiscoveryServiceConfig", "", "")]);
                }
                assert_none(talos, &off, &[("KubeFlannelCNIConfig", "", "")]);
                let none = vec![("KubeSpanConfig", "", ""), ("KubeProxyConfig", "", "/enabled")];
                (none, all)
            }
            _ => {
                for config in [&off, &worker] {
                    let switches = [
                        (("", "", "/cluster/discovery/enabled"), json!(false)),
                        (("", "", "/cluster/network/cni"), json!({"name": "none"})),
                    ];
                    assert_all(talos, config, &switches);
                }
                let all = vec![
                    (("", "", "/cluster/discovery/enabled"), json!(true)),
                    (("", "", "/cluster/controlPlane/endpoint"), json!("https://10.0.0.9:6443")),
                    (("", "", "/cluster/network/podSubnets"), json!(["10.244.0.0/16"])),
                    (("", "", "/cluster/network/serviceSubnets"), json!(["10.96.0.0/12"])),
                    (("", "", "/cluster/network/dnsDomain"), json!("cluster.local")),
                ];
                let none = vec![
                    ("", "", "/cluster/network/cni"),
                    ("", "", "/cluster/proxy/disabled"),
                    ("", "", "/cluster/allowSchedulingOnControlPlanes"),
                    ("", "", "/machine/network/kubespan"),
                    ("", "", "/machine/registries"),
                    ("RegistryMirrorConfig", "", ""),
                ];
                (none, all)
            }
        };
        assert_all(talos, &plain, &all);
        assert_none(talos, &plain, &none);
    }
}
