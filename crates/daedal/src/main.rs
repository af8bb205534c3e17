//! The `daedal` command.
fn main() {}
