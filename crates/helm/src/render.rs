//! From a chart and values to manifests, hooks and notes.

use crate::chart::{self, Chart, Values};
use crate::engine;
use crate::error::Error;
use crate::lookup::{Lookup, Nothing};
use crate::manifest::{self, Hook, Manifest};
use crate::options::RenderOptions;

/// What a chart rendered.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Objects in installation order.
    pub manifests: Vec<Manifest>,
    /// Hooks in installation order of their kinds.
    pub hooks: Vec<Hook>,
    /// Files under `crds/` of the chart and those within it, as source path and content. They are not templates.
    pub crds: Vec<(String, String)>,
    /// `NOTES.txt` of the chart itself.
    pub notes: String,
    /// What Helm would have logged.
    pub warnings: Vec<String>,
}

/// What of a rendering is printed.
#[derive(Clone, Debug, Default)]
pub struct PrintOptions {
    /// Print the files under `crds/` first.
    pub include_crds: bool,
    /// Leave out hooks.
    pub no_hooks: bool,
    /// Leave out hooks that are tests.
    pub skip_tests: bool,
    /// Print only what these templates (patterns below the chart's folder) rendered.
    pub show_only: Vec<String>,
}

/// Stack for rendering: templates nest, and each level of them takes several frames.
const STACK: usize = 512 << 20;

/// Renders a chart.
///
/// ```
/// use daedal_helm::{Chart, File, RenderOptions, ValuesBuilder, render};
///
/// let file = |name: &str, text: &str| File { name: name.into(), data: text.into() };
/// let chart = Chart::from_files(vec![
///     file("Chart.yaml", "apiVersion: v2\nname: hello\nversion: 0.1.0\n"),
///     file("values.yaml", "greeting: hello\n"),
///     file(
///         "templates/config.yaml",
///         "kind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | upper }}\n",
///     ),
/// ])?;
/// let values = ValuesBuilder::new().set("greeting=hi")?.build();
/// let rendered = render(&chart, &values, &RenderOptions::default())?;
/// assert_eq!(rendered.manifests[0].kind, "ConfigMap");
/// assert!(rendered.manifests[0].content.ends_with("greeting: HI"));
/// # Ok::<(), daedal_helm::Error>(())
/// ```
pub fn render(chart: &Chart, values: &Values, options: &RenderOptions) -> Result<Rendered, Error> {
    render_with_lookup(chart, values, options, &Nothing)
}

/// Renders a chart whose templates may look up objects.
///
/// ```
/// use daedal_helm::{Chart, File, Lookup, RenderOptions, Values, render_with_lookup};
/// use serde_json::{Value, json};
///
/// struct Cluster;
///
/// impl Lookup for Cluster {
///     fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
///         let asked = (api_version, kind, namespace, name);
///         (asked == ("v1", "Secret", "default", "web")).then(|| json!({"data": {"password": "b2xk"}}))
///     }
/// }
///
/// let template = r#"{{ $old := lookup "v1" "Secret" .Release.Namespace "web" -}}
/// kind: Secret
/// data: {password: {{ dig "data" "password" (randAlphaNum 8 | b64enc) $old }}}
/// "#;
/// let chart = Chart::from_files(vec![
///     File { name: "Chart.yaml".into(), data: "apiVersion: v2\nname: web\nversion: 1.0.0\n".into() },
///     File { name: "templates/secret.yaml".into(), data: template.into() },
/// ])?;
/// let rendered = render_with_lookup(&chart, &Values::default(), &RenderOptions::default(), &Cluster)?;
/// assert!(rendered.manifests[0].content.contains("password: b2xk"));
/// # Ok::<(), daedal_helm::Error>(())
/// ```
pub fn render_with_lookup(
    chart: &Chart,
    values: &Values,
    options: &RenderOptions,
    lookup: &dyn Lookup,
) -> Result<Rendered, Error> {
    // On this thread, so that nobody has to be waited for, but with a stack of its own.
    let result = stacker::grow(STACK, || {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| render_here(chart, values, options, lookup)))
    });
    result.unwrap_or_else(|_| {
        Err(Error::Render { message: "the renderer failed unexpectedly".into(), locations: Vec::new() })
    })
}

fn render_here(
    chart: &Chart,
    values: &Values,
    options: &RenderOptions,
    lookup: &dyn Lookup,
) -> Result<Rendered, Error> {
    crate::options::check_release_name(&options.release_name)?;
    if chart.is_library() {
        return Err(Error::Chart("library charts are not installable".into()));
    }
    let mut rendered = Rendered::default();
    if chart.metadata.deprecated {
        rendered.warnings.push("This chart is deprecated".to_owned());
    }
    let mut chart = chart.clone();
    chart::process_dependencies(&mut chart, &values.0, &mut rendered.warnings)?;
    let merged = chart::coalesce_values(&chart, &values.0, false, &mut rendered.warnings)?;
    let mut files = engine::render(&chart, &merged, options, lookup)?;
    let notes = format!("{}/templates/NOTES.txt", chart.name());
    files.retain(|name, text| {
        if *name == notes {
            rendered.notes = std::mem::take(text);
        }
        !name.ends_with("NOTES.txt")
    });
    (rendered.hooks, rendered.manifests) =
        manifest::sort(&files, options.capabilities.is_helm4(), &mut rendered.warnings)?;
    rendered.crds = chart
        .crds("")
        .into_iter()
        .map(|(source, file)| (source, crate::strconv::lossy(&file.data).into_owned()))
        .collect();
    Ok(rendered)
}

impl Rendered {
    /// The text `helm template` prints.
    pub fn to_text(&self, options: &PrintOptions) -> Result<String, Error> {
        let mut out = String::new();
        let mut push = |source: &str, content: &str| {
            out.push_str("---\n# Source: ");
            out.push_str(source);
            out.push('\n');
            out.push_str(content);
            out.push('\n');
        };
        if options.include_crds {
            for (source, content) in &self.crds {
                push(source, content);
            }
        }
        for manifest in &self.manifests {
            push(&manifest.source, &manifest.content);
        }
        let mut text = out.trim().to_owned();
        text.push('\n');
        if !options.no_hooks {
            for hook in &self.hooks {
                if options.skip_tests && hook.events.contains(&manifest::HookEvent::Test) {
                    continue;
                }
                text.push_str(&format!(
                    "---\n# Source: {}\n{}\n",
                    hook.manifest.source, hook.manifest.content
                ));
            }
        }
        if options.show_only.is_empty() { Ok(text) } else { only(&text, &options.show_only) }
    }
}

/// What the wanted templates rendered, in the order they were asked for.
fn only(text: &str, wanted: &[String]) -> Result<String, Error> {
    let parts = manifest::split(text);
    let mut out = String::new();
    for pattern in wanted {
        let mut found = false;
        for part in &parts {
            let source = part.lines().find_map(|line| line.split("# Source: ").nth(1));
            let Some((_, path)) = source.and_then(|s| s.split_once('/')) else { continue };
            if chart::ignore::path_matches(pattern, path) {
                out.push_str(&format!("---\n{part}\n"));
                found = true;
            }
        }
        if !found {
            return Err(Error::NotFound(pattern.clone()));
        }
    }
    Ok(out)
}
