//! Talos images: what they are made of, and what they are called. Pure.
//!
//! A [`Schematic`] says what an image is made of; [`Schematic::id`] computes offline the id that an Image Factory will give
//! it. [`Image`] names the files of a schematic, and [`renamed_extension`] knows extensions by their former names.

mod alias;
mod emit;
mod image;
mod scalar;
mod schematic;

pub use alias::renamed_extension;
pub use image::{Arch, Format, Image};
pub use schematic::{MetaValue, Overlay, OverlayOption, Schematic, SecureBoot};
