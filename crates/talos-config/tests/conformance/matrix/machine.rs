//! What is a machine's own: disks, volumes, kernel, kubelet, logs, extensions.

use daedal_talos_config::{
    DiskKind, DiskSelector, Encryption, EncryptionKey, ExtensionService, ExtraMount, Hostname, KernelLog,
    KernelModule, LogDestination, Secret, UserVolume,
};
use rand::{Rng, seq::SliceRandom};
use serde_json::json;

use super::Choice;

pub(super) const CHOICES: &[Choice] = &[
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
];
