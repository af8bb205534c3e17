//! Observes the world and executes plans: the only part that acts.
//!
//! The entry type is [`Engine`], built from [`Parts`] (clients, routes, store, clock, effects, limits). It reads no
//! environment and no terminal, assumes neither one cluster nor one process, and keeps nothing between calls.
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

mod access;
mod account;
mod addresses;
mod backup;
mod clock;
mod effects;
mod engine;
mod entropy;
mod error;
mod event;
mod execute;
mod image;
mod kubernetes;
mod leftovers;
mod limits;
mod live;
mod machine;
mod marking;
mod node_details;
mod node_identities;
mod nodes;
mod observe;
mod outputs;
mod privileges;
mod report;
mod routes;
mod run;
mod settings;
mod status;
mod templates;
mod unreached;
mod vet;

pub use access::{Credential, kubeconfig, talosconfig};
pub use account::{Account, Ensured, Secret};
pub use addresses::found_addresses;
pub use backup::{Backup, Kept};
pub use clock::{Clock, FixedClock, SystemClock};
pub use effects::{Effect, EffectKind, Effects, Gate, Open, Refused, Verdict};
pub use engine::{Engine, NewSecrets, Parts};
pub use entropy::Entropy;
pub use error::{ConfigOwner, Doubt, Error, ErrorKind, chain};
pub use event::{Event, StepRef, stage};
pub use leftovers::LeftoverList;
pub use limits::Limits;
pub use live::{Check, CheckVerdict, LiveReport, NotInFactory};
pub use marking::LostMark;
pub use node_details::{
    AddressDetails, ConditionDetails, DiskDetails, EtcdDetails, ExtensionDetails, KubernetesAddress,
    KubernetesDetails, LinkDetails, NicDetails, NodeDetails, ProxmoxDetails, ServiceDetails, Side,
    TaintDetails, TalosDetails, UnmetCondition, Unread, VolumeDetails,
};
pub use observe::RunsOn;
pub use outputs::{Outputs, Rekeyed};
pub use privileges::{Grant, Scope, Use, vnet_zones};
pub use report::{Report, StepReport, StepState};
pub use routes::routes;
pub use run::Run;
pub use status::{NodeStatus, Side as StatusSide, StatusReport, Unasked};
pub use templates::TemplateList;
pub use vet::{SecondLook, vet};
