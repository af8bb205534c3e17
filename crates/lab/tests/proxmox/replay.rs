//! Replays recorded exchanges of a real Proxmox VE against the pretend one and reports how often they agree.
//!
//! Needs the folder with `recorded-9.2.11.jsonl` in `DAEDAL_PROXMOX_DATA`; says so and does nothing without.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use daedal_lab::proxmox::{Grant, TokenSpec, UserSpec, VmSpec};
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::support::{ADMIN, Lab, Reply, image, spec};

/// The recorded world at its first line, as far as the exchanges depend on it.
async fn recorded_world() -> Lab {
    let mut wanted = spec();
    let grants = vec![Grant::new("/", &["Datastore.Audit", "VM.Audit"])];
    wanted.users.push(UserSpec { id: "lab@pve".into(), password: None, grants: grants.clone() });
    let token =
        TokenSpec { id: "lab@pve!t1".into(), secret: "s".into(), privilege_separation: false, grants };
    wanted.tokens.push(token);
    for vmid in [201, 202, 203, 300, 301, 302, 400] {
        let config = BTreeMap::from([("name".to_owned(), format!("c{vmid}"))]);
        wanted.vms.push(VmSpec { vmid, host: "pve1".into(), config, disk: None, running: false, pool: None });
    }
    let lab = Lab::of(&wanted).with_image().await;
    let y = [("content", "import"), ("filename", "y.qcow2"), ("url", "http://files.lan/talos.qcow2")];
    assert_eq!(lab.task("POST", "/nodes/pve1/storage/local/download-url", &y).await, "OK");
    serve_recorded_files(&lab);
    // A template with a linked clone, and status daemons that have spoken of them.
    let base = [
        ("vmid", "100"),
        ("name", "y"),
        ("cores", "2"),
        ("serial0", "socket"),
        ("tags", "cp;talos"),
        ("bios", "ovmf"),
        ("efidisk0", "local:1,efitype=4m,pre-enrolled-keys=0"),
        ("scsi0", "local:0,import-from=local:import/y.qcow2"),
    ];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &base).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/100/template", &[]).await, "OK");
    let linked = [("newid", "210"), ("name", "l210"), ("full", "0")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/100/clone", &linked).await, "OK");
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    lab
}

/// The file server of the recording answered on a loopback address.
fn serve_recorded_files(lab: &Lab) {
    lab.fabric.listen(
        daedal_dial::Target::new("127.0.0.1", 8099),
        std::sync::Arc::new(|stream| {
            let service = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
                let (status, body) = match request.uri().path() {
                    "/y.qcow2" => (200, image()),
                    "/x.iso" => (200, vec![0; 1024]),
                    _ => (404, Vec::new()),
                };
                http::Response::builder().status(status).body(Full::new(Bytes::from(body)))
            });
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                    .await;
            });
        }),
    );
}

async fn replay(lab: &Lab, record: &Value, path: &str) -> Option<Reply> {
    let who = match record["as"].as_str() {
        Some("root") => ADMIN,
        Some("lab") => "PVEAPIToken=lab@pve!t1=s",
        Some("bad") => "PVEAPIToken=root@pam!t1=nonsense",
        _ => "",
    };
    let method = record["method"].as_str().unwrap();
    if record["encoding"] == "json" {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api2/json{path}"))
            .header("authorization", who)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(record["params"].to_string())))
            .unwrap();
        return lab.send(request).await;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let params: Vec<(String, String)> = record["params"]
        .as_object()
        .map(|map| map.iter().map(|(key, value)| (key.clone(), text(value))).collect())
        .unwrap_or_default();
    let params: Vec<(&str, &str)> =
        params.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    lab.try_call(who, method, path, &params).await
}

/// How long an answer took, coarsely enough for machines to agree: at once, a lock's second, an authentication's or an
/// agent's three, a lock's ten, the proxy's thirty.
fn delay_class(seconds: f64) -> &'static str {
    match seconds {
        ..0.7 => "at once",
        ..2.0 => "a second",
        ..6.0 => "seconds",
        ..20.0 => "ten seconds",
        _ => "half a minute",
    }
}

/// What a body is made of: kinds of values, and the names that every answer of the kind has.
fn shape(body: &Value) -> String {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    let Value::Object(envelope) = body else { return kind(body).to_owned() };
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in envelope {
        match (key.as_str(), value) {
            // Which parameters are wrong, and in which words.
            ("errors", Value::Object(errors)) => {
                parts.extend(errors.iter().map(|(name, text)| format!("errors.{name}={text}")));
            }
            _ => parts.push(format!("{key}: {}", kind(value))),
        }
    }
    parts.sort();
    parts.join(", ")
}

