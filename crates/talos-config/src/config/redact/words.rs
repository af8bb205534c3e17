//! Names that tell of secrets, and texts without what such names or a URL give away.

/// How names end that tell of a secret.
const ENDS: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passphrase",
    "passwd",
    "key",
    "keydata",
    "key-data",
    "auth",
    "psk",
    "credential",
];
/// Last words of names that tell of one, but are also the ends of harmless words.
const LAST_WORDS: [&str; 11] = [
    "pass",
    "pwd",
    "pw",
    "jwt",
    "tokens",
    "secrets",
    "passwords",
    "keys",
    "credentials",
    "cookie",
    "authorization",
];
/// A kernel argument with a whole machine config in it.
const INLINE_CONFIG: &str = "talos.config.inline";
/// What holds the user's own variables, headers or data.
const CARRIERS: [&str; 8] = [
    "env",
    "environment",
    "headers",
    "httpheaders",
    "staticpodurlheader",
    "data",
    "stringdata",
    "binarydata",
];

/// Whether a name says that its value is secret.
pub(super) fn tells(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ENDS.iter().any(|end| lower.ends_with(end))
        || lower == INLINE_CONFIG
        || LAST_WORDS.contains(&last_word(name).as_str())
}

/// Whether a name says that below it are values that may be anything.
pub(super) fn carries(name: &str) -> bool {
    CARRIERS.contains(&name.to_ascii_lowercase().as_str())
}

/// `--token`, whose value is the next argument.
pub(super) fn is_telling_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains('=') && tells(text)
}

/// The last word of a name in any spelling: `registryPassword`, `registry-password`, `REGISTRY_PASSWORD`.
fn last_word(name: &str) -> String {
    let mut start = 0;
    let mut before = '_';
    for (at, c) in name.char_indices() {
        let begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if begins {
            start = at;
        } else if !c.is_ascii_alphanumeric() {
            start = at + c.len_utf8();
        }
        before = c;
    }
    name[start..].to_ascii_lowercase()
}

/// Where what follows the last such character begins; the beginning where there is none.
fn behind_last(text: &str, is_such: impl Fn(char) -> bool) -> usize {
    text.char_indices().rev().find(|(_, c)| is_such(*c)).map_or(0, |(at, c)| at + c.len_utf8())
}

/// A text with marks for the users and queries of URLs, for what is assigned to telling names, and for what follows them.
pub(super) fn masked(text: &str, mark: &dyn Fn(&str) -> String) -> String {
    text.split('\n').map(|line| masked_line(line, mark)).collect::<Vec<_>>().join("\n")
}

fn masked_line(line: &str, mark: &dyn Fn(&str) -> String) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let space = rest.len() - rest.trim_start().len();
        let (gap, after) = rest.split_at(space);
        shown.push_str(gap);
        let (word, after) = after.split_at(after.find(char::is_whitespace).unwrap_or(after.len()));
        let (word, is_open) = masked_word(word, mark);
        shown.push_str(&word);
        rest = after;
        if is_open && !rest.trim().is_empty() {
            shown.push(' ');
            shown.push_str(&mark(rest.trim()));
            break;
        }
    }
    shown
}

/// A word, and whether what follows in the line belongs to its secret.
fn masked_word(word: &str, mark: &dyn Fn(&str) -> String) -> (String, bool) {
    // What is assigned in the query of a URL is hidden with it.
    let query = word.find("://").and_then(|at| Some(at + word[at..].find(['?', '#'])?)).unwrap_or(word.len());
    for (at, sign) in word[..query].match_indices(['=', ':']) {
        let (name, value) = (&word[..at], &word[at + 1..]);
        let compares =
            name.ends_with(['=', '!', '<', '>']) || value.starts_with('=') || value.starts_with("//");
        // In JSON, names are quoted.
        let unquoted = name.trim_end_matches(['"', '\'']);
        let own = &unquoted[behind_last(unquoted, |c| !(c.is_ascii_alphanumeric() || "_.-".contains(c)))..];
        if !compares && !value.is_empty() && tells(own) {
            let quote = value.chars().next().filter(|c| ['"', '\''].contains(c));
            let is_open = quote.is_some_and(|quote| value.len() == 1 || !value.ends_with(quote));
            return (format!("{}{sign}{}", masked_urls(name, mark), mark(value)), is_open);
        }
    }
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let last = bare[behind_last(bare, |c| [':', '='].contains(&c))..].to_ascii_lowercase();
    let is_open = (word.ends_with(':') && tells(bare))
        || is_telling_flag(word)
        || ["bearer", "basic"].contains(&last.as_str());
    (masked_urls(word, mark), is_open)
}

