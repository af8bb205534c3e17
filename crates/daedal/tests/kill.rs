//! The real process, killed at twenty random moments: what is left converges, with nothing double and nothing lost.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Lab, good};

/// Moments spread over a run, different each time but the same on every machine.
fn moments(n: usize, most: u64) -> impl Iterator<Item = Duration> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..n).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_millis(state % most)
    })
}

fn kill_after(lab: &Lab, command_line: &[&str], moment: Duration) {
    let mut child =
        lab.command(command_line, "home").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(moment);
    // Gone already is fine: the moment was late.
    let _ = child.kill();
    child.wait().unwrap();
}

fn vms(lab: &Lab) -> u64 {
    let status =
        common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    status["vms"].as_u64().unwrap()
}

#[test]
fn sigkill_at_twenty_random_moments_converges() {
    let lab = Lab::new();
    good(&lab.run(&["plan"], "home"));
    let others = vms(&lab);
    let secrets = || std::fs::read(lab.dir().join("clusters/home/outputs/secrets.yaml")).ok();

    let mut first_secrets = None;
    for moment in moments(14, 2_500) {
        kill_after(&lab, &["apply", "--yes"], moment);
        first_secrets = first_secrets.or_else(secrets);
    }
    good(&lab.run(&["apply", "--yes"], "home"));
    if let Some(first) = first_secrets {
        assert_eq!(Some(first), secrets(), "secrets are made once");
    }
    assert_eq!(vms(&lab), others + 5, "no duplicate, no orphan");
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"], "home").status.code(), Some(0));

    for moment in moments(6, 1_200) {
        kill_after(&lab, &["destroy", "--confirm", "home"], moment);
    }
    good(&lab.run(&["destroy", "--confirm", "home"], "home"));
    assert_eq!(vms(&lab), others, "nothing is left");
}
