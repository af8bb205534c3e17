//! Users, tokens, roles and the access control list.

use std::{collections::BTreeSet, fmt};

use http::Method;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    client::{Ask, Client, Repeat},
    error::Error,
    lenient,
    model::Permissions,
    params::{Params, segment},
};

/// One row of `GET /access/roles`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RoleRow {
    /// Name.
    pub roleid: String,
    /// Privileges.
    #[serde(rename = "privs", deserialize_with = "lenient::list")]
    pub privileges: Vec<String>,
    /// Built in, so that it cannot be changed.
    #[serde(deserialize_with = "lenient::flag")]
    pub special: bool,
}

/// One row of `GET /access/users`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserRow {
    /// `name@realm`.
    pub userid: String,
    /// May log in.
    #[serde(deserialize_with = "lenient::flag")]
    pub enable: bool,
    /// Comment.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub comment: Option<String>,
}

/// One row of `GET /access/users/U/token`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TokenRow {
    /// The part after `!`.
    pub tokenid: String,
    /// May only do what both it and its user may.
    #[serde(deserialize_with = "lenient::flag")]
    pub privsep: bool,
    /// When it ends, in seconds; 0 is never.
    #[serde(deserialize_with = "lenient::number")]
    pub expire: u64,
}

/// One entry of the access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AclEntry {
    /// What it is about.
    pub path: String,
    /// User, token or group.
    pub ugid: String,
    /// `user`, `token` or `group`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Role.
    pub roleid: String,
    /// Holds below the path, too.
    #[serde(deserialize_with = "lenient::flag")]
    pub propagate: bool,
}

/// Who an entry of the access control list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    /// `name@realm`.
    User(&'a str),
    /// `name@realm!token`.
    Token(&'a str),
}

/// A token that was just made. Its secret is told this once; it cannot be printed.
pub struct NewToken {
    /// `name@realm!token`.
    pub id: String,
    secret: Zeroizing<String>,
}

impl NewToken {
    /// The secret, to be kept in a safe place.
    pub fn expose(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewToken({}, secret hidden)", self.id)
    }
}

#[derive(Deserialize)]
struct MadeToken {
    #[serde(rename = "full-tokenid")]
    id: String,
    value: String,
}

impl Client {
    /// `GET /access/roles`.
    pub async fn roles(&self) -> Result<Vec<RoleRow>, Error> {
        self.ask(Ask::get("/access/roles", "list the roles")).await
    }

    /// `POST /access/roles`. Privileges that the release does not know are refused.
    pub async fn create_role(&self, role: &str, privileges: &BTreeSet<String>) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("roleid", role).set("privs", joined(privileges));
        let ask = Ask::change(Method::POST, "/access/roles", Repeat::Once, format!("create role {role}"));
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    /// `PUT /access/roles/R`: the role has exactly these privileges afterwards.
    pub async fn update_role(&self, role: &str, privileges: &BTreeSet<String>) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("privs", joined(privileges));
        let path = format!("/access/roles/{}", segment(role));
        let ask = Ask::change(Method::PUT, path, Repeat::Idempotent, format!("change role {role}"));
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    /// `GET /access/users`: those that the caller may see.
    pub async fn users(&self) -> Result<Vec<UserRow>, Error> {
        self.ask(Ask::get("/access/users", "list the users")).await
    }

    /// `POST /access/users`: a user without password.
    pub async fn create_user(&self, user: &str, comment: &str) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("userid", user).set("comment", comment);
        let ask = Ask::change(Method::POST, "/access/users", Repeat::Once, format!("create user {user}"));
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    /// `GET /access/users/U/token`.
    pub async fn tokens_of(&self, user: &str) -> Result<Vec<TokenRow>, Error> {
        let path = format!("/access/users/{}/token", segment(user));
        self.ask(Ask::get(path, format!("list the tokens of {user}"))).await
    }

    /// `POST /access/users/U/token/T`: a token with privilege separation. Never repeated once sent: its secret is told
    /// only once.
    pub async fn create_token(&self, user: &str, token: &str, comment: &str) -> Result<NewToken, Error> {
        let mut form = Params::new();
        form.flag("privsep", true).set("comment", comment);
        let operation = format!("create token {user}!{token}");
        let ask = Ask::change(Method::POST, token_path(user, token), Repeat::Once, operation);
        let made: MadeToken = self.ask(ask.form(form)).await?;
        Ok(NewToken { id: made.id, secret: Zeroizing::new(made.value) })
    }

    /// `DELETE /access/users/U/token/T`. Its entries in the access control list go with it.
    pub async fn delete_token(&self, user: &str, token: &str) -> Result<(), Error> {
        let operation = format!("delete token {user}!{token}");
        let ask = Ask::change(Method::DELETE, token_path(user, token), Repeat::Idempotent, operation);
        self.ask::<Value>(ask).await.map(drop)
    }

    /// `GET /access/acl`: the entries that the caller may see.
    pub async fn acl(&self) -> Result<Vec<AclEntry>, Error> {
        self.ask(Ask::get("/access/acl", "read the access control list")).await
    }

    /// `PUT /access/acl`: gives a role on a path.
    pub async fn grant(
        &self,
        path: &str,
        role: &str,
        holder: Holder<'_>,
        propagate: bool,
    ) -> Result<(), Error> {
        let (list, id) = match holder {
            Holder::User(id) => ("users", id),
            Holder::Token(id) => ("tokens", id),
        };
        let mut form = Params::new();
        form.set("path", path).set("roles", role).set(list, id).flag("propagate", propagate);
        let operation = format!("give {id} the role {role} on {path}");
        let ask = Ask::change(Method::PUT, "/access/acl", Repeat::Idempotent, operation);
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    /// `GET /access/permissions?path=`: what the caller may do on one path, even one that has no entry of its own.
    pub async fn permissions_on(&self, path: &str) -> Result<Permissions, Error> {
        let mut query = Params::new();
        query.set("path", path);
        let operation = format!("read the permissions on {path}");
        self.ask(Ask::get("/access/permissions", operation).query(query)).await
    }
}

fn joined(privileges: &BTreeSet<String>) -> String {
    privileges.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn token_path(user: &str, token: &str) -> String {
    format!("/access/users/{}/token/{}", segment(user), segment(token))
}
