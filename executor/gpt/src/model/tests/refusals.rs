//! A model or schedule that cannot be built or run is refused with an error that names it.

use pipeline::{Family, Pass, Schedule};

use super::{alone, batches, model, schedule};
use runtime::Undo;

use crate::model::{BuildError, Gpt, Model, ModelError, Training};
use crate::{AdamW, Batch, Batches, Cpu};
use runtime::{DeviceError, Trainer, Worker};

#[test]
fn what_cannot_be_run_is_refused() {
    let build = |schedule: &Schedule, layers, stage, training| {
        let model = model(layers);
        Gpt::new(Cpu::<f32>::new(), model, schedule, stage, batches(model), training).err()
    };
    let good = Training::default();
    let schedule = schedule(Family::OneFOneB, 2, 2);
    assert_eq!(build(&schedule, 2, 0, good), None);
    let stages = 2;
    assert_eq!(build(&schedule, 2, 2, good), Some(BuildError::NoSuchStage { stage: 2, stages }));
    let too_few = ModelError::TooFewLayers { layers: 1, chunks: 2 };
    assert_eq!(build(&schedule, 1, 0, good), Some(too_few.into()));
    for (rule, what) in [
        (AdamW { learning_rate: f64::NAN, ..AdamW::default() }, "the learning rate"),
        (AdamW { beta1: 0.0, ..AdamW::default() }, "beta1"),
        (AdamW { beta2: 1.0, ..AdamW::default() }, "beta2"),
        (AdamW { epsilon: 0.0, ..AdamW::default() }, "epsilon"),
        (AdamW { weight_decay: -1.0, ..AdamW::default() }, "the weight decay"),
        (
            AdamW { weight_decay: 1e3, ..AdamW::default() },
            "the learning rate times the weight decay",
        ),
    ] {
        let error = build(&schedule, 2, 0, Training { rule, ..good }).unwrap();
        assert!(error.to_string().starts_with(&format!("{what} must be ")), "{error}");
    }
    let rule = AdamW { beta1: 0.0, ..AdamW::default() };
    assert_eq!(build(&schedule, 2, 0, Training { rule, undo: Undo::Snapshot, ..good }), None);
}

#[test]
fn passes_without_what_they_need_are_refused() {
    let mut stage = alone(2, 2, Undo::Inverse);
    for pass in [Pass::b(0, 0), Pass::w(0, 0), Pass::f(1, 0), Pass::f(7, 0)] {
        assert!(matches!(stage.run(pass, None), Err(DeviceError::NotAtHand { .. })), "{pass}");
    }
    assert!(stage.run(Pass::f(0, 0), None).is_ok());
    assert!(matches!(stage.run(Pass::w(0, 0), None), Err(DeviceError::NotAtHand { .. })));
}

#[test]
fn stages_may_run_on_threads_of_their_own() {
    fn is_send<T: Send>() {}
    is_send::<Gpt<Cpu<f32>>>();
}

#[test]
fn models_that_cannot_be_are_refused() {
    let error = |h, a, l, v, s, b| Model::new(h, a, l, v, s, b).unwrap_err().to_string();
    assert_eq!(error(0, 1, 1, 1, 1, 1), "hidden must be at least 1");
    assert_eq!(error(8, 3, 1, 1, 1, 1), "hidden 8 is not a multiple of 3 heads");
    assert!(error(1, 1, 1, 1, usize::MAX, 1).starts_with("seq is 18446744073709551615: at most"));
    let most = 1 << 20;
    assert!(error(most, 1, most, 1, 1, 1).starts_with("the number of parameters is "));
    assert!(error(most, most, most, most, most, most).contains("the number of parameters"));
    assert!(error(16, 16, 1, 1, most, most).starts_with("the number of activations"));
    for model in [model(1), model(7)] {
        assert_eq!(model.parameters(), crate::Layout::whole(model).parameters());
    }
}

/// Microbatches of another model.
struct Other(Batch);

impl Batches for Other {
    fn batch(&self, _: u32, _: u32) -> Batch {
        self.0.clone()
    }
}

#[test]
fn microbatches_of_another_model_are_refused() {
    let model = model(1);
    let schedule = schedule(Family::OneFOneB, 1, 1);
    let good = vec![0; model.tokens()];
    for (tokens, targets) in [
        (vec![11; model.tokens()], good.clone()),
        (good.clone(), vec![u32::MAX; model.tokens()]),
        (vec![0; 3], good.clone()),
        (good.clone(), vec![]),
    ] {
        let data = std::sync::Arc::new(Other(Batch { tokens, targets }));
        let training = Training::default();
        let mut stage = Gpt::new(Cpu::<f32>::new(), model, &schedule, 0, data, training).unwrap();
        assert!(matches!(stage.run(Pass::f(0, 0), None), Err(DeviceError::NotAtHand { .. })));
    }
}

#[test]
fn gradients_of_other_weights_are_refused() {
    let schedule = schedule(Family::Chimera, 2, 4);
    let model = model(2);
    let training = Training::default();
    let mut stage =
        Gpt::new(Cpu::<f32>::new(), model, &schedule, 0, batches(model), training).unwrap();
    let ours = stage.share().unwrap();
    assert_eq!(ours.len(), 4 * model.parameters(), "a stage of two holds both chunks");
    let error = stage.merge(&ours[4..]).unwrap_err().to_string();
    assert!(error.contains("bytes of gradients instead of"), "{error}");
    assert_eq!(stage.merge(&ours), Ok(()));
}
