//! VM options: which there are, what they must look like, which privilege they need, how they read back.

use serde_json::{Map, Value};

use super::access::Who;
use super::property::{Properties, is_nic_model};
use super::schema::{Kind, NAME, dns_name, tag_list};
use super::state::Config;

/// Splits `scsi12` into `scsi` and 12; names without an index stay whole.
pub(crate) fn indexed(name: &str) -> (&str, Option<u32>) {
    let end = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    (&name[..end], name[end..].parse().ok())
}

/// Whether an option is a drive.
pub(crate) fn is_drive(name: &str) -> bool {
    match indexed(name) {
        ("scsi", Some(index)) => index <= 30,
        ("virtio", Some(index)) => index <= 15,
        ("sata", Some(index)) => index <= 5,
        ("ide", Some(index)) => index <= 3,
        ("efidisk" | "tpmstate", Some(0)) => true,
        _ => false,
    }
}

/// Whether a drive's value is a CD drive.
pub(crate) fn is_cdrom(value: &str) -> bool {
    let drive = Properties::parse(value);
    drive.get("media") == Some("cdrom")
        || matches!(drive.bare.as_deref().or_else(|| drive.get("file")), Some("cdrom" | "none"))
}

/// The snippet that is put on a VM's cloud-init drive.
pub(crate) fn snippet(config: &Config) -> Option<&str> {
    config.get("cicustom")?.split(',').find_map(|part| part.strip_prefix("user="))
}

/// Whether a drive is, or is to become, Proxmox's own cloud-init drive.
pub(crate) fn is_cloudinit(value: &str) -> bool {
    let volume = value.split(',').next().unwrap_or_default();
    volume.ends_with(":cloudinit") || volume.contains("-cloudinit")
}

/// The volume of a drive, if it names one.
pub(crate) fn drive_volume(value: &str) -> Option<String> {
    let drive = Properties::parse(value);
    let file = drive.bare.or_else(|| drive.keyed.get("file").cloned())?;
    file.contains(':').then_some(file)
}

const DRIVE_KEYS: &[&str] = &[
    "aio",
    "backup",
    "bps",
    "bps_max_length",
    "bps_rd",
    "bps_rd_max_length",
    "bps_wr",
    "bps_wr_max_length",
    "cache",
    "cyls",
    "detect_zeroes",
    "discard",
    "efitype",
    "file",
    "format",
    "heads",
    "import-from",
    "iops",
    "iops_max",
    "iops_max_length",
    "iops_rd",
    "iops_rd_max",
    "iops_rd_max_length",
    "iops_wr",
    "iops_wr_max",
    "iops_wr_max_length",
    "iothread",
    "mbps",
    "mbps_max",
    "mbps_rd",
    "mbps_rd_max",
    "mbps_wr",
    "mbps_wr_max",
    "media",
    "model",
    "ms-cert",
    "pre-enrolled-keys",
    "product",
    "queues",
    "replicate",
    "rerror",
    "ro",
    "scsiblock",
    "secs",
    "serial",
    "shared",
    "size",
    "snapshot",
    "ssd",
    "trans",
    "vendor",
    "version",
    "werror",
    "wwn",
];
const NET_KEYS: &[&str] =
    &["bridge", "firewall", "link_down", "macaddr", "model", "mtu", "queues", "rate", "tag", "trunks"];
const AGENT_KEYS: &[&str] = &["enabled", "freeze-fs", "freeze-fs-on-backup", "fstrim_cloned_disks", "type"];
const SMBIOS_KEYS: &[&str] =
    &["base64", "family", "manufacturer", "product", "serial", "sku", "uuid", "version"];
const CPU_KEYS: &[&str] =
    &["cputype", "flags", "guest-phys-bits", "hidden", "hv-vendor-id", "phys-bits", "reported-model"];
const IPCONFIG_KEYS: &[&str] = &["gw", "gw6", "ip", "ip6"];

fn unknown_key(option: &str, text: &str, known: &[&str]) -> Result<(), String> {
    let properties = Properties::parse(text);
    match properties.keyed.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "format error\n{option}.{key}: property is not defined in schema and the schema does not allow \
             additional properties"
        )),
        None => Ok(()),
    }
}

fn valid_mac(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    parts.len() == 6
        && parts.iter().all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
        && u8::from_str_radix(parts[0], 16).is_ok_and(|first| first & 1 == 0)
}

fn net(option: &str, text: &str) -> Result<(), String> {
    let mut properties = Properties::parse(text);
    let models: Vec<String> = properties.keyed.keys().filter(|key| is_nic_model(key)).cloned().collect();
    let mut macs: Vec<String> = models.iter().filter_map(|model| properties.take(model)).collect();
    macs.extend(properties.get("macaddr").map(str::to_owned));
    if let Some(mac) = macs.iter().find(|mac| !valid_mac(mac)) {
        return Err(format!(
            "format error\n{option}.macaddr: value does not look like a valid unicast MAC address ({mac})"
        ));
    }
    let bare = properties.bare.take();
    unknown_key(option, &properties.print(), NET_KEYS)?;
    if models.is_empty() && bare.is_none() && properties.get("model").is_none() {
        return Err(format!("format error\n{option}.model: property is missing and it is not optional"));
    }
    Ok(())
}

