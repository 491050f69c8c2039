//! Optimizers: their state, their exchange, and the products of Muon.

use pipeline::Bandwidth;
use sim::cluster::Host;

use super::{gpt, machine, model, recipe, setup};
use crate::{
    Cluster, Costed, Efficiency, Inputs, Machine, Optimizer, Recipe, Setup, Sizes, Split, Unfit,
    Update, Zero, check, number,
};

fn costed(sizes: &Sizes, setup: &Setup, machine: Machine, update: Update) -> Costed {
    let cluster = Cluster { parts: vec![(machine, setup.devices())] };
    let recipe = Recipe { optimizer: Optimizer::new(update, None), ..recipe(64) };
    Inputs::new(&model(sizes.clone()), &recipe, &cluster).cost(setup).unwrap()
}

/// Products at the peak, and nothing moved.
fn ideal() -> Machine {
    let own = machine();
    let efficiency = Efficiency { matmul: 1.0, fill: 0.0, depth: 0.0, ..own.efficiency };
    Machine { bandwidth: 1e30, efficiency, ..own }
}

fn alone(setup: Setup) -> Setup {
    Setup { zero: Zero::None, split: Split::Even, ..setup }
}

#[test]
fn muon_keeps_one_moment_of_layers_and_two_of_the_rest() {
    let sizes = gpt(8, 1024, 16);
    let own = alone(setup([1, 1, 1]));
    let [adam, muon, sgd] = [Update::AdamW, Update::Muon, Update::Sgd]
        .map(|update| costed(&sizes, &own, machine(), update).resident[0].optimizer.0);
    let ends = model(sizes).embedding_parameters();
    let all = adam / 12;
    assert_eq!([adam, sgd], [12 * all, 8 * all]);
    assert_eq!(muon, 8 * (all - ends) + 12 * ends);
}

/// 4 m^2 n + 2 m^3 FLOPs for each of five iterations and each matrix of a layer: queries, keys, values and output of
/// h x h, and two of h x 4h.
#[test]
fn products_of_newton_and_schulz_are_counted() {
    let (layers, h) = (8, 1024);
    let machine = ideal();
    let of = |ffn: f64| 5.0 * (4.0 * ffn + 2.0) * libm::pow(number(h), 3.0);
    let flops = number(layers) * (4.0 * of(1.0) + 2.0 * of(4.0));
    let own = alone(setup([1, 1, 1]));
    let muon = costed(&gpt(layers, h, 16), &own, machine.clone(), Update::Muon);
    let seconds = flops / machine.peak;
    assert!((number(muon.optimizer.0) / 1e9 / seconds - 1.0).abs() < 1e-6, "{:?}", muon.optimizer);
    // Two replicas have half of the matrices each; more than matrices leave one each.
    let shared = |replicas| {
        let own = Setup { zero: Zero::Optimizer, ..alone(setup([replicas, 1, 1])) };
        number(costed(&gpt(layers, h, 16), &own, machine.clone(), Update::Muon).optimizer.0) / 1e9
    };
    assert!((shared(2) / seconds - 0.5).abs() < 1e-6);
    assert!((shared(64) - of(4.0) / machine.peak).abs() < 1e-8);
    // Tensor groups make shards orthogonal: fewer products than a half.
    let halves = costed(&gpt(layers, h, 16), &alone(setup([1, 2, 1])), machine, Update::Muon);
    assert!(number(halves.optimizer.0) / 1e9 < 0.5 * seconds);
}

/// Jordan et al. 2024: no more than 5 m / B of the FLOPs of a step of B tokens with a model of width m, 0.5 % for Llama 405B
/// and 16 million tokens.
#[test]
fn muon_takes_no_more_than_published() {
    let sizes =
        Sizes { kv_heads: 8, gated: true, ffn: 53248, vocabulary: 128_256, ..gpt(126, 16384, 128) };
    let machine = ideal();
    let muon = costed(&sizes, &alone(setup([1, 1, 1])), machine.clone(), Update::Muon);
    let flops = number(muon.optimizer.0) / 1e9 * machine.peak;
    let step = 6.0 * number(model(sizes).parameters()) * 16e6;
    assert!((0.002..0.00512).contains(&(flops / step)), "{}", flops / step);
}

