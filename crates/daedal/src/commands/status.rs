//! `daedal status`: every node from all three sides, and which side could not be asked.

use daedal_engine::{NodeStatus, StatusReport, StatusSide, Unasked};
use daedal_inventory::Reach;
use daedal_planner::Hindrance;

use crate::cli::{Format, Target};
use crate::commands::{addons, apply};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::silence::without_login;
use crate::words::count;
use crate::{advice, console, table};

/// Runs the command.
pub async fn run(target: &Target, detailed_exitcode: bool, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    session.log_in().await?;
    let mut status = session.engine.status(&session.cluster).await.map_err(|e| engine_failure(&e))?;
    let lack = lack(&session, target).await;
    explain(&mut status, lack.as_ref(), &session, target);
    status.unobserved.iter_mut().for_each(|unobserved| advice::complete(&mut unobserved.fix));
    match format {
        Format::Json => console::json(&as_json(&status)),
        Format::Text => {
            let list = apply::command(target, "node list");
            console::result(&render(&status, &renewal(lack.as_ref(), target), &list));
        }
    }
    let blocked = blocked(&status);
    if let (Format::Text, Some(failure)) = (format, &blocked) {
        console::progress(&failure.render(color));
    }
    Ok(match blocked {
        Some(failure) => failure.exit,
        None if detailed_exitcode && (status.healthy, status.as_declared) != (Some(true), Some(true)) => {
            Exit::Changes
        }
        None => Exit::Done,
    })
}

/// The state for programs, with the words beside the codes.
fn as_json(status: &StatusReport) -> serde_json::Value {
    let mut json = serde_json::json!(status);
    json["storages"] = status.storages.iter().map(advice::as_json).collect();
    json
}

/// Why there are no secrets to ask the nodes with, and what helps; none if they are there.
pub(super) async fn lack(session: &Session, target: &Target) -> Option<Failure> {
    match session.engine.has_secrets().await {
        Ok(true) => None,
        Ok(false) => {
            let (name, place) = (&session.cluster.name, session.store.place());
            let message = format!("the secrets of cluster {name} are not in {}", place.display());
            let import = apply::command(target, "secrets import FILE");
            Some(
                Failure::new(Exit::MissingSecret, message)
                    .hint("Copy the store from the machine that applied the cluster, or name it with --state DIR.")
                    .hint(format!("Or import them from the machine config of a control plane: {import}")),
            )
        }
        Err(error) => Some(engine_failure(&error)),
    }
}

/// Says of each side that could not be asked why, and what would give access.
fn explain(status: &mut StatusReport, lack: Option<&Failure>, session: &Session, target: &Target) {
    let network = session.cluster.network.cidr.to_string();
    let unproven = status.nodes.iter().find(|node| node.running.is_none()).map(|node| node.node.clone());
    for unasked in &mut status.unasked {
        match (unasked.because, lack) {
            (Hindrance::NoSecrets, Some(lack)) => {
                let causes = lack.causes.iter().map(|cause| format!(": {cause}"));
                unasked.why = std::iter::once(lack.message.clone()).chain(causes).collect();
                unasked.access.clone_from(&lack.hints);
            }
            (Hindrance::OtherSecrets, _) => {
                let import = apply::command(target, "secrets import --replace FILE");
                unasked.access = vec![
                    "Name the store that has their secrets with --state DIR.".to_owned(),
                    format!(
                        "Or export them where the cluster was created (daedal secrets export --to FILE), and here: {import}"
                    ),
                ];
            }
            (Hindrance::LostMarks, _) => {
                let node = unproven.as_deref().unwrap_or("NODE");
                let mark = apply::command(target, &format!("node mark {node}"));
                unasked.access = vec![format!("If they are, give each its mark back: {mark}")];
            }
            _ => unasked.access = vec![way(unasked.because, &session.cluster.reach, &network)],
        }
    }
}

/// What to do about a certificate that ends soon. An apply without the secrets is refused.
fn renewal(lack: Option<&Failure>, target: &Target) -> String {
    match lack {
        None => format!("renew it: {}", apply::command(target, "apply")),
        Some(_) => "it can be renewed once the secrets are back".to_owned(),
    }
}

