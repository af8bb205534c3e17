//! Slash-separated paths, and file paths, which are the same thing here.

use super::{Entry, Type, fixed, text};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::Str;
    let mut table = Vec::new();
    for name in ["base", "osBase"] {
        table.push(fixed(name, &[Str], |_, args| Ok(Value::string(base(&text(args, 0))))));
    }
    for name in ["dir", "osDir"] {
        table.push(fixed(name, &[Str], |_, args| Ok(Value::string(dir(&text(args, 0))))));
    }
    for name in ["clean", "osClean"] {
        table.push(fixed(name, &[Str], |_, args| Ok(Value::string(clean(&text(args, 0))))));
    }
    for name in ["ext", "osExt"] {
        table.push(fixed(name, &[Str], |_, args| Ok(Value::string(extension(&text(args, 0))))));
    }
    for name in ["isAbs", "osIsAbs"] {
        table.push(fixed(name, &[Str], |_, args| Ok(Value::Bool(text(args, 0).starts_with('/')))));
    }
    table
}

/// `path.Base`.
pub(crate) fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some(last) if !last.is_empty() => last.to_owned(),
        _ => "/".to_owned(),
    }
}

fn dir(path: &str) -> String {
    match path.rfind('/') {
        Some(at) => clean(&path[..=at]),
        None => ".".to_owned(),
    }
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map(|at| name[at..].to_owned()).unwrap_or_default()
}

/// `path.Clean`.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            other => parts.push(other),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        assert_eq!(clean("a//b/../c/."), "a/c");
        assert_eq!(clean("/../a"), "/a");
        assert_eq!(clean(""), ".");
        assert_eq!(dir("/a/b"), "/a");
        assert_eq!(base("/a/b/"), "b");
        assert_eq!(extension("a/b.tar.gz"), ".gz");
    }
}
