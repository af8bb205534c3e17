//! The one point every mutating call passes: where a test can count, fail, or kill.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::error::Error;

/// What a mutating call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// The secrets bundle is stored.
    StoreSecrets,
    /// The generation that a run applies is recorded.
    StoreGeneration,
    /// An image's size and digest are recorded.
    StorePin,
    /// The addresses that nodes were found at are recorded.
    StoreAddresses,
    /// The schematic is posted to the Image Factory.
    RegisterSchematic,
    /// Proxmox is told to download an image.
    DownloadImage,
    /// An image file is deleted.
    DeleteImage,
    /// A config ISO is uploaded.
    UploadMedia,
    /// A volume that Proxmox left behind is deleted.
    DeleteVolume,
    /// A VM is created.
    CreateVm,
    /// A VM is turned into a template.
    MakeTemplate,
    /// A template is cloned.
    CloneVm,
    /// A disk is grown.
    GrowDisk,
    /// A VM's options change.
    UpdateVm,
    /// Config media is put into the drive.
    AttachMedia,
    /// A VM is started.
    StartVm,
    /// A session on a VM's serial console is opened.
    OpenConsole,
    /// A node in maintenance mode is given its config.
    GiveConfig,
    /// What installed a template is wiped off it.
    ResetNode,
    /// A running node gets a machine config.
    ApplyConfig,
    /// A snapshot is uploaded to the node whose etcd is to begin with it.
    UploadSnapshot,
    /// A snapshot is written to a file.
    StoreBackup,
    /// etcd is bootstrapped.
    Bootstrap,
    /// Config media is taken out of the drive.
    EjectMedia,
    /// A config ISO is deleted.
    DeleteMedia,
    /// An output file is written.
    WriteOutput,
    /// A node of Kubernetes is told to take no new pods.
    Cordon,
    /// A pod is evicted.
    EvictPod,
    /// A node leaves etcd.
    LeaveEtcd,
    /// A member is taken out of etcd.
    RemoveMember,
    /// A node's object is deleted from Kubernetes.
    ForgetNode,
    /// A VM is stopped.
    StopVm,
    /// A VM is deleted.
    DestroyVm,
    /// A VM's firewall changes.
    SetFirewall,
    /// What the HA manager keeps changes.
    SetAvailability,
    /// A backup job changes.
    SetBackupJob,
    /// A role, user, token, pool or grant changes.
    SetAccount,
    /// It is recorded of which kinds the objects of an add-on are.
    RecordAddon,
    /// An object of an add-on is applied.
    ApplyObject,
    /// An object that an add-on no longer has, or the record of one, is deleted.
    DeleteObject,
}

/// One mutating call about to be made: what kind, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// What it changes.
    pub kind: EffectKind,
    /// On what: a VM, a volume, a file.
    pub subject: String,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.subject)
    }
}

/// A gate forbade the effect.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the effect `{effect}` was refused: {why}")]
pub struct Refused {
    /// What was refused.
    pub effect: Effect,
    /// Why.
    pub why: String,
}

/// A gate's answer, to be awaited. One that never resolves kills the run at that very point.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Result<(), Refused>> + Send + 'a>>;

/// Stands before and after every effect.
pub trait Gate: Send + Sync + 'static {
    /// Called before the effect. An error refuses it; never resolving is death before the effect.
    fn before<'a>(&'a self, effect: &'a Effect) -> Verdict<'a>;
    /// Called after the effect and before anyone learns of it. Never resolving is death after the effect.
    fn after<'a>(&'a self, effect: &'a Effect) -> Verdict<'a>;
}

/// Lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Gate for Open {
    fn before<'a>(&'a self, _: &'a Effect) -> Verdict<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn after<'a>(&'a self, _: &'a Effect) -> Verdict<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The point itself. Cheap to clone.
#[derive(Clone)]
pub struct Effects(Arc<dyn Gate>);

impl Effects {
    /// Effects that pass `gate`.
    pub fn through(gate: Arc<dyn Gate>) -> Self {
        Self(gate)
    }

    /// Makes one mutating call.
    pub async fn perform<T, E>(
        &self,
        kind: EffectKind,
        subject: impl Into<String>,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<Refused>,
    {
        let effect = Effect { kind, subject: subject.into() };
        self.0.before(&effect).await?;
        let outcome = call.await;
        self.0.after(&effect).await?;
        outcome
    }

    /// Makes one call to Proxmox that changes something.
    pub(crate) fn proxmox<'a, T: Send + 'a>(
        &'a self,
        kind: EffectKind,
        subject: String,
        call: impl Future<Output = Result<T, daedal_proxmox::Error>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        Box::pin(self.perform(kind, subject, async { Ok(call.await?) }))
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self(Arc::new(Open))
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder {
        seen: Mutex<Vec<String>>,
        refuse: bool,
    }

    impl Gate for Recorder {
        fn before<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
            self.seen.lock().unwrap().push(format!("before {effect}"));
            let refuse = self.refuse;
            Box::pin(async move {
                if refuse { Err(Refused { effect: effect.clone(), why: "test".into() }) } else { Ok(()) }
            })
        }

        fn after<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
            self.seen.lock().unwrap().push(format!("after {effect}"));
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[tokio::test]
    async fn an_effect_passes_the_gate_twice() {
        let gate = Arc::new(Recorder::default());
        let effects = Effects::through(gate.clone());
        let answer: Result<u32, Refused> = effects.perform(EffectKind::StartVm, "300", async { Ok(7) }).await;
        assert_eq!(answer.unwrap(), 7);
        assert_eq!(*gate.seen.lock().unwrap(), ["before StartVm 300", "after StartVm 300"]);
    }

    #[tokio::test]
    async fn a_refused_effect_never_happens() {
        let gate = Arc::new(Recorder { refuse: true, ..Recorder::default() });
        let effects = Effects::through(gate);
        let answer: Result<(), Refused> =
            effects.perform(EffectKind::StartVm, "300", async { panic!("must not run") }).await;
        assert!(answer.is_err());
    }
}
