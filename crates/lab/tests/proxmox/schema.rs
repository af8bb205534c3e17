//! What the public API schema refuses, the lab refuses in the same words: every parameter of every endpoint that it has.
//!
//! Needs the folder with `api-schema-*.json` in `DAEDAL_PROXMOX_DATA`; says so and does nothing without.

#[path = "../../../proxmox/tests/support/schema.rs"]
mod judge;

use std::collections::BTreeMap;

use daedal_lab::proxmox::VmSpec;
use serde_json::Value;

use self::judge::{Schema, UNDEFINED};
use crate::support::{Lab, spec};

/// What a placeholder of a path stands for in this test's world.
fn filled(template: &str) -> String {
    [
        ("{node}", "pve1"),
        ("{vmid}", "100"),
        ("{storage}", "local"),
        ("{poolid}", "lab"),
        ("{volume}", "iso/x.iso"),
        ("{upid}", "UPID:pve1:0000C2F1:0001E240:6730E8A0:qmcreate:300:root@pam!t1:"),
        ("{userid}", "root@pam"),
        ("{tokenid}", "t1"),
        ("{roleid}", "PVEAuditor"),
        ("{snapname}", "first"),
    ]
    .iter()
    .fold(template.to_owned(), |path, (from, to)| path.replace(from, to))
}

/// Values that a parameter's schema refuses, each with the words for it.
fn wrong_values(wanted: &Value) -> Vec<(String, String)> {
    let mut candidates = vec!["abc".to_owned(), "-1".to_owned(), "perhaps".to_owned()];
    let bound = |name: &str| wanted[name].as_i64().or_else(|| wanted[name].as_str()?.parse().ok());
    candidates.extend(bound("minimum").map(|least| (least - 1).to_string()));
    candidates.extend(bound("maximum").and_then(|most| most.checked_add(1)).map(|more| more.to_string()));
    let plain =
        |text: &str| ["type check", "value must have", "value '"].iter().any(|start| text.starts_with(start));
    let mut wrong: Vec<(String, String)> = candidates
        .into_iter()
        .filter_map(|value| Some((value.clone(), judge::value_fits("x", wanted, &value).err()?)))
        .filter(|(_, text)| plain(text))
        .collect();
    wrong.dedup();
    wrong
}

#[tokio::test(start_paused = true)]
#[ignore = "needs recorded data: cargo xtask conformance"]
async fn the_lab_refuses_what_the_schema_refuses() {
    let schemas = Schema::all();
    let Some(schema) = schemas.last() else {
        println!("skipped: DAEDAL_PROXMOX_DATA does not name a folder with API schemas");
        return;
    };
    let mut wanted = spec();
    let config = BTreeMap::from([("name".to_owned(), "c100".to_owned())]);
    wanted.vms.push(VmSpec {
        vmid: 100,
        host: "pve1".into(),
        config,
        disk: None,
        running: false,
        pool: None,
    });
    let lab = Lab::of(&wanted);
    let (mut endpoints, mut checked, mut differ) = (0, 0, Vec::new());
    for (template, method, info) in schema.endpoints() {
        let path = filled(&template);
        // An upload that is none is dropped without a word.
        if path.contains('{') || template.ends_with("/upload") || template.ends_with("/access/ticket") {
            continue;
        }
        let reply = lab.call(method, &path, &[("nonsense", "1")]).await;
        if reply.status == 501 {
            continue;
        }
        endpoints += 1;
        checked += 1;
        if reply.body["errors"]["nonsense"] != UNDEFINED {
            differ.push(format!(
                "{method} {template}: takes a parameter `nonsense` ({} {})",
                reply.status, reply.reason
            ));
        }
        let properties = info["parameters"]["properties"].as_object().cloned().unwrap_or_default();
        for (name, wanted) in &properties {
            let name = name.replace("[n]", "0");
            if template.contains(&format!("{{{name}}}")) {
                continue;
            }
            for (value, words) in wrong_values(wanted) {
                let reply = lab.call(method, &path, &[(&name, &value)]).await;
                checked += 1;
                if reply.body["errors"][&name] != words.as_str() {
                    differ.push(format!(
                        "{method} {template} {name}={value}: `{words}` expected, {} {} {} here",
                        reply.status, reply.reason, reply.body["errors"]
                    ));
                }
            }
        }
    }
    for line in &differ {
        println!("{line}");
    }
    let right = checked - differ.len();
    println!(
        "conformance\tparameters refused as the schema of {} says\t{checked}\t{}",
        schema.release,
        differ.len()
    );
    println!("{endpoints} endpoints, {right} of {checked} refusals in Proxmox's words");
    assert!(right * 100 >= checked * 99, "{right} of {checked}");
}
