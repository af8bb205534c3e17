//! Finds the lab that runs for a folder, or starts one as a process of its own, and makes its datacenter fit the inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use daedal_inventory::options::HostnameFrom;
use daedal_inventory::{Addon, AddonSource, Arch, BootConfig, Cluster, Host, Reach, Ssh, SshKey, SshServer};
use daedal_lab::proxmox::{DatacenterSpec, HostSpec, ImageSpec, StorageSpec, TokenSpec, UserSpec, VmSpec};
use daedal_lab::{Dhcp, Handle, HandleError, SystemImage, Wanted, files};

use crate::cli::LabOptions;
use crate::commands::lab_command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Folder inside the lab's in which the stores of its clusters are.
pub const CLUSTERS: &str = "clusters";

/// How long a lab may take to start: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What an image that somebody built was made of: nobody knows.
const SOMEBODYS_SCHEMATIC: &str = "abababababababababababababababababababababababababababababababab";

/// What a lab's process gets of our environment.
const KEPT: [&str; 6] = ["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"];

/// A running lab, and what is needed to use it.
pub struct Link {
    /// The proxy's loopback address.
    pub proxy: SocketAddr,
    /// The lab's CA.
    pub ca_pem: String,
    /// Secret of the lab's API token.
    pub token_secret: String,
    /// Its process.
    pub handle: Handle,
    /// Its folder.
    folder: PathBuf,
}

impl Link {
    /// The proxy as a URL that clients understand.
    pub fn proxy_url(&self) -> String {
        format!("http://{}", self.proxy)
    }
}

impl Link {
    /// The way to the lab's SSH server, as an inventory would declare it.
    pub fn by_ssh(&self) -> Reach {
        let file = |name: &str| std::path::absolute(self.folder.join(name)).unwrap_or_default();
        let Some(at) = self.handle.ssh() else { return Reach::Direct };
        Reach::Ssh(Box::new(Ssh {
            server: SshServer {
                host: at.ip().to_string(),
                port: Some(at.port()),
                user: Some("root".to_owned()),
                key: Some(SshKey::File(file(files::SSH_KEY))),
                ..SshServer::default()
            },
            jump: Some(Vec::new()),
            known_hosts: Some(file(files::SSH_KNOWN_HOSTS)),
            proxmox: false,
        }))
    }
}

/// The lab of a folder, started if none runs. A new world has what the inventory names; one that is there stays as it is.
pub async fn connect(options: &LabOptions, cluster: &Cluster) -> Outcome<Link> {
    reach(options, cluster, &[], false).await
}

/// The same for one of several clusters that are worked on together: a new world has what all of them name.
pub async fn connect_beside(options: &LabOptions, cluster: &Cluster, beside: &[Cluster]) -> Outcome<Link> {
    reach(options, cluster, beside, false).await
}

/// Adds to the lab of a folder what the inventory names and its world lacks.
pub async fn extend(options: &LabOptions, cluster: &Cluster) -> Outcome<Link> {
    reach(options, cluster, &[], true).await
}

async fn reach(options: &LabOptions, cluster: &Cluster, beside: &[Cluster], extend: bool) -> Outcome<Link> {
    let handle = match Handle::find(&options.lab_dir).await.map_err(|e| trouble(&e, &options.lab_dir))? {
        Some(handle) => handle,
        None => start(options).await?,
    };
    named_runner(options, &handle)?;
    let token_secret = handle.token_secret().map_err(|e| trouble(&e, &options.lab_dir))?;
    let wanted = Wanted {
        datacenter: datacenter(cluster, &token_secret),
        beside: beside.iter().map(|cluster| datacenter(cluster, &token_secret)).collect(),
        factories: vec![cluster.talos.factory.clone()],
        charts: chart_places(cluster),
        reservations: reservations(cluster),
        anywhere: anywhere(cluster),
        names: host_names(cluster),
        extend,
    };
    handle.ensure(&wanted).await.map_err(|e| unkept(options, e))?;
    let ca_pem = handle.ca_pem().map_err(|e| trouble(&e, &options.lab_dir))?;
    let folder = options.lab_dir.clone();
    Ok(Link { proxy: handle.proxy(), ca_pem, token_secret, handle, folder })
}

/// Makes sure that the lab's world is on disk as it is now.
pub async fn keep(handle: &Handle) -> Outcome<()> {
    handle.save().await.map_err(|error| match error {
        HandleError::Unkept { .. } => Failure::from_error(Exit::CannotWrite, &error).hint(
            "The lab goes on, but what it cannot write is lost when it ends. Free some space; then run the command again.",
        ),
        error => trouble(&error, handle.folder()),
    })
}

