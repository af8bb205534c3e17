//! Steps on the firewall of one VM. Each proves first that the VM is ours, and looks at what is there.

use std::collections::BTreeSet;
use std::future::Future;

use daedal_planner::guards::{IP_SET, from_set, is_our_rule};
use daedal_planner::{ObjectOptions, Step, VmRule, object_differs};
use daedal_proxmox::{FirewallRule, UpdateVm};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::{Executor, Outcome};
use crate::machine::FIRST_NIC;
use crate::observe::guards::seen_rule;

impl Executor<'_> {
    /// The IP set with just these addresses.
    pub(super) async fn fill_set(
        &self,
        step: &Step,
        vmid: u32,
        wanted: &BTreeSet<String>,
    ) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let host = &self.mine_or_gone(step, vmid).await?.host;
            let exists = proxmox.ipsets(host, vmid).await?.iter().any(|name| name == IP_SET);
            if !exists {
                self.set_firewall("the set", vmid, host, proxmox.create_ipset(host, vmid, IP_SET)).await?;
            }
            let there: BTreeSet<String> = proxmox.ipset(host, vmid, IP_SET).await?.into_iter().collect();
            if exists && there == *wanted {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            }
            for cidr in wanted.difference(&there) {
                self.set_firewall(cidr, vmid, host, proxmox.add_to_ipset(host, vmid, IP_SET, cidr)).await?;
            }
            for cidr in there.difference(wanted) {
                self.set_firewall(cidr, vmid, host, proxmox.take_from_ipset(host, vmid, IP_SET, cidr))
                    .await?;
            }
            Ok(Outcome::Done)
        })
        .await
    }

    /// Our rules as they should be, before all others. Rules of others stay.
    pub(super) async fn set_rules(
        &self,
        step: &Step,
        vmid: u32,
        wanted: &[VmRule],
    ) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let host = &self.mine_or_gone(step, vmid).await?.host;
            let known = ours(proxmox.firewall_rules(host, vmid).await?);
            if known.iter().map(seen_rule).eq(wanted.iter().cloned()) {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            }
            // The new ones go first, so that no moment is without them. Proxmox puts each before all others.
            for (pos, rule) in wanted.iter().enumerate().rev() {
                let rule = sent(rule);
                let call = proxmox.add_firewall_rule(host, vmid, &rule);
                self.set_firewall(&format!("new rule {pos}"), vmid, host, call).await?;
            }
            // The last first, for the others move up. The digest keeps a rule of somebody else from being taken for the old one.
            while let Some(old) = ours(proxmox.firewall_rules(host, vmid).await?).get(wanted.len()..)
                && let Some(FirewallRule { pos: Some(pos), digest, .. }) = old.last()
            {
                let call = proxmox.delete_firewall_rule(host, vmid, *pos, digest.as_deref());
                self.set_firewall(&format!("old rule {pos}"), vmid, host, call).await?;
            }
            Ok(Outcome::Done)
        })
        .await
    }

    pub(super) async fn set_options(
        &self,
        step: &Step,
        vmid: u32,
        options: &ObjectOptions,
    ) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let host = &self.mine_or_gone(step, vmid).await?.host;
            if !object_differs(&proxmox.firewall_options(host, vmid).await?, options) {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            }
            let call = proxmox.set_firewall_options(host, vmid, options);
            self.set_firewall("the options", vmid, host, call).await?;
            Ok(Outcome::Done)
        })
        .await
    }

    /// Whether the firewall filters the first network card. The MAC is always sent, or Proxmox makes one up.
    pub(super) async fn filter_card(&self, step: &Step, vmid: u32, on: bool) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let mine = self.mine_or_gone(step, vmid).await?;
            let Some(card) = mine.config.nics.get(FIRST_NIC) else {
                return Err(Error::Changed {
                    what: format!("the network card of VM {vmid} on {}", mine.host),
                });
            };
            if card.firewall == on {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            }
            let mut card = card.clone();
            card.firewall = on;
            let update = UpdateVm::new().set(FIRST_NIC, card.property_string()).digest(&mine.config.digest);
            let call = proxmox.update_vm(&mine.host, vmid, &update);
            self.set_firewall("the card", vmid, &mine.host, call).await?;
            Ok(Outcome::Done)
        })
        .await
    }

    /// Deletes our IP set, unless a rule uses it.
    pub(super) async fn drop_set(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let host = &self.mine_or_gone(step, vmid).await?.host;
            let exists =
                async || Ok::<_, Error>(proxmox.ipsets(host, vmid).await?.iter().any(|name| name == IP_SET));
            if !exists().await? {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            }
            let rules = proxmox.firewall_rules(host, vmid).await?;
            if rules.iter().any(|rule| rule.source == Some(from_set())) {
                return Err(Error::Changed { what: format!("the firewall of VM {vmid} on {host}") });
            }
            let call = proxmox.delete_ipset(host, vmid, IP_SET);
            match self.set_firewall("the set", vmid, host, call).await {
                // An answer that was lost makes the client ask again, for what is gone by then.
                Err(error @ Error::Proxmox(_)) if exists().await? => Err(error),
                Ok(()) | Err(Error::Proxmox(_)) => Ok(Outcome::Done),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn set_firewall(
        &self,
        what: &str,
        vmid: u32,
        host: &str,
        call: impl Future<Output = Result<(), daedal_proxmox::Error>> + Send,
    ) -> Result<(), Error> {
        let what = format!("{what} of VM {vmid} on {host}");
        self.engine.parts.effects.proxmox(EffectKind::SetFirewall, what, call).await
    }
}

fn ours(rules: Vec<FirewallRule>) -> Vec<FirewallRule> {
    rules.into_iter().filter(|rule| is_our_rule(rule.comment.as_deref())).collect()
}

/// A rule as it is sent.
fn sent(rule: &VmRule) -> FirewallRule {
    let VmRule { direction, action, proto, dport, source, comment, enable } = rule.clone();
    FirewallRule { pos: None, direction, action, proto, dport, source, comment, enable, digest: None }
}
