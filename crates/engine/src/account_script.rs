//! An account as a script, for whoever rather runs it on a Proxmox host than gives a password away.

use daedal_planner::{Account, Grant};

/// An account as commands for a shell on a Proxmox host, which may be given again. The token's secret ends in `file` and
/// nowhere else; `next` is what they say about it in the end.
pub fn commands(account: &Account, file: &str, next: &str) -> String {
    let mut text = String::new();
    let mut line = |one: String| {
        text.push_str(&one);
        text.push('\n');
    };
    line("set -eu".to_owned());
    if let Some(pool) = &account.pool {
        line(format!(
            "pveum pool list --output-format json | grep -q '\"poolid\":\"{pool}\"' || pveum pool add {pool}"
        ));
    }
    for (role, privileges) in account.roles() {
        let privileges = privileges.into_iter().collect::<Vec<_>>().join(" ");
        line(format!(
            "pveum role add {role} --privs '{privileges}' 2>/dev/null || pveum role modify {role} --privs '{privileges}'"
        ));
    }
    let user = &account.user;
    line(format!(
        "pveum user list --output-format json | grep -q '\"userid\":\"{user}\"' || pveum user add {user} --comment '{}'",
        account.comment
    ));
    // A secret is told once: whatever is in the file stays until there is another one to put there.
    let (token, file) = (&account.token, quoted(file));
    line(format!(
        "if pveum user token list {user} --output-format json | grep -q '\"tokenid\":\"{token}\"'; then"
    ));
    line(format!(
        "  echo 'The token {user}!{token} is there already, and its secret is not told again. If it is lost: pveum user \
             token remove {user} {token}, and run this again.' >&2"
    ));
    line("else".to_owned());
    line(format!("  made=$(pveum user token add {user} {token} --privsep 1 --output-format json)"));
    line(
        "  secret=$(printf '%s\\n' \"$made\" | sed -n 's/.*\"value\" *: *\"\\([^\"]*\\)\".*/\\1/p')"
            .to_owned(),
    );
    line("  : \"${secret:?pveum does not tell the secret of the token}\"".to_owned());
    line(format!("  (umask 077; printf '%s\\n' \"$secret\" > {file})"));
    line("fi".to_owned());
    for grant in &account.grants {
        let flag = u8::from(grant.propagate);
        for (option, id) in [("--users", account.user.clone()), ("--tokens", account.token_id())] {
            let (path, role) = (&grant.path, grant.role);
            line(format!("pveum acl modify {path} {option} '{id}' --roles {role} --propagate {flag}"));
        }
    }
    line(format!("if [ -s {file} ]; then echo {} >&2; fi", quoted(next)));
    text
}

/// A word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The commands that give a grant to a token and its user, for a shell on a Proxmox host. The role may be there already.
pub(crate) fn granting(grant: &Grant, token: &str) -> String {
    let user = token.split('!').next().unwrap_or(token);
    let (path, role, propagate) = (&grant.path, grant.role, u8::from(grant.propagate));
    let privileges = grant.privileges.iter().copied().collect::<Vec<_>>().join(" ");
    format!(
        "(pveum role add {role} --privs '{privileges}' || pveum role modify {role} --append 1 --privs \
         '{privileges}') && pveum acl modify {path} --users '{user}' --tokens '{token}' --roles {role} \
         --propagate {propagate}"
    )
}
