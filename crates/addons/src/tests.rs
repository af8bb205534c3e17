//! Whole add-ons, rendered.

mod exported;
mod kept;
mod policed;
mod settled;

use std::collections::BTreeMap;

use daedal_helm::{Chart, File};
use daedal_inventory::{Addon, AddonSource, AddonText, ManifestSource, PodSecurity};
use serde_json::{Value, json};

use crate::{
    Capabilities, DIGEST, Error, Fetched, HELM_RELEASE, HookEvent, Inputs, Lookup, MANAGED_BY, NothingAsked,
    ObjectId, Rendered, Seed, ServedKind, Stage, applyset, digest_of, render,
};

/// What a test renders; everything that it does not set is empty.
struct Case {
    addon: Addon,
    chart: Option<Chart>,
    manifests: Vec<Fetched>,
    secrets: BTreeMap<String, String>,
    capabilities: Capabilities,
    seed: Seed,
}

fn text(origin: &str, text: &str) -> AddonText {
    AddonText { origin: origin.into(), text: text.into() }
}

impl Case {
    fn new(source: AddonSource) -> Self {
        let addon = Addon {
            name: "web".into(),
            entry: None,
            namespace: "shop".into(),
            source,
            values: Vec::new(),
            secret_values: BTreeMap::new(),
            kept_values: BTreeMap::new(),
            policies: None,
            extra: Vec::new(),
            pod_security: None,
            network: false,
            after: Vec::new(),
            wait: true,
            timeout: 300,
            force: false,
        };
        Self {
            addon,
            chart: None,
            manifests: Vec::new(),
            secrets: BTreeMap::new(),
            capabilities: Capabilities { kube_version: "v1.34.1".into(), kinds: Vec::new() },
            seed: Seed::new([7; 32]),
        }
    }

    fn manifests(texts: &[&str]) -> Self {
        let texts = texts.iter().enumerate();
        Self::new(AddonSource::Manifests(
            texts.map(|(i, t)| ManifestSource::Text(text(&format!("{i}.yaml"), t))).collect(),
        ))
    }

    fn chart(files: &[(&str, &str)]) -> Self {
        let mut case = Self::new(AddonSource::Local { path: "charts/web".into() });
        let head = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"4.5\"\n");
        let files = files.iter().chain([&head]);
        let files = files.map(|(name, data)| File { name: (*name).into(), data: (*data).into() });
        case.chart = Some(Chart::from_files(files.collect()).unwrap());
        case
    }

    fn render_with(&self, lookup: &dyn Lookup) -> Result<Rendered, Error> {
        render(&Inputs {
            addon: &self.addon,
            chart: self.chart.as_ref(),
            manifests: &self.manifests,
            secrets: &self.secrets,
            capabilities: &self.capabilities,
            lookup,
            seed: &self.seed,
            now: 1_800_000_000,
            schemas: &BTreeMap::new(),
        })
    }

    fn render(&self) -> Rendered {
        self.render_with(&NothingAsked).unwrap()
    }

    fn fails(&self) -> String {
        self.render_with(&NothingAsked).unwrap_err().to_string()
    }
}

fn names(rendered: &Rendered) -> Vec<String> {
    rendered.release.objects.iter().map(|object| object.id.to_string()).collect()
}

fn body<'a>(rendered: &'a Rendered, name: &str) -> &'a Value {
    let mut objects = rendered.release.objects.iter();
    &objects.find(|object| object.id.to_string() == name).unwrap_or_else(|| panic!("no {name}")).body
}

#[test]
fn manifests_become_objects_with_a_namespace_a_digest_and_marks() {
    let case = Case::manifests(&[
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, creationTimestamp: null}\ndata: {x: one}\nstatus: {}\n",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, namespace: nonsense}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n",
    ]);
    let rendered = case.render();
    assert_eq!(
        names(&rendered),
        ["Namespace shop", "ClusterRole r", "ConfigMap other/b", "ConfigMap shop/a"]
    );
    let object = rendered.release.objects.iter().find(|o| o.id.name == "a").unwrap();
    assert_eq!(
        object.body,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "shop",
                "annotations": {DIGEST: object.digest},
                "labels": {applyset::PART_OF: applyset::id_of("web")}},
            "data": {"x": "one"},
        })
    );
    assert_eq!(digest_of(&object.body), Some(object.digest.as_str()));
    assert!(body(&rendered, "ClusterRole r")["metadata"]["namespace"].is_null());
}

