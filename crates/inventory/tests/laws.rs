//! What holds for every text: no panic, no contradiction between schema and types, the same answer every time, no clash.

use std::collections::HashSet;
use std::hash::Hash;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use daedal_inventory::{
    Cluster, Diagnostics, Loaded, Role, Source, load, resolved_json, resolved_yaml, schema,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

const HOME: &str = include_str!("../../../examples/home/cluster.yaml");
const FLUODATA: &str = include_str!("../../../examples/fluodata/cluster.yaml");
const ENTERPRISE: &str = include_str!("../../../examples/enterprise/cluster.yaml");

fn no_files(_: &Path) -> io::Result<String> {
    Ok("machine: {}\n".to_owned())
}

fn read(text: &str) -> Result<Loaded, Diagnostics> {
    load(&[Source { name: "cluster.yaml".to_owned(), text: text.to_owned() }], &no_files)
}

/// Whatever comes out must be something we can stand by.
fn stands(text: &str) -> Option<Cluster> {
    match read(text) {
        Ok(loaded) => {
            sound(&loaded.cluster);
            Some(loaded.cluster)
        }
        Err(diagnostics) => {
            assert!(diagnostics.errors() > 0, "refused without a reason:\n{text}");
            for diagnostic in diagnostics.iter() {
                assert_ne!(diagnostic.code, "internal", "{diagnostic}\n{text}");
                if let Some(place) = &diagnostic.place {
                    assert!(place.line >= 1 && place.column >= 1);
                    assert!(
                        text.get(place.offset..place.offset + place.length).is_some(),
                        "{place:?}\n{text}"
                    );
                }
            }
            let handler =
                miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
            let mut shown = String::new();
            handler.render_report(&mut shown, &diagnostics).expect("rendered");
            None
        }
    }
}

fn unique<T: Hash + Eq>(values: impl Iterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    values.into_iter().all(|v| seen.insert(v))
}

fn sound(cluster: &Cluster) {
    let nodes = &cluster.nodes;
    assert!(unique(nodes.iter().map(|n| &n.name)));
    assert!(unique(nodes.iter().map(|n| n.vmid)));
    assert!(unique(nodes.iter().map(|n| &n.mac)));
    assert!(unique(nodes.iter().map(|n| n.uuid)));
    // None is declared where DHCP gives them.
    assert!(unique(nodes.iter().filter_map(|n| n.ip())));
    for node in nodes {
        if let Some(address) = node.ip() {
            assert!(cluster.network.cidr.contains(&address));
            assert!(address != cluster.network.gateway && Some(address) != cluster.network.vip);
        }
        assert!((100..=999_999_999).contains(&node.vmid));
        assert_eq!((node.memory % (1 << 20), node.disk % (1 << 30)), (0, 0));
        assert!(node.name.len() <= 63);
    }
    assert!([1, 3, 5, 7].contains(&cluster.control_planes().count()));
    assert!(nodes.is_sorted_by_key(|n| n.role));
    assert_eq!(nodes[0].role, Role::ControlPlane);
    let hosts: HashSet<&str> = cluster.proxmox.hosts.iter().map(|h| h.name.as_str()).collect();
    for (node, host) in &cluster.placement.pin {
        assert!(cluster.node(node).is_some() && hosts.contains(host.as_str()));
    }
    assert!(cluster.tags.is_sorted() && unique(cluster.tags.iter()));
    resolved_yaml(cluster).expect("shown");
    resolved_json(cluster).expect("shown");
}

/// Text with pieces cut out, repeated or replaced.
fn garbled() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "",
        " ",
        "\n",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        "|",
        ">",
        "#",
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "!x ",
        "---\n",
        "\t",
        "0",
        "-1",
        "1e999",
        "0x",
        "~",
        "null",
        "true",
        "+10",
        "é",
        "\u{feff}",
        "\0",
        "99999999999999999999",
        "name: ",
        "count: 5",
        "vmid: 1-2",
        "10.0.0.0/33",
        "fd00::/64",
        "8GB",
        "secret: x",
        "? ",
        ",",
    ]);
    let edit = (any::<Index>(), 0_usize..12, piece);
    (select(vec![HOME, FLUODATA, ENTERPRISE]), proptest::collection::vec(edit, 1..6)).prop_map(
        |(text, edits)| {
            let mut chars: Vec<char> = text.chars().collect();
            for (at, cut, piece) in edits {
                let at = at.index(chars.len() + 1);
                let end = (at + cut).min(chars.len());
                chars.splice(at..end, piece.chars());
            }
            chars.into_iter().collect()
        },
    )
}

