//! Static buffers of CUDA graphs.

use pipeline::{Bytes, Family};

use super::super::{machine, model, recipe, setup};
use super::models;
use crate::{
    Capture, Cluster, Graphs, Inputs, Module, Modules, Options, Orders, Recipe, Recompute, Setup,
    Software, Split, StageMemory, Transformer, number,
};

/// The memory of every stage of `setup` of `model` on 64 devices, with 64 samples and graphs of `modules`.
fn memory(model: &Transformer, setup: &Setup, modules: &[Capture]) -> Vec<StageMemory> {
    with_software(model, setup, |software| Software { capture: all(modules), ..software })
}

fn all(modules: &[Capture]) -> Capture {
    modules.iter().copied().fold(Capture::NONE, Capture::and)
}

fn with_software(
    model: &Transformer,
    setup: &Setup,
    with: impl Fn(Software) -> Software,
) -> Vec<StageMemory> {
    let own = recipe(64);
    let recipe = Recipe { software: with(own.software), ..own };
    let cluster = Cluster { parts: vec![(machine(), setup.devices())] };
    let inputs = Inputs::new(model, &recipe, &cluster);
    inputs.run_single(setup, &Orders::default()).unwrap().finalist.evaluation.memory
}

fn graphs(memory: &[StageMemory]) -> Vec<u64> {
    memory.iter().map(|held| held.graphs.0).collect()
}

/// A set-up with `pipeline` stages of `chunks` chunks, and two devices in every tensor group.
fn stages(pipeline: u64, chunks: u64) -> Setup {
    let family = if chunks > 1 { Family::Interleaved } else { Family::OneFOneB };
    Setup { chunks, family, split: Split::Even, ..setup([1, 2, pipeline]) }
}

/// Without graphs of modules nothing is held for them; with them all else is as it was.
#[test]
fn buffers_come_beside_all_else() {
    let model = model(models::named("qwen3-30b-a3b", 4096));
    for (pipeline, chunks) in [(1, 1), (4, 1), (4, 3)] {
        let own = stages(pipeline, chunks);
        let without = memory(&model, &own, &[]);
        let with = memory(&model, &own, &[Capture::ATTENTION, Capture::ROUTER]);
        assert!(without.iter().all(|held| held.graphs == Bytes(0)));
        for (with, without) in with.iter().zip(&without) {
            assert!(with.graphs > Bytes(0));
            assert_eq!(StageMemory { graphs: Bytes(0), ..*with }, *without);
            assert_eq!(with.sum(), without.sum() + with.graphs);
        }
    }
}

/// Copies to the host move activations, and no buffer of a graph.
#[test]
fn buffers_stay_where_activations_are_copied() {
    let model = model(models::named("llama3.1-8b", 4096));
    let own = Setup { family: Family::PoH, ..stages(4, 2) };
    let without = memory(&model, &own, &[]);
    let with = memory(&model, &own, &[Capture::ATTENTION]);
    for (with, without) in with.iter().zip(&without) {
        assert!(with.graphs > Bytes(0));
        assert_eq!(StageMemory { graphs: Bytes(0), ..*with }, *without);
    }
}

/// A mask of s^2 bytes for each layer and microbatch in flight: p - i of them on stage i of 1F1B, which hold as many
/// layers in all; m if there are fewer; and one without a pipeline, however many microbatches a step has.
#[test]
fn masks_are_held_for_microbatches_in_flight() {
    let model = model(models::named("llama3.1-8b", 4096));
    let mask = 4096 * 4096;
    let of = |own: &Setup| graphs(&memory(&model, own, &[Capture::ATTENTION]));
    assert_eq!(of(&stages(1, 1)), [32 * mask]);
    assert_eq!(of(&stages(4, 1)), [4, 3, 2, 1].map(|flight| flight * 8 * mask));
    assert_eq!(of(&stages(8, 1))[0], 32 * mask);
    let few = Setup { data: 32, ..stages(4, 1) };
    assert_eq!(of(&few), [2, 2, 2, 1].map(|flight| flight * 8 * mask));
    // The last samples of a microbatch have a mask of their own, and a context group divides its rows.
    assert_eq!(of(&Setup { microbatch: 2, ..stages(1, 1) }), [2 * 32 * mask]);
    assert_eq!(of(&Setup { context: 2, ..stages(1, 1) }), [32 * mask / 2]);
    // Interleaved, stage 0 of 2 with 4 chunks of 4 layers runs 9 forwards before its second backward.
    assert_eq!(of(&stages(2, 4)), [9 * 4 * mask, 7 * 4 * mask]);
}

