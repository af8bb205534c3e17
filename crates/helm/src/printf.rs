//! Go's `fmt`: how `print`, `printf` and plain `{{ value }}` turn values into text.

mod format;
mod scalars;

use crate::value::{MAX_NESTING, Struct, Value};

#[derive(Default, Clone, Copy)]
struct Flags {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    plus_v: bool,
    sharp_v: bool,
}

/// More than anybody pads to, and little enough to be harmless; Go's own limit.
const MAX_WIDTH: usize = 1_000_000;

#[derive(Default)]
struct Printer {
    out: Vec<u8>,
    flags: Flags,
    /// Inside a complaint about a verb, where values no longer speak for themselves.
    erroring: bool,
}

/// `fmt.Sprint`: a space between operands when neither is a string.
pub(crate) fn sprint(values: &[Value]) -> Vec<u8> {
    let mut printer = Printer::default();
    let mut previous_string = false;
    for (index, value) in values.iter().enumerate() {
        let string = matches!(value, Value::Str(_));
        if index > 0 && !string && !previous_string {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v', 0);
        previous_string = string;
    }
    printer.out
}

/// `fmt.Sprintln`.
pub(crate) fn sprintln(values: &[Value]) -> Vec<u8> {
    let mut printer = Printer::default();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v', 0);
    }
    printer.out.push(b'\n');
    printer.out
}

/// Writes one value as `{{ value }}` and `%v` do.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Str(s) => out.extend_from_slice(s.as_bytes()),
        Value::Int(i) | Value::Int64(i) => out.extend_from_slice(i.to_string().as_bytes()),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        other => {
            let mut printer = Printer { out: std::mem::take(out), ..Printer::default() };
            printer.argument(other, 'v', 0);
            *out = printer.out;
        }
    }
}

/// A value as `%v` prints it.
pub(crate) fn display(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, value);
    out
}

/// `fmt.Sprintf`.
pub(crate) fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    let mut printer = Printer::default();
    printer.printf(format, args);
    printer.out
}

impl Printer {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn bad_verb(&mut self, verb: char, value: &Value) {
        self.text(&format!("%!{verb}("));
        if value.is_nil() {
            self.text("<nil>");
        } else {
            self.text(&value.type_name());
            self.out.push(b'=');
            let outer = std::mem::replace(&mut self.erroring, true);
            self.argument(value, 'v', 0);
            self.erroring = outer;
        }
        self.out.push(b')');
    }

    fn argument(&mut self, value: &Value, verb: char, depth: usize) {
        if depth > MAX_NESTING {
            return self.text("...");
        }
        if !self.spoken_for(value, verb, depth) {
            self.by_kind(value, verb, depth);
        }
    }

    /// Prints what does not depend on the kind of the value alone. Whether there was anything of that.
    fn spoken_for(&mut self, value: &Value, verb: char, depth: usize) -> bool {
        if verb == 'T' && depth == 0 {
            match value.is_nil() {
                true => self.pad(b"<nil>"),
                false => self.string(value.type_name().as_bytes(), 's', value),
            }
            return true;
        }
        // Wrapping is for errors; addresses are for nobody.
        if matches!(verb, 'p' | 'w') {
            self.bad_verb(verb, value);
            return true;
        }
        if let Value::Time(time) = value
            && (self.flags.sharp_v || self.erroring)
        {
            self.string(time.go_string().as_bytes(), 's', value);
            return true;
        }
        if let Some(text) = stringer(value)
            && !self.flags.sharp_v
            && !self.erroring
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
        {
            self.string(text.as_bytes(), verb, value);
            return true;
        }
        let pointer = match value {
            Value::Struct(s) => s.pointer,
            Value::Version(v) => !v.by_value,
            _ => false,
        };
        // Inside of something else a pointer is an address, which only these verbs print.
        let unprintable = pointer && depth > 0 && !matches!(verb, 'v' | 'b' | 'o' | 'd' | 'x' | 'X');
        if unprintable {
            self.bad_verb(verb, value);
        }
        unprintable
    }

