//! The published program as data: variables, rows, and the cost to be small.

use pipeline::{Bytes, Kind, Nanos};
use search::Instance;

use crate::compiled_instance::{CompiledInstance, signed};
use crate::time_unit::{divisor, tick};
use crate::unsuitable::{MOST_BINARIES, Unsuitable, check_kind};
use crate::windows;
use crate::windows::passes;

/// A variable of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// `cost`; `t_F0_3`, the end of F of chunk 0 and microbatch 3; or `o_F0_3_B0_1`, which is 1 where
    /// that pass runs before B of chunk 0 and microbatch 1, and 0 where it runs behind it.
    pub name: String,
    /// The least and the greatest value.
    pub range: [i64; 2],
    /// Whether it is 0 or 1, else continuous.
    pub is_binary: bool,
}

/// A row of the program: the sum of terms is no less than a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the constraint, with its passes.
    pub name: String,
    /// Variables, by their place among those of the model, with their factors.
    pub terms: Vec<(usize, i64)>,
    /// The least that the sum may be.
    pub least: i64,
}

/// The mixed-integer linear program of an instance.
///
/// Times are in units of [`Model::time_unit`], sizes in units of [`Model::size_unit`], so that all
/// numbers are small whole ones. Passes of a kind and chunk run in microbatch order, and pairs whose
/// order follows from that and from the way of a microbatch have no binary. The first pass of a stage
/// ends when it does where it starts as it arrives, since that is how orders are timed here. `cost` is no more than a
/// cost that is known to be possible, which keeps big-M small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    pub(crate) variables: Vec<Variable>,
    pub(crate) rows: Vec<Row>,
    time_unit: Nanos,
    size_unit: Bytes,
}

impl Model {
    /// The program of `instance`, of which an order that costs `known` is known. Where backwards may be whole it is
    /// that of [`Instance::relaxed`], whose optimum bounds every order.
    pub fn of(instance: &Instance, known: Nanos) -> Result<Self, Unsuitable> {
        check_kind(instance)?;
        let relaxed = instance.relaxed();
        let instance = &*relaxed;
        let mut compiled = CompiledInstance::of(instance);
        if compiled.lanes.iter().any(|lane| lane.time == 0) {
            return Err(Unsuitable::Instant);
        }
        let binaries = binaries_of(&compiled);
        if binaries > MOST_BINARIES {
            return Err(Unsuitable::TooManyBinaries { binaries });
        }
        let (time_unit, size_unit) = (tick(instance), common_size(&compiled));
        let [ticks, sizes] = [time_unit, size_unit].map(signed);
        for lane in &mut compiled.lanes {
            lane.time /= ticks;
            lane.takes /= sizes;
            lane.leaves /= sizes;
            for (_, hop) in lane.input.iter_mut().chain(&mut lane.output) {
                *hop /= ticks;
            }
        }
        compiled.limits.iter_mut().flatten().for_each(|limit| *limit /= sizes);
        let known = signed(known.0.div_ceil(time_unit));
        let mut builder = Builder::new(&compiled, known);
        builder.add_ways();
        (0..compiled.stages).for_each(|stage| builder.add_stage(stage));
        let Builder { variables, rows, .. } = builder;
        Ok(Self { variables, rows, time_unit: Nanos(time_unit), size_unit: Bytes(size_unit) })
    }

    /// The variables; the first is the cost.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Number of variables that are 0 or 1.
    #[must_use]
    pub fn binaries(&self) -> usize {
        self.variables.iter().filter(|one| one.is_binary).count()
    }

    /// The time that a 1 stands for: all times are multiples of it.
    #[must_use]
    pub const fn time_unit(&self) -> Nanos {
        self.time_unit
    }

    /// The size that a 1 stands for: all sizes are multiples of it, and limits are rounded down to one.
    #[must_use]
    pub const fn size_unit(&self) -> Bytes {
        self.size_unit
    }
}

