//! Network cards, bonds, DHCP, and what images hold: as declared, counted for each node, or refused by name.

use std::io;
use std::path::Path;

use daedal_inventory::hardware::BondMode;
use daedal_inventory::{Bootloader, Cluster, OverlayOption, Source, load};

const HOME: &str = include_str!("../../../examples/home/cluster.yaml");

/// Texts to replace, and by what.
type Changes = &'static [(&'static str, &'static str)];

/// The example with hardware for its workers and other changes.
fn with(hardware: &str, changes: &[(&str, &str)]) -> Result<Cluster, String> {
    let worker = "    - name: worker ";
    assert!(HOME.contains(worker));
    let mut text =
        HOME.replace("      role: worker\n", &format!("      role: worker\n      hardware: {hardware}\n"));
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let no_files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    match load(&[Source { name: "cluster.yaml".to_owned(), text }], &no_files) {
        Ok(loaded) => Ok(loaded.cluster),
        Err(found) => Err(found
            .iter()
            .map(|d| {
                let place = d.place.as_ref().expect("a place");
                format!(
                    "{}:{}: {} {}\n",
                    place.line,
                    place.column,
                    d.message,
                    d.help.as_deref().unwrap_or("")
                )
            })
            .collect()),
    }
}

#[test]
fn cards_count_their_addresses_from_the_pools_first_node() {
    let hardware = "{nics: [{bridge: vmbr1, address: 10.50.0.11/24, mtu: 9000, routes: [{to: 10.60.0.0/16, via: 10.50.0.1}]}, {}]}";
    let cluster = with(hardware, &[]).expect("loads");
    let cards: Vec<_> = cluster.workers().map(|node| node.nics.clone()).collect();
    let addresses: Vec<_> =
        cards.iter().map(|nics| nics[0].address.expect("an address").to_string()).collect();
    assert_eq!(addresses, ["10.50.0.11/24", "10.50.0.12/24"]);
    assert!(cards.iter().all(|nics| !nics[0].dhcp && nics[0].routes.len() == 1));
    assert!(cards.iter().all(|nics| nics[1].dhcp && nics[1].address.is_none()));
    assert_ne!(cards[0][0].mac, cards[1][0].mac);
}

/// A change that gives the workers machine settings.
fn of_workers(machine: &str) -> (&'static str, String) {
    ("      role: worker\n", format!("      role: worker\n      machine: {machine}\n"))
}

fn vlan_addresses(cluster: &Cluster) -> Vec<Vec<String>> {
    cluster.workers().map(|node| node.machine.vlans[0].addresses.clone()).collect()
}

#[test]
fn vlans_count_their_addresses_from_the_pools_first_node() {
    let (from, to) =
        of_workers("{vlans: [{id: 100, addresses: [10.100.0.11/24, 'fd00:100::b/64'], mtu: 9000}]}");
    let cluster = with("{}", &[(from, &to)]).expect("loads");
    assert_eq!(
        vlan_addresses(&cluster),
        [["10.100.0.11/24", "fd00:100::b/64"], ["10.100.0.12/24", "fd00:100::c/64"]]
    );
    // What a node says for itself is its own.
    let listed = "nodes: [{}, {machine: {vlans: [{id: 100, addresses: [10.100.0.99/24]}]}}]\n";
    let cluster = with("{}", &[(from, &to), ("count: 2\n", listed)]).expect("loads");
    assert_eq!(vlan_addresses(&cluster)[0], ["10.100.0.11/24", "fd00:100::b/64"]);
    assert_eq!(vlan_addresses(&cluster)[1], ["10.100.0.99/24"]);
    // And it takes none of the pool's: the last one may be the first node's.
    let (from, last) = of_workers("{vlans: [{id: 100, addresses: [10.100.0.254/24]}]}");
    let cluster = with("{}", &[(from, &last), ("count: 2\n", listed)]).expect("loads");
    assert_eq!(vlan_addresses(&cluster), [["10.100.0.254/24"], ["10.100.0.99/24"]]);
    assert!(with("{}", &[(from, &last)]).is_err());
}

