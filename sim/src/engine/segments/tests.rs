use pipeline::overlap::{
    Chain, Contention, Interleaving, Layer, Overlap, Rule, Segment, Stream, WeightSegment, Weights,
};
use pipeline::{
    Bandwidth, Bytes, Costs, Family, Footprint, Footprints, Nanos, Problem, Schedule, Shape,
};
use proptest::prelude::*;

use crate::cluster::{Cluster, ClusterSpec, Inter, Intra, Seating, Seats};
use crate::engine::{NominalDurations, Run, run};
use crate::straggler::{Jitter, Stragglers};
use crate::{ExpertGroup, Hardware, Replay, Sharing, Simulation};

/// A layer: times of attention and experts for F, B and W in nanoseconds, and bytes of dispatch and combine for F and B.
#[derive(Clone, Copy, Debug)]
struct LayerSpec {
    compute: [[u64; 3]; 2],
    bytes: [[u64; 2]; 2],
}

fn layer_specs() -> impl Strategy<Value = LayerSpec> {
    let compute = prop::array::uniform2(prop::array::uniform3(0..60u64));
    let bytes = prop::array::uniform2(prop::array::uniform2(prop_oneof![Just(0), 0..200u64]));
    (compute, bytes).prop_map(|(compute, bytes)| LayerSpec { compute, bytes })
}

/// Nodes of 2 devices with `nics` NICs: a byte takes 1 ns between nodes and half of that within.
fn hardware(nodes: u64, nics: u64, [stages, members]: [u64; 2], latency: u64) -> Hardware {
    let bandwidth = |gb: u64| Bandwidth::new(gb * 1_000_000_000).unwrap();
    let latency = Nanos(latency);
    let cluster = Cluster::new(ClusterSpec {
        nodes,
        devices_per_node: 2,
        memory: None,
        intra: Intra { bandwidth: bandwidth(2), latency },
        inter: Inter { nics, bandwidth: bandwidth(1), latency, oversubscription_percent: 100 },
        host: None,
    })
    .unwrap();
    let seating = if nodes >= stages { Seating::AcrossNodes } else { Seating::Contiguous };
    let stages = usize::try_from(stages).unwrap();
    let seats = Seats::new(&cluster, stages, &seating).unwrap();
    let experts = Some(ExpertGroup::new(&cluster, &seats, members).unwrap());
    Hardware { experts, ..Hardware::new(cluster, seats) }
}

fn layer(spec: LayerSpec, contention: Contention, hardware: &Hardware) -> Layer {
    let LayerSpec { compute: [attention, experts], bytes: [dispatch, combine] } = spec;
    let work = |name: &str, time: u64| Segment::compute(name.parse().unwrap(), Nanos(time));
    let moves = |name: &str, bytes: u64| {
        let time = hardware.all_to_all_time(Bytes(bytes)).unwrap();
        let segment = Segment::communication(name.parse().unwrap(), time).under(contention);
        Segment { bytes: Some(Bytes(bytes)), ..segment }
    };
    let of = |part: usize| {
        [
            work("attention", attention[part]),
            moves("dispatch", dispatch[part]),
            work("experts", experts[part]),
            moves("combine", combine[part]),
        ]
    };
    let weight = [("experts", experts[2], 1), ("attention", attention[2], 3)];
    let weight =
        weight.map(|(name, time, behind)| WeightSegment { segment: work(name, time), behind });
    Layer {
        forward: of(0).into(),
        backward: of(1).into_iter().rev().collect(),
        weight: weight.into(),
    }
}

/// The costs of chunks with `layers` each, over and over, at `rule`; a hop takes one latency.
fn costs(
    shape: Shape,
    layers: &[Vec<LayerSpec>],
    (rule, contention): (Rule, Contention),
    hardware: &Hardware,
) -> Costs {
    let chain = |spec: &Vec<LayerSpec>| {
        let layers = spec.iter().map(|&spec| (layer(spec, contention, hardware), 1));
        Chain::new(Layer::default(), layers.collect(), Layer::default()).unwrap()
    };
    let chains = layers.iter().cycle().take(usize::from(shape.chunks())).map(chain);
    let overlap = Overlap::new(chains.collect(), rule).unwrap();
    Costs::overlapped(overlap, hardware.longest_hop(shape, pipeline::Placement::Looped))
}

