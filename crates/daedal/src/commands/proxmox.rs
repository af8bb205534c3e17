//! `daedal proxmox setup`: a Proxmox account that may do just what an inventory needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use daedal_engine::{Accounts, Effects, Scope, SystemClock, Use, account_commands};
use daedal_inventory::{Cluster, Reach, SecretRef, TlsTrust};
use daedal_planner::{Account, Secret};
use daedal_proxmox::{Client, Kind, LoginError, NewToken, Token};
use daedal_store::{Keyring, Store};

use super::account::{Asked, ConsentArgs};
use super::proxmox_ccm::CcmArgs;
use super::proxmox_guard::{BackupArgs, FirewallArgs, HaArgs};
use crate::cli::Format;
use crate::contact::{Contact, ContactArgs, secret};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::{self, KeyArgs};
use crate::session::{engine_failure, lock};
use crate::{console, documents, secrets, ssh, stores};

/// Where the token's secret goes if nobody says otherwise.
pub(super) const TOKEN_FILE: &str = "proxmox-token.age";

/// Preparing Proxmox itself.
#[derive(Debug, Subcommand)]
pub enum ProxmoxCommand {
    /// Create the account that Daedal uses: roles with the least privileges, user, API token, ACL entries, pool. A second
    /// run corrects what differs and leaves the rest.
    Setup(Box<SetupArgs>),
    /// Create the account of the Proxmox cloud-controller-manager, which may only see VMs, and store its configuration and
    /// token in the cluster's store.
    Ccm(Box<CcmArgs>),
    /// Turn the VMs' firewall on: the cluster itself, the Talos API, on control planes the Kubernetes API, nothing else.
    Firewall(Box<FirewallArgs>),
    /// Put the control planes under high availability, kept on different hosts.
    Ha(Box<HaArgs>),
    /// Keep a job that backs up all VMs of the cluster.
    BackupJob(Box<BackupArgs>),
}

/// What `proxmox setup` understands.
#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The inventory; the account gets access to its hosts, storages, bridge and pool only.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    contact: ContactArgs,
    /// The token to create [default: daedal@pve!cli, or the inventory's].
    #[arg(long, value_name = "USER@REALM!NAME")]
    token: Option<String>,
    /// Allow only VMs in this resource pool; it is created if it does not exist.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Allow only these hosts.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Allow only these storages for VM disks.
    #[arg(long, value_name = "STORAGE")]
    disks: Vec<String>,
    /// Allow only these storages for images and config media.
    #[arg(long, value_name = "STORAGE")]
    images: Vec<String>,
    /// Allow only these bridges; with --print, write a VNet of an SDN zone as ZONE/VNET.
    #[arg(long = "bridge", value_name = "BRIDGE")]
    bridges: Vec<String>,
    /// What else the token is used for.
    #[arg(long = "with", value_name = "USE", value_delimiter = ',', value_parser = uses())]
    uses: Vec<Use>,
    /// The file for the token's secret, readable only by you; encrypted if it is called NAME.age [default: the
    /// inventory's file, or proxmox-token.age].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Re-create the token if it exists; the old secret stops working.
    #[arg(long)]
    rotate: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Change nothing; print the commands that do the same in a shell on a Proxmox host.
    #[arg(long)]
    print: bool,
    /// The release of Proxmox VE for --print.
    #[arg(long, value_name = "MAJOR", default_value_t = 9, value_parser = clap::value_parser!(u32).range(8..=9))]
    release: u32,
}

/// Who makes accounts.
#[derive(Debug, Args)]
pub struct AdminArgs {
    /// Administrator to log in as: a user with a password, or an API token.
    #[arg(long, value_name = "USER@REALM[!NAME]", default_value = "root@pam")]
    admin: String,
    /// A file with the administrator's password or token secret [default: PROXMOX_ADMIN_SECRET, or a prompt].
    #[arg(long, value_name = "FILE")]
    admin_secret_file: Option<PathBuf>,
}

