//! The question to the solver: is there an order of this cost or less?
//!
//! Microbatches are alike, so those of each kind and chunk run in their order. Every pass has a
//! start; passes of a stage do not overlap; what another stage makes comes a hop later. For every
//! pair of passes of a stage that memory cares about there is a literal that says which is first;
//! along the order of a stage memory is a sum over these.

use pipeline::{Kind, Order, Pass, Placement, Schedule, Shape};
use pumpkin_conflict_resolvers::resolvers::ResolutionResolver;
use pumpkin_constraints::{binary_less_than_or_equals, disjunctive_strict, less_than_or_equals};
use pumpkin_core::Solver;
use pumpkin_core::results::{ProblemSolution, SatisfactionResult};
use pumpkin_core::termination::TerminationCondition;
use pumpkin_core::variables::{AffineView, DomainId, Literal, TransformableVariable};
use pumpkin_propagators::disjunctive::ArgDisjunctiveTask;
use search::{Instance, Objective};

use crate::scale::Scaled;

const KINDS: [Kind; 3] = [Kind::F, Kind::B, Kind::W];

/// The solver's decision.
pub(crate) enum Decision {
    /// There is such an order.
    Order(Schedule),
    /// There is none.
    None,
    /// The time was too short to tell.
    Unknown,
}

/// Ends the solver when asked to.
struct Until<'a>(&'a dyn Fn() -> bool);

impl TerminationCondition for Until<'_> {
    fn should_stop(&mut self) -> bool {
        (self.0)()
    }
}

/// Asks for an order that costs `most` ticks or less, until `late` says that it takes too long.
pub(crate) fn decide(
    instance: &Instance,
    scaled: &Scaled,
    most: i32,
    late: &dyn Fn() -> bool,
) -> Decision {
    let mut model = Model::new(instance, scaled);
    if !model.add_starts(most) {
        return Decision::None;
    }
    model.add_precedences();
    for stage in 0..instance.shape.stages() {
        model.add_stage(stage, most);
    }
    let mut brancher = model.solver.default_brancher();
    let mut budget = Until(late);
    let mut resolver = ResolutionResolver::default();
    let starts = &model.starts;
    match model.solver.satisfy(&mut brancher, &mut budget, &mut resolver) {
        SatisfactionResult::Satisfiable(found) => {
            let solution = found.solution();
            let at = |pass| solution.get_integer_value(starts[place(instance.shape, pass)]);
            schedule(instance, at).map_or(Decision::Unknown, Decision::Order)
        }
        SatisfactionResult::Unsatisfiable(..) => Decision::None,
        SatisfactionResult::Unknown(..) => Decision::Unknown,
    }
}

/// Where the start of `pass` stands.
fn place(shape: Shape, pass: Pass) -> usize {
    KINDS.len() * shape.cell(pass.chunk, pass.microbatch) + pass.kind as usize
}

/// All passes of `chunks`, kind by kind, in the order of microbatches.
fn passes(shape: Shape, chunks: &[u16]) -> Vec<Pass> {
    let of_chunk = |&chunk: &u16| {
        KINDS.into_iter().flat_map(move |kind| {
            (0..shape.microbatches()).map(move |microbatch| Pass { kind, chunk, microbatch })
        })
    };
    chunks.iter().flat_map(of_chunk).collect()
}

fn schedule(instance: &Instance, at: impl Fn(Pass) -> i32) -> Option<Schedule> {
    let Instance { shape, placement, .. } = instance;
    let stage = |stage| {
        let chunks: Vec<u16> = placement.chunks_of(*shape, stage).collect();
        let mut order = passes(*shape, &chunks);
        order.sort_by_key(|&pass| at(pass));
        order.into_iter().collect::<Order>()
    };
    Schedule::new(*shape, *placement, (0..shape.stages()).map(stage).collect()).ok()
}

struct Model<'a> {
    instance: &'a Instance,
    scaled: &'a Scaled,
    solver: Solver,
    /// By [`place`].
    starts: Vec<DomainId>,
}

impl<'a> Model<'a> {
    fn new(instance: &'a Instance, scaled: &'a Scaled) -> Self {
        Self { instance, scaled, solver: Solver::default(), starts: Vec::new() }
    }

