//! Memory: what must hold of it whatever the model, and what published runs held.

mod models;
mod peaks;
mod rules;
