//! What is compiled into the binary, as Cargo says it, and under which licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::{cargo, root};

/// One package that is compiled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression; none where only a file says it.
    pub licence: Option<String>,
    pub repository: Option<String>,
    /// SHA-256 of its archive on the registry; none for our own.
    pub checksum: Option<String>,
    /// Whether it is somebody else's.
    pub foreign: bool,
    /// What it uses, by name and version.
    pub uses: BTreeSet<(String, String)>,
    folder: PathBuf,
}

impl Package {
    /// What names it everywhere.
    pub fn purl(&self) -> String {
        purl(&self.name, &self.version)
    }
}

/// The URL of a package.
pub fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Everything that is compiled into the binary for a target, itself first.
pub fn shipped(target: &str) -> Result<Vec<Package>, String> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let output =
        command.current_dir(root()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata fails: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))
        .map_err(|error| format!("cannot read Cargo.lock: {error}"))?;
    read(&metadata, &checksums(&lock))
        .ok_or_else(|| "cargo metadata has another shape than expected".to_owned())
}

fn read(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Vec<Package>> {
    let by_id = |list: &Value| -> Option<BTreeMap<String, Value>> {
        let entries = list.as_array()?.iter().map(|one| Some((one["id"].as_str()?.to_owned(), one.clone())));
        entries.collect()
    };
    let packages = by_id(&metadata["packages"])?;
    let nodes = by_id(&metadata["resolve"]["nodes"])?;
    let first = packages.iter().find(|(_, package)| package["name"] == "daedal")?.0;
    let (mut reached, mut waiting) = (Vec::new(), vec![first.clone()]);
    let mut seen = BTreeSet::from([first.clone()]);
    while let Some(id) = waiting.pop() {
        let used = used(nodes.get(&id)?)?;
        for id in &used {
            if seen.insert(id.clone()) {
                waiting.push(id.clone());
            }
        }
        reached.push((id, used));
    }
    let named = |id: &String| {
        let package = packages.get(id)?;
        Some((package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned()))
    };
    let mut shipped = Vec::new();
    for (id, used) in reached {
        let package = packages.get(&id)?;
        let name = named(&id)?;
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        shipped.push(Package {
            licence: text("license").map(|licence| licence.replace('/', " OR ")),
            repository: text("repository"),
            checksum: checksums.get(&name).cloned(),
            foreign: package["source"].is_string(),
            uses: used.iter().map(named).collect::<Option<_>>()?,
            folder: PathBuf::from(package["manifest_path"].as_str()?).parent()?.to_owned(),
            name: name.0,
            version: name.1,
        });
    }
    shipped.sort_by(|a, b| {
        (a.name != "daedal", &a.name, &a.version).cmp(&(b.name != "daedal", &b.name, &b.version))
    });
    Some(shipped)
}

/// What a package is compiled with: neither what only builds it nor what only tests it.
fn used(node: &Value) -> Option<Vec<String>> {
    let normal = |dep: &&Value| {
        dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let used = node["deps"].as_array()?.iter().filter(normal);
    used.map(|dep| dep["pkg"].as_str().map(str::to_owned)).collect()
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]");
    let entry =
        |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    blocks.filter_map(entry).collect()
}

/// The licences of what is somebody else's: a list, then each text once with whose it is.
pub fn licences(packages: &[Package]) -> Result<String, String> {
    let foreign: Vec<&Package> = packages.iter().filter(|package| package.foreign).collect();
    let mut list = format!("daedal is made with the work of others: {} packages.\n\n", foreign.len());
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in foreign {
        let label = format!("{} {}", package.name, package.version);
        let files = texts_of(package)?;
        let licence = match &package.licence {
            Some(licence) => licence.as_str(),
            None if !files.is_empty() => "see its text below",
            None => return Err(format!("{label} says nothing of its licence")),
        };
        let place = package.repository.as_deref().unwrap_or("https://crates.io");
        list += &format!("{label}: {licence} ({place})\n");
        for text in files {
            texts.entry(text).or_default().insert(label.clone());
        }
    }
    let mut texts: Vec<(String, BTreeSet<String>)> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, whose) in texts {
        let whose = whose.into_iter().collect::<Vec<_>>().join(", ");
        list += &format!("\n{}\n{whose}\n\n{}\n", "=".repeat(80), text.trim_end());
    }
    Ok(list)
}

/// The texts of licences and notices in a package.
fn texts_of(package: &Package) -> Result<Vec<String>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", package.folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&package.folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let is_one = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|word| name.starts_with(word));
        if is_one && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let read = |path: PathBuf| fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\r', ""));
    files.into_iter().map(read).collect::<Result<_, _>>().map_err(cannot)
}
