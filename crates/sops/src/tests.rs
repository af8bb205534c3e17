//! Whole files: what is written opens, reads back as it was, and is refused when anything of it was changed.

use std::str::FromStr as _;

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use jiff::Timestamp;

use crate::{Encrypted, Error, Format, Identities, Kind, Path, Rule, Selection, encrypt};

struct Somebody {
    identities: Identities,
    recipient: String,
}

fn somebody() -> Somebody {
    let key = Identity::generate();
    let identities = Identities::parse(key.to_string().expose_secret()).unwrap();
    Somebody { identities, recipient: key.to_public().to_string() }
}

fn now() -> Timestamp {
    Timestamp::from_str("2026-11-18T12:00:00.75Z").unwrap()
}

fn sealed(format: Format, plain: &str, rule: &Rule) -> String {
    encrypt(format, plain.as_bytes(), rule, now(), &mut rand::thread_rng()).unwrap()
}

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

const YAML: &str = "\
# about the file: canary
token: s3cret   # behind it
port: 8006
ratio: 1.50
on: true
since: 2026-11-17
nothing: ~
empty: \"\"
maps: {}
lists: []
note_unencrypted: 'left as it is'

nested:
    # canary, in it
    deep:
      - one
      # canary, between
      - {two: 2, \"three\": [x, 'y']}
    text: |
      several
        lines

    folded: >-  # a header
      goes
      on
    # canary, at its end

quoted: \"a # b\" # canary
last: end
";

const JSON: &str = "{\n  \"b\": \"s3cret\",\n  \"a\": {\"n\": 42, \"f\": 1.5, \"t\": true, \"z\": null, \"e\": \"\"},\n  \"l\": [\"x\", \"\\ud83d\\ude00\", {}]\n}\n";

const DOTENV: &str = "# canary\nTOKEN=s3cret\n\nLINES=a\\nb\nEMPTY=\nNOTE_unencrypted=left\n# canary\n";

#[test]
fn every_format_reads_back_as_it_was_and_shows_nothing() {
    let me = somebody();
    let rule = Rule::for_recipients([&me.recipient]);
    for (format, plain) in [(Format::Yaml, YAML), (Format::Json, JSON), (Format::Dotenv, DOTENV)] {
        let text = sealed(format, plain, &rule);
        for secret in ["s3cret", "canary", "several", "8006", "😀", "2026-11-17"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let file = Encrypted::parse(format, &text).unwrap();
        assert_eq!(file.recipients(), [me.recipient.as_str()]);
        let opened = file.open(&me.identities).unwrap();
        let back = opened.plain().expose_text().unwrap();
        if format != Format::Yaml {
            assert_eq!(back.replace('😀', "\\ud83d\\ude00"), plain);
        }
        assert!(!format!("{opened:?}").contains("s3cret"));
        // The same once more: every encrypted text is kept.
        let again = opened.edit(back.as_bytes(), now(), &mut rand::thread_rng()).unwrap();
        let without_mac = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.contains("mac")).map(str::to_owned).collect()
        };
        assert_eq!(without_mac(&again), without_mac(&text));
    }
}

#[test]
fn yaml_keeps_order_comments_and_types() {
    let me = somebody();
    let text = sealed(Format::Yaml, YAML, &Rule::for_recipients([&me.recipient]));
    assert!(text.contains("note_unencrypted: 'left as it is'\n"), "{text}");
    assert!(text.contains("nothing: ~\nempty: \"\"\nmaps: {}\nlists: []\n"), "{text}");
    let opened = Encrypted::parse(Format::Yaml, &text).unwrap().open(&me.identities).unwrap();
    for (key, kind, plain) in [
        ("token", Kind::Str, "s3cret"),
        ("port", Kind::Int, "8006"),
        ("ratio", Kind::Float, "1.5"),
        ("on", Kind::Bool, "True"),
        ("since", Kind::Time, "2026-11-17T00:00:00Z"),
        ("nothing", Kind::Null, ""),
        ("nested.deep[1].three[1]", Kind::Str, "y"),
        ("nested.text", Kind::Str, "several\n  lines\n"),
        ("nested.folded", Kind::Str, "goes on"),
        ("quoted", Kind::Str, "a # b"),
    ] {
        let value = opened.get(&path(key)).unwrap();
        assert_eq!((value.kind, value.plain.expose_text()), (kind, Some(plain)), "{key}");
    }
    let back = opened.plain().expose_text().unwrap();
    let comments = |text: &str| -> Vec<String> {
        let hashes = text.lines().filter_map(|line| Some(line.split_once("# ")?.1.to_owned()));
        hashes.filter(|comment| !comment.starts_with('b')).collect()
    };
    assert_eq!(comments(back), comments(YAML), "{back}");
    assert!(
        back.starts_with(
            "# about the file: canary\ntoken: s3cret   # behind it\nport: 8006\nratio: 1.5\non: true\n"
        ),
        "{back}"
    );
}

