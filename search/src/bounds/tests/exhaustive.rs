//! The bounds beside the best of all orders, where a pipeline is so small that all can be tried.

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Hops, Kind, Ledger, Limits, Nanos, Order, Pass, PassTimes,
    Placement, Schedule, Shape,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sim::Replay;

use crate::bounds::{Prover, all, best, check_limits, of_one_stage, smallest_limit};
use crate::{Effort, Found, Instance, Objective, search};

/// As many orders of the whole pipeline are tried, at most.
const TRIED: usize = 30_000;

/// All orders of `stage` that keep the microbatches of each kind in order, put each pass behind
/// those of its own microbatch on the stage, and fit the limit, with each backward split and whole where that
/// may be; `None` if they are too many.
fn orders(instance: &Instance, stage: usize) -> Option<Vec<Order>> {
    let chunks: Vec<u16> = instance.placement.chunks_of(instance.shape, stage).collect();
    let mut found = Vec::new();
    let mut search = Words {
        instance,
        stage,
        // A chunk that does not recompute has no R left.
        done: chunks
            .iter()
            .map(|&chunk| match instance.costs.recompute(chunk) {
                Some(_) => [0; 4],
                None => [0, 0, 0, instance.shape.microbatches()],
            })
            .collect(),
        whole: vec![vec![false; instance.shape.microbatches() as usize]; chunks.len()],
        chunks,
        passes: Vec::new(),
        ledger: Ledger::default(),
    };
    search.extend(&mut found).then_some(found)
}

struct Words<'a> {
    instance: &'a Instance,
    stage: usize,
    chunks: Vec<u16>,
    /// F, B, W and R run so far, by chunk.
    done: Vec<[u32; 4]>,
    /// Which backwards are whole, by chunk and microbatch.
    whole: Vec<Vec<bool>>,
    passes: Vec<Pass>,
    ledger: Ledger,
}

impl Words<'_> {
    /// Whether not too many were found.
    fn extend(&mut self, found: &mut Vec<Order>) -> bool {
        let microbatches = self.instance.shape.microbatches();
        if self.done.iter().all(|done| *done == [microbatches; 4]) {
            found.push(self.passes.iter().copied().collect());
            return found.len() <= TRIED;
        }
        for place in 0..self.chunks.len() {
            for kind in [Kind::F, Kind::B, Kind::BW, Kind::W, Kind::R] {
                let microbatch = self.done[place][row(kind)];
                if microbatch == microbatches || !self.may(place, kind) {
                    continue;
                }
                let pass = Pass { kind, chunk: self.chunks[place], microbatch };
                let (before, done) = (self.ledger, self.done[place]);
                self.ledger.run(pass, &self.instance.footprints);
                let limits = self.instance.limits.as_ref();
                if limits.is_none_or(|limits| self.ledger.peak <= limits.of(self.stage)) {
                    self.count(place, pass);
                    self.passes.push(pass);
                    if !self.extend(found) {
                        return false;
                    }
                    self.passes.pop();
                    self.done[place] = done;
                    self.whole[place][microbatch as usize] &= kind != Kind::BW;
                }
                self.ledger = before;
            }
        }
        true
    }

    /// Counts `pass`; W of a whole backward is done with it.
    fn count(&mut self, place: usize, pass: Pass) {
        self.done[place][row(pass.kind)] += 1;
        self.whole[place][pass.microbatch as usize] |= pass.kind == Kind::BW;
        let weights = &mut self.done[place][2];
        while self.whole[place].get(*weights as usize).is_some_and(|whole| *whole) {
            *weights += 1;
        }
    }

    /// Whether the next pass of `kind` has what it needs of this stage.
    fn may(&self, place: usize, kind: Kind) -> bool {
        let [f, b, w, r] = self.done[place];
        match kind {
            Kind::F => place == 0 || self.done[place - 1][0] > f,
            Kind::BW if !self.instance.mixes() => false,
            Kind::B | Kind::BW => {
                let above = self.done.get(place + 1).is_none_or(|above| above[1] > b);
                f.min(r) > b && above
            }
            Kind::W => b > w,
            Kind::R => f > r,
            Kind::S | Kind::T => false,
        }
    }
}

/// The row of `kind` among the counts of a chunk.
const fn row(kind: Kind) -> usize {
    match kind {
        Kind::B | Kind::BW => 1,
        Kind::W => 2,
        Kind::R => 3,
        Kind::F | Kind::S | Kind::T => 0,
    }
}

/// The least cost of all orders, or `None` if they are too many.
fn optimum(instance: &Instance) -> Option<Option<Nanos>> {
    let mut replay = Replay::new();
    least(instance, |schedule| {
        instance.objective.of(&replay.metrics(schedule, &instance.costs).unwrap())
    })
}

