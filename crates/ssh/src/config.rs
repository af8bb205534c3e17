//! ssh_config files: what they say of a host.
//!
//! As in OpenSSH the first value wins, `Include` belongs to the block that it stands in, and of `Match` the criteria `all`,
//! `host`, `originalhost`, `user` and `localuser` are understood. A block with another criterion is left out, and said so.

use crate::known_hosts::Place;
use crate::pattern::any_fits;
use crate::route::Asked;

/// How deep files may include each other, as in OpenSSH.
const DEPTH: usize = 16;

/// ssh_config files, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct SshConfig {
    files: Vec<Vec<Item>>,
}

#[derive(Clone, Debug)]
enum Item {
    Host(Vec<String>),
    Match(Vec<Criterion>, Place),
    Include(Vec<Vec<Item>>),
    Set { key: String, values: Vec<String>, place: Place },
}

#[derive(Clone, Debug)]
struct Criterion {
    negated: bool,
    kind: String,
    patterns: String,
}

/// What is wrong with an ssh_config file, or with what it leads to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A line makes no sense.
    #[error("{place}: {what}")]
    Line {
        /// Where.
        place: Place,
        /// What is wrong.
        what: String,
    },
    /// A command would have to be run.
    #[error("{place}: the host `{host}` is reached by a ProxyCommand, which is not supported")]
    Command {
        /// Where.
        place: Place,
        /// For which host.
        host: String,
    },
    /// Jumps lead back to where they came from, or never end.
    #[error("the jumps to `{0}` never end")]
    Endless(String),
}

/// What the files say of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `HostName`.
    pub host_name: Option<String>,
    /// `User`.
    pub user: Option<String>,
    /// `Port`.
    pub port: Option<u16>,
    /// `IdentityFile`, all of them.
    pub identity_files: Vec<String>,
    /// `IdentitiesOnly`.
    pub identities_only: Option<bool>,
    /// `IdentityAgent`.
    pub identity_agent: Option<String>,
    /// `ProxyJump`; empty for `none`.
    pub proxy_jump: Option<Vec<Asked>>,
    /// Where a `ProxyCommand` stands that counts.
    pub proxy_command: Option<Place>,
    /// `UserKnownHostsFile`.
    pub known_hosts: Option<Vec<String>>,
    /// `HostKeyAlias`.
    pub host_key_alias: Option<String>,
    /// Where blocks were left out.
    pub skipped: Vec<Place>,
}

/// Whose settings are asked for.
pub(crate) struct Query<'a> {
    pub(crate) alias: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) local_user: &'a str,
}

impl SshConfig {
    /// Adds a file that is asked after those before it. `include` gives the files that an `Include` means, with their names.
    pub fn read(
        &mut self,
        file: &str,
        text: &str,
        include: &mut dyn FnMut(&str) -> Vec<(String, String)>,
    ) -> Result<(), ConfigError> {
        self.files.push(items(file, text, include, 0)?);
        Ok(())
    }

    pub(crate) fn of(&self, query: &Query<'_>) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        for file in &self.files {
            collect(file, true, query, &mut settings)?;
        }
        Ok(settings)
    }
}

fn items(
    file: &str,
    text: &str,
    include: &mut dyn FnMut(&str) -> Vec<(String, String)>,
    depth: usize,
) -> Result<Vec<Item>, ConfigError> {
    let mut items = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = Place { file: file.to_owned(), line: at + 1 };
        let wrong = |what: String| ConfigError::Line { place: place.clone(), what };
        let Some((key, values)) = split(line).map_err(&wrong)? else { continue };
        if values.is_empty() {
            return Err(wrong(format!("`{key}` has no value")));
        }
        items.push(match key.as_str() {
            "host" => Item::Host(values),
            "match" => Item::Match(criteria(&values).map_err(&wrong)?, place),
            "include" => {
                if depth >= DEPTH {
                    return Err(wrong("files include each other too deeply".to_owned()));
                }
                let files = values.iter().flat_map(|pattern| include(pattern)).collect::<Vec<_>>();
                let read = |(file, text): &(String, String)| self::items(file, text, include, depth + 1);
                Item::Include(files.iter().map(read).collect::<Result<_, _>>()?)
            }
            _ => Item::Set { key, values, place },
        });
    }
    Ok(items)
}

