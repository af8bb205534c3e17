use super::*;
use crate::fixture;

const GIB: u64 = 1 << 30;

fn options(all: &[(&str, Value)]) -> Options {
    all.iter().map(|(option, value)| ((*option).to_owned(), value.clone())).collect()
}

fn disk(gib: u64) -> Value {
    Value::Disk(Disk { storage: "fast".into(), size: gib * GIB, serial: None })
}

fn card(vlan: Option<u16>) -> Value {
    Value::Card(Card { vlan, ..Card::virtio("02:00:00:00:00:01", "vmbr1") })
}

#[test]
fn what_can_change_changes_and_the_rest_is_told_with_the_reason() {
    let seen = options(&[
        ("cpu", Value::text("host")),
        ("machine", Value::text("q35")),
        ("net1", card(None)),
        ("scsi1", disk(10)),
        ("scsi2", disk(10)),
        ("scsi3", disk(10)),
        ("startup", Value::properties("order=1")),
    ]);
    let declared = options(&[
        ("cpu", Value::text("x86-64-v3")),
        ("machine", Value::text("pc")),
        ("numa", Value::Flag(true)),
        ("scsi1", disk(20)),
        ("scsi2", disk(5)),
        ("startup", Value::properties("order=2")),
        ("tpmstate0", Value::Flag(true)),
    ]);
    let Differences { changes, held, .. } = differences(&declared, &seen, None, true);
    let told: Vec<(&str, String, bool)> =
        changes.iter().map(|one| (one.option.as_str(), one.words().1, one.needs_restart)).collect();
    assert_eq!(
        told,
        [
            ("cpu", "x86-64-v3".to_owned(), true),
            ("net1", "none".to_owned(), false),
            ("numa", "yes".to_owned(), true),
            ("scsi1", "20 GiB on fast".to_owned(), false),
            ("startup", "order=2".to_owned(), false),
        ]
    );
    let held: Vec<_> = held.iter().map(|one| (one.change.option.as_str(), one.why)).collect();
    assert_eq!(
        held,
        [
            ("machine", WhyHeld::DevicesWouldMove),
            ("scsi2", WhyHeld::DiskOnlyGrows),
            ("scsi3", WhyHeld::DiskHoldsData),
            ("tpmstate0", WhyHeld::SealedInTpm),
        ]
    );
    assert_eq!(differences(&declared, &Options::new(), None, true), Differences::default());
}

#[test]
fn what_waits_for_the_next_start_is_told_from_what_is_to_be_changed() {
    let declared =
        options(&[("cpu", Value::text("host")), ("net1", card(Some(7))), ("numa", Value::Flag(true))]);
    let runs = options(&[("cpu", Value::text("x86-64-v3")), ("net1", card(None))]);
    let set = options(&[("cpu", Value::text("host")), ("net1", card(Some(7)))]);
    let found = differences(&declared, &set, Some(&runs), true);
    let told = |changes: &[Change]| -> Vec<(String, String, bool)> {
        changes.iter().map(|one| (one.option.clone(), one.words().0, one.needs_restart)).collect()
    };
    // A card that could not be hot-plugged is tried again; what never can be waits.
    let retried = ("net1".to_owned(), "02:00:00:00:00:01 on vmbr1".to_owned(), false);
    assert_eq!(told(&found.changes), [retried, ("numa".to_owned(), "none".to_owned(), true)]);
    assert_eq!(told(&found.waiting), [("cpu".to_owned(), "x86-64-v3".to_owned(), true)]);
    // What somebody set otherwise, and never took effect, is set back without a restart.
    let found = differences(&runs, &set, Some(&runs), true);
    assert!(found.waiting.is_empty() && found.changes.iter().all(|one| !one.needs_restart), "{found:?}");
}

#[test]
fn sizes_are_compared_in_bytes_however_they_are_shown() {
    let (declared, seen) = (options(&[("scsi1", disk(10_281))]), options(&[("scsi1", disk(10_240))]));
    let found = differences(&declared, &seen, None, false).changes;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].words(), ("10240 GiB on fast".to_owned(), "10281 GiB on fast".to_owned()));
    assert_eq!(found[0].added("fast"), 41 * GIB);
    assert_eq!(found[0].added("slow"), 0);
}

#[test]
fn what_was_set_on_a_card_by_hand_stays() {
    let by_hand = Card {
        model: "e1000".into(),
        firewall: true,
        mtu: Some(9000),
        others: [("rate".to_owned(), "10".to_owned())].into(),
        ..Card::virtio("02:00:00:00:00:01", "vmbr1")
    };
    let seen = options(&[("net1", Value::Card(by_hand.clone()))]);
    let found = differences(&options(&[("net1", card(Some(7)))]), &seen, None, true).changes;
    assert_eq!(found[0].to, Some(Value::Card(Card { vlan: Some(7), ..by_hand })));
    let same = differences(&options(&[("net1", card(None))]), &seen, None, true);
    assert_eq!(same, Differences::default());
}

#[test]
fn a_change_survives_the_way_through_a_saved_plan() {
    let mut cluster = fixture::home();
    cluster.nodes[0].disks = vec![daedal_inventory::Disk { size: GIB, storage: None }];
    for (option, to) in declared(&cluster, &cluster.nodes[0], &Seats::new()) {
        let change = Change { option, from: None, to: Some(to), needs_restart: false };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change, "{text}");
    }
}
