//! `daedal apply`: show the plan, ask, execute, sum up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daedal_app::{Answers, Intent, has_problems};
use daedal_engine::Report;
use daedal_inventory::{Cluster, Cni, Reach};
use daedal_planner::{Action, Plan, Step, World};
use jiff::{SignedDuration, Timestamp};

use crate::cli::{Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::execute::{self, Canvas};
use crate::commands::{outputs, plan, saved};
use crate::console;
use crate::failure::Outcome;
use crate::keys::KeyArgs;
use crate::session::{Session, failure};
use crate::words::count;

/// What the command was told besides the target.
pub struct Options {
    /// A saved plan.
    pub saved: Option<PathBuf>,
    /// What names the one saved plan that may be executed.
    pub expect: Option<String>,
    /// How old the saved plan may be.
    pub max_age: Option<SignedDuration>,
    /// Do not ask.
    pub yes: bool,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Where to draw the run.
    pub timeline: Option<PathBuf>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(mut target: Target, options: &Options, format: Format, color: bool) -> Outcome {
    let saved = options.saved.as_deref().map(saved::read).transpose()?;
    if let Some(saved) = &saved {
        if let Some(id) = &options.expect {
            saved.expect(id)?;
        }
        if let Some(age) = options.max_age {
            saved.expect_younger(age, Timestamp::now())?;
        }
        saved.aim(&mut target)?;
    }
    let session = Session::open(&target, color).await?;
    plan::vet(&session, color).await?;
    let _lock = session.lock("apply").await?;
    let intent = saved.map_or(Intent::Apply, |saved| Intent::Saved(Box::new(saved.plan)));
    let (world, plan) = plan::made(&session, &intent).await?;
    plan::buildable(&session, &plan).await?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    if plan.is_empty() {
        plan::tell_unchanged(&plan, format);
        session.agree(&world, &plan).await.map_err(|error| failure(&error))?;
        if let Some(path) = options.timeline.as_deref() {
            Canvas::open(path)?.draw_nothing(&plan.cluster)?;
        }
        return Ok(plan::verdict(&plan));
    }
    let answers = Answers { yes: options.yes, onto: options.onto, ..Answers::default() };
    let again = command(&target, "apply");
    let save = command(&target, "plan --save FILE");
    let yes = format!("Give --yes, or approve a plan with `{save}` and `daedal apply FILE`.");
    let otherwise = Otherwise { again: &again, yes: &yes };
    approval::approve(&session, &intent, &world, &plan, &answers, &otherwise).await?;
    let canvas = options.timeline.as_deref().map(Canvas::open).transpose()?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    // How the run went comes first; that it could not be drawn is a small thing beside it.
    let drawn = canvas.map_or(Ok(()), |canvas| canvas.draw(&report));
    execute::conclude(&plan, &report, &again).map_err(|failure| match &drawn {
        Err(undrawn) => {
            failure.hint(format!("Besides, daedal {}: {}", undrawn.message, undrawn.causes.join(": ")))
        }
        Ok(()) => failure,
    })?;
    let follow_up = match options.saved.is_none() && session.starts_changed(&world, &plan) {
        true => {
            let follow =
                Follow { intent: Intent::Apply, again: &again, yes: options.yes, full: options.full };
            Some(follow_up(&session, &follow, format, color).await?)
        }
        false => None,
    };
    // What is true at the end is what was found last.
    let last = follow_up.as_ref().map_or(&plan, |after| &after.plan);
    match format {
        Format::Json => {
            let mut json = execute::as_json(last, &report);
            if let Some(FollowUp { plan, report: Some(report), .. }) = &follow_up {
                json["followUp"] = execute::as_json(plan, report);
            }
            console::json(&json);
        }
        Format::Text => {
            let found = follow_up.as_ref().map_or(&world, |after| &after.world);
            let more = follow_up.as_ref().and_then(|after| Some((&after.plan, after.report.as_ref()?)));
            let runs: Vec<(&Plan, &Report)> = [Some((&plan, &report)), more].into_iter().flatten().collect();
            console::answer(&summary(&session, &target, &Ended { found, last, runs: &runs }).await);
        }
    }
    drawn?;
    Ok(plan::verdict(last))
}

/// What was found once nodes had been started, and what was done about it.
pub struct FollowUp {
    /// What the look found.
    pub world: World,
    /// What was to be done.
    pub plan: Plan,
    /// None where there was nothing to do.
    pub report: Option<Report>,
}

/// What is done once more when nodes were started.
pub struct Follow<'a> {
    /// What for.
    pub intent: Intent<'a>,
    /// The command line that does it again.
    pub again: &'a str,
    /// Do not ask.
    pub yes: bool,
    /// Tell every node in full.
    pub full: bool,
}

/// What can be seen only now that nodes were started: the same as another run, in the same one.
pub async fn follow_up(
    session: &Session,
    follow: &Follow<'_>,
    format: Format,
    color: bool,
) -> Outcome<FollowUp> {
    let Follow { intent, again, yes, full } = follow;
    let (world, plan) = plan::made(session, intent).await?;
    if plan.finds_all_as_declared() && !has_problems(&plan) {
        return Ok(FollowUp { world, plan, report: None });
    }
    // Some may differ, and others may still not be seen: the plan says which.
    console::say("\nA second look, after nodes were started:");
    if format == Format::Text {
        plan::show(&plan, *full, format, color);
    }
    if plan.is_empty() {
        return Ok(FollowUp { world, plan, report: None });
    }
    if !yes {
        approval::consent_to_rest(&plan, &format!("For the rest: {again} --yes"))?;
    }
    let report = execute::execute(session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, again)?;
    Ok(FollowUp { world, plan, report: Some(report) })
}

/// What an apply found and did.
pub struct Ended<'a> {
    /// What the last look found.
    pub found: &'a World,
    /// The plan that was made of it.
    pub last: &'a Plan,
    /// Every plan that was executed, and how it went.
    pub runs: &'a [(&'a Plan, &'a Report)],
}

