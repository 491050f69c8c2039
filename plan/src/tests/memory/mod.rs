//! Memory: rules that hold for every model, and the memory of published runs.

mod graphs;
mod models;
mod peaks;
mod rules;
