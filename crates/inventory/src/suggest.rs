//! The nearest known word, and lists of words as people read them.

/// The known word that was probably meant, if one is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain =
        |s: &str| s.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    // Long words need no comparison: nothing known is near them.
    let wanted = plain(word.get(..64.min(word.len())).unwrap_or(""));
    known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(&wanted, &plain(k)), *k))
        .filter(|(distance, k)| *distance <= 1.max(wanted.len().min(k.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// `a, b and c`.
pub(crate) fn listed(words: impl IntoIterator<Item = String>, join: &str) -> String {
    let words: Vec<String> = words.into_iter().collect();
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} {join} {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["podSubnets", "version", "memory", "cores"];
        assert_eq!(nearest("pod_subnets", &known), Some("podSubnets"));
        assert_eq!(nearest("verison", &known), Some("version"));
        assert_eq!(nearest("Memory", &known), Some("memory"));
        assert_eq!(nearest("ram", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"é".repeat(200), &known), None);
    }

    #[test]
    fn lists_read_like_prose() {
        let list = |words: &[&str]| listed(words.iter().map(|w| (*w).to_owned()), "or");
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b or c");
    }
}
