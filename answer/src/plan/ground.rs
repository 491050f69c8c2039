//! The inputs of the cost formulas for a question.

use plan::{Cluster, Inputs};
use planning::Question;

/// The model, recipe and machines that the set-ups of `question` on `cluster` share.
#[must_use]
pub fn ground<'a>(question: &'a Question, cluster: &'a Cluster) -> Inputs<'a> {
    let inputs = Inputs::new(&question.model, &question.recipe, cluster);
    Inputs { layout: question.layout(), ..inputs }
}
