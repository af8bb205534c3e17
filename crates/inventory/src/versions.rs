//! Which Kubernetes versions each Talos version supports, as data.

use semver::Version;

/// Talos 1.x → lowest and highest Kubernetes 1.x.
const SUPPORT: &[(u64, u64, u64)] =
    &[(8, 26, 31), (9, 27, 32), (10, 28, 33), (11, 29, 34), (12, 30, 35), (13, 31, 36), (14, 32, 37)];

/// The lowest and highest Kubernetes 1.x that a Talos version supports, if the version is known.
pub fn kubernetes_range(talos: &Version) -> Option<(u64, u64)> {
    let row = SUPPORT.iter().find(|(minor, _, _)| talos.major == 1 && talos.minor == *minor)?;
    Some((row.1, row.2))
}

/// The first and last Talos 1.x that are known.
pub(crate) fn talos_range() -> (u64, u64) {
    let minors = SUPPORT.iter().map(|row| row.0);
    (minors.clone().min().unwrap_or(0), minors.max().unwrap_or(0))
}

/// The Talos 1.x nearest to a given one that supports a Kubernetes version.
pub(crate) fn nearest_talos(kubernetes: &Version, talos: &Version) -> Option<u64> {
    let fits = |(_, low, high): &&(u64, u64, u64)| {
        kubernetes.major == 1 && (*low..=*high).contains(&kubernetes.minor)
    };
    SUPPORT.iter().filter(fits).map(|row| row.0).min_by_key(|minor| minor.abs_diff(talos.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_gaps_and_moves_one_minor_at_a_time() {
        for pair in SUPPORT.windows(2) {
            assert_eq!((pair[0].0 + 1, pair[0].1 + 1, pair[0].2 + 1), pair[1]);
        }
        assert_eq!(kubernetes_range(&Version::new(1, 12, 7)), Some((30, 35)));
        assert_eq!(kubernetes_range(&Version::new(2, 12, 0)), None);
        assert_eq!(nearest_talos(&Version::new(1, 36, 1), &Version::new(1, 12, 0)), Some(13));
    }
}
