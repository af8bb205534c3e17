//! The node API: who may connect, who may call what, and forwarding to other nodes.

mod configure;
mod etcd;
mod fanout;
mod health;
mod held;
mod lifecycle;
mod logs;
pub(super) mod machine;
mod other;
mod roles;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use daedal_dial::Target;
use daedal_talos_client::proto::cluster::cluster_service_server::ClusterServiceServer;
use daedal_talos_client::proto::cosi::state_server::StateServer;
use daedal_talos_client::proto::machine::image_service_server::ImageServiceServer;
use daedal_talos_client::proto::machine::lifecycle_service_server::LifecycleServiceServer;
use daedal_talos_client::proto::machine::machine_service_server::MachineServiceServer;
use daedal_talos_client::proto::storage::storage_service_server::StorageServiceServer;
use daedal_talos_client::proto::time::time_service_server::TimeServiceServer;
use http::Request;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tonic::Status;
use tonic::service::Routes;
use tower::Service as _;

use self::roles::{READER, roles};
use super::config::MachineConfig;
use super::cosi::Resources;
use super::keys::{Authority, Caller, Clients, KeyError, ServerNames, server_config};
use super::node::{Node, Stage};
use super::version_at_least;
use super::world::{APID_PORT, Shared, chain};
use crate::http::{Body, Handler};
use crate::moments::Occasion;

/// Requests up to this size are taken, as by the real one.
const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// One machine, as its services see it.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Arc<Node>,
}

fn names(node: &Node, config: Option<&MachineConfig>) -> ServerNames {
    let state = node.state();
    let mut names = ServerNames {
        common_name: state.hostname.clone(),
        addresses: state.links.iter().flat_map(|l| &l.addresses).map(|n| n.addr()).collect(),
        hosts: vec![state.hostname.clone(), "localhost".into()],
    };
    names.addresses.push(std::net::Ipv4Addr::LOCALHOST.into());
    for name in config.map(|c| c.list_at("/machine/certSANs")).unwrap_or_default() {
        match name.parse() {
            Ok(address) => names.addresses.push(address),
            Err(_) => names.hosts.push(name),
        }
    }
    names
}

/// TLS of a configured machine: its own authority on a control plane, a control plane's on a worker.
pub(crate) fn server_tls(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    config: &MachineConfig,
) -> Result<Arc<ServerConfig>, KeyError> {
    let pair =
        |config: &MachineConfig| config.pem_at("/machine/ca/crt").zip(config.pem_at("/machine/ca/key"));
    let signer = if config.is_control_plane() {
        pair(config)
    } else {
        let world = shared.world();
        world.nodes.values().find_map(|other| {
            let state = other.state();
            let theirs = state.config.as_ref().filter(|_| state.trustd)?;
            theirs.trust().is_mutual(config.trust()).then(|| pair(theirs))?
        })
    };
    let authority = match signer {
        Some((certificate, key)) => Authority::new(&certificate, &key)?,
        // Only to find out whether the configuration is good: a worker without a control plane does not serve.
        None => Authority::throw_away()?,
    };
    let chain = authority.server(&shared.key, &names(node, Some(config)))?;
    server_config(chain, &shared.key, Clients::Required(config.client_cas()), &[b"h2"], shared.pace)
}

/// Makes a configured machine answer.
pub(crate) fn serve(shared: &Arc<Shared>, node: &Arc<Node>) {
    let Some(config) = ({ node.state().config.clone() }) else { return };
    match server_tls(shared, node, &config) {
        Ok(tls) => listen(shared, node, tls),
        Err(error) => node.console(format!("[talos] apid failed: {}", chain(&error))),
    }
    let name = node.update(|s| {
        s.apid = s.address.is_some();
        s.hostname.clone()
    });
    shared.faults.happened(Occasion::ApiUp, name);
}

/// Makes a machine without a configuration answer, to anyone.
pub(crate) fn serve_maintenance(shared: &Arc<Shared>, node: &Arc<Node>) {
    // A key of its own: who pins it pins this very machine.
    let tls = Authority::throw_away().and_then(|authority| {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let chain = authority.server(&key, &names(node, None))?;
        announce(node, &chain[0]);
        server_config(chain, &key, Clients::Anyone, &[b"h2"], shared.pace)
    });
    match tls {
        Ok(tls) => listen(shared, node, tls),
        Err(error) => node.console(format!("[talos] maintenance service failed: {}", chain(&error))),
    }
}