    fn home(&self, chunk: u16) -> usize {
        self.instance.placement.stage(self.instance.shape, chunk, 0)
    }

    fn time(&self, pass: Pass) -> i32 {
        self.scaled.times[usize::from(pass.chunk)][pass.kind as usize]
    }

    fn hop(&self, from: u16, to: u16) -> i32 {
        self.scaled.hops[usize::from(from.min(to))]
    }

    fn start(&self, pass: Pass) -> DomainId {
        self.starts[place(self.instance.shape, pass)]
    }

    /// The soonest start of the first F of each chunk.
    fn soonest(&self) -> Vec<i32> {
        let mut at = 0;
        let chunks = 0..self.instance.shape.chunks();
        let starts = chunks.map(|chunk| {
            if let Some(before) = chunk.checked_sub(1) {
                at += self.time(Pass::f(before, 0)) + self.hop(before, chunk);
            }
            at
        });
        starts.collect()
    }

    /// The first pass of a stage: it starts when it arrives.
    fn first_of(&self, stage: usize) -> Option<u16> {
        let Instance { shape, placement, .. } = self.instance;
        placement.chunks_of(*shape, stage).next()
    }

    /// A start for every pass, within the cost where the first pass of its stage starts as soon as
    /// it can; `false` if there is no room at all.
    fn add_starts(&mut self, most: i32) -> bool {
        let Instance { shape, objective, .. } = self.instance;
        let soonest = self.soonest();
        for chunk in 0..shape.chunks() {
            let first = self.first_of(self.home(chunk));
            // Rounded, the first pass may seem to start later than it arrives.
            let begins = first.map_or(0, |first| soonest[usize::from(first)]);
            let spare = if self.scaled.is_exact { 0 } else { begins + most };
            let end = match objective {
                Objective::Span => begins + spare + most,
                Objective::Makespan => most,
            };
            for microbatch in 0..shape.microbatches() {
                for kind in KINDS {
                    let pass = Pass { kind, chunk, microbatch };
                    let least = soonest[usize::from(chunk)];
                    let latest = if microbatch == 0 && kind == Kind::F && first == Some(chunk) {
                        (least + spare).min(end - self.time(pass))
                    } else {
                        end - self.time(pass)
                    };
                    if latest < least {
                        return false;
                    }
                    self.starts.push(self.solver.new_bounded_integer(least, latest));
                }
            }
        }
        // Starts were pushed chunk by chunk, microbatch by microbatch, kind by kind: by `place`.
        true
    }

    /// `later` starts at least `gap` after `earlier` does.
    fn after(&mut self, earlier: Pass, later: Pass, gap: i32, only_if: Option<Literal>) {
        let tag = self.solver.new_constraint_tag();
        let (earlier, later) = (self.start(earlier).offset(gap), self.start(later).offset(0));
        let constraint = binary_less_than_or_equals(earlier, later, tag);
        match only_if {
            None => self.solver.add_constraint(constraint).post(),
            Some(literal) => self.solver.add_constraint(constraint).implied_by(literal),
        }
    }

    fn add_precedences(&mut self) {
        let shape = self.instance.shape;
        for chunk in 0..shape.chunks() {
            for i in 0..shape.microbatches() {
                let [f, b, w] = KINDS.map(|kind| Pass { kind, chunk, microbatch: i });
                self.after(f, b, self.time(f), None);
                self.after(b, w, self.time(b), None);
                if chunk > 0 {
                    let hop = self.hop(chunk - 1, chunk);
                    let before = Pass::f(chunk - 1, i);
                    self.after(before, f, self.time(before) + hop, None);
                    self.after(b, Pass::b(chunk - 1, i), self.time(b) + hop, None);
                }
                if i > 0 {
                    for pass in [f, b, w] {
                        let before = Pass { microbatch: i - 1, ..pass };
                        self.after(before, pass, self.time(pass), None);
                    }
                }
            }
        }
    }

