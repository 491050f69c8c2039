//! Recomputed activations equal the discarded ones, to the bit.

use pipeline::{Family, Memory, Placement};

use super::equality::{in_halves, reference_of};
use super::{Stages, batches, model, runnable};
use crate::Real;
use crate::model::{Recomputed, Training};

/// Everything; one layer of the chunk; more than it has; attention weights alone.
const PARTS: [Recomputed; 4] =
    [Recomputed::Everything, Recomputed::Layers(1), Recomputed::Layers(100), Recomputed::Attention];

/// Every family, stages with and without recomputation, and every part: losses and gradients are
/// those of the serial reference, and after every pass a stage holds what its footprints say.
fn check_every_family<T: Real>() {
    let (model, microbatches) = (model(9), 4);
    let serial = reference_of::<T>(model, microbatches);
    let halves = in_halves::<T>(model, microbatches);
    for (family, stages) in Family::ALL.into_iter().flat_map(|f| [(f, 2), (f, 4)]) {
        let Some(plain) = runnable(family, stages, microbatches.into()) else { continue };
        let chunks = usize::from(plain.shape().chunks());
        // Two copies of the weights sum up the gradients of their halves by themselves.
        let is_mirrored = plain.placement() == Placement::Mirrored;
        let expected = if is_mirrored { &halves } else { &serial };
        for part in PARTS {
            for only in [0, 1, 2] {
                // All chunks, those of even number, those of odd number.
                let wanted = |chunk| only == 0 || u32::from(chunk) % 2 == only - 1;
                // Offloaded activations are not recomputed.
                let Ok(schedule) = plain.clone().recomputing(wanted) else { continue };
                let parts = vec![part; chunks];
                let (data, training) = (batches(model), Training::default());
                let mut all = Stages::<T>::recomputing(schedule, model, &data, training, &parts);
                let found = (all.step(2), all.gradients(model));
                assert!(found == *expected, "{} p={stages} {part:?} {only}", family.name());
            }
        }
    }
}

#[test]
fn every_family_recomputes_what_the_serial_reference_computes_once() {
    check_every_family::<f64>();
    check_every_family::<f32>();
}

#[test]
fn gpipe_holds_inputs_and_one_microbatch() {
    let plain = runnable(Family::GPipe, 4, 8).unwrap();
    let schedule = plain.clone().recomputing(|_| true).unwrap();
    let (model, training) = (model(9), Training::default());
    let stages = |schedule| Stages::<f32>::new(schedule, model, &batches(model), training);
    let (before, after) = (stages(plain.clone()), stages(schedule.clone()));
    let whole = Memory::of(&plain, &before.footprints).unwrap().peak;
    let kept = Memory::of(&schedule, &after.footprints).unwrap().peak;
    for (chunk, (kept, whole)) in (0u16..).zip(kept.into_iter().zip(whole)) {
        let one = after.footprints.of(chunk).until_backward;
        let input = after.footprints.kept(chunk).unwrap();
        assert_eq!((kept, whole), (input * 7 + one, one * 8));
    }
}