/// The keyword in lower case and its values; none for a line that says nothing.
fn split(line: &str) -> Result<Option<(String, Vec<String>)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    let mut values = Vec::new();
    let mut letters = rest.chars().peekable();
    loop {
        while letters.next_if(|c| c.is_whitespace()).is_some() {}
        let quote = letters.next_if(|c| *c == '"' || *c == '\'');
        match (quote, letters.peek()) {
            (Some(quote), _) => {
                let mut value = String::new();
                loop {
                    match letters.next() {
                        Some(c) if c == quote => break,
                        Some(c) => value.push(c),
                        None => return Err("a quote does not end".to_owned()),
                    }
                }
                values.push(value);
            }
            (None, None | Some('#')) => break,
            (None, Some(_)) => {
                let mut value = String::new();
                while let Some(c) = letters.next_if(|c| !c.is_whitespace()) {
                    value.push(c);
                }
                values.push(value);
            }
        }
    }
    Ok(Some((key.to_ascii_lowercase(), values)))
}

fn criteria(values: &[String]) -> Result<Vec<Criterion>, String> {
    let mut values = values.iter();
    let mut criteria = Vec::new();
    while let Some(word) = values.next() {
        let (negated, word) = match word.strip_prefix('!') {
            Some(word) => (true, word),
            None => (false, word.as_str()),
        };
        let (word, given) = match word.split_once('=') {
            Some((word, given)) => (word, Some(given.to_owned())),
            None => (word, None),
        };
        let kind = word.to_ascii_lowercase();
        let patterns = match (kind.as_str(), given) {
            ("all" | "canonical" | "final", _) => String::new(),
            (_, Some(given)) => given,
            _ => values.next().cloned().ok_or_else(|| format!("`Match {word}` has no value"))?,
        };
        criteria.push(Criterion { negated, kind, patterns });
    }
    Ok(criteria)
}

fn collect(
    items: &[Item],
    applies: bool,
    query: &Query<'_>,
    settings: &mut Settings,
) -> Result<(), ConfigError> {
    let mut active = applies;
    for item in items {
        match item {
            Item::Host(patterns) => {
                active = applies && any_fits(patterns.iter().map(String::as_str), query.alias);
            }
            Item::Match(criteria, place) => {
                let known = ["all", "host", "originalhost", "user", "localuser"];
                if criteria.iter().all(|criterion| known.contains(&criterion.kind.as_str())) {
                    active = applies && criteria.iter().all(|criterion| criterion.holds(query, settings));
                } else {
                    active = false;
                    if applies {
                        settings.skipped.push(place.clone());
                    }
                }
            }
            Item::Include(files) if active => {
                for file in files {
                    collect(file, active, query, settings)?;
                }
            }
            Item::Set { key, values, place } if active => set(settings, key, values, place)?,
            Item::Include(_) | Item::Set { .. } => {}
        }
    }
    Ok(())
}

impl Criterion {
    fn holds(&self, query: &Query<'_>, so_far: &Settings) -> bool {
        let text = match self.kind.as_str() {
            "host" => match &so_far.host_name {
                Some(name) => name.replace("%h", query.alias),
                None => query.alias.to_owned(),
            },
            "originalhost" => query.alias.to_owned(),
            "user" => query.user.or(so_far.user.as_deref()).unwrap_or(query.local_user).to_owned(),
            "localuser" => query.local_user.to_owned(),
            _ => return !self.negated,
        };
        any_fits(self.patterns.split(','), &text) != self.negated
    }
}