fn memory(text: &str) -> Result<(), String> {
    let properties = Properties::parse(text);
    let value = properties.bare.as_deref().or_else(|| properties.get("current")).unwrap_or_default();
    match value.parse::<i64>() {
        Err(_) => Err(format!("format error\nmemory.current: type check ('integer') failed - got '{value}'")),
        Ok(number) if number < 16 => {
            Err("format error\nmemory.current: value must have a minimum value of 16".into())
        }
        Ok(_) => Ok(()),
    }
}

macro_rules! keyed {
    ($name:literal, $keys:ident) => {
        Kind::Format(|text| unknown_key($name, text, $keys))
    };
}

/// What an option's value must look like; none for an unknown option.
pub(crate) fn option_kind(name: &str) -> Option<Kind> {
    if is_drive(name) {
        return Some(keyed!("drive", DRIVE_KEYS));
    }
    Some(match indexed(name) {
        ("net", Some(index)) if index <= 31 => Kind::Format(|text| net("net0", text)),
        ("ipconfig", Some(index)) if index <= 31 => keyed!("ipconfig0", IPCONFIG_KEYS),
        ("unused" | "hostpci" | "usb" | "numa" | "parallel" | "virtiofs" | "serial", Some(_)) => Kind::Text,
        ("smbios", Some(1)) => keyed!("smbios1", SMBIOS_KEYS),
        ("audio" | "rng", Some(0)) => Kind::Text,
        (whole, None) => match whole {
            "cores" | "sockets" | "vcpus" => Kind::Int(1, 512),
            "cpuunits" => Kind::Int(1, 262_144),
            "balloon" => Kind::Int(0, i64::MAX),
            "shares" => Kind::Int(0, 50_000),
            "cpulimit" => Kind::Range(0, 128),
            "migrate_downtime" => Kind::Range(0, i64::MAX),
            "migrate_speed" => Kind::Int(0, i64::MAX),
            "smp" => Kind::Int(1, i64::MAX),
            "hugepages" => Kind::OneOf(&["any", "2", "1024"]),
            "keyboard" => Kind::OneOf(&[
                "de", "de-ch", "da", "en-gb", "en-us", "es", "fi", "fr", "fr-be", "fr-ca", "fr-ch", "hu",
                "is", "it", "ja", "lt", "mk", "nl", "no", "pl", "pt", "pt-br", "sv", "sl", "tr",
            ]),
            "acpi" | "allow-ksm" | "autostart" | "ciupgrade" | "freeze" | "keephugepages" | "kvm"
            | "localtime" | "numa" | "onboot" | "protection" | "reboot" | "tablet" | "tdf" | "template" => {
                Kind::Bool
            }
            "bios" => Kind::OneOf(&["seabios", "ovmf"]),
            "ostype" => Kind::OneOf(&[
                "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24",
                "l26", "solaris",
            ]),
            "scsihw" => Kind::OneOf(&[
                "lsi",
                "lsi53c810",
                "virtio-scsi-pci",
                "virtio-scsi-single",
                "megasas",
                "pvscsi",
            ]),
            "citype" => Kind::OneOf(&["configdrive2", "nocloud", "opennebula"]),
            "lock" => Kind::OneOf(&[
                "backup",
                "clone",
                "create",
                "migrate",
                "rollback",
                "snapshot",
                "snapshot-delete",
                "suspending",
                "suspended",
            ]),
            "arch" => Kind::OneOf(&["x86_64", "aarch64"]),
            "memory" => Kind::Format(memory),
            "name" => NAME,
            "tags" => Kind::Format(tag_list),
            "agent" => keyed!("agent", AGENT_KEYS),
            "cpu" => keyed!("cpu", CPU_KEYS),
            "searchdomain" => Kind::Format(dns_name),
            "affinity" | "amd-sev" | "args" | "boot" | "bootdisk" | "cdrom" | "cicustom" | "cipassword"
            | "ciuser" | "description" | "hookscript" | "hotplug" | "intel-tdx" | "ivshmem" | "machine"
            | "nameserver" | "spice_enhancements" | "sshkeys" | "startdate" | "startup" | "vga"
            | "vmgenid" | "vmstatestorage" | "watchdog" => Kind::Text,
            _ => return None,
        },
        _ => return None,
    })
}

