use pipeline::overlap::{Chain, Contention, Layer, Overlap, Rule, Segment, Stream, WeightSegment};
use pipeline::{Costs, Family, Footprint, Footprints, Nanos, Problem, Schedule, Shape};
use proptest::prelude::*;

use super::*;
use crate::cluster::{Cluster, Seating, Seats};
use crate::explain::{Cause, Causes};
use crate::straggler::{Jitter, Stragglers};
use crate::{Hardware, Replay, Simulation};

const FAMILIES: [(Family, u64); 5] = [
    (Family::OneFOneB, 1),
    (Family::ZbV, 2),
    (Family::DualPipe, 1),
    (Family::OneFOneBOverlap, 1),
    (Family::InterleavedOverlap, 2),
];

/// A question of random chains: its order and its costs.
#[derive(Clone, Debug)]
struct Question {
    schedule: Schedule,
    costs: Costs,
}

fn segment(name: &str, time: u64, contention: Contention) -> Segment {
    let (named, time) = (name.parse().unwrap(), Nanos(time));
    match name {
        "dispatch" | "combine" => Segment::communication(named, time).under(contention),
        _ => Segment::compute(named, time),
    }
}

/// A layer of experts with these times of F, B and W in the order of F.
fn layer(times: [u64; 10], contention: Contention) -> Layer {
    const NAMES: [&str; 4] = ["attention", "dispatch", "experts", "combine"];
    let of = |at: usize, time: u64| segment(NAMES[at], time, contention);
    let weight =
        |at: usize, behind: usize, time: u64| WeightSegment { segment: of(at, time), behind };
    Layer {
        forward: (0..4).map(|at| of(at, times[at])).collect(),
        backward: (0..4).rev().map(|at| of(at, times[4 + at])).collect(),
        weight: vec![weight(2, 1, times[8]), weight(0, 3, times[9])],
    }
}

fn contention() -> impl Strategy<Value = Contention> {
    let random = (0u64..=500, 1000u64..=2000)
        .prop_map(|(hold, slow)| Contention::new(hold, slow).unwrap_or(Contention::NONE));
    prop_oneof![Just(Contention::NONE), random]
}

fn questions(contention: impl Strategy<Value = Contention>) -> impl Strategy<Value = Question> {
    let time = || prop_oneof![1 => Just(0u64), 6 => 1u64..1000];
    let times = prop::array::uniform10(time());
    let chunks = prop::collection::vec(prop::collection::vec(times, 1..3), 8);
    let rule = (any::<bool>(), prop_oneof![Just("published"), Just("none"), Just("best")]);
    (0..FAMILIES.len(), 0..2u64, chunks, contention, rule, 0u64..500).prop_map(
        |(family, more, chunks, contention, (lone, interleaving), hop)| {
            let (family, per_stage) = FAMILIES[family];
            let shape = Shape::new(4, per_stage, 8 + 4 * more).unwrap();
            let chunks = chunks.into_iter().take(usize::from(shape.chunks()));
            let chains = chunks.map(|layers| {
                let layers = layers.into_iter().map(|times| (layer(times, contention), 1));
                Chain::new(Layer::default(), layers.collect(), Layer::default()).unwrap()
            });
            let rule =
                Rule { interleaving: interleaving.parse().unwrap(), lone, ..Rule::default() };
            let overlap = Overlap::new(chains.collect(), rule).unwrap();
            let costs = Costs::overlapped(overlap, Nanos(hop));
            let problem = Problem::new(shape, costs.clone()).unwrap();
            Question { schedule: family.schedule(&problem).unwrap(), costs }
        },
    )
}

fn nothing(schedule: &Schedule) -> Footprints {
    Footprints::uniform(schedule.shape(), Footprint::default())
}

