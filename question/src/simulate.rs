//! The question of a simulation, besides its scenario.

/// The order of the schedules of a setting.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// The bubble of the span.
    Bubble,
    /// The peak activation memory of the stage that holds most.
    Memory,
    /// The span.
    Step,
}