impl Ended<'_> {
    /// Every step that was carried out.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.runs.iter().flat_map(|(plan, _)| &plan.steps)
    }

    /// How many VMs were created, to go on a sentence with.
    pub fn created(&self) -> String {
        match self.steps().filter(|step| matches!(step.action, Action::CreateVm { .. })).count() {
            0 => String::new(),
            created => format!(", {} created", count(created, "VM")),
        }
    }

    /// What is known of the whole cluster.
    fn state(&self, cluster: &Cluster) -> String {
        if has_problems(self.last) {
            return "is incomplete: see Problems above".to_owned();
        }
        let nodes = count(cluster.nodes.len(), "node");
        let unready: Vec<&str> = (cluster.nodes.iter().map(|node| node.name.as_str()))
            .filter(|node| !self.saw_ready(node))
            .collect();
        match &unready[..] {
            [] => format!("is up: {nodes} Ready{}", self.addons(cluster)),
            _ if cluster.kubernetes.cni == Cni::None && !cluster.addons.iter().any(|addon| addon.network) => {
                format!("is up: {nodes}, Ready once a CNI is installed")
            }
            names => {
                let ready = cluster.nodes.len() - names.len();
                format!("is up: {ready} of {nodes} Ready, not awaited: {}", names.join(", "))
            }
        }
    }

    /// How many add-ons are there, to go on a sentence with.
    fn addons(&self, cluster: &Cluster) -> String {
        let all = cluster.addons.len();
        let view = |name: &str| self.found.addons.as_ref().and_then(|addons| addons.declared.get(name));
        let awaited = |name: &str| {
            let awaits =
                |step: &Step| matches!(&step.action, Action::AwaitAddon { addon, .. } if addon == name);
            self.steps().any(awaits)
        };
        let ready = cluster.addons.iter().filter(|addon| {
            let was = view(&addon.name).is_some_and(|view| view.is_as_declared() && view.unready().is_none());
            was || awaited(&addon.name)
        });
        match (all, ready.count()) {
            (0, _) => String::new(),
            (all, ready) if all == ready => format!(", {} ready", count(all, "add-on")),
            (all, ready) => format!(", {ready} of {} ready", count(all, "add-on")),
        }
    }

    /// Whether a node was Ready at the last look, or was awaited after it.
    fn saw_ready(&self, node: &str) -> bool {
        let awaits = |step: &Step| step.action == Action::AwaitReady && step.node.as_deref() == Some(node);
        self.found.nodes.get(node).is_some_and(|view| view.ready == Some(true))
            || self.last.steps.iter().any(awaits)
    }
}