#[test]
fn the_same_inputs_give_the_same_release_and_other_values_other_digests() {
    let make = |value: &str| {
        Case::manifests(&[&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{x: {value}}}\n"
        )])
        .render()
        .release
    };
    assert_eq!(make("one"), make("one"));
    let (one, other) = (make("one"), make("two"));
    let digest = |release: &crate::Release| release.objects.last().unwrap().digest.clone();
    assert_ne!(digest(&one), digest(&other));
    assert_ne!(one.inputs, other.inputs);
}

#[test]
fn a_namespace_is_made_once_and_says_what_its_pods_may_do() {
    let mut case = Case::manifests(&["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"]);
    case.addon.pod_security = Some(PodSecurity::Privileged);
    let made = case.render();
    let namespace = body(&made, "Namespace shop");
    for mode in ["enforce", "audit", "warn"] {
        let label = format!("pod-security.kubernetes.io/{mode}");
        assert_eq!(namespace["metadata"]["labels"][&label], "privileged");
    }
    assert!(namespace["metadata"]["labels"][applyset::PART_OF].is_null(), "others may share it");

    case.addon.extra = vec![text(
        "extra.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline}}\n",
    )];
    let given = case.render();
    let namespaces = names(&given).iter().filter(|name| name.starts_with("Namespace")).count();
    assert_eq!(namespaces, 1);
    let labels = &body(&given, "Namespace shop")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline", "what is written stays");

    case.addon.extra.clear();
    case.addon.namespace = "kube-system".into();
    assert_eq!(names(&case.render()), ["ConfigMap kube-system/a"]);
}

#[test]
fn an_object_that_is_there_twice_must_be_the_same() {
    let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: one}\n";
    assert_eq!(names(&Case::manifests(&[one, one]).render()), ["Namespace shop", "ConfigMap shop/a"]);
    let other = one.replace("x: one", "x: two");
    assert_eq!(
        Case::manifests(&[one, &other]).fails(),
        "ConfigMap shop/a is in 0.yaml (document 1) and in 1.yaml (document 1)"
    );
}

#[test]
fn what_is_no_object_is_named_with_its_place() {
    for (text, wanted) in [
        ("kind: A\n", "0.yaml: document 1 has no apiVersion"),
        ("apiVersion: v1\n", "0.yaml: document 1 has no kind"),
        ("apiVersion: v1\nkind: Pod\n", "0.yaml: document 1 (Pod) has no name"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [b]}\n",
            "0.yaml: document 1 (Pod a) has labels that are not a map",
        ),
    ] {
        assert_eq!(Case::manifests(&[text]).fails(), wanted);
    }
}

#[test]
fn manifests_of_a_server_must_be_those_that_were_meant() {
    use sha2::{Digest as _, Sha256};
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let url = "https://example.org/a.yaml".to_owned();
    let sha256 = hex::encode(Sha256::digest(yaml));
    let source = ManifestSource::Url { url: url.clone(), sha256: sha256.clone() };
    let mut case = Case::new(AddonSource::Manifests(vec![source]));
    assert_eq!(case.fails(), "https://example.org/a.yaml was not fetched");
    case.manifests = vec![Fetched { origin: url, text: yaml.into() }];
    assert_eq!(names(&case.render()).len(), 2);
    case.manifests[0].text.push('#');
    assert!(case.fails().ends_with(&format!(", not {sha256}")), "{}", case.fails());
}

#[test]
fn a_secret_is_as_the_api_server_keeps_it_and_its_digest_needs_the_seed() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: word}\ndata: {q: eA==}\n";
    let mut case = Case::manifests(&[text]);
    let rendered = case.render();
    let secret = body(&rendered, "Secret shop/a");
    assert_eq!(
        (&secret["data"], &secret["stringData"]),
        (&json!({"q": "eA==", "p": "d29yZA=="}), &Value::Null)
    );
    let before = rendered.release.objects.last().unwrap().digest.clone();
    case.seed = Seed::new([8; 32]);
    assert_ne!(case.render().release.objects.last().unwrap().digest, before);
}