#[test]
fn an_edit_changes_only_what_changed() {
    let me = somebody();
    for (format, plain, from, to, changed) in [
        (Format::Yaml, YAML, "port: 8006", "port: 8007", 1),
        (Format::Json, JSON, "42", "43", 1),
        (Format::Dotenv, DOTENV, "TOKEN=s3cret", "TOKEN=other", 1),
    ] {
        let text = sealed(format, plain, &Rule::for_recipients([&me.recipient]));
        let opened = Encrypted::parse(format, &text).unwrap().open(&me.identities).unwrap();
        let edited = opened.plain().expose_text().unwrap().replace(from, to);
        let later = Timestamp::from_str("2026-11-19T00:00:00Z").unwrap();
        let again = opened.edit(edited.as_bytes(), later, &mut rand::thread_rng()).unwrap();
        let differing: Vec<_> = text.lines().zip(again.lines()).filter(|(one, other)| one != other).collect();
        // The value, `lastmodified` and `mac`.
        assert_eq!(differing.len(), changed + 2, "{differing:?}");
        assert_eq!(text.lines().count(), again.lines().count());
        Encrypted::parse(format, &again).unwrap().open(&me.identities).unwrap();
    }
}

#[test]
fn whatever_was_changed_is_found() {
    let me = somebody();
    let plain = "a: one\nb: two\nl: [x, y]\nc_unencrypted: three\n";
    let rule = Rule::for_recipients([&me.recipient]);
    let text = sealed(Format::Yaml, plain, &rule);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let (a, b, l) = (line("a: "), line("b: "), line("l: "));
    let (first, second) =
        l.strip_prefix("l: [").unwrap().strip_suffix(']').unwrap().split_once(", ").unwrap();
    let cases = [
        (text.replace(&a, &format!("a: {}", &b[3..])), "a cannot be decrypted"),
        (text.replace(&a, "a: one"), "a cannot be decrypted: its text is not that of an encrypted value"),
        (text.replace(&a, "a: 1"), "a cannot be decrypted: it must be encrypted, and is not"),
        (text.replace(&format!("{a}\n"), ""), "MAC) does not match its values"),
        (text.replace("three", "four"), "MAC) does not match its values"),
        (text.replace(&l, &format!("l: [{second}, {first}]")), "MAC) does not match its values"),
        (text.replace("12:00:00Z", "12:00:01Z"), "MAC) is damaged, or `lastmodified` was changed"),
        (text.replace("    mac: ", "    mac_: "), "the sops metadata cannot be used: `mac` is missing"),
        (text.replace("    version: ", "    version_: "), "`version` is missing"),
    ];
    for (changed, said) in cases {
        assert_ne!(changed, text, "{said}");
        let error =
            Encrypted::parse(Format::Yaml, &changed).and_then(|file| file.open(&me.identities)).unwrap_err();
        assert!(error.to_string().contains(said), "{error} instead of {said}");
    }
    // With `mac_only_encrypted` the plain values may be changed by hand, and only they.
    let text = sealed(Format::Yaml, plain, &Rule { mac_only_encrypted: true, ..rule });
    let open = |text: &str| Encrypted::parse(Format::Yaml, text).and_then(|file| file.open(&me.identities));
    assert_eq!(
        open(&text.replace("three", "four")).unwrap().get(&path("c_unencrypted")).unwrap().plain.expose(),
        b"four"
    );
    assert!(matches!(
        open(&text.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()),
        Err(Error::Mac { .. })
    ));
}

