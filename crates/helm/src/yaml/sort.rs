//! The order in which go-yaml writes a mapping's keys: natural, so that `a2` comes before `a10`.

use std::cmp::Ordering;

fn is_letter(c: char) -> bool {
    c.is_alphabetic()
}

fn digit(c: char) -> Option<i64> {
    if c.is_ascii_digit() { Some(i64::from(c as u32 - '0' as u32)) } else { None }
}

fn less(a: &[char], b: &[char]) -> bool {
    for i in 0..a.len().min(b.len()) {
        if a[i] == b[i] {
            continue;
        }
        let (letter_a, letter_b) = (is_letter(a[i]), is_letter(b[i]));
        if letter_a && letter_b {
            return a[i] < b[i];
        }
        if letter_a || letter_b {
            return letter_b;
        }
        let (mut number_a, mut number_b) = (0i64, 0i64);
        if a[i] == '0' || b[i] == '0' {
            // Within a number that already started, zeros count.
            for j in (0..i).rev() {
                match digit(a[j]) {
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
        while let Some(d) = a.get(end_a).copied().and_then(digit) {
            number_a = number_a.wrapping_mul(10).wrapping_add(d);
            end_a += 1;
        }
        while let Some(d) = b.get(end_b).copied().and_then(digit) {
            number_b = number_b.wrapping_mul(10).wrapping_add(d);
            end_b += 1;
        }
        if number_a != number_b {
            return number_a < number_b;
        }
        if end_a != end_b {
            return end_a < end_b;
        }
        return a[i] < b[i];
    }
    a.len() < b.len()
}

/// Compares two keys.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if less(&left, &right) {
        Ordering::Less
    } else if less(&right, &left) {
        Ordering::Greater
    } else {
        a.cmp(b)
    }
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
