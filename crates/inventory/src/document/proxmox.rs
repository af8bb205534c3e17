//! The Proxmox part of the document: where, with which token, trusted how, and what of it may be used.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{SecretRef, Size, pattern};

/// Where the VMs live.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Proxmox {
    /// URL of the Proxmox API, such as `https://atlas.lan:8006`.
    #[schemars(example = "https://atlas.lan:8006")]
    #[schemars(regex(pattern = pattern::HTTPS_SERVER))]
    pub(crate) endpoint: String,
    /// The API token to use.
    pub(crate) token: Token,
    /// How Proxmox's certificate is trusted; by default by this machine's own roots.
    pub(crate) tls: Option<TlsTrust>,
    /// Proxmox nodes that may be used.
    pub(crate) hosts: Vec<Host>,
    /// Storages to use.
    pub(crate) storage: Storage,
    /// Bridge of the nodes' network card; `vmbr0` by default.
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) bridge: Option<String>,
    /// VLAN tag of the nodes' network card.
    #[schemars(range(min = 1, max = 4094))]
    pub(crate) vlan: Option<u16>,
    /// Proxmox resource pool to put the VMs in.
    pub(crate) pool: Option<String>,
    /// How many vCPUs may be promised per thread of a host; 4 by default.
    #[schemars(range(min = 0.1, max = 100.0))]
    pub(crate) cpu_overcommit: Option<f64>,
    /// How much of a thin storage may be promised to guests, as a multiple of its size; 1 by default.
    #[schemars(range(min = 0.1, max = 100.0))]
    pub(crate) disk_overcommit: Option<f64>,
    /// Memory kept free on every host for Proxmox itself; 1GiB by default.
    pub(crate) memory_reserve: Option<Size>,
}

/// An API token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Token {
    /// The token's id, `user@realm!name`.
    #[schemars(example = "daedal@pve!cli")]
    #[schemars(regex(pattern = pattern::TOKEN))]
    pub(crate) id: String,
    /// Where the token's secret is found. The secret itself never stands in an inventory.
    pub(crate) secret: SecretRef,
}

/// How a server's certificate is trusted: exactly one of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct TlsTrust {
    /// Path of a file with the CA certificate, relative to the inventory.
    #[schemars(extend("format" = "path"))]
    pub(crate) ca: Option<String>,
    /// SHA-256 fingerprint of the certificate; Proxmox shows its own under System → Certificates.
    #[schemars(regex(pattern = pattern::FINGERPRINT))]
    pub(crate) fingerprint: Option<String>,
    /// Do not verify the certificate at all. Every plan says so.
    pub(crate) insecure: Option<bool>,
}

/// A Proxmox node that may be used: its name, or its name and settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Host {
    /// Its name.
    Name(#[schemars(regex(pattern = pattern::PROXMOX_ID))] String),
    /// Its name and settings.
    Spec(HostSpec),
}

/// A Proxmox node with settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HostSpec {
    /// Its name in Proxmox.
    #[schemars(example = &"atlas")]
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) name: String,
    /// What this cluster may use of it at most. What it really has free is respected in any case.
    pub(crate) capacity: Option<Capacity>,
}

/// A declared capacity.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Capacity {
    /// vCPUs.
    #[schemars(range(min = 1))]
    pub(crate) cores: Option<u32>,
    /// Memory, such as `96GiB`.
    pub(crate) memory: Option<Size>,
    /// Disk space, such as `1TiB`.
    pub(crate) disk: Option<Size>,
}

/// Storages to use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Storage {
    /// For the VMs' disks (content type `images`).
    #[schemars(example = &"local-lvm")]
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) disks: String,
    /// For downloaded images and config media (content types `import` and `iso`).
    #[schemars(example = &"local")]
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) images: String,
    /// For templates, if it is another than that for disks (content type `images`); needs full clones.
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) templates: Option<String>,
    /// For cloud-init drives, if it is another than that for disks (content type `images`).
    #[schemars(regex(pattern = pattern::PROXMOX_ID))]
    pub(crate) cloud_init: Option<String>,
}
