//! What is done to etcd rarely: alarms, defragmentation, recovery from a snapshot, the way back to an older version.

use std::time::Duration;

use futures::{Stream, StreamExt};

use crate::{
    Bootstrap, Result,
    connect::Client,
    failure::FailureKind,
    proto::{common, machine, machine::etcd_member_alarm::AlarmType},
};

/// What a member of etcd raised an alarm about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdAlarm {
    /// Its space is used up: it accepts no writes.
    NoSpace,
    /// Its data are damaged.
    Corrupt,
}

fn alarms(alarms: Vec<machine::EtcdMemberAlarm>) -> Vec<(u64, EtcdAlarm)> {
    alarms
        .into_iter()
        .filter_map(|alarm| {
            let kind = match alarm.alarm() {
                AlarmType::None => return None,
                AlarmType::Nospace => EtcdAlarm::NoSpace,
                AlarmType::Corrupt => EtcdAlarm::Corrupt,
            };
            Some((alarm.member_id, kind))
        })
        .collect()
}

fn cluster_version(downgrade: Option<machine::EtcdClusterDowngrade>) -> String {
    downgrade.unwrap_or_default().cluster_version
}

impl Client {
    /// The alarms of etcd: member and what about.
    pub async fn etcd_alarms(&self) -> Result<Vec<(u64, EtcdAlarm)>> {
        let reply = self.call("list etcd alarms", self.machine().etcd_alarm_list(self.request(()))).await?;
        Ok(alarms(self.only("list etcd alarms", reply.messages)?.member_alarms))
    }

    /// Takes back the alarms of etcd; returns those that were.
    pub async fn etcd_disarm(&self) -> Result<Vec<(u64, EtcdAlarm)>> {
        let reply =
            self.call("disarm etcd alarms", self.machine().etcd_alarm_disarm(self.request(()))).await?;
        Ok(alarms(self.only("disarm etcd alarms", reply.messages)?.member_alarms))
    }

    /// Makes this member's database small again. It answers nobody meanwhile: one member at a time.
    pub async fn etcd_defragment(&self) -> Result<()> {
        let patience = Duration::from_mins(5);
        let mut machine = self.machine();
        let request = machine.etcd_defragment(self.request(()));
        let reply = self.call_within("defragment etcd", patience, request).await?;
        self.only("defragment etcd", reply.messages).map(drop)
    }

    /// Whether etcd could go back to an older version such as `3.5` (since 1.11); returns the version it has. The node
    /// says why not.
    pub async fn etcd_downgrade_validate(&self, version: &str) -> Result<String> {
        const OPERATION: &str = "validate etcd downgrade";
        let request = self.request(machine::EtcdDowngradeValidateRequest { version: version.into() });
        let reply = self.call(OPERATION, self.machine().etcd_downgrade_validate(request)).await?;
        Ok(cluster_version(self.only(OPERATION, reply.messages)?.cluster_downgrade))
    }

    /// Lets etcd go back to an older version such as `3.5` (since 1.11): its members do when they start with that one.
    pub async fn etcd_downgrade_enable(&self, version: &str) -> Result<String> {
        const OPERATION: &str = "enable etcd downgrade";
        let request = self.request(machine::EtcdDowngradeEnableRequest { version: version.into() });
        let reply = self.call(OPERATION, self.machine().etcd_downgrade_enable(request)).await?;
        Ok(cluster_version(self.only(OPERATION, reply.messages)?.cluster_downgrade))
    }

    /// Takes back what [`Client::etcd_downgrade_enable`] allowed.
    pub async fn etcd_downgrade_cancel(&self) -> Result<String> {
        const OPERATION: &str = "cancel etcd downgrade";
        let reply = self.call(OPERATION, self.machine().etcd_downgrade_cancel(self.request(()))).await?;
        Ok(cluster_version(self.only(OPERATION, reply.messages)?.cluster_downgrade))
    }

    /// Sends a snapshot to a node whose etcd is to begin with it; [`Client::bootstrap_recovered`] then starts it.
    pub async fn etcd_recover(&self, snapshot: impl Stream<Item = Vec<u8>> + Send + 'static) -> Result<()> {
        let parts = snapshot.map(|bytes| common::Data { metadata: None, bytes });
        let patience = Duration::from_mins(10);
        let mut machine = self.machine();
        let request = machine.etcd_recover(self.request(parts));
        let reply = self.call_within("upload etcd snapshot", patience, request).await?;
        self.only("upload etcd snapshot", reply.messages).map(drop)
    }

    /// Starts etcd on this node from the snapshot sent before. `skip_hash_check` is for snapshots copied out of a data
    /// folder, which have no checksum.
    pub async fn bootstrap_recovered(&self, skip_hash_check: bool) -> Result<Bootstrap> {
        let request = self.request(machine::BootstrapRequest {
            recover_etcd: true,
            recover_skip_hash_check: skip_hash_check,
        });
        let done = match self.call("bootstrap", self.machine().bootstrap(request)).await {
            Ok(reply) => self.only("bootstrap", reply.messages).map(|_| Bootstrap::Started),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if error.kind() == Some(FailureKind::AlreadyExists) => Ok(Bootstrap::AlreadyDone),
            other => other,
        }
    }
}
