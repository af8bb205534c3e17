//! Everything a command needs to act on one cluster: the inventory, the engine, and the folder where things are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_dial::{Routes, Trust};
use daedal_engine::{Effects, Engine, Entropy, Limits, Outputs, Parts, SystemClock};
use daedal_inventory::{Cluster, Reach, TlsTrust};
use daedal_planner::{Images, World};
use daedal_store::{Keyring, Lock, Owner, Store};

use crate::cli;
use crate::documents::{self, Inventory};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::lab::{self, Link};
use crate::silence::Silence;
use crate::{console, keys, secrets};

/// One cluster, ready to be looked at and acted on.
pub struct Session {
    /// The inventory's path as given.
    pub inventory: PathBuf,
    /// What is declared.
    pub cluster: Cluster,
    /// What the inventory's reader wanted to say.
    pub warnings: Vec<daedal_inventory::Diagnostic>,
    /// The engine.
    pub engine: Engine,
    /// Where secrets are kept.
    pub store: Store,
    /// The image the nodes boot from.
    pub image: Images,
    /// Whether all of it is pretended.
    pub lab: bool,
    /// The process that pretends it.
    pretender: Option<Box<daedal_lab::Handle>>,
    /// Who has not answered yet.
    pub silence: Arc<Silence>,
}

/// How Proxmox, the factory and the nodes are reached and trusted.
struct Access {
    routes: Routes,
    proxmox_trust: Trust,
    factory_trust: Trust,
    token_secret: String,
    limits: Limits,
}

impl Session {
    /// Reads the inventory, finds (or starts) the lab if asked for, and connects nothing yet.
    pub async fn open(target: &cli::Target, color: bool) -> Outcome<Self> {
        Self::with(documents::of(target, color)?, target).await
    }

    /// The same for a command that makes no machine configs: secrets that the inventory refers to may be missing.
    pub async fn open_lacking(target: &cli::Target, color: bool) -> Outcome<Self> {
        Self::with(documents::of_lacking(target, color)?, target).await
    }

    /// The same with an inventory that was read already.
    pub async fn with(inventory: Inventory, target: &cli::Target) -> Outcome<Self> {
        let Inventory { loaded, path, folder } = inventory;
        let mut cluster = loaded.cluster;
        let store = store(target, &folder, &cluster);
        let link = match target.lab {
            true => Some(Box::pin(lab::connect(&target.lab_options, &cluster)).await?),
            false => None,
        };
        let access = match &link {
            Some(link) => {
                cluster.reach = Reach::Proxy(link.proxy_url());
                link.access(routes(&cluster)?)
            }
            None => live_access(&cluster, routes(&cluster)?, &folder, store.keys())?,
        };
        let outputs = outputs_folder(target, &folder, &cluster.name);
        let silence = Silence::watch(&cluster, target.lab);
        let engine = Engine::new(parts(&cluster, access, store.clone(), outputs, silence.clone())?);
        let image = engine.images(&cluster);
        Ok(Self {
            inventory: path,
            cluster,
            warnings: loaded.warnings,
            engine,
            store,
            image,
            lab: target.lab,
            pretender: link.map(|link| Box::new(link.handle)),
            silence,
        })
    }

    /// Makes sure that what was done to a lab outlives it.
    pub async fn keep(&self) -> Outcome<()> {
        match &self.pretender {
            Some(handle) => Box::pin(lab::keep(handle)).await,
            None => Ok(()),
        }
    }

    /// Looks at the world.
    pub async fn observe(&self) -> Outcome<World> {
        self.engine.observe(&self.cluster).await.map_err(|e| engine_failure(&e))
    }

    /// Looks at Proxmox alone: nodes are not asked.
    pub async fn observe_proxmox(&self) -> Outcome<World> {
        self.engine.observe_proxmox(&self.cluster).await.map_err(|e| engine_failure(&e))
    }

    /// Looks at the world without the stored secrets: which ones a mark names does not matter then.
    pub async fn observe_unproven(&self) -> Outcome<World> {
        self.engine.observe_with(&self.cluster, None).await.map_err(|e| engine_failure(&e))
    }