#[test]
fn rules_choose_what_is_encrypted() {
    let me = somebody();
    let plain = "kind: Secret\ndata:\n  password: p1\n  # keep: plain\n  user: u1\nend_secret: e1\n";
    for (selection, hidden, shown) in [
        (Selection::EncryptedRegex("^data$".to_owned()), vec!["p1", "u1"], vec!["Secret", "e1"]),
        (Selection::UnencryptedRegex("^(kind|user)$".to_owned()), vec!["p1", "e1"], vec!["Secret", "u1"]),
        (Selection::EncryptedSuffix("_secret".to_owned()), vec!["e1"], vec!["Secret", "p1", "u1"]),
        (Selection::UnencryptedSuffix("data".to_owned()), vec!["Secret", "e1"], vec!["p1", "u1"]),
        (
            Selection::UnencryptedCommentRegex("keep: plain".to_owned()),
            vec!["Secret", "p1", "e1"],
            vec!["u1"],
        ),
        (Selection::EncryptedCommentRegex("keep: plain".to_owned()), vec!["u1"], vec!["Secret", "p1", "e1"]),
    ] {
        for mac_only_encrypted in [false, true] {
            let selection = selection.clone();
            let rule = Rule { selection, mac_only_encrypted, ..Rule::for_recipients([&me.recipient]) };
            let text = sealed(Format::Yaml, plain, &rule);
            assert!(hidden.iter().all(|word| !text.contains(&format!(": {word}\n"))), "{rule:?} {text}");
            assert!(shown.iter().all(|word| text.contains(&format!(": {word}\n"))), "{rule:?} {text}");
            let opened = Encrypted::parse(Format::Yaml, &text).unwrap().open(&me.identities).unwrap();
            assert_eq!(opened.plain().expose_text(), Some(plain));
        }
    }
}

#[test]
fn groups_of_keys_open_together() {
    let people = [somebody(), somebody(), somebody()];
    let groups = people.iter().map(|one| vec![one.recipient.clone()]).collect();
    let rule = Rule { groups, threshold: Some(2), ..Rule::for_recipients(["x"]) };
    let text = sealed(Format::Yaml, "a: b\n", &rule);
    for pair in [[0, 1], [1, 2], [0, 2]] {
        let mut identities = people[pair[0]].identities.clone();
        identities.extend(people[pair[1]].identities.clone());
        assert!(Encrypted::parse(Format::Yaml, &text).unwrap().open(&identities).is_ok());
    }
    let error =
        Encrypted::parse(Format::Yaml, &text).unwrap().open(&people[0].identities).unwrap_err().to_string();
    assert!(error.starts_with("1 of 2 needed key groups can be opened"), "{error}");
    assert!(error.contains(&people[1].recipient) && error.contains(&people[2].recipient), "{error}");
    for bad in [Some(1), Some(4)] {
        let rule = Rule { threshold: bad, ..rule.clone() };
        assert!(encrypt(Format::Yaml, b"a: b", &rule, now(), &mut rand::thread_rng()).is_err());
    }
}

#[test]
fn errors_name_the_recipients_and_the_keys_that_there_are() {
    let (me, other) = (somebody(), somebody());
    let text = sealed(Format::Yaml, "a: {b: s3cret, c: [1]}\n", &Rule::for_recipients([&me.recipient]));
    let file = || Encrypted::parse(Format::Yaml, &text).unwrap();
    let error = file().open(&other.identities).unwrap_err().to_string();
    assert!(error.contains(&me.recipient) && error.contains(&other.recipient), "{error}");
    let error = file().open(&Identities::default()).unwrap_err().to_string();
    assert!(error.ends_with("the identities at hand are none"), "{error}");
    let opened = file().open(&me.identities).unwrap();
    let said = |key: &str| opened.get(&path(key)).unwrap_err().to_string();
    assert_eq!(said("a.x"), "there is no key a.x; the keys are a.b, a.c[0]");
    assert_eq!(said("a.c"), "a.c is not a single value; the keys in it are a.c[0]");
}

