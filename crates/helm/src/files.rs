//! The chart files that templates may read through `.Files`.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::glob::Glob;

/// Files by their path in the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files(BTreeMap<Rc<str>, Rc<[u8]>>);

impl Files {
    pub(crate) fn new(files: impl IntoIterator<Item = (Rc<str>, Rc<[u8]>)>) -> Self {
        Files(files.into_iter().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Rc<[u8]>> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rc<str>, &Rc<[u8]>)> {
        self.0.iter()
    }

    /// The files whose path matches; a pattern that cannot be read matches all of them, as in Helm.
    pub(crate) fn glob(&self, pattern: &str) -> Files {
        match Glob::new(pattern) {
            Some(glob) => Files(
                self.0
                    .iter()
                    .filter(|(name, _)| glob.matches(name))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            ),
            None => self.clone(),
        }
    }
}
