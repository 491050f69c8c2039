//! Levers: changes of the pipeline, and the step time that each would save, found by trying them.

mod memory;

use pipeline::{
    CopyDirection, Costs, Fault, Limit, Limits, Nanos, Pass, PassTimes, Placement, Problem,
    ShardTimes, Value,
};
use sim::engine::{Durations, NominalDurations};
use sim::timed::{self, Nominal, Timing};

use crate::outcome;
use crate::outcome::Outcome;
use question::Diagnostic;
use question::case;
use question::case::Case;
use question::hardware::Hardware;
use question::host::foretell;
use question::{Context, Work};

/// Passes that trying all levers may time; beyond that, single stages and links are left out.
const MOST_WORK: usize = 200_000_000;
/// Layers of a stage where the question does not say.
const ASSUMED_LAYERS: u64 = 8;

/// A change, and the step with it.
pub struct Lever {
    /// The change.
    pub name: String,
    /// Step time with the change, as in [`sim::explain::Causes`].
    pub step: Nanos,
    /// By how many nanoseconds that is longer.
    pub change: i64,
    /// Whether the family made a new order for the change; else the order was kept.
    pub rebuilt: bool,
}

/// All levers of a case.
pub struct Levers {
    /// The levers, what saves most first.
    pub ranked: Vec<Lever>,
    /// Step time without any change.
    pub base: Nanos,
    /// The assumptions and omissions, in words.
    pub notes: Vec<String>,
}

impl Levers {
    /// Tries all that can be tried on the case of `outcome`, whose step takes `base`, and tells `bar`
    /// of each; after a Ctrl-C no more.
    ///
    /// # Errors
    /// If the clock overflows or the pipeline gets stuck.
    pub fn of(
        context: &Context<'_>,
        outcome: &Outcome,
        base: Nanos,
        bar: &dyn Work,
    ) -> Result<Self, Diagnostic> {
        let case = &outcome.case;
        let mut bench = Bench { context, case, base, bar, tried: Vec::new(), notes: Vec::new() };
        bench.try_memory(None)?;
        bench.try_layer()?;
        bench.try_links(Links::All, "all links twice as fast")?;
        let shape = outcome.case.schedule.shape();
        if 3 * shape.stages() * outcome.case.schedule.passes() <= MOST_WORK {
            let passes = 3 * shape.stages() * outcome.case.schedule.passes();
            bench.foretell(passes);
            bench.try_each(shape.stages())?;
        } else {
            bench.notes.push("the pipeline is large: single stages and links are left out".into());
        }
        if outcome.case.hardware.as_ref().is_some_and(Hardware::starts_cold) {
            let note = "a single step begins on all stages at once, as after a barrier: give \
                        --steps 2 or more for steps that follow each other without one";
            bench.notes.push(note.to_owned());
        }
        let Bench { tried: mut ranked, notes, .. } = bench;
        ranked.sort_by_key(|lever| lever.change);
        Ok(Self { ranked, base, notes })
    }
}

/// Which links are twice as fast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    None,
    All,
    /// Both ways between two stages, the lower first.
    Between(usize, usize),
}

impl Links {
    fn shorten(self, time: u64, from: usize, to: usize) -> u64 {
        let applies = match self {
            Self::None => false,
            Self::All => true,
            Self::Between(a, b) => (a, b) == (from.min(to), from.max(to)),
        };
        if applies { time.div_ceil(2) } else { time }
    }
}

/// Where levers are tried.
struct Bench<'a> {
    context: &'a Context<'a>,
    case: &'a Case,
    base: Nanos,
    tried: Vec<Lever>,
    notes: Vec<String>,
    bar: &'a dyn Work,
}

