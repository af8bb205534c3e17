//! A config as Talos reads and writes it again is no drift.

use daedal_talos::{
    Secret,
    config::{ClusterOptions, MachineConfig, NodeOptions, Role},
};

use crate::peer::{CONTRACTS, ConfigTool, Tally, bundle};

#[test]
fn what_talos_writes_back_does_not_differ() {
    let mut tally = Tally::new("compare: configs as Talos writes them back, v1.8 to v1.14");
    let key = Secret::new("key");
    for contract in CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { return };
        for role in [Role::ControlPlane, Role::Worker] {
            let version = format!("v1.{}.0", contract.minor);
            let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", &version, contract.kubernetes);
            let mut node = NodeOptions::new(role, "node-1");
            node.sysctls.insert("vm.max_map_count".into(), "262144".into());
            node.labels.insert("rack".into(), "a".into());
            let ours = MachineConfig::generate(bundle(), &cluster, &node).unwrap();
            let back = tool.normal(&ours).unwrap();
            let differences = back.differences(&ours, &key);
            let same = differences.is_empty() && back.digest() == ours.digest();
            tally.case((!same).then(|| format!("{version} {role:?}: {differences:?}")));
        }
    }
    tally.done();
}
