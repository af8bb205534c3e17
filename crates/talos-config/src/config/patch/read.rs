//! Patches as they are written: read into operations, or everything that is wrong with them.

use yaml_serde::Value;

use super::{Operation, Patch, fault, json, scalar_text};
use crate::{
    Error, Result,
    config::{
        contract::Contract,
        document::{DocumentId, Unreadable, read_documents},
        schema::{self, Misfit, Part},
    },
};

/// What is wrong with a patch as it is written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchFault {
    /// In which of its documents, empty ones aside.
    pub document: usize,
    /// Dotted path to it there; nothing for the document as a whole.
    pub path: String,
    /// What is wrong, without any values, and of the keys only those that Talos knows.
    pub message: String,
}

impl Patch {
    /// Reads a patch: a strategic-merge patch of one or more documents, or a JSON patch (RFC 6902) as YAML or JSON.
    ///
    /// Keys and kinds that no version of Talos knows are refused here, before anything is merged.
    pub fn from_yaml(text: &str) -> Result<Self> {
        Self::read(text, schema::ANY_VERSION).map_err(first_fault)
    }

    /// Like [`Patch::from_yaml`], refusing also what came with a later version of Talos than this one.
    pub fn for_contract(text: &str, contract: &Contract) -> Result<Self> {
        Self::read(text, contract.talos_minor).map_err(first_fault)
    }

    /// Everything for which [`Patch::for_contract`] refuses a patch.
    pub fn faults(text: &str, contract: &Contract) -> Vec<PatchFault> {
        Self::read(text, contract.talos_minor).err().unwrap_or_default()
    }

    fn read(text: &str, minor: u32) -> Result<Self, Vec<PatchFault>> {
        match json::read(text) {
            Ok(Some(operations)) => return Ok(Self { operations: vec![Operation::Json(operations)] }),
            Ok(None) => {}
            Err(faults) => return Err(faults),
        }
        let documents = read_documents(text).map_err(|Unreadable { document, reason, line }| {
            // Its lines are those of the patch, which may stand in another text.
            let line = line.map(|line| format!("; see its line {line}")).unwrap_or_default();
            vec![PatchFault { document, path: String::new(), message: format!("{reason}{line}") }]
        })?;
        let (mut operations, mut faults, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (index, mut document) in documents.into_iter().enumerate() {
            let id = DocumentId::of(&document);
            let mut whole = |message: &str| {
                faults.push(PatchFault { document: index, path: String::new(), message: message.into() });
            };
            if id.kind.is_empty() != id.api_version.is_empty() {
                whole("`kind` and `apiVersion` must both be set, or neither");
                continue;
            }
            // What is not there cannot be wrong: a document of a later version may be deleted in every one.
            let minor = if asks_for_delete(&document) { schema::ANY_VERSION } else { minor };
            let misfits = schema::misfits(&without_deletes(&document), &id.kind, minor);
            if !misfits.is_empty() {
                faults.extend(misfits.into_iter().map(|misfit| PatchFault::misfit(index, &id, misfit)));
                continue;
            }
            let mut path = Vec::new();
            match collect_deletes(&mut document, &id, &mut path, &mut operations) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    // The way to where it stopped; which element of a list that was in is not kept.
                    let path: Vec<String> = path.into_iter().take_while(|part| part != "[]").collect();
                    faults.push(PatchFault::of(index, &path.join("."), &error));
                    continue;
                }
            }
            // From 1.14 on each is merged after the one before.
            if seen.contains(&id) && minor < 14 {
                let kind = if id.kind.is_empty() { "the main document" } else { schema::shown(&id.kind) };
                whole(&format!("{kind} stands in it twice"));
            }
            seen.push(id);
            operations.push(Operation::Merge(document));
        }
        if faults.is_empty() { Ok(Self { operations }) } else { Err(faults) }
    }
}

impl PatchFault {
    pub(super) fn of(document: usize, path: &str, error: &Error) -> Self {
        let message = match error {
            Error::Patch { reason } => reason.clone(),
            other => other.to_string(),
        };
        Self { document, path: path.to_owned(), message }
    }

