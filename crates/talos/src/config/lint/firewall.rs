//! Faults of what the firewall lets in.

use yaml_serde::Value;

use super::{Findings, items, text};
use crate::config::document::{DocumentId, MachineConfig};

impl MachineConfig {
    pub(super) fn lint_firewall(&self, found: &mut Findings) {
        for rule in self.of_kind("NetworkRuleConfig") {
            let place = DocumentId::of(rule).to_string();
            match items(rule, "portSelector.ports").map(ports).collect::<Option<Vec<_>>>() {
                None => found.error(&place, "has ports that are none: write 80 without quotes, or 8000-8080"),
                Some(ports) if ports.is_empty() => found.error(&place, "names no ports"),
                Some(mut ports) => {
                    ports.sort_unstable();
                    for range in ports.iter().filter(|(first, last)| first > last) {
                        found.error(&place, &format!("has the ports {}-{} the wrong way round", range.0, range.1));
                    }
                    for pair in ports.windows(2).filter(|pair| pair[1].0 <= pair[0].1) {
                        found.error(&place, &format!("has the port {} twice", pair[1].0));
                    }
                }
            }
            if items(rule, "ingress").any(|from| text(Some(from), "subnet").is_empty()) {
                found.error(&place, "lets in from a subnet that is empty");
            }
        }
    }
}

/// The first and the last port of `80` or `8000-8080`.
fn ports(value: &Value) -> Option<(u16, u16)> {
    match value {
        Value::String(range) => {
            let (first, last) = range.split_once('-')?;
            let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
            Some((number(first)?, number(last)?))
        }
        number => {
            let port = number.as_u64().and_then(|port| u16::try_from(port).ok())?;
            Some((port, port))
        }
    }
}
