//! Hostile input: whatever comes in, a result or an error comes out, within bounds.

use daedal_helm::{Chart, Error, File, Limits, RenderOptions, Values, ValuesBuilder, render};
use proptest::prelude::*;

fn chart(templates: &[(&str, &str)]) -> Result<Chart, Error> {
    let file = |name: &str, text: &str| File { name: name.into(), data: text.into() };
    let mut files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        file("values.yaml", "a: 1\nb: [x, {y: z}]\nc: {d: null, e: 'f'}\ns: text\n"),
    ];
    files.extend(templates.iter().map(|(name, text)| file(&format!("templates/{name}"), text)));
    Chart::from_files(files)
}

fn small() -> RenderOptions {
    let limits = Limits { output: 1 << 20, list: 10_000, steps: 200_000, depth: 300 };
    RenderOptions { limits, seed: [0; 32], ..RenderOptions::default() }
}

fn render_one(template: &str) -> Result<String, String> {
    let chart = chart(&[("t.yaml", template)]).map_err(|e| e.to_string())?;
    let rendered = render(&chart, &Values::default(), &small()).map_err(|e| e.to_string())?;
    Ok(rendered.manifests.first().map(|m| m.content.clone()).unwrap_or_default())
}

#[test]
fn recursion_ends() {
    let error =
        render_one("{{ define \"r\" }}{{ include \"r\" . }}{{ end }}{{ include \"r\" . }}").unwrap_err();
    assert!(error.contains("maximum template depth") || error.contains("nested reference"), "{error}");
    let error =
        render_one("{{ define \"r\" }}{{ template \"r\" . }}{{ end }}{{ template \"r\" . }}").unwrap_err();
    assert!(error.contains("maximum template depth"), "{error}");
    let error = render_one(
        "{{ define \"r\" }}{{ tpl .s . }}{{ end }}{{ template \"r\" (dict \"s\" \"{{ template `r` . }}\") }}",
    )
    .unwrap_err();
    assert!(error.contains("maximum template depth"), "{error}");
}

#[test]
fn growth_ends() {
    for template in [
        "{{ $x := \"x\" }}{{ range until 100 }}{{ $x = print $x $x }}{{ end }}{{ $x }}",
        "{{ repeat 2000000000 \"x\" }}",
        "{{ until 2000000000 }}",
        "{{ seq 1 2000000000 }}",
        "{{ $x := list 1 }}{{ range until 100 }}{{ $x = concat $x $x }}{{ end }}{{ $x }}",
        "{{ range until 9999 }}{{ range until 9999 }}{{ range until 9999 }}x{{ end }}{{ end }}{{ end }}",
        "{{ indent 100000000 \"a\\nb\" }}",
        "{{ printf \"%1000000s%1000000s\" \"a\" \"b\" }}",
        "{{ randAlphaNum 2000000000 }}",
    ] {
        assert!(render_one(template).is_err(), "{template}");
    }
}

#[test]
fn costly_calls_count_by_their_cost() {
    for template in [
        // Each holds the one before it twice: small in memory, without end once written out.
        "{{ $x := list }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
        "{{ $x := list }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
        "{{ $x := dict }}{{ range until 60 }}{{ $x = dict \"a\" $x \"b\" $x }}{{ end }}{{ deepCopy $x | len }}",
        "{{ $x := dict }}{{ range until 60 }}{{ $x = dict \"a\" $x \"b\" $x }}{{ end }}{{ merge (dict) $x | len }}",
        // Little to run, much to go over.
        "{{ $x := repeat 1000000 \"x\" }}{{ range until 5000 }}{{ $_ := sha256sum $x }}{{ end }}",
        "{{ $x := until 9999 }}{{ range until 5000 }}{{ $_ := append $x 1 }}{{ end }}",
        "{{ uniq (until 9999) }}",
        "{{ $x := repeat 100000 \"a\" }}{{ regexMatch (repeat 5000 \"a?\") $x }}",
        // Hashes and keys.
        "{{ bcrypt \"a\" }}{{ htpasswd \"a\" \"b\" }}",
        "{{ range until 100 }}{{ genCA \"a\" 1 }}{{ end }}",
        "{{ genPrivateKey \"rsa\" }}",
        "{{ derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}",
    ] {
        let error = render_one(template).unwrap_err();
        assert!(error.ends_with("the chart's templates run for too long"), "{template}: {error}");
    }
    // What is cheap stays so.
    assert!(render_one("v: {{ bcrypt \"a\" | len }}{{ genPrivateKey \"ed25519\" | len }}").is_ok());
    assert!(render_one("v: {{ $x := until 9999 }}{{ range $x }}{{ $_ := index $x . }}{{ end }}").is_ok());
}

