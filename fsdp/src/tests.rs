//! Laws that hold for all packings and machines.

use pipeline::{Bandwidth, Bytes, Nanos};
use proptest::prelude::*;
use sim::straggler::{Jitter, Stragglers, Target};

use crate::{
    Communication, CostModel, FsdpError, Lengths, Links, Machine, Method, Nodes, Packing,
    PullLimit, Sharding, StepTimes, Study, Way,
};

const LIMIT: u64 = 60_000;

fn linear() -> CostModel {
    CostModel::linear(Nanos(1_000)).unwrap()
}

fn models() -> impl Strategy<Value = CostModel> {
    prop_oneof![Just(linear()), Just(CostModel::FIT_1_5B), Just(CostModel::FIT_7B)]
}

fn methods() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

/// Devices, and the lengths of equally many samples for each.
fn minibatches() -> impl Strategy<Value = (usize, Vec<u32>)> {
    let length = prop_oneof![1..60_000u32, prop::sample::select(vec![1_000, 8_000, 60_000])];
    (1..9usize, 1..7usize).prop_flat_map(move |(devices, each)| {
        (Just(devices), prop::collection::vec(length.clone(), devices * each))
    })
}

fn times(model: CostModel, lengths: &[u32]) -> Vec<Nanos> {
    lengths.iter().map(|&length| model.time(length).unwrap()).collect()
}

fn links(owners: Option<usize>, overlap: bool) -> Links {
    Links {
        bandwidth: Bandwidth::new(1_000_000_000).unwrap(),
        latency: Nanos(10_000),
        parameters: Bytes(400_000_000),
        owners,
        pull_bandwidth: None,
        nodes: None,
        overlap,
    }
}

fn noise(devices: usize, seed: u64) -> Stragglers {
    let mut noise = Stragglers::new(devices, seed);
    noise.slow(Target::Device(devices - 1), 1.5).unwrap();
    noise.jitter_passes(Jitter::log_normal(0.2).unwrap());
    noise
}

proptest! {
    #[test]
    fn plans_keep_all_samples_within_the_limit(
        (devices, lengths) in minibatches(), method in methods(), model in models(),
    ) {
        let packing = Packing::new(method, &lengths, devices, LIMIT, model).unwrap();
        prop_assert_eq!(packing.devices().len(), devices);
        let mut seen: Vec<u32> = packing.devices().iter().flatten().flatten().copied().collect();
        seen.sort_unstable();
        prop_assert!(seen.iter().copied().eq(0..u32::try_from(lengths.len()).unwrap()));
        for microbatch in packing.devices().iter().flatten() {
            let tokens: u64 = microbatch.iter().map(|&i| u64::from(lengths[i as usize])).sum();
            prop_assert!(!microbatch.is_empty() && tokens <= LIMIT);
        }
        prop_assert!(!method.is_even() || packing.common_microbatches().is_ok());
        prop_assert_eq!(&packing, &Packing::new(method, &lengths, devices, LIMIT, model).unwrap());
    }

    #[test]
    fn collectives_are_never_faster(
        (devices, lengths) in minibatches(),
        method in prop::sample::select(vec![Method::LocalSort, Method::LbMicro]),
        model in models(), seed in prop::option::of(0..100u64),
    ) {
        let packing = Packing::new(method, &lengths, devices, LIMIT, model).unwrap();
        let times = times(model, &lengths);
        let mut machine = Machine::new(devices, 4).unwrap();
        if let Some(seed) = seed {
            machine = machine.with_stragglers(noise(devices, seed));
        }
        let step = |how| machine.step(&packing, &times, how, 3).unwrap();
        let [together, apart] = Communication::ALL.map(step);
        prop_assert!(together.time >= apart.time);
        prop_assert_eq!(&together.busy, &apart.busy);
        if seed.is_none() {
            let all: u64 = times.iter().map(|time| time.0).sum();
            prop_assert_eq!(apart.total_busy(), u128::from(all));
        }
    }

    /// Spans of a device do not overlap and add up to what it computed; links only make it longer.
    #[test]
    fn timelines_say_what_steps_say(
        (devices, lengths) in minibatches(), method in methods(),
        owners in prop::option::of(1..9usize), overlap: bool, on_links: bool,
    ) {
        let packing = Packing::new(method, &lengths, devices, LIMIT, linear()).unwrap();
        let times = times(linear(), &lengths);
        let free = Machine::new(devices, 3).unwrap();
        let owners = owners.filter(|&owners| owners <= devices);
        let machine =
            if on_links { free.clone().with_links(links(owners, overlap)).unwrap() } else { free.clone() };
        for how in Communication::ALL {
            let Ok(step) = machine.step(&packing, &times, how, 0) else {
                prop_assert!(packing.common_microbatches().is_err());
                continue;
            };
            let timeline = machine.timeline(&packing, &times, how, 0).unwrap();
            for (spans, busy) in timeline.stages.iter().zip(&step.busy) {
                prop_assert!(spans.windows(2).all(|two| two[0].end <= two[1].start));
                prop_assert_eq!(spans.iter().map(|span| span.end - span.start).sum::<Nanos>(), *busy);
                prop_assert!(spans.last().unwrap().end.0 <= step.time.0 + rounding(&packing));
            }
            let nothing = free.step(&packing, &times, how, 0).unwrap();
            prop_assert!(step.time.0 + rounding(&packing) >= nothing.time.0);
        }
    }

    #[test]
    fn a_minibatch_of_one_is_the_same_in_all_ways(
        lengths in prop::collection::vec(1..60_000u32, 1..12), model in models(),
    ) {
        let devices = lengths.len();
        let machine = Machine::new(devices, 28).unwrap();
        let mut seen: Vec<Nanos> = Vec::new();
        for method in Method::ALL {
            let packing = Packing::new(method, &lengths, devices, LIMIT, model).unwrap();
            for how in Communication::ALL {
                let times = times(model, &lengths);
                seen.push(machine.step(&packing, &times, how, 0).unwrap().time);
            }
        }
        prop_assert!(seen.windows(2).all(|two| two[0] == two[1]), "{:?}", seen);
    }
}