/// How many pairs of passes of a stage have an order that does not follow from the way of a microbatch
/// and the order of microbatches, which is the number of binaries of the program.
#[must_use]
pub fn binaries(instance: &Instance) -> u64 {
    binaries_of(&CompiledInstance::of(instance))
}

fn binaries_of(compiled: &CompiledInstance) -> u64 {
    let all = compiled.microbatches as u64;
    let mut binaries = 0;
    for stage in 0..compiled.stages {
        for lane in compiled.lanes_of(stage) {
            for other in lane + 1..compiled.lanes_of(stage).end {
                let settled = compiled.leads(lane, other) || compiled.leads(other, lane);
                binaries += if settled { all * (all - 1) / 2 } else { all * all };
            }
        }
    }
    binaries
}

fn common_size(compiled: &CompiledInstance) -> u64 {
    let sizes = compiled.homes.iter().flatten().flat_map(|home| home.held);
    sizes.fold(0, |common, size| divisor(common, size.unsigned_abs())).max(1)
}

struct Builder<'a> {
    compiled: &'a CompiledInstance,
    /// Counts of passes that surely run before each pass.
    known: windows::Windows,
    variables: Vec<Variable>,
    rows: Vec<Row>,
    /// Index of the variable for the end of the first pass; those of the other passes follow.
    ends: usize,
    /// The binary of a pair, by the numbers of its passes.
    pairs: std::collections::HashMap<(usize, usize), usize>,
}

/// One pass before another: always or never, or where a binary is 1, or 0.
enum Before {
    Known(bool),
    If(usize),
    Unless(usize),
}

impl<'a> Builder<'a> {
    fn new(compiled: &'a CompiledInstance, known_cost: i64) -> Self {
        let known = windows::Windows::at_first(compiled, known_cost);
        let mut variables =
            vec![Variable { name: "cost".to_owned(), range: [0, known_cost], is_binary: false }];
        let ends = variables.len();
        for pass in 0..compiled.passes() {
            let time = compiled.lanes[pass / compiled.microbatches].time;
            let range = [known.heads[pass] + time, known.latest[pass] + time];
            let name = format!("t_{}", name(compiled, pass));
            variables.push(Variable { name, range, is_binary: false });
        }
        Self { compiled, known, variables, rows: Vec::new(), ends, pairs: Default::default() }
    }

    fn end(&self, pass: usize) -> usize {
        self.ends + pass
    }

    fn time(&self, pass: usize) -> i64 {
        self.compiled.lanes[pass / self.compiled.microbatches].time
    }

    fn row(&mut self, name: String, terms: Vec<(usize, i64)>, least: i64) {
        self.rows.push(Row { name, terms, least });
    }

    /// `later` starts `hop` after the end of `earlier`, or later.
    fn after(&mut self, what: &str, earlier: usize, later: usize, hop: i64) {
        let name = format!("{what}_{}", name(self.compiled, later));
        let terms = vec![(self.end(later), 1), (self.end(earlier), -1)];
        self.row(name, terms, self.time(later) + hop);
    }

    /// The ways of the microbatches, and the order of those of a kind.
    fn add_ways(&mut self) {
        let compiled = self.compiled;
        for (number, lane) in compiled.lanes.iter().enumerate() {
            for microbatch in 0..compiled.microbatches {
                let pass = compiled.pass(number, microbatch);
                if let Some((from, hop)) = lane.input {
                    self.after("arrives", compiled.pass(from, microbatch), pass, hop);
                }
                if let Some(early) = lane.behind {
                    self.after("behind", compiled.pass(early, microbatch), pass, 0);
                }
                if microbatch > 0 {
                    self.after("next", pass - 1, pass, 0);
                }
            }
        }
    }

