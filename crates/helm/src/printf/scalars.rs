//! How strings and numbers are printed under a verb, and padded to a width.

use super::{MAX_WIDTH, Printer, decode};
use crate::strconv;
use crate::value::Value;

impl Printer {
    pub(super) fn string(&mut self, bytes: &[u8], verb: char, value: &Value) {
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

    pub(super) fn truncate<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
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

    pub(super) fn quoted(&mut self, bytes: &[u8]) {
        let bytes = self.truncate(bytes);
        if self.flags.sharp && can_backquote(bytes) {
            return self.pad(&[b"`", bytes, b"`"].concat());
        }
        let text = strconv::quote_with(bytes, '"', self.flags.plus);
        self.pad(text.as_bytes());
    }

    pub(super) fn hex(&mut self, bytes: &[u8], upper: bool) {
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

    pub(super) fn unsigned(&mut self, u: u64, verb: char, value: &Value) {
        if verb == 'v' && self.flags.sharp_v {
            self.flags.sharp = true;
            self.format_integer(u, false, 16, verb, false);
            self.flags.sharp = false;
        } else {
            self.integer(u, false, verb, value);
        }
    }

    pub(super) fn integer(&mut self, magnitude: u64, negative: bool, verb: char, value: &Value) {
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

    pub(super) fn format_integer(
        &mut self,
        magnitude: u64,
        negative: bool,
        base: u32,
        verb: char,
        upper: bool,
    ) {
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

    pub(super) fn float(&mut self, f: f64, verb: char, value: &Value) {
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

    pub(super) fn padding(&mut self, count: usize) {
        let byte = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.out.extend(std::iter::repeat_n(byte, count.min(MAX_WIDTH)));
    }

    pub(super) fn pad(&mut self, bytes: &[u8]) {
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

pub(super) fn rune(magnitude: u64, negative: bool) -> char {
    if negative {
        return char::REPLACEMENT_CHARACTER;
    }
    u32::try_from(magnitude).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// What `#` does to a float: the point stays, and so do the zeros after it. The text begins with its sign.
pub(super) fn keep_point(text: &str, verb: char, precision: Option<usize>) -> String {
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

pub(super) fn can_backquote(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|s| {
        !s.chars().any(|c| c == '`' || c == '\u{feff}' || c == '\x7f' || (c < ' ' && c != '\t'))
    })
}

pub(super) fn count_runes(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|c| c.valid().chars().count() + c.invalid().len()).sum()
}
