//! Objects that Proxmox keeps for the whole cluster: high availability and backup jobs.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value};

use crate::{
    client::{Ask, Client, Repeat},
    error::Error,
    lenient::as_text,
    params::{Params, segment},
};

/// Options by name, as text.
pub type Options = BTreeMap<String, String>;

/// A kind of object that is kept for the whole cluster, each with an id of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterObject {
    /// A guest under high availability, by `vm:300`.
    HaResource,
    /// A rule of high availability (release 9 and newer).
    HaRule,
    /// A group of high availability (up to release 8).
    HaGroup,
    /// A backup job.
    BackupJob,
}

impl ClusterObject {
    /// Path, and the name of the id.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::HaResource => ("/cluster/ha/resources", "sid"),
            Self::HaRule => ("/cluster/ha/rules", "rule"),
            Self::HaGroup => ("/cluster/ha/groups", "group"),
            Self::BackupJob => ("/cluster/backup", "id"),
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::HaResource => "HA resource",
            Self::HaRule => "HA rule",
            Self::HaGroup => "HA group",
            Self::BackupJob => "backup job",
        }
    }
}

impl Client {
    /// All objects of a kind, with their ids.
    pub async fn kept(&self, kind: ClusterObject) -> Result<BTreeMap<String, Options>, Error> {
        let (path, id) = kind.place();
        let rows: Vec<Map<String, Value>> =
            self.ask(Ask::get(path, format!("list every {}", kind.name()))).await?;
        Ok(rows.iter().filter_map(|row| Some((as_text(row.get(id)?)?, texts(row)))).collect())
    }

    /// Makes an object.
    pub async fn create_kept(&self, kind: ClusterObject, name: &str, set: &Options) -> Result<(), Error> {
        let (path, id) = kind.place();
        let mut form = form(set);
        form.set(id, name);
        let operation = format!("create {} {name}", kind.name());
        self.ask::<Value>(Ask::change(Method::POST, path, Repeat::Once, operation).form(form)).await.map(drop)
    }

    /// Changes an object.
    pub async fn update_kept(&self, kind: ClusterObject, name: &str, set: &Options) -> Result<(), Error> {
        let path = format!("{}/{}", kind.place().0, segment(name));
        let operation = format!("change {} {name}", kind.name());
        let ask = Ask::change(Method::PUT, path, Repeat::Idempotent, operation);
        self.ask::<Value>(ask.form(form(set))).await.map(drop)
    }

    /// Deletes an object.
    pub async fn delete_kept(&self, kind: ClusterObject, name: &str) -> Result<(), Error> {
        let path = format!("{}/{}", kind.place().0, segment(name));
        let operation = format!("delete {} {name}", kind.name());
        self.ask::<Value>(Ask::change(Method::DELETE, path, Repeat::Idempotent, operation)).await.map(drop)
    }
}

pub(crate) fn form(set: &Options) -> Params {
    let mut form = Params::new();
    for (name, value) in set {
        form.set(name, value);
    }
    form
}

pub(crate) fn texts(map: &Map<String, Value>) -> Options {
    map.iter().filter_map(|(name, value)| Some((name.clone(), property(value)?))).collect()
}

/// A value as it is sent: some that are sent as a list of properties (`keep-last=5`) come back as an object.
fn property(value: &Value) -> Option<String> {
    let Value::Object(properties) = value else { return as_text(value) };
    let one = |(key, value): (&String, &Value)| Some(format!("{key}={}", as_text(value)?));
    let mut all = properties.iter().map(one).collect::<Option<Vec<String>>>()?;
    all.sort_unstable();
    Some(all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_they_are_sent() {
        let row = serde_json::json!({"id": "daily", "enabled": 1, "prune-backups": {"keep-last": "5", "keep-daily": 7}});
        let told = texts(row.as_object().unwrap());
        assert_eq!(told["prune-backups"], "keep-daily=7,keep-last=5");
        assert_eq!((told["id"].as_str(), told["enabled"].as_str()), ("daily", "1"));
    }
}
