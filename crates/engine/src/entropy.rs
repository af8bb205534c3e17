//! Randomness, passed in: keys come from it, and a test can replay it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// A source of cryptographic randomness, seeded once by whoever starts the program. Cheap to clone.
#[derive(Clone)]
pub struct Entropy(Arc<Mutex<StdRng>>);

impl Entropy {
    /// Randomness grown from a seed; give it 32 bytes from the operating system.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(Arc::new(Mutex::new(StdRng::from_seed(seed))))
    }

    /// A generator of its own.
    pub fn generator(&self) -> StdRng {
        let mut seed = [0; 32];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut seed);
        StdRng::from_seed(seed)
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}
