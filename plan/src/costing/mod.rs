//! The costs of a set-up before any order is made: durations of passes and transfers, and the work
//! between two steps.

mod exchange;
mod streams;

use std::rc::Rc;

use pipeline::{
    Bytes, CopyTimes, Costs, Family, Footprints, LayerLayout, Nanos, PassTimes, Placement, Shape,
};

use crate::capture::Capture;
use crate::costed::Costed;
use crate::inputs::Inputs;
use crate::layer::{self, LayerTimes, Task, longer};
use crate::layout::{Layout, Wires};
use crate::machine::Machine;
use crate::memory::{self, Activations, LayerParameters, Parameters, Share, StageMemory, bytes};
use crate::model::{LayerCounts, Recompute, number};
use crate::offload::Offload;
use crate::setup::{Reshard, Setup, Unfit};
use crate::split::LayerSplit;
use crate::times::{Times, nanos};

/// Bytes of an activation, and of a weight on its way to another replica.
const HALF: f64 = 2.0;
/// The duration of a transfer that orders are made for, in percent of a mean forward: between the 6
/// and 11 % that were measured beside the passes of Zero Bubble's models (arXiv 2401.10241, tables
/// 5 and 8). It is the same for all links, so that faster ones cannot spoil an order.
pub(crate) const TRANSFER: u64 = 10;
/// The inputs from which the costs of one set-up are computed.
pub(crate) struct Costing<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) setup: &'a Setup,
    pub(crate) shape: Shape,
    /// By stage.
    pub(crate) machines: Vec<&'a Machine>,
}

impl<'a> Costing<'a> {
    pub(crate) fn cost(&self) -> Result<Costed, Unfit> {
        let Inputs { model, recipe, .. } = self.inputs;
        let stages = self.stages();
        let ends = self.ends(&stages);
        let ([first, behind], _) = self.setup.recompute.of_chunk(0);
        let by_stage = self.layers_by_stage(behind);
        let layers = self.split_layers(&stages, &by_stage, &ends);
        let parts = self.chunks(&layers);
        let chunks = whole_chunks(&parts);
        let own = self.own_layers(&stages, &parts, &by_stage);
        let activations = Activations::of(model, self.setup, recipe);
        let whole = self.with_ends(&stages, &own, &ends);
        let passes = whole.iter().map(|chunk| chunk.times).collect();
        let passes = self.with_offload(passes, &stages, &parts, &activations)?;
        let alone: Vec<Times> = whole.iter().map(|chunk| chunk.alone).collect();
        let of_chunks = self.shares_of_chunks(&chunks);
        let shares = self.shares(&stages, &of_chunks);
        let by_kind = LayerParameters::of(model, self.setup);
        let parameters = self.parameters(&by_kind, &shares);
        let trained_by_kind = LayerParameters::trained(model, self.setup);
        let trained = self.parameters(&trained_by_kind, &shares);
        let sends = self.sends(&stages, &layers);
        let runs = self.runs(&stages, &parts, [first, behind]);
        let of = |sends: &[[Nanos; 2]]| {
            let costs = self.costs(&passes, [&parameters, &trained], &stages, sends);
            self.on_streams(costs, &runs)
        };
        let [costs, apart] = [of(&sends)?, of(&vec![[Nanos(0); 2]; sends.len()])?];
        let footprints = self.footprints(&activations, &parts);
        let copies = self.copies(&stages, &footprints)?;
        // Which activations are copied to the host, and when, depends on the whole time of a pass.
        let ordering = self.ordering(if self.setup.copies() { &passes } else { &alone });
        let [costs, apart, ordering] =
            [costs, apart, ordering].map(|costs| costs.with_copies(copies.clone()));
        Ok(Costed {
            setup: *self.setup,
            shape: self.shape,
            costs,
            apart,
            ordering,
            limit: None,
            message: bytes(self.message()),
            footprints,
            graphs: self.static_buffers(&parts),
            resident: self.resident(&activations, &shares, [&parameters, &trained]),
            gradients: self.passing_gradients(&trained_by_kind, &of_chunks),
            capacities: self.capacities(),
            exchange: nanos(self.exchange([&parameters, &trained], &stages, &passes)),
            optimizer: nanos(self.optimizer(&trained, &shares)),
            boundary: recipe.boundary,
            latency: nanos(self.slowest(|machine| machine.step_latency(self.setup.devices()))),
            parts: own.iter().map(|chunk| chunk.parts).collect(),
            mtp: (0..layers.len()).map(|chunk| self.mtp_in(chunk, layers.len() - 1)).collect(),
            layers,
            sends,
            ends: ends.iter().map(|end| end.times).collect(),
            load: recipe.imbalance.load(model, self.setup.partition(recipe)),
        })
    }

