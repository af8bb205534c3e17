//! Everything a command needs to act on one cluster: the inventory, the engine, and the folder where things are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_app::{Access, AddonParts, Keeping};
use daedal_dial::{Dialer, Direct, Refused, Routes, Trust};
use daedal_engine::{Limits, NoFiles, NotInFactory, Outputs};
use daedal_inventory::{Cluster, Reach, TlsTrust};
use daedal_planner::{PlanError, WhyNoRestore, World};
use daedal_store::{Keyring, Lock, Owner, Store};

use crate::cli;
use crate::documents::{self, Inventory};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::lab::{self, Link};
use crate::silence::{Silence, while_asking};
use crate::{advice, console, keys, part, secrets, ssh, stores};

/// One cluster, ready to be looked at and acted on.
pub struct Session {
    /// The inventory's path as given.
    pub inventory: PathBuf,
    /// What the inventory's reader wanted to say.
    pub warnings: Vec<daedal_inventory::Diagnostic>,
    /// The use cases.
    app: daedal_app::Session,
    /// Whether all of it is pretended.
    pub lab: bool,
    /// The process that pretends it.
    pretender: Option<Box<daedal_lab::Handle>>,
    /// Who has not answered yet.
    pub silence: Arc<Silence>,
    /// The SSH server that the nodes are reached through.
    ssh: Option<daedal_ssh::Ssh>,
}

impl std::ops::Deref for Session {
    type Target = daedal_app::Session;

    fn deref(&self) -> &Self::Target {
        &self.app
    }
}

impl Session {
    /// Reads the inventory, finds (or starts) the lab if asked for, and connects nothing yet.
    pub async fn open(target: &cli::Target, color: bool) -> Outcome<Self> {
        Self::with(documents::of(target, color)?, target).await
    }

    /// The same for a command that makes no machine configs: secrets that the inventory refers to may be missing.
    pub async fn open_lacking(target: &cli::Target, color: bool) -> Outcome<Self> {
        Self::made(documents::of_lacking(target, color)?, target, Opening::Lacking).await
    }

    /// The same for a command that contacts neither Proxmox nor a node: no token is read, and every connection is refused.
    pub async fn open_apart(target: &cli::Target, color: bool) -> Outcome<Self> {
        Self::made(documents::of(target, color)?, target, Opening::Apart).await
    }

    /// The same with an inventory that was read already.
    pub async fn with(inventory: Inventory, target: &cli::Target) -> Outcome<Self> {
        Self::made(inventory, target, Opening::Whole).await
    }

    async fn made(inventory: Inventory, target: &cli::Target, opening: Opening) -> Outcome<Self> {
        let Inventory { loaded, path, folder } = inventory;
        let mut cluster = loaded.cluster;
        let contacts = opening != Opening::Apart;
        let store = match store(target, &folder, &cluster).await {
            // Whatever needs it ends with the reason.
            Err(failure) if opening == Opening::Lacking && failure.exit == Exit::MissingSecret => {
                stores::unopened(&cluster, &folder, target.keys.ring(), &failure)
            }
            opened => opened?,
        };
        let link = match (target.lab, part::current()) {
            (false, _) => None,
            (true, None) => Some(Box::pin(lab::connect(&target.lab_options, &cluster)).await?),
            (true, Some(part)) => {
                let beside = part.declared();
                Some(Box::pin(lab::connect_beside(&target.lab_options, &cluster, beside)).await?)
            }
        };
        if let Some(link) = &link {
            cluster.reach = Reach::Proxy(link.proxy_url());
        }
        let silence = Silence::watch(&cluster, target.lab);
        let ssh = match contacts {
            true => ssh::open(&cluster.reach, &folder, store.keys())?,
            false => None,
        };
        let routes = match contacts {
            true => routes(&cluster, ssh.as_ref())?,
            false => Routes::same(Arc::new(Refused("this command contacts neither Proxmox nor the nodes"))),
        };
        let access = match &link {
            None if !contacts => no_access(routes, silence.clone()),
            Some(link) => link.access(routes, silence.clone()),
            None => live_access(&cluster, routes, &folder, store.keys(), silence.clone())?,
        };
        // A lab is reached by its proxy, but snippets go the declared way there, too.
        let to_host = match &link {
            Some(link) if cluster.boot.by_snippet() => ssh::open(&link.by_ssh(), &folder, store.keys())?,
            _ => ssh.clone(),
        };
        let addons = Arc::new(addon_parts(target, &folder, &store, link.as_ref().map(|_| &access)));
        let access = Access { host_files: to_host.map(ssh::files), addons, ..access };
        let outputs = outputs_folder(target, &folder, &cluster.name);
        let keeping = Keeping { store, outputs, author: author(), seed: rand::random() };
        let app = daedal_app::Session::connect(&target.sites, cluster, access, keeping);
        Ok(Self {
            inventory: path,
            warnings: loaded.warnings,
            app: app.map_err(|error| failure(&error))?,
            lab: target.lab,
            pretender: link.map(|link| Box::new(link.handle)),
            silence,
            ssh,
        })
    }

