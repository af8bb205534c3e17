//! Where random values in templates come from: a seed the caller provides.

use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};

/// A cryptographically strong generator that always yields the same for the same seed.
pub(crate) struct Random(StdRng);

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Random(StdRng::from_seed(seed))
    }

    /// The generator itself, for key generation.
    pub(crate) fn generator(&mut self) -> &mut StdRng {
        &mut self.0
    }

    /// A number from zero to one less than the bound, without bias.
    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        let Some(bound) = u64::try_from(bound).ok().filter(|b| *b > 0) else { return 0 };
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.0.next_u64();
            if drawn < limit {
                return i64::try_from(drawn % bound).unwrap_or(0);
            }
        }
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut out = vec![0; count];
        self.0.fill_bytes(&mut out);
        out
    }
}
