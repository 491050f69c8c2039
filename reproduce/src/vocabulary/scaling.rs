//! Table 3: losses of the vocabulary layers in shards against p times the whole layer.
//!
//! Beside its part of the work a shard of the output layer has, as shares of that work, the extra work
//! of its algorithm; the fixed work of every pass, which weighs p / (s h) against the part; and the
//! cost of more than one node. A shard of the input layer looks up and reduces s h numbers for any p,
//! against gradients of V h / p. Fitted to the rows of sequence 2048; the rest are held out.

use question::Diagnostic;
use serde::Deserialize;

use super::super::cell::Cell;
use super::super::sources::{Sources, error_in};
use super::columns::{Fit, SCALING_INPUT, SCALING_OUTPUT};
use super::least_squares::least_squares;

/// The file of its measured shares.
pub(in super::super) const FIGURES: &str = "vocabulary-scaling.csv";

pub(super) const NODE: f64 = 8.0;
/// The sequence length of the rows that are fitted.
const FITTED: f64 = 2048.0;

#[derive(Deserialize, Clone)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Share {
    layer: String,
    seq: f64,
    gpus: f64,
    hidden: f64,
    percent: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    /// Extra work of algorithm 1 and algorithm 2, as shares.
    pub(super) algorithms: [f64; 2],
    /// The share of the fixed work of every pass, times s h / p.
    pub(super) of_pass: f64,
    /// The share of more than one node.
    pub(super) nodes: f64,
    /// The input layer's s h numbers over its p-th part of the gradients, by p s.
    pub(super) input: f64,
}

impl Share {
    /// Which algorithm the output layer follows; none for the input layer.
    fn algorithm(&self) -> Option<Option<usize>> {
        match self.layer.as_str() {
            "OUTPUT-VOCAB-1" => Some(Some(0)),
            "OUTPUT-VOCAB-2" => Some(Some(1)),
            "INPUT" => Some(None),
            _ => None,
        }
    }

    /// Factor on the work of a shard of the output layer, less 1, as a term for each constant.
    fn factors(&self, algorithm: usize) -> [f64; 4] {
        let Self { seq, gpus, hidden, .. } = self;
        let of = |which: usize| if algorithm == which { 1.0 } else { 0.0 };
        [of(0), of(1), gpus / (seq * hidden), if *gpus > NODE { 1.0 } else { 0.0 }]
    }

    fn share(&self) -> f64 {
        self.percent / 100.0
    }
}

impl Scaling {
    fn percent(&self, of: &Share) -> f64 {
        let over = match of.algorithm().flatten() {
            None => self.input * of.gpus * of.seq,
            Some(algorithm) => {
                let [first, second] = self.algorithms;
                let constants = [first, second, self.of_pass, self.nodes];
                of.factors(algorithm).iter().zip(constants).map(|(factor, by)| factor * by).sum()
            }
        };
        100.0 / (1.0 + over)
    }

    /// Factor on the work of a shard of the output layer, on `gpus`.
    pub(super) fn of_work(&self, algorithm: usize, gpus: f64) -> f64 {
        1.0 + self.algorithms[algorithm] + if gpus > NODE { self.nodes } else { 0.0 }
    }
}

/// The constants, and a cell for every share.
pub(super) fn cells(sources: &Sources<'_>) -> Result<(Scaling, Vec<Cell>), Diagnostic> {
    let (path, shares) = sources.records_or_built_in::<Share>(FIGURES)?;
    let positive = |figure: f64| figure.is_finite() && figure > 0.0;
    for share in &shares {
        let Share { layer, seq, gpus, hidden, percent } = share;
        if share.algorithm().is_none()
            || ![*seq, *gpus, *hidden, *percent].into_iter().all(positive)
        {
            let message =
                format!("{layer}: a layer of table 3, and figures above zero, are expected");
            return Err(error_in(&path, None, &message));
        }
    }
    let scaling = fit(&shares).ok_or_else(|| {
        error_in(&path, None, "too few rows of sequence 2048 to fit the scaling to")
    })?;
    let cell = |share: &Share| {
        let Share { layer, seq, gpus, percent, .. } = share;
        let column = if layer == "INPUT" { &SCALING_INPUT } else { &SCALING_OUTPUT };
        let row = format!("{layer}, {gpus} GPUs, sequence {seq}");
        let figure = column.figure(row, Fit::of(is_fitted(share)), *percent, 2);
        figure.beside(scaling.percent(share))
    };
    Ok((scaling, shares.iter().map(cell).collect()))
}

#[allow(clippy::float_cmp)] // Both are whole.
fn is_fitted(share: &Share) -> bool {
    share.seq == FITTED
}

/// Each row weighs by its share, so that relative errors of the shares count.
fn fit(shares: &[Share]) -> Option<Scaling> {
    let fitted = || shares.iter().filter(|share| is_fitted(share));
    let target = |share: &Share| 1.0 - share.share();
    let output = fitted().filter_map(|share| {
        let factors = share.factors(share.algorithm()??);
        Some((factors.map(|factor| factor * share.share()), target(share)))
    });
    let input = fitted().filter(|share| share.layer == "INPUT");
    let input = input.map(|share| ([share.share() * share.gpus * share.seq], target(share)));
    let [first, second, of_pass, nodes] = least_squares(output)?;
    let [input] = least_squares(input)?;
    Some(Scaling { algorithms: [first, second], of_pass, nodes, input })
}
