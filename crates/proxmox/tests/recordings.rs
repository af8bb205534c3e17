//! Replays recorded exchanges with the real API: every answer must be readable, every refusal typed.
//!
//! Needs the recordings: `DAEDAL_PROXMOX_DATA` names the folder that holds `recorded-*.jsonl`.

use crate::support;

use std::path::PathBuf;

use daedal_proxmox::{
    ClusterMember, Error, Kind, Node, Permissions, Pool, Resource, Storage, TaskFilter, TaskOutcome, TaskRow,
    Upid, VmConfig, VmRow, Volume, from_task_text,
};
use serde_json::Value;
use support::{Server, answer};

fn recordings() -> Option<Vec<Value>> {
    let folder = PathBuf::from(std::env::var_os("DAEDAL_PROXMOX_DATA")?);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).ok()?.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("recorded-") && name.ends_with(".jsonl") {
            let text = std::fs::read_to_string(entry.path()).ok()?;
            all.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Has the client read one recorded answer, through the endpoint of its path where there is one.
async fn read_back(record: &Value) -> Result<(), Error> {
    let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let status = u16::try_from(record["status"].as_u64().unwrap()).unwrap();
    let body = match &record["body"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (reason, method, path) = (text("reason"), text("method"), text("path"));
    let server = Server::new(move |_| answer(status, &reason, &body));
    let client = server.client();
    let last = path.rsplit('/').next().unwrap_or_default();
    match (method.as_str(), path.as_str()) {
        ("GET", "/version") => client.version().await.map(|version| assert!(!version.version.is_empty())),
        ("GET", "/nodes") => client.nodes().await.map(|nodes: Vec<Node>| assert!(nodes[0].online())),
        ("GET", "/cluster/status") => {
            client.cluster_status().await.map(|all: Vec<ClusterMember>| assert!(all[0].online))
        }
        ("GET", "/cluster/resources") => {
            client.resources().await.map(|all: Vec<Resource>| assert!(all.iter().any(|r| r.vmid.is_some())))
        }
        ("GET", "/cluster/nextid") => client.next_vmid().await.map(|vmid| assert!(vmid >= 100)),
        ("GET", "/access/permissions") => {
            client.permissions().await.map(|all: Permissions| assert!(all.contains_key("/")))
        }
        ("GET", "/pools") => {
            client.pools().await.map(|pools: Vec<Pool>| assert!(!pools[0].poolid.is_empty()))
        }
        ("GET", _) if last == "storage" => {
            client.storages("pve1").await.map(|all: Vec<Storage>| assert!(all[0].active && all[0].total > 0))
        }
        ("GET", _) if last == "content" => client
            .volumes("pve1", "local", None)
            .await
            .map(|all: Vec<Volume>| assert!(all.iter().all(|volume| volume.volid.contains(':')))),
        ("GET", _) if last == "network" => client.bridges("pve1").await.map(|all| assert!(all[0].active)),
        ("GET", _) if last == "tasks" => client
            .tasks("pve1", &TaskFilter::default())
            .await
            .map(|all: Vec<TaskRow>| assert!(all.iter().all(|task| task.upid.node() == "pve1"))),
        ("GET", _) if last == "qemu" => {
            client.vms("pve1").await.map(|all: Vec<VmRow>| assert!(all.iter().all(|vm| vm.vmid >= 100)))
        }
        ("GET", _) if last == "config" => client.vm_config("pve1", 900).await.map(|config: VmConfig| {
            assert!(!config.digest.is_empty() && config.lock.is_none());
            assert!(
                config.disks.values().filter(|disk| !disk.options.is_empty()).all(|disk| disk.size.is_some())
            );
            assert_eq!(config.nics["net0"].bridge, "vmbr0");
        }),
        ("GET", _) if last == "pending" => client.vm_config_pending("pve1", 900).await.map(drop),
        ("GET", _) if last == "current" => {
            client.vm_status("pve1", 900).await.map(|status| assert!(!status.status.is_empty()))
        }
        ("GET", path) if path.starts_with("/nodes/pve1/tasks/UPID") => {
            let upid: Upid = path.split('/').nth(4).unwrap().parse().unwrap();
            if last == "log" {
                client.task_log_tail(&upid, 5).await.map(drop)
            } else {
                client.task_state(&upid).await.map(drop)
            }
        }
        ("GET", _) if last == "status" => {
            client.node_status("pve1").await.map(|status| assert!(status.cpuinfo.cpus > 0))
        }
        ("GET", _) => client.agent_interfaces("pve1", 900).await.map(drop),
        ("PUT", _) if last == "config" => client.update_vm("pve1", 900, &Default::default()).await,
        (_, path) if path.contains("/content/") => {
            client.delete_volume("pve1", "local:iso/x").await.map(drop)
        }
        _ => client.start_vm("pve1", 900).await.map(drop),
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "needs recorded data: cargo xtask conformance"]
async fn every_recorded_answer_is_understood() {
    let Some(recordings) = recordings() else {
        println!("skipped: DAEDAL_PROXMOX_DATA names no folder with recorded-*.jsonl");
        return;
    };
    // Lists of things that the client has no call for.
    let foreign =
        ["/access/roles", "/access/users", "/access/acl", "/cluster/ha", "/cluster/sdn", "/cluster/mapping"];
    let (mut understood, mut untyped) = (0, Vec::new());
    for record in &recordings {
        let path = record["path"].as_str().unwrap();
        let status = record["status"].as_u64().unwrap();
        if status < 400 && foreign.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        let result = read_back(record).await;
        let is_upid_or_null = record["body"]["data"].is_null() || record["body"]["data"].is_string();
        match (status, result) {
            (200, Ok(())) => {}
            // A change that answers null where the replaying call wants a task.
            (200, Err(_)) if record["method"] != "GET" && is_upid_or_null => {}
            (200, Err(error)) => panic!("{record}\n{error:?}"),
            (_, Ok(())) => panic!("{record}\nread as success"),
            (_, Err(error)) => {
                if let Kind::Other { text, .. } = error.kind() {
                    untyped.push(text.clone());
                }
                assert!(
                    !matches!(error.kind(), Kind::Protocol { .. } | Kind::MayHaveHappened { .. }),
                    "{error:?}"
                );
            }
        }
        if let Some(exit) = record["body"]["data"]["exitstatus"].as_str()
            && !TaskOutcome::parse(exit).is_success()
            && let Kind::Other { text, .. } = from_task_text(exit)
        {
            untyped.push(text);
        }
        understood += 1;
    }
    untyped.sort();
    untyped.dedup();
    println!("{understood} recorded exchanges read; failures left in Proxmox's words only:");
    for text in &untyped {
        println!("  {text}");
    }
    // Refusals that nobody has to act on by type. A new one here wants a look.
    let expected = [
        "device 'scsi9'",
        "no options specified",
        "template",
        "linked clones",
        "not configured for content-type",
        "quit/powerdown failed",
        "shrinking disks",
        "snapshot feature",
        "still in use by linked",
        "exit code 8",
    ];
    let surprising: Vec<_> =
        untyped.iter().filter(|text| !expected.iter().any(|known| text.contains(known))).collect();
    assert!(surprising.is_empty(), "{surprising:#?}");
}
