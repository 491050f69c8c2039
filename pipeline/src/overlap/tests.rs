use proptest::prelude::*;

use super::*;
use crate::{Costs, Family, Problem};

fn named(name: &str) -> SegmentName {
    name.parse().unwrap()
}

/// A layer of experts with these times: attention, dispatch, experts, combine of F, of B (in that
/// order, too), and attention and experts of W.
fn layer(forward: [u64; 4], backward: [u64; 4], weight: [u64; 2], contention: Contention) -> Layer {
    let segment = |name: &str, time: u64| {
        let (name, time) = (named(name), Nanos(time));
        match name.as_str() {
            "dispatch" | "combine" => Segment::communication(name, time).under(contention),
            _ => Segment::compute(name, time),
        }
    };
    const NAMES: [&str; 4] = ["attention", "dispatch", "experts", "combine"];
    let up = NAMES.iter().zip(forward).map(|(name, time)| segment(name, time));
    let down = NAMES.iter().zip(backward).rev().map(|(name, time)| segment(name, time));
    let weight = [("experts", 1, weight[1]), ("attention", 3, weight[0])];
    let weight =
        weight.map(|(name, behind, time)| WeightSegment { segment: segment(name, time), behind });
    Layer { forward: up.collect(), backward: down.collect(), weight: weight.into() }
}

fn chain(layers: Vec<Layer>) -> Chain {
    let layers = layers.into_iter().map(|layer| (layer, 1)).collect();
    Chain::new(Layer::default(), layers, Layer::default()).unwrap()
}

/// The pair of deepseek-ai/profile-data (`train.json`, commit 4496024), layer by layer in microseconds:
/// the busy time of each range, the W of the experts over both of its streams.
fn profiled() -> Vec<Layer> {
    let rows = [
        ([4311, 6059, 4250, 7325], [9525, 7465, 4716, 7266], [2405, 3541 + 2257]),
        ([4263, 5706, 4384, 8260], [9452, 7271, 5407, 6207], [2392, 3642 + 3630]),
        ([4438, 7077, 5175, 9521], [9368, 7909, 5408, 5224], [2382, 3400 + 2623]),
        ([4467, 7919, 4606, 9630], [9018, 7302, 5693, 4380], [2375, 3575 + 2845]),
    ];
    rows.map(|(up, down, weight)| layer(up, down, weight, Contention::NONE)).into()
}

fn rule(interleaving: &str) -> Rule {
    Rule { interleaving: interleaving.parse().unwrap(), ..Rule::default() }
}

/// The pair of one chunk's F with its like's BW under `rule`.
fn pair(chain: &Chain, rule: Rule) -> Arc<Composition> {
    let overlap = Overlap::new(vec![chain.clone()], rule).unwrap();
    overlap.composition(Slot::Pair(Pass::f(0, 1), Pass::bw(0, 0))).unwrap()
}

#[test]
fn the_pair_that_deepseek_published() {
    let chain = chain(profiled());
    let microseconds = |rule| pair(&chain, rule).duration.0;
    // Measured: 129,012; with each layer's own times, in order: 130.36 ms.
    assert_eq!(microseconds(rule("published")), 130_357);
    assert_eq!(microseconds(rule("cB aF eB dF eW dB eF cF aB aW")), 130_357);
    assert_eq!(microseconds(rule("best")), 130_357);
    assert_eq!(microseconds(rule("none")), 244_069);
    let with_backward = Rule { weights: Weights::WithBackward, ..rule("published") };
    assert_eq!(microseconds(with_backward), 146_678);
}

