//! The timed device keeps its times, and measurements obey the dependency rule.

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::{Costs, Nanos, Pass, PassTimes, Value};
use runtime::{Boundary, Plan, Timed, run};

use crate::support::schedules;

#[test]
fn no_pass_is_shorter_than_told_or_starts_before_what_it_needs() {
    let hop = Nanos(150_000);
    let times = PassTimes::new(Nanos(200_000), Nanos(300_000), Nanos(100_000));
    for (name, schedule) in schedules(4, 4) {
        let shape = schedule.shape();
        let costs = Arc::new(Costs::uniform(shape, times, hop));
        let boundary = Boundary::PostValidation { max_norm: 1.0 };
        let plan = Plan::new(schedule.clone(), 2).unwrap().with_warm_up(1).unwrap();
        let plan = plan.with_hop(hop).unwrap().with_boundary(boundary).unwrap();
        let device = Timed::new(Arc::clone(&costs));
        let measured = run(&plan, move |_| Ok(device.clone())).unwrap();
        assert_eq!((measured.steps.len(), measured.rollbacks), (2, 0));
        for step in &measured.steps {
            let mut ends: HashMap<Value, (usize, Nanos)> = HashMap::new();
            for (stage, slots) in step.stages.iter().enumerate() {
                let made = |pass: Pass| pass.makes();
                for slot in slots {
                    ends.extend(
                        slot.slot.passes().filter_map(made).map(|v| (v, (stage, slot.end))),
                    );
                }
                assert!(slots.windows(2).all(|two| two[0].end <= two[1].start), "{name}");
                assert!(step.ends[stage] >= slots.last().unwrap().end, "{name}");
            }
            for (stage, slots) in step.stages.iter().enumerate() {
                for slot in slots {
                    assert!(slot.end - slot.start >= costs.of_slot(slot.slot), "{name}");
                    let needs = slot.slot.passes().flat_map(|pass| pass.needs(shape));
                    for (from, end) in needs.map(|value| ends[&value]) {
                        let hop = if from == stage { Nanos(0) } else { hop };
                        assert!(slot.start >= end + hop, "{name} {}", slot.slot);
                        assert!(slot.arrived.is_some() || from == stage, "{name}");
                    }
                    if let Some((value, at)) = slot.arrived {
                        assert_eq!(at, ends[&value].1 + hop, "{name}");
                    }
                }
            }
        }
        assert_eq!(measured.steps[0].began, Nanos(0));
        assert!(measured.steps[1].began > Nanos(0));
    }
}