/// A value for a schema: mostly what it asks for, sometimes anything else.
fn fitting(schema: Value, root: Value) -> BoxedStrategy<Value> {
    let wild = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9_.:/+ -]{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{"name": 1}])),
    ];
    let schema = match schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|r| root.pointer(r.trim_start_matches('#')))
    {
        Some(target) => target.clone(),
        None => schema,
    };
    if let Some(any) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
        let choices: Vec<_> = any.iter().map(|s| fitting(s.clone(), root.clone())).collect();
        return prop_oneof![20 => proptest::strategy::Union::new(choices), 1 => wild].boxed();
    }
    if let Some(constant) = schema.get("const") {
        return prop_oneof![30 => Just(constant.clone()), 1 => wild].boxed();
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let right: BoxedStrategy<Value> = if types.contains(&"object") {
        let required: HashSet<String> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|k| k.as_str().map(str::to_owned))
            .collect();
        let fields: Vec<_> = schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .map(|(key, property)| {
                let chance = if required.contains(&key) { 0.97 } else { 0.3 };
                proptest::option::weighted(chance, fitting(property, root.clone()))
                    .prop_map(move |v| v.map(|v| (key.clone(), v)))
                    .boxed()
            })
            .collect();
        let extra = proptest::option::weighted(0.05, "[a-zA-Z]{1,8}");
        (fields, extra)
            .prop_map(|(fields, extra)| {
                let mut map: Map<String, Value> = fields.into_iter().flatten().collect();
                map.extend(extra.map(|key| (key, json!(1))));
                Value::Object(map)
            })
            .boxed()
    } else if types.contains(&"array") {
        proptest::collection::vec(fitting(schema["items"].clone(), root), 0..3).prop_map(Value::Array).boxed()
    } else if let Some(examples) = schema.get("examples").and_then(Value::as_array) {
        select(examples.clone()).boxed()
    } else if types.contains(&"integer") {
        (0_u32..9).prop_map(Value::from).boxed()
    } else if types.contains(&"number") {
        (0.0_f64..9.0).prop_map(Value::from).boxed()
    } else if types.contains(&"boolean") {
        any::<bool>().prop_map(Value::from).boxed()
    } else {
        "[a-z0-9.:/-]{1,10}".prop_map(Value::from).boxed()
    };
    prop_oneof![30 => right, 1 => wild].boxed()
}

/// A document that is right, with pools of any shape.
fn proper() -> impl Strategy<Value = String> {
    let workers = proptest::collection::vec((0_u32..16, any::<bool>()), 0..4);
    (select(vec![1_u32, 3, 5, 7]), workers, any::<bool>(), "[a-z]{1,10}").prop_map(|(control, pools, prefix, name)| {
        let mut workers = String::new();
        for (i, (count, listed)) in pools.iter().enumerate() {
            let start = 20 + 40 * (i + 1);
            let number = if *listed {
                let nodes: Vec<String> = (0..*count).map(|n| format!("{{name: n{i}-{n}}}")).collect();
                format!("nodes: [{}]", nodes.join(", "))
            } else {
                format!("count: {count}")
            };
            workers += &format!("    - {{name: w{i}, role: worker, {number}, address: +{start}, vmid: {}}}\n", 5000 + 100 * i);
        }
        let prefix = if prefix { ", macPrefix: 'BC:24:11'" } else { "" };
        format!(
            "apiVersion: daedal.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  talos: {{version: v1.13.1}}\n  \
             proxmox: {{endpoint: 'https://a:8006', token: {{id: a@b!c, secret: {{env: T}}}}, hosts: [a], storage: {{disks: d, images: i}}}}\n  \
             network: {{cidr: 10.1.0.0/24, gateway: +1, vip: +2{prefix}}}\n  pools:\n{workers}    - {{name: cp, role: controlplane, count: {control}}}\n"
        )
    })
}

