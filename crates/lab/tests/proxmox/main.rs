//! The pretend Proxmox API, seen through its own wire under paused time.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

mod client;
mod errors;
mod faults;
mod locks;
mod realities;
mod replay;
mod scale;
mod schema;
mod snapshots;
mod storages;
mod story;
mod support;
mod world;
