//! Sprig's regular expressions.

use std::rc::Rc;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::strings::string_list;
use super::{Entry, Type, bytes, fixed, int, text};
use crate::template::exec::{Exec, FuncError};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Int, Str};
    let mut table = vec![
        fixed("regexMatch", &[Str, Str], |exec, args| {
            Ok(Value::Bool(compile(exec, &text(args, 0)).is_ok_and(|r| r.is_match(bytes(args, 1)))))
        }),
        fixed("mustRegexMatch", &[Str, Str], |exec, args| {
            Ok(Value::Bool(compile(exec, &text(args, 0))?.is_match(bytes(args, 1))))
        }),
        fixed("regexQuoteMeta", &[Str], |_, args| Ok(Value::string(quote_meta(bytes(args, 0))))),
    ];
    for name in ["regexFindAll", "mustRegexFindAll"] {
        table.push(fixed(name, &[Str, Str, Int], |exec, args| {
            let regex = compile(exec, &text(args, 0))?;
            let most = usize::try_from(int(args, 2)).unwrap_or(usize::MAX);
            let found = matches(&regex, bytes(args, 1)).take(most).map(|m| m.as_bytes().to_vec()).collect();
            Ok(string_list(found, true))
        }));
    }
    for name in ["regexFind", "mustRegexFind"] {
        table.push(fixed(name, &[Str, Str], |exec, args| {
            let regex = compile(exec, &text(args, 0))?;
            Ok(Value::string(regex.find(bytes(args, 1)).map_or(&b""[..], |m| m.as_bytes())))
        }));
    }
    for name in ["regexReplaceAll", "mustRegexReplaceAll"] {
        table.push(fixed(name, &[Str, Str, Str], |exec, args| {
            let regex = compile(exec, &text(args, 0))?;
            let template = text(args, 2);
            Ok(Value::string(replace(&regex, bytes(args, 1), |groups| expand(&template, &regex, groups))))
        }));
    }
    for name in ["regexReplaceAllLiteral", "mustRegexReplaceAllLiteral"] {
        table.push(fixed(name, &[Str, Str, Str], |exec, args| {
            let regex = compile(exec, &text(args, 0))?;
            Ok(Value::string(replace(&regex, bytes(args, 1), |_| bytes(args, 2).to_vec())))
        }));
    }
    for name in ["regexSplit", "mustRegexSplit"] {
        table.push(fixed(name, &[Str, Str, Int], |exec, args| {
            let regex = compile(exec, &text(args, 0))?;
            Ok(string_list(split(&regex, bytes(args, 1), int(args, 2)), true))
        }));
    }
    table
}

/// Compiles an expression once per rendering.
fn compile(exec: &Exec<'_>, pattern: &str) -> Result<Rc<Regex>, FuncError> {
    if let Some(found) = exec.env.regexes.borrow().get(pattern) {
        return Ok(found.clone());
    }
    let regex = RegexBuilder::new(&translate(pattern)).size_limit(4 << 20).build().map_err(|e| {
        let reason = e.to_string();
        let reason = match reason.lines().last().unwrap_or("invalid").trim_start_matches("error: ") {
            "unclosed group" => format!("missing closing ): {}", backquoted(pattern)),
            "unopened group" => format!("unexpected ): {}", backquoted(pattern)),
            "unclosed character class" => format!("missing closing ]: {}", backquoted(pattern)),
            other => other.to_owned(),
        };
        format!("regexp: Compile({}): error parsing regexp: {reason}", backquoted(pattern))
    })?;
    let regex = Rc::new(regex);
    exec.env.regexes.borrow_mut().insert(pattern.into(), regex.clone());
    Ok(regex)
}

fn backquoted(pattern: &str) -> String {
    if pattern.contains('`') { crate::strconv::quote(pattern.as_bytes()) } else { format!("`{pattern}`") }
}

