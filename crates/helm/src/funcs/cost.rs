//! What a call takes from the budget of steps, so that the budget bounds time whatever a template calls.
//!
//! A step is about half a microsecond of work.

use crate::value::{MAX_NESTING, Value};

/// Bytes of text that are handled in one step.
const BYTES: u64 = 128;
/// Bytes of text that are parsed in one step.
const PARSED: u64 = 16;
/// Elements of a list or map that are handled in one step.
const ELEMENTS: u64 = 32;

/// How the work of a function grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// With the length of its arguments.
    Length,
    /// With everything in its arguments, however deep; a small value can hold the same large one many times.
    Content,
    /// With everything in its arguments, once for each element, since elements are compared with each other.
    Pairs,
    /// With the length of the text in its first argument, which is parsed.
    Parse,
    /// With the length of the text and that of the pattern.
    Pattern,
    /// Not with its arguments at all.
    Steps(u64),
    /// As with a key of that many steps, if the first argument asks for an RSA key.
    KeyOfKind(u64),
}

/// The cost of the function of a name.
pub(super) fn of(name: &str) -> Cost {
    match name {
        // Lookups, however much there is to look in; what included templates do counts by itself.
        "get" | "set" | "unset" | "hasKey" | "index" | "dig" | "include" | "first" | "mustFirst" | "last"
        | "mustLast" | "len" | "empty" | "default" | "ternary" | "required" | "kindOf" | "kindIs"
        | "typeOf" | "typeIs" | "typeIsLike" | "not" => Cost::Steps(0),
        "toYaml" | "toYamlPretty" | "toJson" | "mustToJson" | "toPrettyJson" | "mustToPrettyJson"
        | "toRawJson" | "mustToRawJson" | "toToml" | "toString" | "toStrings" | "print" | "println"
        | "printf" | "html" | "js" | "urlquery" | "quote" | "squote" | "cat" | "join" | "sortAlpha"
        | "deepCopy" | "mustDeepCopy" | "deepEqual" | "merge" | "mustMerge" | "mergeOverwrite"
        | "mustMergeOverwrite" | "has" | "mustHas" | "eq" | "ne" => Cost::Content,
        "uniq" | "mustUniq" | "without" | "mustWithout" => Cost::Pairs,
        "tpl" | "fromYaml" | "fromYamlArray" | "fromJson" | "fromJsonArray" | "mustFromJson" | "fromToml" => {
            Cost::Parse
        }
        "regexMatch"
        | "mustRegexMatch"
        | "regexFind"
        | "mustRegexFind"
        | "regexFindAll"
        | "mustRegexFindAll"
        | "regexReplaceAll"
        | "mustRegexReplaceAll"
        | "regexReplaceAllLiteral"
        | "mustRegexReplaceAllLiteral"
        | "regexSplit"
        | "mustRegexSplit" => Cost::Pattern,
        "bcrypt" | "htpasswd" => Cost::Steps(100_000),
        "derivePassword" => Cost::Steps(300_000),
        "genPrivateKey" => Cost::KeyOfKind(1_500_000),
        "genCA" | "genSelfSignedCert" | "genSignedCert" => Cost::Steps(150_000),
        "genCAWithKey" | "genSelfSignedCertWithKey" | "genSignedCertWithKey" | "buildCustomCert" => {
            Cost::Steps(15_000)
        }
        _ => Cost::Length,
    }
}

impl Cost {
    /// The steps of a call with these arguments; not counted any further than `most`.
    pub(crate) fn steps(self, args: &[Value], most: u64) -> u64 {
        match self {
            Cost::Length => args.iter().map(length).sum(),
            Cost::Content => content(args, most),
            Cost::Pairs => {
                let longest = args.iter().filter_map(|list| Some(list.elements()?.len() as u64)).max();
                content(args, most).saturating_mul(longest.unwrap_or(0)) / 4
            }
            Cost::Parse => args.first().map_or(0, |text| bytes(text) / PARSED),
            Cost::Pattern => {
                let pattern = args.first().map_or(0, |pattern| bytes(pattern) / 16);
                (1 + args.iter().skip(1).map(length).sum::<u64>()).saturating_mul(1 + pattern)
            }
            Cost::Steps(steps) => steps,
            Cost::KeyOfKind(steps) => match args.first() {
                Some(Value::Str(kind)) if matches!(kind.as_bytes(), b"" | b"rsa") => steps,
                _ => steps / 1000,
            },
        }
    }
}

