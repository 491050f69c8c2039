//! Idle time by cause: the causes add up to the nanosecond, those of each gap too, and what is taken
//! away moves the step by what it was given.

use pipeline::{Bytes, Costs, Family, Footprint, Footprints, Metrics, Nanos, Schedule};
use proptest::prelude::*;
use sim::boundary::{Boundary, GradientReduction, Synchronisation};
use sim::cluster::Seating;
use sim::engine::Run;
use sim::explain::{Cause, Causes, Gaps, Link, Wait, Waits, unshared};
use sim::straggler::{Jitter, Stragglers, Target};
use sim::{EngineRuns, Replay, Simulation};

use crate::bench::{self, Bench, nodes, question};
use crate::draw::cases;
use crate::machine;

fn one_f_one_b(chunk_times: &[[u64; 3]], hop: u64) -> (Schedule, Costs) {
    question(Family::OneFOneB, [2, 1], chunk_times, hop).unwrap()
}

/// By stage, what `cause` is given.
pub(crate) fn of(causes: &Causes, cause: Cause) -> Vec<i64> {
    causes.idle.iter().map(|stage| stage[cause as usize]).collect()
}

/// Asserts that the parts of `causes` are the whole, `busy` and idle.
fn assert_exact(causes: &Causes, busy: &[Nanos]) {
    assert_eq!(causes.busy, busy);
    for (stage, (idle, busy)) in causes.idle.iter().zip(busy).enumerate() {
        let waited = causes.cost.0 - busy.0 - causes.optimizer.0;
        assert_eq!(idle.iter().sum::<i64>(), i64::try_from(waited).unwrap(), "stage {stage}");
    }
    let steps = [causes.cost].into_iter().chain(causes.without);
    let changes = steps.clone().zip(steps.skip(1));
    for ((with, without), cause) in changes.zip(Cause::ALL) {
        // The busy time changes only where passes do.
        if !matches!(cause, Cause::Noise | Cause::UnequalStages) {
            let change = i64::try_from(with.0).unwrap() - i64::try_from(without.0).unwrap();
            assert!(of(causes, cause).iter().all(|&share| share == change), "{cause:?}");
        }
    }
}

/// Asserts that the causes of each gap are its length, and those of all gaps of a stage `causes`.
fn assert_gaps(gaps: &Gaps, causes: &Causes, run: &Run, first: impl Fn(usize) -> usize) {
    assert_eq!((gaps.cost, gaps.optimizer), (causes.cost, causes.optimizer));
    for (stage, of_stage) in gaps.stages.iter().enumerate() {
        assert_eq!(gaps.of_stage(stage), causes.idle[stage]);
        let spans = &run.timeline.stages[stage][first(stage)..];
        assert_eq!(of_stage.len(), spans.len() + 1);
        let mut before = gaps.begins[stage];
        for (gap, span) in of_stage.iter().zip(spans) {
            let length = i64::try_from((span.start - before).0).unwrap();
            assert_eq!(gap.iter().sum::<i64>(), length);
            before = span.end;
        }
        assert!(of_stage.last().unwrap().iter().sum::<i64>() >= 0);
    }
}

/// The causes of `run`, which `simulation` replays.
fn of_replay(simulation: &Simulation<'_>, run: &Run) -> Causes {
    let actual = Metrics::of(&run.timeline);
    let causes = simulation.causes(run, None).unwrap();
    assert_eq!(causes.cost, actual.span());
    assert_exact(&causes, &actual.stages.iter().map(|stage| stage.busy).collect::<Vec<_>>());
    let gaps = simulation.gaps(run, None).unwrap();
    assert_gaps(&gaps, &causes, run, |_| 0);
    assert_eq!(simulation.causes_and_gaps(run, None).unwrap(), (causes.clone(), gaps));
    causes
}

/// The causes of a replay of `schedule` without noise.
fn of_schedule(schedule: &Schedule, costs: &Costs) -> Causes {
    let nothing = Footprints::uniform(schedule.shape(), Footprint::default());
    let simulation = Simulation::new(schedule, costs, &nothing);
    of_replay(&simulation, &simulation.record(None).unwrap())
}