    fn by_kind(&mut self, value: &Value, verb: char, depth: usize) {
        match value {
            Value::Nil | Value::NilInterface => match verb {
                'v' if depth == 0 => self.pad(b"<nil>"),
                _ if depth > 0 && self.flags.sharp_v => self.text("interface {}(nil)"),
                _ if depth > 0 => self.text("<nil>"),
                _ => self.bad_verb(verb, value),
            },
            Value::Bool(b) => match verb {
                't' | 'v' => self.pad(if *b { b"true" } else { b"false" }),
                _ => self.bad_verb(verb, value),
            },
            Value::Int(i) | Value::Int64(i) | Value::Duration(i) | Value::Named(_, i, _) => {
                self.integer(i.unsigned_abs(), *i < 0, verb, value);
            }
            Value::Uint8(u) => self.unsigned(u64::from(*u), verb, value),
            Value::Uint64(u) => self.unsigned(*u, verb, value),
            Value::Float(f) => self.float(*f, verb, value),
            Value::Str(s) => self.string(s.as_bytes(), verb, value),
            Value::Bytes(b) if matches!(verb, 's' | 'q' | 'x' | 'X') => self.string(b, verb, value),
            Value::Bytes(b) => {
                let items: Vec<Value> = b.iter().map(|b| Value::Uint8(*b)).collect();
                self.slice("[]byte", false, &items, verb, depth);
            }
            Value::List(l) => self.slice(l.kind.type_name(), l.nil, &l.items, verb, depth),
            Value::Map(m) => {
                let entries = m.entries.borrow();
                let entries = entries.iter().map(|(k, v)| (k.as_bytes(), v));
                self.map(m.kind.type_name(), m.nil.get(), entries, verb, depth);
            }
            Value::Files(f) => {
                let entries: Vec<(&str, Value)> =
                    f.iter().map(|(k, v)| (k, Value::Bytes(v.into()))).collect();
                let entries = entries.iter().map(|(k, v)| (k.as_bytes(), v));
                self.map("engine.files", false, entries, verb, depth);
            }
            Value::Struct(s) => self.record(s, verb, depth),
            Value::Version(v) => {
                let fields = [
                    ("major", Value::Uint64(v.major)),
                    ("minor", Value::Uint64(v.minor)),
                    ("patch", Value::Uint64(v.patch)),
                    ("pre", Value::string(v.pre.as_str())),
                    ("metadata", Value::string(v.metadata.as_str())),
                    ("original", Value::string(v.original.as_str())),
                ];
                self.structure("semver.Version", !v.by_value, &fields, verb, depth);
            }
            Value::Time(_) => self.bad_verb(verb, value),
        }
    }

    fn record(&mut self, record: &Struct, verb: char, depth: usize) {
        let fields: Vec<(&str, Value)> = record.fields.iter().map(|f| (f.name, f.value.clone())).collect();
        match fields.split_last() {
            // `.Chart` is Helm's metadata inside one more structure.
            Some((root, metadata)) if record.type_name.starts_with("struct {") => {
                if self.flags.sharp_v {
                    self.text(record.type_name);
                }
                let named = self.flags.plus_v || self.flags.sharp_v;
                self.text(if named { "{Metadata:" } else { "{" });
                self.structure("chart.Metadata", false, metadata, verb, depth + 1);
                self.text(if self.flags.sharp_v { ", " } else { " " });
                self.text(if named { "IsRoot:" } else { "" });
                self.argument(&root.1, verb, depth + 1);
                self.out.push(b'}');
            }
            _ => self.structure(record.type_name, record.pointer, &fields, verb, depth),
        }
    }

    fn structure(
        &mut self,
        type_name: &str,
        pointer: bool,
        fields: &[(&str, Value)],
        verb: char,
        depth: usize,
    ) {
        if pointer && depth > 0 {
            // Go prints an address here, which is never the same.
            return self.text("0xc000000000");
        }
        if pointer {
            self.out.push(b'&');
        }
        if self.flags.sharp_v {
            self.text(type_name);
        }
        self.out.push(b'{');
        for (i, (name, value)) in fields.iter().enumerate() {
            if i > 0 {
                self.text(if self.flags.sharp_v { ", " } else { " " });
            }
            if self.flags.plus_v || self.flags.sharp_v {
                self.text(name);
                self.out.push(b':');
            }
            self.argument(value, verb, depth + 1);
        }
        self.out.push(b'}');
    }

