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

use plan::Transformer;

/// The model that published tables of runs call `name`, on sequences of this length, with its layers of
/// multi-token prediction if `mtp`; `None` for a name that they do not have.
///
/// # Errors
/// A length that it cannot have.
#[must_use]
pub fn model(name: &str, sequence: u64, mtp: bool) -> Option<Result<Transformer, String>> {
    let models = match models::Models::read() {
        Ok(models) => models,
        Err(error) => return Some(Err(error)),
    };
    models.named(name).map(|model| model.transformer(sequence, mtp))
}
