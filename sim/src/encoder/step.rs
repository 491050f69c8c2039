//! A step with an encoder in front as one graph: the slots of the model, and layers of the encoder on any stage.

use pipeline::{
    Bytes, Costs, Encoder, EncoderKind, EncoderRun, Fault, Footprints, Kind, Limits, Nanos, Pass,
    Placement, Schedule, Slot,
};

use super::{EncoderOperation, EncoderSpan, EncoderTimeline};
use crate::graph::{
    self, Dependency, Graph, Group, Machine, NONE, Operation, Orders, Times, UNLIMITED, signed,
};

/// Operations above which several layers of the encoder are one.
const MANY: usize = 300_000;

/// Whether the passes of the model keep their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelOrder {
    /// The slots of each stage run in the order of the schedule.
    Kept,
    /// Passes run in any order that their values allow.
    Free,
}

/// A schedule and the encoder that runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// The passes of the model, and where they run.
    pub schedule: &'a Schedule,
    /// Their times.
    pub costs: &'a Costs,
    /// What the chunks of the model hold.
    pub footprints: &'a Footprints,
    /// The encoder, which every stage has.
    pub encoder: &'a Encoder,
    /// The most that each stage may hold, if that is limited.
    pub limits: Option<&'a Limits>,
}

/// The graph of a step with an encoder: machine s is stage s, and the layers for a microbatch are a group that any stage
/// may have. The groups of microbatches are the first ones.
#[derive(Clone, Debug)]
pub struct EncoderStep {
    /// The graph.
    pub graph: Graph,
    /// What each operation is.
    pub operations: Vec<EncoderOperation>,
    microbatches: usize,
}

impl EncoderStep {
    /// The step of `beside`.
    ///
    /// # Errors
    /// [`Fault::BehindEncoder`] for schedules with two first stages, shards of the vocabulary, copies or collectives, or
    /// pairs of passes in free order; [`Fault::Overflow`] if times do not fit the clock; faults of costs and encoder.
    pub fn new(beside: &Beside<'_>, model: ModelOrder) -> Result<Self, Fault> {
        let Beside { schedule, costs, encoder, limits, .. } = *beside;
        let (shape, placement) = (schedule.shape(), schedule.placement());
        costs.check(shape)?;
        costs.hops().check_placed(shape, placement)?;
        encoder.check(shape.microbatches())?;
        let is_mirrored = placement == Placement::Mirrored;
        if is_mirrored || shape.has_shards() || schedule.has_streams() {
            return Err(Fault::BehindEncoder);
        }
        let mut maker = Maker::new(beside, model);
        maker.model()?;
        maker.encoder();
        let Maker { operations, names, dependencies, groups, .. } = maker;
        let limit = |stage: usize| {
            limits.map_or(UNLIMITED, |limits| graph::limit(limits.by_stage()[stage].0))
        };
        let machines = (0u32..).zip(0..shape.stages());
        let machines =
            machines.map(|(row, stage)| Machine { row, limit: limit(stage), flush: row }).collect();
        let pools = vec![(0..u32::try_from(shape.stages()).unwrap_or(NONE)).collect()];
        let graph = Graph::new(operations, &dependencies, groups, (machines, pools))
            .map_err(|_| Fault::Overflow { what: "the times" })?;
        let microbatches = shape.microbatches() as usize;
        Ok(Self { graph, operations: names, microbatches })
    }

    /// When everything runs in `orders`, layers of a pass that follow each other at once as one; `None` if operations
    /// wait for each other.
    #[must_use]
    pub fn timeline(&self, orders: &Orders) -> Option<EncoderTimeline> {
        let times = Times::of(&self.graph, orders)?;
        let nanos = |time: i64| Nanos(u64::try_from(time).unwrap_or(0));
        let stage = |order: &Vec<u32>| {
            let mut spans: Vec<EncoderSpan> = Vec::new();
            for &number in order {
                let operation = self.operations[number as usize];
                let start = nanos(times.starts[number as usize]);
                let end = nanos(times.end(&self.graph, number));
                if let (EncoderOperation::Encoder(next), Some(last)) = (operation, spans.last_mut())
                    && let EncoderOperation::Encoder(run) = &mut last.operation
                    && (run.kind, run.microbatch) == (next.kind, next.microbatch)
                    && last.end == start
                {
                    run.layers += next.layers;
                    last.end = end;
                    continue;
                }
                spans.push(EncoderSpan { operation, start, end });
            }
            spans
        };
        Some(EncoderTimeline { stages: orders.operations.iter().map(stage).collect() })
    }

