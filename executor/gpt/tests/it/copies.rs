//! Offloaded activations: results stay the same to the bit, and a stage holds the planned bytes.

use std::sync::Arc;

use gpt::{Cpu, Reference, Training, footprints};
use pipeline::{
    Bytes, CopyDirection, CopyPart, CopyTimes, Costs, Family, Footprints, Nanos, PassTimes,
    Problem, Schedule, Shape, Slot, Span, Timeline,
};
use runtime::{Boundary, PlannedCopy};

use crate::model::{Trial, all, plan};
use crate::support::losses;

/// Bytes of an element of a tensor in f64.
const ELEMENT: usize = 8;

fn part(per_mille: u32) -> CopyPart {
    CopyPart::new(per_mille).unwrap()
}

fn problem(stages: u64, chunks: u64, microbatches: u64) -> Problem {
    let ms = Nanos(1_000_000);
    let times = PassTimes::new(ms, ms, ms);
    let shape = Shape::new(stages, chunks, microbatches).unwrap();
    let copy = CopyTimes { out: ms, back: ms };
    let copies = vec![copy; usize::from(shape.chunks())];
    Problem::new(shape, Costs::uniform(shape, times, Nanos(0)).with_copies(copies)).unwrap()
}

fn bare(schedule: &Schedule) -> Schedule {
    let orders = schedule.orders().to_vec();
    Schedule::new(schedule.shape(), schedule.placement(), orders).unwrap()
}

/// Orders with copies: PipeOffload's, and orders with all or a part of each activation copied.
fn offloaded() -> Vec<(String, Schedule)> {
    let po = [Family::PoH, Family::PoF]
        .map(|family| (family.name().to_owned(), family.schedule(&problem(2, 2, 10)).unwrap()));
    let others = [
        (Family::ZbH1, 3, 1, 6, 1000, 2),
        (Family::OneFOneB, 4, 1, 8, 333, 1),
        (Family::ZbV, 2, 2, 6, 1000, 3),
        (Family::Gis, 2, 2, 8, 500, 2),
    ];
    let others = others.map(|(family, p, v, m, copied, ahead)| {
        let schedule = family.schedule(&problem(p, v, m)).unwrap();
        (format!("{} {copied}", family.name()), schedule.offloaded(part(copied), ahead))
    });
    po.into_iter().chain(others).collect()
}

/// The peak of `stage` if every copy is done between the slots between which it may begin.
fn peak(schedule: &Schedule, stage: usize, footprints: &Footprints) -> Bytes {
    let copies = schedule.copies().unwrap();
    let slots: Vec<Slot> = schedule.orders()[stage].slots().collect();
    let (mut held, mut peak) = (0, 0);
    for (ended, slot) in (0u32..).zip(&slots) {
        for way in [CopyDirection::Out, CopyDirection::Back] {
            let due = copies.stages()[stage].iter().flatten();
            for op in due.filter(|op| op.way == way && op.after == ended) {
                let bytes = copies.part().of_bytes(footprints.of(op.chunk).until_backward).0;
                held = if way == CopyDirection::Out { held - bytes } else { held + bytes };
                peak = peak.max(held);
            }
        }
        for pass in slot.passes() {
            held += footprints.change(pass).taken_at_start.0;
        }
        peak = peak.max(held);
        for pass in slot.passes() {
            let change = footprints.change(pass);
            held = held + change.taken_at_end.0 - change.freed_at_end.0;
        }
    }
    Bytes(peak)
}

