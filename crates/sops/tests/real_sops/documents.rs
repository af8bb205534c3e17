//! Random documents as people write them.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

pub struct Documents<'a> {
    pub rng: &'a mut StdRng,
}

const KEYS: [&str; 14] = [
    "a",
    "b",
    "key",
    "data",
    "token",
    "x_unencrypted",
    "user.name",
    "ä",
    "\"quoted key\"",
    "k8s/io",
    "'it''s'",
    "c-d",
    "e_f",
    "no",
];

const SCALARS: [&str; 34] = [
    "text",
    "1",
    "-7",
    "0x1F",
    "0o17",
    "017",
    "1.50",
    "1e3",
    "0.1",
    ".5",
    "true",
    "false",
    "yes",
    "off",
    "~",
    "null",
    "2026-11-17",
    "2026-11-17T12:00:00Z",
    "2026-11-17 12:00:00.25",
    "\"\"",
    "''",
    "\"a # b\"",
    "'single ''quoted'''",
    "\"esc \\t \\\" \\u00e4\"",
    "plain with spaces",
    "http://example.org:80/x?y=z",
    "a,b",
    "über",
    "😀",
    "10.0.0.1/16",
    "1_000",
    "\"2026-11-17\"",
    "!!str 12",
    "-",
];

const COMMENTS: [&str; 6] = [" a comment", " keep this plain", " this is secret", "", " ünï: {x}", "# twice"];

