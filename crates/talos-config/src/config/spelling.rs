//! Values as Talos reads them: texts as they are spelled, numbers also as older YAML has them.
//!
//! To a reader of YAML, `1.10` is a number, the same as `1.1`, and `0644` is a text. Talos knows what a field holds: where
//! a text goes, it takes what is written, and where a number goes, it reads 420.

use std::fmt;

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use yaml_serde::{Mapping, Value, value::Number};

use super::schema::{Field, Shape};

/// A document or a part of it that is read a second time, now that it is known what is where.
pub(crate) struct Spelled<'a> {
    pub(crate) field: &'a Field,
    /// The same as it was read first.
    pub(crate) seen: &'a Value,
}

impl<'de> DeserializeSeed<'de> for Spelled<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, part: D) -> Result<Value, D::Error> {
        match self.seen {
            Value::Mapping(_) => part.deserialize_map(self),
            Value::Sequence(_) => part.deserialize_seq(self),
            Value::Number(_) | Value::Bool(_) if self.field.is_spelled() => {
                String::deserialize(part).map(Value::String)
            }
            Value::String(text) if self.field.shape == Shape::Number => {
                let read = Value::deserialize(part)?;
                Ok(older_number(text).map_or(read, Value::Number))
            }
            _ => Value::deserialize(part),
        }
    }
}

impl<'de> Visitor<'de> for Spelled<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was there before")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut found = Mapping::new();
        let has_texts = matches!(self.field.shape, Shape::Map | Shape::Arguments);
        for (key, seen) in self.seen.as_mapping().into_iter().flatten() {
            // The names of entries are texts, too.
            let key = if has_texts && (key.is_number() || key.is_bool()) {
                entries.next_key()?.map(Value::String)
            } else {
                entries.next_key()?
            };
            let Some(key) = key else { break };
            let field = key.as_str().and_then(|key| self.field.within(key));
            let value = match field {
                Some(field) => entries.next_value_seed(Spelled { field, seen })?,
                None => entries.next_value()?,
            };
            found.insert(key, value);
        }
        Ok(Value::Mapping(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut found = Vec::new();
        let field = self.field.within("[]");
        let seen = self.seen.as_sequence().map(Vec::as_slice).unwrap_or_default();
        for seen in seen {
            let item = match field {
                Some(field) => items.next_element_seed(Spelled { field, seen })?,
                None => items.next_element()?,
            };
            found.extend(item);
        }
        Ok(Value::Sequence(found))
    }
}

/// A number that is a text to newer YAML: `0644`, `1_500`.
fn older_number(text: &str) -> Option<Number> {
    // What newer YAML takes for a number was in quotes, and Talos does not take that for one.
    let is_newer = yaml_serde::from_str::<Value>(text).is_ok_and(|value| !value.is_string());
    if is_newer || !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.split_at_checked(2) {
        Some(("0x", rest)) => (16, rest),
        Some(("0o", rest)) => (8, rest),
        Some(("0b", rest)) => (2, rest),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let is_plain = digits.starts_with(|first: char| first.is_ascii_hexdigit());
    let whole = i64::from_str_radix(digits, base).ok().filter(|_| is_plain);
    let is_fraction = plain.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let fraction = || plain.parse::<f64>().ok().filter(|number| is_fraction && number.is_finite());
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and not larger than what fits")]
    let of_fraction = |number: f64| match number {
        number if number.fract() == 0.0 && number.abs() < 9e15 => Number::from(number as i64),
        number => Number::from(number),
    };
    whole.map(|whole| Number::from(sign * whole)).or_else(|| fraction().map(of_fraction))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;

    #[test]
    fn numbers_of_older_yaml_are_numbers() {
        for (text, number) in [
            ("0644", 420),
            ("+0644", 420),
            ("-0644", -420),
            ("1_500", 1500),
            ("1500_", 1500),
            ("0x_1F", 31),
            ("08", 8),
            ("00", 0),
            ("0_7", 7),
        ] {
            assert_eq!(older_number(text).and_then(|number| number.as_i64()), Some(number), "{text}");
        }
        for text in
            ["1500", "0o644", "_1500", "abc", "0o8", "", "190:20:30", "0x", "1e400", "yes", "+", "1-5"]
        {
            assert_eq!(older_number(text), None, "{text}");
        }
    }

    #[test]
    fn texts_stay_as_they_are_spelled() {
        let text = "machine:\n  nodeLabels: {version: 1.10, b: True, c: 0x1F, d: ~, 1.20: e}\n  kubelet: {extraArgs: {v: 1.0, w: [2.0]}}\n  files: [{permissions: 0644, content: 1e3}]\n";
        let config = MachineConfig::from_yaml(text).unwrap();
        let at = |path: &str| config.text(path);
        assert_eq!(at("machine.nodeLabels.version"), Some("1.10"));
        assert_eq!((at("machine.nodeLabels.b"), at("machine.nodeLabels.c")), (Some("True"), Some("0x1F")));
        assert_eq!(config.get("machine.nodeLabels.d"), Some(&Value::Null));
        assert_eq!(
            config.get("machine.nodeLabels").and_then(|labels| labels.get("1.20")?.as_str()),
            Some("e")
        );
        assert_eq!(at("machine.kubelet.extraArgs.v"), Some("1.0"));
        let file = &config.get("machine.files").unwrap()[0];
        assert_eq!((file["permissions"].as_i64(), file["content"].as_str()), (Some(420), Some("1e3")));
        assert_eq!(MachineConfig::from_yaml(config.to_yaml().expose()).unwrap(), config);
    }
}
