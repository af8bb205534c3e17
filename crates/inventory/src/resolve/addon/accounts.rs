//! How add-ons log in to Proxmox.

use serde_json::json;

use super::Draft;
use crate::addon::KeptValue;
use crate::catalogue::Need;
use crate::cluster::{Proxmox, TlsTrust};
use crate::path::Path;
use crate::resolve::Context;

/// Where the token's secret is in the values of both charts.
const SECRET: &str = "config.clusters[0].token_secret";

/// Tells an add-on where Proxmox is and who it is there.
pub(super) fn config(
    draft: &mut Draft,
    cluster: &str,
    proxmox: Option<&Proxmox>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) {
    let needs = draft.entry.map_or(&[][..], |entry| entry.needs).iter();
    let account = needs.copied().find_map(|need| match need {
        Need::ProxmoxAccount { suffix, kept } => Some((suffix, kept)),
        _ => None,
    });
    let (Some((suffix, kept)), Some(proxmox)) = (account, proxmox) else { return };
    // Whoever makes the Secret sees to all of it.
    if draft.said(&["existingConfigSecret"]).is_some() {
        return;
    }
    let has_secret = draft.addon.secret_values.contains_key(SECRET);
    if let (Some((name, command)), false) = (kept, has_secret) {
        // Whoever made the account said which token it is, and where Proxmox answered.
        for key in ["url", "token_id", "token_secret", "region"] {
            let key = format!("clusters[0].{key}");
            let path = format!("config.{key}");
            let kept = KeptValue { name: name.to_owned(), key, command: command.to_owned() };
            draft.addon.kept_values.insert(path, kept);
        }
    } else if !has_secret {
        let addons_at = at.key("addons");
        let message = format!("`{}` needs an API token of Proxmox.", draft.addon.name);
        let help = format!(
            "Say where its secret is: `secrets: {{\"{SECRET}\": {{env: CSI_TOKEN_SECRET}}}}`. The token is \
             {cluster}-{suffix}@pve!{suffix} unless `values.config.clusters` says another."
        );
        cx.error("addon", &addons_at.index(draft.index), message, help);
        return;
    }
    draft.compute(&json!({"config": {"clusters": [{
        "url": format!("{}/api2/json", proxmox.endpoint.trim_end_matches('/')),
        "insecure": proxmox.tls == TlsTrust::Insecure,
        "token_id": format!("{cluster}-{suffix}@pve!{suffix}"),
        "region": cluster,
    }]}}));
}
