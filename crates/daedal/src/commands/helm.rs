//! `daedal helm template`: renders a chart and prints it, as `helm template` does, without Helm and without a cluster.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use daedal_app::Https;
use daedal_helm::{
    Cache, Chart, Error, Fetcher, File, KubeVersion, Login, PrintOptions, Reference, RenderOptions, Rendered,
    Values, ValuesBuilder, render,
};

use crate::cli::Format;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Render charts.
#[derive(Debug, Subcommand)]
pub enum HelmCommand {
    /// Render a chart and print its manifests in installation order, as `helm template` does.
    Template(Box<TemplateArgs>),
}

/// What `helm template` understands, and we with it.
#[derive(Debug, Args)]
pub struct TemplateArgs {
    /// The release's name and the chart, or the chart alone: a folder, a .tgz, an oci:// address, or with --repo a name.
    #[arg(value_name = "[NAME] CHART", num_args = 1..=2, required = true)]
    chart: Vec<String>,
    /// The repository of the chart.
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The chart's version, or a range of versions.
    #[arg(long, value_name = "VERSION", default_value = "")]
    version: String,
    /// Also use development versions, as --version '>0.0.0-0' does; no effect with --version.
    #[arg(long)]
    devel: bool,
    /// User name for the repository or registry.
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Password for the repository or registry; other users of this machine can see it while the command runs.
    #[arg(long, value_name = "PASSWORD")]
    password: Option<Password>,
    /// Read values from files or, with -, from standard input; later ones win.
    #[arg(short = 'f', long = "values", value_name = "FILE", value_delimiter = ',')]
    values: Vec<PathBuf>,
    /// Set values, such as a.b=c,d[0]=e.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set values that are strings.
    #[arg(long, value_name = "KEY=VALUE")]
    set_string: Vec<String>,
    /// Set values that are JSON.
    #[arg(long, value_name = "KEY=JSON")]
    set_json: Vec<String>,
    /// Set values to the content of files.
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// Set one key to a literal text.
    #[arg(long, value_name = "KEY=TEXT")]
    set_literal: Vec<String>,
    /// The release's namespace.
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// The Kubernetes version that templates see.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Additional API versions that templates find.
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Print the chart's CRDs first.
    #[arg(long)]
    include_crds: bool,
    /// Leave out hooks.
    #[arg(long)]
    no_hooks: bool,
    /// Leave out hooks that are tests.
    #[arg(long)]
    skip_tests: bool,
    /// Do not check values against the chart's schema.
    #[arg(long)]
    skip_schema_validation: bool,
    /// Print only what these templates rendered.
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// Render as for an upgrade.
    #[arg(long)]
    is_upgrade: bool,
    /// Name the release by a template instead of NAME.
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// Name the release after the chart and the time instead of NAME.
    #[arg(short, long, conflicts_with = "name_template")]
    generate_name: bool,
    /// Write each template's manifests to a file below this folder instead of printing them.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Put the release's name into the paths below --output-dir.
    #[arg(long)]
    release_name: bool,
    /// Not supported: rendering never contacts a cluster.
    #[arg(long)]
    validate: bool,
    /// Print what the templates rendered even if it is not valid YAML.
    #[arg(long)]
    debug: bool,
    /// Accepted as helm does; rendering is always a dry run. server is not supported.
    #[arg(
        long,
        value_name = "client|server|none",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "client",
        value_parser = ["client", "server", "none", "true", "false"],
        hide_possible_values = true
    )]
    dry_run: Option<String>,
    /// Accepted as helm does; has no effect on what is rendered.
    #[arg(long)]
    create_namespace: bool,
    /// Accepted as helm does; notes are never printed.
    #[arg(long)]
    hide_notes: bool,
    /// Connect to an OCI registry without TLS.
    #[arg(long)]
    plain_http: bool,
    /// The folder of fetched charts.
    #[arg(long, value_name = "DIR", default_value = ".daedal/charts")]
    chart_cache: PathBuf,
}

/// A password, which never shows.
#[derive(Clone)]
struct Password(String);

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Runs the command.
pub async fn run(command: &HelmCommand, format: Format) -> Outcome {
    match command {
        HelmCommand::Template(args) => template(args, format).await,
    }
}