/// Layers are cut to whole nanoseconds, at each of which devices may meet.
fn rounding(packing: &Packing) -> u64 {
    6 * packing.devices().iter().map(Vec::len).max().unwrap_or(0) as u64
}

fn lopsided() -> (Packing, Vec<Nanos>) {
    let lengths = [60_000, 60_000, 60_000, 1_000, 1_000, 1_000, 1_000, 1_000];
    let packing = Packing::new(Method::LbMini, &lengths, 4, LIMIT, linear()).unwrap();
    (packing, times(linear(), &lengths))
}

#[test]
fn unequal_microbatches_would_deadlock_collectives() {
    // The first test case of ODC's packing code, its lengths cut to 24,000.
    let lengths = [
        3_935, 4_591, 5_994, 6_805, 7_086, 8_335, 9_503, 10_414, 11_438, 12_668, 13_060, 14_036,
        15_997, 16_164, 17_815, 18_436, 19_247, 20_807, 21_465, 22_502, 23_177, 24_000, 24_000,
        24_000,
    ];
    let packing = Packing::new(Method::LbMini, &lengths, 8, 24_000, linear()).unwrap();
    let times = times(linear(), &lengths);
    let counts: Vec<usize> = packing.devices().iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 2, 3, 2, 2, 2, 2, 2]);
    let machine = Machine::new(8, 2).unwrap();
    let step = |how| machine.step(&packing, &times, how, 0);
    let fault = step(Communication::Collectives).unwrap_err();
    assert!(matches!(fault, FsdpError::Deadlock { .. }) && fault.to_string().contains("lb-mini"));
    assert!(step(Communication::OnDemand).is_ok());
}

