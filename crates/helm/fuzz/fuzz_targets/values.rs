//! Any texts as values and settings, merged over a chart with a sub-chart.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target has one of them")]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: (&str, &str, &str)| bodies::values(input.0, input.1, input.2));