#[test]
fn a_lone_backward_hides_its_communication_behind_its_own_w() {
    let chain = chain(profiled());
    let lone = |lone| {
        let overlap =
            Overlap::new(vec![chain.clone()], Rule { lone, ..rule("published") }).unwrap();
        let costs = Costs::overlapped(overlap, Nanos(0));
        costs.of_slot(Slot::One(Pass::bw(0, 0))).0
    };
    let times = chain.times();
    assert_eq!(Nanos(lone(false)), times.backward_input + times.backward_weight);
    assert!(lone(true) < lone(false) && Nanos(lone(true)) >= times.backward_input);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let chain = chain(profiled());
    let fault = |line: &str| {
        let rule = Rule { interleaving: line.parse()?, ..Rule::default() };
        Overlap::new(vec![chain.clone()], rule).map(|_| ())
    };
    for (line, what) in [
        ("", "published"),
        ("cB aF 17", "`17` is not a segment"),
        ("cB aF eB dF eW dB eF cF aB", "does not name attentionW"),
        ("cB aF eB dF eW dB eF cF aB aW zF", "`zF` of the interleaving is not a segment"),
        ("cB dF eB aF eW dB eF cF aB aW", "segments of F in another order"),
        ("cB aF eW eB dF dB eF cF aB aW", "blocks"),
    ] {
        let text = fault(line).unwrap_err().to_string();
        assert!(text.contains(what), "{line}: {text}");
    }
    assert!(Contention::new(350, 1310).is_ok());
    assert_eq!(Contention::new(900, 1310), Err(ContentionError::WorseThanNone));
    assert_eq!(Contention::new(1, 999), Err(ContentionError::Slow));
    let weight = WeightSegment { segment: Segment::compute(named("w"), Nanos(1)), behind: 0 };
    let layer = Layer { weight: vec![weight], ..Layer::default() };
    let chain = Chain::new(Layer::default(), vec![(layer, 1)], Layer::default());
    assert!(chain.unwrap_err().to_string().contains("follows no segment of B"));
}

#[test]
fn layers_without_experts_meet_those_with_them_as_in_megatron() {
    let dense = layer([4, 0, 5, 0], [8, 0, 10, 0], [3, 4], Contention::NONE);
    let experts = layer([4, 6, 5, 7], [8, 6, 10, 7], [3, 4], Contention::NONE);
    let overlap =
        Overlap::new(vec![chain(vec![dense]), chain(vec![experts])], rule("published")).unwrap();
    let slot = Slot::Pair(Pass::f(1, 1), Pass::bw(0, 0));
    // aF 0-4, eB 4-14 with dF 4-10, eW 14-18, eF 18-23, aB 23-31 with cF 23-30, aW 31-34.
    assert_eq!(overlap.composition(slot).unwrap().duration, Nanos(34));
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0u64), 6 => 1u64..1000]
}

fn layers() -> impl Strategy<Value = Vec<Layer>> {
    let contention = (0u64..=500, 1000u64..=2000)
        .prop_map(|(hold, slow)| Contention::new(hold, slow).unwrap_or(Contention::NONE));
    let one = (
        [times(), times(), times(), times()],
        [times(), times(), times(), times()],
        [times(), times()],
        prop_oneof![Just(Contention::NONE), contention],
    );
    prop::collection::vec(one.prop_map(|(up, down, weight, c)| layer(up, down, weight, c)), 1..4)
}

fn plain(layers: &[Layer]) -> Vec<Layer> {
    let of = |layer: &Layer| layer.map(|_, one| one.clone().under(Contention::NONE));
    layers.iter().map(of).collect()
}

/// The pair of F of one chunk and BW of another.
fn two(up: &[Layer], down: &[Layer], rule: Rule) -> Arc<Composition> {
    let chains = vec![chain(up.to_vec()), chain(down.to_vec())];
    let overlap = Overlap::new(chains, rule).unwrap();
    overlap.composition(Slot::Pair(Pass::f(0, 0), Pass::bw(1, 0))).unwrap()
}

fn check_spans(one: &Composition) {
    for stream in Stream::ALL {
        let mut end = Nanos(0);
        for span in one.spans.iter().filter(|span| span.segment.stream == stream) {
            assert!(span.start >= end, "two at once on a stream");
            assert!(span.end >= span.start && span.end - span.start >= span.segment.time);
            end = span.end;
        }
    }
    for part in [Part::F, Part::B] {
        let ends: Vec<_> = one.spans.iter().filter(|span| span.part == part).collect();
        assert!(ends.windows(2).all(|two| two[0].end <= two[1].start), "a chain in its order");
    }
}