#[test]
fn deep_and_cyclic_values_are_survived() {
    let deep =
        "{{ $x := list }}{{ range until 9000 }}{{ $x = list $x }}{{ end }}v: {{ $x | toJson | quote }}";
    assert_eq!(render_one(deep).unwrap(), "v: \"\"");
    let cycle = "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}v: {{ $d | toYaml | quote }}";
    assert_eq!(render_one(cycle).unwrap(), "v: \"\"");
    let printed = "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}v: {{ $d | toString | len }}";
    assert!(render_one(printed).is_ok());
    assert!(Values::from_yaml("[".repeat(100_000).as_bytes()).is_err());
    assert!(Values::from_yaml(b"a: ").is_ok());
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    let error = Values::from_yaml(bomb.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("excessive aliasing"), "{error}");
}

#[test]
fn errors_name_file_line_column_and_value() {
    let text = "a: 1\nb: {{ .Values.c.d.e }}\n";
    let error = render(&chart(&[("t.yaml", text)]).unwrap(), &Values::default(), &small()).unwrap_err();
    let Error::Render { message, locations } = error else { panic!("{error}") };
    assert_eq!(
        message,
        "template: c/templates/t.yaml:2:13: executing \"c/templates/t.yaml\" at <.Values.c.d.e>: nil pointer evaluating interface {}.e"
    );
    assert_eq!(
        (locations[0].file.as_str(), locations[0].line, locations[0].column),
        ("c/templates/t.yaml", 2, 13)
    );
    let error = render_one("{{ required \"give me a name\" .Values.name }}").unwrap_err();
    assert_eq!(error, "execution error at (c/templates/t.yaml:1:3): give me a name");
    let error = render_one("x: {{ if }}").unwrap_err();
    assert_eq!(error, "parse error at (c/templates/t.yaml:1): missing value for if");
    let error = render_one("a: b: c").unwrap_err();
    assert!(error.starts_with("YAML parse error on c/templates/t.yaml:"), "{error}");
}

/// An archive of such entries.
fn pack(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, kind, data) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        // Names are written as they are, where the safe interface would refuse them.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        if kind.is_symlink() {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn hostile_archives_are_refused() {
    let regular = tar::EntryType::Regular;
    let description: &[u8] = b"apiVersion: v2\nname: c\nversion: 1.0.0\n";
    assert!(Chart::from_archive(&pack(&[("c/Chart.yaml", regular, description)])).is_ok());
    for (name, kind) in [
        ("c/../../etc/passwd", regular),
        ("c//etc/passwd", regular),
        ("Chart.yaml", regular),
        ("c/templates/link", tar::EntryType::Symlink),
        ("c/templates/link", tar::EntryType::Link),
        ("c/templates/fifo", tar::EntryType::Fifo),
    ] {
        let archive = pack(&[("c/Chart.yaml", regular, description), (name, kind, b"")]);
        assert!(Chart::from_archive(&archive).is_err(), "{name} {kind:?}");
    }
    let zeros = vec![0u8; 6 << 20];
    let archive = pack(&[("c/Chart.yaml", regular, description), ("c/big", regular, &zeros)]);
    let error = Chart::from_archive(&archive).unwrap_err().to_string();
    assert!(error.contains("larger than the maximum"), "{error}");
}

