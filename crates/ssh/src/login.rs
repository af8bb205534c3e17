//! Logs in with the keys of an agent and of files.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{
    Algorithm, Error as KeyError, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, decode_secret_key,
};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::client::Client;
use crate::error::{Cause, words};
use crate::line::PATIENCE;
use crate::{Error, Hop, Identity, Questions};

/// How many of an agent's keys are offered: servers hang up after six.
const OFFERS: usize = 5;
/// How long an agent may take: it may ask its owner.
const AGENT_PATIENCE: Duration = Duration::from_secs(120);

/// Keys that were read and decrypted already, by login and name.
pub(crate) type Keys = Mutex<HashMap<(String, String), Arc<PrivateKey>>>;

/// What was offered so far.
#[derive(Default)]
struct Tried {
    names: Vec<String>,
    keys: Vec<PublicKey>,
    takes: Vec<&'static str>,
    wants_more: bool,
}

/// Logs in, or says what was tried.
pub(crate) async fn log_in(
    handle: &mut Handle<Client>,
    hop: &Hop,
    keys: &Keys,
    questions: &Arc<dyn Questions>,
) -> Result<(), Error> {
    let publics: Vec<Option<PublicKey>> = hop.identities.iter().map(public).collect();
    let mut tried = Tried::default();
    if let Some(socket) = &hop.agent
        && with_agent(handle, hop, socket, &publics, &mut tried).await?
    {
        return Ok(());
    }
    let mut unusable = None;
    for (identity, public) in hop.identities.iter().zip(&publics) {
        if identity.private.is_none() || public.as_ref().is_some_and(|key| tried.has(key)) {
            continue;
        }
        let key = match private(hop, identity, keys, questions).await {
            Ok(key) => key,
            Err(error) => {
                tried.names.push(format!("{} (not usable)", identity.name));
                unusable.get_or_insert(error);
                continue;
            }
        };
        if tried.has(key.public_key()) {
            continue;
        }
        let hash = hash_for(handle, key.public_key()).await;
        tried.keys.push(key.public_key().clone());
        let key = PrivateKeyWithHashAlg::new(key, hash);
        let answer = patient(hop, PATIENCE, handle.authenticate_publickey(&hop.user, key)).await?;
        let answer = answer.map_err(|error| words(&error));
        if tried.judge(&identity.name, answer, hop)? {
            return Ok(());
        }
    }
    match unusable {
        Some(error) if tried.keys.is_empty() => Err(error),
        _ => Err(tried.refused(hop)),
    }
}

