//! `cidata` media: how a machine gets its config from a CD-ROM on its very first boot.
//!
//! The `nocloud` platform looks for a volume labelled `cidata` with the files `user-data` (here the machine config
//! itself), `meta-data` and, optionally, `network-config`. The medium holds private keys: detach and delete it once
//! the machine is up.

mod iso;
mod read;
mod write;

pub use iso::Iso;

use serde_json::{Map, Value as Json, json};
use yaml_serde::Value;
use zeroize::Zeroizing;

use crate::{
    Error, Result,
    config::{Dhcp, Link, MachineConfig},
    secret::Secret,
    yaml,
};

/// The volume's label.
pub const LABEL: &str = "cidata";

/// What stands on a `cidata` medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cidata {
    /// The machine config.
    pub user_data: Secret,
    /// `meta-data`.
    pub meta_data: String,
    /// `network-config`, if any. Machine configs that set up the network themselves do not need it.
    pub network_config: Option<String>,
}

impl Cidata {
    /// A medium for a machine. `instance_id` should change when the config does.
    pub fn new(config: &MachineConfig, instance_id: &str) -> Self {
        let mut fields = yaml_serde::Mapping::new();
        fields.insert("instance-id".into(), instance_id.into());
        if let Some(hostname) = config.hostname() {
            fields.insert("local-hostname".into(), hostname.into());
        }
        Self {
            user_data: config.to_yaml(),
            meta_data: yaml::to_string(&Value::Mapping(fields)),
            network_config: None,
        }
    }

    /// Adds a `network-config`, which brings up the network before (and without) a machine config.
    pub fn with_network(mut self, links: &[Link], nameservers: &[std::net::IpAddr]) -> Result<Self> {
        self.network_config = Some(network_config(links, nameservers)?);
        Ok(self)
    }

    /// The medium's bytes: the same content gives the same bytes.
    pub fn to_iso(&self) -> Result<Zeroizing<Vec<u8>>> {
        let mut files =
            vec![("meta-data", self.meta_data.as_bytes()), ("user-data", self.user_data.expose().as_bytes())];
        if let Some(network) = &self.network_config {
            files.push(("network-config", network.as_bytes()));
        }
        write::iso(LABEL, &files)
    }

    /// Reads a medium; `None` if it is one, but with another label.
    pub fn from_iso(bytes: &[u8]) -> Result<Option<Self>> {
        let iso = Iso::read(bytes)?;
        if !iso.label.eq_ignore_ascii_case(LABEL) {
            return Ok(None);
        }
        let text = |name: &str| -> Result<Option<Zeroizing<String>>> {
            let file = iso.files.get(name);
            file.map(|bytes| {
                let bytes = bytes.to_vec();
                String::from_utf8(bytes)
                    .map(Zeroizing::new)
                    .map_err(|_| Error::Iso { reason: "a file is not text" })
            })
            .transpose()
        };
        Ok(Some(Self {
            user_data: Secret::new(text("user-data")?.map(|text| text.to_string()).unwrap_or_default()),
            meta_data: text("meta-data")?.map(|text| text.to_string()).unwrap_or_default(),
            network_config: text("network-config")?.map(|text| text.to_string()),
        }))
    }
}

/// Version 2, matched by MAC address. Default routes are `gateway4` and `gateway6`, which every version understands.
fn network_config(links: &[Link], nameservers: &[std::net::IpAddr]) -> Result<String> {
    let mut ethernets = Map::new();
    for (index, link) in links.iter().enumerate() {
        let mut ethernet = Map::new();
        ethernet.insert("match".into(), json!({"macaddress": link.mac.to_string()}));
        let dhcp = Dhcp::decided(link.dhcp, &link.addresses);
        for (asked, key) in [(dhcp.ipv4, "dhcp4"), (dhcp.ipv6, "dhcp6")] {
            if asked {
                ethernet.insert(key.into(), true.into());
            }
        }
        if !link.addresses.is_empty() {
            ethernet.insert("addresses".into(), json!(link.addresses));
        }
        let mut routes = Vec::new();
        for route in &link.routes {
            match route.destination.filter(|net| net.prefix_len() > 0) {
                Some(net) => {
                    let mut fields = json!({"to": net, "via": route.gateway});
                    if let Some(metric) = route.metric {
                        fields["metric"] = metric.into();
                    }
                    routes.push(fields);
                }
                None => {
                    let key = if route.gateway.is_ipv4() { "gateway4" } else { "gateway6" };
                    ethernet.insert(key.into(), json!(route.gateway));
                }
            }
        }
        if !routes.is_empty() {
            ethernet.insert("routes".into(), Json::Array(routes));
        }
        if let Some(mtu) = link.mtu {
            ethernet.insert("mtu".into(), mtu.into());
        }
        if index == 0 && !nameservers.is_empty() {
            ethernet.insert("nameservers".into(), json!({"addresses": nameservers}));
        }
        // A name of the kernel's own would be taken literally if no interface had the MAC address.
        ethernets.insert(format!("link{index}"), ethernet.into());
    }
    let value = yaml_serde::to_value(json!({"version": 2, "ethernets": ethernets})).map_err(Error::Yaml)?;
    Ok(yaml::to_string(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Route;

    fn cidata() -> Cidata {
        let config = MachineConfig::from_yaml(
            "machine: {type: worker}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: w1\n",
        )
        .unwrap();
        let link = Link {
            mac: "BC:24:11:00:00:01".parse().unwrap(),
            mtu: Some(1400),
            addresses: vec!["10.0.0.11/16".parse().unwrap()],
            routes: vec![
                Route { destination: None, gateway: "10.0.0.1".parse().unwrap(), metric: None },
                Route {
                    destination: Some("192.168.0.0/16".parse().unwrap()),
                    gateway: "10.0.0.2".parse().unwrap(),
                    metric: Some(5),
                },
            ],
            ..Link::new("BC:24:11:00:00:01".parse().unwrap())
        };
        Cidata::new(&config, "home-w1-1").with_network(&[link], &["1.1.1.1".parse().unwrap()]).unwrap()
    }

    #[test]
    fn survives_the_medium() {
        let cidata = cidata();
        let iso = cidata.to_iso().unwrap();
        assert_eq!(iso, cidata.to_iso().unwrap());
        assert_eq!(Cidata::from_iso(&iso).unwrap().unwrap(), cidata);
        assert!(!format!("{cidata:?}").contains("worker"));
    }

    #[test]
    fn files_are_as_the_platform_reads_them() {
        let cidata = cidata();
        assert_eq!(cidata.meta_data, "instance-id: home-w1-1\nlocal-hostname: w1\n");
        assert_eq!(
            cidata.network_config.unwrap(),
            "version: 2\nethernets:\n  link0:\n    match:\n      macaddress: bc:24:11:00:00:01\n    addresses:\n      \
             - 10.0.0.11/16\n    gateway4: 10.0.0.1\n    routes:\n      - to: 192.168.0.0/16\n        via: 10.0.0.2\n        \
             metric: 5\n    mtu: 1400\n    nameservers:\n      addresses:\n        - 1.1.1.1\n"
        );
    }
}
