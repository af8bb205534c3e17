//! Sprig's strings.

use super::{Entry, Type, bytes, fixed, int, strval, text, variadic};
use crate::printf;
use crate::strconv;
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{ListKind, MapKind, Str, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Int, Str as Text};
    vec![
        fixed("trim", &[Text], |_, args| Ok(Value::string(text(args, 0).trim()))),
        fixed("upper", &[Text], |_, args| Ok(Value::string(simple_upper(&text(args, 0))))),
        fixed("lower", &[Text], |_, args| Ok(Value::string(simple_lower(&text(args, 0))))),
        fixed("trimall", &[Text, Text], trim_all),
        fixed("trimAll", &[Text, Text], trim_all),
        fixed("trimSuffix", &[Text, Text], |_, args| {
            let (suffix, whole) = (bytes(args, 0), bytes(args, 1));
            Ok(Value::string(whole.strip_suffix(suffix).unwrap_or(whole)))
        }),
        fixed("trimPrefix", &[Text, Text], |_, args| {
            let (prefix, whole) = (bytes(args, 0), bytes(args, 1));
            Ok(Value::string(whole.strip_prefix(prefix).unwrap_or(whole)))
        }),
        fixed("nospace", &[Text], |_, args| Ok(Value::string(no_space(bytes(args, 0))))),
        fixed("repeat", &[Int, Text], |exec, args| repeated(exec, int(args, 0), bytes(args, 1))),
        fixed("substr", &[Int, Int, Text], substr),
        fixed("trunc", &[Int, Text], |_, args| {
            let (count, whole) = (int(args, 0), bytes(args, 1));
            let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
            let at = |i: i64| usize::try_from(i).unwrap_or(0);
            Ok(Value::string(if count < 0 && length + count > 0 {
                &whole[at(length + count)..]
            } else if count >= 0 && length > count {
                &whole[..at(count)]
            } else {
                whole
            }))
        }),
        fixed("abbrev", &[Int, Text], |_, args| abbreviate(0, int(args, 0), bytes(args, 1), 4)),
        fixed("abbrevboth", &[Int, Int, Text], |_, args| {
            let (left, right) = (int(args, 0), int(args, 1));
            let least = if left > 0 { 7 } else { 4 };
            abbreviate(left, right, bytes(args, 2), least)
        }),
        fixed("contains", &[Text, Text], |_, args| {
            Ok(Value::Bool(find(bytes(args, 1), bytes(args, 0)).is_some()))
        }),
        fixed("hasPrefix", &[Text, Text], |_, args| {
            Ok(Value::Bool(bytes(args, 1).starts_with(bytes(args, 0))))
        }),
        fixed("hasSuffix", &[Text, Text], |_, args| {
            Ok(Value::Bool(bytes(args, 1).ends_with(bytes(args, 0))))
        }),
        variadic("quote", &[], Any, |_, args| {
            let parts: Vec<String> =
                args.iter().filter(|a| !a.is_nil()).map(|a| strconv::quote(strval(a).as_bytes())).collect();
            Ok(Value::string(parts.join(" ")))
        }),
        variadic("squote", &[], Any, |_, args| {
            let parts: Vec<Vec<u8>> = args
                .iter()
                .filter(|a| !a.is_nil())
                .map(|a| [b"'", printf::display(a).as_slice(), b"'"].concat())
                .collect();
            Ok(Value::string(parts.join(&b' ')))
        }),
        variadic("cat", &[], Any, |_, args| {
            let parts: Vec<Vec<u8>> = args.iter().filter(|a| !a.is_nil()).map(printf::display).collect();
            Ok(Value::string(parts.join(&b' ')))
        }),
        fixed("indent", &[Int, Text], |exec, args| indent(exec, int(args, 0), bytes(args, 1), b"")),
        fixed("nindent", &[Int, Text], |exec, args| indent(exec, int(args, 0), bytes(args, 1), b"\n")),
        fixed("replace", &[Text, Text, Text], |_, args| {
            Ok(Value::string(replace(bytes(args, 2), bytes(args, 0), bytes(args, 1))))
        }),
        fixed("plural", &[Text, Text, Int], |_, args| Ok(args[usize::from(int(args, 2) != 1)].clone())),
        fixed("toString", &[Any], |_, args| Ok(Value::Str(strval(&args[0])))),
        fixed("split", &[Text, Text], |_, args| Ok(numbered(split(bytes(args, 1), bytes(args, 0), -1)))),
        fixed("splitn", &[Text, Int, Text], |_, args| {
            Ok(numbered(split(bytes(args, 2), bytes(args, 0), int(args, 1))))
        }),
        fixed("splitList", &[Text, Text], |_, args| {
            Ok(Value::strings(split(bytes(args, 1), bytes(args, 0), -1).into_iter().map(Str::from)))
        }),
        fixed("randAlphaNum", &[Int], |exec, args| {
            random_text(exec, int(args, 0), |b| b.is_ascii_alphanumeric())
        }),
        fixed("randAlpha", &[Int], |exec, args| random_text(exec, int(args, 0), |b| b.is_ascii_alphabetic())),
        fixed("randNumeric", &[Int], |exec, args| random_text(exec, int(args, 0), |b| b.is_ascii_digit())),
        fixed("randAscii", &[Int], |exec, args| {
            random_text(exec, int(args, 0), |b| b.is_ascii_graphic() || b == b' ')
        }),
        fixed("shuffle", &[Text], |exec, args| {
            let mut chars: Vec<char> = text(args, 0).chars().collect();
            for i in (1..chars.len()).rev() {
                let bound = i64::try_from(i + 1).unwrap_or(1);
                let j = usize::try_from(exec.env.random.borrow_mut().below(bound)).unwrap_or(0);
                chars.swap(i, j);
            }
            Ok(Value::string(chars.into_iter().collect::<String>()))
        }),
    ]
}

