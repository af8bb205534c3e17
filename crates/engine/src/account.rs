//! Makes a Proxmox account that may do just what it needs to: user, token, roles and access control list.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use daedal_proxmox::{Client, Holder, NewToken};
use futures::future::BoxFuture;
use serde::Serialize;

use crate::effects::{EffectKind, Effects};
use crate::error::Error;
use crate::privileges::Grant;

/// An account as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `name@realm`.
    pub user: String,
    /// The token's name, the part after `!`.
    pub token: String,
    /// What it is for, for people who look at the list of users.
    pub comment: String,
    /// A resource pool that must exist.
    pub pool: Option<String>,
    /// What user and token may do.
    pub grants: Vec<Grant>,
}

/// What to do about a token that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// Its secret is known, so it stays.
    Known,
    /// Its secret is not known, and whoever uses it must not be cut off.
    Unknown,
    /// It is re-created; the old secret stops working.
    Rotate,
}

/// One thing that was looked at, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ensured {
    /// The thing, such as `role DaedalVM`.
    pub what: String,
    /// What was done about it; none if it was right already.
    pub done: Option<&'static str>,
}

impl Ensured {
    /// A thing, and what was done about it.
    pub fn new(what: impl Into<String>, done: Option<&'static str>) -> Self {
        Self { what: what.into(), done }
    }

    /// In one line, for people.
    pub fn line(&self) -> String {
        format!("{:<10} {}", self.done.unwrap_or("there"), self.what)
    }
}

impl Account {
    /// `user@realm!token`.
    pub fn token_id(&self) -> String {
        format!("{}!{}", self.user, self.token)
    }

    /// The roles that the grants name.
    fn roles(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut roles = BTreeMap::<_, BTreeSet<String>>::new();
        for grant in &self.grants {
            roles.entry(grant.role).or_default().extend(grant.privileges.iter().map(ToString::to_string));
        }
        roles
    }

    /// Makes what is missing and mends what differs; asked again, it does nothing. A new token's secret is given to
    /// `keep` before anything else happens; where it cannot be kept, the token is deleted again.
    pub async fn ensure(
        &self,
        admin: &Client,
        effects: &Effects,
        secret: Secret,
        keep: impl AsyncFnOnce(&NewToken) -> std::io::Result<()>,
    ) -> Result<Vec<Ensured>, Error> {
        let mut all = Vec::new();
        let mut say = |what: String, done: Option<&'static str>| all.push(Ensured::new(what, done));
        if let Some(pool) = &self.pool {
            let there = admin.pools().await?.iter().any(|known| known.poolid == *pool);
            if !there {
                change(effects, format!("pool {pool}"), admin.create_pool(pool, Some(&self.comment))).await?;
            }
            say(format!("pool {pool}"), (!there).then_some("created"));
        }
        let known = admin.roles().await?;
        for (role, privileges) in self.roles() {
            let there = known.iter().find(|known| known.roleid == role);
            let done = match there {
                None => {
                    change(effects, format!("role {role}"), admin.create_role(role, &privileges)).await?;
                    Some("created")
                }
                Some(known) if known.privileges.iter().cloned().collect::<BTreeSet<_>>() != privileges => {
                    change(effects, format!("role {role}"), admin.update_role(role, &privileges)).await?;
                    Some("changed")
                }
                Some(_) => None,
            };
            say(format!("role {role}"), done);
        }
        let there = admin.users().await?.iter().any(|user| user.userid == self.user);
        if !there {
            change(effects, format!("user {}", self.user), admin.create_user(&self.user, &self.comment))
                .await?;
        }
        say(format!("user {}", self.user), (!there).then_some("created"));
        let done = self.ensure_token(admin, effects, secret, keep).await?;
        say(format!("token {}", self.token_id()), done);
        self.ensure_grants(admin, effects, &mut say).await?;
        Ok(all)
    }

