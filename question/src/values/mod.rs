//! Values of keys that are written as a text of a form, or as one of several words.

pub mod hardware;
pub mod imbalance;
pub mod noise;
pub mod packing;
pub mod passes;
pub mod segments;
pub(crate) mod text_form;
pub(crate) mod words;
