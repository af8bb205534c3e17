//! Expressions and what `helm template` prints for them: cases that generated snippets once told apart.

use daedal_helm::{Chart, File, RenderOptions, ValuesBuilder, render};

/// What an expression prints, or the end of the complaint.
fn printed(expression: &str) -> String {
    let file = |name: &str, text: String| File { name: name.into(), data: text.into_bytes() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n".into()),
        file("values.yaml", "float: 1.5e-9\nlist: [a, b]\n".into()),
        file("templates/a.yaml", format!("v: {{{{ {expression} | quote }}}}\n")),
    ])
    .unwrap();
    match render(&chart, &ValuesBuilder::new().build(), &RenderOptions::default()) {
        Ok(rendered) => rendered.manifests[0].content.clone(),
        Err(error) => error.to_string().rsplit(">: ").next().unwrap().to_owned(),
    }
}

#[test]
fn expressions_print_as_in_helm() {
    for (expression, expected) in [
        // TOML: floats in full, any value on the top, tables last, commas as its encoder counts them.
        (r#"toToml (list .Values.float 3.0 "1")"#, r#"v: "[0.0000000015, 3.0, \"1\"]""#),
        ("toToml true", r#"v: "true""#),
        ("toToml (list 1 nil)", r#"v: "toml: cannot encode array with nil element""#),
        ("toToml (list (dict))", r#"v: "toml: top-level values must be Go maps or structs""#),
        (r#"toToml (dict "b" (dict "c" 1) "a" 2)"#, r#"v: "a = 2\n\n[b]\n  c = 1\n""#),
        (r#"toToml (dict "l" (list 1 (dict "a" 1 "b" nil)))"#, r#"v: "l = [1, {a = 1, }]\n""#),
        // Versions: a pointer from `semver`, a value from the methods that count up; copies lose their fields.
        (r#"typeOf (semver "1")"#, r#"v: "*semver.Version""#),
        (r#"typeOf (semver "1").IncMajor"#, r#"v: "semver.Version""#),
        (r#"deepCopy (semver "1.2")"#, r#"v: "0.0.0""#),
        (r#"merge (dict "a" (semver "1").IncMajor) (dict "a" (dict)) | len"#, r#"v: "1""#),
        (r#"merge (dict "a" (semver "1")) (dict "a" (dict)) | print"#, r#"v: """#),
        (
            r#"printf "%#v" (semver "v0.9")"#,
            r#"v: "&semver.Version{major:0x0, minor:0x9, patch:0x0, pre:\"\", metadata:\"\", original:\"v0.9\"}""#,
        ),
        // Verbs that do not fit.
        (r#"printf "%.1T" nil"#, r#"v: "<nil>""#),
        (r#"printf "%w" (dict "k" 1)"#, r#"v: "%!w(map[string]interface {}=map[k:1])""#),
        (r#"print .Chart"#, r#"v: "{{c  [] 1.2.3  [] []  v2    false map[]  [] } true}""#),
        // Lists, addresses, YAML.
        ("chunk -3 .Values.list", r#"v: "[]""#),
        (r#"urlJoin (dict "scheme" "http" "host" "a b" "path" "p")"#, r#"v: "http://a%20b/p""#),
        (r#"toYaml (list "<<")"#, r#"v: "- <<""#),
        (r#"toYamlPretty (toDate "2006-01-02" "2020-01-31")"#, r#"v: "2020-01-31T00:00:00Z""#),
    ] {
        assert_eq!(printed(expression), expected, "{expression}");
    }
}

#[test]
fn complaints_read_as_in_helm() {
    for (expression, expected) in [
        (r#"call "x""#, r#"error calling call: non-function "x" of type string"#),
        (
            "append nil 1",
            "error calling append: runtime error: invalid memory address or nil pointer dereference",
        ),
        ("toToml nil", "error calling toToml: reflect: call of reflect.Value.Type on zero Value"),
        (r#"substr -1 -1 "abc""#, "error calling substr: runtime error: slice bounds out of range [:-1]"),
        (
            r#"(semver "1").Compare (semver "1").IncMajor"#,
            r#"wrong type for value; expected *semver.Version; got semver.Version"#,
        ),
        (
            r#"urlParse "http://[::1""#,
            r#"error calling urlParse: unable to parse url: parse "http://[::1": missing ']' in host"#,
        ),
        (
            r#"mustToDate "2006" "a\tb""#,
            r#"error calling mustToDate: parsing time "a\x09b" as "2006": cannot parse "a\x09b" as "2006""#,
        ),
        ("range .Values.list }}{{ .x.y }}{{ end }}{{ 1", "can't evaluate field x in type interface {}"),
        ("eq (list 1) (list 2)", "error calling eq: non-comparable type [%!s(int=2)]: []interface {}"),
    ] {
        assert_eq!(printed(expression), expected, "{expression}");
    }
}
