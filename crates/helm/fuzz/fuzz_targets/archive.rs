//! Any bytes as a chart archive.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target has one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::archive(data));
