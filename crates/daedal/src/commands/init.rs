//! `daedal init`: looks at a Proxmox and writes the inventory of a cluster that fits on it.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser as _};
use daedal_app::{Choice, Draft, Lack, Survey, Wishes, addresses};
use daedal_dial::Trust;
use daedal_proxmox::{Client, Token};
use daedal_store::Keyring;
use ipnet::Ipv4Net;
use zeroize::Zeroizing;

use super::proxmox::TOKEN_FILE;
use crate::cli::{Cli, Command, Format};
use crate::contact::{Contact, ContactArgs, secret};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::{self, KeyArgs};
use crate::session::engine_failure;
use crate::words::count;
use crate::{console, documents, secrets};

/// Where the token's secret is looked for.
const SECRET: &str = "PROXMOX_TOKEN_SECRET";

/// What `init` understands. What is not given is looked up in Proxmox, or asked for on a terminal.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The inventory to write; an existing file is never overwritten.
    #[arg(short, long, value_name = "FILE", default_value = "cluster.yaml")]
    file: PathBuf,
    #[command(flatten)]
    contact: ContactArgs,
    /// The API token's id.
    #[arg(long, value_name = "USER@REALM!NAME")]
    token: Option<String>,
    /// A file with the token's secret [default: PROXMOX_TOKEN_SECRET, or a prompt].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// The cluster's name.
    #[arg(long, default_value = "home")]
    name: String,
    /// Hosts to use [default: all online hosts].
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Storage for VM disks.
    #[arg(long, value_name = "STORAGE")]
    disks: Option<String>,
    /// Storage for images and config media.
    #[arg(long, value_name = "STORAGE")]
    images: Option<String>,
    /// Bridge.
    #[arg(long)]
    bridge: Option<String>,
    /// Resource pool.
    #[arg(long)]
    pool: Option<String>,
    /// The nodes' network [default: that of the hosts on the bridge].
    #[arg(long, value_name = "CIDR")]
    network: Option<Ipv4Net>,
    /// The network's gateway [default: that of the hosts].
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<Ipv4Addr>,
    /// DNS servers.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', default_values_t = ["1.1.1.1".to_owned(), "8.8.8.8".to_owned()])]
    dns: Vec<String>,
    /// The number of control planes [default: 3 on three or more hosts, else 1].
    #[arg(long, value_name = "N")]
    control_planes: Option<u32>,
    /// The number of workers.
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: u32,
    /// Talos version.
    #[arg(long, value_name = "VERSION", default_value = "v1.12.0")]
    talos: String,
}

/// Runs the command.
pub async fn run(args: &InitArgs, format: Format, color: bool) -> Outcome {
    refuse_existing(&args.file, "-f")?;
    let contact = args.contact.open().await?;
    let keys = args.keys.ring();
    let Secret { token, reference, typed } = token(args, &keys)?;
    let token_id = token.id().to_owned();
    let client = Client::builder(&contact.endpoint, token)
        .dialer(contact.dialer.clone())
        .trust(contact.trust.clone())
        .build()
        .map_err(|e| Failure::from_error(Exit::Usage, &e))?;
    let survey =
        Survey::of(&client).await.map_err(|error| engine_failure(&daedal_engine::Error::Proxmox(error)))?;
    let (draft, fixes) = draft(args, &contact, &survey, token_id, reference)?;
    let text = draft.render();
    // Whatever was chosen, the document must read well before it is one.
    documents::parse(args.file.clone(), text.clone(), &args.keys, color)?;
    if let Some((file, secret)) = typed {
        keys::make(&keys)?;
        refuse_existing(&file, "-f")?;
        secrets::write(&file, &secret, &keys).map_err(|error| keys::failure(&error, Exit::CannotWrite))?;
    }
    write_new(&args.file, &text)?;
    match format {
        Format::Json => {
            console::json(&serde_json::json!({
                "file": args.file,
                "version": survey.version,
                "hosts": draft.hosts,
                "storage": {"disks": draft.disks, "images": draft.images},
                "bridge": draft.bridge,
                "vmid": draft.vmid,
                "fixes": fixes,
            }));
            Ok(Exit::Done)
        }
        Format::Text => {
            console::answer(&said(args, &draft, &fixes));
            Box::pin(check(args, color)).await
        }
    }
}

