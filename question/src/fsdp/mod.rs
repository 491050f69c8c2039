//! The question of data-parallel training: packing, and collectives or on-demand communication.

pub mod keys;
pub mod kinds;
pub mod syntax;

pub use keys::{Keys, Setting};
