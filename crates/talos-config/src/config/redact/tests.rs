//! Every field that can hold a secret, with one in it: none is shown.

use super::Marks;
use crate::config::{DocumentDifference, MachineConfig};
use crate::secret::Secret;

const CANARY: &str = "canary0123456789";

/// Every field that the `Redact` methods of Talos v1.14.1 replace, and `?jointoken=` aside, nothing else is.
const TALOS_REDACTS: &[(&str, &str)] = &[
    ("", "machine.token"),
    ("", "machine.ca.key"),
    ("", "machine.registries.config.ghcr-io.auth.password"),
    ("", "machine.registries.config.ghcr-io.auth.auth"),
    ("", "machine.registries.config.ghcr-io.auth.identityToken"),
    ("", "machine.registries.config.ghcr-io.tls.clientIdentity.key"),
    ("", "machine.network.interfaces.[].wireguard.privateKey"),
    ("", "machine.network.interfaces.[].vip.equinixMetal.apiToken"),
    ("", "machine.network.interfaces.[].vip.hcloud.apiToken"),
    ("", "machine.network.interfaces.[].vlans.[].vip.equinixMetal.apiToken"),
    ("", "machine.network.interfaces.[].vlans.[].vip.hcloud.apiToken"),
    ("", "machine.systemDiskEncryption.state.keys.[].static.passphrase"),
    ("", "machine.systemDiskEncryption.ephemeral.keys.[].static.passphrase"),
    ("", "cluster.secret"),
    ("", "cluster.token"),
    ("", "cluster.aescbcEncryptionSecret"),
    ("", "cluster.secretboxEncryptionSecret"),
    ("", "cluster.serviceAccount.key"),
    ("", "cluster.ca.key"),
    ("", "cluster.aggregatorCA.key"),
    ("", "cluster.etcd.ca.key"),
    ("DiscoveryIdentityConfig", "clusterSecret"),
    ("HCloudVIPConfig", "apiToken"),
    ("KubeAPIServerCAConfig", "issuingCA.key"),
    ("KubeAggregatorCAConfig", "issuingCA.key"),
    ("KubeEtcdEncryptionConfig", "config.resources.[].providers.[].secretbox.keys.[].secret"),
    ("KubeServiceAccountConfig", "issuer.privateKey"),
    ("RawVolumeConfig", "encryption.keys.[].static.passphrase"),
    ("RegistryAuthConfig", "password"),
    ("RegistryAuthConfig", "auth"),
    ("RegistryAuthConfig", "identityToken"),
    ("RegistryTLSConfig", "clientIdentity.key"),
    ("SideroLinkConfig", "uniqueToken"),
    ("SwapVolumeConfig", "encryption.keys.[].static.passphrase"),
    ("UserVolumeConfig", "encryption.keys.[].static.passphrase"),
    ("VolumeConfig", "encryption.keys.[].static.passphrase"),
    ("WireguardConfig", "privateKey"),
    ("WireguardConfig", "peers.[].presharedKey"),
];

/// What Talos shows, and we do not: it may hold a secret too.
const OURS: &[(&str, &str)] = &[
    ("", "machine.env.http_proxy"),
    ("", "machine.files.[].content"),
    ("", "machine.logging.destinations.[].extraTags.api-key"),
    ("", "machine.sysctls.net-ipv4-tcp_fastopen_key"),
    ("", "machine.kubelet.extraArgs.auth-token"),
    ("", "machine.kubelet.extraConfig.staticPodURLHeader.X-Any.[]"),
    ("", "machine.kubelet.credentialProviderConfig.providers.[].env.[].value"),
    ("", "machine.pods.[].spec.containers.[].env.[].value"),
    ("", "machine.pods.[].spec.initContainers.[].livenessProbe.httpGet.httpHeaders.[].value"),
    ("", "machine.baseRuntimeSpecOverrides.process.env.[]"),
    ("", "machine.nobodyKnows"),
    ("", "machine.network"),
    ("", "cluster.apiServer.env.ANY"),
    ("", "cluster.controllerManager.env.ANY"),
    ("", "cluster.scheduler.env.ANY"),
    ("", "cluster.extraManifestHeaders.X-Any"),
    ("", "cluster.inlineManifests.[].contents"),
    ("CRICustomizationConfig", "content"),
    ("ContainerConfig", "environment.[]"),
    ("EnvironmentConfig", "variables.ANY"),
    ("EtcFileConfig", "contents"),
    ("ExtensionServiceConfig", "environment.[]"),
    ("ExtensionServiceConfig", "configFiles.[].content"),
    ("KubeAPIServerConfig", "env.ANY"),
    ("KubeControllerManagerConfig", "env.ANY"),
    ("KubeSchedulerConfig", "env.ANY"),
    ("KubeCredentialProviderConfig", "configuration.providers.[].env.[].value"),
    ("KubeExternalManifestConfig", "headers.X-Any"),
    ("KubeFlannelCNIConfig", "backendExtraConfig.PSK"),
    ("KubeInlineManifestConfig", "manifest"),
    ("KubeStaticPodConfig", "pod.spec.containers.[].env.[].value"),
    ("KubeStaticPodConfig", "pod.stringData.anything"),
    ("KindOfTomorrow", "anything"),
];

