//! What a chart renders.

use std::cell::RefCell;
use std::collections::BTreeSet;

use daedal_helm::{Chart, HookEvent, KubeVersion, RenderOptions, Values, ValuesBuilder};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::digest;
use crate::error::Error;
use crate::helm_release;
use crate::inputs::{Inputs, Lookup, LookupAnswer, ServedKind};
use crate::kinds;
use crate::manifests::{self, Document};
use crate::object::ObjectId;
use crate::release::ChartInfo;

/// A chart, rendered.
pub(crate) struct OfChart {
    pub(crate) info: ChartInfo,
    /// What is in `crds/`.
    pub(crate) definitions: Vec<Document>,
    pub(crate) objects: Vec<Document>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) asked: Vec<ObjectId>,
    pub(crate) notes: String,
    pub(crate) warnings: Vec<String>,
}

/// A hook as it is written.
pub(crate) struct Hook {
    pub(crate) document: Document,
    pub(crate) events: Vec<HookEvent>,
    pub(crate) weight: i64,
    pub(crate) delete_policies: Vec<String>,
}

/// Hooks that Daedal runs; it rolls nothing back, and tests nothing.
const EVENTS: [HookEvent; 5] = [
    HookEvent::PreInstall,
    HookEvent::PostInstall,
    HookEvent::PreUpgrade,
    HookEvent::PostUpgrade,
    HookEvent::PreDelete,
];

/// Renders the chart of an add-on.
pub(crate) fn render(inputs: &Inputs<'_>) -> Result<OfChart, Error> {
    let addon = inputs.addon;
    let chart = inputs.chart.ok_or_else(|| Error::NoChart { addon: addon.name.clone() })?;
    let values = values(inputs)?;
    let run = |defined: &[ServedKind]| -> Result<_, Error> {
        let lookup = Recorder { inner: inputs.lookup, asked: RefCell::default() };
        let rendered = options(inputs, defined)
            .and_then(|options| daedal_helm::render_with_lookup(chart, &values, &options, &lookup))
            .map_err(|source| Error::Chart { addon: addon.name.clone(), source: Box::new(source) })?;
        Ok((rendered, lookup.asked.into_inner()))
    };
    let (mut rendered, mut asked) = run(&[])?;
    let definitions = read_all(rendered.crds.iter().map(|(source, text)| (source.as_str(), text.as_str())))?;
    // Helm renders templates when what is in `crds/` is there, and so do we whether it is there already or not.
    let defined: Vec<ServedKind> = definitions
        .iter()
        .flat_map(|document| kinds::defined_by(&document.body))
        .filter(|kind| !inputs.capabilities.kinds.contains(kind))
        .collect();
    if !defined.is_empty() {
        (rendered, asked) = run(&defined)?;
    }
    let sources = rendered.manifests.iter().map(|m| (m.source.as_str(), m.content.as_str()));
    let objects = read_all(sources)?;
    let mut hooks = Vec::new();
    for hook in rendered.hooks {
        hooks.extend(hook_of(&hook)?);
    }
    hooks.sort_by(|a, b| {
        let name = |hook: &Hook| hook.document.body["metadata"]["name"].as_str().map(str::to_owned);
        a.weight.cmp(&b.weight).then_with(|| name(a).cmp(&name(b)))
    });
    Ok(OfChart {
        info: info(chart),
        definitions,
        objects,
        hooks,
        asked: asked.into_iter().collect(),
        notes: rendered.notes,
        warnings: rendered.warnings,
    })
}

fn read_all<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for (source, text) in sources {
        documents.extend(manifests::read(source, text)?);
    }
    Ok(documents)
}

fn hook_of(hook: &daedal_helm::Hook) -> Result<Vec<Hook>, Error> {
    let events: Vec<HookEvent> = hook.events.iter().copied().filter(|e| EVENTS.contains(e)).collect();
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let mut delete_policies = hook.delete_policies.clone();
    if delete_policies.is_empty() {
        delete_policies.push("before-hook-creation".to_owned());
    }
    let documents = manifests::read(&hook.manifest.source, &hook.manifest.content)?;
    let made = |document| Hook {
        document,
        events: events.clone(),
        weight: hook.weight,
        delete_policies: delete_policies.clone(),
    };
    Ok(documents.into_iter().map(made).collect())
}

/// The values of an add-on, its secrets among them.
pub(crate) fn values(inputs: &Inputs<'_>) -> Result<Values, Error> {
    let mut builder = ValuesBuilder::new();
    for text in &inputs.addon.values {
        builder = builder
            .file(text.text.as_bytes())
            .map_err(|source| Error::Values { origin: text.origin.clone(), source: Box::new(source) })?;
    }
    for (path, value) in inputs.secrets {
        // What Helm says of it may contain the secret.
        builder = builder.set_literal(&format!("{path}={value}")).map_err(|_| Error::SecretValue {
            path: path.clone(),
            message: "the path does not fit the values".to_owned(),
        })?;
    }
    Ok(builder.build())
}

fn options(inputs: &Inputs<'_>, defined: &[ServedKind]) -> Result<RenderOptions, daedal_helm::Error> {
    let mut options = RenderOptions {
        release_name: inputs.addon.name.clone(),
        namespace: inputs.addon.namespace.clone(),
        now: (inputs.now, 0),
        seed: inputs.seed.derive("chart", &inputs.addon.name),
        schemas: inputs.schemas.clone(),
        ..RenderOptions::default()
    };
    options.capabilities.kube_version = KubeVersion::parse(&inputs.capabilities.kube_version)?;
    if inputs.capabilities.is_told() {
        options.capabilities.api_versions = Vec::new();
    }
    let mut versions: BTreeSet<String> = options.capabilities.api_versions.drain(..).collect();
    for kind in inputs.capabilities.kinds.iter().chain(defined) {
        versions.insert(format!("{}/{}", kind.api_version, kind.kind));
        versions.insert(kind.api_version.clone());
    }
    options.capabilities.api_versions = versions.into_iter().collect();
    Ok(options)
}

/// Notes what was asked for and is not known.
struct Recorder<'a> {
    inner: &'a dyn Lookup,
    asked: RefCell<BTreeSet<ObjectId>>,
}

impl daedal_helm::Lookup for Recorder<'_> {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        match self.inner.get(api_version, kind, namespace, name) {
            LookupAnswer::Known(value) => Some(value),
            LookupAnswer::Absent => None,
            LookupAnswer::NotAsked => {
                self.asked.borrow_mut().insert(ObjectId::of_lookup(api_version, kind, namespace, name));
                None
            }
        }
    }
}

/// What a chart says of itself, and the digest of its files.
pub fn info(chart: &Chart) -> ChartInfo {
    let mut hash = Sha256::new();
    update(&mut hash, chart);
    ChartInfo {
        name: chart.metadata.name.clone(),
        version: chart.metadata.version.clone(),
        app_version: chart.metadata.app_version.clone(),
        digest: hex::encode(hash.finalize()),
    }
}

fn update(hash: &mut Sha256, chart: &Chart) {
    digest::update(hash, &helm_release::metadata(&chart.metadata));
    digest::update(hash, &Value::Object(chart.values.as_json().clone()));
    let mut files: Vec<_> = chart.templates.iter().chain(chart.files.iter()).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    for file in files {
        digest::text(hash, &file.name);
        hash.update((file.data.len() as u64).to_be_bytes());
        hash.update(&file.data);
    }
    hash.update(chart.schema.as_deref().unwrap_or_default());
    for dependency in &chart.dependencies {
        hash.update(b"(");
        update(hash, dependency);
        hash.update(b")");
    }
}
