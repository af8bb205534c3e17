//! Accounts of Proxmox: [`plan_account`] turns what one should be ([`Account`]) and what was seen ([`AccountView`]) into an
//! [`AccountPlan`], and [`check_account`] judges any such plan.
//!
//! It is a plan of its own kind, because an account comes before everything else: an administrator makes it for a datacenter,
//! often before there is a cluster, an inventory or a store. What holds for every one: no user, role or pool of others is changed,
//! nothing is allowed beyond the declared grants, and nothing is removed. Only a token is re-created, and only where that was asked for.

mod check;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use crate::error::PlanError;

pub use check::check_account;

/// What the roles that are ours are called by.
const ROLE_PREFIX: &str = "Daedal";

/// One role on one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// ACL path.
    pub path: String,
    /// The role's name.
    pub role: &'static str,
    /// What is in the role.
    pub privileges: BTreeSet<&'static str>,
    /// Whether it holds below the path, too.
    pub propagate: bool,
    /// What is lost without it, where nothing fails; none where it is needed.
    #[serde(rename = "optional", serialize_with = "whether")]
    pub loss: Option<&'static str>,
}

fn whether<S: Serializer>(loss: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(loss.is_some())
}

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

impl Account {
    /// `user@realm!token`.
    pub fn token_id(&self) -> String {
        format!("{}!{}", self.user, self.token)
    }

    /// The roles that the grants name, and what is in each.
    pub fn roles(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut roles = BTreeMap::<_, BTreeSet<String>>::new();
        for grant in &self.grants {
            roles.entry(grant.role).or_default().extend(grant.privileges.iter().map(ToString::to_string));
        }
        roles
    }
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

/// What was seen of the accounts of a datacenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountView {
    /// Resource pools.
    pub pools: BTreeSet<String>,
    /// Roles by name.
    pub roles: BTreeMap<String, RoleView>,
    /// Users and their comments.
    pub users: BTreeMap<String, String>,
    /// The names of the tokens that the account's user has.
    pub tokens: BTreeSet<String>,
    /// The access control list.
    pub acl: BTreeSet<AclView>,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleView {
    /// What is in it.
    pub privileges: BTreeSet<String>,
    /// It came with Proxmox and cannot be changed.
    pub built_in: bool,
}

/// An entry of the access control list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclView {
    /// Path.
    pub path: String,
    /// Role.
    pub role: String,
    /// User, group or token.
    pub id: String,
    /// Whether it holds below the path, too.
    pub propagate: bool,
}

/// Who an entry of the access control list is for. A token may do what both it and its user may: each role is given to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Holder {
    /// The account's user.
    User,
    /// The account's token.
    Token,
}

/// One step towards an account, with every value that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum AccountStep {
    /// Create a resource pool.
    CreatePool {
        /// Its name.
        pool: String,
        /// What it is for.
        comment: String,
    },
    /// Create a role.
    CreateRole {
        /// Its name.
        role: String,
        /// What is in it.
        privileges: BTreeSet<String>,
    },
    /// Change what is in a role of ours.
    ChangeRole {
        /// Its name.
        role: String,
        /// What is in it then.
        privileges: BTreeSet<String>,
        /// What was in it; if it is something else by now, the role is not touched.
        before: BTreeSet<String>,
    },
    /// Create a user without password.
    CreateUser {
        /// `name@realm`.
        user: String,
        /// What it is for.
        comment: String,
    },
    /// Create a token with privilege separation, and store its secret.
    CreateToken {
        /// Its user.
        user: String,
        /// Its name, the part after `!`.
        token: String,
        /// What it is for.
        comment: String,
        /// Whether one of this name is deleted first, whose secret stops working.
        replaces: bool,
    },
    /// Give a role on a path.
    SetAcl {
        /// Path.
        path: String,
        /// Role.
        role: String,
        /// To whom.
        holder: Holder,
        /// Their id.
        id: String,
        /// Whether it holds below the path, too.
        propagate: bool,
    },
}

/// Something about an account that deserves attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum AccountNote {
    /// The user was there and was not created for this; it gets the roles as well.
    SharedUser {
        /// `name@realm`.
        user: String,
    },
}

/// A plan that makes an account what it should be. Its steps are carried out one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountPlan {
    /// `user@realm!token`.
    pub token: String,
    /// What is done, in this order.
    pub steps: Vec<AccountStep>,
    /// What deserves attention.
    pub notes: Vec<AccountNote>,
}

impl AccountPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Plans what an account lacks. What is there and right stays; asked again, there is nothing to do.
pub fn plan_account(account: &Account, view: &AccountView, secret: Secret) -> Result<AccountPlan, PlanError> {
    let Account { user, token, comment, .. } = account;
    let mut steps = Vec::new();
    if let Some(pool) = account.pool.as_ref().filter(|pool| !view.pools.contains(*pool)) {
        steps.push(AccountStep::CreatePool { pool: pool.clone(), comment: comment.clone() });
    }
    for (role, privileges) in account.roles() {
        let role = role.to_owned();
        match view.roles.get(&role) {
            None => steps.push(AccountStep::CreateRole { role, privileges }),
            Some(there) if there.privileges == privileges => {}
            Some(there) if there.built_in => return Err(PlanError::BuiltInRole { role }),
            Some(there) => {
                let before = there.privileges.clone();
                steps.push(AccountStep::ChangeRole { role, privileges, before });
            }
        }
    }
    if !view.users.contains_key(user) {
        steps.push(AccountStep::CreateUser { user: user.clone(), comment: comment.clone() });
    }
    let there = view.tokens.contains(token);
    match (there, secret) {
        (true, Secret::Known) => {}
        (true, Secret::Unknown) => return Err(PlanError::TokenExists { id: account.token_id() }),
        (_, Secret::Rotate) | (false, _) => steps.push(AccountStep::CreateToken {
            user: user.clone(),
            token: token.clone(),
            comment: comment.clone(),
            replaces: there,
        }),
    }
    // The entries of a token that is deleted go with it.
    let kept = there && secret != Secret::Rotate;
    for grant in &account.grants {
        for (holder, id, known) in
            [(Holder::User, user.clone(), true), (Holder::Token, account.token_id(), kept)]
        {
            let (path, role, propagate) = (grant.path.clone(), grant.role.to_owned(), grant.propagate);
            let entry = AclView { path: path.clone(), role: role.clone(), id: id.clone(), propagate };
            let step = AccountStep::SetAcl { path, role, holder, id, propagate };
            let there = known && view.acl.contains(&entry);
            if !there && !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    let widened = steps.iter().any(|step| matches!(step, AccountStep::SetAcl { holder: Holder::User, .. }));
    let shared = view.users.get(user).is_some_and(|theirs| theirs.trim_end() != comment) && widened;
    let notes = shared.then(|| AccountNote::SharedUser { user: user.clone() }).into_iter().collect();
    Ok(AccountPlan { token: account.token_id(), steps, notes })
}
