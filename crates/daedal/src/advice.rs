//! Advice of the other crates, with the flags that lead from here to the same cluster.

use std::sync::OnceLock;

use daedal_planner::{Advice, Command, Difference, Fix, Note, Plan, Stays};

use crate::cli::Target;
use crate::commands::{call, program};
use crate::{clusters, part};

/// The cluster that this run is about.
static TARGET: OnceLock<Target> = OnceLock::new();

/// Lets all advice from now on be about this cluster.
pub fn is_about(target: &Target) {
    let _ = match part::current() {
        Some(part) => part.target.set(target.clone()),
        None => TARGET.set(target.clone()),
    };
}

/// How a command is called here.
pub fn called(command: &Command) -> String {
    here(&command.to_string())
}

/// How a command about the same cluster is called here.
pub fn here(command: &str) -> String {
    of_target(|target| call(target, command)).unwrap_or_else(|| format!("daedal {command}"))
}

/// How a command is called here that needs the inventory and nothing else.
pub fn with_file(command: &str) -> String {
    let file = |target: &Target| clusters::one(target).unwrap_or_else(|_| target.inventory());
    of_target(|target| format!("{} {command} -f {}", program(), file(target).display()))
        .unwrap_or_else(|| format!("daedal {command}"))
}

fn of_target<T>(say: impl FnOnce(&Target) -> T) -> Option<T> {
    let part = part::current();
    part.as_ref().map_or_else(|| TARGET.get(), |part| part.target.get()).map(say)
}

/// The text of an advice, whose commands can be pasted as they are.
pub fn told(fix: &Fix) -> String {
    fix.told(called)
}

/// The same advice with nothing left to add.
pub fn complete(fix: &mut Option<Fix>) {
    if let Some(fix) = fix {
        *fix = Fix::from(told(fix));
    }
}

/// What helps, as it can be pasted here.
pub fn fix_of(advice: &Advice) -> Option<String> {
    daedal_words::remedy(advice).as_ref().map(told)
}

/// An advice for programs: its code and data, and the words beside.
pub fn as_json(advice: &Advice) -> serde_json::Value {
    let mut json = serde_json::json!(advice);
    add_words(&mut json, advice, told);
    json
}

/// The notes of a plan for programs, with the words beside the codes.
pub fn notes(plan: &Plan) -> serde_json::Value {
    notes_telling(plan, told)
}

/// The differences of a plan for programs, with the words beside the codes.
pub fn differences(plan: &Plan) -> serde_json::Value {
    differences_telling(plan, told)
}

/// A plan to be saved: what is read back, and the words for whoever looks at the file. The commands in them have no flags, because
/// the file may be moved.
pub fn saved(plan: &Plan) -> serde_json::Value {
    let mut json = serde_json::json!(plan);
    json["notes"] = notes_telling(plan, ToString::to_string);
    json["differences"] = differences_telling(plan, ToString::to_string);
    json
}

fn differences_telling(plan: &Plan, told: impl Fn(&Fix) -> String + Copy) -> serde_json::Value {
    let with_words = |difference: &Difference| {
        let mut json = serde_json::json!(difference);
        if let Stays::Held { why } = &difference.stays {
            json["stays"]["why"] = daedal_words::why_stays(why).into();
        }
        if let Some(remedy) = &difference.remedy {
            json["fix"] = told(&daedal_words::remedy_of(remedy)).into();
        }
        json
    };
    plan.differences.iter().map(with_words).collect()
}

fn notes_telling(plan: &Plan, told: impl Fn(&Fix) -> String + Copy) -> serde_json::Value {
    let with_words = |note: &Note| {
        let mut json = serde_json::json!(note);
        add_words(&mut json, &note.advice, told);
        json
    };
    plan.notes.iter().map(with_words).collect()
}

fn add_words(json: &mut serde_json::Value, advice: &Advice, told: impl Fn(&Fix) -> String) {
    json["about"] = daedal_words::about(advice).into();
    json["text"] = daedal_words::sentence(advice).into();
    json["fix"] = daedal_words::remedy(advice).as_ref().map(told).into();
}
