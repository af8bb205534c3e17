//! What a person sees for every way an inventory can be wrong: the whole text, as it is printed.

use std::io;
use std::path::Path;

use daedal_inventory::{Diagnostic, Severity, Source, load};
use miette::{GraphicalReportHandler, GraphicalTheme};

const HOME: &str = "\
apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {name: home}
spec:
  environment: lab
  talos: {version: v1.12.0, extensions: [qemu-guest-agent]}
  kubernetes: {version: v1.35.0}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {id: daedal@pve!cli, secret: {env: PROXMOX_TOKEN_SECRET}}
    tls: {ca: pve-root-ca.pem}
    hosts: [atlas, borea]
    storage: {disks: local-lvm, images: local}
  network: {cidr: 10.0.0.0/24, gateway: 10.0.0.1, vip: 10.0.0.20}
  pools:
    - {name: cp, role: controlplane, count: 3, cores: 4, memory: 8GiB, disk: 40GiB, vmid: 300, address: 10.0.0.11}
    - {name: worker, role: worker, count: 2, cores: 4, memory: 8GiB, disk: 60GiB, vmid: 303, address: 10.0.0.21}
";

fn files(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("good.yaml") => Ok("machine: {}\n".to_owned()),
        Some("broken.yaml") => Ok("machine:\n  token: canary-token\n  network: [\n".to_owned()),
        Some("empty.yaml") => Ok("# nothing yet\n".to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    }
}

fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(HOME.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "nothing to replace: {from}");
        text.replacen(from, to, 1)
    })
}

fn shown<'a>(diagnostics: impl Iterator<Item = &'a Diagnostic>) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(110);
    let mut text = String::new();
    for diagnostic in diagnostics {
        let place = diagnostic.place.as_ref();
        let place = place.map_or("nowhere".to_owned(), |p| format!("{}:{}:{}", p.file, p.line, p.column));
        text += &format!("{place}: {:?}\n", diagnostic.severity);
        handler.render_report(&mut text, diagnostic).expect("rendered");
        text += "\n";
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn refused(text: &str) -> String {
    let sources = [Source { name: "cluster.yaml".to_owned(), text: text.to_owned() }];
    let Err(diagnostics) = load(&sources, &files) else { panic!("accepted:\n{text}") };
    assert!(diagnostics.errors() > 0);
    assert!(!diagnostics.iter().any(|d| d.code == "internal"), "{diagnostics:#?}");
    for error in diagnostics.iter().filter(|d| d.severity == Severity::Error) {
        assert!(error.place.is_some(), "without a place: {error:?}");
        assert!(error.help.is_some(), "without a suggestion: {error:?}");
        assert!(error.message.ends_with('.'), "not a sentence: {error:?}");
    }
    format!("{diagnostics}\n\n{}", shown(diagnostics.iter()))
}

/// One golden test for each way to be wrong: the example with some text replaced.
macro_rules! refuses {
    ($($name:ident: $($from:expr => $to:expr),+;)+) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(refused(&edited(&[$(($from, $to)),+])));
        })+
    };
}

