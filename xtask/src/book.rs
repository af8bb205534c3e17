//! The book in `docs`: its summary names every page, and its links lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().unwrap()
}

fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Everything that people read in the project.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].iter().map(|name| root().join(name)).collect();
    for folder in ["docs", "examples"] {
        pages_below(&root().join(folder), &mut pages);
    }
    pages
}

/// The text without its blocks and spans of code, where brackets are no links.
fn prose(text: &str) -> String {
    let mut code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            let spans: Vec<&str> = line.split('`').collect();
            prose.push_str(&spans.iter().step_by(2).copied().collect::<Vec<_>>().join("`"));
            prose.push('\n');
        }
    }
    prose
}

/// The targets of links.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let starts = text.match_indices("](").map(|(at, _)| &text[at + 2..]);
    starts.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The names that headings are linked by, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{name}-{n}")).find(|one| !anchors.contains(one));
        anchors.insert(if anchors.contains(&name) { again.unwrap() } else { name });
    }
    anchors
}

#[test]
fn every_link_leads_somewhere() {
    let (mut checked, mut dead) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (path, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(path, anchor)| (path, Some(anchor)));
            if path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let lives = target.exists()
                && anchor.is_none_or(|anchor| {
                    target.is_file() && anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor)
                });
            if !lives {
                dead.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(checked > 80, "{checked}");
}

#[test]
fn the_summary_names_every_page_once() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut named = links(&summary);
    named.sort();
    let mut pages = Vec::new();
    pages_below(&docs, &mut pages);
    let mut there: Vec<String> = pages
        .iter()
        .map(|page| page.strip_prefix(&docs).unwrap().display().to_string())
        .filter(|page| page != "SUMMARY.md")
        .collect();
    there.sort();
    assert_eq!(named, there, "docs/SUMMARY.md (left) and the pages in docs (right)");
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# Top\n\n## A `b`: c\n\nsee [one](x.md#a-b-c) and `[no](y.md)`\n\n```\n[no](z.md)\n# no\n```\n## Top\n";
    assert_eq!(links(text), ["x.md#a-b-c"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["a-b-c", "top", "top-1"]);
}
