//! The real sops beside ours: each opens what the other closed, and edits it. Part of the second tier: `cargo xtask conformance
//! sops` finds it and says where in `DAEDAL_SOPS`; without it a line says what was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod documents;
mod peer;

use daedal_sops::{Config, Encrypted, Format, Opened, Path, Rule, Step, encrypt};
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Map, Value as Json, json};

use crate::documents::{Documents, comments};
use crate::peer::Peer;

/// Counts what was compared, and prints a line of the table.
struct Count {
    name: &'static str,
    cases: usize,
    differences: usize,
}

impl Count {
    fn of(name: &'static str) -> Self {
        Self { name, cases: 0, differences: 0 }
    }

    fn same(&mut self, same: bool, what: impl FnOnce() -> String) {
        self.cases += 1;
        if !same {
            self.differences += 1;
            println!("DIFFERS: {}: {}", self.name, what());
        }
    }

    fn finish(self) {
        println!("conformance\t{}\t{}\t{}", self.name, self.cases, self.differences);
        assert!(self.cases > 0 && self.differences == 0, "{}: {} differences", self.name, self.differences);
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_795_000_000).unwrap()
}

/// The settings that documents are encrypted by, as they stand in a rule of `.sops.yaml`.
fn settings() -> Vec<String> {
    let selections = [
        "",
        "unencrypted_suffix: b",
        "encrypted_suffix: a",
        "unencrypted_regex: ^(k|ä)",
        "encrypted_regex: '[abc]$'",
        "unencrypted_comment_regex: plain",
        "encrypted_comment_regex: secret",
    ];
    let both = |selection: &&str| {
        ["false", "true"].map(|only| format!("    mac_only_encrypted: {only}\n    {selection}\n"))
    };
    selections.iter().flat_map(both).collect()
}

fn rule_of(config: &str, file: &str) -> Rule {
    Config::parse(config).unwrap().unwrap().rule_for(file).unwrap()
}

/// The values of a file as JSON; empty mappings and lists are not in it.
fn meaning(opened: &Opened) -> Json {
    let mut root = json!({});
    for key in opened.keys() {
        let path: Path = key.parse().unwrap();
        let value = opened.get(&path).unwrap();
        let mut at = &mut root;
        for step in &path.0 {
            at = match step {
                Step::Key(key) => {
                    if !at.is_object() {
                        *at = json!({});
                    }
                    at.as_object_mut().unwrap().entry(key.clone()).or_insert(Json::Null)
                }
                Step::Index(index) => {
                    if !at.is_array() {
                        *at = json!([]);
                    }
                    let list = at.as_array_mut().unwrap();
                    list.resize(list.len().max(index + 1), Json::Null);
                    &mut list[*index]
                }
            };
        }
        let text = value.as_written();
        let text = text.expose_text().unwrap();
        *at = match value.kind {
            daedal_sops::Kind::Null => Json::Null,
            daedal_sops::Kind::Bool | daedal_sops::Kind::Int | daedal_sops::Kind::Float => {
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            }
            _ => json!(text),
        };
    }
    root
}

