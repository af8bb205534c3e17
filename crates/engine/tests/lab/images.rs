//! Disk images: those that lie on a storage already, and Proxmox releases that cannot import any.

use daedal_engine::{Check, CheckVerdict, LiveReport, StepState};
use daedal_inventory::{Boot, Cluster, Templates, TlsTrust};
use daedal_lab::Format;
use daedal_lab::proxmox::{Grant, StorageSpec};
use daedal_planner::{Action, PlanError, without_import};

use crate::boot::{
    CLOUD_INIT, ISO_CIDATA, ISO_CLOUD_INIT, OWN_RAW, RAW, TEMPLATE, TEMPLATE_BY_ISO, somebodys_build,
};
use crate::support::{Bench, Giving, Way, assert_done, cluster_booting, cluster_from, errors};

#[tokio::test(start_paused = true)]
async fn an_image_of_the_right_size_with_other_content_is_never_made_a_vm_of() {
    let bench = Bench::created().await;
    assert_done(&bench.destroy().await, "destroy");
    let images: Vec<String> =
        bench.lab.datacenter().volumes().into_iter().filter(|volume| volume.contains(":import/")).collect();
    assert!(!images.is_empty());
    for image in &images {
        assert!(bench.lab.datacenter().spoil(image), "{image}");
    }
    let report = bench.apply_through(Default::default()).await.unwrap();
    assert!(!report.succeeded());
    let said = errors(&report).join("\n");
    assert!(said.contains("checksum mismatch"), "{said}");
    let fixes = report.failures().filter_map(|step| match &step.state {
        StepState::Failed { fix, .. } => fix.clone(),
        _ => None,
    });
    assert!(fixes.into_iter().all(|fix| fix.to_string().contains("pvesm free local:import/")), "{said}");
    assert!(!bench.lab.datacenter().vms().iter().any(|(_, _, name, _)| name.starts_with("cp")), "{said}");
    // The bit flips back, and everything goes its way.
    for image in &images {
        assert!(bench.lab.datacenter().spoil(image), "{image}");
    }
    assert_done(&bench.apply().await, "apply");
}

/// A Proxmox of some release. Before 8.4 nobody had a reason to let a storage take what is to be imported.
fn on_release(way: Way, version: &str) -> Bench {
    Bench::on(way, 1, 1, |datacenter| {
        datacenter.version = version.to_owned();
        let storages = datacenter.hosts.iter_mut().flat_map(|host| &mut host.storages);
        for storage in storages.filter(|_| !daedal_proxmox::imports_disk_images(version)) {
            storage.content.retain(|content| content != "import");
        }
    })
}

async fn live(bench: &Bench) -> LiveReport {
    // The lab refuses what it does not have; on a real network only a host that is there does so.
    let reach = daedal_inventory::Reach::Proxy("http://127.0.0.1:1".into());
    bench.engine().live_checks(&Cluster { reach, ..bench.cluster.clone() }).await
}

/// What `check --live` says of the Proxmox itself. Nothing else is wrong with it.
async fn said_of_proxmox(bench: &Bench) -> (CheckVerdict, String, Option<String>) {
    let report = live(bench).await;
    let about: Vec<_> = report.checks.iter().filter(|check| check.found.contains("version ")).collect();
    assert_eq!(about.len(), 1, "said once: {:#?}", report.checks);
    let wrong: Vec<&Check> = report
        .checks
        .iter()
        .filter(|check| check.verdict == CheckVerdict::Bad && !check.found.contains("version "))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    (about[0].verdict, about[0].found.clone(), about[0].fix.as_ref().map(ToString::to_string))
}

