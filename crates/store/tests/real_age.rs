//! The real age beside ours: each opens what the other closed. Part of the second tier: `cargo xtask conformance age` finds it
//! and says where in `DAEDAL_AGE`; without it a line says what was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use daedal_store::{Keyring, SecretBytes, Store};

/// The real program, or none after saying that it was skipped.
fn age() -> Option<PathBuf> {
    let named = std::env::var_os("DAEDAL_AGE").map(PathBuf::from);
    if named.is_none() {
        println!("skipped: DAEDAL_AGE names no program");
    }
    named
}

/// Runs a program to its good end with something to read, and gives what it printed.
fn run(program: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Texts of every length that is anything special: around the armor's lines, the chunks of 64 KiB, and nothing at all.
fn texts() -> impl Iterator<Item = Vec<u8>> {
    let lengths = (0..70_usize).chain([127, 128, 1_000, 65_535, 65_536, 65_537, 200_000]);
    lengths.map(|length| (0..length).map(|index| ((index * 31 + length) % 251) as u8).collect())
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn real_age_and_ours_open_what_the_other_closed() {
    let Some(age) = age() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.txt");
    assert!(Keyring::in_file(&ours).make().unwrap());
    let theirs = folder.path().join("theirs.txt");
    let keygen = age.with_file_name("age-keygen");
    run(&keygen, &["-o", theirs.to_str().unwrap()], b"");
    let (mut cases, mut differences) = (0, 0);
    for key in [&ours, &theirs] {
        let (ring, path) = (Keyring::in_file(key), key.to_str().unwrap());
        let public = String::from_utf8(run(&keygen, &["-y", path], b"")).unwrap();
        assert_eq!(ring.public().unwrap(), public.trim());
        for text in texts() {
            let closed = ring.encrypt(&text).unwrap();
            differences += usize::from(run(&age, &["-d", "-i", path], &closed) != text);
            for armor in [&["-a"][..], &[]] {
                let closed = run(&age, &[armor, &["-e", "-r", public.trim()]].concat(), &text);
                let opened = ring.decrypt(Path::new("theirs"), &closed).unwrap();
                differences += usize::from(opened.expose() != text);
            }
            cases += 3;
        }
    }
    println!("conformance\tfiles that age and we close and open\t{cases}\t{differences}");
    assert_eq!(differences, 0);
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn real_age_opens_the_secrets_of_a_store() {
    let Some(age) = age() else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.txt");
    let store = Store::in_folder(folder.path(), "home", "c0ffee", Keyring::in_file(&key));
    assert!(store.ensure_key().await.unwrap());
    store.write_new_secrets(&SecretBytes::new(b"cluster:\n  id: x\n".to_vec())).await.unwrap();
    let closed = std::fs::read(store.place().join("secrets.yaml.age")).unwrap();
    let opened = String::from_utf8(run(&age, &["-d", "-i", key.to_str().unwrap()], &closed)).unwrap();
    // The seal is a comment: what is left for YAML is the bundle.
    assert!(opened.starts_with("# ") && opened.ends_with("\ncluster:\n  id: x\n"), "{opened}");
}
