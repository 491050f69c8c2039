//! Figures do not depend on which details of a simulation are kept, nor on the method that gives them.

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Metrics, Nanos, PassTimes, Problem, Shape,
    SteadyState,
};
use proptest::prelude::*;
use sim::straggler::{Jitter, Stragglers};
use sim::{Details, EngineRuns, FasterLinks, Kept, Replay, Simulation, Study};

use crate::bench::question;
use crate::draw::cases;
use crate::machine;

fn wants() -> impl Strategy<Value = Details> {
    [any::<bool>(); 3].prop_map(|[timeline, run, causes]| Details { timeline, run, causes })
}

fn noise(devices: &[usize], sigma: f64) -> Stragglers {
    let mut stragglers = Stragglers::on_devices(devices.to_vec(), 5);
    stragglers.jitter_passes(Jitter::log_normal(sigma).unwrap());
    stragglers.jitter_hops(Jitter::log_normal(sigma).unwrap());
    stragglers
}

/// Asserts all that must hold of `simulation`, if it comes to its end.
fn check(simulation: &Simulation<'_>, wants: Details) {
    let runs = EngineRuns::default();
    let mut replay = Replay::new();
    let counted = simulation.counted_by(&runs);
    let Ok(study) = counted.study(Details::default(), &mut replay) else {
        assert!(counted.study(wants, &mut replay).is_err());
        return;
    };
    let once = 1 + u64::from(simulation.shown().is_some());
    assert_eq!(runs.count(), if simulation.hardware().is_some() { once } else { 0 });
    let Study { metrics, noise_free, memory, in_flight, occupancy, kept, nominal } =
        counted.study(wants, &mut replay).unwrap();
    assert_eq!((&metrics, &noise_free), (&study.metrics, &study.noise_free));
    assert_eq!((&memory, &in_flight), (&study.memory, &study.in_flight));
    assert_eq!(occupancy, study.occupancy);
    assert_eq!(simulation.metrics(simulation.shown(), &mut replay).as_ref(), Ok(&metrics));
    assert_eq!(
        simulation.metrics(None, &mut replay).as_ref(),
        Ok(noise_free.as_ref().unwrap_or(&metrics))
    );
    let record = simulation.record(simulation.shown()).unwrap();
    assert_eq!(simulation.timeline(simulation.shown()).as_ref(), Ok(&record.timeline));
    let kept = kept.reduced_to(wants);
    if let Some(run) = kept.run() {
        assert_eq!(run, &record);
    }
    assert!(kept.run().is_some() || !wants.run);
    match kept.timeline() {
        Some(timeline) => assert_eq!(timeline, &record.timeline),
        None => assert!(kept == Kept::Nothing && !wants.timeline),
    }
    if let Some(nominal) = nominal {
        assert_eq!(nominal, simulation.record(None).unwrap());
    }
    if simulation.shown().is_some() {
        let one = simulation.replicas(1, || {}, || false).unwrap();
        assert_eq!([one.span.min, one.makespan.min], [metrics.span().0, metrics.makespan().0]);
    }
    let step = match simulation.hardware() {
        Some(hardware) => record.step_length(hardware.steps - 1),
        None => Metrics::of(&record.timeline).span(),
    };
    assert_eq!(simulation.step(FasterLinks::None), Ok(step));
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn details_change_no_figure_of_a_replay(
        which in 0..Family::ALL.len(),
        shape in [1..7u64, 1..16u64],
        times in prop::collection::vec([1..50u64, 1..50u64, 1..50u64], 8),
        hop in 0..30u64,
        sigma in proptest::option::of(0.0..0.3f64),
        wants in wants(),
    ) {
        let Some((schedule, costs)) = question(Family::ALL[which], shape, &times, hop) else {
            return Ok(());
        };
        let held = Footprint { until_backward: Bytes(7), until_weight: Bytes(3) };
        let footprints = Footprints::uniform(schedule.shape(), held);
        let devices: Vec<usize> = (0..schedule.shape().stages()).collect();
        let noise = sigma.map(|sigma| noise(&devices, sigma));
        check(&Simulation::new(&schedule, &costs, &footprints).under(noise.as_ref()), wants);
    }

    #[test]
    fn details_change_no_figure_on_a_cluster(
        numbers in prop::collection::vec(any::<u64>(), 40),
        offload in proptest::option::of((100..900u32, 0..4u32, proptest::option::of(0..3u32))),
        sigma in proptest::option::of(0.0..0.3f64),
        wants in wants(),
    ) {
        let Some(mut bench) = machine::question(&numbers) else { return Ok(()) };
        if let Some((per_mille, ahead, max_inflight)) = offload {
            bench = bench.offloaded_within(per_mille, ahead, max_inflight);
        }
        let noise = sigma.map(|sigma| noise(bench.hardware.seats.devices(), sigma));
        check(&bench.simulation().under(noise.as_ref()), wants);
    }
}

#[test]
fn a_pipeline_that_never_flushes_is_measured_in_its_steady_state() {
    let steady = SteadyState::of(4, 8);
    let shape = Shape::new(4, 1, 8 * u64::from(steady.updates())).unwrap();
    let times = PassTimes::new(Nanos(10), Nanos(10), Nanos(10));
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
    let problem = problem.with_updates(steady.updates()).unwrap();
    let schedule = Family::PipeDream.schedule(&problem).unwrap();
    let simulation = Simulation::new(&schedule, problem.costs(), problem.footprints());
    let measured = simulation.measured(steady);
    check(&measured, Details { run: true, ..Details::default() });
    // An update of 8 microbatches keeps a stage busy for 8 x 30, and nothing waits.
    let metrics = measured.metrics(None, &mut Replay::new()).unwrap();
    assert_eq!((metrics.span(), metrics.work()), (Nanos(240), Nanos(240)));
    let stragglers = noise(&[0, 1, 2, 3], 0.1);
    check(&measured.under(&stragglers), Details { timeline: true, ..Details::default() });
}
