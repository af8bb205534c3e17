//! Judges a request by the public API schema of a Proxmox VE release, in the words that Proxmox itself uses.
//!
//! The schema is not part of the project: `DAEDAL_PROXMOX_DATA` names a folder that has `api-schema-*.json`.
#![allow(dead_code, reason = "each test program uses a part")]

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Map, Value};

/// Parameters by name.
pub type Parameters = BTreeMap<String, String>;

/// One release's schema.
pub struct Schema {
    pub release: String,
    /// Path in segments (`{node}` is a placeholder), method, and what the schema says of it.
    endpoints: Vec<(Vec<String>, String, Value)>,
}

/// One endpoint, with what its path's placeholders stand for.
pub struct Endpoint<'a> {
    pub info: &'a Value,
    pub given: Parameters,
}

impl Schema {
    /// All releases that are there; none without the folder.
    pub fn all() -> Vec<Self> {
        let Some(folder) = std::env::var_os("DAEDAL_PROXMOX_DATA").map(PathBuf::from) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(release) = name.strip_prefix("api-schema-").and_then(|rest| rest.strip_suffix(".json"))
            else {
                continue;
            };
            let tree: Value = serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
            let mut endpoints = Vec::new();
            for node in tree.as_array().unwrap() {
                collect(node, &mut endpoints);
            }
            all.push(Self { release: release.to_owned(), endpoints });
        }
        all.sort_by(|a, b| a.release.cmp(&b.release));
        all
    }

    /// Every path template with its method.
    pub fn endpoints(&self) -> impl Iterator<Item = (String, &str, &Value)> {
        self.endpoints
            .iter()
            .map(|(path, method, info)| (format!("/{}", path.join("/")), method.as_str(), info))
    }

    /// The endpoint that a path belongs to; one without placeholder there goes first.
    pub fn find(&self, method: &str, path: &str) -> Option<Endpoint<'_>> {
        let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let fits = |template: &[String]| {
            let placeholder = |part: &str| part.starts_with('{');
            // A volume id may have slashes.
            let open_end = template.last().is_some_and(|last| last == "{volume}");
            let long_enough =
                if open_end { segments.len() >= template.len() } else { segments.len() == template.len() };
            long_enough
                && template.iter().zip(&segments).all(|(part, given)| placeholder(part) || part == given)
        };
        let mut found: Vec<_> =
            self.endpoints.iter().filter(|(template, known, _)| known == method && fits(template)).collect();
        found.sort_by_key(|(template, _, _)| template.iter().filter(|part| part.starts_with('{')).count());
        let (template, _, info) = found.first()?;
        let mut given = Parameters::new();
        for (index, part) in template.iter().enumerate() {
            if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                let rest =
                    if name == "volume" { segments[index..].join("/") } else { segments[index].clone() };
                given.insert(name.to_owned(), rest);
            }
        }
        Some(Endpoint { info, given })
    }

    /// What is wrong with a request, by parameter; an endpoint that is not there is wrong under its own path.
    pub fn faults(&self, method: &str, path: &str, parameters: &Parameters) -> BTreeMap<String, String> {
        let Some(endpoint) = self.find(method, path) else {
            return BTreeMap::from([(path.to_owned(), format!("Method '{method} {path}' not implemented"))]);
        };
        let mut all = endpoint.given.clone();
        all.extend(parameters.clone());
        object(&endpoint.info["parameters"], &all)
    }
}

fn collect(node: &Value, endpoints: &mut Vec<(Vec<String>, String, Value)>) {
    let path: Vec<String> = node["path"]
        .as_str()
        .unwrap()
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    for (method, info) in node["info"].as_object().into_iter().flatten() {
        endpoints.push((path.clone(), method.clone(), info.clone()));
    }
    for child in node["children"].as_array().into_iter().flatten() {
        collect(child, endpoints);
    }
}

fn flag(value: &Value) -> bool {
    value.as_i64() == Some(1) || value.as_str() == Some("1") || value.as_bool() == Some(true)
}

/// A property by its name; `scsi3` is one of `scsi[n]`.
fn property<'a>(properties: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    properties.get(name).or_else(|| properties.get(&format!("{stem}[n]")).filter(|_| stem != name))
}

