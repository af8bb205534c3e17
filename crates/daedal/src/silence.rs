//! Who is asked and has not answered yet: named after a few seconds, and again while it lasts.

use std::collections::HashMap;
use std::future::{Future, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_inventory::{Cluster, Reach};
use daedal_proxmox::{Call, Observer, Seen, Verdict};
use tokio::time::Instant;

use crate::console;

/// A peer that has not answered for so long is named.
pub const SILENT: Duration = Duration::from_secs(5);
/// And again after so long.
pub const AGAIN: Duration = Duration::from_secs(15);

/// Watches the calls to Proxmox. While a run shows its own progress, it only answers questions.
#[derive(Debug)]
pub struct Silence {
    whom: String,
    calls: Mutex<HashMap<(&'static str, String), Asked>>,
    in_run: AtomicBool,
}

/// Calls of one kind that are under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    since: Instant,
    under_way: usize,
}

impl Silence {
    /// Begins to watch, and to speak where nobody else does.
    pub fn watch(cluster: &Cluster, lab: bool) -> Arc<Self> {
        let whom = if lab { "the lab's Proxmox".to_owned() } else { whom(cluster) };
        let silence = Arc::new(Self::of(whom));
        let watched = Arc::downgrade(&silence);
        tokio::spawn(async move {
            let mut told = None;
            loop {
                tokio::time::sleep(Duration::from_millis(250)).await;
                let Some(silence) = watched.upgrade() else { return };
                let longest =
                    silence.longest(Instant::now()).filter(|_| !silence.in_run.load(Ordering::Relaxed));
                if let Some(line) = due(&silence.whom, longest, &mut told) {
                    console::say(&line);
                }
            }
        });
        silence
    }

    fn of(whom: String) -> Self {
        Self { whom, calls: Mutex::default(), in_run: AtomicBool::new(false) }
    }

    /// From now on, or no longer, somebody else shows what [`Self::says`].
    pub fn leave_to_run(&self, in_run: bool) {
        self.in_run.store(in_run, Ordering::Relaxed);
    }

    /// Who is silent and for how long, once that is long enough to be worth a word.
    pub fn says(&self) -> Option<String> {
        self.longest(Instant::now()).filter(|since| *since >= SILENT).map(|since| sentence(&self.whom, since))
    }

    fn longest(&self, now: Instant) -> Option<Duration> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = calls.values().filter(|asked| asked.under_way > 0);
        waiting.map(|asked| now.saturating_duration_since(asked.since)).max()
    }

    fn asked(&self, call: &Call, now: Instant) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (call.method, call.path.clone());
        let asked = calls.entry(key).or_insert(Asked { since: now, under_way: 0 });
        // Another try goes on waiting for the same answer.
        if asked.under_way == 0 && call.attempt == 1 {
            asked.since = now;
        }
        asked.under_way += 1;
    }

    fn ended(&self, call: &Call, answered: bool) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (call.method, call.path.clone());
        if let Some(asked) = calls.get_mut(&key) {
            asked.under_way = asked.under_way.saturating_sub(1);
            if asked.under_way == 0 && answered {
                calls.remove(&key);
            }
        }
    }
}

fn sentence(whom: &str, since: Duration) -> String {
    format!("waiting for {whom}: no answer for {} s", since.as_secs())
}

/// The line that is due: at first after [`SILENT`], then every [`AGAIN`]; and one when the wait is over.
fn due(whom: &str, longest: Option<Duration>, told: &mut Option<Duration>) -> Option<String> {
    match (longest.filter(|since| *since >= SILENT), *told) {
        (Some(since), None) => {
            *told = Some(since);
            Some(sentence(whom, since))
        }
        (Some(since), Some(last)) if since.saturating_sub(last) >= AGAIN => {
            *told = Some(since);
            Some(sentence(whom, since))
        }
        (None, Some(_)) if longest.is_none() => {
            *told = None;
            None
        }
        _ => None,
    }
}

/// Proxmox, and who stands between.
fn whom(cluster: &Cluster) -> String {
    let endpoint = &cluster.proxmox.endpoint;
    match &cluster.reach {
        Reach::Ssh(ssh) if ssh.proxmox => {
            format!("Proxmox at {endpoint} through SSH on {} (`reach.ssh`)", ssh.server.host)
        }
        Reach::Direct | Reach::Ssh(_) => format!("Proxmox at {endpoint}"),
        Reach::Proxy(proxy) => {
            format!("Proxmox at {endpoint} through the proxy {} (`reach.proxy`)", without_login(proxy))
        }
    }
}

/// A proxy's URL as it may be shown.
pub fn without_login(proxy: &str) -> String {
    match url::Url::parse(proxy) {
        Ok(mut url) => {
            // Only URLs without a host refuse this, and those have no login.
            let _ = url.set_username("").and_then(|()| url.set_password(None));
            url.as_str().trim_end_matches('/').to_owned()
        }
        Err(_) => "of the inventory".to_owned(),
    }
}

impl Observer for Silence {
    fn before<'a>(&'a self, call: &'a Call) -> Verdict<'a> {
        self.asked(call, Instant::now());
        Box::pin(ready(None))
    }

    fn after<'a>(&'a self, call: &'a Call, seen: &'a Seen) -> Verdict<'a> {
        self.ended(call, seen.status.is_some());
        Box::pin(ready(None))
    }
}

/// Waits for a peer that is no Proxmox, and names it when it is silent.
pub async fn while_asking<T>(whom: &str, answer: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let mut answer = std::pin::pin!(answer);
    let mut next = SILENT;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = tokio::time::sleep_until(began + next) => {
                console::say(&sentence(whom, began.elapsed()));
                next += AGAIN;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn call(attempt: u32) -> Call {
        Call { method: "GET", path: "/version".into(), operation: "ask".into(), mutating: false, attempt }
    }

    #[test]
    fn a_silent_peer_is_named_after_five_seconds_however_often_it_is_tried() {
        let silence = Silence::of("Proxmox at https://atlas.lan:8006".to_owned());
        let began = Instant::now();
        let after = |seconds| silence.longest(began + second(seconds));
        silence.asked(&call(1), began);
        assert_eq!(after(4), Some(second(4)));
        // The first try is given up, the next begins: it is the same wait.
        silence.ended(&call(1), false);
        assert_eq!(after(4), None);
        silence.asked(&call(2), began + second(4));
        assert_eq!(after(5), Some(SILENT));
        silence.ended(&call(2), true);
        assert_eq!(after(6), None);
        // The next call begins its own wait.
        silence.asked(&call(1), began + second(6));
        assert_eq!(after(7), Some(second(1)));
        assert_eq!(silence.says(), None);
        let said = sentence(&silence.whom, SILENT);
        assert_eq!(said, "waiting for Proxmox at https://atlas.lan:8006: no answer for 5 s");
    }

    #[test]
    fn it_is_named_again_while_it_lasts_and_anew_the_next_time() {
        let mut told = None;
        let mut said = Vec::new();
        for now in 1..=36 {
            said.extend(due("it", Some(second(now)), &mut told));
        }
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(due("it", None, &mut told), None);
        assert!(due("it", Some(second(5)), &mut told).is_some());
    }

    #[test]
    fn a_proxy_is_named_without_its_login() {
        assert_eq!(without_login("http://me:secret@10.9.9.9:3128"), "http://10.9.9.9:3128");
        assert_eq!(without_login("socks5://[fd00::1]:1080"), "socks5://[fd00::1]:1080");
    }
}