fn cases(default: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    // PROPTEST_CASES asks for more.
    if config.cases == 256 { ProptestConfig { cases: default, ..config } } else { config }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        stands(&text);
    }

    #[test]
    fn any_soup_of_signs_is_answered(text in "[a-c:\\-{}\\[\\]&*!|>'\"#%@,?~<\\n \\t0-9.+é\\x00-\\x1f]{0,120}") {
        stands(&text);
    }

    #[test]
    fn any_garbled_inventory_is_answered(text in garbled()) {
        stands(&text);
    }

}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn proper_inventories_resolve_the_same_every_time(text in proper()) {
        let cluster = stands(&text).unwrap_or_else(|| panic!("{:#?}\n{text}", read(&text).err()));
        let again = read(&text).expect("again").cluster;
        prop_assert_eq!(serde_json::to_string(&cluster).expect("JSON"), serde_json::to_string(&again).expect("JSON"));
        prop_assert_eq!(cluster, again);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn what_fits_the_schema_fits_the_types(value in fitting(schema(), schema())) {
        stands(&value.to_string());
    }
}

/// An editor must not mark what the program takes.
#[test]
fn what_is_taken_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let mut runner = proptest::test_runner::TestRunner::new(cases(100));
    let result = runner.run(&prop_oneof![garbled(), proper()], |text| {
        if stands(&text).is_some()
            // The other parser knows only YAML 1.1 and one document; where it reads the text, the schema must agree.
            && let Ok(value) = yaml_serde::from_str::<Value>(&text)
        {
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            prop_assert!(errors.is_empty(), "{errors:?}\n{text}");
        }
        Ok(())
    });
    result.unwrap_or_else(|e| panic!("{e}"));
}

fn large(nodes: u32, listed: bool) -> String {
    let pool = |name: &str, i: u32, count: u32| {
        let (vmid, start) = (10_000 + i * 10_000, 1000 + i * 10_000);
        if listed {
            let rows: String = (0..count)
                .map(|n| {
                    let address = u32::from(std::net::Ipv4Addr::new(10, 0, 0, 0)) + start + n;
                    let address = std::net::Ipv4Addr::from(address);
                    format!("        - {{name: {name}-{n}, vmid: {}, address: {address}, cores: 4, memory: 8GiB}}\n", vmid + n)
                })
                .collect();
            format!("    - name: {name}\n      role: worker\n      nodes:\n{rows}")
        } else {
            format!("    - {{name: {name}, role: worker, count: {count}, vmid: {vmid}, address: +{start}}}\n")
        }
    };
    format!(
        "apiVersion: daedal.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: big}}\nspec:\n  talos: {{version: v1.13.1}}\n  \
         proxmox: {{endpoint: 'https://a:8006', token: {{id: a@b!c, secret: {{env: T}}}}, hosts: [a], storage: {{disks: d, images: i}}}}\n  \
         network: {{cidr: 10.0.0.0/12, gateway: +1, vip: +2}}\n  kubernetes: {{podSubnets: [10.64.0.0/12]}}\n  pools:\n    - {{name: cp, role: controlplane, count: 3}}\n{}",
        pool("w", 1, nodes)
    )
}

#[test]
fn ten_thousand_nodes_resolve() {
    for listed in [false, true] {
        let cluster = read(&large(10_000, listed)).expect("resolved").cluster;
        assert_eq!(cluster.nodes.len(), 10_003);
    }
}

/// Time this thread spent on a processor, where the system says so: a busy machine must not fail the test.
fn processor_time(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|n| n.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

#[test]
#[ignore = "measures time: run it with --release"]
fn ten_thousand_nodes_resolve_quickly() {
    let start = Instant::now();
    // The system counts in ticks, so several runs are taken together.
    let mean = |text: &str, runs: u32| {
        let before = processor_time(start);
        (0..runs).for_each(|_| drop(read(text).expect("resolved")));
        (processor_time(start) - before) / runs
    };
    for listed in [false, true] {
        let (thousand, ten_thousand) = (mean(&large(1_000, listed), 50), mean(&large(10_000, listed), 5));
        eprintln!("listed {listed}: 1,000 nodes {thousand:?}, 10,000 nodes {ten_thousand:?}");
        assert!(ten_thousand < Duration::from_millis(200), "{ten_thousand:?}");
        assert!(ten_thousand < thousand * 20, "not linear: {thousand:?} → {ten_thousand:?}");
    }
}
