//! Steps of ccl-bench with a network of their own: the rates of its rings are fitted to half of the runs, and the other
//! half is predicted.

use plan::Orders;
use plan::fit::{assign_folds, groups};
use question::sheet::Sheet;
use question::{Diagnostic, format, table};

use super::constants::in_use;
use super::predict::{predicted, wrong};
use super::published::Source;
use super::row::Run;
use super::study::SEEDS;
use crate::accuracy::median;

/// Shares of the network's rate that are tried: each is so many times the one before.
const STEP: f64 = 1.03;
/// The least and the largest share.
const SHARES: [f64; 2] = [0.005, 0.5];
/// What is tried of a ring's rate where rings with several members on a node share its NICs.
const SHARED: [f64; 7] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4];
/// Halves.
const FOLDS: usize = 2;

/// A run of the study; times in seconds of a step.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OwnRow {
    pub(super) name: String,
    pub(super) measured: f64,
    /// With the machine's file.
    pub(super) built_in: f64,
    /// With the rate of rings that the half without it gives, the median over shuffles.
    pub(super) by_ring: f64,
    /// The same with the share that is left where rings share NICs, too.
    pub(super) by_both: f64,
}

/// The study.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OwnNetwork {
    pub(super) rows: Vec<OwnRow>,
    /// Bytes per second of a device that halves give: the least and the largest.
    pub(super) rates: [f64; 2],
}

/// Runs whose steps are known at each choice of [`ring, shared-ring`].
struct Tried<'a> {
    runs: Vec<&'a Run>,
    choices: Vec<[f64; 2]>,
    /// Seconds by run and choice.
    steps: Vec<Vec<f64>>,
}

impl<'a> Tried<'a> {
    fn new(runs: &[&'a Run], shared: &[f64]) -> Result<Self, Diagnostic> {
        let shares = std::iter::successors(Some(SHARES[0]), |share| Some(share * STEP));
        let shares = shares.take_while(|share| *share <= SHARES[1]);
        let choices: Vec<[f64; 2]> =
            shares.flat_map(|share| shared.iter().map(move |shared| [share, *shared])).collect();
        let (values, orders) = (in_use()?, Orders::default());
        let step = |run: &Run, [ring, shared_ring]: [f64; 2]| {
            let mut run = run.clone();
            (run.machine.node, run.machine.domain) = (run.node, run.node);
            let rates = &mut run.machine.efficiency;
            (rates.ring, rates.expert_ring, rates.shared_ring) = (ring, ring, shared_ring);
            let predicted = predicted(&run, &values, &orders);
            predicted.map(|one| one.seconds).map_err(|cause| wrong(&run, &cause))
        };
        let steps = runs.iter().map(|run| choices.iter().map(|one| step(run, *one)).collect());
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(Self { runs: runs.to_vec(), choices, steps })
    }

    /// The choice with the least absolute errors of the logarithms of the steps `rows`; of equals the first.
    fn best(&self, rows: &[usize]) -> usize {
        let error = |at: usize| -> f64 {
            let of = |&row: &usize| self.steps[row][at] / self.runs[row].seconds.unwrap_or(1.0);
            rows.iter().map(|row| libm::log(of(row)).abs()).sum()
        };
        (0..self.choices.len()).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(0)
    }

    /// The step of each run with the choice that the half without it gives, the median over shuffles; the least and the
    /// largest share of the network's rate.
    fn held_out(&self) -> (Vec<f64>, [f64; 2]) {
        let configurations = self.runs.iter().map(|run| run.configuration.as_str());
        let configurations = groups(&configurations.collect::<Vec<_>>());
        let mut steps = vec![Vec::new(); self.runs.len()];
        let mut shares = [f64::INFINITY, 0.0_f64];
        for seed in SEEDS {
            let folds = assign_folds(&configurations, FOLDS, seed);
            for fold in 0..FOLDS {
                let (own, others): (Vec<usize>, Vec<usize>) =
                    (0..self.runs.len()).partition(|&row| folds[row] == fold);
                let best = self.best(&others);
                let [share, _] = self.choices[best];
                shares = [shares[0].min(share), shares[1].max(share)];
                own.into_iter().for_each(|row| steps[row].push(self.steps[row][best]));
            }
        }
        (steps.iter().map(|steps| median(steps)).collect(), shares)
    }
}

impl OwnNetwork {
    /// The study of those of `runs` that are steps of dense models with Megatron-LM in ccl-bench.
    pub(super) fn of(runs: &[Run]) -> Result<Self, Diagnostic> {
        let is_own = |run: &&Run| {
            let is_dense = run.model.experts.is_none() && !run.facts.torchtitan;
            let has_step = run.apart.is_none() && run.seconds.is_some();
            run.source == Source::CclBench && is_dense && has_step
        };
        let runs: Vec<&Run> = runs.iter().filter(is_own).collect();
        let (by_ring, _) = Tried::new(&runs, &SHARED[..1])?.held_out();
        let (by_both, shares) = Tried::new(&runs, &SHARED)?.held_out();
        let machine = planning::machines::of_device("A100 40GB")?;
        let row = |(at, run): (usize, &&Run)| -> Result<OwnRow, Diagnostic> {
            let mut known = (*run).clone();
            known.machine = machine.clone();
            let built_in = predicted(&known, &in_use()?, &Orders::default());
            Ok(OwnRow {
                name: run.place.clone(),
                measured: run.seconds.unwrap_or_default(),
                built_in: built_in.map_err(|cause| wrong(run, &cause))?.seconds,
                by_ring: by_ring[at],
                by_both: by_both[at],
            })
        };
        let rows = runs.iter().enumerate().map(row).collect::<Result<_, _>>()?;
        Ok(Self { rows, rates: shares.map(|share| share * machine.network) })
    }

    /// Absolute relative errors of the steps that `of` gives: the median, the mean and the largest.
    pub(super) fn errors(&self, of: fn(&OwnRow) -> f64) -> [f64; 3] {
        let errors: Vec<f64> =
            self.rows.iter().map(|row| (of(row) / row.measured - 1.0).abs()).collect();
        let mean = errors.iter().sum::<f64>() / plan::number(errors.len().max(1) as u64);
        [median(&errors), mean, errors.iter().copied().fold(0.0, f64::max)]
    }

    /// How it was held out, and the errors.
    pub(super) fn in_words(&self) -> String {
        let errors = |of| self.errors(of).map(format::percent).join(", ");
        let [least, most] = self.rates.map(|rate| format::three_digits(rate / 1e9));
        format!(
            "A network of their own: of the {} steps of dense models with Megatron-LM in ccl-bench, on nodes of four as their\n\
             tables have them, the rate of rings over nodes is fitted to half of the configurations, and the other half is\n\
             predicted; the median of five shuffles (seeds 0 to 4). Halves give {least} to {most} GB/s a device. Errors (median,\n\
             mean, largest): {} with the machine's file; {} with ring held out;\n\
             {} with ring and shared-ring held out.",
            self.rows.len(),
            errors(|row| row.built_in),
            errors(|row| row.by_ring),
            errors(|row| row.by_both),
        )
    }

    /// A line for each run.
    pub(super) fn table(&self) -> Sheet {
        table!(
            row = &self.rows,
            "ccl-bench, dense, Megatron-LM" = row.name,
            "measured (s)" = format!("{:.3}", row.measured),
            "machine's file" = format!("{:.3}", row.built_in),
            "ring held out" = format!("{:.3}", row.by_ring),
            "ring and shared-ring held out" = format!("{:.3}", row.by_both),
            "error" = format::signed_percent(row.by_both / row.measured - 1.0),
        )
    }
}
