//! What a node tells as it happens: events, logs, kernel messages; and watches that survive a reboot.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt};
use tonic::Streaming;

use crate::{
    Result,
    client::{
        connect::Client,
        cosi::{ResourceEvents, WatchEvent},
        failure::{Failure, FailureKind},
    },
    proto::{common, machine},
};

/// The wait before a broken watch is begun again: short at first, at most the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Which events of the past come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// None.
    #[default]
    New,
    /// All that the node still knows.
    All,
    /// So many.
    Last(u32),
    /// Those after the event of this id: how to go on where a stream broke.
    After(String),
    /// Those of the last time.
    Within(Duration),
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEvent {
    /// Its id; [`Tail::After`] goes on from it.
    pub id: String,
    /// Of which action, as returned by `reboot`, `reset` and the like.
    pub actor_id: String,
    /// Short name of the message, such as `MachineStatusEvent`.
    pub kind: String,
    /// The message itself.
    pub data: Vec<u8>,
}

/// Lines or bytes as they come.
pub type Bytes = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

impl Client {
    /// The node's events as they happen, of one action if its id is given.
    pub async fn events(
        &self,
        tail: Tail,
        actor_id: Option<&str>,
    ) -> Result<impl Stream<Item = Result<NodeEvent>> + Send + use<>> {
        let mut request = machine::EventsRequest {
            with_actor_id: actor_id.unwrap_or_default().into(),
            ..Default::default()
        };
        match tail {
            Tail::New => {}
            Tail::All => request.tail_events = -1,
            Tail::Last(count) => request.tail_events = i32::try_from(count).unwrap_or(i32::MAX),
            Tail::After(id) => request.tail_id = id,
            Tail::Within(time) => request.tail_seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX),
        }
        let stream = self.call("events", self.machine().events(self.request(request))).await?;
        let client = self.clone();
        Ok(stream.map(move |item| match item {
            Ok(event) => {
                Failure::of_metadata(event.metadata.as_ref())
                    .map_err(|failure| client.failed("events", failure))?;
                let data = event.data.unwrap_or_default();
                let kind = data.type_url.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
                Ok(NodeEvent { id: event.id, actor_id: event.actor_id, kind, data: data.value })
            }
            Err(status) => Err(client.failed("events", client.of_status(&status))),
        }))
    }

    /// The log of a service of Talos, such as `etcd`: the last lines, and with `follow` what comes.
    pub async fn logs(&self, service: &str, follow: bool, tail_lines: Option<u32>) -> Result<Bytes> {
        let request = machine::LogsRequest {
            namespace: "system".into(),
            id: service.into(),
            driver: common::ContainerDriver::Containerd.into(),
            follow,
            tail_lines: tail_lines.map_or(-1, |lines| i32::try_from(lines).unwrap_or(i32::MAX)),
        };
        let stream = self.call("logs", self.machine().logs(self.request(request))).await?;
        Ok(Box::pin(self.clone().data("logs", stream)))
    }

    /// The messages of the kernel; with `tail` only new ones.
    pub async fn dmesg(&self, follow: bool, tail: bool) -> Result<Bytes> {
        let request = self.request(machine::DmesgRequest { follow, tail });
        let stream = self.call("dmesg", self.machine().dmesg(request)).await?;
        Ok(Box::pin(self.clone().data("dmesg", stream)))
    }

    /// Like [`Client::watch`], begun again whenever the node goes away: a reboot is no error here. After each new
    /// beginning everything that is there comes once more. It ends only when the node refuses.
    pub fn watch_through_reboots(&self, namespace: &str, kind: &str, id: Option<&str>) -> ResourceEvents {
        let again = Again {
            client: self.clone(),
            resource: (namespace.to_owned(), kind.to_owned(), id.map(ToOwned::to_owned)),
            events: None,
            wait: Duration::ZERO,
            ended: false,
        };
        Box::pin(futures::stream::unfold(again, |mut again| async move {
            let item = again.next().await?;
            Some((item, again))
        }))
    }

    /// The next message of a stream within a deadline.
    pub(super) async fn next<T>(
        &self,
        operation: &'static str,
        patience: Duration,
        stream: &mut Streaming<T>,
    ) -> Result<Option<T>> {
        match tokio::time::timeout(patience, stream.next()).await {
            Ok(Some(Ok(item))) => Ok(Some(item)),
            Ok(Some(Err(status))) => Err(self.failed(operation, self.of_status(&status))),
            Ok(None) => Ok(None),
            Err(_) => Err(self.failed(operation, Failure::timeout())),
        }
    }
}

struct Again {
    client: Client,
    resource: (String, String, Option<String>),
    events: Option<ResourceEvents>,
    wait: Duration,
    ended: bool,
}

impl Again {
    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        while !self.ended {
            if self.events.is_none() {
                tokio::time::sleep(self.wait).await;
                let (namespace, kind, id) = &self.resource;
                match self.client.watch(namespace, kind, id.as_deref()).await {
                    Ok(events) => self.events = Some(events),
                    Err(error) => {
                        if let Some(error) = self.broke(error) {
                            return Some(Err(error));
                        }
                        continue;
                    }
                }
            }
            match self.events.as_mut()?.next().await {
                Some(Ok(event)) => {
                    self.wait = Duration::ZERO;
                    return Some(Ok(event));
                }
                Some(Err(error)) => {
                    if let Some(error) = self.broke(error) {
                        return Some(Err(error));
                    }
                }
                None => self.events = None,
            }
        }
        None
    }

    /// What cannot get better by waiting.
    fn broke(&mut self, error: crate::Error) -> Option<crate::Error> {
        self.events = None;
        self.wait = (self.wait * 2).clamp(AGAIN.0, AGAIN.1);
        match error.kind() {
            Some(FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient) => None,
            _ => {
                self.ended = true;
                Some(error)
            }
        }
    }
}
