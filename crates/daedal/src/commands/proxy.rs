//! `daedal proxy`, `daedal kubectl`, `daedal talosctl`: other programs reach the cluster in the way that the inventory declares.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use daedal_dial::{Dial, Dialer, Dialing, Routes, Target as Address, serve_proxy};
use daedal_inventory::{Cluster, Reach};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::cli::{Format, Target};
use crate::commands::execute::Interrupts;
use crate::commands::outputs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{console, documents, lab, session, ssh};

/// Serves until it is interrupted.
pub async fn run(target: &Target, port: Option<u16>, format: Format, color: bool) -> Outcome {
    let way = Way::open(target, color).await?;
    let port = port.or(way.cluster.outputs.kubeconfig_proxy).unwrap_or(0);
    let (listener, url) = listen(port).await.map_err(unserved)?;
    match format {
        Format::Json => console::json(&serde_json::json!({"proxy": url})),
        Format::Text => console::answer(&format!(
            "{url} leads to the cluster {}, by HTTP CONNECT and SOCKS5 (Ctrl-C ends it).\n\
             In another shell: export HTTPS_PROXY={url}",
            way.cluster.name
        )),
    }
    let mut interrupts = Interrupts::listen();
    tokio::select! {
        () = serve_proxy(listener, way.dialer, || ()) => Ok(Exit::Done),
        _ = interrupts.next() => Ok(Exit::Done),
    }
}

/// Runs a program of the user's with the cluster's credentials, through the proxy where one is needed; ends as it does.
pub async fn tool(program: &str, target: &Target, arguments: &[OsString], color: bool) -> Outcome<ExitCode> {
    let files = outputs::plain(target, color).await?;
    let way = Way::open(target, color).await?;
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", files.kubeconfig).env("TALOSCONFIG", files.talosconfig);
    let declared = way.cluster.outputs.kubeconfig_proxy;
    if declared.is_some() || way.cluster.reach != Reach::Direct {
        let url = match listen(declared.unwrap_or(0)).await {
            Ok((listener, url)) => {
                tokio::spawn(serve_proxy(listener, way.dialer, || ()));
                url
            }
            // A `daedal proxy` that runs already; the kubeconfig names no other port.
            Err((at, error)) if error.kind() == io::ErrorKind::AddrInUse => format!("http://{at}"),
            Err(error) => return Err(unserved(error)),
        };
        // What is not to be proxied by the user's own settings would not be reached.
        command
            .envs([("HTTPS_PROXY", &url), ("https_proxy", &url)])
            .env_remove("NO_PROXY")
            .env_remove("no_proxy");
    }
    let cannot = |error: io::Error| {
        let failure = Failure::new(Exit::NoInput, format!("cannot run {program}")).because(&error);
        failure.hint(format!("Install {program}, or add its folder to PATH."))
    };
    // It hears Ctrl-C itself, and we wait for it.
    let _interrupts = Interrupts::listen();
    let ended = command.kill_on_drop(true).status().await.map_err(cannot)?;
    let code = ended.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(Exit::Failed as u8).into())
}

/// Listens on loopback, where only this machine's programs are.
async fn listen(port: u16) -> Result<(TcpListener, String), (SocketAddr, io::Error)> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cannot = |error: io::Error| (at, error);
    let listener = TcpListener::bind(at).await.map_err(cannot)?;
    let url = format!("http://{}", listener.local_addr().map_err(cannot)?);
    Ok((listener, url))
}

fn unserved((at, error): (SocketAddr, io::Error)) -> Failure {
    Failure::new(Exit::Unavailable, format!("cannot listen on {at}")).because(&error)
}

/// The declared way to a cluster, open.
struct Way {
    cluster: Cluster,
    dialer: Dialer,
}

impl Way {
    async fn open(target: &Target, color: bool) -> Outcome<Self> {
        let inventory = documents::of_lacking(target, color)?;
        let mut cluster = inventory.loaded.cluster;
        if target.lab {
            let link = Box::pin(lab::connect(&target.lab_options, &cluster)).await?;
            cluster.reach = Reach::Proxy(link.proxy_url());
        }
        let keys = session::ring(target, &inventory.folder, &cluster);
        let ssh = ssh::open(&cluster.reach, &inventory.folder, &keys)?;
        if let Some(ssh) = &ssh {
            ssh.connect().await.map_err(|error| ssh::failure(&error))?;
        }
        let routes = session::routes(&cluster, ssh.as_ref())?;
        let dialer = Arc::new(Gate::of(&cluster, routes));
        Ok(Self { cluster, dialer })
    }
}

/// Lets programs through to the cluster and its Proxmox, and nowhere else: the network behind may have more in it.
struct Gate {
    routes: Routes,
    proxmox: Option<Address>,
    network: IpNet,
    endpoint: Option<String>,
}

impl Gate {
    fn of(cluster: &Cluster, routes: Routes) -> Self {
        let proxmox = url::Url::parse(&cluster.proxmox.endpoint).ok().map(|url| Address::from(&url));
        let endpoint = cluster.kubernetes.endpoint_host.clone();
        Self { routes, proxmox, network: cluster.network.cidr, endpoint }
    }

    fn route(&self, target: &Address) -> Option<&Dialer> {
        if self.proxmox.as_ref() == Some(target) {
            return Some(&self.routes.proxmox);
        }
        let inside = target.host.parse::<IpAddr>().is_ok_and(|address| self.network.contains(&address));
        let known = inside || self.endpoint.as_deref() == Some(target.host.as_str());
        known.then_some(&self.routes.nodes)
    }
}

impl Dial for Gate {
    fn dial<'a>(&'a self, target: &'a Address) -> Dialing<'a> {
        match self.route(target) {
            Some(dialer) => dialer.dial(target),
            None => Box::pin(async move {
                let why = format!("{target} is not part of the cluster");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }),
        }
    }
}
