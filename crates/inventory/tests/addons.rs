//! Add-ons: what comes out of them, and what is said of every way to get one wrong.

use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::sync::LazyLock;

use daedal_inventory::{
    Addon, AddonSource, Cluster, Cni, Diagnostic, Files, Loaded, ManifestSource, PodSecurity, Policies, Role,
    SecretRef, Source, load,
};
use serde_json::{Value, json};

/// The example without add-ons of its own.
static HOME: LazyLock<&str> = LazyLock::new(|| {
    let home = include_str!("../../../examples/home/cluster.yaml");
    home.split("\n  addons:").next().unwrap_or(home)
});

/// What lies beside the inventory.
struct Beside;

impl Files for Beside {
    fn read(&self, path: &Path) -> io::Result<String> {
        let text = match path.to_str().unwrap_or_default() {
            "values/app.yaml" => "replicas: 2\nadmin: {user: root}\n",
            "values/list.yaml" => "- a\n",
            "values/two.yaml" => "a: 1\n---\nb: 2\n",
            "values/sops.yaml" => "a: ENC[canary]\nsops: {version: 3.9.0}\n",
            "values/broken.yaml" => "a: canary\nb: [\n",
            "manifests/b.yaml" | "one.yaml" => "apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n",
            "manifests/a.yml" => "---\napiVersion: v1\nkind: List\nitems: []\n",
            "nameless.yaml" => "apiVersion: v1\nkind: Secret\nstringData: {a: canary}\n",
            "kindless.yaml" => "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\na: canary\n",
            "nothing.yaml" => "# canary\n",
            "./charts/app/Chart.yaml" => "name: app\n",
            _ => return Err(Error::new(ErrorKind::NotFound, "no such file")),
        };
        Ok(text.to_owned())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names: &[&str] = match folder.to_str().unwrap_or_default() {
            "manifests" => &["b.yaml", "a.yml", "README.md"],
            "empty" => &["README.md"],
            _ => return Err(Error::new(ErrorKind::NotFound, "no such folder")),
        };
        Ok(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn is_encrypted(&self, path: &Path) -> Option<bool> {
        Some(path.extension().is_some_and(|extension| extension == "age"))
    }
}

/// The example with add-ons and more of `spec`, each on a line of its own.
fn with(addons: &str, more: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let at = HOME.find("  pools:").expect("pools");
    let text = format!("{}  addons:\n{addons}{more}{}", &HOME[..at], &HOME[at..]);
    load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside)
        .map_err(|found| found.iter().cloned().collect())
}

fn addon(written: &str) -> Addon {
    let loaded =
        with(&format!("    - {written}\n"), "").unwrap_or_else(|found| panic!("{written}: {found:#?}"));
    loaded.cluster.addons.into_iter().next().expect("an add-on")
}

/// What is said, each as `line of the add-ons:column code: message help`.
fn told<'d>(found: impl Iterator<Item = &'d Diagnostic>) -> String {
    let first = HOME[..HOME.find("  pools:").expect("pools")].lines().count() + 1;
    let line = |d: &Diagnostic| {
        let place = d.place.as_ref().expect("a place");
        let file = if place.file == "cluster.yaml" { String::new() } else { format!("{}:", place.file) };
        let line = if file.is_empty() { place.line - first } else { place.line };
        let help = d.help.as_deref().expect("a suggestion");
        format!("  {file}{line}:{} {}: {}\n      {help}\n", place.column, d.code, d.message)
    };
    found.map(line).collect()
}

