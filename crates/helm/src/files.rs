//! The chart files that templates may read through `.Files`.

use std::sync::Arc;

use crate::chart::File;
use crate::glob::Glob;

/// Files by their path in the chart; their content stays where the chart has it.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    all: Arc<[File]>,
    /// Which of them, by ascending path.
    chosen: Vec<usize>,
}

impl Files {
    pub(crate) fn new(all: Arc<[File]>) -> Self {
        let mut chosen: Vec<usize> = (0..all.len()).collect();
        // Of several files of one path the last counts.
        chosen.sort_by(|a, b| all[*a].name.cmp(&all[*b].name).then(b.cmp(a)));
        chosen.dedup_by(|a, b| all[*a].name == all[*b].name);
        Files { all, chosen }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.chosen.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let at = self.chosen.binary_search_by(|i| self.all[*i].name.as_str().cmp(name)).ok()?;
        Some(&self.all[self.chosen[at]].data)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.chosen.iter().map(|i| (self.all[*i].name.as_str(), self.all[*i].data.as_slice()))
    }

    /// The files whose path matches; a pattern that cannot be read matches all of them, as in Helm.
    pub(crate) fn glob(&self, pattern: &str) -> Files {
        let Some(glob) = Glob::new(pattern) else { return self.clone() };
        let matching = |i: &usize| glob.matches(&self.all[*i].name);
        Files { all: self.all.clone(), chosen: self.chosen.iter().copied().filter(matching).collect() }
    }
}

impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_file_of_a_path_counts() {
        let file = |name: &str, data: &str| File { name: name.into(), data: data.into() };
        let files = Files::new(Arc::new([file("b", "1"), file("a", "2"), file("b", "3")]));
        assert_eq!(files.iter().collect::<Vec<_>>(), [("a", &b"2"[..]), ("b", &b"3"[..])]);
        assert_eq!(files.get("b"), Some(&b"3"[..]));
        assert_eq!(files.get("c"), None);
        assert_eq!(files.glob("a*").len(), 1);
    }
}