    /// Bytes of each stage beside activations.
    fn resident(
        &self,
        activations: &Activations,
        shares: &[Share],
        [parameters, trained]: [&[Parameters]; 2],
    ) -> Vec<StageMemory> {
        let Inputs { model, recipe, .. } = self.inputs;
        let of_stage = |(share, (parameters, trained)): (&Share, (&Parameters, &Parameters))| {
            memory::resident(model, self.setup, recipe, activations, *share, *parameters, *trained)
        };
        shares.iter().zip(parameters.iter().zip(trained)).map(of_stage).collect()
    }

    /// Bytes that may be used on a device of each stage.
    fn capacities(&self) -> Vec<Bytes> {
        let budget = self.inputs.recipe.memory_budget;
        self.machines.iter().map(|machine| budget.of(machine)).collect()
    }

    /// How long the passes of each chunk take, transfers apart, where the chunks have `layers`.
    pub(crate) fn passes(&self, layers: &[u64]) -> Result<Costs, Unfit> {
        let Inputs { model, recipe, .. } = self.inputs;
        let stages = self.stages();
        let by_stage = self.layers_by_stage(self.setup.recompute.of_chunk(0).0[1]);
        let parts = self.chunks(layers);
        let own = self.own_layers(&stages, &parts, &by_stage);
        let whole = self.with_ends(&stages, &own, &self.ends(&stages));
        let passes = whole.iter().map(|chunk| chunk.times).collect();
        let activations = Activations::of(model, self.setup, recipe);
        let passes = self.with_offload(passes, &stages, &parts, &activations)?;
        let by_kind = LayerParameters::of(model, self.setup);
        let shares = self.shares(&stages, &self.shares_of_chunks(&whole_chunks(&parts)));
        let parameters = self.parameters(&by_kind, &shares);
        let trained = self.parameters(&LayerParameters::trained(model, self.setup), &shares);
        let of = [parameters.as_slice(), &trained];
        Ok(self.costs(&passes, of, &stages, &vec![[Nanos(0); 2]; stages.len()]))
    }

    /// The stage of each chunk.
    fn stages(&self) -> Vec<usize> {
        let placement = self.setup.family.about().placement;
        (0..self.shape.chunks()).map(|chunk| placement.stage(self.shape, chunk, 0)).collect()
    }

    /// The layers of each chunk, whose `parts` are computed again as the set-up says; `by_stage` are layers
    /// as those behind the first are.
    fn own_layers(
        &self,
        stages: &[usize],
        parts: &[[LayerCounts; 2]],
        by_stage: &[Rc<[LayerTimes]>],
    ) -> Vec<LayerTimes> {
        let ([first, behind], _) = self.setup.recompute.of_chunk(0);
        if first == behind {
            return layers_of_chunks(stages, &whole_chunks(parts), by_stage);
        }
        let [firsts, others] =
            [0, 1].map(|at| parts.iter().map(|part| part[at]).collect::<Vec<_>>());
        let firsts = layers_of_chunks(stages, &firsts, &self.layers_by_stage(first));
        let others = layers_of_chunks(stages, &others, by_stage);
        firsts.into_iter().zip(others).map(|(first, other)| first.plus(other)).collect()
    }

    /// The parameters of each stage, which holds its one of `shares`.
    fn parameters(&self, by_kind: &LayerParameters, shares: &[Share]) -> Vec<Parameters> {
        let stage = |share: &Share| by_kind.stage(self.inputs.model, self.setup, *share);
        shares.iter().map(stage).collect()
    }

