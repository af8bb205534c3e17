//! RSA keys several times quicker than by the `rsa` crate's own search: what has small factors is sieved out before
//! the costly test, and both primes are looked for at once.

use num_bigint_dig::prime::probably_prime;
use rand::{CryptoRng, RngCore, SeedableRng, rngs::StdRng};
use rsa::{BigUint, RsaPrivateKey};
use zeroize::Zeroizing;

const EXPONENT: u32 = 65_537;
/// Primes up to here are sieved out: more would cost as much as they save.
const SIEVE_LIMIT: u32 = 1 << 14;
/// How far to go from one random start before another is drawn.
const SPAN: u32 = 1 << 14;
/// Rounds of Miller–Rabin, as many as the `rsa` crate does; a Lucas test follows.
const ROUNDS: usize = 20;

/// A key of this many bits; the same randomness gives the same key.
pub(crate) fn generate<R: RngCore + CryptoRng>(
    rng: &mut R,
    bits: usize,
) -> Result<RsaPrivateKey, rsa::Error> {
    if bits < 512 || !bits.is_multiple_of(16) {
        return Err(rsa::Error::InvalidModulus);
    }
    let small = small_primes();
    loop {
        let mut seed = || {
            let mut seed = Zeroizing::new([0; 32]);
            rng.fill_bytes(seed.as_mut_slice());
            seed
        };
        let (one, other) = (seed(), seed());
        let (p, q) = std::thread::scope(|scope| {
            let p = scope.spawn(|| prime(&mut StdRng::from_seed(*one), bits / 2, &small));
            let q = prime(&mut StdRng::from_seed(*other), bits / 2, &small);
            (p.join(), q)
        });
        let Ok(p) = p else { return Err(rsa::Error::Internal) };
        // Equal primes never happen by chance, but a broken source of randomness could bring them.
        if p != q {
            return RsaPrivateKey::from_p_q(p, q, BigUint::from(EXPONENT));
        }
    }
}

fn small_primes() -> Vec<u32> {
    let mut composite = vec![false; SIEVE_LIMIT as usize];
    let mut primes = Vec::new();
    for number in (3..SIEVE_LIMIT).step_by(2) {
        if !composite[number as usize] {
            primes.push(number);
            for multiple in (number..SIEVE_LIMIT).step_by(number as usize) {
                composite[multiple as usize] = true;
            }
        }
    }
    primes
}

/// A prime with its two highest bits set, so that the product of two has full length.
fn prime(rng: &mut StdRng, bits: usize, small: &[u32]) -> BigUint {
    loop {
        let mut bytes = Zeroizing::new(vec![0; bits / 8]);
        rng.fill_bytes(&mut bytes);
        bytes[0] |= 0xc0;
        bytes[bits / 8 - 1] |= 1;
        let start = BigUint::from_bytes_be(&bytes);
        let mut has_small_factor = vec![false; SPAN as usize];
        for divisor in small {
            let first = (divisor - remainder(&bytes, *divisor)) % divisor;
            for offset in (first..SPAN).step_by(*divisor as usize) {
                has_small_factor[offset as usize] = true;
            }
        }
        let to_exponent = remainder(&bytes, EXPONENT);
        for offset in (0..SPAN).step_by(2).filter(|offset| !has_small_factor[*offset as usize]) {
            // The exponent needs an inverse.
            if (to_exponent + offset) % EXPONENT == 1 {
                continue;
            }
            let candidate = &start + offset;
            if candidate.bits() == bits && probably_prime(&candidate, ROUNDS) {
                return candidate;
            }
        }
    }
}

/// A big-endian number modulo a small one.
fn remainder(bytes: &[u8], divisor: u32) -> u32 {
    let divisor = u64::from(divisor);
    let rest = bytes.iter().fold(0, |rest, byte| (rest << 8 | u64::from(*byte)) % divisor);
    u32::try_from(rest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rsa::traits::{PrivateKeyParts, PublicKeyParts};

    use super::*;

    #[test]
    fn keys_are_sound_and_follow_from_the_randomness() {
        for seed in 0..3 {
            let key = generate(&mut StdRng::seed_from_u64(seed), 1024).unwrap();
            key.validate().unwrap();
            assert_eq!((key.n().bits(), key.e()), (1024, &BigUint::from(EXPONENT)));
            assert_eq!(key.primes().len(), 2);
            assert_eq!(key, generate(&mut StdRng::seed_from_u64(seed), 1024).unwrap());
        }
        assert!(generate(&mut StdRng::seed_from_u64(0), 100).is_err());
    }

    #[test]
    fn the_sieve_knows_its_primes() {
        let primes = small_primes();
        assert_eq!(primes[..6], [3, 5, 7, 11, 13, 17]);
        assert_eq!(primes.len(), 1899, "odd primes below 16384");
        assert_eq!(remainder(&[1, 0, 0, 1], 257), 0x0100_0001 % 257);
    }
}
