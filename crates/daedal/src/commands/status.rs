//! `daedal status`: every node from all three sides.

use daedal_engine::StatusReport;

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::words::count;
use crate::{console, table};

/// Runs the command.
pub async fn run(target: &Target, detailed_exitcode: bool, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    let status = session.engine.status(&session.cluster).await.map_err(|e| engine_failure(&e))?;
    match format {
        Format::Json => console::json(&status),
        Format::Text => console::result(&render(&status)),
    }
    Ok(if detailed_exitcode && !status.healthy { Exit::Changes } else { Exit::Done })
}

fn render(status: &StatusReport) -> String {
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
    let answers = if status.endpoint_answers { "answers" } else { "does not answer" };
    text.push_str(&format!("\nAPI endpoint {} {answers}.", status.endpoint));
    let well = status.nodes.iter().filter(|node| node.healthy).count();
    let all = status.nodes.len();
    text.push_str(&match (well, all) {
        (1, 1) => " The one node is as it should be.\n".to_owned(),
        (1, _) => format!(" 1 of {all} nodes is as it should be.\n"),
        _ => format!(" {well} of {} are as they should be.\n", count(all, "node")),
    });
    if !status.undeclared.is_empty() {
        let (names, are) =
            (status.undeclared.join(", "), if status.undeclared.len() == 1 { "is" } else { "are" });
        text.push_str(&format!("Besides, {names} {are} there and not declared: see `daedal node list`.\n"));
    }
    for credential in status.credentials.iter().filter(|credential| credential.due) {
        text.push_str(&format!(
            "The client certificate in {} ends on {}: the next apply renews it.\n",
            credential.file,
            credential.ends.strftime("%Y-%m-%d %H:%M UTC"),
        ));
    }
    for blind in &status.blind {
        text.push_str(&format!("Not seen: {}: {}\n", blind.what, blind.why));
    }
    text
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
            endpoint_answers: true,
            healthy: true,
            blind: Vec::new(),
            credentials: vec![credential("talosconfig", true), credential("kubeconfig", false)],
        };
        let text = render(&status);
        let warning =
            "The client certificate in talosconfig ends on 2026-03-01 12:00 UTC: the next apply renews it.";
        assert!(text.contains(warning), "{text}");
        assert!(!text.contains("kubeconfig"), "{text}");
    }
}
