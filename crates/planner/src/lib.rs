//! `(Cluster, World) → Plan`. Pure: no I/O, no clock, no randomness; same input, same plan, byte for byte.
//!
//! [`plan_apply`], [`plan_remove`], [`plan_destroy`] and one such function for everything else that changes anything turn a declared cluster and what was observed ([`World`]) into a [`Plan`]: an
//! immutable graph of typed steps with reasons. [`check`] judges any plan, however it was made; [`fits`] says whether a saved one may still be executed. [`Judge`] decides whose a guest is, [`names`] what
//! our files are called.
//!
//! What holds for every plan (see `tests/laws.rs` for the proofs by random worlds):
//! - Only guests whose mark, cluster uuid, VMID and SMBIOS uuid agree are touched, and only where they are.
//! - A node that something stands in the way of is left alone and named in a note; the rest goes on.
//! - etcd is bootstrapped at most once, never while anything that may hold one has not been asked.
//! - After a plan is executed the next one is empty; after a crash anywhere the next one leads to the same end.

mod account;
mod advice;
mod apply;
mod basis;
mod bootstrap;
mod capacity;
mod check;
mod config;
mod counts;
mod destroy;
mod difference;
mod doubtful;
mod drift;
mod error;
mod fit;
mod fix;
#[cfg(test)]
mod fixture;
mod generation;
mod graph;
mod guard;
mod image;
mod judge;
mod phase;
mod placement;
mod plan;
mod prune;
mod remains;
mod remove;
mod restore_mark;
mod stays;
mod storages;
mod survey;
mod templates;
#[cfg(test)]
mod tests;
mod volumes;
mod why;
mod world;

pub use account::{
    Account, AccountNote, AccountPlan, AccountStep, AccountView, AclView, Grant, Holder, RoleView, Secret,
    check_account, plan_account,
};
pub use advice::{
    Advice, Died, GuestName, MediaHidden, NotEvicted, StorageFault, StorageUse, TemplateObstacle,
    UnlistedRisk, VmidTaken, VolumeName,
};
pub use apply::{can_create, plan_apply, plan_restore};
pub use bootstrap::Voters;
pub use capacity::{CLONE_FULL, lacks_linked_clones, storages_needed};
pub use check::{Finding, Rule, check};
pub use config::{names_kubernetes, why_config_stays};
pub use counts::{
    Counts, FileCounts, FirewallCounts, ObjectCounts, PartCounts, TemplateCounts, Templates, VmCounts,
    counts, deleted_images, deleted_volumes, objects, restarted, touched,
};
pub use daedal_machine::digest::{intent, node_digest, template_digest};
pub use daedal_machine::guards;
pub use daedal_machine::names;
pub use daedal_machine::vm::Change;
pub(crate) use daedal_machine::{digest, mark, size, slots};
pub use destroy::{plan_destroy, plan_destroy_without_secrets};
pub use difference::{Difference, Remedy, Stays};
pub use doubtful::{in_doubt, may_be};
pub use error::{
    NoRoom, NotMarked, PlanError, Resource, Shortfall, UnusableHost, WhyNoRestore, destroying, freeing,
    freeing_unseen, no_second_etcd, other_secrets, some_of, strangers_address, without_import,
};
pub use fit::{Moved, Unfit, fits, known_format, plan_id};
pub use fix::{Command, Fix};
pub use generation::{Generation, Unseen};
pub use guard::{BackupWish, FirewallWish, plan_backup_job, plan_firewall, plan_ha};
pub use judge::{Identity, Judge};
pub use mark::{
    CloneMark, FoundMark, Mark, SecretsId, Stamp, TemplateMark, description, first_description, remark,
};
pub use names::{Content, ImageRef, Images};
pub use phase::{Missing, Phase, plan_phase};
pub use plan::*;
pub use prune::{Pruning, plan_prune_templates, plan_prune_volumes};
pub use remains::{Remains, remains};
pub use remove::{Removal, plan_remove};
pub use restore_mark::plan_mark;
pub use size::asked_size;
pub use slots::{Seat, Seats, disk_serial, disk_slots, seat};
pub use stays::{Staying, StayingGuard, staying};
pub use storages::{Leftover, leftovers, storage_warnings, unlisted_disks};
pub use templates::{TemplateRow, templates};
pub use why::{InterruptedBy, WhyConfigStays, WhyStays};
pub use world::*;
