//! `daedal recreate`: destroy and apply, asked once. Secrets, VMIDs, MACs and addresses stay the same.

use daedal_app::{Answers, Destroyed, Intent};
use daedal_engine::Report;
use daedal_planner::Plan;

use crate::cli::{Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, destroy, execute, plan};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, failure};

/// What the command was told besides the target.
pub struct Options {
    /// Names of clusters that may be destroyed.
    pub confirm: Vec<String>,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command. Killed between its halves, the next `recreate` or `apply` creates what is missing.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    // Whatever would keep the second half from being done is found out before the first.
    plan::vet(&session, color).await?;
    let _lock = session.lock("recreate").await?;
    let first = take_down(&session, target, options, format, color).await?;
    let (world, plan) = plan::made(&session, &Intent::Apply).await?;
    plan::buildable(&session, &plan).await?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    let again = apply::command(target, "apply");
    let named = destroy::confirmed(&options.confirm, &plan.cluster);
    let yes = first.is_some() || named.as_deref() == Some(plan.cluster.as_str());
    if !plan.is_empty() {
        let answers = Answers { yes, onto: options.onto.filter(|_| first.is_none()), ..Answers::default() };
        let otherwise = format!("Give --confirm {}", plan.cluster);
        let otherwise = Otherwise { again: &again, yes: &otherwise };
        approval::approve(&session, &Intent::Apply, &world, &plan, &answers, &otherwise).await?;
    }
    let report = match plan.is_empty() {
        true => None,
        false => Some(execute::execute(&session, &world, &plan, format, color).await?),
    };
    if let Some(report) = &report {
        execute::conclude(&plan, report, &again)?;
    }
    match (format, &report) {
        (Format::Json, _) => {
            let mut json = match &report {
                Some(report) => execute::as_json(&plan, report),
                None => plan::unchanged(&plan),
            };
            if let Some((plan, report)) = &first {
                json["destroyed"] = execute::as_json(plan, report);
            }
            console::json(&json);
        }
        (Format::Text, Some(report)) => {
            let ended = apply::Ended { found: &world, last: &plan, runs: &[(&plan, report)] };
            console::answer(&apply::summary(&session, target, &ended).await);
        }
        (Format::Text, None) => {}
    }
    Ok(plan::verdict(&plan))
}

/// Destroys what there is, after it was named and agreed to. None where there is nothing.
async fn take_down(
    session: &Session,
    target: &Target,
    options: &Options,
    format: Format,
    color: bool,
) -> Outcome<Option<(Plan, Report)>> {
    let intent = Intent::Destroy { without_secrets: false };
    let (world, plan) = plan::made(session, &intent).await?;
    if plan.is_empty() {
        return Ok(None);
    }
    daedal_planner::can_create(&session.cluster, &world).map_err(|refused| failure(&refused.into()))?;
    plan::factory_has_all(session).await?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
        console::say(
            "Afterwards the same cluster is created again, empty: same secrets, VMIDs, MACs and addresses.",
        );
    }
    let again = apply::command(target, "recreate");
    let answers = Answers {
        onto: options.onto,
        name: destroy::confirmed(&options.confirm, &plan.cluster),
        ..Answers::default()
    };
    let otherwise = Otherwise { again: &again, yes: "" };
    approval::approve(session, &intent, &world, &plan, &answers, &otherwise).await?;
    let report = execute::execute(session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    // Only a look afterwards tells what is gone.
    let (world, after) = plan::made(session, &intent).await?;
    let Destroyed { left, .. } = session.destroyed(&world, &after).await.map_err(|error| failure(&error))?;
    if !left.is_empty() {
        let cluster = &plan.cluster;
        let message = format!("cluster {cluster} was destroyed in part, and nothing was created");
        let mut failure = Failure::new(Exit::Failed, message);
        failure.causes.push(format!("left: {}", left.join(", ")));
        failure.report = Some(Box::new(execute::as_json(&after, &report)));
        return Err(failure.hint(format!("Why they stay: {}", apply::command(target, "destroy"))));
    }
    Ok(Some((plan, report)))
}
