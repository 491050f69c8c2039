//! The question of data-parallel training: packing, and collectives or on-demand communication.

pub mod keys;
mod lengths;

pub use keys::FsdpKeys;
pub use keys::settings::FsdpSetting;
