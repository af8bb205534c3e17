//! Add-ons for GitOps agents.

use daedal_inventory::AddonSource;
use serde_json::{Value, json};

use super::{Case, PASSWORD, THINGS, text};
use crate::export::{SecretToMake, argo_cd, flux};

fn chart(repo: &str) -> Case {
    let mut case = Case::chart(&[
        ("crds/things.yaml", THINGS),
        ("templates/a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"),
        ("templates/b.yaml", PASSWORD),
    ]);
    case.addon.source =
        AddonSource::Chart { chart: "web".into(), repo: repo.into(), version: "1.2.3".into() };
    case.addon.values = vec![text("v", "replicas: 2\nratio: 0.5\n")];
    case.addon.extra = vec![text("e", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")];
    case
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["kind"].as_str().unwrap()).collect()
}

#[test]
fn flux_goes_on_with_the_same_release() {
    let mut case = chart("https://charts.example.org");
    let reference = serde_json::from_value(json!({"env": "TOKEN"})).unwrap();
    case.addon.secret_values.insert("login[0].token".into(), reference);
    let exported = flux(&case.addon, &case.render()).unwrap();
    assert_eq!(kinds(&exported.objects), ["Namespace", "ConfigMap", "HelmRepository", "HelmRelease"]);
    let [namespace, extra, repository, release] = exported.objects.as_slice() else { panic!() };
    assert_eq!(
        namespace["metadata"]["annotations"],
        json!({"kustomize.toolkit.fluxcd.io/prune": "disabled"})
    );
    assert_eq!(extra["metadata"], json!({"name": "extra", "namespace": "shop"}));
    assert_eq!(repository["spec"], json!({"interval": "1h", "url": "https://charts.example.org"}));
    assert_eq!(release["metadata"], json!({"name": "web", "namespace": "shop"}));
    assert_eq!(
        release["spec"],
        json!({
            "interval": "1h", "releaseName": "web", "timeout": "300s",
            "chart": {"spec": {"chart": "web", "version": "1.2.3", "sourceRef": {"kind": "HelmRepository", "name": "web"}}},
            "install": {"crds": "CreateReplace"}, "upgrade": {"crds": "CreateReplace"},
            "values": {"replicas": 2, "ratio": 0.5},
            "valuesFrom": [{"kind": "Secret", "name": "web-values", "valuesKey": "login_0_.token", "targetPath": "login[0].token"}],
        })
    );
    let keys = vec![("login_0_.token".to_owned(), "login[0].token".to_owned())];
    let secret = SecretToMake { namespace: "shop".into(), name: "web-values".into(), keys };
    assert_eq!(exported.secret, Some(secret));
}

#[test]
fn argo_cd_leaves_passwords_that_are_looked_up() {
    let mut case = chart("oci://registry.example.org/charts");
    let exported = argo_cd(&case.addon, &case.render()).unwrap();
    assert_eq!(kinds(&exported.objects), ["Namespace", "ConfigMap", "Application"]);
    assert_eq!(
        exported.objects[0]["metadata"]["annotations"],
        json!({"argocd.argoproj.io/sync-options": "Prune=false"})
    );
    let spec = &exported.objects[2]["spec"];
    assert_eq!(
        spec["source"],
        json!({"repoURL": "registry.example.org/charts", "chart": "web", "targetRevision": "1.2.3",
            "helm": {"releaseName": "web", "valuesObject": {"replicas": 2, "ratio": 0.5}}})
    );
    assert_eq!(
        spec["ignoreDifferences"],
        json!([{"kind": "Secret", "name": "login", "namespace": "shop", "jsonPointers": ["/data"]}])
    );
    case.addon.secret_values.insert("a".into(), serde_json::from_value(json!({"env": "A"})).unwrap());
    let error = argo_cd(&case.addon, &case.render()).unwrap_err().to_string();
    assert_eq!(error, "cannot export add-on web: Argo CD cannot read values from a Secret");
}

#[test]
fn an_oci_repository_is_one_for_flux_too() {
    let mut case = chart("oci://registry.example.org/charts");
    let definition = THINGS.replace("things.example.org", "own.example.org");
    case.addon.extra = vec![text("e", &definition)];
    let exported = flux(&case.addon, &case.render()).unwrap();
    let kinds = kinds(&exported.objects);
    assert_eq!(kinds, ["CustomResourceDefinition", "Namespace", "HelmRepository", "HelmRelease"]);
    assert_eq!(exported.objects[0]["metadata"]["name"], "own.example.org");
    assert_eq!(
        exported.objects[2]["spec"],
        json!({"interval": "1h", "url": "oci://registry.example.org/charts", "type": "oci"})
    );
}

#[test]
fn manifests_are_what_they_are_unless_they_are_secret_and_local_charts_are_nowhere() {
    let case = Case::manifests(&[
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {app.kubernetes.io/managed-by: me}}\n",
    ]);
    let exported = flux(&case.addon, &case.render()).unwrap();
    assert_eq!(kinds(&exported.objects), ["Namespace", "Service"]);
    assert_eq!(exported.objects[1]["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "me"}));
    let secret = Case::manifests(&["apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"]);
    let error = flux(&secret.addon, &secret.render()).unwrap_err().to_string();
    assert_eq!(error, "cannot export add-on web: Secret shop/a would be written in plain text");
    let local = Case::chart(&[]);
    let error = argo_cd(&local.addon, &local.render()).unwrap_err().to_string();
    assert_eq!(error, "cannot export add-on web: its chart is in no repository");
}
