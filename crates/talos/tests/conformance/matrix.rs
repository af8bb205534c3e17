//! Options against the real generator, and its patcher where it has no option: every version, both roles.

use daedal_talos::{
    Secret,
    config::{
        Bond, BondMode, ClusterOptions, Cni, Dhcp, Discovery, DiskKind, DiskSelector, Encryption,
        EncryptionKey, ExtensionService, ExtraMount, Hostname, KernelLog, KernelModule, KubeSpan, Link,
        LogDestination, MachineConfig, Marks, NodeOptions, RegistryAuth, RegistryMirror, RegistryTls, Role,
        Route, UserVolume, Vlan,
    },
};
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

/// A certificate and a key of some authority.
fn pem() -> (String, String) {
    (bundle().os.crt.clone(), bundle().os.key.expose().to_owned())
}

fn base64(text: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
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

/// Some way of asking for addresses: of one kind or both, with and without a preference.
fn dhcp(rng: &mut StdRng) -> Dhcp {
    let (ipv4, ipv6) = *[(true, false), (false, true), (true, true)].choose(rng).unwrap();
    Dhcp { ipv4, ipv6, route_metric: rng.gen_bool(0.5).then_some(4096) }
}

/// The same in an interface of old.
fn dhcp_fields(interface: &mut Json, dhcp: Dhcp) {
    if dhcp.ipv4 || dhcp.ipv6 {
        interface["dhcp"] = true.into();
    }
    if dhcp.ipv6 || dhcp.route_metric.is_some() {
        interface["dhcpOptions"] = json!({"routeMetric": dhcp.route_metric.unwrap_or(1024),
            "ipv4": dhcp.ipv4, "ipv6": dhcp.ipv6});
    }
}

fn merge(fields: &mut Json, more: &Json) {
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
}

type Choice = (&'static str, fn(&mut Case, &mut StdRng));

const CHOICES: &[Choice] = &[
    ("hostname", |case, _| {
        case.node.hostname = "node-1".into();
        if case.has_documents() {
            case.document("HostnameConfig", None, json!({"$patch": "delete"}));
            case.document("HostnameConfig", None, json!({"auto": "off", "hostname": "node-1"}));
        } else {
            case.patch(json!({"machine": {"network": {"hostname": "node-1"}}}));
        }
    }),
    ("hostname off", |case, _| {
        if case.chosen.contains(&"hostname") {
            return;
        }
        case.node.hostname = Hostname::Off;
        if case.has_documents() {
            case.document("HostnameConfig", None, json!({"$patch": "delete"}));
        } else {
            case.patch(json!({"machine": {"features": {"stableHostname": {"$patch": "delete"}}}}));
        }
    }),
    ("install image", |case, _| {
        let image = "factory.talos.dev/nocloud-installer-secureboot/abc:v1.12.0";
        case.node.install.image = Some(image.into());
        case.either(
            14,
            json!({"machine": {"install": {"image": image}}}),
            "UnattendedInstallConfig",
            // What a patch leaves out of this document is unset.
            json!({"installer": {"image": image}, "provisioning": {"diskSelector": {"match": "disk.dev_path == \"/dev/sda\""}}}),
        );
    }),
    ("install selector", |case, rng| {
        let text = |text: &str| Some(text.to_owned());
        let any = DiskSelector::default;
        // The options; the fields; how Talos itself writes them as an expression, between what it adds for every disk.
        let (selector, fields, before, after) = match rng.gen_range(0..6) {
            0 => (
                DiskSelector {
                    min_size: Some(100_000_000_000),
                    model: text("QEMU*"),
                    kind: Some(DiskKind::Nvme),
                    ..any()
                },
                json!({"size": ">= 100000000000", "model": "QEMU*", "type": "nvme"}),
                "disk.size >= 100000000000u && glob(\"QEMU*\", disk.model) && ",
                " && disk.transport == \"nvme\"",
            ),
            1 => (
                DiskSelector { model: text("QEMU*"), kind: Some(DiskKind::Hdd), ..any() },
                json!({"model": "QEMU*", "type": "hdd"}),
                "glob(\"QEMU*\", disk.model) && ",
                " && disk.rotational",
            ),
            2 => (
                DiskSelector { serial: text("S3Z \"1\"*"), kind: Some(DiskKind::Ssd), ..any() },
                json!({"serial": "S3Z \"1\"*", "type": "ssd"}),
                "glob(\"S3Z \\\"1\\\"*\", disk.serial) && ",
                " && !disk.rotational",
            ),
            3 => (
                DiskSelector {
                    uuid: text("0000-0001-*"),
                    wwid: text("naa.5000c500*"),
                    kind: Some(DiskKind::Sd),
                    ..any()
                },
                json!({"uuid": "0000-0001-*", "wwid": "naa.5000c500*", "type": "sd"}),
                "glob(\"0000-0001-*\", disk.uuid) && glob(\"naa.5000c500*\", disk.wwid) && ",
                " && disk.transport == \"mmc\"",
            ),
            4 => (
                DiskSelector { bus_path: text("/pci0000:00/*"), modalias: text("scsi:t-0x00*"), ..any() },
                json!({"busPath": "/pci0000:00/*", "modalias": "scsi:t-0x00*"}),
                "glob(\"scsi:t-0x00*\", disk.modalias) && ",
                " && glob(\"/pci0000:00/*\", disk.bus_path)",
            ),
            _ => (
                DiskSelector {
                    min_size: Some(1),
                    model: text("m"),
                    serial: text("s"),
                    modalias: text("a"),
                    uuid: text("u"),
                    wwid: text("w"),
                    kind: Some(DiskKind::Ssd),
                    bus_path: text("b"),
                },
                json!({"size": ">= 1", "model": "m", "serial": "s", "modalias": "a", "uuid": "u", "wwid": "w",
                    "type": "ssd", "busPath": "b"}),
                "disk.size >= 1u && glob(\"u\", disk.uuid) && glob(\"w\", disk.wwid) && glob(\"m\", disk.model) && \
                 glob(\"s\", disk.serial) && glob(\"a\", disk.modalias) && ",
                " && !disk.rotational && glob(\"b\", disk.bus_path)",
            ),
        };
        case.node.install.disk = None;
        case.node.install.disk_selector = Some(selector);
        if case.is_split() {
            let expression =
                format!("{before}disk.transport != \"\"{after} && !disk.readonly && !disk.cdrom");
            case.document(
                "UnattendedInstallConfig",
                None,
                json!({"provisioning": {"diskSelector": {"match": expression}}}),
            );
        } else {
            case.patch(
                json!({"machine": {"install": {"disk": {"$patch": "delete"}, "diskSelector": fields}}}),
            );
        }
    }),
    ("SANs", |case, _| {
        let names = json!(["api.example.org", "10.0.0.99"]);
        case.cluster.cert_sans = vec!["api.example.org".into(), "10.0.0.99".into()];
        case.patch(json!({"machine": {"certSANs": names}}));
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"apiServer": {"certSANs": names}}}),
                "KubeAPIServerConfig",
                json!({"certExtraSANs": names}),
            );
        }
    }),
    ("subnets", |case, rng| {
        let both = rng.gen_bool(0.5);
        let pods = if both { vec!["10.8.0.0/14", "fd00:8::/56"] } else { vec!["10.8.0.0/14"] };
        let services = if both { vec!["10.112.0.0/16", "fd00:9::/112"] } else { vec!["10.112.0.0/16"] };
        case.cluster.pod_subnets = pods.iter().map(|net| net.parse().unwrap()).collect();
        case.cluster.service_subnets = services.iter().map(|net| net.parse().unwrap()).collect();
        let fields = json!({"podSubnets": pods, "serviceSubnets": services});
        case.either(14, json!({"cluster": {"network": fields}}), "KubeNetworkConfig", fields);
    }),
    ("domain", |case, _| {
        case.cluster.dns_domain = "example.internal".into();
        let fields = json!({"dnsDomain": "example.internal"});
        case.either(14, json!({"cluster": {"network": fields}}), "KubeNetworkConfig", fields);
    }),
    ("CNI none", |case, _| {
        case.cluster.cni = Cni::None;
        if !case.is_split() {
            case.patch(json!({"cluster": {"network": {"cni": {"name": "none"}}}}));
        } else if case.is_control_plane() {
            case.document("KubeFlannelCNIConfig", None, json!({"$patch": "delete"}));
        }
    }),
    ("CNI custom", |case, rng| {
        if case.chosen.contains(&"CNI none") {
            return;
        }
        let mut manifests = vec![("custom-cni", "https://example.org/cni.yaml")];
        if rng.gen_bool(0.5) {
            manifests.push(("custom-cni-2", "https://example.org/more.yaml?ref=1"));
        }
        let urls: Vec<String> = manifests.iter().map(|(_, url)| (*url).to_owned()).collect();
        case.cluster.cni = Cni::Custom(urls.clone());
        if !case.is_split() {
            case.patch(json!({"cluster": {"network": {"cni": {"name": "custom", "urls": urls}}}}));
        } else if case.is_control_plane() {
            case.document("KubeFlannelCNIConfig", None, json!({"$patch": "delete"}));
            for (name, url) in manifests {
                case.document("KubeExternalManifestConfig", Some(name), json!({"url": url}));
            }
        }
    }),
    ("no kube-proxy", |case, _| {
        case.cluster.kube_proxy = false;
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"proxy": {"disabled": true}}}),
                "KubeProxyConfig",
                json!({"enabled": false}),
            );
        }
    }),
    ("workloads on control planes", |case, _| {
        case.cluster.schedule_on_control_planes = true;
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"allowSchedulingOnControlPlanes": true}}),
                "KubeNodeConfig",
                json!({"taints": {"node-role.kubernetes.io/control-plane": {"$patch": "delete"}}}),
            );
        }
    }),
    ("mirrors", |case, rng| {
        let (skip, over) = (case.minor() > 8 && rng.gen_bool(0.5), rng.gen_bool(0.5));
        case.cluster.registry_mirrors = vec![RegistryMirror {
            registry: "docker.io".into(),
            endpoints: vec!["https://mirror.example.org".into(), "http://10.0.0.5:5000".into()],
            override_path: over,
            skip_fallback: skip,
        }];
        if case.has_documents() {
            let endpoint = |url: &str| {
                if over { json!({"url": url, "overridePath": true}) } else { json!({"url": url}) }
            };
            let mut fields = json!({"endpoints": [endpoint("https://mirror.example.org"), endpoint("http://10.0.0.5:5000")]});
            if skip {
                fields["skipFallback"] = true.into();
            }
            case.document("RegistryMirrorConfig", Some("docker.io"), fields);
        } else {
            let mut mirror = json!({"endpoints": ["https://mirror.example.org", "http://10.0.0.5:5000"]});
            if skip {
                mirror["skipFallback"] = true.into();
            }
            if over {
                mirror["overridePath"] = true.into();
            }
            case.patch(json!({"machine": {"registries": {"mirrors": {"docker.io": mirror}}}}));
        }
    }),
    ("registry auth", |case, rng| {
        let registry = "registry.example.org".to_owned();
        let secret = |text: &str| Some(Secret::new(text));
        let (options, auth) = match rng.gen_range(0..3) {
            0 => (
                RegistryAuth {
                    registry,
                    username: Some("daedal".into()),
                    password: secret("hunter2"),
                    ..RegistryAuth::default()
                },
                json!({"username": "daedal", "password": "hunter2"}),
            ),
            1 => (
                RegistryAuth { registry, auth: secret("ZGFlZGFsOmh1bnRlcjI="), ..RegistryAuth::default() },
                json!({"auth": "ZGFlZGFsOmh1bnRlcjI="}),
            ),
            _ => (
                RegistryAuth { registry, identity_token: secret("t0ken"), ..RegistryAuth::default() },
                json!({"identityToken": "t0ken"}),
            ),
        };
        case.cluster.registry_auth = vec![options];
        if case.has_documents() {
            case.document("RegistryAuthConfig", Some("registry.example.org"), auth);
        } else {
            case.patch(
                json!({"machine": {"registries": {"config": {"registry.example.org": {"auth": auth}}}}}),
            );
        }
    }),
    ("registry TLS", |case, rng| {
        let client = rng.gen_bool(0.5);
        let (pem, key) = pem();
        case.cluster.registry_tls = vec![RegistryTls {
            registry: "registry.example.org".into(),
            ca: Some(pem.clone()),
            client: client.then(|| (pem.clone(), Secret::new(key.clone()))),
            insecure_skip_verify: !client,
        }];
        let mut tls = json!({});
        if case.has_documents() {
            tls["ca"] = pem.as_str().into();
            if client {
                tls["clientIdentity"] = json!({"cert": pem, "key": key});
            }
        } else {
            tls["ca"] = base64(&pem).into();
            if client {
                tls["clientIdentity"] = json!({"crt": base64(&pem), "key": base64(&key)});
            }
        }
        if !client {
            tls["insecureSkipVerify"] = true.into();
        }
        if case.has_documents() {
            case.document("RegistryTLSConfig", Some("registry.example.org"), tls);
        } else {
            case.patch(
                json!({"machine": {"registries": {"config": {"registry.example.org": {"tls": tls}}}}}),
            );
        }
    }),
    ("KubeSpan", |case, rng| {
        // As an inventory has it, and with everything that the library can say.
        let (options, fields) = if rng.gen_bool(0.5) {
            (KubeSpan::default(), json!({"enabled": true}))
        } else {
            let options =
                KubeSpan { mtu: Some(1380), allow_down_peer_bypass: Some(true), ..KubeSpan::default() };
            (options, json!({"enabled": true, "allowDownPeerBypass": true, "mtu": 1380}))
        };
        case.cluster.kubespan = Some(options);
        case.either(13, json!({"machine": {"network": {"kubespan": fields}}}), "KubeSpanConfig", fields);
    }),
    ("discovery off", |case, _| {
        if case.chosen.contains(&"KubeSpan") {
            return;
        }
        case.cluster.discovery = Discovery::Disabled;
        if case.is_split() {
            case.document("DiscoveryServiceConfig", Some("default"), json!({"$patch": "delete"}));
        } else {
            case.patch(json!({"cluster": {"discovery": {"enabled": false}}}));
        }
    }),
    ("own discovery", |case, _| {
        if case.chosen.contains(&"discovery off") {
            return;
        }
        let url = "https://discovery.example.org/";
        case.cluster.discovery = Discovery::Service(url.into());
        if case.is_split() {
            case.document("DiscoveryServiceConfig", Some("default"), json!({"endpoint": url}));
        } else {
            case.patch(json!({"cluster": {"discovery": {"registries": {"service": {"endpoint": url}}}}}));
        }
    }),
    ("time servers", |case, _| {
        case.node.time_servers = vec!["time.example.org".into(), "10.0.0.7".into()];
        let servers = json!({"servers": ["time.example.org", "10.0.0.7"]});
        case.either(12, json!({"machine": {"time": servers}}), "TimeSyncConfig", json!({"ntp": servers}));
    }),
    ("sysctls", |case, _| {
        case.node.sysctls.insert("vm.max_map_count".into(), "262144".into());
        case.node.sysctls.insert("net.core.somaxconn".into(), "65535".into());
        let params = json!({"vm.max_map_count": "262144", "net.core.somaxconn": "65535"});
        case.either(14, json!({"machine": {"sysctls": params}}), "SysctlConfig", json!({"params": params}));
    }),
    ("modules", |case, _| {
        case.node.kernel_modules = vec![
            KernelModule { name: "nbd".into(), parameters: vec!["nbds_max=16".into()] },
            KernelModule { name: "drbd".into(), parameters: vec![] },
        ];
        if case.is_split() {
            case.document("KernelModuleConfig", Some("nbd"), json!({"parameters": ["nbds_max=16"]}));
            case.document("KernelModuleConfig", Some("drbd"), json!({}));
        } else {
            case.patch(json!({"machine": {"kernel": {"modules":
                [{"name": "nbd", "parameters": ["nbds_max=16"]}, {"name": "drbd"}]}}}));
        }
    }),
    ("labels, annotations, taints", |case, _| {
        case.node.labels.insert("example.org/rack".into(), "off".into());
        case.node.annotations.insert("example.org/note".into(), "a: b # c".into());
        case.node.taints.insert("dedicated".into(), "db:NoSchedule".into());
        let (labels, notes, taints) = (
            json!({"example.org/rack": "off"}),
            json!({"example.org/note": "a: b # c"}),
            json!({"dedicated": "db:NoSchedule"}),
        );
        case.either(
            14,
            json!({"machine": {"nodeLabels": labels, "nodeAnnotations": notes, "nodeTaints": taints}}),
            "KubeNodeConfig",
            json!({"labels": labels, "annotations": notes, "taints": taints}),
        );
    }),
    ("extra mounts", |case, _| {
        case.node.extra_mounts = vec![ExtraMount::bind("/var/lib/longhorn")];
        let mounts = json!([{"destination": "/var/lib/longhorn", "type": "bind", "source": "/var/lib/longhorn",
            "options": ["bind", "rshared", "rw"]}]);
        if case.is_split() {
            // The document has no mounts: the kubelet goes back to the main document.
            case.document("KubeletConfig", None, json!({"$patch": "delete"}));
            case.patch(json!({"machine": {"kubelet": {
                "image": format!("ghcr.io/siderolabs/kubelet:{}", case.contract.kubernetes),
                "defaultRuntimeSeccompProfileEnabled": true, "disableManifestsDirectory": true,
                "extraMounts": mounts}}}));
        } else {
            case.patch(json!({"machine": {"kubelet": {"extraMounts": mounts}}}));
        }
    }),
    ("user volumes", |case, rng| {
        if case.minor() < 10 {
            return;
        }
        let encrypted = case.minor() >= 11 && rng.gen_bool(0.5);
        let mut volume = UserVolume::new("data", "!system_disk");
        volume.min_size = Some("10GiB".into());
        let mut fields =
            json!({"provisioning": {"diskSelector": {"match": "!system_disk"}, "minSize": "10GiB"}});
        if rng.gen_bool(0.5) {
            volume.max_size = Some("100GiB".into());
            fields["provisioning"]["maxSize"] = "100GiB".into();
        }
        if rng.gen_bool(0.5) {
            let grow = rng.gen_bool(0.5);
            volume.grow = Some(grow);
            fields["provisioning"]["grow"] = grow.into();
        }
        if let Some(kind) = [None, Some("ext4"), Some("xfs")].choose(rng).unwrap() {
            volume.filesystem = Some((*kind).into());
            fields["filesystem"] = json!({"type": kind});
        }
        if encrypted {
            volume.encryption =
                Some(Encryption { keys: vec![EncryptionKey::NodeId], ..Encryption::default() });
            fields["encryption"] = json!({"provider": "luks2", "keys": [{"slot": 0, "nodeID": {}}]});
        }
        case.node.user_volumes = vec![volume];
        case.document("UserVolumeConfig", Some("data"), fields);
    }),
    ("encryption", |case, rng| {
        let (key, wire) = match rng.gen_range(0..3) {
            0 => (
                EncryptionKey::Kms("https://kms.example.org".into()),
                json!({"slot": 0, "kms": {"endpoint": "https://kms.example.org"}}),
            ),
            1 => (
                EncryptionKey::Tpm { check_secure_boot: true },
                json!({"slot": 0, "tpm": {"checkSecurebootStatusOnEnroll": true}}),
            ),
            _ => (EncryptionKey::NodeId, json!({"slot": 0, "nodeID": {}})),
        };
        let state = Encryption { keys: vec![key], ..Encryption::default() };
        let (second, second_wire) = if rng.gen_bool(0.5) {
            (EncryptionKey::Tpm { check_secure_boot: false }, json!({"slot": 1, "tpm": {}}))
        } else {
            (EncryptionKey::NodeId, json!({"slot": 1, "nodeID": {}}))
        };
        let ephemeral = Encryption {
            keys: vec![EncryptionKey::Static(Secret::new("open sesame")), second],
            cipher: Some("aes-xts-plain64".into()),
            key_size: Some(4096),
            block_size: Some(4096),
            options: vec!["no_read_workqueue".into()],
        };
        case.node.encrypt_state = Some(state);
        case.node.encrypt_ephemeral = Some(ephemeral);
        let state = json!({"provider": "luks2", "keys": [wire]});
        let ephemeral = json!({"provider": "luks2", "keys": [{"slot": 0, "static": {"passphrase": "open sesame"}},
            second_wire], "cipher": "aes-xts-plain64", "keySize": 4096, "blockSize": 4096,
            "options": ["no_read_workqueue"]});
        if case.minor() >= 11 {
            case.document("VolumeConfig", Some("STATE"), json!({"encryption": state}));
            case.document("VolumeConfig", Some("EPHEMERAL"), json!({"encryption": ephemeral}));
        } else {
            case.patch(
                json!({"machine": {"systemDiskEncryption": {"state": state, "ephemeral": ephemeral}}}),
            );
        }
    }),
    ("logging", |case, _| {
        case.node.log_destinations = vec![LogDestination {
            endpoint: "tcp://10.0.0.9:6001".into(),
            extra_tags: [("cluster".to_owned(), "c1".to_owned())].into_iter().collect(),
        }];
        case.node.kernel_logs = vec![KernelLog { name: "remote".into(), url: "udp://10.0.0.9:6002".into() }];
        case.patch(json!({"machine": {"logging": {"destinations":
            [{"endpoint": "tcp://10.0.0.9:6001", "format": "json_lines", "extraTags": {"cluster": "c1"}}]}}}));
        case.document("KmsgLogConfig", Some("remote"), json!({"url": "udp://10.0.0.9:6002"}));
    }),
    ("extension service", |case, _| {
        case.node.extension_services = vec![ExtensionService {
            name: "tailscale".into(),
            config_files: vec![("/etc/x.conf".into(), Secret::new("a = 1\n"))],
            environment: [
                ("TS_AUTHKEY".to_owned(), Secret::new("tskey-1")),
                ("TS_EXTRA_ARGS".to_owned(), Secret::new("--login-server=https://headscale.example.org")),
            ]
            .into_iter()
            .collect(),
        }];
        case.document(
            "ExtensionServiceConfig",
            Some("tailscale"),
            json!({"configFiles": [{"content": "a = 1\n", "mountPath": "/etc/x.conf"}],
                "environment": ["TS_AUTHKEY=tskey-1", "TS_EXTRA_ARGS=--login-server=https://headscale.example.org"]}),
        );
    }),
    ("static link with VLANs and routes", |case, rng| {
        let mtu = rng.gen_bool(0.5).then_some(1450);
        let mut link = Link::new("BC:24:11:00:00:01".parse().unwrap());
        link.mtu = mtu;
        link.addresses = vec!["10.0.0.11/16".parse().unwrap()];
        link.routes = vec![
            Route { destination: None, gateway: "10.0.0.1".parse().unwrap(), metric: None },
            Route {
                destination: Some("192.168.0.0/16".parse().unwrap()),
                gateway: "10.0.0.2".parse().unwrap(),
                metric: Some(2048),
            },
        ];
        link.vlans = vec![
            Vlan {
                id: 100,
                mtu: Some(9000),
                addresses: vec!["10.100.0.11/24".parse().unwrap()],
                routes: vec![Route {
                    destination: Some("10.101.0.0/24".parse().unwrap()),
                    gateway: "10.100.0.1".parse().unwrap(),
                    metric: None,
                }],
                dhcp: None,
            },
            Vlan { id: 200, mtu: None, addresses: vec![], routes: vec![], dhcp: None },
        ];
        case.node.links.push(link);
        let selector = json!({"match": "mac(link.permanent_addr) == \"bc:24:11:00:00:01\""});
        if case.has_documents() {
            let name = format!("net{}", case.aliases);
            case.aliases += 1;
            case.document("LinkAliasConfig", Some(&name), json!({"selector": selector}));
            let mut fields = json!({"up": true, "addresses": [{"address": "10.0.0.11/16"}], "routes":
                [{"gateway": "10.0.0.1"}, {"destination": "192.168.0.0/16", "gateway": "10.0.0.2", "metric": 2048}]});
            if let Some(mtu) = mtu {
                fields["mtu"] = mtu.into();
            }
            case.document("LinkConfig", Some(&name), fields);
            let (first, second) = (format!("{name}.100"), format!("{name}.200"));
            case.document(
                "VLANConfig",
                Some(&first),
                json!({"vlanID": 100, "parent": name, "up": true, "mtu": 9000,
                "addresses": [{"address": "10.100.0.11/24"}],
                "routes": [{"destination": "10.101.0.0/24", "gateway": "10.100.0.1"}]}),
            );
            case.document("VLANConfig", Some(&second), json!({"vlanID": 200, "parent": name, "up": true}));
            case.document("DHCPv4Config", Some(&second), json!({}));
        } else {
            let mut interface = json!({"deviceSelector": {"hardwareAddr": "bc:24:11:00:00:01"},
                "addresses": ["10.0.0.11/16"], "routes": [{"network": "0.0.0.0/0", "gateway": "10.0.0.1"},
                {"network": "192.168.0.0/16", "gateway": "10.0.0.2", "metric": 2048}],
                "vlans": [{"vlanId": 100, "mtu": 9000, "addresses": ["10.100.0.11/24"],
                    "routes": [{"network": "10.101.0.0/24", "gateway": "10.100.0.1"}]},
                    {"vlanId": 200, "dhcp": true, "routes": []}]});
            if let Some(mtu) = mtu {
                interface["mtu"] = mtu.into();
            }
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("a link with DHCP", |case, rng| {
        let dhcp = dhcp(rng);
        let mut link = Link::new("BC:24:11:00:00:02".parse().unwrap());
        link.dhcp = Some(dhcp);
        case.node.links.push(link);
        if case.has_documents() {
            let name = format!("net{}", case.aliases);
            case.aliases += 1;
            let selector = json!({"match": "mac(link.permanent_addr) == \"bc:24:11:00:00:02\""});
            case.document("LinkAliasConfig", Some(&name), json!({"selector": selector}));
            case.document("LinkConfig", Some(&name), json!({"up": true}));
            case.dhcp_documents(&name, dhcp);
        } else {
            let mut interface = json!({"deviceSelector": {"hardwareAddr": "bc:24:11:00:00:02"}});
            dhcp_fields(&mut interface, dhcp);
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("a bond", |case, rng| {
        use BondMode::{ActiveBackup, BalanceAlb, BalanceRr, BalanceTlb, BalanceXor, Broadcast, Lacp};
        let macs = ["BC:24:11:00:00:03", "BC:24:11:00:00:04"];
        let (mode, word) = *[
            (Lacp, "802.3ad"),
            (ActiveBackup, "active-backup"),
            (BalanceRr, "balance-rr"),
            (BalanceXor, "balance-xor"),
            (Broadcast, "broadcast"),
            (BalanceTlb, "balance-tlb"),
            (BalanceAlb, "balance-alb"),
        ]
        .choose(rng)
        .unwrap();
        let mut bond = Bond::new("bond0", macs.iter().map(|mac| mac.parse().unwrap()).collect(), mode);
        let mut options = json!({});
        if matches!(mode, Lacp | BalanceXor) {
            let policies = ["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"];
            let policy = *policies.choose(rng).unwrap();
            bond.hash_policy = Some(policy.into());
            options["xmitHashPolicy"] = policy.into();
        }
        if mode == Lacp {
            let rate = *["slow", "fast"].choose(rng).unwrap();
            bond.lacp_rate = Some(rate.into());
            options["lacpRate"] = rate.into();
        }
        if rng.gen_bool(0.7) {
            bond.miimon = Some(100);
            options["miimon"] = 100.into();
        }
        let mtu = rng.gen_bool(0.5).then_some(9000);
        bond.mtu = mtu;
        bond.addresses = vec!["10.3.0.11/24".parse().unwrap(), "fd00:3::11/64".parse().unwrap()];
        bond.routes = vec![
            Route { destination: None, gateway: "10.3.0.1".parse().unwrap(), metric: Some(512) },
            Route {
                destination: Some("fd00:9::/48".parse().unwrap()),
                gateway: "fd00:3::1".parse().unwrap(),
                metric: None,
            },
        ];
        let asked = rng.gen_bool(0.5).then(|| dhcp(rng));
        bond.dhcp = asked;
        let on_vlan = rng.gen_bool(0.5).then(|| dhcp(rng));
        if on_vlan.is_some() {
            bond.vlans = vec![
                Vlan {
                    id: 30,
                    mtu: Some(1400),
                    addresses: vec!["10.30.0.11/24".parse().unwrap()],
                    routes: vec![Route {
                        destination: Some("10.31.0.0/16".parse().unwrap()),
                        gateway: "10.30.0.1".parse().unwrap(),
                        metric: Some(7),
                    }],
                    dhcp: None,
                },
                Vlan { id: 31, mtu: None, addresses: vec![], routes: vec![], dhcp: on_vlan },
            ];
        }
        case.node.bonds.push(bond);
        if case.has_documents() {
            let mut links = Vec::new();
            for mac in macs {
                let name = format!("net{}", case.aliases);
                case.aliases += 1;
                let expression = format!("mac(link.permanent_addr) == \"{}\"", mac.to_lowercase());
                case.document("LinkAliasConfig", Some(&name), json!({"selector": {"match": expression}}));
                links.push(name);
            }
            let mut fields = json!({"links": links, "bondMode": word, "up": true,
                "addresses": [{"address": "10.3.0.11/24"}, {"address": "fd00:3::11/64"}],
                "routes": [{"gateway": "10.3.0.1", "metric": 512},
                    {"destination": "fd00:9::/48", "gateway": "fd00:3::1"}]});
            merge(&mut fields, &options);
            if let Some(mtu) = mtu {
                fields["mtu"] = mtu.into();
            }
            case.document("BondConfig", Some("bond0"), fields);
            case.dhcp_documents("bond0", asked.unwrap_or_default());
            if let Some(dhcp) = on_vlan {
                case.document(
                    "VLANConfig",
                    Some("bond0.30"),
                    json!({"vlanID": 30, "parent": "bond0", "up": true, "mtu": 1400,
                        "addresses": [{"address": "10.30.0.11/24"}],
                        "routes": [{"destination": "10.31.0.0/16", "gateway": "10.30.0.1", "metric": 7}]}),
                );
                case.document(
                    "VLANConfig",
                    Some("bond0.31"),
                    json!({"vlanID": 31, "parent": "bond0", "up": true}),
                );
                case.dhcp_documents("bond0.31", dhcp);
            }
        } else {
            let key = if case.minor() >= 10 { "permanentAddr" } else { "hardwareAddr" };
            let selectors: Vec<Json> = macs.iter().map(|mac| json!({key: mac.to_lowercase()})).collect();
            let mut fields = json!({"deviceSelectors": selectors, "mode": word});
            merge(&mut fields, &options);
            let mut interface = json!({"interface": "bond0", "bond": fields,
                "addresses": ["10.3.0.11/24", "fd00:3::11/64"],
                "routes": [{"network": "0.0.0.0/0", "gateway": "10.3.0.1", "metric": 512},
                    {"network": "fd00:9::/48", "gateway": "fd00:3::1"}]});
            if let Some(mtu) = mtu {
                interface["mtu"] = mtu.into();
            }
            dhcp_fields(&mut interface, asked.unwrap_or_default());
            if let Some(dhcp) = on_vlan {
                let mut second = json!({"vlanId": 31, "routes": []});
                dhcp_fields(&mut second, dhcp);
                interface["vlans"] = json!([{"vlanId": 30, "mtu": 1400, "addresses": ["10.30.0.11/24"],
                    "routes": [{"network": "10.31.0.0/16", "gateway": "10.30.0.1", "metric": 7}]}, second]);
            }
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("VIP", |case, _| {
        if !case.is_control_plane() || (case.node.links.is_empty() && case.node.bonds.is_empty()) {
            return;
        }
        let vip = if case.node.bonds.is_empty() { "10.0.0.20" } else { "10.3.0.20" };
        case.node.vip = Some(vip.parse().unwrap());
        let bonded = !case.node.bonds.is_empty();
        if case.has_documents() {
            let link = if bonded { "bond0" } else { "net0" };
            case.document("Layer2VIPConfig", Some(vip), json!({"link": link}));
        } else if bonded {
            case.patch(
                json!({"machine": {"network": {"interfaces": [{"interface": "bond0", "vip": {"ip": vip}}]}}}),
            );
        } else {
            let mac = case.node.links[0].mac.to_string();
            case.patch(json!({"machine": {"network": {"interfaces":
                [{"deviceSelector": {"hardwareAddr": mac}, "vip": {"ip": vip}}]}}}));
        }
    }),
    ("resolvers", |case, _| {
        case.node.nameservers = vec!["1.1.1.1".parse().unwrap(), "2606:4700:4700::1111".parse().unwrap()];
        let search = case.minor() > 8;
        if search {
            case.node.search_domains = vec!["example.org".into()];
        }
        if case.has_documents() {
            case.document(
                "ResolverConfig",
                None,
                json!({
                "nameservers": [{"address": "1.1.1.1"}, {"address": "2606:4700:4700::1111"}],
                "searchDomains": {"domains": ["example.org"]}}),
            );
        } else {
            let mut network = json!({"nameservers": ["1.1.1.1", "2606:4700:4700::1111"]});
            if search {
                network["searchDomains"] = json!(["example.org"]);
            }
            case.patch(json!({"machine": {"network": network}}));
        }
    }),
    ("accepted authorities", |case, _| {
        let (pem, _) = pem();
        case.cluster.accepted_os_cas = vec![pem.clone()];
        case.cluster.accepted_k8s_cas = vec![pem.clone()];
        case.patch(json!({"machine": {"acceptedCAs": [{"crt": base64(&pem)}]}}));
        case.either(
            14,
            json!({"cluster": {"acceptedCAs": [{"crt": base64(&pem)}]}}),
            "KubeAPIServerCAConfig",
            json!({"acceptedCAs": [pem]}),
        );
    }),
];

const ENDPOINTS: [&str; 3] =
    ["https://10.0.0.20:6443", "https://k8s.example.org:8443", "https://[fd00::20]:6443"];

#[test]
fn options_give_what_the_real_generator_and_patcher_give() {
    let mut tally = Tally::new("options: generator, patcher and validator");
    let mut written_back = Tally::new("compare: the same configs as Talos writes them back");
    let key = Secret::new("key");
    let mut rng = StdRng::seed_from_u64(2024);
    let mut often = vec![0usize; CHOICES.len()];
    for contract in CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        let secrets = bundle().to_yaml();
        for role in [Role::ControlPlane, Role::Worker] {
            // Nothing; each alone; then many at once.
            let alone = (0..CHOICES.len()).map(|choice| vec![choice]);
            let many = (0..PER_CONTRACT_AND_ROLE).map(|_| {
                let share = rng.gen_range(0.1..0.9);
                (0..CHOICES.len()).filter(|_| rng.gen_bool(share)).collect::<Vec<usize>>()
            });
            let picks: Vec<Vec<usize>> = std::iter::once(vec![]).chain(alone).chain(many).collect();
            for pick in picks {
                let endpoint = ENDPOINTS.choose(&mut rng).unwrap();
                let mut case = Case::new(contract, role, endpoint);
                for index in pick {
                    let (name, choose) = CHOICES[index];
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
        let seldom: Vec<_> = CHOICES.iter().zip(&often).filter(|(_, times)| **times <= 100).collect();
        let seldom: Vec<_> = seldom.iter().map(|((name, _), times)| (name, times)).collect();
        assert!(seldom.is_empty(), "compared too seldom: {seldom:?}");
        println!("the choice that was compared least took effect {} times", often.iter().min().unwrap());
        assert!(compared >= 500 && read_back == compared);
    }
}