#[test]
fn archives_within_archives_share_one_limit() {
    let regular = tar::EntryType::Regular;
    let description: &[u8] = b"apiVersion: v2\nname: c\nversion: 1.0.0\n";
    let zeros = vec![0u8; 4 << 20];
    // Each is far below the limits; there are just many of them, and many of those within each.
    let inner = pack(&[("c/Chart.yaml", regular, description), ("c/a", regular, &zeros)]);
    let names: Vec<String> = (0..6).map(|n| format!("c/charts/{n}.tgz")).collect();
    let around = |within: &[u8], count: usize| {
        let mut entries = vec![("c/Chart.yaml", regular, description)];
        entries.extend(names.iter().take(count).map(|name| (name.as_str(), regular, within)));
        pack(&entries)
    };
    let several = around(&around(&inner, 6), 3);
    assert!(Chart::from_archive(&several).is_ok(), "72 MiB in all");
    let bomb = around(&around(&inner, 6), 6);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = Chart::from_archive(&bomb).unwrap_err().to_string();
    assert!(error.contains("larger than the maximum"), "{error}");
    // Within a folder or a list of files, too.
    let file = |name: &str, data: &[u8]| File { name: name.into(), data: data.into() };
    let files = vec![file("Chart.yaml", description), file("charts/c.tgz", &bomb)];
    let error = Chart::from_files(files).unwrap_err().to_string();
    assert!(error.contains("larger than the maximum"), "{error}");
}

/// Pieces of templates, so that random sequences of them often parse.
const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    " ",
    "\n",
    "if ",
    "else ",
    "end ",
    "range ",
    "with ",
    "define \"x\" ",
    "template \"x\" ",
    ".",
    ".a",
    ".Values",
    "$",
    "$x",
    ":=",
    "=",
    "|",
    "(",
    ")",
    "\"s\"",
    "`r`",
    "'c'",
    "1",
    "-2.5e3",
    "0x1f",
    "true",
    "nil",
    "printf ",
    "index ",
    "toYaml ",
    "dict ",
    "list ",
    "include \"x\" ",
    "tpl ",
    "quote ",
    "nindent 2 ",
    "eq ",
    "and ",
    "len ",
    "fromYaml ",
    "regexFind ",
    "text",
    "é",
    "/* c */",
    ",",
    "break ",
    "continue ",
    "block \"b\" .",
    "set ",
    "merge ",
    "slice ",
    "date ",
    "semver ",
    "urlParse ",
    "wrap 3 ",
    "trunc 5 ",
    "split \",\" ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_pieces_is_survived(picks in prop::collection::vec(0..PIECES.len(), 0..24)) {
        let text: String = picks.iter().map(|i| PIECES[*i]).collect();
        let _ = render_one(&text);
    }

    #[test]
    fn any_action_is_survived(picks in prop::collection::vec(0..PIECES.len(), 1..8)) {
        let inner: String = picks.iter().map(|i| PIECES[*i]).filter(|p| !p.contains("{{") && !p.contains("}}")).collect();
        let _ = render_one(&format!("{{{{ {inner} }}}}"));
    }

    #[test]
    fn any_text_is_survived_as_template_yaml_and_setting(text in "\\PC{0,60}") {
        let _ = render_one(&text);
        let _ = Values::from_yaml(text.as_bytes());
        let _ = ValuesBuilder::new().set(&text);
        let _ = ValuesBuilder::new().set_json(&text);
        let _ = ValuesBuilder::new().set_literal(&text);
    }

    #[test]
    fn yaml_like_text_is_survived(text in "[-:{}\\[\\],&*!|>'\"#%?@ \n\ta-c0-2.~<]{0,60}") {
        let _ = Values::from_yaml(text.as_bytes());
        let _ = render_one(&format!("v: {{{{ fromYaml {} | toYaml | quote }}}}", serde_json::to_string(&text).unwrap()));
    }

    #[test]
    fn what_is_written_is_read_back(text in "\\PC{0,40}") {
        let quoted = serde_json::to_string(&text).unwrap();
        let template = format!("{{{{ $m := dict \"k\" {quoted} \"l\" (list {quoted}) }}}}v: {{{{ deepEqual $m (fromYaml (toYaml $m)) }}}}");
        if let Ok(rendered) = render_one(&template) {
            prop_assert_eq!(rendered, "v: true");
        }
    }

    #[test]
    fn any_bytes_are_survived_as_archive(data in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Chart::from_archive(&data);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &data).unwrap();
        let _ = Chart::from_archive(&gzip.finish().unwrap());
    }
}
