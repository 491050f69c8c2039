//! Synthetic measurements whose cause is known.

use std::num::NonZeroU32;

use pipeline::{
    Collectives, CopyTimes, Costs, Family, Hops, Measurement, Nanos, Pass, PassTimes, Problem,
    Schedule, Shape, ShardTimes, Slot, Step, Timeline, Value,
};
use proptest::prelude::*;
use sim::contention::Contention;
use sim::timed::{self, Timing};

use super::split::{Replaced, TimelinePart};
use super::{Comparison, report};
use crate::timelines::{Recorded, Source};

const F: Nanos = Nanos(10_000_000);
const HOP: Nanos = Nanos(400_000);

/// The deviations from the costs: durations in percent more, hops times so many, delays before
/// every slot, and how much of them varies.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) slower_percent: u64,
    pub(crate) hops_more: u64,
    pub(crate) delay: u64,
    pub(crate) jitter: u64,
    pub(crate) seed: u64,
}

struct Device<'a> {
    costs: &'a Costs,
    faults: Faults,
}

impl Device<'_> {
    fn jitter(&self, key: u64) -> u64 {
        let mixed = (key ^ self.faults.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) % (self.faults.jitter + 1)
    }

    fn work(&self, pass: Pass) -> u64 {
        let key = u64::from(pass.chunk) << 40 | u64::from(pass.microbatch) << 4 | pass.kind as u64;
        let nominal = self.costs.of(pass).0;
        nominal + nominal * self.faults.slower_percent / 100 + self.jitter(key)
    }

    fn delay(&self, pass: Pass) -> u64 {
        self.faults.delay + self.jitter(u64::from(pass.microbatch) + 77)
    }
}

impl Timing for Device<'_> {
    fn duration(&self, _: usize, pass: Pass, _: u64) -> u64 {
        self.delay(pass) + self.work(pass)
    }

    fn hop(&self, value: Value, _: usize, _: usize, _: u64) -> u64 {
        let jitter = self.jitter(u64::from(value.microbatch()) << 20 | 5);
        self.costs.hops().longest().0 * (1 + self.faults.hops_more) + jitter
    }

    fn collective(&self, value: Value, start: u64) -> u64 {
        self.hop(value, 0, 0, start)
    }
}

/// A step of `schedule` on a device with `faults`.
fn step(schedule: &Schedule, costs: &Costs, faults: Faults) -> Step {
    let device = Device { costs, faults };
    let mut timeline = timed::timeline(schedule, &device);
    for span in timeline.stages.iter_mut().flatten() {
        let work: u64 = span.slot.passes().map(|pass| device.work(pass)).sum();
        span.start = span.end - Nanos(work);
    }
    measured(schedule, &timeline, |value| device.hop(value, 0, 0, 0))
}

/// The step that ran as `timeline` says, its values so long on their way.
fn measured(schedule: &Schedule, timeline: &Timeline, hop: impl Fn(Value) -> u64) -> Step {
    let place = (schedule.shape(), schedule.placement());
    let made = |value: Value| {
        let makes = |slot: Slot| slot.passes().any(|pass| pass.makes() == Some(value));
        let makers = timeline.stages.iter().flatten().filter(|span| makes(span.slot));
        makers.map(|span| span.end).max().unwrap()
    };
    let stage = |(stage, spans): (usize, &Vec<pipeline::Span>)| {
        let slot = |span: &pipeline::Span| {
            let needs = span.slot.received(place, stage);
            let arrivals = needs.map(|value| (value, made(value) + Nanos(hop(value))));
            let arrived = arrivals.max_by_key(|&(_, at)| at);
            Measurement { slot: span.slot, arrived, start: span.start, end: span.end }
        };
        spans.iter().map(slot).collect::<Vec<_>>()
    };
    let stages: Vec<Vec<Measurement>> = timeline.stages.iter().enumerate().map(stage).collect();
    let ends = stages.iter().map(|slots| slots.last().unwrap().end).collect();
    Step { stages, ends, ..Step::default() }
}

/// A run of `family`, which does such a shape.
pub(crate) fn recorded(family: Family, shape: Shape, faults: Faults) -> Recorded {
    try_recorded(family, shape, faults).unwrap()
}