/// Reads what a token may be used for besides the usual.
fn uses() -> impl TypedValueParser<Value = Use> {
    let known = Use::ALL.map(Use::told).map(|(name, purpose)| PossibleValue::new(name).help(purpose));
    PossibleValuesParser::new(known).try_map(|given| {
        let named = Use::ALL.into_iter().find(|usage| usage.told().0 == given);
        named.ok_or_else(|| format!("there is no use called {given}"))
    })
}

/// Runs the command.
pub async fn run(command: &ProxmoxCommand, format: Format, color: bool) -> Outcome {
    match command {
        ProxmoxCommand::Setup(args) => Box::pin(setup(args, format, color)).await,
        ProxmoxCommand::Firewall(args) => super::proxmox_guard::firewall(args, format, color).await,
        ProxmoxCommand::Ha(args) => super::proxmox_guard::ha(args, format, color).await,
        ProxmoxCommand::BackupJob(args) => super::proxmox_guard::backup(args, format, color).await,
        ProxmoxCommand::Ccm(args) => Box::pin(super::proxmox_ccm::run(args, format, color)).await,
    }
}

/// What is to be made, and where its secret goes.
struct Wish {
    scope: Scope,
    token: String,
    secret_file: PathBuf,
    contact: ContactArgs,
    /// The cluster and the folder of its inventory, where one is given.
    cluster: Option<(Cluster, PathBuf)>,
}

impl Wish {
    /// The cluster's store. No folder is made for it: the account comes first.
    async fn store(&self, keys: &KeyArgs) -> Outcome<Option<Store>> {
        let Some((cluster, folder)) = &self.cluster else { return Ok(None) };
        let store = stores::declared(cluster, folder, keys.ring_of(cluster, folder)).await?;
        Ok((!cluster.store.is_folder() || store.place().exists()).then_some(store))
    }
}

async fn setup(args: &SetupArgs, format: Format, color: bool) -> Outcome {
    let mut wish = wish(args, color)?;
    if args.print {
        return print(args, wish, format);
    }
    let contact = wish.contact.open().await?;
    let keys = args.keys.ring();
    let admin = administrator(&args.admin, &contact, &keys).await?;
    let version = admin.version().await.map_err(|e| call_failure(&e))?.version;
    let release = daedal_proxmox::release(&version).map_or(9, |(major, _)| major);
    wish.scope.zones = daedal_engine::vnet_zones(&admin).await;
    let account = account(&wish, release)?;
    let secret = match args.rotate {
        true => Secret::Rotate,
        false => match kept(&wish.secret_file, &keys)? {
            Some(secret) if works(&secret, &contact, &account).await => Secret::Known,
            _ => Secret::Unknown,
        },
    };
    let file = &wish.secret_file;
    let store = wish.store(&args.keys).await?;
    let _lock = match &store {
        Some(store) if !args.consent.plan_only => Some(lock(store, "proxmox setup").await?),
        _ => None,
    };
    let asked = Asked {
        account: &account,
        secret,
        goes_to: file.display().to_string(),
        elsewhere: "If its secret is in another file, name it: --secret-file FILE.",
        place: format!("Proxmox VE {version} at {}", contact.endpoint),
        consent: &args.consent,
        format,
    };
    // A token whose secret cannot be kept must not be made, nor one deleted for it.
    let ready = async || match secrets::is_named_encrypted(file) && secret != Secret::Known {
        true => keys::make(&keys),
        false => Ok(()),
    };
    let keep =
        async |made: &NewToken| secrets::write(file, made.expose(), &keys).map_err(std::io::Error::other);
    let accounts = Accounts {
        admin: &admin,
        effects: &Effects::default(),
        store: store.as_ref(),
        clock: Arc::new(SystemClock),
    };
    let carried = Box::pin(asked.carry_out(&accounts, ready, keep)).await?;
    match format {
        Format::Json => {
            let mut json = carried.as_json();
            json["secretFile"] = serde_json::json!(file);
            json["version"] = version.into();
            console::json(&json);
        }
        Format::Text if carried.done => console::answer(&format!(
            "\nThe inventory names it so:\n\n  token: {{id: \"{}\", secret: {{file: {}}}}}\n",
            account.token_id(),
            file.display()
        )),
        Format::Text => {}
    }
    Ok(Exit::Done)
}

