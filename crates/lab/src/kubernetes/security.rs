//! Pod security: what a pod may ask for in a namespace, by the standards `baseline` and `restricted`.

use serde_json::Value;

/// How much a pod may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The level of a namespace for `enforce` or `warn`. Without a label it is what Talos configures.
pub(crate) fn level(namespace: &Value, mode: &str) -> Level {
    // Talos exempts this one.
    if namespace["metadata"]["name"] == "kube-system" {
        return Level::Privileged;
    }
    let label = &namespace["metadata"]["labels"][format!("pod-security.kubernetes.io/{mode}")];
    let default = if mode == "enforce" { Level::Baseline } else { Level::Restricted };
    label.as_str().map_or(default, |text| Level::parse(text).unwrap_or(Level::Restricted))
}

/// Capabilities that a runtime gives anyway.
const CAPABILITIES: [&str; 14] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    "",
];

/// Volumes that even the strictest level allows.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    let all = ["initContainers", "containers", "ephemeralContainers"];
    all.into_iter().flat_map(|field| spec[field].as_array()).flatten()
}

fn name(value: &Value) -> String {
    format!("{:?}", value["name"].as_str().unwrap_or_default())
}

/// `container "a"`, `containers "a", "b"`.
fn named(word: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{word}{plural} {}", names.join(", "))
}

fn those(spec: &Value, bad: impl Fn(&Value) -> bool) -> Vec<String> {
    containers(spec).filter(|container| bad(container)).map(name).collect()
}

/// What in a pod's spec a level forbids, in the words of the API server.
pub(crate) fn violations(spec: &Value, level: Level) -> Vec<String> {
    let mut found = Vec::new();
    if level >= Level::Baseline {
        baseline(spec, level, &mut found);
    }
    if level >= Level::Restricted {
        restricted(spec, &mut found);
    }
    found
}

fn baseline(spec: &Value, level: Level, found: &mut Vec<String>) {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared: Vec<String> =
        shared.iter().filter(|f| spec[**f] == true).map(|f| format!("{f}=true")).collect();
    if !shared.is_empty() {
        found.push(format!("host namespaces ({})", shared.join(", ")));
    }
    let ports: Vec<(String, String)> = containers(spec)
        .flat_map(|c| {
            let ports = c["ports"].as_array().into_iter().flatten();
            ports.filter_map(move |p| {
                let port = p["hostPort"].as_u64().filter(|port| *port > 0)?;
                Some((name(c), port.to_string()))
            })
        })
        .collect();
    if !ports.is_empty() {
        let mut names: Vec<String> = ports.iter().map(|(name, _)| name.clone()).collect();
        names.dedup();
        let numbers: Vec<String> = ports.into_iter().map(|(_, port)| port).collect();
        let (uses, plural) = if names.len() == 1 { ("uses", "") } else { ("use", "s") };
        let plural = if numbers.len() == 1 { plural } else { "s" };
        found.push(format!(
            "hostPort ({} {uses} hostPort{plural} {})",
            named("container", &names),
            numbers.join(", ")
        ));
    }
    let privileged = those(spec, |c| c["securityContext"]["privileged"] == true);
    if !privileged.is_empty() {
        let who = named("container", &privileged);
        found.push(format!("privileged ({who} must not set securityContext.privileged=true)"));
    }
    let paths = spec["volumes"].as_array().into_iter().flatten().filter(|v| v["hostPath"].is_object());
    let paths: Vec<String> = paths.map(name).collect();
    // The stricter level has a word for all kinds of volumes.
    if !paths.is_empty() && level == Level::Baseline {
        found.push(format!("hostPath volumes ({})", named("volume", &paths)));
    }
    let mut added = Vec::new();
    let greedy = containers(spec).filter(|c| {
        let more: Vec<String> =
            capabilities(c, "add").filter(|c| !CAPABILITIES.contains(c)).map(|c| format!("{c:?}")).collect();
        added.extend(more.iter().cloned());
        !more.is_empty()
    });
    let greedy: Vec<String> = greedy.map(name).collect();
    if !greedy.is_empty() && level == Level::Baseline {
        added.sort();
        added.dedup();
        let who = named("container", &greedy);
        found.push(format!(
            "non-default capabilities ({who} must not include {} in securityContext.capabilities.add)",
            added.join(", ")
        ));
    }
}