/// RE2 spells a few things differently: `\d`, `\w`, `\s` and `\b` are ASCII, `\z` is the end, `\Q…\E` quotes.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('d') => out.push_str(if in_class { "0-9" } else { "[0-9]" }),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str(if in_class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str(if in_class { "\\t\\n\\f\\r " } else { "[\\t\\n\\f\\r ]" }),
                Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
                Some('b') => out.push_str("(?-u:\\b)"),
                Some('Q') => {
                    let rest: String = chars.by_ref().collect();
                    let (quoted, tail) = rest.split_once("\\E").unwrap_or((&rest, ""));
                    out.push_str(&regex::escape(quoted));
                    out.push_str(&translate(tail));
                    return out;
                }
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() != Some(&':') => out.push_str("\\["),
            '[' => {
                // A named class such as [:alpha:] inside a class.
                out.push('[');
                for next in chars.by_ref() {
                    out.push(next);
                    if next == ']' {
                        break;
                    }
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str("\\-"),
            other => out.push(other),
        }
    }
    out
}

/// `regexp.Expand`: `$name` takes the longest run of word characters.
fn expand(template: &str, regex: &Regex, groups: &Captures<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('$') {
            out.push(b'$');
            rest = tail;
            continue;
        }
        let word = |text: &str| {
            text.len() - text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len()
        };
        let (name, tail) = match rest.strip_prefix('{') {
            Some(braced) => match braced.find('}') {
                Some(end) if end > 0 && word(&braced[..end]) == end => (&braced[..end], &braced[end + 1..]),
                _ => ("", rest),
            },
            None => rest.split_at(word(rest)),
        };
        if name.is_empty() {
            out.push(b'$');
            continue;
        }
        rest = tail;
        let group = match name.parse::<usize>() {
            Ok(number) => groups.get(number),
            Err(_) if regex.capture_names().flatten().any(|n| n == name) => groups.name(name),
            Err(_) => None,
        };
        out.extend_from_slice(group.map_or(&b""[..], |g| g.as_bytes()));
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Whether a place is between two characters: nothing matches inside one.
fn between_characters(input: &[u8], at: usize) -> bool {
    input.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

/// All matches that do not overlap.
fn matches<'i>(regex: &Regex, input: &'i [u8]) -> impl Iterator<Item = regex::bytes::Match<'i>> {
    regex.find_iter(input).filter(|m| !m.is_empty() || between_characters(input, m.start()))
}

fn replace(regex: &Regex, input: &[u8], by: impl Fn(&Captures<'_>) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut done = 0;
    for groups in regex.captures_iter(input) {
        let Some(whole) = groups.get(0) else { continue };
        if whole.is_empty() && !between_characters(input, whole.start()) {
            continue;
        }
        out.extend_from_slice(&input[done..whole.start()]);
        out.extend_from_slice(&by(&groups));
        done = whole.end();
    }
    out.extend_from_slice(&input[done..]);
    out
}

/// `regexp.Split`.
fn split(regex: &Regex, input: &[u8], count: i64) -> Vec<Vec<u8>> {
    if count == 0 {
        return Vec::new();
    }
    if !regex.as_str().is_empty() && input.is_empty() {
        return vec![Vec::new()];
    }
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    for found in matches(regex, input).take(most) {
        if parts.len() + 1 == most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(input[begin..end].to_vec());
        }
        begin = found.end();
    }
    if end != input.len() {
        parts.push(input[begin..].to_vec());
    }
    parts
}

fn quote_meta(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    for byte in input {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn re2_syntax_is_understood() {
        let matches =
            |pattern: &str, text: &str| Regex::new(&translate(pattern)).unwrap().is_match(text.as_bytes());
        assert!(matches(r"^\d+$", "123"));
        assert!(!matches(r"^\d+$", "१२३"));
        assert!(matches(r"^[\w.-]+$", "a-b.c"));
        assert!(matches(r"^\Qa.b\E$", "a.b"));
        assert!(matches(r"^[[:alpha:]]+$", "abc"));
        assert!(matches(r"^[]a]+$", "]a"));
    }
}
