//! Frozen weights and adapters: times, memory, exchange and operations.

use pipeline::{Bytes, Family, Nanos};
use sim::Replay;

use super::{gpt, llama, machine, model, recipe, setup};
use crate::{
    Adapters, Cluster, Costed, Frozen, Inputs, Kind, Recompute, Reshard, Setup, Split, Targets,
    Transformer, Zero, number,
};

fn base() -> Transformer {
    model(llama(16, 4096, [32, 8], 8192, 32_000))
}

fn lora(rank: u64, modules: &[&str]) -> Frozen {
    let targets = modules.iter().map(|name| Targets::named(name).unwrap());
    let targets = targets.fold(Targets::default(), Targets::and);
    Frozen { adapters: Some(Adapters { rank, targets }), ..Frozen::default() }
}

fn costed(model: &Transformer, setup: &Setup) -> Costed {
    let cluster = Cluster { parts: vec![(machine(), setup.devices())] };
    let recipe = recipe(64);
    Inputs::new(model, &recipe, &cluster).cost(setup).unwrap()
}

fn refusal(model: &Transformer, frozen: Frozen) -> String {
    model.freezing(frozen).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
}

#[test]
fn nothing_frozen_is_the_model_itself() {
    let model = base();
    assert_eq!(model.freezing(Frozen::default()).unwrap(), model);
}

#[test]
fn frozen_weights_have_no_gradient_and_no_state() {
    let (whole, own) = (base(), Setup { split: Split::Even, ..setup([2, 1, 4]) });
    let tuned = whole.freezing(lora(16, &["linear_qkv"])).unwrap();
    let [before, after] = [&whole, &tuned].map(|model| costed(model, &own));
    for (before, after) in before.costs.chunks().iter().zip(after.costs.chunks()) {
        // A forward with its adapters is no faster; W has adapters alone, and B none of W.
        assert!(after.forward >= before.forward);
        assert!(after.backward_weight.0 * 5 < before.backward_weight.0);
    }
    for (before, after) in before.resident.iter().zip(&after.resident) {
        assert!(after.optimizer.0 * 50 < before.optimizer.0);
        assert!(after.gradients.0 * 50 < before.gradients.0);
        // The adapters are held beside the weights.
        assert!(after.parameters > before.parameters);
    }
    // Beside the backward nothing of it may be left.
    assert!(after.exchange <= before.exchange);
    assert!(after.optimizer.0 * 20 < before.optimizer.0);
    // Inputs of frozen products are not kept, those of adapters are; W needs these alone.
    let held = |costed: &Costed| costed.footprints.of(1);
    assert!(held(&after).until_backward < held(&before).until_backward);
    assert!(held(&after).until_weight.0 * 2 < held(&before).until_weight.0);
}

#[test]
fn parameters_of_adapters_are_those_of_peft() {
    // r (K + N) of each product: of PEFT's target modules of Llama 3 8B with r = 8, 20,971,520.
    let eight = model(llama(32, 4096, [32, 8], 14_336, 128_256));
    let of = |modules: &[&str]| eight.freezing(lora(8, modules)).unwrap().trained_parameters();
    let [q, k, o] = [4096 + 4096, 4096 + 1024, 4096 + 4096];
    assert_eq!(of(&["q_proj", "v_proj"]), 32 * 8 * (q + k));
    assert_eq!(of(&["all-linear"]), 20_971_520);
    assert_eq!(of(&["attention"]), 32 * 8 * (4096 + 6144 + o));
    assert_eq!(of(&["wq", "wkv", "wo"]), of(&["q_proj", "k_proj", "v_proj", "o_proj"]));
    // Layers that are frozen have none.
    let half = Frozen { layers: vec![0..=15], ..lora(8, &["all-linear"]) };
    assert_eq!(eight.freezing(half).unwrap().trained_parameters(), 20_971_520 / 2);
}

#[test]
fn operations_that_are_left_out_are_not_counted() {
    let whole = base();
    let kind = whole.layer_kinds()[0];
    let (layers, products) = (number(whole.layers), whole.product_flops(kind));
    let close =
        |ours: f64, theirs: f64| assert!((ours / theirs - 1.0).abs() < 1e-12, "{ours} {theirs}");
    let tuned = whole.freezing(lora(16, &["mlp"])).unwrap();
    let own = tuned.adapter_flops(tuned.layer_kinds()[0]);
    let adapters = 2.0 * 16.0 * number((4096 + 2 * 8192) + (8192 + 4096));
    close(own, adapters);
    close(
        tuned.model_flops(),
        whole.model_flops() - layers * (products - 3.0 * adapters) - whole.head_flops(),
    );
    // Of layers in front of the first that is trained, the forward alone.
    let front = Frozen { embedding: true, layers: vec![0..=7], ..Frozen::default() };
    let front = whole.freezing(front).unwrap();
    close(front.model_flops(), whole.model_flops() - 8.0 * 2.0 * whole.flops_of(kind));
    // With a trained embedding the gradient passes through them.
    let through = Frozen { layers: vec![0..=7], ..Frozen::default() };
    let through = whole.freezing(through).unwrap();
    close(through.model_flops(), whole.model_flops() - 8.0 * products);
    // Nothing is recomputed that has no backward.
    let more = front.hardware_flops(Recompute::Full) - front.model_flops();
    close(more, 8.0 * whole.flops_of(kind));
}

