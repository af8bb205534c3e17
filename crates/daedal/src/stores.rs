//! Opens the store that an inventory declares.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Dialer, Direct};
use daedal_inventory::{Cluster, S3Store, SecretsPlace, StorePlace};
use daedal_store::{
    Backend, Credentials, Keyring, Now, S3, SecretBytes, SopsFile, Store, Unopened, VaultBundle, VaultStore,
};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{state_beside, store_in, trust};
use crate::sops::AgeKeys;
use crate::{keys, secrets, vaults};

/// The store that the inventory declares: a folder beside it, or a server.
pub async fn declared(cluster: &Cluster, folder: &Path, ring: Keyring) -> Outcome<Store> {
    match &cluster.store {
        StorePlace::Folder => Ok(store_in(state_beside(folder, &cluster.name), cluster, ring)),
        StorePlace::S3(declared) => {
            let backend = bucket(declared, cluster, folder, &ring)?;
            Ok(Store::over(backend, &cluster.name, cluster.uuid.to_string(), ring))
        }
        StorePlace::Vault(place) => {
            let store = VaultStore {
                vault: vaults::client(&place.server, folder, &ring)?,
                mount: place.mount.clone(),
                prefix: place.prefix.clone(),
                lease: Duration::from_secs(place.lease_seconds.into()),
            };
            let backend = store.backend(&cluster.name, Arc::new(jiff::Timestamp::now));
            Ok(Store::over(backend, &cluster.name, cluster.uuid.to_string(), ring))
        }
    }
}

/// Stands for a declared store that cannot be opened here because something is missing: whatever needs it says what.
pub fn unopened(cluster: &Cluster, folder: &Path, ring: Keyring, failure: &Failure) -> Store {
    let place = match &cluster.store {
        StorePlace::Folder => state_beside(folder, &cluster.name),
        StorePlace::S3(declared) => {
            Path::new(&format!("s3://{}", declared.bucket)).join(&declared.prefix).join(&cluster.name)
        }
        StorePlace::Vault(place) => {
            Path::new(&format!("vault:{}", place.mount)).join(&place.prefix).join(&cluster.name)
        }
    };
    let why = [&[failure.message.clone()][..], &failure.causes[..]].concat().join(": ");
    let backend = Arc::new(Unopened::new(place, why));
    Store::over(backend, &cluster.name, cluster.uuid.to_string(), ring)
}

/// The same store with the secrets bundle where the inventory says.
pub fn with_bundle(store: Store, cluster: &Cluster, folder: &Path, ring: &Keyring) -> Outcome<Store> {
    match &cluster.secrets {
        SecretsPlace::Store => Ok(store),
        SecretsPlace::Sops(path) => {
            let now: Now = Arc::new(jiff::Timestamp::now);
            let identities = AgeKeys::find(ring)?.identities;
            Ok(store.with_bundle_in(SopsFile::new(secrets::resolve(path, folder), identities, now)))
        }
        SecretsPlace::Vault(bundle) => {
            let vault = vaults::client(&bundle.server, folder, ring)?;
            Ok(store.with_bundle_in_vault(VaultBundle::new(vault, bundle.path.clone())))
        }
    }
}

fn bucket(declared: &S3Store, cluster: &Cluster, folder: &Path, ring: &Keyring) -> Outcome<Arc<dyn Backend>> {
    let read = |reference, what| secrets::read(reference, what, folder, ring);
    let secret = |text: String| SecretBytes::new(text.into_bytes());
    let session_token = declared.session_token.as_ref();
    let credentials = Credentials {
        access_key_id: read(&declared.access_key_id, "the access key id of the store")?,
        secret_access_key: secret(read(&declared.secret_access_key, "the secret access key of the store")?),
        session_token: session_token
            .map(|token| read(token, "the session token of the store").map(secret))
            .transpose()?,
    };
    let endpoint = url::Url::parse(&declared.endpoint).map_err(|error| {
        Failure::new(Exit::BadDocument, format!("{} is not a URL", declared.endpoint)).because(&error)
    })?;
    let settings = S3 {
        endpoint,
        region: declared.region.clone(),
        bucket: declared.bucket.clone(),
        prefix: declared.prefix.clone(),
        credentials,
        lease: Duration::from_secs(declared.lease_seconds.into()),
    };
    let (dialer, now): (Dialer, Now) = (Arc::new(Direct), Arc::new(jiff::Timestamp::now));
    settings
        .backend(&cluster.name, dialer, &trust(&declared.tls, folder)?, now)
        .map_err(|error| keys::failure(&error, Exit::BadDocument))
}
