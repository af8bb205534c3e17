//! The lab's clock: simulated durations divided by a speed, on tokio's time so that paused time works.

use std::time::Duration;

use tokio::time::Instant;

/// What anybody in the lab waits at least, in the time outside: a busy machine outside is not a slow peer inside.
const LEAST: Duration = Duration::from_secs(5);

/// How fast simulated time runs. Cheap to clone.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    speed: f64,
    began: Instant,
    epoch: i64,
    wall: i64,
}

impl Pace {
    /// A clock that starts now at `epoch` (Unix seconds) and runs `speed` times as fast as the outer one.
    pub fn new(speed: f64, epoch: i64) -> Self {
        Self { speed: if speed > 0.0 { speed } else { 1.0 }, began: Instant::now(), epoch, wall: epoch }
    }

    /// The clock of a lab that goes on: it never goes back, however long ago on the wall it was left.
    pub fn resumed(speed: f64, wall: i64, reached: i64) -> Self {
        Self { wall, ..Self::new(speed, wall.max(reached)) }
    }

    /// Waits for a simulated duration.
    pub async fn pass(&self, simulated: Duration) {
        tokio::time::sleep(simulated.div_f64(self.speed)).await;
    }

    /// The simulated duration after which something that should last this long is given up. It is longer where it would be
    /// less than a few seconds outside: what is awaited is late by the time outside, too.
    pub fn patience(&self, simulated: Duration) -> Duration {
        simulated.max(simulated.min(LEAST).mul_f64(self.speed))
    }

    /// Simulated Unix time in seconds.
    pub fn now(&self) -> i64 {
        self.epoch + self.began.elapsed().mul_f64(self.speed).as_secs() as i64
    }

    /// The Unix time outside. Who asks a host or a node for the time gets this one: the clocks of a lab run fast on
    /// purpose, and nobody should be told to set them right.
    pub fn outside(&self) -> i64 {
        self.wall + self.began.elapsed().as_secs() as i64
    }

    /// The speed.
    pub fn speed(&self) -> f64 {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_the_time_gets_that_outside() {
        let new = Pace::new(60.0, 1_000);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((new.now(), new.outside()), (7_000, 1_100));

        // A fast lab is as patient as the machine that it runs on needs it.
        let patience = |pace: &Pace, seconds| pace.patience(Duration::from_secs(seconds)).as_secs();
        assert_eq!([1, 10, 600].map(|seconds| patience(&new, seconds)), [60, 300, 600]);
        let as_in_life = Pace::new(1.0, 1_000);
        assert_eq!([1, 10, 600].map(|seconds| patience(&as_in_life, seconds)), [1, 10, 600]);

        let resumed = Pace::resumed(60.0, 1_100, new.now());
        assert_eq!((resumed.now(), resumed.outside()), (7_000, 1_100));
        let left_long_ago = Pace::resumed(60.0, 9_000, new.now());
        assert_eq!((left_long_ago.now(), left_long_ago.outside()), (9_000, 9_000));
    }
}