/// Every way to be wrong, and what is said of it.
const WRONG: &[&str] = &[
    "- celium\n",
    "- my-app\n",
    "- {name: my-app, vlaues: {}}\n",
    "- cilium\n- {name: cilium}\n",
    "- My_App\n",
    "- {name: this-name-goes-on-and-on-and-on-and-on-until-helm-refuses, manifests: [one.yaml]}\n",
    "- {chart: cilium}\n",
    "- {name: app, chart: app, repo: 'https://charts.example.org'}\n",
    "- {name: app, chart: app, repo: 'https://charts.example.org', version: ^1.2}\n",
    "- {name: app, chart: app, repo: 'https://charts.example.org', version: latest}\n",
    "- {name: app, chart: app, repo: 'https://me:canary@charts.example.org', version: 1.2.3}\n",
    "- {name: app, chart: app, repo: 'ftp://charts.example.org', version: 1.2.3}\n",
    "- {name: app, chart: app, version: 1.2.3}\n",
    "- {name: app, chart: cilum, version: 1.2.3}\n",
    "- {name: app, repo: 'https://charts.example.org'}\n",
    "- {name: app, chart: 'a b', repo: 'https://charts.example.org', version: 1.2.3}\n",
    "- {name: app, chart: 'oci://ghcr.io/team/app', repo: 'https://charts.example.org', version: 1.2.3}\n",
    "- {name: app, chart: 'oci://ghcr.io/team/app:1.2.3', version: 1.2.3}\n",
    "- {name: app, chart: 'https://example.org/app-1.2.3.tgz', version: 1.2.3}\n",
    "- {name: app, chart: ./charts/app, version: 1.2.3}\n",
    "- {name: app, chart: ./charts/none}\n",
    "- {name: app, chart: ../charts/app}\n",
    "- {name: app, chart: app-1.2.3.tgz, repo: 'https://charts.example.org'}\n",
    "- {name: cilium, namespace: My_Space}\n",
    "- {name: cilium, timeout: soon}\n",
    "- {name: cilium, timeout: 300}\n",
    "- {name: cilium, wait: yes}\n",
    "- {name: cilium, podSecurity: priviledged}\n",
    "- {name: cilium, values: [a]}\n",
    "- {name: cilium, valuesFrom: [../values.yaml]}\n",
    "- {name: cilium, valuesFrom: [/etc/values.yaml, ~/values.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/none.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/list.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/two.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/sops.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/broken.yaml]}\n",
    "- {name: cilium, valuesFrom: [values/app.yaml.age]}\n",
    "- {name: cilium, secrets: {admin.password: canary}}\n",
    "- {name: cilium, secrets: {'admin password': {env: PASSWORD}}}\n",
    "- {name: cilium, secrets: {admin.password: {env: not-a-name}}}\n",
    "- {name: app, manifests: [one.yaml], values: {a: b}, secrets: {a: {env: A}}, version: 1.2.3}\n",
    "- {name: app, manifests: []}\n",
    "- {name: app, manifests: [none.yaml]}\n",
    "- {name: app, manifests: [none/]}\n",
    "- {name: app, manifests: [empty]}\n",
    "- {name: app, manifests: [../one.yaml]}\n",
    "- {name: app, manifests: [nothing.yaml]}\n",
    "- {name: app, manifests: [nameless.yaml]}\n",
    "- {name: app, manifests: [kindless.yaml]}\n",
    "- {name: app, manifests: [values/broken.yaml]}\n",
    "- {name: app, manifests: ['https://example.org/crds.yaml']}\n",
    "- {name: app, manifests: [{url: 'https://example.org/crds.yaml'}]}\n",
    "- {name: app, manifests: [{url: 'https://example.org/crds.yaml', sha256: abc}]}\n",
    "- {name: app, manifests: [{url: 'example.org/crds.yaml', sha256: 9781b39c24f3f651bd6d6e41b561e04e4904bbdb6d4f8c7a6009df3a702dcd65}]}\n",
    "- {name: app, manifests: [{inline: 'kind: Secret'}]}\n",
    "- {name: app, manifests: [{inline: 'a: [canary'}]}\n",
    "- {name: app, manifests: [{inline: 'a: b', url: 'https://example.org/crds.yaml'}]}\n",
    "- {name: cilium, manifests: [{url: 'https://example.org/crds.yaml', sha256: 9781b39c24f3f651bd6d6e41b561e04e4904bbdb6d4f8c7a6009df3a702dcd65}]}\n",
    "- {name: app, manifests: [one.yaml], after: [app]}\n",
    "- {name: a, manifests: [one.yaml], after: [b]}\n- {name: b, manifests: [one.yaml], after: [c]}\n- {name: c, manifests: [one.yaml], after: [b]}\n",
    "- {name: a, manifests: [one.yaml], after: [B1]}\n- {name: b1, manifests: [one.yaml], after: [cilium, else]}\n",
    "- cilium\n- {name: other, manifests: [one.yaml], network: true}\n",
    "- {name: cilium, after: [app]}\n- {name: app, chart: ./charts/app}\n",
    "- {name: traefik, policies: baseline}\n",
    "- cilium\n- {name: traefik, policies: strict}\n",
    "- {name: rabbitmq-operator}\n",
    "- proxmox-csi\n",
    "- {name: gateway-api, version: v1.5.1}\n",
    "- {name: a, manifests: [one.yaml], namespace: x, podSecurity: baseline}\n- {name: b, manifests: [one.yaml], namespace: x, podSecurity: restricted}\n",
];

