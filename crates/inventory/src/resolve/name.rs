//! Names: DNS labels for what becomes a host name, tags as Proxmox keeps them, Kubernetes labels and taints.

use super::Refusal;

const LABEL_MAX: usize = 63;

/// Whether a name can be a host name; if not, why, and a name that can.
pub(crate) fn dns_label(name: &str) -> Result<(), Refusal> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let why = if name.is_empty() {
        "A name cannot be empty.".to_owned()
    } else if name.contains('_') {
        format!("`{name}` cannot be a name because of the `_`.")
    } else if name.chars().any(|c| c.is_ascii_uppercase()) {
        format!("`{name}` cannot be a name because of its capitals.")
    } else if let Some(c) = name.chars().find(|c| !legal(*c)) {
        format!("`{name}` cannot be a name because of the `{}`.", c.escape_debug())
    } else if name.starts_with('-') || name.ends_with('-') {
        format!("`{name}` cannot be a name because of the hyphen at its end or beginning.")
    } else if name.len() > LABEL_MAX {
        format!(
            "`{name}` cannot be a name because it has {} characters; {LABEL_MAX} is the most.",
            name.len()
        )
    } else {
        return Ok(());
    };
    let better: String = name
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if legal(c) { c } else { '-' })
        .take(LABEL_MAX)
        .collect();
    let better = better.trim_matches('-');
    let help = if better.is_empty() {
        "Use lower-case letters, digits and hyphens.".to_owned()
    } else {
        format!("Use lower-case letters, digits and hyphens, for example `{better}`.")
    };
    Err((why, help))
}

/// A tag as Proxmox keeps it: lower-case, of a small set of characters.
pub(crate) fn tag(text: &str) -> Result<String, Refusal> {
    let tag = text.to_ascii_lowercase();
    let first_ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let ok = |c: char| first_ok(c) || matches!(c, '-' | '+' | '.');
    if tag.starts_with(first_ok) && tag.chars().all(ok) {
        return Ok(tag);
    }
    let better: String = tag.chars().map(|c| if ok(c) { c } else { '-' }).collect();
    let better = better.trim_matches(|c| !first_ok(c));
    let help = if better.is_empty() { String::new() } else { format!(" For example `{better}`.") };
    Err((
        format!("Proxmox does not take `{text}` as a tag."),
        format!(
            "A tag begins with a letter, digit or `_`; after that `-`, `+` and `.` are allowed too.{help}"
        ),
    ))
}

/// Whether a name is safe where Proxmox expects the name of a storage, bridge, host or pool.
pub(crate) fn proxmox_id(what: &str, text: &str) -> Result<(), Refusal> {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.chars().all(ok) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err((
        format!("`{text}` cannot be the name of a {what}."),
        format!("Write the name of the {what} alone, as Proxmox shows it."),
    ))
}

/// Whether a Kubernetes label can have a value.
pub(crate) fn kubernetes_label(value: &str) -> Result<(), Refusal> {
    if value.is_empty() || kubernetes_word(value) {
        return Ok(());
    }
    Err((
        format!("Kubernetes does not take `{value}` as the value of a label."),
        format!(
            "At most {LABEL_MAX} letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit."
        ),
    ))
}

/// A taint as `value:Effect`.
pub(crate) fn kubernetes_taint(text: &str) -> Result<String, Refusal> {
    let (value, effect) = text.rsplit_once(':').unwrap_or(("", text));
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effects.contains(&effect) {
        let help = match crate::suggest::nearest(effect, &effects) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => "The effects are `NoSchedule`, `PreferNoSchedule` and `NoExecute`.".to_owned(),
        };
        return Err((format!("`{effect}` is not an effect of a taint."), help));
    }
    if !value.is_empty() && !kubernetes_word(value) {
        return Err((
            format!("Kubernetes does not take `{value}` as the value of a taint."),
            "Write `value:Effect`.".to_owned(),
        ));
    }
    Ok(format!("{value}:{effect}"))
}

/// Whether a Kubernetes label or taint can have a key.
pub(crate) fn kubernetes_key(key: &str) -> Result<(), Refusal> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let prefix_ok =
        prefix.is_none_or(|p| p.len() <= 253 && p.split('.').all(|label| dns_label(label).is_ok()));
    if prefix_ok && kubernetes_word(name) {
        return Ok(());
    }
    Err((
        format!("Kubernetes does not take `{key}` as a key."),
        format!(
            "Write `name` or `domain/name`; a name has at most {LABEL_MAX} letters, digits, `-`, `_` and `.`."
        ),
    ))
}

fn kubernetes_word(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LABEL_MAX
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for good in ["a", "cp-1", "0", &"x".repeat(63)] {
            assert_eq!(dns_label(good), Ok(()), "{good}");
        }
        for (bad, better) in [("My_Node", "my-node"), ("-a-", "a"), ("größe", "gr--e"), ("a.b", "a-b")] {
            let (_, help) = dns_label(bad).expect_err(bad);
            assert!(help.ends_with(&format!("`{better}`.")), "{help}");
        }
        assert!(dns_label(&"x".repeat(64)).is_err());
        assert!(dns_label("").is_err());
    }

    #[test]
    fn tags_become_what_proxmox_keeps() {
        assert_eq!(tag("Prod"), Ok("prod".to_owned()));
        assert!(tag("a;b").is_err());
        assert!(tag("-a").is_err());
        assert!(tag("").is_err());
    }

    #[test]
    fn labels_and_taints() {
        assert_eq!(kubernetes_key("topology.kubernetes.io/zone"), Ok(()));
        assert!(kubernetes_key("a/b/c").is_err());
        assert_eq!(kubernetes_label(""), Ok(()));
        assert!(kubernetes_label("x y").is_err());
        assert_eq!(kubernetes_taint("NoSchedule"), Ok(":NoSchedule".to_owned()));
        assert_eq!(kubernetes_taint("a100:NoExecute"), Ok("a100:NoExecute".to_owned()));
        assert_eq!(kubernetes_taint("NoSchedul").expect_err("typo").1, "Did you mean `NoSchedule`?");
    }
}
