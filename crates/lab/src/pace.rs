//! The lab's clock: simulated durations divided by a speed, on tokio's time so that paused time works.

use std::time::Duration;

use tokio::time::Instant;

/// How fast simulated time runs. Cheap to clone.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    speed: f64,
    began: Instant,
    epoch: i64,
}

impl Pace {
    /// A clock that starts now at `epoch` (Unix seconds) and runs `speed` times as fast as the outer one.
    pub fn new(speed: f64, epoch: i64) -> Self {
        Self { speed: if speed > 0.0 { speed } else { 1.0 }, began: Instant::now(), epoch }
    }

    /// Waits for a simulated duration.
    pub async fn pass(&self, simulated: Duration) {
        tokio::time::sleep(simulated.div_f64(self.speed)).await;
    }

    /// Simulated Unix time in seconds.
    pub fn now(&self) -> i64 {
        self.epoch + self.began.elapsed().mul_f64(self.speed).as_secs() as i64
    }

    /// The speed.
    pub fn speed(&self) -> f64 {
        self.speed
    }
}
