//! The little language of `--set`: `a.b=c,d[0].e=f,g={h,i}`, with backslash taking the next character as it is.

use serde_json::{Map, Value as Json};

const MAX_INDEX: usize = 65_536;
const MAX_NESTING: usize = 30;

/// What the text after an `=` becomes.
pub(super) enum Mode<'a> {
    /// Booleans, integers and nulls are recognised.
    Typed,
    /// Always a string.
    Text,
    /// JSON.
    Json,
    /// The content of the file it names.
    File(&'a mut dyn FnMut(&str) -> std::result::Result<String, String>),
}

struct Parser<'a, 'b> {
    rest: &'a str,
    mode: Mode<'b>,
}

enum End {
    More,
    Done,
}

type Result<T> = std::result::Result<T, String>;

/// Applies a line to a table.
pub(super) fn parse_into(line: &str, table: &mut Map<String, Json>, mode: Mode<'_>) -> Result<()> {
    let mut parser = Parser { rest: line, mode };
    loop {
        if let End::Done = parser.key(table, 0)? {
            return Ok(());
        }
    }
}

/// Applies one `path=literal` to a table.
pub(super) fn parse_literal_into(line: &str, table: &mut Map<String, Json>) -> Result<()> {
    let Some((path, value)) = line.split_once('=') else {
        return Err(format!("key {line:?} has no value"));
    };
    // The path is read as ever; the value is put in afterwards, untouched.
    let placeholder = format!("{path}=x");
    let literal = value.to_owned();
    let mut give = move |_: &str| Ok(literal.clone());
    parse_into(&placeholder, table, Mode::File(&mut give))
}

impl Parser<'_, '_> {
    /// Reads to one of the stop characters. The text, and the character that stopped it.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut out = String::new();
        let mut chars = self.rest.chars();
        while let Some(c) = chars.next() {
            if stops.contains(&c) {
                self.rest = chars.as_str();
                return (out, Some(c));
            }
            if c == '\\' {
                match chars.next() {
                    Some(next) => out.push(next),
                    None => break,
                }
            } else {
                out.push(c);
            }
        }
        self.rest = "";
        (out, None)
    }

    fn key(&mut self, table: &mut Map<String, Json>, nesting: usize) -> Result<End> {
        let (key, stop) = self.until(&['=', '[', ',', '.']);
        match stop {
            None if key.is_empty() => Ok(End::Done),
            None => Err(format!("key {key:?} has no value")),
            Some('[') => {
                let index = self.index()?;
                let mut list = match table.get(&key) {
                    Some(Json::Array(items)) => items.clone(),
                    None => Vec::new(),
                    Some(_) => return Err("unable to parse key: the value is not a list".to_owned()),
                };
                let end = self.item(&mut list, index, nesting)?;
                assign(table, key, Json::Array(list));
                Ok(end)
            }
            Some('=') => {
                let (value, end) = self.value()?;
                assign(table, key, value);
                Ok(end)
            }
            Some(',') => {
                assign(table, key.clone(), Json::String(String::new()));
                Err(format!("key {key:?} has no value (cannot end with ,)"))
            }
            Some(_) => {
                if nesting + 1 > MAX_NESTING {
                    return Err(format!(
                        "value name nested level is greater than maximum supported nested level of {MAX_NESTING}"
                    ));
                }
                let mut inner = match table.get(&key) {
                    Some(Json::Object(inner)) => inner.clone(),
                    None => Map::new(),
                    Some(_) => return Err("unable to parse key: the value is not a table".to_owned()),
                };
                let end = self.key(&mut inner, nesting + 1)?;
                if inner.is_empty() {
                    return Err(format!("key map {key:?} has no value"));
                }
                assign(table, key, Json::Object(inner));
                Ok(end)
            }
        }
    }

    fn index(&mut self) -> Result<usize> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err("error parsing index: EOF".to_owned());
        }
        let index: i64 = text.parse().map_err(|_| format!("error parsing index: invalid syntax {text:?}"))?;
        usize::try_from(index).map_err(|_| format!("negative {index} index not allowed"))
    }

    fn item(&mut self, list: &mut Vec<Json>, index: usize, nesting: usize) -> Result<End> {
        if index > MAX_INDEX {
            return Err(format!("index of {index} is greater than maximum supported index of {MAX_INDEX}"));
        }
        let (extra, stop) = self.until(&['[', '.', '=']);
        if !extra.is_empty() {
            return Err(format!("unexpected data at end of array index: {extra:?}"));
        }
        let (value, end) = match stop {
            None => return Ok(End::Done),
            Some('=') => self.value()?,
            Some('[') => {
                let next = self.index()?;
                let mut inner = match list.get(index) {
                    Some(Json::Array(items)) => items.clone(),
                    None | Some(Json::Null) => Vec::new(),
                    Some(_) => return Err("unable to parse key: the value is not a list".to_owned()),
                };
                let end = self.item(&mut inner, next, nesting)?;
                (Json::Array(inner), end)
            }
            Some(_) => {
                let mut inner = match list.get(index) {
                    Some(Json::Object(inner)) => inner.clone(),
                    _ => Map::new(),
                };
                let end = self.key(&mut inner, nesting)?;
                (Json::Object(inner), end)
            }
        };
        if list.len() <= index {
            list.resize(index + 1, Json::Null);
        }
        list[index] = value;
        Ok(end)
    }

    fn value(&mut self) -> Result<(Json, End)> {
        if matches!(self.mode, Mode::Json) {
            return self.json();
        }
        if self.rest.is_empty() {
            return Ok((Json::String(String::new()), End::Done));
        }
        if let Some(rest) = self.rest.strip_prefix('{') {
            self.rest = rest;
            let mut items = Vec::new();
            loop {
                let (text, stop) = self.until(&[',', '}']);
                match stop {
                    None => return Err("list must terminate with '}'".to_owned()),
                    Some('}') => {
                        self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                        items.push(self.convert(&text)?);
                        return Ok((Json::Array(items), End::More));
                    }
                    Some(_) => items.push(self.convert(&text)?),
                }
            }
        }
        let (text, _) = self.until(&[',']);
        Ok((self.convert(&text)?, End::More))
    }

    fn json(&mut self) -> Result<(Json, End)> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Ok((Json::Null, End::More));
        }
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return Ok((Json::Null, End::More));
        }
        let mut stream = serde_json::Deserializer::from_str(self.rest).into_iter::<Json>();
        let value = match stream.next() {
            Some(Ok(value)) => value,
            Some(Err(e)) => return Err(e.to_string()),
            None => Json::Null,
        };
        let rest = self.rest[stream.byte_offset()..].trim_start();
        self.rest = rest.strip_prefix(',').unwrap_or(rest);
        Ok((floats(value), End::More))
    }

    fn convert(&mut self, text: &str) -> Result<Json> {
        match &mut self.mode {
            Mode::File(read) => read(text).map(Json::String),
            Mode::Typed => Ok(typed(text)),
            Mode::Text | Mode::Json => Ok(Json::String(text.to_owned())),
        }
    }
}

