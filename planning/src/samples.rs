//! Samples of a model on a machine: forward and backward time by length, and the links of FSDP.

use std::ops::Range;
use std::path::Path;

use fsdp::FsdpError;
use fsdp::rl::{ChunkCosts, PassCost};
use pipeline::{Bandwidth, Bytes, Nanos};
use plan::{
    Adapters, Attention, Frozen, LayerKind, Loss, Machine, Partition, Precision, Recompute,
    Software, Targets, Task, Transformer, head, layer, number,
};
use question::diagnostic::Diagnostic;
use question::fsdp::FsdpKeys;
use question::host::Context;
use question::quote;
use question::values::packing::{CostKey, RecomputeKey};

use crate::config;
use crate::machines;
use crate::memory_error::MemoryError;
use crate::models;
use crate::reader::Reader;
use crate::{Document, ModelDocument};

/// Bytes of a parameter as it travels, and of a number of an activation.
pub(crate) const HALF: f64 = 2.0;
/// The unit of length of quadratic costs, in tokens.
const NORMAL_LENGTH: f64 = 32_000.0;
/// Tokens of a microbatch below which costs are not asked: launches would count for every token.
const LEAST_TOKENS: u64 = 1_024;
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;
/// Tokens of the sequences of a model that is named, where none are given.
pub(crate) const NAMED_SEQUENCE: u64 = 4_096;
/// Share of the peak that fused attention reaches on long samples on devices without 8-bit products: the middle
/// of the 50 to 73 % published for an A100 (FlashAttention-2, arXiv 2307.08691, abstract). Their machine files
/// have the rate at 2,048 tokens.
const LONG_ATTENTION: f64 = 0.615;

/// A device that shares nothing with another one.
pub(crate) const ALONE: Partition = Partition {
    tensor: 1,
    context: 1,
    expert: 1,
    expert_tensor: 1,
    microbatch: 1,
    sequence_parallel: false,
    loss: Loss::Separate,
};

/// A model on a machine.
pub struct Samples {
    pub model: Transformer,
    pub machine: Machine,
    /// What was assumed about the model, a sentence each.
    pub assumed: Vec<String>,
    /// The vision encoder of the config, where that is asked for and there is one.
    pub(crate) vision: Option<config::Vision>,
}

/// Forward and backward of a sample of s tokens: `squares` s^2 + `tokens` s seconds of each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Seconds of the forward alone.
    pub forward: [f64; 2],
    /// Seconds of forward and backward.
    pub both: [f64; 2],
}

impl Samples {
    /// Reads the model called `model`, a file or a name, and the machine called `machine`.
    pub fn read(context: &Context<'_>, model: &Path, machine: &str) -> Result<Self, Diagnostic> {
        Self::read_with(context, model, machine, (None, false))
    }

    /// The same with sequences of so many tokens, if they are given, and with the vision encoder.
    pub(crate) fn read_with(
        context: &Context<'_>,
        model: &Path,
        machine: &str,
        (sequence, vision): (Option<u64>, bool),
    ) -> Result<Self, Diagnostic> {
        let mut machine = machines::named(context, machine, Path::new(""))
            .map_err(|error| error.about("machine"))?;
        if machine.peak_fp8.is_none() {
            machine.efficiency.flash = machine.efficiency.flash.max(LONG_ATTENTION);
        }
        let wanted = config::Wanted { sequence, attention: Attention::Flash, vision };
        let config::Model { transformer, assumed, vision, .. } =
            read_model(context, model, wanted)?;
        Ok(Self { model: transformer, machine, assumed, vision })
    }

    /// The same with adapters of `rank` on all products of layers, which alone are trained.
    pub(crate) fn with_adapters(self, rank: u64) -> Result<Self, Diagnostic> {
        let targets = Targets::named("all-linear").unwrap_or(Targets::USUAL);
        let adapters = Some(Adapters { rank, targets });
        let frozen = Frozen { adapters, ..Frozen::default() };
        let model = self.model.freezing(frozen);
        let model = model.map_err(|error| Diagnostic::new(error.to_string()))?;
        Ok(Self { model, ..self })
    }

