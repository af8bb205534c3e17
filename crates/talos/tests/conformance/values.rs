//! Values of every sort, right and wrong, put wherever an inventory or a patch can put them: our lint and Talos' own
//! validator are of one mind, but for what ours is documented to add.

use daedal_talos::config::{ClusterOptions, Link, MachineConfig, NodeOptions, Patch, Role, Severity};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;

use crate::peer::{CONTRACTS, ConfigTool, Contract, Tally, bundle};

const SIZES: &[&str] = &[
    "10GiB",
    "'10 GiB'",
    "500MB",
    "10",
    "0",
    "lots",
    "''",
    "-10GB",
    "'1,000MB'",
    "20EiB",
    ".5GB",
    "10XB",
    "50%",
    "150%",
    "-5%",
    "'50 %'",
    "true",
    "~",
    "[10GiB]",
    "5.5TiB",
];
const DISKS: &[&str] = &[
    "system_disk",
    "'!system_disk'",
    "'disk.transport == \"nvme\"'",
    "'disk.transprt == \"nvme\"'",
    "'dsk.size > 5u'",
    "disk.size > 10",
    "disk.size > 10u * GiB",
    "disk.size",
    "'disk.model.startsWith(\"a\") && !disk.rotational || disk.cdrom'",
    "'glob(\"/dev/sd*\", disk.dev_path)'",
    "'glob(\"/dev/sd*\")'",
    "'disk.serial in [\"a\", \"b\"]'",
    "'disk.size in [1, 2]'",
    "'disk.symlinks.exists(s, s.contains(\"a\"))'",
    "'disk.symlinks.exists(s, s)'",
    "'disk.transport = \"nvme\"'",
    "'(system_disk'",
    "''",
    "true",
    "5",
    "'disk'",
    "'system_disk ? true : false'",
    "'system_disk ? 1 : false'",
    "'has(disk.model)'",
    "'has(disk)'",
    "'link.mtu > 5u'",
    "'volume.label == \"a\"'",
    "'size(disk.model) > 3'",
    "'disk.model + 1 == \"a\"'",
    "'disk.model.matches(\"^a\")'",
    "'disk.model.mtches(\"^a\")'",
    "'int(disk.size) > -5'",
    "'-disk.size > 5u'",
    "'disk.size % 2u == 0u'",
    "'disk.size > 1u && disk.model'",
    "'disk.size > 100000000000000000000u'",
    "'disk.model == null'",
    "'disk.uuid == r\"\\d\"'",
    "'disk.uuid == \"\\d\"'",
    "'[1, 2].all(x, x > 0)'",
    "'{\"a\": 1}.a == 1'",
    "'for == 1'",
    "'disk.readonly == false // comment'",
    "'double(disk.size) / 2.0 > 1.5e3'",
    "'1 < 2 < 3'",
    "'\"a\" < \"b\"'",
    "'!!system_disk'",
    "'--1 == 1'",
    "'disk.size == 0x10u'",
    "'duration(\"5s\") > duration(\"1s\")'",
];
const LINKS: &[&str] = &[
    "'mac(link.permanent_addr) == \"02:00:00:00:00:01\"'",
    "'mac(link.hardware_addr) == link.driver'",
    "'mac(link.driver) == \"a\"'",
    "'link.driver == \"virtio_net\" && link.mtu > 5u'",
    "'link.mtu > 5'",
    "'link.type == 1'",
    "'link.speed_megabits > 100'",
    "'link.permanent_adr == b\"a\"'",
    "'glob(\"e*\", link.alias)'",
    "'link.mtu > 5u * GiB'",
    "'link.alt_names.exists(n, n == \"a\")'",
    "link",
    "''",
    "'link.kind == \"\"'",
    "disk.size > 5u",
];
const URLS: &[&str] = &[
    "tcp://10.0.0.1:514",
    "udp://a.lan:514/",
    "tcp://10.0.0.1",
    "tcp://10.0.0.1:1/a",
    "http://a:1",
    "https://a.lan",
    "https://a.lan:6443",
    "https://a.lan:0",
    "https://a.lan:65536",
    "https://a.lan:x",
    "https://fd00::1:6443",
    "'https://[fd00::1]:6443'",
    "'https://[fd00::1:6443'",
    "https://a.lan/path",
    "grpc://a.lan:1",
    "a.lan:1",
    "10.0.0.1:514",
    "'tcp://a b:1'",
    "''",
    "'://a'",
    "'https://a%zz'",
    "'https://a/%zz'",
    "'https:a'",
    "'https:///a'",
    "TCP://a:1",
    "'https://'",
];
const KEYS: &[&str] = &[
    "a",
    "example.org/rack",
    "Example.org/rack",
    "a/b/c",
    "-a",
    "a-",
    "'a b'",
    "'/a'",
    "'a/'",
    "ä",
    "A_b.c",
    "talos.dev/owned-labels",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "'5'",
];
const LABELS: &[&str] = &[
    "a",
    "''",
    "'a b'",
    "-a",
    "A.1",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "5",
    "true",
];
const TAINTS: &[&str] = &[
    "NoSchedule",
    "'a:NoSchedule'",
    "':NoExecute'",
    "'a:b:NoSchedule'",
    "PreferNoSchedule",
    "'a:Never'",
    "''",
    "'a b:NoSchedule'",
    "'NoSchedule:'",
    "noschedule",
    "5",
];
const ADDRESSES: &[&str] = &[
    "10.0.0.7",
    "10.0.0.7/24",
    "10.0.0.7/33",
    "fd00::7/64",
    "fd00::7",
    "'fe80::1%eth0'",
    "0.0.0.0/0",
    "'::'",
    "''",
    "abc",
    "10",
    "010.0.0.7/24",
    "10.0.0.7/024",
    "0.0.0.0",
    "10.0.0.0/8",
    "'!10.0.0.0/8'",
];
const NUMBERS: &[&str] = &[
    "1500",
    "'1500'",
    "0",
    "-1",
    "1500.0",
    "1500.5",
    "4294967296",
    "abc",
    "true",
    "''",
    "70000",
    "4095",
    "100",
    "1280",
    "1279",
];
const FLAGS: &[&str] = &["true", "false", "'true'", "yes", "'off'", "1", "maybe", "''", "~"];
const DURATIONS: &[&str] = &[
    "5m", "0s", "0", "5", "-5m", "5d", "1h2m3s", "1.5h", "''", "'0'", "9999999h", "5 m", "10s", "9s", "true",
];
const WORDS: &[&str] = &[
    "active-backup",
    "802.3ad",
    "balance-rr",
    "Balance-RR",
    "none",
    "stable",
    "off",
    "'off'",
    "fast",
    "slow",
    "layer2",
    "xfs",
    "ext4",
    "btrfs",
    "vfat",
    "luks2",
    "LUKS2",
    "partition",
    "directory",
    "disk",
    "tmpfs",
    "duid",
    "mac",
    "DoT",
    "do53",
    "always",
    "v1",
    "v3",
    "json_lines",
    "json",
    "flannel",
    "custom",
    "nonsense",
    "''",
    "node-1",
    "a.b",
    ".a",
    "STATE",
    "EPHEMERAL",
    "IMAGECACHE",
    "ETCD",
    "main",
    "252",
    "253",
    "os:reader",
    "os:nobody",
    "RBAC",
];

