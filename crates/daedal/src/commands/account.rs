//! Carries out a plan for an account of Proxmox: shows it, asks, executes it, sums it up.

use std::collections::BTreeSet;

use clap::Args;
use daedal_engine::{AccountReport, Accounts};
use daedal_planner::{
    Account, AccountNote, AccountPlan, AccountStep, Holder, PlanError, Secret, check_account, plan_account,
};
use daedal_proxmox::NewToken;

use super::approval::agreed;
use super::proxmox::account_failure;
use crate::cli::Format;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::words::count;

/// Whether a command asks before it changes an account, and does anything.
#[derive(Debug, Args)]
pub struct ConsentArgs {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    /// Only show the plan.
    #[arg(long)]
    pub plan_only: bool,
}

/// An account that a command is asked for.
pub struct Asked<'a> {
    pub account: &'a Account,
    /// What is known of its token's secret.
    pub secret: Secret,
    /// Where the secret of a new token goes, for people.
    pub goes_to: String,
    /// How to name the place where the secret of the token that exists is.
    pub elsewhere: &'static str,
    /// The Proxmox that it is on, for people.
    pub place: String,
    pub consent: &'a ConsentArgs,
    pub format: Format,
}

/// How it ended.
pub struct Carried {
    pub plan: AccountPlan,
    /// Whether the account is as asked for now.
    pub done: bool,
}

impl Carried {
    /// For programs.
    pub fn as_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!(self.plan);
        json["changed"] = (self.done && !self.plan.is_empty()).into();
        json
    }
}

impl Asked<'_> {
    /// Looks, plans, shows, asks, and makes the account what it should be. `ready` is called right before the first change.
    pub async fn carry_out(
        &self,
        accounts: &Accounts<'_>,
        ready: impl AsyncFnOnce() -> Outcome<()>,
        keep: impl AsyncFn(&NewToken) -> std::io::Result<()>,
    ) -> Outcome<Carried> {
        let Self { account, secret, consent, .. } = *self;
        let view = Box::pin(accounts.look(account)).await.map_err(|error| account_failure(&error))?;
        let plan = plan_account(account, &view, secret).map_err(|error| self.refused(&error))?;
        let findings = check_account(account, &view, secret, &plan);
        if !findings.is_empty() {
            let message = "the plan breaks a safety rule and will not be executed";
            let mut failure = Failure::new(Exit::Failed, message);
            failure.causes = findings.iter().map(ToString::to_string).collect();
            return Err(failure);
        }
        if self.format == Format::Text {
            console::answer(&self.shown(&plan));
        }
        if plan.is_empty() || consent.plan_only {
            let done = plan.is_empty();
            return Ok(Carried { plan, done });
        }
        if !consent.yes {
            let question = format!("{}.\nDo this to account {}?", counted(&plan, false), plan.token);
            agreed(&question, "nothing was done", "Give --yes.")?;
        }
        ready().await?;
        let report = Box::pin(accounts.execute((account, &view, secret), &plan, keep)).await;
        let AccountReport { done, failure } = report.map_err(|error| account_failure(&error))?;
        if let Some(error) = failure {
            let of = count(plan.steps.len(), "step");
            return Err(account_failure(&error)
                .hint(format!("{done} of {of} are done; the same command does the rest.")));
        }
        if self.format == Format::Text {
            console::answer(&format!("\nAccount {}: {}.", plan.token, counted(&plan, true)));
        }
        Ok(Carried { plan, done: true })
    }

    /// Why no plan can be made.
    fn refused(&self, error: &PlanError) -> Failure {
        let failure = Failure::from_error(Exit::Failed, error);
        match error {
            PlanError::TokenExists { .. } => failure.hint(self.elsewhere).hint(
                "If nobody has it, for example after a run that was interrupted before it stored the secret: --rotate re-creates \
                 the token.",
            ),
            _ => failure,
        }
    }

    /// A plan, for people.
    fn shown(&self, plan: &AccountPlan) -> String {
        if plan.is_empty() {
            return format!("No changes: account {} is as asked for.\n", plan.token);
        }
        let mut text = format!("Plan to set up account {}\n{}\n\n", plan.token, self.place);
        if !plan.notes.is_empty() {
            text.push_str("Warnings\n");
            plan.notes.iter().for_each(|note| text.push_str(&format!("  {}\n", warned(note))));
            text.push('\n');
        }
        let mut given: Vec<(&str, &str)> = Vec::new();
        for step in &plan.steps {
            if let AccountStep::SetAcl { path, role, .. } = step {
                // User and token get the same, which is one line.
                if given.contains(&(path, role)) {
                    continue;
                }
                given.push((path, role));
            }
            text.push_str(&format!("  {}\n", self.line(step, plan)));
        }
        text.push_str(&format!("\nNothing is deleted{}.\n", self.except(plan)));
        text.push_str(&format!("{}.", counted(plan, false)));
        text
    }

    /// What is deleted all the same.
    fn except(&self, plan: &AccountPlan) -> &'static str {
        let replaced = |step: &AccountStep| matches!(step, AccountStep::CreateToken { replaces: true, .. });
        match plan.steps.iter().any(replaced) {
            true => " but the old token, whose secret stops working",
            false => "",
        }
    }

    fn line(&self, step: &AccountStep, plan: &AccountPlan) -> String {
        let list = |privileges: &BTreeSet<String>| {
            privileges.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        match step {
            AccountStep::CreatePool { pool, .. } => format!("+ create pool {pool}"),
            AccountStep::CreateRole { role, privileges } => {
                format!("+ create role {role} with {}", list(privileges))
            }
            AccountStep::ChangeRole { role, privileges, before } => {
                let less = |one: &BTreeSet<String>, other| {
                    one.difference(other).cloned().collect::<BTreeSet<String>>()
                };
                let told = [("adds", less(privileges, before)), ("removes", less(before, privileges))];
                let told = told.iter().filter(|(_, which)| !which.is_empty());
                let told: Vec<String> = told.map(|(verb, which)| format!("{verb} {}", list(which))).collect();
                format!("~ change role {role}: {}", told.join("; "))
            }
            AccountStep::CreateUser { user, .. } => format!("+ create user {user}, without password"),
            AccountStep::CreateToken { replaces, .. } => {
                let verb = if *replaces { "~ re-create" } else { "+ create" };
                format!("{verb} token {}; its secret goes to {}", plan.token, self.goes_to)
            }
            AccountStep::SetAcl { path, role, propagate, .. } => {
                let both = plan.steps.iter().filter_map(|step| match step {
                    AccountStep::SetAcl { path: on, role: given, holder, id, .. }
                        if (on, given) == (path, role) =>
                    {
                        Some((*holder, id.as_str()))
                    }
                    _ => None,
                });
                let both: Vec<(Holder, &str)> = both.collect();
                let holders = match &both[..] {
                    [(Holder::User, user), (Holder::Token, _)] => format!("{user} and its token"),
                    one => one.iter().map(|(_, id)| *id).collect::<Vec<_>>().join(" and "),
                };
                let below = if *propagate { "" } else { ", not below it" };
                format!("+ grant role {role} on {path} to {holders}{below}")
            }
        }
    }
}

