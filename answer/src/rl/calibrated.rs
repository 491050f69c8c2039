//! A step as the log of its run has it: which step counts, whether it is of the question, and by which factors phases are
//! calibrated.

use std::path::Path;

use fsdp::rl::{Factors, Mean, Placement};
use fsdp::{Lengths, Summary};
use imports::step_log::{self, Chosen, Fact, LoggedStep, StepLog};
use imports::verl::SIGMA;
use pipeline::Nanos;
use planning::rl::{Asked, asked};
use question::Diagnostic;
use question::host::Context;
use question::rl::RlKeys;
use question::values::packing::LengthsKey;

use super::logged::{HeldOut, HeldStep, LoggedPhase, LoggedSteps};
use super::phase::{PHASES, Phase};
use super::{float, mean};

/// The most steps that are predicted by another one.
const HELD_OUT: usize = 12;
/// The most draws of lengths that such a prediction is the mean of.
const DRAWS: u64 = 4;
/// The share by which figures of a log and of the question may be apart.
const NEAR: f64 = 0.01;
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// A question that a log calibrates.
pub(super) struct Calibrated {
    /// Its keys, with the lengths of the log.
    pub(super) keys: RlKeys,
    factors: Factors,
    /// Rewards, where the log says their time.
    reward: Option<Nanos>,
    /// What the answer says of the log.
    pub(super) steps: LoggedSteps,
}

/// The question that `keys` ask, with what `log` says of a step, if there is one.
pub(super) fn ask(
    context: &Context<'_>,
    log: Option<&Calibrated>,
    keys: &RlKeys,
) -> Result<Asked, Diagnostic> {
    let question = asked(context, keys)?;
    Ok(match log {
        Some(log) => log.of(question),
        None => question,
    })
}

/// The question that `keys` ask, calibrated by the log that they name; `None` where they name none.
pub(super) fn by_log(
    context: &Context<'_>,
    keys: &RlKeys,
) -> Result<Option<Calibrated>, Diagnostic> {
    let Some(path) = keys.log.as_deref() else { return Ok(None) };
    let log = step_log::read(context, path)?;
    let chosen = log.chosen().ok_or_else(|| wrong(path, "no step of it counts"))?;
    let keys = RlKeys { log: None, ..keys.clone() };
    let question = asked(context, &keys)?;
    let of = Reader { context, path, keys: &keys, log: &log, unknown: Vec::new() };
    of.calibrate(&question, &chosen).map(Some)
}

fn wrong(path: &Path, message: &str) -> Diagnostic {
    Diagnostic::new(format!("{}: {message}", question::quote::path(path))).about("log")
}

impl Calibrated {
    /// `question` with what the log says of a step.
    pub(super) fn of(&self, mut question: Asked) -> Asked {
        question.steps.factors = Some(self.factors);
        question.steps.beside.reward = self.reward.unwrap_or(question.steps.beside.reward);
        question
    }
}

struct Reader<'a> {
    context: &'a Context<'a>,
    path: &'a Path,
    keys: &'a RlKeys,
    log: &'a StepLog,
    /// What the log does not say.
    unknown: Vec<String>,
}

