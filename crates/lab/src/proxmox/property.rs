//! Property strings (`local:8,discard=on,size=8G`) and sizes, as Proxmox reads and prints them.

use std::collections::BTreeMap;

/// A property string: the value without a key, if any, and the others by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) bare: Option<String>,
    pub(crate) keyed: BTreeMap<String, String>,
}

impl Properties {
    pub(crate) fn parse(text: &str) -> Self {
        let mut properties = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => {
                    properties.keyed.insert(key.into(), value.into());
                }
                None => properties.bare = Some(part.into()),
            }
        }
        properties
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.keyed.get(key).map(String::as_str)
    }

    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.keyed.insert(key.into(), value.into());
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        self.keyed.remove(key)
    }

    /// The bare value first, then the keys in order.
    pub(crate) fn print(&self) -> String {
        let keyed = self.keyed.iter().map(|(key, value)| format!("{key}={value}"));
        self.bare.iter().cloned().chain(keyed).collect::<Vec<_>>().join(",")
    }
}

/// Whether a property-string boolean is true: here, unlike at top level, words are allowed.
pub(crate) fn truthy(text: &str) -> bool {
    matches!(text, "1" | "on" | "yes" | "true")
}

/// `8G`, `64M`, `528K` or plain bytes.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 1u64 << 10),
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    let value: f64 = number.parse().ok()?;
    (value >= 0.0).then_some((value * factor as f64) as u64)
}

/// The largest unit that divides evenly.
pub(crate) fn print_size(bytes: u64) -> String {
    let mut value = bytes;
    for unit in ["", "K", "M", "G", "T"] {
        if value == 0 || !value.is_multiple_of(1024) || unit == "T" {
            return format!("{value}{unit}");
        }
        value /= 1024;
    }
    format!("{bytes}")
}

const NIC_MODELS: &[&str] = &[
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    pub(crate) model: String,
    pub(crate) mac: Option<String>,
    pub(crate) rest: BTreeMap<String, String>,
}

impl Nic {
    /// Reads both spellings, `virtio=MAC,…` and `model=virtio,macaddr=MAC,…`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut properties = Properties::parse(text);
        let keyed = NIC_MODELS
            .iter()
            .find_map(|model| properties.keyed.remove(*model).map(|mac| (model.to_string(), Some(mac))));
        let (model, mac) = match (keyed, properties.bare.take(), properties.take("model")) {
            (Some(both), _, _) => both,
            (None, Some(model), _) | (None, None, Some(model)) => (model, None),
            _ => return None,
        };
        if !NIC_MODELS.contains(&model.as_str()) {
            return None;
        }
        let mac = mac.or_else(|| properties.take("macaddr")).map(|mac| mac.to_uppercase());
        Some(Self { model, mac, rest: properties.keyed })
    }

    pub(crate) fn print(&self) -> String {
        let first = match &self.mac {
            Some(mac) => format!("{}={mac}", self.model),
            None => self.model.clone(),
        };
        let rest = self.rest.iter().map(|(key, value)| format!("{key}={value}"));
        std::iter::once(first).chain(rest).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn bridge(&self) -> Option<&str> {
        self.rest.get("bridge").map(String::as_str)
    }
}

pub(crate) fn is_nic_model(text: &str) -> bool {
    NIC_MODELS.contains(&text)
}

/// Tags: split on comma, semicolon and space, lower-cased, sorted, unique.
pub(crate) fn normal_tags(text: &str) -> String {
    let mut tags: Vec<String> =
        text.split([',', ';', ' ', '\0']).filter(|tag| !tag.is_empty()).map(str::to_lowercase).collect();
    tags.sort();
    tags.dedup();
    tags.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_in_the_largest_even_unit() {
        for text in ["528K", "64M", "1G", "128M", "2T", "196616"] {
            assert_eq!(print_size(parse_size(text).unwrap()), text);
        }
        assert_eq!(print_size(1536 << 20), "1536M");
    }

    #[test]
    fn disks_print_with_sorted_keys() {
        let disk = Properties::parse("local:900/vm-900-disk-1.qcow2,iothread=1,discard=on,ssd=1,size=64M");
        assert_eq!(disk.print(), "local:900/vm-900-disk-1.qcow2,discard=on,iothread=1,size=64M,ssd=1");
    }

    #[test]
    fn both_spellings_of_a_nic_are_one() {
        let short = Nic::parse("virtio=bc:24:11:00:09:00,bridge=vmbr0,tag=20").unwrap();
        let long = Nic::parse("model=virtio,macaddr=BC:24:11:00:09:00,tag=20,bridge=vmbr0").unwrap();
        assert_eq!(short, long);
        assert_eq!(short.print(), "virtio=BC:24:11:00:09:00,bridge=vmbr0,tag=20");
    }

    #[test]
    fn tags_are_lower_sorted_and_unique() {
        assert_eq!(normal_tags("talos;CP, b a;cp"), "a;b;cp;talos");
    }
}