/// What gives a way to the nodes.
fn way(because: Hindrance, reach: &Reach, network: &str) -> String {
    match (because, reach) {
        (Hindrance::NoRoute | Hindrance::Silent, Reach::Direct) => format!(
            "Check that this machine has a route to {network} (a VPN?), or reach it through a proxy \
             (`reach: {{proxy: URL}}`) or SSH (`reach: {{ssh: {{host: HOST}}}}`)."
        ),
        (Hindrance::NoRoute | Hindrance::Silent, Reach::Proxy(proxy)) => {
            format!("Check that the proxy {} (`reach.proxy`) has a route to {network}.", without_login(proxy))
        }
        (Hindrance::NoRoute | Hindrance::Silent, Reach::Ssh(ssh)) => format!(
            "Check that the SSH server {} (`reach.ssh`) has a route to {network}, and that the nodes run.",
            ssh.server.host
        ),
        (_, Reach::Ssh(ssh)) => format!(
            "Check that the SSH server {} (`reach.ssh`) answers and allows forwarding (`AllowTcpForwarding`).",
            ssh.server.host
        ),
        (_, Reach::Direct) => "See what the nodes print on their consoles in Proxmox.".to_owned(),
        (_, Reach::Proxy(proxy)) => {
            format!(
                "Check that the proxy {} (`reach.proxy`) runs and allows the connection.",
                without_login(proxy)
            )
        }
    }
}

/// What kept both sides from being asked, with the exit code that says the same.
fn blocked(status: &StatusReport) -> Option<Failure> {
    let [first, rest @ ..] = &status.unasked[..] else { return None };
    let side = |unasked: &Unasked| match unasked.side {
        StatusSide::Talos => "Talos",
        StatusSide::Kubernetes => "Kubernetes",
    };
    let sides: Vec<&str> = status.unasked.iter().map(side).collect();
    let exit = match first.because {
        Hindrance::NoSecrets | Hindrance::OtherSecrets => Exit::MissingSecret,
        Hindrance::LostMarks => Exit::Failed,
        _ => Exit::Unavailable,
    };
    let message = format!("{} could not be asked: {}", sides.join(" and "), first.why);
    let mut failure = Failure::new(exit, message);
    let others = rest.iter().filter(|other| other.why != first.why);
    failure.causes = others.map(|other| format!("{}: {}", side(other), other.why)).collect();
    failure.hints.clone_from(&first.access);
    Some(failure)
}

/// The state as text; how a certificate is renewed, and the command that lists nodes.
fn render(status: &StatusReport, renewal: &str, list: &str) -> String {
    let rows: Vec<Vec<String>> = status
        .nodes
        .iter()
        .map(|node| {
            vec![
                node.node.clone(),
                table::or_nothing(node.host.clone()),
                node.vmid.to_string(),
                node.address.clone(),
                node.vm.clone(),
                table::or_nothing(node.talos.clone()),
                table::or_nothing(node.etcd.clone()),
                table::or_nothing(node.ready.clone()),
            ]
        })
        .collect();
    let mut text =
        table::render(&["NODE", "HOST", "VMID", "ADDRESS", "VM", "TALOS", "ETCD", "KUBERNETES"], &rows);
    if !status.addons.is_empty() {
        text.push_str(&format!("\n{}", addons::listed(&status.addons)));
    }
    let verdict = console::wrapped(&format!("{} {}", endpoint(status), verdict(status)), 0);
    text.push_str(&format!("\n{verdict}\n"));
    for (nodes, difference) in differences(status) {
        text.push_str(&console::wrapped(&format!("{}: {difference}\n", nodes.join(", ")), 2));
    }
    if !status.undeclared.is_empty() {
        let (names, are) =
            (status.undeclared.join(", "), if status.undeclared.len() == 1 { "is" } else { "are" });
        let besides = format!("{names} {are} there and not declared: see `{list}`.\n");
        text.push_str(&console::fitted(&besides));
    }
    for credential in status.credentials.iter().filter(|credential| credential.due) {
        let ends = credential.ends.strftime("%Y-%m-%d %H:%M UTC");
        let due = format!("The client certificate in {} ends on {ends}: {renewal}\n", credential.file);
        text.push_str(&console::fitted(&due));
    }
    for warning in &status.storages {
        let (about, why) = (daedal_words::about(warning), daedal_words::sentence(warning));
        let fix = advice::fix_of(warning).map(|fix| format!("  fix: {fix}\n")).unwrap_or_default();
        text.push_str(&console::fitted(&format!("Warning: {about}: {why}\n{fix}")));
    }
    for unobserved in &status.unobserved {
        text.push_str(&console::wrapped(&format!("Not seen: {}: {}\n", unobserved.what, unobserved.why), 2));
        if let Some(fix) = &unobserved.fix {
            text.push_str(&console::wrapped(&format!("  {fix}\n"), 2));
        }
    }
    text
}

