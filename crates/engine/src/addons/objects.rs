//! Any object of Kubernetes, by its kind and name: what is served is discovered first.

use std::collections::HashMap;
use std::time::Duration;

use daedal_addons::{Capabilities, MANAGER, ObjectId, ServedKind};
use http::{Method, Request};
use serde_json::{Value, json};

/// What asks for all groups with all their kinds in one answer.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A kind that is served.
#[derive(Clone, Debug)]
struct Served {
    api_version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

/// How an object is applied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Applying<'a> {
    /// Whether fields are taken from others.
    pub(crate) force: bool,
    /// Whether Kubernetes only says what would come of it.
    pub(crate) dry_run: bool,
    /// The field manager, if another than usual.
    pub(crate) manager: Option<&'a str>,
}

/// A client of one API server that knows what it serves.
#[derive(Clone)]
pub(crate) struct Objects {
    client: kube::Client,
    patience: Duration,
    version: String,
    served: Vec<Served>,
    by_kind: HashMap<(String, String), usize>,
}

impl Objects {
    /// Asks an API server what it serves.
    pub(crate) async fn discover(client: kube::Client, patience: Duration) -> Result<Self, kube::Error> {
        let (version, served, by_kind) = (String::new(), Vec::new(), HashMap::new());
        let mut all = Self { client, patience, version, served, by_kind };
        let version = all.send(get("/version", None)?).await?;
        all.version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        for root in ["/api", "/apis"] {
            let groups = all.send(get(root, Some(AGGREGATED))?).await?;
            for group in list(&groups["items"]) {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                for version in list(&group["versions"]) {
                    all.take(name, version);
                }
            }
        }
        Ok(all)
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<Value, kube::Error> {
        match tokio::time::timeout(self.patience, self.client.request(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("no answer came within {} s", self.patience.as_secs());
                Err(kube::Error::Service(why.into()))
            }
        }
    }

    fn take(&mut self, group: &str, version: &Value) {
        let name = version["version"].as_str().unwrap_or_default();
        let api_version = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
        for resource in list(&version["resources"]) {
            let (Some(plural), Some(kind)) =
                (resource["resource"].as_str(), resource["responseKind"]["kind"].as_str())
            else {
                continue;
            };
            let verbs = list(&resource["verbs"]);
            if !verbs.iter().any(|verb| *verb == "get") {
                continue;
            }
            self.by_kind.insert((api_version.clone(), kind.to_owned()), self.served.len());
            self.served.push(Served {
                api_version: api_version.clone(),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
                namespaced: resource["scope"] == "Namespaced",
            });
        }
    }

    /// What it serves, as charts are rendered for it.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let kinds = self.served.iter().map(|one| ServedKind {
            api_version: one.api_version.clone(),
            kind: one.kind.clone(),
            namespaced: one.namespaced,
        });
        Capabilities { kube_version: self.version.clone(), kinds: kinds.collect() }
    }

    fn of(&self, id: &ObjectId) -> Option<&Served> {
        self.by_kind.get(&(id.api_version.clone(), id.kind.clone())).map(|at| &self.served[*at])
    }

    /// Whether objects of such a kind can be there.
    pub(crate) fn serves(&self, id: &ObjectId) -> bool {
        self.of(id).is_some()
    }

    /// The version in which objects of a kind can be listed.
    pub(crate) fn version_of(&self, group: &str, kind: &str) -> Option<&str> {
        let of_group = |one: &&Served| {
            one.kind == kind && one.api_version.rsplit_once('/').map_or("", |(group, _)| group) == group
        };
        self.served.iter().find(of_group).map(|one| one.api_version.as_str())
    }

    fn path(&self, id: &ObjectId, named: bool) -> Option<String> {
        let served = self.of(id)?;
        let root = if served.api_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{root}/{}", served.api_version);
        if let (Some(namespace), true) = (&id.namespace, served.namespaced) {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push('/');
        path.push_str(&served.plural);
        if named {
            path.push('/');
            path.push_str(&id.name);
        }
        Some(path)
    }

    /// An object; none if it is not there, or nothing of its kind can be.
    pub(crate) async fn get(&self, id: &ObjectId) -> Result<Option<Value>, kube::Error> {
        let Some(path) = self.path(id, true) else { return Ok(None) };
        match self.send(get(&path, None)?).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a kind that a label selector chooses: in the namespace of `id`, or everywhere. None where no such kind is
    /// served.
    pub(crate) async fn list(&self, id: &ObjectId, selector: &str) -> Result<Vec<Value>, kube::Error> {
        let Some(path) = self.path(id, false) else { return Ok(Vec::new()) };
        let selector = selector.replace(' ', "%20");
        let query = if selector.is_empty() { path } else { format!("{path}?labelSelector={selector}") };
        let mut answer = match self.send(get(&query, None)?).await {
            // Its definition went meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            answer => answer?,
        };
        let Value::Array(mut items) = answer["items"].take() else { return Ok(Vec::new()) };
        for item in &mut items {
            // In a list only the list says what they are.
            item["apiVersion"] = json!(id.api_version);
            item["kind"] = json!(id.kind);
        }
        Ok(items)
    }

    /// A whole list, as a template looks it up.
    pub(crate) async fn look_up(&self, id: &ObjectId) -> Result<Option<Value>, kube::Error> {
        if !id.name.is_empty() {
            return self.get(id).await;
        }
        let Some(path) = self.path(id, false) else { return Ok(None) };
        self.send(get(&path, None)?).await.map(Some)
    }

    /// Applies an object server-side.
    pub(crate) async fn apply(
        &self,
        id: &ObjectId,
        body: &Value,
        how: Applying<'_>,
    ) -> Result<Value, kube::Error> {
        let path = self.path(id, true).ok_or_else(|| not_served(id))?;
        let manager = how.manager.unwrap_or(MANAGER);
        let mut uri = format!("{path}?fieldManager={manager}");
        if how.force {
            uri.push_str("&force=true");
        }
        if how.dry_run {
            uri.push_str("&dryRun=All");
        }
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(uri)
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.send(request).await
    }

    /// Deletes the very object that was seen, with what hangs on it. Whether it was there.
    pub(crate) async fn delete(&self, id: &ObjectId, uid: &str) -> Result<bool, kube::Error> {
        let Some(path) = self.path(id, true) else { return Ok(false) };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        let body = serde_json::to_vec(&options).map_err(kube::Error::SerdeError)?;
        let request = Request::builder()
            .method(Method::DELETE)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        match self.send(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn get(path: &str, accept: Option<&str>) -> Result<Request<Vec<u8>>, kube::Error> {
    let mut request = Request::get(path);
    if let Some(accept) = accept {
        request = request.header(http::header::ACCEPT, accept);
    }
    request.body(Vec::new()).map_err(kube::Error::HttpError)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What an API server answers that does not know a kind.
fn not_served(id: &ObjectId) -> kube::Error {
    let message = format!("no kind {} is served in {}", id.kind, id.api_version);
    kube::Error::Api(Box::new(kube::core::Status::failure(&message, "NotFound").with_code(404)))
}