#[test]
fn texts_of_all_layouts_can_be_encrypted() {
    let me = somebody();
    let rule = Rule::for_recipients([&me.recipient]);
    for plain in [
        "{a: b, c: [d, {e: f}]}\n",
        "{}\n",
        "a: 1",
        "a: |\n  no end",
        "a_unencrypted: |\n  no end",
        "a: |+\n  kept\n\n\nb: x\n",
        "a: b\n---\nc: d\n# end\n",
        "--- # start\na: b\n...\n---\nc: {d: e}\n",
        "x: &x {a: 1, b: [two]}\ny: *x\nz:\n  <<: *x\n  c: 3\nw: &s text\nv: [*s]\n",
        "a: !!str 12\nb: !!binary aGk=\nc: !custom x\n",
        "? a\n: b\n",
        "a:\n- b\n- - c\n- d: e\n  f: g\n",
        "\"quoted key\": x\nä: ö # ü\n",
        "a: 'it''s' # c\nb: \"x\\\"y\" # d\n",
        "a: # on the key\n  b: c\n# dedented\n",
        "a: plain\n  over lines\nb: c\n",
    ] {
        let text = encrypt(Format::Yaml, plain.as_bytes(), &rule, now(), &mut rand::thread_rng())
            .unwrap_or_else(|error| panic!("{plain:?}: {error}"));
        let opened = Encrypted::parse(Format::Yaml, &text).unwrap().open(&me.identities).unwrap();
        let back = opened.plain().expose_text().unwrap();
        let again = opened.edit(back.as_bytes(), now(), &mut rand::thread_rng());
        assert!(again.is_ok(), "{plain:?} became {back:?}: {again:?}");
    }
    for plain in [
        "{}",
        "{\"a\": {}}",
        "{\"a\":1,\"b\":[]}",
        "[1]",
        "{\"a\":1,\"a\":2}",
        "1",
        "",
        "{\"a\": 9007199254740993}",
    ] {
        let sealed = encrypt(Format::Json, plain.as_bytes(), &rule, now(), &mut rand::thread_rng());
        let good = plain.starts_with('{') && !plain.contains("\"a\":2") && !plain.contains("993");
        assert_eq!(sealed.is_ok(), good, "{plain}: {sealed:?}");
    }
    for (plain, said) in [
        ("a: 1\na: 2\n", "a: the key is given twice"),
        ("- a\n", "a document must be a mapping"),
        ("x\n", "a document must be a mapping"),
        ("1: a\n", "a key is not text; put it in quotes"),
        ("a: b: c\n", "line 1, column 5 is not valid YAML"),
        ("a: 18446744073709551615\n", "a: a number is too large: sops knows integers of 64 bits"),
        ("sops: x\n", "the key `sops` is there already: the file is encrypted, or must not have that key"),
        ("", "the file is empty"),
        ("# only comments\n", "the file is empty"),
    ] {
        let error =
            encrypt(Format::Yaml, plain.as_bytes(), &rule, now(), &mut rand::thread_rng()).unwrap_err();
        assert_eq!(error.to_string(), said, "{plain:?}");
    }
}

#[test]
fn any_bytes_can_be_a_binary_file() {
    let me = somebody();
    for plain in [&b"\xff\x00canary"[..], b"", b"text\n"] {
        let text = encrypt(
            Format::Binary,
            plain,
            &Rule::for_recipients([&me.recipient]),
            now(),
            &mut rand::thread_rng(),
        )
        .unwrap();
        assert!(!text.contains("canary") && !text.contains("unencrypted_suffix"), "{text}");
        let opened = Encrypted::parse(Format::Binary, &text).unwrap().open(&me.identities).unwrap();
        assert_eq!(opened.plain().expose(), plain);
    }
}

