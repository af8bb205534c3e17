//! The name of a task: node, process, start, kind, object, user.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A task's name, `UPID:node:pid:pstart:starttime:kind:id:user:`. Keeps its text exactly.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Upid {
    text: String,
    fields: [(usize, usize); 4],
    pid: u32,
    process_start: u64,
    start_time: u32,
}

/// A text that is no UPID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a task id (UPID)")]
pub struct NotAUpid(pub String);

impl Upid {
    fn field(&self, index: usize) -> &str {
        let (from, to) = self.fields[index];
        &self.text[from..to]
    }

    /// The node it runs on; the only one that knows of it.
    pub fn node(&self) -> &str {
        self.field(0)
    }

    /// What kind of task: `qmcreate`, `qmstart`, `download` …
    pub fn kind(&self) -> &str {
        self.field(1)
    }

    /// What it is about, often a VMID (of the source, for clones); may be empty.
    pub fn id(&self) -> &str {
        self.field(2)
    }

    /// The VMID it is about, if it is about one.
    pub fn vmid(&self) -> Option<u32> {
        self.id().parse().ok()
    }

    /// Who started it, `user@realm` or `user@realm!token`.
    pub fn user(&self) -> &str {
        self.field(3)
    }

    /// Process id on the node.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Start of that process in ticks since the node's boot.
    pub fn process_start(&self) -> u64 {
        self.process_start
    }

    /// When it started by the node's clock, Unix seconds.
    pub fn start_time(&self) -> u32 {
        self.start_time
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Upid {
    type Err = NotAUpid;

    fn from_str(text: &str) -> Result<Self, NotAUpid> {
        parse(text).ok_or_else(|| NotAUpid(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Upid> {
    let mut spans = Vec::with_capacity(9);
    let mut from = 0;
    for part in text.split(':') {
        spans.push((from, from + part.len()));
        from += part.len() + 1;
    }
    let [head, node, pid, process_start, start_time, kind, id, user, tail] = spans[..] else { return None };
    let of = |(from, to): (usize, usize)| &text[from..to];
    let plain = |text: &str| !text.chars().any(|c| c.is_whitespace() || c == '/');
    let hex = |text: &str, most: usize| {
        let fits = (8..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if fits { u64::from_str_radix(text, 16).ok() } else { None }
    };
    let node_text = of(node);
    let node_fits = !node_text.is_empty()
        && !node_text.starts_with('-')
        && !node_text.ends_with('-')
        && node_text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let all_fit = of(head) == "UPID"
        && of(tail).is_empty()
        && node_fits
        && !of(kind).is_empty()
        && !of(user).is_empty()
        && [kind, id, user].into_iter().all(|span| plain(of(span)));
    all_fit.then_some(())?;
    Some(Upid {
        pid: u32::try_from(hex(of(pid), 8)?).ok()?,
        process_start: hex(of(process_start), 9)?,
        start_time: u32::try_from(hex(of(start_time), 8)?).ok()?,
        fields: [node, kind, id, user],
        text: text.to_owned(),
    })
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Upid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Upid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_real_one() {
        let upid: Upid = "UPID:pve1:000007DC:00028310:6AF9FCAF:qmdestroy:900:root@pam!t1:".parse().unwrap();
        assert_eq!((upid.node(), upid.kind(), upid.id()), ("pve1", "qmdestroy", "900"));
        assert_eq!((upid.user(), upid.vmid(), upid.pid()), ("root@pam!t1", Some(900), 2012));
        assert_eq!((upid.process_start(), upid.start_time()), (164_624, 1_794_768_047));
    }

    proptest! {
        #[test]
        fn parts_survive_text(
            node in "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", pid: u32, process_start in 0u64..0x10_0000_0000, start: u32,
            kind in "[a-z]{1,10}", id in "[a-zA-Z0-9._-]{0,12}", user in "[a-z]{1,8}@(pam|pve)(![a-z0-9]{1,5})?",
        ) {
            let text = format!("UPID:{node}:{pid:08X}:{process_start:08X}:{start:08X}:{kind}:{id}:{user}:");
            let upid: Upid = text.parse().unwrap();
            prop_assert_eq!(upid.to_string(), text);
            prop_assert_eq!((upid.node(), upid.kind(), upid.id(), upid.user()), (&*node, &*kind, &*id, &*user));
            prop_assert_eq!((upid.pid(), upid.process_start(), upid.start_time()), (pid, process_start, start));
        }

        #[test]
        fn any_text_is_judged_without_panic(text in "\\PC{0,80}") {
            let _ = text.parse::<Upid>();
        }

        #[test]
        fn near_misses_are_refused(cut in 0usize..60) {
            let whole = "UPID:pve1:000007DC:00028310:6AF9FCAF:qmdestroy:900:root@pam!t1:";
            prop_assert!(whole[..cut].parse::<Upid>().is_err());
        }
    }
}
