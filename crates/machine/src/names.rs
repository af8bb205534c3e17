//! Names of the files and marks we leave in the world, and how they are read back without mistaking others' for ours.

use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::digest::{hex12, node_digest};
use crate::mark::SecretsId;

/// What nodes boot from, as computed from the inventory by whoever knows the Image Factory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRef {
    /// What Proxmox takes it for.
    #[serde(default)]
    pub content: Content,
    /// File name on the images storage, see [`image_file`].
    pub file: String,
    /// Where Proxmox downloads it from.
    pub url: String,
    /// Schematic id, computed offline: 64 hex digits.
    pub schematic_id: String,
}

impl ImageRef {
    /// Its volume id on a storage.
    pub fn volid(&self, storage: &str) -> String {
        self.content.volid(storage, &self.file)
    }
}

/// What an image is to Proxmox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// A disk image, to be imported.
    #[default]
    Import,
    /// A boot ISO.
    Iso,
}

impl Content {
    /// Proxmox's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Iso => "iso",
        }
    }

    /// The volume id of such a file on a storage.
    pub fn volid(self, storage: &str, file: &str) -> String {
        format!("{storage}:{}/{file}", self.as_str())
    }
}

/// What the nodes of a cluster boot from: one image for all, or one of its own for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// The image of every node that has none of its own; none where all of them do, or where the disk image or
    /// ISO that is declared lies on a storage already.
    pub shared: Option<ImageRef>,
    /// Images of single nodes, by node name.
    pub own: BTreeMap<String, ImageRef>,
    /// What installers are made of, where nodes install themselves from something that we do not download.
    pub installer: Option<String>,
    /// What `talosctl upgrade --image` takes to bring a node to the declared version and schematic.
    pub upgrade: Option<String>,
}

impl Images {
    /// The schematics that a node's system may be made of.
    pub fn schematics(&self, node: &str) -> impl Iterator<Item = &str> {
        let image = self.of(node).map(|image| image.schematic_id.as_str());
        image.into_iter().chain(self.installer.as_deref())
    }

    /// The image of a node.
    pub fn of(&self, node: &str) -> Option<&ImageRef> {
        self.own.get(node).or(self.shared.as_ref())
    }

    /// Every image once.
    pub fn all(&self) -> impl Iterator<Item = &ImageRef> {
        self.shared.iter().chain(self.own.values())
    }
}

impl From<ImageRef> for Images {
    fn from(image: ImageRef) -> Self {
        Self { shared: Some(image), ..Self::default() }
    }
}

/// File name of an image: version, first twelve digits of the schematic id, platform and architecture.
pub fn image_file(cluster: &Cluster, schematic_id: &str) -> String {
    let arch = cluster.talos.arch;
    let platform = if cluster.boot.own_images() { "metal" } else { "nocloud" };
    let ending = if cluster.boot.takes_iso() { "iso" } else { cluster.boot.format.as_str() };
    let secure = if cluster.talos.secure_boot { "-secureboot" } else { "" };
    format!("talos-v{}-{}-{platform}-{arch}{secure}.{ending}", cluster.talos.version, hex12(schematic_id))
}

/// The name of a role's template: its version and schematic, as a DNS name.
pub fn template_name(cluster: &Cluster, role: daedal_inventory::Role, schematic_id: &str) -> String {
    let version = cluster.talos.version.to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let role = match role {
        daedal_inventory::Role::ControlPlane => "controlplane",
        daedal_inventory::Role::Worker => "worker",
    };
    format!("talos-v{version}-{}-{role}", hex12(schematic_id))
}

/// Whether a VM is called as templates are, of whichever cluster.
pub fn is_template_name(name: &str) -> bool {
    name.starts_with("talos-v") && (name.ends_with("-controlplane") || name.ends_with("-worker"))
}

/// Volume id of a disk image on the images storage.
pub fn image_volid(storage: &str, file: &str) -> String {
    Content::Import.volid(storage, file)
}

