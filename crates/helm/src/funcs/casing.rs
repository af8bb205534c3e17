//! Sprig's letter cases, word splitting and wrapping.

use super::strings::{lower_char, upper_char};
use super::{Entry, Type, bytes, fixed, int, text};
use crate::template::exec::{Exec, FuncResult};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Int, Str};
    vec![
        fixed("title", &[Str], |_, args| Ok(Value::string(title(&text(args, 0))))),
        fixed("untitle", &[Str], |_, args| Ok(Value::string(untitle(&text(args, 0))))),
        fixed("swapcase", &[Str], |_, args| Ok(Value::string(swap_case(&text(args, 0))))),
        fixed("snakecase", &[Str], |_, args| Ok(Value::string(words_joined(&text(args, 0), '_')))),
        fixed("kebabcase", &[Str], |_, args| Ok(Value::string(words_joined(&text(args, 0), '-')))),
        fixed("camelcase", &[Str], |_, args| Ok(Value::string(pascal_case(&text(args, 0))))),
        fixed("initials", &[Str], |_, args| Ok(Value::string(initials(bytes(args, 0))))),
        fixed("wrap", &[Int, Str], |exec, args| wrap(exec, bytes(args, 1), int(args, 0), b"", false)),
        fixed("wrapWith", &[Int, Str, Str], |exec, args| {
            wrap(exec, bytes(args, 2), int(args, 0), bytes(args, 1), true)
        }),
    ]
}

fn title(text: &str) -> String {
    let mut previous = ' ';
    text.chars()
        .map(|c| {
            let separator = if previous.is_ascii() {
                !(previous.is_ascii_alphanumeric() || previous == '_')
            } else {
                !previous.is_alphabetic() && !previous.is_numeric() && previous.is_whitespace()
            };
            previous = c;
            if separator { upper_char(c) } else { c }
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut start = true;
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                start = true;
                return c;
            }
            let lowered = if start { lower_char(c) } else { c };
            start = false;
            lowered
        })
        .collect()
}

fn swap_case(text: &str) -> String {
    let mut space = true;
    text.chars()
        .map(|c| {
            if c.is_uppercase() {
                space = false;
                lower_char(c)
            } else if c.is_lowercase() {
                space = false;
                upper_char(c)
            } else {
                space = c.is_whitespace();
                c
            }
        })
        .collect()
}

/// Reads every byte as a character, as the helper Sprig uses does.
fn initials(input: &[u8]) -> String {
    let mut gap = true;
    let mut out = String::new();
    for byte in input {
        let c = char::from(*byte);
        if c.is_whitespace() {
            gap = true;
        } else if gap {
            out.push(c);
            gap = false;
        }
    }
    out
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

fn pascal_case(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() && is_connector(chars[at]) {
        out.push(chars[at]);
        at += 1;
    }
    let Some(first) = chars.get(at).copied() else {
        // Only connectors: the last one is written twice.
        out.extend(chars.last());
        return out;
    };
    let mut upper_run = first.is_uppercase();
    let mut current = upper_char(first);
    for next in &chars[at + 1..] {
        let previous = current;
        current = *next;
        if is_connector(current) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            upper_run = current.is_uppercase();
            current = upper_char(current);
        } else {
            if upper_run {
                if current.is_uppercase() {
                    current = lower_char(current);
                } else {
                    upper_run = false;
                }
            }
            out.push(previous);
        }
    }
    out.push(current);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() && (c as u32) < 0x3400
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
}

fn next_word(chars: &[char]) -> (Word, &[char], &[char]) {
    let Some(first) = chars.first().copied() else { return (Word::None, &[], &[]) };
    let run = |accept: &dyn Fn(char) -> bool| 1 + chars[1..].iter().take_while(|c| accept(**c)).count();
    let lower = |c: char| is_letter(c) && !c.is_uppercase();
    let (word, length) = if is_connector(first) {
        (Word::Connector, run(&is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(&is_punctuation))
    } else if first.is_uppercase() {
        let second = chars.get(1).copied();
        let length = if second.is_some_and(char::is_uppercase) {
            let capitals = run(&|c| c.is_uppercase());
            // The last capital of "HTTPStatus" starts the next word.
            if chars.get(capitals).is_some_and(|c| is_letter(*c)) { capitals - 1 } else { capitals }
        } else {
            run(&lower)
        };
        (Word::Upper, length)
    } else if is_letter(first) {
        (Word::Letters, run(&lower))
    } else if first.is_numeric() {
        (Word::Number, run(&char::is_numeric))
    } else {
        let other = |c: char| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c));
        (Word::Other, run(&other))
    };
    let (head, tail) = chars.split_at(length);
    (word, head, tail)
}