/// A patch with `@` where a value goes, and the values.
type Place = (&'static str, &'static [&'static str]);

const DOCUMENT: &str = "apiVersion: v1alpha1\nkind: ";

/// Further documents: `Kind` and the rest, with `@` where a value goes.
const DOCUMENTS: &[Place] = &[
    ("UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: @}", SIZES),
    ("UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, maxSize: @}", SIZES),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 5GB, maxSize: @}",
        SIZES,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: @, maxSize: 1GB}",
        SIZES,
    ),
    ("UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: @}, minSize: 1GB}", DISKS),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB, grow: @}",
        FLAGS,
    ),
    (
        "UserVolumeConfig\nname: a\nvolumeType: @\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}",
        WORDS,
    ),
    ("UserVolumeConfig\nname: a\nvolumeType: @\nprovisioning: {diskSelector: {match: system_disk}}", WORDS),
    ("UserVolumeConfig\nname: a\nvolumeType: @", WORDS),
    ("UserVolumeConfig\nname: @\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}", KEYS),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nfilesystem: {type: @}",
        WORDS,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nfilesystem: {type: @, projectQuotaSupport: true}",
        WORDS,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nencryption: {provider: @}",
        WORDS,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nencryption: {provider: @, keys: [{slot: 0, nodeID: {}}]}",
        WORDS,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}, {slot: @, nodeID: {}}]}",
        NUMBERS,
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nencryption: {provider: luks2, keys: [{slot: 0, @: {}}]}",
        &["nodeID", "tpm", "kms", "static", "other"],
    ),
    (
        "UserVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: 1GB}\nencryption: {provider: luks2, keys: [@]}",
        &[
            "{slot: 0}",
            "{slot: 0, nodeID: ~}",
            "{slot: 0, static: {passphrase: ''}}",
            "{slot: 0, static: {passphrase: a}}",
            "{slot: 0, tpm: {options: {pcrs: [7, 24]}}}",
            "{slot: 0, tpm: {options: {pcrs: [0]}}}",
            "",
        ],
    ),
    ("RawVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: @}, maxSize: 1GB}", DISKS),
    ("SwapVolumeConfig\nname: a\nprovisioning: {diskSelector: {match: system_disk}, minSize: @}", SIZES),
    ("ExistingVolumeConfig\nname: a\ndiscovery: {volumeSelector: {match: @}}", DISKS),
    ("VolumeConfig\nname: @", WORDS),
    ("VolumeConfig\nname: @\nprovisioning: {maxSize: 5GB}", WORDS),
    ("VolumeConfig\nname: EPHEMERAL\nprovisioning: {diskSelector: {match: @}}", DISKS),
    ("VolumeConfig\nname: EPHEMERAL\nprovisioning: {minSize: 10GB, maxSize: @}", SIZES),
    (
        "VolumeConfig\nname: STATE\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}, lockToState: @}]}",
        FLAGS,
    ),
    ("KmsgLogConfig\nname: a\nurl: @", URLS),
    ("EventSinkConfig\nendpoint: @", URLS),
    ("WatchdogTimerConfig\ndevice: /dev/watchdog0\ntimeout: @", DURATIONS),
    ("ExtensionServiceConfig\nname: a\nconfigFiles: [{content: @, mountPath: /a}]", LABELS),
    ("ExtensionServiceConfig\nname: a\nenvironment: @", &["[A=b]", "[]", "~"]),
    (
        "NetworkRuleConfig\nname: a\nportSelector: {ports: [5], protocol: @}\ningress: [{subnet: 10.0.0.0/8}]",
        &["tcp", "UDP", "nonsense", "''"],
    ),
    (
        "NetworkRuleConfig\nname: a\nportSelector: {ports: [5], protocol: tcp}\ningress: [{subnet: @}]",
        ADDRESSES,
    ),
    ("LinkConfig\nname: l\nmtu: @", NUMBERS),
    ("LinkConfig\nname: l\nup: @", FLAGS),
    ("LinkConfig\nname: l\naddresses: [{address: @}]", ADDRESSES),
    ("LinkConfig\nname: l\nroutes: [{gateway: @}]", ADDRESSES),
    ("LinkConfig\nname: l\nroutes: [{destination: @, gateway: 10.9.0.1}]", ADDRESSES),
    ("LinkConfig\nname: l\nroutes: [{gateway: 10.9.0.1, table: @, metric: 5}]", WORDS),
    ("LinkConfig\nname: @\nmtu: 5", KEYS),
    ("LinkAliasConfig\nname: l\nselector: {match: @}", LINKS),
    ("LinkAliasConfig\nname: @\nselector: {match: 'link.mtu > 5u'}", &["a", "'a%d'", "'%d'", "'a%x'", "''"]),
    ("DHCPv4Config\nname: l\nrouteMetric: @", NUMBERS),
    ("DHCPv4Config\nname: l\nclientIdentifier: @", WORDS),
    ("DHCPv6Config\nname: l\nduidRaw: @", &["'00:01'", "'00:0'", "xyz", "''"]),
    ("DHCPv6Config\nname: l\nclientIdentifier: duid\nduidRaw: @", &["'00:01'", "0001", "xyz", "''"]),
    ("BondConfig\nname: b\nlinks: [x, y]\nbondMode: @", WORDS),
    ("BondConfig\nname: b\nlinks: [x, y]\nbondMode: 802.3ad\nlacpRate: @", WORDS),
    ("BondConfig\nname: b\nlinks: [x, y]\nbondMode: 802.3ad\nxmitHashPolicy: @\nmiimon: 100", WORDS),
    ("BondConfig\nname: b\nlinks: @\nbondMode: 802.3ad", &["[x]", "[]", "x", "~"]),
    ("VLANConfig\nname: v\nparent: x\nvlanID: @", NUMBERS),
    ("VLANConfig\nname: v\nparent: @\nvlanID: 5", LABELS),
    ("VLANConfig\nname: v\nparent: x\nvlanID: 5\nvlanMode: @", &["802.1q", "802.1ad", "other", "''"]),
    ("Layer2VIPConfig\nname: @\nlink: l", ADDRESSES),
    ("StaticHostConfig\nname: @\nhostnames: [a]", ADDRESSES),
    ("ResolverConfig\nnameservers: [{address: @}]", ADDRESSES),
    ("ResolverConfig\nnameservers: [{address: 10.0.0.1, protocol: @, tlsServerName: a}]", WORDS),
    ("ResolverConfig\nsearchDomains: {domains: [a.lan], disableDefault: @}", FLAGS),
    ("TimeSyncConfig\nbootTimeout: @", DURATIONS),
    ("TimeSyncConfig\nenabled: @\nntp: {servers: [a]}", FLAGS),
    ("TimeSyncConfig\nntp: {servers: [a]}\nptp: @", &["~", "{}", "{devices: [/dev/ptp0]}"]),
    ("TimeSyncConfig\nntp: {servers: [@], useNTS: true}", ADDRESSES),
    ("RegistryMirrorConfig\nname: docker.io\nendpoints: [{url: @}]", URLS),
    ("RegistryMirrorConfig\nname: @\nendpoints: [{url: 'https://a'}]", LABELS),
    (
        "RegistryAuthConfig\nname: a\n@",
        &[
            "username: a",
            "username: a\nauth: b",
            "auth: b\nidentityToken: c",
            "identityToken: c",
            "username: a\nidentityToken: b",
        ],
    ),
    ("RegistryTLSConfig\nname: a\nca: @", LABELS),
    ("RegistryTLSConfig\nname: a\nclientIdentity: {cert: @, key: @}", LABELS),
    ("KubeSpanConfig\nenabled: true\nmtu: @", NUMBERS),
    ("KubeSpanConfig\nenabled: @", FLAGS),
    ("KubeSpanConfig\nfilters: {endpoints: [@]}", ADDRESSES),
    ("KubePrismConfig\nport: @", NUMBERS),
    ("KubeNetworkConfig\npodSubnets: [@]", ADDRESSES),
    (
        "KubeNetworkConfig\npodSubnets: [@]",
        &["10.0.0.0/16", "10.0.0.0/7", "10.0.0.0/29", "10.0.0.0/25", "fd00::/48", "fd00::/32", "10.1.1.1/16"],
    ),
    (
        "KubeNetworkConfig\nserviceSubnets: [@]",
        &["10.0.0.0/16", "10.0.0.0/11", "10.0.0.0/12", "10.0.0.0/29", "fd00::/108", "fd00::/107"],
    ),
    ("KubeProxyConfig\nmode: @", &["nftables", "iptables", "ipvs", "''", "other"]),
    ("KubeNodeConfig\nlabels: {@: a}", KEYS),
    ("KubeNodeConfig\nlabels: {a: @}", LABELS),
    ("KubeNodeConfig\nannotations: {@: 'a b'}", KEYS),
    ("KubeNodeConfig\ntaints: {a: @}", TAINTS),
    ("KubeNodeConfig\nnodeIP: {validSubnets: [@]}", ADDRESSES),
    ("KubeletConfig\nconfig: {@: 1}", &["a", "port", "kind", "maxPods"]),
    (
        "KubeAPIServerConfig\nextraArgs: {@: a}",
        &["a", "oidc-issuer-url", "anonymous-auth", "authorization-mode", "authorization-other"],
    ),
    ("KubeClusterConfig\nendpoint: @", URLS),
    ("KubeExternalManifestConfig\nname: a\nurl: @", URLS),
    ("KubeInlineManifestConfig\nname: @\nmanifests: [{a: b}]", KEYS),
    ("KubeTalosAPIAccessConfig\nallowedRoles: [@]", WORDS),
    ("KubeAuthorizerConfig\nname: a\ntype: @", &["RBAC", "Node", "Webhook", "other", "''"]),
    ("DiscoveryServiceConfig\nname: a\nendpoint: @", URLS),
    ("SysctlConfig\nparams: {@: a}", KEYS),
    ("UnattendedInstallConfig\nprovisioning: {diskSelector: {match: @}}", DISKS),
    ("OOMConfig\nsampleInterval: @", DURATIONS),
];

