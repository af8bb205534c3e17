//! From a spec to a world: what is missing is added, what is there stays as it is.

use std::collections::BTreeMap;

use daedal_dial::Target;

use super::access::{Access, AclEntry, Token, User};
use super::blob::Blob;
use super::property::print_size;
use super::rng::Rng;
use super::spec::{DatacenterSpec, Grant, HostSpec, ImageSpec, StorageSpec, VmSpec};
use super::state::{Broadcast, Host, Pool, Running, State, Storage, Store, Vm, Volume};
use super::tasks::Tasks;
use super::{Datacenter, server};
use crate::image::Format;
use crate::pki::{Pki, PkiError};

/// The port of the API.
pub(super) const PORT: u16 = 8006;

impl State {
    pub(super) fn empty(spec: &DatacenterSpec, now: i64) -> Self {
        let mut rng = Rng::new(spec.seed);
        let access = Access { ticket_key: rng.uuid(), ..Access::default() };
        Self {
            version: spec.version.clone(),
            hosts: BTreeMap::new(),
            first_host: String::new(),
            endpoints: Vec::new(),
            storages: BTreeMap::new(),
            stores: BTreeMap::new(),
            vms: BTreeMap::new(),
            pools: BTreeMap::new(),
            pool_of: BTreeMap::new(),
            access,
            tasks: Tasks::default(),
            rng,
            broadcast: Broadcast::default(),
            objects: Default::default(),
            realities: spec.realities.clone(),
            distrusted: Default::default(),
            now,
        }
    }

    fn add_host(&mut self, spec: &HostSpec, pki: &Pki) -> Result<(), PkiError> {
        if self.hosts.contains_key(&spec.name) {
            return Ok(());
        }
        if self.first_host.is_empty() {
            self.first_host.clone_from(&spec.name);
        }
        let next_pid = 900 + (self.rng.next() % 400) as u32;
        let leaf = pki.issue(&host_names(&spec.name, &spec.endpoints))?;
        let fingerprint = leaf.fingerprint()?;
        let host = Host {
            machine: spec.machine.clone(),
            cpus: spec.cpus,
            memory: spec.memory,
            bridges: spec.bridges.clone(),
            portless: spec.portless.iter().cloned().collect(),
            endpoints: spec.endpoints.clone(),
            booted: self.now - 1_600,
            online: true,
            next_pid,
            leaf,
            fingerprint,
        };
        self.hosts.insert(spec.name.clone(), host);
        Ok(())
    }

    fn add_storage(&mut self, host: &str, spec: &StorageSpec) {
        // Folders can hold what is to be imported since 8.3.
        let known = self.at_least(8, 3);
        let definition = self.storages.entry(spec.name.clone()).or_insert_with(|| Storage {
            kind: spec.kind.clone(),
            content: spec.content.iter().filter(|one| *one != "import" || known).cloned().collect(),
            shared: spec.shared,
            hosts: Default::default(),
            disabled: false,
        });
        definition.hosts.insert(host.to_owned());
        let key = if definition.shared { spec.name.clone() } else { format!("{host}/{}", spec.name) };
        self.stores.entry(key).or_insert_with(|| Store {
            total: spec.size,
            others: spec.used,
            ..Store::default()
        });
    }

    fn add_image(&mut self, host: &str, spec: &ImageSpec) {
        let Some((storage, name)) = spec.volume.split_once(':') else { return };
        let (format, content, extension) = match name.rsplit('.').next() {
            Some("iso") => (Format::Iso, "iso", "iso"),
            Some("qcow2") => (Format::Qcow2, "import", "qcow2"),
            _ => (Format::Raw, "import", "raw"),
        };
        let now = self.now;
        if let Ok(store) = self.store_mut(host, storage)
            && !store.volumes.contains_key(name)
        {
            let volume = Volume::file(content, extension, spec.system.encode(format), now);
            store.volumes.insert(name.to_owned(), volume);
        }
    }