    /// The cost of samples in microbatches of `tokens` tokens, whose sequences groups of `shared` devices
    /// share, without the exchange between these.
    ///
    /// A microbatch is timed by the layer formulas twice: as one sample, and with no pair of tokens that
    /// attend to each other. The difference is attention, which grows with the square of a sample, and the
    /// rest grows with its tokens.
    #[must_use]
    pub fn cost(&self, tokens: u64, shared: u64, recompute: RecomputeKey) -> Cost {
        let tokens = tokens.max(LEAST_TOKENS).saturating_mul(shared.max(1));
        let timed = |attended: f64| self.microbatch(tokens, shared, attended, recompute);
        let [whole, linear] = [timed(1.0), timed(0.0)];
        let of = |at: usize| by_length([whole[at], linear[at]], number(tokens));
        Cost { forward: of(0), both: of(1) }
    }

    /// Seconds of the forward, and of forward and backward, of a microbatch of one sample of `tokens`.
    fn microbatch(
        &self,
        tokens: u64,
        shared: u64,
        attended: f64,
        recompute: RecomputeKey,
    ) -> [f64; 2] {
        let model = self.model.with_sequence(tokens);
        let partition = Partition { context: shared.max(1), ..ALONE };
        let task = self.task(&model, partition, attended, recompute);
        let layers = model.counts(0..model.layers);
        let kinds = model.layer_kinds();
        let all = |of: fn(plan::Times) -> f64| {
            let one = |kind: LayerKind| of(layer(&task, kind).alone);
            layers.sum_of(kinds, one) + of(head(&task).times)
        };
        [all(|times| times.forward), all(|times| times.sum())]
    }

    /// The passes of each of `chunks`, layers in model order, in microbatches of `tokens` tokens on devices
    /// that `partition` says, with their collectives. The last has the head.
    pub(crate) fn chunks(
        &self,
        tokens: u64,
        partition: Partition,
        recompute: RecomputeKey,
        chunks: &[Range<u64>],
    ) -> Vec<ChunkCosts> {
        let tokens = tokens.max(LEAST_TOKENS.saturating_mul(partition.context));
        let model = self.model.with_sequence(tokens);
        let last = chunks.len().saturating_sub(1);
        let timed = |attended: f64, (at, layers): (usize, &Range<u64>)| {
            let task = self.task(&model, partition, attended, recompute);
            let counts = model.counts(layers.clone());
            let kinds = model.layer_kinds().iter().zip(counts.iter());
            let layers = kinds.filter(|(_, count)| *count > 0);
            let layers = layers.map(|(kind, count)| layer(&task, *kind).times.times(number(count)));
            let end = if at == last { head(&task).times } else { plan::Times::default() };
            layers.fold(end, plan::Times::plus)
        };
        let tokens = number(tokens);
        let chunk = |chunk| {
            let [whole, linear] = [timed(1.0, chunk), timed(0.0, chunk)];
            let cost = |of: fn(plan::Times) -> f64| {
                let [squares, tokens] = by_length([of(whole), of(linear)], tokens);
                PassCost { squares, tokens }
            };
            ChunkCosts {
                forward: cost(|times| times.forward),
                backward_input: cost(|times| times.backward_input),
                backward_weight: cost(|times| times.backward_weight),
            }
        };
        chunks.iter().enumerate().map(chunk).collect()
    }

    fn task<'a>(
        &'a self,
        model: &'a Transformer,
        partition: Partition,
        attended: f64,
        recompute: RecomputeKey,
    ) -> Task<'a> {
        Task {
            model,
            machine: &self.machine,
            partition,
            precision: Precision::Bf16,
            software: Software { eager: true, ..Software::default() },
            recompute: recompute_of(recompute),
            head: Precision::Bf16,
            load: plan::Load::EVEN,
            attended,
        }
    }

    /// Bytes of all parameters in 16 bits.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes(self.model.parameters().saturating_mul(2))
    }

    /// The rate of a device to the others of its domain.
    pub(crate) fn link(&self) -> Result<Bandwidth, Diagnostic> {
        rate(self.machine.link * self.machine.efficiency.link)
    }

    /// The rate of a domain to all others while parameters are gathered layer by layer, if `devices` are on
    /// several.
    pub(crate) fn network(&self, devices: u64) -> Result<Option<Bandwidth>, Diagnostic> {
        let several = devices > self.machine.domain;
        several.then(|| rate(self.machine.sharded_ring(devices, 1))).transpose()
    }

    /// The latency of a message.
    pub(crate) fn latency(&self) -> Nanos {
        plan::nanos(self.machine.efficiency.collective_latency)
    }
}

impl Cost {
    /// The key of quadratic costs a (s/32000)^2 + b (s/32000) of `[squares, tokens]`.
    pub(crate) fn key([squares, tokens]: [f64; 2]) -> Result<CostKey, Diagnostic> {
        let [a, b] = constants([squares, tokens]);
        CostKey::quadratic(a, b).map_err(|fault: FsdpError| Diagnostic::new(fault.to_string()))
    }
}

