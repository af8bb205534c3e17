//! The first contact with a Proxmox that no inventory describes yet: how to reach it, and whether to trust what answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use daedal_dial::{Dialer, Fingerprint, Target, Trust, shown_fingerprint};
use daedal_engine::routes;
use daedal_inventory::Reach;
use daedal_store::Keyring;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::silence::{while_asking, without_login};
use crate::{console, secrets, ssh};

/// How long a Proxmox may take to show its certificate.
const FIRST_CONTACT: Duration = Duration::from_secs(20);

/// Where Proxmox is and how it proves that it is it.
#[derive(Clone, Debug, Default, Args)]
pub struct ContactArgs {
    /// The URL of Proxmox, such as https://atlas.lan:8006.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// The SHA-256 fingerprint of its certificate (`pvenode cert info` shows it) [default: a prompt].
    #[arg(long, value_name = "AB:CD:…", conflicts_with_all = ["ca", "insecure"])]
    pub fingerprint: Option<String>,
    /// A file with the CA that signed its certificate.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Do not verify the certificate (insecure).
    #[arg(long)]
    pub insecure: bool,
    /// Connect through a proxy (http:// or socks5://).
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// The SSH server that an inventory declares on the way.
    #[arg(skip)]
    pub ssh: Option<daedal_ssh::Ssh>,
}

/// A Proxmox that can be spoken to.
pub struct Contact {
    /// `https://host:8006`.
    pub endpoint: String,
    /// How it is reached.
    pub dialer: Dialer,
    /// How it proves itself.
    pub trust: Trust,
}

impl ContactArgs {
    /// Finds out how to trust it: as the flags say, by a CA that this machine trusts, or by a fingerprint that somebody
    /// has compared.
    pub async fn open(&self) -> Outcome<Contact> {
        let endpoint = match &self.endpoint {
            Some(endpoint) => normal(endpoint),
            None => match console::ask("Where does Proxmox answer (such as https://atlas.lan:8006)?") {
                Some(answer) if !answer.is_empty() => normal(&answer),
                _ => {
                    return Err(Failure::new(Exit::Usage, "no Proxmox endpoint is configured")
                        .hint("--endpoint https://atlas.lan:8006"));
                }
            },
        };
        let dialer: Dialer = match (&self.proxy, &self.ssh) {
            (None, Some(ssh)) => {
                ssh.connect().await.map_err(|error| ssh::failure(&error))?;
                Arc::new(ssh.clone())
            }
            (proxy, _) => {
                let reach = proxy.clone().map_or(Reach::Direct, Reach::Proxy);
                routes(&reach, None).map_err(|e| Failure::from_error(Exit::Usage, &e))?.proxmox
            }
        };
        let trust = self.trust(&endpoint, &dialer).await?;
        Ok(Contact { endpoint, dialer, trust })
    }

    async fn trust(&self, endpoint: &str, dialer: &Dialer) -> Outcome<Trust> {
        if self.insecure {
            return Ok(Trust::Insecure);
        }
        if let Some(path) = &self.ca {
            let pem = std::fs::read_to_string(path).map_err(|error| {
                Failure::new(Exit::NoInput, format!("cannot read the CA certificate {}", path.display()))
                    .because(&error)
            })?;
            return Ok(Trust::Ca(pem));
        }
        if let Some(text) = &self.fingerprint {
            let pin = text.parse().map_err(|e: daedal_dial::TrustError| Failure::from_error(Exit::Usage, &e));
            return Ok(Trust::Fingerprint(pin?));
        }
        let target = target(endpoint)?;
        let through = self.proxy.as_ref().map(|proxy| format!(" through the proxy {}", without_login(proxy)));
        let whom = format!("Proxmox at {endpoint}{}", through.unwrap_or_default());
        let asked = tokio::time::timeout(FIRST_CONTACT, shown_fingerprint(dialer, &target));
        let shown = match while_asking(&whom, asked).await {
            Ok(shown) => shown.map_err(|error| {
                Failure::new(Exit::Unavailable, format!("cannot reach {whom}")).because(&error)
            })?,
            Err(_) => {
                let text = format!("cannot reach {whom}: no answer for {} s", FIRST_CONTACT.as_secs());
                return Err(Failure::new(Exit::Unavailable, text));
            }
        };
        if trusted_by_system(dialer, &target).await {
            return Ok(Trust::System);
        }
        confirm(endpoint, shown)?;
        Ok(Trust::Fingerprint(shown))
    }
}

