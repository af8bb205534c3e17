//! Releases are made of a stand-in for the binary, and everything in them is compared with what Cargo and the project say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

/// A target whose binaries nobody looks into: a script stands for the program.
const TARGET: &str = "aarch64-apple-darwin";

fn stand_in(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let script = "#!/bin/sh\ncase $1 in completions) echo \"for $2\";; man) mkdir -p \"$3\"; echo page > \"$3/daedal.1\";; esac\n";
    let file = folder.join("daedal");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_release_has_all_that_it_should_and_the_same_bytes_twice() {
    let folder = std::env::temp_dir().join(format!("daedal-dist-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let make = |to: &str| {
        let options = Options {
            target: Some(TARGET.to_owned()),
            binary: Some(stand_in(&folder)),
            runnable: None,
            to: Some(folder.join(to)),
        };
        let made = super::make(&options).unwrap();
        made.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    let first = make("one");
    assert_eq!(first, make("two"));
    let [archive, sbom, sums] = &first[..] else { panic!("{}", first.len()) };

    let mut tar = Vec::new();
    GzDecoder::new(&archive[..]).read_to_end(&mut tar).unwrap();
    let mut inside = tar::Archive::new(&tar[..]);
    let names: BTreeSet<String> =
        inside.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
    for file in [
        "daedal",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "THIRD-PARTY.txt",
        "daedal.cdx.json",
        "completions/daedal.bash",
        "completions/_daedal",
        "completions/daedal.fish",
        "man/daedal.1",
    ] {
        let name = format!("daedal-{VERSION}-{TARGET}/{file}");
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let name = format!("daedal-{VERSION}-{TARGET}");
    let listed = format!("{}  {name}.cdx.json\n{}  {name}.tar.gz\n", sha256(sbom), sha256(archive));
    assert_eq!(String::from_utf8_lossy(sums), listed);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_lists_name_what_is_compiled_in_and_nothing_else() {
    let packages = packages::shipped("x86_64-unknown-linux-gnu").unwrap();
    assert_eq!(packages[0].name, "daedal");
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for compiled in ["daedal-engine", "tokio", "rustls", "ring", "clap"] {
        assert!(names.contains(compiled), "{compiled}");
    }
    for not in ["xtask", "proptest", "insta", "tempfile", "windows-sys"] {
        assert!(!names.contains(not), "{not} is not in the binary");
    }
    assert!(packages.iter().all(|package| package.foreign == package.checksum.is_some()));
    let licences = packages::licences(&packages).unwrap();
    assert!(
        licences.contains("\nring ") && licences.contains("Permission is hereby granted"),
        "{licences:.500}"
    );

    let sbom = sbom::document(&packages, VERSION);
    assert_eq!((sbom["bomFormat"].as_str(), sbom["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    let components = sbom["components"].as_array().unwrap();
    assert_eq!(components.len() + 1, packages.len());
    // Every reference leads to a component.
    let refs: BTreeSet<&str> = (components.iter().chain([&sbom["metadata"]["component"]]))
        .map(|one| one["bom-ref"].as_str().unwrap())
        .collect();
    assert_eq!(refs.len(), packages.len());
    for dependency in sbom["dependencies"].as_array().unwrap() {
        assert!(refs.contains(dependency["ref"].as_str().unwrap()));
        let on = dependency["dependsOn"].as_array().unwrap();
        assert!(on.iter().all(|one| refs.contains(one.as_str().unwrap())), "{dependency}");
    }
}

/// The release workflow builds the four targets with chores that are there.
#[test]
fn the_release_workflow_calls_what_is_there() {
    let text = fs::read_to_string(crate::root().join(".github/workflows/release.yml")).unwrap();
    for target in [
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
    ] {
        assert!(text.contains(target), "{target}");
    }
    let chores: Vec<Vec<&str>> = (text.lines())
        .filter_map(|line| line.split_once("cargo xtask "))
        .map(|(_, words)| words.split_whitespace().collect())
        .collect();
    assert_eq!(chores.len(), 2, "{chores:?}");
    for chore in chores {
        let args: Vec<String> = chore[1..].iter().map(|word| (*word).to_owned()).collect();
        match chore[0] {
            "dist" => assert!(super::parse(&args).is_some(), "{args:?}"),
            "image" => assert!(crate::image::understands(&args), "{args:?}"),
            other => panic!("no chore {other}"),
        }
    }
    // Nothing that others could move, and no more rights than needed.
    for line in text.lines().filter_map(|line| line.split_once("uses: ")) {
        let version = line.1.split('@').nth(1).unwrap().split_whitespace().next().unwrap();
        assert!(version.len() == 40 && version.chars().all(|c| c.is_ascii_hexdigit()), "{}", line.1);
    }
    let document: Vec<&str> = text.lines().collect();
    assert!(document.contains(&"permissions: {}"));
}
