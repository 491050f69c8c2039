//! The argument of the first backwards: at too low a cost a stage can neither fill nor idle away
//! the time until its first B.

use crate::Objective;
use crate::trip::{Pipe, Stage};

/// Whether it is shown at stage `named` that no schedule costs `cost` or less. `tails`: the idle
/// time between last F and last B is taken off what the stage may idle before its first B;
/// `paths`: what the spans of earlier stages leave it is looked at too.
///
/// A stage that starts its first B later only makes those before it start theirs later. So it is
/// enough to take, from the last stage on, the soonest start that is possible; and once one is not
/// possible the cost is not.
pub(crate) fn impossible(pipe: &Pipe, named: usize, cost: i128, tails: bool, paths: bool) -> bool {
    let stages = &pipe.stages;
    let tightest = tightest(pipe, cost);
    let first_shown = if pipe.looped { stages.len() - 1 } else { named };
    let mut soonest_below = None;
    for place in (named..=first_shown).rev() {
        let stage = &stages[place];
        let over = if paths { tightest[place] } else { None };
        let Some(slack) = slack(pipe, stage, cost, tails, over) else { return true };
        let behind_next = soonest_below.map(|x: i128| {
            let next = &stages[place + 1];
            let [last_b, own_b] = [next, stage].map(|one| one.backwards[one.backwards.len() - 1]);
            let later = pipe.start(next.forwards[0]) - pipe.start(stage.forwards[0]);
            later + x + pipe.start(own_b) - pipe.start(last_b)
        });
        let least = stage.wait_for_backward(pipe).max(behind_next.unwrap_or(0));
        soonest_below = soonest(pipe, stage, least, slack);
        if soonest_below.is_none() {
            return true;
        }
    }
    false
}

/// The soonest start of the first B of `stage` from `least` on, with no more than `slack` idle time
/// before it: with some number of F done, which are not cut short.
fn soonest(pipe: &Pipe, stage: &Stage, least: i128, slack: i128) -> Option<i128> {
    let f = pipe.time(stage.forwards[0]);
    let differ = stage.forwards.iter().any(|&place| pipe.time(place) != f);
    if f == 0 || differ || stage.recomputes() {
        let idle = least - stage.work_before_backward(pipe);
        return (idle <= slack).then_some(least);
    }
    let most = stage.forwards_at_once(pipe, |_| 1);
    let starts = (0..=most).map(|done| (least.max(done * f), done * f + slack));
    starts.filter(|(start, latest)| start <= latest).map(|(start, _)| start).min()
}

/// The time that a schedule of `cost` or less leaves for each stage and the trip to it and back,
/// besides the trip to an earlier stage, the trip back from it and its last W: the least over all
/// earlier stages.
fn tightest(pipe: &Pipe, cost: i128) -> Vec<Option<i128>> {
    let mut least: Option<i128> = None;
    let before = pipe.stages.iter().map(|stage| {
        let there = pipe.start(stage.forwards[0]);
        let back = pipe.end(stage.backwards[0]);
        let left = span(pipe, stage, cost) + there - back - stage.weights[0];
        let before = least;
        least = Some(least.map_or(left, |least| least.min(left)));
        before
    });
    before.collect()
}

/// How long `stage` may take in a schedule of `cost` or less.
fn span(pipe: &Pipe, stage: &Stage, cost: i128) -> i128 {
    match pipe.objective {
        Objective::Span => cost,
        Objective::Makespan => cost - pipe.start(stage.forwards[0]),
    }
}

/// How long `stage` may idle before its first B in a schedule of `cost` or less; `None` if there is
/// no such schedule. `over`: what the tightest earlier stage leaves it.
fn slack(pipe: &Pipe, stage: &Stage, cost: i128, tails: bool, over: Option<i128>) -> Option<i128> {
    let alone = span(pipe, stage, cost) - stage.work;
    // What is left for the head alone, and for the head with all that comes behind the last F.
    let (mut head, mut all) = (alone, alone);
    if tails {
        all -= stage.idle_in_tail(pipe);
    }
    if let Some(over) = over {
        let way = pipe.start(stage.forwards[0]) - pipe.end(stage.backwards[0]);
        let least = over - way - stage.work;
        head = head.min(least + stage.after_last_backward(pipe));
        all = all.min(least + stage.after_less_idle(pipe));
    }
    if stage.holds_too_few(pipe) {
        head = head.min(all);
    }
    (head >= 0 && all >= 0).then_some(head)
}
