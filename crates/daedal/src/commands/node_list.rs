//! `daedal node list`: what is declared, and what is there although it no longer is.

use daedal_engine::StatusReport;
use daedal_inventory::{Cluster, Role};
use daedal_planner::{World, readiness};
use serde::Serialize;

use crate::cli::{Format, Target};
use crate::commands::apply;
use crate::console;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::Session;
use crate::table::{self, or_nothing};

/// One row.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    node: String,
    /// Whether the inventory names it.
    declared: bool,
    role: Option<Role>,
    host: Option<String>,
    vmid: Option<u32>,
    address: Option<String>,
    vm: String,
    talos: Option<String>,
    etcd: Option<String>,
    ready: Option<String>,
}

/// Runs the command.
pub async fn run(target: &Target, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let world = session.observe().await?;
    let mut rows: Vec<Row> = StatusReport::of(&session.cluster, &world)
        .nodes
        .into_iter()
        .map(|node| Row {
            node: node.node,
            declared: true,
            role: Some(node.role),
            host: node.host,
            vmid: Some(node.vmid),
            address: Some(node.address),
            vm: node.vm,
            talos: node.talos,
            etcd: node.etcd,
            ready: node.ready,
        })
        .collect();
    let declared = rows.len();
    rows.extend(former(&world, &session.cluster));
    match format {
        Format::Json => console::json(&rows),
        Format::Text => {
            let names: Vec<&str> = rows[declared..].iter().map(|row| row.node.as_str()).collect();
            let mut text = render(&rows);
            if !names.is_empty() {
                let remove = apply::command(target, &format!("node remove {}", names.join(" ")));
                let advice = format!("\nTo remove what is no longer declared: {remove}\n");
                text.push_str(&console::fitted(&advice));
            }
            if !world.unobserved.is_empty() {
                text.push_str("\nNot everything was seen:\n");
                text.push_str(&console::unseen(&world.unobserved));
            }
            console::result(&text);
        }
    }
    Ok(Exit::Done)
}

/// What is there although it is not declared: VMs of ours, members of etcd, nodes of Kubernetes.
fn former(world: &World, cluster: &Cluster) -> Vec<Row> {
    let vm_of = |name: &str| world.ours().find(|(node, _)| *node == name).map(|(_, guest)| guest);
    let row = |name: &str| {
        let (guest, view) = (vm_of(name), world.former.get(name).cloned().unwrap_or_default());
        let member = world.members.iter().find(|member| member.name == name);
        let word = |word: &str| word.to_owned();
        Row {
            node: name.to_owned(),
            declared: false,
            role: view.role,
            host: guest.map(|guest| guest.host.clone()),
            vmid: guest.map(|guest| guest.vmid),
            address: view.address,
            vm: match guest.map(|guest| guest.running) {
                Some(true) => word("running"),
                Some(false) => word("stopped"),
                None if !world.unlisted_hosts.is_empty() => word("unknown"),
                None => word("absent"),
            },
            talos: Some(view.talos.to_string()),
            etcd: member.map(|member| word(if member.learner { "learner" } else { "member" })),
            ready: view.ready.map(|ready| word(readiness(ready))),
        }
    };
    world.undeclared(cluster).into_iter().map(row).collect()
}

fn render(rows: &[Row]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let role = row.role.map(|role| match role {
                Role::ControlPlane => "control plane".to_owned(),
                Role::Worker => "worker".to_owned(),
            });
            vec![
                row.node.clone(),
                if row.declared { "yes".to_owned() } else { "NO".to_owned() },
                or_nothing(role),
                or_nothing(row.host.clone()),
                or_nothing(row.vmid.map(|vmid| vmid.to_string())),
                or_nothing(row.address.clone()),
                row.vm.clone(),
                or_nothing(row.talos.clone()),
                or_nothing(row.etcd.clone()),
                or_nothing(row.ready.clone()),
            ]
        })
        .collect();
    let header = ["NODE", "DECLARED", "ROLE", "HOST", "VMID", "ADDRESS", "VM", "TALOS", "ETCD", "KUBERNETES"];
    table::render(&header, &cells)
}
