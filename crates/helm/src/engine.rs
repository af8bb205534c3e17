//! Runs a chart's templates: prepares what they see, parses them all, executes each.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bumpalo::Bump;
use serde_json::{Map as JsonMap, Value as Json};

use crate::chart::{self, Chart, File, Metadata, full_path};
use crate::error::Error;
use crate::files::Files;
use crate::funcs;
use crate::lookup::Lookup;
use crate::options::{Capabilities, RenderOptions};
use crate::parallel;
use crate::random::Random;
use crate::strconv;
use crate::template::ast::{Source, Tree};
use crate::template::exec::{Env, ExecError, TemplateSet, Templates, associate, execute};
use crate::template::parse::{self, ParseError};
use crate::time::GoTime;
use crate::value::{Field, ListKind, Map, MapKind, Str, Struct, Value};

/// Helm's workaround for Go's habit of printing `<no value>`.
pub(crate) fn without_no_value(output: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"<no value>";
    let mut marks = memchr::memmem::find_iter(&output, MARK).peekable();
    if marks.peek().is_none() {
        drop(marks);
        return output;
    }
    let mut out = Vec::with_capacity(output.len());
    let mut from = 0;
    for mark in marks {
        out.extend_from_slice(&output[from..mark]);
        from = mark + MARK.len();
    }
    out.extend_from_slice(&output[from..]);
    out
}

struct Renderable {
    name: Rc<str>,
    files: Arc<[File]>,
    index: usize,
    base_path: String,
    values: Rc<Map>,
}

/// What has to be done before templates run, in any order.
enum Preparation<'a> {
    Check,
    Parse { name: &'a str, text: &'a [u8] },
}

/// What came of it.
enum Prepared<'a> {
    Checked(Result<(), Error>),
    Parsed(Result<Vec<Tree<'a>>, Box<ParseError>>),
}

/// Texts that are not worth a second thread.
const SMALL: usize = 64 << 10;

/// Parses all templates and checks what has to be true before, whose complaints come first.
fn prepare<'a>(
    arenas: [&'a mut Bump; 2],
    check: impl Fn() -> Result<(), Error> + Sync,
    renderables: &'a [Renderable],
) -> Result<Vec<Vec<Tree<'a>>>, Error> {
    let mut todo = vec![Preparation::Check];
    todo.extend(
        renderables.iter().map(|r| Preparation::Parse { name: &r.name, text: &r.files[r.index].data }),
    );
    let check = &check;
    let worker = |arena: &'a mut Bump| {
        let arena: &'a Bump = arena;
        move |preparation: &Preparation<'a>| match preparation {
            Preparation::Check => Prepared::Checked(check()),
            Preparation::Parse { name, text } => {
                let text = match strconv::lossy(text) {
                    Cow::Borrowed(text) => text,
                    Cow::Owned(text) => arena.alloc_str(&text),
                };
                Prepared::Parsed(parse::parse(arena, Source { name, text }))
            }
        }
    };
    let size: usize = renderables.iter().map(|r| r.files[r.index].data.len()).sum();
    let prepared = if size < SMALL {
        let [arena, _] = arenas;
        todo.iter().map(worker(arena)).collect()
    } else {
        parallel::map(&todo, arenas, worker)
    };
    let mut parsed = Vec::with_capacity(renderables.len());
    for prepared in prepared {
        match prepared {
            Prepared::Checked(result) => result?,
            Prepared::Parsed(trees) => parsed.push(trees.map_err(|e| {
                let message = e.message.rsplit(": ").next().unwrap_or_default().to_owned();
                Error::Parse { file: e.source, line: e.line, message }
            })?),
        }
    }
    Ok(parsed)
}

