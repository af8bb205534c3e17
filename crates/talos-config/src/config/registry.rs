//! Registries: as documents, or where older versions keep them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json, json};

use crate::config::options::{ClusterOptions, RegistryAuth};

/// Mirrors, credentials and trust as documents: kind, name, fields.
pub(super) fn documents(cluster: &ClusterOptions) -> Vec<(&'static str, String, Map<String, Json>)> {
    let mut documents = Vec::new();
    for mirror in &cluster.registry_mirrors {
        let endpoints: Vec<Json> = mirror
            .endpoints
            .iter()
            .map(|url| {
                if mirror.override_path {
                    json!({"url": url, "overridePath": true})
                } else {
                    json!({"url": url})
                }
            })
            .collect();
        let mut fields = Map::new();
        fields.insert("endpoints".into(), endpoints.into());
        if mirror.skip_fallback {
            fields.insert("skipFallback".into(), true.into());
        }
        documents.push(("RegistryMirrorConfig", mirror.registry.clone(), fields));
    }
    for auth in &cluster.registry_auth {
        documents.push(("RegistryAuthConfig", auth.registry.clone(), credentials(auth)));
    }
    for tls in &cluster.registry_tls {
        let mut fields = Map::new();
        if let Some((certificate, key)) = &tls.client {
            fields.insert("clientIdentity".into(), json!({"cert": certificate, "key": key.expose()}));
        }
        if let Some(ca) = &tls.ca {
            fields.insert("ca".into(), ca.as_str().into());
        }
        if tls.insecure_skip_verify {
            fields.insert("insecureSkipVerify".into(), true.into());
        }
        documents.push(("RegistryTLSConfig", tls.registry.clone(), fields));
    }
    documents
}

fn credentials(auth: &RegistryAuth) -> Map<String, Json> {
    let mut fields = Map::new();
    if let Some(username) = &auth.username {
        fields.insert("username".into(), username.as_str().into());
    }
    let secrets =
        [("password", &auth.password), ("auth", &auth.auth), ("identityToken", &auth.identity_token)];
    for (key, secret) in secrets {
        if let Some(secret) = secret {
            fields.insert(key.into(), secret.expose().into());
        }
    }
    fields
}

/// `machine.registries`, as before Talos 1.12; `None` if there is nothing to say.
pub(super) fn in_machine(cluster: &ClusterOptions) -> Option<Json> {
    let mirrors: Map<String, Json> = cluster
        .registry_mirrors
        .iter()
        .map(|mirror| {
            let mut fields = json!({"endpoints": mirror.endpoints});
            if mirror.override_path {
                fields["overridePath"] = true.into();
            }
            if mirror.skip_fallback {
                fields["skipFallback"] = true.into();
            }
            (mirror.registry.clone(), fields)
        })
        .collect();
    let mut config: Map<String, Json> = Map::new();
    let mut entry = |registry: &str, key: &str, value: Json| {
        config.entry(registry).or_insert_with(|| json!({}))[key] = value;
    };
    for tls in &cluster.registry_tls {
        let mut fields = Map::new();
        if let Some((certificate, key)) = &tls.client {
            let pair = json!({"crt": STANDARD.encode(certificate), "key": STANDARD.encode(key.expose())});
            fields.insert("clientIdentity".into(), pair);
        }
        if let Some(ca) = &tls.ca {
            fields.insert("ca".into(), STANDARD.encode(ca).into());
        }
        if tls.insecure_skip_verify {
            fields.insert("insecureSkipVerify".into(), true.into());
        }
        entry(&tls.registry, "tls", fields.into());
    }
    for auth in &cluster.registry_auth {
        entry(&auth.registry, "auth", credentials(auth).into());
    }
    let mut registries = Map::new();
    if !mirrors.is_empty() {
        registries.insert("mirrors".into(), mirrors.into());
    }
    if !config.is_empty() {
        registries.insert("config".into(), config.into());
    }
    (!registries.is_empty()).then(|| registries.into())
}