/// A run of `family`, if it does such a shape.
fn try_recorded(family: Family, shape: Shape, faults: Faults) -> Option<Recorded> {
    let times = PassTimes::new(F, F, F);
    let copies = vec![CopyTimes { out: F, back: F }; usize::from(shape.chunks())];
    let shards = vec![ShardTimes { before: F, after: F }; shape.stages()];
    let collectives = Collectives { broadcast: HOP, statistics: HOP, hidden_gradient: HOP };
    let costs = Costs::uniform(shape, times, HOP).with_copies(copies);
    let problem = Problem::new(shape, costs.with_shards(shards, collectives)).unwrap();
    let schedule = family.schedule(&problem).ok()?;
    Some(Recorded {
        source: Source::Measured,
        name: family.name().to_owned(),
        device: "a test".to_owned(),
        costs: Some(problem.costs().clone()),
        steps: vec![step(&schedule, problem.costs(), faults)],
        schedule,
        facts: None,
    })
}

/// Chunks per stage that `family` works with; 2 where it takes any.
fn chunks(family: Family) -> u64 {
    family.about().chunks.of(Some(2))
}

/// Four stages of `family` with eight microbatches, or as many as it needs.
pub(crate) fn shape_of(family: Family) -> Shape {
    let microbatches = if family == Family::Stp { 11 } else { 8 };
    Shape::new(4, chunks(family), microbatches).unwrap()
}

fn span(comparison: &Comparison<'_>, part: TimelinePart) -> i64 {
    comparison.shares.iter().find(|(one, _)| *one == part).unwrap().1.span
}

fn shape() -> Shape {
    Shape::new(4, 1, 8).unwrap()
}

#[test]
fn a_timeline_and_itself_differ_in_nothing() {
    for family in Family::ALL {
        let one = recorded(family, shape_of(family), Faults::default());
        let comparison = Comparison::of(&one, &one).unwrap();
        assert_eq!(comparison.total.span, 0);
        assert!(comparison.shares.iter().all(|(_, share)| *share == comparison.total));
        assert!(comparison.waits.is_empty() && comparison.error() == 0.0);
        assert!(comparison.passes.iter().all(|one| one.predicted == one.measured));
    }
}

#[test]
fn each_cause_is_given_what_it_costs() {
    let predicted = recorded(Family::OneFOneB, shape(), Faults::default());
    let cases = [
        (TimelinePart::Kernels, Faults { slower_percent: 10, ..Faults::default() }),
        (TimelinePart::Transfers, Faults { hops_more: 1, ..Faults::default() }),
        (TimelinePart::Overhead, Faults { delay: 50_000, ..Faults::default() }),
    ];
    for (part, faults) in cases {
        let measured = recorded(Family::OneFOneB, shape(), faults);
        let comparison = Comparison::of(&predicted, &measured).unwrap();
        assert!(comparison.total.span > 0);
        for &(other, share) in &comparison.shares {
            let whole = other == part;
            assert_eq!(share.span, if whole { comparison.total.span } else { 0 }, "{other:?}");
            assert_eq!(share.makespan, if whole { comparison.total.makespan } else { 0 });
            assert_eq!(share.idle, if whole { comparison.total.idle } else { 0 });
        }
    }
    // By the closed form: m (F+B+W) + (p-1)(F+B+W) of work, K = 2(p-1)m/p + 2(p-2) hops.
    let slow = recorded(Family::OneFOneB, shape(), cases[0].1);
    assert_eq!(
        span(&Comparison::of(&predicted, &slow).unwrap(), TimelinePart::Kernels),
        33_000_000
    );
    let far = recorded(Family::OneFOneB, shape(), cases[1].1);
    assert_eq!(
        span(&Comparison::of(&predicted, &far).unwrap(), TimelinePart::Transfers),
        16 * 400_000
    );
}

#[test]
fn another_order_is_the_order_s_share() {
    let predicted = recorded(Family::ZbH1, shape(), Faults::default());
    let measured = recorded(Family::ZbH2, shape(), Faults::default());
    let comparison = Comparison::of(&predicted, &measured).unwrap();
    assert_eq!(span(&comparison, TimelinePart::Order), comparison.total.span);
    assert!(comparison.total.span < 0);
}

#[test]
fn foreign_schedules_are_refused_by_name() {
    let one = recorded(Family::ZbH1, shape(), Faults::default());
    let fault = |other: &Recorded| Comparison::of(&one, other).err().unwrap().to_string();
    let other = fault(&recorded(Family::OneFOneB, shape(), Faults::default()));
    assert!(other.contains("zb-h1") && other.contains("1f1b") && other.contains("B0.0"), "{other}");
    let other = fault(&recorded(Family::ZbH1, Shape::new(3, 1, 8).unwrap(), Faults::default()));
    assert!(other.contains("p = 3") && other.contains("not of the same pipeline"), "{other}");
}

#[test]
fn a_pass_before_its_need_is_refused() {
    let one = recorded(Family::OneFOneB, shape(), Faults::default());
    let mut torn = one.clone();
    let slot = &mut torn.steps[0].stages[3][0];
    (slot.start, slot.end) = (Nanos(0), Nanos(1));
    let message = Comparison::of(&one, &torn).err().unwrap().to_string();
    assert!(message.contains("measured") && message.contains("F3.0"), "{message}");
}

