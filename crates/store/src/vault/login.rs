//! How a Vault is told who asks.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::http::Fault;
use crate::secret::SecretBytes;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Login {
    /// Whoever has this token.
    Token(SecretBytes),
    /// A machine, by AppRole.
    AppRole {
        /// Where the method is mounted, such as `approle`.
        mount: String,
        /// The role's id.
        role_id: SecretBytes,
        /// One of its secrets.
        secret_id: SecretBytes,
    },
    /// A pod, by the token of its service account; or a pipeline, by a token of its own: methods `kubernetes` and `jwt`.
    Jwt {
        /// Where the method is mounted, such as `kubernetes` or `jwt`.
        mount: String,
        /// The role.
        role: String,
        /// The token.
        jwt: SecretBytes,
    },
}

impl Login {
    /// Where to log in, and with what; none if there is a token already.
    pub(super) fn request(&self) -> Option<(String, Value)> {
        let text = |secret: &SecretBytes| String::from_utf8_lossy(secret.expose()).into_owned();
        match self {
            Self::Token(_) => None,
            Self::AppRole { mount, role_id, secret_id } => Some((
                format!("auth/{mount}/login"),
                json!({"role_id": text(role_id), "secret_id": text(secret_id)}),
            )),
            Self::Jwt { mount, role, jwt } => {
                Some((format!("auth/{mount}/login"), json!({"role": role, "jwt": text(jwt)})))
            }
        }
    }
}

/// What proves who asks.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) secret: SecretBytes,
    /// Until when it is used; none if for ever.
    until: Option<Instant>,
}

impl Token {
    pub(super) fn lasting(secret: SecretBytes) -> Self {
        Self { secret, until: None }
    }

    /// The token in the answer to a login.
    pub(super) fn of(answer: &Value, host: &str) -> Result<Self, Fault> {
        let missing =
            || Fault::Protocol { host: host.to_owned(), text: "the login gave no token".to_owned() };
        let secret = answer["auth"]["client_token"].as_str().ok_or_else(missing)?;
        let seconds = answer["auth"]["lease_duration"].as_u64().unwrap_or(0);
        // Tokens of root do not end, and say 0.
        let until = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds) * 2 / 3);
        Ok(Self { secret: SecretBytes::new(secret.as_bytes().to_vec()), until })
    }

    pub(super) fn is_good(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}
