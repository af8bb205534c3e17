//! Parameter verification in Proxmox's words.

use indexmap::IndexMap;

use super::fail::Fail;
use super::request::Params;

/// What a value must look like.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Int(i64, i64),
    Range(i64, i64),
    Bool,
    Text,
    OneOf(&'static [&'static str]),
    Format(fn(&str) -> Result<(), String>),
}

/// One parameter of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    name: &'static str,
    kind: Kind,
    required: bool,
}

pub(crate) const fn req(name: &'static str, kind: Kind) -> Rule {
    Rule { name, kind, required: true }
}

pub(crate) const fn opt(name: &'static str, kind: Kind) -> Rule {
    Rule { name, kind, required: false }
}

pub(crate) const VMID: Kind = Kind::Int(100, 999_999_999);
pub(crate) const STORAGE: Kind = Kind::Format(storage_id);
/// Slots that a disk can be in.
pub(crate) const DISK: Kind = Kind::OneOf(&[
    "ide0",
    "ide1",
    "ide2",
    "ide3",
    "scsi0",
    "scsi1",
    "scsi2",
    "scsi3",
    "scsi4",
    "scsi5",
    "scsi6",
    "scsi7",
    "scsi8",
    "scsi9",
    "scsi10",
    "scsi11",
    "scsi12",
    "scsi13",
    "scsi14",
    "scsi15",
    "scsi16",
    "scsi17",
    "scsi18",
    "scsi19",
    "scsi20",
    "scsi21",
    "scsi22",
    "scsi23",
    "scsi24",
    "scsi25",
    "scsi26",
    "scsi27",
    "scsi28",
    "scsi29",
    "scsi30",
    "virtio0",
    "virtio1",
    "virtio2",
    "virtio3",
    "virtio4",
    "virtio5",
    "virtio6",
    "virtio7",
    "virtio8",
    "virtio9",
    "virtio10",
    "virtio11",
    "virtio12",
    "virtio13",
    "virtio14",
    "virtio15",
    "sata0",
    "sata1",
    "sata2",
    "sata3",
    "sata4",
    "sata5",
    "efidisk0",
    "tpmstate0",
]);
pub(crate) const NAME: Kind = Kind::Format(dns_name);

/// Finds all faults at once. `more` judges parameters that the rules do not name.
pub(crate) fn verify_with(
    params: &Params,
    rules: &[Rule],
    more: impl Fn(&str) -> Option<Kind>,
) -> Result<(), Fail> {
    let mut errors = IndexMap::new();
    for (name, value) in params {
        let kind = rules.iter().find(|rule| rule.name == name).map(|rule| rule.kind).or_else(|| more(name));
        let verdict = match kind {
            Some(kind) => check(kind, value),
            None => {
                Err("property is not defined in schema and the schema does not allow additional properties"
                    .into())
            }
        };
        if let Err(text) = verdict {
            errors.insert(name.clone(), text);
        }
    }
    for rule in rules.iter().filter(|rule| rule.required && !params.contains_key(rule.name)) {
        errors.insert(rule.name.into(), "property is missing and it is not optional".into());
    }
    if errors.is_empty() { Ok(()) } else { Err(Fail::parameters(errors)) }
}

pub(crate) fn verify(params: &Params, rules: &[Rule]) -> Result<(), Fail> {
    verify_with(params, rules, |_| None)
}

pub(crate) fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Int(least, most) => match value.parse::<i64>() {
            Err(_) => Err(format!("type check ('integer') failed - got '{value}'")),
            Ok(number) if number < least => Err(format!("value must have a minimum value of {least}")),
            Ok(number) if number > most => Err(format!("value must have a maximum value of {most}")),
            Ok(_) => Ok(()),
        },
        Kind::Range(least, most) => match value.parse::<f64>() {
            Err(_) => Err(format!("type check ('number') failed - got '{value}'")),
            Ok(number) if number < least as f64 => Err(format!("value must have a minimum value of {least}")),
            Ok(number) if number > most as f64 => Err(format!("value must have a maximum value of {most}")),
            Ok(_) => Ok(()),
        },
        Kind::Bool if !matches!(value, "0" | "1") => {
            Err(format!("type check ('boolean') failed - got '{value}'"))
        }
        Kind::OneOf(allowed) if !allowed.contains(&value) => {
            Err(format!("value '{value}' does not have a value in the enumeration '{}'", allowed.join(", ")))
        }
        Kind::Format(format) => format(value).map_err(|text| format!("invalid format - {text}\n")),
        _ => Ok(()),
    }
}

/// Letters, digits and inner hyphens, with dots between.
pub(crate) fn dns_name(text: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if text.split('.').all(label) { Ok(()) } else { Err("value does not look like a valid DNS name".into()) }
}

pub(crate) fn storage_id(text: &str) -> Result<(), String> {
    let mut chars = text.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    if starts && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        Ok(())
    } else {
        Err(format!("storage ID '{text}' contains illegal characters"))
    }
}

pub(crate) fn tag_list(text: &str) -> Result<(), String> {
    for tag in text.split([',', ';', ' ', '\0']).filter(|tag| !tag.is_empty()) {
        let mut chars = tag.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        if !first || !chars.all(|c| c.is_ascii_alphanumeric() || "-+._".contains(c)) {
            return Err(format!("invalid characters in tag '{tag}'"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_told_at_once() {
        let params: Params = [("vmid", "abc"), ("bogus", "1")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into_iter()
            .collect();
        let fail = verify(&params, &[req("vmid", VMID), req("newid", VMID)]).unwrap_err();
        assert_eq!(fail.errors["vmid"], "type check ('integer') failed - got 'abc'");
        assert!(fail.errors["bogus"].starts_with("property is not defined in schema"));
        assert_eq!(fail.errors["newid"], "property is missing and it is not optional");
    }

    #[test]
    fn words_are_no_top_level_booleans() {
        assert_eq!(check(Kind::Bool, "true").unwrap_err(), "type check ('boolean') failed - got 'true'");
        assert!(check(NAME, "bad_name").unwrap_err().contains("valid DNS name"));
    }
}