/// The causes of the last step of `run` on the hardware of `bench`, under `noise` if it is, unless a run
/// without one of them gets stuck.
pub(crate) fn of_engine(bench: &Bench, noise: Option<&Stragglers>, run: &Run) -> Option<Causes> {
    let runs = EngineRuns::default();
    let simulation = bench.simulation().under(noise).counted_by(&runs);
    let nominal = bench.try_run().ok()?;
    let causes = simulation.causes(run, Some(&nominal)).ok()?;
    let removed = runs.count();
    assert!(removed <= 5, "a run for each cause that can be taken away but noise");
    assert_eq!(simulation.causes(run, None).as_ref(), Ok(&causes));
    assert_eq!(runs.count(), 2 * removed + u64::from(noise.is_some()));
    let last = bench.hardware.steps - 1;
    assert_eq!(causes.cost, run.step_length(last));
    assert_eq!(causes.optimizer, bench.hardware.boundary.optimizer);
    let metrics = run.metrics(last);
    assert_exact(&causes, &metrics.stages.iter().map(|stage| stage.busy).collect::<Vec<_>>());
    let slots = |stage: usize| run.timeline.stages[stage].len() / bench.hardware.steps as usize;
    let (same, gaps) = simulation.causes_and_gaps(run, Some(&nominal)).unwrap();
    assert_eq!((&same, runs.count()), (&causes, 3 * removed + u64::from(noise.is_some())));
    assert_gaps(&gaps, &causes, run, |stage| last as usize * slots(stage));
    Some(causes)
}

pub(crate) fn explained(bench: &Bench) -> Causes {
    of_engine(bench, None, &bench.run()).unwrap()
}

/// Asserts that every link was set off by the one before it.
fn assert_chain(waits: &Waits<'_>) {
    let stages = &waits.run().timeline.stages;
    let links = waits.critical_path().links;
    let end = stages.iter().flatten().map(|span| span.end).max().unwrap();
    assert_eq!(links.last().unwrap().span.end, end);
    let first = links[0];
    assert!(first.after.is_none());
    assert!(first.span.start == Nanos(0) || first.wait == Wait::Boundary, "{first:?}");
    for pair in links.windows(2) {
        let [Link { stage, at, span: before, .. }, Link { span, wait, after, .. }] = pair else {
            unreachable!()
        };
        assert_eq!(*after, Some((*stage, *at)));
        match wait {
            Wait::Order | Wait::Device => assert_eq!(span.start, before.end, "{pair:?}"),
            Wait::Value(one) | Wait::Sending(one) => {
                assert_eq!((one.made, one.end), (before.end, span.start), "{pair:?}");
            }
            Wait::Collective(one) => {
                assert_eq!((one.made, one.end, one.last), (before.end, span.start, *stage));
            }
            Wait::HostCopy(copy) => {
                assert!(before.end <= copy.out[0] && copy.back[1] == span.start);
            }
            Wait::HostRoom(copy) => assert!(before.end <= copy.out[0] && copy.out[1] == span.start),
            Wait::Parameters(one) => assert_eq!(one.end, span.start, "{pair:?}"),
            Wait::Nothing | Wait::Boundary => panic!("{pair:?}"),
        }
    }
    let summary = waits.critical_path().summary(stages.len());
    let passes = summary.passes.iter().map(|time| time.0).sum::<u64>() + summary.pairs.0;
    assert_eq!(summary.begin.0 + passes + summary.transfers.0, summary.end.0);
    assert_eq!(summary.stages.iter().map(|time| time.0).sum::<u64>(), passes);
}

#[test]
fn communication_is_what_free_links_would_save() {
    // F = 10, BW = 30, hop 5. F0 0-10, F1 15-25, BW1 25-55, BW0 60-90: each stage works for 40 of
    // 90. With no hop BW0 ends at 80: 10 of the 50 idle are owed to communication.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10]], 5);
    let causes = of_schedule(&schedule, &costs);
    assert_eq!(of(&causes, Cause::Communication), [10, 10]);
    assert_eq!(of(&causes, Cause::Structure), [40, 40]);
    let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
    let run = unshared(&schedule, timeline, |_, _, _, _| 5);
    let waits = Waits::new(&schedule, &run, &[0, 1]);
    assert_chain(&waits);
    let path = waits.critical_path();
    let stages: Vec<usize> = path.links.iter().map(|link| link.stage).collect();
    assert_eq!(stages, [0, 1, 1, 0]);
    let summary = path.summary(2);
    assert_eq!(summary.passes, [20, 0, 0, 60, 0, 0, 0].map(Nanos));
    assert_eq!((summary.transfers, &summary.stages[..]), (Nanos(10), &[Nanos(40), Nanos(40)][..]));
}

