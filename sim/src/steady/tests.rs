use pipeline::{Costs, Family, Hops, Nanos, Order, PassTimes, Period, Problem, Repeats, Shape};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use super::*;
use crate::Replay;

/// The families whose orders are known to repeat.
fn repeating() -> impl Iterator<Item = Family> {
    let known = |family: &Family| {
        let about = family.about();
        about.repeats != Repeats::Unknown && !family.depends_on_times()
    };
    Family::ALL.into_iter().filter(known)
}

/// The problem of a family with times of 1 ns.
fn problem(family: Family, stages: u64, chunks: u64, microbatches: u64) -> Problem {
    let chunks = family.about().chunks.of(Some(chunks));
    let shape = Shape::new(stages, chunks, microbatches).unwrap();
    let one = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
    Problem::new(shape, Costs::uniform(shape, one, Nanos(0))).unwrap()
}

/// The order of few microbatches that stands for that of `problem`; nothing where the family cannot do it.
fn short(family: Family, problem: &Problem) -> Option<Repeating> {
    let Period { microbatches, shown_by } = family.period(problem)?;
    let few = family.schedule(&problem.clone().with_microbatches(shown_by).unwrap()).ok()?;
    let all = problem.shape().microbatches();
    Some(Repeating::of(&few, microbatches, all).unwrap_or_else(|| {
        panic!("{} of {:?} does not repeat by {microbatches}", family.name(), few.shape())
    }))
}

impl Repeating {
    /// The order of each stage, pass by pass.
    fn orders(&self) -> Vec<Order> {
        let mut orders = vec![Order::default(); self.shape.stages()];
        let mut add = |ops: &[Op], round: u64| {
            let moved = u32::try_from(round).unwrap() * self.period;
            for op in ops {
                let microbatch = op.pass.microbatch.wrapping_add(moved);
                orders[op.stage as usize].push(Pass { microbatch, ..op.pass });
            }
        };
        add(&self.before, 0);
        (0..self.rounds).for_each(|round| add(&self.round, round));
        add(&self.behind, self.rounds);
        orders
    }
}

/// Holds the order of few microbatches with more rounds against that of all.
fn check_order(family: Family, problem: &Problem) -> bool {
    let Some(repeating) = short(family, problem) else { return false };
    let whole = family.schedule(problem).unwrap();
    assert_eq!(repeating.microbatches(), whole.shape().microbatches());
    assert!(repeating.orders() == whole.orders(), "{} of {:?}", family.name(), problem.shape());
    true
}

#[test]
fn a_short_order_with_more_rounds_is_that_of_more_microbatches() {
    for family in repeating() {
        let mut checked = 0;
        for stages in (1..=12).chain([16, 17, 24]) {
            for chunks in if stages <= 9 { 1..=4 } else { 2..=2 } {
                for more in [1, 2, 5, stages, 7 * stages + 3] {
                    let enough = 8 * stages.max(2) + 16;
                    for microbatches in [enough + more, (enough / stages + 1 + more) * stages] {
                        let problem = problem(family, stages, chunks, microbatches);
                        checked += usize::from(check_order(family, &problem));
                    }
                }
                if family.about().chunks.of(Some(1)) == family.about().chunks.of(Some(2)) {
                    break;
                }
            }
        }
        assert!(checked > 100, "{}: {checked}", family.name());
    }
}

#[test]
fn groups_and_segments_repeat_too() {
    for stages in [1, 2, 3, 5, 8] {
        for (group, chunks) in (1..=stages).flat_map(|group| [(group, 2), (group, 3), (group, 4)]) {
            let microbatches = 8 * stages + 17 + 2 * group;
            let of = problem(Family::Gis, stages, chunks, microbatches + 5).with_group(group);
            assert!(check_order(Family::Gis, &of));
        }
        for segments in 1..=5u32 {
            let microbatches = (8 * stages + 30) * u64::from(segments);
            let of = problem(Family::Seq1F1B, stages, 1, microbatches);
            assert!(check_order(Family::Seq1F1B, &of.with_segments(segments).unwrap()));
        }
    }
}