    async fn ensure_token(
        &self,
        admin: &Client,
        effects: &Effects,
        secret: Secret,
        keep: impl AsyncFnOnce(&NewToken) -> std::io::Result<()>,
    ) -> Result<Option<&'static str>, Error> {
        let tokens = admin.tokens_of(&self.user).await?;
        let delete = |why: &str| {
            let what = format!("{why} token {}", self.token_id());
            change(effects, what, admin.delete_token(&self.user, &self.token))
        };
        let there = tokens.iter().any(|token| token.tokenid == self.token);
        match (there, secret) {
            (true, Secret::Known) => return Ok(None),
            (true, Secret::Unknown) => return Err(Error::TokenExists { id: self.token_id() }),
            (true, Secret::Rotate) => delete("old").await?,
            (false, _) => {}
        }
        let what = format!("token {}", self.token_id());
        let made = change(effects, what, admin.create_token(&self.user, &self.token, &self.comment)).await?;
        if let Err(source) = keep(&made).await {
            // A token whose secret nobody has is of no use, and would be in the way of the next try.
            delete("unkept").await?;
            return Err(Error::NotKept { id: self.token_id(), source });
        }
        Ok(Some(if there { "re-created" } else { "created" }))
    }

    /// A token with privilege separation may do what both it and its user may: each role is given to both.
    async fn ensure_grants(
        &self,
        admin: &Client,
        effects: &Effects,
        say: &mut impl FnMut(String, Option<&'static str>),
    ) -> Result<(), Error> {
        let token = self.token_id();
        let known = admin.acl().await?;
        for grant in &self.grants {
            let mut given = false;
            for holder in [Holder::User(&self.user), Holder::Token(&token)] {
                let id = match holder {
                    Holder::User(id) | Holder::Token(id) => id,
                };
                let there = known.iter().any(|entry| {
                    entry.path == grant.path
                        && entry.ugid == id
                        && entry.roleid == grant.role
                        && entry.propagate == grant.propagate
                });
                if !there {
                    let what = format!("{} on {} for {id}", grant.role, grant.path);
                    let call = admin.grant(&grant.path, grant.role, holder, grant.propagate);
                    change(effects, what, call).await?;
                    given = true;
                }
            }
            say(format!("{} on {}", grant.role, grant.path), given.then_some("granted"));
        }
        Ok(())
    }

    /// The same as commands for a shell on a Proxmox host, which may be given again. The token's secret ends in `file` and
    /// nowhere else; `next` is what they say about it in the end.
    pub fn commands(&self, file: &str, next: &str) -> String {
        let mut text = String::new();
        let mut line = |one: String| {
            text.push_str(&one);
            text.push('\n');
        };
        line("set -eu".to_owned());
        if let Some(pool) = &self.pool {
            line(format!(
                "pveum pool list --output-format json | grep -q '\"poolid\":\"{pool}\"' || pveum pool add {pool}"
            ));
        }
        for (role, privileges) in self.roles() {
            let privileges = privileges.into_iter().collect::<Vec<_>>().join(" ");
            line(format!(
                "pveum role add {role} --privs '{privileges}' 2>/dev/null || pveum role modify {role} --privs '{privileges}'"
            ));
        }
        let user = &self.user;
        line(format!(
            "pveum user list --output-format json | grep -q '\"userid\":\"{user}\"' || pveum user add {user} --comment '{}'",
            self.comment
        ));
        // A secret is told once: whatever is in the file stays until there is another one to put there.
        let (token, file) = (&self.token, quoted(file));
        line(format!(
            "if pveum user token list {user} --output-format json | grep -q '\"tokenid\":\"{token}\"'; then"
        ));
        line(format!(
            "  echo 'The token {user}!{token} is there already, and its secret is not told again. If it is lost: pveum user \
             token remove {user} {token}, and run this again.' >&2"
        ));
        line("else".to_owned());
        line(format!("  made=$(pveum user token add {user} {token} --privsep 1 --output-format json)"));
        line(
            "  secret=$(printf '%s\\n' \"$made\" | sed -n 's/.*\"value\" *: *\"\\([^\"]*\\)\".*/\\1/p')"
                .to_owned(),
        );
        line("  : \"${secret:?pveum does not tell the secret of the token}\"".to_owned());
        line(format!("  (umask 077; printf '%s\\n' \"$secret\" > {file})"));
        line("fi".to_owned());
        for grant in &self.grants {
            let flag = u8::from(grant.propagate);
            for (option, id) in [("--users", self.user.clone()), ("--tokens", self.token_id())] {
                let (path, role) = (&grant.path, grant.role);
                line(format!("pveum acl modify {path} {option} '{id}' --roles {role} --propagate {flag}"));
            }
        }
        line(format!("if [ -s {file} ]; then echo {} >&2; fi", quoted(next)));
        text
    }
}

/// A word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// One change of the account.
fn change<'a, T: Send + 'a>(
    effects: &'a Effects,
    what: String,
    call: impl Future<Output = Result<T, daedal_proxmox::Error>> + Send + 'a,
) -> BoxFuture<'a, Result<T, Error>> {
    effects.proxmox(EffectKind::SetAccount, what, call)
}
