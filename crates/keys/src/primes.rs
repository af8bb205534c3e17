//! Random primes for RSA keys: a sieve by small primes, and few Miller-Rabin rounds for what passes it.

use std::sync::OnceLock;
use std::thread;

use num_bigint_dig::BigUint;
use num_bigint_dig::prime::probably_prime_miller_rabin;
use rand::rngs::StdRng;
use rand::{CryptoRng, Rng as _, RngCore, SeedableRng as _};
use zeroize::Zeroizing;

/// Small primes are those up to here. Larger ones cost more than the rounds they save.
const SMALL: u16 = u16::MAX;
/// Odd numbers that are sieved at a time; gaps between primes of 2048 bits are 1,400 wide on average.
const WINDOW: usize = 1 << 13;
/// As many as Go and BoringSSL take for random candidates of 476 bits and more; the last is with base 2.
const ROUNDS: usize = 5;

/// Two primes of that many bits, searched at the same time. Their product has twice as many bits.
pub(super) fn pair<R: RngCore + CryptoRng>(random: &mut R, bits: usize) -> rsa::Result<[BigUint; 2]> {
    let seeds: [Zeroizing<[u8; 32]>; 2] = [Zeroizing::new(random.r#gen()), Zeroizing::new(random.r#gen())];
    let search = |seed: &[u8; 32]| prime(&mut StdRng::from_seed(*seed), bits);
    thread::scope(|scope| {
        let helper = thread::Builder::new().spawn_scoped(scope, || search(&seeds[1]));
        let p = search(&seeds[0]);
        let q = match helper.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(q)) => q,
            Ok(Err(_)) => return Err(rsa::Error::Internal),
            // No thread could be started.
            Err(_) => search(&seeds[1]),
        };
        Ok([p, q])
    })
}

/// A prime of that many bits whose two highest are set.
fn prime(random: &mut StdRng, bits: usize) -> BigUint {
    loop {
        let start = candidate(random, bits);
        let found = survivors(&start)
            .into_iter()
            .map(|offset| &start + BigUint::from(offset))
            .find(|n| probably_prime_miller_rabin(n, ROUNDS, true));
        // The sum may be one bit longer.
        if let Some(prime) = found.filter(|prime| prime.bits() == bits) {
            return prime;
        }
    }
}

/// A random odd number of that many bits, a multiple of eight, whose two highest are set.
fn candidate(random: &mut StdRng, bits: usize) -> BigUint {
    let mut bytes = Zeroizing::new(vec![0; bits / 8]);
    random.fill_bytes(&mut bytes);
    if let Some(first) = bytes.first_mut() {
        *first |= 0b1100_0000;
    }
    if let Some(last) = bytes.last_mut() {
        *last |= 1;
    }
    BigUint::from_bytes_be(&bytes)
}

/// How far after an odd number those stand that no small prime divides.
fn survivors(start: &BigUint) -> Vec<u32> {
    let digits: Vec<u64> = start.to_bytes_be().rchunks(4).rev().map(word).collect();
    let mut divided = vec![false; WINDOW];
    for prime in small_primes() {
        let prime = u64::from(*prime);
        let rest = digits.iter().fold(0, |rest, digit| (rest << 32 | digit) % prime);
        // The first offset 2·i with start + 2·i ≡ 0.
        let missing = (prime - rest) % prime;
        let first = if missing % 2 == 0 { missing / 2 } else { (missing + prime) / 2 };
        let (first, step) = (usize::try_from(first).unwrap_or(WINDOW), usize::try_from(prime).unwrap_or(1));
        divided.iter_mut().skip(first).step_by(step).for_each(|divided| *divided = true);
    }
    let whole = (0u32..).zip(divided).filter(|(_, divided)| !divided);
    whole.map(|(index, _)| 2 * index).collect()
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The odd primes up to [`SMALL`].
fn small_primes() -> &'static [u16] {
    static TABLE: OnceLock<Vec<u16>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut primes: Vec<u16> = Vec::new();
        for n in (3..=SMALL).step_by(2) {
            let known = primes.iter().take_while(|p| u32::from(**p).pow(2) <= u32::from(n));
            if known.into_iter().all(|p| n % p != 0) {
                primes.push(n);
            }
        }
        primes
    })
}

#[cfg(test)]
mod tests {
    use num_bigint_dig::prime::probably_prime;

    use super::*;

    #[test]
    fn primes_are_prime_of_the_right_size_and_follow_from_the_seed() {
        assert_eq!(small_primes()[..4], [3, 5, 7, 11]);
        assert_eq!((small_primes().len(), small_primes().last()), (6541, Some(&65_521)));
        let [p, q] = pair(&mut StdRng::from_seed([5; 32]), 512).unwrap();
        assert_eq!([&p, &q].map(BigUint::bits), [512, 512]);
        assert_eq!((&p * &q).bits(), 1024);
        assert!(p != q && probably_prime(&p, 20) && probably_prime(&q, 20));
        assert_eq!(pair(&mut StdRng::from_seed([5; 32]), 512).unwrap(), [p, q]);
    }

    #[test]
    fn the_sieve_leaves_all_primes_and_no_multiples_of_small_ones() {
        let start = BigUint::from(1_000_000_001u64);
        let offsets = survivors(&start);
        // 1,000,000,001 = 7 · 11 · 13 · 19 · 52,579; the next primes are 1,000,000,007 and 1,000,000,009.
        assert_eq!(offsets[..2], [6, 8]);
        for index in 0..2000u32 {
            let n = &start + BigUint::from(2 * index);
            if probably_prime(&n, 10) {
                assert!(offsets.contains(&(2 * index)), "{n}");
            }
        }
        let even = |offset: &u32| (1_000_000_001 + u64::from(*offset)).is_multiple_of(3);
        assert!(!offsets.iter().any(even));
    }
}
