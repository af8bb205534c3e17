//! Snapshots, and VMs under high availability: what a VM was comes back, and the manager acts in its own time.

use std::time::Duration;

use crate::story::CREATE;
use crate::support::Lab;

const VM: &str = "/nodes/pve1/qemu/900";

/// A VM whose disks are all on a storage that knows snapshots.
async fn lab() -> Lab {
    let lab = Lab::new().with_image().await;
    let create: Vec<(&str, &str)> =
        CREATE.iter().filter(|(name, _)| !matches!(*name, "efidisk0" | "bios")).copied().collect();
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
    lab
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_what_the_vm_was() {
    let lab = lab().await;
    let snapshots = format!("{VM}/snapshot");
    let of = |rest: &str| format!("{snapshots}/{rest}");
    let none = lab.call("GET", &snapshots, &[]).await;
    assert_eq!(none.data()[0]["name"], "current");
    assert_eq!(
        (&none.data()[0]["description"], &none.data()[0]["running"]),
        (&"You are here!".into(), &0.into())
    );

    let first = [("snapname", "first"), ("description", "before")];
    assert_eq!(lab.task("POST", &snapshots, &first).await, "OK");
    assert_eq!(lab.task("POST", &snapshots, &first).await, "snapshot name 'first' already used");
    let reserved = lab.call("POST", &snapshots, &[("snapname", "current")]).await;
    assert_eq!(reserved.reason, "unable to use snapshot name 'current' (reserved name)");
    let short = lab.call("POST", &snapshots, &[("snapname", "x")]).await;
    assert_eq!((short.status, short.body["errors"]["snapname"].is_string()), (400, true));

    // The VM becomes another one, and a second snapshot comes from the first.
    assert_eq!(lab.call("PUT", &format!("{VM}/config"), &[("cores", "4")]).await.status, 200);
    let grow = [("disk", "scsi0"), ("size", "10G")];
    assert_eq!(lab.task("PUT", &format!("{VM}/resize"), &grow).await, "OK");
    assert_eq!(lab.task("POST", &snapshots, &[("snapname", "second")]).await, "OK");
    let all = lab.call("GET", &snapshots, &[]).await;
    let told: Vec<(&str, &str)> = all
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["parent"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(told, [("first", "-"), ("second", "first"), ("current", "second")]);

    // What each keeps, and what people say of it.
    let kept = lab.call("GET", &of("first/config"), &[]).await;
    assert_eq!((&kept.data()["cores"], &kept.data()["description"]), (&2.into(), &"before".into()));
    assert_eq!(lab.call("PUT", &of("first/config"), &[("description", "long before")]).await.status, 200);
    let kept = lab.call("GET", &of("first/config"), &[]).await;
    assert_eq!(kept.data()["description"], "long before");
    let through = lab.call("GET", &format!("{VM}/config"), &[("snapshot", "first")]).await;
    assert_eq!(through.data()["cores"], 2);
    let unknown = lab.call("GET", &of("third/config"), &[]).await;
    assert_eq!((unknown.status, unknown.reason.as_str()), (500, "snapshot 'third' does not exist"));
    let commands = lab.call("GET", &of("first"), &[]).await;
    assert_eq!(commands.data()[1]["cmd"], "rollback");

    // Back to the first: a running VM is stopped, its options and disks are what they were, and it runs again if asked to.
    assert_eq!(lab.task("POST", &format!("{VM}/status/start"), &[]).await, "OK");
    assert_eq!(lab.task("POST", &of("first/rollback"), &[]).await, "OK");
    let config = lab.call("GET", &format!("{VM}/config"), &[]).await;
    assert_eq!((&config.data()["cores"], &config.data()["parent"]), (&2.into(), &"first".into()));
    assert!(config.data()["scsi0"].as_str().unwrap().contains("size=64M"), "{}", config.data()["scsi0"]);
    assert!(config.data().get("lock").is_none());
    let status = lab.call("GET", &format!("{VM}/status/current"), &[]).await;
    assert_eq!(status.data()["status"], "stopped");
    assert_eq!(lab.task("POST", &of("second/rollback"), &[("start", "1")]).await, "OK");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = lab.call("GET", &format!("{VM}/status/current"), &[]).await;
    assert_eq!(status.data()["status"], "running");
    let seen = lab.guests.hardware.lock().unwrap().get(&900).unwrap().disk.clone().unwrap();
    assert_eq!(seen.size, 10 << 30);

    // One in the middle goes: what came from it comes from its parent.
    assert_eq!(lab.task("DELETE", &of("first"), &[]).await, "OK");
    let all = lab.call("GET", &snapshots, &[]).await;
    assert!(all.data()[0].get("parent").is_none(), "{}", all.data());
    assert_eq!(lab.task("DELETE", &of("first"), &[]).await, "snapshot 'first' does not exist");
    assert_eq!(lab.task("POST", &of("first/rollback"), &[]).await, "snapshot 'first' does not exist");
    assert_eq!(lab.task("POST", &format!("{VM}/status/stop"), &[]).await, "OK");
    let template = lab.call("POST", &format!("{VM}/template"), &[]).await;
    assert_eq!(template.reason, "unable to create template, because VM contains snapshots");
    assert_eq!(lab.task("DELETE", VM, &[("purge", "1")]).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn raw_files_know_no_snapshots() {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    let end = lab.task("POST", &format!("{VM}/snapshot"), &[("snapname", "first")]).await;
    assert_eq!(end, "snapshot feature is not available");
    // Nothing is left of it, least of all a lock.
    assert_eq!(lab.task("POST", &format!("{VM}/status/start"), &[]).await, "OK");
}

/// A VM under high availability goes only with `purge`, which takes it out of backup jobs, too.
#[tokio::test(start_paused = true)]
async fn a_purge_takes_a_vm_out_of_high_availability_and_backup_jobs() {
    let lab = lab().await;
    let ignored = [("sid", "vm:900"), ("state", "ignored")];
    assert_eq!(lab.call("POST", "/cluster/ha/resources", &ignored).await.status, 200);
    for (id, vmids) in [("alone", "900"), ("both", "899,900")] {
        let job = [("id", id), ("vmid", vmids), ("storage", "local"), ("schedule", "02:30")];
        assert_eq!(lab.call("POST", "/cluster/backup", &job).await.status, 200);
    }
    let refused = lab.call("DELETE", VM, &[]).await;
    let used = "unable to remove VM 900 - used in HA resources and purge parameter not set.";
    assert_eq!((refused.status, refused.reason.as_str()), (500, used));
    assert_eq!(lab.task("DELETE", VM, &[("purge", "1")]).await, "OK");
    assert_eq!(lab.call("GET", "/cluster/ha/resources", &[]).await.data().as_array().unwrap().len(), 0);
    let jobs = lab.call("GET", "/cluster/backup", &[]).await;
    let [job] = &jobs.data().as_array().unwrap()[..] else { panic!("{}", jobs.data()) };
    assert_eq!((&job["id"], job["vmid"].to_string().trim_matches('"')), (&"both".into(), "899"));
}

#[tokio::test(start_paused = true)]
async fn the_manager_starts_and_stops_what_it_has() {
    let lab = lab().await;
    let resources = "/cluster/ha/resources";
    let asked = [("sid", "vm:900"), ("state", "stopped")];
    assert_eq!(lab.call("POST", resources, &asked).await.status, 200);
    let status =
        async || lab.call("GET", &format!("{VM}/status/current"), &[]).await.data()["status"].clone();
    let wanted = async || lab.call("GET", &format!("{resources}/vm:900"), &[]).await.data()["state"].clone();

    // The task ends at once and only sets the resource's state; the manager acts later, as root, with a task of its own.
    let start = lab.call("POST", &format!("{VM}/status/start"), &[]).await;
    assert!(start.data().as_str().unwrap().contains(":hastart:900:"), "{}", start.data());
    assert_eq!(lab.wait(&start).await, "OK");
    assert_eq!((status().await, wanted().await), ("stopped".into(), "started".into()));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(status().await, "running");
    let tasks = lab.call("GET", "/nodes/pve1/tasks", &[("vmid", "900"), ("source", "all")]).await;
    let by_root = |task: &&serde_json::Value| task["type"] == "qmstart" && task["user"] == "root@pam";
    let task = tasks.data().as_array().unwrap().iter().find(by_root).unwrap();
    assert!(task.get("tokenid").is_none(), "{task}");

    for call in ["stop", "shutdown"] {
        let stop = lab.call("POST", &format!("{VM}/status/{call}"), &[]).await;
        assert!(stop.data().as_str().unwrap().contains(":hastop:900:"), "{}", stop.data());
        assert_eq!(lab.wait(&stop).await, "OK");
        assert_eq!((status().await, wanted().await), ("running".into(), "stopped".into()));
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(status().await, "stopped");
        // The resource's own state is as good as a start.
        let again = lab.call("PUT", &format!("{resources}/vm:900"), &[("state", "started")]).await;
        assert_eq!(again.status, 200);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(status().await, "running");
    }
    // One that is to be ignored is everybody's own affair.
    let ignored = lab.call("PUT", &format!("{resources}/vm:900"), &[("state", "ignored")]).await;
    assert_eq!(ignored.status, 200);
    let stop = lab.call("POST", &format!("{VM}/status/stop"), &[]).await;
    assert!(stop.data().as_str().unwrap().contains(":qmstop:900:"), "{}", stop.data());
}
