//! Which roles may make which call, as on a real node. What a role may read of the resources is decided there.

pub(super) const ADMIN: &str = "os:admin";
pub(super) const OPERATOR: &str = "os:operator";
pub(super) const READER: &str = "os:reader";
pub(super) const BACKUP: &str = "os:etcd:backup";

/// Which roles may make a call. Those that no rule names are the administrator's.
pub(super) fn roles(path: &str) -> &'static [&'static str] {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    match (service, method) {
        ("machine.MachineService", "EtcdSnapshot") => &[ADMIN, OPERATOR, BACKUP],
        ("machine.MachineService", "EtcdAlarmList" | "EtcdMemberList" | "EtcdStatus") => {
            &[ADMIN, OPERATOR, READER, BACKUP]
        }
        (
            "machine.MachineService",
            "Reboot" | "Shutdown" | "ServiceStart" | "ServiceStop" | "ServiceRestart" | "EtcdAlarmDisarm"
            | "EtcdDefragment" | "ImagePull",
        )
        | ("machine.ImageService", "Pull") => &[ADMIN, OPERATOR],
        (
            "machine.MachineService",
            "Version" | "ServiceList" | "Events" | "Logs" | "LogsContainers" | "Dmesg" | "List"
            | "Containers" | "ImageList" | "Hostname" | "Memory" | "LoadAvg" | "SystemStat" | "Mounts",
        )
        | ("machine.ImageService", "List" | "Verify")
        | ("cluster.ClusterService", "HealthCheck")
        | ("cosi.resource.State", "Get" | "List" | "Watch")
        | ("storage.StorageService", "Disks")
        | ("time.TimeService", "Time" | "TimeCheck") => &[ADMIN, OPERATOR, READER],
        _ => &[ADMIN],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Talos' own rules for the calls that the lab offers, as its sources have them: v1.12 for all but `ImageService` and
    /// `LifecycleService`, which are newer. A letter for each role that may: administrator, operator, reader, backup.
    const RULES: &str = "
        /cluster.ClusterService/HealthCheck aor
        /cosi.resource.State/Create a
        /cosi.resource.State/Destroy a
        /cosi.resource.State/Get aor
        /cosi.resource.State/List aor
        /cosi.resource.State/Teardown a
        /cosi.resource.State/Update a
        /cosi.resource.State/Watch aor
        /machine.ImageService/Import a
        /machine.ImageService/List aor
        /machine.ImageService/Pull ao
        /machine.ImageService/Remove a
        /machine.ImageService/Verify aor
        /machine.LifecycleService/Install a
        /machine.LifecycleService/Upgrade a
        /machine.MachineService/ApplyConfiguration a
        /machine.MachineService/Bootstrap a
        /machine.MachineService/Containers aor
        /machine.MachineService/Dmesg aor
        /machine.MachineService/EtcdAlarmDisarm ao
        /machine.MachineService/EtcdAlarmList aorb
        /machine.MachineService/EtcdDefragment ao
        /machine.MachineService/EtcdDowngradeCancel a
        /machine.MachineService/EtcdDowngradeEnable a
        /machine.MachineService/EtcdDowngradeValidate a
        /machine.MachineService/EtcdForfeitLeadership a
        /machine.MachineService/EtcdLeaveCluster a
        /machine.MachineService/EtcdMemberList aorb
        /machine.MachineService/EtcdRecover a
        /machine.MachineService/EtcdRemoveMemberByID a
        /machine.MachineService/EtcdSnapshot aob
        /machine.MachineService/EtcdStatus aorb
        /machine.MachineService/Events aor
        /machine.MachineService/GenerateClientConfiguration a
        /machine.MachineService/Hostname aor
        /machine.MachineService/ImageList aor
        /machine.MachineService/ImagePull ao
        /machine.MachineService/Kubeconfig a
        /machine.MachineService/List aor
        /machine.MachineService/LoadAvg aor
        /machine.MachineService/Logs aor
        /machine.MachineService/LogsContainers aor
        /machine.MachineService/Memory aor
        /machine.MachineService/MetaDelete a
        /machine.MachineService/MetaWrite a
        /machine.MachineService/Mounts aor
        /machine.MachineService/Read a
        /machine.MachineService/Reboot ao
        /machine.MachineService/Reset a
        /machine.MachineService/Rollback a
        /machine.MachineService/ServiceList aor
        /machine.MachineService/ServiceRestart ao
        /machine.MachineService/ServiceStart ao
        /machine.MachineService/ServiceStop ao
        /machine.MachineService/Shutdown ao
        /machine.MachineService/SystemStat aor
        /machine.MachineService/Upgrade a
        /machine.MachineService/Version aor
        /storage.StorageService/BlockDeviceWipe a
        /storage.StorageService/Disks aor
        /time.TimeService/Time aor
        /time.TimeService/TimeCheck aor
    ";

    fn rules() -> BTreeMap<&'static str, &'static str> {
        RULES.lines().filter_map(|line| line.trim().split_once(' ')).collect()
    }

    #[test]
    fn every_call_is_open_to_the_roles_that_talos_lets_make_it() {
        for (path, letters) in rules() {
            for (letter, role) in [('a', ADMIN), ('o', OPERATOR), ('r', READER), ('b', BACKUP)] {
                assert_eq!(roles(path).contains(&role), letters.contains(letter), "{path} for {role}");
            }
        }
        assert_eq!(roles("/machine.MachineService/Copy"), [ADMIN], "what no rule names");
        assert_eq!(roles("nonsense"), [ADMIN]);
    }

    /// A call that is added to the protocol gets its rule, too.
    #[test]
    fn every_call_of_the_protocol_has_its_rule() {
        let protos = [
            include_str!("../../../../talos-client/proto/cluster.proto"),
            include_str!("../../../../talos-client/proto/cosi.proto"),
            include_str!("../../../../talos-client/proto/machine.proto"),
            include_str!("../../../../talos-client/proto/storage.proto"),
            include_str!("../../../../talos-client/proto/time.proto"),
        ];
        let mut calls = Vec::new();
        for proto in protos {
            let (mut package, mut service) = ("", "");
            for line in proto.lines() {
                let mut words = line.trim().split([' ', '(', ';']);
                match (words.next(), words.next()) {
                    (Some("package"), Some(name)) => package = name,
                    (Some("service"), Some(name)) => service = name,
                    (Some("rpc"), Some(name)) => calls.push(format!("/{package}.{service}/{name}")),
                    _ => {}
                }
            }
        }
        calls.sort();
        assert_eq!(calls, rules().into_keys().collect::<Vec<_>>());
    }
}
