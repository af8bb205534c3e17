//! What tests say about the mission, read from their sources.

use std::path::{Path, PathBuf};

const SHOWS: &str = "Mission: ";
const GAP: &str = "Mission gap: ";
const ELSEWHERE: &str = "Mission elsewhere: ";
/// A file here is one long test of several functions, each of which may show a requirement.
const WALKS: &str = "tests/seeds/";

/// Everything that was said.
#[derive(Default)]
pub struct Said {
    /// In the order of files and lines.
    pub lines: Vec<Line>,
    /// Lines that say something which cannot be so.
    pub problems: Vec<String>,
}

/// One line about some requirements.
#[derive(Debug)]
pub struct Line {
    /// File and line.
    pub at: String,
    /// The requirements.
    pub ids: Vec<String>,
    what: What,
}

#[derive(Debug)]
enum What {
    Shown(String),
    Missing(String),
    /// Where a walk has no step for it, because other tests show it.
    Elsewhere,
}

impl Line {
    /// The test that shows them.
    pub fn test(&self) -> Option<&str> {
        if let What::Shown(test) = &self.what { Some(test) } else { None }
    }

    /// What is missing.
    pub fn gap(&self) -> Option<&str> {
        if let What::Missing(gap) = &self.what { Some(gap) } else { None }
    }
}

impl Said {
    /// What was said about a requirement.
    pub fn about<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.ids.iter().any(|own| own == id))
    }
}

/// Reads all Rust sources below a folder.
pub fn read(folder: &Path) -> Result<Said, Vec<String>> {
    let mut files = Vec::new();
    collect(folder, &mut files)
        .map_err(|error| vec![format!("cannot read {}: {error}", folder.display())])?;
    files.sort();
    let mut said = Said::default();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| vec![format!("cannot read {}: {error}", file.display())])?;
        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string().replace('\\', "/");
        one(&name, &text, &mut said);
    }
    Ok(said)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads one source.
pub fn one(name: &str, text: &str, said: &mut Said) {
    let walk = name.contains(WALKS).then(|| tests_of(text).into_iter().next()).flatten();
    let mut item = Item::default();
    for (number, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", number + 1);
        let line = line.trim();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        match comment {
            Some(comment) if comment.starts_with(GAP) => match gap(comment, GAP) {
                Some((ids, gap)) => said.lines.push(Line { at, ids, what: What::Missing(gap) }),
                None => said.problems.push(format!("{at}: a gap is `{GAP}E1, E2 — what is missing`")),
            },
            Some(comment) if comment.starts_with(ELSEWHERE) => match gap(comment, ELSEWHERE) {
                Some((ids, _)) => said.lines.push(Line { at, ids, what: What::Elsewhere }),
                None => said.problems.push(format!("{at}: write `{ELSEWHERE}E1, E2 — where`")),
            },
            Some(comment) if comment.starts_with(SHOWS) => item.shows.push((at, shown(comment))),
            Some(_) => {}
            None if line.starts_with("#[") => item.attributes.push(line.to_owned()),
            None if line.is_empty() => {}
            None => std::mem::take(&mut item).end(line, walk.as_deref(), said),
        }
    }
    std::mem::take(&mut item).end("", None, said);
}

/// What stands above a function.
#[derive(Default)]
struct Item {
    shows: Vec<(String, Vec<String>)>,
    attributes: Vec<String>,
}

impl Item {
    fn end(self, line: &str, walk: Option<&str>, said: &mut Said) {
        let is_test = self.attributes.iter().any(|attribute| is_test(attribute));
        let ignored = self.attributes.iter().any(|attribute| attribute.starts_with("#[ignore"));
        let test = match function(line) {
            Some(name) if is_test => Some(name.to_owned()),
            // Unused functions are refused by the compiler, so the walk comes to each of them.
            Some(_) => walk.map(str::to_owned),
            None => listed(line).map(str::to_owned),
        };
        for (at, ids) in self.shows {
            match &test {
                _ if ids.is_empty() => {
                    said.problems.push(format!("{at}: which requirements? `{SHOWS}E1, E2 — what is shown`"));
                }
                Some(_) if ignored => said.problems.push(format!("{at}: the test is ignored")),
                Some(test) => said.lines.push(Line { at, ids, what: What::Shown(test.clone()) }),
                None => said.problems.push(format!("{at}: no test follows this line")),
            }
        }
    }
}

fn is_test(attribute: &str) -> bool {
    attribute.starts_with("#[test]") || attribute.starts_with("#[tokio::test")
}

/// The name of the function that begins in a line.
fn function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "fn");
    words.next()?;
    words.next()?.split(['(', '<']).next()
}

/// The name of a test that a macro makes of `name "what it is made of"`.
fn listed(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(' ')?;
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_name && rest.starts_with('"') && rest.ends_with('"')).then_some(name)
}

fn tests_of(text: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut test = false;
    for line in text.lines().map(str::trim) {
        match function(line) {
            _ if line.starts_with("#[") => test |= is_test(line),
            Some(name) if test => {
                tests.push(name.to_owned());
                test = false;
            }
            _ => test = test && line.starts_with("//"),
        }
    }
    tests
}

fn ids(list: &str) -> Vec<String> {
    list.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect()
}

fn shown(comment: &str) -> Vec<String> {
    let list = comment.trim_start_matches(SHOWS);
    ids(list.split_once('—').map_or(list, |(list, _)| list))
}

fn gap(comment: &str, begin: &str) -> Option<(Vec<String>, String)> {
    let (list, gap) = comment.trim_start_matches(begin).split_once('—')?;
    let (ids, gap) = (ids(list), gap.trim().to_owned());
    (!ids.is_empty() && !gap.is_empty()).then_some((ids, gap))
}