    fn add_vm(&mut self, spec: &VmSpec) {
        if self.vms.contains_key(&spec.vmid) || !self.hosts.contains_key(&spec.host) {
            return;
        }
        let mut config = spec.config.clone();
        config.entry("smbios1".into()).or_insert_with(|| format!("uuid={}", self.rng.uuid()));
        config.entry("vmgenid".into()).or_insert_with(|| self.rng.uuid());
        config.entry("boot".into()).or_insert_with(|| "order=scsi0".into());
        if let Some((storage, size)) = &spec.disk {
            let path = self.storages.get(storage).is_some_and(Storage::has_path);
            let vmid = spec.vmid;
            let name =
                if path { format!("{vmid}/vm-{vmid}-disk-0.raw") } else { format!("vm-{vmid}-disk-0") };
            let volume = Volume {
                content: "images".into(),
                format: "raw".into(),
                size: *size,
                used: *size,
                vmid: Some(vmid),
                parent: None,
                created: self.now,
                bytes: Blob::default(),
                identity: self.rng.uuid(),
            };
            if let Ok(store) = self.store_mut(&spec.host, storage) {
                config.insert("scsi0".into(), format!("{storage}:{name},size={}", print_size(*size)));
                store.volumes.insert(name, volume);
            }
        }
        let pid = self.pid(&spec.host);
        let running = spec.running.then_some(Running { since: self.now, pid, inhabited: false });
        if let Some(pool) = &spec.pool {
            self.pools.entry(pool.clone()).or_default();
            self.pool_of.insert(spec.vmid, pool.clone());
        }
        self.vms.insert(spec.vmid, Vm { running, ..Vm::new(&spec.host, config) });
    }

    fn add_accounts(&mut self, spec: &DatacenterSpec) {
        self.access
            .users
            .entry("root@pam".into())
            .or_insert_with(|| User { enabled: true, ..User::default() });
        for user in &spec.users {
            let known = self.access.users.entry(user.id.clone()).or_default();
            known.enabled = true;
            known.password.clone_from(&user.password);
            self.add_grants(&user.grants, &[(user.id.as_str(), "user")]);
        }
        for token in &spec.tokens {
            let Some((user, name)) = token.id.split_once('!') else { continue };
            let known = self.access.users.entry(user.to_owned()).or_default();
            known.enabled = true;
            let made = Token {
                secret: token.secret.clone(),
                privsep: token.privilege_separation,
                expire: 0,
                comment: None,
            };
            known.tokens.insert(name.to_owned(), made);
            self.add_grants(&token.grants, &[(user, "user"), (token.id.as_str(), "token")]);
        }
    }

    fn add_grants(&mut self, grants: &[Grant], to: &[(&str, &str)]) {
        for grant in grants {
            let role = match &grant.role {
                Some(role) => role.clone(),
                None => {
                    let major = self.major();
                    let wanted = grant.privileges.iter();
                    let known = wanted.filter(|name| super::access::known_privilege(name, major)).cloned();
                    let known: std::collections::BTreeSet<String> = known.collect();
                    let holder = to.last().map_or("", |(ugid, _)| *ugid);
                    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
                    let name = format!("Lab-{}{}", plain(holder), plain(grant.path.trim_end_matches('/')));
                    self.access.roles.insert(name.clone(), known);
                    name
                }
            };
            for (ugid, kind) in to {
                let entry = AclEntry {
                    ugid: (*ugid).into(),
                    kind: (*kind).into(),
                    role: role.clone(),
                    propagate: true,
                };
                self.access.grant(&grant.path, entry);
            }
        }
    }
}

fn host_names(name: &str, endpoints: &[String]) -> Vec<String> {
    let mut names =
        vec![name.to_owned(), format!("{name}.lan"), "localhost".to_owned(), "127.0.0.1".to_owned()];
    for endpoint in endpoints {
        let host = target(endpoint).host;
        if !names.contains(&host) {
            names.push(host);
        }
    }
    names
}