#[test]
fn one_value_can_be_set() {
    let me = somebody();
    let rule = Rule::for_recipients([&me.recipient]);
    for (format, plain, key, value, wanted) in [
        (Format::Yaml, "a: 1 # c\nb:\n  c: 2\n# end\n", "a", "x: y", "a: \"x: y\" # c\nb:\n  c: 2\n# end\n"),
        (
            Format::Yaml,
            "b:\n  c: 2\n\nd: 3\n",
            "b.e",
            "two\nlines\n",
            "b:\n  c: 2\n  e: |\n      two\n      lines\n\nd: 3\n",
        ),
        (Format::Yaml, "a: {b: c}\n", "a.d", "e f", "a: {b: c, \"d\": \"e f\"}\n"),
        (Format::Yaml, "a:\n", "a", "b", "a: b\n"),
        (Format::Yaml, "a: [b, c]\n", "a[1]", "d", "a: [b, d]\n"),
        (Format::Json, "{\n\t\"a\": 1\n}\n", "b", "c\"", "{\n\t\"a\": 1,\n\t\"b\": \"c\\\"\"\n}\n"),
        (Format::Dotenv, "A=1\n", "B", "c\nd", "A=1\nB=c\\nd\n"),
    ] {
        let text = sealed(format, plain, &rule);
        let opened = Encrypted::parse(format, &text).unwrap().open(&me.identities).unwrap();
        let changed = opened.set(&path(key), value, now(), &mut rand::thread_rng()).unwrap();
        let opened = Encrypted::parse(format, &changed).unwrap().open(&me.identities).unwrap();
        assert_eq!(opened.plain().expose_text(), Some(wanted));
        assert_eq!(opened.get(&path(key)).unwrap().plain.expose_text(), Some(value));
    }
    let opened = Encrypted::parse(Format::Yaml, &sealed(Format::Yaml, "a: {b: c}\n", &rule))
        .unwrap()
        .open(&me.identities)
        .unwrap();
    for key in ["a", "x.y", "a.b.c", "a[0]"] {
        assert!(opened.set(&path(key), "v", now(), &mut rand::thread_rng()).is_err(), "{key}");
    }
}

#[test]
fn texts_that_are_no_sops_files_are_refused() {
    for (format, text) in [(Format::Yaml, "a: b\n"), (Format::Json, "{\"a\": 1}"), (Format::Dotenv, "A=1\n")]
    {
        assert!(matches!(Encrypted::parse(format, text), Err(Error::NotEncrypted)));
    }
    for (text, said) in [
        ("sops: 1\n", "`sops` is not a mapping"),
        ("sops: {version: 3.11.0}\n", "`age` is missing"),
        ("sops: {version: 3.11.0, age: [{recipient: x}]}\n", "`enc` is missing"),
        (
            "sops: {version: 3.11.0, encrypted_suffix: a, encrypted_regex: b, age: []}\n",
            "beside another rule",
        ),
    ] {
        let error = Encrypted::parse(Format::Yaml, text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Files that sops 3.11.0 wrote.
#[test]
fn files_of_the_real_program_open() {
    let identities = Identities::parse(include_str!("../tests/files/keys.txt")).unwrap();
    let open = |format, text| Encrypted::parse(format, text).unwrap().open(&identities).unwrap();
    let yaml = include_str!("../tests/files/secrets.yaml");
    let opened = open(Format::Yaml, yaml);
    // Behind a value comments moved above it, and in a list they stood like values.
    let plain = "# about the file\n# behind it\ntoken: s3cret\nport: 8006\nratio: 1.5\n\"on\": true\nsince: 2026-11-17T00:00:00Z\n\
        nothing: null\nempty: \"\"\nnote_unencrypted: left as it is\nlist:\n    - one\n    # between\n    - two\nnested:\n    # in it\n    \
        text: |\n        several\n        lines\nmaps: {}\n";
    assert_eq!(opened.plain().expose_text(), Some(plain));
    assert_eq!(opened.get(&path("list[1]")).unwrap().plain.expose(), b"two");
    let set = opened.set(&path("port"), "8007", now(), &mut rand::thread_rng()).unwrap();
    let kept = |line: &&str| set.lines().any(|other| other == *line);
    let gone: Vec<&str> = yaml.lines().filter(|line| !kept(line)).collect();
    // The value, the comment in the list (a line of its own now), `lastmodified` and `mac`.
    assert_eq!(gone.len(), 4, "{gone:?}");

    let json = open(Format::Json, include_str!("../tests/files/secrets.json"));
    assert_eq!(json.keys(), ["b", "a.n", "a.t", "a.z", "l[0]", "l[1]"]);
    assert_eq!(json.get(&path("a.n")).unwrap().plain.expose(), b"42");
    let dotenv = open(Format::Dotenv, include_str!("../tests/files/secrets.env"));
    assert_eq!(dotenv.plain().expose_text(), Some("# about\nTOKEN=s3cret\nLINES=a\\nb\nEMPTY=\n"));
    let binary = open(Format::Binary, include_str!("../tests/files/secrets.bin"));
    assert_eq!(binary.plain().expose(), b"any\xffbytes");
    let groups = open(Format::Yaml, include_str!("../tests/files/groups.yaml"));
    assert_eq!(groups.plain().expose_text(), Some("secret: s3cret\nplain: 5\n"));
}
