//! What can go wrong, said once for the whole crate.

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. `Display` names the operation; the cause, if any, is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A private key could not be read.
    #[error("the private key cannot be used: {reason}")]
    Key {
        /// Why, without any of the key in it.
        reason: String,
    },
    /// A certificate could not be read or does not fit.
    #[error("the certificate cannot be used: {reason}")]
    Certificate {
        /// Why.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("the certificate could not be issued")]
    Issue(#[source] rcgen::Error),
    /// The service account key could not be made.
    #[error("the service account key could not be generated")]
    ServiceAccountKey(#[source] rsa::Error),
    /// A point in time lies outside of what a certificate can say.
    #[error("the lifetime ends outside of the calendar")]
    Lifetime,
    /// A field of the secrets bundle is missing or broken.
    #[error("secrets bundle: `{field}` {reason}")]
    Bundle {
        /// Path of the field, as written in the file.
        field: String,
        /// What is wrong with it, without any secret in it.
        reason: String,
    },
    /// A talosconfig could not be read.
    #[error("talosconfig: `{field}` {reason}")]
    Talosconfig {
        /// Path of the field, as written in the file.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A document could not be written as YAML.
    #[error("the document could not be written as YAML")]
    Yaml(#[source] yaml_serde::Error),
    /// A version is not of the form `v1.2.3`.
    #[error("`{version}` is not a version of {product} (such as v1.2.3)")]
    Version {
        /// Of what.
        product: &'static str,
        /// As given.
        version: String,
    },
    /// No machine config can be generated for a Talos version.
    #[error("machine configs for Talos {version} are not supported")]
    Contract {
        /// As given.
        version: String,
    },
    /// A Talos version does not run a Kubernetes version.
    #[error("Talos {talos} runs Kubernetes v1.{oldest} to v1.{newest}, not {kubernetes}")]
    Kubernetes {
        /// The Talos version.
        talos: String,
        /// The Kubernetes version.
        kubernetes: String,
        /// Oldest minor version supported.
        oldest: u32,
        /// Newest minor version supported.
        newest: u32,
    },
    /// A Talos version cannot do what an option asks for.
    #[error("Talos {talos} has no setting for {option}")]
    Option {
        /// The Talos version.
        talos: String,
        /// What was asked for.
        option: &'static str,
    },
    /// A text is not a MAC address.
    #[error("`{text}` is not a MAC address (such as bc:24:11:00:00:01)")]
    Mac {
        /// As given.
        text: String,
    },
    /// A machine config could not be read.
    #[error("the machine config cannot be used: {reason}")]
    Config {
        /// Why, without any of its content.
        reason: String,
    },
    /// A patch could not be read or applied.
    #[error("the config patch cannot be applied: {reason}")]
    Patch {
        /// Why, without any values.
        reason: String,
    },
    /// A `cidata` image could not be written or read.
    #[error("the ISO image cannot be used: {reason}")]
    Iso {
        /// Why.
        reason: &'static str,
    },
}
