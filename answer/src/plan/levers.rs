//! The changes of software and machines, and the step time that each would save for the recommended plan.

use std::cmp::Reverse;

use pipeline::{Bytes, Nanos};
use plan::{Cluster, Machine, Orders, Watch};

use super::answer::search;
use super::ground::ground;
use super::priced::{Plan, seconds};
use planning::Question;
use question::Context;

/// A change of the software or machine of the winner, and its savings.
pub struct Lever {
    /// The change.
    pub name: String,
    /// The step with the best set-up then.
    pub step: Nanos,
    /// Dollars saved of the whole training, at the same prices.
    pub saved: f64,
    /// Whether it can be had: software that is written, or machines that can be bought.
    pub can_be_had: bool,
}

/// A change of every machine of the cluster.
type Change = fn(&mut Machine);

/// The changes that are tried, each under its name, and whether it can be had: changes of a device and its kernels only say
/// what bounds the step.
const LEVERS: [(&str, bool, Change); 6] = [
    ("network between nodes twice as fast", true, |machine| machine.network *= 2.0),
    ("half as much memory again", true, |machine| {
        machine.memory = Bytes(machine.memory.0.saturating_add(machine.memory.0 / 2));
    }),
    ("links inside nodes twice as fast", false, |machine| machine.link *= 2.0),
    ("memory twice as fast", false, |machine| machine.bandwidth *= 2.0),
    ("launches that take no time", false, |machine| machine.efficiency.launch = 0.0),
    ("large matrix products 10 % faster", false, |machine| {
        machine.efficiency.matmul = (machine.efficiency.matmul * 1.1).min(1.0);
    }),
];

/// Searches the best set-up anew with each software key that the question leaves out and under each of
/// [`LEVERS`], and returns the savings for `plan`: first software, then machines, the largest first.
/// After a stop, those tried so far.
pub(super) fn levers(
    context: &Context<'_>,
    question: &Question,
    plan: &Plan,
    orders: &Orders<'_>,
) -> Vec<Lever> {
    let mut all = of_software(context, question, plan, orders);
    all.extend(of_machines(context, question, plan, orders));
    all
}

/// Savings of a plan with a step of `step` in place of that of `plan`.
fn lever((name, can_be_had): (String, bool), step: Nanos, plan: &Plan) -> Lever {
    let share = 1.0 - seconds(step) / seconds(plan.finalist.step);
    Lever { name, step, saved: share * plan.dollars, can_be_had }
}

/// Each key of software that the question leaves out: the fastest plan of the same question with it.
fn of_software(
    context: &Context<'_>,
    question: &Question,
    plan: &Plan,
    orders: &Orders<'_>,
) -> Vec<Lever> {
    // Of one set-up there is no search that a key could change.
    if question.is_of_one() {
        return Vec::new();
    }
    let cluster = &question.clusters[plan.cluster];
    let keys = question.open_software(cluster);
    let work = context.host().begin(keys.len() as u64, "levers of software");
    let mut levers = Vec::new();
    for key in keys {
        let step = fastest(context, &question.with_key(key), cluster, orders);
        if context.stopped() {
            break;
        }
        work.inc(1);
        levers.extend(step.map(|step| lever((key.line(), true), step, plan)));
    }
    levers.retain(|lever| lever.saved > 0.0);
    levers.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    levers
}

/// The step of the fastest plan of `question` on `cluster`.
fn fastest(
    context: &Context<'_>,
    question: &Question,
    cluster: &Cluster,
    orders: &Orders<'_>,
) -> Option<Nanos> {
    let setups = question.setups(cluster)?;
    let stop = || context.stopped();
    let watch = Watch { done: &|_| {}, stop: &stop, orders };
    let (_, best) = search(question, &ground(question, cluster), &setups, watch);
    best.iter().map(|one| one.step).min()
}

/// Each of [`LEVERS`]: those that can be had first, of these and of the rest the one that saves most.
fn of_machines(
    context: &Context<'_>,
    question: &Question,
    plan: &Plan,
    orders: &Orders<'_>,
) -> Vec<Lever> {
    let cluster = &question.clusters[plan.cluster];
    let mut levers = Vec::new();
    let work = context.host().begin(LEVERS.len() as u64, "levers");
    for (name, can_be_had, change) in LEVERS {
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
        levers.push(lever((name.to_owned(), can_be_had), best.step, plan));
    }
    levers.sort_by(|a, b| (b.can_be_had.cmp(&a.can_be_had)).then(b.saved.total_cmp(&a.saved)));
    levers
}
