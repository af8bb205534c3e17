//! What a node costs in changing calls on each boot path, beside what Proxmox cannot do without.

use crate::creating::Creating;
use crate::{Failure, in_child};

/// Nodes and hosts of each.
const NODES: u32 = 20;
const HOSTS: u32 = 2;

/// The disk in the image is as large as declared.
const LARGE: &str = "disk-image (large enough)";

/// `from`, `config`, and the fewest changing calls: one to three to make the VM, three for a config medium.
const PATHS: [(&str, &str, u32); 12] = [
    ("disk-image", "cidata", 6),
    ("disk-image", "maintenance", 3),
    ("disk-image", "cloud-init-drive", 3),
    ("disk-image", "meta", 3),
    (LARGE, "cidata", 4),
    (LARGE, "maintenance", 1),
    ("iso", "cidata", 4),
    ("iso", "maintenance", 1),
    ("iso", "cloud-init-drive", 1),
    ("iso", "meta", 1),
    ("template", "cidata", 7),
    ("template", "maintenance", 4),
];

/// Measures every path and prints a table. Says whether all could be measured.
pub fn all() -> Result<bool, Failure> {
    println!("\nCalls to Proxmox per node, by boot path ({NODES} nodes on {HOSTS} hosts)\n");
    println!("| from | config | changing | floor | all |");
    println!("|---|---|---|---|---|");
    let mut complete = true;
    for (from, config, floor) in PATHS {
        let (path, image) = if from == LARGE { ("disk-image", "large") } else { (from, "small") };
        let boot = format!("{{from: {path}, config: {config}}}");
        let args = ["one-path".to_owned(), NODES.to_string(), HOSTS.to_string(), boot, image.to_owned()];
        match in_child::<Creating>(&args) {
            Ok(measured) => {
                let per_node = |calls: u64| calls as f64 / f64::from(NODES);
                let (mutating, total) = (per_node(measured.mutating), per_node(measured.total));
                println!("| {from} | {config} | {mutating:.2} | {floor} | {total:.2} |");
            }
            Err(error) => {
                complete = false;
                println!("| {from} | {config} | not measured: {error} | {floor} | |");
            }
        }
    }
    Ok(complete)
}
