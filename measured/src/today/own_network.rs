//! Steps of ccl-bench with a network of their own: the rate of its rings is fitted to half of the runs, and the other half
//! is predicted.

use plan::Orders;
use plan::fit::{assign_folds, groups};
use question::{Diagnostic, format};

use super::constants::in_use;
use super::predict::predicted;
use super::published::Source;
use super::row::Run;
use super::study::{SEEDS, wrong};
use crate::accuracy::median;

/// Shares of the network's rate that are tried: each is so many times the one before.
const STEP: f64 = 1.02;
/// The least and the largest share.
const SHARES: [f64; 2] = [0.005, 1.0];
/// Halves.
const FOLDS: usize = 2;

/// A run of the study.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OwnRow {
    pub(super) name: String,
    /// Seconds of its step: as measured, with the machine's file, and with the rate that the other half gives, the median
    /// over shuffles.
    pub(super) measured: f64,
    pub(super) built_in: f64,
    pub(super) held_out: f64,
}

/// The study.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OwnNetwork {
    pub(super) rows: Vec<OwnRow>,
    /// Bytes per second of a device that halves give: the least and the largest.
    pub(super) rates: [f64; 2],
}

/// The steps of `run` on nodes of its table at each of `shares` of the network's rate.
fn steps(run: &Run, shares: &[f64]) -> Result<Vec<f64>, Diagnostic> {
    let (values, orders) = (in_use()?, Orders::default());
    let of = |share: &f64| {
        let mut run = run.clone();
        (run.machine.node, run.machine.domain) = (run.node, run.node);
        (run.machine.efficiency.ring, run.machine.efficiency.expert_ring) = (*share, *share);
        predicted(&run, &values, &orders)
            .map(|one| one.seconds)
            .map_err(|cause| wrong(&run, &cause))
    };
    shares.iter().map(of).collect()
}

impl OwnNetwork {
    /// The columns of [`OwnNetwork::lines`].
    pub(super) const COLUMNS: [&'static str; 5] =
        ["ccl-bench, dense, Megatron-LM", "measured (s)", "machine's file", "held out", "error"];

    /// The study of those of `runs` that are steps of dense models with Megatron-LM in ccl-bench.
    pub(super) fn of(runs: &[Run]) -> Result<Self, Diagnostic> {
        let is_own = |run: &&Run| {
            let is_dense = run.model.experts.is_none() && !run.facts.torchtitan;
            run.source == Source::CclBench
                && is_dense
                && run.apart.is_none()
                && run.seconds.is_some()
        };
        let runs: Vec<&Run> = runs.iter().filter(is_own).collect();
        let shares: Vec<f64> = std::iter::successors(Some(SHARES[0]), |share| Some(share * STEP))
            .take_while(|share| *share <= SHARES[1])
            .collect();
        let all: Vec<Vec<f64>> =
            runs.iter().map(|run| steps(run, &shares)).collect::<Result<_, _>>()?;
        let measured: Vec<f64> = runs.iter().filter_map(|run| run.seconds).collect();
        let configurations: Vec<&str> = runs.iter().map(|run| run.configuration.as_str()).collect();
        let configurations = groups(&configurations);
        let mut held_out = vec![Vec::new(); runs.len()];
        let mut rates = [f64::INFINITY, 0.0_f64];
        for seed in SEEDS {
            let folds = assign_folds(&configurations, FOLDS, seed);
            for fold in 0..FOLDS {
                let error = |at: usize| -> f64 {
                    let others = (0..runs.len()).filter(|&row| folds[row] != fold);
                    others.map(|row| libm::log(all[row][at] / measured[row]).abs()).sum()
                };
                let best =
                    (0..shares.len()).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(0);
                let network = runs.first().map_or(0.0, |run| run.machine.network);
                rates =
                    [rates[0].min(shares[best] * network), rates[1].max(shares[best] * network)];
                let own = (0..runs.len()).filter(|&row| folds[row] == fold);
                own.for_each(|row| held_out[row].push(all[row][best]));
            }
        }
        let row = |(at, run): (usize, &&Run)| -> Result<OwnRow, Diagnostic> {
            let machine = planning::machines::of_device("A100 40GB")?;
            let mut known = (*run).clone();
            known.machine.efficiency.ring = machine.efficiency.ring;
            let built_in = predicted(&known, &in_use()?, &Orders::default());
            let built_in = built_in.map_err(|cause| wrong(run, &cause))?.seconds;
            let name = run.place.clone();
            Ok(OwnRow { name, measured: measured[at], built_in, held_out: median(&held_out[at]) })
        };
        let rows = runs.iter().enumerate().map(row).collect::<Result<_, _>>()?;
        Ok(Self { rows, rates })
    }

    /// Absolute relative errors: the median, the mean and the largest, with the machine's file and held out.
    pub(super) fn errors(&self) -> [[f64; 3]; 2] {
        [|row: &OwnRow| row.built_in, |row: &OwnRow| row.held_out].map(|of| {
            let errors: Vec<f64> =
                self.rows.iter().map(|row| (of(row) / row.measured - 1.0).abs()).collect();
            let mean = errors.iter().sum::<f64>() / plan::number(errors.len().max(1) as u64);
            [median(&errors), mean, errors.iter().copied().fold(0.0, f64::max)]
        })
    }

    /// How it was held out, and the errors.
    pub(super) fn in_words(&self) -> String {
        let [built_in, held_out] =
            self.errors().map(|errors| errors.map(format::percent).join(", "));
        let [least, most] = self.rates.map(|rate| format::three_digits(rate / 1e9));
        format!(
            "A network of its own: of the {} steps of dense models with Megatron-LM in ccl-bench, on nodes of four as its table has\n\
             them, the rate of rings over nodes is fitted to half of the configurations, and the other half is predicted; the\n\
             median of five shuffles (seeds 0 to 4). Nothing else is fitted. Halves give {least} to {most} GB/s a device. Errors\n\
             (median, mean, largest): {built_in} with the machine's file, {held_out} held out.",
            self.rows.len()
        )
    }

    /// A line for each run.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let line = |row: &OwnRow| {
            let seconds =
                [row.measured, row.built_in, row.held_out].map(|seconds| format!("{seconds:.3}"));
            let error = format::signed_percent(row.held_out / row.measured - 1.0);
            [row.name.clone()].into_iter().chain(seconds).chain([error]).collect()
        };
        self.rows.iter().map(line).collect()
    }
}
