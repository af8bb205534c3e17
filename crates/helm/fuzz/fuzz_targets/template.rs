//! Any text as a template.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target has one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(|text: &str| bodies::template(text));
