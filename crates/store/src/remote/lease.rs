//! The lease on a remote store. It ends unless it is renewed: whoever wants it watches it by the own clock, and takes it
//! once it was unchanged for as long as its holder may be silent. Clocks of two machines are never compared.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::manifest::{Held, MANIFEST};
use super::{Condition, Content, Put, Remote, Seen, TRIES, Tag, id, pause};
use crate::Error;
use crate::backend::{Acquired, Working};
use crate::lease::{Fence, Lease, Owner};

/// Where conditional writes are tried.
const PROBES: &str = "probes/";
/// How often a lease is renewed while it is good.
const RENEWALS: u32 = 6;
/// The longest and shortest time between two looks at somebody else's lease.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];
/// A lease that claims to be good for longer is not waited for.
const LONGEST: Duration = Duration::from_secs(3600);
/// How long the end of a command waits until its lease is given back.
const GIVE_BACK: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct RemoteLease {
    remote: Remote,
    fence: Fence,
    id: String,
    /// When the newest renewal was begun.
    renewed: Arc<Mutex<Instant>>,
}

impl Remote {
    /// Takes the lease, or says who has it. Whether a holder lives shows within a sixth of what its lease is good for.
    pub(super) async fn take(&self, owner: &Owner) -> Result<Acquired, Error> {
        self.probe().await?;
        let id = id();
        let mut watched: Option<(Held, Instant)> = None;
        let mut tried = 0;
        loop {
            let seen = match self.seen().await {
                Err(error) if error.may_pass() && tried < TRIES => {
                    tried += 1;
                    pause(tried).await;
                    continue;
                }
                seen => seen?,
            };
            let now = Instant::now();
            match (&seen.manifest.lease, &watched) {
                (None, _) => {}
                // The answer to an earlier try was lost.
                (Some(held), _) if held.id == id => return Ok(self.taken(held, now).await),
                (Some(held), None) => {
                    watched = Some((held.clone(), now));
                    look_again(held.ttl()).await;
                    continue;
                }
                (Some(held), Some((before, _))) if held != before => {
                    return Ok(Acquired::Busy(Some(held.fence.owner.clone())));
                }
                (Some(held), Some((_, since))) => {
                    let ttl = held.ttl().min(LONGEST);
                    if since.elapsed() < ttl {
                        look_again((ttl - since.elapsed()).min(ttl)).await;
                        continue;
                    }
                }
            }
            match self.try_take(seen, owner, &id).await {
                Ok(Some(held)) => return Ok(self.taken(&held, now).await),
                Ok(None) if tried < TRIES => tried += 1,
                Ok(None) => return Err(self.changed(MANIFEST)),
                Err(error) if error.may_pass() && tried < TRIES => tried += 1,
                Err(error) => return Err(error),
            }
            pause(tried).await;
        }
    }

    /// Writes the own lease in place of the one that was seen. None if somebody was quicker.
    async fn try_take(&self, mut seen: Seen, owner: &Owner, id: &str) -> Result<Option<Held>, Error> {
        let epoch = seen.manifest.epoch.saturating_add(1);
        let held = Held::new(Fence { owner: owner.clone(), epoch }, id.to_owned(), self.ttl);
        seen.manifest.epoch = epoch;
        seen.manifest.lease = Some(held.clone());
        seen.manifest.sign(id);
        let bytes = seen.manifest.sealed();
        match self.objects.put(MANIFEST, Content::Bytes(&bytes), seen.condition()).await? {
            Put::Done(_) => Ok(Some(held)),
            Put::Refused => Ok(None),
        }
    }

    async fn taken(&self, held: &Held, now: Instant) -> Acquired {
        // What cannot be tidied now is tidied by the next one.
        let _ = self.sweep(held.fence.epoch).await;
        Acquired::Held(Box::new(RemoteLease {
            remote: self.clone(),
            fence: held.fence.clone(),
            id: held.id.clone(),
            renewed: Arc::new(Mutex::new(now)),
        }))
    }