    fn add_stage(&mut self, stage: usize) {
        let compiled = self.compiled;
        for (lane, pass) in passes(compiled, stage) {
            for other in lane + 1..compiled.lanes_of(stage).end {
                let [fewest, most] = self.known.range(compiled, pass, other);
                for microbatch in fewest..most {
                    self.add_pair(pass, compiled.pass(other, microbatch));
                }
            }
        }
        self.add_cost(stage);
        if let Some(limit) = compiled.limits.as_ref().map(|limits| limits[stage]) {
            for (lane, pass) in passes(compiled, stage) {
                if compiled.lanes[lane].takes > 0 {
                    self.add_memory(stage, pass, limit - compiled.lanes[lane].takes);
                }
            }
        }
    }

    /// Either of two passes ends before the other starts.
    fn add_pair(&mut self, one: usize, other: usize) {
        let names = format!("{}_{}", name(self.compiled, one), name(self.compiled, other));
        let binary = self.variables.len();
        self.pairs.insert((one, other), binary);
        let range = [0, 1];
        self.variables.push(Variable { name: format!("o_{names}"), range, is_binary: true });
        let [first, second] = [one, other].map(|pass| self.end(pass));
        let most = |pass: usize| self.variables[pass].range[1];
        let least = |pass: usize| self.variables[pass].range[0];
        // Each big-M is the most by which a row can be missed.
        let forth = (most(first) + self.time(other) - least(second)).max(0);
        let back = (most(second) + self.time(one) - least(first)).max(0);
        let forth_terms = vec![(second, 1), (first, -1), (binary, -forth)];
        self.row(format!("if_{names}"), forth_terms, self.time(other) - forth);
        let back_terms = vec![(first, 1), (second, -1), (binary, back)];
        self.row(format!("else_{names}"), back_terms, self.time(one));
    }

    /// The cost is no less than that of the stage, from the start of its first F to the end of each of its
    /// last W.
    fn add_cost(&mut self, stage: usize) {
        let compiled = self.compiled;
        let first = compiled.pass(compiled.lanes_of(stage).start, 0);
        for lane in compiled.lanes_of(stage).filter(|&lane| compiled.lanes[lane].kind == Kind::W) {
            let last = compiled.pass(lane, compiled.microbatches - 1);
            let mut terms = vec![(0, 1), (self.end(last), -1)];
            let mut least = 0;
            if !compiled.makespan {
                terms.push((self.end(first), 1));
                least = self.time(first);
            }
            let name = format!("cost_{}", name(compiled, last));
            self.row(name, terms, least);
        }
    }

    /// Adds the memory row of `pass`: allocations less releases before it fit in `room`.
    fn add_memory(&mut self, stage: usize, pass: usize, room: i64) {
        let compiled = self.compiled;
        let mut room = room;
        let mut terms = Vec::new();
        for (lane, other) in passes(compiled, stage).filter(|&(_, other)| other != pass) {
            let change = compiled.lanes[lane].leaves;
            match self.before(other, pass) {
                _ if change == 0 => {}
                Before::Known(true) => room -= change,
                Before::Known(false) => {}
                Before::If(binary) => terms.push((binary, -change)),
                Before::Unless(binary) => {
                    room -= change;
                    terms.push((binary, change));
                }
            }
        }
        if !terms.is_empty() {
            self.row(format!("room_{}", name(compiled, pass)), terms, -room);
        }
    }

    fn before(&self, one: usize, other: usize) -> Before {
        if let Some(&binary) = self.pairs.get(&(one, other)) {
            return Before::If(binary);
        }
        if let Some(&binary) = self.pairs.get(&(other, one)) {
            return Before::Unless(binary);
        }
        let [fewest, _] = self.known.range(self.compiled, other, one / self.compiled.microbatches);
        Before::Known(one % self.compiled.microbatches < fewest)
    }
}

/// The pass as names have it: kind, chunk and microbatch, as in `F0_3`.
fn name(compiled: &CompiledInstance, pass: usize) -> String {
    let pass = compiled.name(pass);
    format!("{}{}_{}", pass.kind.name(), pass.chunk, pass.microbatch)
}
