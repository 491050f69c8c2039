//! The question of dead workers: which there are, how their passes are rerouted, how often workers fail.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use pipeline::Nanos;
use thiserror::Error;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::file;
use crate::keys::table::{Lists, keys};
use crate::kinds::InputKind;
use crate::quote;
use crate::values::text_form::text_form;
use crate::values::words::words;

/// Heading in the help of which workers are dead and who takes over.
const DEAD: &str = "Dead workers";
/// Heading in the help of how often workers fail, and what that costs.
const RATES: &str = "Failures in the long run";

keys! {
    /// The keys of a question about dead workers, besides those of its schedules.
    pub struct FailureKeys as "Keys": "", Lists::OfValues;

    /// Data-parallel pipelines, each with the stages and microbatches of the question
    data_parallel: Option<u64>, label: "Data-parallel pipelines", value: "N", heading: DEAD;
    /// Dead workers as PIPELINE.STAGE, both from 0, as in 0.1,2.3 [default: one, of the stage whose loss makes the
    /// step longest]
    dead: Vec<DeadKey>, label: "Dead workers", value: "PIPELINE.STAGE,..", heading: DEAD;
    /// How microbatches of dead workers are distributed over the live workers of their stage: balanced (each to the
    /// worker with the least work so far) or in-turn (from the first worker again for each dead one)
    deal: DealKey, label: "Dealing of microbatches", value: "HOW", heading: DEAD, default: Some("balanced");
    /// Time of a transfer to a worker of another pipeline [default: as a hop within one]
    peer_hop: Option<Nanos>, label: "Time of a hop between pipelines", value: "TIME", heading: DEAD;
    /// All-reduce of a stage's gradients over its pipelines, and its optimizer, after the last pass
    /// [default: --exchange and --optimizer of the question]
    update: Option<Nanos>, label: "All-reduce and optimizer of a stage", value: "TIME", heading: DEAD;
    /// How long orders are searched, in multiples of the default; 0 for list schedules alone
    effort: u64, label: "Search effort", value: "TIMES", heading: DEAD, default: Some("1"), range: Some((0, 1_000));
    /// The passes of all live workers with their times, in the JSON
    timeline: bool, label: "Timeline of the live workers", heading: DEAD;
    /// Policies with a staggered optimizer: a stage begins its next step when its own optimizer is done
    staggered: bool, label: "Staggered optimizer in policies", heading: RATES;
    /// Largest number of dead workers, drawn at random, to give a step for; 0 for none
    most_dead: u64, label: "Most dead workers", value: "N", heading: RATES, default: Some("3"), range: Some((0, 32));
    /// Sets of dead workers that are drawn for each number of them
    draws: u64, label: "Sets of dead workers drawn", value: "N", heading: RATES, default: Some("8"),
        range: Some((1, 1_000));
    /// Mean time between failures of any of all workers, as in 2h: compares policies
    mtbf: Option<Nanos>, label: "Mean time between failures", value: "TIME", heading: RATES;
    /// Mean time until a dead worker is repaired or replaced [default: 3600s]
    repair: Option<Nanos>, label: "Time to repair a worker", value: "TIME", heading: RATES;
    /// Time from a failure until the other workers go on, and from a repair until the worker takes part: detection,
    /// new groups of collectives, weights from a peer [default: 30s]
    reconfigure: Option<Nanos>, label: "Time to reconfigure", value: "TIME", heading: RATES;
    /// Time to start all workers again from a checkpoint, once a spare is there [default: 600s]
    restart: Option<Nanos>, label: "Time to restart", value: "TIME", heading: RATES;
    /// Time to write a checkpoint [default: 60s]
    checkpoint: Option<Nanos>, label: "Time to write a checkpoint", value: "TIME", heading: RATES;
    /// Time between two checkpoints [default: that which loses least, Daly 2006]
    checkpoint_interval: Option<Nanos>, label: "Time between checkpoints", value: "TIME", heading: RATES;
    /// Spare workers that run nothing until another dies, where policies wait for spares
    spares: u64, label: "Spare workers", value: "N", heading: RATES, default: Some("0"), range: Some((0, 1_024));
}

impl FailureKeys {
    /// The keys of the file at `path`.
    pub fn read(context: &Context<'_>, path: &Path) -> Result<Self, Diagnostic> {
        file::read(context, path, InputKind::Question("failures"))
    }
}

words! {
    /// How microbatches of dead workers are dealt.
    derive(Default), pub enum DealKey {
        /// Each to the worker with the least work so far.
        Balanced = "balanced", default;
        /// In turn, from the first worker again for each dead one.
        InTurn = "in-turn";
    }
}

/// A dead worker: `PIPELINE.STAGE`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeadKey {
    /// Its pipeline, from 0.
    pub pipeline: u32,
    /// Its stage, from 0.
    pub stage: u32,
}

/// A text that names no worker.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{0}` is not a worker; write PIPELINE.STAGE, both from 0, as in 0.1")]
pub struct DeadKeyError(String);

impl FromStr for DeadKey {
    type Err = DeadKeyError;

    fn from_str(text: &str) -> Result<Self, DeadKeyError> {
        let whole = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().ok(),
            false => None,
        };
        let both = text.trim().split_once('.');
        let both = both.and_then(|(pipeline, stage)| Some((whole(pipeline)?, whole(stage)?)));
        let (pipeline, stage) = both.ok_or_else(|| DeadKeyError(quote::clip(text)))?;
        Ok(Self { pipeline, stage })
    }
}

impl fmt::Display for DeadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pipeline, self.stage)
    }
}

text_form! {
    DeadKey: "DeadWorker", "A dead worker as PIPELINE.STAGE, both from 0.",
        crate::keys::form::pattern(r"^\s*[0-9]+\.[0-9]+\s*$"), ["0.1"], SIGNED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_read_and_written() {
        let worker: DeadKey = "12.3".parse().unwrap();
        assert_eq!(
            (worker, worker.to_string()),
            (DeadKey { pipeline: 12, stage: 3 }, "12.3".to_owned())
        );
        for wrong in ["", "1", "1.", ".1", "-1.0", "1.2.3", "1.99999999999", "+1.2", "a.b"] {
            let error = wrong.parse::<DeadKey>().unwrap_err().to_string();
            assert!(error.contains("PIPELINE.STAGE"), "{error}");
        }
    }
}
