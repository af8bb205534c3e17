//! The fuzz targets' bodies on mutations of real templates, values and archives, the same ones in every run.

#[path = "../fuzz/bodies.rs"]
mod bodies;

use std::path::Path;

/// Mutants of every kind of input.
const MUTANTS: usize = 1500;

/// A small generator of numbers: a failure is found again with the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }

    /// A seed with a few bytes changed, cut out, repeated, or replaced by those of another.
    fn mutant(&mut self, seeds: &[Vec<u8>], tokens: &[&str]) -> Vec<u8> {
        let mut data = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(data.len() + 1);
            let length = self.below(24).min(data.len() - at);
            match self.below(6) {
                0 if at < data.len() => data[at] ^= 1 << self.below(8),
                1 => drop(data.drain(at..at + length)),
                2 => {
                    let part = data[at..at + length].repeat(1 + self.below(40));
                    data.splice(at..at, part);
                }
                3 => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    let part = other[from..(from + self.below(200)).min(other.len())].to_vec();
                    data.splice(at..at + length, part);
                }
                _ => {
                    let token = tokens[self.below(tokens.len())].bytes();
                    data.splice(at..at, token);
                }
            }
        }
        data
    }
}

/// Files of our own charts whose names end so.
fn seeds(endings: &[&str]) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, endings: &[&str], found: &mut Vec<Vec<u8>>) {
        let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                walk(&path, endings, found);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts"), endings, &mut found);
    assert!(!found.is_empty());
    found
}

#[test]
fn templates() {
    let tokens = [
        "{{",
        "}}",
        "{{-",
        "-}}",
        "(",
        ")",
        "|",
        "$",
        ".",
        ":=",
        "\"",
        "`",
        "'",
        "\\",
        "end",
        "else",
        "if",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "include \"h\" .",
        "tpl .Values.s .",
        "toYaml",
        "fromYaml",
        "index",
        "1e9",
        "-1",
        "0x",
        "nil",
        "printf \"%*d%[9]v\"",
        "until 9",
        "merge",
        "regexMatch",
        "semver",
        "dict",
    ];
    let mut dice = Dice(0x5eed_0001);
    let seeds = seeds(&[".yaml", ".tpl", ".txt"]);
    for _ in 0..MUTANTS {
        bodies::template(&String::from_utf8_lossy(&dice.mutant(&seeds, &tokens)));
    }
}

#[test]
fn values() {
    let tokens = [
        ":",
        "- ",
        "? ",
        "&a ",
        "*a",
        "<<: *a",
        "!!binary ",
        "!!int ",
        "|",
        ">",
        "{",
        "}",
        "[",
        "]",
        ",",
        "'",
        "\"",
        "\\",
        "#",
        "%YAML 1.1",
        "---\n",
        "...",
        "\t",
        "~",
        "null",
        "1e400",
        ".inf",
        "0x",
        "global",
        "s",
        "on",
        "=",
        "a[0]",
        "a.b",
        "tags",
    ];
    let mut dice = Dice(0x5eed_0002);
    let mut texts = seeds(&["values.yaml"]);
    texts.push(b"a: &x {k: v}\nb: *x\nc:\n  <<: *x\n  z: [1, 'two', \"th\\tree\", |\n".to_vec());
    texts.push(b"s: {on: true, a: {q: null}}\nglobal: {g: {h: 1}}\na: |\n  text\n".to_vec());
    let settings: Vec<Vec<u8>> =
        [&b"a.b=c,d[0].e=f,g={h,i}"[..], b"s.on=false,s=null", b"a={\"b\": [1, null]}", b"global.x\\.y=1"]
            .map(<[u8]>::to_vec)
            .to_vec();
    for _ in 0..MUTANTS {
        let text = |data: Vec<u8>| String::from_utf8_lossy(&data).into_owned();
        let (given, own) = (text(dice.mutant(&texts, &tokens)), text(dice.mutant(&texts, &tokens)));
        bodies::values(&given, &text(dice.mutant(&settings, &tokens)), &own);
    }
}

#[test]
fn archives() {
    let mut dice = Dice(0x5eed_0003);
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [
        ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("c/values.yaml", "a: 1\n"),
        ("c/templates/a.yaml", "a: {{ .Values.a }}\n"),
        ("c/charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n"),
        ("c/files/x.txt", "x"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let plain = builder.into_inner().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &plain).unwrap();
    let seeds = [plain, gzip.finish().unwrap()];
    let tokens = ["../", "/", "\0", "\u{1f}", "c/", "0000777", "ustar", "L", "K", "x", "2"];
    for _ in 0..MUTANTS {
        let mut data = dice.mutant(&seeds, &tokens);
        // Without a right checksum nothing in a header is looked at.
        if dice.below(2) == 0 && data.len() >= 512 {
            let sum: u32 = data[..512]
                .iter()
                .enumerate()
                .map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) })
                .sum();
            data[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        bodies::archive(&data);
    }
}
