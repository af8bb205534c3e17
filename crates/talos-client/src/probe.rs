//! Finding out what answers at an address, without showing it anything.

use daedal_dial::{Dialer, Target};
use daedal_talos_config::{ClientCredentials, pki};
use jiff::Timestamp;

use crate::{
    Error, Result,
    connect::{Client, ConnectOptions, seen_certificate},
    cosi::MachineStatus,
    failure::FailureKind,
    tls,
};

/// What answers at an address.
#[derive(Debug)]
pub enum Probe {
    /// Nothing, or nothing that speaks as a node does.
    Unreachable(Error),
    /// A node without a config.
    Maintenance {
        /// Fingerprint of its public key, to be pinned.
        fingerprint: String,
    },
    /// A node of our cluster that has its config.
    Configured,
    /// A node with a config of another cluster.
    OtherCluster {
        /// Fingerprint of its public key.
        fingerprint: String,
    },
}

/// When the certificate that a node shows ends. Nothing of ours is shown.
pub async fn certificate_end(dialer: Dialer, target: Target, options: &ConnectOptions) -> Result<Timestamp> {
    let (config, seen) = tls::without_identity(None, options.clock.as_ref())?;
    let opened = Client::open(dialer, target, config, options).await;
    match (seen_certificate(&seen), opened) {
        (Some(certificate), _) => Ok(pki::expires_at(&certificate)?),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(Error::Certificate { reason: "the node showed none".into() }),
    }
}

/// Finds out what answers at an address. Nothing of ours is shown: no certificate, no secret.
pub async fn probe(
    dialer: Dialer,
    target: Target,
    ours: &ClientCredentials,
    options: &ConnectOptions,
) -> Result<Probe> {
    let (config, seen) = tls::without_identity(None, options.clock.as_ref())?;
    let answer = match Client::open(dialer, target, config, options).await {
        Ok(client) => client.machine_status().await,
        Err(error) => Err(error),
    };
    let Some(certificate) = seen_certificate(&seen) else {
        return match answer {
            Err(error) => Ok(Probe::Unreachable(error)),
            // Without a handshake there can be no answer.
            Ok(_) => Err(Error::Certificate { reason: "the node showed none".into() }),
        };
    };
    let fingerprint = pki::spki_fingerprint(&certificate)?;
    match answer {
        Ok(Some(MachineStatus { stage, .. })) if stage == "maintenance" => {
            Ok(Probe::Maintenance { fingerprint })
        }
        // A configured node wants a certificate; who issued its own tells whose it is.
        Err(error) if error.kind() == Some(FailureKind::Unauthenticated) => {
            Ok(if tls::is_issued_by(&certificate, &ours.ca)? {
                Probe::Configured
            } else {
                Probe::OtherCluster { fingerprint }
            })
        }
        Err(error) => Ok(Probe::Unreachable(error)),
        Ok(status) => Ok(Probe::Unreachable(Error::Call {
            operation: "probe",
            node: "the node".into(),
            kind: FailureKind::Transient,
            source: format!("it is in stage `{}`", status.map(|status| status.stage).unwrap_or_default())
                .into(),
        })),
    }
}
