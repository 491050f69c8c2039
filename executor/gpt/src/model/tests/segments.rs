//! Sequences in segments: the pipeline has the result of a single stage, and both that of whole
//! sequences.

use std::collections::HashMap;

use pipeline::{
    Bytes, Costs, Family, Kind, Nanos, Order, Pass, PassTimes, Placement, Problem, Schedule, Shape,
};

use super::equality::{distance, reference_of};
use super::{batches, bits, walk};
use crate::model::{BuildError, Gpt, Layout, Model, Training, footprints};
use crate::{Cpu, Real, Reference};
use runtime::{DeviceError, Trainer, Worker};

/// Sequences of 12 tokens: 2, 3 and 4 segments of them are equal.
fn model(microbatch_size: usize) -> Model {
    Model::new(8, 2, 5, 11, 12, microbatch_size).unwrap()
}

/// Seq1F1B over `stages`, where each microbatch has so many segments.
fn seq1f1b(stages: u64, microbatches: u64, segments: u32) -> Schedule {
    let shape = Shape::new(stages, 1, microbatches * u64::from(segments)).unwrap();
    let one = Nanos(1_000);
    let times = PassTimes::new(one, one, one);
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
    Family::Seq1F1B.schedule(&problem.with_segments(segments).unwrap()).unwrap()
}

/// The bytes that a chunk keeps: the activations of its segments after F, and the gradients of keys
/// and values of those whose backward is still to come.
struct Held {
    segments: u32,
    of_first: u64,
    per_segment_seen: u64,
    gradients: u64,
    /// By microbatch, the segments whose F is done and whose B is not, and whether any B is.
    open: HashMap<u32, (u32, bool)>,
}

impl Held {
    fn new(model: Model, shape: Shape, chunk: u16, segments: u32, element: usize) -> Self {
        let (h, heads) = (model.hidden(), model.heads());
        let part = Model::new(
            h,
            heads,
            model.layers(),
            11,
            12 / segments as usize,
            model.microbatch_size(),
        );
        let part = part.unwrap();
        let layers = Layout::by_chunk(model, shape).unwrap()[usize::from(chunk)].layers().len();
        let bytes = |elements: usize| (elements * layers * part.tokens() * element) as u64;
        Self {
            segments,
            of_first: footprints(part, shape, element).unwrap().of(chunk).until_backward.0,
            per_segment_seen: bytes(heads * part.sequence()),
            gradients: bytes(2 * h),
            open: HashMap::new(),
        }
    }

    fn run(&mut self, pass: Pass) {
        let (whole, index) = (pass.microbatch / self.segments, pass.microbatch % self.segments);
        let done = if pass.kind == Kind::F { (index + 1, false) } else { (index, true) };
        self.open.insert(whole, done);
    }

    fn bytes(&self) -> Bytes {
        let of = |&(open, is_back): &(u32, bool)| {
            let weights: u32 = (0..open).sum();
            let gradients = if is_back { self.gradients * u64::from(open) } else { 0 };
            u64::from(open) * self.of_first + u64::from(weights) * self.per_segment_seen + gradients
        };
        Bytes(self.open.values().map(of).sum())
    }
}

/// Runs a step of `schedule` on one thread; after every pass each stage holds the expected bytes
/// exactly. Returns loss and gradients.
fn run<T: Real>(schedule: &Schedule, model: Model, segments: u32) -> (f64, Vec<f64>) {
    let shape = schedule.shape();
    let build = |stage| {
        let (data, training) = (batches(model), Training::default());
        let gpt = Gpt::new(Cpu::<T>::new(), model, schedule, stage, data, training).unwrap();
        gpt.in_segments(segments, schedule).unwrap()
    };
    let mut stages: Vec<Gpt<Cpu<T>>> = (0..shape.stages()).map(build).collect();
    let mut held: Vec<Held> =
        (0..shape.chunks()).map(|c| Held::new(model, shape, c, segments, T::BYTES)).collect();
    walk(schedule, &mut stages, 2, |gpt, stage, pass, made| {
        if let Some(made) = made {
            assert_eq!(made.len(), model.tokens() / segments as usize * model.hidden());
        }
        held[stage].run(pass);
        assert_eq!(gpt.activations().held, held[stage].bytes(), "{pass}");
    });
    let loss = stages.last_mut().unwrap().loss().unwrap().unwrap();
    let mut all = vec![f64::NAN; model.parameters()];
    for part in stages.iter_mut().flat_map(|stage| stage.gradients().unwrap()) {
        all[part.range].copy_from_slice(&part.values);
    }
    (loss, all)
}

/// Relative errors of loss and gradients to those of whole sequences in f64.
fn errors(model: Model, microbatches: u32, found: &(f64, Vec<f64>)) -> [f64; 2] {
    let (loss, gradients) = reference_of::<f64>(model, microbatches);
    [(found.0 / loss - 1.0).abs(), distance(&found.1, &gradients)]
}

