//! The question of a simulation, besides its scenario.

use crate::values::words::words;

words! {
    /// The order of the schedules of a setting.
    pub enum Sort {
        /// The bubble of the span.
        Bubble = "bubble";
        /// The largest peak activation memory of a stage.
        Memory = "memory";
        /// The span.
        Step = "step";
    }
}