/// Prints the account as a script instead.
fn print(args: &SetupArgs, wish: Wish, format: Format) -> Outcome {
    let account = account(&wish, args.release)?;
    // The key is here, not on the host; nor are the folders.
    let file = match secrets::is_named_encrypted(&wish.secret_file) {
        true => wish.secret_file.with_extension(""),
        false => wish.secret_file,
    };
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let (id, shown) = (account.token_id(), file.display());
    let next = match args.file {
        Some(_) => {
            format!("and let the inventory name it: token: {{id: \"{id}\", secret: {{file: {shown}}}}}")
        }
        None => format!("and go on with: daedal init --token '{id}' --secret-file {shown}"),
    };
    let next = format!("Move {name} to the machine that daedal runs on, as {shown}, {next}");
    let script = format!(
        "# For Proxmox VE {}; run it as root on one of its hosts.\n{}",
        args.release,
        account_commands(&account, &name, &next)
    );
    match format {
        Format::Json => console::json(&serde_json::json!({"token": id, "script": script})),
        Format::Text => console::result(&script),
    }
    Ok(Exit::Done)
}

/// Flags win over the inventory, the inventory over defaults.
fn wish(args: &SetupArgs, color: bool) -> Outcome<Wish> {
    let set = |names: &[String]| names.iter().cloned().collect();
    let mut wish = Wish {
        scope: Scope::default(),
        token: "daedal@pve!cli".to_owned(),
        secret_file: PathBuf::from(TOKEN_FILE),
        contact: args.contact.clone(),
        cluster: None,
    };
    if let Some(file) = &args.file {
        let inventory = documents::read_apart(file, &args.keys, color)?;
        let cluster = &inventory.loaded.cluster;
        wish.scope = Scope::of(cluster);
        wish.token.clone_from(&cluster.proxmox.token_id);
        wish.secret_file = match cluster.proxmox.token_secret.place() {
            SecretRef::File(path) => secrets::resolve(path, &inventory.folder),
            _ => inventory.folder.join(TOKEN_FILE),
        };
        let keys = args.keys.ring_of(cluster, &inventory.folder);
        complete(&mut wish.contact, cluster, &inventory.folder, &keys)?;
        wish.cluster = Some((cluster.clone(), inventory.folder));
    }
    let scope = &mut wish.scope;
    for (given, wanted) in [
        (&args.hosts, &mut scope.hosts),
        (&args.disks, &mut scope.disks),
        (&args.images, &mut scope.images),
        (&args.bridges, &mut scope.bridges),
    ] {
        if !given.is_empty() {
            *wanted = set(given);
        }
    }
    if args.pool.is_some() {
        scope.pool.clone_from(&args.pool);
    }
    scope.uses.extend(args.uses.iter().copied());
    if let Some(token) = &args.token {
        wish.token.clone_from(token);
    }
    if let Some(file) = &args.secret_file {
        wish.secret_file.clone_from(file);
    }
    Ok(wish)
}

/// What the flags leave open about reaching Proxmox, the inventory says.
pub(super) fn complete(
    contact: &mut ContactArgs,
    cluster: &Cluster,
    folder: &Path,
    keys: &Keyring,
) -> Outcome<()> {
    contact.endpoint.get_or_insert_with(|| cluster.proxmox.endpoint.clone());
    if contact.fingerprint.is_none() && contact.ca.is_none() && !contact.insecure {
        match &cluster.proxmox.tls {
            TlsTrust::System => {}
            TlsTrust::Insecure => contact.insecure = true,
            TlsTrust::Fingerprint(pin) => contact.fingerprint = Some(pin.clone()),
            TlsTrust::Ca(path) => contact.ca = Some(secrets::resolve(path, folder)),
        }
    }
    if let (None, Reach::Proxy(url)) = (&contact.proxy, &cluster.reach) {
        contact.proxy = Some(url.clone());
    }
    if let Reach::Ssh(declared) = &cluster.reach
        && declared.proxmox
    {
        contact.ssh = ssh::open(&cluster.reach, folder, keys)?;
    }
    Ok(())
}

