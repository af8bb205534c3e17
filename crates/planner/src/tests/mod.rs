//! The planner's stories and laws.

mod counting;
mod folding;
mod golden;
mod guards;
mod images;
mod laws;
mod mutations;
mod placement;
mod quorum;
mod removal;
mod rules;
mod simulator;
mod speed;

use proptest::test_runner::Config;

/// A hundred cases per law, or as many as `PROPTEST_CASES` says; failures are printed, not written to files.
fn config() -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = Config::default();
    Config { cases: if asked { default.cases } else { 100 }, failure_persistence: None, ..default }
}
