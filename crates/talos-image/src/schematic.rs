//! What a Talos image is made of, and the id that the Image Factory gives it, computed offline.

use std::{cmp::Ordering, collections::BTreeMap};

use sha2::{Digest as _, Sha256};

use crate::emit::{Node, document};

/// What a Talos image is made of. Lists keep their order, which is part of the id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schematic {
    /// Board overlay.
    pub overlay: Option<Overlay>,
    /// Extra kernel arguments; a leading `-` removes one.
    pub kernel_args: Vec<String>,
    /// Initial META values.
    pub meta: Vec<MetaValue>,
    /// Official extensions, such as `siderolabs/qemu-guest-agent`.
    pub extensions: Vec<String>,
    /// Bootloader (`grub`, `sd-boot`, `dual-boot`), if not the default.
    pub bootloader: Option<String>,
    /// Secure boot options.
    pub secure_boot: SecureBoot,
    /// Sector size of disk images, if not the default.
    pub sector_size: Option<u32>,
}

/// A META value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaValue {
    /// Key, such as 0x0a.
    pub key: u8,
    /// Value.
    pub value: String,
}

/// A board overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Image, such as `siderolabs/sbc-raspberrypi`.
    pub image: String,
    /// Name, such as `rpi_generic`.
    pub name: String,
    /// Options.
    pub options: BTreeMap<String, OverlayOption>,
}

/// The value of an overlay option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayOption {
    /// A string.
    Text(String),
    /// A boolean.
    Flag(bool),
    /// An integer.
    Integer(i64),
}

/// Secure boot options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecureBoot {
    /// When keys are enrolled (`if-safe`, `manual`, `force`, `off`), if not the default.
    pub enroll_keys: Option<String>,
    /// Whether well-known UEFI certificates are among the enrolled.
    pub well_known_certificates: bool,
}

impl Schematic {
    /// A schematic of official extensions; names without a slash are `siderolabs/` ones.
    pub fn with_extensions<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let full = |name: S| {
            let name = name.as_ref();
            if name.contains('/') { name.to_owned() } else { format!("siderolabs/{name}") }
        };
        Self { extensions: names.into_iter().map(full).collect(), ..Self::default() }
    }

    /// The canonical text whose SHA-256 is the id.
    pub fn canonical_yaml(&self) -> String {
        let mut root = Vec::new();
        let mut add = |key: &str, node: Node| root.push((key.to_owned(), node));
        if let Some(overlay) = self.overlay.as_ref().filter(|overlay| **overlay != Overlay::default()) {
            add("overlay", overlay.node());
        }
        let mut parts = Vec::new();
        let mut put = |key: &str, node: Option<Node>| parts.extend(node.map(|node| (key.to_owned(), node)));
        put("extraKernelArgs", texts(&self.kernel_args));
        put("meta", list(self.meta.iter().map(MetaValue::node).collect()));
        let extensions =
            texts(&self.extensions).map(|list| Node::Map(vec![("officialExtensions".into(), list)]));
        put("systemExtensions", extensions);
        put("bootloader", self.bootloader.as_ref().map(Node::text));
        put("secureboot", self.secure_boot.node());
        let sectors = self.sector_size.map(|size| Node::Bare(size.to_string()));
        put("diskImage", sectors.map(|size| Node::Map(vec![("sectorSize".into(), size)])));
        add("customization", Node::Map(parts));
        document(&root)
    }

    /// The id: 64 hex digits.
    pub fn id(&self) -> String {
        hex::encode(Sha256::digest(self.canonical_yaml()))
    }
}

fn list(items: Vec<Node>) -> Option<Node> {
    (!items.is_empty()).then_some(Node::List(items))
}

fn texts(items: &[String]) -> Option<Node> {
    list(items.iter().map(Node::text).collect())
}

impl MetaValue {
    fn node(&self) -> Node {
        Node::Map(vec![
            ("key".into(), Node::Bare(self.key.to_string())),
            ("value".into(), Node::text(&self.value)),
        ])
    }
}

impl Overlay {
    fn node(&self) -> Node {
        let mut parts =
            vec![("image".into(), Node::text(&self.image)), ("name".into(), Node::text(&self.name))];
        if !self.options.is_empty() {
            let mut options: Vec<_> =
                self.options.iter().map(|(key, option)| (key.clone(), option.node())).collect();
            options.sort_by(|(a, _), (b, _)| natural_order(a, b));
            parts.push(("options".into(), Node::Map(options)));
        }
        Node::Map(parts)
    }
}

