//! A running node gets the declared machine config, and runs on it.

use daedal_machine::Error::NoVersion;
use daedal_planner::{RunningVersions, Step};
use daedal_talos_client::ApplyMode;
use daedal_talos_config::{MachineConfig, Secret};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::nodes::{Configured, refusal};

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
        let (nodes, configs) = (self.nodes().await?, self.configs().await?);
        let made = configs.node_of(&node.name, versions.unwrap_or(configs.declared()));
        let made = made.map_err(|error| match error {
            NoVersion { .. } => Error::Plan { why: error.to_string() },
            error => error.into(),
        })?;
        let (config, read) = (made.text(), made.read()?);
        if read.digest() != declared {
            let why = format!("the machine config of {} is not the one it was made for", node.name);
            return Err(Error::Plan { why });
        }
        // A reboot that the plan does not tell of does not happen.
        let mode = if reboot { ApplyMode::Auto } else { ApplyMode::NoReboot };
        let marks = configs.marks(node);
        let told = |error| refusal(&read, &marks, &error);
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
            match digest(&found, config, declared) {
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
                        Ok::<_, Error>(nodes.configure(node, config, mode, false, limits.call_timeout).await)
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
