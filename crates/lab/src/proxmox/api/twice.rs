//! Parameters that stand in a path: whoever says the same again among the others is heard, whoever contradicts is not.

use crate::proxmox::context::Context;
use crate::proxmox::fail::Fail;

/// Takes the path's own parameters out of the others.
pub(super) fn merge(context: &mut Context, parts: &[&str]) -> Result<(), Fail> {
    for (name, value) in of_path(parts) {
        match context.params.get(name) {
            Some(again) if *again != value => {
                let why = "duplicate parameter (already defined in URI) with conflicting values!";
                return Err(Fail::parameter(name, why));
            }
            Some(_) => drop(context.params.shift_remove(name)),
            None => {}
        }
    }
    Ok(())
}

fn of_path(parts: &[&str]) -> Vec<(&'static str, String)> {
    let one = |name, value: &str| vec![(name, value.to_owned())];
    match parts {
        ["nodes", host, rest @ ..] => {
            let below = match rest {
                ["storage", storage, "content", volume @ ..] if !volume.is_empty() => {
                    vec![("storage", (*storage).to_owned()), ("volume", volume.join("/"))]
                }
                ["storage", storage, ..] => one("storage", storage),
                ["qemu", vmid, ..] => one("vmid", vmid),
                ["tasks", upid, ..] => one("upid", upid),
                _ => Vec::new(),
            };
            [one("node", host), below].concat()
        }
        ["pools", id] => one("poolid", id),
        ["storage", id] => one("storage", id),
        ["cluster", "ha", "resources", id] => one("sid", id),
        ["cluster", "ha", "groups", id] => one("group", id),
        ["cluster", "ha", "rules", id] => one("rule", id),
        ["cluster", "backup", id] => one("id", id),
        _ => Vec::new(),
    }
}
