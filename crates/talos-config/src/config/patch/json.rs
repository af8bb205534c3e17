//! JSON patches (RFC 6902), which Talos accepts on configs of a single document.

use serde::Deserialize;
use serde_json::Value as Json;
use yaml_serde::Value;

use super::{PatchFault, fault};
use crate::{
    Error, Result,
    config::{document::DocumentId, schema},
};

/// One operation of a JSON patch.
#[derive(Clone)]
pub(super) struct Operation {
    name: Name,
    path: Vec<String>,
    from: Vec<String>,
    value: Option<Json>,
}

#[derive(Clone, Copy, PartialEq)]
enum Name {
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

/// The operations, if the first document of the text is a list.
pub(super) fn read(text: &str) -> Result<Option<Vec<Operation>>, Vec<PatchFault>> {
    let first = yaml_serde::Deserializer::from_str(text).next().map(Value::deserialize);
    let Some(Ok(Value::Sequence(items))) = first else {
        let is_broken_list = matches!(first, Some(Err(_))) && text.trim_start().starts_with('[');
        return if is_broken_list {
            let message = "it is neither a JSON patch nor a machine config".to_owned();
            Err(vec![PatchFault { document: 0, path: String::new(), message }])
        } else {
            Ok(None)
        };
    };
    let mut operations = Vec::with_capacity(items.len());
    let mut faults = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let number = index + 1;
        let unknown =
            |_| fault(&format!("operation {number} of the JSON patch has keys that JSON does not know"));
        match serde_json::to_value(item).map_err(unknown).and_then(|item| operation(number, &item)) {
            Ok(operation) => operations.push(operation),
            Err(error) => faults.push(PatchFault::of(0, &format!("[{index}]"), &error)),
        }
    }
    if faults.is_empty() { Ok(Some(operations)) } else { Err(faults) }
}

fn operation(number: usize, item: &Json) -> Result<Operation> {
    let wrong = |what: &str| fault(&format!("operation {number} of the JSON patch {what}"));
    if !item.is_object() {
        return Err(wrong("is no operation: it needs `op` and `path`"));
    }
    let pointer = |key: &str| -> Result<Vec<String>> {
        let text = item.get(key).and_then(Json::as_str).ok_or_else(|| wrong(&format!("has no `{key}`")))?;
        let parts = text.strip_prefix('/').map(|rest| {
            rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect::<Vec<String>>()
        });
        match parts {
            Some(parts) => Ok(parts),
            None if text.is_empty() => Ok(Vec::new()),
            None => Err(wrong(&format!("has a `{key}` that does not begin with `/`"))),
        }
    };
    let path = pointer("path")?;
    let name = match item.get("op").and_then(Json::as_str).unwrap_or_default() {
        "add" => Name::Add,
        "remove" => Name::Remove,
        "replace" => Name::Replace,
        "move" => Name::Move,
        "copy" => Name::Copy,
        "test" => Name::Test,
        _ => return Err(wrong("has an `op` that is not one of add, remove, replace, move, copy, test")),
    };
    let from = if matches!(name, Name::Move | Name::Copy) { pointer("from")? } else { Vec::new() };
    let value = item.get("value").cloned();
    if value.is_none() && matches!(name, Name::Add | Name::Replace) {
        return Err(wrong("has no `value`"));
    }
    Ok(Operation { name, path, from, value })
}

/// Applies the operations to the one document there is.
pub(super) fn apply(documents: &mut [Value], operations: &[Operation]) -> Result<()> {
    let [document] = documents else {
        let ids = documents.iter().map(DocumentId::of).filter(|id| !id.kind.is_empty());
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        let shown = ids.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if ids.len() > 3 { ", …" } else { "" };
        return Err(fault(&format!(
            "JSON patches work on configs of a single document only, and this one has more ({shown}{more}); write it \
             as a strategic-merge patch"
        )));
    };
    let mut json =
        serde_json::to_value(&*document).map_err(|_| fault("the config has keys that JSON does not know"))?;
    for operation in operations {
        run(&mut json, operation)?;
    }
    *document = yaml_serde::to_value(json).map_err(Error::Yaml)?;
    Ok(())
}

fn run(root: &mut Json, operation: &Operation) -> Result<()> {
    let value = || operation.value.clone().unwrap_or_default();
    match operation.name {
        Name::Add => add(root, &operation.path, value()),
        Name::Remove => remove(root, &operation.path).map(drop),
        Name::Replace => {
            *get(root, &operation.path)? = value();
            Ok(())
        }
        Name::Move => {
            let moved = remove(root, &operation.from)?;
            add(root, &operation.path, moved)
        }
        Name::Copy => {
            let copied = get(root, &operation.from)?.clone();
            add(root, &operation.path, copied)
        }
        Name::Test => {
            let same = match get(root, &operation.path) {
                Ok(found) => *found == value(),
                Err(_) => value().is_null(),
            };
            if same {
                Ok(())
            } else {
                Err(fault(&format!("`{}` is not what was tested for", shown(&operation.path))))
            }
        }
    }
}

fn shown(path: &[String]) -> String {
    let parts: Vec<&str> = path.iter().map(|part| schema::shown(part)).collect();
    format!("/{}", parts.join("/"))
}

