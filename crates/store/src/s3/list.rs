//! What S3 says in XML: the keys of a list, and why it refuses.

/// A page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Where the next one begins.
    pub(super) next: Option<String>,
}

/// Reads a page; none if it is no list.
pub(super) fn page(text: &str) -> Option<Page> {
    let list = text.split_once("<ListBucketResult")?.1;
    let keys = elements(list, "Contents").map(|contents| element(contents, "Key").map(unescaped)).collect();
    let next = match element(list, "IsTruncated") {
        Some("true") => Some(unescaped(element(list, "NextContinuationToken")?)),
        _ => None,
    };
    Some(Page { keys: keys_of(keys)?, next })
}

fn keys_of(keys: Vec<Option<String>>) -> Option<Vec<String>> {
    keys.into_iter().collect()
}

/// The code and the message of an error.
pub(super) fn error(text: &str) -> (String, String) {
    let part = |name| element(text, name).map(unescaped).unwrap_or_default();
    (part("Code"), part("Message"))
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    elements(text, name).next()
}

/// The contents of all elements of a name that have no attributes.
fn elements<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (content, after) = rest.split_once(&begin)?.1.split_once(&end)?;
        rest = after;
        Some(content)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let Some((name, after)) = after.split_once(';') else {
            plain.push('&');
            rest = after;
            continue;
        };
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let letter = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => match name.strip_prefix('#').map(|number| (number, number.strip_prefix(['x', 'X']))) {
                Some((_, Some(hex))) => number(hex, 16),
                Some((decimal, None)) => number(decimal, 10),
                None => None,
            },
        };
        plain.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_with_their_continuation() {
        let text = "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Name>b</Name><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b/&#x31;</Key><ETag>&quot;x&quot;</ETag>\
            </Contents><Contents>\n <Key>c</Key></Contents><NextContinuationToken>1/a=</NextContinuationToken>\
            </ListBucketResult>";
        assert_eq!(
            page(text),
            Some(Page { keys: vec!["a&b/1".into(), "c".into()], next: Some("1/a=".into()) })
        );
        let last = text.replace("true", "false");
        assert_eq!(page(&last).unwrap().next, None);
        assert_eq!(page("<html>hello</html>"), None);
        assert_eq!(page("<ListBucketResult></ListBucketResult>"), Some(Page { keys: vec![], next: None }));
    }

    #[test]
    fn errors_have_a_code_and_a_message() {
        let text =
            "<Error><Code>NoSuchBucket</Code><Message>The bucket &apos;b&apos; is gone</Message></Error>";
        assert_eq!(error(text), ("NoSuchBucket".into(), "The bucket 'b' is gone".into()));
        assert_eq!(error("nothing"), (String::new(), String::new()));
    }
}
