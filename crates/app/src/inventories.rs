//! Finds the inventories among files and folders, and the clusters that they declare.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use daedal_inventory::tidy;
use serde::Deserialize;

/// The inventory in a folder that stands for the folder.
pub const USUAL: &str = "cluster.yaml";

/// An inventory and the cluster that it declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// The cluster's name, as far as it can be read.
    pub name: Option<String>,
}

/// How a file is read.
pub type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The inventories at a path: the file itself; of a folder those in it, and the usual one of each folder in it, in order. What a
/// file that cannot be read declares is not known; whoever reads all of it says why.
pub fn inventories(path: &Path, read: Read<'_>) -> io::Result<Vec<Found>> {
    if !path.is_dir() {
        return Ok(vec![Found {
            name: head(path, read).and_then(|head| head.name()),
            path: path.to_owned(),
        }]);
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        match path.is_dir() {
            true => paths.extend(Some(path.join(USUAL)).filter(|path| path.is_file())),
            false if is_yaml => paths.push(path),
            false => {}
        }
    }
    paths.sort();
    let heads = paths.into_iter().filter_map(|path| Some((head(&path, read)?, path)));
    let heads: Vec<(Head, PathBuf)> = heads.filter(|(head, path)| head.is_inventory(path)).collect();
    // What only others are based on has no name, and is no cluster.
    let bases: BTreeSet<PathBuf> = heads.iter().flat_map(|(head, path)| head.bases(path)).collect();
    let is_cluster = |head: &Head, path: &Path| head.name().is_some() || !bases.contains(&tidy(path));
    Ok(heads
        .into_iter()
        .filter(|(head, path)| is_cluster(head, path))
        .map(|(head, path)| Found { name: head.name(), path })
        .collect())
}

/// What tells an inventory from other documents.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    base: Option<Bases>,
    /// Of a folder of `cluster.yaml` and `nodes.yaml`.
    cluster_name: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Bases {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
}

impl Head {
    fn name(&self) -> Option<String> {
        let own = self.metadata.as_ref().and_then(|metadata| metadata.name.clone());
        own.or_else(|| self.cluster_name.clone())
    }

    /// What is based on another inventory may leave its kind to that; a folder of several files has none.
    fn is_inventory(&self, path: &Path) -> bool {
        match &self.kind {
            Some(kind) => kind == "Cluster",
            None => {
                (self.cluster_name.is_some() && path.ends_with(USUAL))
                    || (self.base.is_some() && self.metadata.is_some())
            }
        }
    }

    /// The paths of what it is based on.
    fn bases(&self, path: &Path) -> Vec<PathBuf> {
        let named = match &self.base {
            Some(Bases::One(one)) => std::slice::from_ref(one),
            Some(Bases::Several(all)) => all,
            None => &[],
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        named.iter().map(|base| tidy(&folder.join(base))).collect()
    }
}

fn head(path: &Path, read: Read<'_>) -> Option<Head> {
    let text = String::from_utf8(read(path).ok()?).ok()?;
    yaml_serde::from_str(&text).ok()
}
