//! Settings that need hardware or an image, or contradict each other: refused or doubted where they stand.

use std::io;
use std::path::Path;

use daedal_inventory::{Source, load};

const HOME: &str = include_str!("../../../examples/home/cluster.yaml");

/// Everything said of the example with changes, each with the text of the line that it points at.
fn said(changes: &[(&str, &str)]) -> String {
    let mut text = HOME.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let no_files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let source = Source { name: "cluster.yaml".to_owned(), text: text.clone() };
    let found = match load(&[source], &no_files) {
        Ok(loaded) => loaded.warnings,
        Err(found) => found.iter().cloned().collect(),
    };
    let lines: Vec<&str> = text.lines().collect();
    found
        .iter()
        .map(|d| {
            let place = d.place.as_ref().expect("a place");
            let line = lines[place.line - 1].trim();
            format!("{:?} at {line}: {} {}\n", d.severity, d.message, d.help.as_deref().unwrap_or(""))
        })
        .collect()
}

const TALOS: &str = "version: v1.12.0";
const SIGNED: &str = "version: v1.12.0\n    secureBoot: true";
const TPM: (&str, &str) = ("  pools:", "  hardware: {tpm: true}\n  pools:");
const SEALED: (&str, &str) = ("  pools:", "  machine: {encryption: {state: [{tpm: {}}]}}\n  pools:");
const CHECKED: (&str, &str) =
    ("  pools:", "  machine: {encryption: {state: [{tpm: {secureBoot: true}}]}}\n  pools:");

#[test]
fn a_tpm_is_there_and_the_image_is_signed() {
    let at = "Error at machine: {encryption";
    for (changes, words) in [
        (vec![SEALED, (TALOS, SIGNED)], "the VM has none. Say `hardware: {tpm: true}`"),
        (vec![SEALED, TPM], "for signed images only. Say `talos: {secureBoot: true}`"),
        (vec![CHECKED, TPM, (TALOS, SIGNED)], "before v1.14 do not turn secure boot on"),
    ] {
        let said = said(&changes);
        assert!(said.contains(at) && said.contains(words), "{changes:?}: {said}");
        assert_eq!(said.matches(words).count(), 1, "once for all nodes: {said}");
    }
    let installed = ("  network:\n", "  boot: {from: iso}\n  network:\n");
    for good in [vec![SEALED, TPM, (TALOS, SIGNED)], vec![CHECKED, TPM, installed, (TALOS, SIGNED)]] {
        assert!(!said(&good).contains("Error"), "{good:?}: {}", said(&good));
    }
}

#[test]
fn a_volume_without_a_disk_is_doubted_where_it_is_asked_for() {
    let workers =
        |more: &str| format!("      role: worker\n      machine: {{userVolumes: [{{name: data{more}}}]}}\n");
    let (plain, own) = (workers(""), workers(", disk: system_disk"));
    let found = said(&[("      role: worker\n", &plain)]);
    assert!(
        found.contains("Warning at machine: {userVolumes") && found.contains("to the pool `worker`"),
        "{found}"
    );
    let disk = format!("{plain}      hardware: {{disks: [{{size: 10GiB}}]}}\n");
    for fine in [own, disk] {
        let found = said(&[("      role: worker\n", &fine)]);
        assert!(!found.contains("besides the system disk"), "{found}");
    }
    let disk = "      hardware: {disks: [{size: 10GiB}]}\n";
    for (size, fits) in [("10239MiB", true), ("10GiB", false)] {
        let sized = workers(&format!(", minSize: {size}"));
        let found = said(&[("      role: worker\n", &format!("{sized}{disk}"))]);
        assert_eq!(!found.contains("fits no disk"), fits, "{found}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (kubernetes, words) in [
        ("cni: none\n    cniManifests: ['https://example.org/cni.yaml']", "exclude each other"),
        ("discovery: false\n    discoveryService: 'https://discovery.example.org/'", "a service is named"),
    ] {
        let found = said(&[("  kubernetes:\n", &format!("  kubernetes:\n    {kubernetes}\n"))]);
        assert!(found.contains("Error at") && found.contains(words), "{found}");
    }
}