#[test]
fn a_slow_stage_makes_the_other_wait_and_waits_less_itself() {
    // F = 20 on stage 1: F0 0-10, F1 10-30, BW1 30-60, BW0 60-90. Busy 40 and 50, idle 50 and 40.
    // With F = 15 on both: F0 0-15, F1 15-30, BW1 30-60, BW0 60-90. Busy 45, idle 45.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10], [20, 20, 10]], 0);
    let causes = of_schedule(&schedule, &costs);
    assert_eq!(of(&causes, Cause::UnequalStages), [5, -5]);
    assert_eq!(of(&causes, Cause::Structure), [45, 45]);
    assert_eq!(causes.average()[Cause::UnequalStages as usize], 0);
}

#[test]
fn a_straggler_makes_the_other_wait() {
    // Stage 1 at half pace: F0 0-10, F1 10-30, BW1 30-90, BW0 90-120. Idle 80 and 40; without the
    // straggler the step is 80, and both are idle for 40.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10]], 0);
    let mut stragglers = Stragglers::new(2, 1);
    stragglers.slow(Target::Stage(1), 2.0).unwrap();
    let nothing = Footprints::uniform(schedule.shape(), Footprint::default());
    let simulation = Simulation::new(&schedule, &costs, &nothing).under(&stragglers);
    let causes = of_replay(&simulation, &simulation.record(simulation.shown()).unwrap());
    assert_eq!(of(&causes, Cause::Noise), [40, 0]);
}

fn stragglers(devices: &[usize], factor: f64, sigma: f64, stall: u64) -> Stragglers {
    let mut stragglers = Stragglers::on_devices(devices.to_vec(), 7);
    stragglers.slow(Target::Stage(0), factor).unwrap();
    stragglers.jitter_passes(Jitter::log_normal(sigma).unwrap());
    stragglers.jitter_hops(Jitter::log_normal(sigma).unwrap());
    stragglers.stall(0.05, Nanos(stall)).unwrap();
    stragglers
}

fn family() -> impl Strategy<Value = Family> {
    (0..Family::ALL.len()).prop_map(|which| Family::ALL[which])
}

fn chunk_times() -> impl Strategy<Value = Vec<[u64; 3]>> {
    prop::collection::vec([0..50u64, 0..50u64, 0..50u64], 1..16)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn replays_are_explained_to_the_nanosecond(
        family in family(),
        shape in [1..8u64, 1..20u64],
        chunk_times in chunk_times(),
        hop in 0..30u64,
        noise in proptest::option::of((0.5..3.0f64, 0.0..0.3f64, 0..100u64)),
    ) {
        let Some((schedule, costs)) = question(family, shape, &chunk_times, hop) else {
            return Ok(());
        };
        let devices: Vec<usize> = (0..schedule.shape().stages()).collect();
        let nothing = Footprints::uniform(schedule.shape(), Footprint::default());
        let noise = noise
            .map(|(factor, sigma, stall)| stragglers(&devices, factor, sigma, stall));
        let simulation = Simulation::new(&schedule, &costs, &nothing).under(noise.as_ref());
        let timed_run = simulation.record(simulation.shown()).unwrap();
        prop_assert_eq!(&timed_run.timeline, &simulation.timeline(simulation.shown()).unwrap());
        let causes = of_replay(&simulation, &timed_run);
        if noise.is_none() {
            prop_assert!(of(&causes, Cause::Noise).iter().all(|&share| share == 0));
        }
        assert_chain(&Waits::new(&schedule, &timed_run, &devices));
    }
}

