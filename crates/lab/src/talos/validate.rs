//! The rules by which a node refuses a machine configuration.

use daedal_talos_config::{Misfit, Part, Release};
use serde_json::Value;

use super::config::{ConfigError, MachineConfig};

/// Checks that a node of `version` can read a document: known kind, known keys, values of the right form. `line` is where
/// it begins.
pub(super) fn document(text: &str, version: &str, line: usize) -> Result<(), ConfigError> {
    let documents = daedal_talos_config::MachineConfig::from_yaml(text).map_err(ConfigError::Unreadable)?;
    let Ok(release) = Release::of(version) else { return Ok(()) };
    let misfits = documents.misfits(release);
    let head = |key: &str| {
        let text = documents.documents().first().and_then(|document| document.get(key)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    let (api_version, kind) = (head("apiVersion"), head("kind"));
    if misfits.iter().any(|misfit| misfit.part == Part::Kind) {
        return Err(ConfigError::UnknownKind { api_version, kind, line });
    }
    if let Some(Misfit { path, message, .. }) = misfits.iter().find(|misfit| misfit.part == Part::Value) {
        let version = if kind.is_empty() { "/v1alpha1".to_owned() } else { format!("{api_version}/{kind}") };
        return Err(ConfigError::Value { document: version, line, fault: format!("{path} {message}") });
    }
    let unknown: Vec<String> = misfits.iter().map(|misfit| nested(&misfit.path)).collect();
    if unknown.is_empty() { Ok(()) } else { Err(ConfigError::UnknownKeys(unknown.join("\n"))) }
}

/// A dotted path as the keys that a node shows, one below the other.
fn nested(path: &str) -> String {
    let keys: Vec<&str> = path.split('.').collect();
    let line = |(depth, key): (usize, &&str)| {
        let end = if depth + 1 == keys.len() { " …" } else { "" };
        format!("{:indent$}{key}:{end}", "", indent = depth * 4)
    };
    keys.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The rules between fields and documents.
pub(super) fn rules(config: &MachineConfig) -> Vec<String> {
    let mut problems = Vec::new();
    let mut require = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    let control_plane = config.is_control_plane();
    let kind = config.text_at("/machine/type");
    require(
        matches!(kind, Some("controlplane" | "worker" | "init" | "join")),
        &format!("unknown machine type {:?}", kind.unwrap_or_default()),
    );
    require(config.text_at("/machine/token").is_some(), "trustd token is required (.machine.token)");
    require(config.pem_at("/machine/ca/crt").is_some(), "issuing CA is required (.machine.ca)");
    require(
        config.text_at("/cluster/controlPlane/endpoint").is_some(),
        "cluster controlplane endpoint is required (.cluster.controlPlane.endpoint)",
    );
    require(config.pem_at("/cluster/ca/crt").is_some(), "cluster CA is required (.cluster.ca)");
    require(config.text_at("/cluster/token").is_some(), "cluster token is required (.cluster.token)");
    let persists = config.main().get("persist").is_none_or(|p| p == &Value::Bool(true));
    require(persists, "persist should be set to true");
    if control_plane {
        require(
            config.pem_at("/machine/ca/key").is_some(),
            "issuing CA key is required for controlplane nodes (.machine.ca.key)",
        );
        require(
            config.pem_at("/cluster/ca/key").is_some(),
            "cluster CA key is required for controlplane nodes (.cluster.ca.key)",
        );
        require(config.pem_at("/cluster/etcd/ca/crt").is_some(), "etcd CA is required (.cluster.etcd.ca)");
        require(
            config.pem_at("/cluster/etcd/ca/key").is_some(),
            "etcd CA key is required (.cluster.etcd.ca.key)",
        );
        require(
            config.pem_at("/cluster/serviceAccount/key").is_some(),
            "service account key is required (.cluster.serviceAccount.key)",
        );
    } else {
        require(
            config.text_at("/machine/ca/key").is_none(),
            "issuing CA key is not allowed on non-controlplane nodes (.machine.ca.key)",
        );
        require(
            config.text_at("/cluster/ca/key").is_none(),
            "cluster CA key is not allowed on non-controlplane nodes (.cluster.ca.key)",
        );
        require(
            config.main().pointer("/cluster/etcd").is_none(),
            "etcd config is only allowed on control plane machines",
        );
        let interfaces = config.main().pointer("/machine/network/interfaces").and_then(Value::as_array);
        let vip = interfaces.into_iter().flatten().any(|i| i.get("vip").is_some());
        require(!vip, "virtual (shared) IP is not allowed on non-controlplane nodes");
    }
    documents(config, &mut require);
    problems
}

/// The rules of documents beside the main one.
fn documents(config: &MachineConfig, require: &mut impl FnMut(bool, &str)) {
    let mut hostnames = 0;
    for document in config.kind("HostnameConfig") {
        hostnames += 1;
        let auto = document.get("auto").and_then(Value::as_str);
        let fixed = document.get("hostname").and_then(Value::as_str);
        require(auto.is_some() || fixed.is_some(), "either 'auto' or 'hostname' must be set");
        require(
            fixed.is_none() || matches!(auto, None | Some("off")),
            "'auto' and 'hostname' cannot be set at the same time",
        );
        let parsed = document.get("auto").is_none_or(Value::is_string);
        require(parsed, "'auto' is not a string");
    }
    if hostnames > 0 {
        require(
            config.text_at("/machine/network/hostname").is_none(),
            "static hostname is already set in v1alpha1 config",
        );
        require(
            !config.flag_at("/machine/features/stableHostname"),
            "stable hostname is already set in v1alpha1 config",
        );
    }
    for document in config.kind("Layer2VIPConfig") {
        let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
        require(name.parse::<std::net::IpAddr>().is_ok(), &format!("invalid VIP address {name:?}"));
        require(document.get("link").is_some_and(Value::is_string), "link name must be specified");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_what_its_version_knows() {
        let read = |kind: &str, version| {
            document(&format!("apiVersion: v1alpha1\nkind: {kind}\n"), version, 7).map_err(|e| e.to_string())
        };
        assert_eq!(read("KmsgLogConfig\nname: a\nurl: udp://10.0.0.9:6002", "v1.8.0"), Ok(()));
        assert_eq!(read("ExtensionServiceConfig\nname: tailscale", "v1.8.0"), Ok(()));
        assert_eq!(read("LinkConfig\nname: eth0", "v1.12.0"), Ok(()));
        let unknown = read("LinkConfig\nname: eth0", "v1.11.0").unwrap_err();
        assert!(unknown.contains("(line 7): \"LinkConfig\" \"v1alpha1\": not registered"), "{unknown}");
        let value = read("TimeSyncConfig\nbootTimeout: soon", "v1.12.0").unwrap_err();
        assert!(value.contains("document v1alpha1/TimeSyncConfig/ (line 7): bootTimeout"), "{value}");
    }
}
