//! Replicas of noise.

use pipeline::{Costs, Kind, Pass, Schedule};

use super::order::{CompiledOrder, Op, Row, Seen, Work};
use super::scenarios::nominal;
use super::{Clocks, EXACT, Lanes, StepTimes, later};
use crate::straggler::{
    Key, LawTable, Purpose, SteadyNoise, Stragglers, Word, of_pieces, of_samples,
};

/// Replicas that are timed at once. More of them draw no faster by instructions that every processor has.
pub const REPLICAS: usize = 4;

/// Operations whose durations are drawn before they are timed: two loops of one kind of work each.
const BLOCK: usize = 32;

/// Added and subtracted, it rounds a time to a whole number, ties to even.
const WHOLE: f64 = 2.0 * EXACT;

/// A time before its random factor, and the least it may become.
type Base = [f64; 2];

/// A time in each replica.
type Times = [f64; REPLICAS];

/// An order under noise whose times do not depend on when passes begin.
pub struct NoisyOrder<'a> {
    order: CompiledOrder,
    noise: SteadyNoise<'a>,
    /// By row, of its duration.
    durations: Vec<Base>,
    /// By row, of its hop.
    hops: Vec<Base>,
    /// By row, its hop where hops have no random factor.
    fixed: Vec<f64>,
    words: Words,
}

/// What is drawn for each operation; nothing where the noise has no such chance.
#[derive(Default)]
struct Words {
    factors: Vec<Word>,
    stalls: Vec<Word>,
    hops: Vec<Word>,
}

/// Room for [`REPLICAS`] replicas of an order.
pub struct NoisyTables(Clocks<REPLICAS>);

