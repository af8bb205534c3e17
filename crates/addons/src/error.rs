//! Why an add-on could not be rendered or read.

/// What can go wrong with an add-on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The chart was not given.
    #[error("the chart of add-on {addon} was not fetched")]
    NoChart {
        /// The add-on.
        addon: String,
    },
    /// Manifests of a server were not given.
    #[error("{url} was not fetched")]
    NotFetched {
        /// Their address.
        url: String,
    },
    /// Manifests of a server are not those that were meant.
    #[error("{url} has the SHA-256 {found}, not {wanted}")]
    Digest {
        /// Their address.
        url: String,
        /// What they must have.
        wanted: String,
        /// What they have.
        found: String,
    },
    /// A chart could not be rendered.
    #[error("cannot render the chart of add-on {addon}")]
    Chart {
        /// The add-on.
        addon: String,
        /// Why.
        #[source]
        source: Box<daedal_helm::Error>,
    },
    /// Values of a chart are not values.
    #[error("cannot read the values in {origin}")]
    Values {
        /// Where they are.
        origin: String,
        /// Why.
        #[source]
        source: Box<daedal_helm::Error>,
    },
    /// A secret has no place in the values.
    #[error("cannot set the secret value {path}: {message}")]
    SecretValue {
        /// Its dotted path.
        path: String,
        /// Why.
        message: String,
    },
    /// A document is not YAML.
    #[error("{origin}: document {document} is not YAML: {message}")]
    Yaml {
        /// Where it is.
        origin: String,
        /// Which of the documents there, from one.
        document: usize,
        /// Why.
        message: String,
    },
    /// A document is not an object of Kubernetes.
    #[error("{origin}: document {document} {message}")]
    Object {
        /// Where it is.
        origin: String,
        /// Which of the documents there, from one.
        document: usize,
        /// What is wrong with it.
        message: String,
    },
    /// Two documents are the same object.
    #[error("{object} is in {first} and in {second}")]
    Twice {
        /// The object.
        object: String,
        /// Where it is first.
        first: String,
        /// Where it is again.
        second: String,
    },
    /// An add-on cannot be handed over.
    #[error("cannot export add-on {addon}: {message}")]
    Export {
        /// The add-on.
        addon: String,
        /// Why.
        message: String,
    },
    /// The parent of an ApplySet belongs to another tool.
    #[error("Secret {namespace}/{name} belongs to {tooling}")]
    ForeignApplySet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Whose it is: name and version of the tool.
        tooling: String,
    },
    /// A release that Helm keeps cannot be read or written.
    #[error("cannot {operation} the Helm release in Secret {name}: {message}")]
    HelmRelease {
        /// `read` or `write`.
        operation: &'static str,
        /// The Secret.
        name: String,
        /// Why.
        message: String,
    },
}