fn engine(hardware: &Hardware, schedule: &Schedule, costs: &Costs) -> Run {
    let footprints = Footprints::uniform(schedule.shape(), Footprint::default());
    run(&hardware.job(schedule, costs, &footprints), &NominalDurations).unwrap()
}

const FAMILIES: [Family; 6] = [
    Family::OneFOneB,
    Family::OneFOneBOverlap,
    Family::InterleavedOverlap,
    Family::ZbH1,
    Family::DualPipe,
    Family::DualPipeV,
];

fn schedule(
    family: Family,
    [p, m]: [u64; 2],
    costs: impl Fn(Shape) -> Costs,
) -> Option<(Schedule, Costs)> {
    let chunks = family.about().chunks.of(Some(2));
    let shape = Shape::new(p, chunks, m).ok()?;
    let costs = costs(shape);
    let problem = Problem::new(shape, costs.clone()).ok()?;
    Some((family.schedule(&problem).ok()?, costs))
}

fn rules() -> impl Strategy<Value = Rule> {
    let interleaving = prop::sample::select(vec![
        Interleaving::None,
        Interleaving::Published,
        Interleaving::Best,
        "cB aF eB dF eW dB eF cF aB aW".parse().unwrap(),
    ]);
    let weights = prop::sample::select(vec![Weights::Delayed, Weights::WithBackward]);
    (interleaving, weights, any::<bool>()).prop_map(|(interleaving, weights, lone)| Rule {
        interleaving,
        weights,
        lone,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    })]

    /// Where every stage has a node and its NICs for itself, and values have no size, slots take what replay
    /// says, to the nanosecond.
    #[test]
    fn equals_replay_where_wires_are_not_shared(
        family in prop::sample::select(FAMILIES.to_vec()),
        half in 1..4u64,
        m in 1..4u64,
        layers in prop::collection::vec(prop::collection::vec(layer_specs(), 1..3), 1..4),
        rule in rules(),
        (hold, slow) in prop_oneof![Just((0, 1000)), (0..=500u64, 1000..=2000u64)],
        members in prop::sample::select(vec![1, 2, 4, 8]),
        latency in 0..20u64,
        queue: bool,
    ) {
        let p = 2 * half;
        let mut hardware = hardware(4 * p, 1, [p, members], latency);
        hardware.communication.sharing = if queue { Sharing::Queue } else { Sharing::Fair };
        let contention = Contention::new(hold, slow).unwrap();
        let made = schedule(family, [p, 2 * p * m], |shape| {
            costs(shape, &layers, (rule.clone(), contention), &hardware)
        });
        let (schedule, costs) = made.unwrap();
        let replayed = Replay::new().timeline(&schedule, &costs).unwrap();
        prop_assert_eq!(engine(&hardware, &schedule, &costs).timeline, replayed);
    }

    /// So they do where noise makes passes longer and shorter.
    #[test]
    fn noise_stretches_segments_as_it_does_passes(
        family in prop::sample::select(FAMILIES.to_vec()),
        layers in prop::collection::vec(prop::collection::vec(layer_specs(), 1..3), 1..4),
        rule in rules(),
        members in prop::sample::select(vec![1, 2, 4]),
        latency in 0..20u64,
        seed in 0..1000u64,
    ) {
        let hardware = hardware(16, 1, [4, members], latency);
        let plain = (rule, Contention::NONE);
        let made = schedule(family, [4, 16], |shape| costs(shape, &layers, plain.clone(), &hardware));
        let (schedule, costs) = made.unwrap();
        let footprints = Footprints::uniform(schedule.shape(), Footprint::default());
        let mut noise = Stragglers::new(4, seed);
        noise.jitter_passes(Jitter::log_normal(0.3).unwrap());
        let simulation = Simulation::new(&schedule, &costs, &footprints).under(&noise);
        let replayed = simulation.timeline(Some(0)).unwrap();
        let run = simulation.on(&hardware).timeline(Some(0)).unwrap();
        prop_assert_eq!(run, replayed);
    }

    /// Where stages share a NIC, and values the wires with all-to-alls, nothing becomes faster than alone.
    #[test]
    fn sharing_wires_makes_nothing_faster(
        family in prop::sample::select(FAMILIES.to_vec()),
        half in 1..3u64,
        layers in prop::collection::vec(prop::collection::vec(layer_specs(), 1..3), 1..4),
        rule in rules(),
        members in prop::sample::select(vec![2, 4]),
        bytes in 0..100u64,
        queue: bool,
    ) {
        let p = 2 * half;
        let mut hardware = hardware(half * members, 1, [p, members], 3);
        hardware.seats = Seats::new(&hardware.cluster, hardware.seats.devices().len(), &Seating::Contiguous).unwrap();
        hardware.experts = Some(ExpertGroup::new(&hardware.cluster, &hardware.seats, members).unwrap());
        hardware.communication.sharing = if queue { Sharing::Queue } else { Sharing::Fair };
        let plain = (rule, Contention::NONE);
        let made = schedule(family, [p, 4 * p], |shape| costs(shape, &layers, plain.clone(), &hardware));
        let (schedule, costs) = made.unwrap();
        let alone = engine(&hardware, &schedule, &costs).metrics(0).makespan();
        prop_assert!(alone >= Replay::new().metrics(&schedule, &costs).unwrap().makespan());
        hardware.messages.bytes = Bytes(bytes);
        let shared = engine(&hardware, &schedule, &costs);
        let slots = shared.timeline.stages.iter().flatten();
        for span in slots {
            prop_assert!(span.end - span.start >= costs.of_slot(span.slot));
        }
    }
}

