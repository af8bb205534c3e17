//! A running node gets the declared machine config, and runs on it.

use std::borrow::Cow;

use daedal_planner::{RunningVersions, Step};
use daedal_talos_client::ApplyMode;
use daedal_talos_config::{MachineConfig, Secret};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::machine;
use crate::nodes::Configured;

impl Executor<'_> {
    /// Asks only a node that runs on the config the plan was made for; one that runs on the declared one is done.
    pub(super) async fn apply_config(
        &self,
        step: &Step,
        [running, declared]: [&str; 2],
        reboot: bool,
        versions: Option<&RunningVersions>,
    ) -> Result<Outcome, Error> {
        let (node, limits) = (self.node(step)?, &self.engine.parts.limits);
        let (nodes, secrets) = (self.nodes().await?, self.secrets().await?);
        let cluster = self.located();
        let cluster = match versions {
            Some(versions) => {
                Cow::Owned(machine::of_versions(&cluster, versions).ok_or_else(|| Error::Plan {
                    why: format!("`{}` and `{}` are no versions", versions.talos, versions.kubernetes),
                })?)
            }
            None => cluster,
        };
        let located = cluster.node(&node.name).unwrap_or(node);
        let made = machine::patched(&cluster, located, &secrets)?;
        if made.digest() != declared {
            let why = format!("the machine config of {} is not the one it was made for", node.name);
            return Err(Error::Plan { why });
        }
        let config = made.to_yaml();
        // A reboot that the plan does not tell of does not happen.
        let mode = if reboot { ApplyMode::Auto } else { ApplyMode::NoReboot };
        let marks = machine::marks(&cluster, located, &secrets);
        let told = |error| machine::refusal(&made, &marks, &error);
        let what = format!("{} to run on its new config", node.name);
        let mut wait = Waiter::new(self, step, what, limits.boot);
        let mut taken = false;
        loop {
            let found = match nodes.running_config(node, limits.call_timeout).await {
                Ok(found) => found,
                Err(why) => {
                    wait.pause(why).await?;
                    continue;
                }
            };
            match digest(&found, &config, declared) {
                Some(digest) if digest == declared => {
                    let booting = match reboot && taken {
                        true => nodes.still_booting(node, limits.probe_timeout).await,
                        false => None,
                    };
                    match booting {
                        Some(why) => wait.pause(why).await?,
                        None if taken => return Ok(Outcome::Done),
                        None => return Ok(Outcome::AlreadyDone),
                    }
                }
                _ if taken => wait.pause("it still runs on the old one".to_owned()).await?,
                Some(digest) if digest == running => {
                    let boot = match reboot {
                        true => self.readiness.boot_of(&node.name, limits.probe_timeout).await,
                        false => None,
                    };
                    let call = async {
                        Ok::<_, Error>(nodes.configure(node, &config, mode, false, limits.call_timeout).await)
                    };
                    let effects = &self.engine.parts.effects;
                    match effects.perform(EffectKind::ApplyConfig, &node.name, call).await? {
                        Configured::Accepted { reboot } => {
                            taken = true;
                            let former = boot.filter(|_| reboot);
                            former.into_iter().for_each(|boot| self.reboots(node, boot));
                        }
                        // Asked again only if it still runs on the old one: the same config twice is once.
                        Configured::NotYet(error) | Configured::Unknown(error) => {
                            wait.pause(told(error)).await?;
                        }
                        Configured::Silent => wait.pause("no answer in time".to_owned()).await?,
                        Configured::Refused(error) => {
                            let why = told(error);
                            return Err(Error::ConfigRefused { node: node.name.clone(), why });
                        }
                    }
                }
                _ => return Err(Error::ConfigMoved { node: node.name.clone() }),
            }
        }
    }
}

/// Digest of what a text says; none if it is no config. Texts that are the same need not be read.
fn digest(found: &Secret, declared: &Secret, declared_digest: &str) -> Option<String> {
    if found.expose() == declared.expose() {
        return Some(declared_digest.to_owned());
    }
    MachineConfig::from_yaml(found.expose()).ok().map(|config| config.digest())
}
