//! What a node tells as it happens: events, logs, kernel messages.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    future::{self, BoxFuture, Either},
};
use tokio::time::Instant;
use tonic::{Response, Status, Streaming};

use crate::{
    Result,
    connect::Client,
    cosi::MachineStatus,
    failure::{Failure, FailureKind},
    proto::{common, machine},
};

/// When a stream has been silent for this long, the node is asked for a sign of life. Nodes refuse HTTP/2 pings that
/// come more often than every five minutes, so a small call has to do.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// The wait before a broken watch is begun again: short at first, at most the second.
pub(super) const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

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

/// Through which door of containerd a container is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerDriver {
    /// Talos' own.
    #[default]
    Containerd,
    /// That of the kubelet.
    Cri,
}

/// Whose log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLog {
    /// `system` for Talos' services, `k8s.io` for what the kubelet runs.
    pub namespace: String,
    /// Such as `etcd`, or `kube-system/kube-apiserver-cp-1:kube-apiserver:0123456789ab`.
    pub id: String,
    /// Where it is looked for.
    pub driver: ContainerDriver,
}

impl ContainerLog {
    /// A service of Talos, such as `etcd`.
    pub fn of_service(id: &str) -> Self {
        Self { namespace: "system".into(), id: id.into(), driver: ContainerDriver::Containerd }
    }

    /// A container of a pod, by the id that the node lists it with.
    pub fn of_pod(id: &str) -> Self {
        Self { namespace: "k8s.io".into(), id: id.into(), driver: ContainerDriver::Cri }
    }
}