proptest! {
    #[test]
    fn a_pair_lies_between_its_longest_stream_and_its_sum(up in layers(), down in layers()) {
        let sum = two(&up, &down, rule("none")).duration;
        for name in ["published", "best"] {
            let one = two(&up, &down, rule(name));
            check_spans(&one);
            prop_assert_eq!(one.spans.len(), up.len() * 4 + down.len() * 6);
            prop_assert!(one.bound <= one.duration && one.duration <= sum);
            prop_assert!(one.computing + one.exposed == one.duration);
            // There is no moment in which neither stream runs.
            let mut end = Nanos(0);
            let mut spans = one.spans.clone();
            spans.sort_by_key(|span| span.start);
            for span in spans {
                prop_assert!(span.start <= end);
                end = end.max(span.end);
            }
        }
    }

    #[test]
    fn the_best_order_is_no_longer_than_the_published_one(up in layers(), down in layers()) {
        let (up, down) = (plain(&up), plain(&down));
        let [published, best] = ["published", "best"].map(|name| two(&up, &down, rule(name)));
        prop_assert!(best.duration <= published.duration && best.bound <= best.duration);
    }

    #[test]
    fn more_contention_never_shortens_a_pair(up in layers(), down in layers(), more in 0u64..400) {
        let contended = |layers: &[Layer], hold| -> Vec<Layer> {
            let contention = Contention::new(hold, 1200).unwrap();
            layers.iter().map(|one| one.map(|_, segment| segment.clone().under(contention))).collect()
        };
        let with = |hold| {
            two(&contended(&up, hold), &contended(&down, hold), rule("published")).duration
        };
        prop_assert!(with(300) <= with(300 + more));
        prop_assert!(two(&plain(&up), &plain(&down), rule("published")).duration <= with(0));
    }

    #[test]
    fn without_communication_a_pair_is_the_sum(up in layers(), down in layers()) {
        let quiet = |layers: &[Layer]| chain(layers.to_vec()).without_communication();
        let (up, down) = (quiet(&up), quiet(&down));
        let sum = up.times().forward + down.times().backward_input + down.times().backward_weight;
        for name in ["none", "published", "best"] {
            let overlap = Overlap::new(vec![up.clone(), down.clone()], rule(name)).unwrap();
            let slot = Slot::Pair(Pass::f(0, 0), Pass::bw(1, 0));
            prop_assert_eq!(overlap.composition(slot).unwrap().duration, sum);
        }
    }

    #[test]
    fn a_delayed_w_never_lengthens_a_pair(up in layers(), down in layers()) {
        let (up, down) = (plain(&up), plain(&down));
        let with = |weights| two(&up, &down, Rule { weights, ..rule("published") }).duration;
        prop_assert!(with(Weights::Delayed) <= with(Weights::WithBackward));
    }

    #[test]
    fn segments_stretch_to_the_times_given(layers in layers(), forward in 1u64..5000, weight in 0u64..5000) {
        let times = PassTimes::new(Nanos(forward), Nanos(forward + 7), Nanos(weight));
        prop_assert_eq!(chain(layers).at_pace(times).times(), times);
    }
}

#[test]
fn costs_are_those_of_segments() {
    let chains = vec![chain(profiled()); 4];
    let overlap = Overlap::new(chains.clone(), rule("published")).unwrap();
    let costs = Costs::overlapped(overlap, Nanos(0));
    assert_eq!(costs.chunks()[3], chains[0].times());
    let shape = Shape::new(4, 1, 8).unwrap();
    let schedule = Family::DualPipe.schedule(&Problem::new(shape, costs.clone()).unwrap()).unwrap();
    let pairs: Vec<Slot> = schedule.orders().iter().flat_map(crate::Order::slots).collect();
    let pair = pairs.iter().find(|slot| matches!(slot, Slot::Pair(..))).unwrap();
    assert_eq!(costs.of_slot(*pair), Nanos(130_357));
    let twice = costs.of(Pass::f(0, 0)) + costs.of(Pass::bw(0, 0));
    assert_eq!(costs.slot_at_pace(*pair, twice * 2), Nanos(2 * 130_357));
    let faster: Vec<PassTimes> = costs
        .chunks()
        .iter()
        .map(|times| PassTimes { forward: Nanos(times.forward.0 / 2), ..*times })
        .collect();
    let faster = costs.with_chunks(faster.clone());
    assert_eq!(faster.overlap().unwrap().times(), faster.chunks());
    assert!(faster.of_slot(*pair) < Nanos(130_357));
}

#[test]
fn a_pair_whose_passes_need_each_other_is_refused() {
    let text = "F0.0&BW0.0";
    let fault = text.parse::<crate::Schedule>().unwrap_err().to_string();
    assert!(fault.contains("F0.0 and BW0.0 on stage 0 cannot run together"), "{fault}");
}
