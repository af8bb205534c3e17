//! URLs in an inventory, which must not carry a login.

use url::Url;

use super::Context;
use crate::path::Path;

/// Reads a URL with a host. A login in it is refused and never shown; for anything else that is wrong `help` is the advice.
pub(crate) fn link(
    text: &str,
    schemes: &[&str],
    help: &str,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Url> {
    // Judged by eye, as a text that is no URL at all may hold a password just as well.
    if text.contains('@') {
        cx.hide(at);
        let advice = "Remove everything up to the `@`, and change the password, as it may have been seen.";
        cx.error("literal-secret", at, "This URL holds a user name or password.", advice);
        return None;
    }
    let url = Url::parse(text).ok().filter(|u| u.host().is_some() && schemes.contains(&u.scheme()));
    if url.is_none() {
        cx.error("url", at, format!("`{text}` is not a URL that can be used here."), help);
    }
    url.filter(|_| cx.given(at))
}
