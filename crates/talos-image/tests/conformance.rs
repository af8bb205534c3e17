//! Schematic ids beside those of the Image Factory's own library.
//!
//! Needs its `schematic-id` tool: `DAEDAL_PEERS` names the folder that holds `schematic-id-<version>/schematic-id`.
//! `DAEDAL_SCHEMATICS` sets how many schematics are compared (10,000 unless told otherwise).
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fmt::Write as _,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use daedal_talos_image::{MetaValue, Overlay, OverlayOption, Schematic, SecureBoot};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

fn oracle() -> Option<PathBuf> {
    let folder = std::env::var_os("DAEDAL_PEERS")?;
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("schematic-id-"))
        .map(|entry| entry.path().join("schematic-id"))
        .filter(|file| file.is_file())
        .collect();
    found.sort();
    found.pop()
}

/// Text in a form that leaves the reader no choice: double-quoted, everything odd escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else {
            let _ = write!(out, "\\U{:08X}", u32::from(c));
        }
    }
    out + "\""
}

/// The schematic as flow YAML.
fn flow(schematic: &Schematic) -> String {
    let list = |items: &[String]| items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", ");
    let mut out = String::from("{");
    if let Some(overlay) = &schematic.overlay {
        let options: Vec<String> = overlay
            .options
            .iter()
            .map(|(key, value)| match value {
                OverlayOption::Text(text) => format!("{}: {}", quoted(key), quoted(text)),
                OverlayOption::Flag(flag) => format!("{}: {flag}", quoted(key)),
                OverlayOption::Integer(number) => format!("{}: {number}", quoted(key)),
            })
            .collect();
        let _ = write!(
            out,
            "overlay: {{image: {}, name: {}, options: {{{}}}}}, ",
            quoted(&overlay.image),
            quoted(&overlay.name),
            options.join(", ")
        );
    }
    let meta: Vec<String> = schematic
        .meta
        .iter()
        .map(|meta| format!("{{key: {}, value: {}}}", meta.key, quoted(&meta.value)))
        .collect();
    let _ = write!(
        out,
        "customization: {{extraKernelArgs: [{}], meta: [{}], systemExtensions: {{officialExtensions: [{}]}}, \
         secureboot: {{includeWellKnownCertificates: {}}}}}}}",
        list(&schematic.kernel_args),
        meta.join(", "),
        list(&schematic.extensions),
        schematic.secure_boot.well_known_certificates
    );
    out
}

fn text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "",
        "~",
        "null",
        "Null",
        "true",
        "TRUE",
        "yes",
        "On",
        "n",
        ".inf",
        "-.INF",
        ".nan",
        "+.nan",
        "<<",
        "=",
        "---",
        "...",
        "--- a",
        "2024-02-29",
        "2023-02-29",
        "2024-1-2t3:4:5.5+01:00",
        "2024-01-02  03:04:05",
        "1:30",
        "1:60",
        "0b-1",
        "0o-7",
        "-0b1",
        "+0o7",
        "0x_1",
        "1__0",
        "1e400",
        ".1_2",
        "._1",
        "1.",
        "+.5",
        "-",
        "- ",
        "? a",
        ":",
        ": ",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "+9223372036854775808",
        "0xffffffffffffffff",
        "0x10000000000000000",
        "siderolabs/qemu-guest-agent",
        "console=ttyS0,115200n8",
        "talos.config=https://x/y?h=${hostname}",
        "\u{feff}a b",
        "{}",
        "'",
        "\"",
    ])
    .prop_map(str::to_owned);
    let odd = prop::sample::select(vec![
        ' ', ' ', '\n', '\n', '\t', '\r', '#', ':', '-', '?', ',', '[', ']', '{', '}', '\'', '"', '%', '@',
        '`', '&', '*', '!', '|', '>', '\\', '~', '\0', '\u{7}', '\u{1b}', '\u{7f}', '\u{80}', '\u{85}',
        '\u{a0}', 'é', '\u{2028}', '\u{2029}', '\u{d7ff}', '\u{e000}', '\u{feff}', '\u{fffd}', '\u{fffe}',
        '\u{ffff}', '😀', 'a', 'b', '0', '7',
    ]);
    prop_oneof![
        2 => words,
        3 => "[a-z0-9./=_-]{1,20}",
        3 => "[-+]?[0-9_.:xobeEaf]{0,10}",
        1 => "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[Tt ]{0,2}[0-9]{0,2}:?[0-9]{0,2}:?[0-9]{0,2}[.,]?[0-9]{0,3}(Z|[+-][0-9]{2}:[0-9]{2})?",
        4 => prop::collection::vec(odd, 0..8).prop_map(String::from_iter),
        1 => "(?s).{0,12}",
        1 => "[a-z \n]{60,130}",
    ]
}

fn schematic() -> impl Strategy<Value = Schematic> {
    let key = "[a-zA-Z0-9_.-]{0,6}";
    let option = prop_oneof![
        text().prop_map(OverlayOption::Text),
        any::<bool>().prop_map(OverlayOption::Flag),
        any::<i64>().prop_map(OverlayOption::Integer),
    ];
    let overlay = (text(), text(), prop::collection::btree_map(key, option, 0..5))
        .prop_map(|(image, name, options)| Overlay { image, name, options });
    let meta = (any::<u8>(), text()).prop_map(|(key, value)| MetaValue { key, value });
    (
        prop::option::weighted(0.3, overlay),
        prop::collection::vec(text(), 0..4),
        prop::collection::vec(meta, 0..3),
        prop::collection::vec(text(), 0..4),
        any::<bool>(),
    )
        .prop_map(|(overlay, kernel_args, meta, extensions, well_known_certificates)| Schematic {
            overlay,
            kernel_args,
            meta,
            extensions,
            secure_boot: SecureBoot { well_known_certificates, ..SecureBoot::default() },
            ..Schematic::default()
        })
}

fn ask(oracle: &PathBuf, document: &str) -> Result<String, String> {
    let mut child = Command::new(oracle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    child.stdin.take().unwrap().write_all(document.as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn ids_are_the_librarys() {
    let Some(oracle) = oracle() else {
        println!("skipped: DAEDAL_PEERS names no folder with schematic-id-*/schematic-id");
        return;
    };
    let count: usize =
        std::env::var("DAEDAL_SCHEMATICS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let seed = [7; 32];
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let strategy = schematic();
    let cases: Vec<Schematic> =
        (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let (next, differing) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let theirs = ask(&oracle, &flow(case));
                    if theirs.as_deref() != Ok(&case.id()) && differing.fetch_add(1, Ordering::Relaxed) < 5 {
                        println!("DIFFERS: {theirs:?}\n{case:#?}\nours:\n{}", case.canonical_yaml());
                    }
                }
            });
        }
    });
    let differing = differing.into_inner();
    println!("conformance\tschematic ids\t{count}\t{differing}");
    assert_eq!(differing, 0);
}
