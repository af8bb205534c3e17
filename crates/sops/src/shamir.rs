//! Shamir's secret sharing over GF(2⁸) as Vault does it: a share is one byte per byte of the secret, and its x at the end.

use rand::{CryptoRng, RngCore};
use zeroize::Zeroizing;

/// Multiplies in the field of AES, without a branch on the factors.
fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0u8;
    for bit in (0..8).rev() {
        let carry = (product >> 7).wrapping_neg() & 0x1B;
        product = (product << 1) ^ carry ^ ((b >> bit & 1).wrapping_neg() & a);
    }
    product
}

/// a²⁵⁴, which is 1/a.
fn inverse(a: u8) -> u8 {
    (0..253).fold(a, |power, _| multiply(power, a))
}

/// Splits a secret into `parts` shares, of which any `threshold` give it back.
pub(crate) fn split(
    secret: &[u8],
    parts: u8,
    threshold: u8,
    rng: &mut (impl CryptoRng + RngCore),
) -> Vec<Zeroizing<Vec<u8>>> {
    let mut shares: Vec<_> =
        (1..=parts).map(|_| Zeroizing::new(Vec::with_capacity(secret.len() + 1))).collect();
    let mut coefficients = Zeroizing::new(vec![0u8; usize::from(threshold)]);
    for byte in secret {
        rng.fill_bytes(&mut coefficients);
        coefficients[0] = *byte;
        for (share, x) in shares.iter_mut().zip(1..=parts) {
            share.push(coefficients.iter().rev().fold(0, |sum, c| multiply(sum, x) ^ c));
        }
    }
    for (share, x) in shares.iter_mut().zip(1..=parts) {
        share.push(x);
    }
    shares
}

/// The secret of some shares; none if they cannot belong together.
pub(crate) fn combine(shares: &[Zeroizing<Vec<u8>>]) -> Option<Zeroizing<Vec<u8>>> {
    let length = shares.first()?.len().checked_sub(1)?;
    let xs: Vec<u8> = shares.iter().map(|share| share.last().copied()).collect::<Option<_>>()?;
    let apart = (1..xs.len()).all(|one| !xs[..one].contains(&xs[one]));
    if !apart || xs.contains(&0) || shares.iter().any(|share| share.len() != length + 1) {
        return None;
    }
    // The value at 0 of the polynomial through all points (Lagrange).
    let weights: Vec<u8> = xs
        .iter()
        .map(|x| {
            let others = xs.iter().filter(|other| *other != x);
            others.fold(1, |weight, other| multiply(weight, multiply(*other, inverse(x ^ other))))
        })
        .collect();
    let mut secret = Zeroizing::new(Vec::with_capacity(length));
    for at in 0..length {
        let sum =
            shares.iter().zip(&weights).fold(0, |sum, (share, weight)| sum ^ multiply(share[at], *weight));
        secret.push(sum);
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_that_of_aes() {
        assert_eq!(multiply(0x57, 0x83), 0xC1);
        for a in 1..=255u8 {
            assert_eq!(multiply(a, inverse(a)), 1, "{a}");
        }
    }

    #[test]
    fn enough_shares_give_the_secret_and_fewer_do_not() {
        let secret = [7u8; 32];
        for (parts, threshold) in [(2, 2), (3, 2), (5, 3), (255, 4)] {
            let shares = split(&secret, parts, threshold, &mut rand::thread_rng());
            assert!(shares.iter().all(|share| share.len() == 33));
            let last = &shares[shares.len() - usize::from(threshold)..];
            assert_eq!(combine(last).unwrap().as_slice(), secret);
            assert_ne!(combine(&last[1..]).unwrap().as_slice(), secret);
        }
        let twice = split(&secret, 2, 2, &mut rand::thread_rng());
        assert!(combine(&[twice[0].clone(), twice[0].clone()]).is_none());
        assert!(combine(&[]).is_none());
    }
}
