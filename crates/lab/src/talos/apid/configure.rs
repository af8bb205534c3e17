//! ApplyConfiguration: check, decide whether a reboot is needed, keep, and act.

use std::sync::Arc;
use std::time::Duration;

use daedal_talos_client::proto::machine::apply_configuration_request::Mode;
use daedal_talos_client::proto::machine::{ApplyConfiguration, ApplyConfigurationRequest};
use serde_json::Value;
use tonic::Status;

use super::Api;
use crate::talos::config::MachineConfig;
use crate::talos::life::store_config;
use crate::talos::network;
use crate::talos::node::{Order, Stage};
use crate::talos::version_at_least;
use crate::talos::world::chain;

/// What of the machine section can change without a reboot.
const LIVE: [&str; 18] = [
    "acceptedCAs",
    "ca",
    "certSANs",
    "controlPlane",
    "install",
    "kernel",
    "kubelet",
    "logging",
    "network",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
    "pods",
    "registries",
    "seccompProfiles",
    "sysctls",
    "sysfs",
    "time",
];
/// What of the features can.
const LIVE_FEATURES: [&str; 5] =
    ["hostDNS", "imageCache", "kubePrism", "kubernetesTalosAPIAccess", "nodeAddressSortAlgorithm"];
/// How long a tried configuration lasts if nobody says otherwise.
const TRIAL: Duration = Duration::from_secs(60);

impl Api {
    pub(super) fn apply(&self, request: &ApplyConfigurationRequest) -> Result<ApplyConfiguration, Status> {
        let (stage, version, current) = {
            let state = self.node.state();
            let version = state.image.as_ref().map(|i| i.version.clone()).unwrap_or_default();
            (state.stage, version, state.config.clone())
        };
        if matches!(stage, Some(Stage::Rebooting | Stage::ShuttingDown | Stage::Resetting | Stage::Upgrading))
        {
            return Err(Status::failed_precondition("a reboot is pending"));
        }
        let mode = Mode::try_from(request.mode)
            .map_err(|_| Status::unknown(format!("incorrect mode '{}' specified", request.mode)))?;
        if mode != Mode::Try {
            // Whatever else is asked, also a dry run, makes a tried configuration stay.
            self.node.update(|s| s.applied += 1);
        }
        let text = String::from_utf8(request.data.clone())
            .map_err(|e| Status::invalid_argument(format!("the configuration is not text: {e}")))?;
        let config =
            MachineConfig::load(&text, &version).map_err(|error| Status::invalid_argument(chain(&error)))?;
        super::server_tls(&self.shared, &self.node, &config).map_err(|error| {
            Status::invalid_argument(format!("configuration validation failed: {}", chain(&error)))
        })?;
        let config = Arc::new(config);
        match current {
            None => self.apply_in_maintenance(&config, mode, request.dry_run, &version),
            Some(current) => self.apply_running(&current, &config, mode, request),
        }
    }

    fn apply_in_maintenance(
        &self,
        config: &Arc<MachineConfig>,
        mode: Mode,
        dry_run: bool,
        version: &str,
    ) -> Result<ApplyConfiguration, Status> {
        let newer = version_at_least(version, 13);
        if !newer && !matches!(mode, Mode::Reboot | Mode::Auto | Mode::Try) {
            return Err(Status::unimplemented(format!(
                "apply configuration --mode='{}' is not supported in maintenance mode",
                mode.as_str_name().to_ascii_lowercase().replace('_', "-")
            )));
        }
        if !dry_run {
            store_config(&self.shared, &self.node, config.text());
            self.node.touch();
        }
        // The old service fills in neither mode nor details; the new one is the same as on a configured machine.
        let chosen = match mode {
            _ if !newer => Mode::Reboot,
            Mode::Reboot | Mode::Auto => Mode::NoReboot,
            other => other,
        };
        Ok(ApplyConfiguration {
            metadata: None,
            warnings: Vec::new(),
            mode: chosen as i32,
            mode_details: match (newer, dry_run) {
                (false, true) => {
                    "Dry run summary:\nNode is running in maintenance mode and does not have a config yet."
                        .into()
                }
                (false, false) => String::new(),
                (true, true) => dry_run_summary(details(chosen), "", config.text()),
                (true, false) => details(chosen).to_owned(),
            },
        })
    }