/// The value of `boot` that a fix tells to write.
fn told_to_write(fix: &str) -> &str {
    fix.split_once("`boot: ").and_then(|(_, rest)| rest.split_once('`')).unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_proxmox_that_cannot_import_is_told_with_the_way_that_works() {
    let numbered =
        "{from: template, config: cidata, template: {controlplane: 898, worker: 899, clone: full}}";
    let mut shown = std::collections::BTreeSet::new();
    for (version, way, instead) in [
        ("8.3.5", Way::USUAL, ISO_CIDATA),
        ("8.3.5", RAW, ISO_CIDATA),
        ("8.3.5", OWN_RAW, ISO_CIDATA),
        ("8.2.2", CLOUD_INIT, ISO_CLOUD_INIT),
        ("8.3.5", TEMPLATE, TEMPLATE_BY_ISO),
        ("8.2.2", Way { boot: numbered, ..TEMPLATE }, TEMPLATE_BY_ISO),
    ] {
        let bench = on_release(way, version);
        let (verdict, found, fix) = said_of_proxmox(&bench).await;
        assert_eq!(verdict, CheckVerdict::Bad, "{version}: {found}");
        assert_eq!(found, format!("version {version} cannot import disk images; 8.4 or newer is needed"));
        let fix = fix.unwrap();
        let words = fix.strip_prefix("upgrade Proxmox VE, or ").expect(&fix);
        // No plan is made that would fail half-way; nothing was changed.
        let refused = bench.look().await.1.unwrap_err();
        assert!(matches!(refused, PlanError::NoImport { .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains(&found.replace("version", "Proxmox VE")) && said.contains(words), "{said}");
        assert_eq!(bench.counts().mutating, 0, "{version}: {:?}", bench.counts().by_shape);

        // What is told can be written like that, is as declared but for the import, and works.
        let written = cluster_booting(told_to_write(&fix), 1, 1);
        let (meant, was) = (cluster_booting(instead.boot, 1, 1).boot, &bench.cluster.boot);
        let templates = was.template.map(|was| Templates { by_iso: true, ..was });
        assert_eq!(written.boot, Boot { template: templates, ..meant }, "{fix}");
        if !shown.insert((version, fix.clone())) {
            continue;
        }
        let bench = Bench { cluster: written, ..on_release(instead, version) };
        assert_eq!(said_of_proxmox(&bench).await.0, CheckVerdict::Good, "{version} {fix}");
        assert_done(&bench.apply().await, &fix);
        bench.assert_converged(&fix).await;
    }
    for version in ["8.4.0", "9.1"] {
        let bench = on_release(Way::USUAL, version);
        assert_eq!(said_of_proxmox(&bench).await.0, CheckVerdict::Good, "{version}");
        assert!(bench.look().await.1.is_ok(), "{version}");
    }
}

/// An ISO makes no templates where addresses are discovered, so that they are not told of.
#[test]
fn the_way_without_import_can_be_written_where_addresses_are_discovered() {
    let inventory = |boot: &str| {
        cluster_from(format!(
            "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: home}}
spec:
  talos: {{version: v1.12.0, extensions: [qemu-guest-agent]}}
  kubernetes: {{version: v1.35.0}}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: \"daedal@pve!cli\", secret: {{env: X}}}}
    hosts: [atlas]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, dns: [1.1.1.1], dhcp: discovered}}
  boot: {boot}
  pools:
    - {{name: cp, role: controlplane, count: 1, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 300}}
"
        ))
    };
    for boot in ["{from: template, config: maintenance}", "{config: maintenance, format: raw}"] {
        let written = inventory(told_to_write(&without_import(&inventory(boot))));
        assert!(written.boot.installs() && !written.boot.imports(), "{boot}: {:?}", written.boot);
    }
}

/// A cluster that is there already needs no import, whatever it was made from: an old Proxmox can keep it.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_exists_is_kept_without_import() {
    let mut bench = on_release(ISO_CIDATA, "8.3.5");
    assert_done(&bench.apply().await, "apply");
    bench.cluster.boot.from = daedal_inventory::BootFrom::DiskImage;
    assert!(bench.look().await.1.is_ok());
    let (verdict, found, fix) = said_of_proxmox(&bench).await;
    assert_eq!(verdict, CheckVerdict::Warning, "{found}");
    assert!(found.ends_with("8.4 or newer is needed for new nodes") && fix.is_some(), "{found}");
}

