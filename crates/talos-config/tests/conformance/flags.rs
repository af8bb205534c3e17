//! Options that talosctl itself has flags for: what the real generator makes of them, in every combination, without a word of ours
//! about how it should look.

use std::path::Path;
use std::process::Command;

use daedal_talos_config::{
    ClusterOptions, Discovery, Hostname, KubeSpan, MachineConfig, NodeOptions, RegistryMirror, Role,
};

use crate::peer::{CONTRACTS, ConfigTool, Tally, bundle, difference, peer};

/// A flag, and the option that it is.
type Flag = (&'static [&'static str], fn(&mut ClusterOptions, &mut NodeOptions));

const INSTALLER: &str = "registry.example.org:5000/installer:v1.12.0";

const FLAGS: [Flag; 6] = [
    (&["--with-kubespan"], |cluster, _| {
        cluster.kubespan = Some(KubeSpan::default());
    }),
    (&["--with-cluster-discovery=false"], |cluster, _| cluster.discovery = Discovery::Disabled),
    (
        &[
            "--registry-mirror",
            "docker.io=https://mirror.example.org:5000",
            "--registry-mirror",
            "ghcr.io=http://10.0.0.5",
        ],
        |cluster, _| {
            let mirror = |registry: &str, endpoint: &str| RegistryMirror {
                registry: registry.into(),
                endpoints: vec![endpoint.into()],
                ..RegistryMirror::default()
            };
            cluster.registry_mirrors = vec![
                mirror("docker.io", "https://mirror.example.org:5000"),
                mirror("ghcr.io", "http://10.0.0.5"),
            ];
        },
    ),
    (&["--additional-sans", "api.example.org,10.0.0.99"], |cluster, _| {
        cluster.cert_sans = vec!["api.example.org".into(), "10.0.0.99".into()];
    }),
    (&["--dns-domain", "k8s.example.org"], |cluster, _| cluster.dns_domain = "k8s.example.org".into()),
    (&["--install-image", INSTALLER, "--install-disk", "/dev/vda"], |_, node| {
        node.install.image = Some(INSTALLER.into());
        node.install.disk = Some("/dev/vda".into());
    }),
];

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_talosctl_has_flags_for_is_what_it_writes() {
    let mut tally = Tally::new("options: talosctl gen config with every combination of its flags");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secrets.yaml"), bundle().to_yaml().expose()).unwrap();
    for contract in CONTRACTS {
        // No talosctl of 1.14 can be built: there the library alone is asked, elsewhere.
        let Some(version) =
            [(12, "v1.12.0"), (13, "v1.13.0")].iter().find(|(minor, _)| *minor >= contract.minor)
        else {
            continue;
        };
        let Some(talosctl) = peer(&format!("talos-{}", version.1), "talosctl") else { continue };
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        for chosen in 0..1_u32 << FLAGS.len() {
            let chosen: Vec<&Flag> = FLAGS
                .iter()
                .enumerate()
                .filter(|(bit, _)| chosen & (1 << bit) != 0)
                .map(|(_, flag)| flag)
                .collect();
            let flags: Vec<&str> = chosen.iter().flat_map(|(flags, _)| flags.iter().copied()).collect();
            // KubeSpan finds its peers by discovery, and talosctl writes what Talos then refuses.
            if flags.contains(&"--with-kubespan") && flags.contains(&"--with-cluster-discovery=false") {
                continue;
            }
            generate(&talosctl, folder.path(), contract.minor, contract.kubernetes, &flags);
            for role in [Role::ControlPlane, Role::Worker] {
                let text = std::fs::read_to_string(folder.path().join(format!("out/{}.yaml", role.as_str())));
                let theirs = MachineConfig::from_yaml(&text.unwrap()).unwrap();
                let talos = format!("v1.{}.0", contract.minor);
                let mut cluster =
                    ClusterOptions::new("c1", "https://10.0.0.20:6443", talos, contract.kubernetes);
                let mut node = NodeOptions::new(role, Hostname::Stable);
                node.install.disk = Some("/dev/sda".into());
                chosen.iter().for_each(|(_, choose)| choose(&mut cluster, &mut node));
                let mut ours = MachineConfig::generate(bundle(), &cluster, &node).unwrap();
                // Which installer is meant by default is the generator's own business, and never ours: we always name one.
                let default = "machine: {install: {image: {$patch: delete}}}";
                let mut theirs = theirs;
                if node.install.image.is_none() {
                    for config in [&mut ours, &mut theirs] {
                        *config = tool.patched(config, default).unwrap();
                    }
                }
                let (ours, theirs) = (tool.normal(&ours).unwrap(), tool.normal(&theirs).unwrap());
                let what = || format!("v1.{} {role:?} {flags:?}", contract.minor);
                tally.case(difference(&ours, &theirs).map(|where_| format!("{}: {where_}", what())));
            }
        }
    }
    tally.done();
}

fn generate(talosctl: &Path, folder: &Path, minor: u32, kubernetes: &str, flags: &[&str]) {
    let version = format!("v1.{minor}");
    let output = Command::new(talosctl)
        .args(["gen", "config", "c1", "https://10.0.0.20:6443", "--with-secrets", "secrets.yaml"])
        .args(["--talos-version", &version, "--kubernetes-version", kubernetes, "--with-docs=false"])
        .args(["--with-examples=false", "--force", "-o", "out", "-t", "controlplane,worker"])
        .args(flags)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
}
