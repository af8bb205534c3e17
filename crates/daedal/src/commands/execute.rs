//! Executes a plan in front of a person: progress while it runs, Ctrl-C, a summary at the end.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use daedal_engine::{Report, Run, StepState};
use daedal_planner::{Plan, World};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::Format;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::progress::{self, Style};
use crate::session::{Session, failure};
use crate::timeline::{self, Bar};
use crate::{advice, approver, console, keys, part};

/// Runs the plan to its end, or until the user has had enough.
pub async fn execute(
    session: &Session,
    world: &World,
    plan: &Plan,
    format: Format,
    color: bool,
) -> Outcome<Report> {
    execute_with(session, world, plan, None, format, color).await
}

/// The same with a snapshot that a new etcd begins with.
pub async fn execute_with(
    session: &Session,
    world: &World,
    plan: &Plan,
    snapshot: Option<&Path>,
    format: Format,
    color: bool,
) -> Outcome<Report> {
    if let Some(made) = session.ready_key(plan).await.map_err(|error| failure(&error))? {
        keys::told(made && !session.lab, session.store.keys())?;
    }
    let (run, events) = Run::new();
    let run = run.approved_by(approver::approver());
    let run = match snapshot {
        Some(file) => run.restoring(file),
        None => run,
    };
    // Whoever sees progress can interrupt it.
    let interrupts = tokio::spawn(part::inherit(
        part::current(),
        listen_for_interrupts(run.clone(), Interrupts::listen()),
    ));
    let shown = {
        let (plan, style, silence) = (plan.clone(), Style::choose(format, color), session.silence.clone());
        silence.leave_to_run(true);
        let show = async move { progress::show(style, &plan, events, silence).await };
        tokio::spawn(part::inherit(part::current(), show))
    };
    let report = session.run(world, plan, &run).await;
    interrupts.abort();
    let _ = interrupts.await;
    // Events are over once every sender is gone.
    drop(run);
    let _ = shown.await;
    session.silence.leave_to_run(false);
    let report = report.map_err(|error| failure(&error))?;
    session.keep().await.map_err(|mut failure| {
        let done = report.steps.iter().filter(|step| step.state.is_done()).count();
        failure.message = format!("{done} of {} steps are done, but {}", report.steps.len(), failure.message);
        failure.report = Some(Box::new(as_json(plan, &report)));
        failure
    })?;
    Ok(report)
}

/// The first signal that was heard, by the exit code that tells of it.
static HEARD: OnceLock<Exit> = OnceLock::new();

/// The first Ctrl-C, SIGTERM or SIGHUP begins nothing new; the second drops what is in flight.
async fn listen_for_interrupts(run: Run, mut interrupts: Interrupts) {
    let first = interrupts.next().await;
    let _ = HEARD.set(first);
    console::say(
        "\nStopping: nothing new begins, what is in flight is seen through. Press Ctrl-C again to abandon it.",
    );
    run.stop.cancel();
    interrupts.next().await;
    run.abandon.cancel();
    std::future::pending::<()>().await;
}

/// Ctrl-C, SIGTERM and SIGHUP, heard from the moment this is made.
pub struct Interrupts([(Exit, Option<Signal>); 3]);

impl Interrupts {
    /// Begins to listen. What the system does not let be heard never comes.
    pub fn listen() -> Self {
        let kinds = [
            (Exit::Interrupted, SignalKind::interrupt()),
            (Exit::Terminated, SignalKind::terminate()),
            (Exit::HungUp, SignalKind::hangup()),
        ];
        Self(kinds.map(|(exit, kind)| (exit, signal(kind).ok())))
    }

    /// Waits for the next one, and says with which code whoever heeds it ends.
    pub async fn next(&mut self) -> Exit {
        async fn heard((exit, signal): &mut (Exit, Option<Signal>)) -> Exit {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
            *exit
        }
        let [ctrl_c, terminate, hang_up] = &mut self.0;
        tokio::select! {
            exit = heard(ctrl_c) => exit,
            exit = heard(terminate) => exit,
            exit = heard(hang_up) => exit,
        }
    }
}

/// How a run went, for programs: the report, and what the plan could not reach and why.
pub fn as_json(plan: &Plan, report: &Report) -> serde_json::Value {
    let mut report = report.clone();
    for step in &mut report.steps {
        if let StepState::Failed { fix, .. } = &mut step.state {
            advice::complete(fix);
        }
    }
    let mut json = serde_json::json!(report);
    json["changed"] = true.into();
    json["notes"] = advice::notes(plan);
    json["differences"] = advice::differences(plan);
    super::plan::add_phase(&mut json, plan);
    json
}

/// Says how it went; an error if anything is not done.
pub fn conclude(plan: &Plan, report: &Report, again: &str) -> Outcome<()> {
    let failures: Vec<_> = report.failures().collect();
    let left: Vec<_> = report.left().collect();
    if failures.is_empty() && left.is_empty() {
        return Ok(());
    }
    let exit = match report.cancelled {
        true => HEARD.get().copied().unwrap_or(Exit::Interrupted),
        false => Exit::of_all(failures.iter().filter_map(|step| match &step.state {
            StepState::Failed { kind, .. } => Some(*kind),
            _ => None,
        })),
    };
    let message = match (report.cancelled, failures.len()) {
        (true, _) => format!("interrupted: {} of {} steps are left", left.len(), report.steps.len()),
        (false, 1) => format!("one step failed, {} more could not be done", left.len()),
        (false, n) => format!("{n} steps failed, {} more could not be done", left.len()),
    };
    let mut failure = Failure::new(exit, message);
    for step in &failures {
        if let StepState::Failed { error, fix, .. } = &step.state {
            failure.causes.push(format!("{}: {error}", step.subject()));
            failure = failure.advise(fix.as_ref());
        }
    }
    let abandoned = left.iter().filter(|step| step.state == StepState::Abandoned);
    for step in abandoned {
        failure.causes.push(format!("{}: abandoned; it may or may not have happened", step.subject()));
    }
    failure.hints.push(format!("What is done stands. Run it again and it goes on from there: {again}"));
    failure.report = Some(Box::new(as_json(plan, report)));
    Err(failure)
}

/// A file in which a run will be drawn, opened before the run begins: a path that cannot be written costs nothing then.
pub struct Canvas<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Canvas<'a> {
    /// Makes the file.
    pub fn open(path: &'a Path) -> Outcome<Self> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path, file })
    }

    /// Draws the run.
    pub fn draw(mut self, report: &Report) -> Outcome<()> {
        let bars: Vec<Bar> = report
            .steps
            .iter()
            .filter_map(|step| {
                Some(Bar {
                    subject: step.of_whom().unwrap_or("cluster").to_owned(),
                    label: step.stage.to_owned(),
                    start: step.start?,
                    end: step.end?,
                    critical: report.critical_path.contains(&step.id),
                    failed: matches!(step.state, StepState::Failed { .. }),
                })
            })
            .collect();
        let title = format!("{} · {}", report.cluster, report.began.strftime("%Y-%m-%d %H:%M:%S UTC"));
        let picture = timeline::svg(&title, &bars);
        self.file.write_all(picture.as_bytes()).map_err(|error| unwritable(self.path, &error))
    }
}

impl Canvas<'_> {
    /// A run in which nothing had to be done is a picture, too.
    pub fn draw_nothing(mut self, cluster: &str) -> Outcome<()> {
        let picture = timeline::svg(&format!("{cluster} · no changes"), &[]);
        self.file.write_all(picture.as_bytes()).map_err(|error| unwritable(self.path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::CannotWrite, format!("cannot write the timeline to {}", path.display())).because(error)
}
