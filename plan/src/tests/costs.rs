//! The costs of a set-up.

use pipeline::{Bytes, Family, LayerLayout, Nanos};
use sim::Replay;

use super::{gpt, llama, machine, model, recipe, setup};
use crate::{
    Cluster, Experts, Inputs, Machine, Measured, Part, Recompute, Setup, Sizes, Split, Times,
    number,
};

#[test]
fn what_does_not_divide_is_named() {
    let model = model(gpt(24, 2304, 24));
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let reason = |setup: Setup| inputs.cost(&setup).unwrap_err().to_string();
    assert!(reason(setup([4, 1, 2])).contains("devices"));
    assert!(reason(setup([1, 16, 1])).contains("tensor"));
    assert!(reason(Setup { microbatch: 7, ..setup([8, 1, 2]) }).contains("batch"));
    assert!(reason(Setup { chunks: 20, ..setup([8, 1, 2]) }).contains("chunks"));
    assert!(reason(Setup { shard_groups: 3, ..setup([8, 1, 2]) }).contains("shards"));
    assert!(reason(Setup { expert: 2, ..setup([8, 1, 2]) }).contains("expert"));
    // A layout may leave any chunk without a layer.
    let layers: Vec<u64> = (0..40).map(|chunk| u64::from((10..34).contains(&chunk))).collect();
    let layout = LayerLayout::of(layers.clone()).unwrap();
    let dealt = Inputs { layout: Some(&layout), ..inputs };
    let setup = Setup { chunks: 20, split: Split::Layout, ..setup([8, 1, 2]) };
    assert_eq!(dealt.cost(&setup).unwrap().layers, layers);
}

#[test]
fn slow_devices_get_fewer_layers_and_an_even_split_waits_for_them() {
    let model = model(gpt(32, 4096, 32));
    let slow = Machine { peak: 156e12, ..machine() };
    let cluster = Cluster { parts: vec![(slow, 2), (machine(), 2)] };
    let recipe = recipe(32);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let balanced = setup([1, 1, 4]);
    let step = |setup: &Setup| {
        let costed = inputs.cost(setup).unwrap();
        let layers = costed.layers.clone();
        (inputs.evaluate(&costed, &mut Replay::new()).unwrap().step, layers)
    };
    let (fast, layers) = step(&balanced);
    assert!(layers[0] < layers[2], "{layers:?}");
    let (waits, layers) = step(&Setup { split: Split::Even, ..balanced });
    assert_eq!(layers, [8; 4]);
    assert!(fast < waits);
}

/// Measured times replace the formulas, for the partition that they were measured with and no other.
#[test]
fn measured_times_go_before_formulas() {
    let model = model(gpt(4, 1024, 16));
    let times =
        |seconds| Times { forward: seconds, backward_input: seconds, backward_weight: seconds };
    let measured = Some(Measured { microbatch: 1, layer: times(1.0), ends: times(0.5) });
    let cluster = Cluster { parts: vec![(Machine { measured, ..machine() }, 2)] };
    let recipe = recipe(2);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let step = |setup: &Setup| {
        let costed = inputs.cost(setup).unwrap();
        number(inputs.evaluate(&costed, &mut Replay::new()).unwrap().step.0) / 1e9
    };
    // Two replicas of one microbatch: 4 layers of 3 s, ends of 1.5 s; computed again, 4 s more.
    assert!((step(&setup([2, 1, 1])) - 13.5).abs() < 0.1);
    let again = Setup { recompute: Recompute::Full, ..setup([2, 1, 1]) };
    assert!((step(&again) - 17.5).abs() < 0.1);
    assert!(step(&setup([1, 2, 1])) < 1.0);
}