fn masked_urls(word: &str, mark: &dyn Fn(&str) -> String) -> String {
    const SIGN: &str = "://";
    let Some(at) = word.find(SIGN) else { return word.to_owned() };
    let (before, rest) = word.split_at(at + SIGN.len());
    // The next URL, if there are several in one word, begins with its scheme.
    let end = rest.find(SIGN).map_or(rest.len(), |next| {
        let scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        behind_last(&rest[..next], |c| !scheme(c))
    });
    let (url, further) = rest.split_at(end);
    format!("{before}{}{}", masked_url(url, mark), masked_urls(further, mark))
}

/// What follows the scheme.
fn masked_url(url: &str, mark: &dyn Fn(&str) -> String) -> String {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    // A password with an unescaped slash makes the authority end too early, in what would be the port.
    let bad_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !authority.ends_with(']') && !port.chars().all(|c| c.is_ascii_digit()));
    let user = authority.rfind('@').or_else(|| if bad_port { url.rfind('@') } else { None });
    let (user, rest) = match user {
        Some(at) => (format!("{}@", mark(&url[..at])), &url[at + 1..]),
        None => (String::new(), url),
    };
    let (path, after) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let mut shown = format!("{user}{path}");
    let mut after = after;
    while let Some(sign) = after.chars().next() {
        let body = &after[1..];
        let (part, further) = body.split_at(body.find(['&', '#']).unwrap_or(body.len()));
        shown.push(sign);
        match part.split_once('=') {
            Some((name, value)) if sign != '#' => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(&mark(value));
            }
            _ if part.is_empty() => {}
            _ => shown.push_str(&mark(part)),
        }
        after = further;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        for name in [
            "token",
            "TS_AUTHKEY",
            "client-secret",
            "db.password",
            "DB_PASS",
            "dbPass",
            "client-key-data",
            "PSK",
            "Authorization",
            "--auth-token",
            "apiKeys",
            "net.ipv4.tcp_fastopen_key",
        ] {
            assert!(tells(name), "{name}");
        }
        for name in
            ["bypass", "secretName", "tokenFile", "kernel.keys.maxkeys", "image", "keySize", "monkeys", ""]
        {
            assert!(!tells(name), "{name}");
        }
    }

    #[test]
    fn texts_lose_what_is_secret_and_nothing_else() {
        let shown = |text: &str| masked(text, &|secret| format!("<{}>", secret.len()));
        for (text, expected) in [
            ("https://me:pw@host:1/a?b", "https://<5>@host:1/a?<1>"),
            ("https://omni?jointoken=abc&x=y#frag", "https://omni?jointoken=<3>&x=<1>#<4>"),
            ("http://me:pa/ss@host", "http://<8>@host"),
            ("http://[::1]:3128/@scope/x", "http://[::1]:3128/@scope/x"),
            ("http://a/1,http://u@b/2", "http://a/1,http://<1>@b/2"),
            ("--proxy=http://u:p@b quiet", "--proxy=http://<3>@b quiet"),
            ("a.password=abc quiet", "a.password=<3> quiet"),
            ("a=1,token=abc", "a=1,token=<3>"),
            ("TOKEN=https://x", "TOKEN=<9>"),
            ("http://u@b,token=abc", "http://<1>@b,token=<3>"),
            ("PASSWORD=\"a b\" c", "PASSWORD=<2> <4>"),
            ("Authorization: Basic abc", "Authorization: <9>"),
            ("curl -H Bearer abc", "curl -H Bearer <3>"),
            ("--token abc", "--token <3>"),
            ("disk.key == 'x' && a != b", "disk.key == 'x' && a != b"),
            ("ghcr.io/a/b@sha256:0a:tag", "ghcr.io/a/b@sha256:0a:tag"),
            ("one\n  two\n", "one\n  two\n"),
            ("Zürich=1 a–b=1", "Zürich=1 a–b=1"),
            ("http://a/ühttp://u@b", "http://a/ühttp://<1>@b"),
            ("{\"password\":\"abc\",\"user\":\"x\"}", "{\"password\":<17>"),
            ("password:abc", "password:<3>"),
            ("X-Header:Bearer abc", "X-Header:Bearer <3>"),
            ("talos.config.inline=abc quiet", "talos.config.inline=<3> quiet"),
            ("10.0.0.1:6443 http://a:80", "10.0.0.1:6443 http://a:80"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
