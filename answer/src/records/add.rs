//! An order or a bound that may be better than the record's: taken if it is.

use std::path::Path;

use ::search::{Effort, Objective};
use cases::{Aim, Search};
use certificate::{Backwards, Certificate, MAX_BYTES};
use pipeline::{Nanos, Schedule};
use question::kinds::{self, InputKind};
use question::sheet::Sheet;
use question::{Context, Diagnostic, format};
use serde::Serialize;

use super::credit::Credit;
use super::record::Record;
use super::set::{RecordInstance, RecordSet};
use crate::search::{WarmStart, certificate_of};

/// The outcome of an order that was offered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Offer {
    /// The pipeline, where the order could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is a record, as a whole or in its order or bound alone.
    pub is_record: bool,
    /// Why, or why not.
    pub reason: String,
    /// The cost of the best known order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<u64>,
    /// The highest known bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// The new text of the record, where it is one.
    #[serde(skip)]
    pub text: Option<String>,
}

impl Offer {
    fn refused(name: Option<&str>, reason: String) -> Self {
        let name = name.map(str::to_owned);
        Self { name, is_record: false, reason, cost_ns: None, bound_ns: None, text: None }
    }

    /// In words.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let name = self.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        let verdict = if self.is_record { "a record" } else { "no record" };
        Sheet::default().and_text(format!("{name}{verdict}: {}\n", self.reason))
    }
}

/// Checks the certificate in `file`, finds the pipeline of `set` that it is of, and takes its order or its bound into the record
/// in `folder` where they are better.
pub fn add(
    context: &Context<'_>,
    set: &RecordSet,
    folder: &Path,
    file: &Path,
    credit: &Credit,
) -> Result<Offer, Diagnostic> {
    let text = context.read_toml(file, MAX_BYTES as u64)?;
    let certificate = match Certificate::read(&text) {
        Ok(certificate) => certificate,
        Err(refusal) if refusal.is_unreadable() => {
            let error = Diagnostic::unreadable(file, &refusal.to_string());
            return Err(kinds::misplaced(file, &text, &[InputKind::Certificate], error));
        }
        Err(refusal) => return Ok(Offer::refused(None, refusal.to_string())),
    };
    let one = set.instance_of(&certificate)?;
    match certificate::verify(&text) {
        Ok(_) => Ok(offer(context, folder, one, certificate, credit)),
        Err(refusal) => Ok(Offer::refused(Some(&one.name), refusal.to_string())),
    }
}

/// Searches the pipeline `one`, with branch and bound from the order of its record in `folder` on, and takes what is found into
/// that where it is better. None where the order of the record is already proved optimal.
pub fn search(
    context: &Context<'_>,
    set: &RecordSet,
    folder: &Path,
    one: &RecordInstance,
    effort: Effort,
    credit: &Credit,
) -> Result<Option<Offer>, Diagnostic> {
    let known = Record::check(context, folder, one).ok().flatten();
    if known.as_ref().is_some_and(|record| record.certificate.cost == record.certificate.bound) {
        return Ok(None);
    }
    let known = known.and_then(|record| WarmStart::of(record.certificate));
    let orders: Vec<&Schedule> = known.iter().map(|one| &one.schedule).collect();
    let search = Search {
        placement: Some(one.instance.placement),
        aim: Aim::Cost(Objective::Span),
        effort,
        known: &orders,
        proved: known.as_ref().map(|one| &one.proved),
        solved: true,
        stop: &|| context.stopped(),
    };
    let searched = cases::search(context, set.scenario(), one.setting(), &search, |_| {})?;
    Ok(Some(offer(context, folder, one, certificate_of(&searched)?, credit)))
}

/// Holds `certificate`, which is of `one`, against the record in `folder`: the cheaper order and the higher bound make the new
/// one. A record that does not hold counts as none.
fn offer(
    context: &Context<'_>,
    folder: &Path,
    one: &RecordInstance,
    certificate: Certificate,
    credit: &Credit,
) -> Offer {
    let certificate = Certificate { backwards: Backwards::SplitOrWhole, ..certificate };
    let credit = || Some(credit.clone());
    let new = Record { certificate, order: credit(), bound: credit() };
    let known = Record::check(context, folder, one).ok().flatten();
    let (record, reason) = match &known {
        None => {
            let reason = format!("the first order, {}", costs(&new.certificate));
            (new, reason)
        }
        Some(known) => match better(known, &new) {
            Some(better) => better,
            None => {
                let reason = format!(
                    "{}, where {} is known",
                    costs(&new.certificate),
                    costs(&known.certificate)
                );
                return Offer::refused(Some(&one.name), reason).with(&known.certificate);
            }
        },
    };
    let text = record.to_string();
    match certificate::verify(&text) {
        Ok(_) => {
            Offer { is_record: true, text: Some(text), ..Offer::refused(Some(&one.name), reason) }
                .with(&record.certificate)
        }
        Err(refusal) => Offer::refused(Some(&one.name), refusal.to_string()),
    }
}

impl Offer {
    fn with(self, known: &Certificate) -> Self {
        Self { cost_ns: Some(known.cost.0), bound_ns: Some(known.bound.0), ..self }
    }
}

/// The cheaper order and the higher bound of both, and what of it is new; none if nothing is.
fn better(known: &Record, new: &Record) -> Option<(Record, String)> {
    let cheaper = new.certificate.cost < known.certificate.cost;
    let higher = new.certificate.bound > known.certificate.bound;
    let (order, bound) = (if cheaper { new } else { known }, if higher { new } else { known });
    // A bound is about the pipeline, whatever the order beside it.
    let certificate = Certificate {
        bound: bound.certificate.bound,
        argument: bound.certificate.argument,
        proof: bound.certificate.proof.clone(),
        ..order.certificate.clone()
    };
    let record = Record { certificate, order: order.order.clone(), bound: bound.bound.clone() };
    let less =
        |from: Nanos, to: Nanos| format!("{} instead of {}", format::time(to), format::time(from));
    let [cost, raised] = [
        less(known.certificate.cost, new.certificate.cost),
        less(known.certificate.bound, new.certificate.bound),
    ];
    let what = match (cheaper, higher) {
        (true, true) => format!("cost {cost}, bound {raised}"),
        (true, false) => format!("cost {cost}"),
        (false, true) => format!("bound {raised}"),
        (false, false) => return None,
    };
    Some((record, what))
}

fn costs(certificate: &Certificate) -> String {
    let [cost, bound] = [certificate.cost, certificate.bound].map(format::time);
    format!("cost {cost}, bound {bound}")
}