impl<'a> NoisyOrder<'a> {
    /// `schedule` with the times of `costs` under `noise`; nothing where the noise depends on time, passes overlap or
    /// microbatches differ, or for a schedule that [`CompiledOrder::new`] does not compile.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn new(schedule: &Schedule, costs: &Costs, noise: &'a Stragglers) -> Option<Self> {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let noise = noise.steady()?;
        if costs.overlap().is_some() || costs.microbatch_work().is_some() {
            return None;
        }
        costs.check(shape).and_then(|()| costs.hops().check_placed(shape, placement)).ok()?;
        let mut words = Words::default();
        let order = CompiledOrder::compile(schedule, true, |seen| words.add(&noise, seen))?;
        let base = |time: f64| [time, if time > 0.0 { 1.0 } else { 0.0 }];
        let times = |row: &Row| nominal(row, costs).map(|time| time as f64);
        let rows = || order.rows.iter();
        let durations = rows().map(|row| base(noise.pass(row.stage, times(row)[0]))).collect();
        let hop =
            |row: &Row| row.from.map_or(0.0, |from| noise.hop(from, row.stage, times(row)[1]));
        let hops: Vec<Base> = rows().map(|row| base(hop(row))).collect();
        let fixed = hops.iter().map(|&base| whole(base, 1.0)).collect();
        Some(Self { order, noise, durations, hops, fixed, words })
    }

    /// Room for replicas of this order.
    #[must_use]
    pub fn tables(&self) -> NoisyTables {
        NoisyTables(Clocks::new(&self.order))
    }

    /// The steps of [`REPLICAS`] replicas, from number `first` on; nothing where floats do not count one exactly.
    pub fn replay(&self, tables: &mut NoisyTables, first: u64) -> [Option<StepTimes>; REPLICAS] {
        let keys = std::array::from_fn(|lane| self.noise.key(first.wrapping_add(lane as u64)));
        let NoisyTables(clocks) = tables;
        clocks.free.fill(Lanes::ZERO);
        let mut busy = [0.0; REPLICAS];
        let [mut durations, mut hops] = [[[0.0; REPLICAS]; BLOCK]; 2];
        let Words { factors, stalls, hops: of_hops } = &self.words;
        for (number, ops) in self.order.ops.chunks(BLOCK).enumerate() {
            let at = number * BLOCK;
            draw(
                &mut durations,
                (ops, rest(factors, at)),
                &self.durations,
                self.noise.passes,
                &keys,
            );
            if let Some(stall) = self.noise.stall {
                self.stall(&mut durations, (ops, rest(stalls, at)), stall, &keys);
            }
            if self.noise.hops.is_some() {
                draw(&mut hops, (ops, rest(of_hops, at)), &self.hops, self.noise.hops, &keys);
                run(clocks, ops, &durations, &mut busy, |number, _| hops[number]);
            } else {
                run(clocks, ops, &durations, &mut busy, |_, row| [self.fixed[row]; REPLICAS]);
            }
        }
        self.times(clocks, busy)
    }

    /// Makes those passes longer that stall.
    #[allow(clippy::cast_precision_loss)]
    fn stall(
        &self,
        durations: &mut [Times; BLOCK],
        (ops, words): (&[Op], &[Word]),
        (threshold, length): (u64, u64),
        keys: &[Key; REPLICAS],
    ) {
        for ((times, op), &word) in durations.iter_mut().zip(ops).zip(words) {
            let [_, least] = self.durations[op.row as usize];
            let length = least * length as f64;
            for lane in 0..REPLICAS {
                let stalls = keys[lane].draw(word) >> 11 < threshold;
                times[lane] += if stalls { length } else { 0.0 };
            }
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Whole numbers, not below 0.
    fn times(&self, clocks: &Clocks<REPLICAS>, busy: Times) -> [Option<StepTimes>; REPLICAS] {
        let (ends, stages) = (clocks.ends(), self.order.stages);
        std::array::from_fn(|lane| {
            let [span, makespan] = ends[lane]?;
            Some(StepTimes { span, makespan, busy: busy[lane] as u128, stages })
        })
    }
}

impl Words {
    /// Adds those of the operation `seen`.
    fn add(&mut self, noise: &SteadyNoise<'_>, seen: Seen) {
        let Seen { stage, work, pass, input } = seen;
        let kind = match work {
            Work::Input => Kind::B,
            Work::Weight => Kind::W,
            Work::Begin | Work::Pass => pass.kind,
        };
        let word = |purpose| Word::pass(purpose, stage, Pass { kind, ..pass });
        if noise.passes.is_some() {
            self.factors.push(word(Purpose::Pass));
        }
        if noise.stall.is_some() {
            self.stalls.push(word(Purpose::Stall));
        }
        if noise.hops.is_some() {
            let hop = input.map(|(from, value)| Word::hop(from, stage, value));
            self.hops.push(hop.unwrap_or_else(|| word(Purpose::Hop)));
        }
    }
}

/// The words from operation `at` on, if there are any.
fn rest(words: &[Word], at: usize) -> &[Word] {
    words.get(at..).unwrap_or_default()
}

/// Draws the times of operations with these words.
#[inline(always)]
fn draw(
    times: &mut [Times; BLOCK],
    of: (&[Op], &[Word]),
    bases: &[Base],
    table: Option<&LawTable>,
    keys: &[Key; REPLICAS],
) {
    match table {
        Some(LawTable::Pieces(pieces)) => {
            draw_by(times, of, bases, |lane, word| of_pieces(pieces, keys[lane].draw(word)));
        }
        Some(LawTable::Samples(samples)) => {
            draw_by(times, of, bases, |lane, word| of_samples(samples, keys[lane].draw(word)));
        }
        None => {
            for (times, op) in times.iter_mut().zip(of.0) {
                *times = [whole(bases[op.row as usize], 1.0); REPLICAS];
            }
        }
    }
}

#[inline(always)]
fn draw_by(
    times: &mut [Times; BLOCK],
    (ops, words): (&[Op], &[Word]),
    bases: &[Base],
    factor: impl Fn(usize, Word) -> f64,
) {
    for ((times, op), &word) in times.iter_mut().zip(ops).zip(words) {
        let base = bases[op.row as usize];
        *times = std::array::from_fn(|lane| whole(base, factor(lane, word)));
    }
}

/// A time times `factor` in whole nanoseconds, at least the least.
#[inline(always)]
fn whole([time, least]: Base, factor: f64) -> f64 {
    later((time * factor + WHOLE) - WHOLE, least)
}

/// Times operations of these `durations`; `hop` has the hop of each by its number and its row.
#[inline(always)]
fn run(
    Clocks { free, made }: &mut Clocks<REPLICAS>,
    ops: &[Op],
    durations: &[Times; BLOCK],
    busy: &mut Times,
    hop: impl Fn(usize, usize) -> Times,
) {
    for ((number, op), durations) in ops.iter().enumerate().zip(durations) {
        let (needs, hops) = (made[op.needs as usize].0, hop(number, op.row as usize));
        let Lanes(clock) = &mut free[op.stage as usize];
        for lane in 0..REPLICAS {
            clock[lane] = later(clock[lane], needs[lane] + hops[lane]) + durations[lane];
            busy[lane] += durations[lane];
        }
        made[op.makes as usize] = Lanes(*clock);
    }
}