/// Prints on the console what Talos prints of its maintenance service.
fn announce(node: &Arc<Node>, certificate: &CertificateDer<'_>) {
    const BY: &str =
        "{\"component\": \"controller-runtime\", \"controller\": \"runtime.MaintenanceServiceController\"";
    let Ok(fingerprint) = daedal_talos_config::pki::spki_fingerprint(certificate) else { return };
    let address = { node.state().address };
    // Talos makes a key before it has an address, and another one with it; only the last is shown.
    let earlier = BASE64_STANDARD.encode(Sha256::digest(&fingerprint));
    node.console(format!("[talos] server certificate issued {BY}, \"fingerprint\": \"{earlier}\"}}"));
    if let Some(address) = address {
        node.console(format!("[talos] this machine is reachable at: {BY}}}"));
        node.console(format!("[talos] \t{address} {BY}}}"));
    }
    node.console(format!("[talos] server certificate issued {BY}, \"fingerprint\": \"{fingerprint}\"}}"));
    if let Some(address) = address {
        let apply = format!("[talos] \ttalosctl apply-config --insecure --nodes {address}");
        node.console(format!("[talos] upload configuration using talosctl: {BY}}}"));
        node.console(format!("{apply} --file <config.yaml> {BY}}}"));
        node.console(format!("[talos] optionally with node fingerprint check: {BY}}}"));
        node.console(format!("{apply} --cert-fingerprint '{fingerprint}' --file <config.yaml> {BY}}}"));
    }
}

fn listen(shared: &Arc<Shared>, node: &Arc<Node>, tls: Arc<ServerConfig>) {
    let (address, session) = {
        let state = node.state();
        (state.address, state.session.clone())
    };
    let Some(address) = address else { return };
    let local = local_handler(Api { shared: shared.clone(), node: node.clone() });
    node.update(|s| s.handler = Some(local.clone()));
    let handler = held::until_the_first_message(routing_handler(shared.clone(), node.clone(), local));
    let handler = crate::faulty::grpc(handler, "talos", shared.faults.clone(), shared.pace);
    let acceptor = crate::http::tls_service(tls, session, handler);
    shared.fabric.listen(Target::new(address.to_string(), APID_PORT), acceptor);
}

