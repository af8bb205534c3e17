//! What expressions can ask of disks, volumes and links.

use super::language::Type::{self, Bool, Bytes, Duration, Fields, Int, List, Text, Uint};

/// A field or a name with its type and the Talos 1.x that began it.
pub(super) type Known = (&'static str, Type, u32);

/// A disk.
pub(super) const DISK: &[Known] = &[
    ("size", Uint, 8),
    ("io_size", Uint, 8),
    ("sector_size", Uint, 8),
    ("readonly", Bool, 8),
    ("model", Text, 8),
    ("serial", Text, 8),
    ("modalias", Text, 8),
    ("wwid", Text, 8),
    ("bus_path", Text, 8),
    ("sub_system", Text, 8),
    ("transport", Text, 8),
    ("rotational", Bool, 8),
    ("cdrom", Bool, 8),
    ("dev_path", Text, 8),
    ("pretty_size", Text, 8),
    ("secondary_disks", List(&Text), 9),
    ("uuid", Text, 9),
    ("symlinks", List(&Text), 10),
    ("firmware_version", Text, 14),
];

/// A volume that is there.
pub(super) const VOLUME: &[Known] = &[
    ("size", Uint, 8),
    ("sector_size", Uint, 8),
    ("io_size", Uint, 8),
    ("name", Text, 8),
    ("uuid", Text, 8),
    ("label", Text, 8),
    ("block_size", Uint, 8),
    ("filesystem_block_size", Uint, 8),
    ("probed_size", Uint, 8),
    ("partition_uuid", Text, 8),
    ("partition_type", Text, 8),
    ("partition_label", Text, 8),
    ("partition_index", Uint, 8),
    ("type", Text, 8),
    ("device_path", Text, 8),
    ("parent", Text, 8),
    ("dev_path", Text, 8),
    ("parent_dev_path", Text, 8),
    ("pretty_size", Text, 8),
    ("offset", Uint, 12),
];

/// A network link.
pub(super) const LINK: &[Known] = &[
    ("index", Uint, 12),
    ("type", Int, 12),
    ("link_index", Uint, 12),
    ("flags", Uint, 12),
    ("hardware_addr", Bytes, 12),
    ("broadcast_addr", Bytes, 12),
    ("mtu", Uint, 12),
    ("queue_disc", Text, 12),
    ("master_index", Uint, 12),
    ("operational_state", Int, 12),
    ("kind", Text, 12),
    ("slave_kind", Text, 12),
    ("bus_path", Text, 12),
    ("pciid", Text, 12),
    ("driver", Text, 12),
    ("driver_version", Text, 12),
    ("firmware_version", Text, 12),
    ("product_id", Text, 12),
    ("vendor_id", Text, 12),
    ("product", Text, 12),
    ("vendor", Text, 12),
    ("link_state", Bool, 12),
    ("speed_megabits", Int, 12),
    ("port", Int, 12),
    ("duplex", Int, 12),
    ("vlan", Fields(VLAN), 12),
    ("bridge_master", Fields(BRIDGE), 12),
    ("bond_master", Fields(BOND), 12),
    ("wireguard", Fields(WIREGUARD), 12),
    ("permanent_addr", Bytes, 12),
    ("alias", Text, 12),
    ("alt_names", List(&Text), 12),
    ("vrf_master", Fields(VRF), 13),
    ("veth", Fields(VETH), 14),
];

const VLAN: &[Known] = &[("vid", Uint, 12), ("protocol", Int, 12)];

const BRIDGE: &[Known] = &[
    ("stp", Fields(&[("enabled", Bool, 12)]), 12),
    ("vlan", Fields(&[("filtering_enabled", Bool, 12)]), 12),
];

const BOND: &[Known] = &[
    ("mode", Int, 12),
    ("hash_policy", Int, 12),
    ("lacp_rate", Int, 12),
    ("arp_validate", Int, 12),
    ("arp_all_targets", Int, 12),
    ("primary_index", Uint, 12),
    ("primary_reselect", Int, 12),
    ("fail_over_mac", Int, 12),
    ("ad_select", Int, 12),
    ("mii_mon", Uint, 12),
    ("up_delay", Uint, 12),
    ("down_delay", Uint, 12),
    ("arp_interval", Uint, 12),
    ("resend_igmp", Uint, 12),
    ("min_links", Uint, 12),
    ("lp_interval", Uint, 12),
    ("packets_per_slave", Uint, 12),
    ("num_peer_notif", Uint, 12),
    ("tlb_dynamic_lb", Uint, 12),
    ("all_slaves_active", Uint, 12),
    ("use_carrier", Bool, 12),
    ("ad_actor_sys_prio", Uint, 12),
    ("ad_user_port_key", Uint, 12),
    ("peer_notify_delay", Uint, 12),
    ("arpip_targets", List(&Fields(ADDRESS)), 12),
    ("nsip6_targets", List(&Fields(ADDRESS)), 12),
    ("adlacp_active", Int, 12),
    ("missed_max", Uint, 12),
];

const WIREGUARD: &[Known] = &[
    ("private_key", Text, 12),
    ("public_key", Text, 12),
    ("listen_port", Int, 12),
    ("firewall_mark", Int, 12),
    ("peers", List(&Fields(PEER)), 12),
];

const PEER: &[Known] = &[
    ("public_key", Text, 12),
    ("preshared_key", Text, 12),
    ("endpoint", Text, 12),
    ("persistent_keepalive_interval", Duration, 12),
    ("allowed_ips", List(&Fields(NETWORK)), 12),
];

const VRF: &[Known] = &[("table", Int, 13)];

const VETH: &[Known] = &[("peer_name", Text, 14)];

const ADDRESS: &[Known] = &[("ip", Bytes, 12)];

const NETWORK: &[Known] = &[("ip", Bytes, 12), ("prefix_length", Int, 12)];