#[test]
fn a_chart_renders_with_values_in_their_order_and_secrets_at_their_place() {
    let mut case = Case::chart(&[
        ("values.yaml", "replicas: 1\nimage: {tag: a, name: web}\nlogin: {}\n"),
        (
            "templates/app.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata:\n  all: {{ list .Values.replicas .Values.image.tag .Values.image.name .Values.login.password (index .Values.keys 0).id | join \" \" | quote }}\n",
        ),
    ]);
    case.addon.values =
        vec![text("one", "replicas: 2\nimage: {tag: b}\nkeys: [{id: x}]\n"), text("two", "replicas: 3\n")];
    case.secrets =
        BTreeMap::from([("login.password".into(), "a,b={c}\\".into()), ("keys[0].id".into(), "0123".into())]);
    let rendered = case.render();
    assert_eq!(body(&rendered, "ConfigMap shop/web")["data"]["all"], "3 b web a,b={c}\\ 0123");
    let chart = rendered.release.chart.unwrap();
    assert_eq!(
        (chart.name.as_str(), chart.version.as_str(), chart.app_version.as_str()),
        ("web", "1.2.3", "4.5")
    );

    case.secrets = BTreeMap::from([("image.tag.x".into(), "secret-text".into())]);
    let error = case.fails();
    assert!(error.contains("image.tag.x") && !error.contains("secret-text"), "{error}");
}

#[test]
fn objects_of_a_chart_belong_to_its_helm_release_but_not_its_definitions() {
    let case = Case::chart(&[
        ("crds/things.yaml", THINGS),
        (
            "templates/a.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {app.kubernetes.io/managed-by: x}}\n",
        ),
    ]);
    let rendered = case.render();
    let service = body(&rendered, "Service shop/a");
    assert_eq!(service["metadata"]["labels"][MANAGED_BY], "Helm");
    assert_eq!(service["metadata"]["annotations"][HELM_RELEASE], "web");
    assert_eq!(service["metadata"]["annotations"][crate::HELM_NAMESPACE], "shop");
    let definition = body(&rendered, "CustomResourceDefinition things.example.org");
    assert!(definition["metadata"]["annotations"][HELM_RELEASE].is_null());
    assert_eq!(definition["metadata"]["labels"][applyset::PART_OF], applyset::id_of("web"));
}

const THINGS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec: {group: example.org, scope: Cluster, names: {kind: Thing}, versions: [{name: v1, served: true}]}
";

