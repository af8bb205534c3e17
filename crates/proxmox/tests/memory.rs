//! How much memory a large answer takes: a program of its own, since it measures its own peak.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod support;

use std::sync::Arc;

use support::{Act, Server, text};

/// A figure of this process, in bytes.
fn figure(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kib: u64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// Tags as a busy place has them.
const TAGS: &str =
    "daedal;daedal-home;environment-production;kubernetes;owner-platform;rack-4;role-worker;talos";

/// Nearly all that one answer may have: 30 MiB of guests, as Proxmox lists them.
#[tokio::test]
async fn a_list_of_thirty_mebibytes_takes_four_times_that_at_most() {
    let mut rows = String::with_capacity(32 << 20);
    rows.push_str("{\"data\":[");
    let mut number = 100_000;
    while rows.len() < 30 << 20 {
        if !rows.ends_with('[') {
            rows.push(',');
        }
        number += 1;
        rows.push_str(&format!(
            "{{\"cpu\":0.0123,\"disk\":0,\"diskread\":123456,\"diskwrite\":654321,\"id\":\"qemu/{number}\",\"maxcpu\":4,\
             \"maxdisk\":34359738368,\"maxmem\":8589934592,\"mem\":4294967296,\"name\":\"worker-{number}\",\
             \"netin\":1,\"netout\":2,\"node\":\"atlas\",\"pool\":\"talos\",\"status\":\"running\",\
             \"tags\":\"{TAGS}\",\"template\":0,\"type\":\"qemu\",\"uptime\":1000,\"vmid\":{number}}}"
        ));
    }
    rows.push_str("]}");
    let bytes = rows.len() as u64;
    let reply: Arc<str> = text(200, "OK", &rows).into();
    drop(rows);
    let server = Server::new(move |_| Act::Shared(reply.clone()));
    let client = server.client();
    // The peak so far is that of making the answer.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = figure("VmRSS");
    let resources = client.resources().await.unwrap();
    let took = figure("VmHWM").saturating_sub(before);
    assert_eq!(resources.len(), number - 100_000);
    let times = took as f64 / bytes as f64;
    println!("{} rows, {} MiB: {} MiB, {times:.1} times", resources.len(), bytes >> 20, took >> 20);
    assert!(took <= 4 * bytes, "{} MiB for an answer of {} MiB", took >> 20, bytes >> 20);
}