    /// Takes the cluster's lock for the rest of this process's life.
    pub async fn lock(&self, doing: &str) -> Outcome<Lock> {
        lock(&self.store, doing).await
    }
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
    // Whoever just took it needs an instant to write its name, and the message should have it.
    let mut taken = store.lock(&owner).await;
    for _ in 0..50 {
        if !matches!(taken, Err(daedal_store::Error::Locked { owner: None, .. })) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        taken = store.lock(&owner).await;
    }
    let refused = |error| keys::store_failure(&error, Exit::CannotWrite);
    let taken = taken.map_err(refused)?;
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
pub fn store(target: &cli::Target, inventory_folder: &Path, cluster: &Cluster) -> Store {
    let state = state_folder(target, inventory_folder, &cluster.name);
    let keys = match (target.lab, &target.keys.key) {
        (true, None) => Keyring::in_file(target.lab_options.lab_dir.join(lab::CLUSTERS).join("key.txt")),
        _ => target.keys.ring(),
    };
    keys::warn_if_exposed(&keys);
    store_in(state, cluster, keys)
}

/// The store of a cluster in a folder.
pub fn store_in(state: PathBuf, cluster: &Cluster, keys: Keyring) -> Store {
    Store::in_folder(state, &cluster.name, cluster.uuid.to_string(), keys)
}

/// Where the store of a cluster is: the pretend ones with the lab, the real ones beside their inventory, so that the
/// same inventory finds the same secrets from whichever folder the command is run.
fn state_folder(target: &cli::Target, inventory_folder: &Path, cluster: &str) -> PathBuf {
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
pub fn outputs(target: &cli::Target, inventory_folder: &Path, cluster: &Cluster, store: &Store) -> Outputs {
    Outputs::new(outputs_folder(target, inventory_folder, &cluster.name), store.keys().clone())
}

fn outputs_folder(target: &cli::Target, inventory_folder: &Path, cluster: &str) -> PathBuf {
    state_folder(target, inventory_folder, cluster).join("outputs")
}

impl Link {
    fn access(&self, routes: Routes) -> Access {
        Access {
            routes,
            proxmox_trust: Trust::Ca(self.ca_pem.clone()),
            factory_trust: Trust::Ca(self.ca_pem.clone()),
            token_secret: self.token_secret.clone(),
            limits: Limits::of_a_lab(),
        }
    }
}

fn routes(cluster: &Cluster) -> Outcome<Routes> {
    daedal_engine::routes(&cluster.reach).map_err(|e| Failure::from_error(Exit::BadDocument, &e))
}

fn live_access(cluster: &Cluster, routes: Routes, folder: &Path, keys: &Keyring) -> Outcome<Access> {
    let proxmox_trust = trust(&cluster.proxmox.tls, folder)?;
    let factory_trust = trust(&cluster.talos.factory_tls, folder)?;
    let token_secret =
        secrets::read(&cluster.proxmox.token_secret, "the Proxmox API token's secret", folder, keys)
            .map_err(|failure| match failure.exit {
                Exit::MissingSecret if secrets::is_encrypted(&cluster.proxmox.token_secret) => {
                    failure.hint("If the key is lost: `daedal proxmox setup --rotate` makes a new token.")
                }
                _ => failure,
            })?;
    Ok(Access { routes, proxmox_trust, factory_trust, token_secret, limits: Limits::default() })
}

/// A declared trust, with the certificate that it names.
fn trust(declared: &TlsTrust, folder: &Path) -> Outcome<Trust> {
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

fn parts(
    cluster: &Cluster,
    access: Access,
    store: Store,
    outputs: PathBuf,
    silence: Arc<Silence>,
) -> Outcome<Parts> {
    let bad = |error: &(dyn std::error::Error + 'static)| Failure::from_error(Exit::BadDocument, error);
    let token =
        daedal_proxmox::Token::new(&cluster.proxmox.token_id, access.token_secret).map_err(|e| bad(&e))?;
    let proxmox = daedal_proxmox::Client::builder(&cluster.proxmox.endpoint, token)
        .dialer(access.routes.proxmox.clone())
        .trust(access.proxmox_trust)
        .observer(silence)
        .build()
        .map_err(|e| bad(&e))?;
    let factory = daedal_image_factory::Factory::new(
        &cluster.talos.factory,
        access.routes.factory.clone(),
        &access.factory_trust,
    )
    .map_err(|e| bad(&e))?;
    Ok(Parts {
        author: author(),
        proxmox,
        factory,
        routes: access.routes,
        store,
        outputs,
        clock: Arc::new(SystemClock),
        entropy: Entropy::from_seed(rand::random()),
        new_secrets: Parts::generated_secrets(),
        effects: Effects::default(),
        limits: access.limits,
    })
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

fn user_name() -> String {
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