    /// The layers after the first ones of a chunk as a task for a device of `machine`.
    pub(crate) fn task(&self, machine: &'a Machine) -> Task<'a> {
        self.task_with(machine, self.setup.recompute.of_chunk(0).0[1])
    }

    fn task_with(&self, machine: &'a Machine, recompute: Recompute) -> Task<'a> {
        let Inputs { model, recipe, .. } = self.inputs;
        Task::new(model, machine, self.setup, recipe, recompute)
    }

    /// A layer of each kind under `recompute`, by stage.
    fn layers_by_stage(&self, recompute: Recompute) -> Vec<Rc<[LayerTimes]>> {
        let mut known: Vec<(&Machine, Rc<[LayerTimes]>)> = Vec::new();
        let mut of = |machine: &'a Machine| {
            if let Some((_, layers)) = known.iter().find(|(one, _)| std::ptr::eq(*one, machine)) {
                return Rc::clone(layers);
            }
            let task = self.task_with(machine, recompute);
            let kinds = self.inputs.model.layer_kinds().iter();
            let layers: Rc<[LayerTimes]> = kinds.map(|&kind| layer::layer(&task, kind)).collect();
            known.push((machine, Rc::clone(&layers)));
            layers
        };
        self.machines.iter().map(|machine| of(machine)).collect()
    }

    /// Layers of each chunk; where kinds differ, each layer counts as their mean.
    fn split_layers(
        &self,
        stages: &[usize],
        by_stage: &[Rc<[LayerTimes]>],
        ends: &[LayerTimes],
    ) -> Vec<u64> {
        let model = self.inputs.model;
        let all = model.counts(0..model.layers);
        let mean = |layers: &Rc<[LayerTimes]>| {
            let own = layers.iter().zip(all.iter());
            let sum: f64 = own.map(|(layer, count)| layer.alone.sum() * number(count)).sum();
            sum / number(model.layers)
        };
        let weights = self.layer_weights(by_stage);
        let split = LayerSplit {
            weights: &weights,
            layers: model.layers,
            stages,
            layer: &by_stage.iter().map(mean).collect::<Vec<_>>(),
            ends: &ends.iter().map(|end| end.times.sum()).collect::<Vec<_>>(),
        };
        match self.layout() {
            Some(layout) => layout.layers().to_vec(),
            None => split.by(self.setup.split),
        }
    }

    /// The duration of each layer over the mean, where frozen layers make them differ.
    fn layer_weights(&self, by_stage: &[Rc<[LayerTimes]>]) -> Vec<f64> {
        let model = self.inputs.model;
        let (false, Some(times)) = (model.frozen().is_none(), by_stage.first()) else {
            return Vec::new();
        };
        let of = |layer: u64| {
            let counts = model.counts(layer..layer + 1);
            let own = times.iter().zip(counts.iter());
            own.map(|(time, count)| time.alone.sum() * number(count)).sum::<f64>()
        };
        let all: Vec<f64> = (0..model.layers).map(of).collect();
        let mean = all.iter().sum::<f64>() / number(model.layers);
        all.into_iter().map(|one| one / mean).collect()
    }

    /// The layers of each chunk by kind, which are those behind the layers of the chunks before it, in two
    /// parts: the first layers, which are computed again as the set-up says, and those behind them.
    fn chunks(&self, layers: &[u64]) -> Vec<[LayerCounts; 2]> {
        let (model, mut begun) = (self.inputs.model, 0);
        let one = |&layers: &u64| {
            let first = self.setup.recompute.of_chunk(layers).1;
            let (from, to) = (begun + first, begun + layers);
            let parts = [model.counts(begun..from), model.counts(from..to)];
            begun = to;
            parts
        };
        layers.iter().map(one).collect()
    }

    /// Times of each chunk with its layers, its ends, and the pass latency of its stage.
    fn with_ends(
        &self,
        stages: &[usize],
        own: &[LayerTimes],
        ends: &[LayerTimes],
    ) -> Vec<LayerTimes> {
        let graphs = self.setup.software(self.inputs.recipe).graphs;
        let one = |((layers, &stage), end): ((&LayerTimes, &usize), &LayerTimes)| {
            let latency = self.machines[stage].efficiency.pass_latency * (1.0 - graphs);
            let half = latency / 2.0 / number(u64::from(self.shape.chunks_per_stage()));
            let chunk = layers.plus(*end);
            let back = if self.has_backward(chunk.times) { half } else { 0.0 };
            let latency = Times { forward: half, backward_input: back, backward_weight: 0.0 };
            LayerTimes {
                times: chunk.times.plus(latency),
                alone: chunk.alone.plus(latency),
                parts: chunk.parts,
                segments: chunk.segments,
            }
        };
        own.iter().zip(stages).zip(ends).map(one).collect()
    }

    /// Whether a chunk whose passes take `times` has a backward: not where it and all before it are frozen.
    fn has_backward(&self, times: Times) -> bool {
        let is_all_trained = self.inputs.model.frozen().is_none();
        is_all_trained || times.backward_input + times.backward_weight > 0.0
    }

    /// The layers of each chunk, where the question gives them.
    fn layout(&self) -> Option<&'a LayerLayout> {
        self.inputs.layout.filter(|_| self.setup.split.is_given())
    }

