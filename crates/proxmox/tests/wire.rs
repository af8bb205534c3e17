//! What the client sends, how it reads answers, when it tries again and when it must not.

use crate::support;

use std::{
    error::Error as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use daedal_proxmox::{
    Call, CallCounter, CreateVm, Download, Fault, Kind, NewDisk, Nic, Observer, Seen, TaskFilter, TaskState,
    Trust, UpdateVm, Upid, Upload, Verdict, cdrom,
};
use support::{Act, SECRET, Server, answer, data, text};
use tokio::time::Instant;

const UPID: &str = "UPID:atlas:000007DC:00028310:6AF9FCAF:qmstart:300:robot@pve!cli:";

fn upid() -> Upid {
    UPID.parse().unwrap()
}

fn upid_json() -> Act {
    data(&format!("\"{UPID}\""))
}

/// Fails in the given ways first, then succeeds with a UPID.
fn first(acts: Vec<Act>) -> Server {
    let acts = Mutex::new(acts.into_iter().rev().collect::<Vec<_>>());
    Server::new(move |_| acts.lock().unwrap().pop().unwrap_or_else(upid_json))
}

#[tokio::test(start_paused = true)]
async fn requests_are_written_as_proxmox_reads_them() {
    let server = Server::new(|_| upid_json());
    let client = server.client();
    let vm = CreateVm {
        vmid: 300,
        name: "cp-1".into(),
        cores: 4,
        memory_mib: 8192,
        description: Some("a=b;c&d".into()),
        disks: [("scsi0".into(), NewDisk::import("local-lvm", "local:import/talos.qcow2"))].into(),
        nics: vec![Nic::virtio("BC:24:11:00:09:00", "vmbr0")],
        boot_order: vec!["scsi0".into(), "ide2".into()],
        ..CreateVm::default()
    };
    client.create_vm("atlas", &vm).await.unwrap();
    client.destroy_vm("atlas", 300, true).await.unwrap();
    client.start_vm("atlas", 300).await.unwrap();
    client.delete_volume("atlas", "local:iso/a b.iso").await.unwrap();
    let update = UpdateVm::new().set("ide2", cdrom(None)).delete("unused0").digest("abc");
    client.update_vm("atlas", 300, &update).await.unwrap();
    client.resize_disk("atlas", 300, "scsi0", 40 << 30).await.unwrap();
    let seen = server.seen();

    let create = &seen[0];
    assert!(create.head.starts_with("POST /api2/json/nodes/atlas/qemu HTTP/1.1\r\n"), "{}", create.head);
    let head = create.head.to_ascii_lowercase();
    assert!(head.contains("\r\nhost: atlas:8006\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/x-www-form-urlencoded\r\n"), "{head}");
    assert!(create.head.contains(&format!("PVEAPIToken=robot@pve!cli={SECRET}\r\n")));
    assert_eq!(
        create.body,
        "vmid=300&name=cp-1&cores=4&memory=8192&description=a%3Db%3Bc%26d\
         &scsi0=local-lvm%3A0%2Cimport-from%3Dlocal%3Aimport%2Ftalos.qcow2%2Cdiscard%3Don%2Ciothread%3D1%2Cssd%3D1\
         &net0=virtio%3DBC%3A24%3A11%3A00%3A09%3A00%2Cbridge%3Dvmbr0&boot=order%3Dscsi0%3Bide2"
    );

    // A body on DELETE is refused by Proxmox with 501.
    let destroy = &seen[1];
    assert_eq!(destroy.target, "/api2/json/nodes/atlas/qemu/300?purge=1");
    assert_eq!(destroy.body, "");
    assert!(!destroy.head.to_ascii_lowercase().contains("transfer-encoding"));

    assert!(seen[2].head.to_ascii_lowercase().contains("content-length: 0"), "{}", seen[2].head);
    assert_eq!(seen[3].target, "/api2/json/nodes/atlas/storage/local/content/local:iso/a%20b.iso");
    assert_eq!(seen[4].body, "ide2=none%2Cmedia%3Dcdrom&delete=unused0&digest=abc");
    assert_eq!(seen[5].body, "disk=scsi0&size=40G");
}

#[tokio::test(start_paused = true)]
async fn an_upload_has_a_length_and_its_fields_first() {
    let server = Server::new(|_| upid_json());
    server.client().upload("atlas", "local", &Upload::iso("seed.iso", vec![b'x'; 100_000])).await.unwrap();
    let wire = &server.seen()[0];
    let head = wire.head.to_ascii_lowercase();
    assert!(head.contains(&format!("content-length: {}", wire.body.len())) && !head.contains("chunked"));
    let at = |part: &str| wire.body.find(part).unwrap_or_else(|| panic!("no {part}"));
    assert!(at("name=\"content\"\r\n\r\niso") < at("name=\"filename\"; filename=\"seed.iso\""));
    assert!(at("name=\"checksum\"") < at("name=\"filename\""));
}

#[tokio::test(start_paused = true)]
async fn reasons_are_read_with_and_without_body() {
    let missing = "Configuration file 'nodes/atlas/qemu-server/300.conf' does not exist";
    for body in
        ["", "{\"data\":null}", "not json", &format!("{{\"data\":null,\"message\":\"{missing}\\n\"}}")]
    {
        let server = first(vec![answer(500, missing, body)]);
        let error = server.client().vm_config("atlas", 300).await.unwrap_err();
        assert!(error.is_vm_missing(), "{body}: {error:?}");
        assert_eq!(error.to_string(), "could not read the config of VM 300 on node atlas");
        assert_eq!(error.source().unwrap().to_string(), missing);
    }
    let server = first(vec![answer(
        400,
        "Parameter verification failed.",
        r#"{"data":null,"errors":{"net0":"invalid format\n"},"message":"Parameter verification failed.\n"}"#,
    )]);
    let error = server.client().start_vm("atlas", 300).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Parameter { errors, .. } if errors["net0"].starts_with("invalid")));
}

