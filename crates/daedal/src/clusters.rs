//! Which of the given inventories a command is about: one, one by its name, or all.

use std::path::PathBuf;

use daedal_app::{Found, Overlap, Overlapping, USUAL, inventories, overlaps};
use daedal_inventory::Cluster;

use crate::cli::Target;
use crate::documents;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The inventory that a command is about.
pub fn one(target: &Target) -> Outcome<PathBuf> {
    let given = given(target, target.cluster.is_some());
    match (&target.cluster, &given[..]) {
        (None, [path]) if !path.is_dir() || path.join(USUAL).is_file() => Ok(path.clone()),
        (None, _) => {
            let mut found = found(&given)?;
            match found.len() {
                // That there is none is said by whoever reads it.
                0 => Ok(given.first().cloned().unwrap_or_else(|| USUAL.into())),
                1 => Ok(found.remove(0).path),
                n => Err(Failure::new(
                    Exit::Usage,
                    format!("{n} clusters are declared, and this command works on one"),
                )
                .hint(format!("Name it with --cluster NAME: {}", names(&found)))),
            }
        }
        (Some(name), _) => named(name, found(&given)?),
    }
}

/// Every cluster that is declared in the given inventories, each with the target that is about it alone.
pub fn all(target: &Target) -> Outcome<Vec<(String, Target)>> {
    let given = given(target, true);
    let found = found(&given)?;
    if found.is_empty() {
        let given: Vec<String> = given.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::new(Exit::NoInput, format!("no cluster is declared in {}", given.join(", ")))
            .hint("Name inventories, or folders of them, with -f."));
    }
    let mut all: Vec<(String, Target)> = Vec::new();
    for Found { path, name } in found {
        let name = name.unwrap_or_else(|| path.display().to_string());
        if let Some((_, other)) = all.iter().find(|(other, _)| *other == name) {
            let (one, other) = (other.inventory(), path.display());
            let message = format!("{} and {other} both declare the cluster {name}", one.display());
            return Err(Failure::new(Exit::BadDocument, message)
                .hint("Clusters that are worked on together need names of their own."));
        }
        all.push((name, Target { files: vec![path], cluster: None, ..target.clone() }));
    }
    if all.len() > 1 {
        own_stores(target)?;
        do_not_overlap(&all)?;
    }
    Ok(all)
}

/// The names of all clusters that are declared in the given inventories.
pub fn declared(target: &Target) -> Vec<String> {
    let found = found(&given(target, true)).unwrap_or_default();
    found.into_iter().filter_map(|one| one.name).collect()
}

/// Refuses clusters that claim the same of one Proxmox. What cannot be read is told by the command itself.
fn do_not_overlap(all: &[(String, Target)]) -> Outcome<()> {
    let read = all.iter().filter_map(|(_, target)| documents::declared(target).ok());
    let declared: Vec<Cluster> = read.collect();
    let overlaps = overlaps(&declared);
    if overlaps.is_empty() {
        return Ok(());
    }
    let causes = overlaps.iter().map(|Overlap { clusters: [one, other], what }| match what {
        Overlapping::Uid => format!("{one} and {other} have the same metadata.uid"),
        Overlapping::Vmid(vmid) => format!("{one} and {other} both declare VMID {vmid}"),
        Overlapping::Address(address) => format!("{one} and {other} both declare the address {address}"),
    });
    let failure = Failure::new(Exit::BadDocument, "the clusters overlap on one Proxmox; nothing was done");
    Err(Failure { causes: causes.collect(), ..failure })
}

/// A store is one cluster's.
fn own_stores(target: &Target) -> Outcome<()> {
    match &target.state {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            Exit::Usage,
            "--state names the store of one cluster, but --all works on several",
        )
        .hint("Leave it out: each store is beside its inventory.")),
    }
}

/// The paths that were given; else the current folder, if one of its clusters is to be found.
fn given(target: &Target, searched: bool) -> Vec<PathBuf> {
    match (target.files.is_empty(), searched) {
        (true, true) => vec![PathBuf::from(".")],
        (true, false) => vec![PathBuf::from(USUAL)],
        (false, _) => target.files.clone(),
    }
}

fn named(name: &str, found: Vec<Found>) -> Outcome<PathBuf> {
    let known = names(&found);
    let mut of_name = found.into_iter().filter(|one| one.name.as_deref() == Some(name));
    match (of_name.next(), of_name.next()) {
        (Some(one), None) => Ok(one.path),
        (None, _) => Err(Failure::new(Exit::NoInput, format!("no cluster called {name} is declared"))
            .hint(format!("Declared: {known}"))),
        (Some(one), Some(other)) => {
            let (one, other) = (one.path.display(), other.path.display());
            Err(Failure::new(Exit::BadDocument, format!("{one} and {other} both declare the cluster {name}"))
                .hint("Name one of them with -f."))
        }
    }
}

fn names(found: &[Found]) -> String {
    let shown = |one: &Found| one.name.clone().unwrap_or_else(|| one.path.display().to_string());
    match found.is_empty() {
        true => "none".to_owned(),
        false => found.iter().map(shown).collect::<Vec<_>>().join(", "),
    }
}

/// The inventories among the given paths.
fn found(given: &[PathBuf]) -> Outcome<Vec<Found>> {
    let mut all = Vec::new();
    for path in given {
        let found = inventories(path, &documents::bytes).map_err(|error| {
            Failure::new(Exit::NoInput, format!("cannot read the folder {}", path.display())).because(&error)
        });
        all.extend(found?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn target(words: &[&str]) -> Target {
        let cli = Cli::try_parse_from(["daedal", "status"].iter().chain(words)).unwrap();
        match cli.command {
            Command::Status { target, .. } => target,
            _ => unreachable!(),
        }
    }

    fn declare(folder: &Path, file: &str, name: &str) {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("kind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n")).unwrap();
    }

    #[test]
    fn clusters_are_found_in_files_folders_and_folders_of_folders() {
        let folder = tempfile::tempdir().unwrap();
        declare(folder.path(), "home.yaml", "home");
        declare(folder.path(), "prod/cluster.yaml", "prod");
        declare(folder.path(), "prod/patches/cluster.yaml", "deep");
        std::fs::write(folder.path().join("values.yaml"), "kind: ConfigMap\n").unwrap();
        let all = folder.path().to_str().unwrap();
        let named: Vec<String> =
            super::all(&target(&["-f", all])).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(named, ["home", "prod"]);
        assert_eq!(
            one(&target(&["-f", all, "--cluster", "prod"])).unwrap(),
            folder.path().join("prod/cluster.yaml")
        );
        let failure = one(&target(&["-f", all])).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.hints[0].ends_with("home, prod"), "{failure:?}");
        let failure = one(&target(&["-f", all, "--cluster", "other"])).unwrap_err();
        assert_eq!(failure.exit, Exit::NoInput);
        // Where a folder has the usual one, that is meant.
        let prod = folder.path().join("prod");
        assert_eq!(one(&target(&["-f", prod.to_str().unwrap()])).unwrap(), prod);
    }

    #[test]
    fn two_inventories_of_one_name_are_not_worked_on_together() {
        let folder = tempfile::tempdir().unwrap();
        declare(folder.path(), "a.yaml", "home");
        declare(folder.path(), "b.yaml", "home");
        let all = folder.path().to_str().unwrap();
        assert_eq!(super::all(&target(&["-f", all])).unwrap_err().exit, Exit::BadDocument);
        assert_eq!(one(&target(&["-f", all, "--cluster", "home"])).unwrap_err().exit, Exit::BadDocument);
    }
}
