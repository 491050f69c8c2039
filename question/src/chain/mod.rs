//! The segments of passes as a question writes them: `attention=4.4ms/9.3ms/2.4ms`.

mod file;
mod syntax;

pub(crate) use file::{Row, read};
pub use syntax::{
    Amount, ContentionKey, InterleavingKey, LoneBackward, Measured, SegmentKey, WeightGradient,
};
