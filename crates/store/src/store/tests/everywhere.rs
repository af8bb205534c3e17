//! What holds wherever a store is kept.

use super::*;

/// Everything is copied to every other kind of place, opened and compared there; what is there and differs is not touched.
#[tokio::test(start_paused = true)]
async fn a_store_is_copied_to_every_backend() {
    let keys = tempfile::tempdir().unwrap();
    let keyring = Keyring::in_file(keys.path().join("key.txt"));
    keyring.make().unwrap();
    let over =
        |place: &crate::contract::Place| Store::over(place.backend.clone(), "home", UUID, keyring.clone());
    for from in all() {
        let old = over(&from);
        let secrets = SecretBytes::new(b"token: hunter2\n".to_vec());
        old.write_new_secrets(&secrets).await.unwrap();
        old.record_generation(7).await.unwrap();
        fs::write(&from.elsewhere, "snapshot").unwrap();
        old.keep_backup("a.db", &from.elsewhere, b"{}").await.unwrap();
        let journal = old.journal();
        journal.note(&entry("cp-1: creating the VM"));
        journal.close().await.unwrap();
        for to in all() {
            let new = over(&to);
            let locks = (old.lock(&owner("ada")).await.unwrap(), new.lock(&owner("ada")).await.unwrap());
            for _ in 0..2 {
                assert_eq!(old.copy_to(&new).await.unwrap().len(), 5, "{} to {}", from.name, to.name);
            }
            assert_eq!(new.secrets().await.unwrap().as_ref(), Some(&secrets));
            assert_eq!(new.generation::<u32>().await.unwrap(), Some(7));
            let place = new.backups().await.unwrap().remove(0).place;
            let snapshot = new.fetch_backup(&place, keys.path()).await.unwrap().unwrap();
            assert_eq!(fs::read_to_string(snapshot).unwrap(), "snapshot");
            let journals = [&old, &new].map(|store| store.backend.clone());
            let [ours, theirs] =
                journals.map(async |backend| backend.get("journal.jsonl").await.unwrap().unwrap().bytes);
            assert_eq!(ours.await, theirs.await);
            new.record_generation(8).await.unwrap();
            let refused = old.copy_to(&new).await;
            assert!(matches!(refused, Err(Error::Changed { .. })), "{refused:?}");
            assert_eq!(new.generation::<u32>().await.unwrap(), Some(8));
            locks.0.release().await.unwrap();
            locks.1.release().await.unwrap();
        }
    }
}

/// A blob that is cut or bent at any byte, behind any backend's back: an error, never data.
#[tokio::test(start_paused = true)]
async fn damage_at_every_byte_is_an_error_in_every_backend() {
    for place in all() {
        let keys = tempfile::tempdir().unwrap();
        let keyring = Keyring::in_file(keys.path().join("key.txt"));
        keyring.make().unwrap();
        let store = Store::over(place.backend.clone(), "home", UUID, keyring);
        let secrets = SecretBytes::new(b"id: one\n".to_vec());
        store.write_new_secrets(&secrets).await.unwrap();
        let first = place.backend.get(SECRETS).await.unwrap().unwrap();
        let (whole, mut version) = (first.bytes.expose().to_vec(), first.version);
        for at in 0..whole.len() - 1 {
            let mut bent = whole.clone();
            bent[at] ^= 0x20;
            for damaged in [&whole[..at], &bent] {
                version =
                    place.backend.put_if_unchanged(SECRETS, damaged, Some(&version), None).await.unwrap();
                let read = store.secrets().await;
                let detected = matches!(read, Err(Error::Damaged { .. } | Error::OtherKey { .. }));
                assert!(detected, "{}: at {at}: {read:?}", place.name);
            }
        }
        place.backend.put_if_unchanged(SECRETS, &whole, Some(&version), None).await.unwrap();
        assert_eq!(store.secrets().await.unwrap(), Some(secrets));
    }
}
