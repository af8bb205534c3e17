//! Talos Image Factory: verified downloads.
//!
//! [`Factory`] talks to the service: [`Factory::register`] makes a [`Schematic`] known and compares the ids,
//! [`Factory::fingerprint`] reads an image once and tells size and SHA-256, so that every later copy can be checked.
//!
//! Invariant: a file that was cut short, or is no disk image, never yields a fingerprint.
//!
//! [`Schematic`]: daedal_talos_image::Schematic

mod client;

pub use client::{Error, Extension, Factory, ImageFingerprint, OfficialOverlay};