    fn misfit(document: usize, id: &DocumentId, misfit: Misfit) -> Self {
        let Misfit { part, path, message } = misfit;
        let (shown, kind) = (schema::shown_path(&path), schema::shown(&id.kind));
        match id.kind.as_str() {
            "" => Self { document, message: format!("`{shown}` {message}"), path },
            own if part == Part::Kind && path == own => {
                Self { document, path: "kind".into(), message: format!("`{kind}` {message}") }
            }
            _ => Self { document, message: format!("`{shown}` of {kind} {message}"), path },
        }
    }
}

fn first_fault(faults: Vec<PatchFault>) -> Error {
    fault(&faults.into_iter().next().map(|fault| fault.message).unwrap_or_default())
}

fn asks_for_delete(value: &Value) -> bool {
    value.get("$patch").and_then(Value::as_str) == Some("delete")
}

/// The same with `null` for what is to be deleted, so that only what stays is judged by its shape.
fn without_deletes(value: &Value) -> Value {
    let goes = asks_for_delete(value);
    match value {
        _ if goes && value.get("kind").is_none() => Value::Null,
        Value::Mapping(fields) => {
            let stays = fields.iter().filter(|(key, _)| !(goes && key.as_str() == Some("$patch")));
            Value::Mapping(stays.map(|(key, child)| (key.clone(), without_deletes(child))).collect())
        }
        Value::Sequence(items) => Value::Sequence(items.iter().map(without_deletes).collect()),
        other => other.clone(),
    }
}

/// Moves every `$patch: delete` below `value` into `operations`; true if `value` itself is to go.
fn collect_deletes(
    value: &mut Value,
    document: &DocumentId,
    path: &mut Vec<String>,
    operations: &mut Vec<Operation>,
) -> Result<bool> {
    let inside_list = |path: &[String]| path.iter().any(|part| part == "[]");
    if asks_for_delete(value) {
        if inside_list(path) {
            return Err(fault(&format!(
                "nothing inside the list element `{}` can be deleted",
                super::shown(path)
            )));
        }
        if path.is_empty() && document.kind.is_empty() {
            return Err(fault("the main document cannot be deleted"));
        }
        operations.push(Operation::Delete { document: document.clone(), path: path.clone(), element: None });
        return Ok(true);
    }
    match value {
        Value::Mapping(fields) => {
            let mut gone = Vec::new();
            for (key, child) in fields.iter_mut() {
                path.push(scalar_text(key).unwrap_or_default());
                if collect_deletes(child, document, path, operations)? {
                    gone.push(key.clone());
                }
                path.pop();
            }
            for key in &gone {
                fields.shift_remove(key);
            }
            Ok(!gone.is_empty() && fields.is_empty())
        }
        Value::Sequence(items) => {
            let before = items.len();
            let mut kept = Vec::with_capacity(before);
            for mut item in std::mem::take(items) {
                if asks_for_delete(&item) {
                    if inside_list(path) {
                        return Err(fault(&format!(
                            "nothing inside the list `{}` can be deleted",
                            super::shown(path)
                        )));
                    }
                    let element = first_other_key(&item).ok_or_else(|| {
                        fault(&format!(
                            "which element of the list `{}` to delete is not said",
                            super::shown(path)
                        ))
                    })?;
                    operations.push(Operation::Delete {
                        document: document.clone(),
                        path: path.clone(),
                        element: Some(element),
                    });
                    continue;
                }
                path.push("[]".into());
                let goes = collect_deletes(&mut item, document, path, operations)?;
                path.pop();
                if !goes {
                    kept.push(item);
                }
            }
            *items = kept;
            Ok(before > 0 && items.is_empty())
        }
        _ => Ok(false),
    }
}

fn first_other_key(item: &Value) -> Option<(String, String)> {
    let (key, value) = item.as_mapping()?.iter().find(|(key, _)| key.as_str() != Some("$patch"))?;
    Some((scalar_text(key)?, scalar_text(value)?))
}