#[tokio::test(start_paused = true)]
async fn a_sent_change_without_answer_is_never_repeated() {
    type Case = (&'static str, fn() -> Act);
    let cases: Vec<Case> = vec![
        ("lost", || Act::Cut(String::new())),
        ("half a head", || Act::Cut("HTTP/1.1 200 O".into())),
        ("half a body", || Act::Cut("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"data\":".into())),
        ("malformed", || answer(200, "OK", "<html>")),
        ("not a UPID", || data("42")),
        ("silent", || Act::Hang),
        ("595", || answer(595, "Connection refused", "")),
        ("596", || answer(596, "Connection timed out", "")),
    ];
    for (name, act) in cases {
        let server = first(vec![act()]);
        let client = server.client();
        let error = client.start_vm("atlas", 300).await.unwrap_err();
        assert!(error.may_have_happened(), "{name}: {error:?}");
        assert_eq!(server.seen().len(), 1, "{name}");
        // The client is as good as before.
        client.start_vm("atlas", 300).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_through_anything_that_may_pass() {
    let acts = vec![
        Act::Cut(String::new()),
        Act::Cut("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"data\":".into()),
        answer(200, "OK", "{\"da"),
        answer(596, "Connection timed out", ""),
        data(r#"{"version":"9.2.11","release":"9.2"}"#),
    ];
    let server = first(acts);
    assert_eq!(server.client().version().await.unwrap().version, "9.2.11");
    assert_eq!(server.seen().len(), 5);

    for (status, reason) in
        [(401, "No ticket"), (403, "Permission check failed"), (500, "VM is locked (backup)"), (404, "x")]
    {
        let server = first(vec![answer(status, reason, "")]);
        server.client().version().await.unwrap_err();
        assert_eq!(server.seen().len(), 1, "{status} {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_harms_nobody() {
    let server = Server::new(|_| upid_json());
    server.refuse.store(3, Ordering::Relaxed);
    server.client().create_vm("atlas", &CreateVm::default()).await.unwrap();
    assert_eq!(server.requests(), ["POST /nodes/atlas/qemu"]);

    server.refuse.store(u32::MAX, Ordering::Relaxed);
    let error = server.client().create_vm("atlas", &CreateVm::default()).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable { endpoint, .. } if endpoint == "atlas:8006"));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lock_timeouts_are_sat_out_where_a_repeat_is_harmless() {
    let busy = "can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout";
    for reason in [busy, "got no worker upid - start worker failed"] {
        let server = first(vec![answer(500, reason, ""), answer(500, reason, "")]);
        server.client().start_vm("atlas", 300).await.unwrap();
        assert_eq!(server.seen().len(), 3, "{reason}");

        let server = first(vec![answer(500, reason, "")]);
        let error = server.client().create_vm("atlas", &CreateVm::default()).await.unwrap_err();
        assert!(error.is_passing(), "{error:?}");
        assert_eq!(server.seen().len(), 1, "{reason}");
    }
    let download = |sha256: Option<&str>| Download {
        content: "import".into(),
        filename: "talos.qcow2".into(),
        url: "https://factory/x".into(),
        sha256: sha256.map(str::to_owned),
        verify_certificates: true,
    };
    for (sha256, tries) in [(Some("ab"), 2), (None, 1)] {
        let server = first(vec![answer(500, busy, "")]);
        let _ = server.client().download("atlas", "local", &download(sha256)).await;
        assert_eq!(server.seen().len(), tries);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_kept_while_proxmox_keeps_them() {
    let server = Server::new(|wire| match wire.path() {
        "/version" => data(r#"{"version":"9"}"#),
        "/nodes" => answer(500, "no quorum!", ""),
        _ => upid_json(),
    });
    let client = server.client();
    let connections = || server.connections.load(Ordering::Relaxed);
    client.version().await.unwrap();
    client.version().await.unwrap();
    assert_eq!(connections(), 1);
    tokio::time::sleep(Duration::from_millis(4500)).await;
    client.version().await.unwrap();
    assert_eq!(connections(), 2, "idle for longer than is safe");
    client.nodes().await.unwrap_err();
    client.version().await.unwrap();
    assert_eq!(connections(), 3, "failures close");
    client.start_vm("atlas", 300).await.unwrap();
    assert_eq!(connections(), 3, "a change may use a kept connection");
    client.version().await.unwrap();
    assert_eq!(connections(), 4, "but none is kept after it");
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_died_costs_no_change() {
    // The first answer claims to keep the connection, and then the server closes it.
    let server = first(vec![Act::Cut(text(200, "OK", r#"{"data":{"version":"9"}}"#)), upid_json()]);
    let client = server.client();
    client.version().await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    client.create_vm("atlas", &CreateVm::default()).await.unwrap();
    assert_eq!(server.requests(), ["GET /version", "POST /nodes/atlas/qemu"]);
}

#[tokio::test(start_paused = true)]
async fn deadlines_hold() {
    let server = Server::new(|_| Act::Hang);
    let limits = (Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(7));
    let client = server.builder().limits(limits.0, limits.1, limits.2).build().unwrap();
    let began = Instant::now();
    assert!(client.start_vm("atlas", 300).await.unwrap_err().may_have_happened());
    assert_eq!(began.elapsed().as_secs(), 7);
    let error = client.version().await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable { .. }));
    assert_eq!(server.seen().len(), 6, "five tries of the read");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_gets_nothing() {
    let server = Server::new(|_| upid_json());
    for trust in [Trust::Fingerprint([7; 32].into()), Trust::Ca(stranger_ca())] {
        let client = server.builder().trust(trust).build().unwrap();
        let error = client.start_vm("atlas", 300).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::Untrusted { .. }), "{error:?}");
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 2, "not tried again");
    assert!(server.seen().is_empty(), "and the token did not leave");
}

fn stranger_ca() -> String {
    rcgen::generate_simple_self_signed(vec!["atlas".to_owned()]).unwrap().cert.pem()
}

/// Injects a fault into the first mutating call, before or after its effect.
struct Saboteur {
    before: Option<Fault>,
    after: Option<Fault>,
    struck: AtomicU32,
}

impl Observer for Saboteur {
    fn before<'a>(&'a self, call: &'a Call) -> Verdict<'a> {
        let fault = self.before.clone().filter(|_| call.mutating && call.attempt == 1);
        self.struck.fetch_add(fault.is_some().into(), Ordering::Relaxed);
        Box::pin(std::future::ready(fault))
    }

    fn after<'a>(&'a self, call: &'a Call, seen: &'a Seen) -> Verdict<'a> {
        assert_eq!(seen.status, Some(200));
        let fault = self.after.clone().filter(|_| call.mutating && call.attempt == 1);
        self.struck.fetch_add(fault.is_some().into(), Ordering::Relaxed);
        Box::pin(std::future::ready(fault))
    }
}

#[tokio::test(start_paused = true)]
async fn faults_can_be_injected_before_and_after_the_effect() {
    let reply = |reason: &str| Fault::Reply { status: 500, reason: reason.into(), body: String::new() };
    for (before, after, effects, succeeds) in [
        (Some(Fault::Refused), None, 1, true),
        (Some(Fault::Lost), None, 0, false),
        (None, Some(Fault::Lost), 1, false),
        (None, Some(reply("VM is locked (create)")), 1, false),
    ] {
        let server = Server::new(|_| upid_json());
        let saboteur =
            Arc::new(Saboteur { before: before.clone(), after: after.clone(), struck: AtomicU32::new(0) });
        let client = server.builder().observer(saboteur.clone()).build().unwrap();
        let result = client.create_vm("atlas", &CreateVm::default()).await;
        assert_eq!(result.is_ok(), succeeds, "{before:?} {after:?}");
        assert_eq!(server.seen().len(), effects, "{before:?} {after:?}");
        assert_eq!(saboteur.struck.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted() {
    let server = first(vec![answer(500, "got no worker upid - start worker failed", "")]);
    let counter = Arc::new(CallCounter::new());
    let client = server.builder().observer(counter.clone()).build().unwrap();
    client.start_vm("atlas", 300).await.unwrap();
    client.stop_vm("atlas", 300).await.unwrap();
    client.tasks("atlas", &TaskFilter::default()).await.unwrap_err();
    let counts = counter.counts();
    assert_eq!((counts.total, counts.mutating, counts.failed), (4, 3, 1));
    assert_eq!(counts.by_shape["POST /nodes/*/qemu/*/status/start"], 2);
}

#[tokio::test(start_paused = true)]
async fn tasks_are_read_from_status_list_and_log() {
    let server = Server::new(|wire| match wire.path() {
        path if path.ends_with("/status") => data(r#"{"status":"stopped","exitstatus":"WARNINGS: 1"}"#),
        path if path.ends_with("/log") => {
            data(r#"[{"n":1,"t":"one"},{"n":2,"t":"two"},{"n":3,"t":"TASK OK"}]"#)
        }
        _ => data(&format!(r#"[{{"upid":"{UPID}","user":"robot@pve!cli","status":"RUNNING"}}]"#)),
    });
    let client = server.client();
    assert!(matches!(client.task_state(&upid()).await.unwrap(), TaskState::Ended(end) if end.is_success()));
    assert_eq!(client.task_log_tail(&upid(), 2).await.unwrap(), ["two", "TASK OK"]);
    let filter = TaskFilter { vmid: Some(300), ..TaskFilter::default() };
    let rows = client.tasks("atlas", &filter).await.unwrap();
    assert!(rows[0].running() && rows[0].owner() == client.token_id());
    assert_eq!(server.seen()[2].query(), "source=all&vmid=300");
    assert_eq!(server.seen()[0].path(), format!("/nodes/atlas/tasks/{UPID}/status"));
}

#[tokio::test(start_paused = true)]
async fn agents_tell_addresses() {
    let server = Server::new(|_| {
        data(
            r#"{"result":[{"name":"lo","ip-addresses":[{"ip-address":"127.0.0.1","prefix":8,"ip-address-type":"ipv4"}]},
            {"name":"eth0","hardware-address":"bc:24:11:00:09:00","ip-addresses":[{"ip-address":"fe80::1%eth0","prefix":"64"}]},
            {"name":"bond0"}]}"#,
        )
    });
    let interfaces = server.client().agent_interfaces("atlas", 300).await.unwrap();
    assert_eq!(interfaces.len(), 3);
    assert_eq!(interfaces[1].addresses, [("fe80::1".parse().unwrap(), 64)]);
    assert_eq!(interfaces[1].mac.as_deref(), Some("bc:24:11:00:09:00"));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_allowed() {
    let server =
        Server::new(|_| Act::Late(Duration::from_secs(1), text(200, "OK", r#"{"data":{"version":"9"}}"#)));
    let client = server.builder().parallel(4, 1).build().unwrap();
    let began = Instant::now();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        reads.spawn(async move { client.version().await.unwrap() });
    }
    while let Some(read) = reads.join_next().await {
        read.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(server.connections.load(Ordering::Relaxed), 4);
}

/// Two bytes of an empty object become hundreds in memory: a list of sixty megabytes of them took ten gigabytes.
#[tokio::test(start_paused = true)]
async fn a_list_that_would_fill_the_memory_is_refused() {
    let list = format!("[{}{{}}]", "{},".repeat(20_000_000));
    let server = Server::new(move |_| data(&list));
    let error = server.client().resources().await.unwrap_err();
    let Kind::Protocol { text } = error.kind() else { panic!("{error:?}") };
    assert!(text.contains("more than 200000 objects"), "{text}");
    let few = format!("[{}{{}}]", "{},".repeat(10));
    let error = Server::new(move |_| data(&few)).client().resources().await.map(drop);
    assert!(!format!("{error:?}").contains("more than"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn what_proxmox_says_at_length_is_cut() {
    let long = "ü".repeat(100_000);
    for (status, body) in [
        (500, format!("{{\"data\":null,\"message\":\"{long}\"}}")),
        (400, format!("{{\"data\":null,\"message\":\"no\",\"errors\":{{\"name\":\"{long}\"}}}}")),
        (403, format!("{{\"data\":null,\"message\":\"Permission check failed (/vms/1, {long})\"}}")),
        (200, format!("{{\"data\":\"{long}\"}}")),
    ] {
        let server = Server::new(move |_| answer(status, "no", &body));
        let error = server.client().resources().await.unwrap_err();
        let told = error.source().unwrap().to_string();
        assert!(told.chars().count() < 700, "{status}: {} characters", told.chars().count());
    }
}
