//! Follows the types of an expression while reading it.

use super::{
    About,
    language::{
        FUNCTIONS, METHODS, RESERVED, TYPES,
        Type::{
            self, Bool, Bytes, Double, Duration, Dynamic, Fields, Int, List, Map, Null, Optional, Text,
            Timestamp, Uint,
        },
        between, joined, part,
    },
    token::{Token, tokens},
};
use crate::config::schema::meant;

/// How deep expressions may be nested; Talos' own limit is lower.
const DEEPEST: usize = 250;

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    about: About,
    minor: u32,
    /// Names that functions such as `exists` bring, innermost last.
    local: Vec<(String, Type)>,
    /// Whether what was read last is a field behind a dot.
    is_field: bool,
    depth: usize,
}

type Read = Result<Type, String>;

/// What an expression says, or what is wrong with it.
pub(super) fn type_of(text: &str, about: About, minor: u32) -> Read {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err("is empty".into());
    }
    let mut reader = Reader { tokens, at: 0, about, minor, local: Vec::new(), is_field: false, depth: 0 };
    let found = reader.expression()?;
    match reader.tokens.get(reader.at) {
        None => Ok(found),
        Some(token) => Err(format!("`{}` should not be there", shown(token))),
    }
}

fn shown(token: &Token) -> &str {
    match token {
        Token::Name(name) => name,
        Token::Sign(sign) => sign,
        Token::Text | Token::Bytes => "a quoted text",
        Token::Int | Token::Uint | Token::Double => "a number",
    }
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Sign(sign)) = self.peek() else { return None };
        let found = signs.iter().find(|wanted| *wanted == sign)?;
        self.at += 1;
        Some(found)
    }

    fn needs(&mut self, sign: &'static str) -> Result<(), String> {
        match (self.takes(&[sign]), self.peek()) {
            (Some(_), _) => Ok(()),
            (None, None) => Err(format!("ends where `{sign}` should be")),
            (None, Some(token)) => Err(format!("`{}` stands where `{sign}` should be", shown(token))),
        }
    }

    fn expression(&mut self) -> Read {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("is nested too deeply".into());
        }
        let first = self.either(0)?;
        let found = if self.takes(&["?"]).is_some() {
            if joined(first, Bool).is_none() {
                return Err(format!("`?` stands behind {first}, where true or false has to be"));
            }
            let yes = self.either(0)?;
            self.needs(":")?;
            let no = self.expression()?;
            self.is_field = false;
            joined(yes, no).ok_or_else(|| format!("`:` cannot be between {yes} and {no}"))?
        } else {
            first
        };
        self.depth -= 1;
        Ok(found)
    }

    /// Operators between two values, by how strongly they bind.
    fn either(&mut self, level: usize) -> Read {
        const LEVELS: [&[&str]; 5] =
            [&["||"], &["&&"], &["<", "<=", ">", ">=", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.either(level + 1)?;
        loop {
            let is_in = signs.contains(&"in") && self.peek() == Some(&Token::Name("in".into()));
            let sign = match self.takes(signs) {
                Some(sign) => sign,
                None if is_in => {
                    self.at += 1;
                    "in"
                }
                None => return Ok(left),
            };
            let before = self.at;
            let right = self.either(level + 1)?;
            let numbers = (self.tokens.get(before), self.at - before);
            left = between(left, sign, right).ok_or_else(|| {
                let hint = match (left, right, numbers) {
                    (Uint, Int, (Some(Token::Int), 1)) => "; write `100u` for 100, for one",
                    _ => "",
                };
                format!("`{sign}` cannot be between {left} and {right}{hint}")
            })?;
            self.is_field = false;
        }
    }

    fn unary(&mut self) -> Read {
        let mut signs = Vec::new();
        while let Some(sign) = self.takes(&["!", "-"]) {
            if signs.first().is_some_and(|first| *first != sign) {
                return Err(format!("`{sign}` should not be there"));
            }
            signs.push(sign);
        }
        let found = self.member()?;
        let good = match signs.first() {
            None => return Ok(found),
            Some(&"!") => matches!(found, Bool | Dynamic),
            Some(_) => matches!(found, Int | Double | Dynamic),
        };
        self.is_field = false;
        if good { Ok(found) } else { Err(format!("`{}` cannot be before {found}", signs[0])) }
    }

    fn member(&mut self) -> Read {
        let start = self.at;
        let mut found = self.primary()?;
        loop {
            if self.takes(&["."]).is_some() {
                let optional = self.takes(&["?"]).is_some();
                let Some(Token::Name(name)) = self.peek().cloned() else {
                    return Err("ends behind a dot, where a name should be".into());
                };
                self.at += 1;
                let owner = match self.tokens.get(self.at.saturating_sub(3)) {
                    Some(Token::Name(owner)) => format!("`{owner}`"),
                    _ => found.to_string(),
                };
                found = if self.peek() == Some(&Token::Sign("(")) {
                    self.is_field = false;
                    self.method(found, &name)?
                } else {
                    self.is_field = true;
                    let of_type = self.field(found, &owner, &name)?;
                    if optional { Dynamic } else { of_type }
                };
            } else if self.takes(&["["]).is_some() {
                let optional = self.takes(&["?"]).is_some();
                let key = self.expression()?;
                self.needs("]")?;
                self.is_field = false;
                found = match found {
                    List(element) if joined(key, Int).is_some() => *element,
                    Map(of, value) if joined(key, *of).is_some() => *value,
                    Dynamic => Dynamic,
                    _ => return Err(format!("{found} cannot be asked for [{key}]")),
                };
                if optional {
                    found = Dynamic;
                }
            } else if self.at > start && found == Dynamic && self.takes(&["{"]).is_some() {
                // A message with its fields, of which nothing is known here.
                while self.takes(&["}"]).is_none() {
                    self.takes(&["?"]);
                    self.at += 1;
                    self.needs(":")?;
                    self.expression()?;
                    if self.takes(&[","]).is_none() && self.peek() != Some(&Token::Sign("}")) {
                        return Err("ends where `}` should be".into());
                    }
                }
            } else {
                return Ok(found);
            }
        }
    }

    fn field(&self, of: Type, owner: &str, name: &str) -> Read {
        match of {
            Fields(fields) => match fields.iter().find(|(known, ..)| *known == name) {
                Some((_, found, since)) if *since <= self.minor => Ok(*found),
                Some((.., since)) => Err(later(&format!("{owner} has no `{name}`"), self.minor, *since)),
                None => {
                    let hint = meant(name, fields.iter().map(|(known, ..)| *known));
                    Err(format!("{owner} has no `{name}`{hint}"))
                }
            },
            Map(_, value) => Ok(*value),
            Optional(_) | Dynamic => Ok(Dynamic),
            _ => Err(format!("{of} has no fields, so no `{name}`")),
        }
    }

    /// Values in brackets.
    fn values(&mut self, end: &'static str) -> Result<Vec<Type>, String> {
        let mut values = Vec::new();
        while self.takes(&[end]).is_none() {
            self.takes(&["?"]);
            values.push(self.expression()?);
            if self.takes(&[","]).is_none() {
                self.needs(end)?;
                break;
            }
        }
        Ok(values)
    }

    fn method(&mut self, of: Type, name: &str) -> Read {
        self.needs("(")?;
        const EACH: [&str; 8] =
            ["all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap"];
        if let (true, Some(Token::Name(local))) = (EACH.contains(&name), self.peek().cloned()) {
            self.at += 1;
            self.needs(",")?;
            let element = match of {
                List(element) => *element,
                Map(key, _) => *key,
                Optional(value) if name.starts_with("opt") => *value,
                Dynamic => Dynamic,
                _ => return Err(format!("`{name}` cannot be asked of {of}")),
            };
            self.local.push((local, element));
            let values = self.values(")")?;
            self.local.pop();
            return match (name, &values[..]) {
                ("optMap", [value]) => Ok(Optional(part(*value))),
                ("optFlatMap", [value @ (Optional(_) | Dynamic)]) => Ok(*value),
                ("optMap" | "optFlatMap", _) => Err(format!("`{name}` takes a name and a value")),
                ("map", [_] | [_, _]) => Ok(values.last().map_or(Dynamic, |last| List(part(*last)))),
                ("map", _) => Err("`map` takes 2 or 3 values".into()),
                (_, [says]) if joined(*says, Bool).is_none() => {
                    Err(format!("`{name}` asks for {says}, where true or false has to be"))
                }
                ("filter", [_]) => Ok(if let Map(key, _) = of { List(key) } else { of }),
                (_, [_]) => Ok(Bool),
                _ => Err(format!("`{name}` takes 2 values")),
            };
        }
        let values = self.values(")")?;
        let fits = |wanted: &[Type]| {
            wanted.len() == values.len() && wanted.iter().zip(&values).all(|(a, b)| joined(*a, *b).is_some())
        };
        let found = match (name, of) {
            (_, Dynamic) if METHODS.contains(&name) => Some(match name {
                "contains" | "startsWith" | "endsWith" | "matches" | "hasValue" => Bool,
                "size" => Int,
                _ => Dynamic,
            }),
            ("contains" | "startsWith" | "endsWith" | "matches", Text) => fits(&[Text]).then_some(Bool),
            ("hasValue", Optional(_)) => fits(&[]).then_some(Bool),
            ("value", Optional(value)) => fits(&[]).then_some(*value),
            ("orValue", Optional(value)) => fits(&[*value]).then_some(*value),
            ("or", Optional(_)) => fits(&[of]).then_some(of),
            ("size", Text | Bytes | List(_) | Map(..)) => fits(&[]).then_some(Int),
            (_, Duration | Timestamp) if name.starts_with("get") && METHODS.contains(&name) => Some(Int),
            _ if METHODS.contains(&name) => None,
            _ => return Err(format!("there is no function `{name}`{}", meant(name, METHODS.into_iter()))),
        };
        found.ok_or_else(|| format!("`{name}` cannot be asked of {of} like this"))
    }

    fn function(&mut self, name: &str) -> Read {
        self.needs("(")?;
        let values = self.values(")")?;
        let own = ["glob", "mac", "multiply_qos_vectors"].contains(&name);
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let (Some((_, count)), Some(since)) = (known, if own { self.about.function(name) } else { Some(0) })
        else {
            let names = FUNCTIONS.iter().map(|(known, _)| *known);
            return Err(
                format!("there is no function `{name}`{} here", meant(name, names)).replace("? here", "?")
            );
        };
        if since > self.minor {
            return Err(later(&format!("there is no function `{name}`"), self.minor, since));
        }
        if values.len() != *count {
            return Err(format!("`{name}` takes {count} value{}", if *count == 1 { "" } else { "s" }));
        }
        let first = values[0];
        let wrong = || Err(format!("`{name}` cannot be asked of {first} like this"));
        let all = |wanted: Type| values.iter().all(|value| joined(*value, wanted).is_some());
        match name {
            "has" if self.is_field => {}
            "has" => return Err("`has` takes a field, such as `has(disk.model)`".into()),
            "glob" | "matches" if !all(Text) => return wrong(),
            "mac" if !all(Bytes) => return wrong(),
            "multiply_qos_vectors" if !all(Map(&Dynamic, &Double)) => return wrong(),
            "size" if matches!(first, Bool | Int | Uint | Double | Optional(_) | Fields(_)) => {
                return wrong();
            }
            "bool" if !matches!(first, Bool | Text | Dynamic) => return wrong(),
            "int" | "uint" | "double"
                if matches!(first, Bool | Bytes | List(_) | Map(..) | Optional(_) | Fields(_)) =>
            {
                return wrong();
            }
            "string" | "bytes" | "duration" | "timestamp"
                if matches!(first, List(_) | Map(..) | Optional(_) | Fields(_)) =>
            {
                return wrong();
            }
            _ => {}
        }
        self.is_field = false;
        Ok(match name {
            "size" | "int" => Int,
            "uint" => Uint,
            "double" | "multiply_qos_vectors" => Double,
            "string" | "mac" => Text,
            "bytes" => Bytes,
            "bool" | "matches" | "glob" | "has" => Bool,
            "duration" => Duration,
            "timestamp" => Timestamp,
            _ => Dynamic,
        })
    }

    fn primary(&mut self) -> Read {
        self.is_field = false;
        self.takes(&["."]);
        let Some(token) = self.peek().cloned() else { return Err("ends where a value should be".into()) };
        self.at += 1;
        match token {
            Token::Int => Ok(Int),
            Token::Uint => Ok(Uint),
            Token::Double => Ok(Double),
            Token::Text => Ok(Text),
            Token::Bytes => Ok(Bytes),
            Token::Sign("(") => {
                let found = self.expression()?;
                self.needs(")")?;
                Ok(found)
            }
            Token::Sign("[") => {
                let values = self.values("]")?;
                self.is_field = false;
                Ok(List(part(same(&values))))
            }
            Token::Sign("{") => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                while self.takes(&["}"]).is_none() {
                    self.takes(&["?"]);
                    keys.push(self.expression()?);
                    self.needs(":")?;
                    values.push(self.expression()?);
                    if self.takes(&[","]).is_none() {
                        self.needs("}")?;
                        break;
                    }
                }
                self.is_field = false;
                Ok(Map(part(same(&keys)), part(same(&values))))
            }
            Token::Sign(sign) => Err(format!("`{sign}` stands where a value should be")),
            Token::Name(name) => self.name(&name),
        }
    }

    fn name(&mut self, name: &str) -> Read {
        let is_call = self.peek() == Some(&Token::Sign("("));
        match name {
            "true" | "false" => return Ok(Bool),
            "null" => return Ok(Null),
            _ if RESERVED.contains(&name) || name == "in" => {
                return Err(format!("`{name}` is a word that the language keeps for itself"));
            }
            _ if is_call => return self.function(name),
            _ => {}
        }
        if let Some((_, found)) = self.local.iter().rev().find(|(local, _)| local == name) {
            return Ok(*found);
        }
        match self.about.name(name) {
            Some((found, since)) if since <= self.minor => Ok(found),
            Some((_, since)) => Err(later(&format!("`{name}` is not known here"), self.minor, since)),
            None if TYPES.contains(&name) => Ok(Dynamic),
            None => {
                let known = self.about.names().iter().map(|(known, ..)| *known);
                let local: Vec<&str> = self.local.iter().map(|(local, _)| local.as_str()).collect();
                Err(format!("`{name}` is not known here{}", meant(name, known.chain(local))))
            }
        }
    }
}

/// The type of all, if they are of one.
fn same(all: &[Type]) -> Type {
    all.iter().copied().map(Some).reduce(|a, b| joined(a?, b?)).flatten().unwrap_or(Dynamic)
}

fn later(what: &str, minor: u32, since: u32) -> String {
    format!("{what} in Talos v1.{minor}; it came with v1.{since}")
}
