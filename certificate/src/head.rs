//! The argument of the first backwards: at too low a cost a stage can neither fill nor idle away
//! the time until its first B.

use crate::Objective;
use crate::critical_path::{Pipe, Stage};
use crate::knapsack_bound::{ItemType, knapsack_bound};

/// The stage at which it is shown that no schedule costs `cost` or less, if it is. `tails`: the idle time between
/// last F and last B is taken off what a stage may idle before its first B; `paths`: what the spans of earlier
/// stages leave it is looked at too.
///
/// The first microbatch makes the trip as if it were alone, but for what delays it. Its first F on a stage is that
/// stage's first pass and comes without delay. Where it runs forward on a stage that it has been to, only
/// forwards of the lower chunks there can have run, whole ones; where it first comes back to a stage, only forwards of
/// all its chunks. It waits for the soonest moment at which these can have ended. A pass that starts later only
/// makes those behind it start later, so the soonest is enough, and once there is none the cost is not possible.
pub(crate) fn impossible(pipe: &Pipe, cost: i128, tails: bool, paths: bool) -> Option<usize> {
    let stages = &pipe.stages;
    let tightest = tightest(pipe, cost);
    let mut slacks = Vec::with_capacity(stages.len());
    for (place, stage) in stages.iter().enumerate() {
        let over = if paths { tightest[place] } else { None };
        let Some(slack) = slack(pipe, stage, cost, tails, over) else { return Some(place) };
        slacks.push(slack);
    }
    let mut delay = 0;
    for place in stages.len()..pipe.forwards() + stages.len() {
        let (home, below) = pipe.visit(place);
        let stage = &stages[home];
        let begin = pipe.start(stage.forwards[0]);
        let least = pipe.start(place) + delay - begin;
        let Some(soonest) = soonest(pipe, stage, below, (least, slacks[home])) else {
            return Some(home);
        };
        delay += soonest - least;
    }
    None
}

/// The soonest start, from `least` on and counted from the stage's first F, of a pass before which only F of the
/// first `below` chunks of `stage` have run, which are not cut short, with no more than `slack` idle time.
fn soonest(pipe: &Pipe, stage: &Stage, below: usize, (least, slack): (i128, i128)) -> Option<i128> {
    let times: Vec<i128> = stage.forwards[..below].iter().map(|&place| pipe.time(place)).collect();
    let behind = |done: i128| (done + slack >= least).then_some(least.max(done));
    // Where only the time of what can run is known, and not when it ends.
    let filled_by = |most: i128| (least - most <= slack).then_some(least);
    if stage.recomputes() || times.contains(&0) {
        return filled_by(stage.work_before_backward(pipe));
    }
    // The pass that starts then holds its own memory beside them, if it is F.
    let room = stage.limit - stage.held.get(below).map_or(0, |held| held[0]);
    let at_once = |worth: &dyn Fn(usize) -> i128, room: i128| {
        let item = |chunk: usize| ItemType {
            size: stage.held[chunk][0],
            worth: worth(chunk),
            count: pipe.microbatches,
        };
        knapsack_bound((0..below).map(item).collect(), room)
    };
    if times.iter().all(|time| *time == times[0]) {
        let most = at_once(&|_| 1, room);
        return (0..=most).filter_map(|done| behind(done * times[0])).min();
    }
    if below > 2 {
        return filled_by(at_once(&|chunk| times[chunk], room));
    }
    let lower = 1..=at_once(&|chunk| i128::from(chunk == 0), room);
    let starts = lower.flat_map(|lower| {
        let left = room - lower * stage.held[0][0];
        let upper = 0..=at_once(&|chunk| i128::from(chunk == 1), left);
        upper.map(move |upper| (lower, upper))
    });
    let done = starts.map(|(lower, upper)| lower * times[0] + upper * times[1]);
    done.filter_map(behind).min()
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
/// no such schedule. `over`: the time that the tightest earlier stage leaves it.
fn slack(pipe: &Pipe, stage: &Stage, cost: i128, tails: bool, over: Option<i128>) -> Option<i128> {
    let alone = span(pipe, stage, cost) - stage.work;
    // Slack of the head alone, and of the head together with the time after the last F.
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