/// The causes of replica 0, checked: they add up to what is idle and what is exposed, over all gaps and
/// slots too, and the streams to what the stage is busy.
fn explained(simulation: &Simulation<'_>) -> Causes {
    let run = simulation.record(simulation.shown()).unwrap();
    let (causes, gaps) = simulation.causes_and_gaps(&run, None).unwrap();
    assert_eq!(simulation.causes(&run, None).unwrap(), causes);
    let streams = causes.streams.clone().unwrap();
    for (stage, times) in streams.iter().enumerate() {
        assert_eq!(times.busy, causes.busy[stage]);
        assert_eq!(times.computing + times.exposed, times.busy);
        assert!(times.exposed <= times.communicating && times.stretched <= times.computing);
        let idle = causes.cost - times.busy;
        let sum: i64 = causes.idle[stage].iter().sum();
        assert_eq!(sum, i64::try_from((idle + times.exposed).0).unwrap());
        assert_eq!(gaps.of_stage(stage), causes.idle[stage]);
        let lengths: i64 = gaps.stages[stage].iter().flatten().sum();
        assert_eq!(lengths, i64::try_from(idle.0).unwrap());
        let in_slots: i64 = gaps.in_slots[stage].iter().sum();
        assert_eq!(in_slots, i64::try_from(times.exposed.0).unwrap());
    }
    causes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn causes_add_up_to_what_is_idle_and_what_is_exposed(question in questions(contention())) {
        let Question { schedule, costs } = &question;
        let nothing = nothing(schedule);
        let replayed = explained(&Simulation::new(schedule, costs, &nothing));
        let cluster = Cluster::linked(4, costs.hops().clone());
        let seats = Seats::new(&cluster, 4, &Seating::Contiguous).unwrap();
        let hardware = Hardware::new(cluster, seats);
        let engine = explained(&Simulation::new(schedule, costs, &nothing).on(&hardware));
        prop_assert_eq!(replayed.streams, engine.streams);
        let mut noise = Stragglers::new(4, 7);
        noise.jitter_passes(Jitter::log_normal(0.1).unwrap());
        explained(&Simulation::new(schedule, costs, &nothing).under(&noise));
    }

    #[test]
    fn what_is_not_hidden_goes_with_the_communication_of_segments(question in questions(contention())) {
        let Question { schedule, costs } = &question;
        let nothing = nothing(schedule);
        let causes = explained(&Simulation::new(schedule, costs, &nothing));
        let quiet = costs.clone().without_segment_communication();
        let without = Replay::new().metrics(schedule, &quiet).unwrap();
        prop_assert_eq!(causes.without[Cause::CommunicationNotHidden as usize], without.span());
        // Once it is gone, the quiet pipeline is explained as if its passes had no segments.
        let plain = Costs::new(quiet.chunks().to_vec(), quiet.hops().longest());
        let simulation = Simulation::new(schedule, &plain, &nothing);
        let plain = simulation.causes(&simulation.record(None).unwrap(), None).unwrap();
        let of = |causes: &Causes, cause: Cause| {
            causes.idle.iter().map(|stage| stage[cause as usize]).collect::<Vec<_>>()
        };
        for cause in [Cause::Communication, Cause::UnequalStages, Cause::Structure] {
            prop_assert_eq!(of(&causes, cause), of(&plain, cause));
        }
        let quiet = explained(&Simulation::new(schedule, &quiet, &nothing));
        prop_assert_eq!(&quiet.idle, &plain.idle);
        prop_assert_eq!(&quiet.without, &plain.without);
        prop_assert!(of(&quiet, Cause::CommunicationNotHidden).iter().all(|&time| time == 0));
    }

    #[test]
    fn lanes_are_as_long_as_their_segments(question in questions(Just(Contention::NONE))) {
        let Question { schedule, costs } = &question;
        let overlap = costs.overlap().unwrap();
        let mut streams = Streams::of(costs).unwrap();
        let timeline = Replay::new().timeline(schedule, costs).unwrap();
        for (order, spans) in schedule.orders().iter().zip(&timeline.stages) {
            let work = |stream| order.slots().map(|slot| overlap.work(slot, stream)).sum::<Nanos>();
            let times = streams.spans(spans);
            prop_assert_eq!(times, streams.order(order));
            prop_assert_eq!(times.computing, work(Stream::Compute));
            prop_assert_eq!(times.communicating, work(Stream::Communication));
            prop_assert_eq!(times.stretched, Nanos(0));
        }
    }

    #[test]
    fn segments_lie_in_their_slots(question in questions(contention()), pace in 1u64..5) {
        let Question { schedule, costs } = &question;
        let mut streams = Streams::of(costs).unwrap();
        let timeline = Replay::new().timeline(schedule, costs).unwrap();
        for span in timeline.stages.iter().flatten() {
            let end = Nanos(span.start.0 + (span.end - span.start).0 * pace / 2);
            let span = Span { end, ..*span };
            let segments = streams.segments(&span);
            prop_assert!(!segments.is_empty());
            for stream in Stream::ALL {
                let mut free = span.start;
                for one in segments.iter().filter(|one| one.segment.stream == stream) {
                    prop_assert!(free <= one.start && one.start <= one.end && one.end <= span.end);
                    free = one.end;
                }
            }
        }
    }
}
