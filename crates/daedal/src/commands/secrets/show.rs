//! `daedal secrets show`: everything about the secrets that is none.

use daedal_engine::Credential;
use daedal_talos_config::BundleSummary;
use jiff::Timestamp;

use super::Kept;
use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{console, table};

/// Runs the command.
pub async fn run(target: &Target, format: Format, color: bool) -> Outcome {
    let kept = Kept::open(target, color).await?;
    let summary = kept.secrets.summary().map_err(|error| Failure::from_error(Exit::Failed, &error))?;
    let credentials = kept.outputs.credentials(Timestamp::now()).await;
    match format {
        Format::Json => console::json(&serde_json::json!({
            "cluster": kept.cluster.name,
            "store": kept.store.secrets_place(),
            "bundle": summary,
            "credentials": credentials,
        })),
        Format::Text => {
            console::result(&format!(
                "Cluster {}, stored in {}\n{}",
                kept.cluster.name,
                kept.store.secrets_place().display(),
                render(&summary, &credentials)
            ));
        }
    }
    Ok(Exit::Done)
}

fn render(summary: &BundleSummary, credentials: &[Credential]) -> String {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let mut rows: Vec<Vec<String>> = summary
        .authorities
        .iter()
        .map(|authority| {
            let subject = match authority.subject.as_str() {
                "" => "(none)".to_owned(),
                subject => subject.to_owned(),
            };
            let name = format!("{} authority", authority.name);
            vec![name, subject, authority.key.clone(), day(authority.ends), authority.fingerprint.clone()]
        })
        .collect();
    let account = &summary.service_account;
    let none = || table::NOTHING.to_owned();
    let name = "service account key".to_owned();
    rows.push(vec![name, none(), account.key.clone(), none(), account.fingerprint.clone()]);
    let mut text = table::render(&["WHAT", "SUBJECT", "KEY", "ENDS", "SHA-256"], &rows);
    let also = format!(
        "\nCluster id {}. The bootstrap token, the trustd token and the cluster secret are stored. Kubernetes secrets are \
         encrypted in etcd by {}.\n",
        summary.cluster_id, summary.encryption
    );
    text.push_str(&console::fitted(&also));
    for credential in credentials {
        let due = if credential.due { "; the next apply renews it" } else { "" };
        let valid = format!(
            "The client certificate in {} is valid until {}{due}.\n",
            credential.file,
            day(credential.ends)
        );
        text.push_str(&console::fitted(&valid));
    }
    text
}