/// Answers what is addressed to this very machine, if the caller may ask it.
fn local_handler(api: Api) -> Handler {
    let state = StateServer::new(Resources::new(api.clone()));
    let routes = Routes::new(MachineServiceServer::new(api.clone()).max_decoding_message_size(MAX_MESSAGE))
        .add_service(state)
        .add_service(StorageServiceServer::new(api.clone()))
        .add_service(TimeServiceServer::new(api.clone()))
        .add_service(LifecycleServiceServer::new(api.clone()))
        .add_service(ImageServiceServer::new(api.clone()))
        .add_service(ClusterServiceServer::new(api.clone()));
    let routes = routes.prepare();
    Arc::new(move |mut request: Request<Body>| {
        let mut routes = routes.clone();
        let node = api.node.clone();
        Box::pin(async move {
            if let Err(status) = authorize(&node, &mut request) {
                return status.into_http();
            }
            match routes.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    })
}

/// Sends a call to the machine named in its headers.
fn routing_handler(shared: Arc<Shared>, node: Arc<Node>, local: Handler) -> Handler {
    Arc::new(move |request: Request<Body>| {
        let (shared, node, local) = (shared.clone(), node.clone(), local.clone());
        Box::pin(async move {
            let maintenance = { node.state().stage == Some(Stage::Maintenance) };
            if maintenance {
                return local(request).await;
            }
            let one = header(&request, "node");
            let many = header(&request, "nodes");
            if let Some(name) = one.first() {
                return match target(&shared, &node, &local, name) {
                    Ok(handler) => handler(request).await,
                    Err(status) => status.into_http(),
                };
            }
            if many.is_empty() {
                return local(request).await;
            }
            let newer = ["/machine.LifecycleService/", "/machine.ImageService/"];
            if newer.iter().any(|service| request.uri().path().starts_with(service)) {
                return Status::invalid_argument("one-2-many proxying is not supported for this API")
                    .into_http();
            }
            if request.uri().path().starts_with("/cosi.resource.State/") {
                return Status::invalid_argument("one-2-many proxying is not supported for the resource API")
                    .into_http();
            }
            let targets = many.into_iter().map(|name| {
                let handler = target(&shared, &node, &local, &name);
                (name, handler)
            });
            fanout::call(request, targets.collect()).await
        })
    })
}

fn header(request: &Request<Body>, name: &str) -> Vec<String> {
    let values = request.headers().get_all(name);
    values.iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
}

/// The handler of the machine with this address or name, seen from `node`.
fn target(shared: &Arc<Shared>, node: &Arc<Node>, local: &Handler, name: &str) -> Result<Handler, Status> {
    let is = |other: &Node| {
        let state = other.state();
        state.hostname == name || state.address.is_some_and(|a| a.to_string() == name)
    };
    if is(node) || matches!(name, "localhost" | "127.0.0.1") {
        return Ok(local.clone());
    }
    let config = { node.state().config.clone() };
    let Some(config) = config.filter(|config| config.is_control_plane()) else {
        return Err(Status::permission_denied("no request forwarding"));
    };
    let world = shared.world();
    let found = world.nodes.values().find(|other| is(other)).and_then(|other| {
        let state = other.state();
        let trusts = |theirs: &MachineConfig| theirs.trust().is_mutual(config.trust());
        let trusted = state.apid && state.config.as_deref().is_some_and(trusts);
        let handler = state.handler.clone().filter(|_| trusted)?;
        Some(fanout::while_up(handler, state.session.clone()))
    });
    found.ok_or_else(|| {
        Status::unavailable(format!(
            "connection error: desc = \"transport: Error while dialing: dial tcp {name}:50000: connect: connection refused\""
        ))
    })
}

fn authorize(node: &Arc<Node>, request: &mut Request<Body>) -> Result<(), Status> {
    let path = request.uri().path().to_owned();
    let (stage, version) = {
        let state = node.state();
        (state.stage, state.image.as_ref().map(|i| i.version.clone()).unwrap_or_default())
    };
    if stage == Some(Stage::Maintenance) {
        let wipe = path.ends_with("/BlockDeviceWipe") && version_at_least(&version, 11);
        let open = wipe
            || path == "/machine.MachineService/ApplyConfiguration"
            || path == "/storage.StorageService/Disks"
            || (path.starts_with("/cosi.resource.State/") && roles(&path).contains(&READER));
        if version_at_least(&version, 13) {
            request.extensions_mut().insert(Caller {
                name: String::new(),
                groups: vec![READER.into()],
                known: true,
            });
            return if open || roles(&path).contains(&READER) { Ok(()) } else { Err(denied()) };
        }
        request.extensions_mut().insert(Caller {
            name: String::new(),
            groups: vec![READER.into()],
            known: true,
        });
        return if open {
            Ok(())
        } else {
            Err(Status::unimplemented("API is not implemented in maintenance mode"))
        };
    }
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or_default();
    if caller.any_of(roles(&path)) { Ok(()) } else { Err(denied()) }
}

fn denied() -> Status {
    Status::permission_denied("not authorized")
}

/// Who makes a call.
pub(crate) fn caller<T>(request: &tonic::Request<T>) -> Caller {
    request.extensions().get::<Caller>().cloned().unwrap_or_default()
}

impl Api {
    /// The machine's configuration.
    fn config(&self) -> Result<Arc<MachineConfig>, Status> {
        self.node
            .state()
            .config
            .clone()
            .ok_or_else(|| Status::failed_precondition("the machine is not configured"))
    }

    /// Refuses what only control planes do.
    fn control_plane(&self, what: &str) -> Result<Arc<MachineConfig>, Status> {
        let config = self.config()?;
        if config.is_control_plane() {
            Ok(config)
        } else {
            Err(Status::unimplemented(format!("{what} is only available on control plane nodes")))
        }
    }

    fn now(&self) -> i64 {
        self.shared.pace.now()
    }
}
