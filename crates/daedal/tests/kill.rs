//! The real process, killed at twenty random moments: what is left converges, with nothing double and nothing lost.

use crate::common;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use common::{Lab, good};
use serde_json::Value;

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

/// The lab's whole world, as it is on disk once the lab was stopped; the next command starts it again.
fn world(lab: &Lab) -> Value {
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    serde_json::from_slice(&std::fs::read(lab.dir().join("world.json")).unwrap()).unwrap()
}

/// Every volume but the images that VMs are made of, with the VM it belongs to.
fn volumes(world: &Value) -> BTreeMap<String, Option<u64>> {
    let stores = world["datacenter"]["stores"].as_object().unwrap();
    let volumes = stores.values().flat_map(|store| store["volumes"].as_object().unwrap());
    volumes
        .filter(|(_, volume)| volume["content"] != "import")
        .map(|(volid, volume)| (volid.clone(), volume["vmid"].as_u64()))
        .collect()
}

fn vms(lab: &Lab) -> u64 {
    let status =
        common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    status["vms"].as_u64().unwrap()
}

/// Mission: I10
#[test]
fn sigkill_at_twenty_random_moments_converges() {
    let lab = Lab::new();
    good(&lab.run(&["plan"], "home"));
    let others = vms(&lab);
    let volumes_of_others = volumes(&world(&lab));
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
    let (after, mut expected) = (world(&lab), volumes_of_others.clone());
    let ours = volumes(&after);
    for vmid in 300..305 {
        let of_vm = ours.iter().filter(|(_, owner)| **owner == Some(vmid));
        let of_vm: Vec<_> = of_vm.map(|(volid, owner)| (volid.clone(), *owner)).collect();
        assert_eq!(of_vm.len(), 2, "system disk and EFI vars of {vmid}: {ours:?}");
        expected.extend(of_vm);
    }
    assert_eq!(ours, expected, "no orphan disk, no config media");
    assert_eq!(after["machines"]["last_cluster"], 1, "etcd was bootstrapped once");
    let stored = good(&lab.run(&["secrets", "export", "--stdout"], "home"));
    assert_eq!(Some(stored.as_bytes()), secrets().as_deref(), "the store has what the outputs have");

    for moment in moments(6, 1_200) {
        kill_after(&lab, &["destroy", "--confirm", "home"], moment);
    }
    good(&lab.run(&["destroy", "--confirm", "home"], "home"));
    assert_eq!(vms(&lab), others, "nothing is left");
    assert_eq!(volumes(&world(&lab)), volumes_of_others, "no disk, no config media is left");
}
