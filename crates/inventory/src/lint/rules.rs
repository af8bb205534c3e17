//! Every kind of finding: its id, which never changes, and what it is about.

use crate::Severity;
use crate::diagnostic::MISSING_SECRET;

/// One kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id, such as `unknown-key`.
    pub id: &'static str,
    /// How bad it is at most.
    pub severity: Severity,
    /// What it is about, in a sentence.
    pub about: &'static str,
    /// Why it matters and what to do, for the kinds that can be ignored; nothing for errors, each of which says it itself.
    pub help: &'static str,
}

/// Every kind of finding: warnings and notes first, then errors.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    LINTS.iter().chain(ERRORS)
}

/// The kind with an id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}

const fn warning(id: &'static str, about: &'static str, help: &'static str) -> Rule {
    Rule { id, severity: Severity::Warning, about, help }
}

const fn note(id: &'static str, about: &'static str, help: &'static str) -> Rule {
    Rule { id, severity: Severity::Note, about, help }
}

const fn error(id: &'static str, about: &'static str) -> Rule {
    Rule { id, severity: Severity::Error, about, help: "" }
}

/// What deserves a second look.
pub(crate) const LINTS: &[Rule] = &[
    warning(
        "insecure",
        "A server's certificate is not verified.",
        "Whoever answers at the address is believed. Name the CA (`ca`) or the fingerprint (`fingerprint`) instead.",
    ),
    warning(
        "plain-http",
        "A server is asked over plain HTTP.",
        "Whoever is on the way can read and change the answers. Use HTTPS.",
    ),
    warning(
        "root-token",
        "The API token is one of root@pam.",
        "It can do everything on Proxmox, unless its privileges are separated. `daedal proxmox setup` makes an account that can do \
         only what the cluster needs.",
    ),
    warning(
        "trust-on-first-use",
        "The first contact with a new node is not verified, or not always.",
        "Whoever answers with the VM's UUID gets the machine config with its secrets. Use `boot: {firstContact: verified}`, or a \
         boot path without maintenance mode.",
    ),
    warning(
        "moving-reference",
        "An image or a manifest has no fixed version.",
        "It may be another one tomorrow, without a change of the inventory. Name a version or a digest.",
    ),
    warning(
        "rbac-off",
        "A patch turns off role-based access control of the Talos API.",
        "Every client certificate can then do everything. Remove `machine.features.rbac: false`.",
    ),
    warning(
        "retired-addon",
        "An add-on is no longer maintained.",
        "Nobody mends its faults. The message names what is used instead.",
    ),
    warning(
        "forced-addon",
        "An add-on takes over fields that other managers own (`force: true`).",
        "Both will change them in turn. Remove `force` once the fields are taken over.",
    ),
    warning(
        "secret-in-values",
        "A secret probably stands in the values of an add-on.",
        "An inventory is shared and kept in version control. Name it under `secrets`, and change it, as it may have been seen.",
    ),
    note(
        "plain-outputs",
        "kubeconfig, talosconfig and machine configs are written unencrypted.",
        "Only their owner can read them, but a backup or a copy of the folder has administrator access. Use `outputs: encrypted`.",
    ),
    note(
        "unencrypted-secret-file",
        "A secret is read from a file that is not encrypted.",
        "Encrypt it for the key of the store (docs/secrets.md), or keep it in the environment or a Vault.",
    ),
    note(
        "unpinned-image",
        "The Talos image is accepted as the Image Factory first gives it.",
        "Its SHA-256 is remembered from the first download on. Set `talos.imageSha256` to accept no other from the beginning.",
    ),
    note(
        "unverified-volume",
        "The boot image is a volume that is on a storage already; its content is not verified.",
        "Whoever can write to the storage chooses what the nodes run. Leave `boot.iso` or `boot.image` out to have it downloaded and \
         compared with its SHA-256.",
    ),
    note(
        "unprotected",
        "A production cluster can be destroyed.",
        "Set `protect: true`: `destroy` and `node remove` are then refused.",
    ),
    note(
        "unencrypted-disks",
        "Talos's own partitions are not encrypted on every node.",
        "A copy of a VM's disk, such as a backup, has the node's keys. Declare `machine.encryption` with a TPM or a KMS.",
    ),
    note(
        "node-id-encryption",
        "A partition is encrypted with a key that follows from the node's UUID.",
        "Whoever can read the VM's settings can open its disk. Use a TPM or a KMS.",
    ),
    note(
        "public-discovery",
        "Nodes find each other through the public discovery service.",
        "It gets encrypted addresses of the nodes. Use `kubernetes: {discovery: false}` or a `discoveryService` of your own.",
    ),
    note(
        "no-ingress-firewall",
        "No patch declares Talos's ingress firewall.",
        "Whether Proxmox filters cannot be seen in an inventory. `daedal proxmox firewall` sets its rules; a patch with \
         `kind: NetworkDefaultActionConfig` sets those of Talos.",
    ),
    note(
        "root-ssh",
        "The way to the nodes is an SSH login as root.",
        "Port forwarding needs no privileges: use a user of its own.",
    ),
    warning(
        "addon-incomplete",
        "An add-on lacks something that it needs to work well.",
        "The message says what.",
    ),
    warning(
        "endpoint",
        "The API server has no address that outlives the first control plane.",
        "Set `network.vip`.",
    ),
    warning(
        "port",
        "The endpoint of Proxmox says no port.",
        "Without one it is 443; Proxmox itself listens on 8006.",
    ),
    warning(
        "missing-file",
        "A file that the inventory names does not exist yet.",
        "Put it there before the next plan.",
    ),
    warning(
        "machine-config",
        "A machine config is probably not as meant, or is not accepted by Talos.",
        "The message names the setting or the patch.",
    ),
];

