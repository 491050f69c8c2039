//! The changes of the machines, and the step time that each would save for the recommended plan.

use std::cmp::Reverse;

use pipeline::{Bytes, Nanos};
use plan::{Machine, Orders, Watch};

use super::answer::ground;
use super::priced::{Plan, seconds};
use question::Context;
use question::plan::Question;

/// A change of the winner's ground, and what it would be worth.
pub struct Lever {
    /// The change.
    pub name: &'static str,
    /// The step with the best set-up then.
    pub step: Nanos,
    /// Dollars saved of the whole training, at the same prices.
    pub saved: f64,
}

/// A change of every machine of the cluster.
type Change = fn(&mut Machine);

/// The changes that are tried, each under its name.
const LEVERS: [(&str, Change); 6] = [
    ("network between nodes twice as fast", |machine| machine.network *= 2.0),
    ("links inside nodes twice as fast", |machine| machine.link *= 2.0),
    ("half as much memory again", |machine| {
        machine.memory = Bytes(machine.memory.0.saturating_add(machine.memory.0 / 2));
    }),
    ("memory twice as fast", |machine| machine.bandwidth *= 2.0),
    ("launches that take no time (CUDA graphs)", |machine| machine.efficiency.launch = 0.0),
    ("large matrix products 10 % faster", |machine| {
        machine.efficiency.matmul = (machine.efficiency.matmul * 1.1).min(1.0);
    }),
];

/// Searches the best set-up anew under each of [`LEVERS`], and says what it would be worth to `plan`; the
/// one that saves most comes first. Somebody who asks to end gets those tried by then.
pub(super) fn levers(
    context: &Context<'_>,
    question: &Question,
    plan: &Plan,
    orders: &Orders<'_>,
) -> Vec<Lever> {
    let cluster = &question.clusters[plan.cluster];
    let mut levers = Vec::new();
    let work = context.host().begin(LEVERS.len() as u64, "levers");
    for (name, change) in LEVERS {
        let mut changed = cluster.clone();
        changed.parts.iter_mut().for_each(|(machine, _)| change(machine));
        let Some(mut setups) = question.setups(&changed) else { continue };
        let stop = || context.stopped();
        let watch = Watch { done: &|_| {}, stop: &stop, orders };
        let ground = ground(question, &changed);
        // An order that was searched stays as it is, for another search takes longer than all else.
        let is_searched = plan.finalist.costed().setup.searched;
        setups.retain(|setup| !setup.searched);
        let (_, mut best) = plan::run_with(&ground, &setups, 1, watch);
        if is_searched {
            best.extend(ground.again(&plan.finalist));
            best.sort_by_key(|one| Reverse(one.step));
        }
        if context.stopped() {
            break;
        }
        work.inc(1);
        let Some(best) = best.pop() else { continue };
        let share = 1.0 - seconds(best.step) / seconds(plan.finalist.step);
        levers.push(Lever { name, step: best.step, saved: share * plan.dollars });
    }
    levers.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    levers
}
