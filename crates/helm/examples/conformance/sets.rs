//! Value sets for a chart: its defaults, everything on, everything off, and seeded flips of its switches.

use serde_json::{Map, Value as Json};

/// A small generator; the same seed always gives the same sets.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound.max(1) as u64).unwrap_or(0)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
}

/// A name and the values file, if any.
pub struct Set {
    pub name: String,
    pub yaml: Option<String>,
}

/// The sets every chart is tried with, made from its own defaults.
pub fn derived(defaults: &Map<String, Json>) -> Vec<Set> {
    let mut sets = vec![Set { name: "defaults".into(), yaml: None }];
    let mut push = |name: String, values: Json| {
        sets.push(Set { name, yaml: Some(values.to_string()) });
    };
    let all = Json::Object(defaults.clone());
    push("all on".into(), switched(&all, &mut |key, old| if is_switch(key) { true } else { old }));
    push("all off".into(), switched(&all, &mut |key, old| if is_switch(key) { false } else { old }));
    push("every flag true".into(), switched(&all, &mut |_, _| true));
    push("every flag false".into(), switched(&all, &mut |_, _| false));
    for seed in 1..=4 {
        let mut dice = Dice::new(seed);
        push(format!("flips {seed}"), switched(&all, &mut |_, old| old ^ dice.chance(25)));
    }
    for seed in 5..=6 {
        let mut dice = Dice::new(seed);
        push(format!("scalars {seed}"), scrambled(&all, &mut dice));
    }
    sets
}

fn is_switch(key: &str) -> bool {
    matches!(key, "enabled" | "create" | "install" | "enable")
}

/// Only what changes, so that a set stays a set of overrides.
fn switched(value: &Json, flip: &mut dyn FnMut(&str, bool) -> bool) -> Json {
    match value {
        Json::Object(entries) => {
            let mut out = Map::new();
            for (key, value) in entries {
                let changed = match value {
                    Json::Bool(old) => {
                        let new = flip(key, *old);
                        (new != *old).then_some(Json::Bool(new))
                    }
                    Json::Object(_) => {
                        let inner = switched(value, flip);
                        inner.as_object().is_some_and(|m| !m.is_empty()).then_some(inner)
                    }
                    _ => None,
                };
                if let Some(changed) = changed {
                    out.insert(key.clone(), changed);
                }
            }
            Json::Object(out)
        }
        other => other.clone(),
    }
}

/// Odd but legal values in odd places: unicode, numbers as text, long lines, lists where there were none.
fn scrambled(value: &Json, dice: &mut Dice) -> Json {
    let Json::Object(entries) = value else { return value.clone() };
    let mut out = Map::new();
    for (key, value) in entries {
        let changed = match value {
            Json::Object(inner) if !inner.is_empty() => {
                let inner = scrambled(value, dice);
                inner.as_object().is_some_and(|m| !m.is_empty()).then_some(inner)
            }
            Json::Object(_) if dice.chance(30) => Some(
                serde_json::json!({"app": "x", "a.b/c": "é: 'q'", "n10": "10", "n9": "true", "long": "word ".repeat(30)}),
            ),
            Json::Array(items) if items.is_empty() && dice.chance(30) => Some(
                serde_json::json!([{"name": "a", "value": "1"}, {"name": "b", "value": "multi\nline\n"}]),
            ),
            Json::String(text) if text.is_empty() && dice.chance(30) => {
                Some(Json::String("some-text".into()))
            }
            Json::Number(_) if dice.chance(20) => Some(serde_json::json!(1_234_567)),
            Json::Null if dice.chance(20) => Some(Json::String("given".into())),
            _ => None,
        };
        if let Some(changed) = changed {
            out.insert(key.clone(), changed);
        }
    }
    Json::Object(out)
}