#[test]
fn every_way_to_be_wrong() {
    let mut all = String::new();
    for addons in WRONG {
        let indented: String = addons.lines().map(|line| format!("    {line}\n")).collect();
        let Err(found) = with(&indented, "") else { panic!("accepted: {addons}") };
        assert!(!found.iter().any(|d| d.code == "internal"), "{addons}: {found:#?}");
        all += &format!("{}{}\n", addons.replace("canary", "secret"), told(found.iter()));
    }
    assert!(!all.contains("canary"), "a secret is shown:\n{all}");
    insta::assert_snapshot!(all);
}

#[test]
fn an_entry_of_the_catalogue_is_complete_by_its_name() {
    let cilium = addon("cilium");
    assert_eq!(cilium, addon("{name: cilium}"));
    assert_eq!(cilium.entry.as_deref(), Some("cilium"));
    assert_eq!((cilium.namespace.as_str(), cilium.network, cilium.wait), ("kube-system", true, true));
    let AddonSource::Chart { chart, repo, .. } = &cilium.source else { panic!("{:?}", cilium.source) };
    assert_eq!((chart.as_str(), repo.as_str()), ("cilium", "https://helm.cilium.io"));
    assert!(cilium.values[0].text.contains("mode: kubernetes"), "{:?}", cilium.values);
}

#[test]
fn what_is_declared_wins_over_the_catalogue() {
    let cilium = addon(
        "{name: cilium, version: 1.16.5, namespace: network, timeout: 1h, podSecurity: restricted, wait: false, force: true, \
         repo: 'oci://registry.lan/charts/', values: {operator: {replicas: 1}, list: [a, 0x10, 1.5, true, 'no', ]}, valuesFrom: [values/app.yaml]}",
    );
    let expected = AddonSource::Chart {
        chart: "cilium".to_owned(),
        repo: "oci://registry.lan/charts".to_owned(),
        version: "1.16.5".to_owned(),
    };
    assert_eq!(cilium.source, expected);
    assert_eq!(cilium.entry.as_deref(), Some("cilium"));
    assert_eq!((cilium.namespace.as_str(), cilium.timeout), ("network", 3600));
    assert_eq!(
        (cilium.pod_security, cilium.wait, cilium.force),
        (Some(PodSecurity::Restricted), false, true)
    );
    let file = cilium.values.iter().position(|text| text.origin == "values/app.yaml").expect("the file");
    let own = cilium.values.iter().position(|text| text.origin == "spec.addons[0].values").expect("the own");
    assert!(file < own && own + 1 == cilium.values.len(), "{:?}", cilium.values);
    let own: serde_json::Value = serde_json::from_str(&cilium.values[own].text).expect("JSON");
    assert_eq!(own, serde_json::json!({"operator": {"replicas": 1}, "list": ["a", 16, 1.5, true, "no"]}));
}