/// The least `figure` of all orders, or `None` if they are too many.
fn least(instance: &Instance, mut figure: impl FnMut(&Schedule) -> Nanos) -> Option<Option<Nanos>> {
    let stages = 0..instance.shape.stages();
    let orders: Vec<Vec<Order>> =
        stages.map(|stage| orders(instance, stage)).collect::<Option<_>>()?;
    let count = orders.iter().try_fold(1usize, |count, one| count.checked_mul(one.len()))?;
    if count > TRIED {
        return None;
    }
    let figures = (0..count).filter_map(|mut number| {
        let pick = |choice: &Vec<Order>| {
            let order = choice[number % choice.len()].clone();
            number /= choice.len();
            order
        };
        let orders = orders.iter().map(pick).collect();
        let schedule = Schedule::new(instance.shape, instance.placement, orders).ok()?;
        Some(figure(&schedule))
    });
    Some(figures.min())
}

/// The values that a small instance is drawn from.
#[derive(Clone, Debug)]
struct Drawn {
    layout: (Placement, [u64; 3]),
    times: Vec<[u64; 3]>,
    /// By chunk, how far BW lies between the longer of B and W and both, in quarters; none where it was not measured.
    whole: Vec<Option<u64>>,
    held: Vec<[u64; 2]>,
    /// All alike, or by link.
    hops: Vec<u64>,
    /// By chunk that recomputes, the time of R and what F keeps.
    again: Vec<Option<[u64; 2]>>,
    /// Room beyond the smallest limit, by stage.
    room: Option<Vec<u64>>,
    alike: bool,
    makespan: bool,
}

