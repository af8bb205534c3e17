//! etcd, as the nodes' Talos API has it: who is in it, who serves, and how it begins and changes.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use daedal_dial::Target;
use daedal_inventory::Node;
use daedal_talos_client::{Bootstrap, Client, Error as TalosError, EtcdMember, FailureKind, ResourceEvents};

use super::{Former, Nodes, Peer};
use crate::backup;
use crate::error::chain;

/// A member that boots also says for a moment that its etcd is being prepared; one that still says so after this long
/// waits to be bootstrapped or taken in.
pub(crate) const PREPARING_PASSES: Duration = Duration::from_secs(3);

/// What a control plane says of etcd.
#[derive(Clone, Debug)]
pub(crate) enum Membership {
    /// It is in one, with these members.
    Of {
        members: Vec<Member>,
        /// Which of them it says it is itself.
        own: Option<u64>,
    },
    /// It answers, and its etcd waits to be bootstrapped or taken in.
    NotJoined(String),
    /// It does not say.
    Unreachable(String),
}

/// One etcd member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its id.
    pub(crate) id: u64,
    /// The name that its node has for itself; empty until it has started.
    pub(crate) name: String,
    /// Where it says that others reach it, best first.
    pub(crate) addresses: Vec<IpAddr>,
    /// It may not vote yet.
    pub(crate) learner: bool,
}

/// Asks a node for its etcd. Where that does not run, nodes say nothing of it at all; only the service tells that it waits.
async fn membership(client: &Client, patience: Duration) -> Result<Membership, TalosError> {
    let mut members = std::pin::pin!(listed(client));
    let services = tokio::select! {
        biased;
        answer = &mut members => return answer,
        services = client.service_list() => services?,
    };
    let state = services.iter().find(|service| service.id == "etcd").map(|service| service.state.as_str());
    match state {
        None => Ok(Membership::Unreachable("its etcd has not begun".to_owned())),
        Some("Preparing") => Ok(Membership::NotJoined("its etcd waits".to_owned())),
        Some(state) if state != "Running" => Ok(Membership::Unreachable(format!("its etcd is {state}"))),
        Some(_) => match tokio::time::timeout(patience / 2, members).await {
            Ok(answer) => answer,
            Err(_) => Ok(Membership::Unreachable("its etcd does not answer".to_owned())),
        },
    }
}

/// The members that a node lists, and which it is. Only its own word says that for certain: names are given by others, and members may
/// be on another network than the one that nodes are declared on.
async fn listed(client: &Client) -> Result<Membership, TalosError> {
    let (members, status) = tokio::join!(client.etcd_members(), client.etcd_status());
    let member = |member: EtcdMember| Member {
        id: member.id,
        addresses: member.peer_urls.iter().chain(&member.client_urls).filter_map(|url| host(url)).collect(),
        name: member.hostname,
        learner: member.is_learner,
    };
    let members: Vec<Member> = members?.into_iter().map(member).collect();
    let own = status.ok().map(|status| status.member_id);
    Ok(Membership::Of { own: own.filter(|own| members.iter().any(|one| one.id == *own)), members })
}

/// The address in a URL such as `https://10.0.0.11:2380` or `https://[fd00::11]:2380`.
fn host(url: &str) -> Option<IpAddr> {
    Target::of_uri(&url.parse().ok()?)?.host.parse().ok()
}

/// How a node took the bootstrap call.
#[derive(Debug)]
pub(crate) enum Bootstrapped {
    /// etcd starts now.
    Accepted,
    /// It has etcd data: it was done before.
    Already,
    /// It cannot yet, and did nothing.
    NotYet(String),
    /// It will not.
    Refused(TalosError),
    /// The answer was lost: it may have happened.
    Unknown(String),
}

/// How a change of etcd's members went.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It is done.
    Done,
    /// Not now, or the answer was lost: whoever asks looks again.
    NotYet(String),
    /// It will not.
    Refused(TalosError),
}

impl Nodes {
    /// Follows a control plane's etcd service: what it is now, then every change.
    pub(crate) async fn follow_etcd(
        &self,
        node: &Node,
        patience: Duration,
    ) -> Result<ResourceEvents, TalosError> {
        let client = self.connect(node, patience).await?;
        client.watch("runtime", "Services.v1alpha1.talos.dev", Some("etcd")).await
    }

    /// What a control plane says of etcd.
    pub(crate) async fn members(&self, node: &dyn Peer, patience: Duration) -> Membership {
        let client = match tokio::time::timeout(patience, self.connect(node, patience)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Membership::Unreachable(chain(&error)),
            Err(_) => {
                self.forget(node);
                return Membership::Unreachable("no answer in time".to_owned());
            }
        };
        let answer = match tokio::time::timeout(patience, membership(&client, patience)).await {
            Ok(Ok(membership)) => return membership,
            Ok(Err(error)) => {
                if !matches!(error.kind(), Some(FailureKind::Unreachable | FailureKind::Timeout)) {
                    return Membership::Unreachable(chain(&error));
                }
                chain(&error)
            }
            Err(_) => "no answer in time".to_owned(),
        };
        self.forget(node);
        Membership::Unreachable(answer)
    }

