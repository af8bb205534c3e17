//! `.sops.yaml`: for whom new files are encrypted, and which of their values.

use serde_json::Value as Json;

use crate::error::Error;
use crate::metadata;
use crate::selection::{self, Selection};
use crate::yaml;

/// The name of the file, which is looked for in the folder of an encrypted file and upwards.
pub const CONFIG: &str = ".sops.yaml";

/// How a new file is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// age recipients. Of several groups, a threshold of them is needed to open the file.
    pub groups: Vec<Vec<String>>,
    /// How many groups are needed; all, if not said.
    pub threshold: Option<usize>,
    /// Which values are encrypted.
    pub selection: Selection,
    /// Whether only encrypted values are authenticated, so that the others may be changed by hand.
    pub mac_only_encrypted: bool,
}

impl Rule {
    /// Everything encrypted for some recipients, of whom each alone opens the file.
    pub fn for_recipients(recipients: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            groups: vec![recipients.into_iter().map(Into::into).collect()],
            threshold: None,
            selection: Selection::default(),
            mac_only_encrypted: false,
        }
    }
}

/// The creation rules of a `.sops.yaml`.
#[derive(Clone, Debug)]
pub struct Config {
    rules: Vec<Json>,
}

impl Config {
    /// Reads the text of a `.sops.yaml`; none if it has no creation rules.
    pub fn parse(text: &str) -> Result<Option<Self>, Error> {
        let text = crate::seal::expanded(text)?;
        let tree = yaml::parse(&text)?;
        let root = tree.documents.first().map(|document| metadata::to_json(&document.root));
        match root.as_ref().and_then(|root| root.get("creation_rules")) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Array(rules)) => Ok(Some(Self { rules: rules.clone() })),
            Some(_) => Err(Error::Rule { why: "`creation_rules` is not a list".to_owned() }),
        }
    }

    /// The first rule for a file, whose path is relative to the folder of the `.sops.yaml`, or absolute where it is elsewhere.
    pub fn rule_for(&self, file: &str) -> Result<Rule, Error> {
        for rule in &self.rules {
            match rule.get("path_regex").and_then(Json::as_str).filter(|text| !text.is_empty()) {
                None => return read(rule),
                Some(pattern) => {
                    let why = || "`path_regex` is not a regular expression".to_owned();
                    let regex = selection::compile(pattern).map_err(|()| Error::Rule { why: why() })?;
                    if regex.is_match(file.as_bytes()) {
                        return read(rule);
                    }
                }
            }
        }
        Err(Error::NoRule { file: file.escape_debug().to_string() })
    }
}

fn read(rule: &Json) -> Result<Rule, Error> {
    let refused = |why: &str| Error::Rule { why: why.to_owned() };
    let text = |key: &str| rule.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let mut rules = Selection::NAMES.iter().filter_map(|name| Selection::named(name, text(name)?));
    let selection = rules.next().unwrap_or_default();
    if rules.next().is_some() {
        return Err(refused("it says in more than one way which values are encrypted"));
    }
    let groups = match rule.get("key_groups") {
        Some(Json::Array(groups)) if !groups.is_empty() => {
            groups.iter().map(group).collect::<Result<_, _>>()?
        }
        _ => {
            only_age(rule, &["kms", "pgp", "gcp_kms", "azure_keyvault", "hc_vault_transit_uri"])?;
            vec![recipients(rule.get("age"))?]
        }
    };
    let threshold = match rule.get("shamir_threshold") {
        None | Some(Json::Null) => None,
        Some(number) => {
            let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
            number
                .map(Some)
                .ok_or_else(|| refused("`shamir_threshold` is not a number"))?
                .filter(|number| *number > 0)
        }
    };
    let mac_only_encrypted = rule.get("mac_only_encrypted").and_then(Json::as_bool).unwrap_or(false);
    Ok(Rule { groups, threshold, selection, mac_only_encrypted })
}

/// The recipients of a group with all that is merged into it, each once.
fn group(group: &Json) -> Result<Vec<String>, Error> {
    only_age(group, &["kms", "pgp", "gcp_kms", "azure_keyvault", "hc_vault"])?;
    let mut found: Vec<String> = Vec::new();
    let merged = group.get("merge").and_then(Json::as_array).into_iter().flatten();
    let merged = merged.map(self::group).collect::<Result<Vec<_>, _>>()?;
    for recipient in merged.into_iter().flatten().chain(recipients(group.get("age"))?) {
        if !found.contains(&recipient) {
            found.push(recipient);
        }
    }
    Ok(found)
}

/// Refuses keys that we could not encrypt for: a file without them would not be what the rule asks for.
fn only_age(rule: &Json, others: &[&str]) -> Result<(), Error> {
    let is_there = |value: &Json| match value {
        Json::String(text) => !text.is_empty(),
        Json::Array(list) => !list.is_empty(),
        _ => false,
    };
    match others.iter().find(|kind| rule.get(**kind).is_some_and(is_there)) {
        Some(kind) => {
            Err(Error::Rule { why: format!("it asks for keys of `{kind}`; only `age` is supported") })
        }
        None => Ok(()),
    }
}

/// Recipients in a list, or in a text between commas.
fn recipients(value: Option<&Json>) -> Result<Vec<String>, Error> {
    let refused = || Error::Rule { why: "`age` is neither a text nor a list of texts".to_owned() };
    let texts: Vec<&str> = match value {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::String(text)) => vec![text],
        Some(Json::Array(list)) => {
            list.iter().map(|item| item.as_str().ok_or_else(refused)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(refused()),
    };
    let words = texts.into_iter().flat_map(|text| text.split(','));
    Ok(words.map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
keys:
  - &alice age1alice
  - &bob age1bob
creation_rules:
  - path_regex: ^prod/.*\\.yaml$
    encrypted_regex: ^(data|stringData)$
    mac_only_encrypted: true
    key_groups:
      - age: [*alice, *bob]
      - merge:
          - age: [age1carol]
        age: [age1carol, age1dave]
    shamir_threshold: 1
  - path_regex: \\.env$
    age: >-
      age1alice, age1bob,
  - path_regex: bad
    pgp: ABCD
    age: age1alice
  - path_regex: two
    unencrypted_suffix: a
    encrypted_suffix: b
";

    #[test]
    fn the_first_rule_that_matches_is_used() {
        let config = Config::parse(TEXT).unwrap().unwrap();
        let prod = config.rule_for("prod/a.yaml").unwrap();
        assert_eq!(prod.groups, [vec!["age1alice", "age1bob"], vec!["age1carol", "age1dave"]]);
        assert_eq!(prod.selection, Selection::EncryptedRegex("^(data|stringData)$".to_owned()));
        assert!(prod.mac_only_encrypted && prod.threshold == Some(1));
        assert_eq!(config.rule_for("x/.env").unwrap(), Rule::for_recipients(["age1alice", "age1bob"]));
        for (file, said) in [
            ("bad", "the rule cannot be used: it asks for keys of `pgp`; only `age` is supported"),
            ("two", "the rule cannot be used: it says in more than one way which values are encrypted"),
            ("other", "no creation rule of .sops.yaml matches other"),
        ] {
            assert_eq!(config.rule_for(file).unwrap_err().to_string(), said);
        }
        assert!(Config::parse("stores: {}\n").unwrap().is_none());
        assert!(Config::parse("creation_rules: [{age: [age1x]}]").unwrap().unwrap().rule_for("any").is_ok());
    }
}