/// What the graph of each module gives that is otherwise given up in the forward, in hidden states of a token.
#[test]
fn outputs_follow_the_modules() {
    let hidden = |model: &Transformer| 4096 * 2 * model.hidden / 2;
    let dense = model(models::named("llama3.1-8b", 4096));
    let of = |modules: &[Capture]| graphs(&memory(&dense, &stages(1, 1), modules))[0];
    let mask = 32 * 4096 * 4096;
    assert_eq!(of(&[Capture::ATTENTION]), mask);
    assert_eq!(of(&[Capture::MLP]), 0);
    // Whole layers: the output of one beside the input of the next.
    assert_eq!(of(&[Capture::ATTENTION, Capture::MLP]), mask + 32 * hidden(&dense));

    // Experts without shared ones, of which a token visits 8.
    let experts = model(models::named("qwen3-30b-a3b", 4096));
    let own = Setup { expert: 2, expert_tensor: 1, ..stages(1, 1) };
    let of = |own: &Setup, modules: &[Capture]| graphs(&memory(&experts, own, modules))[0];
    let both = [Capture::ROUTER, Capture::PREPROCESS];
    assert_eq!(of(&own, &[Capture::ROUTER]), 0);
    assert_eq!(of(&own, &both), 48 * 8 * hidden(&experts));
    let once = with_software(&experts, &own, |software| Software {
        capture: all(&both),
        sends_once: true,
        ..software
    });
    assert_eq!(graphs(&once), [0]);
    // A normalisation before the router is not computed again, since the graph gives its result.
    let norms = Modules::of(&[Module::LayerNorm]).map_or(Recompute::None, Recompute::Modules);
    let again = Setup { recompute: norms, ..own };
    assert_eq!(of(&again, &[Capture::ROUTER]), 48 * hidden(&experts));
    // One of 27 layers of Moonlight is dense; the others have shared experts.
    let shared = model(models::named("moonlight-16b-a3b", 4096));
    let of = |modules: &[Capture]| graphs(&memory(&shared, &own, modules))[0];
    assert_eq!(of(&[Capture::ROUTER]), 26 * hidden(&shared));
}

/// Layers that are computed again whole have no graphs.
#[test]
fn recomputed_layers_have_no_graphs() {
    let model = model(models::named("llama3.1-8b", 4096));
    let of = |recompute| {
        let own = Setup { recompute, ..stages(4, 1) };
        graphs(&memory(&model, &own, &[Capture::ATTENTION]))[0]
    };
    let layer = 4 * 4096 * 4096;
    assert_eq!(of(Recompute::Full), 0);
    assert_eq!(of(Recompute::First(3)), 5 * layer);
    assert_eq!(of(Recompute::Selective), 8 * layer);
}

/// Options of a search turn on graphs of attention and router, and whole steps hold nothing that is known.
#[test]
fn options_capture_attention_and_router() {
    let model = model(models::named("llama3.1-8b", 4096));
    let of = |graphs| {
        let options = Options { graphs, ..Options::NONE };
        self::graphs(&memory(&model, &Setup { options, ..stages(1, 1) }, &[]))[0]
    };
    assert_eq!(of(Graphs::Partial), 32 * 4096 * 4096);
    assert_eq!((of(Graphs::Full), of(Graphs::None)), (0, 0));
}

/// Megatron-LM's functional test with graphs of attention records its allocated memory before and after they are made
/// (golden values of 2026-04-29 for one step of warm-up, last stage): 3,708.8 and 4,882.0 MB. Static are hidden states
/// and masks of the layers in flight, of which hidden states stand in for activations.
#[test]
fn recorded_memory_of_graphs_is_near_the_static_inputs() {
    let (sequence, samples, hidden, tensor) = (4096u64, 4, 512, 2);
    // 7 chunks of 2 layers are in flight on the last of 2 stages with 4 chunks.
    let layers = 7 * 2;
    let masks = layers * samples * sequence * sequence;
    let states = layers * samples * sequence * hidden * 2 / tensor;
    let predicted = number(masks + states) / 1e6;
    let recorded = 4882.0 - 3708.8;
    assert!((0.88..1.0).contains(&(predicted / recorded)), "{predicted} of {recorded}");
}

/// NVIDIA's guide to the performance of Megatron-Bridge: static buffers take a few GB, with a pipeline maybe more than
/// 10. Its recipe for Llama 3 70B on GB200 captures whole layers on 4 stages of 5 chunks.
#[test]
fn whole_layers_of_a_pipeline_hold_more_than_ten_gigabytes() {
    let model = model(models::named("llama3.1-70b", 8192));
    let modules = [Capture::ATTENTION, Capture::MLP];
    let held = graphs(&memory(&model, &stages(4, 5), &modules));
    let one = 8192 * 8192 + 8192 * 2 * 8192 / 2;
    assert_eq!(held, [23, 21, 19, 17].map(|flight| flight * 4 * one));
    assert!(held[0] > 10_000_000_000, "{held:?}");
}