/// Fields for addresses, with what may be seen of one that has a user and a query.
const ADDRESSES: &[(&str, &str)] = &[
    ("", "machine.logging.destinations.[].endpoint"),
    ("", "machine.registries.mirrors.ghcr-io.endpoints.[]"),
    ("", "machine.systemDiskEncryption.state.keys.[].kms.endpoint"),
    ("", "machine.install.extraKernelArgs.[]"),
    ("", "machine.kubelet.extraArgs.any"),
    ("", "cluster.controlPlane.endpoint"),
    ("", "cluster.network.cni.urls.[]"),
    ("", "cluster.extraManifests.[]"),
    ("", "cluster.externalCloudProvider.manifests.[]"),
    ("", "cluster.discovery.registries.service.endpoint"),
    ("DiscoveryServiceConfig", "endpoint"),
    ("HTTPProbeConfig", "url"),
    ("KmsgLogConfig", "url"),
    ("KubeClusterConfig", "endpoint"),
    ("KubeExternalManifestConfig", "url"),
    ("KubeServiceAccountConfig", "accepted.issuers.[]"),
    ("KubeStaticPodConfig", "pod.spec.containers.[].args.[]"),
    ("RegistryMirrorConfig", "endpoints.[].url"),
    ("SideroLinkConfig", "apiUrl"),
    ("UserVolumeConfig", "encryption.keys.[].kms.endpoint"),
];

/// A config of one field.
fn config(kind: &str, path: &str, value: &str) -> MachineConfig {
    let value = serde_json::Value::from(value);
    let mut document = path.rsplit('.').fold(value, |below, key| match key {
        "[]" => serde_json::json!([below]),
        key => serde_json::json!({ key: below }),
    });
    if !kind.is_empty() {
        document["apiVersion"] = "v1alpha1".into();
        document["kind"] = kind.into();
        document["name"] = "a".into();
    }
    MachineConfig::from_yaml(&document.to_string()).unwrap()
}

fn differences(before: &MachineConfig, after: &MachineConfig, given: &[&str]) -> Vec<DocumentDifference> {
    before.differences(after, &Marks::new(&Secret::new("the key")).hiding(given.iter().copied()))
}

/// Everything that a change of one field tells: added, changed, removed, and as part of a whole document.
fn told(kind: &str, path: &str, one: &str, other: &str) -> String {
    let (one, other) = (config(kind, path, one), config(kind, path, other));
    let none = MachineConfig::from_yaml("debug: true").unwrap();
    let told = [(&one, &other), (&none, &one), (&other, &none)];
    told.map(|(before, after)| format!("{:?}", differences(before, after, &[]))).concat()
}

#[test]
fn what_talos_redacts_and_what_may_be_secret_besides_is_a_mark() {
    for (kind, path) in TALOS_REDACTS.iter().chain(OURS) {
        for (one, other) in [
            (CANARY.to_owned(), format!("other-{CANARY}")),
            (format!("NAME={CANARY}"), format!("NAME=other-{CANARY}")),
            (format!("a: {CANARY}\nb: c\n"), format!("a: other-{CANARY}\nb: c\n")),
        ] {
            let told = told(kind, path, &one, &other);
            assert!(!told.contains(CANARY), "{kind} {path}: {told}");
            assert!(told.matches("[secret ").count() >= 4, "{kind} {path}: {told}");
        }
    }
}

#[test]
fn numbers_in_secret_fields_are_marks_too() {
    let config = |password: u32| {
        let text = format!("apiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: a\npassword: {password}\n");
        MachineConfig::from_yaml(&text).unwrap()
    };
    let told = format!("{:?}", differences(&config(123_456), &config(654_321), &[]));
    assert!(!told.contains("123456") && !told.contains("654321") && told.contains("[secret "), "{told}");
}

#[test]
fn addresses_are_shown_without_user_and_query() {
    for (kind, path) in ADDRESSES {
        let address = |port: u32| format!("https://me:{CANARY}@example.org:{port}/path?jointoken={CANARY}");
        let told = told(kind, path, &address(1), &address(2));
        assert!(!told.contains(CANARY), "{kind} {path}: {told}");
        assert!(told.contains("@example.org:1/path?jointoken=[secret "), "{kind} {path}: {told}");
    }
}