/// How it went, and what to try next.
pub async fn summary(session: &Session, target: &Target, ended: &Ended<'_>) -> String {
    let cluster = &session.cluster;
    let found = session.engine.found_addresses().await.unwrap_or_default();
    let url = cluster.located(&found).kubernetes.endpoint_url();
    let made = ended.created();
    let state = ended.state(cluster);
    let stays = daedal_words::differing(ended.last).map(|stays| format!("; {stays}")).unwrap_or_default();
    let not_seen = daedal_words::not_seen(ended.last).map(|which| format!(" {which}")).unwrap_or_default();
    let took: Duration = ended.runs.iter().map(|(_, report)| report.took).sum();
    let critical: Duration = ended.runs.iter().map(|(_, report)| report.critical_time()).sum();
    // Where the way leads through SSH, or through a proxy of ours that need not run, kubectl alone would reach nobody.
    let alone = !matches!(cluster.reach, Reach::Ssh(_)) && cluster.outputs.kubeconfig_proxy.is_none();
    let kubectl = match (cluster.outputs.are_plain(), alone) {
        (true, true) => format!("eval \"$({})\" && kubectl get nodes -o wide", command(target, "env")),
        (true, false) => format!("{} -- get nodes -o wide", command(target, "kubectl")),
        (false, _) => command(target, outputs::MINT),
    };
    format!(
        "\nCluster {} {state}{stays}{made}, {} in {:.1} s (critical path {:.1} s).{not_seen}\n\
         API server: {}\n\n\
         Next:\n  {}\n  {}\n  {}\n",
        cluster.name,
        count(ended.steps().count(), "step"),
        took.as_secs_f64(),
        critical.as_secs_f64(),
        url.unwrap_or_default(),
        command(target, "status"),
        kubectl,
        command(target, "destroy"),
    )
}

/// This program as it was called, if that was by a path: `daedal` alone may lead nowhere, or to another.
pub fn program() -> String {
    let called = std::env::args_os().next().map(|called| called.to_string_lossy().into_owned());
    match called {
        Some(path) if path.contains('/') && !path.contains(char::is_whitespace) => path,
        _ => "daedal".to_owned(),
    }
}

/// The command line for another command on the same target.
pub fn command(target: &Target, name: &str) -> String {
    let mut text = format!("{} {name}", program());
    if target.lab {
        text.push_str(" --lab");
        text.push_str(&lab_folder(&target.lab_options.lab_dir));
    }
    for file in &target.files {
        text.push_str(&format!(" -f {}", file.display()));
    }
    if let Some(name) = &target.cluster {
        text.push_str(&format!(" --cluster {name}"));
    }
    text + &kept_in(target.state.as_deref(), &target.keys)
}

/// The command line for a command on the same lab.
pub fn lab_command(folder: &Path, name: &str) -> String {
    format!("{} lab {name}{}", program(), lab_folder(folder))
}

/// The flag that leads to a lab, where it is not in the usual place.
fn lab_folder(folder: &Path) -> String {
    match folder.as_os_str() == ".daedal/lab" {
        true => String::new(),
        false => format!(" --lab-dir {}", folder.display()),
    }
}

/// The flags that lead to what is kept for a cluster, where it is not in the usual place.
pub fn kept_in(state: Option<&Path>, keys: &KeyArgs) -> String {
    let flags = [("--state", state), ("--key", keys.key.as_deref())];
    flags.into_iter().filter_map(|(flag, path)| Some(format!(" {flag} {}", path?.display()))).collect()
}
