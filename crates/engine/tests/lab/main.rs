//! The engine against the lab: real protocols over in-memory streams, in virtual time.

// Helpers of tests are tests, too; the linter sees only functions marked as such.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures)]

mod access;
mod addons;
mod arm;
mod authority;
mod backup;
mod boot;
mod breadth;
mod commands;
mod config;
mod crash;
mod discovered;
mod examples;
mod faults;
mod firewall_ha_backups;
mod first_contact;
mod hands;
mod images;
mod lateness;
mod lock;
mod names;
mod privileges;
mod quorum;
mod realities;
mod removal;
mod rivals;
mod scale;
mod site;
mod stopping;
mod storages;
mod story;
mod strangers;
mod support;
mod templates;
mod views;
mod waits;