/// Names in the recorded data that ours lacks, where both are objects (or lists of them).
fn lacking(theirs: &Value, ours: &Value) -> Vec<String> {
    let all = |value: &Value| match value {
        Value::Array(items) => Value::Object(
            items
                .iter()
                .filter_map(Value::as_object)
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        ),
        other => other.clone(),
    };
    let (Value::Object(theirs), Value::Object(ours)) = (all(theirs), all(ours)) else { return Vec::new() };
    if ours.is_empty() {
        return Vec::new();
    }
    // A VM's options are what somebody set; a path of the access control list is what somebody granted.
    let free = theirs.contains_key("digest") || theirs.keys().any(|key| key.starts_with('/'));
    if free { Vec::new() } else { theirs.keys().filter(|key| !ours.contains_key(*key)).cloned().collect() }
}

fn differences(record: &Value, reply: Option<&Reply>) -> Vec<String> {
    let Some(reply) = reply else {
        return if record["status"] == 0 { Vec::new() } else { vec!["no answer".to_owned()] };
    };
    let mut all = Vec::new();
    if record["status"] != reply.status || record["reason"] != reply.reason.as_str() {
        all.push(format!(
            "recorded {} {}, here {} {}",
            record["status"], record["reason"], reply.status, reply.reason
        ));
        return all;
    }
    let theirs = match &record["body"] {
        Value::String(text) if text.is_empty() => Value::Null,
        other => other.clone(),
    };
    if shape(&theirs) != shape(&reply.body) {
        all.push(format!("recorded {}, here {}", shape(&theirs), shape(&reply.body)));
    }
    let lacking = lacking(&theirs["data"], reply.data());
    if !lacking.is_empty() {
        all.push(format!("here without {}", lacking.join(", ")));
    }
    let (recorded, here) = (record["seconds"].as_f64().unwrap_or_default(), reply.took.as_secs_f64());
    if delay_class(recorded) != delay_class(here) {
        all.push(format!("recorded after {recorded} s, here after {here:.2} s"));
    }
    all
}

#[tokio::test(start_paused = true)]
#[ignore = "needs recorded data: cargo xtask conformance"]
async fn recorded_exchanges_agree() {
    let Ok(folder) = std::env::var("DAEDAL_PROXMOX_DATA") else {
        println!("skipped: DAEDAL_PROXMOX_DATA does not name a folder with recorded exchanges");
        return;
    };
    let text = std::fs::read_to_string(format!("{folder}/recorded-9.2.11.jsonl")).unwrap();
    let lab = recorded_world().await;
    let mut upids: HashMap<String, String> = HashMap::new();
    let (mut total, mut agreed, mut ends, mut ends_agreed) = (0, 0, 0, 0);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let mut path = record["path"].as_str().unwrap().to_owned();
        for (theirs, ours) in &upids {
            path = path.replace(theirs, ours);
        }
        if record["note"].as_str().is_some_and(|note| note.starts_with("final status of"))
            && let Some(upid) = path.split('/').nth(4)
            && upids.values().any(|ours| ours == upid)
        {
            lab.end_of(upid).await;
        }
        let reply = replay(&lab, &record, &path).await;
        total += 1;
        let differences = differences(&record, reply.as_ref());
        if differences.is_empty() {
            agreed += 1;
        } else {
            println!(
                "{} {} {}: {}",
                record["method"],
                record["path"],
                record["params"],
                differences.join("; ")
            );
        }
        let data = &record["body"]["data"];
        if let (Some(theirs), Some(ours)) =
            (data.as_str(), reply.as_ref().and_then(|reply| reply.data().as_str()))
            && theirs.starts_with("UPID:")
        {
            upids.insert(theirs.to_owned(), ours.to_owned());
        }
        if let Some(end) = data.get("exitstatus") {
            ends += 1;
            let here = reply.as_ref().map(|reply| reply.data()["exitstatus"].clone()).unwrap_or_default();
            let same_shape = |value: &Value| {
                let text = value.as_str().unwrap_or_default();
                text.split("got '").next().unwrap_or_default().to_owned()
            };
            if same_shape(end) == same_shape(&here) {
                ends_agreed += 1;
            } else {
                println!("{}: recorded end {end}, here {here}", record["path"]);
            }
        }
    }
    let percent = f64::from(agreed) / f64::from(total) * 100.0;
    println!(
        "status, reason, body shape and delay class agree in {agreed} of {total} exchanges ({percent:.1} %)"
    );
    println!("task ends agree in {ends_agreed} of {ends}");
    assert!(percent >= 99.0, "{percent:.1} %");
}
