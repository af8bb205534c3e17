//! The format string: flags, widths, argument indexes and verbs.

use super::{Flags, MAX_WIDTH, Printer, decode};
use crate::value::Value;

impl Printer {
    pub(super) fn printf(&mut self, format: &[u8], args: &[Value]) {
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
            let mut good_index = true;
            (self.flags, i) = flags(format, i);
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

    pub(super) fn verb(&mut self, verb: char, good_index: bool, args: &[Value], index: &mut usize) {
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

    pub(super) fn extra(&mut self, args: &[Value]) {
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
}

/// The flags of a verb, and where they end.
fn flags(format: &[u8], mut at: usize) -> (Flags, usize) {
    let mut flags = Flags::default();
    while let Some(sign) = format.get(at) {
        match sign {
            b'#' => flags.sharp = true,
            b'0' => flags.zero = true,
            b'+' => flags.plus = true,
            b'-' => flags.minus = true,
            b' ' => flags.space = true,
            _ => break,
        }
        at += 1;
    }
    (flags, at)
}

pub(super) fn number(format: &[u8], i: &mut usize) -> Option<usize> {
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

pub(super) fn int_argument(args: &[Value], index: &mut usize) -> Option<i64> {
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
pub(super) fn bracket(
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
