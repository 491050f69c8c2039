//! What a calibration measures, one after the other.

use calibrate::background_load::BackgroundLoad;
use calibrate::check::{self, LoneStage};
use calibrate::machine;
use calibrate::measure::{
    self, KERNEL_MEASUREMENTS, KernelTimes, MeasureError, kernel_times, link_times,
    target_link_times, traffic,
};
use calibrate::sample::{Rule, sample};
use executor::{Cpu, Ops, Target};
use pipeline::Nanos;
use profile::{Machine, ModelShape, Profile, Quantity, predict};

use super::Calibrate;
use crate::interrupt;
use crate::progress;
use crate::progress::Progress;

/// All that was measured.
pub(super) struct Outcome {
    pub(super) profile: Profile,
    pub(super) nothing: Quantity,
    /// How long the host takes to begin a kernel that it does not wait for.
    pub(super) launch: Option<Quantity>,
    pub(super) peak: (Quantity, u64),
    pub(super) checks: Vec<Checked>,
}

/// A pass of a whole stage, predicted and measured.
pub(super) struct Checked {
    pub(super) stage: usize,
    pub(super) layers: usize,
    pub(super) pass: &'static str,
    pub(super) predicted: Nanos,
    pub(super) measured: Quantity,
}

/// Layers of the model whose two stages are checked.
const CHECKED_LAYERS: usize = 12;

impl Calibrate {
    /// Times the kernels and links of `target`, and stages made of them.
    pub(super) fn measure<T: Target>(
        &self,
        target: &T,
        shape: ModelShape,
        rule: &Rule,
        (pinned, neighbours): (bool, usize),
    ) -> Result<Outcome, MeasureError> {
        let message = shape.message();
        let of_links: usize = self.kinds().iter().map(|&kind| traffic(kind, message).len()).sum();
        interrupt::end_with("interrupted: a profile needs every measurement, and none is kept");
        let bar = progress::bar((KERNEL_MEASUREMENTS + of_links + 2) as u64, "measurements");
        let core = || Ok(Cpu::<f32>::new());
        let load = BackgroundLoad::new(neighbours, target.neighbours(), shape, pinned)?;
        let times =
            kernel_times(|| target.ops(), shape, target.peak(self.hidden), rule, || bar.inc(1))?;
        // Links are timed without: a stage that waits for a value leaves its core or part idle.
        drop(load);
        let half = Rule { time: rule.time / 2, ..*rule };
        let empty = times.nothing.median().0;
        let mut links = Vec::new();
        for kind in self.kinds() {
            let link = match kind.is_of_gpus() {
                true => target_link_times(target, kind, message, empty, &half, || bar.inc(1))?,
                false => link_times(core, kind, message, empty, &half, pinned, || bar.inc(1))?,
            };
            links.extend(link);
        }
        let ops = target.ops()?;
        let launch = match ops.runs_ahead() {
            true => Some(measure::launch_time(ops, &half)?),
            false => None,
        };
        let KernelTimes { nothing, peak, layer, embedding, head, overhead, optimizer } = times;
        let (machine, model) = (target.describe(self.machine(pinned, neighbours)), shape);
        let half_width = rule.half_width;
        let profile = Profile {
            machine,
            model,
            half_width,
            layer,
            embedding,
            head,
            overhead,
            optimizer,
            links,
        };
        let load = BackgroundLoad::new(neighbours, target.neighbours(), shape, pinned)?;
        let checks = checks(target, &profile, &half, &bar)?;
        drop(load);
        bar.finish_and_clear();
        Ok(Outcome { profile, nothing, launch, peak, checks })
    }

    fn machine(&self, pinned: bool, neighbours: usize) -> Machine {
        let governor = machine::governor().map(|rule| format!("governor {rule}"));
        let clock = machine::megahertz().map(|clock| format!("{clock} MHz"));
        let clocks: Vec<String> = clock.into_iter().chain(governor).collect();
        Machine {
            cpu: machine::cpu(),
            cores: machine::cores(),
            os: machine::os(),
            clocks: (!clocks.is_empty()).then(|| clocks.join(", ")),
            pinned,
            neighbours: neighbours as u64,
            date: machine::today(),
            program: concat!("debubble ", env!("CARGO_PKG_VERSION")).to_owned(),
            remark: self.remark.clone(),
            ..Machine::default()
        }
    }
}

/// Whole stages of the executor, against the sum of their parts.
fn checks<T: Target>(
    target: &T,
    profile: &Profile,
    rule: &Rule,
    bar: &Progress,
) -> Result<Vec<Checked>, MeasureError> {
    let model = profile.model.with_layers(CHECKED_LAYERS)?;
    let mut checks = Vec::new();
    for stage in 0..2 {
        let mut lone = LoneStage::new(target.ops()?, model, stage)?;
        let predicted = predict(profile, CHECKED_LAYERS, lone.shape());
        let predicted = predicted.map_err(|_| MeasureError::NoTimes("a stage"))?;
        let times = predicted.costs.chunks()[stage];
        let told = [times.forward, times.backward_input, times.backward_weight];
        let series = sample(&mut lone, check::SERIES, 0, rule)?;
        let layers = model.layers_by_chunk(lone.shape())?[stage];
        for ((pass, predicted), samples) in ["F", "B", "W"].into_iter().zip(told).zip(series) {
            let measured = Quantity::of(samples).ok_or(MeasureError::NoTimes("a stage"))?;
            checks.push(Checked { stage, layers, pass, predicted, measured });
        }
        bar.inc(1);
    }
    Ok(checks)
}
