//! A thousand VMs must be no effort, and two runs must be one.

use std::time::{Duration, Instant};

use crate::support::{Lab, spec};

async fn burst(count: u32) -> Lab {
    let lab = Lab::of(&spec());
    for first in (0..count).step_by(16) {
        let calls = (first..count.min(first + 16)).map(|index| {
            let lab = &lab;
            async move {
                let vmid = (1000 + index).to_string();
                let params = [("vmid", vmid.as_str()), ("scsi0", "local:1"), ("net0", "virtio,bridge=vmbr0")];
                assert_eq!(lab.call("POST", "/nodes/pve1/qemu", &params).await.status, 200);
            }
        });
        futures::future::join_all(calls).await;
        while lab.dc.running_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(lab.dc.vms().len(), count as usize);
    lab
}

#[tokio::test(start_paused = true)]
async fn many_vms_are_no_effort() {
    let began = Instant::now();
    let lab = burst(150).await;
    let rows = lab.call("GET", "/cluster/resources", &[("type", "vm")]).await;
    assert_eq!(rows.data().as_array().unwrap().len(), 150);
    assert!(began.elapsed().as_secs() < 20, "took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_world() {
    let one = serde_json::to_value(burst(5).await.dc.save()).unwrap();
    let two = serde_json::to_value(burst(5).await.dc.save()).unwrap();
    for part in ["vms", "tasks", "stores", "rng"] {
        assert_eq!(one[part], two[part], "{part}");
    }
}
