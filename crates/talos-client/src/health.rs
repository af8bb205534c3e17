//! The health of the whole cluster, as a control plane sees it.

use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::Instant;

use crate::{
    Result,
    connect::Client,
    failure::{Failure, FailureKind},
    proto::cluster,
};

/// Which cluster is to be healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheck {
    /// Addresses of the control planes; the node finds them out itself if none are named.
    pub control_planes: Vec<String>,
    /// Addresses of the workers.
    pub workers: Vec<String>,
    /// Where the Kubernetes API is asked, if not at the cluster's endpoint.
    pub endpoint: Option<String>,
    /// How long the node waits for everything to be well.
    pub patience: Duration,
}

impl Client {
    /// Has a control plane check etcd, the nodes' services and Kubernetes: what it says as it goes. The end of the
    /// stream means that all is well; an error that something is not, or that there was no answer in time.
    pub async fn health_check(
        &self,
        check: &HealthCheck,
    ) -> Result<impl Stream<Item = Result<String>> + Send + use<>> {
        const OPERATION: &str = "check health";
        // The node keeps the time itself; it is given a little more to say so.
        let wait = check.patience.checked_add(self.call_timeout);
        let told = prost_types::Duration::try_from(check.patience).ok();
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let (Some(wait), Some(wait_timeout), Some(deadline)) = (wait, told, deadline) else {
            let why = format!("{} seconds is longer than a node can wait", check.patience.as_secs());
            return Err(self.failed(OPERATION, Failure::new(FailureKind::Other, why)));
        };
        let request = self.request(cluster::HealthCheckRequest {
            wait_timeout: Some(wait_timeout),
            cluster_info: Some(cluster::ClusterInfo {
                control_plane_nodes: check.control_planes.clone(),
                worker_nodes: check.workers.clone(),
                force_endpoint: check.endpoint.clone().unwrap_or_default(),
            }),
        });
        // Nothing comes before the node has found the others, for which it may take all the time it has.
        let stream = self.call_within(OPERATION, wait, self.cluster().health_check(request)).await?;
        let state = Some((self.clone(), stream));
        Ok(futures::stream::unfold(state, move |state| async move {
            let (client, mut stream) = state?;
            let failure = match tokio::time::timeout_at(deadline, stream.next()).await {
                Ok(None) => return None,
                Ok(Some(Ok(progress))) => match Failure::of_metadata(progress.metadata.as_ref()) {
                    Ok(()) => return Some((Ok(progress.message), Some((client, stream)))),
                    Err(failure) => failure,
                },
                Ok(Some(Err(status))) => client.of_status(&status),
                Err(_) => Failure::timeout(),
            };
            Some((Err(client.failed(OPERATION, failure)), None))
        }))
    }
}
