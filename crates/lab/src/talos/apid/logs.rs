//! What a machine tells: events, console, logs, and the few files that tools read.

use daedal_talos::proto::common::Data;
use daedal_talos::proto::machine::{Event, EventsRequest, LogsRequest};
use futures::stream::{self, BoxStream};
use tonic::Status;

use super::Api;
use crate::talos::node::Happening;

type Stream<T> = BoxStream<'static, Result<T, Status>>;

fn event_id(serial: u64) -> String {
    // Ids sort by time, as the real ones do.
    format!("{serial:020}")
}

fn event(happening: &Happening) -> Event {
    Event {
        metadata: None,
        data: Some(happening.data.clone()),
        id: event_id(happening.serial),
        actor_id: happening.actor.clone(),
    }
}

impl Api {
    /// Past events as asked for, then all new ones.
    pub(super) fn event_stream(&self, request: EventsRequest) -> Stream<Event> {
        let now = self.now();
        let start = {
            let state = self.node.state();
            let newest = state.serial;
            if request.tail_events < 0 {
                0
            } else if request.tail_events > 0 {
                newest.saturating_sub(request.tail_events as u64)
            } else if !request.tail_id.is_empty() {
                request.tail_id.parse::<u64>().unwrap_or(newest)
            } else if request.tail_seconds > 0 {
                let since = now - i64::from(request.tail_seconds);
                state.events.iter().find(|e| e.at >= since).map_or(newest, |e| e.serial - 1)
            } else {
                newest
            }
        };
        let watch = self.node.watch();
        let node = self.node.clone();
        let actor = request.with_actor_id;
        let events = stream::unfold((node, watch, start), move |(node, mut watch, mut last)| {
            let actor = actor.clone();
            async move {
                loop {
                    watch.mark_unchanged();
                    let next = {
                        let state = node.state();
                        let mut later = state.events.iter().filter(|e| e.serial > last);
                        later.find(|e| actor.is_empty() || e.actor == actor).cloned()
                    };
                    if let Some(next) = next {
                        last = next.serial;
                        return Some((Ok(event(&next)), (node, watch, last)));
                    }
                    watch.changed().await.ok()?;
                }
            }
        });
        Box::pin(events)
    }

    /// The console as the kernel log.
    pub(super) fn console_stream(&self, follow: bool) -> Stream<Data> {
        let lines: Vec<String> = { self.node.state().console.iter().cloned().collect() };
        let piece = |line: &String| Ok(Data { metadata: None, bytes: format!("{line}\n").into_bytes() });
        let past: Vec<_> = lines.iter().map(piece).collect();
        if !follow {
            return Box::pin(stream::iter(past));
        }
        let watch = self.node.watch();
        let node = self.node.clone();
        let new =
            stream::unfold((node, watch, lines.last().cloned()), |(node, mut watch, last)| async move {
                loop {
                    watch.mark_unchanged();
                    let newest = { node.state().console.back().cloned() };
                    if newest != last {
                        let bytes = format!("{}\n", newest.clone().unwrap_or_default()).into_bytes();
                        return Some((Ok(Data { metadata: None, bytes }), (node, watch, newest)));
                    }
                    watch.changed().await.ok()?;
                }
            });
        Box::pin(futures::StreamExt::chain(stream::iter(past), new))
    }

    pub(super) fn log_stream(&self, request: &LogsRequest) -> Result<Stream<Data>, Status> {
        let known = { self.node.state().services.contains_key(request.id.as_str()) };
        if request.id == "machined" || request.id == "kernel" {
            return Ok(self.console_stream(request.follow));
        }
        if !known {
            return Err(Status::not_found(format!("log {:?} was not registered", request.id)));
        }
        let line = {
            let state = self.node.state();
            state.services.get(request.id.as_str()).map(|s| format!("{}: {}\n", request.id, s.message))
        };
        let past = stream::iter([Ok(Data { metadata: None, bytes: line.unwrap_or_default().into_bytes() })]);
        if request.follow {
            return Ok(Box::pin(futures::StreamExt::chain(past, stream::pending())));
        }
        Ok(Box::pin(past))
    }

    pub(super) fn file(&self, path: &str) -> Result<Vec<u8>, Status> {
        let state = self.node.state();
        let text = match path {
            "/proc/sys/kernel/random/boot_id" => format!("{}\n", state.boot_id),
            "/etc/hostname" => format!("{}\n", state.hostname),
            "/etc/os-release" => {
                let version = state.image.as_ref().map(|i| i.version.clone()).unwrap_or_default();
                format!("NAME=\"Talos\"\nID=talos\nVERSION_ID={version}\nPRETTY_NAME=\"Talos ({version})\"\n")
            }
            "/proc/uptime" => {
                let up = (self.shared.pace.now() - state.booted_at).max(0);
                format!("{up}.00 {up}.00\n")
            }
            _ => return Err(Status::not_found(format!("stat {path}: no such file or directory"))),
        };
        Ok(text.into_bytes())
    }
}