#[test]
fn charts_come_from_repositories_registries_and_folders() {
    let source = |written: &str| addon(written).source;
    let chart = |chart: &str, repo: &str, version: &str| AddonSource::Chart {
        chart: chart.to_owned(),
        repo: repo.to_owned(),
        version: version.to_owned(),
    };
    assert_eq!(
        source("{name: web, chart: app, repo: 'https://charts.example.org/', version: v1.2.3-rc.1}"),
        chart("app", "https://charts.example.org", "v1.2.3-rc.1")
    );
    assert_eq!(
        source("{name: web, chart: 'oci://ghcr.io/team/charts/app', version: 1.2.3}"),
        chart("app", "oci://ghcr.io/team/charts", "1.2.3")
    );
    assert_eq!(
        source("{name: web, chart: ./charts/app/}"),
        AddonSource::Local { path: "./charts/app".to_owned() }
    );
    assert_eq!(source("{name: web, chart: app-1.tgz}"), AddonSource::Local { path: "app-1.tgz".to_owned() });
    let web = addon("{name: web, chart: ./charts/app}");
    assert_eq!((web.namespace.as_str(), web.entry, web.timeout), ("web", None, 300));
    // A chart of the catalogue under another name is what the catalogue knows.
    assert_eq!(addon("{name: net, chart: cilium, version: 1.16.5}").entry.as_deref(), Some("cilium"));
    // The same name from elsewhere is not.
    let own = addon("{name: net, chart: cilium, repo: 'https://charts.example.org', version: 1.16.5}");
    assert_eq!((own.entry, own.network, own.values), (None, false, Vec::new()));
}

#[test]
fn manifests_are_files_folders_addresses_and_texts() {
    let app = addon(
        "{name: app, manifests: [one.yaml, manifests/, {url: 'https://example.org/a.yaml', sha256: \
         9781B39C24F3F651BD6D6E41B561E04E4904BBDB6D4F8C7A6009DF3A702DCD65}, {inline: '{apiVersion: v1, kind: Namespace, metadata: {name: x}}'}]}",
    );
    let AddonSource::Manifests(list) = app.source else { panic!("{:?}", app.source) };
    let origins: Vec<&str> = list
        .iter()
        .map(|source| match source {
            ManifestSource::Text(text) => text.origin.as_str(),
            ManifestSource::Url { sha256, .. } => sha256.as_str(),
        })
        .collect();
    let digest = "9781b39c24f3f651bd6d6e41b561e04e4904bbdb6d4f8c7a6009df3a702dcd65";
    assert_eq!(
        origins,
        ["one.yaml", "manifests/a.yml", "manifests/b.yaml", digest, "spec.addons[0].manifests[3].inline"]
    );
    let cilium = addon("{name: cilium, manifests: [one.yaml]}");
    assert!(matches!(cilium.source, AddonSource::Chart { .. }));
    assert_eq!(cilium.extra.iter().map(|text| text.origin.as_str()).collect::<Vec<_>>(), ["one.yaml"]);
}

#[test]
fn secret_values_are_references() {
    let app =
        addon("{name: app, chart: ./charts/app, secrets: {'auth.clients[0].secret': {env: CLIENT_SECRET}}}");
    assert_eq!(app.secret_values["auth.clients[0].secret"], SecretRef::Env("CLIENT_SECRET".to_owned()));
}

fn cluster(addons: &[&str], more: &str) -> Cluster {
    let lines: String = addons.iter().map(|addon| format!("    - {addon}\n")).collect();
    with(&lines, more).unwrap_or_else(|found| panic!("{addons:?}: {}", told(found.iter()))).cluster
}

/// What is said of add-ons that can be used.
fn doubted(addons: &[&str], more: &str) -> String {
    let lines: String = addons.iter().map(|addon| format!("    - {addon}\n")).collect();
    let loaded = with(&lines, more).unwrap_or_else(|found| panic!("{addons:?}: {}", told(found.iter())));
    let lint = loaded.lint.iter().filter(|found| found.message.contains('`'));
    told(loaded.warnings.iter().chain(lint))
}

/// The values of an add-on, merged as Helm merges them.
fn values(cluster: &Cluster, name: &str) -> Value {
    fn merge(below: &mut Value, above: Value) {
        match (below, above) {
            (Value::Object(below), Value::Object(above)) => {
                for (key, value) in above {
                    merge(below.entry(key).or_insert(Value::Null), value);
                }
            }
            (below, above) => *below = above,
        }
    }
    let addon = cluster.addons.iter().find(|addon| addon.name == name).expect("the add-on");
    let mut merged = Value::Null;
    for text in &addon.values {
        let value: Value = yaml_serde::from_str(&text.text).expect("YAML");
        if merged.is_null() { merged = value } else { merge(&mut merged, value) }
    }
    merged
}

