//! Helm charts rendered in pure Rust.
//!
//! Load a [`Chart`] from a folder or an archive, or have a [`Fetcher`] get it from a repository or registry, collect [`Values`], and [`render`] them: the result is what
//! `helm template` would print, as objects, hooks, CRDs and notes. No `helm` binary, no cluster, no network.
//!
//! The same chart, values and [`RenderOptions`] always give the same result: time and randomness are options. Whatever
//! a chart contains, rendering ends within [`Limits`] and with a result or an [`Error`] that says where in the chart
//! and on which value it failed.
//!
//! ```
//! use daedal_helm::{Chart, Error, File, PrintOptions, RenderOptions, ValuesBuilder, render};
//!
//! let file = |name: &str, text: &str| File { name: name.into(), data: text.into() };
//! let chart = Chart::from_files(vec![
//!     file("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
//!     file("values.yaml", "replicas: 1\n"),
//!     file(
//!         "templates/app.yaml",
//!         "kind: Deployment\nspec: {{ dict \"replicas\" .Values.replicas | toJson }}\nhost: {{ .Values.web.host }}\n",
//!     ),
//! ])?;
//! let options = RenderOptions { release_name: "spring".into(), ..RenderOptions::default() };
//!
//! let values = ValuesBuilder::new().file(b"web: {host: shop.example.org}")?.set("replicas=3")?.build();
//! let text = render(&chart, &values, &options)?.to_text(&PrintOptions::default())?;
//! assert_eq!(
//!     text,
//!     "---\n# Source: shop/templates/app.yaml\nkind: Deployment\nspec: {\"replicas\":3}\nhost: shop.example.org\n"
//! );
//!
//! // Without a host the template fails, and says where and on what.
//! let Err(Error::Render { message, locations }) = render(&chart, &Default::default(), &options) else { panic!() };
//! assert_eq!((locations[0].line, locations[0].column), (3, 16));
//! assert!(message.ends_with("at <.Values.web.host>: nil pointer evaluating interface {}.host"));
//! # Ok::<(), Error>(())
//! ```

mod chart;
mod engine;
mod error;
mod files;
mod funcs;
mod glob;
mod json;
mod limits;
mod lookup;
mod manifest;
mod options;
mod parallel;
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
pub use lookup::Lookup;
pub use manifest::{Hook, HookEvent, Manifest};
pub use options::{Capabilities, KubeVersion, RenderOptions};
pub use render::{PrintOptions, Rendered, render, render_with_lookup};
pub use source::{Cache, Fetch, Fetched, Fetcher, Login, Pending, Reference, Request, Response};
