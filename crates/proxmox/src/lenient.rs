//! Reads values that Proxmox sends now as string, now as number.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// A value as text, however it was sent; null is none.
pub(crate) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(u8::from(*flag).to_string()),
        Value::Number(number) => Some(number.to_string()),
        other => Some(other.to_string()),
    }
}

pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(as_text(&Value::deserialize(deserializer)?).unwrap_or_default())
}

pub(crate) fn opt_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(as_text(&Value::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

pub(crate) fn opt_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match &value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(number.as_u64().or_else(|| {
            number.as_f64().filter(|float| *float >= 0.0 && *float < 1.8e19).map(|float| float as u64)
        })),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => text
            .parse::<u64>()
            .or_else(|_| text.parse::<f64>().map(|float| float.max(0.0) as u64))
            .map(Some)
            .map_err(|_| D::Error::custom(format!("'{text}' is not a number"))),
        other => Err(D::Error::custom(format!("{other} is not a number"))),
    }
}

pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(opt_number(deserializer)?.unwrap_or_default())
}

pub(crate) fn small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    u32::try_from(number(deserializer)?).map_err(D::Error::custom)
}

pub(crate) fn opt_small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    opt_number(deserializer)?.map(u32::try_from).transpose().map_err(D::Error::custom)
}

pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Bool(flag) => flag,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !matches!(text.as_str(), "" | "0" | "no" | "off" | "false"),
        _ => false,
    })
}

/// A list as Proxmox writes it in one string, separated by commas, semicolons or blanks.
pub(crate) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(items) => items.iter().filter_map(as_text).collect(),
        other => as_text(&other).map(|text| split_list(&text)).unwrap_or_default(),
    })
}

pub(crate) fn split_list(text: &str) -> Vec<String> {
    let items = text.split([',', ';', ' ', '\0', '\t', '\n']).filter(|item| !item.is_empty());
    let mut items: Vec<String> = items.map(str::to_owned).collect();
    // There may be a list in each of many thousand rows.
    items.shrink_to_fit();
    items
}