    fn apply_running(
        &self,
        current: &Arc<MachineConfig>,
        config: &Arc<MachineConfig>,
        mode: Mode,
        request: &ApplyConfigurationRequest,
    ) -> Result<ApplyConfiguration, Status> {
        let live = live_part(current.main(), config.main());
        let blocked = (live != *current.main()).then(|| {
            let difference = difference(&yaml(current.main()), &yaml(&live));
            format!("this config change can't be applied in immediate mode\ndiff:\n{difference}")
        });
        let chosen = match (mode, &blocked) {
            (Mode::Auto, None) => Mode::NoReboot,
            (Mode::Auto, Some(_)) => Mode::Reboot,
            (Mode::NoReboot | Mode::Try, Some(why)) => return Err(Status::invalid_argument(why)),
            (other, _) => other,
        };
        let mut said = details(chosen).to_owned();
        let answer = |mode_details: String| ApplyConfiguration {
            metadata: None,
            warnings: Vec::new(),
            mode: chosen as i32,
            mode_details,
        };
        if request.dry_run {
            return Ok(answer(dry_run_summary(&said, current.text(), config.text())));
        }
        match chosen {
            Mode::Staged => store_config(&self.shared, &self.node, config.text()),
            Mode::Reboot | Mode::Auto => {
                store_config(&self.shared, &self.node, config.text());
                let _ = self.node.orders.send(Order::Reboot { actor: "apply-configuration".into() });
                if let Some(why) = blocked.filter(|_| mode == Mode::Auto) {
                    said.push_str(&format!(": {why}"));
                }
            }
            Mode::NoReboot => {
                store_config(&self.shared, &self.node, config.text());
                self.take_over(config);
            }
            Mode::Try => {
                let wait = request.try_mode_timeout.and_then(|d| Duration::try_from(d).ok()).unwrap_or(TRIAL);
                said.push_str(&format!(
                    "\nThe config is applied in 'try' mode and will be automatically reverted back in {}",
                    spelled(wait)
                ));
                self.try_out(current, config, wait);
            }
        }
        Ok(answer(said))
    }

    /// Runs on a configuration for a while, then on the one before again, unless something else was applied meanwhile.
    fn try_out(&self, current: &Arc<MachineConfig>, tried: &Arc<MachineConfig>, wait: Duration) {
        let (trial, session) = self.node.update(|s| {
            s.applied += 1;
            (s.applied, s.session.clone())
        });
        self.take_over(tried);
        let (api, before) = (self.clone(), current.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = session.cancelled() => {}
                () = api.shared.pace.pass(wait) => {
                    let still = { api.node.state().applied == trial };
                    if still {
                        api.node.console("[talos] rolling back the configuration");
                        api.take_over(&before);
                    }
                }
            }
        });
    }

    /// Runs on another configuration from now on, without a reboot.
    fn take_over(&self, config: &Arc<MachineConfig>) {
        let macs = self.node.hardware().macs;
        let network_config = {
            let world = self.shared.world();
            self.node.disk.as_deref().and_then(|d| world.disks.get(d)?.network_config.clone())
        };
        let metal = { self.node.state().image.as_ref().is_some_and(|i| i.platform == "metal") };
        let told = |config: &MachineConfig| {
            network::configure(&macs, Some(config), network_config.as_deref(), metal)
        };
        let mut links = told(config);
        let (before, now) = {
            let state = self.node.state();
            (state.config.clone(), state.links.clone())
        };
        // One that asked for its address before has a lease, and does not ask anew.
        let asked = before.is_some_and(|before| network::asks(&told(&before)));
        if asked && network::asks(&links) {
            for link in &mut links {
                let kept = now.iter().find(|known| known.mac == link.mac);
                link.addresses = kept.map(|known| known.addresses.clone()).unwrap_or_default();
            }
        }
        network::ask_dhcp(&mut links, &self.shared.fabric);
        let (moved, tls_changed, authorities) = self.node.update(|s| {
            let address = links.iter().flat_map(|l| &l.addresses).next().map(|n| n.addr());
            let moved = address != s.address;
            s.links = links;
            if let Some(name) = config.hostname() {
                name.clone_into(&mut s.hostname);
            }
            let before = s.config.replace(config.clone());
            let cas = |c: &MachineConfig| (c.trust().clone(), c.list_at("/machine/certSANs"));
            let is_another =
                |before: &Arc<MachineConfig>| before.kubernetes_trust() != config.kubernetes_trust();
            (
                moved,
                before.as_ref().is_some_and(|b| cas(b) != cas(config)),
                before.as_ref().is_some_and(is_another),
            )
        });
        if authorities && config.is_control_plane() {
            self.shared.authorities_changed();
        }
        if moved {
            // The machine moves to another address: everything of it starts anew there.
            let _ = self.node.orders.send(Order::Reboot { actor: "address-change".into() });
        } else if tls_changed {
            super::serve(&self.shared, &self.node);
        }
        self.shared.settle();
    }
}