fn push_lower(out: &mut String, word: Word, chars: &[char], connector: char) {
    for c in chars {
        match word {
            Word::Upper | Word::Connector if is_connector(*c) => out.push(connector),
            Word::Upper | Word::Connector => out.push(lower_char(*c)),
            _ => out.push(*c),
        }
    }
}

fn words_joined(text: &str, connector: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let (mut word, mut letters, mut rest) = next_word(&chars);
    while !rest.is_empty() {
        if word != Word::Connector {
            push_lower(&mut out, word, letters, connector);
        }
        let (previous, last) = (word, letters);
        (word, letters, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while matches!(word, Word::Letters | Word::Number) {
                    push_lower(&mut out, word, letters, connector);
                    (word, letters, rest) = next_word(rest);
                }
                if !matches!(word, Word::None | Word::Punctuation | Word::Connector) {
                    out.push(connector);
                }
            }
            Word::Connector => push_lower(&mut out, previous, last, connector),
            Word::Punctuation => {}
            _ => {
                if word != Word::Number {
                    if !matches!(word, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                if rest.is_empty() {
                    continue;
                }
                let number = letters;
                (word, letters, rest) = next_word(rest);
                if word != Word::Letters {
                    push_lower(&mut out, Word::Number, number, connector);
                    if !matches!(word, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_lower(&mut out, Word::Number, number, connector);
                while matches!(word, Word::Letters | Word::Number) {
                    push_lower(&mut out, word, letters, connector);
                    (word, letters, rest) = next_word(rest);
                }
                if !matches!(word, Word::None | Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
        }
    }
    push_lower(&mut out, word, letters, connector);
    out
}

fn wrap(exec: &Exec<'_>, input: &[u8], width: i64, newline: &[u8], split_words: bool) -> FuncResult {
    let newline = if newline.is_empty() { b"\n" } else { newline };
    let width = usize::try_from(width.max(1)).unwrap_or(1);
    let mut out = Vec::new();
    let mut at = 0;
    while input.len() - at > width {
        if input[at] == b' ' {
            at += 1;
            continue;
        }
        let window = &input[at..at + width + 1];
        if let Some(space) = window.iter().rposition(|b| *b == b' ') {
            out.extend_from_slice(&input[at..at + space]);
            out.extend_from_slice(newline);
            at += space + 1;
        } else if split_words {
            out.extend_from_slice(&input[at..at + width]);
            out.extend_from_slice(newline);
            at += width;
        } else {
            match input[at + width..].iter().position(|b| *b == b' ') {
                None => {
                    out.extend_from_slice(&input[at..]);
                    at = input.len();
                }
                Some(space) => {
                    out.extend_from_slice(&input[at..at + width + space]);
                    out.extend_from_slice(newline);
                    at += width + space + 1;
                }
            }
        }
        if out.len() > exec.env.limits.output {
            return Err("the wrapped text is too large".into());
        }
    }
    out.extend_from_slice(&input[at..]);
    Ok(Value::string(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_camel_case() {
        assert_eq!(words_joined("FirstName", '_'), "first_name");
        assert_eq!(words_joined("HTTPServer", '_'), "http_server");
        assert_eq!(words_joined("NoHTTPS", '-'), "no-https");
        assert_eq!(words_joined("GO_PATH", '_'), "go_path");
        assert_eq!(words_joined("GO PATH", '_'), "go_path");
        assert_eq!(words_joined("HTTP2xx", '_'), "http_2xx");
        assert_eq!(words_joined("Bld4Floor3rd", '_'), "bld4_floor_3rd");
        assert_eq!(pascal_case("http_server"), "HttpServer");
        assert_eq!(pascal_case("some_words"), "SomeWords");
        assert_eq!(title("hello wORLD-x"), "Hello WORLD-X");
        assert_eq!(swap_case("This Is A.Test"), "tHIS iS a.tEST");
    }
}
