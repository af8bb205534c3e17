//! Links, bonds, VLANs, routes, the virtual address, resolvers.

use daedal_talos_config::{Bond, BondMode, Dhcp, Link, Route, Vlan};
use rand::{Rng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value as Json, json};

use super::Choice;

/// Some way of asking for addresses: of one kind or both, with and without a preference.
fn dhcp(rng: &mut StdRng) -> Dhcp {
    let (ipv4, ipv6) = *[(true, false), (false, true), (true, true)].choose(rng).unwrap();
    Dhcp { ipv4, ipv6, route_metric: rng.gen_bool(0.5).then_some(4096) }
}

/// The same in an interface of old.
fn dhcp_fields(interface: &mut Json, dhcp: Dhcp) {
    if dhcp.ipv4 || dhcp.ipv6 {
        interface["dhcp"] = true.into();
    }
    if dhcp.ipv6 || dhcp.route_metric.is_some() {
        interface["dhcpOptions"] = json!({"routeMetric": dhcp.route_metric.unwrap_or(1024),
            "ipv4": dhcp.ipv4, "ipv6": dhcp.ipv6});
    }
}

fn merge(fields: &mut Json, more: &Json) {
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
}

pub(super) const CHOICES: &[Choice] = &[
    ("static link with VLANs and routes", |case, rng| {
        let mtu = rng.gen_bool(0.5).then_some(1450);
        let mut link = Link::new("BC:24:11:00:00:01".parse().unwrap());
        link.mtu = mtu;
        link.addresses = vec!["10.0.0.11/16".parse().unwrap()];
        link.routes = vec![
            Route { destination: None, gateway: "10.0.0.1".parse().unwrap(), metric: None },
            Route {
                destination: Some("192.168.0.0/16".parse().unwrap()),
                gateway: "10.0.0.2".parse().unwrap(),
                metric: Some(2048),
            },
        ];
        link.vlans = vec![
            Vlan {
                id: 100,
                mtu: Some(9000),
                addresses: vec!["10.100.0.11/24".parse().unwrap()],
                routes: vec![Route {
                    destination: Some("10.101.0.0/24".parse().unwrap()),
                    gateway: "10.100.0.1".parse().unwrap(),
                    metric: None,
                }],
                dhcp: None,
            },
            Vlan { id: 200, mtu: None, addresses: vec![], routes: vec![], dhcp: None },
        ];
        case.node.links.push(link);
        let selector = json!({"match": "mac(link.permanent_addr) == \"bc:24:11:00:00:01\""});
        if case.has_documents() {
            let name = format!("net{}", case.aliases);
            case.aliases += 1;
            case.document("LinkAliasConfig", Some(&name), json!({"selector": selector}));
            let mut fields = json!({"up": true, "addresses": [{"address": "10.0.0.11/16"}], "routes":
                [{"gateway": "10.0.0.1"}, {"destination": "192.168.0.0/16", "gateway": "10.0.0.2", "metric": 2048}]});
            if let Some(mtu) = mtu {
                fields["mtu"] = mtu.into();
            }
            case.document("LinkConfig", Some(&name), fields);
            let (first, second) = (format!("{name}.100"), format!("{name}.200"));
            case.document(
                "VLANConfig",
                Some(&first),
                json!({"vlanID": 100, "parent": name, "up": true, "mtu": 9000,
                "addresses": [{"address": "10.100.0.11/24"}],
                "routes": [{"destination": "10.101.0.0/24", "gateway": "10.100.0.1"}]}),
            );
            case.document("VLANConfig", Some(&second), json!({"vlanID": 200, "parent": name, "up": true}));
            case.document("DHCPv4Config", Some(&second), json!({}));
        } else {
            let mut interface = json!({"deviceSelector": {"hardwareAddr": "bc:24:11:00:00:01"},
                "addresses": ["10.0.0.11/16"], "routes": [{"network": "0.0.0.0/0", "gateway": "10.0.0.1"},
                {"network": "192.168.0.0/16", "gateway": "10.0.0.2", "metric": 2048}],
                "vlans": [{"vlanId": 100, "mtu": 9000, "addresses": ["10.100.0.11/24"],
                    "routes": [{"network": "10.101.0.0/24", "gateway": "10.100.0.1"}]},
                    {"vlanId": 200, "dhcp": true, "routes": []}]});
            if let Some(mtu) = mtu {
                interface["mtu"] = mtu.into();
            }
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("a link with DHCP", |case, rng| {
        let dhcp = dhcp(rng);
        let mut link = Link::new("BC:24:11:00:00:02".parse().unwrap());
        link.dhcp = Some(dhcp);
        case.node.links.push(link);
        if case.has_documents() {
            let name = format!("net{}", case.aliases);
            case.aliases += 1;
            let selector = json!({"match": "mac(link.permanent_addr) == \"bc:24:11:00:00:02\""});
            case.document("LinkAliasConfig", Some(&name), json!({"selector": selector}));
            case.document("LinkConfig", Some(&name), json!({"up": true}));
            case.dhcp_documents(&name, dhcp);
        } else {
            let mut interface = json!({"deviceSelector": {"hardwareAddr": "bc:24:11:00:00:02"}});
            dhcp_fields(&mut interface, dhcp);
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("a bond", |case, rng| {
        use BondMode::{ActiveBackup, BalanceAlb, BalanceRr, BalanceTlb, BalanceXor, Broadcast, Lacp};
        let macs = ["BC:24:11:00:00:03", "BC:24:11:00:00:04"];
        let (mode, word) = *[
            (Lacp, "802.3ad"),
            (ActiveBackup, "active-backup"),
            (BalanceRr, "balance-rr"),
            (BalanceXor, "balance-xor"),
            (Broadcast, "broadcast"),
            (BalanceTlb, "balance-tlb"),
            (BalanceAlb, "balance-alb"),
        ]
        .choose(rng)
        .unwrap();
        let mut bond = Bond::new("bond0", macs.iter().map(|mac| mac.parse().unwrap()).collect(), mode);
        let mut options = json!({});
        if matches!(mode, Lacp | BalanceXor) {
            let policies = ["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"];
            let policy = *policies.choose(rng).unwrap();
            bond.hash_policy = Some(policy.into());
            options["xmitHashPolicy"] = policy.into();
        }
        if mode == Lacp {
            let rate = *["slow", "fast"].choose(rng).unwrap();
            bond.lacp_rate = Some(rate.into());
            options["lacpRate"] = rate.into();
        }
        if rng.gen_bool(0.7) {
            bond.miimon = Some(100);
            options["miimon"] = 100.into();
        }
        let mtu = rng.gen_bool(0.5).then_some(9000);
        bond.mtu = mtu;
        bond.addresses = vec!["10.3.0.11/24".parse().unwrap(), "fd00:3::11/64".parse().unwrap()];
        bond.routes = vec![
            Route { destination: None, gateway: "10.3.0.1".parse().unwrap(), metric: Some(512) },
            Route {
                destination: Some("fd00:9::/48".parse().unwrap()),
                gateway: "fd00:3::1".parse().unwrap(),
                metric: None,
            },
        ];
        let asked = rng.gen_bool(0.5).then(|| dhcp(rng));
        bond.dhcp = asked;
        let on_vlan = rng.gen_bool(0.5).then(|| dhcp(rng));
        if on_vlan.is_some() {
            bond.vlans = vec![
                Vlan {
                    id: 30,
                    mtu: Some(1400),
                    addresses: vec!["10.30.0.11/24".parse().unwrap()],
                    routes: vec![Route {
                        destination: Some("10.31.0.0/16".parse().unwrap()),
                        gateway: "10.30.0.1".parse().unwrap(),
                        metric: Some(7),
                    }],
                    dhcp: None,
                },
                Vlan { id: 31, mtu: None, addresses: vec![], routes: vec![], dhcp: on_vlan },
            ];
        }
        case.node.bonds.push(bond);
        if case.has_documents() {
            let mut links = Vec::new();
            for mac in macs {
                let name = format!("net{}", case.aliases);
                case.aliases += 1;
                let expression = format!("mac(link.permanent_addr) == \"{}\"", mac.to_lowercase());
                case.document("LinkAliasConfig", Some(&name), json!({"selector": {"match": expression}}));
                links.push(name);
            }
            let mut fields = json!({"links": links, "bondMode": word, "up": true,
                "addresses": [{"address": "10.3.0.11/24"}, {"address": "fd00:3::11/64"}],
                "routes": [{"gateway": "10.3.0.1", "metric": 512},
                    {"destination": "fd00:9::/48", "gateway": "fd00:3::1"}]});
            merge(&mut fields, &options);
            if let Some(mtu) = mtu {
                fields["mtu"] = mtu.into();
            }
            case.document("BondConfig", Some("bond0"), fields);
            case.dhcp_documents("bond0", asked.unwrap_or_default());
            if let Some(dhcp) = on_vlan {
                case.document(
                    "VLANConfig",
                    Some("bond0.30"),
                    json!({"vlanID": 30, "parent": "bond0", "up": true, "mtu": 1400,
                        "addresses": [{"address": "10.30.0.11/24"}],
                        "routes": [{"destination": "10.31.0.0/16", "gateway": "10.30.0.1", "metric": 7}]}),
                );
                case.document(
                    "VLANConfig",
                    Some("bond0.31"),
                    json!({"vlanID": 31, "parent": "bond0", "up": true}),
                );
                case.dhcp_documents("bond0.31", dhcp);
            }
        } else {
            let key = if case.minor() >= 10 { "permanentAddr" } else { "hardwareAddr" };
            let selectors: Vec<Json> = macs.iter().map(|mac| json!({key: mac.to_lowercase()})).collect();
            let mut fields = json!({"deviceSelectors": selectors, "mode": word});
            merge(&mut fields, &options);
            let mut interface = json!({"interface": "bond0", "bond": fields,
                "addresses": ["10.3.0.11/24", "fd00:3::11/64"],
                "routes": [{"network": "0.0.0.0/0", "gateway": "10.3.0.1", "metric": 512},
                    {"network": "fd00:9::/48", "gateway": "fd00:3::1"}]});
            if let Some(mtu) = mtu {
                interface["mtu"] = mtu.into();
            }
            dhcp_fields(&mut interface, asked.unwrap_or_default());
            if let Some(dhcp) = on_vlan {
                let mut second = json!({"vlanId": 31, "routes": []});
                dhcp_fields(&mut second, dhcp);
                interface["vlans"] = json!([{"vlanId": 30, "mtu": 1400, "addresses": ["10.30.0.11/24"],
                    "routes": [{"network": "10.31.0.0/16", "gateway": "10.30.0.1", "metric": 7}]}, second]);
            }
            case.patch(json!({"machine": {"network": {"interfaces": [interface]}}}));
        }
    }),
    ("VIP", |case, _| {
        if !case.is_control_plane() || (case.node.links.is_empty() && case.node.bonds.is_empty()) {
            return;
        }
        let vip = if case.node.bonds.is_empty() { "10.0.0.20" } else { "10.3.0.20" };
        case.node.vip = Some(vip.parse().unwrap());
        let bonded = !case.node.bonds.is_empty();
        if case.has_documents() {
            let link = if bonded { "bond0" } else { "net0" };
            case.document("Layer2VIPConfig", Some(vip), json!({"link": link}));
        } else if bonded {
            case.patch(
                json!({"machine": {"network": {"interfaces": [{"interface": "bond0", "vip": {"ip": vip}}]}}}),
            );
        } else {
            let mac = case.node.links[0].mac.to_string();
            case.patch(json!({"machine": {"network": {"interfaces":
                [{"deviceSelector": {"hardwareAddr": mac}, "vip": {"ip": vip}}]}}}));
        }
    }),
    ("resolvers", |case, _| {
        case.node.nameservers = vec!["1.1.1.1".parse().unwrap(), "2606:4700:4700::1111".parse().unwrap()];
        let search = case.minor() > 8;
        if search {
            case.node.search_domains = vec!["example.org".into()];
        }
        if case.has_documents() {
            case.document(
                "ResolverConfig",
                None,
                json!({
                "nameservers": [{"address": "1.1.1.1"}, {"address": "2606:4700:4700::1111"}],
                "searchDomains": {"domains": ["example.org"]}}),
            );
        } else {
            let mut network = json!({"nameservers": ["1.1.1.1", "2606:4700:4700::1111"]});
            if search {
                network["searchDomains"] = json!(["example.org"]);
            }
            case.patch(json!({"machine": {"network": network}}));
        }
    }),
];