/// Times and hops of a pipeline: alike, nearly so, or at random.
fn random_costs(shape: Shape, placement: Placement, rng: &mut SplitMix64) -> Costs {
    let spread = [0, 1, 100, 10_000][rng.random_range(0..4)];
    let most = [1, 7, 10_000][rng.random_range(0..3)];
    let base: [u64; 3] = std::array::from_fn(|_| rng.random_range(0..=most));
    let mut time = |base: u64| Nanos(base + rng.random_range(0..=spread));
    let times = |_| PassTimes::new(time(base[0]), time(base[1]), time(base[2]));
    let times: Vec<PassTimes> = (0..shape.chunks()).map(times).collect();
    let links: Vec<Nanos> = (0..shape.stages()).map(|_| time(base[0] / 10)).collect();
    let hops = Hops::placed(shape, placement, &links)
        .or_else(|_| Hops::new(shape, &links[1..]))
        .unwrap_or_else(|_| Hops::alike(links[0]));
    Costs::new(times, Nanos(0)).with_hops(hops)
}

/// The times of a long step, and how many rounds were walked for them, of how many.
fn check_times(family: Family, problem: &Problem, costs: &Costs) -> Option<[u64; 2]> {
    let repeating = short(family, problem)?;
    let whole = family.schedule(problem).unwrap();
    let expected = Replay::new().metrics(&whole, costs).unwrap();
    let metrics = repeating.metrics(costs).unwrap();
    assert_eq!(metrics, expected, "{} of {:?}", family.name(), problem.shape());
    Some([repeating.rounds_walked(costs), repeating.rounds])
}