#[test]
fn every_entry_can_be_declared_by_its_name_or_says_what_it_lacks() {
    for entry in daedal_inventory::catalogue() {
        let found = with(&format!("    - {}\n", entry.name), "");
        match (entry.name, found) {
            ("proxmox-csi" | "rabbitmq-operator", Err(found)) => {
                assert!(found.iter().any(|d| d.message.contains(entry.name)), "{}", told(found.iter()));
            }
            ("flannel", Ok(loaded)) => assert!(loaded.cluster.addons.is_empty()),
            (name, Ok(loaded)) => assert_eq!(loaded.cluster.addons[0].entry.as_deref(), Some(name)),
            (name, Err(found)) => panic!("{name}: {}", told(found.iter())),
        }
    }
}

/// Mission: H4, F6 — with Cilium, Talos brings no network plugin and no kube-proxy
#[test]
fn with_cilium_talos_brings_no_network_plugin_and_no_kube_proxy() {
    let plain = cluster(&["metrics-server", "kubelet-serving-cert-approver"], "").kubernetes;
    assert_eq!((plain.cni, plain.kube_proxy), (Cni::Flannel, true));
    for (addon, more, cni, proxy, replaces) in [
        ("cilium", "", Cni::None, false, true),
        ("{name: cilium, values: {kubeProxyReplacement: true}}", "", Cni::None, false, true),
        ("{name: cilium, values: {kubeProxyReplacement: false}}", "", Cni::None, true, false),
        ("{name: net, chart: cilium, version: 1.16.5}", "", Cni::None, false, true),
        ("flannel", "", Cni::Flannel, true, false),
    ] {
        let cluster = cluster(&[addon], more);
        assert_eq!((cluster.kubernetes.cni, cluster.kubernetes.kube_proxy), (cni, proxy), "{addon}");
        if let Some(net) = cluster.addons.first() {
            let values = values(&cluster, &net.name);
            assert_eq!(values["kubeProxyReplacement"], replaces, "{addon}");
            assert_eq!(
                (values["k8sServiceHost"].as_str(), values["k8sServicePort"].as_u64()),
                (Some("localhost"), Some(7445))
            );
        }
    }
    let both = cluster(&["{name: cilium, values: {bpf: {masquerade: true}}}"], "");
    assert_eq!(values(&both, "cilium")["bpf"]["hostLegacyRouting"], true);
}

#[test]
fn what_contradicts_the_pod_network_is_refused() {
    let mut all = String::new();
    let kubernetes =
        |settings: &str| HOME.replace("  kubernetes:\n", &format!("  kubernetes:\n    {settings}\n"));
    for (addon, settings) in [
        ("cilium", "cni: flannel"),
        ("cilium", "cniManifests: ['https://example.org/cni.yaml']"),
        ("{name: cilium, values: {kubeProxyReplacement: true}}", "kubeProxy: true"),
        ("{name: cilium, values: {kubeProxyReplacement: false}}", "kubeProxy: false"),
        ("flannel", "cni: none"),
    ] {
        let text = kubernetes(settings).replace("  pools:", &format!("  addons:\n    - {addon}\n  pools:"));
        let found = load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside).expect_err(addon);
        for d in found.iter() {
            all += &format!(
                "{addon}, {settings}\n  {}: {}\n      {}\n",
                d.code,
                d.message,
                d.help.as_deref().unwrap()
            );
        }
    }
    let flannel = with("    - flannel\n    - cilium\n", "").expect_err("two");
    all += &told(flannel.iter());
    insta::assert_snapshot!(all);
}