#[test]
fn contention_is_what_a_transfer_takes_longer_than_alone() {
    // F = 1, BW = 1, 10 bytes on one wire. F0.0 0-1, F0.1 1-2; their outputs share the wire from 2
    // on: the first, with 9 bytes left then, is there at 20, the second at 21. F1 20-22, BW1
    // 22-24, gradients likewise at 42 and 43, BW0 42-44. Alone: outputs at 11 and 12, F1 11-13,
    // BW1 13-15, gradients at 24 and 25, BW0 24-26. At once: F1 1-3, BW1 3-5, BW0 4-6.
    let (schedule, costs) = question(Family::GPipe, [2, 2], &[[1, 1, 0]], 0).unwrap();
    let bench = Bench::ideal(schedule, costs).on(nodes(1, 1), &Seating::Contiguous, 10);
    let causes = explained(&bench);
    assert_eq!(causes.cost, Nanos(44));
    assert_eq!(of(&causes, Cause::SharedLinks), [18, 18]);
    assert_eq!(of(&causes, Cause::Communication), [20, 20]);
    assert_eq!(of(&causes, Cause::Structure), [2, 2]);
    assert_chain(&Waits::new(&bench.schedule, &bench.run(), bench.hardware.seats.devices()));
}

/// ZB-H2 with F = B = W = 10 over 4 stages: 240 busy, span 240, makespan 270.
pub(crate) fn zb_h2(synchronisation: Synchronisation, steps: u32) -> Bench {
    let mut bench = Bench::family(Family::ZbH2, [4, 1, 8], [10, 10, 10], 0);
    let (exchange, optimizer) = (Nanos(3), Nanos(5));
    bench.hardware.boundary =
        Boundary { synchronisation, exchange, optimizer, ..Boundary::default() };
    bench.hardware.steps = steps;
    bench
}

#[test]
fn a_barrier_costs_what_the_step_is_longer_than_a_span_and_the_optimizer() {
    // 270 + 3 + 5 at a barrier, 240 + 5 without.
    for steps in 1..4 {
        let causes = explained(&zb_h2(Synchronisation::Barrier, steps));
        assert_eq!((causes.cost, causes.optimizer), (Nanos(278), Nanos(5)));
        assert_eq!(of(&causes, Cause::Synchronisation), [33; 4]);
        assert_eq!(of(&causes, Cause::Structure), [0; 4]);
        let free = explained(&zb_h2(Synchronisation::Asynchronous, 3));
        assert_eq!(causes.cost - Nanos(33), free.cost);
        assert_eq!(of(&free, Cause::Synchronisation), [0; 4]);
    }
}

#[test]
fn room_that_a_pass_of_no_length_leaves_is_what_was_waited_for() {
    // Stages 0 and 2 share a device with room for 30 bytes: two microbatches of stage 0 and one of
    // stage 2, whose next one must wait for B0.0, which takes no time and frees 10.
    let order = "F0.0 F0.1 B0.0 B0.1 W0.0 W0.1\nF1.0 F1.1 B1.0 B1.1 W1.0 W1.1\n\
                 F2.0 B2.0 F2.1 B2.1 W2.0 W2.1\n";
    let schedule: Schedule = order.parse().unwrap();
    let times = [[10, 0, 10], [10, 20, 10], [10, 20, 10]].map(bench::times).to_vec();
    let bench = Bench::ideal(schedule, Costs::new(times, Nanos(0)));
    let mut bench = bench.on(nodes(2, 1), &Seating::Explicit(vec![0, 1, 0]), 3);
    let held = |until_backward, until_weight| Footprint {
        until_backward: Bytes(until_backward),
        until_weight: Bytes(until_weight),
    };
    bench.footprints = Footprints::new(vec![held(10, 0), held(1, 1), held(10, 10)]);
    let bench = bench.with_room(30);
    let run = bench.run();
    let waits = Waits::new(&bench.schedule, &run, bench.hardware.seats.devices());
    let link = waits.link(2, 2);
    assert_eq!(link.span.start, run.timeline.stages[0][2].end);
    assert_eq!((link.wait, link.after), (Wait::Device, Some((0, 2))));
    assert_chain(&waits);
}