fn set(settings: &mut Settings, key: &str, values: &[String], place: &Place) -> Result<(), ConfigError> {
    let wrong = |what: String| ConfigError::Line { place: place.clone(), what };
    let Some(first) = values.first() else { return Ok(()) };
    let text = |slot: &mut Option<String>| {
        slot.get_or_insert_with(|| first.clone());
    };
    match key {
        "hostname" => text(&mut settings.host_name),
        "user" => text(&mut settings.user),
        "identityagent" => text(&mut settings.identity_agent),
        "hostkeyalias" => text(&mut settings.host_key_alias),
        "identityfile" if !settings.identity_files.contains(first) => {
            settings.identity_files.push(first.clone());
        }
        "port" => {
            let port = first.parse().ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| wrong(format!("`{first}` is not a port")))?;
            settings.port.get_or_insert(port);
        }
        "identitiesonly" => {
            settings.identities_only.get_or_insert(first.eq_ignore_ascii_case("yes"));
        }
        "userknownhostsfile" => {
            settings.known_hosts.get_or_insert_with(|| values.to_vec());
        }
        // Of these two the first counts.
        "proxyjump" if settings.proxy_command.is_none() && settings.proxy_jump.is_none() => {
            settings.proxy_jump = Some(match first.as_str() {
                none if none.eq_ignore_ascii_case("none") => Vec::new(),
                list => list
                    .split(',')
                    .map(|jump| {
                        Asked::parse(jump.trim()).ok_or_else(|| wrong(format!("`{jump}` is not a jump host")))
                    })
                    .collect::<Result<_, _>>()?,
            });
        }
        "proxycommand" if settings.proxy_command.is_none() && settings.proxy_jump.is_none() => {
            match first.eq_ignore_ascii_case("none") {
                true => settings.proxy_jump = Some(Vec::new()),
                false => settings.proxy_command = Some(place.clone()),
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, alias: &str) -> Settings {
        let mut config = SshConfig::default();
        config.read("config", text, &mut |_| Vec::new()).unwrap();
        config.of(&Query { alias, user: None, local_user: "me" }).unwrap()
    }

    #[test]
    fn the_first_value_wins_and_identities_add_up() {
        let text = "User early\nHost atlas *.lan !nas.lan\n  HostName=10.0.0.2\n  port = 2222\n  User late\n\
                    \tIdentityFile \"~/.ssh/my key\" # mine\n  IdentitiesOnly yes\nHost *\n  Port 22\n  IdentityFile ~/.ssh/other\n";
        let atlas = of(text, "atlas");
        assert_eq!(atlas.host_name.as_deref(), Some("10.0.0.2"));
        assert_eq!((atlas.port, atlas.user.as_deref()), (Some(2222), Some("early")));
        assert_eq!(atlas.identity_files, ["~/.ssh/my key", "~/.ssh/other"]);
        assert_eq!(atlas.identities_only, Some(true));
        let nas = of(text, "nas.lan");
        assert_eq!((nas.host_name, nas.port), (None, Some(22)));
    }

    #[test]
    fn match_blocks_are_judged_or_left_out_and_never_bleed() {
        let text = "Match exec \"test -f x\"\n  User exec\nMatch host 10.* user root\n  Port 1\nHost atlas\n  HostName 10.0.0.2\n\
                    Match host 10.*\n  Port 2\nMatch originalhost atlas !localuser me\n  Port 3\nMatch all\n  User last\n";
        let atlas = of(text, "atlas");
        assert_eq!((atlas.port, atlas.user.as_deref()), (Some(2), Some("last")));
        assert_eq!(atlas.skipped, [Place { file: "config".into(), line: 1 }]);
        assert_eq!(of(text, "other").port, None);
    }

    #[test]
    fn an_include_belongs_to_its_block() {
        let mut config = SshConfig::default();
        let text = "Host atlas\n  Include more\n  Port 22\n";
        let mut include = |pattern: &str| {
            assert_eq!(pattern, "more");
            vec![("more".to_owned(), "User in\nHost nas\n  Port 1\nHost *\n  Port 2\n".to_owned())]
        };
        config.read("config", text, &mut include).unwrap();
        let of = |alias| config.of(&Query { alias, user: None, local_user: "me" }).unwrap();
        assert_eq!((of("atlas").user.as_deref(), of("atlas").port), (Some("in"), Some(2)));
        assert_eq!((of("nas").user, of("nas").port), (None, None));
        let mut endless = |_: &str| vec![("a".to_owned(), "Include a\n".to_owned())];
        assert!(SshConfig::default().read("a", "Include a\n", &mut endless).is_err());
    }

    #[test]
    fn a_jump_and_a_command_exclude_each_other() {
        let jumps = of("Host a\n ProxyJump x,me@y:2200\n ProxyCommand nc %h %p\n", "a");
        assert_eq!(jumps.proxy_jump.unwrap().len(), 2);
        assert_eq!(jumps.proxy_command, None);
        let command = of("Host a\n ProxyCommand nc %h %p\n ProxyJump x\n", "a");
        assert_eq!((command.proxy_jump, command.proxy_command.unwrap().line), (None, 2));
        assert_eq!(of("Host a\n ProxyJump none\nHost *\n ProxyJump x\n", "a").proxy_jump, Some(Vec::new()));
    }

    #[test]
    fn nonsense_is_named_by_its_place() {
        let wrong = |text: &str| {
            let mut config = SshConfig::default();
            let read = config.read("config", text, &mut |_| Vec::new());
            let asked =
                read.and_then(|()| config.of(&Query { alias: "a", user: None, local_user: "me" }).map(drop));
            asked.unwrap_err().to_string()
        };
        assert_eq!(wrong("Port 99999\n"), "config:1: `99999` is not a port");
        assert_eq!(wrong("\nHost \"a\n"), "config:2: a quote does not end");
        assert_eq!(wrong("User\n"), "config:1: `user` has no value");
        assert_eq!(wrong("Match host\n"), "config:1: `Match host` has no value");
    }
}
