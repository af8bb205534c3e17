//! Where an add-on comes from: the catalogue, a repository, a registry, a folder, or manifests.

use std::path::Path as FilePath;

use semver::Version;

use super::unknown;
use crate::addon::{AddonSource, ManifestSource};
use crate::catalogue::{self, Entry, EntrySource};
use crate::check::is_chart_path;
use crate::document::AddonSettings;
use crate::path::Path;
use crate::resolve::link::link;
use crate::resolve::{Context, Refusal};
use crate::suggest::nearest;

/// What an add-on is made of.
pub(super) struct Found {
    /// None where it is made of the manifests that are declared.
    pub(super) source: Option<AddonSource>,
    pub(super) entry: Option<&'static Entry>,
}

/// Finds what an add-on is made of.
pub(super) fn source(
    written: &AddonSettings,
    at: &Path<'_>,
    name_at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Found> {
    let Some(chart) = &written.chart else { return without_chart(written, at, name_at, cx) };
    let chart_at = at.key("chart");
    if !cx.given(&chart_at) {
        return None;
    }
    if is_chart_path(chart) {
        let source = local(written, chart, at, cx)?;
        return Some(Found { source: Some(source), entry: None });
    }
    if let Some((repo, name)) = in_registry(chart, written, at, cx)? {
        let entry = catalogue::entry(&written.name).filter(|entry| is_chart_of(entry, &name));
        let version = version(written, entry, &name, at, cx)?;
        let source = AddonSource::Chart { chart: name, repo, version };
        return Some(Found { source: Some(source), entry });
    }
    let same_name = catalogue::entry(&written.name).filter(|entry| is_chart_of(entry, chart));
    let (entry, repo) = match &written.repo {
        Some(text) => {
            let repo = repo(text, at, cx)?;
            let same_place = || {
                catalogue::by_chart(chart).filter(
                    |entry| matches!(entry.source, EntrySource::Chart { repo: known, .. } if known == repo),
                )
            };
            (same_name.or_else(same_place), repo)
        }
        None => match same_name.or_else(|| catalogue::entry(chart)).or_else(|| catalogue::by_chart(chart)) {
            Some(Entry { source: EntrySource::Chart { chart: _, repo, .. }, .. }) => {
                let entry =
                    same_name.or_else(|| catalogue::entry(chart)).or_else(|| catalogue::by_chart(chart));
                (entry, (*repo).to_owned())
            }
            _ => {
                without_repo(chart, &chart_at, cx);
                return None;
            }
        },
    };
    let name = match entry.map(|entry| entry.source) {
        Some(EntrySource::Chart { chart, .. }) => chart.to_owned(),
        _ => chart.clone(),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        let help = "Write its name in the repository, for example `cert-manager`.";
        cx.error("addon", &chart_at, format!("`{name}` is not the name of a chart."), help);
        return None;
    }
    let version = version(written, entry, &name, at, cx)?;
    Some(Found { source: Some(AddonSource::Chart { chart: name, repo, version }), entry })
}

fn is_chart_of(entry: &Entry, name: &str) -> bool {
    matches!(entry.source, EntrySource::Chart { chart, .. } if chart == name) || entry.name == name
}

/// An entry of the catalogue, or manifests.
fn without_chart(
    written: &AddonSettings,
    at: &Path<'_>,
    name_at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Found> {
    let Some(entry) = catalogue::entry(&written.name) else {
        if written.manifests.as_ref().is_none_or(Vec::is_empty) {
            let manifests_at = at.key("manifests");
            if !cx.given(&manifests_at) || !cx.given(&at.key("chart")) {
                return None;
            }
            match (&written.manifests, &written.repo) {
                (Some(_), _) => {
                    let help = "Name a file or a folder, or remove the add-on.";
                    cx.error("addon", &manifests_at, "The add-on has no manifests.", help);
                }
                (None, Some(_)) => {
                    let help = "Add `chart`, its name in the repository.";
                    cx.error("addon", &at.key("repo"), "A repository without a chart.", help);
                }
                (None, None) => unknown(&written.name, name_at, cx),
            }
            return None;
        }
        for (key, given) in [("repo", written.repo.is_some()), ("version", written.version.is_some())] {
            if given {
                let message = format!("`{key}` is about a chart, and this add-on is made of manifests.");
                cx.error("addon", &at.key(key), message, "Remove it, or name a `chart`.");
            }
        }
        return Some(Found { source: None, entry: None });
    };
    let source = match entry.source {
        EntrySource::Chart { chart, repo: known, .. } => {
            let repo = match &written.repo {
                Some(text) => repo(text, at, cx)?,
                None => known.to_owned(),
            };
            let version = version(written, Some(entry), chart, at, cx)?;
            AddonSource::Chart { chart: chart.to_owned(), repo, version }
        }
        EntrySource::Manifests { files, version } => {
            for (key, given) in [("repo", written.repo.is_some()), ("version", written.version.is_some())] {
                if given {
                    let message =
                        format!("`{}` {version} is made of manifests and has no chart.", entry.name);
                    let help =
                        "For another version give it another name, and its `manifests` with their `sha256`.";
                    cx.error("addon", &at.key(key), message, help);
                }
            }
            let of = |(url, sha256): &(&str, &str)| ManifestSource::Url {
                url: (*url).to_owned(),
                sha256: (*sha256).to_owned(),
            };
            AddonSource::Manifests(files.iter().map(of).collect())
        }
        EntrySource::Release { version, url } => {
            if written.manifests.as_ref().is_some_and(|manifests| !manifests.is_empty()) {
                return Some(Found { source: None, entry: Some(entry) });
            }
            let message = format!("`{}` {version} has no chart, and its manifest is not named.", entry.name);
            let help = format!(
                "Add `manifests: [{{url: \"{url}\", sha256: …}}]` with what `curl -sL URL | sha256sum` prints."
            );
            cx.error("addon", name_at, message, help);
            return None;
        }
        EntrySource::Talos => return None,
    };
    Some(Found { source: Some(source), entry: Some(entry) })
}

fn without_repo(chart: &str, at: &Path<'_>, cx: &mut Context<'_>) {
    let charts = catalogue::catalogue().filter_map(|entry| match entry.source {
        EntrySource::Chart { chart, .. } => Some(chart),
        _ => None,
    });
    let known: Vec<&str> = charts.collect();
    let help = match nearest(chart, &known) {
        Some(near) => format!("Did you mean `{near}`? Or add its `repo`."),
        None => {
            "Add its `repo` (`https://…` or `oci://…`), or write a path such as `./charts/app`.".to_owned()
        }
    };
    cx.error("addon", at, format!("Nothing says where the chart `{chart}` is."), help);
}

/// A chart in a folder or an archive beside the inventory.
fn local(written: &AddonSettings, chart: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<AddonSource> {
    let chart_at = at.key("chart");
    for (key, given) in [("repo", written.repo.is_some()), ("version", written.version.is_some())] {
        if given {
            let message = format!("`{key}` is given, but the chart is a file: that would be two sources.");
            cx.error(
                "addon",
                &at.key(key),
                message,
                format!("Remove `{key}`, or write the chart's name alone."),
            );
            return None;
        }
    }
    inside(&chart_at, cx)?;
    let path = chart.trim_end_matches('/');
    if !path.ends_with(".tgz")
        && let Err(error) = cx.files.read(&FilePath::new(path).join("Chart.yaml"))
    {
        let message = format!("There is no chart in `{path}`: Chart.yaml cannot be read ({error}).");
        cx.error("addon", &chart_at, message, "The path is relative to the file that names it.");
        return None;
    }
    Some(AddonSource::Local { path: path.to_owned() })
}

/// Whether the path that is written at a place stays in the folder of the file that names it.
pub(super) fn inside(at: &Path<'_>, cx: &mut Context<'_>) -> Option<()> {
    use crate::yaml::Value;
    let Some(Value::Scalar { text, .. }) = at.find(cx.root).map(|node| &node.value) else { return Some(()) };
    let (path, tidied) = (FilePath::new(text), crate::base::tidy(FilePath::new(text)));
    if path.is_absolute() || text.starts_with('~') || tidied.starts_with("..") {
        let message = format!("`{text}` is outside the folder of the inventory.");
        let help = "Everything that decides what is installed lies beside the inventory: copy it there, or declare the add-on \
                    in a base that lies beside it.";
        cx.error("addon", at, message, help);
        return None;
    }
    Some(())
}

/// The registry and name of a chart that is written as one address; nothing if it is written in another way.
#[expect(clippy::option_option, reason = "refused, not an address, or an address")]
fn in_registry(
    chart: &str,
    written: &AddonSettings,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Option<(String, String)>> {
    if !chart.contains("://") {
        return Some(None);
    }
    let chart_at = at.key("chart");
    if written.repo.is_some() {
        let help = "Keep the address as `chart`, or write the chart's name alone and its `repo`.";
        cx.error("addon", &at.key("repo"), "The chart has an address of its own: that is two sources.", help);
        return None;
    }
    let example = "Write for example `oci://ghcr.io/team/charts/app`; a chart of a repository has its address as `repo`.";
    let url = link(chart, &["oci"], example, &chart_at, cx)?;
    let path = url.path().trim_matches('/');
    let plain =
        !path.is_empty() && !path.contains([':', '@']) && url.query().is_none() && url.fragment().is_none();
    let (repo, name) = chart.trim_end_matches('/').rsplit_once('/').filter(|_| plain).unwrap_or_default();
    if name.is_empty() {
        let message = format!("`{chart}` is not the address of a chart.");
        cx.error("addon", &chart_at, message, "Leave tags and digests out, and give its `version`.");
        return None;
    }
    Some(Some((repo.to_owned(), name.to_owned())))
}

/// The address of a repository or registry.
fn repo(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let at = at.key("repo");
    let help = "Write for example `https://charts.example.org` or `oci://ghcr.io/team/charts`.";
    link(text, &["https", "http", "oci"], help, &at, cx)?;
    Some(text.trim_end_matches('/').to_owned())
}

/// The exact version: the declared one, else the catalogue's.
fn version(
    written: &AddonSettings,
    entry: Option<&Entry>,
    chart: &str,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<String> {
    let version_at = at.key("version");
    match (&written.version, entry) {
        (Some(text), _) => cx.take("version", &version_at, exact(text)).map(|()| text.clone()),
        (None, Some(entry)) => cx.given(&version_at).then(|| entry.source.version().to_owned()),
        (None, None) => {
            if cx.given(&version_at) {
                let help =
                    "Add the exact one, for example `version: 1.2.3`: the newest changes without notice.";
                cx.error("addon", &at.key("chart"), format!("The chart `{chart}` has no version."), help);
            }
            None
        }
    }
}

fn exact(text: &str) -> Result<(), Refusal> {
    match Version::parse(text.strip_prefix('v').unwrap_or(text)) {
        Ok(_) => Ok(()),
        Err(_) => {
            let help = "Write one version as the chart has it, for example `1.2.3`, and no range.";
            Err((format!("`{text}` is not an exact version."), help.to_owned()))
        }
    }
}
