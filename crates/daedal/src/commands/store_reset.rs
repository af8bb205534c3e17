//! `daedal store reset`: an abandoned or damaged store is emptied, so that the cluster can begin with a new one.

use std::path::PathBuf;

use daedal_store::{Contents, Store};
use jiff::Timestamp;

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::words::count;
use crate::{advice, console, documents, keys, session};

/// Runs the command.
pub async fn run(target: &Target, confirm: Option<&str>, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let store = session::store(target, &inventory.folder, cluster).await?;
    let place = store.place().display().to_string();
    let failed = |error: daedal_store::Error| keys::store_failure(&error, Exit::CannotWrite);
    let found = store.contents().await.map_err(failed)?;
    // Whoever works on the cluster is told before anything is asked; a lock whose holder is dead ends here.
    let lock = match &found {
        Contents::Names(_) => Some(session::lock(&store, "store reset").await?),
        Contents::Damaged(_) => None,
    };
    let lost = match &found {
        Contents::Names(names) if names.is_empty() => {
            return told(
                format,
                &place,
                &[],
                None,
                &format!("Nothing is kept in {place}, and nobody has its lock."),
            );
        }
        Contents::Names(names) => count(names.len(), "object"),
        Contents::Damaged(why) => {
            console::say(&format!("{why}."));
            "everything, which cannot be read,".to_owned()
        }
    };
    agreed(&cluster.name, &place, &lost, confirm)?;
    let folder = session::state_folder(target, &inventory.folder, &cluster.name);
    let copy = match &found {
        Contents::Names(_) => copy(&store, folder).await?,
        Contents::Damaged(_) => None,
    };
    store.mend().await.map_err(failed)?;
    let lock = match lock {
        Some(lock) => lock,
        None => session::lock(&store, "store reset").await?,
    };
    let removed = store.clear().await.map_err(failed)?;
    lock.release().await.map_err(failed)?;
    let bundle = match (&copy, store.secrets_elsewhere()) {
        (_, Some(place)) => format!("The secrets bundle is in {}, which was not touched.", place.display()),
        (Some(file), None) => format!(
            "A copy of the secrets bundle, encrypted as it was: {}\nTo go on with it: {}",
            file.display(),
            advice::here(&format!("secrets import {}", file.display()))
        ),
        (None, None) => format!(
            "There was no secrets bundle that could be read. To take it from a copy, or from the machine config of a control plane: {}",
            advice::here("secrets import FILE")
        ),
    };
    let text =
        format!("The store in {place} is empty: {} removed.\n{bundle}", count(removed.len(), "object"));
    told(format, &place, &removed, copy, &text)
}

/// Asks for the cluster's name.
fn agreed(cluster: &str, place: &str, lost: &str, confirm: Option<&str>) -> Outcome<()> {
    let given = match confirm {
        Some(name) => Some(name.to_owned()),
        None => console::ask(&format!(
            "This removes {lost} from {place}: pins, addresses, snapshots of etcd and the secrets bundle, of which a copy is kept if \
             it can be read. VMs are not touched.\nType the cluster's name ({cluster}) to remove it:"
        )),
    };
    match given.as_deref().map(str::trim) {
        Some(name) if name == cluster => Ok(()),
        Some(name) => {
            let text = format!("nothing was removed: the cluster is called {cluster}, not {name}");
            Err(Failure::new(Exit::Failed, text))
        }
        None => Err(Failure::new(Exit::Usage, "nothing was removed: there is no terminal to ask on")
            .hint(format!("Give --confirm {cluster}"))),
    }
}

/// Keeps a copy of the bundle on this machine, outside of the store.
async fn copy(store: &Store, folder: PathBuf) -> Outcome<Option<PathBuf>> {
    let failed = |error: daedal_store::Error| keys::store_failure(&error, Exit::CannotWrite);
    let Some(bytes) = store.sealed_secrets().await.map_err(failed)? else { return Ok(None) };
    daedal_store::make_private_folder(&folder).map_err(failed)?;
    let name = format!("secrets-until-{}.yaml.age", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    let file = folder.join(name);
    daedal_store::write_private(&file, &bytes).map_err(failed)?;
    Ok(Some(file))
}

fn told(format: Format, place: &str, removed: &[String], copy: Option<PathBuf>, text: &str) -> Outcome {
    match format {
        Format::Json => {
            let copy = copy.map(|file| file.display().to_string());
            console::json(&serde_json::json!({"store": place, "removed": removed, "copy": copy}));
        }
        Format::Text => console::answer(&format!("{text}\n")),
    }
    Ok(Exit::Done)
}
