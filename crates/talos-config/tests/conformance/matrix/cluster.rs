//! What a cluster's nodes have in common: names, Kubernetes, registries, discovery, authorities.

use daedal_talos_config::{Cni, Discovery, KubeSpan, RegistryAuth, RegistryMirror, RegistryTls, Secret};
use rand::Rng;
use serde_json::json;

use super::Choice;
use crate::peer::bundle;

/// A certificate and a key of some authority.
fn pem() -> (String, String) {
    (bundle().os.crt.clone(), bundle().os.key.expose().to_owned())
}

fn base64(text: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

pub(super) const CHOICES: &[Choice] = &[
    ("SANs", |case, _| {
        let names = json!(["api.example.org", "10.0.0.99"]);
        case.cluster.cert_sans = vec!["api.example.org".into(), "10.0.0.99".into()];
        case.patch(json!({"machine": {"certSANs": names}}));
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"apiServer": {"certSANs": names}}}),
                "KubeAPIServerConfig",
                json!({"certExtraSANs": names}),
            );
        }
    }),
    ("subnets", |case, rng| {
        let both = rng.gen_bool(0.5);
        let pods = if both { vec!["10.8.0.0/14", "fd00:8::/56"] } else { vec!["10.8.0.0/14"] };
        let services = if both { vec!["10.112.0.0/16", "fd00:9::/112"] } else { vec!["10.112.0.0/16"] };
        case.cluster.pod_subnets = pods.iter().map(|net| net.parse().unwrap()).collect();
        case.cluster.service_subnets = services.iter().map(|net| net.parse().unwrap()).collect();
        let fields = json!({"podSubnets": pods, "serviceSubnets": services});
        case.either(14, json!({"cluster": {"network": fields}}), "KubeNetworkConfig", fields);
    }),
    ("domain", |case, _| {
        case.cluster.dns_domain = "example.internal".into();
        let fields = json!({"dnsDomain": "example.internal"});
        case.either(14, json!({"cluster": {"network": fields}}), "KubeNetworkConfig", fields);
    }),
    ("CNI none", |case, _| {
        case.cluster.cni = Cni::None;
        if !case.is_split() {
            case.patch(json!({"cluster": {"network": {"cni": {"name": "none"}}}}));
        } else if case.is_control_plane() {
            case.document("KubeFlannelCNIConfig", None, json!({"$patch": "delete"}));
        }
    }),
    ("CNI custom", |case, rng| {
        if case.chosen.contains(&"CNI none") {
            return;
        }
        let mut manifests = vec![("custom-cni", "https://example.org/cni.yaml")];
        if rng.gen_bool(0.5) {
            manifests.push(("custom-cni-2", "https://example.org/more.yaml?ref=1"));
        }
        let urls: Vec<String> = manifests.iter().map(|(_, url)| (*url).to_owned()).collect();
        case.cluster.cni = Cni::Custom(urls.clone());
        if !case.is_split() {
            case.patch(json!({"cluster": {"network": {"cni": {"name": "custom", "urls": urls}}}}));
        } else if case.is_control_plane() {
            case.document("KubeFlannelCNIConfig", None, json!({"$patch": "delete"}));
            for (name, url) in manifests {
                case.document("KubeExternalManifestConfig", Some(name), json!({"url": url}));
            }
        }
    }),
    ("no kube-proxy", |case, _| {
        case.cluster.kube_proxy = false;
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"proxy": {"disabled": true}}}),
                "KubeProxyConfig",
                json!({"enabled": false}),
            );
        }
    }),
    ("workloads on control planes", |case, _| {
        case.cluster.schedule_on_control_planes = true;
        if case.is_control_plane() {
            case.either(
                14,
                json!({"cluster": {"allowSchedulingOnControlPlanes": true}}),
                "KubeNodeConfig",
                json!({"taints": {"node-role.kubernetes.io/control-plane": {"$patch": "delete"}}}),
            );
        }
    }),
    ("mirrors", |case, rng| {
        let (skip, over) = (case.minor() > 8 && rng.gen_bool(0.5), rng.gen_bool(0.5));
        case.cluster.registry_mirrors = vec![RegistryMirror {
            registry: "docker.io".into(),
            endpoints: vec!["https://mirror.example.org".into(), "http://10.0.0.5:5000".into()],
            override_path: over,
            skip_fallback: skip,
        }];
        if case.has_documents() {
            let endpoint = |url: &str| {
                if over { json!({"url": url, "overridePath": true}) } else { json!({"url": url}) }
            };
            let mut fields = json!({"endpoints": [endpoint("https://mirror.example.org"), endpoint("http://10.0.0.5:5000")]});
            if skip {
                fields["skipFallback"] = true.into();
            }
            case.document("RegistryMirrorConfig", Some("docker.io"), fields);
        } else {
            let mut mirror = json!({"endpoints": ["https://mirror.example.org", "http://10.0.0.5:5000"]});
            if skip {
                mirror["skipFallback"] = true.into();
            }
            if over {
                mirror["overridePath"] = true.into();
            }
            case.patch(json!({"machine": {"registries": {"mirrors": {"docker.io": mirror}}}}));
        }
    }),
    ("registry auth", |case, rng| {
        let registry = "registry.example.org".to_owned();
        let secret = |text: &str| Some(Secret::new(text));
        let (options, auth) = match rng.gen_range(0..3) {
            0 => (
                RegistryAuth {
                    registry,
                    username: Some("daedal".into()),
                    password: secret("hunter2"),
                    ..RegistryAuth::default()
                },
                json!({"username": "daedal", "password": "hunter2"}),
            ),
            1 => (
                RegistryAuth { registry, auth: secret("ZGFlZGFsOmh1bnRlcjI="), ..RegistryAuth::default() },
                json!({"auth": "ZGFlZGFsOmh1bnRlcjI="}),
            ),
            _ => (
                RegistryAuth { registry, identity_token: secret("t0ken"), ..RegistryAuth::default() },
                json!({"identityToken": "t0ken"}),
            ),
        };
        case.cluster.registry_auth = vec![options];
        if case.has_documents() {
            case.document("RegistryAuthConfig", Some("registry.example.org"), auth);
        } else {
            case.patch(
                json!({"machine": {"registries": {"config": {"registry.example.org": {"auth": auth}}}}}),
            );
        }
    }),
    ("registry TLS", |case, rng| {
        let client = rng.gen_bool(0.5);
        let (pem, key) = pem();
        case.cluster.registry_tls = vec![RegistryTls {
            registry: "registry.example.org".into(),
            ca: Some(pem.clone()),
            client: client.then(|| (pem.clone(), Secret::new(key.clone()))),
            insecure_skip_verify: !client,
        }];
        let mut tls = json!({});
        if case.has_documents() {
            tls["ca"] = pem.as_str().into();
            if client {
                tls["clientIdentity"] = json!({"cert": pem, "key": key});
            }
        } else {
            tls["ca"] = base64(&pem).into();
            if client {
                tls["clientIdentity"] = json!({"crt": base64(&pem), "key": base64(&key)});
            }
        }
        if !client {
            tls["insecureSkipVerify"] = true.into();
        }
        if case.has_documents() {
            case.document("RegistryTLSConfig", Some("registry.example.org"), tls);
        } else {
            case.patch(
                json!({"machine": {"registries": {"config": {"registry.example.org": {"tls": tls}}}}}),
            );
        }
    }),
    ("KubeSpan", |case, rng| {
        // As an inventory has it, and with everything that the library can say.
        let (options, fields) = if rng.gen_bool(0.5) {
            (KubeSpan::default(), json!({"enabled": true}))
        } else {
            let options =
                KubeSpan { mtu: Some(1380), allow_down_peer_bypass: Some(true), ..KubeSpan::default() };
            (options, json!({"enabled": true, "allowDownPeerBypass": true, "mtu": 1380}))
        };
        case.cluster.kubespan = Some(options);
        case.either(13, json!({"machine": {"network": {"kubespan": fields}}}), "KubeSpanConfig", fields);
    }),
    ("discovery off", |case, _| {
        if case.chosen.contains(&"KubeSpan") {
            return;
        }
        case.cluster.discovery = Discovery::Disabled;
        if case.is_split() {
            case.document("DiscoveryServiceConfig", Some("default"), json!({"$patch": "delete"}));
        } else {
            case.patch(json!({"cluster": {"discovery": {"enabled": false}}}));
        }
    }),
    ("own discovery", |case, _| {
        if case.chosen.contains(&"discovery off") {
            return;
        }
        let url = "https://discovery.example.org/";
        case.cluster.discovery = Discovery::Service(url.into());
        if case.is_split() {
            case.document("DiscoveryServiceConfig", Some("default"), json!({"endpoint": url}));
        } else {
            case.patch(json!({"cluster": {"discovery": {"registries": {"service": {"endpoint": url}}}}}));
        }
    }),
    ("accepted authorities", |case, _| {
        let (pem, _) = pem();
        case.cluster.accepted_os_cas = vec![pem.clone()];
        case.cluster.accepted_k8s_cas = vec![pem.clone()];
        case.patch(json!({"machine": {"acceptedCAs": [{"crt": base64(&pem)}]}}));
        case.either(
            14,
            json!({"cluster": {"acceptedCAs": [{"crt": base64(&pem)}]}}),
            "KubeAPIServerCAConfig",
            json!({"acceptedCAs": [pem]}),
        );
    }),
];