    /// The MTP layers of `chunk`: all are in the `last` one, unless a layout deals them otherwise.
    fn mtp_in(&self, chunk: usize, last: usize) -> u64 {
        match self.layout().filter(|layout| layout.mtp() > 0) {
            Some(layout) => layout.mtp_in(chunk),
            None if chunk == last => self.inputs.model.mtp,
            None => 0,
        }
    }

    /// The activations that a microbatch holds in each chunk, and in each shard of the head.
    fn footprints(&self, activations: &Activations, chunks: &[[LayerCounts; 2]]) -> Footprints {
        let Inputs { model, recipe, .. } = self.inputs;
        let (last, stages) = (chunks.len() - 1, self.shape.stages());
        let one = |(chunk, &layers): (usize, &[LayerCounts; 2])| {
            activations.footprint(model, layers, self.mtp_in(chunk, last))
        };
        let footprints = Footprints::new(chunks.iter().enumerate().map(one).collect());
        match self.has_shards() {
            true => {
                let shard = memory::shard(model, self.setup, recipe, stages);
                footprints.with_shards(vec![shard; stages])
            }
            false => footprints,
        }
    }

    /// The static buffers of CUDA graphs for a microbatch in each chunk, of layers that are not computed again whole;
    /// none without such graphs.
    fn static_buffers(&self, chunks: &[[LayerCounts; 2]]) -> Vec<Bytes> {
        let (Inputs { model, recipe, .. }, again) = (self.inputs, self.setup.recompute);
        let is_off = self.setup.software(recipe).capture == Capture::NONE;
        let one = |(chunk, &[first, behind]): (usize, &[LayerCounts; 2])| {
            let mtp = self.mtp_in(chunk, chunks.len() - 1);
            let behind = behind + model.counts(model.layers..model.layers + mtp);
            let is_first = matches!(again, Recompute::First(_));
            let layers = if is_first { behind } else { first + behind };
            memory::static_buffers(model, self.setup, recipe, layers)
        };
        let all = chunks.iter().enumerate().map(one);
        if is_off || again == Recompute::Full { Vec::new() } else { all.collect() }
    }

    /// The passes of each chunk without its layers: embedding, head and loss, MTP.
    fn ends(&self, stages: &[usize]) -> Vec<LayerTimes> {
        let last = stages.len() - 1;
        let own = |(chunk, &stage): (usize, &usize)| {
            let task = self.task(self.machines[stage]);
            let head = || layer::head(&task);
            let embedding = || layer::embedding(&task);
            let mtp = self.mtp(&task, self.mtp_in(chunk, last));
            mtp.plus(match (self.setup.vocabulary_parallel, chunk == last) {
                // Every chunk of a stage has its part: columns are divided among all p v.
                (true, at_end) if self.has_shards() => {
                    let norm = layer::last_norm(&task);
                    let norm = if at_end { norm } else { LayerTimes::default() };
                    norm.plus(embedding().times(1.0 / number(stages.len() as u64)))
                }
                (true, _) => head().plus(embedding()).times(1.0 / number(stages.len() as u64)),
                (false, true) if chunk == 0 => head().plus(embedding()),
                (false, true) => head(),
                (false, false) if chunk == 0 => embedding(),
                (false, false) => LayerTimes::default(),
            })
        };
        stages.iter().enumerate().map(own).collect()
    }

    /// `count` layers of multi-token prediction, each with its loss.
    fn mtp(&self, task: &Task<'_>, count: u64) -> LayerTimes {
        if count == 0 {
            return LayerTimes::default();
        }
        let layer = layer::layer(task, self.inputs.model.mtp_kind());
        layer.plus(layer::mtp(task)).times(number(count))
    }

    /// Whether the head is work of its own on every stage.
    fn has_shards(&self) -> bool {
        self.shape.has_shards()
    }