#[test]
fn no_two_nodes_have_an_address_of_a_card_or_vlan() {
    let machine = |vlan: &str| of_workers(&format!("{{vlans: [{{id: 100, addresses: ['{vlan}']}}]}}"));
    let all =
        ("  pools:", "  machine: {vlans: [{id: 100, addresses: [10.100.0.11/24]}]}\n  pools:".to_owned());
    let twice = "nodes: [{}, {machine: {vlans: [{id: 100, addresses: [10.100.0.11/24]}]}}]\n".to_owned();
    let card_first = (
        "      role: controlplane\n",
        "      role: controlplane\n      hardware: {nics: [{address: 10.0.0.21/16}]}\n".to_owned(),
    );
    let asked = [
        (vec![machine("10.100.0.254/24")], "cannot have all of 10.100.0.254/24 and the 2"),
        (vec![all], "this VLAN is for all pools. Put the VLAN under the `machine` of each pool"),
        (vec![machine("10.0.0.11/16")], "`cp-1` and `worker-1` would both have the address 10.0.0.11."),
        (vec![machine("10.100.0.11/24"), ("count: 2\n", twice)], "`worker-1` and `worker-2` would both have"),
        (vec![card_first], "`cp-1` and `worker-1` would both have the address 10.0.0.21."),
    ];
    for (changes, words) in asked {
        let changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
        let found = with("{}", &changes).expect_err(words);
        assert!(found.contains(words), "{words}: {found}");
    }
    // Each link has a network of its own for these.
    let (from, to) = machine("fe80::1/64");
    let listed = "nodes: [{}, {machine: {vlans: [{id: 100, addresses: ['fe80::1/64']}]}}]\n";
    with("{}", &[(from, &to), ("count: 2\n", listed)]).expect("loads");
}

#[test]
fn a_bond_has_the_first_card_and_all_bonded_ones() {
    let hardware =
        "{bond: {mode: 802.3ad, hashPolicy: layer3+4, lacpRate: fast, miimon: 100}, nics: [{bonded: true}]}";
    let cluster = with(hardware, &[]).expect("loads");
    let worker = cluster.workers().next().expect("a worker");
    let bond = worker.hardware.bond.as_ref().expect("a bond");
    assert_eq!((bond.mode, bond.miimon), (BondMode::Lacp, Some(100)));
    assert!(worker.nics[0].bonded && !worker.nics[0].dhcp);
    assert!(cluster.control_planes().all(|node| node.hardware.bond.is_none()));
}

#[test]
fn images_hold_meta_values_an_overlay_and_a_boot_loader() {
    let talos = "version: v1.12.0\n    arch: arm64\n    bootloader: sd-boot\n    meta: {0x0c: one, \"13\": two}\n    overlay: {image: siderolabs/sbc-raspberrypi, name: rpi_generic, options: {configTxt: x, force: true, level: 3}}";
    let cluster = with("{}", &[("version: v1.12.0", talos)]).expect("loads");
    let meta: Vec<_> = cluster.talos.meta.iter().map(|(key, value)| (*key, value.as_str())).collect();
    assert_eq!(meta, [(0x0c, "one"), (0x0d, "two")]);
    assert_eq!(cluster.talos.bootloader, Some(Bootloader::SdBoot));
    let overlay = cluster.talos.overlay.expect("an overlay");
    assert_eq!(overlay.options["force"], OverlayOption::Flag(true));
    assert_eq!(overlay.options["level"], OverlayOption::Integer(3));
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    const NETWORK: &str = "  network:\n    dhcp: true\n";
    const CLOUD_INIT: &str = "  boot: {config: cloud-init-drive}\n  network:\n";
    let asked: &[(&str, Changes, &str)] = &[
        ("{nics: [{address: 10.50.0.11}]}", &[], "not an address with a prefix length"),
        ("{nics: [{address: 10.50.0.254/24}]}", &[], "cannot have all of 10.50.0.254/24"),
        (
            "{nics: [{address: 10.0.0.11/16}]}",
            &[],
            "`cp-1` and `worker-1` would both have the address 10.0.0.11",
        ),
        ("{nics: [{routes: [{to: here, via: 10.50.0.1}]}]}", &[], "`here` is not a network"),
        ("{nics: [{bonded: true}]}", &[], "there is no bond"),
        ("{bond: {mode: active-backup}}", &[], "The bond has the first card only"),
        (
            "{bond: {mode: active-backup}, nics: [{bonded: true, dhcp: true}]}",
            &[],
            "has no address or routes of its own",
        ),
        ("{bond: {mode: best}, nics: [{bonded: true}]}", &[], "mode"),
        (
            "{bond: {mode: active-backup}, nics: [{bonded: true}]}",
            &[("  network:\n", CLOUD_INIT)],
            "before there is a bond",
        ),
        (
            "{}",
            &[("  network:\n", CLOUD_INIT), ("  network:\n", NETWORK)],
            "but `network.dhcp` says that they ask",
        ),
        ("{}", &[("version: v1.12.0", "version: v1.12.0\n    meta: {0x1ff: x}")], "is not a META key"),
        ("{}", &[("version: v1.12.0", "version: v1.12.0\n    meta: {0x0c: x, \"12\": y}")], "is there twice"),
        (
            "{}",
            &[("  pools:", "  hardware: {nics: [{address: 10.50.0.11/24}]}\n  pools:")],
            "this card is for all pools",
        ),
    ];
    for (hardware, changes, words) in asked {
        let found = with(hardware, changes).expect_err(words);
        assert!(found.contains(words), "{words}: {found}");
    }
}
