//! One running machine as others see it: its state, console, events, and the orders it takes.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::config::MachineConfig;
use super::network::Link;
use crate::image::SystemImage;
use crate::{Hardware, Pace};

/// How many console lines and events a machine keeps.
const KEPT: usize = 500;

/// Where a machine is in its life; the numbers are the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Booting = 1,
    Installing = 2,
    Maintenance = 3,
    Running = 4,
    Rebooting = 5,
    ShuttingDown = 6,
    Resetting = 7,
    Upgrading = 8,
}

impl Stage {
    /// The name in resources.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Installing => "installing",
            Self::Maintenance => "maintenance",
            Self::Running => "running",
            Self::Rebooting => "rebooting",
            Self::ShuttingDown => "shutting down",
            Self::Resetting => "resetting",
            Self::Upgrading => "upgrading",
        }
    }
}

/// A system service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) state: &'static str,
    pub(crate) healthy: bool,
    /// None: this service has no health check.
    pub(crate) checked: bool,
    pub(crate) since: i64,
    /// What it has been through: state, message, moment.
    pub(crate) history: Vec<(&'static str, String, i64)>,
}

impl Service {
    /// Nobody knows how it is: it has no health check, or has not been checked since it began.
    pub(crate) fn unknown(&self) -> bool {
        let beginning = matches!(self.state, "Starting" | "Waiting" | "Preparing" | "Running");
        !self.checked || (beginning && !self.healthy)
    }
}

/// A line on the serial console.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) serial: u64,
    pub(crate) at: i64,
    pub(crate) text: String,
}

/// Something that happened on a machine, for the event stream.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) serial: u64,
    pub(crate) at: i64,
    pub(crate) actor: String,
    pub(crate) data: prost_types::Any,
}

/// What someone asks a machine to do with itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Boot again.
    Reboot { actor: String },
    /// Power off.
    Shutdown { actor: String },
    /// Wipe partitions, then reboot or power off.
    Reset { actor: String, labels: Vec<String>, whole_disk: bool, graceful: bool, reboot: bool },
    /// Install another system and boot it.
    Upgrade { actor: String, image: SystemImage, stage: bool },
}

#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) image: Option<SystemImage>,
    /// The firmware checked its signature.
    pub(crate) secure: bool,
    pub(crate) links: Vec<Link>,
    /// The address claimed on the network.
    pub(crate) address: Option<IpAddr>,
    pub(crate) hostname: String,
    pub(crate) boot_id: String,
    pub(crate) booted_at: i64,
    pub(crate) stage: Option<Stage>,
    pub(crate) config: Option<Arc<MachineConfig>>,
    pub(crate) services: BTreeMap<&'static str, Service>,
    pub(crate) console: VecDeque<Line>,
    /// How many lines there have been.
    pub(crate) lines: u64,
    /// The last line before this boot: the kernel's log begins after it.
    pub(crate) boot_line: u64,
    pub(crate) events: VecDeque<Happening>,
    pub(crate) serial: u64,
    /// Answers the node API with a configuration.
    pub(crate) apid: bool,
    /// Signs workers' certificates.
    pub(crate) trustd: bool,
    /// The container runtime is up.
    pub(crate) cri: bool,
    /// etcd runs and is part of a cluster.
    pub(crate) etcd: bool,
    /// The API server process is ready to answer.
    pub(crate) api_server: bool,
    /// Its listeners are open.
    pub(crate) api_open: Option<CancellationToken>,
    /// The kubelet has reported Ready.
    pub(crate) ready: bool,
    /// The kubelet runs.
    pub(crate) kubelet: bool,
    /// Kubernetes knows the node.
    pub(crate) registered: bool,
    /// What cluster it last reported to.
    pub(crate) registered_in: Option<Arc<crate::kubernetes::Store>>,
    /// The guest has powered itself off.
    pub(crate) halted: bool,
    /// Everything of this boot ends with this.
    pub(crate) session: CancellationToken,
    /// Answers calls that are addressed to this machine, for others that forward to it.
    pub(crate) handler: Option<crate::http::Handler>,
    /// Counts the configurations given: a trial is only taken back if none came after it.
    pub(crate) applied: u64,
    /// Its etcd has left its cluster and stays stopped until the next boot.
    pub(crate) etcd_left: bool,
    /// Container images that were pulled: name and digest.
    pub(crate) images: BTreeMap<String, String>,
    /// How often each derived resource has changed: (content, version, created, updated).
    pub(crate) versions: BTreeMap<(String, String), (u64, u64, i64, i64)>,
}

pub(crate) struct Node {
    pub(crate) vmid: u32,
    /// The disk's identity, if there is a disk.
    pub(crate) disk: Option<String>,
    hardware: Mutex<Hardware>,
    state: Mutex<NodeState>,
    changed: watch::Sender<u64>,
    /// Ends when the plug is pulled.
    pub(crate) power: CancellationToken,
    pace: Pace,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    /// Skips all waiting: the machine is brought back to where it was when the lab stopped.
    pub(crate) resumed: AtomicBool,
}

impl Node {
    pub(crate) fn new(
        hardware: Hardware,
        pace: Pace,
        resumed: bool,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        let node = Self {
            vmid: hardware.vmid,
            disk: hardware.disk.as_ref().map(|d| d.identity.clone()),
            hardware: Mutex::new(hardware),
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            power: CancellationToken::new(),
            pace,
            orders,
            resumed: AtomicBool::new(resumed),
        };
        (Arc::new(node), received)
    }