/// Whether a key of the agent opened the door.
async fn with_agent(
    handle: &mut Handle<Client>,
    hop: &Hop,
    socket: &Path,
    wanted: &[Option<PublicKey>],
    tried: &mut Tried,
) -> Result<bool, Error> {
    let asked = timeout(PATIENCE, async {
        let mut agent = AgentClient::connect_uds(socket).await?;
        let identities = agent.request_identities().await?;
        Ok::<_, KeyError>((agent, identities))
    });
    let (mut agent, mut identities) = match asked.await {
        Ok(Ok(asked)) => asked,
        Ok(Err(error)) => {
            tried.names.push(format!("the agent {} ({error})", socket.display()));
            return Ok(false);
        }
        Err(_) => {
            tried.names.push(format!("the agent {} (no answer)", socket.display()));
            return Ok(false);
        }
    };
    let is_wanted = |identity: &AgentIdentity| {
        let key = identity.public_key();
        wanted.iter().flatten().any(|wanted| wanted.key_data() == key.key_data())
    };
    if hop.identities_only {
        identities.retain(is_wanted);
    }
    if identities.is_empty() {
        tried.names.push(format!("the agent {} (no key that fits)", socket.display()));
    }
    // Keys that somebody named come first.
    identities.sort_by_key(|identity| !is_wanted(identity));
    for identity in identities.into_iter().take(OFFERS) {
        let key = identity.public_key().into_owned();
        let hash = hash_for(handle, &key).await;
        tried.keys.push(key.clone());
        let name = match identity.comment() {
            "" => format!("{} of the agent", key.fingerprint(HashAlg::Sha256)),
            comment => format!("{comment} of the agent"),
        };
        let answer = match identity {
            AgentIdentity::PublicKey { key, .. } => {
                let offer = handle.authenticate_publickey_with(&hop.user, key, hash, &mut agent);
                patient(hop, AGENT_PATIENCE, offer).await?
            }
            AgentIdentity::Certificate { certificate, .. } => {
                let offer = handle.authenticate_certificate_with(&hop.user, certificate, hash, &mut agent);
                patient(hop, AGENT_PATIENCE, offer).await?
            }
        };
        if tried.judge(&name, answer.map_err(|error| Cause(error.to_string())), hop)? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn patient<T>(hop: &Hop, patience: Duration, answer: impl Future<Output = T>) -> Result<T, Error> {
    let silent = |_| Error::Silent { login: hop.login(), seconds: patience.as_secs() };
    timeout(patience, answer).await.map_err(silent)
}

/// The best hash for signatures of an RSA key that the server takes.
async fn hash_for(handle: &Handle<Client>, key: &PublicKey) -> Option<HashAlg> {
    match key.algorithm() {
        Algorithm::Rsa { .. } => {
            handle.best_supported_rsa_hash().await.ok().flatten().unwrap_or(Some(HashAlg::Sha512))
        }
        _ => None,
    }
}

impl Tried {
    fn has(&self, key: &PublicKey) -> bool {
        self.keys.iter().any(|tried| tried.key_data() == key.key_data())
    }

    /// Whether the server lets us in; an error if it hung up.
    fn judge(&mut self, name: &str, answer: Result<AuthResult, Cause>, hop: &Hop) -> Result<bool, Error> {
        match answer {
            Ok(AuthResult::Success) => return Ok(true),
            Ok(AuthResult::Failure { remaining_methods, partial_success }) => {
                self.names.push(name.to_owned());
                self.takes = remaining_methods.iter().map(<&'static str>::from).collect();
                self.wants_more |= partial_success;
                // A server that takes nothing any more has hung up.
                if self.takes.is_empty() {
                    return Err(self.refused(hop));
                }
            }
            Err(Cause(why)) => self.names.push(format!("{name} ({why})")),
        }
        Ok(false)
    }

    fn refused(&self, hop: &Hop) -> Error {
        let offered = match &self.names[..] {
            [] => "there was no key to offer".to_owned(),
            names => format!("offered: {}", names.join(", ")),
        };
        let more = match (self.wants_more, &self.takes[..]) {
            (true, takes) => {
                format!("; a key was accepted, but the server also wants {}", takes.join(" and "))
            }
            (false, []) => String::new(),
            (false, takes) => format!("; the server takes {}", takes.join(", ")),
        };
        Error::Login { login: hop.login(), source: Cause(format!("{offered}{more}")) }
    }
}

/// The public part of a key, as far as it can be known without a passphrase.
fn public(identity: &Identity) -> Option<PublicKey> {
    let written = identity.public.as_deref().and_then(|text| PublicKey::from_openssh(text.trim()).ok());
    let inside = || {
        let text = identity.private.as_ref()?;
        Some(PrivateKey::from_openssh(text.as_bytes()).ok()?.public_key().clone())
    };
    written.or_else(inside)
}

/// The private key, decrypted with its passphrase, which is asked for only if it is needed.
async fn private(
    hop: &Hop,
    identity: &Identity,
    keys: &Keys,
    questions: &Arc<dyn Questions>,
) -> Result<Arc<PrivateKey>, Error> {
    let name = (hop.login(), identity.name.clone());
    if let Some(key) = keys.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
        return Ok(key.clone());
    }
    let (identity, questions) = (identity.clone(), questions.clone());
    // Decrypting is made to take long.
    let read = tokio::task::spawn_blocking(move || decrypt(&identity, &*questions)).await;
    let read = read.unwrap_or_else(|_| Err(Error::Encrypted { name: name.1.clone() }))?;
    let key = Arc::new(read);
    keys.lock().unwrap_or_else(PoisonError::into_inner).insert(name, key.clone());
    Ok(key)
}

fn decrypt(identity: &Identity, questions: &dyn Questions) -> Result<PrivateKey, Error> {
    let name = &identity.name;
    let unreadable = |why: String| Error::Key { name: name.clone(), source: Cause(why) };
    let Some(text) = &identity.private else { return Err(Error::Encrypted { name: name.clone() }) };
    let decode = |passphrase: Option<&Zeroizing<String>>| {
        decode_secret_key(text, passphrase.map(|passphrase| passphrase.as_str()))
    };
    // Of this format only the passphrase says what is inside.
    let is_pkcs8 = text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----");
    let is_encrypted = |error: &KeyError| is_pkcs8 || matches!(error, KeyError::KeyIsEncrypted);
    match (decode(None), &identity.passphrase) {
        (Ok(key), _) => Ok(key),
        (Err(error), _) if !is_encrypted(&error) => Err(unreadable(error.to_string())),
        (Err(_), given) => {
            let passphrase = given.clone().or_else(|| questions.passphrase(name));
            let passphrase = passphrase.ok_or_else(|| Error::Encrypted { name: name.clone() })?;
            decode(Some(&passphrase)).map_err(|_| unreadable("the passphrase is wrong".to_owned()))
        }
    }
}
