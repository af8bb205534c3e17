//! Whatever comes in, the readers answer with a value or an error.

#![allow(missing_docs)]

use daedal_talos_config::{
    Contract, Mac, MachineConfig, Patch, Release, SecretsBundle, Talosconfig,
    pki::{PrivateKey, certificate_from_pem},
};
use proptest::prelude::*;

/// Text that looks like configs and patches: keys, indents, markers, deletes.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("machine: ".to_owned()),
        Just("cluster:\n".to_owned()),
        Just("  network: {interfaces: [{interface: eth0}]}\n".to_owned()),
        Just("$patch: delete\n".to_owned()),
        Just("- {a: {$patch: delete}}\n".to_owned()),
        Just("---\n".to_owned()),
        Just("apiVersion: v1alpha1\nkind: LinkConfig\nname: a\n".to_owned()),
        "[ a-z:{}\\[\\],&*!|>'\"%@#\n-]{0,12}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn documents_and_patches_never_panic(config in yaml_like(), patch in yaml_like()) {
        let patch = Patch::from_yaml(&patch);
        if let Ok(mut config) = MachineConfig::from_yaml(&config) {
            for contract in Contract::all() {
                let _ = config.lint(Release { contract, patch: 0 });
            }
            if let Ok(patch) = patch {
                let before = config.clone();
                if config.apply_patch(&patch).is_err() {
                    prop_assert_eq!(&config, &before, "a failed patch changes nothing");
                }
            }
            if !config.documents().is_empty() {
                let text = config.to_yaml();
                prop_assert!(MachineConfig::from_yaml(text.expose()).is_ok(), "{}", text.expose());
            }
        }
    }

    #[test]
    fn other_readers_never_panic(text in yaml_like()) {
        let _ = SecretsBundle::from_yaml(&text);
        let _ = Talosconfig::from_yaml(&text);
        let _ = text.parse::<Mac>();
        let framed = format!("-----BEGIN {text}-----\n{text}\n-----END {text}-----");
        for text in [text, framed] {
            let _ = PrivateKey::from_pem(&text);
            let _ = certificate_from_pem(&text);
        }
    }
}