    /// The state, locked. Never held across the world's lock: the world comes first.
    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hardware(&self) -> Hardware {
        self.hardware.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the state and wakes who watches.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut NodeState) -> R) -> R {
        let result = change(&mut self.state());
        self.touch();
        result
    }

    /// Wakes who watches this machine.
    pub(crate) fn touch(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    /// Wakes at every change of this machine.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Writes a line on the serial console.
    pub(crate) fn console(&self, line: impl Into<String>) {
        let line = line.into();
        tracing::debug!(vmid = self.vmid, line, "lab console");
        let at = self.pace.now();
        self.update(|s| {
            s.lines += 1;
            s.console.push_back(Line { serial: s.lines, at, text: line });
            if s.console.len() > KEPT {
                s.console.pop_front();
            }
        });
    }

    /// Replaces the media in the drives.
    pub(crate) fn set_media(&self, cdroms: Vec<Vec<u8>>) {
        self.hardware.lock().unwrap_or_else(PoisonError::into_inner).cdroms = cdroms;
        self.touch();
    }

    /// Sets the stage and tells it to the event stream.
    pub(crate) fn set_stage(&self, stage: Stage, now: i64) {
        self.update(|s| s.stage = Some(stage));
        self.tell_status(now);
    }

    /// Tells the event stream how the machine is.
    pub(crate) fn tell_status(&self, now: i64) {
        use daedal_talos_client::proto::machine::MachineStatusEvent;
        use daedal_talos_client::proto::machine::machine_status_event::{MachineStatus, machine_status};
        let Some(stage) = ({ self.state().stage }) else { return };
        let unmet = self.unmet_conditions();
        let ready = unmet.is_empty() && matches!(stage, Stage::Running | Stage::Maintenance);
        let unmet_conditions = unmet
            .into_iter()
            .map(|(name, reason)| machine_status::UnmetCondition { name: name.into(), reason })
            .collect();
        let status = Some(MachineStatus { ready, unmet_conditions });
        self.event(
            "machine.MachineStatusEvent",
            &MachineStatusEvent { stage: stage as i32, status },
            "",
            now,
        );
    }

    /// Adds to the event stream.
    pub(crate) fn event(&self, kind: &str, message: &impl prost::Message, actor: &str, now: i64) {
        self.update(|s| {
            s.serial += 1;
            let serial = s.serial;
            s.events.push_back(Happening {
                serial,
                at: now,
                actor: actor.to_owned(),
                data: prost_types::Any {
                    type_url: format!("talos/runtime/{kind}"),
                    value: message.encode_to_vec(),
                },
            });
            if s.events.len() > KEPT {
                s.events.pop_front();
            }
        });
    }

    /// Sets a service's state.
    pub(crate) fn service(&self, id: &'static str, state: &'static str, healthy: bool, now: i64) {
        let message = match (state, healthy) {
            ("Running", true) => "Health check successful".to_owned(),
            ("Running", false) => format!("Started task {id} (PID {}) for container {id}", 1000 + id.len()),
            ("Preparing", _) => "Creating service runner".to_owned(),
            ("Waiting", _) => "Waiting for a condition to be met".to_owned(),
            (state, _) => format!("Service is {}", state.to_ascii_lowercase()),
        };
        let checked = !matches!(id, "auditd" | "dashboard" | "syslogd");
        let last_change = Some(prost_types::Timestamp { seconds: now, nanos: 0 });
        self.update(|s| {
            let before = s.services.remove(id);
            let mut history = before.map(|service| service.history).unwrap_or_default();
            if history.is_empty() {
                history.push(("Starting", "Starting service".to_owned(), now));
            }
            history.push((state, message.clone(), now));
            s.services.insert(id, Service { state, healthy, checked, since: now, history });
        });
        let action = match state {
            "Preparing" => 1,
            "Waiting" => 2,
            "Running" => 3,
            "Stopping" => 4,
            "Finished" => 5,
            "Failed" => 6,
            _ => 0,
        };
        let unknown = self.state().services.get(id).is_none_or(Service::unknown);
        let health = daedal_talos_client::proto::machine::ServiceHealth {
            unknown,
            healthy: !unknown && healthy,
            last_message: String::new(),
            last_change,
        };
        let event = daedal_talos_client::proto::machine::ServiceStateEvent {
            service: id.to_owned(),
            action,
            message,
            health: Some(health),
        };
        self.event("machine.ServiceStateEvent", &event, "", now);
    }

    /// A service is stopped and taken away; what comes after it under its name is another.
    pub(crate) fn withdraw(&self, id: &'static str) {
        self.update(|s| {
            s.services.remove(id);
            s.versions.remove(&("Services.v1alpha1.talos.dev".to_owned(), id.to_owned()));
            s.kubelet &= id != "kubelet";
        });
    }

    /// Why a booting or running machine is not ready, as (condition, reason), in the words of Talos.
    pub(crate) fn unmet_conditions(&self) -> Vec<(&'static str, String)> {
        let state = self.state();
        let mut unmet = Vec::new();
        if !matches!(state.stage, Some(Stage::Booting | Stage::Running)) {
            return unmet;
        }
        let problem = |(id, service): (&&'static str, &Service)| match (service.state, service.healthy) {
            _ if !service.checked => None,
            ("Running", healthy) if healthy || service.unknown() => None,
            ("Running", _) => Some(format!("{id} not healthy")),
            _ => Some(format!("{id} not running")),
        };
        let problems: Vec<String> = state.services.iter().filter_map(problem).collect();
        if !problems.is_empty() {
            unmet.push(("services", problems.join(", ")));
        }
        if !state.registered {
            unmet.push(("nodeReady", format!("node \"{}\" status is not available yet", state.hostname)));
        } else if !state.ready {
            unmet.push(("nodeReady", format!("node \"{}\" is not ready", state.hostname)));
        }
        unmet
    }

    /// Whether durations are skipped.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed.load(Ordering::Relaxed)
    }
}
