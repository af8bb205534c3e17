//! Who calls: an API token or somebody's ticket, none of whose secrets can be printed.

use std::fmt;

use http::{
    HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE},
};
use zeroize::Zeroizing;

use crate::params::segment;

/// An API token: `user@realm!name` and its secret. Printing shows the id only; the secret is wiped from memory on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: Zeroizing<String>,
}

/// Why a text is not an API token.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    /// The id has the wrong shape.
    #[error("'{0}' is not an API token id; 'user@realm!name' is expected")]
    Id(String),
    /// The secret cannot be right (it is not shown).
    #[error("the token secret is empty or has characters that no token secret has")]
    Secret,
}

impl Token {
    /// A token from its id (`user@realm!name`) and secret.
    pub fn new(id: impl Into<String>, secret: impl Into<String>) -> Result<Self, TokenError> {
        let (id, secret) = (id.into(), Zeroizing::new(secret.into()));
        let shaped = id.split_once('@').and_then(|(user, rest)| Some((user, rest.split_once('!')?)));
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, ':' | '/' | '='))
        };
        match shaped {
            Some((user, (realm, name))) if plain(user) && plain(realm) && plain(name) => {}
            _ => return Err(TokenError::Id(id)),
        }
        if secret.is_empty() || !secret.chars().all(|c| c.is_ascii_graphic()) {
            return Err(TokenError::Secret);
        }
        Ok(Self { id, secret })
    }

    /// `user@realm!name`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `user@realm`.
    pub fn user(&self) -> &str {
        self.id.split('!').next().unwrap_or(&self.id)
    }

    /// The value of the Authorization header.
    pub(crate) fn header(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("PVEAPIToken={}={}", self.id, self.secret.as_str()))
    }
}

/// What a login gives, good for two hours.
#[derive(Clone)]
pub(crate) struct Ticket {
    user: String,
    cookie: Zeroizing<String>,
    csrf: Zeroizing<String>,
}

impl Ticket {
    pub(crate) fn new(user: &str, ticket: String, csrf: String) -> Self {
        let ticket = Zeroizing::new(ticket);
        let cookie = Zeroizing::new(format!("PVEAuthCookie={}", segment(&ticket)));
        Self { user: user.to_owned(), cookie, csrf: Zeroizing::new(csrf) }
    }
}

/// Who calls.
#[derive(Clone)]
pub(crate) enum Identity {
    Token(Token),
    Ticket(Ticket),
    Nobody,
}

impl Identity {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Token(token) => token.id(),
            Self::Ticket(ticket) => &ticket.user,
            Self::Nobody => "",
        }
    }

    pub(crate) fn user(&self) -> &str {
        match self {
            Self::Token(token) => token.user(),
            _ => self.id(),
        }
    }

    /// The headers that show it; none if they cannot be sent.
    pub(crate) fn headers(&self) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let header = |name: HeaderName, text: &str| {
            let mut value = HeaderValue::from_str(text).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        Some(match self {
            Self::Token(token) => vec![header(AUTHORIZATION, &token.header())?],
            Self::Ticket(ticket) => vec![
                header(COOKIE, &ticket.cookie)?,
                header(HeaderName::from_static("csrfpreventiontoken"), &ticket.csrf)?,
            ],
            Self::Nobody => Vec::new(),
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => token.fmt(f),
            Self::Ticket(ticket) => write!(f, "Ticket({}, secret hidden)", ticket.user),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, secret hidden)", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_never_shown() {
        let token = Token::new("robot@pve!cli", "canary-secret").unwrap();
        assert_eq!(format!("{token:?}"), "Token(robot@pve!cli, secret hidden)");
        assert_eq!((token.id(), token.user()), ("robot@pve!cli", "robot@pve"));
        assert_eq!(token.header().as_str(), "PVEAPIToken=robot@pve!cli=canary-secret");
    }

    #[test]
    fn shapes_are_checked() {
        for id in ["", "root", "root@pam", "root!t@pam", "@pam!t", "root@pam!", "a b@pam!t", "a=b@pam!t"] {
            assert_eq!(Token::new(id, "x").unwrap_err(), TokenError::Id(id.into()), "{id}");
        }
        for secret in ["", "a b", "a\r\nX: y"] {
            assert_eq!(Token::new("root@pam!t", secret).unwrap_err(), TokenError::Secret);
        }
    }
}