/// Upper case rune by rune, as Go does: no `ß` to `SS`.
pub(super) fn simple_upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

/// Lower case rune by rune.
pub(super) fn simple_lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

pub(super) fn upper_char(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

pub(super) fn lower_char(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => {
            if c == 'İ' {
                'i'
            } else {
                c
            }
        }
    }
}

fn trim_all(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let cut: Vec<char> = text(args, 0).chars().collect();
    let mut whole = bytes(args, 1);
    while let Some((first, size)) = crate::printf::decode(whole, 0)
        && cut.contains(&first)
    {
        whole = &whole[size..];
    }
    // The last character, from its first byte on; a stray byte is one of its own.
    while let Some((last, size)) = (1..=4usize)
        .filter_map(|size| Some((size, whole.len().checked_sub(size)?)))
        .filter_map(|(size, at)| crate::printf::decode(whole, at).filter(|(_, n)| *n == size))
        .next_back()
        && cut.contains(&last)
    {
        whole = &whole[..whole.len() - size];
    }
    Ok(Value::string(whole))
}

/// Byte by byte, as Sprig's helper does, which reads every byte as a character.
fn no_space(input: &[u8]) -> Vec<u8> {
    let space = |b: u8| matches!(b, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ' | 0x85 | 0xA0);
    if !input.iter().any(|b| space(*b)) {
        return input.to_vec();
    }
    let kept: String = input.iter().filter(|b| !space(**b)).map(|b| char::from(*b)).collect();
    kept.into_bytes()
}

fn repeated(exec: &Exec<'_>, count: i64, piece: &[u8]) -> FuncResult {
    let Ok(count) = usize::try_from(count) else { return Err("strings: negative Repeat count".into()) };
    match piece.len().checked_mul(count) {
        Some(size) if size <= exec.env.limits.output => Ok(Value::string(piece.repeat(count))),
        _ => Err("strings: Repeat output length overflow".into()),
    }
}

fn substr(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let (start, end, whole) = (int(args, 0), int(args, 1), bytes(args, 2));
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let (from, to) = if start < 0 {
        (0, end)
    } else if end < 0 || end > length {
        (start, length)
    } else {
        (start, end)
    };
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    match range.and_then(|(from, to)| whole.get(from..to)) {
        Some(piece) => Ok(Value::string(piece)),
        None if to < 0 => Err(format!("runtime error: slice bounds out of range [:{to}]").into()),
        None if to > length => {
            Err(format!("runtime error: slice bounds out of range [:{to}] with length {length}").into())
        }
        None => Err(format!("runtime error: slice bounds out of range [{from}:{to}]").into()),
    }
}

fn abbreviate(offset: i64, width: i64, whole: &[u8], least: i64) -> FuncResult {
    if width < least.min(4) || offset > 0 && width < 7 {
        return Ok(Value::string(whole));
    }
    Ok(Value::string(abbreviated(whole, offset, width)))
}

fn abbreviated(whole: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    if length <= width {
        return whole.to_vec();
    }
    let at = |i: i64| usize::try_from(i.clamp(0, length)).unwrap_or(0);
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return [&whole[..at(width - 3)], b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < length {
        return [b"...", abbreviated(&whole[at(offset)..], 0, width - 3).as_slice()].concat();
    }
    [b"...", &whole[at(length - (width - 3))..]].concat()
}

/// The first place a needle occurs.
pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack.windows(needle.len()).position(|w| w == needle)
}

fn indent(exec: &Exec<'_>, spaces: i64, body: &[u8], before: &[u8]) -> FuncResult {
    let Ok(width) = usize::try_from(spaces) else { return Err("strings: negative Repeat count".into()) };
    let lines = 1 + body.iter().filter(|b| **b == b'\n').count();
    if width.saturating_mul(lines).saturating_add(body.len()) > exec.env.limits.output {
        return Err("the indented text is too large".into());
    }
    let pad = vec![b' '; width];
    let mut out = Vec::with_capacity(before.len() + body.len() + width * lines);
    out.extend_from_slice(before);
    for (i, line) in body.split(|b| *b == b'\n').enumerate() {
        if i > 0 {
            out.push(b'\n');
        }
        out.extend_from_slice(&pad);
        out.extend_from_slice(line);
    }
    Ok(Value::string(out))
}

/// `strings.ReplaceAll`; an empty old text matches before every character and at the end.
pub(super) fn replace(whole: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(whole.len());
    if old.is_empty() {
        let mut at = 0;
        while let Some((_, size)) = printf::decode(whole, at) {
            out.extend_from_slice(new);
            out.extend_from_slice(&whole[at..at + size]);
            at += size;
        }
        out.extend_from_slice(new);
        return out;
    }
    let mut rest = whole;
    while let Some(at) = find(rest, old) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// `strings.SplitN`; a negative count means all, an empty separator splits characters.
pub(super) fn split(whole: &[u8], separator: &[u8], count: i64) -> Vec<Vec<u8>> {
    if count == 0 {
        return Vec::new();
    }
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = whole;
    if separator.is_empty() {
        while let Some((_, size)) = printf::decode(rest, 0) {
            if parts.len() + 1 == most {
                break;
            }
            parts.push(rest[..size].to_vec());
            rest = &rest[size..];
        }
        if !rest.is_empty() {
            parts.push(rest.to_vec());
        }
        return parts;
    }
    while parts.len() + 1 < most {
        let Some(at) = find(rest, separator) else { break };
        parts.push(rest[..at].to_vec());
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest.to_vec());
    parts
}

fn numbered(parts: Vec<Vec<u8>>) -> Value {
    let entries = parts
        .into_iter()
        .enumerate()
        .map(|(i, part)| (Str::from(format!("_{i}")), Value::string(part)))
        .collect();
    Value::map_of(MapKind::Strings, entries)
}

fn random_text(exec: &mut Exec<'_>, count: i64, allowed: fn(u8) -> bool) -> FuncResult {
    let Ok(count) = usize::try_from(count) else { return Ok(Value::string("")) };
    if count > exec.env.limits.output {
        return Err(FuncError::from("the random text is too large"));
    }
    let alphabet: Vec<u8> = (0u8..128).filter(|b| allowed(*b)).collect();
    let bound = i64::try_from(alphabet.len()).unwrap_or(1);
    let mut random = exec.env.random.borrow_mut();
    let picked: Vec<u8> = (0..count)
        .map(|_| alphabet[usize::try_from(random.below(bound)).unwrap_or(0) % alphabet.len()])
        .collect();
    Ok(Value::string(picked))
}

/// Keeps the list kind in one place for callers that build string lists.
pub(super) fn string_list(items: Vec<Vec<u8>>, nil: bool) -> Value {
    if nil && items.is_empty() {
        return Value::nil_list(ListKind::Strings);
    }
    Value::strings(items.into_iter().map(Str::from))
}