async fn template(args: &TemplateArgs, format: Format) -> Outcome {
    let server = args.dry_run.as_deref() == Some("server");
    if args.validate || server {
        let flag = if server { "--dry-run=server" } else { "--validate" };
        return Err(Failure::new(
            Exit::Usage,
            format!("{flag} needs a cluster, and rendering never contacts a cluster."),
        )
        .hint("Print the manifests and have `kubectl apply --dry-run=server` check them."));
    }
    let named = args.generate_name || args.name_template.is_some();
    let (given, chart) = match args.chart.as_slice() {
        [_, _] if named => {
            return Err(Failure::new(
                Exit::Usage,
                "A name is given and another is to be made up; which one?",
            ));
        }
        [name, chart] => (Some(name.as_str()), chart),
        [chart] => (None, chart),
        _ => return Err(Failure::new(Exit::Usage, "Which chart?")),
    };
    let now = jiff::Timestamp::now();
    let name = match (&args.name_template, given) {
        (Some(template), _) => name_from_template(template)?,
        (None, Some(name)) => name.to_owned(),
        (None, None) if args.generate_name => generated_name(chart, now.as_second()),
        (None, None) => "release-name".to_owned(),
    };
    let chart = load(args, chart).await?;
    let values = values(args)?;
    let mut options = RenderOptions {
        release_name: name.clone(),
        namespace: args.namespace.clone(),
        is_upgrade: args.is_upgrade,
        skip_schema: args.skip_schema_validation,
        ..RenderOptions::default()
    };
    if let Some(version) = &args.kube_version {
        options.capabilities.kube_version = KubeVersion::parse(version).map_err(|e| failure(&e))?;
    }
    options.capabilities.api_versions.extend(args.api_versions.iter().cloned());
    options.now = (now.as_second(), u32::try_from(now.subsec_nanosecond()).unwrap_or(0));
    let rendered = rendered(args, &chart, &values, &mut options).await?;
    let print = PrintOptions {
        include_crds: args.include_crds,
        no_hooks: args.no_hooks,
        skip_tests: args.skip_tests,
        show_only: args.show_only.clone(),
    };
    let text = rendered.to_text(&print).map_err(|e| failure(&e))?;
    if let Some(folder) = &args.output_dir {
        let folder = if args.release_name { folder.join(&name) } else { folder.clone() };
        return write_files(&folder, &text);
    }
    match format {
        Format::Json => {
            console::json(&serde_json::json!({"manifests": text, "warnings": rendered.warnings}));
        }
        Format::Text => {
            for warning in &rendered.warnings {
                console::say(&format!("warning: {warning}"));
            }
            console::document(&text);
        }
    }
    Ok(Exit::Done)
}

/// Most documents that schemas may refer to.
const MAX_SCHEMAS: usize = 100;

/// Renders, and fetches what schemas refer to when a rendering lacks it.
async fn rendered(
    args: &TemplateArgs,
    chart: &Chart,
    values: &Values,
    options: &mut RenderOptions,
) -> Outcome<Rendered> {
    loop {
        match tokio::task::block_in_place(|| render(chart, values, options)) {
            Ok(rendered) => return Ok(rendered),
            Err(Error::SchemaReference { url, .. }) if options.schemas.len() < MAX_SCHEMAS => {
                let (document, stale) = schema(args, &url).await?;
                if let Some(reason) = stale {
                    console::say(&format!("warning: {reason}; using what was fetched before"));
                }
                options.schemas.insert(url, document);
            }
            Err(error) => {
                if let (true, Error::Manifest { rendered, .. }) = (args.debug, &error) {
                    console::result(rendered);
                }
                return Err(failure(&error));
            }
        }
    }
}

/// A document that a schema refers to, and why it may be old.
async fn schema(args: &TemplateArgs, url: &str) -> Outcome<(Vec<u8>, Option<String>)> {
    let transport = Https::new().map_err(|e| Failure::from_error(Exit::Failed, &e))?;
    let cache = Cache::new(&args.chart_cache);
    Fetcher::new(&transport, &cache).schema(url).await.map_err(|e| {
        Failure::new(Exit::Unavailable, "Cannot check the values against the chart's schema.")
            .because(&e)
            .hint(WITHOUT_SCHEMA)
    })
}

const WITHOUT_SCHEMA: &str = "Render without checking the values: --skip-schema-validation";

/// A release's name as a template makes it; there is nothing but functions for it to use.
fn name_from_template(template: &str) -> Outcome<String> {
    let file = |name: &str, text: &str| File { name: name.into(), data: text.into() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: name-template\nversion: 0.0.0\n"),
        file("templates/NOTES.txt", template),
    ]);
    let rendered =
        chart.and_then(|chart| render(&chart, &ValuesBuilder::new().build(), &RenderOptions::default()));
    Ok(rendered.map_err(|e| Failure::from_error(Exit::Usage, &e))?.notes)
}

/// The chart's last path element without its ending, and the time.
fn generated_name(chart: &str, seconds: i64) -> String {
    let base = chart.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let base = if base.is_empty() || base == "." { "chart" } else { base };
    let base = match base.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => base,
    };
    format!("{base}-{seconds}")
}