/// Whether a volume is a boot ISO as this cluster's nodes get one, of whatever version; never a config medium.
pub fn is_boot_iso(cluster: &Cluster, volid: &str) -> bool {
    if cluster.boot.iso.as_deref() == Some(volid) {
        return true;
    }
    let file = volid_file(volid);
    let stem = file.strip_suffix(".iso").unwrap_or_default().trim_end_matches("-secureboot");
    let words: Vec<&str> = stem.rsplitn(4, '-').collect();
    let [_, platform, schematic, rest] = words[..] else { return false };
    Content::Iso.volid(&cluster.proxmox.images_storage, file) == volid
        && rest.starts_with("talos-v")
        && matches!(platform, "nocloud" | "metal")
        && schematic.len() == 12
        && schematic.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Volume id of a config medium on the images storage: an ISO, or a snippet.
pub fn media_volid(storage: &str, file: &str) -> String {
    let content = if file.trim_end_matches(PART).ends_with(SNIPPET) { SNIPPETS } else { "iso" };
    format!("{storage}:{content}/{file}")
}

/// Whether a storage's content of this type may be a config medium.
pub fn may_be_medium(content: &str) -> bool {
    matches!(content, "iso" | SNIPPETS)
}

/// The type of content that snippets are.
const SNIPPETS: &str = "snippets";
/// How a config medium that is a snippet ends.
const SNIPPET: &str = ".yaml";
/// What follows the name of a snippet that is not whole yet. One that a cut connection left is found by it: it holds keys.
const PART: &str = ".part";

/// File name of a node's config medium.
///
/// Cluster and node names are DNS labels, which may contain `-` but never `.`; dots between the parts keep the node
/// `2-cp` of cluster `home` apart from the node `cp` of cluster `home-2`. Eight digits of the cluster's uuid keep two
/// clusters of one name apart, eight of the secrets' id two stores that make the same cluster at once. A plan that is made
/// before there are secrets leaves those out; see [`signed`].
pub fn media_file(cluster: &Cluster, node: &Node, secrets: Option<&SecretsId>) -> String {
    media_file_of(cluster, &node.name, &node_digest(cluster, node), secrets)
}

/// Like [`media_file`], for a digest at hand.
pub fn media_file_of(cluster: &Cluster, node: &str, digest: &str, secrets: Option<&SecretsId>) -> String {
    let ending = if cluster.boot.by_snippet() { SNIPPET } else { ".iso" };
    let file = format!("daedal-{}.{node}.{}-{}{ending}", cluster.name, uuid8(cluster.uuid), hex12(digest));
    match secrets {
        Some(secrets) => signed(&file, secrets),
        None => file,
    }
}

/// The name of a config medium (or its volume id) with the id of secrets that are known by now.
pub fn signed(file: &str, secrets: &SecretsId) -> String {
    match file.rsplit_once('.') {
        Some((name, ending)) => format!("{name}-{}.{ending}", secrets.short()),
        None => file.to_owned(),
    }
}

/// Like [`media_node`], but none if the file was made with other secrets than these, or with any where there are none.
pub fn own_media_node<'a>(cluster: &Cluster, secrets: Option<&SecretsId>, file: &'a str) -> Option<&'a str> {
    let node = media_node(cluster, file)?;
    let id = file.trim_end_matches(PART).rsplit('.').nth(1)?.split('-').nth(2);
    id.is_none_or(|id| secrets.is_some_and(|secrets| secrets.short() == id)).then_some(node)
}

/// Which node of this cluster a config medium was made for; none if the file is not one of this cluster's.
pub fn media_node<'a>(cluster: &Cluster, file: &'a str) -> Option<&'a str> {
    let rest = file.strip_prefix("daedal-")?;
    let rest = rest.strip_suffix(".iso").or_else(|| rest.trim_end_matches(PART).strip_suffix(SNIPPET))?;
    let mut parts = rest.split('.');
    let (name, node, id) = (parts.next()?, parts.next()?, parts.next()?);
    let mut words = id.split('-');
    let (owner, digest, secrets) = (words.next()?, words.next()?, words.next());
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let ours = parts.next().is_none()
        && words.next().is_none()
        && name == cluster.name
        && !node.is_empty()
        && owner == uuid8(cluster.uuid)
        && is_hex(digest, 12)
        // Older versions wrote no id of the secrets.
        && secrets.is_none_or(|secrets| is_hex(secrets, 8));
    ours.then_some(node)
}

/// The file part of a volume id such as `local:iso/x.iso`.
pub fn volid_file(volid: &str) -> &str {
    volid.rsplit_once('/').map_or(volid, |(_, file)| file)
}

/// Tags every VM of this cluster carries, as Proxmox gives them back: lower-case, sorted, unique.
pub fn tags(cluster: &Cluster, node: &Node) -> Vec<String> {
    let mut tags: Vec<String> = ["daedal".to_owned(), format!("daedal-{}", cluster.name)]
        .into_iter()
        .chain(cluster.environment.clone())
        .chain(cluster.tags.iter().cloned())
        .chain(node.tags.iter().cloned())
        .map(|tag| tag.to_ascii_lowercase())
        .collect();
    tags.sort();
    tags.dedup();
    tags
}

