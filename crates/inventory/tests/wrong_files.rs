//! Wrong inventories are refused twice: by the schema, which an editor knows, and by the reader, which says why.

use std::io;
use std::path::Path;

use daedal_inventory::{Source, load, schema};

const GOOD: &str = "\
apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {name: home, uid: 6ba7b810-9dad-11d1-80b4-00c04fd430c8}
spec:
  environment: lab
  tags: [team-a]
  talos: {version: v1.12.0, factory: 'https://factory.talos.dev'}
  kubernetes: {version: v1.35.0, podSubnets: [10.244.0.0/16], serviceSubnets: [10.96.0.0/12]}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {id: daedal@pve!cli, secret: {env: PROXMOX_TOKEN_SECRET}}
    tls: {fingerprint: '5A:3C:0E:91:7B:D2:48:F6:1D:A9:63:BE:07:C4:8F:22:E5:70:9A:34:CB:16:5D:F8:81:2E:B7:49:90:6C:D3:1F'}
    hosts: [atlas, {name: borea}]
    storage: {disks: local-lvm, images: local}
    bridge: vmbr0
    memoryReserve: 2GiB
  reach: {proxy: 'socks5://127.0.0.1:1080'}
  network: {cidr: 10.0.0.0/24, gateway: 10.0.0.1, vip: 10.0.0.20}
  pools:
    - {name: cp, role: controlplane, count: 3, cores: 4, memory: 8GiB, disk: 40GiB, vmid: 300, address: 10.0.0.11}
    - {name: worker, role: worker, count: 2, cores: 4, memory: 8GiB, disk: 60GiB, vmid: 303, address: 10.0.0.21}
";

/// What is written, and what is written instead of it.
const WRONG: &[(&str, &[&str])] = &[
    // Sizes.
    (
        "memory: 8GiB, disk: 40GiB",
        &["memory: 8, disk: 40GiB", "memory: eight, disk: 40GiB", "memory: -8GiB, disk: 40GiB"],
    ),
    ("disk: 40GiB", &["disk: 40", "disk: 40XB", "disk: 40 gigs", "disk: GiB", "disk: ''", "disk: true"]),
    ("memoryReserve: 2GiB", &["memoryReserve: 2", "memoryReserve: two"]),
    // Names.
    (
        "name: home",
        &["name: Home", "name: my_home", "name: -home", "name: home.lan", "name: ''", "name: [home]"],
    ),
    ("name: cp,", &["name: CP,", "name: 'c p',", "name: cp-,"]),
    ("hosts: [atlas,", &["hosts: ['atlas lan',", "hosts: ['',", "hosts: [atlas/1,", "hosts: [1.5,"]),
    ("{name: borea}", &["{name: 'bo rea'}", "{name: ''}", "{}"]),
    ("disks: local-lvm", &["disks: 'local lvm'", "disks: 'local:lvm'", "disks: ''"]),
    ("bridge: vmbr0", &["bridge: 'vmbr 0'", "bridge: ''"]),
    ("tags: [team-a]", &["tags: ['team a']", "tags: ['a;b']", "tags: [-a]"]),
    ("environment: lab", &["environment: 'my lab'", "environment: ''"]),
    ("uid: 6ba7b810-9dad-11d1-80b4-00c04fd430c8", &["uid: 6ba7b810", "uid: home"]),
    // Tokens and variables.
    (
        "id: daedal@pve!cli",
        &[
            "id: daedal",
            "id: daedal@pve",
            "id: 'daedal!cli'",
            "id: 'daedal@pve!'",
            "id: 'daedal@pve!cli=x'",
            "id: 'a b@pve!cli'",
        ],
    ),
    ("env: PROXMOX_TOKEN_SECRET", &["env: 1TOKEN", "env: MY-TOKEN", "env: ''", "env: 'a b'"]),
    // URLs.
    (
        "endpoint: https://atlas.lan:8006",
        &[
            "endpoint: atlas.lan:8006",
            "endpoint: http://atlas.lan:8006",
            "endpoint: https://atlas.lan:8006/api2/json",
            "endpoint: https://root@atlas.lan:8006",
            "endpoint: 'https://'",
            "endpoint: ftp://atlas.lan",
        ],
    ),
    (
        "'https://factory.talos.dev'",
        &["factory.talos.dev", "'ftp://factory.talos.dev'", "'https://me:pw@factory.lan'"],
    ),
    (
        "'socks5://127.0.0.1:1080'",
        &["127.0.0.1:1080", "'https://127.0.0.1:1080'", "'http://me:pw@10.0.0.9:3128'"],
    ),
    // Networks and addresses.
    (
        "cidr: 10.0.0.0/24",
        &[
            "cidr: 10.0.0.0",
            "cidr: ten",
            "cidr: 10.0.0.0/x",
            "cidr: ''",
            "cidr: 10.0.0.0/999",
            "cidr: 10.0.0.0/33",
            "cidr: 10.0.0.0/",
            "cidr: 10.0.0.256/24",
            "cidr: 10.0.0/24",
            "cidr: 10.0.0.0.0/24",
            "cidr: 10/0/0/0/24",
            "cidr: 'fd00::/129'",
        ],
    ),
    (
        "podSubnets: [10.244.0.0/16]",
        &["podSubnets: [10.244.0.0]", "podSubnets: [pods]", "podSubnets: ['fd00:10:244::/200']"],
    ),
    ("serviceSubnets: [10.96.0.0/12]", &["serviceSubnets: [10.96.0.0/64]"]),
    ("gateway: 10.0.0.1", &["gateway: router", "gateway: ''"]),
    ("address: 10.0.0.11", &["address: first", "address: 10.0.0.x"]),
    ("vmid: 300", &["vmid: cp", "vmid: 300-", "vmid: '5'"]),
    // Fingerprints and versions.
    (
        "fingerprint: '5A:3C:0E:91:7B:D2:48:F6:1D:A9:63:BE:07:C4:8F:22:E5:70:9A:34:CB:16:5D:F8:81:2E:B7:49:90:6C:D3:1F'",
        &[
            "fingerprint: 5A:3C",
            "fingerprint: SHA256",
            "fingerprint: ''",
            "fingerprint: 'ZZ:3C:0E:91:7B:D2:48:F6:1D:A9:63:BE:07:C4:8F:22:E5:70:9A:34:CB:16:5D:F8:81:2E:B7:49:90:6C:D3:1F'",
        ],
    ),
    ("version: v1.12.0", &["version: latest", "version: v1.12", "version: 1.12"]),
    ("version: v1.35.0", &["version: stable", "version: v1"]),
    // Shapes.
    ("role: worker", &["role: master", "role: [worker]"]),
    ("count: 2", &["count: two", "count: -1", "count: 99999"]),
    (
        "cores: 4, memory: 8GiB, disk: 60GiB",
        &["cores: 0, memory: 8GiB, disk: 60GiB", "cpus: 4, memory: 8GiB, disk: 60GiB"],
    ),
];

