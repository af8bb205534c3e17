//! Documents and wishes to delete, made at random from the table of fields.

use std::collections::BTreeMap;

use rand::{Rng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Map, Value as Json, json};

/// A field of the table, with what is below it.
#[derive(Default)]
pub(super) struct Field {
    shape: char,
    pub(super) since: u32,
    pub(super) below: BTreeMap<String, Field>,
}

/// Every kind of document with its fields; the main one has the empty kind.
pub(super) fn fields() -> BTreeMap<String, Field> {
    let text = include_str!("../../../src/config/schema/fields.txt");
    let mut kinds: BTreeMap<String, Field> = BTreeMap::new();
    let mut kind = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            kind = if words[0] == "main" { String::new() } else { words[0].to_owned() };
            let since = words.get(1).map_or(12, |word| word.parse().unwrap());
            kinds.insert(kind.clone(), Field { shape: 'O', since, ..Field::default() });
            continue;
        }
        let root = kinds.get_mut(&kind).unwrap();
        // What may be shown of a field does not matter here.
        let since = words[2..].iter().find_map(|word| word.parse().ok()).unwrap_or(root.since);
        let mut field = root;
        for key in words[0].split('.') {
            field = field.below.entry(key.to_owned()).or_insert_with(|| Field {
                shape: 'O',
                since,
                ..Field::default()
            });
        }
        field.shape = words[1].chars().next().unwrap();
    }
    kinds
}

struct Maker<'a> {
    rng: &'a mut StdRng,
    minor: u32,
    kind: &'a str,
}

impl Maker<'_> {
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(self.rng).unwrap()
    }

    /// A value for a field, or nothing if there is none to be had.
    fn value(&mut self, field: &Field, name: &str, depth: u32) -> Option<Json> {
        Some(match field.shape {
            _ if field.since > self.minor => return None,
            // Keys without a value.
            _ if depth > 1 && self.rng.gen_bool(0.03) => Json::Null,
            'B' => self.rng.r#gen::<bool>().into(),
            'N' => self.one_of(&[0, 1, 2, 1500]).into(),
            'D' => self.one_of(&["0s", "30s", "1m0s"]).into(),
            'U' => self
                .one_of(&["https://a.example.org:8443/x", "http://b", "https://c/y?z=1", "tcp://d:9/"])
                .into(),
            'A' => {
                let first =
                    if self.minor > 12 { self.one_of(&["", "1", "2"]) } else { self.one_of(&["1", "2"]) };
                let second = if self.rng.gen_bool(0.1) { Json::Null } else { json!("3") };
                json!({"alpha": first, (self.one_of(&["beta", "gamma"])): second})
            }
            'K' => json!({"key": self.one_of(&["QUJD", "REVG", ""])}),
            'P' => {
                let mut pair = json!({});
                for part in ["crt", "key"] {
                    if self.rng.gen_bool(0.7) {
                        pair[part] = self.one_of(&["QUJD", "REVG", ""]).into();
                    }
                }
                pair
            }
            'F' => self.free(2),
            'T' => self.text(name).into(),
            _ if field.below.contains_key("[]") || field.shape == 'L' => {
                let item = field.below.get("[]")?;
                let items: Vec<Json> =
                    (0..self.rng.gen_range(0..3)).filter_map(|_| self.value(item, name, depth + 1)).collect();
                items.into()
            }
            _ if field.below.contains_key("*") => {
                let entry = &field.below["*"];
                let mut map = Map::new();
                for _ in 0..self.rng.gen_range(0..3) {
                    let key = self.one_of(&["one", "two", "three"]);
                    map.insert(key.into(), self.value(entry, name, depth + 1)?);
                }
                map.into()
            }
            _ => {
                let share = if depth == 0 { 0.25 } else { 0.5 };
                let mut object = Map::new();
                for (key, below) in &field.below {
                    if key != "name"
                        && self.rng.gen_bool(share)
                        && let Some(value) = self.value(below, key, depth + 1)
                    {
                        object.insert(key.clone(), value);
                    }
                }
                // Elements of lists need their names.
                if depth > 0 && field.below.contains_key("name") {
                    object.insert("name".into(), self.one_of(&["one", "two"]).into());
                }
                object.into()
            }
        })
    }

    fn free(&mut self, depth: u32) -> Json {
        let mut map = Map::new();
        for key in ["number", "text", "flag", "list", "map"] {
            if self.rng.gen_bool(0.4) {
                let value = match key {
                    "number" => self.rng.gen_range(0..3).into(),
                    "text" => self.one_of(&["", "a", "b"]).into(),
                    "flag" => self.rng.r#gen::<bool>().into(),
                    "list" => {
                        (0..self.rng.gen_range(0..3)).map(|_| json!(self.one_of(&["x", "y"]))).collect()
                    }
                    _ if depth > 0 => self.free(depth - 1),
                    _ => json!({}),
                };
                // Now and then of another type than before.
                let value = if self.rng.gen_bool(0.02) { "other".into() } else { value };
                let value = if self.rng.gen_bool(0.03) { Json::Null } else { value };
                map.insert(key.into(), value);
            }
        }
        map.into()
    }

    /// Texts that the real decoder accepts at most places of that name.
    fn text(&mut self, name: &str) -> &'static str {
        let disk = ["disk.size > 1u", "!system_disk"];
        match name {
            "match" | "triggerExpression" | "cgroupRankingExpression" => match self.kind {
                "LinkAliasConfig" => self.one_of(&["link.mtu == 1500", "link.driver == \"virtio_net\""]),
                "ExistingVolumeConfig" => self.one_of(&["volume.label == \"a\"", "volume.size > 1u"]),
                "OOMConfig" => self.one_of(&["memory_full_avg10 > 12.0", "true"]),
                _ => self.one_of(&disk),
            },
            "minSize" | "maxSize" | "minAllocationGroupSize" => self.one_of(&["1GiB", "2GiB", "10GiB"]),
            "address"
                if self.kind.ends_with("Config")
                    && !matches!(self.kind, "ResolverConfig" | "BGPInstanceConfig") =>
            {
                self.one_of(&["10.1.0.1/24", "fd00::1/64"])
            }
            "destination"
            | "src"
            | "dst"
            | "podSubnets"
            | "serviceSubnets"
            | "subnet"
            | "except"
            | "excludeAdvertisedNetworks"
            | "allowedIPs"
            | "network"
                if !self.kind.is_empty() =>
            {
                self.one_of(&["10.2.0.0/16", "10.3.0.0/16"])
            }
            "gateway" | "source" | "address" | "routerID" | "routeSource" | "arpIpTargets"
                if !self.kind.is_empty() =>
            {
                self.one_of(&["10.1.0.254", "10.1.0.253"])
            }
            "nsIp6Targets" => "fd00::9",
            "hardwareAddr" | "duidRaw" => self.one_of(&["02:00:00:00:00:01", "02:00:00:00:00:02"]),
            "bondMode" => self.one_of(&["balance-rr", "active-backup", "802.3ad"]),
            "xmitHashPolicy" => self.one_of(&["layer2", "layer3+4"]),
            "lacpRate" => self.one_of(&["slow", "fast"]),
            "arpValidate" => self.one_of(&["none", "active"]),
            "arpAllTargets" => self.one_of(&["any", "all"]),
            "failOverMac" => self.one_of(&["none", "active"]),
            "adSelect" => self.one_of(&["stable", "bandwidth"]),
            "adLACPActive" => self.one_of(&["on", "off"]),
            "primaryReselect" => self.one_of(&["always", "better"]),
            "auto" => self.one_of(&["stable", "off"]),
            "volumeType" => self.one_of(&["partition", "directory", "disk"]),
            "clientIdentifier" => self.one_of(&["none", "mac", "duid"]),
            "vlanMode" => self.one_of(&["802.1q", "802.1ad"]),
            "provider" => "luks2",
            "filesystemType" => "virtiofs",
            "type" if self.kind.contains("Volume") => self.one_of(&["xfs", "ext4"]),
            "table" => self.one_of(&["main", "local"]),
            "protocol" => self.one_of(&["tcp", "udp"]),
            "ports" => self.one_of(&["80", "1000-2000"]),
            "ingress" => self.one_of(&["accept", "block"]),
            "ca" if self.kind.is_empty() => self.one_of(&["QUJD", "REVG"]),
            "size" => ">= 1GB",
            "permissions" | "mode" => "0o600",
            _ => self.one_of(&["", "w1", "w2", "w3"]),
        }
    }
}

