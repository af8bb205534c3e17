//! What decides a node's machine config, the secrets apart, in the form that is digested. Names and order of the fields are part
//! of the form. Sizes, tags, bridge and VLAN are not here: they are visible on the VM and compared there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use daedal_inventory::hardware::Bond;
use daedal_inventory::options::{Machine, Registry, RegistryMirror};
use daedal_inventory::{
    Arch, BootConfig, BootFrom, Bootloader, Cluster, Cni, Kubernetes, Network, Nic, Node, Overlay, Patch,
    Role, Talos, TlsTrust,
};
use ipnet::IpNet;
use semver::Version;
use serde::Serialize;
use uuid::Uuid;

/// What all nodes have in common.
#[derive(Serialize)]
pub(super) struct Asked<'a> {
    cluster: &'a str,
    uuid: Uuid,
    talos: AskedTalos<'a>,
    kubernetes: AskedKubernetes<'a>,
    network: AskedNetwork<'a>,
    boot: AskedBoot,
    cluster_patches: &'a [Patch],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    registry_mirrors: &'a BTreeMap<String, RegistryMirror>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    registries: &'a BTreeMap<String, Registry>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            cluster: &cluster.name,
            uuid: cluster.uuid,
            talos: AskedTalos::of(&cluster.talos),
            kubernetes: AskedKubernetes::of(&cluster.kubernetes),
            network: AskedNetwork::of(&cluster.network),
            boot: AskedBoot { from: cluster.boot.from, config: cluster.boot.config },
            cluster_patches: &cluster.patches,
            registry_mirrors: &cluster.registry_mirrors,
            registries: &cluster.registries,
        }
    }
}

/// What of the boot path decides a config; which ISO it was does not.
#[derive(Serialize)]
struct AskedBoot {
    from: BootFrom,
    config: BootConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AskedTalos<'a> {
    version: &'a Version,
    extensions: &'a [String],
    kernel_args: &'a [String],
    factory: &'a str,
    #[serde(skip_serializing_if = "is_system")]
    factory_tls: &'a TlsTrust,
    arch: Arch,
    install_disk: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    secure_boot: bool,
    image_sha256: &'a Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meta: &'a BTreeMap<u8, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlay: Option<&'a Overlay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bootloader: Option<&'a Bootloader>,
}

fn is_system(trust: &&TlsTrust) -> bool {
    **trust == TlsTrust::System
}

impl<'a> AskedTalos<'a> {
    fn of(talos: &'a Talos) -> Self {
        let Talos {
            version,
            extensions,
            kernel_args,
            factory,
            factory_tls,
            arch,
            install_disk,
            secure_boot,
            image_sha256,
            meta,
            overlay,
            bootloader,
        } = talos;
        Self {
            version,
            extensions,
            kernel_args,
            factory,
            factory_tls,
            arch: *arch,
            install_disk,
            secure_boot: *secure_boot,
            image_sha256,
            meta,
            overlay: overlay.as_ref(),
            bootloader: bootloader.as_ref(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AskedKubernetes<'a> {
    version: &'a Version,
    pod_subnets: &'a [IpNet],
    service_subnets: &'a [IpNet],
    dns_domain: &'a str,
    endpoint_host: &'a Option<String>,
    endpoint_port: u16,
    cert_sans: &'a [String],
    cni: &'a Cni,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    cni_manifests: &'a [String],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_discovery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    discovery_service: Option<&'a String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    kubespan: bool,
    kube_proxy: bool,
    schedule_on_control_planes: bool,
}

impl<'a> AskedKubernetes<'a> {
    fn of(kubernetes: &'a Kubernetes) -> Self {
        let Kubernetes {
            version,
            pod_subnets,
            service_subnets,
            dns_domain,
            endpoint_host,
            endpoint_port,
            cert_sans,
            cni,
            cni_manifests,
            no_discovery,
            discovery_service,
            kubespan,
            kube_proxy,
            schedule_on_control_planes,
        } = kubernetes;
        Self {
            version,
            pod_subnets,
            service_subnets,
            dns_domain,
            endpoint_host,
            endpoint_port: *endpoint_port,
            cert_sans,
            cni,
            cni_manifests,
            no_discovery: *no_discovery,
            discovery_service: discovery_service.as_ref(),
            kubespan: *kubespan,
            kube_proxy: *kube_proxy,
            schedule_on_control_planes: *schedule_on_control_planes,
        }
    }
}

#[derive(Serialize)]
struct AskedNetwork<'a> {
    cidr: IpNet,
    gateway: IpAddr,
    dns: &'a [IpAddr],
    ntp: &'a [String],
    vip: Option<IpAddr>,
    mtu: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dhcp: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    discovered: bool,
}

impl<'a> AskedNetwork<'a> {
    fn of(network: &'a Network) -> Self {
        let Network { cidr, gateway, dns, ntp, vip, mtu, dhcp, discovered } = network;
        Self {
            cidr: *cidr,
            gateway: *gateway,
            dns,
            ntp,
            vip: *vip,
            mtu: *mtu,
            dhcp: *dhcp,
            discovered: *discovered,
        }
    }
}

/// What one node adds.
#[derive(Serialize)]
pub(super) struct AskedNode<'a> {
    name: &'a str,
    role: Role,
    uuid: Uuid,
    mac: &'a str,
    address: Option<IpNet>,
    labels: &'a BTreeMap<String, String>,
    taints: &'a BTreeMap<String, String>,
    patches: &'a [Patch],
    #[serde(skip_serializing_if = "Machine::is_empty")]
    machine: &'a Machine,
    // The config names every card; the rest of the hardware is not in it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    nics: &'a [Nic],
    #[serde(skip_serializing_if = "Option::is_none")]
    bond: Option<&'a Bond>,
}

impl<'a> AskedNode<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        let Node { name, role, uuid, mac, address, labels, taints, patches, machine, nics, hardware, .. } =
            node;
        Self {
            name,
            role: *role,
            uuid: *uuid,
            mac,
            address: *address,
            labels,
            taints,
            patches,
            machine,
            nics,
            bond: hardware.bond.as_ref(),
        }
    }
}