    fn slice(&mut self, type_name: &str, nil: bool, items: &[Value], verb: char, depth: usize) {
        if self.flags.sharp_v {
            self.text(type_name);
            if nil {
                return self.text("(nil)");
            }
        }
        self.out.push(if self.flags.sharp_v { b'{' } else { b'[' });
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.text(if self.flags.sharp_v { ", " } else { " " });
            }
            self.argument(item, verb, depth + 1);
        }
        self.out.push(if self.flags.sharp_v { b'}' } else { b']' });
    }

    fn map<'a>(
        &mut self,
        type_name: &str,
        nil: bool,
        entries: impl Iterator<Item = (&'a [u8], &'a Value)>,
        verb: char,
        depth: usize,
    ) {
        if self.flags.sharp_v {
            self.text(type_name);
            if nil {
                return self.text("(nil)");
            }
            self.out.push(b'{');
        } else {
            self.text("map[");
        }
        for (i, (key, item)) in entries.enumerate() {
            if i > 0 {
                self.text(if self.flags.sharp_v { ", " } else { " " });
            }
            self.string(key, verb, &Value::string(key));
            self.out.push(b':');
            self.argument(item, verb, depth + 1);
        }
        self.out.push(if self.flags.sharp_v { b'}' } else { b']' });
    }
}

/// What types with a `String` method print as.
pub(crate) fn stringer(value: &Value) -> Option<String> {
    match value {
        Value::Time(t) => Some(t.to_string()),
        Value::Duration(d) => Some(crate::time::format_duration(*d)),
        Value::Named(_, _, name) => Some((*name).to_owned()),
        Value::Version(v) => Some(v.to_string()),
        _ => None,
    }
}

/// The character at a byte offset, and its length; an invalid byte counts as one U+FFFD.
pub(crate) fn decode(bytes: &[u8], at: usize) -> Option<(char, usize)> {
    let rest = bytes.get(at..).filter(|r| !r.is_empty())?;
    let chunk = rest[..rest.len().min(4)].utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(c) => Some((c, c.len_utf8())),
        None => Some((char::REPLACEMENT_CHARACTER, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printf(format: &str, args: &[Value]) -> String {
        String::from_utf8(sprintf(format.as_bytes(), args)).unwrap()
    }

    #[test]
    fn verbs_follow_go() {
        let float = Value::Float(3.0);
        assert_eq!(printf("%d", std::slice::from_ref(&float)), "%!d(float64=3)");
        assert_eq!(printf("%s", &[Value::Int(5)]), "%!s(int=5)");
        assert_eq!(printf("%5.1f|%-5d|%05d", &[float, Value::Int(2), Value::Int(-7)]), "  3.0|2    |-0007");
        assert_eq!(printf("%q %x", &[Value::string("a\"b"), Value::string("hi")]), "\"a\\\"b\" 6869");
        assert_eq!(printf("%d", &[]), "%!d(MISSING)");
        assert_eq!(printf("x", &[Value::Int(1), Value::Nil]), "x%!(EXTRA int=1, <nil>)");
        assert_eq!(printf("%[2]s %[1]s", &[Value::string("a"), Value::string("b")]), "b a");
        assert_eq!(printf("%v", &[Value::list(vec![Value::Nil, Value::string("a")])]), "[<nil> a]");
        assert_eq!(printf("%s", &[Value::Nil]), "%!s(<nil>)");
        assert_eq!(printf("%T", &[Value::list(vec![])]), "[]interface {}");
        assert_eq!(printf("%t|%v", &[Value::Bool(true), Value::Float(1e6)]), "true|1e+06");
        assert_eq!(printf("%6.2f%%", &[Value::Float(12.345)]), " 12.35%");
        assert_eq!(
            printf("%x|%#+X|%#.0x", &[42.0, 1.0, 42.0].map(Value::Float)),
            "0x1.5p+05|+0X1.P+00|0x1.p+05"
        );
        assert_eq!(printf("%b|%12.1b", &[97.0, 0.0].map(Value::Float)), "6825768185233408p-46|     0p-1074");
    }

    #[test]
    fn operands_are_spaced_unless_strings() {
        assert_eq!(sprint(&[Value::Int(1), Value::Int(2), Value::string("a"), Value::Int(3)]), b"1 2a3");
    }
}
