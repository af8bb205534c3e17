//! What single configs say of a machine's installer and network, for those who compare them.

use std::collections::BTreeSet;

use yaml_serde::Value;

use super::{Mac, MachineConfig};

/// Characters of a MAC address as it is written.
const WRITTEN: usize = 17;

impl MachineConfig {
    /// The image that installs the next version of the system.
    pub fn installer_image(&self) -> Option<&str> {
        self.text_or("machine.install.image", "UnattendedInstallConfig", "installer.image")
    }

    /// Whether it asks anybody on the network for an address.
    pub fn uses_dhcp(&self) -> bool {
        let vlans = self
            .legacy_interfaces()
            .flat_map(|interface| interface.get("vlans").and_then(Value::as_sequence).into_iter().flatten());
        let asks = |link: &Value| link.get("dhcp").and_then(Value::as_bool) == Some(true);
        ["DHCPv4Config", "DHCPv6Config"].iter().any(|kind| self.of_kind(kind).next().is_some())
            || self.legacy_interfaces().chain(vlans).any(asks)
    }

    /// Every MAC address that it names, such as those by which it finds its network cards.
    pub fn macs(&self) -> BTreeSet<Mac> {
        let mut found = BTreeSet::new();
        self.documents().iter().for_each(|document| collect_macs(document, &mut found));
        found
    }
}

fn collect_macs(value: &Value, found: &mut BTreeSet<Mac>) {
    match value {
        Value::Mapping(map) => map.values().for_each(|value| collect_macs(value, found)),
        Value::Sequence(items) => items.iter().for_each(|item| collect_macs(item, found)),
        // Expressions name them in the midst of other words.
        Value::String(text) => {
            let starts = text.char_indices().map(|(at, _)| at);
            found.extend(starts.filter_map(|at| text.get(at..at + WRITTEN)?.parse::<Mac>().ok()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> MachineConfig {
        MachineConfig::from_yaml(text).unwrap()
    }

    #[test]
    fn the_installer_is_found_in_both_places() {
        assert_eq!(config("machine: {install: {image: a:v1}}").installer_image(), Some("a:v1"));
        let later = "machine: {}\n---\napiVersion: v1alpha1\nkind: UnattendedInstallConfig\ninstaller: {image: b:v2}\n";
        assert_eq!(config(later).installer_image(), Some("b:v2"));
        assert_eq!(config("machine: {}").installer_image(), None);
    }

    #[test]
    fn dhcp_is_found_on_links_vlans_and_in_documents() {
        for asks in [
            "machine: {network: {interfaces: [{interface: eth0, dhcp: true}]}}",
            "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 2, dhcp: true}]}]}}",
            "machine: {}\n---\napiVersion: v1alpha1\nkind: DHCPv4Config\nname: eth0\n",
            "machine: {}\n---\napiVersion: v1alpha1\nkind: DHCPv6Config\nname: eth0\n",
        ] {
            assert!(config(asks).uses_dhcp(), "{asks}");
        }
        assert!(!config("machine: {network: {interfaces: [{interface: eth0, dhcp: false}]}}").uses_dhcp());
    }

    #[test]
    fn macs_are_found_in_selectors_and_expressions() {
        let text = "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:00:00:00:00:0A'}}]}}\n---\n\
                    apiVersion: v1alpha1\nkind: LinkAliasConfig\nname: net0\nselector:\n  match: mac(link.permanent_addr) == \"02:00:00:00:00:0b\"\n";
        let found: Vec<String> = config(text).macs().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["02:00:00:00:00:0a", "02:00:00:00:00:0b"]);
        assert!(config("machine: {token: '02:00:00:00:00', note: 'größer'}").macs().is_empty());
    }
}
