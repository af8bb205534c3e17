//! Watches that survive a reboot: what was told before a break is not told again, and what is gone since is told as gone.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use futures::StreamExt;

use crate::{
    Error, Result,
    connect::Client,
    cosi::{Resource, ResourceEvent, ResourceEvents, WatchEvent},
    streams::{AGAIN, passes},
};

impl Client {
    /// Like [`Client::watch`], gone on with whenever the node comes back: a reboot is no error here, and neither is a node
    /// that hung up because more happened than it keeps for a slow reader.
    ///
    /// After a break only what differs from what was told is told: what is new as created, what has another version or
    /// other contents as updated, what is gone as destroyed (as it was told last). What came and went meanwhile is not
    /// told, and of several changes to a resource only the last is. [`ResourceEvent::Bootstrapped`] comes once. The
    /// stream ends only when the node refuses.
    pub fn watch_through_reboots(&self, namespace: &str, kind: &str, id: Option<&str>) -> ResourceEvents {
        let again = Again {
            client: self.clone(),
            resource: (namespace.to_owned(), kind.to_owned(), id.map(ToOwned::to_owned)),
            events: None,
            wait: Duration::ZERO,
            ended: false,
            told: Told::default(),
            pending: VecDeque::new(),
        };
        Box::pin(futures::stream::unfold(again, |mut again| async move {
            let item = again.next().await?;
            Some((item, again))
        }))
    }
}

struct Again {
    client: Client,
    resource: (String, String, Option<String>),
    events: Option<ResourceEvents>,
    wait: Duration,
    ended: bool,
    told: Told,
    pending: VecDeque<WatchEvent>,
}

impl Again {
    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        while !self.ended {
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            if self.events.is_none() {
                tokio::time::sleep(self.wait).await;
                let (namespace, kind, id) = &self.resource;
                match self.client.watch(namespace, kind, id.as_deref()).await {
                    Ok(events) => {
                        self.events = Some(events);
                        self.told.begin();
                    }
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
                    self.pending.extend(self.told.news(event));
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
    fn broke(&mut self, error: Error) -> Option<Error> {
        self.events = None;
        self.wait = (self.wait * 2).clamp(AGAIN.0, AGAIN.1);
        if passes(&error) {
            return None;
        }
        self.ended = true;
        Some(error)
    }
}

/// What was told, by id, so that after a break only what differs is.
#[derive(Default)]
struct Told {
    resources: BTreeMap<String, Resource>,
    /// That a single resource is not there was told.
    is_known_absent: bool,
    is_bootstrapped: bool,
    /// What the present watch has spoken of; none once all that is there has come.
    seen: Option<BTreeSet<String>>,
}

impl Told {
    /// A new watch begins.
    fn begin(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    /// What of an event is news.
    fn news(&mut self, event: WatchEvent) -> Vec<WatchEvent> {
        match (event.event, event.resource) {
            (ResourceEvent::Bootstrapped, _) => {
                // All that is there has come: what was told and is not among it is gone.
                let seen = self.seen.take();
                let is_gone = |id: &&String| seen.as_ref().is_some_and(|seen| !seen.contains(*id));
                let gone: Vec<String> = self.resources.keys().filter(is_gone).cloned().collect();
                let mut news: Vec<WatchEvent> = gone
                    .iter()
                    .filter_map(|id| self.resources.remove(id))
                    .map(|resource| WatchEvent { event: ResourceEvent::Destroyed, resource: Some(resource) })
                    .collect();
                if !std::mem::replace(&mut self.is_bootstrapped, true) {
                    news.push(WatchEvent { event: ResourceEvent::Bootstrapped, resource: None });
                }
                news
            }
            (ResourceEvent::Destroyed, Some(resource)) => {
                // A watch of one resource that is not there begins with this, and then says nothing of what it was.
                let was = self.resources.remove(&resource.id);
                let is_news = was.is_some() || !self.is_known_absent;
                let resource = was.filter(|_| resource.yaml.is_empty()).unwrap_or(resource);
                self.is_known_absent = true;
                let event = WatchEvent { event: ResourceEvent::Destroyed, resource: Some(resource) };
                Vec::from_iter(is_news.then_some(event))
            }
            (_, Some(resource)) => {
                self.is_known_absent = false;
                if let Some(seen) = &mut self.seen {
                    seen.insert(resource.id.clone());
                }
                // A node that has rebooted counts versions anew, so that the contents must be the same too.
                let event = match self.resources.get(&resource.id) {
                    Some(before) if *before == resource => return Vec::new(),
                    Some(_) => ResourceEvent::Updated,
                    None => ResourceEvent::Created,
                };
                self.resources.insert(resource.id.clone(), resource.clone());
                vec![WatchEvent { event, resource: Some(resource) }]
            }
            (event, None) => vec![WatchEvent { event, resource: None }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: ResourceEvent, id: &str) -> WatchEvent {
        let resource = Resource {
            namespace: "runtime".into(),
            kind: "Any".into(),
            id: id.to_owned(),
            version: "1".into(),
            phase: "running".into(),
            labels: BTreeMap::new(),
            yaml: "a: b".into(),
        };
        WatchEvent { event, resource: (event != ResourceEvent::Bootstrapped).then_some(resource) }
    }

    #[test]
    fn a_long_watch_remembers_only_what_is_there() {
        let mut told = Told::default();
        told.begin();
        told.news(event(ResourceEvent::Created, "a"));
        assert_eq!(told.news(event(ResourceEvent::Bootstrapped, "")).len(), 1);
        for number in 0..100 {
            let id = number.to_string();
            told.news(event(ResourceEvent::Created, &id));
            told.news(event(ResourceEvent::Destroyed, &id));
        }
        assert!(told.seen.is_none() && told.resources.len() == 1);
        // A second one within the same watch takes nothing away.
        assert!(told.news(event(ResourceEvent::Bootstrapped, "")).is_empty());
        told.begin();
        assert_eq!(told.news(event(ResourceEvent::Bootstrapped, "")).len(), 1, "a is gone");
    }
}