#[test]
fn segments_compute_what_whole_sequences_do() {
    let model = model(2);
    for segments in [2, 3, 4, 12] {
        for stages in [1, 2, 4] {
            let schedule = seq1f1b(stages, 3, segments);
            // The gradients of a segment are accumulated separately: the order of additions
            // differs, over at most 36 rows and 12 keys.
            let wide = run::<f64>(&schedule, model, segments);
            let [loss, gradients] = errors(model, 3, &wide);
            assert!(loss < 1e-14 && gradients < 1e-14, "{segments}: {loss:e} {gradients:e}");
            let single = run::<f32>(&schedule, model, segments);
            let bound = 32.0 * f64::from(f32::EPSILON);
            let worst = errors(model, 3, &single).into_iter().fold(0.0, f64::max);
            assert!(worst > 0.0 && worst < bound, "{segments}: {worst:e}");
        }
    }
}

#[test]
fn a_pipeline_of_segments_computes_to_the_bit_what_one_stage_does() {
    let model = model(2);
    for segments in [2, 4] {
        let alone = run::<f32>(&seq1f1b(1, 4, segments), model, segments);
        for stages in [2, 4, 5] {
            let found = run::<f32>(&seq1f1b(stages, 4, segments), model, segments);
            assert!(found == alone, "{segments} segments, {stages} stages");
        }
    }
}

#[test]
fn the_forward_of_segments_is_that_of_a_whole_sequence_to_the_bit() {
    // With one sequence in a microbatch, tokens come in the same order: so do the parts of the loss.
    let model = model(1);
    for segments in [2, 3, 4, 6] {
        let (loss, _) = run::<f32>(&seq1f1b(2, 3, segments), model, segments);
        assert_eq!(loss.to_bits(), reference_of::<f32>(model, 3).0.to_bits(), "{segments}");
    }
}

#[test]
fn what_is_no_order_of_segments_is_refused() {
    let model = model(1);
    let build = |schedule: &Schedule, segments| {
        let (data, training) = (batches(model), Training::default());
        let gpt = Gpt::new(Cpu::<f32>::new(), model, schedule, 0, data, training).unwrap();
        gpt.in_segments(segments, schedule).map(drop)
    };
    let text = |schedule: &Schedule, segments| match build(schedule, segments) {
        Err(error @ BuildError::Segments { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let good = seq1f1b(2, 2, 2);
    assert_eq!(build(&good, 2), Ok(()));
    assert_eq!(text(&good, 3), "3 segments of a sequence: 4 are not whole microbatches");
    assert_eq!(
        text(&seq1f1b(2, 2, 5), 5),
        "5 segments of a sequence: 12 tokens do not divide into them"
    );
    let shape = Shape::new(1, 1, 2).unwrap();
    let order = |passes: [Pass; 4]| {
        Schedule::new(shape, Placement::Looped, vec![Order::from_iter(passes)]).unwrap()
    };
    let [f0, f1, b0, b1] = [Pass::f(0, 0), Pass::f(0, 1), Pass::bw(0, 0), Pass::bw(0, 1)];
    assert_eq!(build(&order([f0, f1, b1, b0]), 2), Ok(()));
    for (passes, first) in [([f1, f0, b1, b0], f1), ([f0, b0, f1, b1], f1), ([f0, f1, b0, b1], b0)]
    {
        let said = text(&order(passes), 2);
        let expected = format!("2 segments of a sequence: {first} does not follow its neighbours");
        assert_eq!(said, expected);
    }
}

#[test]
fn a_segment_without_its_neighbours_is_refused() {
    let (model, schedule) = (model(1), seq1f1b(1, 1, 2));
    let (data, training) = (batches(model), Training::default());
    let gpt = Gpt::new(Cpu::<f32>::new(), model, &schedule, 0, data, training).unwrap();
    let mut gpt = gpt.in_segments(2, &schedule).unwrap();
    let missing = |result| matches!(result, Err(DeviceError::NotAtHand { .. }));
    assert!(missing(gpt.run(Pass::f(0, 1), None)));
    gpt.run(Pass::f(0, 0), None).unwrap();
    gpt.run(Pass::f(0, 1), None).unwrap();
    assert!(missing(gpt.run(Pass::bw(0, 0), None)));
}

#[test]
fn segments_are_trained_as_whole_sequences_are() {
    let (model, segments) = (model(2), 3);
    let schedule = seq1f1b(1, 2, segments);
    let (data, training) = (batches(model), Training::default());
    let gpt = Gpt::new(Cpu::<f64>::new(), model, &schedule, 0, data, training).unwrap();
    let mut gpt = gpt.in_segments(segments, &schedule).unwrap();
    let mut whole = Reference::new(Cpu::<f64>::new(), model, batches(model), training).unwrap();
    for step in 0..3 {
        gpt.begin_step(step).unwrap();
        gpt.clear().unwrap();
        let orders = schedule.orders();
        orders[0].passes().iter().for_each(|&pass| assert!(gpt.run(pass, None).unwrap().is_none()));
        whole.run(step, 2).unwrap();
        gpt.update(1.0).unwrap();
        whole.update(1.0).unwrap();
    }
    let weights = gpt.weights().unwrap();
    assert!(!bits(&weights).is_empty());
    assert!(distance(&weights[0].values, &whole.weights().unwrap()) < 1e-9);
}
