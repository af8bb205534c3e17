//! Makes a Proxmox account what it should be, as a plan says it: user, token, roles and access control list.
//!
//! An account often comes before everything else. So the lock, the fence and the journal are those of the cluster's store where
//! there is one already, and else there are none: then Proxmox's own lock of its user list orders two administrators, a token of
//! one name is created once, and a role that somebody else changed meanwhile is not touched.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use daedal_planner::{
    Account, AccountPlan, AccountStep, AccountView, AclView, Holder as Side, RoleView, Secret, check_account,
};
use daedal_proxmox::{Client, Holder, NewToken};
use daedal_store::{Entry, Journal, Store};
use futures::future::BoxFuture;

use crate::clock::Clock;
use crate::effects::{EffectKind, Effects};
use crate::error::{Error, chain};

/// Who keeps accounts, and how.
pub struct Accounts<'a> {
    /// The administrator.
    pub admin: &'a Client,
    /// What every change passes.
    pub effects: &'a Effects,
    /// The cluster's store, where there is one already.
    pub store: Option<&'a Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// How a plan for an account went.
#[derive(Debug)]
pub struct AccountReport {
    /// How many of its steps are done, from the first.
    pub done: usize,
    /// Why the next one is not.
    pub failure: Option<Error>,
}

impl Accounts<'_> {
    /// Looks at everything that an account is made of.
    pub async fn look(&self, account: &Account) -> Result<AccountView, Error> {
        let admin = self.admin;
        let pools = async {
            match account.pool {
                Some(_) => admin.pools().await,
                None => Ok(Vec::new()),
            }
        };
        let (pools, roles, users, acl) = tokio::try_join!(pools, admin.roles(), admin.users(), admin.acl())?;
        // Nobody has tokens of a user that does not exist.
        let tokens = match users.iter().any(|user| user.userid == account.user) {
            true => admin.tokens_of(&account.user).await?,
            false => Vec::new(),
        };
        let role = |row: daedal_proxmox::RoleRow| {
            let privileges = row.privileges.into_iter().collect();
            (row.roleid, RoleView { privileges, built_in: row.special })
        };
        Ok(AccountView {
            pools: pools.into_iter().map(|pool| pool.poolid).collect(),
            roles: roles.into_iter().map(role).collect(),
            users: users.into_iter().map(|user| (user.userid, user.comment.unwrap_or_default())).collect(),
            tokens: tokens.into_iter().map(|token| token.tokenid).collect(),
            acl: acl
                .into_iter()
                .map(|entry| AclView {
                    path: entry.path,
                    role: entry.roleid,
                    id: entry.ugid,
                    propagate: entry.propagate,
                })
                .collect(),
        })
    }

    /// Carries out a plan, step by step. A new token's secret is given to `keep` before anything else happens; where it cannot be
    /// kept, the token is deleted again. An error means that nothing was begun.
    pub async fn execute(
        &self,
        (account, view, secret): (&Account, &AccountView, Secret),
        plan: &AccountPlan,
        keep: impl AsyncFn(&NewToken) -> std::io::Result<()>,
    ) -> Result<AccountReport, Error> {
        if let [first, ..] = &check_account(account, view, secret, plan)[..] {
            return Err(Error::Plan { why: format!("the checker refuses it: {first}") });
        }
        let journal = self.store.map(Store::journal);
        self.note(journal.as_ref(), "run begun", &format!("account {}", plan.token), "");
        let (mut done, mut failure) = (0, None);
        for step in &plan.steps {
            let what = subject(step);
            self.note(journal.as_ref(), "begun", &what, "");
            match self.step(step, &what, &keep).await {
                Ok(()) => self.note(journal.as_ref(), "done", &what, ""),
                Err(error) => {
                    self.note(journal.as_ref(), "failed", &what, &chain(&error));
                    failure = Some(error);
                    break;
                }
            }
            done += 1;
        }
        let left = format!("{} left", plan.steps.len() - done);
        self.note(journal.as_ref(), "run ended", &format!("account {}", plan.token), &left);
        // The journal is for people: a full disk must not fail a run that succeeded.
        if let Some(journal) = journal
            && let Err(error) = journal.close().await
        {
            tracing::warn!(error = %chain(&error), "the journal could not be written");
        }
        Ok(AccountReport { done, failure })
    }

    fn note(&self, journal: Option<&Journal>, what: &str, subject: &str, detail: &str) {
        let Some(journal) = journal else { return };
        journal.note(&Entry {
            at: self.clock.now(),
            what: what.to_owned(),
            subject: subject.to_owned(),
            detail: detail.to_owned(),
        });
    }

    /// Carries out one step, unless it is done already.
    async fn step(
        &self,
        step: &AccountStep,
        what: &str,
        keep: &impl AsyncFn(&NewToken) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        if let Some(store) = self.store {
            // Whoever lost the lock begins nothing more.
            store.still_locked().await?;
        }
        let (admin, what) = (self.admin, what.to_owned());
        match step {
            AccountStep::CreatePool { pool, comment } => {
                if admin.pools().await?.iter().any(|known| known.poolid == *pool) {
                    return Ok(());
                }
                self.change(what, admin.create_pool(pool, Some(comment))).await
            }
            AccountStep::CreateRole { role, privileges } => match self.privileges(role).await? {
                Some(there) if there == *privileges => Ok(()),
                Some(_) => Err(Error::Changed { what }),
                None => self.change(what, admin.create_role(role, privileges)).await,
            },
            AccountStep::ChangeRole { role, privileges, before } => match self.privileges(role).await? {
                Some(there) if there == *privileges => Ok(()),
                Some(there) if there == *before => {
                    self.change(what, admin.update_role(role, privileges)).await
                }
                _ => Err(Error::Changed { what }),
            },
            AccountStep::CreateUser { user, comment } => {
                if admin.users().await?.iter().any(|known| known.userid == *user) {
                    return Ok(());
                }
                self.change(what, admin.create_user(user, comment)).await
            }
            AccountStep::CreateToken { user, token, comment, replaces } => {
                self.create_token((user, token, comment), *replaces, keep).await
            }
            AccountStep::SetAcl { path, role, holder, id, propagate } => {
                let holder = match holder {
                    Side::User => Holder::User(id),
                    Side::Token => Holder::Token(id),
                };
                self.change(what, admin.grant(path, role, holder, *propagate)).await
            }
        }
    }

    /// What is in a role now; none if there is no such role.
    async fn privileges(&self, role: &str) -> Result<Option<BTreeSet<String>>, Error> {
        let known = self.admin.roles().await?.into_iter().find(|known| known.roleid == role);
        Ok(known.map(|known| known.privileges.into_iter().collect()))
    }

    async fn create_token(
        &self,
        (user, token, comment): (&str, &str, &str),
        replaces: bool,
        keep: &impl AsyncFn(&NewToken) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let (admin, id) = (self.admin, format!("{user}!{token}"));
        let delete = |why: &str| self.change(format!("{why} token {id}"), admin.delete_token(user, token));
        let there = admin.tokens_of(user).await?.iter().any(|known| known.tokenid == token);
        match (there, replaces) {
            // Somebody created it meanwhile, and has its secret.
            (true, false) => return Err(Error::TokenExists { id }),
            (true, true) => delete("old").await?,
            (false, _) => {}
        }
        let made = self.change(format!("token {id}"), admin.create_token(user, token, comment)).await?;
        if let Err(source) = keep(&made).await {
            // A token whose secret nobody has is of no use, and would be in the way of the next try.
            delete("unkept").await?;
            return Err(Error::NotKept { id, source });
        }
        Ok(())
    }

    /// One change of an account.
    fn change<'a, T: Send + 'a>(
        &'a self,
        what: String,
        call: impl Future<Output = Result<T, daedal_proxmox::Error>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        self.effects.proxmox(EffectKind::SetAccount, what, call)
    }
}

/// What a step is about, for effects, errors and the journal.
fn subject(step: &AccountStep) -> String {
    match step {
        AccountStep::CreatePool { pool, .. } => format!("pool {pool}"),
        AccountStep::CreateRole { role, .. } | AccountStep::ChangeRole { role, .. } => format!("role {role}"),
        AccountStep::CreateUser { user, .. } => format!("user {user}"),
        AccountStep::CreateToken { user, token, .. } => format!("token {user}!{token}"),
        AccountStep::SetAcl { path, role, id, .. } => format!("{role} on {path} for {id}"),
    }
}
