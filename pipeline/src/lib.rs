//! The contract of pipeline-parallel training that the simulator predicts by and the executor obeys.
//!
//! A [`Pass`] says *what* is computed (F, B, W, or a whole backward BW), a [`Placement`] *where* the
//! chunks of the model live, a [`Schedule`] *in which order* every stage runs its passes, and a
//! [`Timeline`] *when* each of them ran. A schedule is complete, well placed and free of deadlock from
//! the moment it exists. This crate has no clock, no random numbers, no thread and no file.
//!
//! Start with a [`Shape`] (stages, chunks, microbatches) and [`Costs`] (durations of passes and
//! hops); together they make a [`Problem`], which a [`Family`] such as 1F1B or ZB-H1 turns into a
//! schedule. [`Memory`] counts what the schedule holds, [`closed_form`] has the published formulas to
//! check it against, and crate `sim` times it.
//!
//! ```
//! use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let ms = Nanos(1_000_000);
//! let times = PassTimes::new(ms, ms, ms);
//! let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0)))?;
//! let schedule = Family::ZbH1.schedule(&problem)?;
//! assert!(schedule.to_string().starts_with("F0.0 F0.1 F0.2 F0.3 B0.0 W0.0 F0.4"));
//! # Ok::<(), pipeline::Fault>(())
//! ```
#![warn(missing_docs)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod backwards;
mod bandwidth;
mod copy_op;
mod costs;
mod encoder;
mod family;
mod fault;
mod gcd;
mod layer_layout;
mod memory;
mod offload;
mod order;
pub mod overlap;
mod pass;
mod problem;
mod recompute;
mod record;
mod schedule;
#[cfg(feature = "serde")]
mod serialized;
mod shape;
pub mod sharding;
mod spread;
mod steady_state;
mod text;
mod timeline;
mod units;
mod walk;

pub mod closed_form;
pub mod primus;
#[cfg(feature = "schema")]
pub mod schema;
pub mod torch_csv;

pub use bandwidth::{Bandwidth, BandwidthError};
pub use copy_op::{CopyDirection, CopyOp, CopyPart, CopyPolicy, CopyTimes};
pub use costs::{
    Change, Collectives, Costs, Footprint, Footprints, Hops, MicrobatchWork, PassTimes, ShardTimes,
    Work, check_sum,
};
pub use encoder::{Encoder, EncoderKind, EncoderRun, MAX_ENCODER_LAYERS};
pub use family::{
    About, Choice, Chunks, Family, InTorch, LeftOut, LimitUse, Period, ROUND_TRIPS, Repeats,
    Semantics, copied_in_turn, interleaved_group,
};
pub use fault::{Cycle, Fault, Wait};
pub use layer_layout::{LayerLayout, LayoutError, LayoutMisfit};
pub use memory::{Ledger, Memory, peak_in_flight};
pub use offload::{Copies, CopyStreams};
pub use order::Order;
pub use pass::{Kind, Needs, Pass, Slot, Value};
pub use problem::{Limit, Limits, Problem};
pub use record::{Measurement, Step};
pub use schedule::Schedule;
#[cfg(feature = "serde")]
pub use serialized::{as_text, nanoseconds};
pub use shape::{MAX_CHUNKS, MAX_PASSES, Placement, Shape, Vocabulary};
pub use spread::{Share, spread, spread_by_layers};
pub use steady_state::SteadyState;
pub use text::{SlotError, TextError};
pub use timeline::{Metrics, Span, StageTimes, Timeline, bubble_rate, mean_busy};
pub use units::{Bytes, Nanos, UnitError};
pub use walk::WalkStep;
