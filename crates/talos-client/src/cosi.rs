//! A node's resources: read, listed, watched.

use std::{collections::BTreeMap, pin::Pin};

use daedal_talos_config::Secret;
use futures::{Stream, StreamExt, future};
use tonic::Streaming;
use yaml_serde::Value;

use crate::{
    Result,
    connect::Client,
    failure::{Failure, FailureKind},
    proto::cosi,
    streams::SILENCE,
};

/// A resource of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Such as `runtime`.
    pub namespace: String,
    /// Such as `MachineStatuses.runtime.talos.dev`.
    pub kind: String,
    /// Such as `machine`.
    pub id: String,
    /// Grows with every change.
    pub version: String,
    /// `running` or `tearingDown`.
    pub phase: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// What the resource says, as YAML.
    pub yaml: String,
}

impl Resource {
    /// What the resource says. Null if it cannot be read.
    pub fn spec(&self) -> Value {
        yaml_serde::from_str(&self.yaml).unwrap_or_default()
    }

    fn from_wire(resource: cosi::Resource) -> Self {
        let metadata = resource.metadata.unwrap_or_default();
        Self {
            namespace: metadata.namespace,
            kind: metadata.r#type,
            id: metadata.id,
            version: metadata.version,
            phase: metadata.phase,
            labels: metadata.labels.into_iter().collect(),
            yaml: resource.spec.unwrap_or_default().yaml_spec,
        }
    }
}

/// What happened to a watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceEvent {
    /// It is there, or came to be.
    Created,
    /// It changed.
    Updated,
    /// It is gone.
    Destroyed,
    /// All that was there when the watch began has been sent.
    Bootstrapped,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub event: ResourceEvent,
    /// To what; nothing for [`ResourceEvent::Bootstrapped`].
    pub resource: Option<Resource>,
}

/// The events of a watch. It ends only with an error.
pub type ResourceEvents = Pin<Box<dyn Stream<Item = Result<WatchEvent>> + Send>>;

/// Where a machine is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineStatus {
    /// Such as `booting`, `maintenance`, `running`, `rebooting`.
    pub stage: String,
    /// Whether everything is as it should be in this stage.
    pub ready: bool,
    /// What it is waiting for: names and reasons.
    pub unmet: Vec<(String, String)>,
}