#[test]
fn a_failed_validation_is_synchronisation() {
    // Stage 0 may go on at 291 where step 0 fails, see the tests of the boundary: of that 240 are
    // passes, 5 the optimizer, and 46 the wait for the value, the rollback and the second step.
    let failing = |failing| Synchronisation::PostValidation { failing, rollback: Nanos(7) };
    let causes = explained(&zb_h2(failing(vec![0]), 1));
    assert_eq!(causes.cost, Nanos(291));
    assert_eq!(of(&causes, Cause::Synchronisation), [46; 4]);
    // In the steady state the partial state is always there before it is needed.
    let causes = explained(&zb_h2(failing(vec![]), 3));
    assert_eq!((causes.cost, of(&causes, Cause::Synchronisation)), (Nanos(245), vec![0; 4]));
}

#[test]
fn exposed_gradient_reduction_is_communication() {
    let mut bench = zb_h2(Synchronisation::Asynchronous, 1);
    bench.hardware.boundary.reduction = GradientReduction { time: Nanos(40), overlapped: false };
    let causes = explained(&bench);
    assert_eq!(of(&causes, Cause::Communication), [40; 4]);
    assert_eq!(of(&causes, Cause::Structure), [0; 4]);
}

proptest! {
    #![proptest_config(cases(250))]

    /// Every family on random clusters, seats, ways to communicate, memory and boundaries.
    #[test]
    fn runs_on_clusters_are_explained_to_the_nanosecond(
        numbers in prop::collection::vec(any::<u64>(), 40),
        offload in proptest::option::of((100..900u32, 0..4u32, proptest::option::of(0..3u32))),
        noise in proptest::option::of((0.5..3.0f64, 0.0..0.3f64, 0..100u64)),
    ) {
        let Some(mut bench) = machine::question(&numbers) else { return Ok(()) };
        if let Some((per_mille, ahead, max_inflight)) = offload {
            bench = bench.offloaded_within(per_mille, ahead, max_inflight);
        }
        let noise = noise.map(|(factor, sigma, stall)| {
            stragglers(bench.hardware.seats.devices(), factor, sigma, stall)
        });
        let simulation = bench.simulation().under(noise.as_ref());
        let run = simulation.record(simulation.shown());
        let Ok(run) = run else { return Ok(()) };
        assert_chain(&Waits::new(&bench.schedule, &run, bench.hardware.seats.devices()));
        of_engine(&bench, noise.as_ref(), &run);
    }
}

/// B0.0 takes no time and waits for its activation; what it leaves lets a pass of the other stage of its device begin.
#[test]
fn a_copy_that_a_pass_of_no_length_waits_for_sets_others_off() {
    let numbers = [
        148_482_102_525_301_942,
        2_432_935_816_152_135_564,
        1_350_728_362_715_350_903,
        9_808_456_581_170_337_963,
        2_305_846_449_522_746_263,
        8_712_671_952_546_223_994,
        325_100_882_977_669_590,
        0,
        0,
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        1_589_041_650_416_566_296,
        12_296_123_034_910_824_844,
        18_126_666_958_388_393_929,
        14_905_229_449_674_904_113,
        11_470_879_093_867_857_715,
        10_488_002_728_509_726_287,
        15_436_770_818_192_059_452,
        10_248_592_549_347_837_561,
        11_663_200_571_203_078_124,
        8_075_005_674_370_777_765,
        4_322_689_693_418_652_473,
        849_667_809_976_859_509,
        155_542_631_197_710_911,
        434_150_701_322_797_558,
        8_926_192_652_985_459_626,
        1_524_571_928_326_435_650,
        5_931_861_452_026_448_679,
        5_108_170_298_562_877_668,
        14_624_728_455_501_297_896,
        6_413_732_610_375_445_506,
        629_494_688_344_738_757,
        8_566_630_345_116_952_290,
        102_001_203_463_594_721,
        6_017_816_037_191_560_743,
    ];
    let bench = machine::question(&numbers).unwrap().offloaded(291, 1);
    let run = bench.run();
    assert_chain(&Waits::new(&bench.schedule, &run, bench.hardware.seats.devices()));
}