    /// Makes sure that what was done to a lab outlives it.
    pub async fn keep(&self) -> Outcome<()> {
        match &self.pretender {
            Some(handle) => Box::pin(lab::keep(handle)).await,
            None => Ok(()),
        }
    }

    /// Logs in to the SSH server on the way, if there is one: questions and refusals come before anything else.
    pub async fn log_in(&self) -> Outcome<()> {
        match &self.ssh {
            Some(ssh) => ssh.connect().await.map_err(|error| ssh::failure(&error)),
            None => Ok(()),
        }
    }

    /// Looks at the world.
    pub async fn observe(&self) -> Outcome<World> {
        self.log_in().await?;
        self.engine.observe_machines(&self.cluster).await.map_err(|e| engine_failure(&e))
    }

    /// Looks at the world with what add-ons there are.
    pub async fn observe_addons(&self) -> Outcome<World> {
        self.log_in().await?;
        self.engine.observe(&self.cluster).await.map_err(|e| engine_failure(&e))
    }

    /// Takes the cluster's lock for the rest of this process's life.
    pub async fn lock(&self, doing: &str) -> Outcome<Lock> {
        lock(&self.store, doing).await
    }
}

/// What a session is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// For anything.
    Whole,
    /// For what can do without some of the secrets, and says which.
    Lacking,
    /// For what contacts neither Proxmox nor a node.
    Apart,
}

/// Takes a cluster's lock until it is dropped.
pub async fn lock(store: &Store, doing: &str) -> Outcome<Lock> {
    let owner = Owner {
        who: user_name(),
        machine: machine_name(),
        pid: std::process::id(),
        doing: doing.to_owned(),
        since: jiff::Timestamp::now(),
    };
    let whom = format!("the lock of {}", store.place().display());
    let refused = |error| keys::store_failure(&error, Exit::CannotWrite);
    let taken = while_asking(&whom, daedal_app::lock(store, &owner)).await.map_err(refused)?;
    if !store.has_plain_secrets().await.map_err(refused)? {
        return Ok(taken);
    }
    keys::ensure(store, false).await?;
    if store.encrypt_plain_secrets().await.map_err(refused)? {
        console::say(&format!(
            "The secrets in {} were kept in plain by an older version; they are encrypted now, with the key {}.",
            store.place().display(),
            store.keys().place()
        ));
    }
    Ok(taken)
}

/// The store of a cluster. Pretend clusters have a key of their own, which goes with them.
///
/// It is where the inventory says, unless somebody names a folder; that of a pretend cluster never is with the real ones, and
/// neither are its secrets in the file of the real ones.
pub async fn store(target: &cli::Target, inventory_folder: &Path, cluster: &Cluster) -> Outcome<Store> {
    let keys = ring(target, inventory_folder, cluster);
    keys::warn_if_exposed(&keys);
    let store = match target.lab || target.state.is_some() {
        true => store_in(state_folder(target, inventory_folder, &cluster.name), cluster, keys.clone()),
        false => stores::declared(cluster, inventory_folder, keys.clone()).await?,
    };
    match target.lab {
        true => Ok(store),
        false => stores::with_bundle(store, cluster, inventory_folder, &keys),
    }
}

/// The keys of a cluster's store.
pub fn ring(target: &cli::Target, inventory_folder: &Path, cluster: &Cluster) -> Keyring {
    match (target.lab, &target.keys.key) {
        (true, None) => Keyring::in_file(target.lab_options.lab_dir.join(lab::CLUSTERS).join("key.txt")),
        _ => target.keys.ring_of(cluster, inventory_folder),
    }
}

/// The store of a cluster in a folder.
pub fn store_in(state: PathBuf, cluster: &Cluster, keys: Keyring) -> Store {
    Store::in_folder(state, &cluster.name, cluster.uuid.to_string(), keys)
}