/// What a node answers a stream with. Its first word comes with the first message, not before: where nothing happens,
/// nothing is answered.
pub(super) enum Answer<T> {
    /// Nothing was said yet.
    Awaited(BoxFuture<'static, Result<Response<Streaming<T>>, Status>>),
    /// It has begun.
    Begun(Box<Streaming<T>>),
}

impl<T> From<Streaming<T>> for Answer<T> {
    fn from(stream: Streaming<T>) -> Self {
        Self::Begun(Box::new(stream))
    }
}

impl<T> Answer<T> {
    /// Loses nothing when it is given up. Not to be asked again after an error.
    async fn next(&mut self) -> Option<Result<T, Status>> {
        loop {
            match self {
                Self::Begun(stream) => return stream.next().await,
                Self::Awaited(reply) => match reply.await {
                    Ok(reply) => *self = reply.into_inner().into(),
                    Err(status) => return Some(Err(status)),
                },
            }
        }
    }
}

/// Lines or bytes as they come.
pub type Bytes = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

impl NodeEvent {
    /// None for the empty event that only says that the stream has begun.
    fn of(event: machine::Event) -> Option<Self> {
        let data = event.data.filter(|data| !data.type_url.is_empty())?;
        let kind = data.type_url.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
        Some(Self { id: event.id, actor_id: event.actor_id, kind, data: data.value })
    }
}

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
        Ok(self.attentive("events", stream.into()).filter_map(move |item| {
            let event = item.and_then(|event| {
                let refused = Failure::of_metadata(event.metadata.as_ref());
                refused.map(|()| event).map_err(|failure| client.failed("events", failure))
            });
            future::ready(event.map(NodeEvent::of).transpose())
        }))
    }

    /// Like [`Client::events`] for new ones, gone on with whenever the node comes back: a reboot is no error here. Each
    /// event comes once; those that a node tells of its boot come too. It ends only when the node refuses.
    pub fn events_through_reboots(&self) -> impl Stream<Item = Result<NodeEvent>> + Send + use<> {
        let following =
            Following { client: self.clone(), events: None, last: None, wait: Duration::ZERO, ended: false };
        futures::stream::unfold(following, |mut following| async move {
            let item = following.next().await?;
            Some((item, following))
        })
    }

    /// The log of a service of Talos, such as `etcd`: the last lines, and with `follow` what comes. A followed log may be
    /// quiet for as long as it likes, and just ends when the node reboots. That there is no such log may be told by its
    /// first item.
    pub async fn logs(&self, service: &str, follow: bool, tail_lines: Option<u32>) -> Result<Bytes> {
        self.container_logs(&ContainerLog::of_service(service), follow, tail_lines).await
    }

    /// The log of any container of the node, in the same way.
    pub async fn container_logs(
        &self,
        log: &ContainerLog,
        follow: bool,
        tail_lines: Option<u32>,
    ) -> Result<Bytes> {
        let driver = match log.driver {
            ContainerDriver::Containerd => common::ContainerDriver::Containerd,
            ContainerDriver::Cri => common::ContainerDriver::Cri,
        };
        let request = machine::LogsRequest {
            namespace: log.namespace.clone(),
            id: log.id.clone(),
            driver: driver.into(),
            follow,
            tail_lines: tail_lines.map_or(-1, |lines| i32::try_from(lines).unwrap_or(i32::MAX)),
        };
        let (mut machine, request) = (self.machine(), self.request(request));
        self.pieces_of("logs", follow, async move { machine.logs(request).await }).await
    }

    /// The messages of the kernel; with `tail` only new ones. Followed, they just end when the node reboots.
    pub async fn dmesg(&self, follow: bool, tail: bool) -> Result<Bytes> {
        let (mut machine, request) = (self.machine(), self.request(machine::DmesgRequest { follow, tail }));
        self.pieces_of("dmesg", follow, async move { machine.dmesg(request).await }).await
    }

    /// What is followed is begun without waiting for a first word; anything else has to begin within the call's deadline.
    async fn pieces_of(
        &self,
        operation: &'static str,
        follow: bool,
        reply: impl Future<Output = Result<Response<Streaming<common::Data>>, Status>> + Send + 'static,
    ) -> Result<Bytes> {
        let answer = match follow {
            true => self.follow(operation, reply).await?,
            false => self.call(operation, reply).await?.into(),
        };
        Ok(self.pieces(operation, answer, follow))
    }

    /// Makes a call whose answer may be long in coming. Meanwhile the node is asked for a sign of life: one that has given
    /// it has the call too.
    pub(super) async fn follow<T>(
        &self,
        operation: &'static str,
        reply: impl Future<Output = Result<Response<Streaming<T>>, Status>> + Send + 'static,
    ) -> Result<Answer<T>> {
        let (namespace, kind, id) = MachineStatus::RESOURCE;
        let alive = pin!(self.get(namespace, kind, id));
        // The call is polled first, and so it is sent first.
        match future::select(Box::pin(reply), alive).await {
            Either::Left((reply, _)) => self.call(operation, future::ready(reply)).await.map(Answer::from),
            Either::Right((Err(crate::Error::Call { kind, source, .. }), _)) if is_away(kind) => {
                Err(self.failed(operation, Failure { kind, cause: source }))
            }
            Either::Right((_, reply)) => Ok(Answer::Awaited(reply)),
        }
    }

    /// A stream that may be silent for long, whose node is asked for a sign of life meanwhile: silence of the node ends
    /// it with an error.
    fn attentive<T: Send + 'static>(
        &self,
        operation: &'static str,
        answer: Answer<T>,
    ) -> impl Stream<Item = Result<T>> + Send + use<T> {
        let state = Some((self.clone(), answer));
        futures::stream::unfold(state, move |state| async move {
            let (client, mut answer) = state?;
            loop {
                let failure = match tokio::time::timeout(SILENCE, answer.next()).await {
                    Ok(Some(Ok(item))) => return Some((Ok(item), Some((client, answer)))),
                    Ok(Some(Err(status))) => client.of_status(&status),
                    Ok(None) => return None,
                    Err(_) => match client.ask_for_a_sign_of_life().await {
                        Some(failure) => failure,
                        None => continue,
                    },
                };
                return Some((Err(client.failed(operation, failure)), None));
            }
        })
    }

    /// Any answer will do, also a refusal; only silence counts.
    pub(super) async fn ask_for_a_sign_of_life(&self) -> Option<Failure> {
        let (namespace, kind, id) = MachineStatus::RESOURCE;
        match self.get(namespace, kind, id).await {
            Err(crate::Error::Call {
                kind: kind @ (FailureKind::Unreachable | FailureKind::Timeout),
                source,
                ..
            }) => Some(Failure { kind, cause: source }),
            _ => None,
        }
    }

    /// The bytes of a stream. What is followed ends with the node; anything else must come to its own end.
    pub(super) fn pieces(
        &self,
        operation: &'static str,
        answer: Answer<common::Data>,
        follow: bool,
    ) -> Bytes {
        let client = self.clone();
        let pieces = self.attentive(operation, answer).map(move |item| {
            let data = item?;
            Failure::of_metadata(data.metadata.as_ref())
                .map_err(|failure| client.failed(operation, failure))?;
            Ok(data.bytes)
        });
        if !follow {
            return Box::pin(pieces);
        }
        let (since, mut is_heard) = (Instant::now(), false);
        Box::pin(pieces.take_while(move |item: &Result<Vec<u8>>| {
            // What fails at once, before anything was said, has not been followed at all.
            is_heard |= item.is_ok() || since.elapsed() > SILENCE;
            let gone = item.as_ref().err().and_then(crate::Error::kind);
            let is_gone = matches!(gone, Some(FailureKind::Unreachable | FailureKind::Transient));
            future::ready(!(is_gone && is_heard))
        }))
    }

    /// The next message of a stream within a deadline.
    pub(super) async fn next<T>(
        &self,
        operation: &'static str,
        patience: Duration,
        answer: &mut Answer<T>,
    ) -> Result<Option<T>> {
        match tokio::time::timeout(patience, answer.next()).await {
            Ok(Some(Ok(item))) => Ok(Some(item)),
            Ok(Some(Err(status))) => Err(self.failed(operation, self.of_status(&status))),
            Ok(None) => Ok(None),
            Err(_) => Err(self.failed(operation, Failure::timeout())),
        }
    }
}

