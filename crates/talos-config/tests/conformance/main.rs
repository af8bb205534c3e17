//! Our secrets, configs and patches against Talos' own library and talosctl.
//!
//! Runs only when `DAEDAL_PEERS` names the folder with the built peers (`cargo xtask conformance talos`).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod documents;
mod flags;
mod lint;
mod matrix;
mod older_pki;
mod patches;
mod peer;
mod secrets;
mod spelling;
mod values;
