//! Plans in words, as whoever reads a saved one is told: what is not saved cannot be told.

pub(crate) use daedal_words::RenderOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Action, Advice, Note, Plan, Unseen};

/// The same of the crate that the catalogue is built with.
fn saved<T: DeserializeOwned>(value: &impl Serialize) -> T {
    serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap()
}

/// A whole plan.
pub(crate) fn render(plan: &Plan, options: RenderOptions) -> String {
    daedal_words::render(&saved(plan), options)
}

/// What a plan has done.
pub(crate) fn outcome(plan: &Plan) -> String {
    daedal_words::outcome(&saved(plan))
}

/// A step.
pub(crate) fn action(action: &Action) -> String {
    daedal_words::action(&saved(action))
}

/// A generation that the store does not know.
pub(crate) fn unseen(unseen: &Unseen) -> String {
    daedal_words::unseen(&saved(unseen))
}

/// The sentence of an advice.
pub(crate) fn sentence(advice: &Advice) -> String {
    daedal_words::sentence(&saved(advice))
}

/// Notes in words.
pub(crate) trait Told {
    /// What it is about.
    fn about(&self) -> String;
    /// One or two sentences.
    fn text(&self) -> String;
    /// What helps.
    fn fix(&self) -> Option<String>;
}

impl Told for Note {
    fn about(&self) -> String {
        daedal_words::about(&saved(&self.advice))
    }

    fn text(&self) -> String {
        sentence(&self.advice)
    }

    fn fix(&self) -> Option<String> {
        daedal_words::remedy(&saved(&self.advice)).map(|fix| fix.to_string())
    }
}