/// Two stages on a node with one NIC; F computes for 100 ns and then sends 200 bytes, half of them to the
/// other node, and the whole backward computes for 200 ns.
fn two_on_a_nic(sharing: Sharing) -> (Hardware, Schedule, Costs) {
    let mut hardware = hardware(2, 1, [2, 2], 0);
    hardware.seats = Seats::new(&hardware.cluster, 2, &Seating::Contiguous).unwrap();
    hardware.experts = Some(ExpertGroup::new(&hardware.cluster, &hardware.seats, 2).unwrap());
    hardware.communication.sharing = sharing;
    let spec = LayerSpec { compute: [[100, 150, 50], [0; 3]], bytes: [[200, 0], [0; 2]] };
    let made = schedule(Family::OneFOneB, [2, 2], |shape| {
        costs(shape, &[vec![spec]], (Rule::default(), Contention::NONE), &hardware)
    });
    let (schedule, costs) = made.unwrap();
    (hardware, schedule, costs)
}

fn spans(run: &Run, stage: usize) -> Vec<[u64; 2]> {
    run.timeline.stages[stage].iter().map(|span| [span.start.0, span.end.0]).collect()
}

#[test]
fn stages_of_a_node_share_their_nic() {
    let (hardware, schedule, costs) = two_on_a_nic(Sharing::Fair);
    // F0 of stage 0 is alone: 100 of compute and 100 on the NIC. Then F1 there and F0 of stage 1 both
    // compute from 200 to 300 and have half of the NIC until 500.
    let run = engine(&hardware, &schedule, &costs);
    assert_eq!(spans(&run, 0), [[0, 200], [200, 500], [700, 900], [1100, 1300]]);
    assert_eq!(spans(&run, 1), [[200, 500], [500, 700], [700, 900], [900, 1100]]);
    let replayed = Replay::new().metrics(&schedule, &costs).unwrap();
    assert_eq!(replayed.makespan(), Nanos(1200));
    // One after the other: stage 0, whose slot started last, comes second or first to the NIC at 300.
    let (hardware, schedule, costs) = two_on_a_nic(Sharing::Queue);
    let run = engine(&hardware, &schedule, &costs);
    let ends = [spans(&run, 0)[1][1], spans(&run, 1)[0][1]];
    assert!(ends == [400, 500] || ends == [500, 400], "{ends:?}");
}

