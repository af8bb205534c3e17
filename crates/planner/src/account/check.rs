//! The checker of plans for accounts: nothing of others is touched, nothing is allowed beyond what is declared, nothing is removed.

use super::{Account, AccountPlan, AccountStep, AccountView, AclView, Holder, ROLE_PREFIX, Secret};
use crate::check::{Finding, Rule};
use crate::plan::StepId;

/// Judges a plan for an account, however it was made. An empty answer means that it may be executed.
pub fn check_account(
    account: &Account,
    view: &AccountView,
    secret: Secret,
    plan: &AccountPlan,
) -> Vec<Finding> {
    let mut checker = Checker { account, view, secret, plan, findings: Vec::new() };
    if plan.token != account.token_id() {
        let text = "The plan is for another account.".to_owned();
        checker.findings.push(Finding { rule: Rule::Identity, step: None, text });
    }
    for (at, step) in plan.steps.iter().enumerate() {
        checker.step(at, step);
    }
    checker.findings
}

struct Checker<'a> {
    account: &'a Account,
    view: &'a AccountView,
    secret: Secret,
    plan: &'a AccountPlan,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn demand(&mut self, holds: bool, rule: Rule, at: usize, text: &str) {
        if !holds {
            let step = StepId::try_from(at).ok();
            self.findings.push(Finding { rule, step, text: text.to_owned() });
        }
    }

    /// Whether an earlier step is such.
    fn after(&self, at: usize, such: impl Fn(&AccountStep) -> bool) -> bool {
        self.plan.steps.iter().take(at).any(such)
    }

    fn step(&mut self, at: usize, step: &AccountStep) {
        self.demand(!self.plan.steps[..at].contains(step), Rule::Destruction, at, "The same is done twice.");
        match step {
            AccountStep::CreatePool { pool, .. } => {
                let asked = self.account.pool.as_ref() == Some(pool);
                self.demand(asked, Rule::Ownership, at, "The pool is not the account's.");
                self.demand(!self.view.pools.contains(pool), Rule::Creation, at, "The pool exists.");
            }
            AccountStep::CreateRole { role, privileges } => {
                self.demand(!self.view.roles.contains_key(role), Rule::Creation, at, "The role exists.");
                self.role(at, role, privileges.iter());
            }
            AccountStep::ChangeRole { role, privileges, before } => {
                let seen = self.view.roles.get(role);
                let ours = seen.is_some_and(|seen| !seen.built_in && seen.privileges == *before);
                self.demand(
                    ours,
                    Rule::Ownership,
                    at,
                    "The role is not there, built in, or has other privileges.",
                );
                self.role(at, role, privileges.iter());
            }
            AccountStep::CreateUser { user, .. } => {
                self.demand(
                    *user == self.account.user,
                    Rule::Ownership,
                    at,
                    "The user is not the account's.",
                );
                self.demand(!self.view.users.contains_key(user), Rule::Creation, at, "The user exists.");
            }
            AccountStep::CreateToken { user, token, replaces, .. } => {
                self.token(at, (user, token), *replaces);
            }
            AccountStep::SetAcl { path, role, holder, id, propagate } => {
                let entry =
                    AclView { path: path.clone(), role: role.clone(), id: id.clone(), propagate: *propagate };
                self.acl(at, &entry, *holder);
            }
        }
    }

    /// A role is one of ours, and allows just what is declared.
    fn role<'p>(&mut self, at: usize, role: &str, privileges: impl Iterator<Item = &'p String>) {
        let declared = self.account.roles().get(role).cloned();
        let ours = role.starts_with(ROLE_PREFIX) && declared.is_some();
        self.demand(ours, Rule::Ownership, at, "The role is not one of the account's.");
        let same = declared.is_some_and(|declared| privileges.eq(declared.iter()));
        self.demand(same, Rule::Ownership, at, "The role would allow something else than is declared.");
        let unused =
            !self.after(at, |step| matches!(step, AccountStep::SetAcl { role: given, .. } if given == role));
        self.demand(unused, Rule::Order, at, "The role was given before it was as declared.");
    }

    fn token(&mut self, at: usize, (user, token): (&str, &str), replaces: bool) {
        let ours = user == self.account.user && token == self.account.token;
        self.demand(ours, Rule::Ownership, at, "The token is not the account's.");
        let there = self.view.tokens.contains(token);
        self.demand(
            there == replaces,
            Rule::Creation,
            at,
            "The token exists, or does not, against the plan.",
        );
        let asked = !replaces || self.secret == Secret::Rotate;
        self.demand(asked, Rule::Destruction, at, "Nobody asked to re-create the token.");
        let user_there = self.view.users.contains_key(user)
            || self
                .after(at, |step| matches!(step, AccountStep::CreateUser { user: made, .. } if made == user));
        self.demand(user_there, Rule::Order, at, "The token's user is not there before it.");
        let once = !self.after(at, |step| matches!(step, AccountStep::CreateToken { .. }));
        self.demand(once, Rule::Destruction, at, "The token is created twice.");
    }

    fn acl(&mut self, at: usize, entry: &AclView, holder: Holder) {
        let declared = self.account.grants.iter().any(|grant| {
            (grant.path.as_str(), grant.role, grant.propagate)
                == (&*entry.path, &*entry.role, entry.propagate)
        });
        self.demand(declared, Rule::Ownership, at, "The entry allows something that is not declared.");
        let (account, view) = (self.account, self.view);
        let (id, there) = match holder {
            Holder::User => (account.user.clone(), view.users.contains_key(&account.user)),
            Holder::Token => (account.token_id(), view.tokens.contains(&account.token)),
        };
        self.demand(entry.id == id, Rule::Ownership, at, "The entry is for somebody else.");
        let made = |step: &AccountStep| {
            matches!(
                (step, holder),
                (AccountStep::CreateUser { .. }, Holder::User)
                    | (AccountStep::CreateToken { .. }, Holder::Token)
            )
        };
        // A token that is re-created loses what it was given before.
        let makes = self.plan.steps.iter().any(made);
        self.demand(
            self.after(at, made) || (there && !makes),
            Rule::Order,
            at,
            "The entry's holder is not there before it.",
        );
        let wanted = account.roles().get(entry.role.as_str()).cloned();
        let is_right =
            view.roles.get(&entry.role).is_some_and(|seen| Some(&seen.privileges) == wanted.as_ref());
        let set = self.after(at, |step| {
            matches!(step, AccountStep::CreateRole { role, .. } | AccountStep::ChangeRole { role, .. } if *role == entry.role)
        });
        self.demand(
            is_right || set,
            Rule::Order,
            at,
            "The role is given before it allows just what is declared.",
        );
    }
}
