//! The client against recorded and made-up servers, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod recordings;
mod requests;
mod support;
mod watch;
mod wire;

/// Only what is named above is built: a file that is not would never run.
#[test]
fn every_file_of_tests_is_built() {
    let built = include_str!("suite.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let own: &[&str] = &["memory", "secrecy", "suite"];
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && !own.contains(&name.as_str()) {
            assert!(built.contains(&format!("\nmod {name};\n")), "{name} is in no test binary");
        }
    }
}
