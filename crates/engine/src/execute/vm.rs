//! Steps on one VM. Each looks before it repeats, and touches nothing whose mark, VMID and uuid do not all agree.

use std::future::Future;
use std::time::Duration;

use daedal_planner::names::{self, media_node, volid_file};
use daedal_planner::{FoundMark, Likeness, Mark, Ownership, Purpose, Step};
use daedal_proxmox::{Kind, Missing, UpdateVm, Upid, VmConfig};
use tokio::time::Instant;

use crate::effects::EffectKind;
use crate::error::{Error, chain};
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::machine::{self, SYSTEM_DISK, Sources};
use crate::observe::guests::{by_us_and_unfinished, is_bare, judged, maker, whose};

/// Between two looks at a create that is under way.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// How long a VM takes to start when its create does it.
const STARTING: Duration = Duration::from_secs(3);

/// A VM of ours, as read from its node a moment ago.
pub(super) struct Mine {
    pub(super) host: String,
    pub(super) config: VmConfig,
}

/// Whether a VM that shows nothing but `lock: create` may be what a call of this step left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    MaybeByUs,
    NotByUs,
}

impl Executor<'_> {
    pub(super) async fn create_vm(
        &self,
        step: &Step,
        vmid: u32,
        sources: Sources<'_>,
    ) -> Result<Outcome, Error> {
        let (node, host) = (self.node(step)?, self.host(step)?);
        let mut spec = machine::vm(self.cluster, node, sources, &self.stamp());
        if let Some(image) = sources.image {
            spec.start = self.is_large_enough(image, node.disk).await?;
        }
        let spec = &spec;
        self.persist(step, |again| async move {
            if again && let Some(outcome) = self.inspect_created(step, vmid, Reserved::MaybeByUs).await? {
                return Ok(outcome);
            }
            let call = async { Ok(self.engine.parts.proxmox.create_vm(host, spec).await?) };
            match self.perform(EffectKind::CreateVm, vmid, host, call).await {
                Ok(upid) => {
                    self.claim.taken(step);
                    self.finish(step, &upid, &format!("create VM {vmid}")).await?;
                }
                Err(Error::Proxmox(error)) if error.is_already_exists() => {
                    // Refused, our call reserved nothing; an earlier try may have.
                    let reserved = if again { Reserved::MaybeByUs } else { Reserved::NotByUs };
                    let found = self.inspect_created(step, vmid, reserved).await?;
                    return found.ok_or(Error::Proxmox(error));
                }
                Err(error) => return Err(error),
            }
            self.made(vmid);
            if spec.start {
                self.will_start(vmid);
            }
            self.tag_in_pool(step, vmid, host).await?;
            Ok(Outcome::Done)
        })
        .await
    }

    /// Where a create found somebody else's VM, its medium is of no use and goes, and so does the claim to the cluster.
    pub(super) async fn unless_theirs(
        &self,
        step: &Step,
        media: Option<&str>,
        made: Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let Err(error @ Error::NotOurs { .. }) = made else {
            if made.is_ok() {
                self.claim.taken(step);
            }
            return made;
        };
        self.claim.lost(step, &chain(&error));
        if let Some(media) = media.filter(|_| self.judge.secrets().is_some())
            && let Err(left) = self.delete_media(step, media).await
        {
            tracing::warn!(error = %chain(&left), media, "the config medium could not be deleted");
        }
        Err(error)
    }

    pub(super) async fn await_create(&self, step: &Step, vmid: u32, upid: &str) -> Result<Outcome, Error> {
        // The task of a clone that is whole already is of no interest.
        let upid: Option<Upid> = match upid {
            "" => None,
            upid => Some(upid.parse().map_err(|_| Error::Plan { why: format!("`{upid}` is no task") })?),
        };
        self.persist(step, |_| {
            let upid = &upid;
            async move {
                // How it ended is read off the VM, which also tells when the task is forgotten already.
                if let Some(upid) = upid
                    && let Err(error) = self.finish(step, upid, &format!("create VM {vmid}")).await
                {
                    tracing::debug!(error = %chain(&error), vmid, "an earlier create did not end well");
                }
                match self.inspect_created(step, vmid, Reserved::NotByUs).await? {
                    Some(outcome) => Ok(outcome),
                    // A create that failed took its VM away, which is all that a destruction wants.
                    None if self.plan.purpose == Purpose::Destroy => Ok(Outcome::AlreadyDone),
                    None => Err(Error::Gone { vmid }),
                }
            }
        })
        .await
    }

    /// What has become of a create whose answer is not known. None: nothing is there, so it may be tried (again).
    pub(super) async fn inspect_created(
        &self,
        step: &Step,
        vmid: u32,
        reserved: Reserved,
    ) -> Result<Option<Outcome>, Error> {
        let began = Instant::now();
        loop {
            let hint = self.host(step)?;
            let Some((host, config)) = self.find(hint, vmid).await? else {
                match self.unseen(hint, vmid, reserved).await? {
                    Some(upid) => self.await_task_of_earlier(step, vmid, &upid, began).await?,
                    None => return Ok(None),
                }
                continue;
            };
            let proxmox = &self.engine.parts.proxmox;
            let (ownership, config) =
                match whose(proxmox, &self.judge, self.cluster, &host, vmid, config).await {
                    Ok(seen) => seen,
                    // A create that failed has just taken its VM away.
                    Err(error) if error.is_vm_missing() => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
            match ownership {
                Ownership::Ours { node, .. } if Some(&node) == step.node.as_ref() => {
                    self.made(vmid);
                    self.tag_in_pool(step, vmid, &host).await?;
                    return Ok(Some(Outcome::AlreadyDone));
                }
                // A clone that is whole, but not yet the node's.
                Ownership::HalfMade { task_running: true, node, .. }
                    if config.lock.is_none() && Some(&node) == step.node.as_ref() =>
                {
                    self.dress(step, vmid, &host, Some(&config)).await?;
                    self.made(vmid);
                    return Ok(Some(Outcome::Done));
                }
                Ownership::HalfMade { task_running: true, upid, .. } => {
                    let upid: Upid =
                        upid.parse().map_err(|_| Error::Plan { why: format!("`{upid}` is no task") })?;
                    self.await_task_of_earlier(step, vmid, &upid, began).await?;
                }
                Ownership::HalfMade { .. } => return Err(stuck(vmid, host, &config)),
                // Reserved by a call of this very step whose worker never came to be, unless another's worker shows.
                Ownership::Foreign
                    if is_bare(&config)
                        && reserved == Reserved::MaybeByUs
                        && !self.somebody_makes(&host, vmid).await? =>
                {
                    return Err(stuck(vmid, host, &config));
                }
                other => return Err(not_ours(vmid, host, other)),
            }
        }
    }

    /// The task of ours that makes a VM which the token may not see yet, because it joins its pool last. An error if that
    /// task died and left it.
    pub(super) async fn unseen(
        &self,
        host: &str,
        vmid: u32,
        reserved: Reserved,
    ) -> Result<Option<Upid>, Error> {
        let proxmox = &self.engine.parts.proxmox;
        if self.cluster.proxmox.pool.is_none() {
            return Ok(None);
        }
        let died = match maker(proxmox, host, vmid).await? {
            Some(task) if by_us_and_unfinished(proxmox, &task) && task.running() => {
                return Ok(Some(task.upid));
            }
            Some(task) => by_us_and_unfinished(proxmox, &task),
            None => false,
        };
        let maybe_ours =
            died || (reserved == Reserved::MaybeByUs && !self.somebody_makes(host, vmid).await?);
        if maybe_ours && proxmox.vmid_taken(vmid).await? {
            let (host, lock) = (host.to_owned(), "create".to_owned());
            return Err(Error::StuckCreate { vmid, host, lock, unseen: true });
        }
        Ok(None)
    }

    /// Waits for the end of an earlier create. The list of tasks may call it running for a moment longer.
    async fn await_task_of_earlier(
        &self,
        step: &Step,
        vmid: u32,
        upid: &Upid,
        began: Instant,
    ) -> Result<(), Error> {
        match self.finish(step, upid, &format!("create VM {vmid}")).await {
            Err(error @ Error::Deadline { .. }) => return Err(error),
            Err(error) => {
                tracing::debug!(error = %chain(&error), vmid, "an earlier create did not end well");
            }
            Ok(()) => {}
        }
        if began.elapsed() > self.engine.parts.limits.task {
            let (what, after) = (format!("the task that creates VM {vmid}"), began.elapsed());
            return Err(Error::Deadline {
                what,
                after,
                last: Some("its node still calls it running".to_owned()),
            });
        }
        self.sleep(BETWEEN_LOOKS).await
    }

    /// Whether a task that is not our token's makes the VM right now.
    async fn somebody_makes(&self, host: &str, vmid: u32) -> Result<bool, Error> {
        let proxmox = &self.engine.parts.proxmox;
        let task = maker(proxmox, host, vmid).await?;
        Ok(task.is_some_and(|task| task.running() && task.upid.user() != proxmox.token_id()))
    }

    /// A token whose rights come through a pool may set tags only once the VM is in it.
    async fn tag_in_pool(&self, step: &Step, vmid: u32, host: &str) -> Result<(), Error> {
        if self.cluster.proxmox.pool.is_none() || self.plan.purpose == Purpose::Destroy {
            return Ok(());
        }
        let tags = names::tags(self.cluster, self.node(step)?).join(";");
        let update = UpdateVm::new().set("tags", tags);
        let call = async { Ok(self.engine.parts.proxmox.update_vm(host, vmid, &update).await?) };
        self.perform(EffectKind::UpdateVm, vmid, host, call).await
    }

    /// Whether the disk in an image is as large as declared, so that it need not grow. A plan that was made before the image
    /// was read did not know.
    async fn is_large_enough(&self, image: &str, size: u64) -> Result<bool, Error> {
        let file = volid_file(image);
        if self.world.image_pin(file).is_some() || self.cluster.boot.image.is_some() {
            return Ok(self.world.holds(&self.cluster.boot, image, size));
        }
        let pin = self.engine.parts.store.pin(file).await?;
        Ok(pin.and_then(|pin| pin.disk_size).is_some_and(|inside| inside >= size))
    }

    pub(super) async fn grow_disk(&self, step: &Step, vmid: u32, size: u64) -> Result<Outcome, Error> {
        // Where the disk was too small, the VM would not have been started with its creation.
        if self.starts_by_itself(vmid) {
            return Ok(Outcome::AlreadyDone);
        }
        self.persist(step, |again| async move {
            let mut host = self.host(step)?.to_owned();
            if again || !self.is_fresh(vmid) {
                let mine = self.mine_or_gone(step, vmid).await?;
                if disk_size(&mine.config) >= size {
                    return Ok(Outcome::AlreadyDone);
                }
                host = mine.host;
            }
            let call =
                async { Ok(self.engine.parts.proxmox.resize_disk(&host, vmid, SYSTEM_DISK, size).await?) };
            let grown = match self.perform(EffectKind::GrowDisk, vmid, &host, call).await {
                Ok(Some(upid)) => self.finish(step, &upid, &format!("grow the disk of VM {vmid}")).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match grown {
                Ok(()) => Ok(Outcome::Done),
                // An image may already be larger than asked for, and disks never shrink.
                Err(Error::Proxmox(error)) if !error.may_have_happened() && !error.is_passing() => {
                    let mine = self.mine_or_gone(step, vmid).await?;
                    if disk_size(&mine.config) >= size { Ok(Outcome::AlreadyDone) } else { Err(error.into()) }
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn start_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |again| async move {
            let mut host = self.host(step)?.to_owned();
            let proxmox = &self.engine.parts.proxmox;
            if !again && self.starts_by_itself(vmid) {
                // That it does is told by no task of ours; a start that failed is tried once more, by us.
                self.sleep(STARTING).await?;
                if proxmox.vm_status(&host, vmid).await?.running() {
                    return Ok(Outcome::Done);
                }
            } else if again || !self.is_fresh(vmid) {
                host = self.mine_or_gone(step, vmid).await?.host;
                if self.engine.parts.proxmox.vm_status(&host, vmid).await?.running() {
                    return Ok(Outcome::AlreadyDone);
                }
            }
            let call = async { Ok(self.engine.parts.proxmox.start_vm(&host, vmid).await?) };
            let started = match self.perform(EffectKind::StartVm, vmid, &host, call).await {
                // The machine boots meanwhile, which takes longer than noticing late costs.
                Ok(upid) => self.finish_some_time(step, &upid, &format!("start VM {vmid}")).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if matches!(error.kind(), Kind::Running { .. }) => {
                    Ok(Outcome::AlreadyDone)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn stop_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |_| async move {
            let Some(mine) = self.mine(step, vmid).await? else { return Ok(Outcome::AlreadyDone) };
            let host = &mine.host;
            let status = self.engine.parts.proxmox.vm_status(host, vmid).await?;
            if !status.running() {
                return Ok(Outcome::AlreadyDone);
            }
            let call = async { Ok(self.engine.parts.proxmox.stop_vm(host, vmid).await?) };
            let upid = self.perform(EffectKind::StopVm, vmid, host, call).await?;
            self.finish(step, &upid, &format!("stop VM {vmid}")).await?;
            if status.ha.managed {
                let what = format!("the HA manager to stop VM {vmid}");
                self.until_stopped(step, host, vmid, what).await?;
            }
            Ok(Outcome::Done)
        })
        .await
    }

    /// Waits for a VM that stops in its own time: one under high availability, whose task only asks for it, or one that
    /// switches itself off.
    pub(super) async fn until_stopped(
        &self,
        step: &Step,
        host: &str,
        vmid: u32,
        what: String,
    ) -> Result<(), Error> {
        let parts = &self.engine.parts;
        let mut wait = Waiter::new(self, step, what, parts.limits.task).every(BETWEEN_LOOKS);
        while parts.proxmox.vm_status(host, vmid).await?.running() {
            wait.pause("it still runs".to_owned()).await?;
        }
        Ok(())
    }

    pub(super) async fn destroy_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |again| async move {
            let Some(mine) = self.mine(step, vmid).await? else {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            };
            let host = &mine.host;
            self.unprotect(vmid, &mine).await?;
            let call = async { Ok(self.engine.parts.proxmox.destroy_vm(host, vmid, true).await?) };
            let destroyed = match self.perform(EffectKind::DestroyVm, vmid, host, call).await {
                Ok(upid) => self.finish(step, &upid, &format!("destroy VM {vmid}")).await,
                Err(error) => Err(error),
            };
            match destroyed {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if error.is_vm_missing() => Ok(Outcome::Done),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Takes Proxmox's own protection off a VM that is about to go, if we set it.
    async fn unprotect(&self, vmid: u32, mine: &Mine) -> Result<(), Error> {
        let notes = mine.config.description.as_deref().unwrap_or_default();
        let by_us = matches!(Mark::find(notes), FoundMark::One(mark) if mark.protected);
        if !mine.config.protection || !by_us {
            return Ok(());
        }
        let update = UpdateVm::new().set("protection", 0).digest(&mine.config.digest);
        let call = async { Ok(self.engine.parts.proxmox.update_vm(&mine.host, vmid, &update).await?) };
        self.perform(EffectKind::UpdateVm, vmid, &mine.host, call).await
    }

    pub(super) async fn delete_media(&self, step: &Step, volid: &str) -> Result<Outcome, Error> {
        if media_node(self.cluster, volid_file(volid)).is_none() {
            return Err(Error::Plan { why: format!("`{volid}` is no config media of this cluster") });
        }
        self.delete_volume(step, volid, EffectKind::DeleteMedia).await
    }

    /// Deletes a file whose name was already judged. An absent one is as good as deleted.
    pub(super) async fn delete_volume(
        &self,
        step: &Step,
        volid: &str,
        kind: EffectKind,
    ) -> Result<Outcome, Error> {
        let host = self.host(step)?;
        self.persist(step, |_| async move {
            let call = async { Ok(self.engine.parts.proxmox.delete_volume(host, volid).await?) };
            let deleted = match self.engine.parts.effects.perform(kind, volid, call).await {
                Ok(Some(upid)) => self.finish_some_time(step, &upid, &format!("delete {volid}")).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if is_volume_missing(&error) => Ok(Outcome::AlreadyDone),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Finds a VM wherever it is now: where it was, or else where the cluster-wide list has it.
    pub(super) async fn find(&self, hint: &str, vmid: u32) -> Result<Option<(String, VmConfig)>, Error> {
        let proxmox = &self.engine.parts.proxmox;
        let error = match proxmox.vm_config(hint, vmid).await {
            Ok(config) => return Ok(Some((hint.to_owned(), config))),
            // To a token whose rights come through a pool, a VM that is gone is one it may not see.
            Err(error) if error.is_vm_missing() || error.is_permission() => error,
            Err(error) => return Err(error.into()),
        };
        let rows = proxmox.resources_of("vm").await?;
        match rows.iter().find(|row| row.vmid == Some(vmid)) {
            None => Ok(None),
            Some(row) if row.node == hint && error.is_permission() => Err(error.into()),
            // The list lags behind a VM that was just destroyed.
            Some(row) if row.node == hint => Ok(None),
            Some(row) => match proxmox.vm_config(&row.node, vmid).await {
                Ok(config) => Ok(Some((row.node.clone(), config))),
                Err(error) if error.is_vm_missing() => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The VM of the step's node, proven to be ours just now; none if it is not there.
    async fn mine(&self, step: &Step, vmid: u32) -> Result<Option<Mine>, Error> {
        let Some((host, config)) = self.find(self.host(step)?, vmid).await? else { return Ok(None) };
        match judged(&self.judge, vmid, &config) {
            Ownership::Ours { node, .. } if Some(&node) == step.node.as_ref() => {
                Ok(Some(Mine { host, config }))
            }
            other => Err(not_ours(vmid, host, other)),
        }
    }

    pub(super) async fn mine_or_gone(&self, step: &Step, vmid: u32) -> Result<Mine, Error> {
        self.mine(step, vmid).await?.ok_or(Error::Gone { vmid })
    }

    pub(super) async fn perform<T>(
        &self,
        kind: EffectKind,
        vmid: u32,
        host: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.engine.parts.effects.perform(kind, format!("VM {vmid} on {host}"), call).await
    }
}

/// Whether the file itself is gone. A host or storage that is gone may come back with the file, keys and all.
fn is_volume_missing(error: &daedal_proxmox::Error) -> bool {
    matches!(error.kind(), Kind::NotFound { what: Missing::Volume(_), .. })
}

/// What a create or clone left that died.
pub(super) fn stuck(vmid: u32, host: String, config: &VmConfig) -> Error {
    let lock = config.lock.clone().unwrap_or_else(|| "create".to_owned());
    Error::StuckCreate { vmid, host, lock, unseen: false }
}

fn disk_size(config: &VmConfig) -> u64 {
    config.disks.get(SYSTEM_DISK).and_then(|disk| disk.size).unwrap_or(0)
}

pub(crate) fn not_ours(vmid: u32, host: String, found: Ownership) -> Error {
    let other_secrets = matches!(found, Ownership::LookAlike { likeness: Likeness::OtherSecrets, .. });
    let why = match found {
        Ownership::Foreign => "it carries no mark of this cluster".to_owned(),
        Ownership::Ours { node, .. } => format!("it is our node {node}"),
        Ownership::LookAlike { why, .. } | Ownership::Unreadable { why } => why,
        Ownership::HalfMade { .. } => "it is still being created".to_owned(),
        Ownership::Template { .. } => "it is a template of this cluster".to_owned(),
    };
    Error::NotOurs { vmid, host, why, other_secrets }
}