/// Which privileges (one of them) an option needs; an error text for options that only root may set.
pub(crate) fn option_privileges(name: &str, who: &Who) -> Result<&'static [&'static str], String> {
    Ok(match indexed(name) {
        ("net", Some(_)) => &["VM.Config.Network"],
        ("ipconfig", Some(_)) => &["VM.Config.Cloudinit", "VM.Config.Network"],
        ("serial" | "usb" | "hostpci" | "audio" | "rng" | "smbios" | "virtiofs", Some(_)) => {
            &["VM.Config.HWType"]
        }
        ("numa", Some(_)) => &["VM.Config.CPU"],
        ("unused", Some(_)) => &["VM.Config.Disk"],
        _ if is_drive(name) => &["VM.Config.Disk"],
        _ => match name {
            "cores" | "cpu" | "cpulimit" | "cpuunits" | "numa" | "smp" | "sockets" | "vcpus" => {
                &["VM.Config.CPU"]
            }
            "memory" | "balloon" | "shares" | "allow-ksm" => &["VM.Config.Memory"],
            "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "tablet" | "vga" | "watchdog" => {
                &["VM.Config.HWType"]
            }
            "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime"
            | "migrate_downtime" | "migrate_speed" | "name" | "onboot" | "ostype" | "protection"
            | "reboot" | "startdate" | "startup" | "tags" | "tdf" | "template" => &["VM.Config.Options"],
            "freeze" => &["VM.PowerMgmt"],
            "boot" | "bootdisk" | "vmstatestorage" => &["VM.Config.Disk"],
            "cicustom" | "cipassword" | "citype" | "ciupgrade" | "ciuser" | "nameserver" | "searchdomain"
            | "sshkeys" => &["VM.Config.Cloudinit", "VM.Config.Network"],
            _ if who.is_root() => &[],
            _ => return Err(format!("only root can set '{name}' config")),
        },
    })
}

/// A value as the API prints it: numbers for integer and boolean options, text for all others.
pub(crate) fn typed(name: &str, value: &str) -> Value {
    match option_kind(name) {
        Some(Kind::Int(..) | Kind::Bool) => value.parse::<i64>().map_or_else(|_| value.into(), Value::from),
        _ => value.into(),
    }
}

/// A whole configuration as the API prints it.
pub(crate) fn to_json(config: &Config) -> Map<String, Value> {
    config.iter().map(|(name, value)| (name.clone(), typed(name, value))).collect()
}

/// Bytes of memory.
pub(crate) fn memory_bytes(config: &Config) -> u64 {
    let text = config.get("memory").map_or("512", String::as_str);
    let properties = Properties::parse(text);
    let mib =
        properties.bare.as_deref().or_else(|| properties.get("current")).and_then(|mib| mib.parse().ok());
    mib.unwrap_or(512u64) << 20
}

/// vCPUs.
pub(crate) fn cpus(config: &Config) -> u32 {
    let number = |name: &str| config.get(name).and_then(|text| text.parse().ok()).unwrap_or(1u32);
    config
        .get("vcpus")
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| number("cores") * number("sockets"))
}

/// Whether the guest agent option is on.
pub(crate) fn agent_enabled(config: &Config) -> bool {
    config.get("agent").is_some_and(|text| {
        let properties = Properties::parse(text);
        let value = properties.bare.as_deref().or_else(|| properties.get("enabled"));
        value.is_some_and(super::property::truthy)
    })
}

/// The devices of a boot order.
pub(crate) fn boot_order(config: &Config) -> Vec<String> {
    let Some(text) = config.get("boot") else { return Vec::new() };
    let order = text.strip_prefix("order=").unwrap_or(text);
    order.split(';').filter(|device| !device.is_empty()).map(str::to_owned).collect()
}

/// Drives of a configuration: efidisk and tpmstate first, as Proxmox walks them.
pub(crate) fn drives(config: &Config) -> Vec<(String, String)> {
    let rank = |name: &str| match indexed(name) {
        ("efidisk", _) => 0,
        ("ide", _) => 1,
        ("sata", _) => 2,
        ("scsi", _) => 3,
        ("tpmstate", _) => 4,
        _ => 5,
    };
    let mut all: Vec<_> = config
        .iter()
        .filter(|(name, _)| is_drive(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    all.sort_by_key(|(name, _)| (rank(name), indexed(name).1));
    all
}

#[cfg(test)]
mod tests {
    use super::super::schema::check;
    use super::*;

    #[test]
    fn a_foreign_key_in_a_nic_is_refused_in_proxmox_words() {
        let text = check(option_kind("net0").unwrap(), "virtio,foo=1").unwrap_err();
        assert_eq!(
            text,
            "invalid format - format error\nnet0.foo: property is not defined in schema and the schema does not \
             allow additional properties\n"
        );
        assert!(check(option_kind("net0").unwrap(), "virtio=01:24:11:00:00:01").is_err());
    }

    #[test]
    fn memory_is_text_and_cores_is_a_number() {
        assert_eq!(typed("memory", "512"), Value::from("512"));
        assert_eq!(typed("cores", "2"), Value::from(2));
    }

    #[test]
    fn arguments_are_for_root_alone() {
        let token = Who::parse("root@pam!t1");
        assert_eq!(option_privileges("args", &token).unwrap_err(), "only root can set 'args' config");
        assert!(option_privileges("args", &Who::parse("root@pam")).is_ok());
    }
}
