//! A small repeatable source of made-up MACs, uuids and process numbers, saved with the world.

use serde::{Deserialize, Serialize};

/// SplitMix64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn uuid(&mut self) -> String {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }

    /// A MAC with the prefix that Proxmox uses.
    pub(crate) fn mac(&mut self) -> String {
        let [a, b, c, ..] = self.next().to_be_bytes();
        format!("BC:24:11:{a:02X}:{b:02X}:{c:02X}")
    }
}
