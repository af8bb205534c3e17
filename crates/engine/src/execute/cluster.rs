//! The one step that must never happen twice: bootstrapping etcd.

use std::path::PathBuf;
use std::time::Duration;

use daedal_inventory::{Node, Role};
use daedal_planner::{Action, Ownership, Recovery, Step};
use futures::future::join_all;

use crate::backup;
use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::nodes::{Bootstrapped, Changed, Membership, Nodes, PREPARING_PASSES};

/// Longest wait for a snapshot to be uploaded.
const UPLOAD: Duration = Duration::from_secs(10 * 60);

/// What the other control planes say about etcd.
enum Elsewhere {
    /// One of them has it.
    Exists,
    /// None of them can have it.
    Nowhere,
    /// This one may have it and does not say.
    Unclear(String),
}

impl Executor<'_> {
    /// With a snapshot: uploaded first, and an etcd that is there without our doing is an error, not a success.
    pub(super) async fn bootstrap(&self, step: &Step, recover: Option<&Recovery>) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        let parts = &self.engine.parts;
        let snapshot = match recover {
            Some(recovery) => Some(self.snapshot(recovery).await?),
            None => None,
        };
        let exists = || Error::EtcdExists { node: node.name.clone() };
        let nodes = self.nodes().await?;
        let what = format!("etcd on {} to be bootstrapped", node.name);
        let mut wait = Waiter::new(self, step, what, parts.limits.etcd);
        let mut asked = false;
        loop {
            let mut elsewhere = self.etcd_elsewhere(nodes, node).await;
            let others_are_older = self.cluster.nodes.iter().any(|other| {
                other.role == Role::ControlPlane && other.name != node.name && self.may_have_etcd(other)
            });
            if others_are_older && matches!(elsewhere, Elsewhere::Nowhere) {
                self.sleep(PREPARING_PASSES).await?;
                elsewhere = self.etcd_elsewhere(nodes, node).await;
            }
            match elsewhere {
                Elsewhere::Exists if asked => return Ok(Outcome::Done),
                Elsewhere::Exists if recover.is_some() => return Err(exists()),
                Elsewhere::Exists => return Ok(Outcome::AlreadyDone),
                Elsewhere::Unclear(why) => {
                    wait.pause(why).await?;
                    continue;
                }
                Elsewhere::Nowhere => {}
            }
            if let Some(file) = &snapshot {
                let call = async { Ok::<_, Error>(nodes.upload_snapshot(node, file, UPLOAD).await) };
                match parts.effects.perform(EffectKind::UploadSnapshot, &node.name, call).await? {
                    Changed::Done => {}
                    Changed::NotYet(why) => {
                        wait.pause(why).await?;
                        continue;
                    }
                    Changed::Refused(source) => {
                        return Err(Error::Talos {
                            what: "upload the snapshot",
                            node: node.name.clone(),
                            source: Box::new(source),
                        });
                    }
                }
            }
            // Until the node says that it cannot yet, each further try is as safe as the first: it refuses a second.
            loop {
                let call = async {
                    Ok::<_, Error>(nodes.bootstrap(node, recover.is_some(), parts.limits.call_timeout).await)
                };
                let answer = parts.effects.perform(EffectKind::Bootstrap, &node.name, call).await?;
                let before = std::mem::replace(&mut asked, true);
                match answer {
                    Bootstrapped::Accepted => return Ok(Outcome::Done),
                    Bootstrapped::Already if recover.is_some() && !before => return Err(exists()),
                    Bootstrapped::Already => return Ok(Outcome::AlreadyDone),
                    Bootstrapped::NotYet(why) => wait.pause(why).await?,
                    Bootstrapped::Refused(source) => {
                        return Err(Error::Talos {
                            what: "bootstrap etcd",
                            node: node.name.clone(),
                            source: Box::new(source),
                        });
                    }
                    Bootstrapped::Unknown(why) => {
                        wait.pause(why).await?;
                        break;
                    }
                }
            }
        }
    }

    /// The file that was given for this run, if it is the one that the plan was made for.
    async fn snapshot(&self, recovery: &Recovery) -> Result<PathBuf, Error> {
        let Some(path) = self.run.snapshot.clone() else {
            return Err(Error::Plan { why: "it restores a snapshot, and none was given".to_owned() });
        };
        let found = backup::digest(path.clone()).await?;
        if found != (recovery.size, recovery.sha256.clone()) {
            return Err(Error::Backup {
                path,
                why: "it is not the one that the plan was made for".to_owned(),
            });
        }
        Ok(path)
    }

    /// Whether some control plane already has an etcd of this cluster. One whose disk is older than this run might,
    /// and must say so itself: a second bootstrap beside it would split the cluster in two.
    async fn etcd_elsewhere(&self, nodes: &Nodes, first: &Node) -> Elsewhere {
        let patience = self.engine.parts.limits.probe_timeout;
        // One that this run makes cannot have any, and need not be up yet.
        let asked = self.cluster.nodes.iter().filter(|node| {
            node.role == Role::ControlPlane && (node.name == first.name || self.may_have_etcd(node))
        });
        let answers =
            join_all(asked.map(|node| async move { (node, nodes.members(node, patience).await) })).await;
        let mut unclear = None;
        for (node, answer) in answers {
            match answer {
                Membership::Of { members, .. } if !members.is_empty() => return Elsewhere::Exists,
                Membership::Of { .. } | Membership::NotJoined(_) => {}
                Membership::Unreachable(why) if node.name != first.name => {
                    unclear = Some(format!("{} does not say whether it has etcd: {why}", node.name));
                }
                Membership::Unreachable(_) => {}
            }
        }
        unclear.map_or(Elsewhere::Nowhere, Elsewhere::Unclear)
    }

    /// Whether a control plane's disk was there before this run.
    fn may_have_etcd(&self, node: &Node) -> bool {
        let made_now = self.plan.steps.iter().any(|step| {
            step.node.as_deref() == Some(&node.name) && matches!(step.action, Action::CreateVm { .. })
        });
        let ours = self.world.guests.values().any(
            |guest| matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name),
        );
        ours && !made_now
    }
}