refuses! {
    outputs_outside_their_folder: "environment: lab" => "outputs: {names: {controlplane: ../cp.yaml}}";
    outputs_with_one_name_for_all_nodes: "environment: lab" => "outputs: {names: {node: node.yaml}}";
    outputs_with_the_same_name: "environment: lab" => "outputs: {names: {node: <node>.yaml, tfvars: CP-1.yaml}}";
    outputs_of_an_unknown_kind: "environment: lab" => "outputs: sealed";
    outputs_with_a_port_and_no_proxy: "environment: lab" => "outputs: {kubeconfig: {port: 1081}}";
    key_unknown: "vip:" => "vpi:";
    lint_of_nothing: "environment: lab" => "lint: {ignore: [root-tokens]}";
    lint_of_an_error: "environment: lab" => "lint: {ignore: [unknown-key]}";
    key_unknown_and_nothing_near: "environment: lab" => "flavour: lab";
    key_in_another_case: "version: v1.35.0" => "version: v1.35.0, pod_subnets: [10.1.0.0/16]";
    key_unknown_at_the_top: "kind: Cluster" => "kind: Cluster\nstatus: {}";
    key_not_supported_yet: "disk: 60GiB" => "disk: 60GiB, disks: []";
    key_given_twice: "environment: lab" => "environment: lab\n  environment: prod";
    key_missing: "cidr: 10.0.0.0/24, " => "";
    key_empty: "environment: lab" => "environment: lab\n  pools:", "  pools:\n    -" => "  x:\n    -";
    kind_unknown: "kind: Cluster" => "kind: Clutser";
    api_version_unknown: "v1alpha1" => "v1";
    type_text_for_a_list: "hosts: [atlas, borea]" => "hosts: atlas";
    type_number_for_text: "environment: lab" => "environment: 2024";
    type_yes_for_true: "environment: lab" => "protect: yes";
    type_quoted_number: "cores: 4" => "cores: \"4\"";
    type_list_for_a_mapping: "talos: {version: v1.12.0, extensions: [qemu-guest-agent]}" => "talos: [v1.12.0]";
    value_unknown: "role: worker" => "role: wroker";
    value_out_of_range: "count: 2" => "count: 20000";
    value_negative: "cores: 4" => "cores: -4";

    yaml_broken: "hosts: [atlas, borea]" => "hosts: [atlas, borea";
    yaml_tab: "  environment: lab" => "\tenvironment: lab";
    yaml_tag: "environment: lab" => "environment: !vault lab";

    name_with_underscore: "name: home" => "name: my_home";
    name_with_capitals: "name: cp," => "name: CP,";
    name_too_long: "name: home" => "name: this-name-goes-on-and-on-and-on-and-on-until-nobody-wants-to-read-it";
    name_of_node_too_long: "name: cp," => "name: this-name-goes-on-and-on-and-on-and-on-until-nobody-wants-them,";
    name_of_pool_twice: "name: worker" => "name: cp";
    name_of_node_twice: "count: 2, cores: 4" => "nodes: [{name: cp-2}]";
    uid_wrong: "{name: home}" => "{name: home, uid: 42-42}";

    control_planes_even: "count: 3" => "count: 2";
    control_planes_zero: "count: 3" => "count: 0";
    control_planes_no_pool: "role: controlplane" => "role: worker";
    control_planes_too_many: "count: 3" => "count: 9";
    control_planes_too_few_for_ha: "count: 3" => "count: 1", "environment: lab" => "ha: true";
    count_missing: "count: 2, " => "";
    count_beside_list: "count: 2, cores: 4" => "count: 2, nodes: [{}, {}, {}]";

    address_outside: "address: 10.0.0.21" => "address: 10.0.1.21";
    address_runs_out: "address: 10.0.0.21" => "address: 10.0.0.254";
    address_of_gateway: "address: 10.0.0.11" => "address: 10.0.0.1";
    address_of_vip: "address: 10.0.0.21" => "address: 10.0.0.19";
    address_of_network: "address: 10.0.0.21" => "address: +0";
    address_twice: "address: 10.0.0.21" => "address: 10.0.0.13";
    address_beyond_the_network: "address: 10.0.0.21" => "address: +300";
    address_without_plus: "address: 10.0.0.21" => "address: 20";
    address_with_prefix: "address: 10.0.0.21" => "address: 10.0.0.21/24";
    address_undecided: "address: 10.0.0.21" => "address: 10.0.0.21}\n    - {name: gpu, role: worker, count: 1";
    vip_outside: "vip: 10.0.0.20" => "vip: 10.9.0.20";
    vip_is_gateway: "vip: 10.0.0.20" => "vip: 10.0.0.1";
    gateway_outside: "gateway: 10.0.0.1" => "gateway: 10.1.0.1";
    network_with_host_bits: "cidr: 10.0.0.0/24" => "cidr: 10.0.0.7/24";
    network_without_prefix: "cidr: 10.0.0.0/24" => "cidr: 10.0.0.0";
    network_overlap: "version: v1.35.0" => "version: v1.35.0, serviceSubnets: [10.0.0.0/16]";

    vmid_twice: "vmid: 303" => "vmid: 302";
    vmid_range_overflow: "vmid: 300" => "vmid: 300-301";
    vmid_range_backwards: "vmid: 300" => "vmid: 399-300";
    vmid_too_small: "vmid: 300" => "vmid: 99";
    vmid_too_large: "vmid: 303" => "vmid: 999999999";
    vmid_of_node_too_small: "count: 2, cores: 4" => "nodes: [{vmid: 7}]";

    mac_wrong: "count: 2, cores: 4" => "nodes: [{mac: \"BC:24:11\"}]";
    mac_of_a_group: "count: 2, cores: 4" => "nodes: [{mac: \"01:00:5E:00:00:01\"}]";
    mac_twice: "count: 2, cores: 4" => "nodes: [{mac: \"BC:24:11:00:00:01\"}, {mac: \"bc-24-11-00-00-01\"}]";
    mac_prefix_of_groups: "vip: 10.0.0.20" => "macPrefix: \"33:33\"";

    pin_unknown_host: "environment: lab" => "placement: {pin: {cp-1: atlsa}}";
    pin_unknown_node: "environment: lab" => "placement: {pin: {pc-1: atlas}}";
    pin_twice: "environment: lab" => "placement: {pin: {worker-1: atlas}}", "count: 2, cores: 4" => "nodes: [{host: borea}]";
    pin_incomplete: "environment: lab" => "placement: {strategy: pin, pin: {cp-1: atlas}}";
    pin_pool_unknown_host: "role: worker" => "role: worker, host: zeus";

    talos_unknown: "version: v1.12.0" => "version: v1.7.3";
    talos_not_exact: "version: v1.12.0" => "version: v1.12";
    kubernetes_outside_range: "version: v1.35.0" => "version: v1.36.1";
    kubernetes_not_exact: "version: v1.35.0" => "version: latest";
    extension_wrong: "[qemu-guest-agent]" => "[ghcr.io/siderolabs/qemu-guest-agent:9]";

    size_without_unit: "memory: 8GiB" => "memory: 8192";
    size_decimal: "memory: 8GiB" => "memory: 8GB";
    size_fraction: "disk: 40GiB" => "disk: 40.5GiB";
    size_unknown_unit: "memory: 8GiB" => "memory: 8 gigs";
    size_too_little_memory: "memory: 8GiB" => "memory: 1GiB";
    size_too_little_memory_for_worker: "memory: 8GiB, disk: 60GiB" => "memory: 512MiB, disk: 60GiB";
    size_too_small_disk: "disk: 60GiB" => "disk: 8GiB";

    secret_missing: ", secret: {env: PROXMOX_TOKEN_SECRET}" => "";
    secret_empty: "{env: PROXMOX_TOKEN_SECRET}" => "{}";
    secret_twice: "{env: PROXMOX_TOKEN_SECRET}" => "{env: PROXMOX_TOKEN_SECRET, file: token.secret}";
    secret_literal: "{env: PROXMOX_TOKEN_SECRET}" => "canary-0001";
    secret_literal_in_env: "PROXMOX_TOKEN_SECRET" => "canary-0002";
    secret_literal_under_another_key: "{env: PROXMOX_TOKEN_SECRET}" => "{value: canary-0003}";
    secret_literal_in_id: "daedal@pve!cli," => "\"daedal@pve!cli=canary-0004\",";
    secret_literal_in_place_of_token: "{id: daedal@pve!cli, secret: {env: PROXMOX_TOKEN_SECRET}}" => "daedal@pve!cli=canary-0005";
    secret_literal_in_endpoint: "https://atlas" => "https://root:canary-0006@atlas";
    secret_literal_in_broken_endpoint: "https://atlas" => "https://root:canary-0009@atlas:port";
    secret_literal_in_place_of_id: "id: daedal@pve!cli" => "id: canary-0010";
    secret_literal_in_factory: "version: v1.12.0" => "version: v1.12.0, factory: \"https://me:canary-0011@factory.lan\"";
    secret_in_a_patch_beside_a_mistake: "environment: lab" => "patches:\n    - inline: |\n        key: canary-0012\n  enviroment: lab";
    secret_beside_broken_yaml: "{env: PROXMOX_TOKEN_SECRET}" => "canary-0007", "hosts: [" => "hosts: [[";
    secret_not_yet: "{env: PROXMOX_TOKEN_SECRET}" => "{vault: secret/pve}";
    token_id_wrong: "daedal@pve!cli" => "daedal@pve";

    tls_both: "{ca: pve-root-ca.pem}" => "{ca: pve-root-ca.pem, insecure: true}";
    tls_none: "{ca: pve-root-ca.pem}" => "{}";
    tls_sha1: "ca: pve-root-ca.pem" => "fingerprint: \"5A:3C:0E:91:7B:D2:48:F6:1D:A9:63:BE:07:C4:8F:22:E5:70:9A:34\"";
    tls_not_a_fingerprint: "ca: pve-root-ca.pem" => "fingerprint: AB:CD:…";
    factory_tls_both: "version: v1.12.0" => "version: v1.12.0, factoryTls: {ca: factory-ca.pem, insecure: true}";
    factory_tls_not_a_fingerprint: "version: v1.12.0" => "version: v1.12.0, factoryTls: {fingerprint: AB:CD:…}";
    factory_tls_on_plain_http: "version: v1.12.0" => "version: v1.12.0, factory: \"http://factory.lan\", factoryTls: {ca: factory-ca.pem}";
    endpoint_plain_http: "https://" => "http://";
    endpoint_with_path: ":8006" => ":8006/api2/json";
    endpoint_without_scheme: "https://atlas.lan:8006" => "atlas.lan:8006";
    hosts_none: "[atlas, borea]" => "[]";
    hosts_twice: "[atlas, borea]" => "[atlas, {name: atlas}]";
    storage_with_options: "disks: local-lvm" => "disks: \"local-lvm,cache=none\"";

    boot_templates_on_a_nodes_vmid: "environment: lab" => "boot: {from: template, template: {controlplane: 302, worker: 301}}";
    boot_templates_of_hosts_meet: "environment: lab" => "boot: {from: template, template: {controlplane: 9000, worker: 9002}}";
    boot_templates_unused: "environment: lab" => "boot: {template: {clone: full}}";
    hardware_wrong: "environment: lab" => "hardware: {cpu: \"host,flags=x\", disks: [{size: big}], pci: [\"a b\"]}";
    hardware_secure_boot_without_uefi: "environment: lab" => "hardware: {firmware: seabios}", "version: v1.12.0" => "version: v1.12.0, secureBoot: true";
    hardware_of_amd64_on_arm64: "environment: lab" => "hardware: {machine: q35, firmware: seabios, cpu: x86-64-v3}", "version: v1.12.0" => "version: v1.12.0, arch: arm64";
    hardware_of_arm64_on_amd64: "environment: lab" => "hardware: {machine: virt}";
    dhcp_discovered_with_addresses: "vip: 10.0.0.20" => "vip: 10.0.0.20, dhcp: discovered", "environment: lab" => "boot: {config: maintenance}";
    dhcp_discovered_with_a_config_medium: "vip: 10.0.0.20" => "vip: 10.0.0.20, dhcp: discovered";
    boot_config_by_snippet: "environment: lab" => "boot: {config: snippet}";
    boot_storage_of_templates_without_any: "images: local}" => "images: local, templates: bases}";
    boot_storage_of_templates_with_linked_clones: "images: local}" => "images: local, templates: bases}\n  boot: {from: template}";
    boot_storage_of_drives_without_any: "images: local}" => "images: local, cloudInit: drives}";
    boot_template_with_meta: "environment: lab" => "boot: {from: template, config: meta}";
    boot_iso_without_from: "environment: lab" => "boot: {iso: \"local:iso/talos.iso\"}";
    boot_iso_is_no_volume: "environment: lab" => "boot: {from: iso, iso: talos.iso}";
    boot_image_with_iso: "environment: lab" => "boot: {from: iso, image: \"local:import/talos.raw\"}";
    boot_image_is_compressed: "environment: lab" => "boot: {image: \"local:import/nocloud-amd64.raw.xz\"}";
    boot_image_with_meta: "environment: lab" => "boot: {config: meta, image: \"local:import/talos.raw\"}";
    boot_image_with_its_format: "environment: lab" => "boot: {image: \"local:import/talos.raw\", format: raw}";
    boot_image_with_a_digest: "environment: lab" => "boot: {image: \"local:import/talos.raw\"}", "{version: v1.12.0," => "{version: v1.12.0, imageSha256: abababababababababababababababababababababababababababababababab,";
    boot_iso_with_a_digest: "environment: lab" => "boot: {from: iso, iso: \"local:iso/talos.iso\"}", "{version: v1.12.0," => "{version: v1.12.0, imageSha256: abababababababababababababababababababababababababababababababab,";
    boot_format_of_nothing: "environment: lab" => "boot: {from: iso, format: raw}";
    boot_iso_with_meta: "environment: lab" => "boot: {from: iso, config: meta, iso: \"local:iso/talos.iso\"}";
    boot_maintenance_without_agent: "environment: lab" => "boot: {config: maintenance}\n  protect: yes";
    reach_ssh_and_proxy: "environment: lab" => "reach: {ssh: {host: atlas.lan}, proxy: \"socks5://127.0.0.1:1080\"}";
    reach_ssh_without_host: "environment: lab" => "reach: {ssh: {user: root}}";
    reach_ssh_host_with_user: "environment: lab" => "reach: {ssh: {host: \"root@atlas.lan:22\"}}";
    reach_ssh_port: "environment: lab" => "reach: {ssh: {host: atlas.lan, port: 0}}";
    reach_ssh_key_and_agent: "environment: lab" => "reach: {ssh: {host: atlas.lan, key: ~/.ssh/id_ed25519, agent: true}}";
    reach_ssh_passphrase_alone: "environment: lab" => "reach: {ssh: {host: atlas.lan, passphrase: {env: PASSPHRASE}}}";
    reach_ssh_passphrase_itself: "environment: lab" => "reach: {ssh: {host: atlas.lan, key: id, passphrase: canary-phrase}}";
    reach_ssh_key_itself: "environment: lab" => "reach: {ssh: {host: atlas.lan, key: \"-----BEGIN OPENSSH PRIVATE KEY-----\"}}";
    reach_ssh_key_in_two_places: "environment: lab" => "reach: {ssh: {host: atlas.lan, key: {env: SSH_KEY, file: id}}}";
    store_key_itself: "environment: lab" => "key: AGE-SECRET-KEY-1CANARYWORD";
    store_key_nowhere: "environment: lab" => "key: {}";
    bundle_in_no_vault: "environment: lab" => "secrets: {vault: {path: secret/talos/home}}";
    bundle_in_two_places: "environment: lab" => "secrets: {sops: secrets.sops.yaml, vault: {path: secret/talos/home}}";
    reach_ssh_jump_with_password: "environment: lab" => "reach: {ssh: {host: atlas.lan, jump: [\"ops:canary-word@bastion\"]}}";
    reach_ssh_jump_wrong: "environment: lab" => "reach: {ssh: {host: atlas.lan, jump: [bastion, \"ops@bastion:ssh\", {host: \"a b\"}]}}";
    reach_unknown: "environment: lab" => "reach: indirect";

    tag_wrong: "environment: lab" => "tags: [\"a b\"]";
    label_wrong: "role: worker" => "role: worker, labels: {\"a b\": c}";
    taint_wrong: "role: worker" => "role: worker, taints: {gpu: \"yes:NoSchedul\"}";
    patch_unreadable: "environment: lab" => "patches: [{file: patches/all.yaml}]";
    patch_broken: "environment: lab" => "patches: [{file: good.yaml}, {file: broken.yaml}]";
    patch_empty: "environment: lab" => "patches: [{file: empty.yaml}]";
    patch_inline_broken: "environment: lab" => "patches: [{inline: \"a: [\"}]";

    everything_at_once:
        "name: home" => "name: My_Home",
        "environment: lab" => "enviroment: lab\n  protect: yes",
        "version: v1.35.0" => "version: v1.40.0",
        "https://" => "http://",
        "{env: PROXMOX_TOKEN_SECRET}" => "canary-0008",
        "cidr: 10.0.0.0/24" => "cidr: 10.0.0.9/24",
        "count: 3" => "count: 4",
        "memory: 8GiB" => "memory: 8GB",
        "vmid: 303" => "vmid: 302";
}