    /// The passes of `stage` one at a time, within its limit, and within `most` from first to last.
    fn add_stage(&mut self, stage: usize, most: i32) {
        let Instance { shape, placement, objective, .. } = self.instance;
        let chunks: Vec<u16> = placement.chunks_of(*shape, stage).collect();
        let passes = passes(*shape, &chunks);
        let tasks: Vec<ArgDisjunctiveTask<DomainId>> = passes
            .iter()
            .map(|&pass| ArgDisjunctiveTask {
                start_time: self.start(pass),
                processing_time: self.time(pass),
            })
            .collect();
        let tag = self.solver.new_constraint_tag();
        self.solver.add_constraint(disjunctive_strict(tasks, tag)).post();
        if *objective == Objective::Span && !self.scaled.is_exact {
            let first = Pass::f(chunks[0], 0);
            for &chunk in &chunks {
                let last = Pass::w(chunk, shape.microbatches() - 1);
                // The last W ends no later than `most` behind the start of the first F.
                self.after(last, first, self.time(last) - most, None);
            }
        }
        if let Some(limit) = self.scaled.limits.as_ref().map(|limits| limits[stage]) {
            self.add_memory(&passes, limit);
        }
    }

    /// The change of the memory that its stage holds after a pass.
    fn change(&self, pass: Pass) -> i32 {
        let [until_backward, until_weight] = self.scaled.held[usize::from(pass.chunk)];
        match pass.kind {
            Kind::F => until_backward,
            Kind::B => until_weight - until_backward,
            Kind::W => -until_weight,
            Kind::BW => -until_backward,
            // Shards of the vocabulary are no part of an instance.
            Kind::S | Kind::T | Kind::R => 0,
        }
    }

    /// Whenever a pass adds to what is held, all that is held with it fits the limit.
    fn add_memory(&mut self, passes: &[Pass], limit: i32) {
        let shape = self.instance.shape;
        let mut firsts = vec![None; passes.len() * passes.len()];
        for (here, &pass) in passes.iter().enumerate() {
            if self.change(pass) <= 0 {
                continue;
            }
            let mut held = self.change(pass);
            let mut terms: Vec<AffineView<DomainId>> = Vec::new();
            for (there, &other) in passes.iter().enumerate() {
                let change = self.change(other);
                match before(shape, self.instance.placement, other, pass) {
                    Some(true) => held += change,
                    Some(false) => {}
                    None if change == 0 => {}
                    None => {
                        let literal = firsts[there * passes.len() + here]
                            .unwrap_or_else(|| self.first(other, pass));
                        firsts[there * passes.len() + here] = Some(literal);
                        firsts[here * passes.len() + there] = Some(!literal);
                        terms.push(literal.get_integer_variable().scaled(change));
                    }
                }
            }
            // What never depends on the order is within limits that were checked to be feasible.
            if !terms.is_empty() {
                let tag = self.solver.new_constraint_tag();
                self.solver.add_constraint(less_than_or_equals(terms, limit - held, tag)).post();
            }
        }
    }

    /// A literal that says that `one` runs before `other`; otherwise it runs after it.
    fn first(&mut self, one: Pass, other: Pass) -> Literal {
        let literal = self.solver.new_literal();
        self.after(one, other, self.time(one), Some(literal));
        self.after(other, one, self.time(other), Some(!literal));
        literal
    }
}

/// Whether `one` always runs before `other` on their stage, or always after it.
fn before(shape: Shape, placement: Placement, one: Pass, other: Pass) -> Option<bool> {
    debug_assert_eq!(placement.stage(shape, one.chunk, 0), placement.stage(shape, other.chunk, 0));
    if one == other {
        return Some(false);
    }
    // Along the way of a microbatch: F by chunk, then B against it; W behind its own B.
    let last = i32::from(shape.chunks());
    let leg = |pass: Pass| match pass.kind {
        Kind::F => i32::from(pass.chunk),
        _ => 2 * last - 1 - i32::from(pass.chunk),
    };
    let leads = |one: Pass, other: Pass| {
        let way = if one.kind == Kind::W {
            other.kind == Kind::W && one.chunk == other.chunk
        } else if other.kind == Kind::W {
            leg(one) <= leg(Pass { kind: Kind::B, ..other })
        } else {
            leg(one) <= leg(other)
        };
        way && one.microbatch <= other.microbatch
    };
    match (leads(one, other), leads(other, one)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}
