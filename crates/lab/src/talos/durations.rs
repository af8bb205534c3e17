//! How long the parts of a node's life take, in simulated time.

use std::time::Duration;

/// All durations of a simulated node in one place, with the values seen on real ones as defaults.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Firmware, boot loader and kernel of a VM, until the machine's own code runs.
    pub kernel: Duration,
    /// Until maintenance mode answers.
    pub maintenance: Duration,
    /// Between two looks for a usable configuration after a broken one.
    pub config_retry: Duration,
    /// Until the node API answers once there is a configuration.
    pub apid: Duration,
    /// Until a worker has its certificate once a control plane can sign it.
    pub trustd: Duration,
    /// Until the container runtime is up, which bootstrap needs.
    pub cri: Duration,
    /// Until etcd's process starts once its member is known; until then its service is said to be preparing.
    pub etcd_prepare: Duration,
    /// Until etcd is healthy after its process has started.
    pub etcd: Duration,
    /// How long a new member stays a learner.
    pub etcd_promotion: Duration,
    /// Until the API server answers after etcd is healthy for the first time.
    pub api_server_first: Duration,
    /// Until the API server answers on a control plane that joins or comes back.
    pub api_server: Duration,
    /// Until a node is Ready that was waiting when its API server first appeared: registration retries back off.
    pub kubelet_first: Duration,
    /// Until a node is Ready that starts while the API server answers.
    pub kubelet: Duration,
    /// Until a kubelet runs again that is restarted with other certificates.
    pub kubelet_restart: Duration,
    /// Until the shared address answers at another control plane.
    pub vip: Duration,
    /// Until Kubernetes calls a silent node NotReady.
    pub node_grace: Duration,
    /// Stopping services before a reboot or a shutdown.
    pub stop: Duration,
    /// Running the installer.
    pub install: Duration,
    /// Draining and leaving etcd before a graceful reset.
    pub leave: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            kernel: ms(6_000),
            maintenance: ms(1_500),
            config_retry: ms(5_000),
            apid: ms(1_000),
            trustd: ms(500),
            cri: ms(1_500),
            etcd_prepare: ms(1_000),
            etcd: ms(6_000),
            etcd_promotion: ms(3_000),
            api_server_first: ms(23_000),
            api_server: ms(4_000),
            kubelet_first: ms(35_000),
            kubelet: ms(7_000),
            kubelet_restart: ms(3_000),
            vip: ms(2_000),
            node_grace: ms(40_000),
            stop: ms(3_000),
            install: ms(20_000),
            leave: ms(4_000),
        }
    }
}
