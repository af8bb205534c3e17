//! What is the folder's own: the files of earlier versions, their modes, and the lease in a file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::contract::owner;
use crate::lease::Lease;

fn held(acquired: Acquired) -> Box<dyn Lease> {
    match acquired {
        Acquired::Held(lease) => lease,
        Acquired::Busy(by) => panic!("{by:?} has it"),
    }
}

#[tokio::test]
async fn blobs_are_private_files_under_their_names() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path().join("home"));
    folder.put_if_unchanged("deep/a", b"x", None, None).await.unwrap();
    folder.append("log", b"line\n").await.unwrap();
    let _lease = held(folder.acquire(&owner("ada")).await.unwrap());
    let mode = |name: &str| fs::metadata(folder.locate(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("deep")), (0o700, 0o700));
    assert_eq!((mode("deep/a"), mode("log"), mode("lock")), (0o600, 0o600, 0o600));
    // Nothing else is there, not even what the moment of writing needs.
    let mut names: Vec<_> =
        fs::read_dir(folder.locate("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["deep", "lock", "log"]);
    assert!(folder.put_if_unchanged("lock", b"x", None, None).await.is_err(), "the lease is no blob");
}

/// The count of epochs outlives a release, a crash, and a version that knew of none.
#[tokio::test]
async fn the_epoch_goes_on_from_whatever_is_in_the_file() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path());
    let lock = root.path().join("lock");
    let epoch = async || {
        let lease = held(folder.acquire(&owner("ada")).await.unwrap());
        lease.fence().epoch
    };
    assert_eq!(epoch().await, 1);
    assert_eq!(fs::read_to_string(&lock).unwrap(), r#"{"epoch":1}"#, "nobody is named any more");
    assert_eq!(epoch().await, 2);
    let crashed = Fence { owner: owner("crashed"), epoch: 7 };
    fs::write(&lock, serde_json::to_vec(&crashed).unwrap()).unwrap();
    assert_eq!(epoch().await, 8);
    fs::write(&lock, serde_json::to_vec(&owner("before there were epochs")).unwrap()).unwrap();
    assert_eq!(epoch().await, 1);
    for junk in ["", "{", "\0\0\0"] {
        fs::write(&lock, junk).unwrap();
        assert_eq!(epoch().await, 1, "{junk:?}");
    }
}

/// Where the count was lost, the owner still tells two leases of the same epoch apart.
#[tokio::test]
async fn the_same_epoch_of_somebody_else_is_another_lease() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path());
    let first = held(folder.acquire(&owner("ada")).await.unwrap());
    fs::remove_file(root.path().join("lock")).unwrap();
    let second = held(folder.acquire(&owner("bob")).await.unwrap());
    assert_eq!(first.fence().epoch, second.fence().epoch);
    let late = folder.put_if_unchanged("a", b"x", None, Some(first.fence())).await;
    assert!(matches!(late, Err(Error::LeaseLost { .. })));
    folder.put_if_unchanged("a", b"x", None, Some(second.fence())).await.unwrap();
}

#[tokio::test]
async fn a_file_gives_turns_where_the_folder_cannot() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path());
    let turn = folder.turn_in_file().unwrap();
    let file = File::open(root.path().join(TURN)).unwrap();
    assert!(matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)));
    drop(turn);
    drop(folder.turn_in_file().unwrap());
    assert!(files::is_private(&root.path().join(TURN)));
    assert_eq!(folder.list("").unwrap(), [""; 0], "it is no blob");
}