#[test]
fn what_goes_to_the_host_comes_back_to_the_bit() {
    let trial = Trial::random(8, Training::default());
    for (name, schedule) in offloaded() {
        assert!(schedule.copies().is_some_and(|copies| copies.count() > 0), "{name}");
        let boundary = Boundary::Barrier { max_norm: 0.5 };
        let without = trial.run::<f64>(&plan(bare(&schedule), 2, boundary));
        for boundary in [boundary, Boundary::PostValidation { max_norm: 0.5 }] {
            let plan = plan(schedule.clone(), 2, boundary);
            let (measured, left) = trial.run::<f64>(&plan);
            assert_eq!(losses(&measured), losses(&without.0), "{name}");
            if matches!(boundary, Boundary::Barrier { .. }) {
                assert!(left == without.1, "{name}");
            } else {
                assert!(measured.rollbacks > 0, "{name}");
            }
            let (joined, over_tcp) = trial.join::<f64>(&plan);
            assert_eq!(losses(&measured), losses(&joined), "{name}");
            assert!(left == over_tcp, "{name}");
            assert_eq!(measured.peaks, joined.peaks, "{name}");
            let count = 2 * schedule.copies().unwrap().count();
            for steps in [&measured.copies, &joined.copies] {
                assert!(steps.iter().all(|copies| copies.len() == count), "{name}");
                assert!(steps.iter().flatten().all(|copy| copy.start <= copy.end), "{name}");
            }
        }
    }
}

#[test]
fn a_stage_with_copies_trains_as_the_model_in_one_piece() {
    let trial = Trial::random(8, Training::default());
    for (name, schedule) in offloaded() {
        let batches = Arc::clone(&trial.batches);
        let mut reference =
            Reference::new(Cpu::<f32>::new(), trial.model, batches, trial.training).unwrap();
        let loss = reference.run(0, schedule.shape().microbatches()).unwrap();
        let (measured, left) = trial.run::<f32>(&plan(schedule, 1, Boundary::Asynchronous));
        assert_eq!(losses(&measured), [loss], "{name}");
        assert!(all(&left.gradients) == reference.gradients().unwrap(), "{name}");
    }
}

#[test]
fn a_stage_holds_what_its_order_says() {
    let trial = Trial::random(8, Training::default());
    for (name, schedule) in offloaded() {
        let shape = schedule.shape();
        let held = footprints(trial.model, shape, ELEMENT).unwrap();
        let expected: Vec<Bytes> =
            (0..shape.stages()).map(|stage| peak(&schedule, stage, &held)).collect();
        let without = bare(&schedule);
        let (measured, _) = trial.run::<f64>(&plan(schedule.clone(), 2, Boundary::Asynchronous));
        // A copy of a part moves whole elements: each one in transfer takes less than one element
        // more.
        let is_whole = schedule.copies().unwrap().part() == CopyPart::WHOLE;
        let slack = if is_whole { 0 } else { (ELEMENT * shape.cells()) as u64 };
        for (stage, (found, expected)) in measured.peaks.iter().zip(&expected).enumerate() {
            let more = found.0.checked_sub(expected.0);
            assert!(more.is_some_and(|more| more <= slack), "{name} {stage}: {found:?}");
        }
        let (measured, _) = trial.run::<f64>(&plan(without.clone(), 1, Boundary::Asynchronous));
        let memory = pipeline::Memory::of(&without, &held).unwrap();
        assert_eq!(measured.peaks, memory.peak, "{name}");
    }
}

#[test]
fn copies_change_memory_in_the_order_that_was_planned() {
    // Out while F of microbatch 1 runs, so that three are held at its start; or before it.
    let text = "F0.0 F0.1 F0.2 BW0.1 BW0.2 BW0.0 | O0.0@1 R0.0@4\n";
    let schedule: Schedule = text.parse().unwrap();
    let trial = Trial::random(2, Training::default());
    let one = footprints(trial.model, schedule.shape(), ELEMENT).unwrap().of(0).until_backward.0;
    let span = |(at, slot)| Span { slot, start: Nanos(at), end: Nanos(at + 10) };
    let spans = (0..).step_by(10).zip(schedule.orders()[0].slots()).map(span).collect();
    let timeline = Timeline { stages: vec![spans] };
    for (freed, taken, most) in [(10, 40, 2), (15, 40, 2), (25, 40, 3), (30, 45, 3), (12, 45, 2)] {
        let [freed, taken] = [freed, taken].map(Nanos);
        let copy = PlannedCopy { stage: 0, chunk: 0, microbatch: 0, freed, taken };
        let plan = plan(schedule.clone(), 3, Boundary::Asynchronous);
        let (measured, _) = trial.run::<f64>(&plan.with_copies(&timeline, &[copy]));
        assert_eq!(measured.peaks, [Bytes(most * one)], "{freed:?} {taken:?}");
    }
}