fn get<'a>(root: &'a mut Json, path: &[String]) -> Result<&'a mut Json> {
    let missing = || fault(&format!("`{}` is not there", shown(path)));
    path.iter()
        .try_fold(root, |value, key| match value {
            Json::Object(fields) => fields.get_mut(key),
            Json::Array(items) => {
                let index = index(key, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        })
        .ok_or_else(missing)
}

/// A place in a list; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    match key.strip_prefix('-') {
        Some(back) => length.checked_sub(back.parse().ok()?),
        None => key.parse().ok(),
    }
}

fn add(root: &mut Json, path: &[String], value: Json) -> Result<()> {
    let Some((last, parents)) = path.split_last() else {
        *root = value;
        return Ok(());
    };
    let missing = || fault(&format!("`{}` cannot be added to what is there", shown(path)));
    match get(root, parents)? {
        Json::Object(fields) => {
            fields.insert(last.clone(), value);
            Ok(())
        }
        Json::Array(items) => {
            let at = if last == "-" { Some(items.len()) } else { index(last, items.len() + 1) };
            let at = at.filter(|at| *at <= items.len()).ok_or_else(missing)?;
            items.insert(at, value);
            Ok(())
        }
        _ => Err(missing()),
    }
}

fn remove(root: &mut Json, path: &[String]) -> Result<Json> {
    let missing = || fault(&format!("`{}` is to be removed but is not there", shown(path)));
    let (last, parents) = path.split_last().ok_or_else(missing)?;
    match get(root, parents)? {
        Json::Object(fields) => fields.shift_remove(last).ok_or_else(missing),
        Json::Array(items) => {
            let at = index(last, items.len()).filter(|at| *at < items.len()).ok_or_else(missing)?;
            Ok(items.remove(at))
        }
        _ => Err(missing()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{MachineConfig, Patch};

    fn patched(config: &str, patch: &str) -> Result<String, String> {
        let mut config = MachineConfig::from_yaml(config).unwrap();
        let patch = Patch::from_yaml(patch).map_err(|error| error.to_string())?;
        config.apply_patch(&patch).map_err(|error| error.to_string())?;
        Ok(config.to_yaml().expose().to_owned())
    }

    #[test]
    fn operations_do_what_they_say() {
        let config = "machine: {certSANs: [a, b], sysctls: {x/y: '1'}}";
        let patch = r#"[
            {"op": "test", "path": "/machine/certSANs/0", "value": "a"},
            {"op": "add", "path": "/machine/certSANs/-", "value": "c"},
            {"op": "add", "path": "/machine/certSANs/0", "value": "z"},
            {"op": "remove", "path": "/machine/certSANs/1"},
            {"op": "replace", "path": "/machine/sysctls/x~1y", "value": "2"},
            {"op": "copy", "from": "/machine/sysctls/x~1y", "path": "/machine/type"},
            {"op": "move", "from": "/machine/sysctls", "path": "/machine/sysfs"}]"#;
        assert_eq!(
            patched(config, patch).unwrap(),
            "machine:\n  certSANs:\n    - z\n    - b\n    - c\n  type: \"2\"\n  sysfs:\n    x/y: \"2\"\n"
        );
        assert!(
            patched(config, "- op: remove\n  path: /machine/certSANs/-1")
                .unwrap()
                .ends_with("- a\n  sysctls:\n    x/y: \"1\"\n")
        );
    }

    #[test]
    fn a_list_is_known_by_what_is_read_not_by_its_first_character() {
        let remove = "- op: remove\n  path: /machine/certSANs\n";
        let json = r#"[{"op": "remove", "path": "/machine/certSANs"}]"#;
        for patch in [
            format!("# why\n{remove}"),
            format!("---\n{remove}"),
            format!("# why\n---\n# more\n{remove}"),
            format!("\n  \n{json}\n"),
            format!("---\n{json}"),
            format!("# why\n{json}"),
        ] {
            let out = patched("machine: {certSANs: [a], type: worker}", &patch);
            assert_eq!(out.as_deref(), Ok("machine:\n  type: worker\n"), "{patch}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let config = "machine: {certSANs: [a]}";
        for (patch, words) in [
            ("- op: remove\n  path: /machine/x", "`/machine/***` is to be removed but is not there"),
            ("- op: replace\n  path: /machine/x\n  value: 1", "`/machine/***` is not there"),
            ("- op: add\n  path: /machine/certSANs/7\n  value: 1", "cannot be added"),
            ("- op: test\n  path: /machine/certSANs/0\n  value: b", "not what was tested for"),
            ("- op: add\n  path: /machine/x", "operation 1 of the JSON patch has no `value`"),
            ("- op: jump\n  path: /machine/x", "add, remove, replace, move, copy, test"),
            ("- op: move\n  path: /machine/x", "has no `from`"),
        ] {
            let error = patched(config, patch).unwrap_err();
            assert!(error.contains(words), "{patch}: {error}");
        }
        let two = "machine: {}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n";
        assert!(patched(two, "- op: remove\n  path: /machine").unwrap_err().contains("single document"));
    }
}
