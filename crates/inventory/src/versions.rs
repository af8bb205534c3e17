//! Which Kubernetes versions each Talos version supports, by the contracts that machine configs are made for.

use daedal_talos_config::Contract;
use semver::Version;

/// The lowest and highest Kubernetes 1.x that a Talos version supports, if the version is known.
pub fn kubernetes_range(talos: &Version) -> Option<(u64, u64)> {
    let known = |contract: &&Contract| talos.major == 1 && u64::from(contract.talos_minor) == talos.minor;
    Contract::all().iter().find(known).map(supported)
}

fn supported(contract: &Contract) -> (u64, u64) {
    (u64::from(*contract.kubernetes_minors.start()), u64::from(*contract.kubernetes_minors.end()))
}

/// The first and last Talos 1.x that are known.
pub(crate) fn talos_range() -> (u64, u64) {
    let minors = || Contract::all().iter().map(|contract| u64::from(contract.talos_minor));
    (minors().min().unwrap_or(0), minors().max().unwrap_or(0))
}

/// The Talos 1.x nearest to a given one that supports a Kubernetes version.
pub(crate) fn nearest_talos(kubernetes: &Version, talos: &Version) -> Option<u64> {
    let fits = |contract: &&Contract| {
        let (low, high) = supported(contract);
        kubernetes.major == 1 && (low..=high).contains(&kubernetes.minor)
    };
    let minors = Contract::all().iter().filter(fits).map(|contract| u64::from(contract.talos_minor));
    minors.min_by_key(|minor| minor.abs_diff(talos.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_have_no_gaps_and_move_one_minor_at_a_time() {
        for pair in Contract::all().windows(2) {
            let ((low, high), next) = (supported(&pair[0]), supported(&pair[1]));
            assert_eq!((pair[0].talos_minor + 1, low + 1, high + 1), (pair[1].talos_minor, next.0, next.1));
        }
        assert_eq!(kubernetes_range(&Version::new(1, 12, 7)), Some((30, 35)));
        assert_eq!(kubernetes_range(&Version::new(2, 12, 0)), None);
        assert_eq!(nearest_talos(&Version::new(1, 36, 1), &Version::new(1, 12, 0)), Some(13));
    }
}
