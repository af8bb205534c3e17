//! How much of a sweep is tried: a sample of every kind, or everything with `DAEDAL_PROOF=full`.

use std::collections::BTreeMap;

use daedal_engine::{Effect, EffectKind};

use crate::support::Point;

/// Whether everything is tried.
pub fn is_full() -> bool {
    std::env::var("DAEDAL_PROOF").is_ok_and(|breadth| breadth == "full")
}

/// The deaths around effects: before and after each, or around the first of each kind.
pub fn deaths(effects: impl IntoIterator<Item = Effect>) -> Vec<(Effect, Point)> {
    let mut sorted: Vec<(String, Effect)> =
        effects.into_iter().map(|effect| (effect.to_string(), effect)).collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    sorted.dedup_by(|(one, _), (other, _)| one == other);
    let mut kinds: BTreeMap<EffectKind, usize> = BTreeMap::new();
    sorted.retain(|(_, effect)| {
        let seen = kinds.entry(effect.kind).or_default();
        *seen += 1;
        is_full() || *seen == 1
    });
    let both = |effect: Effect| [(effect.clone(), Point::Before), (effect, Point::After)];
    sorted.into_iter().flat_map(|(_, effect)| both(effect)).collect()
}

/// The cases of a sweep: all, or every fifth. Kinds of faults go round in eighteens, so that each has its turn.
pub fn cases<T>(all: Vec<T>) -> Vec<T> {
    let step = if is_full() { 1 } else { 5 };
    all.into_iter().step_by(step).collect()
}
