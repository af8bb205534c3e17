//! Add-ons on the command line: one inventory, from nothing to a cluster with everything in it, and kept so.

use crate::common;

use common::{Changed, Lab, SMALL, good, text};
use serde_json::Value;

const ADDONS: &str = "  addons:
    - name: policies
      namespace: guards
      manifests:
        - inline: |
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: rules}
            data: {mode: strict}
            ---
            apiVersion: v1
            kind: Service
            metadata: {name: gate}
            spec: {selector: {app: gate}, ports: [{port: 80}]}
            ---
            apiVersion: v1
            kind: Secret
            metadata: {name: key}
            stringData: {password: hush}
";

/// The small home cluster with these add-ons.
fn home(addons: &str) -> Changed {
    let with = format!("{addons}\n  kubernetes:\n");
    Changed::new("home", &[SMALL, &[("  kubernetes:\n", &with)]].concat())
}

/// Every object of the lab's Kubernetes of this kind and name.
fn each(world: &mut Value, kind: &str, name: &str, change: &mut impl FnMut(&mut Value)) {
    if world["kind"] == kind && world["metadata"]["name"] == name {
        return change(world);
    }
    match world {
        Value::Object(fields) => fields.values_mut().for_each(|value| each(value, kind, name, change)),
        Value::Array(items) => items.iter_mut().for_each(|value| each(value, kind, name, change)),
        _ => {}
    }
}

fn code(lab: &Lab, home: &Changed, command_line: &[&str]) -> (Option<i32>, String) {
    let run = home.run(lab, command_line);
    (run.status.code(), format!("{}{}", text(&run.stdout), text(&run.stderr)))
}

/// Add-ons are planned object by object, applied with the cluster, kept as declared, and removed.
///
/// Mission: I2 — add-ons are a phase of their own
#[test]
fn an_inventory_with_add_ons_is_applied_in_one_run_and_kept_so() {
    let lab = Lab::new();
    let whole = home(ADDONS);
    let said = good(&whole.run(&lab, &["plan"]));
    for words in
        ["Add-ons", "+ policies  4 objects to create", "+ ConfigMap guards/rules", "wait until it is ready"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("hush") && said.contains("4 objects to create"), "{said}");
    let said = good(&whole.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("1 add-on ready"), "{said}");
    let again = whole.json(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(
        (again["steps"].as_array().map(Vec::len), &again["unseen"]),
        (Some(0), &false.into()),
        "{again}"
    );
    let status = good(&whole.run(&lab, &["status", "--detailed-exitcode"]));
    assert!(
        status.contains("policies") && status.contains("as declared") && status.contains("Daedal"),
        "{status}"
    );
    let listed = whole.json(&lab, &["addons", "list"]);
    assert_eq!((&listed[0]["addon"], &listed[0]["objects"]), (&"policies".into(), &4.into()), "{listed}");
    let shown = good(&whole.run(&lab, &["addons", "show", "policies"]));
    assert!(shown.contains("ConfigMap guards/rules") && shown.contains("as declared"), "{shown}");
    assert_eq!(code(&lab, &whole, &["addons", "show", "nobody"]).0, Some(66));

    // Somebody changes one object and deletes another.
    lab.tamper(|world| {
        each(world, "ConfigMap", "rules", &mut |object| object["data"]["mode"] = "lax".into());
        each(world, "Secret", "key", &mut |object| object["data"]["password"] = "d3Jvbmc=".into());
    });
    let (exit, said) = code(&lab, &whole, &["addons", "diff"]);
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("data.mode: lax → strict") && said.contains("[secret "), "{said}");
    assert!(!said.contains("aHVzaA") && !said.contains("d3Jvbmc"), "{said}");
    let (exit, said) = code(&lab, &whole, &["plan", "--detailed-exitcode"]);
    assert!(exit == Some(2) && said.contains("2 objects to change"), "{said}");
    assert_eq!(code(&lab, &whole, &["status", "--detailed-exitcode"]).0, Some(2));
    good(&whole.run(&lab, &["addons", "--yes"]));
    assert_eq!(code(&lab, &whole, &["addons", "diff"]).0, Some(0));

    // One object less, then none at all.
    let fewer = home(&ADDONS.replace("            ---\n            apiVersion: v1\n            kind: Secret\n            metadata: {name: key}\n            stringData: {password: hush}\n", ""));
    let said = good(&fewer.run(&lab, &["plan"]));
    assert!(said.contains("- Secret guards/key") && said.contains("1 object to remove"), "{said}");
    good(&fewer.run(&lab, &["apply", "--yes"]));
    assert_eq!(code(&lab, &fewer, &["plan", "--detailed-exitcode"]).0, Some(0));
    let none = home("");
    let said = good(&none.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("2 objects to remove") || said.contains("Namespace"), "{said}");
    assert_eq!(code(&lab, &none, &["plan", "--detailed-exitcode"]).0, Some(0));
    let said = good(&none.run(&lab, &["destroy", "--confirm", "home"]));
    assert!(!said.contains("policies"), "{said}");
}