/// Follows a node's events through its reboots.
struct Following {
    client: Client,
    events: Option<Pin<Box<dyn Stream<Item = Result<NodeEvent>> + Send>>>,
    /// The newest event that was told; ids sort by time.
    last: Option<String>,
    wait: Duration,
    ended: bool,
}

impl Following {
    async fn next(&mut self) -> Option<Result<NodeEvent>> {
        while !self.ended {
            let item = match &mut self.events {
                Some(events) => events.next().await,
                None => {
                    tokio::time::sleep(self.wait).await;
                    // A node that has rebooted begins anew, so that everything is asked for and the known left out.
                    let tail = if self.wait.is_zero() { Tail::New } else { Tail::All };
                    match self.client.events(tail, None).await {
                        Ok(events) => {
                            self.events = Some(Box::pin(events));
                            continue;
                        }
                        Err(error) => Some(Err(error)),
                    }
                }
            };
            match item {
                Some(Ok(event)) if self.last.as_ref().is_some_and(|last| event.id <= *last) => {}
                Some(Ok(event)) => {
                    self.last = Some(event.id.clone());
                    self.wait = self.wait.min(AGAIN.0);
                    return Some(Ok(event));
                }
                Some(Err(error)) if !passes(&error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Some(Err(_)) | None => {
                    self.events = None;
                    self.wait = (self.wait * 2).clamp(AGAIN.0, AGAIN.1);
                }
            }
        }
        None
    }
}

/// Whether a failure only means that the node is away for a while.
pub(super) fn passes(error: &crate::Error) -> bool {
    error.kind().is_some_and(is_away)
}

fn is_away(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient)
}