impl Bench<'_> {
    /// Says before so many passes are timed if that takes minutes.
    fn foretell(&self, passes: usize) {
        // Where the order follows the times it is made anew for each change.
        let family = self.case.family.is_some_and(case::depends_on_times);
        let (per_second, steps) = match &self.case.hardware {
            Some(hardware) => (2_000_000, u128::from(hardware.steps)),
            None if family => (10_000_000, 1),
            None => (50_000_000, 1),
        };
        let what = "every single stage and link is changed in turn";
        foretell(self.context.host(), passes as u128 * steps, per_second, what);
    }

    /// The changes of single stages and links.
    fn try_each(&mut self, stages: usize) -> Result<(), Diagnostic> {
        let links = neighbours(self.case);
        let steps = 2 * stages as u64 + links.len() as u64;
        self.bar.add(steps);
        let begun = self.bar;
        let go_on = || {
            begun.inc(1);
            !self.context.stopped()
        };
        let mut stopped = false;
        for stage in 0..stages {
            stopped = stopped || !go_on();
            if !stopped {
                self.try_stage(stage)?;
            }
        }
        for stage in 0..stages {
            stopped = stopped || !go_on();
            if !stopped {
                self.try_memory(Some(stage))?;
            }
        }
        for [a, b] in links {
            stopped = stopped || !go_on();
            if !stopped {
                self.try_links(Links::Between(a, b), &format!("link {a}-{b} twice as fast"))?;
            }
        }
        if stopped {
            self.notes.push("interrupted: not all single stages and links were tried".into());
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: String,
        case: &Case,
        links: Links,
        rebuilt: bool,
    ) -> Result<(), Diagnostic> {
        let step = step(case, links)?;
        let change = i128::from(step.0) - i128::from(self.base.0);
        let change = i64::try_from(change)
            .map_err(|_| outcome::named(case, &Fault::Overflow { what: "the times" }))?;
        self.tried.push(Lever { name, step, change, rebuilt });
        Ok(())
    }

    /// One layer from the slowest stage to the fastest.
    fn try_layer(&mut self) -> Result<(), Diagnostic> {
        let (shape, placement) = (self.case.schedule.shape(), self.case.schedule.placement());
        if placement == Placement::Mirrored {
            return Ok(());
        }
        let costs = self.case.problem.costs();
        let work = |stage: usize| -> Nanos {
            placement
                .chunks_of(shape, stage)
                .map(|chunk| whole(&costs.chunks()[usize::from(chunk)]))
                .sum()
        };
        let stages = || 0..shape.stages();
        let slowest = stages().rev().max_by_key(|&stage| work(stage)).unwrap_or(0);
        let fastest = stages().min_by_key(|&stage| work(stage)).unwrap_or(0);
        let layers = self.case.layers_per_stage.unwrap_or(ASSUMED_LAYERS).max(1);
        if work(slowest) == work(fastest) || layers == 1 {
            return Ok(());
        }
        let mut chunks = costs.chunks().to_vec();
        let pairs = placement.chunks_of(shape, slowest).zip(placement.chunks_of(shape, fastest));
        for (from, to) in pairs.map(|(from, to)| (usize::from(from), usize::from(to))) {
            let layer = each(&chunks[from], |time| time / layers);
            chunks[from] = both(&chunks[from], &layer, |time, layer| time - layer);
            chunks[to] = both(&chunks[to], &layer, |time, layer| time.saturating_add(layer));
        }
        if self.case.layers_per_stage.is_none() {
            let note = format!("layers per stage are not known: {ASSUMED_LAYERS} are assumed");
            self.notes.push(note);
        }
        let name = format!("a layer from stage {slowest} to stage {fastest}");
        self.try_costs(name, costs.clone().with_chunks(chunks), Links::None)
    }

    /// `stage` 5 % slower and 5 % faster.
    fn try_stage(&mut self, stage: usize) -> Result<(), Diagnostic> {
        let (shape, placement) = (self.case.schedule.shape(), self.case.schedule.placement());
        let costs = self.case.problem.costs();
        let mirrored = placement == Placement::Mirrored;
        // Both stages of a mirrored pair hold the same two chunks.
        if mirrored && stage >= shape.stages().div_ceil(2) {
            return Ok(());
        }
        for (percent, word) in [(105, "slower"), (95, "faster")] {
            let mut chunks = costs.chunks().to_vec();
            for chunk in placement.chunks_of(shape, stage).map(usize::from) {
                chunks[chunk] = each(&chunks[chunk], |time| scale(time, percent));
            }
            let twin = shape.stages() - 1 - stage;
            let name = match mirrored && twin != stage {
                true => format!("stages {stage} and {twin} 5 % {word}"),
                false => format!("stage {stage} 5 % {word}"),
            };
            let mut shards = costs.shards().to_vec();
            if let Some(times) = shards.get_mut(stage) {
                let [before, after] =
                    [times.before, times.after].map(|time| Nanos(scale(time.0, percent)));
                *times = ShardTimes { before, after };
            }
            let slower = costs.clone().with_chunks(chunks);
            let slower = slower.with_shards(shards, costs.collectives());
            self.try_costs(name, slower, Links::None)?;
        }
        Ok(())
    }

    /// Faster links, where anything is sent that takes time.
    fn try_links(&mut self, links: Links, name: &str) -> Result<(), Diagnostic> {
        let costs = self.case.problem.costs();
        if costs.hop() == Nanos(0) && self.case.hardware.is_none() {
            return Ok(());
        }
        if links != Links::All {
            return self.add(name.to_owned(), self.case, links, false);
        }
        let ordered = costs.clone().with_hop(Nanos(costs.hop().0.div_ceil(2)));
        let rebuilt = rebuilt(self.case, &ordered)
            .map(|(_, schedule)| Case { schedule, ..self.case.clone() });
        self.add(name.to_owned(), rebuilt.as_ref().unwrap_or(self.case), links, rebuilt.is_some())
    }

    /// Other times, with a new order where the order depends on them.
    fn try_costs(&mut self, name: String, costs: Costs, links: Links) -> Result<(), Diagnostic> {
        let rebuilt = rebuilt(self.case, &costs);
        let is_rebuilt = rebuilt.is_some();
        let (problem, schedule) = match rebuilt {
            Some(both) => both,
            None => {
                let problem = problem(self.case, costs, self.case.limits.as_ref());
                let problem = problem.map_err(|fault| outcome::named(self.case, &fault))?;
                (problem, self.case.schedule.clone())
            }
        };
        let case = Case { problem, schedule, ..self.case.clone() };
        self.add(name, &case, links, is_rebuilt)
    }
}