/// Writes every manifest to the file of its template, several of one template one after the other.
fn write_files(folder: &Path, text: &str) -> Outcome {
    let mut begun = std::collections::BTreeSet::new();
    for part in text.split("---\n# Source: ").skip(1) {
        let Some((source, body)) = part.split_once('\n') else { continue };
        let unsafe_path =
            Path::new(source).components().any(|c| !matches!(c, std::path::Component::Normal(_)));
        if unsafe_path {
            return Err(Failure::new(
                Exit::BadDocument,
                format!("The template {source} would lie elsewhere."),
            ));
        }
        let path = folder.join(source);
        let manifest = format!("---\n# Source: {source}\n{}\n", body.trim_end());
        let written = (|| {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let first = begun.insert(path.clone());
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.create(true).write(true).append(!first).truncate(first).open(&path)?;
            std::io::Write::write_all(&mut file, manifest.as_bytes())
        })();
        written.map_err(|e| {
            Failure::new(Exit::Failed, format!("Cannot write {}.", path.display())).because(&e)
        })?;
        console::result(&format!("wrote {}\n", path.display()));
    }
    Ok(Exit::Done)
}

async fn load(args: &TemplateArgs, chart: &str) -> Outcome<Chart> {
    let version = if args.devel && args.version.is_empty() { ">0.0.0-0" } else { &args.version };
    let version = version.to_owned();
    if Path::new(chart).exists() {
        if let Some(url) = &args.repo {
            console::progress(&format!(
                "warning: {chart} is here already, so the repository {url} is ignored"
            ));
        }
        return Chart::load(chart).map_err(|e| failure(&e));
    }
    let reference = if let Some(url) = &args.repo {
        Reference::Repository { url: url.clone(), name: chart.to_owned(), version }
    } else if chart.starts_with("oci://") {
        Reference::Oci { url: chart.to_owned(), version }
    } else {
        return Chart::load(chart).map_err(|e| failure(&e));
    };
    let transport = Https::new().map_err(|e| Failure::from_error(Exit::Failed, &e))?;
    let cache = Cache::new(&args.chart_cache);
    let mut fetcher = Fetcher::new(&transport, &cache).plain_http(args.plain_http);
    if args.username.is_some() || args.password.is_some() {
        fetcher = fetcher.login(Login {
            user: args.username.clone().unwrap_or_default(),
            password: args.password.clone().map(|password| password.0).unwrap_or_default(),
        });
    }
    let fetched = fetcher.chart(&reference).await.map_err(|e| failure(&e))?;
    if let Some(reason) = &fetched.stale {
        let version = &fetched.chart.metadata.version;
        console::say(&format!("warning: {reason}; using version {version}, which was fetched before"));
    }
    Ok(fetched.chart)
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        return match std::io::stdin().read_to_end(&mut text) {
            Ok(_) => Ok(text),
            Err(e) => Err(Failure::new(Exit::NoInput, "Cannot read standard input.").because(&e)),
        };
    }
    std::fs::read(path)
        .map_err(|e| Failure::new(Exit::NoInput, format!("Cannot read {}.", path.display())).because(&e))
}

fn values(args: &TemplateArgs) -> Outcome<Values> {
    let mut builder = ValuesBuilder::new();
    for path in &args.values {
        builder = builder.file(&read(path)?).map_err(|e| {
            let place =
                if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
            Failure::new(Exit::BadDocument, format!("Cannot use the values in {place}.")).because(&e)
        })?;
    }
    let wrong = |e: Error| Failure::from_error(Exit::Usage, &e);
    for line in &args.set_json {
        builder = builder.set_json(line).map_err(wrong)?;
    }
    for line in &args.set {
        builder = builder.set(line).map_err(wrong)?;
    }
    for line in &args.set_string {
        builder = builder.set_string(line).map_err(wrong)?;
    }
    for line in &args.set_file {
        let mut text = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        builder = builder.set_file(line, &mut text).map_err(wrong)?;
    }
    for line in &args.set_literal {
        builder = builder.set_literal(line).map_err(wrong)?;
    }
    Ok(builder.build())
}

/// An exit code that says whose fault it was, and the innermost place where a template failed.
fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Read { .. } => Exit::NoInput,
        Error::Fetch { .. } | Error::Unreachable { .. } => Exit::Unavailable,
        Error::NotFound(_) | Error::ReleaseName { .. } => Exit::Usage,
        _ => Exit::BadDocument,
    };
    let failure = Failure::from_error(exit, error);
    match error {
        Error::Render { locations, .. } if locations.len() > 1 => match locations.last() {
            Some(place) => failure.hint(format!("The failing expression is at {place}.")),
            None => failure,
        },
        Error::SchemaReference { .. } => failure.hint(WITHOUT_SCHEMA),
        Error::Manifest { .. } => failure.hint("--debug prints what the templates rendered."),
        _ => failure,
    }
}
