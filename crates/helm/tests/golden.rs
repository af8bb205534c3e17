//! Small charts of our own, rendered whole. The expected texts are what Helm v3.19.0 prints for the same commands.

use std::path::Path;

use daedal_helm::{Chart, HookEvent, PrintOptions, RenderOptions, Rendered, Values, ValuesBuilder, render};

fn rendered(chart: &str, values: &Values, namespace: &str) -> Rendered {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts").join(chart);
    let options =
        RenderOptions { release_name: "rel".into(), namespace: namespace.into(), ..RenderOptions::default() };
    render(&Chart::load(path).unwrap(), values, &options).unwrap()
}

fn expect(golden: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    let expected = std::fs::read_to_string(path).unwrap();
    for (number, (theirs, ours)) in expected.lines().zip(text.lines()).enumerate() {
        assert_eq!(ours, theirs, "{golden}, line {}", number + 1);
    }
    assert_eq!(text, expected, "{golden}");
}

#[test]
fn a_chart_with_everything() {
    let rendered = rendered("shop", &Values::default(), "ns");
    let print = PrintOptions { include_crds: true, ..PrintOptions::default() };
    expect("shop.yaml", &rendered.to_text(&print).unwrap());
    assert_eq!(rendered.notes, "Thank you for installing shop.\n");
    let migrate = rendered.hooks.iter().find(|h| h.manifest.name == "migrate").unwrap();
    assert_eq!(migrate.events, [HookEvent::PreInstall, HookEvent::PreUpgrade]);
    assert_eq!(
        (migrate.weight, migrate.delete_policies.as_slice()),
        (-5, ["hook-succeeded".to_owned()].as_slice())
    );
}

#[test]
fn settings_reach_every_corner() {
    let values = ValuesBuilder::new()
        .set("replicas=5,ingress.enabled=false,nodeSelector.disk=ssd,tolerations[0].key=k,env.LOG_LEVEL=null")
        .and_then(|v| v.set_string("env.NUMBER=007"))
        .unwrap()
        .build();
    let print = PrintOptions { no_hooks: true, ..PrintOptions::default() };
    expect("shop-settings.yaml", &rendered("shop", &values, "ns").to_text(&print).unwrap());
}

#[test]
fn only_some_templates() {
    let rendered = rendered("shop", &Values::default(), "default");
    let show_only = vec!["templates/service.yaml".to_owned(), "templates/hook.yaml".to_owned()];
    let print = PrintOptions { skip_tests: true, show_only, ..PrintOptions::default() };
    expect("shop-only.yaml", &rendered.to_text(&print).unwrap());
    let print = PrintOptions { show_only: vec!["templates/nope.yaml".into()], ..PrintOptions::default() };
    let error = rendered.to_text(&print).unwrap_err().to_string();
    assert_eq!(error, "could not find template templates/nope.yaml in chart");
}

#[test]
fn sub_charts_aliases_globals_and_imports() {
    let print = PrintOptions::default();
    expect("umbrella.yaml", &rendered("umbrella", &Values::default(), "default").to_text(&print).unwrap());
    let values =
        ValuesBuilder::new().set("tags.backoffice=false,db.enabled=true,web.port=1").unwrap().build();
    expect("umbrella-switched.yaml", &rendered("umbrella", &values, "default").to_text(&print).unwrap());
}

#[test]
fn values_that_break_the_schema_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/shop");
    let chart = Chart::load(path).unwrap();
    let values = ValuesBuilder::new().set("replicas=0").unwrap().build();
    let error = render(&chart, &values, &RenderOptions::default()).unwrap_err().to_string();
    assert!(error.contains("/replicas") && error.contains("shop:"), "{error}");
    let options = RenderOptions { skip_schema: true, ..RenderOptions::default() };
    assert!(render(&chart, &values, &options).is_ok());
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let file = |name: &str, text: &str| daedal_helm::File { name: name.into(), data: text.into() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: r\nversion: 1.0.0\n"),
        file(
            "templates/r.yaml",
            "a: {{ randAlphaNum 20 }}\nb: {{ uuidv4 }}\nc: {{ now | date \"2006\" }}\nd: {{ genPrivateKey \"ed25519\" | quote }}\nf: {{ encryptAES \"k\" \"secret\" | decryptAES \"k\" }}\n",
        ),
    ])
    .unwrap();
    let text = |seed: u8| {
        let options = RenderOptions { seed: [seed; 32], now: (1_700_000_000, 0), ..RenderOptions::default() };
        render(&chart, &Values::default(), &options).unwrap().to_text(&PrintOptions::default()).unwrap()
    };
    let first = text(1);
    assert_eq!(first, text(1));
    assert_ne!(first, text(2));
    assert!(first.contains("c: 2023") && first.contains("f: secret"));
}

#[test]
fn as_helm_4_does() {
    let file = |name: &str, text: &str| daedal_helm::File { name: name.into(), data: text.into() };
    let object = |kind: &str| format!("kind: {kind}\nmetadata: {{name: x}}\n");
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\nmaintainers: [{name: m}]\n"),
        file("templates/a.yaml", &object("Certificate")),
        file("templates/b.yaml", &object("ValidatingWebhookConfiguration")),
        file("templates/c.yaml", &object("MutatingWebhookConfiguration")),
        file(
            "templates/NOTES.txt",
            "{{ kindOf .Chart }} {{ .Chart.Missing }} {{ toJson .Chart.Keywords }} {{ toJson .Chart.Maintainers }}",
        ),
    ])
    .unwrap();
    let mut options = RenderOptions::default();
    options.capabilities.helm_version = "v4.0.0".into();
    let rendered = render(&chart, &Values::default(), &options).unwrap();
    let kinds: Vec<&str> = rendered.manifests.iter().map(|m| m.kind.as_str()).collect();
    assert_eq!(kinds, ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Certificate"]);
    assert_eq!(rendered.notes, r#"map  [] [{"Email":"","Name":"m","URL":""}]"#);
    options.capabilities.helm_version = "v3.19.0".into();
    assert!(render(&chart, &Values::default(), &options).is_err(), "a structure has no other fields");
}