    /// Uploads a snapshot to a node whose etcd is to begin with it.
    pub(crate) async fn upload_snapshot(&self, node: &Node, file: &Path, patience: Duration) -> Changed {
        let parts = backup::parts(file.to_owned());
        let call = async |client: Client| client.etcd_recover(parts).await.map(|()| None);
        self.change(node, patience, call).await
    }

    /// Lets a node leave etcd by itself. What answers at its address must say that it is that node.
    pub(crate) async fn leave_etcd(&self, node: &Former, patience: Duration) -> Changed {
        let call = async |client: Client| {
            let hostname = client.hostname().await?;
            if hostname != node.called {
                return Ok(Some(format!("{} answers as {hostname}", node.address)));
            }
            // A leader that hands over costs the others no election; one that cannot may leave all the same.
            let _ = client.etcd_forfeit_leadership().await;
            client.etcd_leave_cluster().await.map(|()| None)
        };
        self.change(node, patience, call).await
    }

    /// Has a node take another's member out of etcd.
    pub(crate) async fn remove_member(&self, through: &dyn Peer, member: u64, patience: Duration) -> Changed {
        let call = async |client: Client| client.etcd_remove_member(member).await.map(|()| None);
        self.change(through, patience, call).await
    }

    async fn change(
        &self,
        node: &dyn Peer,
        patience: Duration,
        call: impl AsyncFnOnce(Client) -> Result<Option<String>, TalosError>,
    ) -> Changed {
        let client = match tokio::time::timeout(patience, self.connect(node, patience)).await {
            Ok(Ok(client)) => client,
            // Nothing was asked yet.
            Ok(Err(error)) => return Changed::NotYet(chain(&error)),
            Err(_) => return Changed::NotYet("no answer in time".to_owned()),
        };
        match tokio::time::timeout(patience, call(client)).await {
            Ok(Ok(None)) => Changed::Done,
            Ok(Ok(Some(why))) => Changed::NotYet(why),
            Ok(Err(error)) if error.kind().is_some_and(|kind| !kind.may_pass()) => Changed::Refused(error),
            Ok(Err(error)) => {
                self.forget(node);
                Changed::NotYet(chain(&error))
            }
            Err(_) => {
                self.forget(node);
                Changed::NotYet("no answer in time".to_owned())
            }
        }
    }

    /// Whether a member serves: it is that one who answers, follows a leader, votes, and complains of nothing. An error says what
    /// is wrong.
    pub(crate) async fn serves(&self, node: &dyn Peer, id: u64, patience: Duration) -> Result<(), String> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            client.etcd_status().await
        };
        let status = self.answer(node, patience, ask).await?;
        match status.errors.first() {
            _ if status.member_id != id => {
                Err(format!("it is member {:x} who answers there", status.member_id))
            }
            _ if status.is_learner => Err("it is a learner".to_owned()),
            _ if status.leader == 0 => Err("it has no leader".to_owned()),
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Bootstraps etcd on a node, empty or with the snapshot that was uploaded.
    pub(crate) async fn bootstrap(&self, node: &Node, recover: bool, patience: Duration) -> Bootstrapped {
        let client = match self.connect(node, patience).await {
            Ok(client) => client,
            Err(error) if error.kind() == Some(FailureKind::OtherCluster) => {
                return Bootstrapped::Refused(error);
            }
            // Nothing was asked yet.
            Err(error) => return Bootstrapped::NotYet(chain(&error)),
        };
        let call = async {
            match recover {
                true => client.bootstrap_recovered(false).await,
                false => client.bootstrap().await,
            }
        };
        let Ok(answer) = tokio::time::timeout(patience, call).await else {
            self.forget(node);
            return Bootstrapped::Unknown("no answer in time".to_owned());
        };
        match answer {
            Ok(Bootstrap::Started) => Bootstrapped::Accepted,
            Ok(Bootstrap::AlreadyDone) => Bootstrapped::Already,
            Err(error) => match error.kind() {
                Some(FailureKind::FailedPrecondition) => Bootstrapped::NotYet(chain(&error)),
                Some(FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient) => {
                    self.forget(node);
                    Bootstrapped::Unknown(chain(&error))
                }
                _ => Bootstrapped::Refused(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_members_url_is_found() {
        assert_eq!(host("https://10.0.0.11:2380"), Some("10.0.0.11".parse().unwrap()));
        assert_eq!(host("https://[fd00::11]:2380"), Some("fd00::11".parse().unwrap()));
        assert_eq!(host("https://cp-1.lan:2380"), None);
    }
}