/// What an inventory cannot be used with.
pub(crate) const ERRORS: &[Rule] = &[
    error("addon", "An add-on is declared wrongly."),
    error("address", "An address is wrong, taken, or outside its network."),
    error("base", "An inventory that another one is based on cannot be used."),
    error("bond", "A bond cannot be made as declared."),
    error("boot", "The boot path does not go together with other settings."),
    error("cni", "The network plugin does not go together with other settings."),
    error("control-planes", "The control planes cannot keep a quorum as declared."),
    error("count", "A pool's number of nodes is wrong."),
    error("cpu", "A CPU setting is wrong."),
    error("digest", "A digest is wrong."),
    error("discovery", "The discovery of members is declared wrongly."),
    error("disk", "A disk is declared wrongly."),
    error("document", "The file is not one inventory."),
    error("encryption", "Disk encryption is declared wrongly."),
    error("extension", "A system extension is unknown or named twice."),
    error("extension-service", "The configuration of an extension service is wrong."),
    error("firmware", "Firmware settings do not go together."),
    error("hardware", "A hardware setting is wrong."),
    error("hcl", "A file of Terraform variables cannot be read."),
    error("hosts", "The Proxmox hosts are declared wrongly."),
    error("install-disk", "The install disk is declared wrongly."),
    error("internal", "The inventory could not be read because of a defect of Daedal."),
    error("kernel-args", "A kernel argument is wrong."),
    error("kubernetes-version", "The Kubernetes version is not supported."),
    error("kubespan", "KubeSpan does not go together with other settings."),
    error("lint", "A finding that is to be ignored is unknown or an error."),
    error("literal-secret", "A secret stands in the inventory itself."),
    error("mac", "A MAC address is wrong."),
    error("machine", "A machine setting is wrong."),
    error("meta", "A META value is wrong."),
    error("missing", "A required key is missing."),
    error(MISSING_SECRET, "A secret is not where the inventory says."),
    error("name", "A name is not allowed."),
    error("network", "The network is declared wrongly."),
    error("not-carried", "A value of another tool's file has no place in an inventory."),
    error("not-checked", "The inventory could not be checked at all."),
    error("not-yet", "A key is not supported yet."),
    error("one-of", "Of several keys exactly one must be given."),
    error("out-of-range", "A number is too large or too small."),
    error("outputs", "The output files are declared wrongly."),
    error("patch", "A patch cannot be read or applied."),
    error("pin", "A node is pinned to a host that it cannot be on."),
    error("pools", "The pools are declared wrongly."),
    error("reach", "The way to the nodes is declared wrongly."),
    error("registry", "A registry is declared wrongly."),
    error("route", "A route is wrong."),
    error("secret", "A reference to a secret is wrong."),
    error("size", "A size is wrong."),
    error("store", "The store is declared wrongly."),
    error("tag", "A tag is not allowed."),
    error("tls", "The trust in a certificate is declared wrongly."),
    error("token", "A token's id is wrong."),
    error("tpm", "A TPM is declared wrongly."),
    error("uid", "The identity is not a UUID."),
    error("unknown-key", "A key is unknown."),
    error("unknown-shape", "A file of another tool is of no known kind."),
    error("unknown-value", "A value is not one of those that are allowed."),
    error("url", "A URL is wrong."),
    error("version", "A version is wrong or not supported."),
    error("vlan", "A VLAN is declared wrongly."),
    error("vmid", "A VMID is wrong or taken."),
    error("volume", "A volume is declared wrongly."),
    error("wrong-type", "A value is of the wrong type."),
    error("yaml", "The file is not YAML."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn ids_are_unique_and_told_in_sentences() {
        let ids: BTreeSet<&str> = rules().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), rules().count());
        for rule in rules() {
            assert!(rule.about.ends_with('.'), "{rule:?}");
            assert_eq!(rule.help.is_empty(), rule.severity == Severity::Error, "{rule:?}");
        }
    }

    /// The sources of the crate, as text.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn every_code_of_a_finding_is_a_rule() {
        let mut text = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
        let mut seen = BTreeSet::new();
        for call in ["Finding::error(", "cx.error(", "cx.warn(", "cx.take(", "cx.take_key(", ".found("] {
            for (_, after) in text.match_indices(call).map(|(at, _)| text.split_at(at + call.len())) {
                let Some(code) = after.trim_start().strip_prefix('"') else { continue };
                let code = code.split('"').next().unwrap_or_default();
                // This test has the calls as texts.
                if !code.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                    continue;
                }
                assert!(rule(code).is_some(), "`{code}` is in no table of rules");
                seen.insert(code.to_owned());
            }
        }
        assert!(seen.len() > 50, "{seen:?}");
    }
}
