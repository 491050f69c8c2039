//! `debubble verify`: a certificate, checked from scratch.

use std::io::Write;
use std::path::PathBuf;

use answer::verify::verify;
use certificate::{Objective, Verdict as Verified};
use clap::Args;
use pipeline::Nanos;
use question::Context;

use super::{OUTPUT, Verdict, print_json};
use crate::error::Error;
use crate::format::percent;
use crate::help;
use crate::host::Host;

const EXAMPLES: &str = "\
Examples:
  debubble verify best.cert
  debubble verify best.cert --json | jq .gap_ns

A certificate holds an order of passes, the times and sizes it is for, the memory limit, what the
order costs, and a lower bound for every order, with the name of the argument for it. Nothing of
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

impl Verify {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::default();
        let answer = verify(&Context::new(&host), &self.file)?;
        let verdict = if answer.holds() { Verdict::Done } else { Verdict::Missed };
        if self.json {
            print_json(out, &answer)?;
            return Ok(verdict);
        }
        match answer.0 {
            Ok(verified) => print(out, &verified)?,
            Err(refusal) => writeln!(out, "refused   {refusal}")?,
        }
        Ok(verdict)
    }
}

/// Prints the facts that were checked, line by line.
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