#[test]
fn one_client_over_links_takes_what_is_computed_by_hand() {
    // Two layers of 200 MB, 1 GB/s, one owner, which is device 0: device 1 pulls a layer in
    // 200 ms + 10 us, computes F 100 ms and B 200 ms, and pushes in 200 ms + 10 us. Device 0 has it
    // all at once and computes 600 ms.
    let lengths = [600_000, 600_000];
    let packing = Packing::new(Method::LocalSort, &lengths, 2, 600_000, linear()).unwrap();
    let times = times(linear(), &lengths);
    let machine = Machine::new(2, 2).unwrap();
    let apart = machine.clone().with_links(links(Some(1), false)).unwrap();
    let StepTimes { time, busy } =
        apart.step(&packing, &times, Communication::OnDemand, 0).unwrap();
    // In order: 4 pulls, 2 F, 2 B, 2 pushes.
    assert_eq!(time, Nanos(6 * 200_010_000 + 600_000_000));
    assert_eq!(busy, [Nanos(600_000_000); 2]);
    // Overlapped, in ms: pulls end at 200.01, 400.02, 600.03 and 800.04; F begin at 200.01 and
    // 400.02, B at 600.03 and 800.04; the pushes end at 1000.04 and 1200.05.
    let hidden = machine.with_links(links(Some(1), true)).unwrap();
    let hidden = hidden.step(&packing, &times, Communication::OnDemand, 0).unwrap().time;
    assert_eq!(hidden, Nanos(1_200_050_000));
}

#[test]
fn a_ring_takes_its_messages() {
    // Four devices, two layers of 200 MB: a gather is 3 messages of 50 MB, 150.03 ms; 1 microbatch:
    // 4 gathers and 2 scatters and the work.
    let lengths = [30_000; 4];
    let packing = Packing::new(Method::LbMicro, &lengths, 4, LIMIT, linear()).unwrap();
    let times = times(linear(), &lengths);
    let machine = Machine::new(4, 2).unwrap();
    let step = |overlap| {
        let machine = machine.clone().with_links(links(None, overlap)).unwrap();
        machine.step(&packing, &times, Communication::Collectives, 0).unwrap().time
    };
    assert_eq!(step(false), Nanos(6 * 150_030_000 + 30_000_000));
    // Layers of 5 and 10 ms hide in the transfer beside them; the first gather and the last scatter
    // have none.
    assert_eq!(step(true), Nanos(6 * 150_030_000));
}

fn nodes(sharding: Sharding) -> Links {
    let bandwidth = Bandwidth::new(500_000_000).unwrap();
    Links { nodes: Some(Nodes { devices: 2, bandwidth, sharding }), ..links(None, false) }
}

#[test]
fn nodes_take_what_is_computed_by_hand() {
    // Four devices on two nodes, two layers of 200 MB, samples of 30 ms.
    let lengths = [30_000; 4];
    let packing = Packing::new(Method::LbMicro, &lengths, 4, LIMIT, linear()).unwrap();
    let times = times(linear(), &lengths);
    let step = |how, sharding| {
        let machine = Machine::new(4, 2).unwrap().with_links(nodes(sharding)).unwrap();
        machine.step(&packing, &times, how, 0).unwrap().time
    };
    use Communication::{Collectives, OnDemand};
    // A ring over both nodes at 0.5 GB/s: 3 messages of 50 MB, 4 gathers and 2 scatters.
    assert_eq!(step(Collectives, Sharding::Full), Nanos(6 * 300_030_000 + 30_000_000));
    // Within a node: one message of 100 MB at 1 GB/s; and both layers are summed over the nodes, each
    // in two messages of 100 MB at 0.5 GB/s.
    let sums = 400_020_000;
    let hybrid = 6 * 100_010_000 + 2 * sums + 30_000_000;
    assert_eq!(step(Collectives, Sharding::Hybrid), Nanos(hybrid));
    // Pulls: two thirds of the 150 MB elsewhere lie on the other node, whose 0.5 GB/s two devices share:
    // 100 MB at 0.25 GB/s each.
    assert_eq!(step(OnDemand, Sharding::Full), Nanos(6 * 400_010_000 + 30_000_000));
    // From the neighbour, 100 MB at 1 GB/s; all gradients are summed once, at the end.
    let whole = 2 * (10_000 + 400_000_000);
    assert_eq!(step(OnDemand, Sharding::Hybrid), Nanos(6 * 100_010_000 + whole + 30_000_000));
}