impl Repeating {
    fn rounds_walked(&self, costs: &Costs) -> u64 {
        let mut rounds = Rounds::new(self, costs);
        rounds.all();
        u64::from(rounds.walked())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_long_step_takes_as_long_as_by_replay(
        stages in 1u64..=9, chunks in 1u64..=3, microbatches in 100u64..4000, seed: u64
    ) {
        let mut rng = SplitMix64::seed_from_u64(seed);
        for family in repeating() {
            let microbatches = match family.about().repeats {
                Repeats::WholeStages => microbatches / stages * stages,
                Repeats::Segments => microbatches / 2 * 2,
                _ => microbatches,
            };
            let of = problem(family, stages, chunks, microbatches);
            let of = if family == Family::Seq1F1B { of.with_segments(2).unwrap() } else { of };
            let costs = random_costs(of.shape(), family.about().placement, &mut rng);
            check_times(family, &of, &costs);
        }
    }
}

#[test]
fn most_rounds_are_skipped() {
    let mut rng = SplitMix64::seed_from_u64(1);
    for family in repeating() {
        for stages in [1, 2, 5, 8] {
            for _ in 0..4 {
                let of = problem(family, stages, 2, 20_000 / stages * stages);
                let costs = random_costs(of.shape(), family.about().placement, &mut rng);
                let [walked, all] = check_times(family, &of, &costs).unwrap();
                assert!(10 * walked < all, "{}: {walked} of {all}", family.name());
            }
        }
    }
}

#[test]
fn what_does_not_repeat_is_refused() {
    let few = |family: Family| family.schedule(&problem(family, 4, 2, 48)).unwrap();
    for family in [Family::GPipe, Family::LoopedBfs, Family::DualPipeV, Family::Chimera] {
        assert!(Repeating::of(&few(family), 1, 1000).is_none(), "{}", family.name());
    }
    let order = few(Family::OneFOneB);
    assert!(Repeating::of(&order, 1, 1000).is_some());
    assert!(Repeating::of(&order, 0, 1000).is_none());
    assert!(Repeating::of(&order, 1, 47).is_none(), "fewer microbatches");
    assert!(Repeating::of(&order, 4, 1001).is_none(), "a part of a round");
    assert!(Repeating::of(&order, 1, u32::MAX).is_none(), "too many passes");
    assert!(Repeating::of(&few(Family::Interleaved), 1, 1000).is_none(), "another period");
    assert!(Family::Interleaved.period(&problem(Family::Interleaved, 4, 2, 1001)).is_none());
    for group in [0, u64::from(u32::MAX), u64::MAX] {
        let of = problem(Family::Gis, 4, 2, 1000).with_group(group);
        assert!(Family::Gis.period(&of).is_none(), "groups of {group}");
    }
    let short = Family::ZbH1.schedule(&problem(Family::ZbH1, 8, 1, 9)).unwrap();
    assert!(Repeating::of(&short, 1, 1000).is_none(), "no steady state");
}

#[test]
fn costs_of_another_pipeline_are_refused() {
    let order = Family::ZbH1.schedule(&problem(Family::ZbH1, 4, 1, 64)).unwrap();
    let repeating = Repeating::of(&order, 1, 1_000_000).unwrap();
    let costs = |chunks, time| Costs::new(vec![PassTimes::new(time, time, time); chunks], Nanos(0));
    assert!(repeating.metrics(&costs(5, Nanos(1))).is_err());
    // Of 64 microbatches these could be counted.
    assert!(repeating.metrics(&costs(4, Nanos(1 << 40))).is_err());
    assert!(repeating.metrics(&costs(4, Nanos(1 << 36))).is_ok());
}

/// Stages of equal work: chunks on the way up take what those on the way down leave, in each kind of pass or in all.
fn equal_stages(shape: Shape, rng: &mut SplitMix64) -> Costs {
    let most = [3, 20, 1_000_000][rng.random_range(0..3)];
    let whole = PassTimes::new(
        Nanos(2 * rng.random_range(1..=most)),
        Nanos(2 * rng.random_range(1..=most)),
        Nanos(2 * rng.random_range(1..=most)),
    );
    let (half, uneven) = (shape.stages(), rng.random_bool(0.5));
    let mut chunks = Vec::new();
    for _ in 0..half {
        let part = |time: Nanos, rng: &mut SplitMix64| match uneven {
            true => Nanos(rng.random_range(1..time.0)),
            false => Nanos(time.0 / 2),
        };
        let [forward, input, weight] = [whole.forward, whole.backward_input, whole.backward_weight]
            .map(|time| part(time, rng));
        chunks.push(PassTimes::new(forward, input, weight));
    }
    let rest = |times: &PassTimes| {
        PassTimes::new(
            whole.forward - times.forward,
            whole.backward_input - times.backward_input,
            whole.backward_weight - times.backward_weight,
        )
    };
    let up: Vec<PassTimes> = chunks.iter().rev().map(rest).collect();
    chunks.extend(up);
    Costs::new(chunks, Nanos(rng.random_range(0..=most)))
}

#[test]
fn orders_of_zb_v_repeat_where_building_them_shows_it() {
    let mut rng = SplitMix64::seed_from_u64(7);
    let (mut checked, mut all) = (0, 0);
    for _ in 0..150 {
        let stages = rng.random_range(1..=9);
        let of = problem(Family::ZbV, stages, 2, rng.random_range(150..1500));
        let costs = equal_stages(of.shape(), &mut rng);
        let mut of = of.with_costs(costs.clone()).unwrap();
        if rng.random_bool(0.3) {
            let millionths = rng.random_range(700_000..3_000_000);
            of = of.with_limit(pipeline::Limit::TimesP { millionths });
        }
        all += 1;
        if check_times(Family::ZbV, &of, &costs).is_some() {
            checked += 1;
            assert!(check_order(Family::ZbV, &of));
        }
    }
    assert!(2 * checked > all, "{checked} of {all}");
    let of = problem(Family::ZbV, 4, 2, 1000);
    let mut chunks = of.costs().chunks().to_vec();
    chunks[1].forward = Nanos(2);
    let unequal = of.with_costs(Costs::new(chunks, Nanos(0))).unwrap();
    assert!(Family::ZbV.period(&unequal).is_none(), "stages of unequal work");
}
