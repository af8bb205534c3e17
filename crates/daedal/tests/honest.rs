//! What the commands say is true, also when not all went well.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use common::{Changed, Lab, SMALL, good, text};

/// A worker whose VMID was changed in the inventory: it is found, but neither apply nor destroy touches it.
const MOVED: &[(&str, &str)] = &[("vmid: 303", "vmid: 313")];

#[test]
fn a_cluster_is_called_gone_only_when_it_is() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let moved = Changed::new("home", &[SMALL, MOVED].concat());

    let destroy = moved.run(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy.stderr));
    let said = text(&destroy.stdout);
    assert!(said.contains("is not all gone") && !said.contains("is gone"), "{said}");
    assert!(said.contains("Images and secrets stay"), "{said}");

    // From another machine without the secrets, none are promised.
    let empty = lab.dir().with_file_name("empty").display().to_string();
    let said = good(&small.run(&lab, &["destroy", "--confirm", "home", "--state", &empty]));
    assert!(said.contains("Cluster home is gone, ") && said.contains("Images stay."), "{said}");
}