/// What becomes of a configuration that is given in a mode.
fn details(mode: Mode) -> &'static str {
    match mode {
        Mode::Reboot | Mode::Auto => "Applied configuration with a reboot",
        Mode::NoReboot | Mode::Try => "Applied configuration without a reboot",
        Mode::Staged => "Staged configuration to be applied after the next reboot",
    }
}

fn dry_run_summary(details: &str, old: &str, new: &str) -> String {
    let (old, new) = (documents(old), documents(new));
    let text = |documents: &[Value], beside: &[Value]| {
        let arranged = documents.iter().map(|document| {
            let twin = beside.iter().find(|other| identity(other) == identity(document));
            yaml(&twin.map_or_else(|| document.clone(), |twin| arranged(document, twin)))
        });
        arranged.collect::<Vec<_>>().join("---\n")
    };
    let difference = difference(&text(&old, &[]), &text(&new, &old));
    let difference = if difference.is_empty() { "No changes." } else { &difference };
    format!("Dry run summary:\n{details} (skipped in dry-run).\nConfig diff:\n\n{difference}")
}

/// The new main document with everything that can change without a reboot as it was: what still differs needs one.
fn live_part(old: &Value, new: &Value) -> Value {
    let mut part = new.clone();
    let mut keep = |pointer: &str, key: &str| {
        let before = old.pointer(pointer).and_then(|v| v.get(key)).cloned();
        if let Some(after) = part.pointer_mut(pointer).and_then(Value::as_object_mut) {
            match before {
                Some(before) => after.insert(key.to_owned(), before),
                None => after.remove(key),
            };
        }
    };
    keep("", "debug");
    keep("", "cluster");
    for key in LIVE {
        keep("/machine", key);
    }
    for key in LIVE_FEATURES {
        keep("/machine/features", key);
    }
    part
}

fn documents(text: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let documents = yaml_serde::Deserializer::from_str(text).filter_map(|d| Value::deserialize(d).ok());
    documents.filter(Value::is_object).collect()
}

/// What tells two documents apart.
fn identity(document: &Value) -> [&Value; 3] {
    ["apiVersion", "kind", "name"].map(|key| document.get(key).unwrap_or(&Value::Null))
}

/// A value with its keys in the order of another: only what differs in content is to be shown.
fn arranged(value: &Value, like: &Value) -> Value {
    match (value, like) {
        (Value::Object(fields), Value::Object(other)) => {
            let known = other.keys().filter(|key| fields.contains_key(*key));
            let new = fields.keys().filter(|key| !other.contains_key(*key));
            let nothing = Value::Null;
            known
                .chain(new)
                .map(|key| (key.clone(), arranged(&fields[key], other.get(key).unwrap_or(&nothing))))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        (Value::Array(items), Value::Array(others)) => {
            let nothing = Value::Null;
            let pairs = items.iter().enumerate();
            pairs.map(|(i, item)| arranged(item, others.get(i).unwrap_or(&nothing))).collect()
        }
        (value, _) => value.clone(),
    }
}

/// YAML in the layout of a node: four spaces, also before the items of a list.
fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write_yaml(value, 0, &mut out);
    out
}

