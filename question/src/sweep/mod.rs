//! Sweeps: a grid of questions in the order of their index, with the columns that their rows have.
//!
//! A question is decoded from its index and its row depends on nothing else, so rows can be made on
//! any thread, in any run, on any machine.

pub mod axis;
pub mod columns;
pub mod grid;
pub mod shard;

/// FNV-1a over 64 bits: detects torn and foreign files, not forged ones.
#[derive(Clone, Copy)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// Takes in `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The checksum of all that was taken in.
    pub const fn value(self) -> u64 {
        self.0
    }
}