fn unkept(options: &LabOptions, error: HandleError) -> Failure {
    match error {
        HandleError::Unkept { .. } => Failure::from_error(Exit::CannotWrite, &error).hint(format!(
            "Nothing was done. Free some space where {} is; then run the command again.",
            options.lab_dir.display()
        )),
        error => trouble(&error, &options.lab_dir),
    }
}

/// Where the charts of add-ons are.
fn chart_places(cluster: &Cluster) -> Vec<String> {
    let place = |addon: &Addon| match &addon.source {
        AddonSource::Chart { repo, .. } => Some(repo.clone()),
        AddonSource::Local { .. } | AddonSource::Manifests(_) => None,
    };
    let places: BTreeSet<String> = cluster.addons.iter().filter_map(place).collect();
    places.into_iter().collect()
}

/// Whether nodes get their first address from the network.
fn asks(cluster: &Cluster) -> bool {
    cluster.boot.config == BootConfig::Maintenance || cluster.network.dhcp
}

/// Where a node gets its first address from the network, the lab's network gives it the declared one.
fn reservations(cluster: &Cluster) -> BTreeMap<String, ipnet::IpNet> {
    let asking = cluster.nodes.iter().filter(|_| asks(cluster));
    asking.filter_map(|node| Some((node.mac.clone(), node.address?))).collect()
}

/// Any that is free will do where none is declared.
fn anywhere(cluster: &Cluster) -> BTreeMap<String, ipnet::IpNet> {
    let asking = cluster.nodes.iter().filter(|node| asks(cluster) && node.address.is_none());
    asking.map(|node| (node.mac.clone(), cluster.network.cidr)).collect()
}

/// The host names that the lab's DHCP server gives: to nodes that leave it theirs to say, the name that they have here.
fn host_names(cluster: &Cluster) -> BTreeMap<String, String> {
    let told = cluster.nodes.iter().filter(|node| node.machine.hostname == Some(HostnameFrom::Dhcp));
    told.map(|node| (node.mac.clone(), node.name.clone())).collect()
}

/// The DHCP server of a lab for an inventory; none if its nodes need none.
pub fn dhcp(cluster: &Cluster) -> Option<Dhcp> {
    if !asks(cluster) {
        return None;
    }
    let mut dhcp = Dhcp::reserved(reservations(cluster));
    dhcp.names = host_names(cluster);
    anywhere(cluster).iter().for_each(|(mac, network)| dhcp.reserve_any(mac, *network));
    Some(dhcp)
}

/// What somebody put on a storage before the inventory named it.
fn images(cluster: &Cluster) -> Vec<ImageSpec> {
    let boot = &cluster.boot;
    let named =
        boot.iso.iter().map(|volume| (volume, true)).chain(boot.image.iter().map(|volume| (volume, false)));
    let image = |(volume, installer): (&String, bool)| ImageSpec {
        volume: volume.clone(),
        system: SystemImage {
            version: format!("v{}", cluster.talos.version),
            schematic: SOMEBODYS_SCHEMATIC.to_owned(),
            platform: "nocloud".to_owned(),
            arch: cluster.talos.arch.to_string(),
            extensions: cluster.talos.extensions.clone(),
            kernel_args: cluster.talos.kernel_args.clone(),
            installer,
            secure_boot: cluster.talos.secure_boot,
            meta: BTreeMap::new(),
        },
    };
    named.map(image).collect()
}

/// Why a lab cannot be used, and what helps.
pub fn trouble(error: &HandleError, folder: &Path) -> Failure {
    let hint = match error {
        HandleError::Distrusted { .. } => format!(
            "Delete the file if it is not yours. To delete the whole world: {}",
            lab_command(folder, "reset")
        ),
        _ => format!("The next --lab starts it again after: {}", lab_command(folder, "stop")),
    };
    Failure::from_error(Exit::Unavailable, error).hint(hint)
}

/// A command runs only if this very command line names it: neither a lab's folder nor a lab that runs chooses one.
fn named_runner(options: &LabOptions, lab: &Handle) -> Outcome<()> {
    let named = options.lab_runner.as_ref().and_then(|command| std::path::absolute(command).ok());
    match (lab.runner(), named.as_deref()) {
        (runs, named) if runs == named => Ok(()),
        (Some(runs), _) => {
            let runs = runs.display();
            let message = format!("the lab uses the runner {runs}, which this command line does not name");
            Err(Failure::new(Exit::Usage, message).hint(format!(
                "Add --lab-runner {runs}, or end that lab: {}",
                lab_command(&options.lab_dir, "stop")
            )))
        }
        (None, _) => {
            Err(Failure::new(Exit::Usage, "the running lab was started without --lab-runner").hint(format!(
                "A runner is chosen for a new world. To end this lab and delete its world: {}",
                lab_command(&options.lab_dir, "reset")
            )))
        }
    }
}

