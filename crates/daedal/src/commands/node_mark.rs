//! `daedal node mark`: give a VM its lost mark back.

use daedal_app::Intent;
use daedal_inventory::Node;

use crate::cli::{Consent, Format, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::node;
use crate::documents;
use crate::failure::Outcome;
use crate::session::Session;

/// Runs the command.
pub async fn run(name: &str, target: &Target, consent: &Consent, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let node: Node = node::declared(&inventory.loaded.cluster, name)?.clone();
    let session = Session::with(inventory, target).await?;
    let (words, answers, plan_only) = (format!("node mark {name}"), consent.answers(None), consent.plan_only);
    let manner =
        Manner { target, doing: &words, words: &words, plan_only, full: false, answers, format, color };
    carry_out::run_in(&session, &Intent::Mark(Box::new(node)), &manner, |_, _| None).await
}
