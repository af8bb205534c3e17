//! From a host and its jumps, as somebody names them, to the servers on the way.

use std::collections::HashSet;

use crate::config::{ConfigError, Query, Settings, SshConfig};

/// How many servers may be on the way.
const MOST: usize = 10;

/// The keys that are tried where nobody names any, as far as they are supported.
const USUAL_KEYS: [&str; 3] = ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"];

/// A server as somebody names it: an alias of ssh_config, a name, or an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Alias, name or address.
    pub host: String,
    /// Who logs in.
    pub user: Option<String>,
    /// Port.
    pub port: Option<u16>,
}

impl Asked {
    /// Reads `[user@]host[:port]`, `[user@][address]:port`, or the same as an `ssh://` URL.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("ssh://").map_or(text, |text| text.trim_end_matches('/'));
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()).filter(|user| !user.is_empty())?.into(), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':')?)),
            None => match rest.split_once(':') {
                // More than one colon is an address.
                Some((_, more)) if more.contains(':') => (rest, None),
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
            None => None,
        };
        let fits = |text: &str| {
            !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_graphic())
        };
        (fits(host) && user.as_deref().is_none_or(fits)).then(|| Self { host: host.to_owned(), user, port })
    }
}

/// What the caller's machine is.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The home folder, for `~` and `%d`.
    pub home: String,
    /// Who calls.
    pub local_user: String,
}

/// A server on the way, and the names of what is needed to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// The name that known_hosts has for it, if it is another.
    pub known_as: Option<String>,
    /// Paths of private keys. Those that nobody named need not exist.
    pub identity_files: Vec<String>,
    /// Whether somebody named the keys.
    pub named: bool,
    /// Offer no other keys.
    pub identities_only: bool,
    /// The agent: a path, `none`, or none for the usual one.
    pub agent: Option<String>,
    /// known_hosts files instead of the usual ones.
    pub known_hosts: Option<Vec<String>>,
    /// Where ssh_config has blocks that are not understood.
    pub skipped: Vec<String>,
}

/// The servers on the way, nearest first. Jumps that are given replace those of ssh_config.
pub fn way(
    config: &SshConfig,
    to: &Asked,
    jumps: Option<&[Asked]>,
    facts: &Facts,
) -> Result<Vec<Stop>, ConfigError> {
    let (mut stops, mut seen) = (Vec::new(), HashSet::new());
    lead(config, to, jumps, facts, &mut stops, &mut seen)?;
    Ok(stops)
}

fn lead(
    config: &SshConfig,
    to: &Asked,
    jumps: Option<&[Asked]>,
    facts: &Facts,
    stops: &mut Vec<Stop>,
    seen: &mut HashSet<String>,
) -> Result<(), ConfigError> {
    if !seen.insert(to.host.clone()) || stops.len() >= MOST {
        return Err(ConfigError::Endless(to.host.clone()));
    }
    let query = Query { alias: &to.host, user: to.user.as_deref(), local_user: &facts.local_user };
    let settings = config.of(&query)?;
    let through = match (jumps, &settings.proxy_jump, &settings.proxy_command) {
        (Some(jumps), ..) => jumps.to_vec(),
        (None, Some(jumps), _) => jumps.clone(),
        (None, None, Some(place)) => {
            return Err(ConfigError::Command { place: place.clone(), host: to.host.clone() });
        }
        (None, None, None) => Vec::new(),
    };
    for (at, jump) in through.iter().enumerate() {
        // The first is reached in its own way, each other one through the one before.
        lead(config, jump, (at > 0).then_some(&[]), facts, stops, seen)?;
    }
    stops.push(stop(to, settings, facts));
    Ok(())
}

fn stop(to: &Asked, settings: Settings, facts: &Facts) -> Stop {
    let host = settings.host_name.map_or_else(|| to.host.clone(), |name| expand(&name, &[('h', &to.host)]));
    let user = to.user.clone().or(settings.user).unwrap_or_else(|| facts.local_user.clone());
    let port = to.port.or(settings.port).unwrap_or(22);
    let path = |text: &String| {
        let port = port.to_string();
        let tokens = [
            ('d', facts.home.as_str()),
            ('h', &host),
            ('n', &to.host),
            ('p', &port),
            ('r', &user),
            ('u', &facts.local_user),
        ];
        let text = expand(text, &tokens);
        match text.strip_prefix("~/") {
            Some(rest) => format!("{}/{rest}", facts.home.trim_end_matches('/')),
            None => text,
        }
    };
    let named = !settings.identity_files.is_empty();
    let usual = USUAL_KEYS.map(str::to_owned);
    let files = if named { &settings.identity_files[..] } else { &usual };
    let identity_files = files.iter().filter(|file| !file.eq_ignore_ascii_case("none")).map(path).collect();
    Stop {
        known_as: settings.host_key_alias,
        identity_files,
        named,
        identities_only: settings.identities_only.unwrap_or(false),
        agent: settings.identity_agent.as_ref().filter(|agent| *agent != "SSH_AUTH_SOCK").map(path),
        known_hosts: settings.known_hosts.map(|files| files.iter().map(path).collect()),
        skipped: settings.skipped.iter().map(ToString::to_string).collect(),
        host: host.clone(),
        port,
        user: user.clone(),
    }
}