/// Starts a lab that outlives this process and waits until it answers.
async fn start(options: &LabOptions) -> Outcome<Handle> {
    use std::os::unix::process::CommandExt as _;
    let cannot = || Failure::new(Exit::Unavailable, "cannot start the lab");
    let program = std::env::current_exe().map_err(|e| cannot().because(&e))?;
    daedal_lab::make_folder(&options.lab_dir).map_err(|e| cannot().because(&e))?;
    let log_path = options.lab_dir.join(files::LOG);
    let mut log = daedal_lab::create_private(&log_path).map_err(|e| cannot().because(&e))?;
    // A disk without space is found here, where it can still be told.
    std::io::Write::write_all(&mut log, b"starting\n").map_err(|e| {
        cannot().because(&e).hint(format!("Free some space where {} is.", options.lab_dir.display()))
    })?;
    let runner = options.lab_runner.iter().flat_map(|runner| ["--lab-runner".as_ref(), runner.as_os_str()]);
    let mut child = Command::new(program);
    // A datacenter needs none of our secrets. A runner is a command of the user's own, and may need anything.
    if options.lab_runner.is_none() {
        child.env_clear().envs(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));
    }
    let mut child = child
        .args(["lab", "serve", "--idle", "10"])
        .arg("--lab-dir")
        .arg(&options.lab_dir)
        .args(["--lab-speed", &options.lab_speed.to_string()])
        .args(runner)
        .env_remove("DAEDAL_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // A group of its own: Ctrl-C here must not end the datacenter.
        .process_group(0)
        .spawn()
        .map_err(|e| cannot().because(&e))?;
    let began = Instant::now();
    loop {
        if let Some(handle) =
            Handle::find(&options.lab_dir).await.map_err(|e| trouble(&e, &options.lab_dir))?
        {
            return Ok(handle);
        }
        // Somebody else may have started one in the same moment; then ours ends, and theirs is found above.
        let ended = child.try_wait().ok().flatten().is_some() && !daedal_lab::is_held(&options.lab_dir);
        if ended || began.elapsed() > PATIENCE {
            let said = std::fs::read_to_string(&log_path).unwrap_or_default();
            let mut failure = cannot();
            failure.causes.extend(said.lines().skip(1).take(5).map(str::to_owned));
            return Err(failure.hint(format!("It wrote to {}", log_path.display())));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A datacenter on which the inventory fits: its hosts, storages, bridge and token, and a VM of somebody else.
pub fn datacenter(cluster: &Cluster, token_secret: &str) -> DatacenterSpec {
    let proxmox = &cluster.proxmox;
    let hosts = proxmox.hosts.iter().map(|host| lab_host(cluster, host)).collect();
    let foreign = proxmox.hosts.first().map(|host| somebody_elses(cluster, &host.name));
    DatacenterSpec {
        hosts,
        endpoints: endpoint(&proxmox.endpoint).into_iter().collect(),
        images: images(cluster),
        vms: foreign.into_iter().collect(),
        tokens: vec![match &proxmox.pool {
            Some(pool) => TokenSpec::in_pool(&proxmox.token_id, token_secret, pool),
            None => TokenSpec::minimal(&proxmox.token_id, token_secret),
        }],
        // Somebody must be able to log in, and there is but one secret to keep.
        users: vec![UserSpec {
            id: "root@pam".to_owned(),
            password: Some(token_secret.to_owned()),
            grants: Vec::new(),
        }],
        pools: proxmox.pool.iter().cloned().collect(),
        names: endpoint_name(cluster).into_iter().collect(),
        ..DatacenterSpec::default()
    }
}

/// The API server's declared name, where it is one, leads to the virtual address or the first control plane.
fn endpoint_name(cluster: &Cluster) -> Option<(String, String)> {
    let name = cluster.kubernetes.endpoint_host.as_ref()?;
    if name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let address =
        cluster.network.vip.or_else(|| cluster.nodes.first().and_then(daedal_inventory::Node::ip))?;
    Some((name.clone(), address.to_string()))
}

/// Big enough for an even share of the cluster and half as much again, and for what is pinned there.
fn lab_host(cluster: &Cluster, host: &Host) -> HostSpec {
    let hosts = cluster.proxmox.hosts.len().max(1) as u64;
    let pinned = |name: &str| cluster.placement.pin.get(name).is_some_and(|pin| *pin == host.name);
    let share = |of: fn(&daedal_inventory::Node) -> u64| {
        let all: u64 = cluster.nodes.iter().map(of).sum();
        let here: u64 = cluster.nodes.iter().filter(|n| pinned(&n.name)).map(of).sum();
        let largest = cluster.nodes.iter().map(of).max().unwrap_or(0);
        (all.div_ceil(hosts) + here).max(largest) * 3 / 2
    };
    let capacity = host.capacity.as_ref();
    let cores = share(|n| u64::from(n.cores)).max(capacity.and_then(|c| c.cores).map_or(0, u64::from));
    let memory = share(|n| n.memory).max(capacity.and_then(|c| c.memory).unwrap_or(0));
    let disk = share(|n| n.disk).max(capacity.and_then(|c| c.disk).unwrap_or(0));
    let proxmox = &cluster.proxmox;
    let mut storages = vec![StorageSpec::local(), StorageSpec::local_lvm()];
    for disks in proxmox.storages_of_disks() {
        add_content(&mut storages, disks, "zfspool", &["images"]);
    }
    add_content(&mut storages, &proxmox.images_storage, "dir", &["iso", "import"]);
    if cluster.boot.by_snippet() {
        add_content(&mut storages, &proxmox.images_storage, "dir", &["snippets"]);
    }
    for storage in storages.iter_mut().filter(|s| s.name == proxmox.disks_storage) {
        storage.size = storage.size.max(disk + (64 << 30));
    }
    let mut bridges = vec!["vmbr0".to_owned()];
    if !bridges.contains(&proxmox.bridge) {
        bridges.push(proxmox.bridge.clone());
    }
    HostSpec {
        name: host.name.clone(),
        machine: match cluster.talos.arch {
            Arch::Amd64 => "x86_64".to_owned(),
            Arch::Arm64 => "aarch64".to_owned(),
        },
        cpus: u32::try_from(cores.next_multiple_of(8)).unwrap_or(u32::MAX).max(16),
        memory: (memory + (16 << 30)).next_multiple_of(32 << 30).max(64 << 30),
        storages,
        bridges,
        portless: Vec::new(),
        endpoints: Vec::new(),
    }
}

/// Makes sure that a storage of this name takes this content.
fn add_content(storages: &mut Vec<StorageSpec>, name: &str, kind: &str, content: &[&str]) {
    match storages.iter_mut().find(|s| s.name == name) {
        Some(storage) => {
            for wanted in content {
                if !storage.content.iter().any(|c| c == wanted) {
                    storage.content.push((*wanted).to_owned());
                }
            }
        }
        None => storages.push(StorageSpec::new(name, kind, content, 800 << 30)),
    }
}

/// Every datacenter has a machine of somebody else in it; ours must never be mistaken for it.
fn somebody_elses(cluster: &Cluster, host: &str) -> VmSpec {
    let taken: Vec<u32> = cluster.nodes.iter().map(|n| n.vmid).collect();
    let vmid = (100..).find(|id| !taken.contains(id)).unwrap_or(100);
    let config = [("name", "nas"), ("cores", "2"), ("memory", "4096")];
    VmSpec {
        vmid,
        host: host.to_owned(),
        config: config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        disk: Some((cluster.proxmox.disks_storage.clone(), 32 << 30)),
        running: true,
        pool: None,
    }
}

/// Where the API is to answer: the host of `https://host:port`, with the port if it is not the usual 8006. Without one it is
/// 443, as for any URL.
fn endpoint(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    let named = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let usual = authority.strip_suffix(":8006").unwrap_or(authority);
    (!usual.is_empty()).then(|| if named { usual.to_owned() } else { format!("{authority}:443") })
}

/// Forgets a lab's world and the clusters kept with it; the lab must not run. Only what a lab made is removed, so that a
/// folder named by mistake loses nothing.
pub fn forget(folder: &Path) -> std::io::Result<()> {
    let gone = |result: std::io::Result<()>| match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    if !folder.join(files::TOKEN).exists() && !folder.join(files::LOCK).exists() {
        return Ok(());
    }
    gone(std::fs::remove_dir_all(folder.join(CLUSTERS)))?;
    gone(std::fs::remove_dir_all(folder.join(files::MEDIA)))?;
    for name in files::ALL {
        gone(std::fs::remove_file(folder.join(name)))?;
    }
    // Whatever else lies there is not ours, and keeps the folder alive.
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn the_api_answers_where_the_endpoint_says() {
        assert_eq!(endpoint("https://atlas.lan:8006").as_deref(), Some("atlas.lan"));
        assert_eq!(endpoint("https://atlas.lan:8443/").as_deref(), Some("atlas.lan:8443"));
        assert_eq!(endpoint("https://[fd00::1]:8006/").as_deref(), Some("[fd00::1]"));
        assert_eq!(endpoint("https://[fd00::1]").as_deref(), Some("[fd00::1]:443"));
        assert_eq!(endpoint("https://10.0.0.2").as_deref(), Some("10.0.0.2:443"));
    }
}
