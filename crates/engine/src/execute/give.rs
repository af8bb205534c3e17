//! The first config of a node that waits for it in maintenance mode: found, known, pinned, given.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use daedal_inventory::{BootConfig, Node};
use daedal_planner::Step;
use daedal_talos_client::ApplyMode;
use futures::future::join_all;

use crate::addresses;
use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::console::{Printed, Proof};
use crate::execute::waiting::{Look, News, Waiter};
use crate::execute::{Executor, Outcome};
use crate::nodes::{Nodes, ProbeResult, Waiting, refusal};

/// How long after its start a node's guest agent is first asked for addresses, and then every so often. An agent that is
/// not up costs Proxmox three seconds of one of its workers.
const ASK_AGENT_EVERY: Duration = Duration::from_secs(5);

/// What a look at a node that should wait for its config has found.
enum Met {
    /// It waits, and is the right one.
    Waits(Box<Waiting>),
    /// It has its config already.
    Configured,
}

/// Addresses that the guest agent told.
#[derive(Default)]
pub(super) struct Heard(Mutex<BTreeSet<IpAddr>>);

impl Heard {
    fn all(&self) -> Vec<IpAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Whether there is one that was not known.
    fn add(&self, addresses: impl Iterator<Item = IpAddr>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.extend(addresses);
        known.len() > before
    }
}

impl Executor<'_> {
    /// Gives a node its config. It is looked for at its declared address, which static networks and reservations give it,
    /// and wherever its guest agent says it is.
    pub(super) async fn give_config(&self, step: &Step, vmid: u32, console: bool) -> Result<Outcome, Error> {
        let (node, parts) = (self.node(step)?, &self.engine.parts);
        let nodes = self.nodes().await?;
        let (heard, news) = (&Heard::default(), &News::default());
        let printed = &Printed::default();
        let what = format!("{} to wait for its config", node.name);
        let mut wait = Waiter::new(self, step, what, parts.limits.boot);
        let giving = async {
            let (configs, made) = loop {
                let cluster = self.located();
                let located = cluster.node(&node.name).filter(|node| node.address.is_some());
                match (located, &cluster.kubernetes.endpoint_host) {
                    (Some(node), Some(_)) => {
                        let configs = self.configs().await?;
                        let made = configs.node(&node.name)?;
                        break (configs, made);
                    }
                    (None, _) => wait.pause("its guest agent has not said where it is".to_owned()).await?,
                    (_, None) => wait.pause("the first control plane has no address yet".to_owned()).await?,
                }
            };
            let (config, read, marks) = (made.text(), made.read()?, configs.marks(node));
            let mut asked = false;
            loop {
                let look = |patience| self.meet(nodes, node, heard, console.then_some(printed), patience);
                let waiting = match wait.until(news, look).await? {
                    (Met::Configured, _) if asked => {
                        self.gave(vmid);
                        return Ok(Outcome::Done);
                    }
                    (Met::Configured, _) => return Ok(Outcome::AlreadyDone),
                    (Met::Waits(waiting), _) => waiting,
                };
                let call = async {
                    let patience = parts.limits.call_timeout;
                    let applying = waiting.client.apply_configuration(config, ApplyMode::Auto, false);
                    Ok::<_, Error>(tokio::time::timeout(patience, applying).await)
                };
                asked = true;
                match parts.effects.perform(EffectKind::GiveConfig, &node.name, call).await? {
                    Ok(Ok(_)) => {
                        self.gave(vmid);
                        return Ok(Outcome::Done);
                    }
                    Ok(Err(error)) if error.kind().is_some_and(|kind| !kind.may_pass()) => {
                        let why = refusal(&read, &marks, &error);
                        return Err(Error::ConfigRefused { node: node.name.clone(), why });
                    }
                    // It may have got it all the same; the next look tells.
                    Ok(Err(error)) => wait.pause(refusal(&read, &marks, &error)).await?,
                    Err(_) => wait.pause("no answer in time".to_owned()).await?,
                }
            }
        };
        tokio::select! {
            biased;
            never = self.ask_agent(step, vmid, node, heard, news) => match never {},
            never = self.listen(step, vmid, printed, news), if console => match never {},
            given = giving => given,
        }
    }

    /// Looks at every address where the node may be.
    async fn meet(
        &self,
        nodes: &Nodes,
        node: &Node,
        heard: &Heard,
        printed: Option<&Printed>,
        patience: Duration,
    ) -> Look<Met> {
        let own = self.addresses.of(node);
        let others = heard.all().into_iter().filter(|address| Some(*address) != own);
        let probes = own
            .into_iter()
            .chain(others)
            .map(|address| async move { (address, nodes.probe_address(address, patience).await) });
        let mut why = None;
        for (address, result) in join_all(probes).await {
            match result {
                ProbeResult::Waits(waiting) if waiting.is(node) => {
                    match printed.map(|printed| printed.proof(&waiting.fingerprint)) {
                        None | Some(Proof::Printed) => return Look::Ended(Ok(Met::Waits(waiting))),
                        Some(Proof::NotYet(doubt)) => why = Some(doubt.to_string()),
                        Some(Proof::Failed(doubt)) => {
                            let node = node.name.clone();
                            return Look::Ended(Err(Error::Unproven { node, why: doubt }));
                        }
                    }
                }
                ProbeResult::Ours if Some(address) == own => return Look::Ended(Ok(Met::Configured)),
                ProbeResult::OtherCluster => {
                    let (node, address) = (node.name.clone(), Some(address));
                    return Look::Ended(Err(Error::OtherCluster { node, address }));
                }
                ProbeResult::Waits(_) => {
                    why = Some(format!("another machine waits for a config on {address}"));
                }
                ProbeResult::Ours => why = Some(format!("{address} has its config already")),
                ProbeResult::Silent(silence) => why = why.or(Some(silence)),
            }
        }
        Look::NotYet(why.unwrap_or_default())
    }

    /// Keeps asking the guest agent where its node is, on the boot path on which it may be anywhere.
    pub(super) async fn ask_agent(
        &self,
        step: &Step,
        vmid: u32,
        node: &Node,
        heard: &Heard,
        news: &News,
    ) -> Infallible {
        let planned = || self.plan.nodes.iter().find(|planned| planned.name == node.name)?.host.as_deref();
        let host = step.host.as_deref().or_else(planned).unwrap_or_default();
        let asks =
            self.cluster.boot.config == BootConfig::Maintenance && crate::machine::has_agent(self.cluster);
        if !asks {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(ASK_AGENT_EVERY).await;
            let permit = match self.host_limits.agents(host) {
                Some(limiter) => Some(limiter.enter().await),
                None => None,
            };
            // Until it has booted there is nobody to answer.
            let told = self.engine.parts.proxmox.agent_interfaces(host, vmid).await.unwrap_or_default();
            drop(permit);
            let told: Vec<IpAddr> = addresses::told(&told, node).collect();
            if let (None, Some(own)) = (node.address, addresses::own(self.cluster, told.iter().copied())) {
                self.addresses.found(node, own);
            }
            if heard.add(told.into_iter()) {
                news.told();
            }
        }
    }
}