/// Renders every template of a chart and its sub-charts, by path.
pub(crate) fn render(
    chart: &Chart,
    values: &JsonMap<String, Json>,
    options: &RenderOptions,
    lookup: &dyn Lookup,
) -> Result<BTreeMap<String, String>, Error> {
    let mut renderables = Vec::new();
    let shared = Shared {
        release: release(options),
        capabilities: capabilities(&options.capabilities),
        helm4: options.capabilities.is_helm4(),
    };
    let root_values = to_map(values);
    collect(chart, "", root_values, &shared, &mut renderables);
    // Deepest paths first, and of one depth the last name first: what is parsed later wins.
    let depth = |r: &Renderable| r.name.bytes().filter(|b| *b == b'/').count();
    renderables.sort_by_cached_key(|r| (Reverse(depth(r)), Reverse(r.name.clone())));

    let (mut first, mut second, third) = (Bump::new(), Bump::new(), Bump::new());
    let check = || {
        if !options.skip_schema {
            chart::validate(chart, values, &options.schemas)?;
        }
        check_kube_version(chart, options)
    };
    let parsed = prepare([&mut first, &mut second], check, &renderables)?;
    let mut templates = Templates::new();
    for tree in parsed.iter().flatten() {
        associate(&mut templates, None, tree);
    }
    let set = Rc::new(TemplateSet::new(templates));
    let env = Env::new(
        &third,
        GoTime::utc(options.now.0, options.now.1),
        Random::new(options.seed),
        options.limits,
        options.strict,
        lookup,
    );
    let mut rendered = BTreeMap::new();
    let mut total = 0usize;
    for renderable in &renderables {
        if funcs::path_base(&renderable.name).starts_with('_') {
            continue;
        }
        let template = BTreeMap::from([
            ("Name".into(), Value::string(&*renderable.name)),
            ("BasePath".into(), Value::string(renderable.base_path.as_str())),
        ]);
        renderable.values.insert("Template".into(), Value::map_of(MapKind::Values, template));
        let data = Value::Map(renderable.values.clone());
        let output = execute(&env, &set, &renderable.name, &data).map_err(|e| render_error(*e))?;
        let output = without_no_value(output);
        total += output.len();
        if total > options.limits.output.saturating_mul(4) {
            return Err(Error::Render {
                message: "the chart's output is too large".to_owned(),
                locations: Vec::new(),
            });
        }
        let text = match String::from_utf8(output) {
            Ok(text) => text,
            Err(e) => crate::strconv::lossy(e.as_bytes()).into_owned(),
        };
        rendered.insert(renderable.name.to_string(), text);
    }
    Ok(rendered)
}

/// Whether the chart works with the Kubernetes that is rendered for.
fn check_kube_version(chart: &Chart, options: &RenderOptions) -> Result<(), Error> {
    let kube = &options.capabilities.kube_version.version;
    let wanted = &chart.metadata.kube_version;
    if wanted.is_empty() || crate::semver::compatible(wanted, kube) {
        return Ok(());
    }
    Err(Error::Chart(format!(
        "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {kube}"
    )))
}

/// Only the message of `fail` and `required` is for people; the rest of such an error is noise.
fn render_error(error: ExecError) -> Error {
    let (start, end) = funcs::WARNING;
    let marked = error
        .message
        .find(start)
        .zip(error.message.rfind(end))
        .and_then(|(from, to)| error.message.get(from + start.len()..to).map(str::to_owned));
    let message = match (marked, error.chain.first()) {
        (Some(text), Some(place)) => format!("execution error at ({place}): {text}"),
        _ => error.message,
    };
    Error::Render { message, locations: error.chain }
}

struct Shared {
    release: Value,
    capabilities: Value,
    helm4: bool,
}

