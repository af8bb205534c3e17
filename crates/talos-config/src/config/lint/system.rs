//! Faults of what a machine is told beside its network and its disks: environment, files, who gets its events.

use super::{Findings, has_port, node::entries, text};
use crate::config::document::{DocumentId, MachineConfig};

/// Files and folders below /etc that Talos writes itself.
const OF_TALOS: [&str; 19] = [
    "resolv.conf",
    "hosts",
    "machine-id",
    "extensions.yaml",
    "localtime",
    "os-release",
    "xattr.conf",
    "apparmor.d/",
    "apparmor/",
    "ca-certificates/",
    "cni/",
    "cri/",
    "iscsi/",
    "kubernetes/",
    "lvm/",
    "nvme/",
    "pki/",
    "selinux/",
    "ssl/",
];

impl MachineConfig {
    pub(super) fn lint_system(&self, found: &mut Findings) {
        for kind in ["SysctlConfig", "SysfsConfig"] {
            for document in self.of_kind(kind) {
                if entries(document.get("params")).any(|(key, _)| key.is_empty()) {
                    found.error(kind, "sets something without a name");
                }
            }
        }
        for document in self.of_kind("EventSinkConfig") {
            if !has_port(text(Some(document), "endpoint")) {
                found.error("EventSinkConfig", "needs an endpoint of the form host:port");
            }
        }
        for (name, _) in self.of_kind("EnvironmentConfig").flat_map(|of| entries(of.get("variables"))) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(plain) {
                let message = format!("sets `{name}`; names are of letters, digits and `_`, no digit first");
                found.error("EnvironmentConfig", &message);
            }
        }
        for file in self.of_kind("EtcFileConfig") {
            let id = DocumentId::of(file);
            if !is_below(&id.name) {
                found.error(&id.to_string(), "needs a path below /etc as its name, such as nfsmount.conf");
            } else if is_of_talos(&id.name) {
                found.error(&id.to_string(), "is a file that Talos writes itself");
            }
        }
        for document in self.of_kind("CRICustomizationConfig") {
            let id = DocumentId::of(document);
            if id.name == "customization" {
                found.error(&id.to_string(), "has the name that Talos keeps for `machine.files`");
            }
        }
    }
}

/// Whether a path leads to somewhere below the folder that it begins in.
fn is_below(path: &str) -> bool {
    let mut depth = 0_i32;
    let stays = path.split('/').all(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth >= 0
    });
    stays && !path.is_empty() && !path.starts_with(['/', '.'])
}

fn is_of_talos(path: &str) -> bool {
    OF_TALOS
        .iter()
        .any(|known| path == known.trim_end_matches('/') || (known.ends_with('/') && path.starts_with(known)))
}