    /// The stage that has the encoder of each microbatch.
    #[must_use]
    pub fn stages(&self, orders: &Orders) -> Vec<u16> {
        let stages = orders.machines[..self.microbatches].iter();
        stages.map(|&stage| u16::try_from(stage).unwrap_or(u16::MAX)).collect()
    }

    /// The most that each stage holds: activations of the model, and those of the encoder from the start of a forward to
    /// the end of its backward, or to the end of the forward where it is frozen.
    #[must_use]
    pub fn held(&self, orders: &Orders) -> Vec<Bytes> {
        let peak = |order: &Vec<u32>| Bytes(u64::try_from(self.graph.peak(order)).unwrap_or(0));
        orders.operations.iter().map(peak).collect()
    }
}

struct Maker<'a> {
    beside: &'a Beside<'a>,
    model: ModelOrder,
    operations: Vec<Operation>,
    names: Vec<EncoderOperation>,
    dependencies: Vec<Dependency>,
    groups: Vec<Group>,
    /// The operation of each pass by kind (F; B and BW; W; R), chunk and microbatch.
    passes: Vec<u32>,
    /// Microbatches in the order in which the first chunk takes them.
    microbatches: Vec<u32>,
}

const fn class(kind: Kind) -> usize {
    match kind {
        Kind::F => 0,
        Kind::W => 2,
        Kind::R => 3,
        _ => 1,
    }
}

impl<'a> Maker<'a> {
    fn new(beside: &'a Beside<'a>, model: ModelOrder) -> Self {
        let microbatches = beside.schedule.shape().microbatches();
        let stages = beside.schedule.shape().stages();
        // Microbatches go to the stages in turn, until a search moves them.
        let in_turn = |microbatch: u32| Group {
            machine: microbatch % u32::try_from(stages).unwrap_or(NONE),
            pool: 0,
        };
        Self {
            beside,
            model,
            operations: Vec::new(),
            names: Vec::new(),
            dependencies: Vec::new(),
            groups: (0..microbatches).map(in_turn).collect(),
            passes: vec![NONE; 4 * beside.schedule.shape().cells()],
            microbatches: Vec::new(),
        }
    }

    fn number(&self, kind: Kind, chunk: u16, microbatch: u32) -> u32 {
        let shape = self.beside.schedule.shape();
        self.passes[class(kind) * shape.cells() + shape.cell(chunk, microbatch)]
    }

    fn add(&mut self, name: EncoderOperation, operation: Operation) -> u32 {
        self.names.push(name);
        self.operations.push(operation);
        u32::try_from(self.operations.len() - 1).unwrap_or(NONE)
    }

    fn depend(&mut self, from: u32, to: u32, lags: [i64; 2]) {
        self.dependencies.push(Dependency { from, to, lags });
    }

    /// Adds the slots of the model.
    fn model(&mut self) -> Result<(), Fault> {
        let schedule = self.beside.schedule;
        let shape = schedule.shape();
        for (stage, order) in schedule.orders().iter().enumerate() {
            let machine = u32::try_from(stage).unwrap_or(NONE);
            let first = u32::try_from(self.groups.len()).unwrap_or(NONE);
            let count = if self.model == ModelOrder::Kept { 1 } else { shape.microbatches() };
            self.groups.extend((0..count).map(|_| Group { machine, pool: NONE }));
            let mut before = None;
            for slot in order.slots() {
                let own = match (self.model, slot) {
                    (ModelOrder::Kept, _) => 0,
                    (ModelOrder::Free, Slot::One(pass)) => pass.microbatch,
                    (ModelOrder::Free, Slot::Pair(..)) => return Err(Fault::BehindEncoder),
                };
                let number = self.slot(slot, first + own);
                if let (ModelOrder::Kept, Some(before)) = (self.model, before) {
                    self.depend(before, number, [0, 0]);
                }
                before = Some(number);
            }
        }
        for (stage, order) in schedule.orders().iter().enumerate() {
            for slot in order.slots() {
                self.values(slot, stage);
            }
        }
        Ok(())
    }

