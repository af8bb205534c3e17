//! A machine's name, network and clock: as documents, or where older versions keep them.

use ipnet::IpNet;
use serde_json::{Map, Value as Json, json};

use crate::config::{
    contract::Contract,
    generate::Documents,
    options::{Bond, Dhcp, Hostname, Mac, NodeOptions, Route, Vlan},
};

/// Name, network and time as documents of their own.
pub(super) fn documents(contract: &Contract, node: &NodeOptions, documents: &mut Documents) {
    match &node.hostname {
        // `auto` must be off, or the name conflicts with the generated default.
        Hostname::Static(name) => {
            let fields = [("auto".into(), "off".into()), ("hostname".into(), name.as_str().into())];
            documents.add("HostnameConfig", None, fields.into_iter().collect());
        }
        Hostname::Stable => {
            documents.add("HostnameConfig", None, [("auto".into(), "stable".into())].into_iter().collect());
        }
        // Before 1.14, a document that says only `off` is refused.
        Hostname::Off => {}
    }
    for (index, link) in node.links.iter().enumerate() {
        let name = alias(index);
        documents.add("LinkAliasConfig", Some(&name), alias_of(link.mac));
        documents.add("LinkConfig", Some(&name), up(settings(link.mtu, &link.addresses, &link.routes)));
        dhcp_documents(&name, Dhcp::decided(link.dhcp, &link.addresses), documents);
        vlan_documents(&name, &link.vlans, documents);
    }
    let mut next = node.links.len();
    for bond in &node.bonds {
        let mut members = Vec::new();
        for mac in &bond.members {
            let name = alias(next);
            next += 1;
            documents.add("LinkAliasConfig", Some(&name), alias_of(*mac));
            members.push(name);
        }
        let mut fields = Map::new();
        fields.insert("links".into(), json!(members));
        fields.insert("bondMode".into(), bond.mode.as_str().into());
        bond_options(bond, &mut fields);
        fields.extend(up(settings(bond.mtu, &bond.addresses, &bond.routes)));
        documents.add("BondConfig", Some(&bond.name), fields);
        dhcp_documents(&bond.name, Dhcp::decided(bond.dhcp, &bond.addresses), documents);
        vlan_documents(&bond.name, &bond.vlans, documents);
    }
    if let Some(vip) = node.vip {
        let link = node.bonds.first().map_or_else(|| alias(0), |bond| bond.name.clone());
        documents.add(
            "Layer2VIPConfig",
            Some(&vip.to_string()),
            [("link".into(), link.into())].into_iter().collect(),
        );
    }
    let mut resolver = Map::new();
    if !node.nameservers.is_empty() || !node.search_domains.is_empty() {
        let servers: Vec<Json> = node.nameservers.iter().map(|server| json!({"address": server})).collect();
        resolver.insert("nameservers".into(), servers.into());
        if !node.search_domains.is_empty() {
            resolver.insert("searchDomains".into(), json!({"domains": node.search_domains}));
        }
    }
    if contract.is_split {
        resolver.insert("hostDNS".into(), host_dns());
    }
    if !resolver.is_empty() {
        documents.add("ResolverConfig", None, resolver);
    }
    if !node.time_servers.is_empty() {
        let fields = [("ntp".into(), json!({"servers": node.time_servers}))].into_iter().collect();
        documents.add("TimeSyncConfig", None, fields);
    }
}

/// The resolver on the node itself, which Kubernetes' own uses too.
pub(super) fn host_dns() -> Json {
    json!({"enabled": true, "forwardKubeDNSToHost": true})
}

fn alias(index: usize) -> String {
    format!("net{index}")
}

fn alias_of(mac: Mac) -> Map<String, Json> {
    let expression = format!("mac(link.permanent_addr) == \"{mac}\"");
    [("selector".into(), json!({"match": expression}))].into_iter().collect()
}

fn up(mut fields: Map<String, Json>) -> Map<String, Json> {
    fields.insert("up".into(), true.into());
    fields
}

fn vlan_documents(parent: &str, vlans: &[Vlan], documents: &mut Documents) {
    for vlan in vlans {
        let name = format!("{parent}.{}", vlan.id);
        let mut fields = Map::new();
        fields.insert("vlanID".into(), vlan.id.into());
        fields.insert("parent".into(), parent.into());
        fields.extend(up(settings(vlan.mtu, &vlan.addresses, &vlan.routes)));
        documents.add("VLANConfig", Some(&name), fields);
        dhcp_documents(&name, Dhcp::decided(vlan.dhcp, &vlan.addresses), documents);
    }
}

/// A configured link gets no DHCP by itself.
fn dhcp_documents(link: &str, dhcp: Dhcp, documents: &mut Documents) {
    for (asked, kind) in [(dhcp.ipv4, "DHCPv4Config"), (dhcp.ipv6, "DHCPv6Config")] {
        if asked {
            let metric = dhcp.route_metric.map(|metric| ("routeMetric".to_owned(), metric.into()));
            documents.add(kind, Some(link), metric.into_iter().collect());
        }
    }
}