#[test]
fn arguments_that_tell_of_secrets_are_hidden_and_the_rest_is_shown() {
    let config = |secret: &str| {
        let pod = format!(
            "{{metadata: {{name: web, labels: {{app: web}}}}, spec: {{imagePullSecrets: [{{name: pull}}], volumes: \
             [{{secret: {{secretName: tls}}}}], containers: [{{image: a, env: [{{name: TOKEN, value: {secret}}}, \
             {{name: REF, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}], args: [--verbose, --password, \
             {secret}, --token={secret}, 'sh -c \"X_KEY={secret}\"']}}]}}}}"
        );
        MachineConfig::from_yaml(&format!("machine:\n  pods: [{pod}]\n")).unwrap()
    };
    let none = MachineConfig::from_yaml("machine: {}").unwrap();
    let told = format!("{:?}", differences(&none, &config(CANARY), &[]));
    assert!(!told.contains(CANARY), "{told}");
    for shown in [
        "name: web",
        "labels: {app: web}",
        "name: pull",
        "secretName: tls",
        "image: a",
        "name: TOKEN",
        "value: [secret ",
        "fieldPath: metadata.name",
        "[--verbose, --password, [secret ",
        "--token=[secret ",
    ] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    let container = |secret: &str| {
        let text = format!(
            "apiVersion: v1alpha1\nkind: ContainerConfig\nname: a\nargs: [-v, --token, {secret}]\nenvironment: [A={secret}]\n"
        );
        MachineConfig::from_yaml(&text).unwrap()
    };
    let told = format!("{:?}", differences(&container(CANARY), &container("other"), &[]));
    assert!(!told.contains(CANARY) && !told.contains("other") && told.contains("A=[secret "), "{told}");
}

#[test]
fn what_was_given_is_hidden_wherever_it_stands_with_what_stood_there_before() {
    let config = |secret: &str, number: u32| {
        let text = format!(
            "machine:\n  nodeLabels: {{plain: {secret}, {secret}: x, other: shown}}\n  certSANs: [a, b-{secret}.example.org]\n  \
             network: {{interfaces: [{{interface: eth0, mtu: {number}}}]}}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: {secret}\n"
        );
        MachineConfig::from_yaml(&text).unwrap()
    };
    let told =
        |given: &[&str]| format!("{:?}", differences(&config("oldcanary", 7), &config(CANARY, 9), given));
    assert!(told(&[]).contains(CANARY), "without a word nobody knows");
    let hidden = told(&[CANARY, "9"]);
    assert!(!hidden.contains(CANARY) && !hidden.contains("mtu\", from: Some(\"7"), "{hidden}");
    assert!(
        !hidden.contains("plain\", from: Some(\"oldcanary") && !hidden.contains("b-oldcanary"),
        "{hidden}"
    );
    let changed =
        |after: &str| format!("{:?}", differences(&config(CANARY, 9), &config(after, 9), &[CANARY]));
    assert!(!changed("another").contains("plain\", from: Some(\"canary"), "{}", changed("another"));
}

#[test]
fn what_is_no_secret_is_shown() {
    for (kind, path, value) in [
        ("", "machine.nodeLabels.my-token", "shown"),
        ("", "machine.network.interfaces.[].wireguard.peers.[].publicKey", "shown"),
        ("", "machine.sysctls.vm-max_map_count", "262144"),
        ("", "machine.registries.config.ghcr-io.auth.username", "me"),
        ("", "cluster.apiServer.extraArgs.oidc-issuer-url", "https://example.org/a"),
        ("", "cluster.apiServer.admissionControl.[].configuration.defaults.enforce", "baseline"),
        ("WireguardConfig", "peers.[].publicKey", "shown"),
        ("LinkAliasConfig", "selector.match", "mac(link.permanent_addr) == '00:11'"),
        ("KubeEtcdEncryptionConfig", "config.resources.[].providers.[].secretbox.keys.[].name", "key1"),
        ("SideroLinkConfig", "apiUrl", "grpc://omni.example.org:8090"),
    ] {
        let told = told(kind, path, value, "else");
        assert!(told.contains(value), "{kind} {path}: {told}");
    }
}

/// Whoever adds a field whose name tells of a secret has to say in the table whether it is one.
#[test]
fn the_table_decides_about_every_telling_name() {
    fn look(kind: &str, path: &str, field: &super::Field, undecided: &mut Vec<String>) {
        for (name, below) in field.children() {
            let path = format!("{path}.{name}");
            let is_text = below.shape == super::Shape::Text;
            if is_text && super::words::tells(name) && below.sight == super::Sight::Usual {
                undecided.push(format!("{kind} {path}"));
            }
            look(kind, &path, below, undecided);
        }
    }
    let mut undecided = Vec::new();
    for (kind, _) in super::schema::all_kinds() {
        look(kind, "", super::schema::of_kind(kind).unwrap(), &mut undecided);
    }
    assert_eq!(undecided, Vec::<String>::new());
}