fn bytes(value: &Value) -> u64 {
    match value {
        Value::Str(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        _ => 0,
    }
}

/// The steps it takes to go over a value once, without looking into what it holds.
pub(crate) fn length(value: &Value) -> u64 {
    let elements = match value {
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.borrow().len(),
        _ => 0,
    };
    bytes(value) / BYTES + elements as u64 / ELEMENTS
}

/// The steps it takes to go over everything in some values; not counted any further than `most`.
pub(crate) fn content(values: &[Value], most: u64) -> u64 {
    let mut left = most;
    values.iter().for_each(|value| walk(value, 0, &mut left));
    most - left
}

fn walk(value: &Value, depth: usize, left: &mut u64) {
    *left = left.saturating_sub(bytes(value) / BYTES);
    if depth > MAX_NESTING {
        return;
    }
    let mut inner = |value: &Value| {
        *left = left.saturating_sub(1);
        if *left > 0 {
            walk(value, depth + 1, left);
        }
        *left > 0
    };
    match value {
        Value::List(list) => _ = list.items.iter().all(inner),
        Value::Map(map) => _ = map.entries.borrow().values().all(inner),
        Value::Struct(structure) => _ = structure.fields.iter().all(|field| inner(&field.value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_value_holds_is_counted_as_often_as_it_is_there() {
        let mut value = Value::list(vec![Value::Int(1)]);
        assert_eq!(content(std::slice::from_ref(&value), 100), 1);
        for _ in 0..4 {
            value = Value::list(vec![value.clone(), value]);
        }
        assert_eq!(length(&value), 0);
        assert_eq!(content(std::slice::from_ref(&value), 1000), 2 + 4 + 8 + 16 + 16);
        for _ in 0..60 {
            value = Value::list(vec![value.clone(), value]);
        }
        assert_eq!(content(std::slice::from_ref(&value), 1000), 1000, "no further than needed");
    }

    #[test]
    fn costs_are_told_of_functions_that_exist() {
        for (name, cost) in [
            ("htpasswd", Cost::Steps(100_000)),
            ("genPrivateKey", Cost::KeyOfKind(1_500_000)),
            ("mustToRawJson", Cost::Content),
            ("mustWithout", Cost::Pairs),
            ("mustRegexSplit", Cost::Pattern),
            ("tpl", Cost::Parse),
            ("fromYamlArray", Cost::Parse),
            ("fromToml", Cost::Parse),
            ("sha256sum", Cost::Length),
            ("mustLast", Cost::Steps(0)),
        ] {
            assert_eq!(crate::funcs::find(name).unwrap().cost, cost, "{name}");
        }
        let kind = |kind: &str| Cost::KeyOfKind(1_000_000).steps(&[Value::string(kind)], u64::MAX);
        assert_eq!((kind("rsa"), kind(""), kind("ed25519")), (1_000_000, 1_000_000, 1000));
        let list = Value::list((0..100).map(|_| Value::list(vec![Value::Int(1); 9])).collect());
        assert_eq!(Cost::Pairs.steps(&[list], u64::MAX), 100 * 1000 / 4);
        let text = Value::string("x".repeat(1280));
        // What a text is rendered with does not count: templates look up little of it.
        let much = Value::list(vec![Value::Int(1); 10_000]);
        assert_eq!(Cost::Parse.steps(&[text.clone(), much], u64::MAX), 80);
        assert_eq!(Cost::Length.steps(std::slice::from_ref(&text), u64::MAX), 10);
        assert_eq!(Cost::Pattern.steps(&[Value::string("a".repeat(32)), text], u64::MAX), 33);
    }
}
