//! The firewall of a VM: options, rules, IP sets.

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    client::{Ask, Client, Repeat},
    cluster_objects::{Options, form, texts},
    error::Error,
    lenient::{self, as_text},
    params::{Params, segment},
};

/// A rule of a VM's firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FirewallRule {
    /// Its place in the list, when it was read.
    #[serde(deserialize_with = "lenient::opt_number")]
    pub pos: Option<u64>,
    /// `in` or `out`.
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub direction: String,
    /// `ACCEPT`, `DROP`, `REJECT`.
    #[serde(deserialize_with = "lenient::text")]
    pub action: String,
    /// `tcp`, `udp`, `icmp` …
    #[serde(deserialize_with = "lenient::opt_text")]
    pub proto: Option<String>,
    /// Destination ports.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub dport: Option<String>,
    /// Addresses, or `+name` for an IP set.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub source: Option<String>,
    /// Comment.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub comment: Option<String>,
    /// In force.
    #[serde(deserialize_with = "lenient::flag")]
    pub enable: bool,
    /// Digest of all rules of the VM, when it was read.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub digest: Option<String>,
}

impl FirewallRule {
    fn params(&self) -> Params {
        let mut form = Params::new();
        form.set("type", &self.direction).set("action", &self.action);
        form.set_some("proto", self.proto.as_ref()).set_some("dport", self.dport.as_ref());
        form.set_some("source", self.source.as_ref()).set_some("comment", self.comment.as_ref());
        form.flag("enable", self.enable);
        form
    }
}

impl Client {
    /// `GET …/firewall/options` of a VM.
    pub async fn firewall_options(&self, node: &str, vmid: u32) -> Result<Options, Error> {
        let operation = format!("read the firewall's options of VM {vmid}");
        let told: Map<String, Value> = self.ask(Ask::get(path(node, vmid, "/options"), operation)).await?;
        Ok(texts(&told))
    }

    /// `PUT …/firewall/options` of a VM.
    pub async fn set_firewall_options(&self, node: &str, vmid: u32, set: &Options) -> Result<(), Error> {
        let operation = format!("set the firewall's options of VM {vmid}");
        let ask = Ask::change(Method::PUT, path(node, vmid, "/options"), Repeat::Idempotent, operation);
        self.ask::<Value>(ask.form(form(set))).await.map(drop)
    }

    /// `GET …/firewall/rules` of a VM, in order.
    pub async fn firewall_rules(&self, node: &str, vmid: u32) -> Result<Vec<FirewallRule>, Error> {
        let operation = format!("list the firewall's rules of VM {vmid}");
        self.ask(Ask::get(path(node, vmid, "/rules"), operation)).await
    }

    /// `POST …/firewall/rules` of a VM: it goes before all others, whatever place is asked for.
    pub async fn add_firewall_rule(&self, node: &str, vmid: u32, rule: &FirewallRule) -> Result<(), Error> {
        let operation = format!("add a rule to the firewall of VM {vmid}");
        let ask = Ask::change(Method::POST, path(node, vmid, "/rules"), Repeat::Once, operation);
        self.ask::<Value>(ask.form(rule.params())).await.map(drop)
    }

    /// `DELETE …/firewall/rules/P` of a VM, unless its rules are no longer those of the digest. The rules behind it move up.
    pub async fn delete_firewall_rule(
        &self,
        node: &str,
        vmid: u32,
        pos: u64,
        digest: Option<&str>,
    ) -> Result<(), Error> {
        let mut form = Params::new();
        form.set_some("digest", digest);
        let operation = format!("delete rule {pos} of the firewall of VM {vmid}");
        let ask =
            Ask::change(Method::DELETE, path(node, vmid, &format!("/rules/{pos}")), Repeat::Once, operation);
        self.ask::<Value>(ask.query(form)).await.map(drop)
    }

    /// `GET …/firewall/ipset` of a VM: the names of its IP sets.
    pub async fn ipsets(&self, node: &str, vmid: u32) -> Result<Vec<String>, Error> {
        let operation = format!("list the IP sets of VM {vmid}");
        let rows: Vec<Map<String, Value>> = self.ask(Ask::get(path(node, vmid, "/ipset"), operation)).await?;
        Ok(rows.iter().filter_map(|row| as_text(row.get("name")?)).collect())
    }

    /// `POST …/firewall/ipset` of a VM.
    pub async fn create_ipset(&self, node: &str, vmid: u32, name: &str) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("name", name);
        let operation = format!("create the IP set {name} of VM {vmid}");
        let ask = Ask::change(Method::POST, path(node, vmid, "/ipset"), Repeat::Once, operation);
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    /// `GET …/firewall/ipset/S` of a VM: what is in it.
    pub async fn ipset(&self, node: &str, vmid: u32, name: &str) -> Result<Vec<String>, Error> {
        let operation = format!("read the IP set {name} of VM {vmid}");
        let path = path(node, vmid, &format!("/ipset/{}", segment(name)));
        let rows: Vec<Map<String, Value>> = self.ask(Ask::get(path, operation)).await?;
        Ok(rows.iter().filter_map(|row| as_text(row.get("cidr")?)).collect())
    }

    /// `POST …/firewall/ipset/S` of a VM.
    pub async fn add_to_ipset(&self, node: &str, vmid: u32, name: &str, cidr: &str) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("cidr", cidr);
        let operation = format!("add {cidr} to the IP set {name} of VM {vmid}");
        let path = path(node, vmid, &format!("/ipset/{}", segment(name)));
        self.ask::<Value>(Ask::change(Method::POST, path, Repeat::Once, operation).form(form)).await.map(drop)
    }

    /// `DELETE …/firewall/ipset/S/C` of a VM.
    pub async fn take_from_ipset(&self, node: &str, vmid: u32, name: &str, cidr: &str) -> Result<(), Error> {
        let operation = format!("take {cidr} out of the IP set {name} of VM {vmid}");
        let path = path(node, vmid, &format!("/ipset/{}/{}", segment(name), segment(cidr)));
        self.ask::<Value>(Ask::change(Method::DELETE, path, Repeat::Idempotent, operation)).await.map(drop)
    }

    /// `DELETE …/firewall/ipset/S` of a VM, with all that is in it.
    pub async fn delete_ipset(&self, node: &str, vmid: u32, name: &str) -> Result<(), Error> {
        let mut form = Params::new();
        form.flag("force", true);
        let operation = format!("delete the IP set {name} of VM {vmid}");
        let path = path(node, vmid, &format!("/ipset/{}", segment(name)));
        let ask = Ask::change(Method::DELETE, path, Repeat::Idempotent, operation);
        self.ask::<Value>(ask.query(form)).await.map(drop)
    }
}

fn path(node: &str, vmid: u32, rest: &str) -> String {
    format!("/nodes/{}/qemu/{vmid}/firewall{rest}", segment(node))
}
