//! What helps: words, and commands of this program as data. Whoever shows them adds the flags that lead to the same cluster, which
//! nobody here knows.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A command or edit that helps. Its text has the commands without flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fix(Vec<FixPart>);

/// A part of an advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FixPart {
    /// Words that stand as they are.
    Words(String),
    /// A command of this program.
    Command(Command),
}

/// A command of this program, but for the flags that say for which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Make the world what the inventory says.
    Apply,
    /// Ask Proxmox whether it can do what the inventory says.
    CheckLive,
    /// Give the VM of this node its mark back.
    NodeMark(String),
    /// Take this node out, which is no longer declared.
    NodeRemove(String),
    /// Bring secrets into a store that has none.
    SecretsImport,
    /// Bring secrets in the place of those that the store has.
    SecretsImportReplace,
    /// Destroy templates that are of no use.
    TemplatesPrune {
        /// Also those that are current.
        all: bool,
        /// Also in a cluster that says `protect: true`.
        protected: bool,
    },
    /// Take the control planes out of high availability.
    ProxmoxHaOff,
    /// Remove the backup job.
    ProxmoxBackupJobOff,
    /// List volumes that Proxmox left behind.
    VolumesList,
    /// Delete volumes that Proxmox left behind.
    VolumesPrune,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply => f.write_str("apply"),
            Self::CheckLive => f.write_str("check --live"),
            Self::NodeMark(node) => write!(f, "node mark {node}"),
            Self::NodeRemove(node) => write!(f, "node remove {node}"),
            Self::SecretsImport => f.write_str("secrets import FILE"),
            Self::SecretsImportReplace => f.write_str("secrets import --replace FILE"),
            Self::TemplatesPrune { all, protected } => {
                let all = if *all { " --all" } else { "" };
                let protected = if *protected { " --protected" } else { "" };
                write!(f, "templates prune{all}{protected}")
            }
            Self::ProxmoxHaOff => f.write_str("proxmox ha --off"),
            Self::ProxmoxBackupJobOff => f.write_str("proxmox backup-job --off"),
            Self::VolumesList => f.write_str("volumes list"),
            Self::VolumesPrune => f.write_str("volumes prune"),
        }
    }
}

impl Fix {
    /// Goes on with words.
    pub fn words(mut self, words: impl Into<String>) -> Self {
        self.0.push(FixPart::Words(words.into()));
        self
    }

    /// Goes on with a command.
    pub fn run(mut self, command: Command) -> Self {
        self.0.push(FixPart::Command(command));
        self
    }

    /// Goes on with another advice.
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The text, with each command as it has to be called here.
    pub fn told(&self, call: impl Fn(&Command) -> String) -> String {
        let part = |part: &FixPart| match part {
            FixPart::Words(words) => words.clone(),
            FixPart::Command(command) => call(command),
        };
        self.0.iter().map(part).collect()
    }
}

impl From<&str> for Fix {
    fn from(words: &str) -> Self {
        Self::default().words(words)
    }
}

impl From<String> for Fix {
    fn from(words: String) -> Self {
        Self::default().words(words)
    }
}

impl From<Command> for Fix {
    fn from(command: Command) -> Self {
        Self::default().run(command)
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(|command| format!("daedal {command}")))
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// How an advice stands in a saved plan: as text, and beside it in parts where it has commands.
pub(crate) mod saved {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Fix, FixPart};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Saved {
        #[serde(default)]
        fix: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fix_parts: Vec<FixPart>,
    }

    pub(crate) fn serialize<S: Serializer>(fix: &Option<Fix>, to: S) -> Result<S::Ok, S::Error> {
        let commands = |fix: &&Fix| fix.0.iter().any(|part| matches!(part, FixPart::Command(_)));
        let fix_parts = fix.as_ref().filter(commands).map(|fix| fix.0.clone()).unwrap_or_default();
        Saved { fix: fix.as_ref().map(ToString::to_string), fix_parts }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fix>, D::Error> {
        let Saved { fix, fix_parts } = Saved::deserialize(from)?;
        // Plans of before have the text alone.
        Ok(if fix_parts.is_empty() { fix.map(Fix::from) } else { Some(Fix(fix_parts)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Level, Note};

    #[test]
    fn commands_are_called_as_the_caller_was() {
        let fix =
            Fix::from("to remove it: ").run(Command::NodeRemove("cp-2".into())).words(", then run again");
        assert_eq!(fix.to_string(), "to remove it: daedal node remove cp-2, then run again");
        let here = fix.told(|command| format!("./daedal {command} --lab"));
        assert_eq!(here, "to remove it: ./daedal node remove cp-2 --lab, then run again");
        assert_eq!(Fix::from("bring it back").told(|_| String::new()), "bring it back");
    }

    #[test]
    fn a_saved_plan_keeps_commands_and_one_of_before_is_read() {
        let note =
            |fix| Note { level: Level::Warning, about: "cp-2".into(), text: "It is there.".into(), fix };
        let fix = Fix::from("to remove it: ").run(Command::NodeRemove("cp-2".into()));
        for fix in [None, Some(Fix::from("bring it back")), Some(fix)] {
            let json = serde_json::to_value(note(fix.clone())).unwrap();
            assert_eq!(json["fix"], serde_json::json!(fix.as_ref().map(ToString::to_string)));
            assert_eq!(serde_json::from_value::<Note>(json).unwrap(), note(fix));
        }
        let before = r#"{"level": "warning", "about": "cp-2", "text": "It is there.", "fix": "daedal node mark cp-2"}"#;
        let read: Note = serde_json::from_str(before).unwrap();
        assert_eq!(read, note(Some(Fix::from("daedal node mark cp-2"))));
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            serde_json::from_str::<serde_json::Value>(before).unwrap()
        );
    }
}
