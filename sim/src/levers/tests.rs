use pipeline::{Hops, PassTimes, Shape};
use proptest::prelude::*;

use super::*;
use crate::Replay;

proptest! {
    /// Every lever of a stage or a link has the step that its simulation has by itself.
    #[test]
    fn levers_are_what_simulations_give(
        stages in 2..7u64,
        microbatches in 1..9u64,
        times in prop::array::uniform3(1..10_000u64),
        hops in prop::collection::vec(0..3000u64, 7),
    ) {
        for family in [Family::GPipe, Family::OneFOneB, Family::ZbH1, Family::Zb2p, Family::ZbV, Family::DualPipe] {
            let Ok(shape) = Shape::new(stages, family.about().chunks.of(None), microbatches) else { continue };
            let [f, b, w] = times.map(Nanos);
            let links: Vec<Nanos> = hops.iter().map(|&hop| Nanos(hop)).collect();
            let hops = Hops::new(shape, &links[1..shape.stages()]).unwrap_or_else(|_| Hops::alike(links[0]));
            let costs = Costs::uniform(shape, PassTimes::new(f, b, w), Nanos(0)).with_hops(hops);
            let Ok(problem) = Problem::new(shape, costs) else { continue };
            let Ok(schedule) = family.schedule(&problem) else { continue };
            let simulation = Simulation::new(&schedule, problem.costs(), problem.footprints());
            let baseline = Baseline {
                simulation,
                problem: &problem,
                family: Some(family),
                limits: None,
                layers_per_stage: None,
                has_whole_bytes: false,
                microbatch_bytes: Bytes(1),
            };
            let base = simulation.metrics(None, &mut Replay::new()).unwrap().span();
            let levers = Levers::of(&baseline, base, &()).unwrap();
            let mut count = 0;
            for entry in &LEVERS {
                for place in entry.places.of(&baseline) {
                    for variant in (entry.variants)(&baseline, place).unwrap() {
                        let step = baseline.step(&variant).unwrap();
                        let is_it = |lever: &&Lever| lever.name == variant.name && lever.step == step;
                        prop_assert!(levers.ranked.iter().any(|lever| is_it(&lever)), "{}", variant.name);
                        count += 1;
                    }
                }
            }
            prop_assert_eq!(levers.ranked.len(), count);
        }
    }
}
