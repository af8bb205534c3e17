//! How to reach an address: direct, through a proxy, or inside a process.
