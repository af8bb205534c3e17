//! What texts look like, for editors: each pattern takes all that the reader takes, and refuses what it would refuse for its
//! shape alone.

/// A host name's label: names of clusters, pools and nodes.
pub(crate) const NAME: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
/// A UUID in any of its spellings.
pub(crate) const UUID: &str =
    r"^(urn:uuid:)?\{?[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}\}?$";
/// A tag of Proxmox, which keeps it in lower case.
pub(crate) const TAG: &str = "^[A-Za-z0-9_][A-Za-z0-9_+.-]*$";
/// The name of a host, storage, bridge or pool in Proxmox.
pub(crate) const PROXMOX_ID: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]*$";
/// An exact version.
pub(crate) const VERSION: &str = r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$";
/// A network: an IPv4 address with a prefix length of at most 32, or an IPv6 address with one of at most 128.
pub(crate) const CIDR: &str = concat!(
    r"^(((25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})/(3[0-2]|[0-2]?[0-9])",
    r"|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/(12[0-8]|1[01][0-9]|0?[0-9]{1,2}))$"
);
/// A server by HTTPS, without a path or a login.
pub(crate) const HTTPS_SERVER: &str = r"^[hH][tT][tT][pP][sS]://[^@/?#\s]+/?$";
/// A URL without a login.
pub(crate) const URL: &str = r"^[hH][tT][tT][pP][sS]?://[^@\s]+$";
/// A proxy without a login.
pub(crate) const PROXY: &str = r"^([hH][tT][tT][pP]|[sS][oO][cC][kK][sS]5[hH]?)://[^@\s]+$";
/// An API token's id, `user@realm!name`.
pub(crate) const TOKEN: &str = r"^[^:/!\s=]+@[A-Za-z0-9_.-]+![A-Za-z0-9_.-]+$";
/// A variable of the environment.
pub(crate) const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// A SHA-256 fingerprint, with or without colons.
pub(crate) const FINGERPRINT: &str = "^[ :]*([0-9a-fA-F][ :]*){64}$";
/// A bucket of S3.
pub(crate) const BUCKET: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$";
/// What the keys of a bucket begin with: plain letters, so that every server keeps them as they are.
pub(crate) const KEY_PREFIX: &str = "^[A-Za-z0-9/._-]*$";
/// A region of S3.
pub(crate) const REGION: &str = "^[A-Za-z0-9-]+$";
/// A file in the folder of the outputs.
pub(crate) const OUTPUT: &str = r"^[^./\\\s][^/\\]*(/[^./\\\s][^/\\]*)*$";
/// A SHA-256.
pub(crate) const SHA256: &str = r"^\s*[0-9a-fA-F]{64}\s*$";
/// A server that is logged in to by SSH: a name, an address or an alias.
pub(crate) const SSH_HOST: &str = r"^[^-\s@/\[\]][^\s@/\[\]]*$";
/// Who logs in by SSH.
pub(crate) const SSH_USER: &str = r"^[^-\s:@/][^\s:/]*$";
/// `user@host:port`, as `ssh -J` takes it.
pub(crate) const SSH_JUMP: &str = r"^([^-\s:@/][^\s:/]*@)?[^-\s@/][^\s@/]*$";
/// The name of a release of Helm.
pub(crate) const RELEASE: &str = "^[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?$";
/// Where charts are, without a login.
pub(crate) const CHART_REPO: &str = r"^([hH][tT][tT][pP][sS]?|[oO][cC][iI])://[^@\s]+$";
/// A length of time.
pub(crate) const DURATION: &str = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
