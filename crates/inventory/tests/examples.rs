//! Every example loads without errors, and fits the published schema as well.

use std::path::{Path, PathBuf};

use daedal_inventory::{Files, Loaded, Source, load, resolved_json, resolved_yaml, schema};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("examples")
        .map(|entry| entry.expect("entry").path().join("cluster.yaml"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// What stands beside an example.
struct Beside(PathBuf);

impl Files for Beside {
    fn read(&self, path: &Path) -> std::io::Result<String> {
        std::fs::read_to_string(self.0.join(path))
    }

    fn list(&self, folder: &Path) -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.0.join(folder))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

fn load_example(name: &str) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(folder.join("cluster.yaml")).expect("readable");
    load(&[Source { name: format!("{name}/cluster.yaml"), text }], &Beside(folder))
        .unwrap_or_else(|e| panic!("{name}: {e:#?}"))
}

#[test]
fn all_load_without_a_word() {
    for path in examples() {
        let folder = path.parent().expect("folder").file_name().expect("name").to_string_lossy().into_owned();
        let loaded = load_example(&folder);
        assert!(loaded.warnings.is_empty(), "{folder}: {:#?}", loaded.warnings);
    }
}

#[test]
fn all_fit_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    for path in examples() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let value: serde_json::Value = yaml_serde::from_str(&text).expect("YAML");
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

#[test]
fn home_is_the_five_nodes_of_the_plan() {
    let cluster = load_example("home").cluster;
    let table: Vec<String> = cluster
        .nodes
        .iter()
        .map(|n| format!("{} {} {} {}", n.name, n.vmid, n.address.expect("declared"), n.mac))
        .collect();
    insta::assert_snapshot!(table.join("\n"));
    assert_eq!(cluster.kubernetes.endpoint_host.as_deref(), Some("10.0.0.20"));
    assert_eq!(cluster.talos.extensions, ["siderolabs/qemu-guest-agent", "siderolabs/tailscale"]);
    assert_eq!(cluster.tags, ["lab"]);
    assert!(cluster.ha);
}

/// Names, VMIDs, addresses, cores, memory, system disk, extra disks.
/// Mission: F11
#[test]
fn fluodata_is_the_table_of_its_nodes() {
    let cluster = load_example("fluodata").cluster;
    let row = |node: &daedal_inventory::Node| {
        let gib = |bytes: u64| bytes / (1 << 30);
        let extra: Vec<u64> = node.disks.iter().map(|disk| gib(disk.size)).collect();
        let sizes = (node.cores, gib(node.memory), gib(node.disk), extra);
        (
            node.name.clone(),
            node.vmid,
            node.address.unwrap_or_else(|| panic!("{}", node.name)).to_string(),
            sizes,
        )
    };
    let table: Vec<_> = cluster.nodes.iter().map(row).collect();
    assert_eq!(
        table,
        [
            ("cp-0".to_owned(), 110, "10.10.0.10/24".to_owned(), (2, 4, 20, vec![])),
            ("worker-0".to_owned(), 120, "10.10.0.20/24".to_owned(), (4, 8, 20, vec![20])),
            ("worker-1".to_owned(), 121, "10.10.0.21/24".to_owned(), (4, 8, 20, vec![20])),
        ]
    );
    assert_eq!(cluster.proxmox.bridge, "vmbr1");
    for extension in ["siderolabs/iscsi-tools", "siderolabs/util-linux-tools"] {
        assert!(cluster.talos.extensions.iter().any(|name| name == extension), "{extension}");
    }
}

#[test]
fn what_home_comes_to() {
    insta::assert_snapshot!(resolved_yaml(&load_example("home").cluster).expect("shown"));
}

#[test]
fn resolved_json_reads_back_as_the_cluster() {
    let cluster = load_example("home").cluster;
    let value = resolved_json(&cluster).expect("shown");
    assert_eq!(serde_json::from_value::<daedal_inventory::Cluster>(value).expect("reads"), cluster);
}

#[test]
fn the_least_inventory_of_the_manual_loads() {
    let manual = include_str!("../../../docs/inventory.md");
    let blocks: Vec<&str> = manual.split("```yaml\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for text in blocks {
        let source = Source { name: "inventory.md".to_owned(), text: text.to_owned() };
        let loaded = load(&[source], &|path: &Path| std::fs::read_to_string(path)).expect("loads");
        insta::assert_snapshot!(resolved_yaml(&loaded.cluster).expect("shown"));
    }
}

#[test]
fn the_manual_has_the_table_of_versions() {
    let manual = include_str!("../../../docs/inventory.md");
    let row = |name: &str| -> Vec<&str> {
        let line = manual.lines().find(|l| l.starts_with(&format!("| {name} | v"))).expect("row");
        line.trim_matches('|').split('|').skip(1).map(str::trim).collect()
    };
    let rows: Vec<(&str, &str)> = row("Talos").into_iter().zip(row("Kubernetes")).collect();
    for (talos, kubernetes) in &rows {
        let version =
            semver::Version::parse(&format!("{}.0", talos.trim_start_matches('v'))).expect("version");
        let (low, high) = daedal_inventory::kubernetes_range(&version).expect("known");
        assert_eq!(*kubernetes, format!("v1.{low}–v1.{high}"), "{talos}");
    }
    assert_eq!(rows.len(), 7);
}

#[test]
fn the_schema_beside_the_manual_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/inventory.schema.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&schema()).expect("JSON"));
    if std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always") {
        std::fs::write(&path, &now).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "run `daedal inventory schema > docs/inventory.schema.json`");
}