/// Where the store of a cluster is: the pretend ones with the lab, the real ones beside their inventory, so that the
/// same inventory finds the same secrets from whichever folder the command is run.
pub fn state_folder(target: &cli::Target, inventory_folder: &Path, cluster: &str) -> PathBuf {
    match &target.state {
        Some(state) => state.clone(),
        None if target.lab => target.lab_options.lab_dir.join(lab::CLUSTERS).join(cluster),
        None => state_beside(inventory_folder, cluster),
    }
}

/// Where the store of a real cluster is, unless somebody says otherwise.
pub fn state_beside(inventory_folder: &Path, cluster: &str) -> PathBuf {
    inventory_folder.join(".daedal").join(cluster)
}

/// The outputs of a cluster.
pub fn outputs(target: &cli::Target, inventory_folder: &Path, cluster: &Cluster) -> Outputs {
    Outputs::new(
        outputs_folder(target, inventory_folder, &cluster.name),
        ring(target, inventory_folder, cluster),
    )
}

fn outputs_folder(target: &cli::Target, inventory_folder: &Path, cluster: &str) -> PathBuf {
    state_folder(target, inventory_folder, cluster).join("outputs")
}

/// Where a cluster's files on this machine are, wherever its store is.
pub fn local_folder(target: &cli::Target, session: &Session) -> PathBuf {
    let folder = session.inventory.parent().unwrap_or(Path::new(""));
    state_folder(target, folder, &session.cluster.name)
}

impl Link {
    fn access(&self, routes: Routes, observer: Arc<Silence>) -> Access {
        Access {
            routes,
            proxmox_trust: Trust::Ca(self.ca_pem.clone()),
            factory_trust: Trust::Ca(self.ca_pem.clone()),
            host_files: None,
            token_secret: self.token_secret.clone(),
            addons: Arc::new(NoFiles),
            limits: Limits::of_a_lab(),
            observer,
        }
    }
}

/// Where the parts of add-ons come from: charts are kept with the stores, or with the lab.
fn addon_parts(target: &cli::Target, folder: &Path, store: &Store, lab: Option<&Access>) -> AddonParts {
    let (dialer, trust): (Dialer, Trust) = match lab {
        Some(access) => (access.routes.factory.clone(), access.factory_trust.clone()),
        None => (Arc::new(Direct), Trust::System),
    };
    let cache = match target.lab {
        true => target.lab_options.lab_dir.join("charts"),
        false => folder.join(".daedal").join("charts"),
    };
    let (beside, keys) = (folder.to_owned(), store.keys().clone());
    AddonParts {
        store: store.clone(),
        locking: Arc::default(),
        folder: folder.to_owned(),
        cache,
        secrets: Arc::new(move |reference, what| {
            secrets::read(reference, what, &beside, &keys).map_err(|failure| failure.message)
        }),
        dialer,
        trust,
        // Charts of a lab are others, under the same names.
        locks: lab.is_none(),
    }
}

/// The declared way to each kind of peer.
pub fn routes(cluster: &Cluster, ssh: Option<&daedal_ssh::Ssh>) -> Outcome<Routes> {
    let ssh = ssh.map(|ssh| Arc::new(ssh.clone()) as Dialer);
    daedal_engine::routes(&cluster.reach, ssh).map_err(|e| Failure::from_error(Exit::BadDocument, &e))
}

/// Access to nobody, for a session that only makes files.
fn no_access(routes: Routes, observer: Arc<Silence>) -> Access {
    Access {
        routes,
        proxmox_trust: Trust::System,
        factory_trust: Trust::System,
        host_files: None,
        // No call carries it anywhere.
        token_secret: "unused".to_owned(),
        addons: Arc::new(NoFiles),
        limits: Limits::default(),
        observer,
    }
}

fn live_access(
    cluster: &Cluster,
    routes: Routes,
    folder: &Path,
    keys: &Keyring,
    observer: Arc<Silence>,
) -> Outcome<Access> {
    let proxmox_trust = trust(&cluster.proxmox.tls, folder)?;
    let factory_trust = trust(&cluster.talos.factory_tls, folder)?;
    let token_secret =
        secrets::read(&cluster.proxmox.token_secret, "the Proxmox API token's secret", folder, keys)
            .map_err(|failure| match failure.exit {
                Exit::MissingSecret if secrets::is_encrypted(&cluster.proxmox.token_secret) => {
                    failure.hint(format!(
                        "If the key is lost, to make a new token: {}",
                        advice::with_file("proxmox setup --rotate")
                    ))
                }
                _ => failure,
            })?;
    let limits = Limits::default();
    let host_files = None;
    let addons = Arc::new(NoFiles);
    Ok(Access { routes, proxmox_trust, factory_trust, host_files, token_secret, addons, limits, observer })
}

