//! The question of data-parallel training: packing, and collectives or on-demand communication.

mod columns;
pub mod keys;
mod lengths;

pub use columns::columns;
pub use keys::FsdpKeys;
pub use keys::settings::FsdpSetting;
