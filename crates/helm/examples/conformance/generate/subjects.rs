//! What the snippets work on: a chart's values, named templates, and the simplest expressions of each kind.

use super::Kind;

/// The chart's `values.yaml`.
pub const VALUES: &str = r#"
str: hello World
empty: ""
uni: "héllo wörld ✓ 日本 ǅ ß İ"
multi: "line one\n  line two\n\nlast\n"
path: /a/b/../c.tar.gz
num: 42
neg: -7
big: 1234567890
huge: 12345678901234567890
float: 3.75
tiny: 0.000001
smaller: 1.5e-9
third: 0.3333333333333333
whole: 5.0
giant: 1e21
yes: true
no: false
nothing: null
version: v1.27.3
csv: "a,b,,c"
numstr: "0123"
negstr: "-12.5"
quoted: "it's \"q\" <&> \\ back"
control: "bell\a tab\t nul\0 del\x7f nel\u0085 bom\uFEFF end"
list: [1, two, 3.5, true, null, [x, y]]
words: [pear, Apple, fig, apple, "10", "9"]
nums: [3, 1, 2]
repeated: [a, b, a, 1, 1, null, "", b]
emptyList: []
emptyMap: {}
nested: [[1, [2, 3]], {a: [b]}, []]
map: {b: 2, a: one, c: {d: [1, 2], e: null, "f.g": true}, "10": x, "9": y}
other: {a: two, z: 26, c: {d: 9, h: new}}
labels: {app.kubernetes.io/name: n, tier: "true"}
scalars: {hex: 0x1F, oct: 0o17, old: 017, exp: 1e3, tilde: ~, date: 2001-01-01, on: on, no: n, time: 12:30:45, under: 1_000, bin: 0b11, plus: +5, dot: .5}
items:
  - {name: one, port: 80, on: true}
  - {name: two, port: 443}
text: "{{ .Values.str | upper }}-{{ .Release.Name }}"
yaml: "a: 1\nb: [x, 'y']\nc:\n  d: yes\n"
documents: "&x a: *x\nb: |\n  t\n  u\nc: >-\n  f\n  g\n"
json: "{\"k\": [1, 2.5, \"s\"], \"n\": null}"
toml: "a = 1\n[t]\nb = \"x\"\n"
url: "https://user:pw@example.com:8443/p/a th?q=1&r=2#frag"
long: "the quick brown fox jumps over the lazy dog and then runs away from the very slow tortoise that follows"
"#;

