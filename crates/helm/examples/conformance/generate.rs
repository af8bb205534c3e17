//! Writes template snippets: every construct of the language and every function that is not random, in odd combinations.

use crate::sets::Dice;

/// What the snippets work on.
pub const VALUES: &str = r#"
str: hello World
empty: ""
uni: "héllo wörld ✓ 日本"
multi: "line one\n  line two\n\nlast\n"
path: /a/b/../c.tar.gz
num: 42
neg: -7
big: 1234567890
float: 3.75
tiny: 0.000001
whole: 5.0
yes: true
no: false
nothing: null
version: v1.27.3
csv: "a,b,,c"
numstr: "0123"
quoted: "it's \"q\" <&> \\ back"
list: [1, two, 3.5, true, null, [x, y]]
words: [pear, Apple, fig, apple, "10", "9"]
nums: [3, 1, 2]
emptyList: []
emptyMap: {}
map: {b: 2, a: one, c: {d: [1, 2], e: null, "f.g": true}, "10": x, "9": y}
other: {a: two, z: 26, c: {d: 9, h: new}}
labels: {app.kubernetes.io/name: n, tier: "true"}
items:
  - {name: one, port: 80, on: true}
  - {name: two, port: 443}
text: "{{ .Values.str | upper }}-{{ .Release.Name }}"
yaml: "a: 1\nb: [x, 'y']\nc:\n  d: yes\n"
json: "{\"k\": [1, 2.5, \"s\"], \"n\": null}"
url: "https://user:pw@example.com:8443/p/a th?q=1&r=2#frag"
long: "the quick brown fox jumps over the lazy dog and then runs away from the very slow tortoise that follows"
"#;

