//! Writes template snippets: every construct of the language and every function Helm offers, in odd combinations.

mod calls;
mod formats;
mod subjects;

pub use subjects::{HELPERS, VALUES};

use crate::sets::Dice;

/// The snippet of a seed.
pub fn snippet(seed: u64) -> String {
    let mut g = Generator { dice: Dice::new(seed), seed, variables: Vec::new(), next: 0, in_range: 0 };
    let mut out = String::new();
    for _ in 0..=g.dice.roll(3) {
        out.push_str(&g.statement(3));
    }
    out
}

/// What an expression is meant to give.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Int,
    Float,
    Bool,
    List,
    Map,
    Any,
    /// A `time.Time`.
    Time,
    /// A `*semver.Version`.
    Version,
}

struct Generator {
    dice: Dice,
    seed: u64,
    variables: Vec<(String, Kind)>,
    next: usize,
    in_range: usize,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.dice.roll(from.len())]
    }

    fn action(&mut self, body: &str) -> String {
        let open = if self.dice.chance(15) { "{{- " } else { "{{ " };
        let close = if self.dice.chance(15) { " -}}" } else { " }}" };
        format!("{open}{body}{close}")
    }

    fn variable(&mut self, kind: Kind) -> String {
        self.next += 1;
        let name = format!("$v{}", self.next);
        self.variables.push((name.clone(), kind));
        name
    }

    fn statement(&mut self, depth: usize) -> String {
        let text = self
            .pick(&["", " ", "\n", "x", "a: ", "- ", "\n  ", "<no value>", "é", "\t", "}", "{ }", "\r\n"])
            .to_owned();
        let body = match self.dice.roll(if depth == 0 { 6 } else { 18 }) {
            0..=3 => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                self.action(&e)
            }
            4 => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                let name = self.variable(kind);
                format!("{}{}", self.action(&format!("{name} := {e}")), self.action(&name))
            }
            5 => self
                .pick(&[
                    "{{/* a comment */}}",
                    "{{- /* c */ -}}",
                    "plain",
                    "{{ \"{{\" }}",
                    "\t{{- 3 }}",
                    "{{ `}}` }}",
                    "{{- /* two\nlines */}}",
                    "{{ 1 }}{{- 2 -}} {{ 3 }}",
                ])
                .to_owned(),
            6 => self.conditional("if", depth),
            7 => self.conditional("with", depth),
            8 | 9 => self.range(depth),
            10 | 11 => self.call_template(depth),
            12 => self.inline(depth),
            13 => self.define(depth),
            14 if !self.variables.is_empty() => {
                let index = self.dice.roll(self.variables.len());
                let (name, kind) = self.variables[index].clone();
                let e = self.pipeline(kind, depth);
                format!("{}{}", self.action(&format!("{name} = {e}")), self.action(&name))
            }
            15 => {
                let call = self.printf(depth - 1);
                self.action(&call)
            }
            16 if self.dice.chance(40) => {
                let call = self.odd();
                self.action(&call)
            }
            _ => {
                let kind = self.kind();
                let e = self.pipeline(kind, depth);
                let shown = match self.pick(calls::SHOW) {
                    // Go tells its local zone from UTC there; here there is no locality.
                    "printf \"%#v\"" if e.contains("oDate") => "typeOf",
                    shown => shown,
                };
                self.action(&format!("{e} | {shown}"))
            }
        };
        text + &body
    }

    fn conditional(&mut self, word: &str, depth: usize) -> String {
        let kind = self.kind();
        let mut head = self.pipeline(kind, depth - 1);
        let mark = self.variables.len();
        if self.dice.chance(20) {
            let name = self.variable(kind);
            head = format!("{name} := {head}");
        }
        let mut out = self.action(&format!("{word} {head}"));
        if word == "with" {
            out.push_str(self.pick(&[
                "{{ . | toJson }}",
                "{{ . }}",
                "{{ $.Release.Name }}",
                "{{ typeOf . }}",
            ]));
        } else {
            out.push_str(&self.statement(depth - 1));
        }
        out.push_str(&self.jump());
        if self.dice.chance(50) {
            if self.dice.chance(40) {
                let other = self.pipeline(Kind::Bool, depth - 1);
                out.push_str(&self.action(&format!("else {word} {other}")));
                out.push('E');
            }
            out.push_str(&self.action("else"));
            out.push_str(if word == "with" { "none{{ .Chart.Name }}" } else { "no" });
        }
        self.variables.truncate(mark);
        out + &self.action("end")
    }

    /// Leaves a loop, when there is one.
    fn jump(&mut self) -> String {
        if self.in_range == 0 || !self.dice.chance(25) {
            return String::new();
        }
        let word = self.pick(&["break", "continue"]);
        self.action(word)
    }

    fn range(&mut self, depth: usize) -> String {
        let kinds = [Kind::List, Kind::List, Kind::List, Kind::Map, Kind::Map, Kind::Int, Kind::List];
        let kind = kinds[self.dice.roll(kinds.len())];
        // Counts stay small: both sides would count for ever.
        let over = match kind {
            Kind::Int => {
                self.pick(&["3", "0", "-1", "(len .Values.list)", "(int64 2)", "(add 1 1)"]).to_owned()
            }
            _ => self.expression(kind, depth - 1),
        };
        let mark = self.variables.len();
        let form = self.dice.roll(5);
        let mut before = String::new();
        let head = match form {
            1 => format!("range {} := {over}", self.variable(Kind::Any)),
            2 if kind != Kind::Int || self.dice.chance(10) => {
                let (a, b) = (self.variable(Kind::Any), self.variable(Kind::Any));
                format!("range {a}, {b} := {over}")
            }
            3 => {
                let name = self.variable(Kind::Any);
                before = self.action(&format!("{name} := 0"));
                format!("range {name} = {over}")
            }
            _ => format!("range {over}"),
        };
        let mut out = before + &self.action(&head);
        for (name, _) in &self.variables[mark..] {
            out.push_str(&format!("{{{{ {name} | toJson }}}}="));
        }
        out.push_str(self.pick(&["{{ . }},", "{{ . | toJson }};", "", "{{ typeOf . }} "]));
        self.in_range += 1;
        if self.dice.chance(25) {
            let word = self.pick(&["break", "continue"]);
            let when = self.pick(&["eq (toString .) \"two\"", "not .", "kindIs \"string\" .", "eq . 3"]);
            out.push_str(&format!("{{{{ if {when} }}}}{{{{ {word} }}}}{{{{ end }}}}."));
        }
        if self.dice.chance(20) {
            out.push_str(
                &self.statement(0).replace(" .Values", " $.Values").replace("(.Values", "($.Values"),
            );
        }
        self.in_range -= 1;
        if self.dice.chance(30) {
            out.push_str(&self.action("else"));
            out.push_str("empty{{ .Release.Name }}");
        }
        self.variables.truncate(if form == 3 { mark + 1 } else { mark });
        out + &self.action("end")
    }

    fn call_template(&mut self, depth: usize) -> String {
        let name = self.pick(&["h.name", "h.echo", "h.list", "h.yaml", "h.args", "h.deep"]);
        let data = match name {
            "h.name" => "$".to_owned(),
            "h.args" => {
                let value = self.expression(Kind::Any, depth - 1);
                format!("(dict \"root\" $ \"value\" {value})")
            }
            "h.deep" => self.pick(&["3", "0", "1"]).to_owned(),
            _ => self.expression(Kind::Any, depth - 1),
        };
        if self.dice.chance(40) {
            return self.action(&format!("template \"{name}\" {data}"));
        }
        let then = self.pick(&[
            "",
            " | nindent 2",
            " | upper",
            " | fromYaml | toJson",
            " | trim | quote",
            " | len",
            " | indent 3 | trim",
            " | fromYamlArray",
        ]);
        self.action(&format!("include \"{name}\" {data}{then}"))
    }

    /// A statement inside `tpl`.
    fn inline(&mut self, depth: usize) -> String {
        let outer = std::mem::take(&mut self.variables);
        let looped = std::mem::take(&mut self.in_range);
        let inner = self.statement(depth - 1);
        self.in_range = looped;
        self.variables = outer;
        if inner.contains('`') {
            return inner;
        }
        let data = self.pick(&[".", "$", "(dict \"Values\" $.Values \"Template\" $.Template)"]);
        self.action(&format!("tpl `{inner}` {data}"))
    }

    /// A template of its own, or a block. Names carry the seed, because snippets share a chart.
    fn define(&mut self, depth: usize) -> String {
        let outer = std::mem::take(&mut self.variables);
        let looped = std::mem::take(&mut self.in_range);
        let inner = self.statement(depth - 1);
        self.in_range = looped;
        self.variables = outer;
        self.next += 1;
        let name = format!("d{}.{}", self.seed, self.next);
        // Definitions belong at the top of a file, so the snippet carries them in a text for `tpl`.
        if inner.contains('`') {
            return inner;
        }
        let text = if self.dice.chance(50) {
            format!("{}{inner}{}", self.action(&format!("block \"{name}\" .")), self.action("end"))
        } else {
            let call = self.pick(&["template \"@\" $", "include \"@\" . | upper", "template \"@\""]);
            format!(
                "{}{inner}{}{}",
                self.action(&format!("define \"{name}\"")),
                self.action("end"),
                self.action(&call.replace('@', &name))
            )
        };
        self.action(&format!("tpl `{text}` ."))
    }

    /// Something from the edges of the language.
    fn odd(&mut self) -> String {
        self.pick(calls::ODD).to_owned()
    }

    fn kind(&mut self) -> Kind {
        let kinds = [
            Kind::Text,
            Kind::Text,
            Kind::Int,
            Kind::Float,
            Kind::Bool,
            Kind::List,
            Kind::Map,
            Kind::Any,
            Kind::Time,
            Kind::Version,
        ];
        kinds[self.dice.roll(kinds.len())]
    }

    /// An expression, now and then of another kind, so that both sides get to complain.
    fn pipeline(&mut self, kind: Kind, depth: usize) -> String {
        let kind = if self.dice.chance(3) { self.kind() } else { kind };
        self.call(kind, depth)
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
        self.pick(subjects::atoms(kind)).to_owned()
    }

    fn call(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.dice.chance(25) {
            return self.atom(kind);
        }
        if kind == Kind::Text && self.dice.chance(12) {
            return self.printf(depth - 1);
        }
        let form = self.pick(calls::forms(kind));
        let mut out = String::new();
        let mut chars = form.chars();
        while let Some(c) = chars.next() {
            if c != '@' {
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
                Some('d') => Kind::Time,
                Some('v') => Kind::Version,
                Some('n') => [Kind::Int, Kind::Float, Kind::Text][self.dice.roll(3)],
                Some('r') => {
                    out.push_str(self.pick(calls::PATTERNS));
                    continue;
                }
                Some('k') => {
                    out.push_str(self.pick(&["\"a\"", "\"b\"", "\"c\"", "\"zz\"", "\"10\"", "\"\""]));
                    continue;
                }
                Some('x') => {
                    out.push_str(self.pick(&["0", "1", "2", "3", "5", "8", "-1", "-3", "20", "100"]));
                    continue;
                }
                // Never a time: Go prints its insides for verbs that make no sense, addresses among them.
                _ => match self.kind() {
                    Kind::Time => Kind::Text,
                    kind => kind,
                },
            };
            out.push_str(&self.expression(wanted, depth - 1));
        }
        out
    }
}
