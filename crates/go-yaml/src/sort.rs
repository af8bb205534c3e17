//! The order in which go-yaml writes a mapping's keys: natural, so that `a2` comes before `a10`.

use std::cmp::Ordering;

fn is_letter(c: char) -> bool {
    c.is_alphabetic()
}

fn digit(c: char) -> Option<i64> {
    if c.is_ascii_digit() { Some(i64::from(c as u32 - '0' as u32)) } else { None }
}

/// Whether one key comes before another, both as characters or both as ASCII bytes.
fn less<C: Copy + Into<char>>(a: &[C], b: &[C]) -> bool {
    let at = |text: &[C], i: usize| -> Option<char> { text.get(i).map(|c| (*c).into()) };
    for i in 0..a.len().min(b.len()) {
        let (char_a, char_b): (char, char) = (a[i].into(), b[i].into());
        if char_a == char_b {
            continue;
        }
        let (letter_a, letter_b) = (is_letter(char_a), is_letter(char_b));
        if letter_a && letter_b {
            return char_a < char_b;
        }
        if letter_a || letter_b {
            return letter_b;
        }
        let (mut number_a, mut number_b) = (0i64, 0i64);
        if char_a == '0' || char_b == '0' {
            // Within a number that already started, zeros count.
            for j in (0..i).rev() {
                match digit(a[j].into()) {
                    Some(0) => {}
                    Some(_) => {
                        number_a = 1;
                        number_b = 1;
                        break;
                    }
                    None => break,
                }
            }
        }
        let (mut end_a, mut end_b) = (i, i);
        while let Some(d) = at(a, end_a).and_then(digit) {
            number_a = number_a.wrapping_mul(10).wrapping_add(d);
            end_a += 1;
        }
        while let Some(d) = at(b, end_b).and_then(digit) {
            number_b = number_b.wrapping_mul(10).wrapping_add(d);
            end_b += 1;
        }
        if number_a != number_b {
            return number_a < number_b;
        }
        if end_a != end_b {
            return end_a < end_b;
        }
        return char_a < char_b;
    }
    a.len() < b.len()
}

fn ordered<C: Copy + Into<char>>(a: &[C], b: &[C]) -> Ordering {
    match (less(a, b), less(b, a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Compares two keys.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a.is_ascii() && b.is_ascii() {
        return ordered(a.as_bytes(), b.as_bytes()).then_with(|| a.cmp(b));
    }
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    ordered(&left, &right).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_by_value() {
        let mut keys = ["a10", "a2", "b", "A", "1", "_x", "a-b", "a.b", "ab", "a"];
        keys.sort_by(|a, b| compare(a, b));
        assert_eq!(keys, ["_x", "1", "A", "a", "a-b", "a.b", "a2", "a10", "ab", "b"]);
    }
}