/// Named templates the snippets call.
pub const HELPERS: &str = r#"
{{- define "h.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end -}}
{{- define "h.echo" -}}[{{ . }}]{{- end -}}
{{- define "h.list" -}}{{- range . }}{{ . }};{{ end -}}{{- end -}}
{{- define "h.yaml" -}}
k: v
n: {{ . | toJson }}
{{- end -}}
"#;

/// The snippet of a seed.
pub fn snippet(seed: u64) -> String {
    let mut g = Generator { dice: Dice::new(seed), variables: Vec::new(), next: 0 };
    let mut out = String::new();
    for _ in 0..=g.dice.roll(3) {
        out.push_str(&g.statement(3));
    }
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Int,
    Float,
    Bool,
    List,
    Map,
    Any,
}

struct Generator {
    dice: Dice,
    variables: Vec<(String, Kind)>,
    next: usize,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.dice.roll(from.len())]
    }

    fn open(&mut self) -> &'static str {
        if self.dice.chance(15) { "{{- " } else { "{{ " }
    }

    fn close(&mut self) -> &'static str {
        if self.dice.chance(15) { " -}}" } else { " }}" }
    }

    fn action(&mut self, body: &str) -> String {
        format!("{}{body}{}", self.open(), self.close())
    }

    fn statement(&mut self, depth: usize) -> String {
        let text = self.pick(&["", " ", "\n", "x", "a: ", "- ", "\n  ", "<no value>", "é"]).to_owned();
        let roll = self.dice.roll(if depth == 0 { 6 } else { 14 });
        let body = match roll {
            0..=3 => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                self.action(&e)
            }
            4 => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                self.next += 1;
                let name = format!("$v{}", self.next);
                let out = self.action(&format!("{name} := {e}"));
                self.variables.push((name.clone(), kind));
                format!("{out}{}", self.action(&name))
            }
            5 => self
                .pick(&["{{/* a comment */}}", "{{- /* c */ -}}", "plain", "{{ \"{{\" }}", "\t{{- 3 }}"])
                .to_owned(),
            6 => self.block("if", depth),
            7 => self.block("with", depth),
            8 | 9 => self.range(depth),
            10 => {
                let data = self.expression(Kind::Any, depth - 1);
                let name = self.pick(&["h.name", "h.echo", "h.list", "h.yaml"]);
                let data = if name == "h.name" { "$".to_owned() } else { data };
                if self.dice.chance(50) {
                    self.action(&format!("template \"{name}\" {data}"))
                } else {
                    let then = self.pick(&[
                        "",
                        " | nindent 2",
                        " | upper",
                        " | fromYaml | toJson",
                        " | trim | quote",
                        " | len",
                    ]);
                    self.action(&format!("include \"{name}\" {data}{then}"))
                }
            }
            11 => {
                let mark = self.variables.len();
                let inner = self.statement(depth - 1);
                self.variables.truncate(mark);
                if inner.contains('`') || inner.contains("$v") {
                    inner
                } else {
                    self.action(&format!("tpl `{inner}` ."))
                }
            }
            12 if !self.variables.is_empty() => {
                let index = self.dice.roll(self.variables.len());
                let (name, kind) = self.variables[index].clone();
                let e = self.pipeline(kind, depth);
                format!("{}{}", self.action(&format!("{name} = {e}")), self.action(&name))
            }
            _ => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                let shown = self.pick(&[
                    "toYaml",
                    "toJson",
                    "quote",
                    "squote",
                    "toString",
                    "print",
                    "typeOf",
                    "kindOf",
                    "toPrettyJson",
                    "toRawJson",
                    "printf \"%v|%T\" 1",
                    "printf \"%#v\"",
                    "toYaml | nindent 3",
                    "html",
                    "js",
                    "urlquery",
                ]);
                self.action(&format!("{e} | {shown}"))
            }
        };
        text + &body
    }

    fn block(&mut self, word: &str, depth: usize) -> String {
        let kind = self.kind();
        let condition = self.pipeline(kind, depth - 1);
        let mark = self.variables.len();
        let declare = self.dice.chance(20);
        let mut head = condition;
        if declare {
            self.next += 1;
            let name = format!("$v{}", self.next);
            head = format!("{name} := {head}");
            self.variables.push((name, kind));
        }
        let mut out = self.action(&format!("{word} {head}"));
        if word == "with" {
            out.push_str("{{ . | toJson }}");
        } else {
            out.push_str(&self.statement(depth - 1));
        }
        self.variables.truncate(mark);
        if self.dice.chance(50) {
            if self.dice.chance(40) {
                let other = self.pipeline(Kind::Bool, depth - 1);
                out.push_str(&self.action(&format!("else {word} {other}")));
                out.push('E');
            }
            out.push_str(&self.action("else"));
            out.push_str(if word == "with" { "none" } else { "no" });
        }
        out + &self.action("end")
    }

    fn range(&mut self, depth: usize) -> String {
        let kind = if self.dice.chance(50) {
            Kind::List
        } else {
            self.pick_kind(&[Kind::Map, Kind::Int, Kind::List])
        };
        let over = self.expression(kind, depth - 1);
        let mark = self.variables.len();
        let form = self.dice.roll(3);
        self.next += 1;
        let (a, b) = (format!("$i{}", self.next), format!("$e{}", self.next));
        let head = match form {
            0 => format!("range {over}"),
            1 => format!("range {b} := {over}"),
            _ if kind == Kind::Int => format!("range {b} := {over}"),
            _ => format!("range {a}, {b} := {over}"),
        };
        let mut out = self.action(&head);
        match form {
            0 => out.push_str("{{ . }},"),
            1 => out.push_str(&format!("{{{{ {b} | toJson }}}},")),
            _ if kind == Kind::Int => out.push_str(&format!("{{{{ {b} }}}},")),
            _ => out.push_str(&format!("{{{{ {a} }}}}={{{{ {b} | toJson }}}},")),
        }
        if self.dice.chance(15) {
            let word = self.pick(&["break", "continue"]);
            out.push_str(&format!("{{{{ if eq (toString .) \"two\" }}}}{{{{ {word} }}}}{{{{ end }}}}."));
        }
        if self.dice.chance(30) {
            out.push_str("{{ else }}empty");
        }
        self.variables.truncate(mark);
        out + &self.action("end")
    }

    fn kind(&mut self) -> Kind {
        self.pick_kind(&[
            Kind::Text,
            Kind::Text,
            Kind::Int,
            Kind::Float,
            Kind::Bool,
            Kind::List,
            Kind::Map,
            Kind::Any,
        ])
    }

    fn pick_kind(&mut self, from: &[Kind]) -> Kind {
        from[self.dice.roll(from.len())]
    }

    /// An expression, sometimes with its last argument piped in.
    fn pipeline(&mut self, kind: Kind, depth: usize) -> String {
        let e = self.call(kind, depth);
        // Now and then something of another kind, so that both sides get to complain.
        if self.dice.chance(3) {
            let other = self.kind();
            return self.call(other, depth);
        }
        e
    }

    fn expression(&mut self, kind: Kind, depth: usize) -> String {
        let e = self.call(kind, depth);
        if e.contains(' ') { format!("({e})") } else { e }
    }

    fn atom(&mut self, kind: Kind) -> String {
        if self.dice.chance(20) {
            let fitting: Vec<String> =
                self.variables.iter().filter(|(_, k)| *k == kind).map(|(n, _)| n.clone()).collect();
            if !fitting.is_empty() {
                return fitting[self.dice.roll(fitting.len())].clone();
            }
        }
        match kind {
            Kind::Text => self.pick(&[
                ".Values.str",
                ".Values.empty",
                ".Values.uni",
                ".Values.multi",
                ".Values.path",
                ".Values.csv",
                ".Values.numstr",
                ".Values.quoted",
                ".Values.version",
                ".Values.long",
                ".Values.url",
                ".Release.Name",
                ".Chart.Name",
                ".Chart.Version",
                ".Template.Name",
                ".Release.Namespace",
                "\"a-b_c d\"",
                "\"x\"",
                "\"\"",
                "`raw \\n $1`",
                "\"FooBar2Baz\"",
                "\"tab\\there\"",
                "\"A\\u00e9\"",
                "\"true\"",
                "\"1e3\"",
                "\"- x\"",
                "\"key: v\"",
                "\"HTTPServer\"",
                "(.Files.Get \"a.txt\")",
                "$.Values.map.a",
                "\"2024-05-06\"",
                "\"0x1F\"",
                "\" pad \"",
            ]),
            Kind::Int => self.pick(&[
                "0",
                "1",
                "2",
                "3",
                "-1",
                "7",
                "10",
                "0x10",
                "'a'",
                "1_000",
                "(len .Values.list)",
                "(int .Values.num)",
                "(int64 .Values.neg)",
                "(add 1 2)",
            ]),
            Kind::Float => self.pick(&[
                ".Values.num",
                ".Values.float",
                ".Values.whole",
                ".Values.big",
                ".Values.neg",
                ".Values.tiny",
                "1.5",
                "2e3",
                "-0.25",
                "(float64 \"3.5\")",
            ]),
            Kind::Bool => self.pick(&[
                ".Values.yes",
                ".Values.no",
                "true",
                "false",
                ".Release.IsInstall",
                "(.Capabilities.APIVersions.Has \"apps/v1\")",
                "(hasKey .Values \"str\")",
            ]),
            Kind::List => self.pick(&[
                ".Values.list",
                ".Values.words",
                ".Values.nums",
                ".Values.emptyList",
                ".Values.items",
                "(list 1 \"b\" nil)",
                "(list)",
                "(until 4)",
                "(splitList \",\" .Values.csv)",
                "(.Files.Lines \"a.txt\")",
                "(list .Values.map .Values.other)",
            ]),
            Kind::Map => self.pick(&[
                ".Values.map",
                ".Values.other",
                ".Values.emptyMap",
                ".Values.labels",
                "(dict \"k\" 1 \"l\" \"m\")",
                "(dict)",
                ".Values.map.c",
                "(fromYaml .Values.yaml)",
                "(fromJson .Values.json)",
                "(index .Values.items 0)",
            ]),
            Kind::Any => self.pick(&[
                ".Values.nothing",
                "nil",
                ".Values.missing",
                ".Values.list",
                ".Values.map",
                ".Values.str",
                ".Values.num",
                "3",
                "\"s\"",
                "true",
                "(index .Values.list 4)",
                "(first .Values.list)",
                "(get .Values.map \"zz\")",
            ]),
        }
        .to_owned()
    }

    fn call(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.dice.chance(25) {
            return self.atom(kind);
        }
        let forms: &[&str] = match kind {
            Kind::Text => TEXT,
            Kind::Int => INT,
            Kind::Float => FLOAT,
            Kind::Bool => BOOL,
            Kind::List => LIST,
            Kind::Map => MAP,
            Kind::Any => ANY,
        };
        let form = self.pick(forms);
        let mut out = String::new();
        let mut chars = form.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let wanted = match chars.next() {
                Some('t') => Kind::Text,
                Some('i') => Kind::Int,
                Some('f') => Kind::Float,
                Some('b') => Kind::Bool,
                Some('l') => Kind::List,
                Some('m') => Kind::Map,
                Some('a') => self.kind(),
                Some(other) => {
                    out.push('%');
                    out.push(other);
                    continue;
                }
                None => break,
            };
            out.push_str(&self.expression(wanted, depth - 1));
        }
        out
    }
}