/// Replaces `%x` by what it stands for; others stay as they are.
fn expand(text: &str, tokens: &[(char, &str)]) -> String {
    let mut expanded = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            expanded.push(letter);
            continue;
        }
        match letters.next() {
            Some('%') => expanded.push('%'),
            Some(token) => match tokens.iter().find(|(known, _)| *known == token) {
                Some((_, value)) => expanded.push_str(value),
                None => expanded.extend(['%', token]),
            },
            None => expanded.push('%'),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { home: "/home/me".into(), local_user: "me".into() }
    }

    fn config(text: &str) -> SshConfig {
        let mut config = SshConfig::default();
        config.read("config", text, &mut |_| Vec::new()).unwrap();
        config
    }

    fn shown(stops: &[Stop]) -> Vec<String> {
        stops.iter().map(|stop| format!("{}@{}:{}", stop.user, stop.host, stop.port)).collect()
    }

    #[test]
    fn servers_are_read_as_people_write_them() {
        let read = |text: &str| Asked::parse(text).map(|asked| (asked.user, asked.host, asked.port));
        assert_eq!(read("atlas"), Some((None, "atlas".into(), None)));
        assert_eq!(read("me@x@atlas.lan:2222"), Some((Some("me@x".into()), "atlas.lan".into(), Some(2222))));
        assert_eq!(read("ssh://root@[fd00::1]:22/"), Some((Some("root".into()), "fd00::1".into(), Some(22))));
        assert_eq!(read("fd00::1"), Some((None, "fd00::1".into(), None)));
        for wrong in
            ["", "@atlas", "atlas:", "atlas:0", "atlas:99999", "a b", "-oProxyCommand=x", "[fd00::1]22"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_alias_leads_through_its_jumps_and_theirs() {
        let config = config(
            "Host atlas\n HostName %h.lan\n User root\n ProxyJump inner,ops@near:2200\nHost inner\n HostName 10.9.9.9\n ProxyJump outer\n\
             Host outer\n User gate\nHost near\n ProxyJump nowhere\n",
        );
        let stops = way(&config, &Asked::parse("atlas").unwrap(), None, &facts()).unwrap();
        assert_eq!(shown(&stops), ["gate@outer:22", "me@10.9.9.9:22", "ops@near:2200", "root@atlas.lan:22"]);
        let given = [Asked::parse("near").unwrap()];
        let stops = way(&config, &Asked::parse("me@atlas:1").unwrap(), Some(&given), &facts()).unwrap();
        assert_eq!(shown(&stops), ["me@nowhere:22", "me@near:22", "me@atlas.lan:1"]);
    }

    #[test]
    fn keys_have_their_tokens_and_home_replaced() {
        let config = config(
            "Host atlas\n IdentityFile ~/.ssh/%r_%h\n IdentityFile %d/k%%\n IdentityAgent none\nHost nas\n IdentityAgent SSH_AUTH_SOCK\n",
        );
        let of = |text| way(&config, &Asked::parse(text).unwrap(), None, &facts()).unwrap().remove(0);
        let atlas = of("root@atlas");
        assert_eq!(atlas.identity_files, ["/home/me/.ssh/root_atlas", "/home/me/k%"]);
        assert_eq!((atlas.named, atlas.agent.as_deref()), (true, Some("none")));
        let nas = of("nas");
        assert_eq!((nas.named, nas.agent), (false, None));
        assert_eq!(nas.identity_files[0], "/home/me/.ssh/id_ed25519");
    }

    #[test]
    fn jumps_that_never_end_and_commands_are_refused() {
        let config = config("Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost c\n ProxyCommand nc x\n");
        let error = |host: &str| way(&config, &Asked::parse(host).unwrap(), None, &facts()).unwrap_err();
        assert_eq!(error("a"), ConfigError::Endless("a".into()));
        assert!(error("c").to_string().contains("config:6: the host `c` is reached by a ProxyCommand"));
    }
}