/// Mission: M9 — kubelets leave nodes to the cloud-controller-manager
#[test]
fn kubelets_and_control_planes_are_told_what_add_ons_need() {
    let mut all = String::new();
    for version in ["v1.12.0", "v1.14.0"] {
        let text = HOME.replace("version: v1.12.0", &format!("version: {version}"));
        let addons = "  addons: [proxmox-ccm, metrics-server, kubelet-serving-cert-approver, kube-prometheus-stack]\n  pools:";
        let text = text.replace("  pools:", addons);
        let loaded = load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside).expect("loads");
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        for patch in &loaded.cluster.patches {
            all += &format!("# {version} {} {:?}\n{}\n", patch.origin, patch.role, patch.text);
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn monitoring_is_one_switch() {
    let count = |addons: &[&str], more: &str| cluster(addons, more).patches.len();
    assert_eq!(count(&["longhorn"], ""), 0);
    assert_eq!(count(&["longhorn"], "  monitoring: true\n"), 1);
    assert_eq!(count(&["kube-prometheus-stack"], ""), 1);
    assert_eq!(count(&["kube-prometheus-stack"], "  monitoring: false\n"), 0);
    let on = cluster(&["kube-prometheus-stack", "prometheus-operator-crds", "cilium"], "");
    let said = values(&on, "kube-prometheus-stack");
    assert_eq!(said["kubeEtcd"]["endpoints"], json!(["10.0.0.11", "10.0.0.12", "10.0.0.13"]));
    assert_eq!((&said["kubeProxy"]["enabled"], &said["crds"]["enabled"]), (&json!(false), &json!(false)));
    assert_eq!(on.addons[0].after, ["prometheus-operator-crds"]);
    let off = values(
        &cluster(&["victoria-metrics-k8s-stack"], "  monitoring: false\n"),
        "victoria-metrics-k8s-stack",
    );
    for part in ["kubeControllerManager", "kubeScheduler", "kubeProxy", "kubeEtcd"] {
        assert_eq!(off[part]["enabled"], false, "{part}");
    }
}

/// Mission: F5 — Longhorn's extensions, volume and path follow from the add-on
#[test]
fn longhorn_gets_its_extensions_and_its_disks() {
    let longhorn = "    - longhorn\n";
    let plain = with(longhorn, "").expect("loads");
    let extensions = &plain.cluster.talos.extensions;
    assert!(extensions.contains(&"siderolabs/iscsi-tools".to_owned()), "{extensions:?}");
    assert!(extensions.contains(&"siderolabs/util-linux-tools".to_owned()), "{extensions:?}");
    assert!(told(plain.warnings.iter()).contains("system disk"), "{:?}", plain.warnings);
    assert_eq!(values(&plain.cluster, "longhorn")["defaultSettings"]["defaultDataPath"], "/var/lib/longhorn");
    let mounts = |cluster: &Cluster, role: Role| -> Vec<usize> {
        let nodes = cluster.nodes.iter().filter(|node| node.role == role);
        nodes.map(|node| node.machine.extra_mounts.len()).collect()
    };
    assert_eq!(mounts(&plain.cluster, Role::Worker), [1, 1]);
    assert_eq!(mounts(&plain.cluster, Role::ControlPlane), [0, 0, 0]);

    let disks = HOME
        .replace("      role: worker\n", "      role: worker\n      hardware: {disks: [{size: 100GiB}]}\n");
    let text = disks.replace("  pools:", &format!("  addons:\n{longhorn}  pools:"));
    let loaded = load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside).expect("loads");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(
        values(&loaded.cluster, "longhorn")["defaultSettings"]["defaultDataPath"],
        "/var/mnt/longhorn"
    );
    assert_eq!(mounts(&loaded.cluster, Role::Worker), [0, 0]);
    for node in &loaded.cluster.nodes {
        let names: Vec<&str> = node.machine.user_volumes.iter().map(|volume| volume.name.as_str()).collect();
        let expected: &[&str] = if node.role == Role::Worker { &["longhorn"] } else { &[] };
        assert_eq!(names, expected, "{}", node.name);
    }
    let own = cluster(&["{name: longhorn, values: {defaultSettings: {defaultDataPath: /var/mnt/data}}}"], "");
    assert!(own.nodes.iter().all(|node| node.machine.extra_mounts.is_empty()));

    let pinned =
        HOME.replace("version: v1.12.0", &format!("version: v1.12.0\n    imageSha256: {}", "ab".repeat(32)));
    let text = pinned.replace("  pools:", &format!("  addons:\n{longhorn}  pools:"));
    let found = load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside).expect_err("pinned");
    assert!(found.iter().any(|d| d.message.contains("iscsi-tools, util-linux-tools")), "{found:?}");
}

