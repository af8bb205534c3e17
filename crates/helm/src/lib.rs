//! Helm charts rendered in pure Rust.
//!
//! Load a [`Chart`] from a folder or an archive, or have a [`Fetcher`] get it from a repository or registry, collect [`Values`], and [`render`] them: the result is what
//! `helm template` would print, as objects, hooks, CRDs and notes. No `helm` binary, no cluster, no network.
//!
//! The same chart, values and [`RenderOptions`] always give the same result: time and randomness are options. Whatever
//! a chart contains, rendering ends within [`Limits`] and with a result or an [`Error`] that says where in the chart
//! and on which value it failed.

mod chart;
mod engine;
mod error;
mod files;
mod funcs;
mod glob;
mod json;
mod limits;
mod manifest;
mod options;
mod printf;
mod random;
mod render;
mod semver;
mod source;
mod strconv;
mod template;
mod time;
mod value;
mod yaml;

pub use chart::{Chart, Dependency, File, Maintainer, Metadata, Values, ValuesBuilder};
pub use error::{Error, Location};
pub use limits::Limits;
pub use manifest::{Hook, HookEvent, Manifest};
pub use options::{Capabilities, KubeVersion, RenderOptions};
pub use render::{PrintOptions, Rendered, render};
pub use source::{Cache, Fetch, Fetched, Fetcher, Login, Pending, Reference, Request, Response};