/// Fields of the main document.
const FIELDS: &[Place] = &[
    ("machine: {nodeLabels: {@: a}}", KEYS),
    ("machine: {nodeLabels: {a: @}}", LABELS),
    ("machine: {nodeAnnotations: {@: 'a b'}}", KEYS),
    ("machine: {nodeTaints: {a: @}}", TAINTS),
    ("machine: {nodeTaints: {@: NoSchedule}}", KEYS),
    ("machine: {sysctls: {a: @}}", LABELS),
    ("machine: {logging: {destinations: [{endpoint: @, format: json_lines}]}}", URLS),
    ("machine: {logging: {destinations: [{endpoint: 'tcp://a:1', format: @}]}}", WORDS),
    ("machine: {network: {interfaces: [{interface: e0, mtu: @}]}}", NUMBERS),
    ("machine: {network: {interfaces: [{interface: e0, dhcp: @}]}}", FLAGS),
    ("machine: {network: {interfaces: [{interface: e0, addresses: [@]}]}}", ADDRESSES),
    ("machine: {network: {interfaces: [{interface: e0, routes: [{network: @}]}]}}", ADDRESSES),
    ("machine: {network: {interfaces: [{interface: e0, routes: [{gateway: @}]}]}}", ADDRESSES),
    ("machine: {network: {interfaces: [{interface: e0, vip: {ip: @}}]}}", ADDRESSES),
    (
        "machine: {network: {interfaces: [{interface: e0, vlans: [{vlanId: 5, vip: {ip: @}}]}]}}",
        &["10.0.0.9"],
    ),
    (
        "machine: {network: {interfaces: [{interface: e0, vlans: [{vlanId: @, addresses: [10.3.0.5/24]}]}]}}",
        NUMBERS,
    ),
    ("machine: {network: {interfaces: [{interface: e0, vlans: [{vlanId: 5, addresses: [@]}]}]}}", ADDRESSES),
    ("machine: {network: {interfaces: [{interface: b0, bond: {interfaces: [x], mode: @}}]}}", WORDS),
    (
        "machine: {network: {interfaces: [{interface: b0, bond: {interfaces: [x], mode: 802.3ad, lacpRate: @}}]}}",
        WORDS,
    ),
    (
        "machine: {network: {interfaces: [{interface: b0, bond: {interfaces: [x], mode: active-backup, lacpRate: @}}]}}",
        WORDS,
    ),
    (
        "machine: {network: {interfaces: [{interface: b0, bond: {interfaces: [x], mode: 802.3ad, xmitHashPolicy: @}}]}}",
        WORDS,
    ),
    (
        "machine: {network: {interfaces: [{interface: b0, bond: {interfaces: [x], mode: 802.3ad, miimon: @, updelay: 300}}]}}",
        NUMBERS,
    ),
    (
        "machine: {network: {interfaces: [{deviceSelector: @}]}}",
        &["{}", "{hardwareAddr: 'a*'}", "~", "{physical: false}", "{driver: ''}"],
    ),
    (
        "machine: {network: {interfaces: [{@}]}}",
        &[
            "interface: a, deviceSelector: {driver: b}",
            "dhcp: true",
            "interface: a, cidr: 10.2.0.5/24",
            "interface: a, cidr: 10.2.0.5/24, addresses: [10.2.0.6/24]",
            "interface: a, ignore: true, mtu: 5",
            "ignore: true",
        ],
    ),
    ("machine: {network: {nameservers: [@]}}", ADDRESSES),
    ("machine: {network: {kubespan: {enabled: true, mtu: @}}}", NUMBERS),
    ("machine: {network: {kubespan: {enabled: true, filters: {endpoints: [@]}}}}", ADDRESSES),
    ("machine: {network: {disableSearchDomain: @}}", FLAGS),
    ("machine: {time: {bootTimeout: @}}", DURATIONS),
    ("machine: {kubelet: {nodeIP: {validSubnets: [@]}}}", ADDRESSES),
    ("machine: {kubelet: {extraConfig: {@: 1}}}", &["a", "port", "kind", "maxPods"]),
    ("machine: {kubelet: {registerWithFQDN: @}}", FLAGS),
    (
        "machine: {kubelet: {extraMounts: [{destination: /a, source: /a, type: bind, options: @}]}}",
        &["[rw]", "rw", "~", "[]"],
    ),
    (
        "machine: {systemDiskEncryption: {state: {provider: luks2, keys: @}}}",
        &["[]", "[{slot: 0, nodeID: {}}]", "[{slot: 0}]", "[{slot: 0, nodeID: {}}, {slot: 0, tpm: {}}]", "~"],
    ),
    ("machine: {systemDiskEncryption: {ephemeral: @}}", &["~", "{}", "{provider: luks2}"]),
    ("machine: {features: {nodeAddressSortAlgorithm: @}}", WORDS),
    ("machine: {features: {hostDNS: {enabled: @, forwardKubeDNSToHost: true}}}", FLAGS),
    (
        "machine: {features: {kubernetesTalosAPIAccess: {enabled: true, allowedRoles: [@], allowedKubernetesNamespaces: [a]}}}",
        WORDS,
    ),
    ("machine: {install: {wipe: @}}", FLAGS),
    (
        "machine: {install: {diskSelector: {size: @}}}",
        &["'>= 10GB'", "10GB", "'< 5'", "'!= 5GB'", "lots", "'> '", "''"],
    ),
    ("machine: {install: {diskSelector: {type: @}}}", &["ssd", "hdd", "nvme", "sd", "other", "''"]),
    (
        "machine: {registries: {mirrors: {docker.io: @}}}",
        &["~", "{}", "{endpoints: ['https://a']}", "{endpoints: [a]}"],
    ),
    ("machine: {registries: {config: {docker.io: @}}}", &["~", "{}", "{tls: {insecureSkipVerify: true}}"]),
    ("machine: {kernel: {modules: [{name: @}]}}", LABELS),
    ("cluster: {controlPlane: {endpoint: @}}", URLS),
    ("cluster: {network: {dnsDomain: @}}", KEYS),
    ("cluster: {network: {podSubnets: [@]}}", ADDRESSES),
    ("cluster: {network: {cni: {name: @}}}", WORDS),
    ("cluster: {network: {cni: {name: custom, urls: [@]}}}", URLS),
    ("cluster: {network: {cni: {name: none, flannel: {extraArgs: [a]}}}}", &["@"]),
    ("cluster: {etcd: {advertisedSubnets: [@]}}", ADDRESSES),
    ("cluster: {etcd: {listenSubnets: [@]}}", ADDRESSES),
    ("cluster: {etcd: {subnet: @}}", ADDRESSES),
    ("cluster: {discovery: {enabled: true, registries: {service: {endpoint: @}}}}", URLS),
    ("cluster: {discovery: {enabled: @}}", FLAGS),
    ("cluster: {inlineManifests: [{name: @, contents: a}]}", LABELS),
    ("cluster: {inlineManifests: [{name: a, contents: a}, {name: @, contents: b}]}", LABELS),
    ("cluster: {externalCloudProvider: {enabled: true, manifests: [@]}}", URLS),
    ("cluster: {externalCloudProvider: {enabled: @, manifests: ['https://a']}}", FLAGS),
    ("cluster: {apiServer: {resources: {requests: {@: 1}}}}", &["cpu", "memory", "disk"]),
    ("cluster: {allowSchedulingOnControlPlanes: @}", FLAGS),
    ("cluster: {adminKubeconfig: {certLifetime: @}}", DURATIONS),
];

