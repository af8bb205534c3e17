//! Makes VMs: finds out first what an earlier try left, seen or not.

use daedal_planner::names::{self, volid_file};
use daedal_planner::{Ownership, Purpose, Step};
use daedal_proxmox::{TaskRow, UpdateVm, Upid, VmConfig};
use tokio::time::Instant;

use crate::effects::EffectKind;
use crate::error::{Error, chain};
use crate::execute::vm::{BETWEEN_LOOKS, not_ours};
use crate::execute::{Executor, Outcome};
use crate::machine::{self, Sources};
use crate::observe::clones;
use crate::observe::guests::{by_us_and_unfinished, is_bare, maker, whose};

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
        let stuck = |host: &str, lock: &str| {
            let (host, lock) = (host.to_owned(), lock.to_owned());
            Err(Error::StuckCreate { vmid, host, lock, unseen: true })
        };
        let maybe_ours =
            died || (reserved == Reserved::MaybeByUs && !self.somebody_makes(host, vmid).await?);
        if maybe_ours && proxmox.vmid_taken(vmid).await? {
            return stuck(host, "create");
        }
        match self.unseen_clone(vmid).await? {
            Some(task) if proxmox.vmid_taken(vmid).await? => match task.running() {
                true => Ok(Some(task.upid)),
                false => stuck(task.upid.node(), "clone"),
            },
            _ => Ok(None),
        }
    }

    /// A clone of ours, on any host with templates, that may have made this node's VM: it runs, or it died.
    async fn unseen_clone(&self, vmid: u32) -> Result<Option<TaskRow>, Error> {
        let Some(node) = self.cluster.nodes.iter().find(|node| node.vmid == vmid) else { return Ok(None) };
        let proxmox = &self.engine.parts.proxmox;
        let templates = self.cluster.templates().filter(|(_, role, _)| *role == node.role);
        let mut tasks = Vec::new();
        for (_, _, host) in templates {
            tasks.extend(clones::remembered(proxmox, &host.name).await?);
        }
        Ok(clones::unfinished(proxmox, self.cluster, node.role, &tasks).cloned())
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
}

/// What a create or clone left that died.
pub(super) fn stuck(vmid: u32, host: String, config: &VmConfig) -> Error {
    let lock = config.lock.clone().unwrap_or_else(|| "create".to_owned());
    Error::StuckCreate { vmid, host, lock, unseen: false }
}
