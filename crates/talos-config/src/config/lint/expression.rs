//! Expressions that select disks, volumes and links: whether they mean anything to the Talos that reads them.
//!
//! The language is Google's Common Expression Language. Expressions are read and their types followed, nothing is
//! evaluated. Where this knows less than Talos, it lets pass.

mod check;
mod fields;
mod language;
mod token;

use fields::{DISK, Known, LINK, VOLUME};
use language::Type::{self, Bool, Double, Dynamic, Int, Text, Uint};

/// What an expression is about, which decides what it may speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Disks to put something on.
    Disks,
    /// Volumes that are there.
    Volumes,
    /// Volumes that become part of an array or a group.
    Members,
    /// Network links.
    Links,
    /// Whether memory is short.
    MemoryShortage,
    /// Which group of processes has to go first.
    MemoryRanking,
}

const UNITS: [&str; 12] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "kB", "MB", "GB", "TB", "PB", "EB"];

/// What names of process groups stand for.
const CLASSES: [&str; 5] = ["Besteffort", "Burstable", "Guaranteed", "Podruntime", "System"];

impl About {
    /// The names an expression may use, besides its units and functions.
    fn names(self) -> &'static [Known] {
        const IN_VOLUMES: &[Known] = &[("volume", Type::Fields(VOLUME), 8), ("disk", Type::Fields(DISK), 11)];
        const IN_MEMBERS: &[Known] = &[
            ("volume", Type::Fields(VOLUME), 14),
            ("disk", Type::Fields(DISK), 14),
            ("volume_id", Text, 14),
            ("system_disk", Bool, 14),
        ];
        match self {
            Self::Disks => &[("disk", Type::Fields(DISK), 8), ("system_disk", Bool, 8)],
            Self::Volumes => IN_VOLUMES,
            Self::Members => IN_MEMBERS,
            Self::Links => &[("link", Type::Fields(LINK), 12)],
            Self::MemoryShortage => &[("time_since_trigger", Type::Duration, 12)],
            Self::MemoryRanking => &[
                ("memory_max", Type::Optional(&Uint), 12),
                ("memory_current", Type::Optional(&Uint), 12),
                ("memory_peak", Type::Optional(&Uint), 12),
                ("path", Text, 12),
                ("class", Int, 12),
            ],
        }
    }

    /// The type of a name, and the Talos 1.x that began it.
    fn name(self, name: &str) -> Option<(Type, u32)> {
        let of_memory = matches!(self, Self::MemoryShortage | Self::MemoryRanking);
        if self != Self::Links && UNITS.contains(&name) {
            return Some((Uint, 8));
        }
        if of_memory && CLASSES.contains(&name) {
            return Some((Int, 8));
        }
        if self == Self::MemoryShortage {
            let bare = name.strip_prefix("d_").unwrap_or(name);
            let parts: Vec<&str> = bare.split('_').collect();
            let pressure = |parts: &[&str]| {
                matches!(parts, ["memory", "some" | "full", "avg10" | "avg60" | "avg300" | "total"])
            };
            let by_class = Type::Map(&Int, &Double);
            match parts.split_first() {
                _ if pressure(&parts) => return Some((Double, 12)),
                Some((&"qos", rest)) if pressure(rest) => return Some((by_class, 12)),
                Some((&"qos", ["memory", "current" | "peak" | "max"])) => return Some((by_class, 12)),
                _ => {}
            }
        }
        self.names().iter().find(|(known, ..)| *known == name).map(|(_, of_type, since)| (*of_type, *since))
    }

    /// The Talos 1.x that began a function of Talos' own here.
    fn function(self, name: &str) -> Option<u32> {
        match (self, name) {
            (Self::Disks, "glob") => Some(9),
            (Self::Members, "glob") => Some(14),
            (Self::Links, "glob" | "mac") | (Self::MemoryShortage, "multiply_qos_vectors") => Some(12),
            _ => None,
        }
    }
}

/// What is wrong with an expression for Talos 1.`minor`, as a sentence without its subject.
pub(super) fn fault(text: &str, about: About, minor: u32) -> Option<String> {
    let wanted = if about == About::MemoryRanking { Double } else { Bool };
    match check::type_of(text, about, minor) {
        Err(message) => Some(message),
        Ok(found) if found == wanted || found == Dynamic => None,
        Ok(found) => Some(format!("says {found}, where it has to say {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{About, fault};

    #[test]
    fn a_number_without_its_digits_is_a_fault() {
        for bad in ["0x", "disk.size > 0xGB", "0X", "disk.size > 0xü"] {
            assert!(fault(bad, About::Disks, 12).is_some(), "{bad}");
        }
        assert_eq!(fault("disk.size > 0xFFu", About::Disks, 12), None);
    }

    #[test]
    fn what_talos_documents_is_understood() {
        for good in [
            "system_disk",
            "!system_disk",
            "disk.transport == \"nvme\" && !system_disk",
            "disk.size > 1000u * GiB && !disk.rotational",
            "glob('sd[a-z]', disk.dev_path)",
            "disk.size >= 10u * GB && disk.size <= 1u * TB || disk.model.startsWith(\"Samsung\")",
            "'/dev/disk/by-id/a' in disk.symlinks",
            "disk.symlinks.exists(link, link == '/dev/a' || link.contains(r\"\\d\"))",
            "disk.serial in ['a', 'b'] ? true : size(disk.model) > 3",
            "has(disk.model) // a comment",
            "disk.size % 2u == 0u",
            "disk.model.matches(\"^a\\\\d+$\")",
            "int(disk.size) > -5 && double(disk.size) / 2.0 > 1.5e3",
        ] {
            assert_eq!(fault(good, About::Disks, 12), None, "{good}");
        }
        assert_eq!(fault("mac(link.permanent_addr) == \"02:00:00:00:00:01\"", About::Links, 12), None);
        assert_eq!(fault("volume.partition_label == 'a' && disk.size > 1u", About::Volumes, 12), None);
        let trigger = "memory_full_avg10 > 12.0 && d_memory_full_avg10 > 0.0 && time_since_trigger > duration(\"500ms\")";
        assert_eq!(fault(trigger, About::MemoryShortage, 12), None);
        let ranking = "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5}[class] * double(memory_current.orValue(0u))";
        assert_eq!(fault(ranking, About::MemoryRanking, 12), None);
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (wrong, part) in [
            ("disk.transprt == \"nvme\"", "`disk` has no `transprt`; did you mean `transport`?"),
            ("dsk.transport == \"nvme\"", "`dsk` is not known here; did you mean `disk`?"),
            ("disk.size > 100", "`>` cannot be between an unsigned number and a number; write `100u`"),
            ("disk.size", "says an unsigned number, where it has to say true or false"),
            ("disk.transport = \"nvme\"", "`=` has no meaning here"),
            ("disk.transport == \"nvme", "has no end"),
            ("(system_disk", "ends where `)` should be"),
            ("system_disk disk", "`disk` should not be there"),
            ("", "is empty"),
            ("link.mtu > 5u", "`link` is not known here"),
            ("disk.firmware_version == 'a'", "came with v1.14"),
            ("globb('a', disk.model)", "there is no function `globb`; did you mean `glob`?"),
            ("glob('a')", "takes 2 values"),
            ("disk.model.startWith('a')", "there is no function `startWith`; did you mean `startsWith`?"),
            ("!disk.model", "`!` cannot be before a text"),
            ("disk.model && true", "`&&` cannot be between a text and true or false"),
        ] {
            let said = fault(wrong, About::Disks, 12).unwrap_or_default();
            assert!(said.contains(part), "{wrong}: {said}");
        }
    }
}