impl OverlayOption {
    fn node(&self) -> Node {
        match self {
            Self::Text(text) => Node::text(text),
            Self::Flag(flag) => Node::Bare(flag.to_string()),
            Self::Integer(number) => Node::Bare(number.to_string()),
        }
    }
}

impl SecureBoot {
    fn node(&self) -> Option<Node> {
        let mut parts = Vec::new();
        if let Some(enroll) = &self.enroll_keys {
            parts.push(("enrollKeys".to_owned(), Node::text(enroll)));
        }
        if self.well_known_certificates {
            parts.push(("includeWellKnownCertificates".to_owned(), Node::Bare("true".into())));
        }
        (!parts.is_empty()).then_some(Node::Map(parts))
    }
}

/// The order in which the library sorts map keys: numbers inside them by value, letters after other characters unless a
/// number precedes.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut after_digit = false;
    for at in 0..a.len().min(b.len()) {
        let (x, y) = (a[at], b[at]);
        if x == y {
            after_digit = x.is_ascii_digit();
            continue;
        }
        match (x.is_alphabetic(), y.is_alphabetic()) {
            (true, true) => return x.cmp(&y),
            (false, false) => {}
            // The one that is a letter goes first behind a digit, last elsewhere.
            (x_is_letter, _) => {
                return if x_is_letter == after_digit { Ordering::Less } else { Ordering::Greater };
            }
        }
        // Behind a digit other than 0, zeros count as part of the number.
        let inside_number = (x == '0' || y == '0')
            && a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
        let number = |chars: &[char]| {
            let digits = chars[at..].iter().take_while(|c| c.is_ascii_digit());
            digits.fold((i64::from(inside_number), 0), |(value, width), digit| {
                (value.wrapping_mul(10).wrapping_add(i64::from(u32::from(*digit) - 48)), width + 1)
            })
        };
        return number(&a).cmp(&number(&b)).then(x.cmp(&y));
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_ids_are_met() {
        assert_eq!(
            Schematic::default().id(),
            "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
        );
        assert_eq!(
            Schematic::with_extensions(["qemu-guest-agent"]).id(),
            "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
        );
        let with_meta = Schematic {
            meta: vec![MetaValue { key: 0xa, value: "{}".into() }],
            ..Schematic::with_extensions(["siderolabs/qemu-guest-agent", "siderolabs/tailscale"])
        };
        assert_eq!(with_meta.id(), "83d0b7bc573cb3e45dc5e08b23cba886e5f2748ba26710bed4e3d6b6943e7d3f");
    }

    #[test]
    fn the_text_is_laid_out_as_the_factory_does() {
        let option = |text: &str| OverlayOption::Text(text.into());
        let schematic = Schematic {
            overlay: Some(Overlay {
                image: "siderolabs/sbc-raspberrypi".into(),
                name: "rpi_generic".into(),
                options: [
                    ("x10".into(), option("a\nb\n")),
                    ("x9".into(), OverlayOption::Flag(true)),
                    ("on".into(), OverlayOption::Integer(-3)),
                ]
                .into(),
            }),
            kernel_args: vec!["net.ifnames=0".into(), "yes".into(), "a: b".into(), String::new()],
            meta: vec![MetaValue { key: 12, value: "one\n\ntwo".into() }],
            extensions: vec!["siderolabs/tailscale".into()],
            bootloader: Some("sd-boot".into()),
            secure_boot: SecureBoot { enroll_keys: None, well_known_certificates: true },
            sector_size: Some(4096),
        };
        let want = "\
overlay:
    image: siderolabs/sbc-raspberrypi
    name: rpi_generic
    options:
        \"on\": -3
        x9: true
        x10: |
            a
            b
customization:
    extraKernelArgs:
        - net.ifnames=0
        - \"yes\"
        - 'a: b'
        - \"\"
    meta:
        - key: 12
          value: |-
            one

            two
    systemExtensions:
        officialExtensions:
            - siderolabs/tailscale
    bootloader: sd-boot
    secureboot:
        includeWellKnownCertificates: true
    diskImage:
        sectorSize: 4096
";
        assert_eq!(schematic.canonical_yaml(), want);
        assert_eq!(Schematic::default().canonical_yaml(), "customization: {}\n");
    }

    proptest! {
        #[test]
        fn order_is_part_of_the_id(a in "[a-z]{1,9}", b in "[a-z]{1,9}") {
            prop_assume!(a != b);
            let one = Schematic::with_extensions([&a, &b]);
            let other = Schematic::with_extensions([&b, &a]);
            prop_assert_ne!(one.id(), other.id());
        }
    }
}
