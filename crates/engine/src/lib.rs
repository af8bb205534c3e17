//! Observes the world and executes plans: the only part that acts.
//!
//! The entry type is [`Engine`], built from [`Parts`] (clients, routes, store, clock, effects, limits). It reads no
//! environment and no terminal, assumes neither one cluster nor one process, and keeps nothing between calls. Engines of several
//! clusters on one Proxmox are made by one [`Site`], whose hosts they load no more together than each alone.
//!
//! ```text
//! let engine = Engine::new(parts);
//! let world  = engine.observe(&cluster).await?;            // what is there, and what could not be seen
//! let image  = engine.images(&cluster);                     // computed offline
//! let plan   = daedal_planner::plan_apply(&cluster, &image, &world)?;
//!                                                          // pure
//! let report = engine.execute(&cluster, &world, &plan, &run).await?;
//! let table  = engine.status(&cluster).await?;
//! let checks = engine.live_checks(&cluster).await;
//! ```
//!
//! A [`Run`] carries the channel of [`Event`]s and two ways to stop: `stop` begins nothing new and lets what runs
//! end; `abandon` drops what runs as well. Dropping the future of `execute` is a crash, and a crash is safe.
//!
//! Invariants:
//! - Every mutating call passes [`Effects`]; nothing else mutates.
//! - An existing VM is mutated only after VMID, mark and SMBIOS uuid were read from its node and all agree.
//! - A call that may have happened is never repeated blindly: the world is read again first.
//! - Secrets are stored and read back before the first byte that depends on them leaves the machine.

mod account;
mod account_script;
mod addons;
mod addresses;
mod backup;
mod clock;
mod effects;
mod engine;
mod entropy;
mod error;
mod event;
mod execute;
mod host_files;
mod kubernetes;
mod leftovers;
mod limits;
mod live;
mod machine;
mod node_details;
mod node_identities;
mod nodes;
mod observe;
mod outputs;
mod privileges;
mod report;
mod routes;
mod run;
mod site;
mod status;
mod templates;
mod unreached;

pub use account::{AccountReport, Accounts};
pub use account_script::commands as account_commands;
pub use addons::{AddonFiles, NoFiles};
pub use addresses::found_addresses;
pub use backup::{Backup, Kept};
pub use clock::{Clock, FixedClock, SystemClock};
pub use daedal_machine::access::{Credential, kubeconfig, talosconfig};
pub use daedal_machine::{ConfigOwner, SecondLook, views};
pub use effects::{Effect, EffectKind, Effects, Gate, Open, Refused, Verdict};
pub use engine::{Engine, NewSecrets, Parts, vet};
pub use entropy::Entropy;
pub use error::{Doubt, Error, ErrorKind, chain};
pub use event::{Event, StepRef};
pub use host_files::HostFiles;
pub use leftovers::LeftoverList;
pub use limits::Limits;
pub use live::{Check, CheckSubject, CheckVerdict, LiveReport, NotInFactory};
pub use node_details::{
    AddressDetails, ConditionDetails, DiskDetails, EtcdDetails, ExtensionDetails, KubernetesAddress,
    KubernetesDetails, LinkDetails, NicDetails, NodeDetails, ProxmoxDetails, ServiceDetails, Side,
    TaintDetails, TalosDetails, UnmetCondition, Unread, VolumeDetails,
};
pub use observe::RunsOn;
pub use outputs::{Outputs, Rekeyed};
pub use privileges::{Scope, Use, vnet_zones};
pub use report::{Report, StepReport, StepState};
pub use routes::{RouteError, routes};
pub use run::Run;
pub use site::Site;
pub use status::{
    AddonState, AddonStatus, NodeStatus, Side as StatusSide, StatusReport, Unasked, addon_statuses, vm_word,
};
pub use templates::TemplateList;
