//! Why a saved plan no longer fits, in words.

use daedal_planner::{Moved, Step, Unfit};

use crate::action::action;

/// Why a plan is refused; what the error itself was caused by is not part of it.
pub fn unfit(unfit: &Unfit) -> String {
    let Unfit::World(moved) = unfit else { return unfit.to_string() };
    let gone = moved.iter().filter_map(|one| if let Moved::Gone(step) = one { Some(&**step) } else { None });
    let needed =
        moved.iter().filter_map(|one| if let Moved::Needed(step) = one { Some(&**step) } else { None });
    let order = moved.iter().any(|one| matches!(one, Moved::Order));
    let mut sentences = vec![unfit.to_string()];
    sentences.extend(named("No longer needed or possible", gone));
    sentences.extend(named("Needed now", needed));
    sentences.extend(order.then(|| "The same steps are needed, but in another order".to_owned()));
    sentences.join(". ")
}

fn named<'a>(what: &str, steps: impl Iterator<Item = &'a Step>) -> Option<String> {
    let name = |step: &'a Step| match &step.node {
        Some(node) => format!("{node}: {}", action(&step.action)),
        None => action(&step.action),
    };
    let names: Vec<String> = steps.map(name).collect();
    (!names.is_empty()).then(|| format!("{what}: {}", names.join("; ")))
}