impl Documents<'_> {
    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from.choose(self.rng).copied().unwrap_or_default()
    }

    fn chance(&mut self, of: u32) -> bool {
        self.rng.gen_range(0..of) == 0
    }

    /// A mapping in YAML.
    pub fn yaml(&mut self) -> String {
        let mut out = String::new();
        let unit = if self.chance(2) { 2 } else { 4 };
        self.mapping(0, unit, 0, &mut out);
        out
    }

    fn comment(&mut self, indent: usize, out: &mut String) {
        if self.chance(5) {
            for _ in 0..self.rng.gen_range(1..3) {
                let text = self.pick(&COMMENTS);
                out.push_str(&format!("{}#{text}\n", " ".repeat(indent)));
            }
            if self.chance(4) {
                out.push('\n');
            }
        } else if self.chance(12) {
            out.push('\n');
        }
    }

    fn line_end(&mut self, out: &mut String) {
        if self.chance(8) {
            let text = self.pick(&COMMENTS);
            out.push_str(&format!(" #{text}"));
        }
        out.push('\n');
    }

    fn keys(&mut self) -> Vec<&'static str> {
        let mut keys = KEYS.to_vec();
        keys.shuffle(self.rng);
        keys.truncate(self.rng.gen_range(1..6));
        keys
    }

    fn mapping(&mut self, indent: usize, unit: usize, depth: usize, out: &mut String) {
        for key in self.keys() {
            self.comment(indent, out);
            out.push_str(&format!("{}{key}:", " ".repeat(indent)));
            self.value(indent, unit, depth, out);
        }
    }

    fn value(&mut self, indent: usize, unit: usize, depth: usize, out: &mut String) {
        match self.rng.gen_range(0..12) {
            0 | 1 if depth < 3 => {
                out.push('\n');
                self.mapping(indent + unit, unit, depth + 1, out);
            }
            2 if depth < 3 => {
                out.push('\n');
                self.list(indent + unit, unit, depth + 1, out);
            }
            3 => {
                let flow = self.flow(0);
                out.push_str(&format!(" {flow}"));
                self.line_end(out);
            }
            4 => {
                let style = self.pick(&["|", "|-", ">", ">-"]);
                out.push_str(&format!(" {style}\n"));
                for _ in 0..self.rng.gen_range(1..4) {
                    let text = self.pick(&["line", "  more: x # y", "ünï", "- z", "\"q\""]);
                    out.push_str(&format!("{}first {text}\n", " ".repeat(indent + unit)));
                }
            }
            5 => {
                let empty = self.pick(&["{}", "[]"]);
                out.push_str(&format!(" {empty}\n"));
            }
            _ => {
                let scalar = self.pick(&SCALARS[..SCALARS.len() - 1]);
                out.push_str(&format!(" {scalar}"));
                self.line_end(out);
            }
        }
    }

    fn list(&mut self, indent: usize, unit: usize, depth: usize, out: &mut String) {
        for _ in 0..self.rng.gen_range(1..4) {
            self.comment(indent, out);
            out.push_str(&format!("{}-", " ".repeat(indent)));
            if self.chance(4) && depth < 3 {
                let mut inner = String::new();
                for key in self.keys() {
                    inner.push_str(&format!("{}{key}:", " ".repeat(indent + 2)));
                    self.value(indent + 2, unit, depth + 1, &mut inner);
                }
                out.push_str(&format!(" {}", inner.trim_start()));
            } else {
                let scalar = self.pick(&SCALARS[..SCALARS.len() - 1]);
                out.push_str(&format!(" {scalar}"));
                self.line_end(out);
            }
        }
    }

    fn flow(&mut self, depth: usize) -> String {
        let inner: Vec<String> = (0..self.rng.gen_range(1..4))
            .map(|number| {
                let value = match self.chance(3) && depth < 2 {
                    true => self.flow(depth + 1),
                    false => self.pick(&["1", "x", "\"a, b\"", "'c'", "true", "~", "1.5"]).to_owned(),
                };
                format!("k{number}: {value}")
            })
            .collect();
        match self.chance(2) {
            true => format!("{{{}}}", inner.join(", ")),
            false => {
                let values: Vec<&str> =
                    inner.iter().map(|pair| pair.split_once(": ").map_or("", |(_, value)| value)).collect();
                format!("[{}]", values.join(", "))
            }
        }
    }

    /// An object in JSON.
    pub fn json(&mut self) -> String {
        let text = self.json_value(0, true);
        if self.chance(2) { text + "\n" } else { text }
    }

    fn json_value(&mut self, depth: usize, object: bool) -> String {
        let inner = |this: &mut Self| -> Vec<String> {
            (0..this.rng.gen_range(0..5)).map(|_| this.json_value(depth + 1, false)).collect()
        };
        let lead = if self.chance(2) { format!("\n{}", "  ".repeat(depth + 1)) } else { String::new() };
        if object || depth < 4 && self.chance(5) {
            let keys = ["a", "b", "c", "key_unencrypted", "\\u00e4\\\"x"];
            let pairs: Vec<String> = inner(self)
                .iter()
                .zip(keys)
                .map(|(value, key)| format!("{lead}\"{key}\": {value}"))
                .collect();
            return format!("{{{}}}", pairs.join(","));
        }
        if depth < 4 && self.chance(6) {
            return format!("[{}]", inner(self).join(", "));
        }
        self.pick(&[
            "1",
            "-2.5",
            "1e3",
            "0",
            "123456789012",
            "true",
            "false",
            "null",
            "\"\"",
            "\"x\"",
            "\"\\ud83d\\ude00\\n\"",
            "\"<&>\"",
            "0.1",
        ])
        .to_owned()
    }

    /// Lines of `KEY=VALUE`.
    pub fn dotenv(&mut self) -> String {
        let mut out = String::new();
        for number in 0..self.rng.gen_range(1..8) {
            if self.chance(4) {
                let text = self.pick(&COMMENTS);
                out.push_str(&format!("#{text}\n"));
            }
            if self.chance(8) {
                out.push('\n');
            }
            let value =
                self.pick(&["x", "", "with spaces", "a=b", "\"quoted\"", "one\\ntwo", "ünï", "$X # y"]);
            let suffix = self.pick(&["", "_unencrypted", "b", "a"]);
            out.push_str(&format!("KEY_{number}{suffix}={value}\n"));
        }
        out
    }
}

/// The texts of all comments of a YAML text, however they are placed, without the empty ones.
pub fn comments(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|deep| indent > deep || line.trim().is_empty()) {
            continue;
        }
        block = None;
        let mut quote = None;
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            match (quote, c) {
                (Some(open), c) if c == open && before != '\\' => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') if matches!(before, ' ' | '[' | '{' | ',') => quote = Some(c),
                (None, '#') if before.is_whitespace() => {
                    found.push(line[at + 1..].trim_end().to_owned());
                    break;
                }
                _ => {}
            }
            before = c;
        }
        let content = line.split(" #").next().unwrap_or_default().trim_end();
        if ["|", "|-", ">", ">-", "|+"].iter().any(|style| content.ends_with(&format!(" {style}"))) {
            block = Some(indent);
        }
    }
    found.retain(|comment| !comment.is_empty());
    found
}