fn capabilities<'a>(container: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let list = container["securityContext"]["capabilities"][field].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn restricted(spec: &Value, found: &mut Vec<String>) {
    let mut say = |names: &[String], subject: &str, what: &str, must: &str| {
        if !names.is_empty() {
            found.push(format!("{what} ({} {must})", named(subject, names)));
        }
    };
    let escalates = those(spec, |c| c["securityContext"]["allowPrivilegeEscalation"] != false);
    let must = "must set securityContext.allowPrivilegeEscalation=false";
    say(&escalates, "container", "allowPrivilegeEscalation != false", must);
    let keeps = those(spec, |c| !capabilities(c, "drop").any(|dropped| dropped == "ALL"));
    let must = "must set securityContext.capabilities.drop=[\"ALL\"]";
    say(&keeps, "container", "unrestricted capabilities", must);
    let volumes: Vec<&Value> = spec["volumes"].as_array().into_iter().flatten().collect();
    let strange: Vec<(String, String)> = volumes
        .into_iter()
        .filter_map(|volume| {
            let kind = volume.as_object()?.keys().find(|key| *key != "name")?;
            (!VOLUMES.contains(&kind.as_str())).then(|| (name(volume), format!("{kind:?}")))
        })
        .collect();
    if !strange.is_empty() {
        let names: Vec<String> = strange.iter().map(|(name, _)| name.clone()).collect();
        let mut kinds: Vec<String> = strange.into_iter().map(|(_, kind)| kind).collect();
        kinds.sort();
        kinds.dedup();
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let plural = if kinds.len() == 1 { "" } else { "s" };
        let must = format!("{verb} restricted volume type{plural} {}", kinds.join(", "));
        say(&names, "volume", "restricted volume types", &must);
    }
    let root = |c: &Value| {
        let own = &c["securityContext"]["runAsNonRoot"];
        *own != true && (own.is_boolean() || spec["securityContext"]["runAsNonRoot"] != true)
    };
    let rooted = those(spec, root);
    say(&rooted, "pod or container", "runAsNonRoot != true", "must set securityContext.runAsNonRoot=true");
    let confined = |context: &Value| {
        context["seccompProfile"]["type"].as_str().map(|kind| kind == "RuntimeDefault" || kind == "Localhost")
    };
    let pod = confined(&spec["securityContext"]).unwrap_or(false);
    let open = those(spec, |c| !confined(&c["securityContext"]).unwrap_or(pod));
    let must = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    say(&open, "pod or container", "seccompProfile", must);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn namespaces_say_their_level_and_talos_says_the_rest() {
        let namespace = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
        assert_eq!(level(&namespace("x", json!({})), "enforce"), Level::Baseline);
        assert_eq!(level(&namespace("x", json!({})), "warn"), Level::Restricted);
        assert_eq!(level(&namespace("kube-system", json!({})), "enforce"), Level::Privileged);
        let label = json!({"pod-security.kubernetes.io/enforce": "privileged"});
        assert_eq!(level(&namespace("x", label), "enforce"), Level::Privileged);
    }

    #[test]
    fn what_a_level_forbids_is_named() {
        let spec = json!({
            "hostNetwork": true, "hostPID": true, "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
            "containers": [{
                "name": "node-exporter", "ports": [{"containerPort": 9100, "hostPort": 9100}],
                "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}},
            }],
        });
        assert!(violations(&spec, Level::Privileged).is_empty());
        assert_eq!(
            violations(&spec, Level::Baseline),
            [
                "host namespaces (hostNetwork=true, hostPID=true)",
                "hostPort (container \"node-exporter\" uses hostPort 9100)",
                "privileged (container \"node-exporter\" must not set securityContext.privileged=true)",
                "hostPath volumes (volume \"root\")",
                "non-default capabilities (container \"node-exporter\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add)",
            ]
        );
        let plain = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        assert!(violations(&plain, Level::Baseline).is_empty());
        let strict = violations(&plain, Level::Restricted);
        assert_eq!(strict.len(), 4, "{strict:?}");
        assert!(strict[0].contains("containers \"a\", \"b\" must set"), "{strict:?}");
        let careful = json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        });
        assert_eq!(violations(&careful, Level::Restricted), Vec::<String>::new());
    }
}