/// The same without empty mappings and lists, and with all numbers as floats.
fn pruned(value: Json) -> Json {
    let is_empty = |value: &Json| match value {
        Json::Object(map) => map.is_empty(),
        Json::Array(list) => list.is_empty(),
        _ => false,
    };
    match value {
        Json::Object(map) => {
            let pairs = map.into_iter().map(|(key, value)| (key, pruned(value)));
            Json::Object(pairs.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        Json::Array(list) => {
            let nothing = |value: Json| if is_empty(&value) { Json::Null } else { value };
            let mut list: Vec<Json> = list.into_iter().map(pruned).map(nothing).collect();
            // An empty element at the end leaves no trace in our list of values.
            while list.last().is_some_and(Json::is_null) {
                list.pop();
            }
            Json::Array(list)
        }
        Json::Number(number) => json!(number.as_f64()),
        other => other,
    }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn yaml_both_ways() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(11);
    let [mut ours, mut theirs, mut said, mut edits] = [
        "YAML that we close and sops opens",
        "YAML that sops closes and we open",
        "comments of YAML, both ways",
        "YAML of sops that we edit",
    ]
    .map(Count::of);
    let all = settings();
    let mut unopened = 0;
    for number in 0..peer.cases(280) {
        let plain = Documents { rng }.yaml();
        let options = &all[number % all.len()];
        let rule = &rule_of(&peer.config(options), "plain.yaml");
        let closed = peer
            .encrypt("yaml", plain.as_bytes(), options)
            .unwrap_or_else(|error| panic!("{error}: {plain}"));
        // Comments that move can make sops refuse a file of its own, where a rule is about comments.
        let Ok(wanted) = peer.decrypt_json("yaml", &closed) else {
            unopened += 1;
            assert!(options.contains("comment"), "sops does not open its own file: {plain}");
            continue;
        };
        let shown = peer.decrypt("yaml", &closed).unwrap();
        let mine = encrypt(Format::Yaml, plain.as_bytes(), rule, now(), rng)
            .unwrap_or_else(|error| panic!("{error}: {plain}"));
        let opened = peer.decrypt_json("yaml", &mine);
        ours.same(opened.as_ref() == Ok(&wanted), || {
            format!("{options:?}\n{plain}\n{mine}\n{opened:?}\ninstead of {wanted}")
        });
        let opened = Encrypted::parse(Format::Yaml, &closed).and_then(|file| file.open(&peer.identities));
        match &opened {
            Ok(opened) => {
                theirs.same(pruned(meaning(opened)) == pruned(wanted.clone()), || {
                    format!("{plain}\n{closed}\n{}\ninstead of {wanted}", meaning(opened))
                });
                let mine = peer.decrypt("yaml", &mine).unwrap_or_default();
                let back = opened.plain().expose_text().unwrap();
                let [wanted, mine, back] = [&shown, &mine, back].map(|text| sorted(comments(text)));
                said.same(wanted == mine, || {
                    format!("{options:?}\n{plain}\nsops shows of ours {mine:?}\ninstead of {wanted:?}")
                });
                said.same(wanted == back, || {
                    format!("{plain}\nwe show of theirs {back:?}\ninstead of {wanted:?}")
                });
                let edited = opened
                    .set(&"added".parse().unwrap(), "by us", now(), rng)
                    .unwrap_or_else(|error| panic!("{error}: {closed}"));
                let again = peer.decrypt_json("yaml", &edited);
                let mut wanted = peer.decrypt_json("yaml", &closed).unwrap();
                wanted["added"] = json!("by us");
                let kept = closed
                    .lines()
                    .filter(|line| line.contains("ENC[") && !line.contains(" mac: "))
                    .all(|line| {
                        let start = line.find("ENC[").unwrap();
                        edited.contains(&line[start..])
                    });
                edits
                    .same(again.as_ref() == Ok(&wanted) && kept, || format!("{closed}\n{edited}\n{again:?}"));
            }
            Err(error) => theirs.same(false, || format!("{error}: {options:?}\n{plain}\n{closed}")),
        }
    }
    println!("{unopened} files of its own were refused by sops");
    assert!(unopened * 20 < peer.cases(280), "sops opened too few of its own files");
    [ours, theirs, said, edits].into_iter().for_each(Count::finish);
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn json_and_dotenv_both_ways() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(12);
    let [mut ours, mut theirs] =
        ["JSON and dotenv that we close and sops opens", "JSON and dotenv that sops closes and we open"]
            .map(Count::of);
    let all = settings();
    for number in 0..peer.cases(140) {
        let (kind, format, plain) = match number % 2 {
            0 => ("json", Format::Json, Documents { rng }.json()),
            _ => ("env", Format::Dotenv, Documents { rng }.dotenv()),
        };
        let options = &all[number / 2 % all.len()];
        let rule = &rule_of(&peer.config(options), "plain");
        if format == Format::Json && options.contains("comment") {
            continue;
        }
        let closed =
            peer.encrypt(kind, plain.as_bytes(), options).unwrap_or_else(|error| panic!("{error}: {plain}"));
        let wanted = peer.decrypt_json(kind, &closed).unwrap();
        let mine = encrypt(format, plain.as_bytes(), rule, now(), rng)
            .unwrap_or_else(|error| panic!("{error}: {plain}"));
        let opened = peer.decrypt_json(kind, &mine);
        ours.same(opened.as_ref() == Ok(&wanted), || format!("{options:?}\n{plain}\n{mine}\n{opened:?}"));
        match Encrypted::parse(format, &closed).and_then(|file| file.open(&peer.identities)) {
            Ok(opened) => theirs.same(pruned(meaning(&opened)) == pruned(wanted.clone()), || {
                format!("{plain}\n{closed}\n{}", meaning(&opened))
            }),
            Err(error) => theirs.same(false, || format!("{error}: {plain}\n{closed}")),
        }
    }
    [ours, theirs].into_iter().for_each(Count::finish);
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn binary_files_both_ways() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(13);
    let mut count = Count::of("files of any bytes, both ways");
    for plain in [&b"text\n"[..], b"\xff\xfe\x00bytes", b"{\"a\": 1}", b"ENC[x]\r\n"] {
        let mine =
            encrypt(Format::Binary, plain, &Rule::for_recipients([&peer.recipient]), now(), rng).unwrap();
        let opened = peer.decrypt_bytes("bin", &mine);
        count.same(opened.as_deref() == Ok(plain), || format!("{mine}\n{opened:?}"));
        let closed = peer.encrypt("bin", plain, "").unwrap();
        let opened = Encrypted::parse(Format::Binary, &closed).unwrap().open(&peer.identities);
        count.same(opened.as_ref().is_ok_and(|opened| opened.plain().expose() == plain), || {
            format!("{closed}\n{opened:?}")
        });
    }
    count.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn several_documents_and_aliases_both_ways() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(14);
    let mut count = Count::of("several documents, aliases and layouts of YAML, both ways");
    for plain in [
        "a: b\n---\nc: d\n# end\n",
        "--- # start\na: b\n---\nc: {d: e}\n",
        "x: &x {a: 1, b: [two]}\ny: *x\nw: &s text\nv: [*s]\n",
        "{a: b, c: [d, {e: f}]}\n",
        "a: |\n  no end",
        "b_unencrypted: |\n  no end",
        "a: !!str 12\nb: !!binary aGk=\nd: !!float 3\n",
        "? a\n: b\n",
        "a: 'it''s' # c\nb: \"x\\\"y\" # d\n",
        "k:\n- a\n- - b\n- c: d\n  e: f\n",
    ] {
        let closed = peer.encrypt("yaml", plain.as_bytes(), "").unwrap();
        let wanted = peer.decrypt("yaml", &closed).unwrap();
        let mine =
            encrypt(Format::Yaml, plain.as_bytes(), &Rule::for_recipients([&peer.recipient]), now(), rng)
                .unwrap();
        // Both plain files say the same to sops if it makes the same of both.
        let opened = peer.decrypt("yaml", &mine).map(|text| bare(&text));
        count.same(opened.as_ref() == Ok(&bare(&wanted)), || {
            format!("{plain}\n{mine}\n{opened:?}\ninstead of {wanted}")
        });
        match Encrypted::parse(Format::Yaml, &closed).and_then(|file| file.open(&peer.identities)) {
            Ok(opened) => {
                let plain = opened.plain().expose_text().unwrap();
                let again = peer
                    .encrypt("yaml", plain.as_bytes(), "")
                    .and_then(|closed| peer.decrypt("yaml", &closed))
                    .map(|text| bare(&text));
                count.same(again.as_ref() == Ok(&bare(&wanted)), || format!("{closed}\n{plain}\n{again:?}"));
            }
            Err(error) => count.same(false, || format!("{error}: {plain}\n{closed}")),
        }
    }
    count.finish();
}

/// The lines of a text without comments and empty lines.
fn bare(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_sops_edits_of_ours_opens_and_keeps_its_texts() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(15);
    let mut count = Count::of("YAML and JSON of ours that sops edits");
    for (kind, format, plain) in [
        ("yaml", Format::Yaml, "a: one\nb:\n    c: [x, y]\n    d: 4\n"),
        (
            "json",
            Format::Json,
            "{\n\t\"a\": \"one\",\n\t\"b\": {\n\t\t\"c\": [\n\t\t\t\"x\"\n\t\t]\n\t}\n}\n",
        ),
    ] {
        let mine =
            encrypt(format, plain.as_bytes(), &Rule::for_recipients([&peer.recipient]), now(), rng).unwrap();
        let edited = peer.set(kind, &mine, "[\"a\"]", "\"two\"").unwrap();
        let opened = Encrypted::parse(format, &edited).unwrap().open(&peer.identities).unwrap();
        let changed = opened.get(&"a".parse().unwrap()).unwrap().plain.expose_text() == Some("two");
        let same = mine.lines().filter(|line| edited.lines().any(|other| other == *line)).count();
        // `a`, `lastmodified`, `mac` and perhaps `version` are new; all else is as it was.
        count.same(changed && mine.lines().count() - same <= 4, || format!("{mine}\n{edited}"));
    }
    count.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn creation_rules_and_groups_of_keys() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(16);
    let mut count = Count::of("creation rules and groups of keys");
    let (one, two) = (&peer.recipient, &peer.second);
    let config = format!(
        "keys:\n  - &one {one}\n  - &two {two}\ncreation_rules:\n  - path_regex: ^groups/\n    shamir_threshold: 2\n    key_groups:\n      - age: [*one]\n      - merge:\n          - age: [*two]\n        age: [*two]\n  - path_regex: \\.enc\\.yaml$\n    encrypted_regex: ^(data|stringData)$\n    mac_only_encrypted: true\n    age: >-\n      {one},\n      {two}\n  - age: [{two}]\n    unencrypted_suffix: _plain\n"
    );
    for file in ["groups/a.yaml", "b.enc.yaml", "deep/c.enc.yaml", "d.yaml"] {
        let plain = "data: {a: s}\nkind_plain: Secret\n";
        let closed = peer.encrypt_in_folder(&config, file, plain.as_bytes()).unwrap();
        let rule = rule_of(&config, file);
        let mine = encrypt(Format::Yaml, plain.as_bytes(), &rule, now(), rng).unwrap();
        let recipients = |text: &str| Encrypted::parse(Format::Yaml, text).unwrap().recipients();
        count.same(recipients(&closed) == recipients(&mine), || format!("{file}\n{closed}\n{mine}"));
        // The same lines stay plain, and the same settings are written.
        let plain_lines = |text: &str| -> Vec<String> {
            let settings = ["_suffix", "_regex", "mac_only", "shamir", "kind_plain: Secret"];
            sorted(
                text.lines()
                    .filter(|line| settings.iter().any(|word| line.contains(word)) && !line.contains("ENC["))
                    .map(|line| line.trim().to_owned())
                    .collect(),
            )
        };
        count.same(plain_lines(&closed) == plain_lines(&mine), || format!("{file}\n{closed}\n{mine}"));
        let opened = peer.decrypt_json("yaml", &mine);
        count.same(opened == peer.decrypt_json("yaml", &closed) && opened.is_ok(), || {
            format!("{file}\n{mine}\n{opened:?}")
        });
        let opened = Encrypted::parse(Format::Yaml, &closed).and_then(|file| file.open(&peer.identities));
        count.same(opened.is_ok(), || format!("{file}\n{closed}\n{opened:?}"));
    }
    count.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_was_changed_is_refused_by_both() {
    let Some(peer) = Peer::find() else { return };
    let rng = &mut StdRng::seed_from_u64(17);
    let mut count = Count::of("changed files that sops and we refuse");
    let plain = "a: one\nb: two\nl:\n    - x\n    - y\nc_unencrypted: three\n";
    let mine = encrypt(Format::Yaml, plain.as_bytes(), &Rule::for_recipients([&peer.recipient]), now(), rng)
        .unwrap();
    let theirs = peer.encrypt("yaml", plain.as_bytes(), "").unwrap();
    for text in [mine, theirs] {
        let lines: Vec<&str> = text.lines().collect();
        let without = |number: usize| {
            lines
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != number)
                .map(|(_, line)| format!("{line}\n"))
                .collect::<String>()
        };
        let line = |start: &str| lines.iter().position(|line| line.trim_start().starts_with(start)).unwrap();
        let swap = |one: &str, other: &str| {
            let value = |start: &str| lines[line(start)].split_once("ENC").unwrap().1;
            text.replace(value(one), "@").replace(value(other), value(one)).replace('@', value(other))
        };
        let changed = [
            without(line("a: ")),
            without(line("- ")),
            without(line("mac: ")),
            without(line("c_unencrypted")),
            text.replace("three", "four"),
            text.replace(lines[line("lastmodified: ")], "    lastmodified: \"2026-01-01T00:00:00Z\""),
            swap("a: ", "b: "),
            text.replacen(lines[line("a: ")], "a: one", 1),
        ];
        for changed in changed {
            assert_ne!(changed, text);
            let opened =
                Encrypted::parse(Format::Yaml, &changed).and_then(|file| file.open(&peer.identities));
            count.same(opened.is_err(), || format!("we open {changed}"));
            count.same(peer.decrypt("yaml", &changed).is_err(), || format!("sops opens {changed}"));
        }
    }
    count.finish();
}