#[test]
fn whole_gradients_go_to_all_replicas() {
    let model = model(gpt(8, 1024, 16));
    let own = Setup { split: Split::Even, ..setup([4, 1, 1]) };
    let cluster = Cluster { parts: vec![(machine(), 4)] };
    let exchange = |update| {
        let optimizer = Optimizer::new(update, None);
        let recipe = Recipe { optimizer, overlap_gradients: false, ..recipe(64) };
        let of = |own: &Setup| {
            Inputs::new(&model, &recipe, &cluster).cost(own).map(|one| one.exchange.0)
        };
        (
            of(&own).unwrap(),
            check(&Setup { zero: Zero::Gradients, ..own }, &model, &recipe, &cluster),
        )
    };
    let ((adam, adam_may), (muon, muon_may)) = (exchange(Update::AdamW), exchange(Update::Muon));
    // 2 x 4 + 2 bytes for 4 + 2.
    assert!((number(muon) / number(adam) - 10.0 / 6.0).abs() < 0.01, "{muon} {adam}");
    assert_eq!([adam_may, muon_may], [Ok(()), Err(Unfit::Optimizer)]);
}

#[test]
fn given_bytes_are_those_of_every_parameter() {
    let own = Optimizer::new(Update::Muon, Some(6));
    assert!(own.is_unusual() && !Optimizer::new(Update::Sgd, None).is_unusual());
    assert_eq!(own.bytes, [6, 6]);
}

/// NVIDIA-NeMo/RL, pull request 3628: steps of Qwen3-0.6B on one H100 take 0.752 s, with half of the state on the host 1.187 and
/// 1.216 s, with all of it 1.678 s. The time of the host is fitted to all of it.
#[test]
fn the_host_updates_what_it_keeps() {
    let sizes = Sizes {
        kv_heads: 8,
        head_size: 128,
        gated: true,
        ffn: 3072,
        vocabulary: 151_936,
        ..gpt(28, 1024, 16)
    };
    let model = model(sizes);
    let bandwidth = Bandwidth::new(42_000_000_000).unwrap();
    let host = Some(Host { bandwidth, devices_per_link: 2 });
    let h100 = Machine { host, bandwidth: 3.35e12, ..machine() };
    let cluster = Cluster { parts: vec![(h100, 1)] };
    let own = Setup { split: Split::Even, ..setup([1, 1, 1]) };
    let costed = |on_host| {
        let recipe = Recipe { optimizer: Optimizer { on_host, ..Optimizer::ADAM_W }, ..recipe(64) };
        Inputs::new(&model, &recipe, &cluster).cost(&own).unwrap()
    };
    let [none, half, all] = [0.0, 0.5, 1.0].map(costed);
    let longer = |costed: &Costed| number(costed.optimizer.0 - none.optimizer.0) / 1e9;
    for (costed, measured) in
        [(&half, 1.187 - 0.752), (&half, 1.216 - 0.752), (&all, 1.678 - 0.752)]
    {
        assert!((longer(costed) / measured - 1.0).abs() < 0.07, "{} {measured}", longer(costed));
    }
    let state = |costed: &Costed| costed.resident[0].optimizer.0;
    assert_eq!([state(&half), state(&all)], [state(&none) / 2, 0]);
    let recipe =
        Recipe { optimizer: Optimizer { on_host: 0.5, ..Optimizer::ADAM_W }, ..recipe(64) };
    let without = Setup { zero: Zero::None, ..own };
    assert_eq!(check(&without, &model, &recipe, &cluster), Err(Unfit::HostOptimizer));
}
