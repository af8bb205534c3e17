//! `daedal node list`: what is declared, and what is there although it no longer is.

use daedal_engine::{StatusReport, vm_word};
use daedal_inventory::{Cluster, Role};
use daedal_planner::{Advice, GuestView, World, in_doubt, may_be, readiness};
use daedal_words::sentence;
use serde::Serialize;

use crate::cli::{Format, Target};
use crate::commands::apply;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::table::{self, or_nothing};
use crate::{advice, console};

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
    session.log_in().await?;
    let looked = session.engine.observe_lacking(&session.cluster).await;
    let world = looked.map_err(|error| engine_failure(&error))?;
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
            let mut text = render(&rows);
            let mut names: Vec<&str> = rows[declared..].iter().map(|row| row.node.as_str()).collect();
            names.retain(|name| match unproven(&session.cluster, &world, name) {
                Some(doubt) => {
                    let why = format!("{name}: {}", sentence(&doubt));
                    text.push_str(&format!("\n{}\n", console::wrapped(&why, 2)));
                    if let Some(fix) = advice::fix_of(&doubt) {
                        text.push_str(&format!("{}\n", console::wrapped(&format!("  fix: {fix}"), 7)));
                    }
                    false
                }
                None => true,
            });
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

/// The VM of a node that is proven ours.
fn own_vm<'w>(world: &'w World, name: &str) -> Option<&'w GuestView> {
    world.ours().find(|(node, _)| *node == name).map(|(_, guest)| guest)
}

/// Why a node cannot be removed because nothing proves which VM is its own.
fn unproven(cluster: &Cluster, world: &World, name: &str) -> Option<Advice> {
    own_vm(world, name).is_none().then(|| in_doubt(cluster, world, name)).flatten()
}

/// What is there although it is not declared: VMs of ours, members of etcd, nodes of Kubernetes.
fn former(world: &World, cluster: &Cluster) -> Vec<Row> {
    let vm_of = |name: &str| {
        let ours = own_vm(world, name);
        ours.or_else(|| may_be(cluster, world, name).into_iter().next())
    };
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
            vm: match guest {
                Some(guest) => vm_word(guest, name),
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
