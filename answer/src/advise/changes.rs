//! Changes of a run, each with its step, its memory and how sure its gain is.

use measured::{CalibratedErrors, Change as Difference};
use pipeline::{Bytes, Family, Nanos};
use plan::{Finalist, Orders, Setup, Watch, number};
use planning::{Framework, Question};
use question::Diagnostic;
use rayon::prelude::*;
use serde::Serialize;

use super::Tried;
use super::area::{Area, Variant, variants};
use crate::plan::tables::setup as setup_name;
use crate::plan::{Planner, ground, winner};

/// The least gain, as a share of the step, of a change that is named.
const LEAST: f64 = 0.001;

/// How sure the gain of a change is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// It is larger than the error of 95 % of published pairs of such set-ups.
    Sure,
    /// It is larger than their mean error.
    Likely,
    /// It is smaller, or the model lacks something of the run: measure before you take it.
    NotResolved,
}

impl Certainty {
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Sure => "sure",
            Self::Likely => "likely",
            Self::NotResolved => "within the error",
        }
    }
}

/// A change of a run.
pub struct Change {
    /// The part that changes.
    pub area: Area,
    /// The change, as keys with values.
    pub name: String,
    pub step: Nanos,
    /// The share of the step that it saves.
    pub gain: f64,
    /// The share by which 95 % of published pairs of such set-ups were off: the gain may be as much larger or smaller.
    pub error: f64,
    /// How sure it is.
    pub certainty: Certainty,
    /// The memory of the fullest device, and the memory that may be used there.
    pub memory: [Bytes; 2],
    /// The trainer that runs it.
    pub framework: Option<Framework>,
    /// The question of the changed set-up alone.
    pub question: Question,
}

/// The part of the memory that may be used above which a change leaves little.
const NEARLY_FULL: f64 = 0.95;

impl Change {
    /// The risk of the change, in words.
    #[must_use]
    pub fn risk(&self) -> String {
        let [held, may] = self.memory;
        let trainer = match (self.area, self.framework) {
            (_, None) => Some("no trainer runs it".to_owned()),
            (Area::OtherTrainer, Some(framework)) => Some(format!("needs {}", framework.title())),
            (Area::Groups | Area::Together, _) => Some("checkpoints are resharded".to_owned()),
            _ => None,
        };
        let is_full = number(held.0) > NEARLY_FULL * number(may.0);
        let full = is_full.then(|| "memory nearly full".to_owned());
        let all: Vec<String> = trainer.into_iter().chain(full).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(", ") }
    }
}

/// The changes that were found.
pub(super) struct Found {
    pub(super) changes: Vec<Change>,
    pub(super) without_gain: Vec<Area>,
}

/// A changed set-up that fits, and its run.
struct Ran {
    area: Area,
    name: String,
    question: Question,
    finalist: Finalist,
}

/// Tries all changes of the run, and keeps the best of each area.
pub(super) fn changes(tried: &Tried<'_>) -> Result<Found, Diagnostic> {
    let Some(now) = tried.current.winner().or(tried.current.answer.plans.first()) else {
        return Err(Diagnostic::new("the set-up has no prediction"));
    };
    let may_fit = now.shortage.is_some();
    let mut best: Vec<Ran> = Vec::new();
    let mut areas: Vec<Area> = Vec::new();
    let mut keep = |ran: Ran| match best.iter_mut().find(|one| one.area == ran.area) {
        Some(one) if one.finalist.step <= ran.finalist.step => {}
        Some(one) => *one = ran,
        None => best.push(ran),
    };
    for (area, ran) in single(tried, may_fit) {
        if !areas.contains(&area) {
            areas.push(area);
        }
        ran.into_iter().for_each(&mut keep);
    }
    areas.push(Area::Groups);
    groups(tried).into_iter().for_each(&mut keep);
    areas.push(Area::Together);
    together(tried)?.into_iter().for_each(&mut keep);
    let is_gain = |ran: &Ran| saved(now.step, ran.finalist.step) >= LEAST;
    let without_gain =
        areas.into_iter().filter(|area| !best.iter().any(|ran| ran.area == *area && is_gain(ran)));
    let without_gain = without_gain.collect();
    best.retain(is_gain);
    let changes = best.into_iter().map(|ran| change(ran, tried, now.step));
    let mut changes: Vec<Change> = changes.collect::<Result<_, _>>()?;
    changes.sort_by_key(|change| change.step);
    Ok(Found { changes, without_gain })
}

/// The share of `now` that a step of `then` saves.
fn saved(now: Nanos, then: Nanos) -> f64 {
    1.0 - number(then.0) / number(now.0)
}

