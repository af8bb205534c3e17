//! From a declared cluster to a session: clients, engine, and the sites that clusters share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::{Routes, Trust};
use daedal_engine::{AddonFiles, Effects, Entropy, HostFiles, Limits, Parts, Site, SystemClock};
use daedal_image_factory::Factory;
use daedal_inventory::{Cluster, Reach};
use daedal_proxmox::{Client, Observer, Token};
use daedal_store::Store;

use crate::error::Error;
use crate::session::Session;

/// How Proxmox, the factory and the nodes are reached and trusted.
pub struct Access {
    /// The ways to them.
    pub routes: Routes,
    /// How Proxmox proves itself.
    pub proxmox_trust: Trust,
    /// How the factory proves itself.
    pub factory_trust: Trust,
    /// Where snippets are put, where there is a way.
    pub host_files: Option<Arc<dyn HostFiles>>,
    /// The secret of the declared token.
    pub token_secret: String,
    /// Where charts and manifests of add-ons come from.
    pub addons: Arc<dyn AddonFiles>,
    /// Parallelism and patience.
    pub limits: Limits,
    /// Whoever watches the calls to Proxmox.
    pub observer: Arc<dyn Observer>,
}

/// Where things of a cluster are kept, and by whom.
pub struct Keeping {
    /// Secrets and pins.
    pub store: Store,
    /// The folder for talosconfig, kubeconfig and the like.
    pub outputs: PathBuf,
    /// Who applies, as `user@host`.
    pub author: String,
    /// Where keys come from.
    pub seed: [u8; 32],
}

/// The sites that are worked on. Cheap to clone; all clones are the same.
///
/// Clusters whose inventories name the same endpoint are on one site, and share its limits. Those that log in alike as well share
/// the connections and the watch of the tasks.
#[derive(Clone, Default)]
pub struct Sites {
    known: Arc<Mutex<Vec<Known>>>,
}

struct Known {
    endpoint: String,
    site: Site,
    clients: Vec<(Login, Client)>,
}

/// What makes two clients the same.
#[derive(PartialEq, Eq)]
struct Login {
    token: Token,
    trust: Trust,
    reach: Reach,
}

impl std::fmt::Debug for Sites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sites")
    }
}

impl Sites {
    /// The site of a cluster, and the client that its login has there.
    fn of(&self, cluster: &Cluster, access: &Access) -> Result<(Site, Client), Error> {
        let proxmox = &cluster.proxmox;
        let login = Login {
            token: Token::new(&proxmox.token_id, access.token_secret.clone())?,
            trust: access.proxmox_trust.clone(),
            reach: cluster.reach.clone(),
        };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|known| known.endpoint == proxmox.endpoint).unwrap_or_else(|| {
            let (endpoint, site) = (proxmox.endpoint.clone(), Site::new(&access.limits));
            all.push(Known { endpoint, site, clients: Vec::new() });
            all.len() - 1
        });
        let Known { site, clients, .. } = &mut all[at];
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == login) {
            return Ok((site.clone(), client.clone()));
        }
        let client = Client::builder(&proxmox.endpoint, login.token.clone())
            .dialer(access.routes.proxmox.clone())
            .trust(access.proxmox_trust.clone())
            .observer(access.observer.clone())
            .build()?;
        clients.push((login, client.clone()));
        Ok((site.clone(), client))
    }
}

impl Session {
    /// A session of a declared cluster. Nothing is asked of anybody yet.
    pub fn connect(sites: &Sites, cluster: Cluster, access: Access, keeping: Keeping) -> Result<Self, Error> {
        let (site, proxmox) = sites.of(&cluster, &access)?;
        let Access { routes, factory_trust, limits, host_files, addons, .. } = access;
        let Keeping { store, outputs, author, seed } = keeping;
        let engine = site.engine(Parts {
            proxmox,
            factory: Factory::new(&cluster.talos.factory, routes.factory.clone(), &factory_trust)?,
            routes,
            host_files,
            store: store.clone(),
            outputs,
            author,
            clock: Arc::new(SystemClock),
            entropy: Entropy::from_seed(seed),
            new_secrets: Parts::generated_secrets(),
            effects: Effects::default(),
            addons,
            limits,
        });
        Ok(Self::new(cluster, engine, store))
    }
}

#[cfg(test)]
mod tests {
    use daedal_dial::Direct;
    use daedal_inventory::{Source, load};
    use daedal_proxmox::CallCounter;

    use super::*;

    fn cluster(endpoint: &str) -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let mut cluster = load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster;
        cluster.proxmox.endpoint = endpoint.to_owned();
        cluster
    }

    fn access(token_secret: &str) -> Access {
        Access {
            routes: Routes::same(Arc::new(Direct)),
            proxmox_trust: Trust::Insecure,
            factory_trust: Trust::Insecure,
            host_files: None,
            token_secret: token_secret.to_owned(),
            addons: Arc::new(daedal_engine::NoFiles),
            limits: Limits::default(),
            observer: Arc::new(CallCounter::new()),
        }
    }

    #[test]
    fn clusters_on_one_endpoint_share_a_site_and_those_that_log_in_alike_a_client() {
        let (sites, atlas) = (Sites::default(), cluster("https://atlas.lan:8006"));
        let (site, client) = sites.of(&atlas, &access("one")).unwrap();
        let (same, alike) = sites.of(&atlas, &access("one")).unwrap();
        assert!(same.is(&site) && alike.is(&client));
        let (same, other) = sites.of(&atlas, &access("two")).unwrap();
        assert!(same.is(&site) && !other.is(&client));
        let (elsewhere, other) = sites.of(&cluster("https://boreas.lan:8006"), &access("one")).unwrap();
        assert!(!elsewhere.is(&site) && !other.is(&client));
    }
}