#[test]
fn clocks_that_disagree_a_little_are_no_obstacle() {
    let one = recorded(Family::OneFOneB, shape(), Faults::default());
    let mut skewed = one.clone();
    for slot in &mut skewed.steps[0].stages[2] {
        let early = |time: Nanos| time - Nanos(450_000);
        (slot.start, slot.end) = (early(slot.start), early(slot.end));
        slot.arrived = slot.arrived.map(|(value, at)| (value, early(at)));
    }
    let comparison = Comparison::of(&one, &skewed).unwrap();
    let sum: i64 = comparison.shares.iter().map(|(_, share)| share.makespan).sum();
    assert_eq!(sum, comparison.total.makespan);
}

#[test]
fn the_step_with_the_median_makespan_is_compared() {
    let mut one = recorded(Family::ZbH1, shape(), Faults::default());
    let step = |percent: u64| {
        let faults = Faults { slower_percent: percent, ..Faults::default() };
        recorded(Family::ZbH1, shape(), faults).steps.remove(0)
    };
    one.steps = [30, 10, 20, 40].map(step).into();
    assert_eq!(one.chosen(), 2);
    one.steps.pop();
    assert_eq!(one.chosen(), 2);
    let text = format!("{:?}", report::sheet(&Comparison::of(&one, &one).unwrap()));
    assert!(text.contains("compared") && text.contains("measured step"), "{text}");
}

/// Two slots wait for an output and a gradient at once; only the later one has an arrival.
#[test]
fn pairs_are_replayed_exactly() {
    const TEXT: &str = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1&BW1.0 BW1.1\nF2.0 BW2.0 F2.1 BW2.1\n";
    let schedule: Schedule = TEXT.parse().unwrap();
    let times = PassTimes::new(F, F, F);
    let costs = Costs::uniform(schedule.shape(), times, HOP);
    let steps = [0, 1, 2, 3].map(|seed| {
        let faults = Faults { delay: 9_000, jitter: 30_000_000, seed, ..Faults::default() };
        step(&schedule, &costs, faults)
    });
    for (one, other) in steps.iter().zip(&steps[1..]) {
        let [from, to] = [one, other].map(|step| super::split::Side {
            schedule: &schedule,
            step,
            hops: costs.hops(),
        });
        let Replaced { predicted, parts } = super::split::between(from, to, None).unwrap();
        assert!(same(&predicted, one) && same(&parts[3].1, other));
    }
}

fn same(timeline: &Timeline, step: &Step) -> bool {
    *timeline == step.timeline()
}

/// Stages that slow each other by 30 % where all are busy, and nothing else that differs.
fn slowed(family: Family, shape: Shape) -> [Recorded; 3] {
    let predicted = recorded(family, shape, Faults::default());
    let slower = Faults { slower_percent: 30, ..Faults::default() };
    let beside = recorded(family, shape, slower);
    let alone = predicted.costs.as_ref().unwrap();
    let time = Nanos(F.0 * 13 / 10);
    let times = PassTimes::new(time, time, time);
    let costs = alone.clone().with_chunks(vec![times; usize::from(shape.chunks())]);
    let neighbours = NonZeroU32::new(u32::try_from(shape.stages()).unwrap() - 1).unwrap();
    let contention = Contention { alone, beside: &costs, neighbours };
    let timeline = contention.timeline(&predicted.schedule).unwrap();
    let step = measured(&predicted.schedule, &timeline, |_| HOP.0);
    let measured = Recorded { steps: vec![step], ..predicted.clone() };
    [predicted, beside, measured]
}

#[test]
fn what_neighbours_cost_is_a_part_of_kernels() {
    for family in [Family::GPipe, Family::OneFOneB, Family::ZbH1] {
        let [predicted, beside, measured] = slowed(family, shape());
        let plain = Comparison::of(&predicted, &measured).unwrap();
        let cut = Comparison::beside(&predicted, &measured, &beside).unwrap();
        assert_eq!((cut.shares.len(), plain.shares.len()), (5, 4));
        let [neighbours, kernels] =
            [TimelinePart::Neighbours, TimelinePart::Kernels].map(|part| span(&cut, part));
        assert_eq!(neighbours + kernels, span(&plain, TimelinePart::Kernels));
        assert_eq!(span(&plain, TimelinePart::Kernels), plain.total.span);
        // By the mean of busy neighbours, not moment by moment: off by little.
        assert!(kernels.abs() * 50 < cut.total.span, "{neighbours} and {kernels}");
        let text = format!("{:?}", report::sheet(&cut));
        assert!(text.contains("% of the difference of +") && text.contains("beside: "), "{text}");
        let text = format!("{:?}", report::sheet(&plain));
        assert!(!text.contains("neighbours") && !text.contains("beside: "), "{text}");
    }
}