/// Named templates the snippets call.
pub const HELPERS: &str = r#"
{{- define "h.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end -}}
{{- define "h.echo" -}}[{{ . }}]{{- end -}}
{{- define "h.list" -}}{{- range . }}{{ . }};{{ end -}}{{- end -}}
{{- define "h.args" -}}{{ .root.Chart.Name }}/{{ .value | toJson }}/{{ .gone }}{{- end -}}
{{- define "h.deep" -}}{{ . }}{{ if gt (int .) 0 }}{{ include "h.deep" (sub . 1) }}{{ end }}{{- end -}}
{{- define "h.yaml" -}}
k: v
n: {{ . | toJson }}
{{- end -}}
"#;

/// The simplest expressions of a kind.
pub(super) fn atoms(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Text => TEXT,
        Kind::Int => INT,
        Kind::Float => FLOAT,
        Kind::Bool => BOOL,
        Kind::List => LIST,
        Kind::Map => MAP,
        Kind::Any => ANY,
        Kind::Time => TIME,
        Kind::Version => VERSION,
    }
}

const TEXT: &[&str] = &[
    ".Values.str",
    ".Values.empty",
    ".Values.uni",
    ".Values.multi",
    ".Values.path",
    ".Values.csv",
    ".Values.numstr",
    ".Values.negstr",
    ".Values.quoted",
    ".Values.control",
    ".Values.version",
    ".Values.long",
    ".Values.url",
    ".Values.yaml",
    ".Values.json",
    ".Values.documents",
    ".Release.Name",
    ".Chart.Name",
    ".Chart.Version",
    ".Chart.AppVersion",
    ".Template.Name",
    ".Template.BasePath",
    ".Release.Namespace",
    ".Release.Service",
    ".Capabilities.KubeVersion.Version",
    "\"a-b_c d\"",
    "\"x\"",
    "\"\"",
    "`raw \\n $1`",
    "\"FooBar2Baz\"",
    "\"tab\\there\"",
    "\"A\\u00e9\"",
    "\"\\xff\\xfe bad\"",
    "\"true\"",
    "\"1e3\"",
    "\"- x\"",
    "\"key: v\"",
    "\"HTTPServer\"",
    "(.Files.Get \"a.txt\")",
    "(.Files.Get \"none\")",
    "$.Values.map.a",
    "\"2024-05-06\"",
    "\"0x1F\"",
    "\" pad \"",
    "\"null\"",
    "\"1.2.3\"",
    "\"/usr/../x.y\"",
    "\"a: [1\"",
    "\"%d\"",
];
const INT: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "10",
    "0x10",
    "0b101",
    "0o17",
    "'a'",
    "'\\n'",
    "'é'",
    "1_000",
    "(len .Values.list)",
    "(int .Values.num)",
    "(int64 .Values.neg)",
    "(add 1 2)",
    ".Release.Revision",
];
const FLOAT: &[&str] = &[
    ".Values.num",
    ".Values.float",
    ".Values.whole",
    ".Values.big",
    ".Values.huge",
    ".Values.neg",
    ".Values.tiny",
    ".Values.smaller",
    ".Values.third",
    ".Values.giant",
    "1.5",
    "2e3",
    "-0.25",
    "1e100",
    "0x1p-2",
    "(float64 \"3.5\")",
    "123456.789",
    ".Values.scalars.dot",
];
const BOOL: &[&str] = &[
    ".Values.yes",
    ".Values.no",
    "true",
    "false",
    ".Release.IsInstall",
    ".Release.IsUpgrade",
    ".Chart.IsRoot",
    "(.Capabilities.APIVersions.Has \"apps/v1\")",
    "(.Capabilities.APIVersions.Has \"none/v1\")",
    "(hasKey .Values \"str\")",
];
const LIST: &[&str] = &[
    ".Values.list",
    ".Values.words",
    ".Values.nums",
    ".Values.repeated",
    ".Values.emptyList",
    ".Values.nested",
    ".Values.items",
    "(list 1 \"b\" nil)",
    "(list)",
    "(until 4)",
    "(list 3 1.5 \"1\" true)",
    "(splitList \",\" .Values.csv)",
    "(.Files.Lines \"a.txt\")",
    "(list .Values.map .Values.other)",
    "(list \"b\" \"a\" \"b\")",
];
const MAP: &[&str] = &[
    ".Values.map",
    ".Values.other",
    ".Values.emptyMap",
    ".Values.labels",
    ".Values.scalars",
    "(dict \"k\" 1 \"l\" \"m\")",
    "(dict)",
    ".Values.map.c",
    "(fromYaml .Values.yaml)",
    "(fromJson .Values.json)",
    "(index .Values.items 0)",
    "(dict \"a\" 1.5 \"b\" (list 1 2) \"c\" (dict \"d\" nil))",
    "(omit .Values \"text\")",
];
const ANY: &[&str] = &[
    ".Values.nothing",
    "nil",
    ".Values.missing",
    ".Values.list",
    ".Values.map",
    ".Values.str",
    ".Values.num",
    "3",
    "1.5",
    "\"s\"",
    "true",
    "(index .Values.list 4)",
    "(first .Values.list)",
    "(get .Values.map \"zz\")",
    ".Values.map.c.e",
    ".Chart.Annotations",
    ".Chart.Keywords",
    "(.Files.GetBytes \"a.txt\")",
    "(index .Values.str 1)",
    ".Values.scalars.oct",
    "('x')",
    "(dict)",
    "(list)",
];
const TIME: &[&str] = &[
    "(toDate \"2006-01-02\" \"2024-05-06\")",
    "(toDate \"2006-01-02T15:04:05Z07:00\" \"2023-11-14T22:13:20+02:30\")",
    "(mustToDate \"Jan 2 2006 3:04PM\" \"Feb 29 2024 1:07AM\")",
    "(toDate \"2006-01-02\" \"nonsense\")",
    "(toDate \"15:04:05.000\" \"23:59:58.123\")",
    "(toDate \"Mon, 02 Jan 2006 15:04:05 MST\" \"Tue, 10 Nov 2009 23:00:00 UTC\")",
];
const VERSION: &[&str] = &[
    "(semver .Values.version)",
    "(semver \"1.2.3-rc.1+b\")",
    "(semver \"2\")",
    "(semver \"v0.9\")",
    "(semver .Chart.Version)",
    "(semver \"1.0.0-alpha.beta.10\")",
];
