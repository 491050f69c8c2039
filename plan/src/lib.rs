//! Plans the training of a transformer on a cluster: which parallel configuration is fastest, what it
//! holds, and how long a step takes.
//!
//! A [`Transformer`] has the sizes of the model, a [`Recipe`] the batch and how the framework trains
//! it, a [`Cluster`] the devices; together they are the [`Inputs`] of a question. A [`Setup`] cuts them
//! against each other: data, tensor, pipeline, context and expert parallelism, ZeRO stage, microbatch
//! size, schedule and recomputation. [`Inputs::cost`] turns a set-up into the costs of a pipeline
//! problem, by formulas whose constants were fitted to published measurements; [`Inputs::evaluate`]
//! makes its order and replays it; [`search`] finds the fastest of many set-ups, and [`run_with`] runs
//! those on shared links. This crate has no file and no clock.
//!
//! ```
//! use plan::{Attention, Biases, Norm, Sizes, Transformer};
//!
//! let gpt3 = Transformer::new(Sizes {
//!     layers: 96,
//!     hidden: 12_288,
//!     heads: 96,
//!     kv_heads: 96,
//!     head_size: 128,
//!     ffn: 4 * 12_288,
//!     gated: false,
//!     vocabulary: 51_200,
//!     sequence: 2_048,
//!     positions: 2_048,
//!     experts: None,
//!     tied: true,
//!     biases: Biases { qkv: true, output: true, mlp: true },
//!     norm: Norm::Layer,
//!     qk_norm: false,
//!     attention: Attention::Core,
//!     ..Sizes::default()
//! })?;
//! assert_eq!(gpt3.parameters() / 1_000_000_000, 174);
//! # Ok::<(), plan::ModelError>(())
//! ```
#![allow(clippy::doc_markdown)] // Names of models and symbols of papers.

mod bound;
mod capture;
mod costed;
mod costing;
mod documents;
mod evaluate;
mod experts;
mod finalist;
pub mod fit;
mod goodput;
mod inputs;
mod kind;
mod layer;
mod layer_assignments;
mod layer_places;
mod layout;
mod limits;
mod machine;
mod memory;
mod memory_budget;
mod model;
mod noise;
mod offload;
mod optimizer;
mod order_search;
mod orders;
mod partition;
mod precision;
mod rates;
mod search;
mod searched;
mod setup;
mod shards;
mod single_setup;
pub mod software;
mod space;
mod split;
mod times;

pub use capture::Capture;
pub use costed::{Costed, Rejected};
pub use documents::{DocumentSteps, Dynamic, GroupShare, document_steps, dynamic};
pub use evaluate::Evaluation;
pub use experts::{Capacity, Imbalance, Load, Popularity, Routing, RoutingError};
pub use finalist::{Finalist, FinalistError};
pub use goodput::Failures;
pub use inputs::Inputs;
pub use kind::{Kind, Reach, Sharding};
pub use layer::{LayerTimes, Part, PartTimes, Segments, Task, head, layer};
pub use layout::Layout;
pub use machine::{
    BlockFormats, CalibratedRun, Machine, Measured, Price, Reliability, all_reduce, gathered,
};
pub use memory::{
    Activations, LayerParameters, Parameters, Share, StageMemory, footprint, resident,
};
pub use memory_budget::{MemoryBudget, Overflow, Peaks};
pub use model::{
    Adapter, Adapters, Attention, Biases, Experts, Ffn, Frozen, FrozenError, Indexer,
    KindParameters, Latent, LayerCounts, LayerKind, Linear, MAX_KINDS, Mamba, Mixer, ModelError,
    Module, Modules, Norm, Product, Recompute, Role, Side, Sizes, Target, Targets, Trained,
    Transformer, number,
};
pub use noise::{Noise, NoiseError, SlowDevice, Straggler, drawn, percentiles, percentiles_with};
pub use offload::{Offload, Offloaded};
pub use optimizer::{Optimizer, Update};
pub use order_search::{OrderSearch, SearchCounts, search_orders};
pub use orders::Orders;
pub use partition::{Loss, Partition};
pub use precision::Precision;
pub use rates::{Efficiency, Otherwise, RATE_KEYS, RATES, Rate, RateForm};
pub use search::{
    Found, NO_MEMORY, NOT_RUN, PRUNED, STOPPED, Watch, run_unsure, run_with, search, search_with,
};
pub use setup::{Boundary, Cluster, Recipe, Reshard, Setup, Split, Unfit, Zero, check};
pub use single_setup::{SetupRun, Shortage};
pub use software::{Graphs, Options, Software, Tuning};
pub use space::{MAX_SETUPS, Space};
pub use times::{Times, nanos};

#[cfg(test)]
mod tests;