/// JSON numbers are floating point to Go.
fn floats(value: Json) -> Json {
    match value {
        Json::Number(n) => n.as_f64().and_then(serde_json::Number::from_f64).map_or(Json::Null, Json::Number),
        Json::Array(items) => Json::Array(items.into_iter().map(floats).collect()),
        Json::Object(entries) => Json::Object(entries.into_iter().map(|(k, v)| (k, floats(v))).collect()),
        other => other,
    }
}

fn typed(text: &str) -> Json {
    if text.eq_ignore_ascii_case("true") {
        return Json::Bool(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Json::Bool(false);
    }
    if text.eq_ignore_ascii_case("null") {
        return Json::Null;
    }
    if text == "0" {
        return Json::from(0i64);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !text.is_empty()
        && !text.starts_with('0')
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(number) = text.parse::<i64>()
    {
        return Json::from(number);
    }
    Json::String(text.to_owned())
}

fn assign(table: &mut Map<String, Json>, key: String, value: Json) {
    if !key.is_empty() {
        table.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Json {
        let mut table = Map::new();
        match parse_into(line, &mut table, Mode::Typed) {
            Ok(()) => Json::Object(table),
            Err(e) => Json::String(e),
        }
    }

    #[test]
    fn paths_lists_and_escapes() {
        assert_eq!(parsed("a.b=c,d=1"), serde_json::json!({"a": {"b": "c"}, "d": 1}));
        assert_eq!(parsed("a[0].b=x,a[1]=y"), serde_json::json!({"a": [{"b": "x"}, "y"]}));
        assert_eq!(parsed(r"a\.b=c\,d"), serde_json::json!({"a.b": "c,d"}));
        assert_eq!(parsed("a={1,b}"), serde_json::json!({"a": [1, "b"]}));
        assert_eq!(parsed("a="), serde_json::json!({"a": ""}));
        assert_eq!(parsed("a[0][1]=x"), serde_json::json!({"a": [[null, "x"]]}));
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(parsed("a"), serde_json::json!("key \"a\" has no value"));
        assert_eq!(parsed("a[x]=1"), serde_json::json!("error parsing index: invalid syntax \"x\""));
        assert_eq!(parsed("a={1"), serde_json::json!("list must terminate with '}'"));
        assert!(parsed("a[99999999]=1").as_str().unwrap().contains("greater than maximum"));
    }

    #[test]
    fn json_and_literals() {
        let mut table = Map::new();
        parse_into(r#"a=[1,{"b":null}],c="x""#, &mut table, Mode::Json).unwrap();
        parse_literal_into("d.e=x,y={z}", &mut table).unwrap();
        assert_eq!(
            Json::Object(table),
            serde_json::json!({"a": [1.0, {"b": null}], "c": "x", "d": {"e": "x,y={z}"}})
        );
    }
}