fn collect(
    chart: &Chart,
    parent: &str,
    values: Rc<Map>,
    shared: &Shared,
    renderables: &mut Vec<Renderable>,
) -> Rc<Map> {
    let path = full_path(parent, chart.name());
    let mut subcharts: BTreeMap<Str, Value> = BTreeMap::new();
    for dependency in &chart.dependencies {
        let inner = match values.get(dependency.name().as_bytes()) {
            Some(Value::Map(map)) => share(&map),
            _ => share_entries(BTreeMap::new()),
        };
        let scope = collect(dependency, &path, inner, shared, renderables);
        subcharts.insert(dependency.name().into(), Value::Map(scope));
    }
    let metadata = chart_value(&chart.metadata, parent.is_empty());
    let scope = BTreeMap::from([
        ("Chart".into(), if shared.helm4 { without_structures(&metadata) } else { metadata }),
        ("Files".into(), Value::Files(Rc::new(Files::new(chart.files.clone())))),
        ("Release".into(), shared.release.clone()),
        ("Capabilities".into(), shared.capabilities.clone()),
        ("Values".into(), Value::Map(values)),
        ("Subcharts".into(), Value::map(subcharts)),
    ]);
    let scope = share_entries(scope);
    for (index, template) in chart.templates.iter().enumerate() {
        if chart.is_library() && !funcs::path_base(&template.name).starts_with('_') {
            continue;
        }
        renderables.push(Renderable {
            name: format!("{path}/{}", template.name).as_str().into(),
            files: chart.templates.clone(),
            index,
            base_path: format!("{path}/templates"),
            values: scope.clone(),
        });
    }
    scope
}

fn share_entries(entries: BTreeMap<Str, Value>) -> Rc<Map> {
    Rc::new(Map { kind: MapKind::Values, nil: false.into(), entries: entries.into() })
}

/// The same entries under the type sub-charts see their values as.
fn share(map: &Rc<Map>) -> Rc<Map> {
    share_entries(map.entries.borrow().clone())
}

fn to_map(values: &JsonMap<String, Json>) -> Rc<Map> {
    share_entries(values.iter().map(|(k, v)| (Str::from(k.as_str()), to_value(v))).collect())
}

pub(crate) fn to_value(value: &Json) -> Value {
    match value {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(i) => Value::Int64(i),
            None => Value::Float(n.as_f64().unwrap_or(0.0)),
        },
        Json::String(s) => Value::string(s.as_str()),
        Json::Array(items) => Value::list(items.iter().map(to_value).collect()),
        Json::Object(entries) => {
            Value::map(entries.iter().map(|(k, v)| (Str::from(k.as_str()), to_value(v))).collect())
        }
    }
}

fn release(options: &RenderOptions) -> Value {
    Value::map(BTreeMap::from([
        ("Name".into(), Value::string(options.release_name.as_str())),
        ("Namespace".into(), Value::string(options.namespace.as_str())),
        ("IsUpgrade".into(), Value::Bool(options.is_upgrade)),
        ("IsInstall".into(), Value::Bool(!options.is_upgrade)),
        ("Revision".into(), Value::Int(i64::from(options.revision))),
        ("Service".into(), Value::string("Helm")),
    ]))
}

fn field(name: &'static str, json: &'static str, value: Value) -> Field {
    Field { name, json, omit_empty: true, value }
}

fn always(name: &'static str, value: Value) -> Field {
    Field { name, json: name, omit_empty: false, value }
}

fn structure(type_name: &'static str, pointer: bool, addressable: bool, fields: Vec<Field>) -> Value {
    Value::Struct(Rc::new(Struct { type_name, pointer, addressable, fields }))
}

fn capabilities(capabilities: &Capabilities) -> Value {
    let text = |s: &str| Value::string(s);
    let kube = structure(
        "chartutil.KubeVersion",
        false,
        true,
        vec![
            always("Version", text(&capabilities.kube_version.version)),
            always("Major", text(&capabilities.kube_version.major)),
            always("Minor", text(&capabilities.kube_version.minor)),
        ],
    );
    let helm = structure(
        "version.BuildInfo",
        false,
        true,
        vec![
            field("Version", "version", text(&capabilities.helm_version)),
            field("GitCommit", "git_commit", text("")),
            field("GitTreeState", "git_tree_state", text("")),
            field("GoVersion", "go_version", text(&capabilities.go_version)),
        ],
    );
    let versions = capabilities.api_versions.iter().map(|v| text(v)).collect();
    structure(
        "chartutil.Capabilities",
        true,
        true,
        vec![
            always("KubeVersion", kube),
            always("APIVersions", Value::list_of(ListKind::VersionSet, versions)),
            always("HelmVersion", helm),
        ],
    )
}