fn settings(mtu: Option<u32>, addresses: &[IpNet], routes: &[Route]) -> Map<String, Json> {
    let mut config = Map::new();
    if let Some(mtu) = mtu {
        config.insert("mtu".into(), mtu.into());
    }
    if !addresses.is_empty() {
        let addresses: Vec<Json> = addresses.iter().map(|address| json!({"address": address})).collect();
        config.insert("addresses".into(), addresses.into());
    }
    if !routes.is_empty() {
        let routes = routes.iter().map(|route| {
            let mut fields = Map::new();
            // Talos refuses an all-zero destination: the default route is one without.
            if let Some(destination) = route.destination.filter(|net| net.prefix_len() > 0) {
                fields.insert("destination".into(), json!(destination));
            }
            fields.insert("gateway".into(), json!(route.gateway));
            if let Some(metric) = route.metric {
                fields.insert("metric".into(), metric.into());
            }
            Json::Object(fields)
        });
        config.insert("routes".into(), routes.collect());
    }
    config
}

/// What is said alike in both worlds.
fn bond_options(bond: &Bond, fields: &mut Map<String, Json>) {
    if let Some(policy) = &bond.hash_policy {
        fields.insert("xmitHashPolicy".into(), policy.as_str().into());
    }
    if let Some(rate) = &bond.lacp_rate {
        fields.insert("lacpRate".into(), rate.as_str().into());
    }
    if let Some(milliseconds) = bond.miimon {
        fields.insert("miimon".into(), milliseconds.into());
    }
}

/// Name and network under `machine`, as before Talos 1.12.
pub(super) fn in_machine(contract: &Contract, node: &NodeOptions) -> Map<String, Json> {
    let mut network = Map::new();
    if let Hostname::Static(name) = &node.hostname {
        network.insert("hostname".into(), name.as_str().into());
    }
    let mut interfaces = Vec::new();
    for link in &node.links {
        let mut interface = Map::new();
        interface.insert("deviceSelector".into(), json!({"hardwareAddr": link.mac.to_string()}));
        let dhcp = Dhcp::decided(link.dhcp, &link.addresses);
        interface_settings(link.mtu, &link.addresses, &link.routes, dhcp, &mut interface);
        vlans_in_interface(&link.vlans, &mut interface);
        interfaces.push(interface);
    }
    for bond in &node.bonds {
        let key = if contract.selects_by_permanent_address { "permanentAddr" } else { "hardwareAddr" };
        let members: Vec<Json> = bond.members.iter().map(|mac| json!({key: mac.to_string()})).collect();
        let mut options = Map::new();
        options.insert("interfaces".into(), json!([]));
        options.insert("deviceSelectors".into(), members.into());
        options.insert("mode".into(), bond.mode.as_str().into());
        bond_options(bond, &mut options);
        let mut interface = Map::new();
        interface.insert("interface".into(), bond.name.as_str().into());
        interface.insert("bond".into(), options.into());
        let dhcp = Dhcp::decided(bond.dhcp, &bond.addresses);
        interface_settings(bond.mtu, &bond.addresses, &bond.routes, dhcp, &mut interface);
        vlans_in_interface(&bond.vlans, &mut interface);
        interfaces.push(interface);
    }
    let holder = if node.bonds.is_empty() { 0 } else { node.links.len() };
    if let (Some(vip), Some(interface)) = (node.vip, interfaces.get_mut(holder)) {
        interface.insert("vip".into(), json!({"ip": vip}));
    }
    let interfaces: Vec<Json> = interfaces.into_iter().map(Json::Object).collect();
    if !interfaces.is_empty() {
        network.insert("interfaces".into(), interfaces.into());
    }
    if !node.nameservers.is_empty() {
        network.insert("nameservers".into(), json!(node.nameservers));
    }
    if !node.search_domains.is_empty() {
        network.insert("searchDomains".into(), json!(node.search_domains));
    }
    network
}

fn interface_settings(
    mtu: Option<u32>,
    addresses: &[IpNet],
    routes: &[Route],
    dhcp: Dhcp,
    interface: &mut Map<String, Json>,
) {
    if dhcp.ipv4 || dhcp.ipv6 {
        interface.insert("dhcp".into(), true.into());
        if dhcp.ipv6 || !dhcp.ipv4 || dhcp.route_metric.is_some() {
            // Talos' own default, which must be said here.
            let metric = dhcp.route_metric.unwrap_or(1024);
            let options = json!({"routeMetric": metric, "ipv4": dhcp.ipv4, "ipv6": dhcp.ipv6});
            interface.insert("dhcpOptions".into(), options);
        }
    }
    if !addresses.is_empty() {
        interface.insert("addresses".into(), json!(addresses));
    }
    let routes: Vec<Json> = routes.iter().map(route_in_machine).collect();
    if !routes.is_empty() {
        interface.insert("routes".into(), routes.into());
    }
    if let Some(mtu) = mtu {
        interface.insert("mtu".into(), mtu.into());
    }
}

fn vlans_in_interface(vlans: &[Vlan], interface: &mut Map<String, Json>) {
    let vlans = vlans.iter().map(|vlan| {
        let mut fields = Map::new();
        fields.insert("vlanId".into(), vlan.id.into());
        fields.insert("routes".into(), json!([]));
        let dhcp = Dhcp::decided(vlan.dhcp, &vlan.addresses);
        interface_settings(vlan.mtu, &vlan.addresses, &vlan.routes, dhcp, &mut fields);
        Json::Object(fields)
    });
    let vlans: Vec<Json> = vlans.collect();
    if !vlans.is_empty() {
        interface.insert("vlans".into(), vlans.into());
    }
}

fn route_in_machine(route: &Route) -> Json {
    let everywhere = if route.gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let network = route.destination.map_or_else(|| everywhere.to_owned(), |net| net.to_string());
    let mut fields = json!({"network": network, "gateway": route.gateway});
    if let Some(metric) = route.metric {
        fields["metric"] = metric.into();
    }
    fields
}