#[test]
fn a_value_between_stages_shares_the_nic_with_an_all_to_all() {
    // Two stages, a node each, of which a node has two members. F0 of stage 0 computes until 100, and of its
    // 200 bytes a half leaves the node, for both members: 200 ns on the NIC. Its value of 50 bytes leaves at
    // 300 while F1 computes, and is there at 350. Stage 1 sends from 450; at 600 its NIC brings the value of F1
    // too: each has 50 bytes left and half of it until 700.
    let mut hardware = hardware(4, 1, [2, 4], 0);
    let spec = LayerSpec { compute: [[100, 150, 50], [0; 3]], bytes: [[200, 0], [0; 2]] };
    let made = schedule(Family::OneFOneB, [2, 2], |shape| {
        costs(shape, &[vec![spec]], (Rule::default(), Contention::NONE), &hardware)
    });
    let (schedule, costs) = made.unwrap();
    hardware.messages.bytes = Bytes(50);
    let run = engine(&hardware, &schedule, &costs);
    assert_eq!(spans(&run, 1)[0], [350, 700]);
    // With 150 bytes it meets the all-to-all of F1 at 400: 50 are left, which take until 500 at half of the
    // NIC; the all-to-all has then sent 50 of 200 and ends at 650.
    hardware.messages.bytes = Bytes(150);
    let run = engine(&hardware, &schedule, &costs);
    assert_eq!(spans(&run, 1)[0][0], 500);
    assert_eq!(spans(&run, 0)[1], [300, 650]);
}

#[test]
fn causes_add_up_where_segments_share_wires() {
    let (hardware, schedule, costs) = two_on_a_nic(Sharing::Fair);
    let footprints = Footprints::uniform(schedule.shape(), Footprint::default());
    let simulation = Simulation::new(&schedule, &costs, &footprints).on(&hardware);
    let run = engine(&hardware, &schedule, &costs);
    let causes = simulation.causes(&run, None).unwrap();
    assert_eq!(causes.cost, Nanos(1300));
    for (stage, parts) in causes.idle.iter().enumerate() {
        let waits = causes.cost - causes.busy[stage] + causes.exposed(stage);
        assert_eq!(parts.iter().sum::<i64>(), i64::try_from(waits.0).unwrap());
    }
}

#[test]
fn more_segments_than_can_be_run_are_refused() {
    let (hardware, ..) = two_on_a_nic(Sharing::Fair);
    let spec = LayerSpec { compute: [[1; 3]; 2], bytes: [[200, 0], [0; 2]] };
    let layers = vec![spec; 1024];
    // 10 segments in each layer of F, B and W, of two chunks and 1000 microbatches.
    let made = schedule(Family::OneFOneB, [2, 1000], |shape| {
        costs(shape, std::slice::from_ref(&layers), (Rule::default(), Contention::NONE), &hardware)
    });
    let (schedule, costs) = made.unwrap();
    let footprints = Footprints::uniform(schedule.shape(), Footprint::default());
    let error = run(&hardware.job(&schedule, &costs, &footprints), &NominalDurations).unwrap_err();
    assert!(error.to_string().starts_with("20480000 segments of passes: at most 20000000"));
}

#[test]
fn a_segment_of_no_size_takes_its_time_and_no_wire() {
    let (hardware, schedule, costs) = two_on_a_nic(Sharing::Fair);
    let silent = |one: &Segment| match one.stream {
        Stream::Compute => one.clone(),
        Stream::Communication => Segment { bytes: None, ..one.clone() },
    };
    let overlap = costs.overlap().unwrap();
    let chains = (0..schedule.shape().chunks()).map(|chunk| {
        let of = |layer: &Layer| Layer {
            forward: layer.forward.iter().map(silent).collect(),
            backward: layer.backward.iter().map(silent).collect(),
            weight: layer.weight.clone(),
        };
        let layers = overlap.chain(chunk).layers().map(|layer| (of(layer), 1)).collect();
        Chain::new(Layer::default(), layers, Layer::default()).unwrap()
    });
    let overlap = Overlap::new(chains.collect(), Rule::default()).unwrap();
    let costs = Costs::overlapped(overlap, Nanos(0));
    let run = engine(&hardware, &schedule, &costs);
    assert_eq!(run.timeline, Replay::new().timeline(&schedule, &costs).unwrap());
}