    /// Makes sure that the service honours conditions: where it does not, every lock seems to succeed.
    async fn probe(&self) -> Result<(), Error> {
        let key = format!("{PROBES}{}", id());
        let judged = self.probe_at(&key).await;
        let removed = self.objects.delete(&key).await;
        judged.and(removed)
    }

    async fn probe_at(&self, key: &str) -> Result<(), Error> {
        let ignored = |why: &str| Error::NoConditions { path: self.objects.locate(""), why: why.to_owned() };
        for tried in 1.. {
            match self.objects.put(key, Content::Bytes(b"1"), Condition::New).await {
                Ok(Put::Done(_)) => break,
                // An earlier try may have made it; else somebody is in the way of it for a moment.
                Ok(Put::Refused) if self.objects.get(key).await?.is_some() || tried >= TRIES => break,
                Ok(Put::Refused) => pause(tried).await,
                Err(error) if error.may_pass() && tried < TRIES => pause(tried).await,
                Err(error) => return Err(error),
            }
        }
        match self.objects.put(key, Content::Bytes(b"2"), Condition::New).await? {
            Put::Refused => {}
            Put::Done(_) => return Err(ignored("it replaced an object that should have been new")),
        }
        let other = Tag("\"00000000000000000000000000000000\"".to_owned());
        match self.objects.put(key, Content::Bytes(b"3"), Condition::Matches(&other)).await? {
            Put::Refused => Ok(()),
            Put::Done(_) => Err(ignored("it replaced an object that should have had another content")),
        }
    }
}

async fn look_again(left: Duration) {
    let [shortest, longest] = LOOKS;
    tokio::time::sleep((left / 16).clamp(shortest, longest)).await;
}

impl RemoteLease {
    fn renewed(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> Error {
        Error::LeaseLost { path: self.remote.place() }
    }

    /// Looks at it, and writes it anew if that is due. When it returns, the lease is good for half of its time.
    async fn make_sure(&self) -> Result<(), Error> {
        loop {
            if self.renewed().elapsed() < self.remote.ttl / (2 * RENEWALS) {
                let seen = self.remote.seen().await?;
                seen.manifest.check(Some(&self.fence), &self.remote.place())?;
            } else {
                let began = Instant::now();
                self.write_anew().await?;
                *self.renewed() = began;
            }
            if self.renewed().elapsed() < self.remote.ttl / 2 {
                return Ok(());
            }
        }
    }

    async fn write_anew(&self) -> Result<(), Error> {
        let renew = |held: &mut Held| held.renewed += 1;
        let ours = |held: &&mut Held| held.id == self.id;
        let renewing = self
            .remote
            .commit(|manifest| manifest.lease.as_mut().filter(ours).map(renew).ok_or_else(|| self.lost()));
        renewing.await
    }

    async fn give_back(&self) -> Result<(), Error> {
        let given = self
            .remote
            .commit(|manifest| match manifest.lease.take_if(|held| held.id == self.id) {
                Some(_) => Ok(()),
                None => Err(self.lost()),
            })
            .await;
        match given {
            Err(Error::LeaseLost { .. }) => Ok(()),
            given => given,
        }
    }
}

impl Lease for RemoteLease {
    fn fence(&self) -> &Fence {
        &self.fence
    }

    fn renew_every(&self) -> Option<Duration> {
        Some(self.remote.ttl / RENEWALS)
    }

    fn renew(&self) -> Working<'_, ()> {
        Box::pin(self.make_sure())
    }

    fn release(&self) -> Working<'_, ()> {
        Box::pin(self.give_back())
    }

    /// A command that ends waits for it for a moment; where that is impossible, it is given back meanwhile or ends by
    /// itself.
    fn let_go(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let lease = self.clone();
        let giving = async move {
            let _ = tokio::time::timeout(GIVE_BACK, lease.give_back()).await;
        };
        match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| runtime.block_on(giving)),
            _ => drop(runtime.spawn(giving)),
        }
    }
}