/// An endpoint is a name or address, with a port if it is not the usual one.
fn target(endpoint: &str) -> Target {
    match endpoint.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            Target::new(host.trim_matches(['[', ']']), port.parse().unwrap_or(PORT))
        }
        _ => Target::new(endpoint.trim_matches(['[', ']']), PORT),
    }
}

impl Datacenter {
    /// Adds what the spec has and the datacenter has not; nothing that is there is changed.
    pub fn ensure(&self, spec: &DatacenterSpec) -> Result<(), PkiError> {
        self.with(|state| {
            for host in &spec.hosts {
                let mut wanted = host.clone();
                if state.first_host.is_empty() {
                    wanted.endpoints.extend(spec.endpoints.iter().cloned());
                }
                state.add_host(&wanted, &self.inner.around.pki)?;
                if let Some(known) = state.hosts.get_mut(&host.name) {
                    for bridge in &host.bridges {
                        if !known.bridges.contains(bridge) {
                            known.bridges.push(bridge.clone());
                        }
                    }
                }
                for storage in &host.storages {
                    state.add_storage(&host.name, storage);
                }
                for image in &spec.images {
                    state.add_image(&host.name, image);
                }
            }
            let first = state.first_host.clone();
            let pki = &self.inner.around.pki;
            for (name, extra) in spec
                .hosts
                .iter()
                .map(|host| (host.name.clone(), host.endpoints.clone()))
                .chain(std::iter::once((first, spec.endpoints.clone())))
            {
                let Some(host) = state.hosts.get_mut(&name) else { continue };
                let missing: Vec<_> = extra.into_iter().filter(|one| !host.endpoints.contains(one)).collect();
                if !missing.is_empty() {
                    host.endpoints.extend(missing);
                    host.leaf = pki.issue(&host_names(&name, &host.endpoints))?;
                    host.fingerprint = host.leaf.fingerprint()?;
                }
            }
            for pool in &spec.pools {
                state.pools.entry(pool.clone()).or_insert_with(Pool::default);
            }
            for vm in &spec.vms {
                state.add_vm(vm);
            }
            state.add_accounts(spec);
            Ok::<_, PkiError>(())
        })?;
        self.listen()
    }

    /// Makes every host answer on its names and addresses.
    pub(super) fn listen(&self) -> Result<(), PkiError> {
        let hosts = self.with(|state| {
            let all = state.hosts.iter();
            all.map(|(name, host)| (name.clone(), host.endpoints.clone(), host.leaf.clone()))
                .collect::<Vec<_>>()
        });
        for (name, endpoints, leaf) in hosts {
            let acceptor = server::acceptor(self, name.clone(), leaf.server_config(&[b"http/1.1"])?);
            for target in targets(&name, &endpoints) {
                self.inner.around.fabric.listen(target, acceptor.clone());
            }
        }
        Ok(())
    }

    pub(super) fn unlisten(&self) {
        let hosts = self.with(|state| {
            let all = state.hosts.iter();
            all.map(|(name, host)| (name.clone(), host.endpoints.clone())).collect::<Vec<_>>()
        });
        for (name, endpoints) in hosts {
            for target in targets(&name, &endpoints) {
                self.inner.around.fabric.close(&target);
            }
        }
    }
}

fn targets(name: &str, endpoints: &[String]) -> Vec<Target> {
    let own = [name.to_owned(), format!("{name}.lan")];
    own.iter().chain(endpoints).map(|endpoint| target(endpoint)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_may_have_a_port() {
        assert_eq!(target("atlas.lan"), Target::new("atlas.lan", 8006));
        assert_eq!(target("127.0.0.2:18006"), Target::new("127.0.0.2", 18006));
        assert_eq!(target("fd00::1"), Target::new("fd00::1", 8006));
        assert_eq!(target("[fd00::1]:443"), Target::new("fd00::1", 443));
    }
}
