//! Which bytes of a text that cannot be read as YAML may be secrets, judged by the words before them.

use crate::check::looks_secret;
use crate::yaml::Span;

/// Values that follow a suspicious key on the same line.
pub(crate) fn suspects(text: &str, source: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut from = 0;
        while let Some(sign) = line.get(from..).and_then(|rest| rest.find([':', '='])).map(|i| i + from) {
            let key =
                line[from..sign].trim_end().rsplit([' ', '{', ',', '\t', '"', '\'']).next().unwrap_or("");
            let value = line[sign + 1..].trim_end();
            let start = sign + 1 + (value.len() - value.trim_start().len());
            if looks_secret(key) && !value.trim_start().starts_with('{') && !value.trim().is_empty() {
                spans.push(Span {
                    source,
                    start: line_start + start,
                    end: line_start + sign + 1 + value.len(),
                });
                break;
            }
            from = sign + 1;
        }
        line_start += line.len();
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_suspicious_key_is_hidden() {
        let text =
            "a: b\ntoken: {id: x, secret: abc def}\npassword : hunter2\nTS_AUTHKEY: k\n- TS_AUTHKEY=l\n";
        let hidden: Vec<&str> = suspects(text, 0).iter().map(|s| &text[s.start..s.end]).collect();
        assert_eq!(hidden, ["abc def}", "hunter2", "k", "l"]);
    }
}
