//! Parameters as Proxmox reads them: form bodies, query strings, property strings, paths.

use std::{collections::BTreeMap, fmt::Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but unreserved characters. Proxmox splits form bodies at `;` too and cuts values at a second `=`.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Path segments as Proxmox's own clients write them: `:`, `@` and `!` stay, as UPIDs and volume ids have them.
const SEGMENT: &AsciiSet = &VALUE.remove(b':').remove(b'@').remove(b'!');

/// Parameters in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one.
    #[expect(clippy::needless_pass_by_value, reason = "texts and numbers are given alike")]
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) -> &mut Self {
        self.0.push((name.into(), value.to_string()));
        self
    }

    /// Sets one if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl ToString>) -> &mut Self {
        if let Some(value) = value {
            self.set(name, value);
        }
        self
    }

    /// Sets a boolean, which Proxmox takes as 0 or 1 only.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.set(name, u8::from(value))
    }

    /// The value of the last parameter of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a form body or query string.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.iter() {
            if !text.is_empty() {
                text.push('&');
            }
            let _ =
                write!(text, "{}={}", utf8_percent_encode(name, VALUE), utf8_percent_encode(value, VALUE));
        }
        text
    }
}

/// One path segment, encoded.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// A path tail whose slashes stay (volume ids).
pub(crate) fn tail(text: &str) -> String {
    text.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A property string, `virtio=BC:24:…,bridge=vmbr0`: comma-separated, the first part sometimes without key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The part without key, if any.
    pub head: Option<String>,
    /// The others.
    pub rest: BTreeMap<String, String>,
}

impl Properties {
    /// Reads one. Of parts without key only the first counts.
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => {
                    all.rest.insert(key.to_owned(), value.to_owned());
                }
                None if all.head.is_none() => all.head = Some(part.to_owned()),
                None => {}
            }
        }
        all
    }

    /// A value by key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.rest.get(key).map(String::as_str)
    }

    /// A boolean by key; Proxmox takes several spellings inside property strings.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("1" | "on" | "yes" | "true"))
    }
}

/// A size as Proxmox writes it (`64M`, `528K`, `32G`, plain bytes), in bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    let unit = 1u64 << shift;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if fraction.is_empty() {
        return if digits.contains('.') { None } else { Some(whole) };
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// A size as Proxmox likes it: the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    /// Reads a form body as Proxmox does: parts end at `&` or `;`, the value ends at the next `=`.
    fn read_as_proxmox(body: &str) -> Vec<(String, String)> {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().unwrap().into_owned();
        body.split(['&', ';'])
            .filter(|part| !part.is_empty())
            .map(|part| {
                let mut fields = part.split('=');
                (decode(fields.next().unwrap_or("")), decode(fields.next().unwrap_or("")))
            })
            .collect()
    }

    #[test]
    fn a_nic_survives() {
        let mut params = Params::new();
        params.set("net0", "virtio=BC:24:11:00:09:00,bridge=vmbr0").set("boot", "order=scsi0;ide2");
        params.flag("onboot", true).set_some("pool", None::<&str>);
        assert_eq!(
            params.encode(),
            "net0=virtio%3DBC%3A24%3A11%3A00%3A09%3A00%2Cbridge%3Dvmbr0&boot=order%3Dscsi0%3Bide2&onboot=1"
        );
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("64M", 64 << 20), ("528K", 528 << 10), ("40G", 40 << 30), ("2T", 2 << 40), ("4194304", 4 << 20)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_size("2.5G"), Some(5 << 29));
        for text in ["", "G", "-1G", "1.G", "1..2G", "99999999999999999999G", "1 G", "é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!((format_size(40 << 30), format_size(1025)), ("40G".to_owned(), "1025".to_owned()));
    }

    #[test]
    fn property_strings_are_read() {
        let disk = Properties::parse("local:900/vm-900-disk-1.qcow2,discard=on,iothread=1,size=64M");
        assert_eq!(disk.head.as_deref(), Some("local:900/vm-900-disk-1.qcow2"));
        assert_eq!(
            (disk.get("size"), disk.flag("iothread"), disk.flag("discard")),
            (Some("64M"), true, true)
        );
        assert!(!disk.flag("ssd"));
    }

    #[test]
    fn paths_keep_what_proxmox_writes() {
        assert_eq!(segment("UPID:a:1:b@pam!t:"), "UPID:a:1:b@pam!t:");
        assert_eq!(segment("a/../b?c"), "a%2F..%2Fb%3Fc");
        assert_eq!(tail("local:iso/x y.iso"), "local:iso/x%20y.iso");
    }

    proptest! {
        #[test]
        fn any_form_survives_proxmox(pairs in prop::collection::vec(("[a-z0-9-]{1,12}", "(?s).{0,40}"), 0..6)) {
            let mut params = Params::new();
            for (name, value) in &pairs {
                params.set(name.as_str(), value);
            }
            prop_assert_eq!(read_as_proxmox(&params.encode()), pairs);
        }

        #[test]
        fn sizes_survive(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }

        #[test]
        fn any_size_text_is_judged_without_panic(text in "\\PC{0,30}") {
            let _ = parse_size(&text);
            let _ = Properties::parse(&text);
        }
    }
}
