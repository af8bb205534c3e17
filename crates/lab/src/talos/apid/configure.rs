//! ApplyConfiguration: check, decide whether a reboot is needed, keep, and act.

use std::sync::Arc;
use std::time::Duration;

use daedal_talos::proto::machine::apply_configuration_request::Mode;
use daedal_talos::proto::machine::{ApplyConfiguration, ApplyConfigurationRequest};
use serde_json::Value;
use tonic::Status;

use super::Api;
use crate::talos::config::MachineConfig;
use crate::talos::life::store_config;
use crate::talos::node::{Order, Stage};
use crate::talos::version_at_least;
use crate::talos::world::chain;

/// What of the machine section can change without a reboot.
const LIVE: [&str; 20] = [
    "acceptedCAs",
    "ca",
    "certSANs",
    "controlPlane",
    "features",
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
    "token",
];

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
        let text = String::from_utf8(request.data.clone())
            .map_err(|e| Status::invalid_argument(format!("the configuration is not text: {e}")))?;
        let config =
            MachineConfig::load(&text, &version).map_err(|error| Status::invalid_argument(chain(&error)))?;
        super::server_tls(&self.shared, &self.node, &config).map_err(|error| {
            Status::invalid_argument(format!("configuration validation failed: {}", chain(&error)))
        })?;
        let mode = Mode::try_from(request.mode).map_err(|_| Status::invalid_argument("unknown mode"))?;
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
        if !version_at_least(version, 13) && !matches!(mode, Mode::Reboot | Mode::Auto | Mode::Try) {
            return Err(Status::unimplemented(format!(
                "apply configuration --mode='{}' is not supported in maintenance mode",
                mode.as_str_name().to_ascii_lowercase().replace('_', "-")
            )));
        }
        if !dry_run {
            store_config(&self.shared, &self.node, config.text());
            self.node.touch();
        }
        Ok(ApplyConfiguration {
            metadata: None,
            warnings: Vec::new(),
            mode: if mode == Mode::Auto { Mode::Reboot } else { mode } as i32,
            mode_details: if dry_run {
                "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.".into()
            } else {
                String::new()
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
        let blocking = needs_reboot(current.main(), config.main());
        let chosen = match mode {
            Mode::Auto if blocking.is_empty() => Mode::NoReboot,
            Mode::Auto => Mode::Reboot,
            Mode::NoReboot | Mode::Try if !blocking.is_empty() => {
                return Err(Status::invalid_argument(format!(
                    "this config change can't be applied in immediate mode\ndiff: {}",
                    blocking.join(", ")
                )));
            }
            other => other,
        };
        let details = match chosen {
            Mode::Reboot => "Applied configuration with a reboot",
            Mode::NoReboot => "Applied configuration without a reboot",
            Mode::Staged => "Staged configuration to be applied after the next reboot",
            Mode::Try => "Applied configuration without a reboot, it will be rolled back",
            Mode::Auto => "",
        };
        let answer = |mode_details: String| ApplyConfiguration {
            metadata: None,
            warnings: Vec::new(),
            mode: chosen as i32,
            mode_details,
        };
        if request.dry_run {
            let difference = difference(current.text(), config.text());
            return Ok(answer(format!(
                "Dry run summary:\n{details} (skipped in dry-run).\nConfig diff:\n\n{difference}"
            )));
        }
        match chosen {
            Mode::Staged => {
                self.node.update(|s| s.staged = Some(config.text().to_owned()));
            }
            Mode::Reboot => {
                store_config(&self.shared, &self.node, config.text());
                let _ = self.node.orders.send(Order::Reboot { actor: "apply-configuration".into() });
            }
            Mode::NoReboot | Mode::Auto => {
                store_config(&self.shared, &self.node, config.text());
                self.take_over(config);
            }
            Mode::Try => {
                self.take_over(config);
                let wait = request.try_mode_timeout.map_or(60, |d| d.seconds.max(0) as u64);
                let (api, before, tried) = (self.clone(), current.clone(), config.clone());
                let session = { self.node.state().session.clone() };
                tokio::spawn(async move {
                    tokio::select! {
                        () = session.cancelled() => {}
                        () = api.shared.pace.pass(Duration::from_secs(wait)) => {
                            // Another configuration applied meanwhile ends the trial.
                            let still = { api.node.state().config.as_ref().is_some_and(|c| Arc::ptr_eq(c, &tried)) };
                            if still {
                                api.node.console("[talos] rolling back the tried configuration");
                                api.take_over(&before);
                            }
                        }
                    }
                });
            }
        }
        Ok(answer(details.to_owned()))
    }

    /// Runs on another configuration from now on, without a reboot.
    fn take_over(&self, config: &Arc<MachineConfig>) {
        let macs = self.node.hardware().macs;
        let network_config = {
            let world = self.shared.world();
            self.node.disk.as_deref().and_then(|d| world.disks.get(d)?.network_config.clone())
        };
        let metal = { self.node.state().image.as_ref().is_some_and(|i| i.platform == "metal") };
        let links = crate::talos::network::configure(&macs, Some(config), network_config.as_deref(), metal);
        let (moved, tls_changed) = self.node.update(|s| {
            let address = links.iter().flat_map(|l| &l.addresses).next().map(|n| n.addr());
            let moved = address != s.address;
            s.links = links;
            if let Some(name) = config.hostname() {
                name.clone_into(&mut s.hostname);
            }
            let before = s.config.replace(config.clone());
            let cas = |c: &MachineConfig| {
                (c.client_cas(), c.list_at("/machine/certSANs"), c.trust_key().to_owned())
            };
            (moved, before.is_some_and(|b| cas(&b) != cas(config)))
        });
        if moved {
            // The machine moves to another address: everything of it starts anew there.
            let _ = self.node.orders.send(Order::Reboot { actor: "address-change".into() });
        } else if tls_changed {
            super::serve(&self.shared, &self.node);
        }
        self.shared.settle();
    }
}

/// The parts that differ and need a reboot.
fn needs_reboot(old: &Value, new: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let machine = |v: &Value| v["machine"].as_object().cloned().unwrap_or_else(|| empty.clone());
    let (before, after) = (machine(old), machine(new));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|k| before.get(*k) != after.get(*k) && !LIVE.contains(&k.as_str()))
        .map(|k| format!("machine.{k}"))
        .collect()
}

/// Changed lines, removed ones first.
fn difference(old: &str, new: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let removed = before.iter().filter(|l| !after.contains(l)).map(|l| format!("-{l}\n"));
    let added = after.iter().filter(|l| !before.contains(l)).map(|l| format!("+{l}\n"));
    let text: String = removed.chain(added).collect();
    if text.is_empty() { "No changes.".into() } else { text }
}
