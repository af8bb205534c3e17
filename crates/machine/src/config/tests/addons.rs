//! What add-ons need of the nodes, found again in the machine config of each version of Talos.

use serde_json::json;

use super::whole::{Place, VERSIONS, assert_all, assert_none, configs, loaded};

/// An inventory of a version with add-ons; its worker has a disk besides the system disk.
fn with(talos: &str, addons: &str) -> daedal_inventory::Cluster {
    loaded(&format!(
        "
  talos: {{version: {talos}, installDisk: /dev/vda}}
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, vip: 10.0.0.9}}
  addons: {addons}
  pools:
    - {{name: cp, role: controlplane, count: 1}}
    - {{name: w, role: worker, count: 1, hardware: {{disks: [{{size: 100GiB}}]}}}}"
    ))
}

/// Mission: H4, F6 — Talos brings neither Flannel nor kube-proxy where Cilium is an add-on
#[test]
fn with_cilium_talos_brings_neither_flannel_nor_kube_proxy() {
    for talos in VERSIONS {
        let [control_plane, worker] = configs(&with(talos, "[cilium]"));
        if talos == "v1.14.0" {
            assert_all(talos, &control_plane, &[(("KubeProxyConfig", "", "/enabled"), json!(false))]);
            assert_none(talos, &control_plane, &[("KubeFlannelCNIConfig", "", "/kind")]);
        } else {
            let expected = [
                (("", "", "/cluster/network/cni/name"), json!("none")),
                (("", "", "/cluster/proxy/disabled"), json!(true)),
            ];
            assert_all(talos, &control_plane, &expected);
            assert_all(talos, &worker, &expected[..1]);
        }
    }
}

/// Mission: M9 — kubelets leave it to the cloud-controller-manager to make nodes known
#[test]
fn kubelets_are_told_what_add_ons_need() {
    for talos in VERSIONS {
        let cluster = with(talos, "[proxmox-ccm, metrics-server, kubelet-serving-cert-approver]");
        let (kind, folder) =
            if talos == "v1.14.0" { ("KubeletConfig", "") } else { ("", "/machine/kubelet") };
        for config in configs(&cluster) {
            for (argument, value) in [("cloud-provider", "external"), ("rotate-server-certificates", "true")]
            {
                let pointer: &str = Box::leak(format!("{folder}/extraArgs/{argument}").into_boxed_str());
                assert_all(talos, &config, &[((kind, "", pointer), json!(value))]);
            }
        }
    }
}

/// Mission: E20 — the parts of the control plane can be asked for metrics
#[test]
fn control_planes_answer_questions_about_metrics() {
    let etcd: Place = ("", "", "/cluster/etcd/extraArgs/listen-metrics-urls");
    for talos in VERSIONS {
        let [control_plane, worker] = configs(&with(talos, "[kube-prometheus-stack]"));
        let places: [Place; 3] = if talos == "v1.14.0" {
            [
                ("KubeControllerManagerConfig", "", "/extraArgs/bind-address"),
                ("KubeSchedulerConfig", "", "/extraArgs/bind-address"),
                ("KubeProxyConfig", "", "/extraArgs/metrics-bind-address"),
            ]
        } else {
            [
                ("", "", "/cluster/controllerManager/extraArgs/bind-address"),
                ("", "", "/cluster/scheduler/extraArgs/bind-address"),
                ("", "", "/cluster/proxy/extraArgs/metrics-bind-address"),
            ]
        };
        let expected = [
            (places[0], json!("0.0.0.0")),
            (places[1], json!("0.0.0.0")),
            (places[2], json!("0.0.0.0:10249")),
            (etcd, json!("http://0.0.0.0:2381")),
        ];
        assert_all(talos, &control_plane, &expected);
        assert_none(talos, &worker, &[places[0], places[1], places[2], etcd]);
    }
}

/// Mission: F5 — Longhorn has its volume on the data disk of workers
#[test]
fn longhorn_has_its_volume_where_there_is_a_disk() {
    for talos in VERSIONS {
        let cluster = with(talos, "[longhorn]");
        let [control_plane, worker] = configs(&cluster);
        let volume: Place = ("UserVolumeConfig", "longhorn", "/provisioning/diskSelector/match");
        assert_all(talos, &worker, &[(volume, json!("!system_disk"))]);
        assert_none(talos, &control_plane, &[volume]);
        let label = "node.longhorn.io/create-default-disk";
        assert_eq!(cluster.node("w-1").unwrap().labels[label], "true", "{talos}");
        let extensions: Vec<&str> = cluster.talos.extensions.iter().map(String::as_str).collect();
        assert_eq!(extensions, ["siderolabs/iscsi-tools", "siderolabs/util-linux-tools"], "{talos}");
    }
}
