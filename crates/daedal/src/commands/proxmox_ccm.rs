//! `daedal proxmox ccm`: the account of the Proxmox cloud-controller-manager, which may see VMs and nothing else.

use std::path::PathBuf;

use clap::Args;
use daedal_dial::Trust;
use daedal_engine::{Account, Effects, Scope, Secret};
use daedal_proxmox::NewToken;
use daedal_store::SecretBytes;

use super::proxmox::{AdminArgs, account_failure, administrator, complete, works};
use crate::cli::Format;
use crate::commands::apply::kept_in;
use crate::contact::ContactArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::{self, KeyArgs};
use crate::session::{lock, state_beside, store_in};
use crate::{console, documents};

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
    /// The cluster's store [default: .daedal/CLUSTER beside the inventory].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Re-create the token if it exists; the old secret stops working.
    #[arg(long)]
    rotate: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Runs the command.
pub async fn run(args: &CcmArgs, format: Format, color: bool) -> Outcome {
    let inventory = documents::read(&args.file, &args.keys, color)?;
    let cluster = &inventory.loaded.cluster;
    let mut contact = args.contact.clone();
    complete(&mut contact, cluster, &inventory.folder);
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
    let state = args.state.clone().unwrap_or_else(|| state_beside(&inventory.folder, &cluster.name));
    let store = store_in(state, cluster, args.keys.ring());
    keys::warn_if_exposed(store.keys());
    let _lock = lock(&store, "proxmox ccm").await?;
    keys::ensure(&store, false).await?;
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
    let done = account
        .ensure(&admin, &Effects::default(), secret, keep)
        .await
        .map_err(|error| account_failure(&error))?;
    match format {
        Format::Json => {
            console::json(&serde_json::json!({ "token": id, "config": CCM_CONFIG, "steps": done }));
        }
        Format::Text => {
            let mut text = String::new();
            for one in &done {
                text.push_str(&format!("{:<10} {}\n", one.done.unwrap_or("there"), one.what));
            }
            let kept = kept_in(args.state.as_deref(), &args.keys);
            let print = format!("daedal outputs {CCM_CONFIG} -f {}{kept}", args.file.display());
            text.push_str(&format!(
                "\nIts configuration, token and all, is kept encrypted in {}. This prints it:\n\n  {print}\n",
                store.place().display(),
            ));
            console::result(&text);
        }
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