#[test]
fn definitions_come_first_and_templates_and_scopes_know_them() {
    let case = Case::chart(&[
        ("crds/things.yaml", THINGS),
        (
            "templates/a.yaml",
            "{{ if .Capabilities.APIVersions.Has \"example.org/v1/Thing\" }}\napiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}\n{{ end }}",
        ),
        ("templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
    ]);
    let rendered = case.render();
    let stages: Vec<(Stage, String)> =
        rendered.release.objects.iter().map(|o| (o.stage, o.id.to_string())).collect();
    assert_eq!(
        stages,
        [
            (Stage::Definitions, "CustomResourceDefinition things.example.org".into()),
            (Stage::Definitions, "Namespace shop".into()),
            (Stage::Objects, "ConfigMap shop/b".into()),
            (Stage::Customs, "Thing a".into()),
        ]
    );
    let defined = rendered.release.defines();
    assert_eq!(defined.iter().map(|kind| kind.kind.as_str()).collect::<Vec<_>>(), ["Thing"]);
    assert_eq!(rendered.release.of_stage(Stage::Customs).count(), 1);
}

#[test]
fn a_definition_of_the_templates_replaces_that_of_the_folder() {
    let templated = THINGS.replace(
        "metadata: {name: things.example.org}",
        "metadata: {name: things.example.org, labels: {from: template}}",
    );
    let case = Case::chart(&[("crds/things.yaml", THINGS), ("templates/things.yaml", &templated)]);
    let rendered = case.render();
    let definition = body(&rendered, "CustomResourceDefinition things.example.org");
    assert_eq!(definition["metadata"]["labels"]["from"], "template");
    assert_eq!(definition["metadata"]["annotations"][HELM_RELEASE], "web");
}

#[test]
fn templates_see_what_the_cluster_serves_and_nothing_else() {
    let mut case = Case::chart(&[(
        "templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  monitors: {{ .Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\" | quote }}\n  batch: {{ .Capabilities.APIVersions.Has \"batch/v1\" | quote }}\n  version: {{ .Capabilities.KubeVersion.Version }}\n",
    )]);
    let data = |case: &Case| body(&case.render(), "ConfigMap shop/a")["data"].clone();
    assert_eq!(data(&case), json!({"monitors": "false", "batch": "true", "version": "v1.34.1"}));
    let kind = |api_version: &str, kind: &str| ServedKind {
        api_version: api_version.into(),
        kind: kind.into(),
        namespaced: true,
    };
    let monitors = kind("monitoring.coreos.com/v1", "ServiceMonitor");
    case.capabilities = case.capabilities.and([monitors.clone(), monitors]);
    assert_eq!(case.capabilities.kinds.len(), 1);
    assert_eq!(data(&case), json!({"monitors": "true", "batch": "true", "version": "v1.34.1"}));
    case.capabilities = case.capabilities.and([kind("v1", "Pod")]);
    assert_eq!(data(&case), json!({"monitors": "true", "batch": "false", "version": "v1.34.1"}));
}

const PASSWORD: &str = "{{ $old := lookup \"v1\" \"Secret\" .Release.Namespace \"login\" -}}
apiVersion: v1
kind: Secret
metadata: {name: login}
data:
  password: {{ dig \"data\" \"password\" (randAlphaNum 12 | b64enc) $old | quote }}
";

#[test]
fn lookups_are_asked_for_once_and_then_answered() {
    let case = Case::chart(&[("templates/a.yaml", PASSWORD)]);
    let first = case.render();
    let asked = ObjectId {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: Some("shop".into()),
        name: "login".into(),
    };
    assert_eq!(first.asked, std::slice::from_ref(&asked));

    let absent = BTreeMap::from([(asked.clone(), None)]);
    let created = case.render_with(&absent).unwrap();
    assert_eq!(created.asked, []);
    let password = body(&created, "Secret shop/login")["data"]["password"].clone();
    assert_eq!(
        password,
        body(&first, "Secret shop/login")["data"]["password"],
        "nothing but the seed decides"
    );

    let live = json!({"data": {"password": "b2xk"}});
    let known = BTreeMap::from([(asked, Some(live))]);
    assert_eq!(body(&case.render_with(&known).unwrap(), "Secret shop/login")["data"]["password"], "b2xk");
}

#[test]
fn another_seed_gives_other_passwords() {
    let mut case = Case::chart(&[("templates/a.yaml", PASSWORD)]);
    let password = |case: &Case| body(&case.render(), "Secret shop/login")["data"]["password"].clone();
    let before = password(&case);
    case.seed = Seed::new([9; 32]);
    assert_ne!(password(&case), before);
}

#[test]
fn hooks_that_run_are_kept_in_their_order_and_tests_are_not() {
    let hook = |name: &str, events: &str, more: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    helm.sh/hook: {events}\n{more}"
        )
    };
    let files = [
        ("templates/a.yaml", hook("late", "post-install,post-rollback", "    helm.sh/hook-weight: '5'\n")),
        (
            "templates/b.yaml",
            hook("z", "pre-install,pre-upgrade", "    helm.sh/hook-delete-policy: hook-succeeded\n"),
        ),
        ("templates/c.yaml", hook("b", "pre-delete", "")),
        ("templates/d.yaml", hook("t", "test", "")),
        ("templates/e.yaml", hook("r", "post-rollback", "")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let rendered = Case::chart(&files).render();
    let hooks: Vec<_> = rendered
        .release
        .hooks
        .iter()
        .map(|h| (h.id.to_string(), h.events.clone(), h.weight, h.delete_policies.join(",")))
        .collect();
    let before = "before-hook-creation".to_owned();
    assert_eq!(
        hooks,
        [
            ("Job shop/b".into(), vec![HookEvent::PreDelete], 0, before.clone()),
            (
                "Job shop/z".into(),
                vec![HookEvent::PreInstall, HookEvent::PreUpgrade],
                0,
                "hook-succeeded".into()
            ),
            ("Job shop/late".into(), vec![HookEvent::PostInstall], 5, before),
        ]
    );
    assert_eq!(names(&rendered), ["Namespace shop"]);
    assert_eq!(rendered.release.hooks[0].body["metadata"]["namespace"], "shop");
}

#[test]
fn a_chart_that_fails_says_why_and_one_that_is_missing_is_named() {
    let case = Case::chart(&[("templates/a.yaml", "{{ fail \"no host\" }}")]);
    let error = case.render_with(&NothingAsked).unwrap_err();
    assert_eq!(error.to_string(), "cannot render the chart of add-on web");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.ends_with("no host"), "{source}");
    let case = Case::new(AddonSource::Local { path: "x".into() });
    assert_eq!(case.fails(), "the chart of add-on web was not fetched");
}
