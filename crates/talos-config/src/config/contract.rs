//! What differs between machine configs of Talos versions, as data.

use std::ops::RangeInclusive;

use crate::{Error, Result};

/// What a machine config for one minor version of Talos contains and supports.
#[derive(Debug, PartialEq, Eq)]
pub struct Contract {
    /// The `x` of Talos `v1.x`.
    pub talos_minor: u32,
    /// The `y`s of Kubernetes `v1.y` that this Talos runs.
    pub kubernetes_minors: RangeInclusive<u32>,
    /// Name, network, time and registries are documents of their own; before, they stood under `machine`.
    pub(crate) has_documents: bool,
    /// KubeSpan is a document of its own; before, it stood under `machine.network`.
    pub(crate) has_kubespan_document: bool,
    /// Kubernetes, discovery, installation, host DNS, kernel settings and modules are documents of their own.
    pub(crate) is_split: bool,
    /// `machine.network: {}` stands in the generated config.
    pub(crate) empty_machine_network: bool,
    /// `machine.install.grubUseUKICmdline: true` stands in the generated config.
    pub(crate) grub_uses_uki_cmdline: bool,
    /// What is the rule today had to be asked for: three features, the endpoint in the API server's certificate, no
    /// pod security policies.
    pub(crate) asks_for_todays_rules: bool,
    /// Search domains and mirrors without fallback can be set.
    pub(crate) has_search_domains_and_skip_fallback: bool,
    /// Cards of a bond are found by their permanent address, which does not change when they join it.
    pub(crate) selects_by_permanent_address: bool,
    /// There are volumes of one's own.
    pub(crate) has_user_volumes: bool,
    /// Encryption is a matter of volume documents; before, it stood under `machine.systemDiskEncryption`.
    pub(crate) has_volume_encryption: bool,
}

/// What every version since has, by the version that began it.
const fn contract(talos_minor: u32, kubernetes_minors: RangeInclusive<u32>) -> Contract {
    Contract {
        talos_minor,
        kubernetes_minors,
        has_documents: talos_minor >= 12,
        has_kubespan_document: talos_minor >= 13,
        is_split: talos_minor >= 14,
        empty_machine_network: talos_minor < 13,
        grub_uses_uki_cmdline: talos_minor == 12 || talos_minor == 13,
        asks_for_todays_rules: talos_minor < 12,
        has_search_domains_and_skip_fallback: talos_minor >= 9,
        selects_by_permanent_address: talos_minor >= 10,
        has_user_volumes: talos_minor >= 10,
        has_volume_encryption: talos_minor >= 11,
    }
}

static CONTRACTS: [Contract; 7] = [
    contract(8, 26..=31),
    contract(9, 27..=32),
    contract(10, 28..=33),
    contract(11, 29..=34),
    contract(12, 30..=35),
    contract(13, 31..=36),
    contract(14, 32..=37),
];

impl Contract {
    /// Every contract that configs can be generated for, oldest first.
    pub fn all() -> &'static [Self] {
        &CONTRACTS
    }

    /// The contract of a Talos version such as `v1.12.3`.
    pub fn of(talos_version: &str) -> Result<&'static Self> {
        let (major, minor) = major_minor(talos_version)
            .ok_or_else(|| Error::Version { product: "Talos", version: talos_version.into() })?;
        CONTRACTS
            .iter()
            .find(|contract| major == 1 && contract.talos_minor == minor)
            .ok_or_else(|| Error::Contract { version: talos_version.into() })
    }

    /// Whether this Talos runs a Kubernetes version such as `v1.35.0`.
    pub fn supports_kubernetes(&self, version: &str) -> Result<bool> {
        let (major, minor) = major_minor(version)
            .ok_or_else(|| Error::Version { product: "Kubernetes", version: version.into() })?;
        Ok(major == 1 && self.kubernetes_minors.contains(&minor))
    }
}

/// One release of Talos: its contract, and which patch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// What all releases of its minor version have in common.
    pub contract: &'static Contract,
    /// The `z` of `v1.y.z`.
    pub patch: u32,
}

impl Release {
    /// The release of this version, such as `v1.12.3`.
    pub fn of(talos_version: &str) -> Result<Self> {
        let contract = Contract::of(talos_version)?;
        let numbers = numbers(talos_version)
            .ok_or_else(|| Error::Version { product: "Talos", version: talos_version.into() })?;
        Ok(Self { contract, patch: numbers.2 })
    }

    /// The `x` of Talos `v1.x`.
    pub(crate) fn minor(self) -> u32 {
        self.contract.talos_minor
    }

    /// Whether it reads keys in PKCS #8, and has workers get certificates by authorities that are not of Ed25519.
    pub(crate) fn reads_every_key(self) -> bool {
        match self.minor() {
            10 => self.patch >= 3,
            minor => minor >= 11,
        }
    }

    /// Whether a name that is left to DHCP can be said by a `HostnameConfig` with nothing else in it.
    pub(crate) fn takes_hostname_off(self) -> bool {
        match self.minor() {
            12 => self.patch >= 9,
            13 => self.patch >= 3,
            minor => minor >= 14,
        }
    }
}

/// The first two numbers of `v1.12.3`, `1.12.3-rc.1` or `1.12.3+k`, if it is a full version.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    numbers(version).map(|(major, minor, _)| (major, minor))
}

/// All three numbers of a full version.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let number = |part: &str| {
        let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if plain { part.parse::<u32>().ok() } else { None }
    };
    let core = version.strip_prefix('v').unwrap_or(version);
    let core = core.split_once(['-', '+']).map_or(core, |(core, _)| core);
    let mut parts = core.split('.');
    let (major, minor, patch) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some((number(major)?, number(minor)?, number(patch)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_find_their_contract() {
        assert_eq!(Contract::of("v1.12.4").unwrap().talos_minor, 12);
        assert_eq!(Contract::of("1.13.0-rc.1").unwrap().talos_minor, 13);
        assert!(matches!(Contract::of("v1.7.0"), Err(Error::Contract { .. })));
        for wrong in ["", "v1", "v1.12", "v1.12.x", "1.12.4.5", "v1.+12.0", "latest"] {
            assert!(matches!(Contract::of(wrong), Err(Error::Version { .. })), "{wrong}");
        }
        assert_eq!(Release::of("1.13.3-rc.1").unwrap().patch, 3);
        let takes_off = |version| Release::of(version).unwrap().takes_hostname_off();
        assert_eq!(["v1.12.8", "v1.13.2", "v1.11.9"].map(takes_off), [false; 3]);
        assert_eq!(["v1.12.9", "v1.13.3", "v1.14.0"].map(takes_off), [true; 3]);
        assert!(Contract::of("v1.12.0").unwrap().supports_kubernetes("v1.35.0").unwrap());
        assert!(!Contract::of("v1.12.0").unwrap().supports_kubernetes("1.36.0").unwrap());
    }
}