#[test]
fn pulls_may_get_less_than_rings() {
    let (packing, times) = lopsided();
    let machine = Machine::new(4, 2).unwrap();
    let step = |pull_bandwidth: Option<u64>| {
        let pull_bandwidth = pull_bandwidth.map(|rate| Bandwidth::new(rate).unwrap());
        let links = Links { pull_bandwidth, ..links(None, true) };
        assert_eq!(links.pull_limit(4) == PullLimit::Pulls, pull_bandwidth.is_some());
        let machine = machine.clone().with_links(links).unwrap();
        machine.step(&packing, &times, Communication::OnDemand, 0).unwrap().time
    };
    assert!(step(Some(100_000_000)) > step(None));
}

#[test]
fn owners_are_shared_by_their_clients() {
    let (packing, times) = lopsided();
    let machine = Machine::new(4, 2).unwrap();
    let step = |owners| {
        let machine = machine.clone().with_links(links(owners, true)).unwrap();
        machine.step(&packing, &times, Communication::OnDemand, 0).unwrap().time
    };
    assert!(step(Some(1)) > step(Some(2)) && step(Some(2)) > step(None));
    assert!(machine.with_links(links(Some(5), true)).is_err());
}

#[test]
fn bad_minibatches_are_refused() {
    let packing = |method, lengths: &[u32], devices| {
        Packing::new(method, lengths, devices, 10_000, linear()).unwrap_err().to_string()
    };
    assert!(packing(Method::LbMini, &[1, 10_001], 2).contains("sample 1 has 10001 tokens"));
    assert!(packing(Method::LocalSort, &[1, 10_001], 2).contains("at most 10000"));
    assert!(packing(Method::LbMini, &[1, 0], 2).contains("no tokens"));
    assert!(packing(Method::LbMini, &[1], 2).contains("1 samples for 2 devices"));
    assert!(packing(Method::LbMicro, &[1, 2, 3], 2).contains("not a multiple"));
    assert!(packing(Method::LbMini, &[1], 0).contains("devices must be from 1"));
    assert!(packing(Method::LbMini, &[], 1).contains("samples of a minibatch"));
    assert!(Machine::new(2, 0).is_err() && Machine::new(0, 1).is_err());
}

fn study(minibatches: u64) -> Study {
    Study {
        machine: Machine::new(8, 28).unwrap().with_stragglers(noise(8, 5)),
        lengths: Lengths::long_tail(1_000, 60_000, 1.0).unwrap(),
        model: CostModel::FIT_1_5B,
        minibatch: 4,
        limit: LIMIT,
        minibatches,
        seed: 11,
    }
}

fn ways() -> [Way; 3] {
    let way = |method, communication| Way { method, communication };
    [
        way(Method::LbMicro, Communication::Collectives),
        way(Method::LbMicro, Communication::OnDemand),
        way(Method::LbMini, Communication::OnDemand),
    ]
}

#[test]
fn a_study_has_one_answer_on_any_number_of_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| study(40).run(&ways(), || ()).unwrap())
    };
    let answer = on(1);
    assert_eq!(answer, on(3));
    let [together, apart, mini] = [&answer[0], &answer[1], &answer[2]];
    assert_eq!((together.minibatches, together.tokens), (40, mini.tokens));
    assert!(apart.speedup_over(together) > 1.0 && mini.speedup_over(together) > 1.0);
    assert!(mini.bubble_rate() < together.bubble_rate());
}

#[test]
fn a_study_says_the_first_error() {
    let way = Way { method: Method::LbMini, communication: Communication::Collectives };
    let mut uneven = study(40);
    uneven.lengths = Lengths::uniform(10_000, 60_000).unwrap();
    assert!(matches!(uneven.run(&[way], || ()), Err(FsdpError::Deadlock { .. })));
    assert!(matches!(study(0).run(&ways(), || ()), Err(FsdpError::Count { .. })));
    let mut huge = study(1);
    huge.minibatch = u64::MAX;
    assert!(matches!(huge.run(&ways(), || ()), Err(FsdpError::Count { .. })));
}