fn uuid8(uuid: Uuid) -> String {
    let mut text = uuid.simple().to_string();
    text.truncate(8);
    text
}

#[cfg(test)]
mod tests {
    use daedal_inventory::BootConfig;

    use super::*;
    use crate::fixture;

    #[test]
    fn media_names_of_similar_clusters_and_nodes_stay_apart() {
        let home = fixture::home();
        let mut home2 = fixture::home();
        home2.name = "home-2".into();
        let mut twin = fixture::home();
        twin.uuid = Uuid::from_u128(7);
        let file = media_file(&home, &home.nodes[0], None);
        assert_eq!(media_node(&home, &file), Some("cp-1"));
        assert_eq!(media_node(&home2, &file), None);
        assert_eq!(media_node(&twin, &file), None);
        let mut odd = home.nodes[0].clone();
        odd.name = "2-cp-1".into();
        let odd_file = media_file(&home, &odd, None);
        assert_eq!(media_node(&home, &odd_file), Some("2-cp-1"));
        assert_eq!(media_node(&home2, &odd_file), None);
        for foreign in ["debian.iso", "daedal-home.iso", "daedal-home.cp-1.0-1.iso", "daedal-home.cp-1.iso"] {
            assert_eq!(media_node(&home, foreign), None, "{foreign}");
        }
        assert_eq!(volid_file(&media_volid("local", &file)), file);
    }

    #[test]
    fn media_of_other_secrets_are_somebody_elses() {
        let home = fixture::home();
        let (mine, theirs) = (SecretsId::derive(b"mine"), SecretsId::derive(b"theirs"));
        let unsigned = media_file(&home, &home.nodes[0], None);
        let file = media_file(&home, &home.nodes[0], Some(&mine));
        assert_eq!(signed(&unsigned, &mine), file);
        assert_eq!(signed(&media_volid("local", &unsigned), &mine), media_volid("local", &file));
        assert_eq!(media_node(&home, &file), Some("cp-1"));
        assert_eq!(own_media_node(&home, Some(&mine), &file), Some("cp-1"));
        for secrets in [Some(&theirs), None] {
            assert_eq!(own_media_node(&home, secrets, &file), None);
            assert_eq!(own_media_node(&home, secrets, &unsigned), Some("cp-1"), "of an older version");
        }
    }

    #[test]
    fn a_snippet_that_is_not_whole_is_known_by_its_name() {
        let mut home = fixture::home();
        home.boot.config = BootConfig::Snippet;
        let mine = SecretsId::derive(b"mine");
        for secrets in [None, Some(&mine)] {
            let file = media_file(&home, &home.nodes[0], secrets);
            assert!(file.ends_with(".yaml"), "{file}");
            for file in [file.clone(), format!("{file}.part")] {
                assert_eq!(own_media_node(&home, secrets, &file), Some("cp-1"));
                assert_eq!(media_volid("local", &file), format!("local:snippets/{file}"));
            }
        }
    }

    #[test]
    fn the_image_is_named_by_version_and_schematic() {
        let id = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";
        let mut home = fixture::home();
        assert_eq!(image_file(&home, id), "talos-v1.12.0-613e1592b2da-nocloud-amd64.qcow2");
        home.boot.from = daedal_inventory::BootFrom::Iso;
        assert_eq!(image_file(&home, id), "talos-v1.12.0-613e1592b2da-nocloud-amd64.iso");
    }

    #[test]
    fn boot_isos_are_told_from_media_and_other_peoples_files() {
        let mut home = fixture::home();
        home.boot.from = daedal_inventory::BootFrom::Iso;
        home.boot.iso = Some("nas:iso/talos.iso".into());
        let medium = media_volid("local", &media_file(&home, &home.nodes[0], None));
        for (volid, is) in [
            ("local:iso/talos-v1.11.3-613e1592b2da-nocloud-amd64.iso", true),
            ("local:iso/talos-v1.13.0-beta.1-613e1592b2da-metal-arm64.iso", true),
            ("nas:iso/talos.iso", true),
            ("local:iso/talos.iso", false),
            ("nas:iso/talos-v1.11.3-613e1592b2da-nocloud-amd64.iso", false),
            ("local:iso/debian-12-613e1592b2da-nocloud-amd64.iso", false),
            (medium.as_str(), false),
        ] {
            assert_eq!(is_boot_iso(&home, volid), is, "{volid}");
        }
    }
}