fn said(args: &InitArgs, draft: &Draft, fixes: &[String]) -> String {
    let mut text = format!(
        "Wrote {}: cluster {} with {} and {} on {}.\n",
        args.file.display(),
        draft.name,
        count(draft.control_planes as usize, "control plane"),
        count(draft.workers as usize, "worker"),
        draft.hosts.join(", "),
    );
    if !fixes.is_empty() {
        text.push_str("Before an apply, on a Proxmox host:\n");
        for fix in fixes {
            text.push_str(&format!("  {fix}\n"));
        }
    }
    text
}

/// Says at once whether Proxmox can do what was written, as `check --live` does.
async fn check(args: &InitArgs, color: bool) -> Outcome {
    let file = args.file.as_os_str();
    let mut words = vec!["daedal".as_ref(), "check".as_ref(), "--live".as_ref(), "-f".as_ref(), file];
    if let Some(key) = &args.keys.key {
        words.extend(["--key".as_ref(), key.as_os_str()]);
    }
    let cli = Cli::try_parse_from(words).map_err(|e| Failure::from_error(Exit::Failed, &e))?;
    match cli.command {
        Command::Check { target, live, findings, .. } => {
            let options = super::check::Options::of(findings, live);
            Box::pin(super::check::run(&target, &options, cli.global.output, color)).await
        }
        _ => Ok(Exit::Done),
    }
}

/// Says so if a file is there already, and which option names another.
pub(super) fn refuse_existing(file: &Path, option: &str) -> Outcome<()> {
    if file.exists() {
        return Err(Failure::new(Exit::CannotWrite, format!("{} exists already", file.display())).hint(
            format!("Move it away, or name another file with {option} FILE: nothing is overwritten."),
        ));
    }
    Ok(())
}

/// Writes a file that is not there yet.
pub(super) fn write_new(file: &Path, text: &str) -> Outcome<()> {
    let open = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    open.and_then(|mut open| open.write_all(text.as_bytes())).map_err(|error| {
        Failure::new(Exit::CannotWrite, format!("cannot write {}", file.display())).because(&error)
    })
}

/// The token, and where its secret is.
struct Secret {
    token: Token,
    /// How the inventory refers to it.
    reference: String,
    /// It was typed, and must be in this file the next time.
    typed: Option<(PathBuf, Zeroizing<String>)>,
}

fn token(args: &InitArgs, keys: &Keyring) -> Outcome<Secret> {
    let id = match &args.token {
        Some(id) => id.clone(),
        None => console::ask("API token (such as daedal@pve!cli; `daedal proxmox setup` makes one)?")
            .filter(|answer| !answer.is_empty())
            .ok_or_else(|| {
                Failure::new(Exit::Usage, "no API token is configured")
                    .hint("--token 'daedal@pve!cli'; `daedal proxmox setup` makes one.")
            })?,
    };
    let in_environment = std::env::var(SECRET).is_ok_and(|value| !value.is_empty());
    let question = format!("The secret of the token {id}");
    let value = Zeroizing::new(secret(args.secret_file.as_ref(), SECRET, &question, keys)?);
    let token = Token::new(&id, value.as_str()).map_err(|e| Failure::from_error(Exit::Usage, &e))?;
    let mut typed = None;
    let reference = match &args.secret_file {
        Some(file) => format!("{{file: {}}}", path_in(&args.file, file)),
        None if in_environment => format!("{{env: {SECRET}}}"),
        None => {
            let file = args.file.with_file_name(TOKEN_FILE);
            refuse_existing(&file, "-f")?;
            let reference = format!("{{file: {}}}", path_in(&args.file, &file));
            typed = Some((file, value));
            reference
        }
    };
    Ok(Secret { token, reference, typed })
}

/// Paths in an inventory are relative to it: a file beside it is named, one elsewhere is written out.
fn path_in(inventory: &Path, file: &Path) -> serde_json::Value {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (inventory, file) = (whole(inventory), whole(file));
    let beside = inventory.parent().and_then(|folder| file.strip_prefix(folder).ok());
    serde_json::Value::from(beside.unwrap_or(&file).display().to_string())
}