fn refused_by_the_reader(text: &str) -> bool {
    let source = Source { name: "cluster.yaml".to_owned(), text: text.to_owned() };
    let nothing = |_: &Path| -> io::Result<String> { Err(io::ErrorKind::NotFound.into()) };
    load(&[source], &nothing).is_err()
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let fits = |text: &str| {
        let value: serde_json::Value = yaml_serde::from_str(text).expect("YAML");
        validator.is_valid(&value)
    };
    assert!(fits(GOOD) && !refused_by_the_reader(GOOD), "the good one is good");
    let (mut tried, mut passed) = (0, Vec::new());
    for (right, wrongs) in WRONG {
        assert!(GOOD.contains(right), "nothing to replace: {right}");
        for wrong in *wrongs {
            let text = GOOD.replacen(right, wrong, 1);
            tried += 1;
            assert!(refused_by_the_reader(&text), "the reader takes {wrong}");
            if fits(&text) {
                passed.push(*wrong);
            }
        }
    }
    assert!(passed.is_empty(), "{} of {tried} wrong files pass the schema: {passed:#?}", passed.len());
    assert!(tried > 64, "{tried}");
}

#[test]
fn the_schema_takes_every_network_that_the_reader_takes() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let nets = ["0.0.0.0/0", "255.255.255.255/32", "10.0.0.0/08", "::/0", "fd00::/8", "fd00:10:244::/56"];
    for net in nets.into_iter().chain(["::ffff:10.0.0.0/128", "FD00::1/99", "2001:db8::/100"]) {
        assert!(net.parse::<ipnet::IpNet>().is_ok(), "{net}");
        let text = GOOD.replacen("cidr: 10.0.0.0/24", &format!("cidr: '{net}'"), 1);
        let value: serde_json::Value = yaml_serde::from_str(&text).expect("YAML");
        assert!(validator.is_valid(&value), "the schema refuses {net}");
    }
}