fn warned(note: &AccountNote) -> String {
    match note {
        AccountNote::SharedUser { user } => format!(
            "{user}: The user exists and was not created for this. It is granted the roles as well, because a token may only do \
             what its user may."
        ),
    }
}

/// Everything that a plan does, or has done, counted.
fn counted(plan: &AccountPlan, past: bool) -> String {
    let number = |such: fn(&AccountStep) -> bool| plan.steps.iter().filter(|step| such(step)).count();
    let all = [
        (number(|step| matches!(step, AccountStep::CreatePool { .. })), "pool", "create", "created"),
        (number(|step| matches!(step, AccountStep::CreateRole { .. })), "role", "create", "created"),
        (number(|step| matches!(step, AccountStep::ChangeRole { .. })), "role", "change", "changed"),
        (number(|step| matches!(step, AccountStep::CreateUser { .. })), "user", "create", "created"),
        (
            number(|step| matches!(step, AccountStep::CreateToken { replaces: false, .. })),
            "token",
            "create",
            "created",
        ),
        (
            number(|step| matches!(step, AccountStep::CreateToken { replaces: true, .. })),
            "token",
            "re-create",
            "re-created",
        ),
        (number(|step| matches!(step, AccountStep::SetAcl { .. })), "permission", "grant", "granted"),
    ];
    let told = all.into_iter().filter(|(number, ..)| *number > 0);
    let told = told.map(|(number, noun, verb, done)| {
        let verb = if past { done.to_owned() } else { format!("to {verb}") };
        format!("{} {verb}", count(number, noun))
    });
    told.collect::<Vec<_>>().join(", ")
}
