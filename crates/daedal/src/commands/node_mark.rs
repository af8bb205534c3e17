//! `daedal node mark`: give a VM its lost mark back.

use daedal_engine::LostMark;
use daedal_inventory::Node;

use crate::cli::{Format, Target};
use crate::commands::{apply, node};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::{console, documents};

/// Runs the command.
pub async fn run(name: &str, target: &Target, yes: bool, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let node: Node = node::declared(&inventory.loaded.cluster, name)?.clone();
    let session = Session::with(inventory, target).await?;
    let _lock = session.lock("node mark").await?;
    let failed = |error: daedal_engine::Error| engine_failure(&error);
    let Some(lost) = session.engine.lost_mark(&session.cluster, &node).await.map_err(failed)? else {
        match format {
            Format::Json => console::json(&serde_json::json!({"changed": false})),
            Format::Text => console::answer(&format!("VM {} already has the mark of {name}.", node.vmid)),
        }
        return Ok(Exit::Done);
    };
    if format == Format::Text {
        console::answer(&proof(&lost));
    }
    if !yes {
        apply::consent(&session, "Give --yes.")?;
    }
    session.engine.give_mark(&lost).await.map_err(failed)?;
    match format {
        Format::Json => console::json(&serde_json::json!({"changed": true, "vm": lost})),
        Format::Text => console::answer(&format!("VM {} is marked as {name} again.", lost.vmid)),
    }
    Ok(Exit::Done)
}

/// What shows that the VM is the node's, and what is written.
fn proof(lost: &LostMark) -> String {
    let LostMark { node, vmid, host, name, uuid, mac, talos, mark, .. } = lost;
    format!(
        "VM {vmid} \"{name}\" on {host} matches {node} in everything but the mark:\n  \
         VMID         {vmid}\n  \
         SMBIOS uuid  {uuid}\n  \
         MAC          {mac}\n  \
         Talos        {talos}\n\
         Its notes stay; this line is added to them:\n  {mark}"
    )
}
