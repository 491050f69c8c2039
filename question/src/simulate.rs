//! The question of a simulation, besides its scenario.

use crate::values::words::words;

words! {
    /// The order of the schedules of a setting.
    pub enum Sort {
        /// The bubble of the span.
        Bubble = "bubble";
        /// The peak activation memory of the stage that holds most.
        Memory = "memory";
        /// The span.
        Step = "step";
    }
}