fn strings_or_nil(items: &[String]) -> Value {
    if items.is_empty() {
        return Value::nil_list(ListKind::Strings);
    }
    Value::strings(items.iter().map(|s| Str::from(s.as_str())))
}

fn chart_value(metadata: &Metadata, root: bool) -> Value {
    let text = |s: &str| Value::string(s);
    let maintainers: Vec<Value> = metadata
        .maintainers
        .iter()
        .map(|m| {
            let fields = vec![
                field("Name", "name", text(&m.name)),
                field("Email", "email", text(&m.email)),
                field("URL", "url", text(&m.url)),
            ];
            structure("chart.Maintainer", true, true, fields)
        })
        .collect();
    let dependencies: Vec<Value> = metadata
        .dependencies
        .iter()
        .flatten()
        .map(|d| {
            let fields = vec![
                always_named("Name", "name", text(&d.name)),
                field("Version", "version", text(&d.version)),
                always_named("Repository", "repository", text(&d.repository)),
                field("Condition", "condition", text(&d.condition)),
                field("Tags", "tags", strings_or_nil(&d.tags)),
                field("Enabled", "enabled", Value::Bool(d.enabled)),
                field(
                    "ImportValues",
                    "import-values",
                    if d.import_values.is_empty() {
                        Value::nil_list(ListKind::Any)
                    } else {
                        Value::list(d.import_values.iter().map(to_value).collect())
                    },
                ),
                field("Alias", "alias", text(&d.alias)),
            ];
            structure("chart.Dependency", true, true, fields)
        })
        .collect();
    let list = |kind, items: Vec<Value>| {
        if items.is_empty() { Value::nil_list(kind) } else { Value::list_of(kind, items) }
    };
    let annotations = match &metadata.annotations {
        None => Value::nil_map(MapKind::Strings),
        Some(entries) => Value::map_of(
            MapKind::Strings,
            entries.iter().map(|(k, v)| (Str::from(k.as_str()), text(v))).collect(),
        ),
    };
    structure(
        "struct { chart.Metadata; IsRoot bool }",
        false,
        false,
        vec![
            field("Name", "name", text(&metadata.name)),
            field("Home", "home", text(&metadata.home)),
            field("Sources", "sources", strings_or_nil(&metadata.sources)),
            field("Version", "version", text(&metadata.version)),
            field("Description", "description", text(&metadata.description)),
            field("Keywords", "keywords", strings_or_nil(&metadata.keywords)),
            field("Maintainers", "maintainers", list(ListKind::Maintainers, maintainers)),
            field("Icon", "icon", text(&metadata.icon)),
            field("APIVersion", "apiVersion", text(&metadata.api_version)),
            field("Condition", "condition", text(&metadata.condition)),
            field("Tags", "tags", text(&metadata.tags)),
            field("AppVersion", "appVersion", text(&metadata.app_version)),
            field("Deprecated", "deprecated", Value::Bool(metadata.deprecated)),
            field("Annotations", "annotations", annotations),
            field("KubeVersion", "kubeVersion", text(&metadata.kube_version)),
            field("Dependencies", "dependencies", list(ListKind::Dependencies, dependencies)),
            field("Type", "type", text(&metadata.chart_type)),
            always("IsRoot", Value::Bool(root)),
        ],
    )
}

/// Structures as maps, and every list a list of anything, as Helm 4 hands charts' metadata to templates.
fn without_structures(value: &Value) -> Value {
    match value {
        Value::Struct(s) => {
            Value::map(s.fields.iter().map(|f| (f.name.into(), without_structures(&f.value))).collect())
        }
        Value::List(list) => Value::list(list.items.iter().map(without_structures).collect()),
        other => other.clone(),
    }
}

fn always_named(name: &'static str, json: &'static str, value: Value) -> Field {
    Field { name, json, omit_empty: false, value }
}
