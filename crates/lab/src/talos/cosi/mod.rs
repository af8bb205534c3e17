//! The resource API of a node: reading and watching what the node says about itself.

mod definitions;
mod items;
mod root;
mod specs;

use std::collections::BTreeMap;

use daedal_talos_client::proto::cosi::state_server::State;
use daedal_talos_client::proto::cosi::{
    CreateRequest, CreateResponse, DestroyRequest, DestroyResponse, Event, EventType, GetRequest,
    GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec, TeardownRequest, TeardownResponse,
    UpdateRequest, UpdateResponse, WatchRequest, WatchResponse,
};
use futures::stream::{self, BoxStream, StreamExt as _};
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status};

use super::apid::{Api, caller};
use super::keys::Caller;
use definitions::{Kind, find};

/// A resource before it has a version.
pub(super) struct Item {
    pub(super) id: String,
    pub(super) yaml: serde_json::Value,
    pub(super) proto: Vec<u8>,
}

/// Serves the resources of one machine.
#[derive(Clone)]
pub(super) struct Resources {
    api: Api,
}

type Stream<T> = BoxStream<'static, Result<T, Status>>;

impl Resources {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    fn kind(caller: &Caller, name: &str) -> Result<&'static Kind, Status> {
        let kind =
            find(name).ok_or_else(|| Status::not_found(format!("resource {name:?} is not registered")))?;
        if kind.sensitive && !caller.any_of(&["os:admin"]) {
            return Err(Status::permission_denied("not authorized"));
        }
        Ok(kind)
    }

    /// All resources of a type in a namespace, by id.
    fn all(&self, kind: &'static Kind, namespace: &str) -> BTreeMap<String, Resource> {
        if !namespace.is_empty() && namespace != kind.namespace {
            return BTreeMap::new();
        }
        let items = items::of(&self.api.shared, &self.api.node, kind.name);
        items.into_iter().map(|item| (item.id.clone(), self.versioned(kind, item))).collect()
    }

    /// Gives an item its version: one more whenever its content is another than last time.
    fn versioned(&self, kind: &'static Kind, item: Item) -> Resource {
        let yaml = yaml_serde::to_string(&item.yaml).unwrap_or_default();
        let digest = Sha256::digest(&yaml);
        let content = digest.first_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b));
        let now = self.api.shared.pace.now();
        let (version, created, updated) = {
            let mut state = self.api.node.state();
            let entry = state
                .versions
                .entry((kind.name.to_owned(), item.id.clone()))
                .or_insert((content, 1, now, now));
            if entry.0 != content {
                *entry = (content, entry.1 + 1, entry.2, now);
            }
            (entry.1, entry.2, entry.3)
        };
        let moment = |at: i64| Some(prost_types::Timestamp { seconds: at, nanos: 0 });
        Resource {
            metadata: Some(Metadata {
                namespace: kind.namespace.to_owned(),
                r#type: kind.name.to_owned(),
                id: item.id,
                version: version.to_string(),
                owner: kind.owner.to_owned(),
                phase: "running".into(),
                created: moment(created),
                updated: moment(updated),
                finalizers: Vec::new(),
                labels: Default::default(),
                // Tools read the configuration out of a text only where this says so.
                annotations: match kind.name {
                    "MachineConfigs.config.talos.dev" => [("talos.dev/yaml-spec".into(), "1".into())].into(),
                    _ => Default::default(),
                },
            }),
            spec: Some(Spec { proto_spec: item.proto, yaml_spec: yaml }),
        }
    }
}

fn event(kind: EventType, resource: Option<Resource>, old: Option<Resource>) -> Event {
    Event { resource, event_type: kind as i32, old, error: None, bookmark: None }
}

fn version(resource: &Resource) -> &str {
    resource.metadata.as_ref().map(|m| m.version.as_str()).unwrap_or_default()
}

/// Whether one is another than the one before under the same name, which nobody saw go. Only services are made anew while a
/// machine runs; what a reboot makes anew is told by who connects again.
fn is_another(before: &Resource, now: &Resource) -> bool {
    let created = |resource: &Resource| resource.metadata.as_ref().and_then(|m| m.created);
    let is_service = now.metadata.as_ref().is_some_and(|m| m.r#type == "Services.v1alpha1.talos.dev");
    is_service && created(before) != created(now)
}

/// The events that lead from one set of resources to another.
fn changes(old: &BTreeMap<String, Resource>, new: &BTreeMap<String, Resource>) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, resource) in new {
        match old.get(id) {
            None => events.push(event(EventType::Created, Some(resource.clone()), None)),
            Some(before) if is_another(before, resource) => {
                events.push(event(EventType::Destroyed, Some(before.clone()), None));
                events.push(event(EventType::Created, Some(resource.clone()), None));
            }
            Some(before) if version(before) != version(resource) => {
                events.push(event(EventType::Updated, Some(resource.clone()), Some(before.clone())));
            }
            Some(_) => {}
        }
    }
    for (id, resource) in old {
        if !new.contains_key(id) {
            events.push(event(EventType::Destroyed, Some(resource.clone()), None));
        }
    }
    events
}