#[test]
fn stages_in_front_of_the_first_trained_layer_have_a_forward_alone() {
    let frozen = Frozen { embedding: true, layers: vec![0..=7], ..Frozen::default() };
    let model = base().freezing(frozen).unwrap();
    let even = Setup { split: Split::Even, ..setup([1, 1, 4]) };
    for family in [Family::OneFOneB, Family::ZbH1, Family::GPipe] {
        let own = costed(&model, &Setup { family, ..even });
        let chunks = own.costs.chunks();
        assert_eq!(own.costs.forward_only_chunks(), 2);
        assert!(chunks[..2].iter().all(|one| one.least_backward() == Nanos(0)));
        assert!(chunks[2..].iter().all(|one| one.backward_weight > Nanos(0)));
        // No gradient is sent to them, and they hold nothing for a backward.
        let sent = own.sends.iter().map(|send| send[1] > Nanos(0)).collect::<Vec<_>>();
        assert_eq!(sent, [false, false, false, true]);
        let held: Vec<Bytes> =
            (0..4).map(|chunk| own.footprints.of(chunk).until_backward).collect();
        assert!(held[0] == Bytes(0) && held[1] == Bytes(0) && held[2] > Bytes(0));
        assert!(own.resident[0].gradients == Bytes(0) && own.resident[0].optimizer == Bytes(0));
        assert!(own.resident[3].gradients > Bytes(0));
        // The engine runs it, never in less than its bound and never before its replay.
        let cluster = Cluster { parts: vec![(machine(), 4)] };
        let recipe = recipe(64);
        let inputs = Inputs::new(&model, &recipe, &cluster);
        if family == Family::GPipe {
            // Its last stages have no room for all microbatches.
            continue;
        }
        let evaluation = inputs.evaluate(&own, &mut Replay::new()).unwrap();
        assert!(inputs.least(&own) <= evaluation.step, "{family:?}");
        let replayed = evaluation.step;
        assert!(inputs.finalist(evaluation).unwrap().step >= replayed, "{family:?}");
    }
    // Layers without a backward count less in a balanced split.
    let layers = costed(&model, &Setup { split: Split::Balanced, ..even }).layers;
    assert_eq!(layers.iter().sum::<u64>(), 16);
    assert!(layers[0] > 4 && layers[3] < 4, "{layers:?}");
}

#[test]
fn frozen_weights_are_gathered_where_replicas_share_them() {
    let own = Setup { zero: Zero::Parameters, reshard: Reshard::AfterForward, ..setup([8, 1, 1]) };
    let whole = base();
    let tuned = whole.freezing(lora(16, &["attention"])).unwrap();
    let apart = |model: &Transformer, zero| {
        let times = costed(model, &Setup { zero, ..own }).costs.chunks()[0];
        [times.forward, times.backward_input, times.backward_weight]
    };
    let [shared, alone] = [Zero::Parameters, Zero::Optimizer].map(|zero| apart(&tuned, zero));
    assert!(shared[0] > alone[0] && shared[1] > alone[1]);
    // Of gradients those of adapters alone are reduced.
    let [whole_shared, whole_alone] =
        [Zero::Parameters, Zero::Optimizer].map(|zero| apart(&whole, zero));
    assert!((shared[2].0 - alone[2].0) * 10 < whole_shared[2].0 - whole_alone[2].0);
}

#[test]
fn larger_ranks_and_more_products_take_longer() {
    let step = |rank, modules: &[&str]| {
        let model = base().freezing(lora(rank, modules)).unwrap();
        costed(&model, &setup([1, 2, 2])).costs.chunks()[0].least_backward()
    };
    assert!(step(16, &["attention"]) < step(256, &["attention"]));
    assert!(step(16, &["linear_qkv"]) < step(16, &["attention"]));
    assert!(step(16, &["attention"]) < step(16, &["attention", "mlp"]));
    // Three adapters instead of one.
    assert!(step(16, &["linear_qkv"]) < step(16, &["q_proj", "k_proj", "v_proj"]));
}

#[test]
fn what_cannot_be_frozen_is_refused() {
    let model = base();
    let all = Frozen { embedding: true, head: true, layers: vec![0..=15], ..Frozen::default() };
    let beyond = Frozen { layers: vec![3..=16], ..Frozen::default() };
    let plain = super::model(gpt(8, 1024, 16));
    let said = [
        (refusal(&model, lora(0, &["mlp"])), "rank 0 of adapters: it must be from 1"),
        (refusal(&model, lora(4097, &["mlp"])), "from 1 to the hidden size, 4096"),
        (refusal(&model, lora(8, &["linear_qkv", "q_proj"])), "linear_q is a part of linear_qkv"),
        (refusal(&model, lora(8, &["in_proj"])), "no layer of the model has in_proj"),
        (refusal(&plain, lora(8, &["gate_proj"])), "no layer of the model has linear_fc1_gate"),
        (refusal(&model, all), "nothing is trained"),
        (refusal(&model, beyond), "layer 16 is frozen, but the last of 16 layers is 15"),
    ];
    for (ours, wanted) in said {
        assert!(ours.contains(wanted), "{ours}: {wanted}");
    }
    // A tied head is the embedding: both are frozen.
    let frozen = Frozen { embedding: true, ..Frozen::default() };
    let tied = plain.freezing(frozen).unwrap();
    assert!(plain.tied && !tied.trains_head());
}

#[test]
fn a_step_with_frozen_weights_is_of_a_kind_of_its_own() {
    let cluster = Cluster { parts: vec![(machine(), 4)] };
    let recipe = recipe(64);
    let name = |model: &Transformer| {
        Kind::of(&Inputs::new(model, &recipe, &cluster), &setup([1, 1, 4])).to_string()
    };
    let tuned = base().freezing(lora(16, &["mlp"])).unwrap();
    assert_eq!(name(&tuned), format!("{}, frozen weights", name(&base())));
}
