//! A machine's name, network, clock and registries: as documents, or where older versions keep them.

use serde_json::{Map, Value as Json, json};
use yaml_serde::Value;

use crate::{
    Error, Result,
    config::{
        document::document,
        options::{ClusterOptions, Link, NodeOptions, Route},
    },
};

/// Name, network, time and registries as documents of their own.
pub(super) fn documents(cluster: &ClusterOptions, node: &NodeOptions) -> Result<Vec<Value>> {
    let yaml = |json: Json| yaml_serde::to_value(json).map_err(Error::Yaml);
    // `auto` must be off, or the name conflicts with the generated default.
    let mut documents = vec![document(
        "HostnameConfig",
        None,
        [("auto", "off".into()), ("hostname", node.hostname.as_str().into())],
    )];
    for (index, link) in node.links.iter().enumerate() {
        let alias = alias(index);
        let expression = format!("mac(link.permanent_addr) == \"{}\"", link.mac);
        documents.push(document(
            "LinkAliasConfig",
            Some(&alias),
            [("selector", yaml(json!({"match": expression}))?)],
        ));
        let mut config = link_config(link);
        config.insert("up".into(), true.into());
        let mut fields = document("LinkConfig", Some(&alias), []);
        if let (Value::Mapping(fields), Value::Mapping(config)) = (&mut fields, yaml(config.into())?) {
            fields.extend(config);
        }
        documents.push(fields);
        if link.addresses.is_empty() {
            // A configured link gets no DHCP by itself.
            documents.push(document("DHCPv4Config", Some(&alias), []));
        }
    }
    if let Some(vip) = node.vip {
        documents.push(document("Layer2VIPConfig", Some(&vip.to_string()), [("link", alias(0).into())]));
    }
    if !node.nameservers.is_empty() || !node.search_domains.is_empty() {
        let servers: Vec<Json> = node.nameservers.iter().map(|server| json!({"address": server})).collect();
        let mut fields = vec![("nameservers", yaml(servers.into())?)];
        if !node.search_domains.is_empty() {
            fields.push(("searchDomains", yaml(json!({"domains": node.search_domains}))?));
        }
        documents.push(document("ResolverConfig", None, fields));
    }
    if !node.time_servers.is_empty() {
        documents.push(document(
            "TimeSyncConfig",
            None,
            [("ntp", yaml(json!({"servers": node.time_servers}))?)],
        ));
    }
    for mirror in &cluster.registry_mirrors {
        let endpoints: Vec<Json> = mirror.endpoints.iter().map(|url| json!({"url": url})).collect();
        let mut fields = vec![("endpoints", yaml(endpoints.into())?)];
        if mirror.skip_fallback {
            fields.push(("skipFallback", true.into()));
        }
        documents.push(document("RegistryMirrorConfig", Some(&mirror.registry), fields));
    }
    Ok(documents)
}

fn alias(index: usize) -> String {
    format!("net{index}")
}

fn link_config(link: &Link) -> Map<String, Json> {
    let mut config = Map::new();
    if let Some(mtu) = link.mtu {
        config.insert("mtu".into(), mtu.into());
    }
    if !link.addresses.is_empty() {
        let addresses: Vec<Json> = link.addresses.iter().map(|address| json!({"address": address})).collect();
        config.insert("addresses".into(), addresses.into());
    }
    if !link.routes.is_empty() {
        let routes = link.routes.iter().map(|route| {
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

/// Name and network under `machine`, as before Talos 1.12.
pub(super) fn in_machine(node: &NodeOptions) -> Json {
    let mut network = Map::new();
    network.insert("hostname".into(), node.hostname.as_str().into());
    let interfaces = node.links.iter().enumerate().map(|(index, link)| {
        let mut interface = Map::new();
        interface.insert("deviceSelector".into(), json!({"hardwareAddr": link.mac.to_string()}));
        if link.addresses.is_empty() {
            interface.insert("dhcp".into(), true.into());
        } else {
            interface.insert("addresses".into(), json!(link.addresses));
        }
        let routes: Vec<Json> = link.routes.iter().map(route_in_machine).collect();
        if !routes.is_empty() {
            interface.insert("routes".into(), routes.into());
        }
        if let Some(mtu) = link.mtu {
            interface.insert("mtu".into(), mtu.into());
        }
        if let Some(vip) = node.vip.filter(|_| index == 0) {
            interface.insert("vip".into(), json!({"ip": vip}));
        }
        Json::Object(interface)
    });
    let interfaces: Vec<Json> = interfaces.collect();
    if !interfaces.is_empty() {
        network.insert("interfaces".into(), interfaces.into());
    }
    if !node.nameservers.is_empty() {
        network.insert("nameservers".into(), json!(node.nameservers));
    }
    if !node.search_domains.is_empty() {
        network.insert("searchDomains".into(), json!(node.search_domains));
    }
    network.into()
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

/// Time and registries under `machine`, as before Talos 1.12.
pub(super) fn time_and_registries(cluster: &ClusterOptions, node: &NodeOptions) -> Map<String, Json> {
    let mut sections = Map::new();
    if !node.time_servers.is_empty() {
        sections.insert("time".into(), json!({"servers": node.time_servers}));
    }
    let mirrors = cluster.registry_mirrors.iter().map(|mirror| {
        let mut fields = json!({"endpoints": mirror.endpoints});
        if mirror.skip_fallback {
            fields["skipFallback"] = true.into();
        }
        (mirror.registry.clone(), fields)
    });
    let mirrors: Map<String, Json> = mirrors.collect();
    if !mirrors.is_empty() {
        sections.insert("registries".into(), json!({"mirrors": mirrors}));
    }
    sections
}
