//! The passes that have made their part of a value of all stages.

use pipeline::Shape;

use super::numbers::small;

/// Number of passes that have made their part of each value that all stages make, by step.
#[derive(Default)]
pub(super) struct Makers {
    stages: u32,
    /// By cell of the values of all steps; grows with the steps that run.
    made: Vec<u32>,
}

impl Makers {
    pub(super) fn new(shape: Shape) -> Self {
        Self { stages: small(shape.stages()), made: Vec::new() }
    }

    /// Whether the pass that has ended is the last that makes the value of `cell`, which one pass
    /// makes or, if it is `shared`, one on every stage.
    pub(super) fn is_last(&mut self, cell: usize, shared: bool) -> bool {
        if !shared {
            return true;
        }
        if self.made.len() <= cell {
            self.made.resize(cell + 1, 0);
        }
        self.made[cell] += 1;
        self.made[cell] == self.stages
    }
}
