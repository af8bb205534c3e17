//! The binary form of the resources that tools read typed; field numbers are Talos'.

use std::net::IpAddr;

use ipnet::IpNet;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DefinitionSpec {
    #[prost(string, tag = "1")]
    pub(super) resource_type: String,
    #[prost(string, tag = "2")]
    pub(super) display_type: String,
    #[prost(string, tag = "3")]
    pub(super) default_namespace: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) aliases: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) all_aliases: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) print_columns: Vec<PrintColumn>,
    #[prost(int32, tag = "7")]
    pub(super) sensitivity: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PrintColumn {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) json_path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MachineStatusSpec {
    #[prost(int32, tag = "1")]
    pub(super) stage: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) status: Option<MachineStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MachineStatus {
    #[prost(bool, tag = "1")]
    pub(super) ready: bool,
    #[prost(message, repeated, tag = "2")]
    pub(super) unmet_conditions: Vec<UnmetCondition>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct UnmetCondition {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) reason: String,
}

/// Two texts in fields 1 and 2: hostname and domain, version and name, id and path, and others.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TwoTexts {
    #[prost(string, tag = "1")]
    pub(super) first: String,
    #[prost(string, tag = "2")]
    pub(super) second: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SecurityStateSpec {
    #[prost(bool, tag = "1")]
    pub(super) secure_boot: bool,
    #[prost(int32, tag = "4")]
    pub(super) selinux_state: i32,
    #[prost(bool, tag = "5")]
    pub(super) booted_with_uki: bool,
}

/// Up to four flags in fields 1 to 4.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Flags {
    #[prost(bool, tag = "1")]
    pub(super) first: bool,
    #[prost(bool, tag = "2")]
    pub(super) second: bool,
    #[prost(bool, tag = "3")]
    pub(super) third: bool,
    #[prost(bool, tag = "4")]
    pub(super) fourth: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NetIp {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ip: Vec<u8>,
}

impl From<IpAddr> for NetIp {
    fn from(ip: IpAddr) -> Self {
        let ip = match ip {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        Self { ip }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NetPrefix {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ip: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(super) length: i32,
}

impl From<IpNet> for NetPrefix {
    fn from(net: IpNet) -> Self {
        Self { ip: NetIp::from(net.addr()).ip, length: i32::from(net.prefix_len()) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeAddressSpec {
    #[prost(message, repeated, tag = "1")]
    pub(super) addresses: Vec<NetPrefix>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AddressStatusSpec {
    #[prost(message, optional, tag = "1")]
    pub(super) address: Option<NetPrefix>,
    #[prost(message, optional, tag = "2")]
    pub(super) local: Option<NetIp>,
    #[prost(uint32, tag = "6")]
    pub(super) link_index: u32,
    #[prost(string, tag = "7")]
    pub(super) link_name: String,
    #[prost(int32, tag = "8")]
    pub(super) family: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LinkStatusSpec {
    #[prost(uint32, tag = "1")]
    pub(super) index: u32,
    #[prost(int32, tag = "2")]
    pub(super) kind: i32,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) hardware_addr: Vec<u8>,
    #[prost(uint32, tag = "7")]
    pub(super) mtu: u32,
    #[prost(int32, tag = "10")]
    pub(super) operational_state: i32,
    #[prost(string, tag = "15")]
    pub(super) driver: String,
    #[prost(bool, tag = "22")]
    pub(super) link_state: bool,
    #[prost(bytes = "vec", tag = "30")]
    pub(super) permanent_addr: Vec<u8>,
    #[prost(string, tag = "31")]
    pub(super) alias: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DiskSpec {
    #[prost(uint64, tag = "1")]
    pub(super) size: u64,
    #[prost(uint64, tag = "2")]
    pub(super) io_size: u64,
    #[prost(uint64, tag = "3")]
    pub(super) sector_size: u64,
    #[prost(bool, tag = "4")]
    pub(super) readonly: bool,
    #[prost(string, tag = "5")]
    pub(super) model: String,
    #[prost(string, tag = "11")]
    pub(super) transport: String,
    #[prost(bool, tag = "12")]
    pub(super) rotational: bool,
    #[prost(bool, tag = "13")]
    pub(super) cdrom: bool,
    #[prost(string, tag = "14")]
    pub(super) dev_path: String,
    #[prost(string, tag = "15")]
    pub(super) pretty_size: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VolumeStatusSpec {
    #[prost(int32, tag = "1")]
    pub(super) phase: i32,
    #[prost(string, tag = "2")]
    pub(super) location: String,
    #[prost(string, tag = "7")]
    pub(super) parent_location: String,
    #[prost(uint64, tag = "9")]
    pub(super) size: u64,
    #[prost(string, tag = "13")]
    pub(super) pretty_size: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberSpec {
    #[prost(string, tag = "1")]
    pub(super) node_id: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) addresses: Vec<NetIp>,
    #[prost(string, tag = "3")]
    pub(super) hostname: String,
    #[prost(int32, tag = "4")]
    pub(super) machine_type: i32,
    #[prost(string, tag = "5")]
    pub(super) operating_system: String,
    #[prost(message, optional, tag = "6")]
    pub(super) control_plane: Option<MemberControlPlane>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberControlPlane {
    #[prost(int64, tag = "1")]
    pub(super) port: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExtensionSpec {
    #[prost(message, optional, tag = "1")]
    pub(super) layer: Option<ExtensionLayer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExtensionLayer {
    #[prost(string, tag = "1")]
    pub(super) image: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<ExtensionMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExtensionMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) author: String,
    #[prost(string, tag = "4")]
    pub(super) description: String,
    #[prost(string, tag = "6")]
    pub(super) extra_info: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SystemInformationSpec {
    #[prost(string, tag = "1")]
    pub(super) manufacturer: String,
    #[prost(string, tag = "2")]
    pub(super) product_name: String,
    #[prost(string, tag = "5")]
    pub(super) uuid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeStatusSpec {
    #[prost(string, tag = "1")]
    pub(super) nodename: String,
    #[prost(bool, tag = "2")]
    pub(super) node_ready: bool,
    #[prost(bool, tag = "3")]
    pub(super) unschedulable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MachineConfigSpec {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) yaml: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Number {
    #[prost(int32, tag = "1")]
    pub(super) value: i32,
}
