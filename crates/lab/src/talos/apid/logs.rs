//! What a machine tells: events, console, logs, and the few files that tools read.

use daedal_talos_client::proto::common::Data;
use daedal_talos_client::proto::machine::{DmesgRequest, Event, EventsRequest, LogsRequest};
use futures::stream::{self, BoxStream, StreamExt as _};
use tonic::Status;

use super::Api;
use crate::talos::node::{Happening, Line};

type Stream<T> = BoxStream<'static, Result<T, Status>>;

/// The letters of event ids.
const LETTERS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// An id as the real ones are: twelve bytes that sort by time, in twenty letters.
fn event_id(at: i64, serial: u64) -> String {
    let bits = (u128::from(at.max(0) as u32) << 64 | u128::from(serial)) << 4;
    (0..20).map(|place| char::from(LETTERS[(bits >> (95 - 5 * place) & 31) as usize])).collect()
}

/// The place of an event in its stream, out of its id.
fn serial_of(id: &str) -> Option<u64> {
    let mut bits = 0_u128;
    for letter in id.bytes() {
        bits = bits << 5 | LETTERS.iter().position(|l| *l == letter)? as u128;
    }
    (id.len() == 20).then_some((bits >> 4) as u64)
}

fn event(happening: &Happening) -> Event {
    Event {
        metadata: None,
        data: Some(happening.data.clone()),
        id: event_id(happening.at, happening.serial),
        actor_id: happening.actor.clone(),
    }
}

fn data(text: String) -> Result<Data, Status> {
    Ok(Data { metadata: None, bytes: text.into_bytes() })
}

/// A line as the kernel's log shows it.
fn kernel_line(line: &Line) -> String {
    let at = jiff::Timestamp::from_second(line.at).map(|t| t.to_string()).unwrap_or_default();
    let (facility, priority) =
        if line.text.starts_with("[talos]") { ("user", "warning") } else { ("kern", "info") };
    format!("{facility}: {priority:>7}: [{at}]: {}\n", line.text)
}

impl Api {
    /// An empty event that says the stream has begun, past events as asked for, then all new ones.
    pub(super) fn event_stream(&self, request: EventsRequest) -> Result<Stream<Event>, Status> {
        let now = self.now();
        let start = {
            let state = self.node.state();
            let newest = state.serial;
            if request.tail_events < 0 {
                0
            } else if request.tail_events > 0 {
                newest.saturating_sub(request.tail_events as u64)
            } else if !request.tail_id.is_empty() {
                serial_of(&request.tail_id)
                    .ok_or_else(|| Status::unknown("error parsing tail_id: xid: invalid ID"))?
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
        let hello = Event {
            metadata: None,
            data: Some(prost_types::Any::default()),
            id: event_id(now, start),
            actor_id: actor.clone(),
        };
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
        Ok(Box::pin(stream::iter([Ok(hello)]).chain(events)))
    }

    /// The kernel's log of this boot, and what comes if it is followed.
    pub(super) fn kernel_log(&self, request: &DmesgRequest) -> Stream<Data> {
        let (start, newest) = {
            let state = self.node.state();
            (if request.tail { state.lines } else { state.boot_line }, state.lines)
        };
        self.lines(start, if request.follow { u64::MAX } else { newest }, kernel_line)
    }

    /// The console's lines after one and up to another.
    fn lines(&self, start: u64, end: u64, show: fn(&Line) -> String) -> Stream<Data> {
        let (node, watch) = (self.node.clone(), self.node.watch());
        let lines = stream::unfold((node, watch, start), move |(node, mut watch, last)| async move {
            loop {
                watch.mark_unchanged();
                if last >= end {
                    return None;
                }
                let next = { node.state().console.iter().find(|line| line.serial > last).cloned() };
                if let Some(next) = next {
                    return Some((data(show(&next)), (node, watch, next.serial)));
                }
                watch.changed().await.ok()?;
            }
        });
        Box::pin(lines)
    }

    pub(super) fn log_stream(&self, request: &LogsRequest) -> Result<Stream<Data>, Status> {
        let (boot, newest, past) = {
            let state = self.node.state();
            let service = state.services.get(request.id.as_str());
            let said = service.map(|s| {
                let lines = s.history.iter();
                lines
                    .map(|(state, message, _)| format!("{}: {state}: {message}\n", request.id))
                    .collect::<Vec<_>>()
            });
            (state.boot_line, state.lines, said)
        };
        if request.id == "machined" || request.id == "kernel" {
            let start = match u64::try_from(request.tail_lines) {
                Ok(lines) => boot.max(newest.saturating_sub(lines)),
                Err(_) => boot,
            };
            let end = if request.follow { u64::MAX } else { newest };
            return Ok(self.lines(start, end, |line| format!("{}\n", line.text)));
        }
        let mut past =
            past.ok_or_else(|| Status::unknown(format!("log {:?} was not registered", request.id)))?;
        if let Ok(lines) = usize::try_from(request.tail_lines) {
            past.drain(..past.len().saturating_sub(lines));
        }
        let past = stream::iter(past.into_iter().map(data));
        if request.follow {
            return Ok(Box::pin(past.chain(stream::pending())));
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
            _ => return Err(Status::unknown(format!("stat {path}: no such file or directory"))),
        };
        Ok(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_sort_by_time_and_give_their_place_back() {
        let ids: Vec<String> = [(1, 5), (1, 6), (1_767_225_600, 7), (1_767_225_601, 1)]
            .into_iter()
            .map(|(at, serial)| event_id(at, serial))
            .collect();
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == 20), "{ids:?}");
        assert_eq!(ids.iter().map(|id| serial_of(id)).collect::<Vec<_>>(), [5, 6, 7, 1].map(Some));
        assert_eq!(serial_of("not an id"), None);
    }
}