impl MachineStatus {
    /// The resource's type, namespace and id.
    pub const RESOURCE: (&'static str, &'static str, &'static str) =
        ("runtime", "MachineStatuses.runtime.talos.dev", "machine");

    /// Reads the resource.
    pub fn of(resource: &Resource) -> Self {
        let spec = resource.spec();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = spec.get("status");
        let unmet = status.and_then(|status| status.get("unmetConditions")).and_then(Value::as_sequence);
        Self {
            stage: text(spec.get("stage")),
            ready: status.and_then(|status| status.get("ready")).and_then(Value::as_bool).unwrap_or(false),
            unmet: unmet
                .into_iter()
                .flatten()
                .map(|condition| (text(condition.get("name")), text(condition.get("reason"))))
                .collect(),
        }
    }
}

impl Client {
    /// One resource; `None` if it is not there.
    pub async fn get(&self, namespace: &str, kind: &str, id: &str) -> Result<Option<Resource>> {
        let request = self.request(cosi::GetRequest {
            namespace: namespace.into(),
            r#type: kind.into(),
            id: id.into(),
            options: Some(cosi::GetOptions {}),
        });
        match self.call("get resource", self.state().get(request)).await {
            Ok(reply) => Ok(reply.resource.map(Resource::from_wire)),
            Err(error) if error.kind() == Some(FailureKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All resources of a type.
    pub async fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Resource>> {
        let request = self.request(cosi::ListRequest {
            namespace: namespace.into(),
            r#type: kind.into(),
            options: Some(cosi::ListOptions::default()),
        });
        let mut stream = self.call("list resources", self.state().list(request)).await?;
        let mut resources = Vec::new();
        let reading = async {
            while let Some(item) = stream.next().await {
                match item {
                    Ok(reply) => resources.extend(reply.resource.map(Resource::from_wire)),
                    Err(status) => return Err(self.failed("list resources", self.of_status(&status))),
                }
            }
            Ok(())
        };
        match tokio::time::timeout(self.call_timeout, reading).await {
            Ok(done) => done.map(|()| resources),
            Err(_) => Err(self.failed("list resources", Failure::timeout())),
        }
    }

    /// The config the machine runs on; `None` while it has none.
    pub async fn machine_config(&self) -> Result<Option<Secret>> {
        let resource = self.get("config", "MachineConfigs.config.talos.dev", "v1alpha1").await?;
        // The specification of this resource is the text itself.
        Ok(resource.and_then(|resource| resource.spec().as_str().map(Secret::new)))
    }

    /// The machine's status; `None` while it is not known.
    pub async fn machine_status(&self) -> Result<Option<MachineStatus>> {
        let (namespace, kind, id) = MachineStatus::RESOURCE;
        Ok(self.get(namespace, kind, id).await?.as_ref().map(MachineStatus::of))
    }

    /// The names and versions of what is built into the machine's system. The schematic is one of them, with its id for a
    /// version, where an Image Factory built it.
    pub async fn extensions(&self) -> Result<Vec<(String, String)>> {
        let found = self.list("runtime", "ExtensionStatuses.runtime.talos.dev").await?;
        let extension = |resource: &Resource| {
            let spec = resource.spec();
            let text = |key: &str| spec.get("metadata")?.get(key)?.as_str().map(str::to_owned);
            (text("name").unwrap_or_default(), text("version").unwrap_or_default())
        };
        Ok(found.iter().map(extension).collect())
    }

    /// Follows the machine's status: what it is now, then every change.
    pub async fn watch_machine_status(
        &self,
    ) -> Result<impl Stream<Item = Result<MachineStatus>> + Send + use<>> {
        let (namespace, kind, id) = MachineStatus::RESOURCE;
        let events = self.watch(namespace, kind, Some(id)).await?;
        Ok(events.filter_map(|event| {
            future::ready(match event {
                Ok(WatchEvent { event: ResourceEvent::Created | ResourceEvent::Updated, resource }) => {
                    resource.as_ref().map(|resource| Ok(MachineStatus::of(resource)))
                }
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            })
        }))
    }

    /// Follows one resource (also before it exists) or all of a type. What is there already comes first; a whole type
    /// is then followed by [`ResourceEvent::Bootstrapped`]. A node that falls silent ends the stream with an error.
    pub async fn watch(&self, namespace: &str, kind: &str, id: Option<&str>) -> Result<ResourceEvents> {
        let request = self.request(cosi::WatchRequest {
            namespace: namespace.into(),
            r#type: kind.into(),
            id: id.map(Into::into),
            // A single resource's state always comes first; for a type it must be asked for.
            options: Some(cosi::WatchOptions { bootstrap_contents: id.is_none(), ..Default::default() }),
            api_version: 1,
        });
        let stream = self.call("watch resources", self.state().watch(request)).await?;
        let watch = Watch { client: self.clone(), stream, pending: Vec::new().into_iter(), ended: false };
        Ok(Box::pin(futures::stream::unfold(watch, |mut watch| async move {
            let item = watch.next().await?;
            Some((item, watch))
        })))
    }
}

struct Watch {
    client: Client,
    stream: Streaming<cosi::WatchResponse>,
    pending: std::vec::IntoIter<cosi::Event>,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        while !self.ended {
            while let Some(event) = self.pending.next() {
                match self.translate(event) {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => {}
                    Err(failure) => return Some(self.end(failure)),
                }
            }
            match tokio::time::timeout(SILENCE, self.stream.next()).await {
                Ok(Some(Ok(reply))) => self.pending = reply.event.into_iter(),
                Ok(Some(Err(status))) => {
                    let failure = self.client.of_status(&status);
                    return Some(self.end(failure));
                }
                Ok(None) => {
                    return Some(self.end(Failure::new(FailureKind::Transient, "the node ended the watch")));
                }
                Err(_) => {
                    if let Some(failure) = self.client.ask_for_a_sign_of_life().await {
                        return Some(self.end(failure));
                    }
                }
            }
        }
        None
    }

    fn end(&mut self, failure: Failure) -> Result<WatchEvent> {
        self.ended = true;
        Err(self.client.failed("watch resources", failure))
    }

    fn translate(&self, event: cosi::Event) -> std::result::Result<Option<WatchEvent>, Failure> {
        let kind = match event.event_type() {
            cosi::EventType::Created => ResourceEvent::Created,
            cosi::EventType::Updated => ResourceEvent::Updated,
            cosi::EventType::Destroyed => ResourceEvent::Destroyed,
            cosi::EventType::Bootstrapped => {
                return Ok(Some(WatchEvent { event: ResourceEvent::Bootstrapped, resource: None }));
            }
            cosi::EventType::Errored => {
                let why = event.error.unwrap_or_default();
                // The node keeps so many changes and no more for whoever is slow: watching anew begins with what is there.
                let kind = match why.contains("buffer overrun") {
                    true => FailureKind::Transient,
                    false => FailureKind::Other,
                };
                return Err(Failure::new(kind, why));
            }
            cosi::EventType::Noop => return Ok(None),
        };
        Ok(Some(WatchEvent { event: kind, resource: event.resource.map(Resource::from_wire) }))
    }
}