#[tonic::async_trait]
impl State for Resources {
    type ListStream = Stream<ListResponse>;
    type WatchStream = Stream<WatchResponse>;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let kind = Self::kind(&caller, &request.r#type)?;
        let resource = self.all(kind, &request.namespace).remove(&request.id);
        let shown = format!("{}({}/{}@undefined)", kind.name, request.namespace, request.id);
        let resource =
            resource.ok_or_else(|| Status::not_found(format!("resource {shown} doesn't exist")))?;
        Ok(Response::new(GetResponse { resource: Some(resource) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let kind = Self::kind(&caller, &request.r#type)?;
        let all = self.all(kind, &request.namespace);
        let items: Vec<_> = all.into_values().map(|r| Ok(ListResponse { resource: Some(r) })).collect();
        Ok(Response::new(Box::pin(stream::iter(items))))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let kind = Self::kind(&caller, &request.r#type)?;
        let bootstrap =
            request.id.is_some() || request.options.as_ref().is_some_and(|o| o.bootstrap_contents);
        let watching = Watching {
            resources: self.clone(),
            kind,
            namespace: request.namespace,
            id: request.id,
            bootstrap,
            known: None,
            node: self.api.node.watch(),
            world: kind.shared.then(|| self.api.shared.watch()),
        };
        let stream = stream::unfold(watching, |mut watching| async move {
            let event = watching.next().await?;
            Some((Ok(WatchResponse { event }), watching))
        });
        // A message without an event says that the watch has begun: clients wait for it before they go on.
        let begun = stream::iter([Ok(WatchResponse { event: Vec::new() })]);
        Ok(Response::new(Box::pin(begun.chain(stream))))
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        Err(Status::permission_denied("write access is not allowed"))
    }

    async fn update(&self, _: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        Err(Status::permission_denied("write access is not allowed"))
    }

    async fn destroy(&self, _: Request<DestroyRequest>) -> Result<Response<DestroyResponse>, Status> {
        Err(Status::permission_denied("write access is not allowed"))
    }

    async fn teardown(&self, _: Request<TeardownRequest>) -> Result<Response<TeardownResponse>, Status> {
        Err(Status::permission_denied("write access is not allowed"))
    }
}

struct Watching {
    resources: Resources,
    kind: &'static Kind,
    namespace: String,
    id: Option<String>,
    bootstrap: bool,
    known: Option<BTreeMap<String, Resource>>,
    node: tokio::sync::watch::Receiver<u64>,
    world: Option<tokio::sync::watch::Receiver<u64>>,
}

impl Watching {
    fn look(&mut self) -> BTreeMap<String, Resource> {
        self.node.mark_unchanged();
        if let Some(world) = &mut self.world {
            world.mark_unchanged();
        }
        let mut all = self.resources.all(self.kind, &self.namespace);
        if let Some(id) = &self.id {
            all.retain(|key, _| key == id);
        }
        all
    }

    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let now = self.look();
            let events = match &self.known {
                Some(known) => changes(known, &now),
                None => self.first(&now),
            };
            self.known = Some(now);
            if !events.is_empty() {
                return Some(events);
            }
            match &mut self.world {
                Some(world) => tokio::select! {
                    changed = self.node.changed() => changed.ok()?,
                    changed = world.changed() => changed.ok()?,
                },
                None => self.node.changed().await.ok()?,
            }
        }
    }

    /// What a watcher gets at once: a single resource's state (a missing one as destroyed), or all of a kind, closed
    /// by a mark.
    fn first(&self, now: &BTreeMap<String, Resource>) -> Vec<Event> {
        if let Some(id) = &self.id {
            return match now.values().next() {
                Some(resource) => vec![event(EventType::Created, Some(resource.clone()), None)],
                None => {
                    let metadata = Metadata {
                        namespace: self.kind.namespace.to_owned(),
                        r#type: self.kind.name.to_owned(),
                        id: id.clone(),
                        version: "undefined".into(),
                        phase: "running".into(),
                        ..Metadata::default()
                    };
                    // The reference server sends a tombstone: metadata with an empty spec.
                    let tombstone = Resource { metadata: Some(metadata), spec: Some(Spec::default()) };
                    vec![event(EventType::Destroyed, Some(tombstone), None)]
                }
            };
        }
        if !self.bootstrap {
            return Vec::new();
        }
        let mut events: Vec<Event> =
            now.values().map(|r| event(EventType::Created, Some(r.clone()), None)).collect();
        events.push(event(EventType::Bootstrapped, None, None));
        events
    }
}
