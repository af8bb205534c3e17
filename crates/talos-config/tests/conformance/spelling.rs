//! Single values in all their spellings: what we write of a config that we have read means to Talos what the config itself means.

use daedal_talos_config::MachineConfig;
use serde_json::json;

use crate::peer::{ConfigTool, Tally, difference, newest};

const SPELLINGS: &[&str] = &[
    "0644",
    "0o644",
    "0O644",
    "0x1F",
    "0X1F",
    "0b11",
    "0B11",
    "1_500",
    "_1500",
    "1500_",
    "1__5",
    "+5",
    "-5",
    "+0644",
    "-0644",
    "0",
    "00",
    "08",
    "09",
    "0_7",
    ".5",
    "5.",
    "1e3",
    "1E3",
    "1.5e3",
    "1e+3",
    "+1e3",
    "1_0.5",
    "0x_1F",
    "0x1_F",
    "190:20:30",
    "0o8",
    "0777777777777",
    "~",
    "null",
    "Null",
    "NULL",
    "nULL",
    "yes",
    "Yes",
    "YES",
    "no",
    "on",
    "On",
    "off",
    "OFF",
    "y",
    "Y",
    "n",
    "N",
    "true",
    "True",
    "TRUE",
    "tRUE",
    "1.10",
    "1.0",
    "-0",
    "007",
    "1e0",
    ".inf",
    "-.inf",
    ".nan",
    "0b",
    "0x",
    "0o",
    "18446744073709551615",
    "-9223372036854775808",
    "1e400",
    "0.1e1",
    "'5'",
    "\"1500\"",
    "'yes'",
    "'1.10'",
    "'~'",
    "''",
    "\"a\\tb\"",
    "abc",
    "'a b'",
    "!!str 5",
    "!!int '5'",
    "|\n  5",
    ">-\n  1.10",
];

/// Fields of every sort, with `@` where the value goes.
const PLACES: &[&str] = &[
    "machine:\n network:\n  interfaces:\n  - interface: a\n    mtu: @",
    "machine:\n network:\n  disableSearchDomain: @",
    "apiVersion: v1alpha1\nkind: EventSinkConfig\nendpoint: @",
    "machine:\n nodeLabels:\n  a: @",
    "machine:\n nodeLabels: {@: a}",
    "machine:\n kubelet:\n  extraArgs:\n   a: @",
    "machine:\n certSANs:\n - @",
    "machine:\n files:\n - permissions: @",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: @\nmtu: 5",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nprovisioning:\n minSize: @",
];

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_is_written_means_what_was_read() {
    let mut tally = Tally::new("configs: values in all their spellings, read and written");
    for contract in newest() {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        for (place, spelling) in
            PLACES.iter().flat_map(|place| SPELLINGS.iter().map(move |word| (place, word)))
        {
            let is_block = spelling.starts_with(['|', '>']);
            if is_block && place.contains('{') {
                continue;
            }
            let text = place.replace('@', spelling);
            let real = tool.ask(&json!({"config": text}));
            let ours = MachineConfig::from_yaml(&text).map_err(|error| error.to_string());
            let ours = ours.and_then(|config| tool.normal(&config));
            let difference = match (&ours, &real) {
                (Ok(ours), Ok(real)) => difference(ours, real),
                (Err(_), Err(_)) => None,
                (Ok(_), Err(error)) => Some(format!("theirs refuses: {error}")),
                (Err(error), Ok(_)) => Some(format!("ours cannot be read: {error}")),
            };
            tally.case(difference.map(|difference| format!("v1.{} {text:?}: {difference}", contract.minor)));
        }
    }
    tally.done();
}
