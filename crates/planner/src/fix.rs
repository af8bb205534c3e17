//! What helps: words, and commands of this program as data. Whoever shows them adds the flags that lead to the same cluster, which
//! nobody here knows.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

use crate::phase::Phase;

/// A command or edit that helps. Its text has the commands without flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fix(Vec<FixPart>);

/// A part of an advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FixPart {
    /// Words that stand as they are.
    Words(String),
    /// A command of this program.
    Command(Command),
}

/// A command of this program, but for the flags that say for which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// Make the world what the inventory says.
    Apply,
    /// Carry out this phase of an apply.
    Phase(Phase),
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
            Self::Phase(phase) => write!(f, "{phase}"),
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

/// It is written as text.
impl JsonSchema for Fix {
    fn schema_name() -> Cow<'static, str> {
        "Fix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// An advice as its parts, with which it can be read back.
pub(crate) mod parts {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Fix, FixPart};

    pub(crate) fn serialize<S: Serializer>(fix: &Option<Fix>, to: S) -> Result<S::Ok, S::Error> {
        fix.as_ref().map(|fix| &fix.0).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fix>, D::Error> {
        Ok(Option::<Vec<FixPart>>::deserialize(from)?.map(Fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Advice;
    use crate::plan::{Level, Note};
    use crate::world::Aspect;

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
    fn a_saved_plan_keeps_commands() {
        let note = |fix| {
            let (what, why) = (Aspect::Nodes, "no answer".to_owned());
            Note { level: Level::Warning, advice: Advice::NotSeen { what, why, fix } }
        };
        let fix = Fix::from("to remove it: ").run(Command::NodeRemove("cp-2".into()));
        for fix in [None, Some(Fix::from("bring it back")), Some(fix)] {
            let json = serde_json::to_value(note(fix.clone())).unwrap();
            assert_eq!(serde_json::from_value::<Note>(json).unwrap(), note(fix));
        }
    }
}
