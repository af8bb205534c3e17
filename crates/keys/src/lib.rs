//! Makes RSA keys, for Talos' secrets and for the certificates of charts.
//!
//! The `rsa` crate's own search takes several times as long: here small factors are sieved out before the costly test, and
//! both primes are searched at once. The same randomness gives the same key.

mod primes;

use num_bigint_dig::BigUint;
use rand::{CryptoRng, RngCore};
use rsa::RsaPrivateKey;

/// The public exponent of every key.
const EXPONENT: u32 = 65_537;

/// A new RSA key with a modulus of this many bits: at least 512, in steps of 16.
pub fn new_rsa<R: RngCore + CryptoRng>(random: &mut R, bits: usize) -> rsa::Result<RsaPrivateKey> {
    if bits < 512 || !bits.is_multiple_of(16) {
        return Err(rsa::Error::InvalidModulus);
    }
    loop {
        let [p, q] = primes::pair(random, bits / 2)?;
        // One in 65,537 primes does not go with the exponent, and two may be the same.
        if let Ok(key) = RsaPrivateKey::from_p_q(p, q, BigUint::from(EXPONENT)) {
            return Ok(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};
    use rsa::traits::{PrivateKeyParts as _, PublicKeyParts as _};

    use super::*;

    #[test]
    fn keys_are_sound_and_follow_from_the_randomness() {
        for seed in 0..3 {
            let key = new_rsa(&mut StdRng::seed_from_u64(seed), 1024).unwrap();
            key.validate().unwrap();
            assert_eq!((key.n().bits(), key.e()), (1024, &BigUint::from(EXPONENT)));
            assert_eq!(key.primes().len(), 2);
            assert_eq!(key, new_rsa(&mut StdRng::seed_from_u64(seed), 1024).unwrap());
        }
    }

    #[test]
    fn lengths_that_are_not_supported_are_refused() {
        for bits in [0, 100, 496, 1000, 1025] {
            assert!(new_rsa(&mut StdRng::seed_from_u64(0), bits).is_err(), "{bits}");
        }
    }
}