    /// The part of the model that is in each chunk.
    fn shares_of_chunks(&self, chunks: &[LayerCounts]) -> Vec<Share> {
        let last = chunks.len() - 1;
        let one = |(chunk, &layers): (usize, &LayerCounts)| Share {
            layers,
            embedding: chunk == 0,
            head: chunk == last,
            mtp: self.mtp_in(chunk, last),
        };
        chunks.iter().enumerate().map(one).collect()
    }

    /// The part of the model that each stage holds, of `chunks`.
    fn shares(&self, stages: &[usize], chunks: &[Share]) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.shape.stages()];
        let mirrored = self.setup.family.about().placement == Placement::Mirrored;
        for (&stage, &chunk) in stages.iter().zip(chunks) {
            // Of a mirrored pipeline every stage holds the chunks of its twin too.
            let twin = if mirrored { Some(self.shape.stages() - 1 - stage) } else { None };
            for stage in [Some(stage), twin].into_iter().flatten() {
                shares[stage] = shares[stage].with(chunk);
            }
        }
        shares
    }

    /// The whole gradients of each chunk, where they are held for a part of the step.
    fn passing_gradients(&self, by_kind: &LayerParameters, chunks: &[Share]) -> Vec<Bytes> {
        let Inputs { model, recipe, .. } = self.inputs;
        if self.setup.reshard != Reshard::AfterLast {
            return Vec::new();
        }
        let whole = |chunk: &Share| by_kind.stage(model, self.setup, *chunk).sum();
        chunks.iter().map(|chunk| bytes(number(recipe.gradient_bytes) * whole(chunk))).collect()
    }

    /// Bytes that a device sends to the next stage for a microbatch.
    pub(crate) fn message(&self) -> f64 {
        let Inputs { model, recipe, .. } = self.inputs;
        let tokens = self.setup.partition(recipe).tokens(model);
        let is_split = recipe.sequence_parallel || recipe.scatter_gather;
        let share = if is_split { number(self.setup.tensor) } else { 1.0 };
        tokens * number(model.hidden) * HALF / share
    }

    /// Send time of the output of a pass of each chunk: forward to the next chunk, backward to the one
    /// before. Of a mirrored pipeline, where a chunk has two stages, the shorter of the two; and half
    /// of it where passes are paired and their transfers overlap: never more than in the engine. No gradient is sent
    /// to chunks of which, with all before them, no weight is trained.
    fn sends(&self, stages: &[usize], layers: &[u64]) -> Vec<[Nanos; 2]> {
        let (wires, bytes) = (Wires::of(self.setup, &self.inputs), bytes(self.message()));
        let stride = self.setup.stage_stride();
        let last = self.shape.stages() - 1;
        let mirrored = self.setup.family.about().placement == Placement::Mirrored;
        let paired = matches!(self.setup.family, Family::DualPipe | Family::DualPipeV);
        let between = |from: usize, to: Option<usize>| {
            let Some(to) = to.and_then(|to| stages.get(to)) else { return Nanos(0) };
            let ends = [stages[from], *to];
            let time = wires.time(ends, stride, bytes);
            let twin = || wires.time(ends.map(|stage| last - stage), stride, bytes);
            let time = if mirrored { time.min(twin()) } else { time };
            if paired { Nanos(time.0 / 2) } else { time }
        };
        let begun = |chunk: usize| layers[..chunk].iter().sum::<u64>();
        let before = |chunk: usize| {
            let takes = self.inputs.model.trains_before(begun(chunk));
            chunk.checked_sub(1).filter(|_| takes)
        };
        let of = |chunk: usize| [between(chunk, Some(chunk + 1)), between(chunk, before(chunk))];
        (0..stages.len()).map(of).collect()
    }

    /// A transfer of `bytes` between two stages, in seconds; none from a stage to itself.
    fn hop(&self, bytes: f64, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let (stride, devices) = (self.setup.stage_stride(), self.inputs.cluster.devices());
        self.slowest(|machine| {
            let block = machine.block(devices);
            let place = |stage: usize| (stage as u64).saturating_mul(stride) / block;
            machine.hop(bytes, stride >= block || place(from) != place(to))
        })
    }

    /// The longest of a time over all kinds of devices.
    pub(crate) fn slowest(&self, time: impl Fn(&Machine) -> f64) -> f64 {
        let kinds = self.inputs.cluster.parts.iter();
        kinds.map(|(machine, _)| time(machine)).fold(0.0, f64::max)
    }

    /// The times of all passes, with the waits of a stage for its transfers and for parameters of other
    /// replicas.
    fn costs(
        &self,
        passes: &[Times],
        [parameters, trained]: [&[Parameters]; 2],
        stages: &[usize],
        sends: &[[Nanos; 2]],
    ) -> Costs {
        let with = |seconds: f64, send: Nanos| Nanos(nanos(seconds).0.saturating_add(send.0));
        let one = |((times, &stage), &[next, before]): ((&Times, &usize), &[Nanos; 2])| {
            let own = [parameters[stage], trained[stage]];
            let times = self.with_gathers(*times, own, stage);
            PassTimes::new(
                with(times.forward, next),
                with(times.backward_input, before),
                nanos(times.backward_weight),
            )
        };
        let chunks = passes.iter().zip(stages).zip(sends).map(one).collect();
        Costs::new(chunks, Nanos(0))
    }

    /// The costs that an order is made for, from the durations of `passes`.
    fn ordering(&self, passes: &[Times]) -> Costs {
        let whole = |times: &Times| {
            PassTimes::new(
                nanos(times.forward),
                nanos(times.backward_input),
                nanos(times.backward_weight),
            )
        };
        let chunks: Vec<PassTimes> = passes.iter().map(whole).collect();
        let forward: u128 = chunks.iter().map(|times| u128::from(times.forward.0)).sum();
        let hop = forward / chunks.len().max(1) as u128 * u128::from(TRANSFER) / 100;
        let hop = Nanos(u64::try_from(hop).unwrap_or(u64::MAX));
        self.with_shards(Costs::new(chunks, hop))
    }

    /// `passes` of each chunk beside their copies to the host and back, layer by layer.
    fn with_offload(
        &self,
        mut passes: Vec<Times>,
        stages: &[usize],
        chunks: &[[LayerCounts; 2]],
        activations: &Activations,
    ) -> Result<Vec<Times>, Unfit> {
        let searched = self.setup.options.offload != Offload::NONE;
        for ((times, &stage), &layers) in passes.iter_mut().zip(stages).zip(chunks) {
            let bytes = activations.copied(layers);
            if bytes > 0.0 {
                let host = self.machines[stage].host.ok_or(Unfit::Host)?;
                let copy = bytes / host.rate_of_device();
                if searched && copy > times.forward.min(times.backward_input) {
                    return Err(Unfit::Exposed);
                }
                times.forward = longer(times.forward, copy);
                times.backward_input = longer(times.backward_input, copy);
            }
        }
        Ok(passes)
    }

    /// How long an activation of each chunk takes to the host and back, where the schedule copies.
    fn copies(&self, stages: &[usize], footprints: &Footprints) -> Result<Vec<CopyTimes>, Unfit> {
        if !self.setup.copies() {
            return Ok(Vec::new());
        }
        // All devices have the same links, so that their wires need not be laid out.
        let host = Layout::new(self.setup, &self.inputs).and_then(|one| {
            one.spec.check()?;
            Ok(one.spec.host)
        });
        let host = host.map_err(|_| Unfit::TooLarge)?.ok_or(Unfit::Host)?;
        let time = |chunk: u16| {
            let time = host.time(footprints.of(chunk).until_backward);
            CopyTimes { out: time, back: time }
        };
        Ok((0..).take(stages.len()).map(time).collect())
    }
}

/// Both parts of each chunk together.
fn whole_chunks(parts: &[[LayerCounts; 2]]) -> Vec<LayerCounts> {
    parts.iter().map(|&[first, behind]| first + behind).collect()
}

/// The layers of each of `chunks`, one after the other.
fn layers_of_chunks(
    stages: &[usize],
    chunks: &[LayerCounts],
    by_stage: &[Rc<[LayerTimes]>],
) -> Vec<LayerTimes> {
    let one = |(&stage, counts): (&usize, &LayerCounts)| {
        let own = by_stage[stage].iter().zip(counts.iter()).filter(|(_, count)| *count > 0);
        own.fold(LayerTimes::default(), |sum, (layer, count)| sum.plus(layer.times(number(count))))
    };
    stages.iter().zip(chunks).map(one).collect()
}