/// What the endpoint does, where it was asked.
fn endpoint(status: &StatusReport) -> String {
    let at = format!("API endpoint {}", status.endpoint);
    match (status.endpoint_answers, &status.endpoint_why) {
        (Some(true), _) => format!("{at} answers."),
        (Some(false), Some(why)) => format!("{at} does not answer: {why}."),
        (Some(false), None) => format!("{at} does not answer."),
        (None, _) if status.nodes.iter().all(|node| node.running == Some(false)) => {
            format!("{at} was not asked: no VM of the cluster runs.")
        }
        (None, _) => format!("{at} was not asked."),
    }
}

/// How many nodes are as they should be, and of how many that is not known.
fn verdict(status: &StatusReport) -> String {
    let all = status.nodes.len();
    let so = |is: Option<bool>| status.nodes.iter().filter(|node| node.is_well() == is).count();
    let (well, ill, unknown) = (so(Some(true)), so(Some(false)), so(None));
    let compared = !status.partly && status.as_declared.is_some();
    let seen = if compared || well == 0 { "" } else { ", as far as was seen" };
    match (unknown, well, all) {
        (0, 1, 1) => return format!("The one node is as it should be{seen}."),
        (0, 1, _) => return format!("1 of {all} nodes is as it should be{seen}."),
        (0, ..) => return format!("{well} of {} are as they should be{seen}.", count(all, "node")),
        _ => {}
    }
    let running = status.nodes.iter().filter(|node| node.running == Some(true)).count();
    let unseen = status.nodes.iter().filter(|node| node.running.is_none()).count();
    let runs = if running == 1 { "runs" } else { "run" };
    let unproven = |node: &&NodeStatus| node.running.is_none() && node.talos.is_some();
    let unproven = status.nodes.iter().filter(unproven).count();
    let hidden = [(unseen - unproven, "could not be seen"), (unproven, "not proven to be of this cluster")];
    let hidden = hidden.iter().filter(|(number, _)| *number > 0);
    let hidden: String = hidden.map(|(number, what)| format!(", {number} {what}")).collect();
    let are = |number: usize, not: &str| match number {
        0 => None,
        1 => Some(format!("1 node is{not} as it should be")),
        _ => Some(format!("{number} nodes are{not} as they should be")),
    };
    let checked = format!("{} could not be checked", count(unknown, "node"));
    let parts = [are(well, ""), are(ill, " not"), Some(checked)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{running} of {} {runs}{hidden}. {}.", count(all, "VM"), parts.join(", "))
}

/// What is not as declared, each once with all the nodes that it is true of.
fn differences(status: &StatusReport) -> Vec<(Vec<&str>, &str)> {
    let mut told: Vec<(Vec<&str>, &str)> = Vec::new();
    for node in &status.nodes {
        for difference in &node.differences {
            match told.iter_mut().find(|(_, other)| other == difference) {
                Some((nodes, _)) => nodes.push(&node.node),
                None => told.push((vec![&node.node], difference)),
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use daedal_engine::Credential;

    use super::*;

    /// M22: whoever looks is told before their access ends.
    #[test]
    fn certificates_that_end_soon_are_told_and_others_are_not() {
        let credential = |file: &str, due| Credential {
            file: file.into(),
            ends: "2026-03-01T12:00:00Z".parse().unwrap_or_default(),
            due,
        };
        let status = StatusReport {
            cluster: "home".into(),
            nodes: Vec::new(),
            undeclared: Vec::new(),
            endpoint: "https://10.0.0.20:6443".into(),
            endpoint_answers: Some(true),
            endpoint_why: None,
            healthy: Some(true),
            partly: false,
            unasked: Vec::new(),
            as_declared: Some(true),
            storages: Vec::new(),
            unobserved: Vec::new(),
            addons: Vec::new(),
            credentials: vec![credential("talosconfig", true), credential("kubeconfig", false)],
        };
        let text = render(&status, "renew it: daedal apply", "daedal node list");
        let warning =
            "The client certificate in talosconfig ends on 2026-03-01 12:00 UTC: renew it: daedal apply";
        assert!(text.contains(warning), "{text}");
        assert!(!text.contains("kubeconfig"), "{text}");
    }

    #[test]
    fn the_way_to_the_nodes_is_named_without_its_password() {
        let proxy = Reach::Proxy("http://me:secret@10.9.9.9:3128".into());
        for because in [Hindrance::Silent, Hindrance::Refused] {
            let said = way(because, &proxy, "10.0.0.0/24");
            assert!(said.contains("http://10.9.9.9:3128 (`reach.proxy`)"), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
        assert!(way(Hindrance::NoRoute, &Reach::Direct, "10.0.0.0/24").contains("route to 10.0.0.0/24"));
    }
}