/// Shows the fingerprint and has somebody compare it; where nobody can, it must be given.
fn confirm(endpoint: &str, shown: Fingerprint) -> Outcome<()> {
    console::say(&format!(
        "This machine trusts no CA that signed the certificate of {endpoint}. Its SHA-256 fingerprint is\n\n  \
         {shown}\n\nCompare it with what `pvenode cert info` prints on the host, or with Certificates in the web \
         interface."
    ));
    match console::agrees("Is it the same?") {
        Some(true) => Ok(()),
        _ => Err(Failure::new(Exit::Unavailable, format!("the certificate of {endpoint} is not trusted"))
            .hint(format!("If it is the right one: --fingerprint {shown}"))),
    }
}

async fn trusted_by_system(dialer: &Dialer, target: &Target) -> bool {
    let Ok(config) = Trust::System.client_config() else { return false };
    let Ok(name) = daedal_dial::server_name(&target.host) else { return false };
    match dialer.dial(target).await {
        Ok(stream) => daedal_dial::tls_connect(stream, name, config).await.is_ok(),
        Err(_) => false,
    }
}

/// People write `atlas.lan`; Proxmox is at `https://atlas.lan:8006`.
fn normal(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    let with_scheme = match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false => format!("https://{endpoint}"),
    };
    match url::Url::parse(&with_scheme) {
        // A port that is written out is meant, even 443.
        Ok(url) if url.port().is_none() && !with_scheme.ends_with(":443") => format!("{with_scheme}:8006"),
        _ => with_scheme,
    }
}

fn target(endpoint: &str) -> Outcome<Target> {
    let wrong = || Failure::new(Exit::Usage, format!("'{endpoint}' is not the URL of a Proxmox"));
    let url = url::Url::parse(endpoint).map_err(|_| wrong())?;
    url.host_str().ok_or_else(wrong)?;
    Ok(Target::from(&url))
}

/// A secret from a file, from the environment, or from somebody at the terminal, who does not see it.
pub fn secret(file: Option<&PathBuf>, variable: &str, question: &str, keys: &Keyring) -> Outcome<String> {
    use daedal_inventory::SecretRef;
    if let Some(file) = file {
        return secrets::read(
            &SecretRef::File(file.clone()),
            question,
            &std::env::current_dir().unwrap_or_default(),
            keys,
        );
    }
    if std::env::var(variable).is_ok_and(|value| !value.is_empty()) {
        return secrets::read(
            &SecretRef::Env(variable.to_owned()),
            question,
            std::path::Path::new("."),
            keys,
        );
    }
    console::ask_secret(&format!("{question}:")).filter(|answer| !answer.is_empty()).ok_or_else(|| {
        Failure::new(Exit::MissingSecret, format!("{question} is missing"))
            .hint(format!("export {variable}=…, or name a file that has it."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_to_an_endpoint() {
        for (given, meant) in [
            ("atlas.lan", "https://atlas.lan:8006"),
            ("https://atlas.lan/", "https://atlas.lan:8006"),
            ("atlas.lan:443", "https://atlas.lan:443"),
            ("10.0.0.2:8006", "https://10.0.0.2:8006"),
            ("[fd00::1]", "https://[fd00::1]:8006"),
        ] {
            assert_eq!(normal(given), meant);
        }
        let target = target("https://[fd00::1]:8006").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("fd00::1", 8006));
    }
}