#[test]
fn neighbours_cost_nothing_where_none_is_busy() {
    // One stage has no neighbours; a pass by itself none that is busy.
    for shape in [Shape::new(1, 1, 8).unwrap(), Shape::new(3, 1, 1).unwrap()] {
        let predicted = recorded(Family::OneFOneB, shape, Faults::default());
        let slower = |slower_percent| Faults { slower_percent, ..Faults::default() };
        let [measured, beside] =
            [10, 50].map(|percent| recorded(Family::OneFOneB, shape, slower(percent)));
        let comparison = Comparison::beside(&predicted, &measured, &beside).unwrap();
        assert_eq!(span(&comparison, TimelinePart::Neighbours), 0);
        assert_eq!(span(&comparison, TimelinePart::Kernels), comparison.total.span);
        let text = format!("{:?}", report::sheet(&comparison));
        assert!(text.contains("neighbours: 0 % of the difference"), "{text}");
        let same = Comparison::beside(&predicted, &predicted, &beside).unwrap();
        let text = format!("{:?}", report::sheet(&same));
        assert!(text.contains("neighbours: the spans do not differ"), "{text}");
    }
}

#[test]
fn a_prediction_beside_neighbours_of_something_else_is_refused() {
    let one = recorded(Family::ZbH1, shape(), Faults::default());
    let fault = |other: &Recorded| Comparison::beside(&one, &one, other).err().unwrap().to_string();
    let other = fault(&recorded(Family::OneFOneB, shape(), Faults::default()));
    assert!(other.contains("only the predicted one has B0.0"), "{other}");
    let other = fault(&recorded(Family::ZbH1, Shape::new(3, 1, 8).unwrap(), Faults::default()));
    assert!(other.contains("p = 3") && other.contains("not of the same pipeline"), "{other}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// For any run of the device, the replays begin and end with the timelines themselves, so the parts
    /// add up.
    #[test]
    fn the_parts_add_up_to_the_nanosecond(
        stages in 1..6u64,
        rounds in 2..4u64,
        family in prop::sample::select(&Family::ALL[..]),
        faults in (0..40u64, 0..4u64, 0..90_000u64, 0..3_000_000u64, any::<u64>()),
        seed: u64,
    ) {
        let shape = Shape::new(stages, chunks(family), rounds * stages);
        let (slower_percent, hops_more, delay, jitter, with) = faults;
        let faults = Faults { slower_percent, hops_more, delay, jitter, seed: with };
        let shape = shape.unwrap();
        let noisy = Faults { jitter: 90_000, seed, ..Faults::default() };
        let Some(predicted) = try_recorded(family, shape, noisy) else { return Ok(()) };
        let measured = recorded(family, shape, faults);
        let (from, to) = (&predicted, &measured);
        let hops = Hops::alike(HOP);
        let [one, other] = [from, to].map(|one| super::split::Side {
            schedule: &one.schedule, step: &one.steps[0], hops: &hops,
        });
        let replaced = super::split::between(one, other, None).unwrap();
        prop_assert!(same(&replaced.predicted, &from.steps[0]));
        prop_assert!(same(&replaced.parts[3].1, &to.steps[0]));
        let comparison = Comparison::of(from, to).unwrap();
        let sum = |of: fn(&super::Share) -> i64| {
            comparison.shares.iter().map(|(_, share)| of(share)).sum::<i64>()
        };
        prop_assert_eq!(sum(|share| share.span), comparison.total.span);
        prop_assert_eq!(sum(|share| share.makespan), comparison.total.makespan);
        prop_assert_eq!(sum(|share| share.idle), comparison.total.idle);
        let beside = recorded(family, shape, Faults { slower_percent: 60, ..noisy });
        let cut = Comparison::beside(from, to, &beside).unwrap();
        let sum = |of: fn(&super::Share) -> i64| {
            cut.shares.iter().map(|(_, share)| of(share)).sum::<i64>()
        };
        prop_assert_eq!(sum(|share| share.span), cut.total.span);
        prop_assert_eq!(sum(|share| share.idle), cut.total.idle);
        prop_assert_eq!(cut.shares.last(), comparison.shares.last());
        let rates: f64 = comparison.shares.iter().map(|(_, share)| share.bubble_rate).sum();
        prop_assert!((rates - comparison.total.bubble_rate).abs() < 1e-12);
    }
}
