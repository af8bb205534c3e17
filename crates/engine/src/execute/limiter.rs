//! Where steps queue: so many at once, and fewer where each of them takes long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Twice the time that Proxmox waits for a storage's lock: who queues behind others must not wait longer than that.
const QUEUE: Duration = Duration::from_secs(20);

/// Lets a number of steps in at once. A paced one begins with two, and lets in fewer the longer each of them takes.
#[derive(Debug)]
pub(crate) struct Limiter {
    most: usize,
    paced: bool,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    limit: usize,
    inside: usize,
    /// Running mean of how long each was inside.
    mean: Option<Duration>,
}

/// Being inside. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Inside {
    limiter: Arc<Limiter>,
    since: Instant,
}

impl Limiter {
    /// So many at once, always.
    pub(crate) fn fixed(limit: usize) -> Arc<Self> {
        Self::new(limit, false)
    }

    /// At most so many at once.
    pub(crate) fn paced(most: usize) -> Arc<Self> {
        Self::new(most, true)
    }

    fn new(most: usize, paced: bool) -> Arc<Self> {
        let most = most.max(1);
        // What takes long is not begun four times before that is known.
        let limit = if paced { most.min(2) } else { most };
        let state = Mutex::new(State { limit, inside: 0, mean: None });
        Arc::new(Self { most, paced, state, freed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room, and goes in.
    pub(crate) async fn enter(self: &Arc<Self>) -> Inside {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.goes_in() {
                return Inside { limiter: self.clone(), since: Instant::now() };
            }
            freed.await;
        }
    }

    fn goes_in(&self) -> bool {
        let mut state = self.state();
        let room = state.inside < state.limit;
        state.inside += usize::from(room);
        room
    }

    /// Whoever is inside waited for the others in vain: let in half as many.
    pub(crate) fn lost_patience(&self) {
        if self.paced {
            let mut state = self.state();
            state.limit = (state.limit / 2).max(1);
            state.mean = Some(QUEUE / u32::try_from(state.limit).unwrap_or(1));
        }
    }

    fn leave(&self, took: Duration) {
        let mut state = self.state();
        state.inside -= 1;
        if self.paced {
            let mean = state.mean.map_or(took, |mean| (mean + took) / 2);
            state.mean = Some(mean);
            let others = QUEUE.as_secs_f64() / mean.as_secs_f64().max(0.001);
            state.limit = (1 + others as usize).min(self.most);
        }
        let room = state.limit.saturating_sub(state.inside);
        drop(state);
        for _ in 0..room {
            self.freed.notify_one();
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.limiter.leave(self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    /// Lets that many through, each of which takes so long inside; returns how many seconds all took.
    async fn pass(limiter: &Arc<Limiter>, count: usize, seconds: u64) -> u64 {
        let began = Instant::now();
        let each = (0..count).map(|_| async {
            let _inside = limiter.enter().await;
            assert!(limiter.state().inside <= limiter.most);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        });
        join_all(each).await;
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_turnstile_lets_in_as_many_as_it_says() {
        assert_eq!(pass(&Limiter::fixed(2), 6, 60).await, 180);
        assert_eq!(pass(&Limiter::fixed(0), 2, 1).await, 2, "nobody waits for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paced_turnstile_lets_in_fewer_the_longer_each_takes() {
        for (seconds, at_once, all) in [(1, 4, 4), (6, 4, 24), (10, 3, 50), (15, 2, 90), (30, 1, 330)] {
            let limiter = Limiter::paced(4);
            let took = pass(&limiter, 12, seconds).await;
            assert_eq!((limiter.state().limit, took), (at_once, all), "{seconds} s");
        }
        let limiter = Limiter::paced(4);
        pass(&limiter, 8, 60).await;
        pass(&limiter, 12, 1).await;
        assert_eq!(limiter.state().limit, 4, "it recovers");
        limiter.lost_patience();
        assert_eq!(limiter.state().limit, 2);
    }
}
