//! `daedal proxmox ccm`: the account of the Proxmox cloud-controller-manager, which may see VMs and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use daedal_dial::Trust;
use daedal_engine::{Accounts, Effects, Scope, SystemClock};
use daedal_planner::{Account, Secret};
use daedal_proxmox::NewToken;
use daedal_store::SecretBytes;

use super::account::{Asked, ConsentArgs};
use super::proxmox::{AdminArgs, administrator, call_failure, complete, works};
use crate::cli::Format;
use crate::commands::apply::kept_in;
use crate::contact::ContactArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::{self, KeyArgs};
use crate::session::{lock, store_in};
use crate::{console, documents, stores};

/// What the controller's configuration is called in the store.
pub(super) const CCM_CONFIG: &str = "ccm.yaml";

/// What `proxmox ccm` understands.
#[derive(Debug, Args)]
pub struct CcmArgs {
    /// The inventory.
    #[arg(short, long, value_name = "FILE", default_value = "cluster.yaml")]
    file: PathBuf,
    #[command(flatten)]
    contact: ContactArgs,
    /// The token to create [default: CLUSTER-ccm@pve!ccm].
    #[arg(long, value_name = "USER@REALM!NAME")]
    token: Option<String>,
    /// The store: the folder of secrets, lock and outputs [default: .daedal/<cluster> beside the inventory].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Re-create the token if it exists; the old secret stops working.
    #[arg(long)]
    rotate: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    consent: ConsentArgs,
}

/// Runs the command.
pub async fn run(args: &CcmArgs, format: Format, color: bool) -> Outcome {
    let inventory = documents::read(&args.file, &args.keys, color)?;
    let cluster = &inventory.loaded.cluster;
    let mut contact = args.contact.clone();
    let ring = args.keys.ring_of(cluster, &inventory.folder);
    complete(&mut contact, cluster, &inventory.folder, &ring)?;
    let contact = contact.open().await?;
    let id = args.token.clone().unwrap_or_else(|| format!("{}-ccm@pve!ccm", cluster.name));
    let Some((user, token)) = id.split_once('!') else {
        return Err(Failure::new(Exit::Usage, format!("'{id}' is not an API token's id")));
    };
    let account = Account {
        user: user.to_owned(),
        token: token.to_owned(),
        comment: format!("cloud-controller-manager of the Talos cluster {}", cluster.name),
        pool: None,
        grants: Scope::of(cluster).seeing(),
    };
    let store = match &args.state {
        Some(state) => store_in(state.clone(), cluster, ring),
        None => stores::declared(cluster, &inventory.folder, ring).await?,
    };
    keys::warn_if_exposed(store.keys());
    let _lock = match args.consent.plan_only {
        true => None,
        false => Some(lock(&store, "proxmox ccm").await?),
    };
    let before = store.kept(CCM_CONFIG).await.map_err(|error| keys::store_failure(&error, Exit::Failed))?;
    let unsafe_tls = contact.trust == Trust::Insecure;
    let written = |secret: &str| config(&contact.endpoint, unsafe_tls, &id, secret, &cluster.name);
    let secret = match args.rotate {
        true => Secret::Rotate,
        false => match before.and_then(|config| kept(std::str::from_utf8(config.expose()).ok()?)) {
            Some(secret) if works(&secret, &contact, &account).await => Secret::Known,
            _ => Secret::Unknown,
        },
    };
    let keep = async |made: &NewToken| {
        let config = SecretBytes::new(written(made.expose()).into_bytes());
        store.keep(CCM_CONFIG, &config).await.map_err(std::io::Error::other)
    };
    let admin = administrator(&args.admin, &contact, store.keys()).await?;
    let version = admin.version().await.map_err(|error| call_failure(&error))?.version;
    let asked = Asked {
        account: &account,
        secret,
        goes_to: format!("{CCM_CONFIG} in {}, encrypted", store.place().display()),
        elsewhere: "If its secret is in another store, name it: --state DIR.",
        place: format!("Proxmox VE {version} at {}", contact.endpoint),
        consent: &args.consent,
        format,
    };
    let accounts = Accounts {
        admin: &admin,
        effects: &Effects::default(),
        store: Some(&store),
        clock: Arc::new(SystemClock),
    };
    let ready = async || keys::ensure(&store, false).await;
    let carried = Box::pin(asked.carry_out(&accounts, ready, keep)).await?;
    match format {
        Format::Json => {
            let mut json = carried.as_json();
            json["config"] = CCM_CONFIG.into();
            console::json(&json);
        }
        Format::Text if carried.done => {
            let kept = kept_in(args.state.as_deref(), &args.keys);
            let print = format!("daedal outputs {CCM_CONFIG} -f {}{kept}", args.file.display());
            console::result(&format!(
                "\nIts configuration, token and all, is kept encrypted in {}. This prints it:\n\n  {print}\n",
                store.place().display(),
            ));
        }
        Format::Text => {}
    }
    Ok(Exit::Done)
}

/// The controller's configuration. JSON is YAML, and quotes everything rightly.
fn config(endpoint: &str, insecure: bool, token: &str, secret: &str, region: &str) -> String {
    let url = format!("{}/api2/json", endpoint.trim_end_matches('/'));
    let cluster = serde_json::json!({
        "url": url, "insecure": insecure, "token_id": token, "token_secret": secret, "region": region,
    });
    format!("clusters:\n  - {cluster}\n")
}

/// The secret in a configuration that was written before.
fn kept(text: &str) -> Option<String> {
    let cluster: serde_json::Value = serde_json::from_str(text.split_once("  - ")?.1.trim()).ok()?;
    cluster["token_secret"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_found_again() {
        let text = config("https://atlas.lan:8006", false, "home-ccm@pve!ccm", "s3cret", "home");
        assert!(text.contains(r#""url":"https://atlas.lan:8006/api2/json""#), "{text}");
        assert_eq!(kept(&text).as_deref(), Some("s3cret"));
        assert_eq!(kept(""), None);
    }
}