#[test]
fn nothing_at_all() {
    insta::assert_snapshot!(refused("# to do\n"));
}

#[test]
fn not_even_keys() {
    insta::assert_snapshot!(refused("- a\n- b\n"));
}

#[test]
fn document_second() {
    insta::assert_snapshot!(refused(&format!("{HOME}---\n{HOME}")));
}

#[test]
fn almost_nothing() {
    insta::assert_snapshot!(refused("kind: Cluster\n"));
}

#[test]
fn no_sources() {
    let diagnostics = load(&[], &files).expect_err("refused");
    assert_eq!(diagnostics.errors(), 1);
}

#[test]
fn secrets_written_by_mistake_are_never_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    for entry in std::fs::read_dir(folder).expect("snapshots") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let body = text.splitn(3, "---").nth(2).unwrap_or("");
        assert!(!body.contains("canary"), "{}", path.display());
    }
}

#[test]
fn warnings_do_not_stop() {
    let text = edited(&[
        ("{ca: pve-root-ca.pem}", "{insecure: true}"),
        (":8006", ""),
        (", vip: 10.0.0.20", ""),
        (
            "[qemu-guest-agent]",
            "[qemu-guest-agent, siderolabs/qemu-guest-agent], factory: http://factory.lan/",
        ),
    ]);
    let loaded = load(&[Source { name: "cluster.yaml".to_owned(), text }], &files).expect("usable");
    assert!(loaded.warnings.iter().all(|w| w.severity == Severity::Warning));
    insta::assert_snapshot!(shown(loaded.warnings.iter()));
}

#[test]
fn a_factory_that_is_not_verified_is_said_aloud() {
    let text = edited(&[("version: v1.12.0", "version: v1.12.0, factoryTls: {insecure: true}")]);
    let loaded = load(&[Source { name: "cluster.yaml".to_owned(), text }], &files).expect("usable");
    assert_eq!(loaded.cluster.talos.factory_tls, daedal_inventory::TlsTrust::Insecure);
    insta::assert_snapshot!(shown(loaded.warnings.iter()));
}

#[test]
fn as_json() {
    let sources = [Source { name: "cluster.yaml".to_owned(), text: edited(&[("vmid: 303", "vmid: 302")]) }];
    let diagnostics = load(&sources, &files).expect_err("refused");
    insta::assert_json_snapshot!(diagnostics);
}