fn write_yaml(value: &Value, depth: usize, out: &mut String) {
    let indent = "    ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = scalar(&Value::String(key.clone()));
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push_str(&format!("{indent}{key}:\n"));
                        write_yaml(value, depth + 1, out);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push_str(&format!("{indent}{key}:\n"));
                        write_yaml(value, depth + 1, out);
                    }
                    value => out.push_str(&format!("{indent}{key}: {}\n", scalar(value))),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                match item {
                    Value::Object(fields) if !fields.is_empty() => write_yaml(item, 0, &mut inner),
                    item => inner.push_str(&scalar(item)),
                }
                for (index, line) in inner.lines().enumerate() {
                    out.push_str(&format!("{indent}{}{line}\n", if index == 0 { "- " } else { "  " }));
                }
            }
        }
        value => out.push_str(&format!("{indent}{}\n", scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    yaml_serde::to_string(value).unwrap_or_default().trim_end().to_owned()
}

/// A unified difference with three lines around each change; nothing if there is none.
fn difference(old: &str, new: &str) -> String {
    let changes = similar::TextDiff::from_lines(old, new);
    changes.unified_diff().context_radius(3).header("a", "b").to_string()
}

/// A duration as Go writes it.
fn spelled(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_needs_a_reboot() {
        let old = json!({"version": "v1alpha1", "debug": false, "machine": {
            "type": "worker", "token": "a", "features": {"diskQuotaSupport": true, "kubePrism": {"enabled": true}},
        }, "cluster": {"clusterName": "a"}});
        // As a real node decided each of these.
        for (pointer, value, live) in [
            ("/debug", json!(true), true),
            ("/cluster/clusterName", json!("b"), true),
            ("/machine/nodeLabels", json!({"a": "b"}), true),
            ("/machine/sysctls", json!({"net.a": "1"}), true),
            ("/machine/features/kubePrism", json!({"enabled": false}), true),
            ("/machine/features/diskQuotaSupport", json!(false), false),
            ("/machine/features/rbac", json!(true), false),
            ("/machine/env", json!({"a": "b"}), false),
            ("/machine/udev", json!({"rules": ["x"]}), false),
            ("/machine/token", json!("b"), false),
            ("/machine/type", json!("controlplane"), false),
        ] {
            let mut new = old.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[key] = value;
            assert_eq!(live_part(&old, &new) == old, live, "{pointer}");
        }
    }

    #[test]
    fn a_dry_run_shows_what_changes_and_nothing_else() {
        let old = "machine:\n  # a comment\n  type: worker\n  nodeLabels: {z: y}\n---\nkind: LinkConfig\nname: net0\nup: true\nmtu: 9\n";
        let new = "machine:\n    nodeLabels:\n        z: \"y\"\n        a: b\n    type: worker\n---\nkind: LinkConfig\nmtu: 9\nname: net0\nup: true\n";
        let said = dry_run_summary(details(Mode::NoReboot), old, new);
        let expected = "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n--- a\n+++ b\n@@ -2,6 +2,7 @@\n     type: worker\n     nodeLabels:\n         z: y\n+        a: b\n ---\n kind: LinkConfig\n name: net0\n";
        assert_eq!(said, expected);
        assert!(dry_run_summary("x", old, old).ends_with("No changes."));
    }

    #[test]
    fn durations_are_spelled_as_go_does() {
        let spelled = [10, 60, 90, 3600].map(|s| spelled(Duration::from_secs(s)));
        assert_eq!(spelled, ["10s", "1m0s", "1m30s", "1h0m0s"]);
    }
}
