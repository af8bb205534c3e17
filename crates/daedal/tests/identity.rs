//! Whose a VM is: nothing that is not proven ours is destroyed, and nothing that may be ours is called gone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::hands::Hands;
use common::{Changed, Lab, SMALL, good, text};

#[test]
fn a_vm_whose_notes_were_overwritten_is_left_told_and_can_be_marked_again() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    let marked = hands.notes(303);
    hands.set(303, "description", "rack 4, ask Ann");

    // What may be ours is in the way, and the command that helps is whole.
    let plan = small.run(&lab, &["plan"]);
    let said = text(&plan.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("which may be this node") && said.contains("daedal node mark worker-1 --lab"),
        "{said}"
    );

    let destroy = small.run(&lab, &["destroy", "--confirm", "home"]);
    let said = text(&destroy.stdout);
    assert_eq!(destroy.status.code(), Some(1), "{said}");
    assert!(!said.contains("Cluster home is gone"), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("is not gone") && last.contains("VM 303 \"worker-1\" on"), "{last}");
    assert!(hands.vm(300).is_none() && hands.vm(303).is_some());
    // Once more, with nothing else to do.
    let destroy = small.run(&lab, &["destroy", "--confirm", "home"]);
    let said = text(&destroy.stdout);
    assert_eq!(destroy.status.code(), Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("VM 303"), "{said}");

    // The mark comes back only where VMID, uuid and MAC agree, and only on a yes.
    let unasked = small.run(&lab, &["node", "mark", "worker-1"]);
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    assert!(!hands.notes(303).contains("daedal-mark"));
    let net = hands.vm(303).unwrap().1.nics["net0"].property_string();
    let mac = hands.vm(303).unwrap().1.nics["net0"].mac.clone().unwrap();
    hands.set(303, "net0", &net.replace(&mac, "02:00:00:00:00:99"));
    let refused = small.run(&lab, &["node", "mark", "worker-1", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stdout));
    assert!(
        text(&refused.stderr).contains("the MAC of its first network card is"),
        "{}",
        text(&refused.stderr)
    );
    hands.set(303, "net0", &net);
    let said = good(&small.run(&lab, &["node", "mark", "worker-1", "--yes"]));
    assert!(said.contains("has everything of worker-1 but its mark"), "{said}");
    let notes = hands.notes(303);
    assert!(notes.starts_with("rack 4, ask Ann\n") && notes.contains("daedal-mark cluster="), "{notes}");
    assert!(!marked.contains("rack 4"));
    let again = good(&small.run(&lab, &["node", "mark", "worker-1"]));
    assert!(again.contains("has the mark of worker-1 already"), "{again}");

    let said = good(&small.run(&lab, &["destroy", "--confirm", "home"]));
    assert!(said.contains("Cluster home is gone") && hands.vm(303).is_none(), "{said}");
}