fn draft(
    args: &InitArgs,
    contact: &Contact,
    survey: &Survey,
    token: String,
    secret: String,
) -> Outcome<(Draft, Vec<String>)> {
    let (disks, images, bridge) = (args.disks.clone(), args.images.clone(), args.bridge.clone());
    let wishes = Wishes { hosts: args.hosts.clone(), disks, images, bridge };
    let Choice { hosts, disks, images, content, bridge } =
        survey.choose(&wishes).map_err(|lack| lacking(&lack))?;
    let fixes =
        content.map(|content| format!("pvesm set {images} --content {content}")).into_iter().collect();
    let (network, gateway) = network(args, survey, &bridge)?;
    let mut taken = survey.taken();
    taken.insert(gateway);
    let addresses = addresses(network, &taken, args.workers).ok_or_else(|| {
        Failure::new(Exit::Failed, format!("there is no room for the nodes' addresses in {network}"))
            .hint("Name a larger network with --network.")
    })?;
    let control_planes = args.control_planes.unwrap_or(if hosts.len() >= 3 { 3 } else { 1 });
    let draft = Draft {
        name: args.name.clone(),
        uid: uuid::Builder::from_random_bytes(rand::random()).into_uuid(),
        endpoint: contact.endpoint.clone(),
        token,
        secret,
        tls: tls(args, &contact.trust),
        proxy: args.contact.proxy.clone(),
        disks,
        images,
        bridge,
        pool: args.pool.clone(),
        network,
        gateway,
        dns: args.dns.clone(),
        addresses,
        vmid: survey.vmid(10 + args.workers),
        control_planes,
        workers: args.workers,
        small: survey.is_tight(&hosts, control_planes + args.workers),
        talos: args.talos.clone(),
        arm: survey.arm(&hosts),
        imports: survey.imports(),
        version: survey.version.clone(),
        hosts,
    };
    Ok((draft, fixes))
}

fn lacking(lack: &Lack) -> Failure {
    let (what, flag) = match lack {
        Lack::Host { name, online } => {
            return Failure::new(Exit::Failed, format!("there is no host {name} online"))
                .hint(format!("Hosts that are: {}", online.join(", ")));
        }
        Lack::Disks => ("storage for VM disks", "--disks"),
        Lack::Images => ("storage for images", "--images"),
        Lack::Bridge => ("bridge", "--bridge"),
    };
    Failure::new(Exit::Failed, format!("no {what} was found that every host has and the token may see"))
        .hint(format!("Name it with {flag}, or use fewer hosts with --host."))
        .hint("A token sees nothing where it has no privileges: `daedal proxmox setup` gives them.")
}

fn network(args: &InitArgs, survey: &Survey, bridge: &str) -> Outcome<(Ipv4Net, Ipv4Addr)> {
    let (found, way) = survey.network(bridge);
    let asked = |what: &str, flag: &str| {
        console::ask(&format!("{what}?")).filter(|answer| !answer.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("Proxmox does not know the network on {bridge}"))
                .hint(format!("{flag} says it."))
        })
    };
    let wrong = |text: &str| Failure::new(Exit::Usage, format!("'{text}' cannot be used"));
    let network = match args.network.or(found) {
        Some(network) => network,
        None => {
            let text = asked("The nodes' network (such as 10.0.0.0/24)", "--network 10.0.0.0/24")?;
            text.parse().map_err(|_| wrong(&text))?
        }
    };
    let gateway = match args.gateway.or_else(|| way.filter(|way| network.contains(way))) {
        Some(gateway) => gateway,
        None => {
            let text = asked("Its gateway", "--gateway 10.0.0.1")?;
            text.parse().map_err(|_| wrong(&text))?
        }
    };
    Ok((network.trunc(), gateway))
}

fn tls(args: &InitArgs, trust: &Trust) -> Option<String> {
    Some(match trust {
        Trust::System => return None,
        Trust::Fingerprint(pin) => format!("{{fingerprint: \"{pin}\"}} # pinned at the first contact"),
        Trust::Insecure => "{insecure: true} # the certificate is not verified".to_owned(),
        Trust::Ca(_) => {
            let path = args.contact.ca.as_deref().unwrap_or(Path::new("ca.pem"));
            format!("{{ca: {}}}", path_in(&args.file, path))
        }
    })
}