#[test]
fn add_ons_log_in_to_proxmox_with_what_the_store_keeps_or_a_secret() {
    let ccm = addon("proxmox-ccm");
    let kept: Vec<(&str, &str)> =
        ccm.kept_values.iter().map(|(path, kept)| (path.as_str(), kept.name.as_str())).collect();
    let paths = ["region", "token_id", "token_secret", "url"].map(|key| format!("config.clusters[0].{key}"));
    assert_eq!(kept, paths.each_ref().map(|path| (path.as_str(), "ccm.yaml")));
    assert_eq!(ccm.kept_values[&paths[2]].key, "clusters[0].token_secret");
    let secret = "secrets: {'config.clusters[0].token_secret': {env: TOKEN}}";
    let own = cluster(
        &[&format!("{{name: proxmox-ccm, {secret}}}"), &format!("{{name: proxmox-csi, {secret}}}")],
        "",
    );
    assert!(own.addons.iter().all(|addon| addon.kept_values.is_empty() && addon.secret_values.len() == 1));
    let of = |suffix: &str| {
        json!([{"url": "https://atlas.lan:8006/api2/json", "insecure": false,
        "token_id": format!("home-{suffix}@pve!{suffix}"), "region": "home"}])
    };
    assert_eq!(values(&own, "proxmox-ccm")["config"]["clusters"], of("ccm"));
    assert_eq!(values(&own, "proxmox-csi")["config"]["clusters"], of("csi"));
    assert_eq!(own.addons[1].after, ["proxmox-ccm"]);
}

#[test]
fn add_ons_of_one_namespace_have_the_same_pod_security() {
    let shared = cluster(
        &["kube-prometheus-stack", "{name: extra, manifests: [one.yaml], namespace: monitoring}"],
        "",
    );
    assert_eq!(shared.addons[1].pod_security, Some(PodSecurity::Privileged));
}

#[test]
fn what_deserves_a_second_look_is_said() {
    let said = [
        doubted(&["ingress-nginx", "metrics-server", "longhorn", "tailscale-operator"], ""),
        doubted(
            &[
                "{name: web, chart: app, repo: 'http://charts.lan', version: 1.0.0, force: true, values: {adminPassword: canary}}",
            ],
            "",
        ),
        doubted(&["{name: metrics-server, values: {args: [--kubelet-insecure-tls]}}"], ""),
    ];
    let said = said.join("--\n");
    assert!(!said.contains("canary"), "{said}");
    insta::assert_snapshot!(said);
}

const MANUAL: &str = include_str!("../../../docs/addons.md");

#[test]
fn the_examples_of_the_manual_load() {
    let blocks: Vec<&str> =
        MANUAL.split("```yaml\naddons:\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert_eq!(blocks.len(), MANUAL.matches("```yaml").count());
    for block in blocks {
        let indented: String = block.lines().map(|line| format!("  {line}\n")).collect();
        let loaded = with(&indented, "").unwrap_or_else(|found| panic!("{block}: {}", told(found.iter())));
        assert!(!loaded.cluster.addons.is_empty());
    }
}

#[test]
fn the_manual_has_the_table_of_the_catalogue() {
    let table = daedal_inventory::catalogue_table();
    let (before, rest) = MANUAL.split_once("## The catalogue\n").expect("the heading");
    let at = rest.find("| name |").unwrap_or(rest.len());
    let end = rest[at..].find("\n\n").map_or(rest.len(), |end| at + end + 1);
    let page = format!("{before}## The catalogue\n{}{table}{}", &rest[..at], &rest[end..]);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/addons.md");
        std::fs::write(path, &page).expect("written");
        return;
    }
    assert!(page == MANUAL, "run the test with INSTA_UPDATE=always");
}

/// Mission: E19 — network policies are asked for by add-on, and refused where nothing enforces them
#[test]
fn network_policies_are_asked_for_where_they_are_enforced() {
    let enforced = cluster(&["cilium", "{name: traefik, policies: baseline}"], "");
    let policies: Vec<_> = enforced.addons.iter().map(|addon| addon.policies).collect();
    assert_eq!(policies, [None, Some(Policies::Baseline)]);
}