fn account(wish: &Wish, release: u32) -> Outcome<Account> {
    // A token with any secret has the right shape or has not.
    Token::new(&wish.token, "x").map_err(|e| Failure::from_error(Exit::Usage, &e))?;
    let (user, token) = wish.token.split_once('!').unwrap_or_default();
    Ok(Account {
        user: user.to_owned(),
        token: token.to_owned(),
        comment: "Talos clusters, kept by daedal".to_owned(),
        pool: wish.scope.pool.clone(),
        grants: wish.scope.grants(release),
    })
}

pub(super) async fn administrator(args: &AdminArgs, contact: &Contact, keys: &Keyring) -> Outcome<Client> {
    let bad = |error: &(dyn std::error::Error + 'static)| Failure::from_error(Exit::Usage, error);
    let what = match args.admin.contains('!') {
        true => format!("The secret of the token {}", args.admin),
        false => format!("The password of {}", args.admin),
    };
    let secret = secret(args.admin_secret_file.as_ref(), "PROXMOX_ADMIN_SECRET", &what, keys)?;
    if args.admin.contains('!') {
        let token = Token::new(&args.admin, secret).map_err(|e| bad(&e))?;
        let builder = Client::builder(&contact.endpoint, token);
        return builder
            .dialer(contact.dialer.clone())
            .trust(contact.trust.clone())
            .build()
            .map_err(|e| bad(&e));
    }
    let builder =
        Client::anonymous(&contact.endpoint).dialer(contact.dialer.clone()).trust(contact.trust.clone());
    builder.log_in(&args.admin, &secret).await.map_err(|error| match error {
        LoginError::Build(error) => bad(&error),
        LoginError::Call(error) => match error.kind() {
            Kind::Auth { .. } => Failure::new(
                Exit::Denied,
                format!("Proxmox does not let {} in with that password", args.admin),
            ),
            _ => call_failure(&error),
        },
        LoginError::SecondFactor { .. } => Failure::from_error(Exit::Denied, &error).hint(
            "Make an API token in the web interface and give it as --admin USER@REALM!NAME, or use --print.",
        ),
    })
}

/// Whether the secret that is kept already opens the door.
pub(super) async fn works(secret: &str, contact: &Contact, account: &Account) -> bool {
    let Ok(token) = Token::new(account.token_id(), secret) else { return false };
    let client = Client::builder(&contact.endpoint, token)
        .dialer(contact.dialer.clone())
        .trust(contact.trust.clone())
        .build();
    match client {
        Ok(client) => client.version().await.is_ok(),
        Err(_) => false,
    }
}

/// The secret that is kept already. One that cannot be read is no reason to make another.
fn kept(file: &Path, keys: &Keyring) -> Outcome<Option<String>> {
    match file.exists() {
        true => {
            let reference = SecretRef::File(file.to_owned());
            secrets::read(&reference, "the token's secret", Path::new(""), keys).map(Some)
        }
        false => Ok(None),
    }
}

/// Why an account could not be made.
pub(super) fn account_failure(error: &daedal_engine::Error) -> Failure {
    let failure = engine_failure(error);
    match error {
        daedal_engine::Error::NotKept { .. } => Failure { exit: Exit::CannotWrite, ..failure },
        _ => failure,
    }
}

pub(super) fn call_failure(error: &daedal_proxmox::Error) -> Failure {
    engine_failure(&daedal_engine::Error::Proxmox(error.clone()))
}