/// A declared trust, with the certificate that it names.
pub fn trust(declared: &TlsTrust, folder: &Path) -> Outcome<Trust> {
    Ok(match declared {
        TlsTrust::System => Trust::System,
        TlsTrust::Insecure => Trust::Insecure,
        TlsTrust::Fingerprint(text) => Trust::Fingerprint(
            text.parse().map_err(|e: daedal_dial::TrustError| Failure::from_error(Exit::BadDocument, &e))?,
        ),
        TlsTrust::Ca(path) => {
            let path = secrets::resolve(path, folder);
            let pem = std::fs::read_to_string(&path).map_err(|error| {
                Failure::new(Exit::NoInput, format!("cannot read the CA certificate {}", path.display()))
                    .because(&error)
            })?;
            Trust::Ca(pem)
        }
    })
}

/// Why a use case ended early, as a failure with what helps and the exit code that fits.
pub fn failure(error: &daedal_app::Error) -> Failure {
    use daedal_app::Error;
    match error {
        Error::Engine(error) => engine_failure(error),
        Error::Store(error) => keys::store_failure(error, Exit::CannotWrite),
        Error::Plan(PlanError::NoRestore { cluster, why: WhyNoRestore::Blocked(advice) }) => {
            let why = daedal_words::sentence(advice);
            let message = format!("the snapshot is not restored into cluster {cluster}: {why}");
            Failure::new(Exit::Failed, message).advise(daedal_words::remedy(advice).as_ref())
        }
        Error::Plan(refused) => Failure::from_error(Exit::Failed, refused).advise(refused.fix().as_ref()),
        Error::Unsafe(findings) => {
            let causes = findings.iter().map(ToString::to_string).collect();
            Failure { causes, ..Failure::new(Exit::Failed, error.to_string()) }
        }
        Error::NotAnApply => Failure::new(Exit::BadDocument, error.to_string()).hint(format!(
            "To remove a cluster: {}; to remove nodes: {}",
            advice::here("destroy"),
            advice::here("node remove NODE")
        )),
        Error::NoLongerFits(why) => {
            let mut failure = Failure::from_error(Exit::Failed, error);
            if let Some(first) = failure.causes.first_mut() {
                *first = daedal_words::unfit(why);
            }
            failure.hint(format!("To make a new one: {}", advice::here("plan --save FILE")))
        }
        Error::NotBuildable { missing, .. } => {
            let cause = |missing: &NotInFactory| {
                let fix = missing.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
                format!("{}{fix}", missing.found)
            };
            let causes = missing.iter().map(cause).collect();
            Failure { causes, ..Failure::new(Exit::BadDocument, error.to_string()) }
                .hint("Nothing was done. Change `talos` in the inventory.")
        }
        Error::Token(_) | Error::Client(_) | Error::Factory(_) => {
            Failure::from_error(Exit::BadDocument, error)
        }
        Error::Refused(_) => Failure::from_error(Exit::Failed, error),
    }
}

/// The engine's error as a failure, with what helps and the exit code that fits.
pub fn engine_failure(error: &daedal_engine::Error) -> Failure {
    use daedal_proxmox::Kind;
    if let daedal_engine::Error::Store(inner) = error {
        return keys::store_failure(inner, Exit::Failed);
    }
    let mut failure = Failure::from_error(Exit::of(error.kind()), error);
    if let daedal_engine::Error::Proxmox(inner) = error
        && let Kind::Untrusted { endpoint, .. } = inner.kind()
    {
        failure = failure.hint(format!(
            "Print its fingerprint: openssl s_client -connect {endpoint} </dev/null | openssl x509 -noout -fingerprint \
             -sha256"
        ));
        failure = failure.hint(
            "Compare it with what Proxmox shows under System → Certificates (or `pvenode cert info`), and pin it in the \
             inventory: `tls: {fingerprint: …}`.",
        );
    }
    failure.advise(error.fix().as_ref())
}

/// Who runs this.
pub fn user_name() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "someone".into())
}

/// Who this is, in the letters that a mark may have.
fn author() -> String {
    let plain = |text: String| -> String {
        let letters =
            text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' });
        letters.take(40).collect()
    };
    format!("{}@{}", plain(user_name()), plain(machine_name()))
}

fn machine_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map_or_else(|| "this machine".to_owned(), |name| name.trim().to_owned())
}
