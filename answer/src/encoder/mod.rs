//! An encoder in front of a language model: the step by schedule and placement, and how far any can be from the best.

mod report;

use pipeline::{
    Bytes, EncoderKind, Family, Fault, Limits, Metrics, Nanos, PassTimes, Problem, Schedule,
};
use planning::encoder::{Asked, EncoderQuestion, asked};
use question::encoder::{EncoderKeys, EncoderPlacement};
use question::{Context, Diagnostic};
use search::encoder::{EncoderPlace, FoundEncoder, encoder_bound, place_encoder, search_encoder};
use serde::Serialize;
use sim::encoder::{Beside, EncoderTimeline, ModelOrder};

use crate::solution::Solution;

pub use self::report::{PUBLISHED_GAIN, operations};

/// Schedules whose bubbles are searched in full where none is named: those that are shortest by rules.
const SEARCHED: usize = 3;

/// A schedule with the encoder at a place.
#[derive(Serialize, Clone, Debug)]
pub struct EncoderRow {
    /// `first-stage`, `own-stages`, `spread` or `bubbles`.
    pub placement: &'static str,
    /// The schedule of the language model; `zb-auto` where its order was searched with that of the encoder.
    pub schedule: &'static str,
    /// Chunks per stage.
    pub chunks: u64,
    /// Stages of the encoder, where it has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_stages: Option<u16>,
    pub step_ns: u64,
    /// Share of the step in which the average stage waits.
    pub bubble_rate: f64,
    /// By how much more steps are done in a time than with the shortest step of `first-stage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// How much longer the step is than the bound of all placements and orders.
    pub above_bound: f64,
    /// The step of the language model alone, where the encoder lies in bubbles of a published order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_alone_ns: Option<u64>,
    /// The bound of a step with this order of the language model, or with any if it is `zb-auto`, where the encoder lies
    /// in its bubbles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_bound_ns: Option<u64>,
    /// The result of the search, where the encoder lies in bubbles; its bound is `order_bound_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solution: Option<Solution>,
    /// The most that a stage holds, if bytes are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Whether that is within the limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    /// Microbatches whose encoder runs on each stage, where it lies in bubbles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microbatches_by_stage: Option<Vec<u64>>,
}

/// The answer to a question about an encoder.
#[derive(Serialize, Clone, Debug)]
pub struct EncoderAnswer {
    /// The schedule and placement with the shortest step that fits, and how far that is from the bound.
    pub headline: String,
    pub stages: u64,
    /// Microbatches of a step.
    pub microbatches: u64,
    /// Forward and backward of the whole language model for a microbatch.
    pub model_ns: u64,
    /// Forward and backward of the encoder for the mean microbatch.
    pub encoder_ns: u64,
    /// No step is shorter, with any placement and order on these stages.
    pub bound_ns: u64,
    /// The least and the most gain of an encoder in bubbles that was measured and published.
    pub published_gain: [f64; 2],
    /// By step, the shortest first; those that exceed the memory limit last.
    pub results: Vec<EncoderRow>,
    /// What was assumed, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// `Some(true)` after a stop: with what was done by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// When everything runs in the shortest step with the encoder in bubbles.
    #[serde(skip)]
    pub timeline: Option<EncoderTimeline>,
    /// Whether the schedules were named.
    #[serde(skip)]
    names_schedules: bool,
}

/// The steps of all schedules and placements that `keys` ask for.
pub fn encoder(context: &Context<'_>, keys: &EncoderKeys) -> Result<EncoderAnswer, Diagnostic> {
    let question = asked(context, keys)?;
    Solver { context, question: &question, rows: Vec::new() }.answer()
}

/// A row, and what it is made of where the encoder lies in bubbles.
struct Solved {
    row: EncoderRow,
    timeline: Option<EncoderTimeline>,
    asked: Asked,
}

struct Solver<'a> {
    context: &'a Context<'a>,
    question: &'a EncoderQuestion,
    rows: Vec<Solved>,
}

fn fault(asked: Asked, fault: &Fault) -> Diagnostic {
    Diagnostic::new(format!("{}: {fault}", asked.family.name()))
}

