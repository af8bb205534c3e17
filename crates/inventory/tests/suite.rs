//! The tests of the crate from outside, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod addons;
mod cards;
mod diagnostics;
mod examples;
mod fits;
mod laws;
mod patches;
mod secret_texts;
mod wrong_files;

/// Only what is named above is built: a file that is not would never run.
#[test]
fn every_file_of_tests_is_built() {
    let built = include_str!("suite.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let own: &[&str] = &["suite"];
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && !own.contains(&name.as_str()) {
            assert!(built.contains(&format!("\nmod {name};\n")), "{name} is in no test binary");
        }
    }
}
