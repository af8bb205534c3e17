//! What is minted or copied from the kept secrets: the bundle itself, talosconfig, kubeconfig.

use daedal_engine::Entropy;
use daedal_talos_config::ApiRole;
use jiff::{SignedDuration, Timestamp};

use super::{Destination, Kept, hand_out};
use crate::cli::{Format, Target};
use crate::console;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{engine_failure, lock};

/// `daedal secrets export`.
pub async fn export(target: &Target, to: &Destination, format: Format, color: bool) -> Outcome {
    let kept = Kept::open(target, color).await?;
    hand_out(&kept.secrets.to_yaml(), "the secrets bundle", to, format)
}

/// `daedal secrets talosconfig`.
pub async fn talosconfig(
    target: &Target,
    role: ApiRole,
    ttl: SignedDuration,
    to: &Destination,
    format: Format,
    color: bool,
) -> Outcome {
    let kept = Kept::open(target, color).await?;
    let (cluster, secrets) = (kept.located().await?, &kept.secrets);
    let rng = &mut entropy().generator();
    let minted = daedal_engine::talosconfig(&cluster, secrets, role, ttl, rng, Timestamp::now())
        .map_err(|error| engine_failure(&error.into()))?;
    hand_out(&minted, "the talosconfig", to, format)
}

/// `daedal secrets kubeconfig`.
pub async fn kubeconfig(
    target: &Target,
    ttl: SignedDuration,
    to: &Destination,
    format: Format,
    color: bool,
) -> Outcome {
    let kept = Kept::open(target, color).await?;
    let (cluster, secrets) = (kept.located().await?, &kept.secrets);
    let rng = &mut entropy().generator();
    let minted = daedal_engine::kubeconfig(&cluster, secrets, ttl, rng, Timestamp::now())
        .map_err(|error| engine_failure(&error.into()))?;
    hand_out(&minted, "the kubeconfig", to, format)
}

/// `daedal secrets rotate-admin`.
pub async fn rotate_admin(target: &Target, ttl: SignedDuration, format: Format, color: bool) -> Outcome {
    let kept = Kept::open(target, color).await?;
    let _lock = lock(&kept.store, "secrets rotate-admin").await?;
    let outputs = &kept.outputs;
    let cluster = kept.located().await?;
    let now = Timestamp::now();
    outputs
        .rotate_admin(&cluster, &kept.secrets, ttl, &mut entropy().generator(), now)
        .await
        .map_err(|error| engine_failure(&error))?;
    let credentials = outputs.credentials(now).await;
    match format {
        Format::Json => {
            console::json(&serde_json::json!({"folder": outputs.folder(), "credentials": credentials}));
        }
        Format::Text => {
            let ends = credentials.iter().map(|credential| credential.ends).min().unwrap_or(now);
            console::answer(&format!(
                "New talosconfig and kubeconfig in {}, good until {}.\n\
                 Those handed out before stay good until they end: there is no revocation but a new authority \
                 (docs/talos.md).",
                outputs.folder().display(),
                ends.strftime("%Y-%m-%d %H:%M UTC"),
            ));
        }
    }
    Ok(Exit::Done)
}

fn entropy() -> Entropy {
    Entropy::from_seed(rand::random())
}
