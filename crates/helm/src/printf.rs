//! Go's `fmt`: how `print`, `printf` and plain `{{ value }}` turn values into text.

use crate::strconv;
use crate::value::{MAX_NESTING, Value};

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

    fn printf(&mut self, format: &[u8], args: &[Value]) {
        let mut index = 0;
        let mut reordered = false;
        let mut i = 0;
        while i < format.len() {
            let start = i;
            while i < format.len() && format[i] != b'%' {
                i += 1;
            }
            self.out.extend_from_slice(&format[start..i]);
            if i >= format.len() {
                break;
            }
            i += 1;
            self.flags = Flags::default();
            let mut good_index = true;
            while let Some(c) = format.get(i) {
                match c {
                    b'#' => self.flags.sharp = true,
                    b'0' => self.flags.zero = true,
                    b'+' => self.flags.plus = true,
                    b'-' => self.flags.minus = true,
                    b' ' => self.flags.space = true,
                    _ => break,
                }
                i += 1;
            }
            let mut after_index =
                bracket(format, &mut i, &mut index, args.len(), &mut reordered, &mut good_index);
            if format.get(i) == Some(&b'*') {
                i += 1;
                match int_argument(args, &mut index) {
                    Some(width) => {
                        if width < 0 {
                            self.flags.minus = true;
                            self.flags.zero = false;
                        }
                        self.flags.width = Some(usize::try_from(width.unsigned_abs()).unwrap_or(0));
                    }
                    None => self.text("%!(BADWIDTH)"),
                }
                after_index = false;
            } else {
                self.flags.width = number(format, &mut i);
                if after_index && self.flags.width.is_some() {
                    good_index = false;
                }
            }
            if i + 1 < format.len() && format[i] == b'.' {
                i += 1;
                if after_index {
                    good_index = false;
                }
                after_index =
                    bracket(format, &mut i, &mut index, args.len(), &mut reordered, &mut good_index);
                if format.get(i) == Some(&b'*') {
                    i += 1;
                    self.flags.precision =
                        int_argument(args, &mut index).and_then(|p| usize::try_from(p).ok());
                    if self.flags.precision.is_none() {
                        self.text("%!(BADPREC)");
                    }
                    after_index = false;
                } else {
                    self.flags.precision = Some(number(format, &mut i).unwrap_or(0));
                }
            }
            if !after_index {
                bracket(format, &mut i, &mut index, args.len(), &mut reordered, &mut good_index);
            }
            let Some((verb, size)) = decode(format, i) else {
                self.text("%!(NOVERB)");
                break;
            };
            i += size;
            self.verb(verb, good_index, args, &mut index);
        }
        if !reordered && index < args.len() {
            self.extra(&args[index..]);
        }
    }

    fn verb(&mut self, verb: char, good_index: bool, args: &[Value], index: &mut usize) {
        if verb == '%' {
            self.out.push(b'%');
        } else if !good_index {
            self.text(&format!("%!{verb}(BADINDEX)"));
        } else if let Some(arg) = args.get(*index) {
            if verb == 'v' || verb == 'w' {
                self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                self.flags.plus_v = std::mem::take(&mut self.flags.plus);
            }
            self.argument(arg, verb, 0);
            *index += 1;
        } else {
            self.text(&format!("%!{verb}(MISSING)"));
        }
    }

    fn extra(&mut self, args: &[Value]) {
        self.flags = Flags::default();
        self.text("%!(EXTRA ");
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                self.text(", ");
            }
            if arg.is_nil() {
                self.text("<nil>");
            } else {
                self.text(&arg.type_name());
                self.out.push(b'=');
                self.argument(arg, 'v', 0);
            }
        }
        self.out.push(b')');
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
        if verb == 'T' && depth == 0 {
            if value.is_nil() {
                return self.pad(b"<nil>");
            }
            return self.string(value.type_name().as_bytes(), 's', value);
        }
        // Wrapping is for errors; addresses are for nobody.
        if matches!(verb, 'p' | 'w') {
            return self.bad_verb(verb, value);
        }
        if let Value::Time(time) = value
            && (self.flags.sharp_v || self.erroring)
        {
            return self.string(time.go_string().as_bytes(), 's', value);
        }
        if let Some(text) = stringer(value)
            && !self.flags.sharp_v
            && !self.erroring
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
        {
            return self.string(text.as_bytes(), verb, value);
        }
        let pointer = match value {
            Value::Struct(s) => s.pointer,
            Value::Version(v) => !v.by_value,
            _ => false,
        };
        // Inside of something else a pointer is an address, which only these verbs print.
        if pointer && depth > 0 && !matches!(verb, 'v' | 'b' | 'o' | 'd' | 'x' | 'X') {
            return self.bad_verb(verb, value);
        }
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
            Value::Struct(s) => {
                let fields: Vec<(&str, Value)> = s.fields.iter().map(|f| (f.name, f.value.clone())).collect();
                match fields.split_last() {
                    // `.Chart` is Helm's metadata inside one more structure.
                    Some((root, metadata)) if s.type_name.starts_with("struct {") => {
                        if self.flags.sharp_v {
                            self.text(s.type_name);
                        }
                        let named = self.flags.plus_v || self.flags.sharp_v;
                        self.text(if named { "{Metadata:" } else { "{" });
                        self.structure("chart.Metadata", false, metadata, verb, depth + 1);
                        self.text(if self.flags.sharp_v { ", " } else { " " });
                        self.text(if named { "IsRoot:" } else { "" });
                        self.argument(&root.1, verb, depth + 1);
                        self.out.push(b'}');
                    }
                    _ => self.structure(s.type_name, s.pointer, &fields, verb, depth),
                }
            }
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

    fn string(&mut self, bytes: &[u8], verb: char, value: &Value) {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes),
            'v' | 's' => {
                let cut = self.truncate(bytes);
                self.pad(cut);
            }
            'q' => self.quoted(bytes),
            'x' | 'X' => self.hex(bytes, verb == 'X'),
            _ => self.bad_verb(verb, value),
        }
    }

    fn truncate<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(precision) = self.flags.precision else { return bytes };
        let mut at = 0;
        for _ in 0..precision {
            match decode(bytes, at) {
                Some((_, size)) => at += size,
                None => break,
            }
        }
        &bytes[..at]
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let bytes = self.truncate(bytes);
        if self.flags.sharp && can_backquote(bytes) {
            return self.pad(&[b"`", bytes, b"`"].concat());
        }
        let text = strconv::quote_with(bytes, '"', self.flags.plus);
        self.pad(text.as_bytes());
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) {
        let bytes = &bytes[..self.flags.precision.unwrap_or(bytes.len()).min(bytes.len())];
        let prefix = if upper { "0X" } else { "0x" };
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            if self.flags.space && i > 0 {
                text.push(' ');
            }
            if self.flags.sharp && (self.flags.space || i == 0) {
                text.push_str(prefix);
            }
            text.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(text.as_bytes());
    }

    fn unsigned(&mut self, u: u64, verb: char, value: &Value) {
        if verb == 'v' && self.flags.sharp_v {
            self.flags.sharp = true;
            self.format_integer(u, false, 16, verb, false);
            self.flags.sharp = false;
        } else {
            self.integer(u, false, verb, value);
        }
    }

    fn integer(&mut self, magnitude: u64, negative: bool, verb: char, value: &Value) {
        match verb {
            'v' | 'd' => self.format_integer(magnitude, negative, 10, verb, false),
            'b' => self.format_integer(magnitude, negative, 2, verb, false),
            'o' | 'O' => self.format_integer(magnitude, negative, 8, verb, false),
            'x' => self.format_integer(magnitude, negative, 16, verb, false),
            'X' => self.format_integer(magnitude, negative, 16, verb, true),
            'c' => self.pad(rune(magnitude, negative).encode_utf8(&mut [0; 4]).as_bytes()),
            'q' => {
                let c = rune(magnitude, negative);
                let text = strconv::quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), '\'', self.flags.plus);
                self.pad(text.as_bytes());
            }
            'U' => {
                let code = if negative { magnitude.wrapping_neg() } else { magnitude };
                let digits = self.flags.precision.unwrap_or(4).clamp(4, MAX_WIDTH);
                let mut text = format!("U+{code:0digits$X}");
                if self.flags.sharp
                    && let Some(c) =
                        u32::try_from(code).ok().and_then(char::from_u32).filter(|c| strconv::is_print(*c))
                {
                    text.push_str(&format!(" '{c}'"));
                }
                let zero = std::mem::take(&mut self.flags.zero);
                self.pad(text.as_bytes());
                self.flags.zero = zero;
            }
            _ => self.bad_verb(verb, value),
        }
    }

    fn format_integer(&mut self, magnitude: u64, negative: bool, base: u32, verb: char, upper: bool) {
        let flags = self.flags;
        let mut least = 0;
        if let Some(precision) = flags.precision {
            least = precision;
            if precision == 0 && magnitude == 0 {
                self.flags.zero = false;
                self.padding(flags.width.unwrap_or(0));
                self.flags.zero = flags.zero;
                return;
            }
        } else if let Some(width) = flags.width.filter(|_| flags.zero && !flags.minus) {
            least = width;
            if negative || flags.plus || flags.space {
                least = least.saturating_sub(1);
            }
        }
        let mut digits = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if upper => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        if digits.len() < least {
            digits.insert_str(0, &"0".repeat(least.min(MAX_WIDTH) - digits.len()));
        }
        if flags.sharp {
            match base {
                2 => digits.insert_str(0, "0b"),
                8 if !digits.starts_with('0') => digits.insert(0, '0'),
                16 => digits.insert_str(0, if upper { "0X" } else { "0x" }),
                _ => {}
            }
        }
        if verb == 'O' {
            digits.insert_str(0, "0o");
        }
        if negative {
            digits.insert(0, '-');
        } else if flags.plus {
            digits.insert(0, '+');
        } else if flags.space {
            digits.insert(0, ' ');
        }
        self.flags.zero = false;
        self.pad(digits.as_bytes());
        self.flags.zero = flags.zero;
    }

    fn float(&mut self, f: f64, verb: char, value: &Value) {
        let flags = self.flags;
        let mut text = match verb {
            'v' | 'g' | 'G' => strconv::format_g(f, flags.precision),
            'e' | 'E' => strconv::format_e(f, Some(flags.precision.unwrap_or(6).min(MAX_WIDTH))),
            'f' | 'F' => strconv::format_f(f, Some(flags.precision.unwrap_or(6).min(MAX_WIDTH))),
            'b' => strconv::format_b(f),
            'x' | 'X' => strconv::format_x(f, flags.precision.map(|p| p.min(MAX_WIDTH)), verb == 'X'),
            _ => return self.bad_verb(verb, value),
        };
        if matches!(verb, 'G' | 'E') {
            text = text.replace('e', "E");
        }
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if flags.space && text.starts_with('+') && !flags.plus {
            text.replace_range(..1, " ");
        }
        if !f.is_finite() {
            self.flags.zero = false;
            let unsigned = f.is_nan() && !flags.space && !flags.plus;
            self.pad(if unsigned { &text.as_bytes()[1..] } else { text.as_bytes() });
            self.flags.zero = flags.zero;
            return;
        }
        if flags.sharp && verb != 'b' {
            text = keep_point(&text, verb, flags.precision);
        }
        if flags.plus || !text.starts_with('+') {
            if let Some(width) = flags.width.filter(|w| flags.zero && !flags.minus && *w > text.len()) {
                self.text(&text[..1]);
                self.padding(width - text.len());
                self.text(&text[1..]);
                return;
            }
            return self.pad(text.as_bytes());
        }
        self.pad(&text.as_bytes()[1..]);
    }

    fn padding(&mut self, count: usize) {
        let byte = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.out.extend(std::iter::repeat_n(byte, count.min(MAX_WIDTH)));
    }

    fn pad(&mut self, bytes: &[u8]) {
        let Some(width) = self.flags.width else {
            self.out.extend_from_slice(bytes);
            return;
        };
        let missing = width.saturating_sub(count_runes(bytes));
        if self.flags.minus {
            self.out.extend_from_slice(bytes);
            self.padding(missing);
        } else {
            self.padding(missing);
            self.out.extend_from_slice(bytes);
        }
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

fn rune(magnitude: u64, negative: bool) -> char {
    if negative {
        return char::REPLACEMENT_CHARACTER;
    }
    u32::try_from(magnitude).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// What `#` does to a float: the point stays, and so do the zeros after it. The text begins with its sign.
fn keep_point(text: &str, verb: char, precision: Option<usize>) -> String {
    let mut digits = match verb {
        'v' | 'g' | 'G' | 'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let hexadecimal = matches!(verb, 'x' | 'X');
    let exponent: &[char] = if hexadecimal { &['p', 'P'] } else { &['e', 'E'] };
    let (number, tail) = text.split_at(text.find(exponent).unwrap_or(text.len()));
    // Digits count from the first that is not zero; Go counts the `x` of a prefix as one, too.
    let significant = number[1..].trim_start_matches(['0', '.']).bytes().filter(|b| *b != b'.').count();
    digits = digits.saturating_sub(significant);
    let mut number = number.to_owned();
    if !number.contains('.') {
        if &number[1..] == "0" {
            digits = digits.saturating_sub(1);
        }
        number.push('.');
    }
    number.push_str(&"0".repeat(digits.min(MAX_WIDTH)));
    number + tail
}

fn can_backquote(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|s| {
        !s.chars().any(|c| c == '`' || c == '\u{feff}' || c == '\x7f' || (c < ' ' && c != '\t'))
    })
}

fn count_runes(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|c| c.valid().chars().count() + c.invalid().len()).sum()
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

fn number(format: &[u8], i: &mut usize) -> Option<usize> {
    let start = *i;
    let mut value = 0usize;
    while let Some(digit) = format.get(*i).filter(|b| b.is_ascii_digit()) {
        value = value * 10 + usize::from(digit - b'0');
        if value > MAX_WIDTH {
            return None;
        }
        *i += 1;
    }
    (*i > start).then_some(value)
}

fn int_argument(args: &[Value], index: &mut usize) -> Option<i64> {
    let value = match args.get(*index)? {
        Value::Int(i) | Value::Int64(i) => Some(*i),
        Value::Uint8(u) => Some(i64::from(*u)),
        Value::Uint64(u) => i64::try_from(*u).ok(),
        _ => None,
    };
    *index += 1;
    value.filter(|v| v.unsigned_abs() <= MAX_WIDTH as u64)
}

/// Reads an explicit argument index such as `[2]`.
fn bracket(
    format: &[u8],
    i: &mut usize,
    index: &mut usize,
    count: usize,
    reordered: &mut bool,
    good: &mut bool,
) -> bool {
    if format.get(*i) != Some(&b'[') {
        return false;
    }
    *reordered = true;
    let Some(close) = format[*i..].iter().position(|b| *b == b']') else {
        *good = false;
        *i += 1;
        return false;
    };
    let inside = &format[*i + 1..*i + close];
    let mut at = 0;
    let parsed = number(inside, &mut at).filter(|_| at == inside.len());
    *i += close + 1;
    match parsed {
        Some(n) if n >= 1 && n <= count => {
            *index = n - 1;
            true
        }
        Some(_) => {
            *good = false;
            true
        }
        None => {
            *good = false;
            false
        }
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
