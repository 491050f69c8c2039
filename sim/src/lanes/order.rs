//! An order as a list of operations.

use pipeline::{Kind, Pass, Placement, Schedule, Shape, Slot, Value};

/// The most passes of an order that is compiled: some 200 MB.
const MOST_PASSES: usize = 1 << 23;

/// The place of what need not be waited for: time 0.
const NOTHING: u32 = 0;
/// The place of what no other stage reads.
const SINK: u32 = 1;
/// The places of the beginnings of stages, before those of values.
pub(super) const BEGUN: u32 = 2;

/// Work that takes a time of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Nothing: the stage waits for the input of its first pass.
    Begin,
    /// A pass.
    Pass,
    /// The B of a BW.
    Input,
    /// The W of a BW.
    Weight,
}

/// What one or more operations have in common: their times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) stage: usize,
    pub(super) work: Work,
    /// The pass, of any microbatch.
    pub(super) pass: Pass,
    /// The stage that its input comes from, if that is another.
    pub(super) from: Option<usize>,
    /// Number of its operations.
    pub(super) count: u32,
}

/// Work of a stage: it begins when the stage is free and what it needs is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) stage: u32,
    pub(super) row: u32,
    pub(super) needs: u32,
    pub(super) makes: u32,
}

/// An operation as it is compiled.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) stage: usize,
    pub(super) work: Work,
    pub(super) pass: Pass,
    /// Its input from another stage, and that stage.
    pub(super) input: Option<(usize, Value)>,
}

/// A schedule ready to be timed in many scenarios.
#[derive(Clone, Debug)]
pub struct CompiledOrder {
    pub(super) ops: Vec<Op>,
    /// Lengths of the stretches of operations of one stage.
    pub(super) runs: Vec<u32>,
    pub(super) rows: Vec<Row>,
    pub(super) slots: usize,
    pub(super) stages: usize,
    pub(super) at: (Shape, Placement),
}

impl CompiledOrder {
    /// Compiles `schedule`; nothing where it has streams beside its passes, pairs of passes or shards of the vocabulary,
    /// or more than 2^23 passes.
    #[must_use]
    pub fn new(schedule: &Schedule) -> Option<Self> {
        Self::compile(schedule, false, |_| {})
    }

    /// Whether `schedule` can be compiled.
    #[must_use]
    pub fn is_possible(schedule: &Schedule) -> bool {
        schedule.has_lone_passes() && schedule.passes() <= MOST_PASSES
    }

    /// The same, with a BW as B and W if it `splits`, and every operation shown to `see` in turn.
    pub(super) fn compile(
        schedule: &Schedule,
        splits: bool,
        see: impl FnMut(Seen),
    ) -> Option<Self> {
        if !Self::is_possible(schedule) {
            return None;
        }
        let orders = schedule.orders();
        let mut compiler = Compiler::new(schedule, splits, see);
        let mut done = vec![0; orders.len()];
        for run in schedule.walk() {
            let stage = run.stage as usize;
            let before = compiler.order.ops.len();
            for &pass in &orders[stage].passes()[done[stage]..][..run.passes as usize] {
                compiler.add(stage, pass, done[stage] == 0);
                done[stage] += 1;
            }
            let length = compiler.order.ops.len() - before;
            compiler.order.runs.push(u32::try_from(length).ok()?);
        }
        Some(compiler.order)
    }
}

/// Rows of a chunk and a side: those of its passes by kind, and the parts of a BW, up to a power of two.
const PARTS: usize = 16;
/// A row that no operation has.
const UNUSED: u32 = u32::MAX;

struct Compiler<S> {
    order: CompiledOrder,
    splits: bool,
    see: S,
    /// By chunk, side and part, then by stage, the number of the row.
    rows: Vec<u32>,
    /// By value, where it stands.
    places: Vec<u32>,
    /// Places that are free again.
    spare: Vec<u32>,
}

impl<S: FnMut(Seen)> Compiler<S> {
    fn new(schedule: &Schedule, splits: bool, see: S) -> Self {
        let at @ (shape, _) = (schedule.shape(), schedule.placement());
        let stages = shape.stages();
        let slots = BEGUN as usize + stages;
        let (ops, runs) = (Vec::with_capacity(schedule.passes() + stages), Vec::new());
        let order = CompiledOrder { ops, runs, rows: Vec::new(), slots, stages, at };
        Self {
            order,
            splits,
            see,
            rows: vec![UNUSED; 2 * PARTS * usize::from(shape.chunks()) + stages],
            places: vec![NOTHING; shape.value_cells()],
            spare: Vec::new(),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // Fewer stages and values than passes.
    fn add(&mut self, stage: usize, pass: Pass, is_first: bool) {
        let at @ (shape, placement) = self.order.at;
        let value = Slot::from(pass).received(at, stage).next();
        let input = value.and_then(|value| Some((placement.maker(shape, value)?, value)));
        let needs = value.map_or(NOTHING, |value| self.places[shape.value_cell(value)]);
        let seen = |work| Seen { stage, work, pass, input };
        if is_first {
            self.op(seen(Work::Begin), needs, BEGUN + stage as u32);
        }
        if value.is_some() {
            self.spare.push(needs);
        }
        let leaves = |value: &Value| {
            let taker = value.taken_by(shape.chunks());
            taker.is_some_and(|to| placement.stage(shape, to, value.microbatch()) != stage)
        };
        let makes = match pass.makes().filter(leaves) {
            Some(value) => {
                let place = self.spare.pop().unwrap_or_else(|| {
                    self.order.slots += 1;
                    self.order.slots as u32 - 1
                });
                self.places[shape.value_cell(value)] = place;
                place
            }
            None => SINK,
        };
        if self.splits && pass.kind == Kind::BW {
            self.op(seen(Work::Input), needs, SINK);
            self.op(Seen { input: None, ..seen(Work::Weight) }, NOTHING, makes);
        } else {
            self.op(seen(Work::Pass), needs, makes);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // Stages and rows are far fewer than 2^32.
    fn op(&mut self, seen: Seen, needs: u32, makes: u32) {
        let Seen { stage, work, pass, input } = seen;
        let (shape, placement) = self.order.at;
        // Of two copies of the model: links of the middle stage differ, too.
        let way = |microbatch| placement.stage(shape, 0, microbatch);
        let side = usize::from(way(pass.microbatch) != way(0));
        let of_part = |part| (2 * usize::from(pass.chunk) + side) * PARTS + part;
        let place = match work {
            Work::Begin => 2 * PARTS * usize::from(shape.chunks()) + stage,
            Work::Pass => of_part(pass.kind as usize),
            Work::Input => of_part(PARTS - 1),
            Work::Weight => of_part(PARTS - 2),
        };
        let rows = &mut self.order.rows;
        if self.rows[place] == UNUSED {
            self.rows[place] = rows.len() as u32;
            rows.push(Row { stage, work, pass, from: input.map(|(from, _)| from), count: 0 });
        }
        let row = self.rows[place];
        rows[row as usize].count += 1;
        self.order.ops.push(Op { stage: stage as u32, row, needs, makes });
        (self.see)(seen);
    }
}