/// The problem of `case` with other costs and limits.
fn problem(case: &Case, costs: Costs, limits: Option<&Limits>) -> Result<Problem, Fault> {
    let problem = case.problem.clone().with_costs(costs)?;
    let Some(limits) = limits else { return Ok(problem) };
    let limits: Vec<Limit> = limits.by_stage().iter().copied().map(Limit::Bytes).collect();
    problem.with_limits(&limits)
}

/// The problem under `costs` and the order its family makes for them, where it depends on them and
/// there is one.
fn rebuilt(case: &Case, costs: &Costs) -> Option<(Problem, pipeline::Schedule)> {
    let family = case.family.filter(|&family| case::depends_on_times(family))?;
    let problem = problem(case, costs.clone(), case.limits.as_ref()).ok()?;
    let schedule = case::offloaded(family.schedule(&problem).ok()?, &problem);
    Some((problem, schedule))
}

/// The pairs of stages between which values travel, the lower first.
fn neighbours(case: &Case) -> Vec<[usize; 2]> {
    let (shape, placement) = (case.schedule.shape(), case.schedule.placement());
    let mut pairs: Vec<[usize; 2]> = (1..shape.chunks())
        .map(|chunk| [chunk - 1, chunk].map(|chunk| placement.stage(shape, chunk, 0)))
        .map(|[a, b]| [a.min(b), a.max(b)])
        .filter(|[a, b]| a != b)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Step time of `case`, as in [`sim::explain::Causes`], in replica 0 of its noise if it has any.
fn step(case: &Case, links: Links) -> Result<Nanos, Diagnostic> {
    let costs = case.problem.costs();
    let metrics = match (&case.hardware, &case.noise) {
        (Some(hardware), noise) => {
            let run = match noise {
                Some(noise) => {
                    hardware.run(case, &Faster { inner: noise.durations(0, costs), links })
                }
                None => hardware.run(case, &Faster { inner: NominalDurations, links }),
            };
            let run = run.map_err(|error| outcome::named(case, &error))?;
            return Ok(run.step_length(hardware.steps - 1));
        }
        (None, Some(noise)) => {
            let inner = noise.sample(0).timing(costs);
            timed::metrics(&case.schedule, &Faster { inner, links })
        }
        (None, None) => timed::metrics(&case.schedule, &Faster { inner: Nominal(costs), links }),
    };
    Ok(metrics.span())
}

/// The durations of `inner`, with faster links.
struct Faster<T> {
    inner: T,
    links: Links,
}

impl<T: Timing> Timing for Faster<T> {
    fn duration(&self, stage: usize, pass: Pass, start: u64) -> u64 {
        self.inner.duration(stage, pass, start)
    }

    fn hop(&self, value: Value, from: usize, to: usize, start: u64) -> u64 {
        self.links.shorten(self.inner.hop(value, from, to, start), from, to)
    }

    fn copy(&self, chunk: u16, way: CopyDirection) -> u64 {
        self.inner.copy(chunk, way)
    }

    fn collective(&self, value: Value, start: u64) -> u64 {
        self.inner.collective(value, start)
    }
}

impl<T: Durations> Durations for Faster<T> {
    fn pass(&self, nominal: u64, stage: usize, pass: Pass, step: u32, start: u64) -> u64 {
        self.inner.pass(nominal, stage, pass, step, start)
    }

    fn hop(
        &self,
        nominal: u64,
        value: Value,
        from: usize,
        to: usize,
        step: u32,
        start: u64,
    ) -> u64 {
        let time = self.inner.hop(nominal, value, from, to, step, start);
        self.links.shorten(time, from, to)
    }
}

fn whole(times: &PassTimes) -> Nanos {
    times.forward + times.backward_input + times.backward_weight
}

fn each(times: &PassTimes, change: impl Fn(u64) -> u64) -> PassTimes {
    both(times, times, |time, _| change(time))
}

fn both(times: &PassTimes, others: &PassTimes, join: impl Fn(u64, u64) -> u64) -> PassTimes {
    let join = |time: Nanos, other: Nanos| Nanos(join(time.0, other.0));
    PassTimes {
        forward: join(times.forward, others.forward),
        backward_input: join(times.backward_input, others.backward_input),
        backward_weight: join(times.backward_weight, others.backward_weight),
    }
}

/// `percent` of `time`, to the nearest nanosecond.
fn scale(time: u64, percent: u64) -> u64 {
    let scaled = (u128::from(time) * u128::from(percent) + 50) / 100;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