/// What lies on a storage that does not take such content is not listed, and cannot be used: that is said, not that it is missing.
#[tokio::test(start_paused = true)]
async fn the_storage_of_an_image_of_ones_own_is_checked() {
    let way = Way::new("{image: \"nas:import/talos-own.raw\"}", Giving::Nothing);
    for (content, fine) in [(["import"], true), (["backup"], false)] {
        let bench = Bench::on(way, 1, 1, |datacenter| {
            let nas = StorageSpec { shared: true, ..StorageSpec::new("nas", "nfs", &content, 1 << 40) };
            datacenter.hosts.iter_mut().for_each(|host| host.storages.push(nas.clone()));
            let grants = datacenter.tokens.iter_mut().map(|token| &mut token.grants);
            grants.for_each(|all| all.push(Grant::new("/storage/nas", &["Datastore.Audit"])));
        });
        let bytes = somebodys_build().encode(Format::Raw);
        assert_eq!(bench.lab.datacenter().put_image("atlas", "nas:import/talos-own.raw", bytes, None), fine);
        let report = live(&bench).await;
        let of_nas: Vec<&Check> = report
            .checks
            .iter()
            .filter(|check| check.what.to_string().starts_with("storage nas on "))
            .collect();
        assert_eq!(of_nas.len(), 2, "{:#?}", report.checks);
        assert!(of_nas.iter().all(|check| (check.verdict == CheckVerdict::Good) == fine), "{of_nas:#?}");
        assert!(!report.checks.iter().any(|check| check.found.contains("is missing on")), "{report:#?}");
        if !fine {
            assert_eq!(of_nas[0].fix, Some("pvesm set nas --content backup,import".into()));
            let refused = bench.look().await.1.unwrap_err().to_string();
            assert!(refused.contains("storage nas does not take the content type import"), "{refused}");
        }
    }
}

/// No factory is asked for an image of one's own, so that what none builds can be in it.
#[tokio::test(start_paused = true)]
async fn an_image_of_ones_own_may_be_what_no_factory_builds() {
    for (way, verdict) in [(OWN_RAW, CheckVerdict::Warning), (Way::USUAL, CheckVerdict::Bad)] {
        for unknown_version in [true, false] {
            let mut bench = Bench::booting(way, 1, 1);
            for host in ["atlas", "boreas"] {
                let bytes = somebodys_build().encode(Format::Raw);
                assert!(bench.lab.datacenter().put_image(
                    host,
                    "local:import/talos-v1.12-own.raw",
                    bytes,
                    None
                ));
            }
            match unknown_version {
                true => bench.cluster.talos.version = "1.12.99".parse().unwrap(),
                false => bench.cluster.talos.extensions.push("me/own".into()),
            }
            let report = live(&bench).await;
            let said = report
                .checks
                .iter()
                .find(|check| check.what.to_string().starts_with("Image Factory"))
                .unwrap();
            assert_eq!(said.verdict, verdict, "{said:?}");
            assert_eq!(report.passed(), way.boot == OWN_RAW.boot, "{report:#?}");
        }
    }
}

/// An own factory, as in an air gap: no other answers here, and no host knows who signed its certificate. The schematic is
/// registered there, the image comes from there, and whatever a node installs later does, too.
#[tokio::test(start_paused = true)]
async fn an_own_factory_is_all_that_is_asked() {
    const OWN: &str = "https://factory.lab:8443";
    let mut bench = Bench::with_factories(vec![OWN.to_owned()]);
    bench.lab.datacenter().distrust("factory.lab");
    bench.cluster.talos.factory = OWN.to_owned();

    // Hosts verify what they are not told otherwise about, and say so.
    let failed = bench.apply_through(Default::default()).await.unwrap();
    let said = errors(&failed).join("\n");
    assert!(!failed.succeeded() && said.contains("download failed: exit code 5"), "{said}");

    bench.cluster.talos.factory_tls = TlsTrust::Ca("factory-ca.pem".into());
    let (_, plan) = bench.look().await;
    let urls: Vec<String> = plan
        .unwrap()
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::DownloadImage { url, .. } => Some(url.clone()),
            _ => None,
        })
        .collect();
    assert!(!urls.is_empty() && urls.iter().all(|url| url.starts_with(&format!("{OWN}/image/"))), "{urls:?}");
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("own factory").await;
    let id = urls[0].split('/').nth(4).unwrap();
    assert_eq!(bench.lab.factory().extensions(id).unwrap(), bench.cluster.talos.extensions);
    let registered = bench.lab.faults().log();
    assert!(registered.iter().any(|call| call.service == "factory" && call.path == "/schematics"));
    for node in &bench.cluster.nodes {
        let config =
            std::fs::read_to_string(bench.outputs().join(format!("nodes/{}.yaml", node.name))).unwrap();
        let installer = format!("factory.lab:8443/nocloud-installer/{id}:v{}", bench.cluster.talos.version);
        assert!(config.contains(&installer), "{}: {config}", node.name);
    }
}