impl Reader<'_> {
    fn calibrate(mut self, question: &Asked, chosen: &Chosen) -> Result<Calibrated, Diagnostic> {
        let step = &self.log.steps[chosen.median];
        if question.steps.placement == Placement::Separate
            || step.fact(Fact::Asynchronous).is_some()
        {
            let message =
                "its rollout runs beside training, and its time of generation is the wait for it";
            return Err(wrong(self.path, message)
                .with_help("give the log of a run whose devices generate and train in turn"));
        }
        self.check_run(step)?;
        self.say_unknown_lengths(step);
        let keys = self.with_lengths(step)?;
        let predicted = self.run(asked(self.context, &keys)?, u64::MAX)?;
        let (factors, reward, phases) = self.factors(step, &predicted)?;
        let mut calibrated = Calibrated {
            keys,
            factors,
            reward,
            steps: LoggedSteps {
                step: step.number,
                counted: 1 + chosen.others.len(),
                runs: self.log.runs,
                left_out: chosen.left_out.clone(),
                phases,
                prompt_tokens: step.prompts().map(|all| all.mean),
                longest_prompt: step.prompts().and_then(|all| Some(all.longest?.0)),
                response_tokens: step.responses().map(|all| all.mean),
                longest_response: step.responses().and_then(|all| Some(all.longest?.0)),
                held_out: None,
                unknown: Vec::new(),
            },
        };
        calibrated.steps.held_out = self.held_out(&calibrated, chosen)?;
        calibrated.steps.unknown = self.unknown;
        Ok(calibrated)
    }

    /// Refuses the log of a run that trains on other devices or on another number of responses than the question.
    fn check_run(&mut self, step: &LoggedStep) -> Result<(), Diagnostic> {
        let RlKeys { devices, prompts, responses, .. } = *self.keys;
        let own = float(u128::from(devices));
        let tokens = step.fact(Fact::Tokens);
        let rate = step.fact(Fact::Rate).filter(|rate| *rate > 0.0);
        let logged = || Some(tokens? / (rate? * step.fact(Fact::Step)?));
        match logged() {
            Some(logged) if (logged / own - 1.0).abs() > NEAR => {
                let message = format!(
                    "its tokens and its rate are those of {logged:.1} devices, and the question has {devices}"
                );
                let help = "is it the log of this run? --devices gives them";
                return Err(wrong(self.path, &message).with_help(help));
            }
            Some(_) => {}
            None => self.unknown.push("the devices of the log".to_owned()),
        }
        let tokens = tokens.or_else(|| Some(step.fact(Fact::DeviceTokens)? * own));
        let both = step.fact(Fact::BothMean);
        let sum = || Some(step.prompts()?.mean + step.responses()?.mean);
        let trained = || Some(tokens? / both.or_else(sum)?);
        let all = float(u128::from(prompts) * u128::from(responses));
        match trained() {
            Some(trained) if (trained / all - 1.0).abs() > NEAR => {
                let message = format!(
                    "its steps have {trained:.0} responses by their tokens and mean lengths, and the question has \
                     {prompts} x {responses} = {all}"
                );
                let help =
                    "is it the log of this run? --prompts, --responses and --devices give them";
                Err(wrong(self.path, &message).with_help(help))
            }
            Some(_) => Ok(()),
            None => {
                self.unknown.push("the number of responses of a step of the log".to_owned());
                Ok(())
            }
        }
    }

    /// Names what `step` does not say of lengths.
    fn say_unknown_lengths(&mut self, step: &LoggedStep) {
        let of = [
            ("prompts", step.prompts(), &self.keys.prompt_lengths, SIGMA[0]),
            ("responses", step.responses(), &self.keys.response_lengths, SIGMA[1]),
        ];
        for (what, summary, key, sigma) in of {
            let text = match summary {
                _ if key.file().is_some() => continue,
                None => format!(
                    "the lengths of {what}: the log has no mean, and those of the question are taken"
                ),
                Some(Summary { longest: None, .. }) => format!(
                    "the longest of {what}, and how lengths spread: the log has their mean, and a log-normal law of sigma \
                     {sigma} is assumed"
                ),
                Some(_) => format!(
                    "how lengths of {what} spread between mean and longest: a log-normal law with both is assumed"
                ),
            };
            self.unknown.push(text);
        }
    }

    /// The keys with the lengths of `step`, but for those of a file.
    fn with_lengths(&self, step: &LoggedStep) -> Result<RlKeys, Diagnostic> {
        let RlKeys { prompts, responses, .. } = *self.keys;
        let law = |key: &LengthsKey, summary: Option<Summary>, sigma: f64, samples: u64| {
            let Some(summary) = summary.filter(|_| key.file().is_none()) else {
                return Ok(key.clone());
            };
            let longest = key.read(self.context)?.longest();
            let most = summary.longest.map_or(longest, |(own, _)| longest.max(own));
            let law = Lengths::of_summary(summary, sigma, most, samples)
                .map_err(|fault| wrong(self.path, &fault.to_string()))?;
            Ok(LengthsKey::Known(law, key.to_string()))
        };
        let all = prompts.saturating_mul(responses);
        Ok(RlKeys {
            prompt_lengths: law(&self.keys.prompt_lengths, step.prompts(), SIGMA[0], prompts)?,
            response_lengths: law(&self.keys.response_lengths, step.responses(), SIGMA[1], all)?,
            ..self.keys.clone()
        })
    }

    /// The steps of `question`, at most `most`.
    fn run(&self, question: Asked, most: u64) -> Result<Mean, Diagnostic> {
        let mut steps = question.steps;
        steps.steps = steps.steps.min(most);
        let run = steps.run(|| {}, || self.context.stopped());
        run.map_err(|fault| Diagnostic::new(fault.to_string()))
    }

    /// The factors that make `predicted` of the phases of `step`, the time of its rewards, and a row for each phase.
    fn factors(
        &mut self,
        step: &LoggedStep,
        predicted: &Mean,
    ) -> Result<(Factors, Option<Nanos>, Vec<LoggedPhase>), Diagnostic> {
        let mut factors = Factors::default();
        let mut rows = Vec::new();
        let whole = step.fact(Fact::Step);
        let both = step.fact(Fact::Both);
        let mean = |time: u128| mean(time, predicted);
        let seconds = |nanos: u64| float(u128::from(nanos)) / SECOND;
        let of_both = mean(predicted.old + predicted.reference);
        for phase in &PHASES {
            let own = mean((phase.time)(predicted));
            let is_both = both.is_some() && matches!(phase.fact, Fact::Old | Fact::Reference);
            let factor = (phase.factor)(&mut factors);
            match step.fact(phase.fact) {
                _ if is_both => {
                    *factor = both.unwrap_or(0.0) / seconds(of_both.max(1));
                    if phase.fact == Fact::Old {
                        let name = "old and reference log-probabilities";
                        rows.push(LoggedPhase::new(name, Some(of_both), both));
                        let name =
                            "old and reference log-probabilities apart: the log has their sum";
                        self.unknown.push(name.to_owned());
                    }
                }
                Some(logged) if own > 0 => {
                    *factor = logged / seconds(own);
                    rows.push(LoggedPhase::new(phase.name, Some(own), Some(logged)));
                }
                Some(logged) if phase.key.is_some() && logged > NEAR * step.seconds() => {
                    return Err(self.not_asked(phase, logged));
                }
                None if own > 0 => {
                    *factor = if whole.is_some() { 0.0 } else { 1.0 };
                    rows.push(LoggedPhase::new(phase.name, Some(own), None));
                    let place =
                        if whole.is_some() { ", and is in another phase or the rest" } else { "" };
                    self.unknown.push(format!(
                        "the time of {}: it has none of its own in the log{place}",
                        phase.name
                    ));
                }
                _ => {}
            }
        }
        let reward = self.rest(step, &mut factors, &mut rows)?;
        if step.fact(Fact::Step).is_some() {
            let (all, logged) = (Some(mean(predicted.time)), step.fact(Fact::Step));
            rows.push(LoggedPhase::new("step", all, logged));
        }
        Ok((factors, reward, rows))
    }

    /// The time of rewards of `step`, and in `factors` what it has besides its phases `rows`, with a row for each.
    fn rest(
        &mut self,
        step: &LoggedStep,
        factors: &mut Factors,
        rows: &mut Vec<LoggedPhase>,
    ) -> Result<Option<Nanos>, Diagnostic> {
        let reward = step.fact(Fact::Reward).filter(|reward| *reward > 0.0);
        rows.extend(reward.map(|reward| LoggedPhase::new("reward", None, Some(reward))));
        let Some(whole) = step.fact(Fact::Step) else {
            self.unknown.push("the whole step and what it has besides phases".to_owned());
            return Ok(reward.map(plan::nanos));
        };
        let phases: f64 = rows.iter().filter_map(|row| row.logged).sum();
        if phases > whole * (1.0 + NEAR) {
            let message = format!(
                "its phases take {phases:.1} s together and its step {whole:.1} s: they run in parallel"
            );
            return Err(wrong(self.path, &message)
                .with_help("give the log of a run whose devices generate and train in turn"));
        }
        let rest = (whole - phases).max(0.0);
        factors.rest = plan::nanos(rest);
        rows.push(LoggedPhase::new("rest", None, Some(rest)));
        Ok(Some(plan::nanos(reward.unwrap_or(0.0))))
    }

    /// That the log has a `phase` of so many seconds which the question does not ask for.
    fn not_asked(&self, phase: &Phase, seconds: f64) -> Diagnostic {
        let message =
            format!("its steps have {} ({seconds:.1} s), and the question has none", phase.name);
        let help = match phase.key {
            Some("no-old-log-probs") => "take --no-old-log-probs away".to_owned(),
            key => format!("add --{}", key.unwrap_or_default()),
        };
        wrong(self.path, &message).with_help(help)
    }

    /// How far the other steps are from their predictions by this one.
    fn held_out(
        &mut self,
        calibrated: &Calibrated,
        chosen: &Chosen,
    ) -> Result<Option<HeldOut>, Diagnostic> {
        let count = chosen.others.len();
        let kept = count.min(HELD_OUT);
        let spread = (0..kept).map(|at| &self.log.steps[chosen.others[at * count / kept.max(1)]]);
        let mut steps = Vec::new();
        for step in spread {
            let Some(logged) = step.fact(Fact::Step) else { continue };
            if self.context.stopped() {
                break;
            }
            let keys = self.with_lengths(step)?;
            let run = self.run(calibrated.of(asked(self.context, &keys)?), DRAWS)?;
            let predicted = mean(run.time, &run);
            steps.push(HeldStep::new(step.number, predicted, logged));
        }
        if steps.is_empty() {
            let text = "how well this step predicts others: the log has no other that counts";
            self.unknown.push(text.to_owned());
        }
        Ok(HeldOut::of(steps))
    }
}
