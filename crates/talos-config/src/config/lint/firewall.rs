//! Faults of what the firewall lets in.

use yaml_serde::Value;

use super::{Findings, items, text};
use crate::config::document::{DocumentId, MachineConfig};

impl MachineConfig {
    pub(super) fn lint_firewall(&self, found: &mut Findings) {
        for rule in self.of_kind("NetworkRuleConfig") {
            let place = DocumentId::of(rule).to_string();
            // What cannot be read is told where keys and values are looked at.
            let mut ports: Vec<(u16, u16)> = items(rule, "portSelector.ports").filter_map(ports).collect();
            ports.sort_unstable();
            if items(rule, "portSelector.ports").next().is_none() {
                found.error(&place, "names no ports");
            }
            for range in ports.iter().filter(|(first, last)| first > last) {
                found.error(&place, &format!("has the ports {}-{} the wrong way round", range.0, range.1));
            }
            for pair in ports.windows(2).filter(|pair| pair[1].0 <= pair[0].1) {
                found.error(&place, &format!("has the port {} twice", pair[1].0));
            }
            if items(rule, "ingress").any(|from| text(Some(from), "subnet").is_empty()) {
                found.error(&place, "lets in from a subnet that is empty");
            }
        }
    }
}

/// The first and the last port of `80` or `8000-8080`.
fn ports(value: &Value) -> Option<(u16, u16)> {
    let text = value.as_str()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}