/// What our lint refuses beyond Talos, as docs/talos.md has it.
const OURS: &[&str] = &[
    "only control planes can hold the virtual address",
    "which is the network's own or its broadcast",
    "is the node's own address",
    "which is its own address",
    "has no passphrase",
    "is not of the form https://host:port",
];

fn config(contract: Contract, role: Role) -> MachineConfig {
    let version = format!("v1.{}.0", contract.minor);
    let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", version, contract.kubernetes);
    let mut node = NodeOptions::new(role, "node-1");
    node.install.disk = Some("/dev/sda".into());
    node.links = vec![Link {
        addresses: vec!["10.0.0.5/24".parse().unwrap()],
        ..Link::new("02:00:00:00:00:01".parse().unwrap())
    }];
    MachineConfig::generate(bundle(), &cluster, &node).unwrap()
}

/// A value with one character changed, left out or doubled.
fn damaged(value: &str, rng: &mut StdRng) -> String {
    let mut letters: Vec<char> = value.chars().collect();
    let inner = 1..letters.len().saturating_sub(1).max(2);
    let at = rng.gen_range(inner).min(letters.len().saturating_sub(1));
    if letters.is_empty() {
        return value.to_owned();
    }
    match rng.gen_range(0..3) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        _ => letters[at] = ['a', '0', '.', ':', '/', '-', '(', ' '][rng.gen_range(0..8)],
    }
    letters.into_iter().collect()
}

