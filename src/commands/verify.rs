//! `debubble verify`: a certificate, checked from scratch.

use std::io::Write;
use std::path::PathBuf;

use certificate::{MAX_BYTES, Objective, Refusal, Verdict as Verified};
use clap::Args;
use pipeline::Nanos;
use serde::Serialize;

use super::{OUTPUT, Verdict, print_json};
use crate::error::Error;
use crate::files;
use crate::format::percent;
use crate::help;
use question::kinds;
use question::kinds::Kind;

const EXAMPLES: &str = "\
Examples:
  debubble verify best.cert
  debubble verify best.cert --json | jq .gap_ns

A certificate holds an order of passes, the times and sizes it is for, the memory limit, what the
order costs, and a bound that no order undercuts, with the name of the argument for it. Nothing of
that is believed: the order is put together, timed and its memory counted anew, and the argument is
evaluated at the stages that the certificate names.

Exit codes: 0 all of it holds, 1 something in it does not, 2 the file is no certificate.";

/// Check a certificate: the order, its memory, its cost, and that no order costs less than the bound
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Verify {
    /// The certificate
    #[arg(value_name = "CERTIFICATE")]
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct Json {
    holds: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    found: Option<Found>,
}

#[derive(Serialize)]
struct Found {
    passes: usize,
    objective: &'static str,
    cost_ns: u64,
    bound_ns: u64,
    gap_ns: u64,
    optimal: bool,
    argument: &'static str,
    stages: Vec<usize>,
    peak_bytes: Vec<u64>,
}

impl From<&Verified> for Found {
    fn from(verified: &Verified) -> Self {
        let Verified { passes, peaks, objective, cost, bound, argument, .. } = verified;
        Self {
            passes: *passes,
            objective: objective.name(),
            cost_ns: cost.0,
            bound_ns: bound.0,
            gap_ns: verified.gap().0,
            optimal: verified.is_optimal(),
            argument: argument.name(),
            stages: argument.stages(),
            peak_bytes: peaks.iter().map(|peak| peak.0).collect(),
        }
    }
}

impl Verify {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let text = files::read_toml(&self.file, MAX_BYTES as u64)?;
        let verified = match certificate::verify(&text) {
            Err(refusal) if refusal.is_unreadable() => {
                let cause = refusal.to_string();
                let error = Error::Read { path: self.file.clone(), cause };
                return Err(kinds::misplaced(&self.file, &text, &[Kind::Certificate], error));
            }
            other => other,
        };
        let verdict = if verified.is_ok() { Verdict::Done } else { Verdict::Missed };
        if self.json {
            print_json(out, &json(&verified))?;
            return Ok(verdict);
        }
        match verified {
            Ok(verified) => print(out, &verified)?,
            Err(refusal) => writeln!(out, "refused   {refusal}")?,
        }
        Ok(verdict)
    }
}

fn json(verified: &Result<Verified, Refusal>) -> Json {
    match verified {
        Ok(verified) => Json { holds: true, refused: None, found: Some(verified.into()) },
        Err(refusal) => Json { holds: false, refused: Some(refusal.to_string()), found: None },
    }
}

/// What was checked, line by line.
fn print(out: &mut dyn Write, verified: &Verified) -> Result<(), Error> {
    let Verified { passes, peaks, cost, bound, argument, .. } = verified;
    let stages = peaks.len();
    writeln!(
        out,
        "order     {passes} passes on {stages} stages: each once, on its stage, free of deadlock"
    )?;
    writeln!(out, "memory    {}", memory(verified))?;
    let measure = match verified.objective {
        Objective::Span => "longest time from the first to the last pass of a stage",
        Objective::Makespan => "end of the last pass",
    };
    writeln!(out, "cost      {cost}, the {measure}")?;
    let at: Vec<String> = argument.stages().iter().map(usize::to_string).collect();
    let named = if at.len() == 1 { "stage" } else { "stages" };
    writeln!(
        out,
        "bound     {bound}: no order costs less, by the argument `{}` at {named} {}",
        argument.name(),
        at.join(" and ")
    )?;
    writeln!(out, "{}", gap(verified.gap(), *cost))?;
    Ok(())
}

fn memory(verified: &Verified) -> String {
    let Some(limits) = &verified.limits else { return "not limited".to_owned() };
    let stages = verified.peaks.iter().zip(limits).enumerate();
    // The stage with the least room left; of equal ones the first.
    let fullest = stages.min_by_key(|(_, (peak, limit))| limit.0 - peak.0);
    fullest.map_or(String::new(), |(stage, (peak, limit))| {
        format!("within its limit on every stage; fullest is stage {stage}: {peak} of {limit}")
    })
}

#[allow(clippy::cast_precision_loss)]
fn gap(gap: Nanos, cost: Nanos) -> String {
    if gap == Nanos(0) {
        return "gap       none: this order is optimal".to_owned();
    }
    let share = percent(gap.0 as f64 / cost.0 as f64);
    format!("gap       {gap}, {share} of the cost: no order can save more")
}
