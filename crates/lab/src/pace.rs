//! The lab's clock: simulated durations divided by a speed, on tokio's time so that paused time works.

use std::time::Duration;

use tokio::time::Instant;

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

        let resumed = Pace::resumed(60.0, 1_100, new.now());
        assert_eq!((resumed.now(), resumed.outside()), (7_000, 1_100));
        let left_long_ago = Pace::resumed(60.0, 9_000, new.now());
        assert_eq!((left_long_ago.now(), left_long_ago.outside()), (9_000, 9_000));
    }
}