/// Turns something that is there into a wish to delete it.
pub(super) fn delete_something(config: &Json, patch: &mut Json, rng: &mut StdRng) {
    let (mut at, mut place) = (config, patch);
    loop {
        match at {
            Json::Object(fields) => {
                let keys: Vec<&String> = fields
                    .keys()
                    .filter(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "name" | "version"))
                    .collect();
                let Some(key) = keys.choose(rng) else { return };
                let below = &fields[key.as_str()];
                if !place.is_object() {
                    return;
                }
                if rng.gen_bool(0.4) || !matches!(below, Json::Object(_) | Json::Array(_)) {
                    place[key.as_str()] = json!({"$patch": "delete"});
                    return;
                }
                at = below;
                let slot = &mut place[key.as_str()];
                if slot.is_null() {
                    *slot = if below.is_array() { json!([]) } else { json!({}) };
                }
                place = slot;
            }
            Json::Array(items) => {
                if let (Some(Json::Object(item)), Json::Array(list)) = (items.choose(rng), place)
                    && let Some((key, value)) =
                        item.iter().find(|(_, value)| value.is_string() || value.is_number())
                {
                    list.push(json!({key.as_str(): value, "$patch": "delete"}));
                }
                return;
            }
            _ => return,
        }
    }
}

/// A document of a kind with random contents.
pub(super) fn document(kind: &str, field: &Field, minor: u32, named: bool, rng: &mut StdRng) -> Json {
    let mut maker = Maker { rng, minor, kind };
    if kind.is_empty() {
        // One or two corners of the main document, so that most of it decodes.
        let mut main = json!({});
        for _ in 0..maker.rng.gen_range(1..3) {
            let section = maker.one_of(&["machine", "cluster"]);
            let corners = &field.below[section].below;
            let names: Vec<&String> = corners.keys().collect();
            let name = names.choose(maker.rng).unwrap().as_str();
            if let Some(value) = maker.value(&corners[name], name, 1) {
                main[section][name] = value;
            }
        }
        return main;
    }
    let mut document = maker.value(field, "", 0).unwrap_or_else(|| json!({}));
    document["apiVersion"] = "v1alpha1".into();
    document["kind"] = kind.into();
    if named {
        document["name"] = match kind {
            "Layer2VIPConfig" => "10.0.0.9",
            "VolumeConfig" => "EPHEMERAL",
            _ => "one",
        }
        .into();
    }
    document
}

pub(super) fn yaml(documents: &[Json]) -> String {
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}
