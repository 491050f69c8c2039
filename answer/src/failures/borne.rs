//! Steps with each number of dead workers, over sets of them.

use std::collections::{BTreeMap, BTreeSet};

use failures::{Dead, FailureError, Step, Worker, borne};
use question::host::announce_estimate;
use question::{Context, Diagnostic};
use rayon::prelude::*;
use serde::Serialize;

use super::asked::Asked;
use super::{StepRow, diagnostic, float};

/// The share of the time that may go to more dead workers than steps are answered for.
const RARE: f64 = 1e-3;
/// The most dead workers whose steps policies ask for.
const MOST: usize = 16;

/// Steps with a number of dead workers.
#[derive(Serialize, Clone, Debug)]
pub struct BorneRow {
    /// Dead workers.
    pub dead: u64,
    /// The probability that every stage keeps a live worker if they are dead by chance.
    pub survival: f64,
    /// Sets of them that were answered: each stage once for a single one, else drawn by chance.
    pub sets: u64,
    /// The mean step over these sets; none where no set keeps every stage alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<StepRow>,
    /// The longest steps of these sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<StepRow>,
}

/// Sets of dead workers with their steps.
pub(super) struct Sets {
    asked: Dead,
    pipelines: u32,
    stages: u32,
    /// By number of dead workers, from 1: a set for each draw.
    drawn: Vec<Vec<Dead>>,
    /// How many of them the question asks for.
    shown: usize,
    steps: BTreeMap<Dead, Step>,
}

impl Sets {
    /// The sets that `asked` is about, and their steps, side by side on all threads.
    pub(super) fn new(
        context: &Context<'_>,
        asked: &Asked<'_>,
        split: bool,
    ) -> Result<Self, Diagnostic> {
        let named = asked.dead()?;
        let stages = u32::try_from(asked.case.schedule.shape().stages()).unwrap_or(u32::MAX);
        let singles: Vec<Dead> = (0..stages)
            .filter_map(|stage| {
                let worker = Worker { pipeline: 0, stage };
                Dead::new(asked.pipelines, u64::from(stages), &[worker]).ok()
            })
            .collect();
        let workers = asked.pipelines.saturating_mul(u64::from(stages));
        let shown = usize::try_from(asked.keys.most_dead.min(workers)).unwrap_or(0);
        let policy = asked.policy().map_or(0, |policy| policy.common(RARE) - 1);
        let seed = asked.seed;
        let drawn: Vec<Vec<Dead>> = (1..=shown.max(policy.min(MOST)))
            .map(|lost| match lost {
                1 => singles.clone(),
                _ => (0..asked.keys.draws)
                    .filter_map(|draw| {
                        let lost = lost as u64;
                        let number = lost << 32 | draw;
                        Dead::drawn(asked.pipelines, u64::from(stages), lost, seed, number)
                    })
                    .map(|dead| dead.canonical().0)
                    .collect(),
            })
            .collect();
        let mut all: BTreeSet<Dead> = drawn.iter().flatten().cloned().collect();
        match &named {
            Some(dead) => all.extend([dead.clone()]),
            None => all.extend(singles.iter().cloned()),
        }
        let mut steps = steps(context, asked, split, &all, named.as_ref())?;
        let worst = || singles.iter().max_by_key(|dead| steps.get(dead).map(|one| one.step));
        let Some(dead) = named.clone().or_else(|| worst().cloned()) else {
            return Err(asked.case.error(&"there is no stage to lose a worker of"));
        };

        if asked.keys.timeline {
            // The same step again, with its passes, which are not kept of all sets.
            let how = asked.how(&asked.limits, split, asked.keys.effort);
            let step = asked.of().rerouted(&dead, &how, &|| context.stopped());
            steps.insert(dead.clone(), step.map_err(|fault| diagnostic(asked.case, &fault))?);
        }
        let pipelines = dead.pipelines();
        Ok(Self { asked: dead, pipelines, stages, drawn, shown, steps })
    }

    /// The dead workers of the question, or of the worst stage, and their step.
    pub(super) fn asked(&self) -> (&Dead, &Step) {
        (&self.asked, &self.steps[&self.asked])
    }

