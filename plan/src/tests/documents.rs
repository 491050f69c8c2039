//! Steps of microbatches whose documents differ, with context groups of one size and as large as needed.

use pipeline::Family;
use sim::Replay;

use super::{llama, machine, model, recipe, setup};
use crate::{
    Cluster, DocumentSteps, Dynamic, Finalist, Inputs, Recipe, Setup, Sizes, Transformer,
    document_steps, dynamic, number,
};

const SEQUENCE: u64 = 16_384;

fn long() -> Transformer {
    model(Sizes { sequence: SEQUENCE, ..llama(8, 1024, [16, 8], 4096, 32_000) })
}

/// Runs `setup` on `devices`, where a share `attended` of the token pairs attend to each other, and
/// calls `ask` with its run.
fn with<T>(
    setup: &Setup,
    attended: f64,
    devices: u64,
    ask: impl Fn(&Inputs<'_>, &Finalist) -> T,
) -> T {
    let (model, cluster) = (long(), Cluster { parts: vec![(machine(), devices)] });
    let recipe = Recipe { attended, ..recipe(64) };
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let costed = inputs.cost(setup).unwrap();
    let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
    ask(&inputs, &inputs.finalist(evaluation).unwrap())
}

fn steps(setup: &Setup, attended: f64, devices: u64, shares: &[f64]) -> (u64, DocumentSteps) {
    with(setup, attended, devices, |inputs, finalist| {
        let steps = document_steps(inputs, finalist, shares, &|| false).unwrap().unwrap();
        (finalist.step.0, steps)
    })
}

fn dynamic_step(setup: &Setup, attended: f64, devices: u64, documents: &[u32]) -> (u64, Dynamic) {
    with(setup, attended, devices, |inputs, finalist| {
        let found = dynamic(inputs, finalist, documents, &|| false).unwrap().unwrap();
        (finalist.step.0, found)
    })
}

fn near(a: u64, b: u64, by: f64) -> bool {
    (number(a) / number(b) - 1.0).abs() < by
}

fn families() -> [Setup; 3] {
    let one = setup([4, 1, 2]);
    [setup([8, 1, 1]), Setup { chunks: 2, family: Family::Interleaved, ..one }, setup([1, 1, 8])]
}

#[test]
fn even_microbatches_take_the_step_of_the_mean() {
    for setup in families() {
        let (step, even) = steps(&setup, 0.3, 8, &[0.3; 64]);
        assert_eq!([even.mean.0, even.p95.0], [step; 2], "{setup:?}");
        // With another share, times are those of a question with that share.
        let (_, more) = steps(&setup, 0.3, 8, &[0.8; 64]);
        let (whole, _) = steps(&setup, 0.8, 8, &[0.8; 64]);
        assert!(near(more.mean.0, whole, 1e-3), "{setup:?}: {} {whole}", more.mean.0);
    }
}

#[test]
fn uneven_microbatches_wait_in_the_pipeline_and_for_the_slowest_replica() {
    let shares: Vec<f64> = (0..4096).map(|at| if at % 7 == 0 { 1.0 } else { 0.1 }).collect();
    let mean = shares.iter().sum::<f64>() / 4096.0;
    // Alone on one stage, a step takes as long as even microbatches would.
    let (step, alone) = steps(&setup([1, 1, 1]), mean, 1, &shares);
    assert!(near(alone.mean.0, step, 5e-3), "{} {step}", alone.mean.0);
    let (step, piped) = steps(&setup([1, 1, 8]), mean, 8, &shares);
    assert!(number(piped.mean.0) > 1.002 * number(step), "{} {step}", piped.mean.0);
    let (step, waits) = steps(&setup([8, 1, 1]), mean, 8, &shares);
    assert!(waits.mean.0 > step && waits.p95 >= waits.mean, "{waits:?} {step}");
    // Replicas that share experts wait for each other in every microbatch; sixteen in two groups.
    let coupled = Setup { expert: 8, ..setup([16, 1, 1]) };
    assert_eq!([setup([16, 1, 1]), coupled].map(|one| one.replicas_together()), [1, 8]);
}

#[test]
fn a_stop_leaves_no_steps() {
    let none = with(&setup([8, 1, 1]), 0.5, 8, |inputs, finalist| {
        let fixed = document_steps(inputs, finalist, &[0.5], &|| true).unwrap();
        (fixed, dynamic(inputs, finalist, &[5], &|| true).unwrap())
    });
    assert_eq!(none, (None, None));
}

/// Documents as long as a sequence need the whole context group: the step is the same as without
/// documents.
#[test]
fn the_longest_documents_take_what_a_fixed_context_takes() {
    let one = Setup { context: 4, ..setup([2, 1, 1]) };
    let piped = Setup { context: 4, chunks: 2, family: Family::Interleaved, ..setup([2, 1, 2]) };
    for (setup, devices) in [(one, 8), (piped, 16)] {
        let (step, found) = dynamic_step(&setup, 1.0, devices, &[16_384]);
        assert!(near(found.steps.mean.0, step, 1e-3), "{found:?} {step}");
        assert_eq!((found.groups[0].context, found.groups.len()), (4, 1));
        assert_eq!((found.filled, found.tokens_per_device), (1.0, 4096));
    }
}

#[test]
fn short_documents_are_done_without_context_groups() {
    let setup = Setup { context: 4, ..setup([2, 1, 1]) };
    let (step, found) = dynamic_step(&setup, 0.25, 8, &[4_096]);
    assert_eq!(found.groups.iter().map(|one| one.context).collect::<Vec<_>>(), [1]);
    assert!(found.steps.mean.0 < step, "{found:?} {step}");
    // As many microbatches, of a document for each device: so is a set-up without context parallelism.
    let (plain, _) = with(&super::setup([8, 1, 1]), 1.0, 8, |inputs, _| {
        let short = inputs.model.with_sequence(4_096);
        let recipe = Recipe { batch: 256, ..inputs.recipe.clone() };
        let inputs = Inputs { model: &short, recipe: &recipe, ..*inputs };
        let costed = inputs.cost(&super::setup([8, 1, 1])).unwrap();
        let evaluation = inputs.evaluate(&costed, &mut Replay::new()).unwrap();
        (inputs.finalist(evaluation).unwrap().step.0, ())
    });
    assert!(near(found.steps.mean.0, plain, 2e-3), "{found:?} {plain}");
}

/// One document in eight needs a whole context group, one half of it, and the others a device each.
#[test]
fn groups_follow_the_lengths_and_short_documents_fill_them() {
    let piped = Setup { context: 4, chunks: 2, family: Family::Interleaved, ..setup([2, 1, 2]) };
    let length = |at: u32| match at % 8 {
        0 => 16_384,
        1 => 6_000,
        _ => 50 + at * 37 % 1_500,
    };
    let documents: Vec<u32> = (0..4096).map(length).collect();
    let (_, found) = dynamic_step(&piped, 0.5, 16, &documents);
    let sizes: Vec<u64> = found.groups.iter().map(|one| one.context).collect();
    assert!(sizes.starts_with(&[1, 2, 4]), "{found:?}");
    assert!((found.groups.iter().map(|one| one.tokens).sum::<f64>() - 1.0).abs() < 1e-9);
    // Short documents fill the capacity that long ones leave.
    assert!((0.97..=1.0).contains(&found.filled), "{found:?}");
    assert_eq!(found, dynamic_step(&piped, 0.5, 16, &documents).1);
}

/// Documents of three fifths of a device's tokens leave two fifths of every device: a step of all tokens
/// takes that much longer.
#[test]
fn what_has_no_room_is_left_to_further_steps() {
    let setup = Setup { context: 4, ..setup([2, 1, 1]) };
    let (_, found) = dynamic_step(&setup, 0.25, 8, &[2_458]);
    assert!((found.filled - 0.6).abs() < 0.01, "{found:?}");
    let (_, full) = dynamic_step(&setup, 0.25, 8, &[2_048]);
    assert_eq!(full.filled, 1.0);
    assert!(found.steps.mean > full.steps.mean, "{found:?} {full:?}");
}
