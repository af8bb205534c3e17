//! Releases in Helm's Secrets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Case, THINGS, text};
use crate::{Inputs, NothingAsked, helm_release, render};

/// A release with a definition, a hook, an extra manifest and values, one of them secret.
fn kept() -> Case {
    let mut case = Case::chart(&[
        ("crds/things.yaml", THINGS),
        ("values.yaml", "replicas: 1\n"),
        ("templates/NOTES.txt", "Have fun with {{ .Release.Name }}.\n"),
        (
            "templates/a.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {x: one}}\nspec: {port: {{ .Values.port }}}\n",
        ),
        (
            "templates/j.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: post-install}}\n",
        ),
    ]);
    case.addon.values = vec![text("v", "port: 80\n")];
    case.secrets = BTreeMap::from([("token".into(), "t0p".into())]);
    case.addon.extra = vec![text("e", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")];
    case
}

impl Case {
    fn helm_secret(&self, number: u32) -> Value {
        let inputs = Inputs {
            addon: &self.addon,
            chart: self.chart.as_ref(),
            manifests: &self.manifests,
            secrets: &self.secrets,
            capabilities: &self.capabilities,
            lookup: &NothingAsked,
            seed: &self.seed,
            now: 1_800_000_000,
            schemas: &BTreeMap::new(),
        };
        let revision =
            helm_release::Revision { number, first_deployed: 1_700_000_000, deployed: 1_800_000_000 };
        helm_release::secret(&inputs, &render(&inputs).unwrap(), revision).unwrap()
    }
}

#[test]
fn a_release_is_kept_as_helm_keeps_it() {
    let secret = kept().helm_secret(1);
    assert_eq!(secret["metadata"]["name"], "sh.helm.release.v1.web.v1");
    assert_eq!(secret["metadata"]["namespace"], "shop");
    assert_eq!(secret["type"], "helm.sh/release.v1");
    assert_eq!(
        secret["metadata"]["labels"],
        json!({"name": "web", "owner": "helm", "status": "deployed", "version": "1", "createdAt": "1800000000"})
    );
    let stored = helm_release::read(&secret).unwrap().unwrap();
    assert_eq!((stored.name.as_str(), stored.namespace.as_str(), stored.revision), ("web", "shop", 1));
    assert_eq!((stored.status.as_str(), stored.chart_version.as_str()), ("deployed", "1.2.3"));
    assert_eq!((stored.first_deployed, stored.server_side), (Some(1_700_000_000), true));
    assert_eq!(Value::Object(stored.config), json!({"port": 80.0, "token": "t0p"}));
    assert_eq!(
        stored.manifest,
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  annotations:\n    x: one\n  labels:\n    app.kubernetes.io/managed-by: Helm\n  name: a\n  namespace: shop\nspec:\n  port: 80\n",
        "neither definitions nor hooks nor the namespace nor extra manifests are in it"
    );
}

#[test]
fn the_json_of_a_release_is_what_go_reads() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use std::io::Read as _;
    let secret = kept().helm_secret(2);
    let data =
        STANDARD.decode(STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap()).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(data.as_slice()).read_to_string(&mut text).unwrap();
    let release: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        release["info"],
        json!({"first_deployed": "2023-11-14T22:13:20Z", "last_deployed": "2027-01-15T08:00:00Z", "deleted": "",
            "description": "Upgrade complete", "status": "deployed", "notes": "Have fun with web.\n"})
    );
    let metadata = json!({"name": "web", "version": "1.2.3", "apiVersion": "v2", "appVersion": "4.5"});
    assert_eq!(release["chart"]["metadata"], metadata);
    let names = |key: &str| -> Vec<String> {
        let files = release["chart"][key].as_array().unwrap();
        files.iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("templates").len(), 3);
    assert!(names("files").contains(&"crds/things.yaml".to_owned()));
    assert_eq!(release["hooks"][0]["events"], json!(["post-install"]));
    assert_eq!(release["hooks"][0]["kind"], "Job");
    assert_eq!((&release["version"], &release["apply_method"]), (&json!(2), &json!("ssa")));
}

#[test]
fn an_older_revision_is_superseded_and_the_newest_counts() {
    let case = kept();
    let old = helm_release::superseded(&case.helm_secret(1), 1_800_000_001).unwrap();
    assert_eq!(old["metadata"]["labels"]["status"], "superseded");
    assert_eq!(old["metadata"]["labels"]["modifiedAt"], "1800000001");
    let first = helm_release::read(&old).unwrap().unwrap();
    assert_eq!(first.status, "superseded");
    let second = helm_release::read(&case.helm_secret(2)).unwrap().unwrap();
    let newest = helm_release::newest([first, second]);
    assert_eq!(newest[&("shop".to_owned(), "web".to_owned())].revision, 2);
}

#[test]
fn a_secret_that_is_no_release_is_none_and_a_broken_one_is_named() {
    assert_eq!(helm_release::read(&json!({"type": "Opaque"})).unwrap(), None);
    let broken = json!({"type": helm_release::TYPE, "metadata": {"name": "x"}, "data": {"release": "!"}});
    let error = helm_release::read(&broken).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the Helm release in Secret x: "), "{error}");
}