    fn slot(&mut self, slot: Slot, group: u32) -> u32 {
        let Beside { costs, footprints, schedule, .. } = *self.beside;
        let (mut take, mut leave) = (0i64, 0i64);
        for pass in slot.passes() {
            let change = footprints.change(pass);
            take = take.saturating_add(signed(change.taken_at_start.0));
            leave = leave.saturating_add(signed(change.taken_at_end.0));
            leave = leave.saturating_sub(signed(change.freed_at_end.0));
        }
        let time = signed(costs.of_slot(slot).0);
        let operation = Operation { time, take, leave, group, block: NONE };
        let number = self.add(EncoderOperation::Slot(slot), operation);
        let shape = schedule.shape();
        for Pass { kind, chunk, microbatch } in slot.passes() {
            self.passes[class(kind) * shape.cells() + shape.cell(chunk, microbatch)] = number;
            if kind == Kind::F && chunk == 0 {
                self.microbatches.push(microbatch);
            }
        }
        number
    }

    /// Adds what `slot` of `stage` waits for: values of other stages and, where the order is free, its own.
    fn values(&mut self, slot: Slot, stage: usize) {
        let Beside { costs, schedule, .. } = *self.beside;
        let at = (schedule.shape(), schedule.placement());
        for pass in slot.passes() {
            let Pass { kind, chunk, microbatch } = pass;
            let to = self.number(kind, chunk, microbatch);
            for value in pass.needs(at.0) {
                let (from, chunk) = match value {
                    pipeline::Value::Output { chunk, .. } => (Kind::F, chunk),
                    pipeline::Value::Gradient { chunk, .. } => (Kind::B, chunk),
                    _ => continue,
                };
                let is_own = at.1.maker(at.0, value) == Some(stage);
                if is_own && self.model == ModelOrder::Kept {
                    continue;
                }
                let lag = if is_own { 0 } else { signed(costs.arrival(value, at, stage).0) };
                self.depend(self.number(from, chunk, microbatch), to, [lag, lag]);
            }
            if self.model == ModelOrder::Free {
                let before: &[Kind] = match kind {
                    Kind::F => &[],
                    Kind::W => &[Kind::B],
                    Kind::R => &[Kind::F],
                    _ => &[Kind::F, Kind::R],
                };
                for &kind in before {
                    let from = self.number(kind, chunk, microbatch);
                    if from != NONE {
                        self.depend(from, to, [0, 0]);
                    }
                }
            }
        }
    }

    /// Adds the layers of the encoder, microbatch by microbatch in the order of the first chunk.
    fn encoder(&mut self) {
        let encoder = self.beside.encoder;
        let transfer = [0, signed(encoder.transfer().0)];
        for microbatch in std::mem::take(&mut self.microbatches) {
            let forward = self.pass(EncoderKind::Forward, microbatch);
            let first = self.number(Kind::F, 0, microbatch);
            self.depend(forward[1], first, transfer);
            if !encoder.is_frozen() {
                let backward = self.pass(EncoderKind::Backward, microbatch);
                let gradient = self.number(Kind::B, 0, microbatch);
                self.depend(gradient, backward[0], transfer);
            }
        }
    }

    /// Adds the layers of a pass; gives the first and the last.
    fn pass(&mut self, kind: EncoderKind, microbatch: u32) -> [u32; 2] {
        let Beside { encoder, schedule, .. } = *self.beside;
        let layers = encoder.layers();
        let passes = 2 * schedule.shape().microbatches() as usize;
        let room = (MANY.saturating_sub(schedule.passes()) / passes.max(1)).max(1);
        let each = layers.div_ceil(u32::try_from(room).unwrap_or(layers).min(layers).max(1));
        let bytes = signed(encoder.activation().0);
        let last = match encoder.is_frozen() {
            true => EncoderKind::Forward,
            false => EncoderKind::Backward,
        };
        let block = 2 * microbatch + u32::from(kind == EncoderKind::Backward);
        let mut ends: Option<[u32; 2]> = None;
        for first in (0..layers).step_by(each as usize) {
            let layers_here = each.min(layers - first);
            let run = EncoderRun { kind, microbatch, first, layers: layers_here };
            let is_last = kind == last && first + layers_here == layers;
            let operation = Operation {
                time: signed(encoder.time(run).0),
                take: if kind == EncoderKind::Forward && first == 0 { bytes } else { 0 },
                leave: if is_last { -bytes } else { 0 },
                group: microbatch,
                block,
            };
            let number = self.add(EncoderOperation::Encoder(run), operation);
            ends = Some(match ends {
                None => [number; 2],
                Some([begin, before]) => {
                    self.depend(before, number, [0, 0]);
                    [begin, number]
                }
            });
        }
        // An encoder has layers.
        ends.unwrap_or([NONE; 2])
    }
}
