//! Times of layers, vocabulary layers and hops on the machine of the profile, as constants fitted to
//! its timers.
//!
//! Fitted to the runs of one host with sequence 2048, each timer's mean over its stages or the sum of a line
//! through the four vocabularies:
//!
//! | constant | of which timers |
//! |---|---|
//! | a layer, by its FLOPs | F and B of the inner stages of BASELINE |
//! | the whole output layer, by its FLOPs, and once for every pass | F and B of the last stage of BASELINE, less layers |
//! | the whole input layer, by its entries, and once for every pass | those of the first stage, likewise |
//! | layers beside collectives, over layers alone | F and B of the slowest stage, which sets the pace, of VOCAB-1 and VOCAB-2; apart, of INTERLACED |
//! | a shard of the input layer, by the numbers of an activation | its own timers, less its part of the gradients |
//! | a hop, whatever its bytes, which take a sixth of it over NVLink | its own timer |

use std::path::Path;

use question::Diagnostic;

use super::super::sources::error_in;
use super::least_squares::least_squares;
use super::profile::Run;
use super::scaling::Scaling;

/// The model of the profile (table 2, 8 GPUs).
const LAYERS: f64 = 32.0;
const HIDDEN: f64 = 3072.0;
/// The sequence length of the rows that are fitted.
const SEQUENCE: u64 = 2048;
/// The vocabulary that table 3 is assumed to be of: there the profile's own timers scale as it says.
const OF_SCALING: f64 = 262_144.0;

/// Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// By FLOP.
    layer: f64,
    /// By FLOP, and of a pass.
    output: [f64; 2],
    /// By entry of V h, and of a pass.
    input: [f64; 2],
    /// Layers beside collectives that overlap them, over layers alone.
    pub(super) beside: f64,
    /// The same where collectives do not overlap (INTERLACED).
    pub(super) interlaced: f64,
    /// By number of an activation, s h.
    input_shard: f64,
    pub(super) hop: f64,
    scaling: Scaling,
}

/// The sizes of a model and its stages, as the constants count them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) hidden: f64,
    pub(super) seq: f64,
    pub(super) vocabulary: f64,
    pub(super) stages: f64,
}

impl Sizes {
    /// FLOPs of a layer's forward: matrices, and attention.
    pub(super) fn layer(self) -> [f64; 2] {
        let Self { hidden: h, seq: s, .. } = self;
        [24.0 * s * h * h, 4.0 * s * s * h]
    }

    /// FLOPs of the output layer with a vocabulary of `vocabulary`.
    pub(super) fn output(self, vocabulary: f64) -> f64 {
        6.0 * self.seq * self.hidden * vocabulary
    }
}

impl Machine {
    /// The constants of `runs`, which are of the file at `path`.
    pub(super) fn fitted(path: &Path, runs: &[Run], scaling: Scaling) -> Result<Self, Diagnostic> {
        let lacks = || {
            let message = format!(
                "BASELINE, VOCAB-1, VOCAB-2 and INTERLACED with sequence {SEQUENCE} and at least two \
                 vocabularies are needed to fit the machine to"
            );
            error_in(path, None, &message)
        };
        Self::of(runs, scaling).ok_or_else(lacks)
    }

