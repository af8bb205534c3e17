//! Helm charts rendered in pure Rust.