#[test]
fn values_are_judged_as_the_library_does() {
    let mut tally = Tally::new("lint: values right and wrong, judged as the validator does");
    let mut refused = 0;
    let mut rng = StdRng::seed_from_u64(11);
    for contract in CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        let bases = [Role::ControlPlane, Role::Worker].map(|role| config(contract, role));
        let texts = bases.each_ref().map(|base| base.to_yaml().expose().to_owned());
        let documents = DOCUMENTS.iter().map(|(text, values)| (format!("{DOCUMENT}{text}"), *values));
        for (place, values) in
            documents.chain(FIELDS.iter().map(|(text, values)| ((*text).to_owned(), *values)))
        {
            let mut cases: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            for _ in 0..3 {
                cases.push(damaged(values[rng.gen_range(0..values.len())], &mut rng));
            }
            for value in cases {
                // One reader takes several zeros for a number, the other for a text.
                if value == "00" {
                    continue;
                }
                let base = rng.gen_range(0..2);
                let patch = place.replace('@', &value);
                // What is not YAML any more is no value.
                let Ok(parsed) = Patch::for_contract(&patch, contract.own()).map(Ok).or_else(|error| {
                    if error.to_string().contains("YAML") { Err(()) } else { Ok(Err(error.to_string())) }
                }) else {
                    continue;
                };
                let ours: Vec<String> = match parsed {
                    Err(refusal) => vec![refusal],
                    Ok(parsed) => {
                        let mut config = bases[base].clone();
                        match config.apply_patch(&parsed) {
                            Err(error) => vec![error.to_string()],
                            Ok(()) => {
                                let lints = config.lint(contract.release()).into_iter();
                                lints
                                    .filter(|l| l.severity == Severity::Error)
                                    .map(|l| l.to_string())
                                    .collect()
                            }
                        }
                    }
                };
                let request =
                    json!({"config": texts[base], "patches": [patch], "validate": {"mode": "metal"}});
                let real = tool.ask(&request);
                refused += usize::from(real.is_err());
                // An older Talos knows less than the library that stands for it.
                let is_extra = |fault: &String| {
                    OURS.iter().any(|extra| fault.contains(extra))
                        || (contract.minor < 12 && fault.contains("came with v1."))
                };
                let agreed = match &real {
                    Err(_) => !ours.is_empty(),
                    Ok(_) => ours.iter().all(is_extra),
                };
                tally.case((!agreed).then(|| {
                    let real = real.map_or_else(|error| error, |_| "accepted".into());
                    format!(
                        "v1.{} {}: {patch:?}: theirs {real:?}, ours {ours:?}",
                        contract.minor,
                        if base == 0 { "control plane" } else { "worker" }
                    )
                }));
            }
        }
    }
    let cases = tally.cases();
    assert!(cases == 0 || (cases > 5000 && refused > cases / 4), "{refused} of {cases} refused");
    tally.done();
}