fn object(schema: &Value, given: &Parameters) -> BTreeMap<String, String> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let mut faults = BTreeMap::new();
    for (name, value) in given {
        match property(properties, name) {
            Some(wanted) => {
                if let Err(text) = value_fits(name, wanted, value) {
                    faults.insert(name.clone(), text);
                }
                if let Some(needed) = wanted["requires"].as_str()
                    && !given.contains_key(needed)
                {
                    let text = format!("missing property - '{name}' requires this property");
                    faults.insert(needed.to_owned(), text);
                }
            }
            None if flag(&schema["additionalProperties"]) => {}
            None => drop(faults.insert(name.clone(), UNDEFINED.to_owned())),
        }
    }
    for (name, wanted) in properties {
        if !flag(&wanted["optional"]) && !name.ends_with("[n]") && !given.contains_key(name) {
            faults.insert(name.clone(), MISSING.to_owned());
        }
    }
    faults
}

pub const MISSING: &str = "property is missing and it is not optional";
pub const UNDEFINED: &str =
    "property is not defined in schema and the schema does not allow additional properties";

/// Whether a value is as the schema wants it.
pub fn value_fits(name: &str, wanted: &Value, value: &str) -> Result<(), String> {
    let kind = wanted["type"].as_str().unwrap_or("string");
    let typed = match kind {
        "integer" => value.parse::<i64>().is_ok(),
        "number" => value.parse::<f64>().is_ok(),
        "boolean" => matches!(value, "0" | "1"),
        _ => true,
    };
    if !typed {
        return Err(format!("type check ('{kind}') failed - got '{value}'"));
    }
    if matches!(kind, "integer" | "number") {
        let number: f64 = value.parse().unwrap_or_default();
        if let Some(least) = as_number(&wanted["minimum"]).filter(|least| number < *least) {
            return Err(format!("value must have a minimum value of {least}"));
        }
        if let Some(most) = as_number(&wanted["maximum"]).filter(|most| number > *most) {
            return Err(format!("value must have a maximum value of {most}"));
        }
    }
    if let Some(allowed) = wanted["enum"].as_array() {
        let allowed: Vec<String> = allowed.iter().map(plain).collect();
        if !allowed.iter().any(|one| one == value) {
            let allowed = allowed.join(", ");
            return Err(format!("value '{value}' does not have a value in the enumeration '{allowed}'"));
        }
    }
    let length = value.chars().count() as f64;
    if let Some(most) = as_number(&wanted["maxLength"]).filter(|most| length > *most) {
        return Err(format!("value may only be {most} characters long"));
    }
    if let Some(pattern) = wanted["pattern"].as_str()
        && let Ok(pattern) = regex::Regex::new(&format!("^(?:{pattern})$"))
        && !pattern.is_match(value)
    {
        return Err("value does not match the regex pattern".to_owned());
    }
    match &wanted["format"] {
        Value::Object(parts) => property_string(name, parts, value),
        Value::String(format) => named_format(name, format, &wanted["typetext"], value),
        _ => Ok(()),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn as_number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// `virtio=BC:…,bridge=vmbr0`, part by part.
fn property_string(name: &str, parts: &Map<String, Value>, value: &str) -> Result<(), String> {
    let bad = |text: String| Err(format!("invalid format - format error\n{text}\n"));
    let default = parts.iter().find(|(_, part)| flag(&part["default_key"])).map(|(key, _)| key.as_str());
    let mut seen = Parameters::new();
    for part in value.split(',').filter(|part| !part.is_empty()) {
        let (key, given) = match part.split_once('=') {
            Some((key, given)) if parts.contains_key(key) || default.is_none() => (key, given),
            Some((key, given)) if !key.contains([':', '/', ';']) => (key, given),
            _ => match default {
                Some(default) => (default, part),
                None => return bad("value without key, but schema does not define a default key".to_owned()),
            },
        };
        match parts.get(key) {
            Some(part) if part["alias"].is_string() => {
                if let Some(also) = part["keyAlias"].as_str() {
                    seen.insert(also.to_owned(), key.to_owned());
                }
                seen.insert(plain(&part["alias"]), given.to_owned());
            }
            _ => drop(seen.insert(key.to_owned(), given.to_owned())),
        }
    }
    for (key, given) in &seen {
        let Some(part) = parts.get(key) else { return bad(format!("{name}.{key}: {UNDEFINED}")) };
        // Inside property strings, words are booleans, too.
        if part["type"] == "boolean"
            && matches!(given.as_str(), "yes" | "no" | "on" | "off" | "true" | "false")
        {
            continue;
        }
        if let Err(text) = value_fits(key, part, given) {
            return bad(format!("{name}.{key}: {text}"));
        }
    }
    for (key, part) in parts {
        if !flag(&part["optional"]) && !part["alias"].is_string() && !seen.contains_key(key) {
            return bad(format!("{name}.{key}: {MISSING}"));
        }
    }
    Ok(())
}

fn named_format(name: &str, format: &str, typetext: &Value, value: &str) -> Result<(), String> {
    let shape =
        |fits: bool, text: &str| if fits { Ok(()) } else { Err(format!("invalid format - {text}\n")) };
    let word = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let list = |text: &str| -> Vec<String> {
        text.split([',', ';', ' ', '\0']).filter(|one| !one.is_empty()).map(str::to_owned).collect()
    };
    match format {
        "pve-node" => shape(word(value, "-."), "value does not look like a valid node name"),
        "pve-vmid" => {
            shape(value.parse::<u32>().is_ok_and(|id| id >= 100), "value does not look like a valid VM ID")
        }
        "pve-vmid-list" => {
            let good = list(value).iter().all(|one| one.parse::<u32>().is_ok_and(|id| id >= 100));
            shape(good, "value does not look like a valid VM ID")
        }
        "dns-name" => {
            let label = |label: &str| word(label, "-") && !label.starts_with('-') && !label.ends_with('-');
            shape(value.split('.').all(label), "value does not look like a valid DNS name")
        }
        "pve-storage-id" => {
            let good = value.starts_with(|c: char| c.is_ascii_alphabetic()) && word(value, "-_.");
            shape(good, &format!("storage ID '{value}' contains illegal characters"))
        }
        "pve-configid" | "pve-poolid" | "pve-roleid" => {
            shape(word(value, "-_./"), "invalid configuration ID")
        }
        "pve-userid" => {
            shape(value.contains('@'), &format!("value '{value}' does not look like a valid user name"))
        }
        "pve-userid-list" => {
            shape(list(value).iter().all(|one| one.contains('@') && !one.contains('!')), "user")
        }
        "pve-tokenid-list" => shape(list(value).iter().all(|one| one.contains('!')), "token"),
        "pve-priv-list" => {
            let good = list(value).iter().all(|one| one.contains('.') && word(one, "."));
            shape(good, "invalid privilege")
        }
        "pve-tag-list" => shape(list(value).iter().all(|one| word(one, "-+._")), "invalid characters in tag"),
        "pve-startup-order" => {
            let known = |part: &str| {
                let (key, count) = part.split_once('=').unwrap_or(("order", part));
                matches!(key, "order" | "up" | "down") && count.parse::<u32>().is_ok()
            };
            shape(value.split(',').all(known), "unable to parse startup options")
        }
        "pve-qm-boot" | "pve-qm-ide" | "pve-qm-smbios1" | "pve-vm-cpu-conf" | "pve-qm-ipconfig"
        | "pve-qm-hostpci" | "pve-qm-watchdog" | "pve-qm-rng" => {
            by_typetext(name, typetext.as_str().unwrap_or_default(), value)
        }
        _ => Ok(()),
    }
}

/// The keys that a `[key=]<value> [,other=<value>]` names.
fn by_typetext(name: &str, typetext: &str, value: &str) -> Result<(), String> {
    let mut keys: Vec<String> = Vec::new();
    let mut bare = false;
    let mut rest = typetext;
    while let Some(at) = rest.find('<') {
        let head = rest[..at].trim_end_matches(['[', ']', '=']);
        let key: String = head
            .chars()
            .rev()
            .take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        bare |= rest[..at].ends_with("=]") || !rest[..at].ends_with('=');
        keys.push(key);
        let end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    for part in value.split(',').filter(|part| !part.is_empty()) {
        let known = match part.split_once('=') {
            Some((key, _)) => keys.iter().any(|known| known == key),
            None => bare,
        };
        if !known {
            let key = part.split('=').next().unwrap_or_default();
            return Err(format!("invalid format - format error\n{name}.{key}: {UNDEFINED}\n"));
        }
    }
    Ok(())
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