impl Solver<'_> {
    fn answer(mut self) -> Result<EncoderAnswer, Diagnostic> {
        let question = self.question;
        let names_schedules = question.schedules.iter().any(|one| one.is_named);
        let unnamed = |fault: Fault| Diagnostic::new(fault.to_string());
        let bound = self.bound().map_err(unnamed)?;
        let all = (question.schedules.len() * question.placements.len()) as u64;
        let work = self.context.host().begin(all, "schedules");
        for &asked in &question.schedules {
            for &placement in &question.placements {
                if !self.context.stopped() {
                    self.place(asked, placement)?;
                }
                work.inc(1);
            }
        }
        self.search()?;
        self.search_free()?;
        if self.rows.is_empty() && !self.context.stopped() {
            let message = "none of the schedules can do any of the placements with this shape";
            let cure =
                "own-stages takes schedules with one chunk per stage, and at least two stages";
            return Err(Diagnostic::new(message).with_help(cure).about("placement"));
        }
        let first = EncoderPlacement::FirstStage.name();
        let fits = |row: &EncoderRow| row.fits != Some(false);
        self.rows.sort_by_key(|one| (!fits(&one.row), one.row.step_ns));
        let base = self.rows.iter().find(|one| one.row.placement == first);
        let base = base.map(|one| one.row.step_ns);
        for one in &mut self.rows {
            one.row.gain = base.map(|base| ratio(base, one.row.step_ns) - 1.0);
            one.row.above_bound = ratio(one.row.step_ns, bound.0) - 1.0;
        }
        let timeline = self.rows.iter().find_map(|one| one.timeline.clone());
        let work = self.work().map_err(unnamed)?;
        let [model_ns, encoder_ns] = work.map(|time| u64::try_from(time).unwrap_or(u64::MAX));
        let results: Vec<EncoderRow> = self.rows.into_iter().map(|one| one.row).collect();
        Ok(EncoderAnswer {
            headline: results.first().map_or_else(String::new, |row| report::headline(row, bound)),
            stages: question.stages,
            microbatches: question.microbatches,
            model_ns,
            encoder_ns,
            bound_ns: bound.0,
            published_gain: PUBLISHED_GAIN,
            results,
            assumed: question.assumed.clone(),
            interrupted: self.context.cut_short().then_some(true),
            timeline,
            names_schedules,
        })
    }

    /// The language model in one chunk per stage.
    fn plain(&self) -> Result<Problem, Fault> {
        self.question.problem(Asked { family: Family::OneFOneB, chunks: 1, is_named: false })
    }

    fn bound(&self) -> Result<Nanos, Fault> {
        let problem = self.plain()?;
        let (stages, microbatches) = (problem.shape().stages(), problem.shape().microbatches());
        let encoder = &self.question.encoder;
        encoder.check(microbatches)?;
        Ok(encoder_bound(problem.costs(), encoder, stages, microbatches))
    }

    /// Forward and backward of a microbatch: of the language model, and of the encoder.
    fn work(&self) -> Result<[u128; 2], Fault> {
        let problem = self.plain()?;
        let model = problem.costs().chunks().iter().map(PassTimes::forward_and_backward).sum();
        Ok([model, self.question.encoder.mean().forward_and_backward()])
    }

    /// Adds the row of a schedule and a placement, if they go together.
    fn place(&mut self, asked: Asked, placement: EncoderPlacement) -> Result<(), Diagnostic> {
        let solved = match placement {
            EncoderPlacement::FirstStage => self.in_chunks(asked, placement, EncoderPlace::First),
            EncoderPlacement::Spread => self.in_chunks(asked, placement, EncoderPlace::Spread),
            EncoderPlacement::OwnStages => self.own_stages(asked),
            EncoderPlacement::Bubbles => self.bubbles(asked, ModelOrder::Kept, 0),
        };
        match solved {
            Ok(solved) => self.rows.push(solved),
            Err(Fault::EncoderStages { .. }) => {}
            Err(why) if asked.is_named => return Err(fault(asked, &why)),
            Err(_) => {}
        }
        Ok(())
    }

    /// Searches the bubbles of the schedules whose steps are shortest by rules.
    fn search(&mut self) -> Result<(), Diagnostic> {
        let bubbles = EncoderPlacement::Bubbles.name();
        let of_bubbles =
            self.rows.iter().enumerate().filter(|(_, one)| one.row.placement == bubbles);
        let mut best: Vec<usize> = of_bubbles.map(|(at, _)| at).collect();
        best.sort_by_key(|&at| (self.rows[at].row.fits == Some(false), self.rows[at].row.step_ns));
        if !self.question.schedules.iter().any(|one| one.is_named) {
            best.truncate(SEARCHED);
        }
        for at in best {
            let asked = self.rows[at].asked;
            if self.question.effort > 0 && !self.context.stopped() {
                let solved = self.bubbles(asked, ModelOrder::Kept, self.question.effort);
                self.rows[at] = solved.map_err(|why| fault(asked, &why))?;
            }
        }
        Ok(())
    }

    /// Searches the order of the model, too, from the shortest step with the encoder in bubbles on, where no schedule is
    /// named.
    fn search_free(&mut self) -> Result<(), Diagnostic> {
        let bubbles = EncoderPlacement::Bubbles.name();
        let is_named = self.question.schedules.iter().any(|one| one.is_named);
        if is_named || self.question.effort == 0 || self.context.stopped() {
            return Ok(());
        }
        let rows = self.rows.iter().filter(|one| one.row.placement == bubbles);
        let best = rows.min_by_key(|one| (one.row.fits == Some(false), one.row.step_ns));
        let Some(asked) = best.map(|one| one.asked) else { return Ok(()) };
        match self.bubbles(asked, ModelOrder::Free, self.question.effort) {
            Ok(solved) => self.rows.push(solved),
            // Pairs of passes have no free order.
            Err(Fault::BehindEncoder) => {}
            Err(why) => return Err(fault(asked, &why)),
        }
        Ok(())
    }

    /// Encoder and model in the same chunks.
    fn in_chunks(
        &self,
        asked: Asked,
        placement: EncoderPlacement,
        place: EncoderPlace,
    ) -> Result<Solved, Fault> {
        let problem = self.question.problem(asked)?;
        let encoder = &self.question.encoder;
        let placed = place_encoder(&problem, asked.family, encoder, (place, self.question.layers))?;
        let metrics = Metrics::of(&placed.timeline);
        let step = metrics.makespan();
        if step.0 == u64::MAX {
            return Err(Fault::Overflow { what: "the times" });
        }
        let mut row = self.row(asked, placement, step);
        row.bubble_rate = metrics.bubble_rate_makespan();
        row.own_stages = match place {
            EncoderPlace::Own(stages) => Some(stages),
            EncoderPlace::First | EncoderPlace::Spread => None,
        };
        let limits = self.limits(&problem, &placed.schedule)?;
        self.weigh(&mut row, &placed.held, limits.as_ref());
        Ok(Solved { row, timeline: None, asked })
    }

    /// Stages of the encoder alone, as many as make the step shortest if the question does not say.
    fn own_stages(&self, asked: Asked) -> Result<Solved, Fault> {
        let stages = u16::try_from(self.question.stages).unwrap_or(u16::MAX);
        let tried = match self.question.own_stages {
            Some(own) => own..=own,
            None => self.fair_stages(stages)?,
        };
        let mut best: Option<Solved> = None;
        for own in tried {
            let place = EncoderPlace::Own(own);
            let solved = self.in_chunks(asked, EncoderPlacement::OwnStages, place)?;
            let value = |one: &Solved| (one.row.fits == Some(false), one.row.step_ns);
            if best.as_ref().is_none_or(|best| value(&solved) < value(best)) {
                best = Some(solved);
            }
        }
        best.ok_or(Fault::EncoderStages { own: 0, stages: usize::from(stages) })
    }

    /// Numbers of stages about the share of the encoder in all work.
    fn fair_stages(&self, stages: u16) -> Result<std::ops::RangeInclusive<u16>, Fault> {
        let [model, encoder] = self.work()?;
        let fair = u128::from(stages) * encoder / (model + encoder).max(1);
        let fair = u16::try_from(fair).unwrap_or(stages);
        let most = stages.saturating_sub(1);
        Ok(fair.saturating_sub(1).clamp(1, most.max(1))..=fair.saturating_add(2).min(most))
    }

    /// The encoder in the bubbles of a schedule.
    fn bubbles(&self, asked: Asked, model: ModelOrder, effort: u64) -> Result<Solved, Fault> {
        let problem = self.question.problem(asked)?;
        let schedule = asked.family.schedule(&problem)?;
        let limits = self.limits(&problem, &schedule)?;
        let beside = Beside {
            schedule: &schedule,
            costs: problem.costs(),
            footprints: problem.footprints(),
            encoder: &self.question.encoder,
            limits: limits.as_ref(),
        };
        let stop = || self.context.stopped();
        let found = search_encoder(&beside, model, (effort, self.question.seed), &stop)?;
        let FoundEncoder { stages, timeline, bound, held, history, .. } = found;
        let step = timeline.step();
        let mut row = self.row(asked, EncoderPlacement::Bubbles, step);
        match model {
            ModelOrder::Kept => {
                let alone = sim::Replay::new().metrics(&schedule, problem.costs())?;
                row.model_alone_ns = Some(alone.makespan().0);
            }
            ModelOrder::Free => row.schedule = search::NAME,
        }
        row.bubble_rate = idle(&timeline, step);
        row.order_bound_ns = Some(bound.0);
        let mut by_stage = vec![0; schedule.shape().stages()];
        stages.iter().for_each(|&stage| by_stage[usize::from(stage)] += 1);
        row.microbatches_by_stage = Some(by_stage);
        self.weigh(&mut row, &held, limits.as_ref());
        row.solution = Some(Solution {
            fits: row.fits != Some(false),
            ..Solution::new(("makespan", step), Some(bound), &history)
        });
        Ok(Solved { row, timeline: Some(timeline), asked })
    }

    fn row(&self, asked: Asked, placement: EncoderPlacement, step: Nanos) -> EncoderRow {
        EncoderRow {
            placement: placement.name(),
            schedule: asked.family.name(),
            chunks: asked.chunks,
            own_stages: None,
            step_ns: step.0,
            bubble_rate: 0.0,
            gain: None,
            above_bound: 0.0,
            model_alone_ns: None,
            order_bound_ns: None,
            solution: None,
            peak_bytes: None,
            fits: None,
            microbatches_by_stage: None,
        }
    }

    fn limits(&self, problem: &Problem, schedule: &Schedule) -> Result<Option<Limits>, Fault> {
        match self.question.limit {
            None => Ok(None),
            Some(_) => problem.limits(schedule.placement()),
        }
    }

    /// Notes what the stages hold.
    fn weigh(&self, row: &mut EncoderRow, held: &[Bytes], limits: Option<&Limits>) {
        if !self.question.has_bytes {
            return;
        }
        row.peak_bytes = held.iter().map(|bytes| bytes.0).max();
        row.fits = limits
            .map(|limits| held.iter().zip(limits.by_stage()).all(|(held, limit)| held <= limit));
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(one: u64, other: u64) -> f64 {
    if other == 0 { 1.0 } else { one as f64 / other as f64 }
}

/// Share of `step` in which the average stage waits.
#[allow(clippy::cast_precision_loss)]
fn idle(timeline: &EncoderTimeline, step: Nanos) -> f64 {
    let available = u128::from(step.0) * timeline.stages.len() as u128;
    match available {
        0 => 0.0,
        _ => available.saturating_sub(timeline.busy()) as f64 / available as f64,
    }
}

/// The word of a direction of the encoder in tables and pictures.
#[must_use]
pub const fn word(kind: EncoderKind) -> &'static str {
    match kind {
        EncoderKind::Forward => "EF",
        EncoderKind::Backward => "EB",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use pipeline::{Costs, Shape};

    use super::*;
    use crate::Tabular as _;

    /// Of schedules whose orders keep a limit, too: nothing holds bytes, and activations count.
    #[test]
    fn an_encoder_of_no_time_leaves_the_step_of_the_language_model() {
        let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let (forward, hop) = (Nanos(20_000_000), Nanos(500_000));
        let keys = EncoderKeys {
            schedule: Some(["1f1b", "1f1b-i", "zb-h1", "zb-v"].map(str::to_owned).to_vec()),
            stages: Some(4),
            microbatches: Some(8),
            forward: Some(forward),
            hop: Some(hop),
            encoder_forward: Some(Nanos(0)),
            encoder_backward: Some(Nanos(0)),
            ..EncoderKeys::default()
        };
        let answer = encoder(&Context::new(&host), &keys).unwrap();
        assert!(!answer.results.is_empty());
        for row in answer.results.iter().filter(|row| row.own_stages.is_none()) {
            let family = Family::named(row.schedule).unwrap();
            let shape = Shape::new(4, row.chunks, 8).unwrap();
            let part = Nanos(forward.0 / row.chunks);
            let costs = Costs::uniform(shape, PassTimes::new(part, part, part), hop);
            let problem = Problem::new(shape, costs).unwrap();
            let schedule = family.schedule(&problem).unwrap();
            let alone = sim::Replay::new().metrics(&schedule, problem.costs()).unwrap();
            assert_eq!(row.step_ns, alone.makespan().0, "{} {}", row.schedule, row.placement);
        }
        let text = format!("{:?}", answer.sheet());
        assert!(text.contains("is +9 to +21 % in bubbles"), "{text}");
    }

    #[test]
    fn the_published_gain_is_that_of_the_table() {
        let rows =
            scenarios::PAPER.text("optimus.csv").lines().filter(|line| !line.starts_with('#'));
        let gains: Vec<f64> = rows
            .skip(1)
            .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>())
            .map(|cells| cells[2] / cells[4] - 1.0)
            .collect();
        for (at, gain) in [(0, PUBLISHED_GAIN[0]), (gains.len() - 1, PUBLISHED_GAIN[1])] {
            assert!((gains[at] - gain).abs() < 1e-3, "{gains:?}");
        }
        // Ours is the largest that is recorded beside them.
        let ours = scenarios::PAPER.text("expected-misses.csv").lines().find_map(|line| {
            line.strip_prefix("encoder,strong scaling over Megatron-LM,\"largest gain, %\",")
        });
        let ours: f64 = ours.unwrap().split(',').next().unwrap().parse().unwrap();
        assert!((ours - report::OUR_GAIN).abs() < 0.5, "{ours}");
    }
}
