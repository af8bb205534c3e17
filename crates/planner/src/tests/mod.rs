//! The planner's stories and laws.

mod accounts;
mod addons;
mod configs;
mod counting;
mod folding;
mod found;
mod golden;
mod gone;
mod guards;
mod images;
mod laws;
mod marks;
mod mutations;
mod phases;
mod placement;
mod quorum;
mod removal;
mod rules;
mod simulator;
mod speed;
pub(crate) mod told;

use proptest::test_runner::Config;

/// A hundred cases per law, or as many as `PROPTEST_CASES` says; failures are printed, not written to files.
fn config() -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = Config::default();
    Config { cases: if asked { default.cases } else { 100 }, failure_persistence: None, ..default }
}
