//! Runs of today's models on today's machines: what the planner says of them, and of those that nothing
//! was fitted to.

mod assumptions;
mod constants;
mod figures;
mod models;
mod predict;
mod published;
mod row;
mod study;