/// The names of the models that are built in.
#[must_use]
pub fn model_names() -> Vec<String> {
    models::names()
}

/// a and b of quadratic costs, in seconds at 32,000 tokens.
#[must_use]
pub fn constants([squares, tokens]: [f64; 2]) -> [f64; 2] {
    [squares * NORMAL_LENGTH * NORMAL_LENGTH, tokens * NORMAL_LENGTH]
}

/// Seconds for each square of the tokens of a sample, and for each token, if one of `tokens` takes `whole`, and `linear`
/// without pairs of tokens that attend to each other.
fn by_length([whole, linear]: [f64; 2], tokens: f64) -> [f64; 2] {
    [(whole - linear).max(0.0) / (tokens * tokens), linear / tokens]
}

/// The inverse of [`constants`]: `squares` and `tokens` of quadratic costs.
pub(crate) fn per_token([a, b]: [f64; 2]) -> [f64; 2] {
    [a / (NORMAL_LENGTH * NORMAL_LENGTH), b / NORMAL_LENGTH]
}

fn rate(bytes_per_second: f64) -> Result<Bandwidth, Diagnostic> {
    // Bytes of so many nanoseconds are whole.
    let whole = plan::nanos(bytes_per_second / SECOND).0.max(1);
    Bandwidth::new(whole).map_err(|fault| Diagnostic::new(fault.to_string()))
}

pub(crate) const fn recompute_of(key: RecomputeKey) -> Recompute {
    match key {
        RecomputeKey::Full => Recompute::Full,
        RecomputeKey::None => Recompute::None,
    }
}

/// The model in the file at `path`, or of that name.
fn read_model(
    context: &Context<'_>,
    path: &Path,
    wanted: config::Wanted,
) -> Result<config::Model, Diagnostic> {
    let name = path.to_string_lossy();
    let sizes = models::named(&name);
    if let (Some(sizes), false) = (sizes, context.exists(path)) {
        let sequence = wanted.sequence.or(Some(NAMED_SEQUENCE));
        let document = Document { sequence, ..Document::of_model(ModelDocument::Sizes(sizes)) };
        let reader = Reader {
            context,
            folder: Path::new(""),
            network_folder: Path::new(""),
            file: None,
            document: &document,
            memory_error: MemoryError::default(),
        };
        return reader.model().map_err(|error| error.about("model"));
    }
    if context.exists(path) || name.contains(".json") {
        return config::read(context, path, wanted).map_err(|error| error.about("model"));
    }
    let message = format!("there is no model `{}`", quote::clip(&name));
    let cure = format!("write the path of a config.json, or the name of a model {}", models::NAMES);
    Err(Diagnostic::new(message).with_help(cure).about("model"))
}

/// `keys` with costs, layers and links by their model and machine, as far as they are not given.
pub fn of_keys(context: &Context<'_>, keys: &FsdpKeys) -> Result<FsdpKeys, Diagnostic> {
    let (model, machine) = match (&keys.model, &keys.machine) {
        (Some(model), Some(machine)) => (model, machine),
        (None, None) => return Ok(keys.clone()),
        (Some(_), None) => {
            return Err(Diagnostic::new("--model needs --machine").about("model"));
        }
        (None, Some(_)) => {
            return Err(Diagnostic::new("--machine needs --model").about("machine"));
        }
    };
    let samples = Samples::read(context, model, machine)?;
    let lengths = keys.lengths.read(context).map_err(|error| error.about("lengths"))?;
    let longest = lengths.longest();
    let mut keys = keys.clone();
    if keys.cost.is_none() {
        let cost = samples.cost(u64::from(longest), 1, keys.recompute);
        keys.cost = Some(Cost::key(cost.both)?);
    }
    keys.layers.get_or_insert(samples.model.layers);
    keys.parameters.get_or_insert(samples.bytes());
    keys.latency.get_or_insert(samples.latency());
    if keys.bandwidth.is_none() {
        keys.bandwidth = Some(samples.link()?);
    }
    let most = keys.devices.iter().copied().max().unwrap_or(1) as u64;
    if keys.node_bandwidth.is_none() && keys.devices_per_node.is_none() {
        let of_node = usize::try_from(samples.machine.domain).unwrap_or(usize::MAX);
        keys.node_bandwidth = samples.network(most)?;
        keys.devices_per_node = keys.node_bandwidth.map(|_| of_node);
    }
    Ok(keys)
}