    fn of(&self, lost: usize) -> impl Iterator<Item = StepRow> {
        let sets = lost.checked_sub(1).and_then(|at| self.drawn.get(at));
        sets.into_iter().flatten().filter_map(|dead| self.steps.get(dead)).map(StepRow::of)
    }

    /// A row for each number of dead workers that the question asks for.
    pub(super) fn rows(&self) -> Vec<BorneRow> {
        let row = |lost: usize| {
            let all: Vec<StepRow> = self.of(lost).collect();
            let count = all.len() as u128;
            let mean = |of: fn(&StepRow) -> u64| {
                let sum: u128 = all.iter().map(|one| u128::from(of(one))).sum();
                u64::try_from(sum / count.max(1)).unwrap_or(u64::MAX)
            };
            let worst = |of: fn(&StepRow) -> u64| all.iter().map(of).max().unwrap_or(0);
            let some = |step: StepRow| (!all.is_empty()).then_some(step);
            let lost = u32::try_from(lost).unwrap_or(u32::MAX);
            BorneRow {
                dead: u64::from(lost),
                survival: borne(self.pipelines, self.stages, lost),
                sets: all.len() as u64,
                mean: some(StepRow {
                    step_ns: mean(|one| one.step_ns),
                    staggered_ns: mean(|one| one.staggered_ns),
                }),
                worst: some(StepRow {
                    step_ns: worst(|one| one.step_ns),
                    staggered_ns: worst(|one| one.staggered_ns),
                }),
            }
        };
        (1..=self.shown).map(row).collect()
    }

    /// The step in seconds with each number of dead workers, from one on: the time that as many steps as are done in
    /// all sets take in the mean. It ends where no set was found.
    pub(super) fn seconds(&self, staggered: bool) -> Vec<f64> {
        let mean = |lost: usize| {
            let all: Vec<f64> =
                self.of(lost).map(|one| 1e9 / float(one.taken(staggered).max(1))).collect();
            (!all.is_empty()).then(|| float(all.len() as u64) / all.iter().sum::<f64>())
        };
        (1..=self.drawn.len()).map_while(mean).collect()
    }
}

/// The steps of all sets. The set that was asked, and single dead workers, are searched with all of the effort, the
/// others with one less: by list schedules alone, unless there is more.
fn steps(
    context: &Context<'_>,
    asked: &Asked<'_>,
    split: bool,
    all: &BTreeSet<Dead>,
    named: Option<&Dead>,
) -> Result<BTreeMap<Dead, Step>, Diagnostic> {
    // As measured on one core: about 24 list schedules, and the local search.
    const PASSES_PER_SECOND: u64 = 20_000;
    let passes = asked.case.schedule.passes() as u128 * u128::from(asked.pipelines);
    let name = &asked.case.name;
    let what = format!("{} sets of dead workers under {name}", all.len());
    announce_estimate(context.host(), passes * all.len() as u128, PASSES_PER_SECOND, &what);
    let what =
        format!("sets of dead workers under {name}{}", if split { ", B and W split" } else { "" });
    let work = context.host().begin(all.len() as u64, &what);
    // After a stop, the set that was asked or a single one is enough.
    let first = named.or_else(|| all.iter().find(|dead| dead.workers().len() == 1));
    let one = |dead: &Dead| -> Result<Option<(Dead, Step)>, FailureError> {
        if first != Some(dead) && context.stopped() {
            return Ok(None);
        }
        let is_first = named == Some(dead) || dead.workers().len() == 1;
        let effort = asked.keys.effort.saturating_sub(u64::from(!is_first));
        let how = asked.how(&asked.limits, split, effort);
        let step = asked.of().rerouted(dead, &how, &|| context.stopped())?;
        work.inc(1);
        Ok(Some((dead.clone(), Step { passes: Vec::new(), ..step })))
    };
    let sets: Vec<&Dead> = all.iter().collect();
    let found: Vec<_> = sets.into_par_iter().map(one).collect();
    let found: Result<BTreeMap<Dead, Step>, FailureError> =
        found.into_iter().filter_map(Result::transpose).collect();
    found.map_err(|fault| diagnostic(asked.case, &fault))
}
