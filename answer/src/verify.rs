//! A certificate, checked from scratch.

use std::path::Path;

use certificate::{Backwards, MAX_BYTES, Objective, Refusal, Verdict};
use pipeline::Nanos;
use question::format::{percent, size};
use question::kinds::{self, InputKind};
use question::sheet::Sheet;
use question::{Context, Diagnostic, object};
use serde::{Serialize, Serializer};

/// The result of checking a certificate: all of it holds, or something in it does not.
#[derive(Debug)]
pub struct VerifyAnswer(pub Result<Verdict, Refusal>);

impl VerifyAnswer {
    /// Whether all of the certificate holds.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.0.is_ok()
    }

    /// Whether the certificate holds, and how far its order is from the best, or why it is refused.
    #[must_use]
    pub fn headline(&self) -> String {
        match &self.0 {
            Ok(verified) => format!("The certificate holds. Gap: {}.", gap(verified)),
            Err(refusal) => format!("The certificate is refused: {refusal}."),
        }
    }

    /// The headline, and the facts that were checked, line by line.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let facts = self.0.as_ref().map(text).unwrap_or_default();
        Sheet::default().and_text(facts).headed(&self.headline())
    }
}

impl Serialize for VerifyAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object!(
            headline = self.headline(),
            holds = self.holds(),
            // Why it does not.
            some(refused) = self.0.as_ref().err().map(ToString::to_string),
            flat(found) = self.0.as_ref().ok().map(found),
        )
        .serialize(serializer)
    }
}

/// Checks the certificate in the file at `path`.
pub fn verify(context: &Context<'_>, path: &Path) -> Result<VerifyAnswer, Diagnostic> {
    let text = context.read_toml(path, MAX_BYTES as u64)?;
    match certificate::verify(&text) {
        Err(refusal) if refusal.is_unreadable() => {
            let error =
                Diagnostic::unreadable(path, &format!("it is not a certificate: {refusal}"))
                    .with_help("`debubble search QUESTION.toml --certificate FILE` writes one");
            Err(kinds::misplaced(path, &text, &[InputKind::Certificate], error))
        }
        other => Ok(VerifyAnswer(other)),
    }
}

/// What was checked, for machines.
fn found(verified: &Verdict) -> impl Serialize + use<> {
    let Verdict { passes, peaks, objective, cost, bound, argument, .. } = verified;
    object!(
        passes = *passes,
        objective = objective.name(),
        cost_ns = cost.0,
        bound_ns = bound.0,
        gap_ns = verified.gap().0,
        optimal = verified.is_optimal(),
        argument = argument.name(),
        stages = argument.stages(),
        // Pairs of passes that a branching log tries both ways.
        some(branches) = verified.branches,
        // Starts that windows of the first microbatches raise.
        some(raised_starts) = (verified.heads > 0).then_some(verified.heads),
        [peak_bytes] = peaks.iter().map(|peak| peak.0),
        // The backwards of the orders that the bound is about.
        backwards = match verified.backwards {
            Backwards::Split => "split",
            Backwards::SplitOrWhole => "split or whole",
        },
    )
}

fn text(verified: &Verdict) -> String {
    let Verdict { passes, peaks, cost, bound, argument, .. } = verified;
    let stages = peaks.len();
    let memory = memory(verified);
    let measure = match verified.objective {
        Objective::Span => "longest time from the first to the last pass of a stage",
        Objective::Makespan => "end of the last pass",
    };
    let at = looked_at(verified);
    let argument = argument.name();
    let gap = gap(verified);
    let orders = match verified.backwards {
        Backwards::Split => "no order of split backwards costs less",
        Backwards::SplitOrWhole => "no order costs less",
    };
    format!(
        "order     {passes} passes on {stages} stages: each once, on its stage, free of deadlock\n\
         memory    {memory}\n\
         cost      {cost}, the {measure}\n\
         bound     {bound}: {orders}, by the argument `{argument}` {at}\n\
         gap       {gap}\n"
    )
}

/// The place of the argument, and the size of its proof.
fn looked_at(verified: &Verdict) -> String {
    let at: Vec<String> = verified.argument.stages().iter().map(usize::to_string).collect();
    match (verified.branches, verified.heads, &at[..]) {
        (Some(branches), ..) => format!(
            "over all stages: {branches} pairs of passes tried both ways, and each of the {} leaves refuted \
             by windows that contradict each other",
            branches + 1
        ),
        (_, 1.., _) => format!(
            "over all stages: {} starts raised by windows of the first microbatches, and then the windows of \
             all contradict each other",
            verified.heads
        ),
        (.., []) => "over all stages: the windows of their passes contradict each other".to_owned(),
        (.., [one]) => format!("at stage {one}"),
        _ => format!("at stages {}", at.join(" and ")),
    }
}

fn memory(verified: &Verdict) -> String {
    let Some(limits) = &verified.limits else { return "not limited".to_owned() };
    let stages = verified.peaks.iter().zip(limits).enumerate();
    // The stage with the least memory left; of equal ones the first.
    let fullest = stages.min_by_key(|(_, (peak, limit))| limit.0 - peak.0);
    fullest.map_or(String::new(), |(stage, (peak, limit))| {
        let [peak, limit] = [*peak, *limit].map(size);
        format!("within its limit on every stage; fullest is stage {stage}: {peak} of {limit}")
    })
}

#[allow(clippy::cast_precision_loss)]
fn gap(verified: &Verdict) -> String {
    let (gap, cost) = (verified.gap(), verified.cost);
    match (gap, verified.backwards) {
        (Nanos(0), Backwards::SplitOrWhole) => {
            "none: this order is optimal among those of its chunks and placement".to_owned()
        }
        (Nanos(0), Backwards::Split) => {
            "none: this order is optimal among those of its chunks, placement and split backwards; those of whole ones may be \
             shorter"
                .to_owned()
        }
        _ => format!("{gap}, {} of the cost: no order can save more", percent(gap.0 as f64 / cost.0 as f64)),
    }
}