    fn of(runs: &[Run], scaling: Scaling) -> Option<Self> {
        let of = |methods: &'static [&'static str]| {
            let fitted =
                move |run: &&Run| run.seq == SEQUENCE && methods.contains(&run.method.as_str());
            runs.iter().filter(fitted)
        };
        let inner: Vec<f64> = of(&["BASELINE"]).filter_map(Run::passes).flat_map(inner).collect();
        let stage = mean(&inner)?;
        let sizes = Sizes { hidden: HIDDEN, seq: number(SEQUENCE), vocabulary: 0.0, stages: 8.0 };
        let flops = 3.0 * sizes.layer().iter().sum::<f64>() * LAYERS / sizes.stages;
        let ends = |last: bool| {
            of(&["BASELINE"]).filter_map(move |run| {
                let passes = run.passes()?;
                let end = if last { passes.last() } else { passes.first() };
                Some((run.entries()?, end? - stage))
            })
        };
        let output = ends(true).map(|(entries, took)| (sizes.output(entries), took));
        let input = ends(false).map(|(entries, took)| (entries * HIDDEN, took));
        let (output, input) = (line(output)?, line(input)?);
        let over = |methods| {
            let slowest = |run: &Run| run.passes()?.into_iter().reduce(f64::max);
            let all: Vec<f64> = of(methods).filter_map(slowest).collect();
            Some(mean(&all)? / stage)
        };
        let activation = sizes.seq * HIDDEN;
        let shards = of(&["VOCAB-1", "VOCAB-2"]).filter_map(|run| {
            let gradients = input[0] * run.entries()? * HIDDEN / sizes.stages;
            Some((mean(&run.input_layer()?)? - gradients) / activation)
        });
        let hops: Vec<f64> = of(&["VOCAB-1", "VOCAB-2"]).filter_map(Run::hop).collect();
        Some(Self {
            layer: stage / flops,
            output,
            input,
            beside: over(&["VOCAB-1", "VOCAB-2"])?,
            interlaced: over(&["INTERLACED"])?,
            input_shard: mean(&shards.collect::<Vec<_>>())?,
            hop: mean(&hops)?,
            scaling,
        })
    }

    /// F, B and W of a layer.
    pub(super) fn layer(&self, of: Sizes) -> [f64; 3] {
        let [matrices, attention] = of.layer();
        [matrices + attention, matrices + 2.0 * attention, matrices].map(|flops| flops * self.layer)
    }

    pub(super) fn output(&self, of: Sizes) -> f64 {
        self.output[0] * of.output(of.vocabulary) + self.output[1]
    }

    pub(super) fn input(&self, of: Sizes) -> f64 {
        self.input[0] * of.vocabulary * of.hidden + self.input[1]
    }

    /// A shard of the output layer, S and T.
    pub(super) fn shard(&self, of: Sizes, algorithm: usize) -> f64 {
        let work = self.output[0] * of.output(of.vocabulary) / of.stages;
        let of_pass = self.output[0] * of.output(OF_SCALING) / (of.seq * of.hidden);
        work * self.scaling.of_work(algorithm, of.stages) + self.scaling.of_pass * of_pass
    }

    /// A shard of the input layer, forward and backward.
    pub(super) fn input_shard(&self, of: Sizes) -> f64 {
        self.input[0] * of.vocabulary * of.hidden / of.stages
            + self.input_shard * of.seq * of.hidden
    }

    pub(super) fn in_words(&self) -> String {
        let Self { layer, output, input, beside, interlaced, input_shard, hop, scaling } = self;
        let teraflops = |by_flop: f64| 1e-6 / by_flop;
        let Scaling { algorithms, of_pass, nodes, input: reduced } = scaling;
        format!(
            "fitted to the timers of the profile's runs of sequence 2048:\n\
             layers {:.1} TFLOP/s; with overlapped collectives {:.2} % slower, interlaced {:.2} %\n\
             whole output layer {:.1} TFLOP/s and {:.2} ms; whole input layer {:.2} ps an entry and \
             {:.2} ms\n\
             shard of the input layer {:.1} ps a number of an activation; hop {:.3} ms\n\
             fitted to the rows of sequence 2048 of table 3, as shares of a shard's work:\n\
             algorithm 1 {:.1} %, algorithm 2 {:.1} %, more than one node {:.1} %, and {:.1} thousand p / (s h) \
             for each pass; of the input layer's {:.2} hundred-thousandths of p s\n",
            teraflops(*layer),
            (beside - 1.0) * 100.0,
            (interlaced - 1.0) * 100.0,
            teraflops(output[0]),
            output[1] / 1e3,
            input[0] * 1e6,
            input[1] / 1e3,
            input_shard * 1e6,
            hop / 1e3,
            algorithms[0] * 100.0,
            algorithms[1] * 100.0,
            nodes * 100.0,
            of_pass / 1e3,
            reduced * 1e5,
        )
    }
}

/// The stages between the first and the last.
fn inner(passes: Vec<f64>) -> impl Iterator<Item = f64> {
    let inner = passes.len().saturating_sub(2);
    passes.into_iter().skip(1).take(inner)
}

/// Slope and height of the line through `points` whose relative errors are least.
fn line(points: impl Iterator<Item = (f64, f64)>) -> Option<[f64; 2]> {
    // Both unknowns are scaled to the size of their factors.
    let points: Vec<(f64, f64)> = points.collect();
    let size = points.iter().map(|&(x, _)| x).fold(0.0, f64::max);
    let rows = points.iter().map(|&(x, y)| ([x / size / y, 1.0 / y], 1.0));
    let [slope, height] = least_squares(rows)?;
    Some([slope / size, height])
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[allow(clippy::cast_precision_loss)] // Sequence lengths are far below 2^53.
pub(super) const fn number(count: u64) -> f64 {
    count as f64
}