const TEXT: &[&str] = &[
    "upper %t",
    "lower %t",
    "title %t",
    "untitle %t",
    "trim %t",
    "trimAll \"-\" %t",
    "trimSuffix \"d\" %t",
    "trimPrefix \"h\" %t",
    "nospace %t",
    "repeat 2 %t",
    "substr 0 3 %t",
    "trunc 5 %t",
    "trunc -4 %t",
    "abbrev 9 %t",
    "abbrevboth 5 10 %t",
    "initials %t",
    "swapcase %t",
    "snakecase %t",
    "camelcase %t",
    "kebabcase %t",
    "wrap 10 %t",
    "wrapWith 7 \"|\" %t",
    "quote %a",
    "squote %a",
    "cat %a %a",
    "indent 2 %t",
    "nindent 4 %t",
    "replace \"l\" \"L\" %t",
    "plural \"one\" \"many\" %i",
    "toString %a",
    "join \",\" %l",
    "b64enc %t",
    "b64enc %t | b64dec",
    "b32enc %t",
    "b32enc %t | b32dec",
    "sha256sum %t",
    "sha1sum %t",
    "sha512sum %t",
    "adler32sum %t",
    "toJson %a",
    "toPrettyJson %m",
    "toRawJson %t",
    "toYaml %a",
    "toYaml %m",
    "toYaml %l",
    "typeOf %a",
    "kindOf %a",
    "base %t",
    "dir %t",
    "ext %t",
    "clean %t",
    "regexFind \"[a-z]+\" %t",
    "regexReplaceAll \"([a-z])([a-z])\" %t \"$2${1}_\"",
    "regexReplaceAllLiteral \"l+\" %t \"$1\"",
    "regexQuoteMeta %t",
    "printf \"%%s-%%d\" %t %i",
    "printf \"%%5.2f|%%-6s|%%06d\" %f %t %i",
    "printf \"%%v %%v\" %a %a",
    "printf \"%%q %%x\" %t %t",
    "printf \"%%t %%T\" %b %a",
    "printf \"%%d\" %f",
    "printf \"%%s\" %l",
    "printf \"%%+v|%%#v\" %a %a",
    "printf \"%%e %%g %%G\" %f %f %f",
    "printf \"%%08.3f|%%+d|%%x|%%o|%%b|%%c|%%U\" %f %i %i %i %i %i %i",
    "printf \"%%[2]v %%[1]v\" %a %a",
    "printf \"%%v\" ",
    "printf %t",
    "print %a %a %a",
    "println %a",
    "default %t %a",
    "coalesce %a %t",
    "ternary %t %t %b",
    "first (splitList \" \" %t)",
    "(split \"-\" %t)._0",
    "(splitn \" \" 2 %t)._1",
    "index (list %t %t) 1",
    "urlquery %t",
    "html %t",
    "js %t",
    "tpl %t .",
    "tpl .Values.text .",
    "include \"h.echo\" %a",
    "include \"h.name\" $",
    "get %m \"a\" | toString",
    "seq 1 %i",
    "seq 3",
    "seq 0 2 6",
    "toToml %m",
    "date \"2006-01-02\" 1700000000",
    "dateInZone \"Mon Jan _2 15:04:05 MST 2006\" 1700000000 \"UTC\"",
    "htmlDate 0",
    "duration 3661",
    "durationRound \"2h10m5s\"",
    "(toDate \"2006-01-02\" \"2024-05-06\").Format \"Jan 2, 2006\"",
    "toDate \"2006-01-02\" \"2020-01-31\" | date_modify \"36h\" | date \"2006-01-02 15:04\"",
    "unixEpoch (toDate \"2006-01-02\" \"2024-05-06\")",
    "semver \"1.2.3-rc.1+b\" | toString",
    "(semver .Values.version).Original",
    "(urlParse .Values.url).host",
    "urlJoin (urlParse .Values.url)",
    "osBase %t",
    "trimall \"h\" %t",
    "%t | upper | lower | title",
    "%t | replace \" \" \"-\" | trunc 63 | trimSuffix \"-\"",
    "contains \"o\" %t | toString",
    "toYaml %a | indent 2",
    "toYamlPretty %m",
    "regexFindAll \"[aeiou]\" %t -1 | join \"\"",
    "regexSplit \"[ ,]+\" %t -1 | join \"|\"",
    "required \"must\" %t",
    "html %a",
    "(.Files.Glob \"*.txt\").AsConfig",
    "(.Files.Glob \"*.txt\").AsSecrets",
    "regexReplaceAll \"(?i)(?P<first>h)(\\\\w*)\" %t \"${first}-$2\"",
    "toString (list %a %a)",
];
const INT: &[&str] = &[
    "len %t",
    "len %l",
    "len %m",
    "int %a",
    "int64 %a",
    "add %i %i",
    "add %a %i",
    "add1 %i",
    "sub %i %i",
    "mul %i %i %i",
    "div %i %i",
    "mod %i %i",
    "max %i %i",
    "min %i %i 3",
    "floor %f | int",
    "ceil %f | int",
    "round %f 1 | int",
    "atoi %t",
    "toDecimal 777",
    "biggest %i %i",
    "int %t",
    "index .Values.nums 0 | int",
    "len (until %i)",
    "ternary %i %i %b",
    "default 3 %i",
    "(semver .Values.version).Minor | int",
    "int (toString %f)",
];
const FLOAT: &[&str] = &[
    "float64 %a",
    "addf %f %f",
    "subf %f %f",
    "mulf %f %f",
    "divf %f 4",
    "add1f %f",
    "maxf %f %f",
    "minf %f %f",
    "floor %f",
    "ceil %f",
    "round %f 2",
    "float64 %t",
    "round %f 0",
    "divf %f %f",
    "addf 0.1 0.2 %f",
    "round %f 3 0.7",
];
const BOOL: &[&str] = &[
    "eq %t %t",
    "ne %t %t",
    "eq %i %i %i",
    "lt %i %i",
    "le %i %i",
    "gt %f %f",
    "ge %t %t",
    "eq %a %a",
    "and %a %a",
    "or %a %b",
    "not %a",
    "not (and %b %b)",
    "empty %a",
    "contains \"l\" %t",
    "hasPrefix \"h\" %t",
    "hasSuffix \"d\" %t",
    "hasKey %m \"a\"",
    "has \"two\" %l",
    "has 3 %l",
    "regexMatch \"^[a-z]+$\" %t",
    "semverCompare \">=1.20-0\" .Values.version",
    "semverCompare \"^1.2 || ~2.3.1\" \"1.9.4\"",
    "kindIs \"string\" %a",
    "typeIs \"float64\" %a",
    "deepEqual %a %a",
    "isAbs %t",
    "all %a %a",
    "any %a %a",
    "and %b (eq %t \"x\") %a",
    "or %a %a %a",
    "eq (typeOf %a) (typeOf %a)",
    "kindIs \"map\" %a",
    "empty (list)",
    "typeIsLike \"semver.Version\" (semver \"1.0\")",
];
const LIST: &[&str] = &[
    "list %a %a %a",
    "append %l %a",
    "prepend %l %a",
    "concat %l %l",
    "rest %l",
    "initial %l",
    "reverse %l",
    "uniq %l",
    "compact %l",
    "without %l %a",
    "sortAlpha %l",
    "slice %l 1",
    "slice %l 0 2",
    "until 3",
    "untilStep 3 10 3",
    "untilStep 5 0 -2",
    "keys %m | sortAlpha",
    "splitList \"-\" %t",
    "regexFindAll \"[a-z]{2}\" %t 3",
    "regexSplit \" \" %t 2",
    "toStrings %l",
    "pluck \"a\" %m %m",
    "chunk 2 %l",
    "fromJsonArray \"[1, \\\"a\\\", null]\"",
    "fromYamlArray \"- a\\n- {b: 1}\\n\"",
    "mustAppend %l %a",
    "default %l %l",
    "tuple %a %a",
    "mustUniq %l",
    "compact (concat %l %l)",
    "push %l %a",
    "values (dict \"a\" %a)",
];
const MAP: &[&str] = &[
    "dict \"a\" %a \"b\" %a",
    "merge (dict \"a\" %a) %m",
    "mergeOverwrite (deepCopy %m) %m",
    "mustMerge (deepCopy %m) %m",
    "pick %m \"a\" \"b\"",
    "omit %m \"a\"",
    "set (deepCopy %m) \"n\" %a",
    "unset (deepCopy %m) \"a\"",
    "deepCopy %m",
    "fromYaml (toYaml %m)",
    "fromJson (toJson %m)",
    "fromYaml %t",
    "fromJson %t",
    "urlParse %t",
    "index (list %m %m) 0",
    "split \",\" %t",
    "dict %t %a",
    "fromToml (toToml (dict \"a\" 1 \"b\" (dict \"c\" %t)))",
    "default %m %m",
    "merge (dict) %m %m",
    "omit %m \"c\" \"10\"",
    "lookup \"v1\" \"Pod\" \"\" \"\"",
    "coalesce %m %m",
    "fromYaml \"{a: [1, 0x1f, 0o7, 1e3, yes, ~, 2001-01-01]}\"",
];
const ANY: &[&str] = &[
    "first %l",
    "last %l",
    "index %l 0",
    "index %m \"a\"",
    "get %m \"b\"",
    "coalesce %a %a %a",
    "default %a %a",
    "ternary %a %a %b",
    "dig \"c\" \"d\" \"none\" .Values.map",
    "dig \"x\" \"y\" %a (deepCopy %m)",
    "and %a %a",
    "or %a %a",
    "%l",
    "%m",
    "%t",
    "%f",
    "index .Values.items 1 \"name\"",
    "(index .Values.items 0).port",
    "(dict \"x\" %a).x",
    "$.Values.map.c.d",
    ".Values.map.c.e",
    "mustFromJson \"{\\\"a\\\": 1}\"",
    "fromJson \"[1]\"",
    "semver %t",
    "required \"r\" %a",
    "(first %l).name",
    "index %l 1 | default \"d\"",
    "mustToJson %a",
    "get (get .Values.map \"c\") \"d\"",
    ".Chart.Annotations.x",
    ".Chart.Maintainers",
    "slice %l",
    "index \"abc\" 1",
    "toDate \"2006-01-02\" \"bad\"",
];
