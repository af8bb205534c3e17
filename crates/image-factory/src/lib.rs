//! Talos Image Factory: schematics, image names, verified downloads.
//!
//! A [`Schematic`] says what an image is made of; [`Schematic::id`] computes offline the id that the factory will give
//! it. [`Image`] names the files of a schematic. [`Factory`] talks to the service: [`Factory::register`] makes a
//! schematic known and compares the ids, [`Factory::fingerprint`] reads an image once and tells size and SHA-256, so that
//! every later copy can be checked.
//!
//! Invariant: a file that was cut short, or is no disk image, never yields a fingerprint.

mod alias;
mod client;
mod emit;
mod image;
mod scalar;
mod schematic;

pub use alias::renamed_extension;
pub use client::{Error, Extension, Factory, ImageFingerprint, OfficialOverlay};
pub use image::{Arch, Format, Image};
pub use schematic::{MetaValue, Overlay, OverlayOption, Schematic, SecureBoot};
