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
}
