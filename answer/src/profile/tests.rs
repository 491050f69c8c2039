//! Profiles of runs whose times are known.

use ::profile::{AnyProfile, Backward, TrainerCosts, TrainerError, Unsplit};
use pipeline::{Bytes, Costs, Family, Footprint, Metrics, Nanos, PassTimes, Shape, Slot};
use sim::Replay;

use super::*;
use crate::compare::tests::{Faults, recorded, shape_of};

const DELAY: u64 = 50_000;

fn run_of(family: Family) -> Recorded {
    recorded(family, shape_of(family), Faults { delay: DELAY, ..Faults::default() })
}

fn has_pairs(recorded: &Recorded) -> bool {
    let slots = recorded.schedule.orders().iter().flat_map(|order| order.slots());
    slots.into_iter().any(|slot| matches!(slot, Slot::Pair(..)))
}

/// The costs of passes that begin with the overhead, as questions count it.
fn with_overhead(costs: &TrainerCosts, whole: bool) -> Costs {
    let TrainerCosts { costs, overhead, .. } = costs;
    let times = costs.chunks().iter().map(|times| {
        PassTimes::new(
            times.forward + *overhead,
            times.backward_input + *overhead,
            times.backward_weight + if whole { Nanos(0) } else { *overhead },
        )
    });
    Costs::new(times.collect(), Nanos(0)).with_hops(costs.hops().clone())
}

#[test]
fn a_profile_of_a_run_predicts_that_run() {
    let mut seen = 0;
    for family in Family::ALL {
        let run = run_of(family);
        if run.shape().has_shards() || has_pairs(&run) {
            continue;
        }
        let profile = of(&run).unwrap();
        assert_eq!(profile.overhead.as_ref().unwrap().median(), Nanos(DELAY), "{}", run.name);
        let whole = family.has_whole_backwards();
        assert_eq!(matches!(profile.chunks[0].backward, Backward::Whole(_)), whole, "{}", run.name);
        let unsplit = if whole { Unsplit::Halves } else { Unsplit::Refused };
        let costs = profile.costs(run.shape(), unsplit).unwrap();
        let costs = with_overhead(&costs, whole);
        let predicted = Replay::new().timeline(&run.schedule, &costs).unwrap();
        let measured = Metrics::of(&run.steps[0].timeline()).makespan();
        // The run's first pass began after its delay, which the prediction counts as work.
        let error = Metrics::of(&predicted).makespan().0.abs_diff(measured.0);
        assert!(error <= DELAY, "{} {error}", run.name);
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn chunks_are_put_together_but_not_cut() {
    let profile = of(&run_of(Family::ZbV)).unwrap();
    let apart = profile.costs(Shape::new(4, 2, 8).unwrap(), Unsplit::Refused).unwrap().costs;
    let together = profile.costs(Shape::new(4, 1, 8).unwrap(), Unsplit::Refused).unwrap().costs;
    let [half, whole] = [&apart, &together].map(|costs| costs.chunks()[0].forward.0);
    assert_eq!(whole, 2 * half);
    assert_eq!(apart.hops(), together.hops());
    let error = profile.costs(Shape::new(3, 1, 8).unwrap(), Unsplit::Refused).unwrap_err();
    assert_eq!(error, TrainerError::Chunks { recorded: 8, asked: 3 });
}

#[test]
fn whole_backwards_say_nothing_of_their_parts() {
    let profile = of(&run_of(Family::OneFOneB)).unwrap();
    let shape = Shape::new(4, 1, 8).unwrap();
    let whole = profile.costs(shape, Unsplit::Halves).unwrap().costs.chunks()[0];
    let expected = 2 * 10_000_000;
    assert_eq!(whole.backward_input.0 + whole.backward_weight.0, expected);
    let error = profile.costs(shape, Unsplit::Refused).unwrap_err().to_string();
    assert!(error.contains("`1f1b`") && error.contains("B and W apart"), "{error}");
}

#[test]
fn facts_are_kept_and_held_against_the_chunks() {
    let footprint = Footprint { until_backward: Bytes(300), until_weight: Bytes(200) };
    let facts =
        Facts { footprints: vec![footprint; 8], message: Some(Bytes(64)), ..Facts::default() };
    let run = Recorded { facts: Some(facts.clone()), ..run_of(Family::ZbV) };
    let profile = of(&run).unwrap();
    let together =
        profile.costs(Shape::new(4, 1, 8).unwrap(), Unsplit::Refused).unwrap().footprints.unwrap();
    assert_eq!(together.of(3).until_backward, Bytes(600));
    assert_eq!((profile.message, profile.machine.device.as_str()), (Some(Bytes(64)), "a test"));
    let few = Facts { footprints: vec![footprint; 7], ..facts };
    let error = of(&Recorded { facts: Some(few), ..run.clone() }).unwrap_err();
    assert_eq!(error.message, "it has the sizes of 7 chunks, but the schedule has 8");
    let error = of(&Recorded { source: Source::Simulated, ..run }).unwrap_err();
    assert!(error.message.contains("prediction"), "{}", error.message);
}

#[test]
fn passes_that_only_ran_in_pairs_are_missing() {
    let run = run_of(Family::DualPipe);
    assert!(has_pairs(&run));
    // Every kind of pass runs alone somewhere, or the one that does not is named.
    match of(&run) {
        Ok(profile) => assert_eq!(profile.chunks.len(), usize::from(run.shape().chunks())),
        Err(error) => assert!(error.message.contains("ran alone"), "{}", error.message),
    }
}

#[test]
fn the_file_says_the_same() {
    for family in [Family::OneFOneB, Family::ZbV, Family::ZbH1] {
        let profile = of(&run_of(family)).unwrap();
        let text = profile.to_toml();
        assert_eq!(AnyProfile::parse(&text), Ok(AnyProfile::Trainer(Box::new(profile))), "{text}");
        for (from, to, message) in [
            ("stages = 4", "stages = 3", "not a pipeline of 3 stages"),
            ("version = 1", "version = 3", "version 3"),
            ("kind = \"trainer\"", "kind = \"boat\"", "there are no profiles of kind `boat`"),
            ("half-width = 0.05", "half-width = 7.0", "half-width is 7"),
            ("[chunk.forward]", "[chunk.onward]", "onward"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = AnyProfile::parse(&changed).unwrap_err();
            assert!(error.message.contains(message), "{}", error.message);
            assert!(error.place.is_some_and(|place| place.end <= changed.len()), "{message}");
        }
    }
}