/// The changed set-up that `ran` is, beside a step of `now`.
fn change(ran: Ran, tried: &Tried<'_>, now: Nanos) -> Result<Change, Diagnostic> {
    let Ran { area, name, question, finalist } = ran;
    let own = finalist.costed().setup;
    let errors = CalibratedErrors::of(Difference::of(&tried.setup, &own))?;
    let gain = saved(now, finalist.step);
    // No other schedule, and no change of the trainer, is among the published pairs.
    let is_measured = matches!(own.family, Family::OneFOneB | Family::Interleaved)
        && !own.searched
        && area != Area::OtherTrainer;
    let certainty = match gain {
        _ if tried.is_unknown => Certainty::NotResolved,
        gain if gain > errors.p95 && is_measured => Certainty::Sure,
        gain if gain > errors.mean => Certainty::Likely,
        _ => Certainty::NotResolved,
    };
    let (stage, held) = finalist.evaluation.fullest();
    Ok(Change {
        area,
        name,
        step: finalist.step,
        gain,
        error: errors.p95,
        certainty,
        memory: [held.sum(), finalist.costed().capacities[stage]],
        framework: Framework::that_runs(&own, &question.recipe),
        question,
    })
}

/// The runs of all changes of one part that fit, or may fit where the run itself is not sure to.
fn single(tried: &Tried<'_>, may_fit: bool) -> Vec<(Area, Option<Ran>)> {
    let question = &tried.current.question;
    let all = variants(question, tried.setup, &question.clusters[0]);
    let bar = tried.context.host().begin(all.len() as u64, "changes");
    let run = |variant: Variant| {
        let Variant { area, name, question } = variant;
        let ran = run(tried, &question, may_fit);
        bar.inc(1);
        (area, ran.map(|finalist| Ran { area, name, question, finalist }))
    };
    all.into_par_iter().map(run).collect()
}

/// The run of the set-up of `question`, if it fits.
fn run(tried: &Tried<'_>, question: &Question, may_fit: bool) -> Option<Finalist> {
    if tried.context.stopped() {
        return None;
    }
    let cluster = &question.clusters[0];
    let setup = question.setup_on(cluster)?;
    let inputs = ground(question, cluster);
    plan::check(&setup, &question.model, &question.recipe, cluster).ok()?;
    let run = inputs.run_single(&setup, &Orders::default()).ok()?;
    let fits = match run.shortage {
        None => true,
        Some(shortage) => may_fit && shortage.may_hold.is_some(),
    };
    fits.then_some(run.finalist)
}

/// The best set-up with other groups and all else as it is.
fn groups(tried: &Tried<'_>) -> Option<Ran> {
    let Tried { free, setup, .. } = tried;
    let cluster = &free.clusters[0];
    let own = |one: &Setup| {
        let is_alone = one.pipeline == 1 || setup.pipeline == 1;
        let is_alike = is_alone || (one.family == setup.family && one.chunks == setup.chunks);
        is_alike
            && one.microbatch == setup.microbatch
            && one.zero == setup.zero
            && one.recompute == setup.recompute
            && one.vocabulary_parallel == setup.vocabulary_parallel
    };
    let mut setups: Vec<Setup> = free.setups(cluster)?.into_iter().filter(own).collect();
    for one in &mut setups {
        (one.options, one.searched) = (setup.options, setup.searched);
    }
    let orders = Orders::default();
    let stop = || tried.context.stopped();
    let watch = Watch { done: &|_| {}, stop: &stop, orders: &orders };
    let inputs = plan::Inputs { layout: None, ..ground(&tried.current.question, cluster) };
    let (_, best) = plan::run_with(&inputs, &setups, 1, watch);
    let finalist = best.into_iter().next()?;
    let own = finalist.costed().setup;
    let question = tried.current.question.of_setup(own, None);
    Some(Ran { area: Area::Groups, name: setup_name(&own), question, finalist })
}

/// The best set-up of all that the trainer runs.
fn together(tried: &Tried<'_>) -> Result<Option<Ran>, Diagnostic> {
    if tried.context.stopped() {
        return Ok(None);
    }
    let (context, question) = (tried.context, tried.free);
    let orders = Orders::default();
    let Ok(answer) = (Planner { context, question }).answer(&orders) else { return Ok(None) };
    let taken = winner(question, &answer.plans).filter(|plan| plan.shortage.is_none());
    let Some(plan) = taken else { return Ok(None) };
    let own = plan.finalist.costed().setup;
    let layout = plan.finalist.costed().layout();
    let setup =
        Setup { split: if layout.is_some() { plan::Split::Layout } else { own.split }, ..own };
    let mut changed = question.of_setup(setup, layout);
    changed.dispatcher = question.dispatcher_of(&own, &question.clusters[0]);
    let name = format!("{}, {}", setup_name(&own), super::area::schedule_name(&own));
    Ok(Some(Ran { area: Area::Together, name, question: changed, finalist: plan.finalist.clone() }))
}