/// Mission: H4, F6 — Cilium of the catalogue from one command: its nodes are awaited after it, and the second plan is empty.
#[test]
fn a_pod_network_of_the_catalogue_comes_before_the_nodes_are_ready() {
    let lab = Lab::new();
    let home = home("  addons: [cilium]\n");
    let plan = home.json(&lab, &["plan"]);
    let steps = plan["steps"].as_array().unwrap();
    let of = |action: &str| -> Vec<i64> {
        let such = steps.iter().filter(|step| step["action"]["do"] == action);
        such.map(|step| step["id"].as_i64().unwrap()).collect()
    };
    let (applied, ready) = (of("applyAddon"), of("awaitReady"));
    assert!(!applied.is_empty() && ready.len() == 2, "{plan}");
    assert!(applied.iter().all(|id| ready.iter().all(|ready| id < ready)), "{plan}");
    let said = good(&home.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("2 nodes Ready, 1 add-on ready"), "{said}");
    assert_eq!(code(&lab, &home, &["plan", "--detailed-exitcode"]).0, Some(0));
    let status = good(&home.run(&lab, &["status", "--detailed-exitcode"]));
    assert!(status.contains("cilium") && status.contains("as declared"), "{status}");
}

/// Mission: E19, I8, H17, M18 — services of the catalogue, with network policies where a pod network enforces them.
#[test]
fn services_of_the_catalogue_become_ready_side_by_side() {
    let lab = Lab::new();
    let home = home(
        "  addons:
    - cilium
    - {name: cert-manager, policies: baseline}
    - {name: traefik, policies: baseline}
    - kube-vip
    - prometheus-operator-crds
    - kube-prometheus-stack
    - loki
    - velero
    - flux-operator
    - longhorn
    - metrics-server
    - harbor
",
    );
    let said = good(&home.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("2 nodes Ready, 12 add-ons ready"), "{said}");
    assert_eq!(code(&lab, &home, &["plan", "--detailed-exitcode"]).0, Some(0));
    let rows = home.json(&lab, &["addons", "list"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row["state"] == rows[0]["state"] && row["ready"] == true), "{rows:#?}");
    let shown = good(&home.run(&lab, &["addons", "show", "traefik"]));
    assert!(shown.contains("NetworkPolicy traefik/"), "{shown}");
    let (exit, said) = code(
        &lab,
        &self::home(&ADDONS.replace("      namespace", "      policies: baseline\n      namespace")),
        &["check"],
    );
    assert!(
        exit == Some(65) && said.contains("Flannel does not enforce network policies"),
        "{exit:?} {said}"
    );
}

/// What cannot be fetched stops nothing else, and is told below the table of add-ons.
#[test]
fn an_add_on_that_cannot_be_fetched_is_told_and_leaves_the_others_alone() {
    let lab = Lab::new();
    let home = home(
        "  addons:\n    - {name: nowhere, chart: app, repo: 'https://charts.nowhere.test', version: 1.0.0}\n    - longhorn\n",
    );
    let (exit, said) = code(&lab, &home, &["apply", "--yes"]);
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("add-on nowhere") && said.contains("is incomplete"), "{said}");
    let (exit, said) = code(&lab, &home, &["addons", "list"]);
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("cannot be rendered") && said.contains("\nnowhere: "), "{said}");
    assert!(said.lines().any(|line| line.starts_with("longhorn") && line.ends_with("yes")), "{said}");
}