/// A pipeline over two nodes crosses between them once: that stage boundary is the slow one, and
/// the turn of a V is none.
#[test]
fn transfers_leave_a_node_where_stages_do() {
    let model = model(gpt(30, 4096, 32));
    let cluster = Cluster { parts: vec![(machine(), 16)] };
    let recipe = recipe(32);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let sends = inputs.cost(&setup([1, 1, 16])).unwrap().sends;
    let slow = |way: usize| {
        let usual = sends[1][way];
        (0..16).filter(|&chunk| sends[chunk][way] > usual).collect::<Vec<_>>()
    };
    assert_eq!([slow(0), slow(1)], [[7], [8]]);
    // The last chunk has none to send to, and the first none to send back to.
    assert_eq!([sends[15][0], sends[0][1]], [Nanos(0); 2]);
    let vee = Setup { family: Family::ZbV, chunks: 2, ..setup([2, 2, 4]) };
    let sends = inputs.cost(&vee).unwrap().sends;
    assert_eq!([sends[3][0], sends[4][1]], [Nanos(0); 2]);
    let one = Setup { family: Family::ZbV, chunks: 2, ..setup([8, 2, 1]) };
    assert_eq!(inputs.cost(&one).unwrap().sends, [[Nanos(0); 2]; 2]);
}

/// Shards of the head do the work of the head in smaller products; parameters are the same on all
/// stages.
#[test]
fn shards_share_the_head_and_the_embedding() {
    let model = model(gpt(24, 2304, 24));
    let cluster = Cluster { parts: vec![(machine(), 8)] };
    let recipe = recipe(64);
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let whole = inputs.cost(&setup([1, 2, 4])).unwrap();
    assert_eq!(whole.costs.shards(), []);
    let head = whole.ends.iter().map(|times| times.sum()).sum::<f64>();
    for (family, thirds) in [(Family::Vocab1, [1, 2]), (Family::Vocab2, [2, 1])] {
        let setup = Setup { family, vocabulary_parallel: true, ..setup([1, 2, 4]) };
        let costed = inputs.cost(&setup).unwrap();
        let shards = costed.costs.shards();
        let sum: u64 = shards.iter().map(|shard| (shard.before + shard.after).0).sum();
        let norm = costed.ends.iter().map(|times| times.sum()).sum::<f64>();
        let spread = number(sum) / 1e9 + norm;
        assert!(spread > head && spread < 1.1 * head, "{spread} {head}");
        for shard in shards {
            let [s, t] = thirds;
            assert!((s * shard.after.0).abs_diff(t * shard.before.0) <= 4);
        }
        let held: Vec<_> = costed.resident.iter().map(|held| held.parameters).collect();
        assert!(held.iter().all(|bytes| *bytes == held[0]), "{held:?}");
        // 51,200 rows in 4 stages and 2 devices, 6 bytes a logit; and its output of 2 bytes, shared.
        let shard = 2048 * (51_200 / 8 * 6 + 2304 * 2 / 2);
        assert_eq!(costed.footprints.shards(), vec![Bytes(shard); 4]);
    }
}

/// A device with one expert does a plain product: as long as that of a dense layer of the same size. Two experts
/// of half the rows take longer.
#[test]
fn a_single_expert_is_a_plain_product() {
    let mut grouped = machine();
    (grouped.efficiency.grouped, grouped.efficiency.bf16) = (0.6, 0.8);
    let cluster = Cluster { parts: vec![(grouped, 8)] };
    let recipe = recipe(64);
    let parts = |experts: Option<Experts>, expert: u64| {
        let model = model(Sizes { experts, ..llama(8, 2048, [16, 8], 4096, 32_000) });
        let inputs = Inputs::new(&model, &recipe, &cluster);
        inputs.cost(&Setup { expert, ..setup([8, 1, 1]) }).unwrap().parts[0]
    };
    let experts = |count| Some(Experts { count, top_k: 1, shared: 0 });
    let dense = parts(None, 1);
    let one = parts(experts(8), 8);
    let apart = one.of(Part::Experts) + one.of(Part::Products);
    // The router, 8 columns wide, is all that is more.
    let more = apart / dense.of(Part::Products);
    assert!((1.0..1.02).contains(&more), "{more}");
    let two = parts(experts(16), 8).of(Part::Experts);
    assert!(two > 1.2 * one.of(Part::Experts), "{two} {one:?}");
}
