//! Inventories of any size.

use std::fmt::Write as _;

use daedal_inventory::{Cluster, Source, load};

use crate::Failure;

pub const TOKEN: &str = "daedal@pve!cli";

/// The names of so many hosts.
pub fn hosts(count: u32) -> Vec<String> {
    (1..=count).map(|at| format!("host-{at:03}")).collect()
}

/// An inventory of three control planes and workers on so many hosts.
pub fn text(nodes: u32, hosts: &[String], boot: &str) -> Result<String, Failure> {
    let workers = nodes.checked_sub(3).ok_or("at least three nodes are needed")?;
    let first = hosts.first().ok_or("at least one host is needed")?;
    let mut text = format!(
        "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: bench}}
spec:
  environment: lab
  talos: {{version: v1.12.0, extensions: [qemu-guest-agent]}}
  kubernetes: {{version: v1.35.0}}
  proxmox:
    endpoint: https://{first}.lan:8006
    token: {{id: \"{TOKEN}\", secret: {{env: X}}}}
    tls: {{insecure: true}}
    hosts: [{}]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, dns: [1.1.1.1], vip: 10.0.0.20}}
  boot: {boot}
  pools:
    - {{name: cp, role: controlplane, count: 3, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 300, address: 10.0.1.1}}
",
        hosts.join(", ")
    );
    if workers > 0 {
        writeln!(
            text,
            "    - {{name: worker, role: worker, count: {workers}, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 1000, \
             address: 10.0.2.1}}"
        )?;
    }
    Ok(text)
}

/// The cluster of an inventory.
pub fn resolve(text: &str) -> Result<Cluster, Failure> {
    let source = Source { name: "cluster.yaml".into(), text: text.to_owned() };
    let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    match load(&[source], &no_files) {
        Ok(loaded) => Ok(loaded.cluster),
        Err(errors) => Err(format!("the bench's own inventory is refused: {errors:?}").into()),
    }
}