impl Drawn {
    fn instance(&self) -> Instance {
        let (placement, [p, v, m]) = self.layout;
        let shape = Shape::new(p, v, m).unwrap();
        let chunks = usize::from(shape.chunks());
        let of = |chunk: usize| if self.alike { 0 } else { chunk };
        let times = |chunk: usize| {
            let [f, b, w] = self.times[of(chunk)];
            let whole = |quarters| Nanos(b.max(w) + b.min(w) * quarters / 4);
            PassTimes {
                backward: self.whole[of(chunk)].map(whole),
                ..PassTimes::new(Nanos(f), Nanos(b), Nanos(w))
            }
        };
        let held = |chunk: usize| {
            let [until_backward, until_weight] = self.held[of(chunk)].map(Bytes);
            Footprint { until_backward, until_weight }
        };
        let again = |chunk: usize| self.again[of(chunk)];
        let [recompute, kept] =
            [0, 1].map(|part| (0..chunks).map(move |at| again(at).map(|both| both[part])));
        let kept = kept.map(|kept| kept.map(Bytes)).collect();
        let footprints = Footprints::new((0..chunks).map(held).collect()).with_kept(kept);
        let smallest = footprints.least_peaks(shape, placement);
        let limits = self.room.as_ref().map(|room| {
            let rooms = smallest.iter().enumerate();
            let limits: Vec<Bytes> =
                rooms.map(|(stage, least)| *least + Bytes(room[of(stage)])).collect();
            Limits::new(shape, &limits).unwrap()
        });
        let objective = if self.makespan { Objective::Makespan } else { Objective::Span };
        let recompute = recompute.map(|time| time.map(Nanos)).collect();
        let links = match (&self.hops[..], shape.stages()) {
            ([all], _) => vec![*all],
            (each, ..=2) => each[..1].to_vec(),
            (each, stages) => each.iter().copied().cycle().take(stages).collect(),
        };
        let links: Vec<Nanos> = links.into_iter().map(Nanos).collect();
        let hops = Hops::placed(shape, placement, &links).unwrap();
        let costs = Costs::new((0..chunks).map(times).collect(), Nanos(0)).with_hops(hops);
        let costs = costs.with_recompute(recompute);
        Instance::new(shape, placement, costs, footprints, limits, objective).unwrap()
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    use Placement::{Looped, Vee};
    let layout = prop::sample::select(vec![
        (Looped, [1, 1, 4]),
        (Looped, [2, 1, 2]),
        (Looped, [2, 1, 3]),
        (Looped, [2, 1, 4]),
        (Looped, [2, 1, 5]),
        (Looped, [3, 1, 2]),
        (Looped, [3, 1, 3]),
        (Looped, [3, 1, 4]),
        (Vee, [1, 2, 2]),
        (Vee, [1, 2, 3]),
        (Vee, [2, 2, 1]),
        (Vee, [2, 2, 2]),
        (Vee, [3, 2, 1]),
        (Looped, [2, 2, 1]),
        (Looped, [2, 2, 2]),
        (Looped, [3, 2, 1]),
        (Looped, [1, 3, 2]),
        (Vee, [1, 4, 1]),
    ]);
    let times = prop::collection::vec([0..9u64, 0..9u64, 0..7u64], 6);
    let held = prop::collection::vec([0..7u64, 0..5u64], 6);
    let room = prop::option::weighted(0.9, prop::collection::vec(0..16u64, 3));
    let hops = prop_oneof![prop::collection::vec(0..5u64, 1), prop::collection::vec(0..9u64, 3),];
    let quarters = prop::option::of(0..5u64);
    let whole = prop_oneof![Just(vec![None; 6]), prop::collection::vec(quarters, 6)];
    let rest = (hops, whole, any::<bool>(), prop::bool::weighted(0.3));
    let one = prop::option::of([0..9u64, 0..4u64]);
    let again = prop_oneof![Just(vec![None; 6]), prop::collection::vec(one, 6)];
    (layout, times, held, again, room, rest).prop_map(
        |(layout, times, held, again, room, (hops, whole, alike, makespan))| Drawn {
            again,
            layout,
            times,
            whole,
            held,
            hops,
            room,
            alike,
            makespan,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_order_is_cheaper_than_a_bound(drawn in drawn()) {
        let instance = drawn.instance();
        let optimum = optimum(&instance);
        prop_assume!(optimum.is_some());
        let optimum = optimum.flatten().expect("there is an order under any feasible limit");
        for bound in all(&instance) {
            prop_assert!(bound.cost <= optimum, "{bound:?} is above {optimum}");
        }
        // They are asked for more than there is to prove.
        for best in [Nanos(optimum.0 + 1), Nanos(optimum.0 + optimum.0 / 4 + 2)] {
            let mut prover = Prover::of(&instance, Nanos(0)).unwrap();
            prover.prove(best, u64::MAX, &|| false);
            let bound = prover.bound();
            let wrong = bound.filter(|bound| bound.cost > optimum);
            prop_assert!(wrong.is_none(), "{bound:?} is above {optimum}: {:?}", prover.proof());
        }
    }

    #[test]
    fn no_running_step_is_shorter_than_a_bound_on_the_span_of_one_stage(drawn in drawn()) {
        let instance = Drawn { makespan: false, ..drawn }.instance();
        let step = |schedule: &Schedule| sim::running_step(schedule, &instance.costs).unwrap().unwrap();
        let least = least(&instance, step);
        prop_assume!(least.is_some());
        let least = least.flatten().expect("there is an order under any feasible limit");
        let bound = of_one_stage(&instance);
        prop_assert!(bound.cost <= least, "{bound:?} is above {least}");
    }

    #[test]
    fn under_less_than_the_smallest_limit_there_is_no_order(drawn in drawn(), stage in 0..3usize) {
        let instance = Drawn { room: Some(vec![0; 3]), ..drawn }.instance();
        prop_assert_eq!(check_limits(&instance), Ok(()));
        let stage = stage % instance.shape.stages();
        let mut less = smallest_limit(&instance);
        prop_assume!(less[stage] > Bytes(0));
        prop_assert!(orders(&instance, stage).is_none_or(|orders| !orders.is_empty()));
        less[stage] = less[stage] - Bytes(1);
        let limits = Some(Limits::new(instance.shape, &less).unwrap());
        let instance = Instance { limits, ..instance };
        prop_assert_eq!(check_limits(&instance).unwrap_err().stage, stage);
        prop_assert_eq!(orders(&instance, stage), Some(Vec::new()));
    }
}

/// Searches `count` drawn instances that are as `is` says, and gives each with what was found and the optimum.
fn searched(
    count: u32,
    is: impl Fn(&Instance) -> bool,
    mut each: impl FnMut(&Instance, &Found, Nanos),
) {
    let mut runner = TestRunner::deterministic();
    let mut asked = 0;
    while asked < count {
        let instance = drawn().new_tree(&mut runner).unwrap().current().instance();
        if !is(&instance) {
            continue;
        }
        let Some(Some(optimum)) = optimum(&instance) else { continue };
        let answer = search(&instance, Effort::default(), |_| (), &|| false).unwrap();
        assert!(answer.cost >= optimum && answer.bound.cost <= optimum, "{instance:?}");
        asked += 1;
        each(&instance, &answer, optimum);
    }
}

#[test]
#[ignore = "slow"]
fn a_search_of_whole_and_split_backwards_mostly_has_the_optimum() {
    let (asked, mut found) = (200, 0);
    searched(asked, Instance::mixes, |_, answer, optimum| {
        found += u32::from(answer.cost == optimum);
    });
    assert!(100 * found >= 95 * asked, "{found} of {asked}");
}

#[test]
#[ignore = "slow"]
fn a_search_with_recomputation_mostly_has_the_optimum_and_proves_it() {
    let (asked, mut found, mut proved, mut by_formulas, mut lost) = (150, 0, 0, 0, 0);
    let recomputes = |instance: &Instance| instance.costs.has_recompute() && !instance.mixes();
    searched(asked, recomputes, |instance, answer, optimum| {
        found += u32::from(answer.cost == optimum);
        proved += u32::from(answer.bound.cost == optimum);
        by_formulas += u32::from(best(instance).cost == optimum);
        // In parts of a thousand.
        lost += 1_000 * (optimum.0 - answer.bound.cost.0) / optimum.0.max(1);
    });
    assert!(
        100 * found >= 95 * asked && lost <= 10 * u64::from(asked),
        "{found}, {lost} of {asked}"
    );
    assert!(
        proved >= 98 * asked / 100 && proved > by_formulas,
        "{proved}, {by_formulas} of {asked}"
    );
}
