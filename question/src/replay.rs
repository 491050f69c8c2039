//! The question of a trace: what the steps of a run would have been.

use pipeline::Limit;

use crate::keys::table::{Lists, keys};
use crate::values::words::words;

keys! {
    /// Changes of a run that are tried on its trace.
    pub struct ReplayKeys as "Keys": "What if", Lists::OfValues;

    /// Change the run in these ways, one at a time
    what_if: Vec<WhatIf>, value: "CHANGE,..";
    /// Leave out the first N steps of the trace, which warm up
    warmup_steps: Option<u64>, value: "N", heading: "Run", signed: false;
    /// Order the passes by these schedules, with the run's median times: compare them with
    /// no-stragglers, and with the run's own schedule
    schedule: Vec<String>, value: "NAME|FILE,..";
    /// Share of B in a backward pass, the rest being W [default: from --hidden and --seq, or 0.5]
    backward_split: Option<f64>, value: "SHARE";
    /// Hidden size h, for the share of B: (24h+8s) / (48h+8s)
    hidden: Option<u64>, value: "H", signed: false;
    /// Sequence length s
    seq: Option<u64>, value: "S", signed: false;
    /// Chunks per stage, for schedules that take any number
    chunks: Option<u64>, value: "V", signed: false;
    /// Memory limit of every stage, for schedules that are made for one: `1.5p`; or one per stage
    memory_limit: Option<Vec<Limit>>, value: "LIMIT,..";
}
#[cfg(feature = "clap")]
crate::keys::flags::flags!(ReplayKeys);

words! {
    /// A change of the run.
    pub enum WhatIf {
        /// Every pass takes the median of its kind and chunk over ranks, microbatches and steps.
        NoStragglers = "no-stragglers";
        /// Every pass takes the mean of those medians over the stages.
        Balanced = "balanced";
        /// Transfers between stages take no time.
        FreeLinks = "free-links";
    }
}
