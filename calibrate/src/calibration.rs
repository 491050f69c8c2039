//! A whole calibration: a device is opened, its kernels and links are timed, and stages made of them.
//!
//! The public interface has no generics. Kernels of a processor are compiled where they are instantiated:
//! here that is this crate, which every build profile optimises, independent of how its caller is
//! compiled.

use std::error::Error;

use executor::{Backend, Cpu, Cut, DeviceError, OpenError, Ops, Target, TargetOptions, WithTarget};
use pipeline::Nanos;
use profile::{Link, LinkKind, Machine, ModelShape, Profile, Quantity, predict};

use crate::background_load::BackgroundLoad;
use crate::check::{self, LoneStage};
use crate::machine;
use crate::measure::{
    KERNEL_MEASUREMENTS, KernelTimes, MeasureError, check_memory, kernel_times, launch_time,
    link_times, target_link_times, traffic,
};
use crate::sample::{Rule, sample};

/// Layers of the model whose two stages are checked.
const CHECKED_LAYERS: usize = 12;
const CHECKED_STAGES: usize = 2;

/// A device, and which of its links are timed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The kind of device.
    pub backend: Backend,
    /// Which device of that kind, and how much of it.
    pub options: TargetOptions,
    /// The links, each once, in the order in which they are timed. Hops are predicted by the first that
    /// joins stages.
    pub links: Vec<LinkKind>,
}

/// The work of a calibration: the model that is timed, the rule of repetition and the load beside it.
#[derive(Clone, PartialEq, Debug)]
pub struct Work {
    /// The model whose parts are timed.
    pub shape: ModelShape,
    /// When kernels are repeated enough. Each kind of link and each checked stage has half its time.
    pub rule: Rule,
    /// Stages that compute beside the one that is timed: on cores, or on other parts of the device.
    pub neighbours: usize,
    /// Whether threads are kept on cores of their own, where the system allows it.
    pub pin: bool,
    /// The free memory of the host in bytes, for a device that has none of its own; `None` where it
    /// is not known.
    pub free: Option<u64>,
    /// The name and version of the program, for the profile.
    pub program: String,
    /// A remark kept with the profile.
    pub remark: Option<String>,
}

/// The caller's reason to refuse a calibration.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// The side that wants a calibration: it says what is timed when the device is there, and hears how far
/// that is.
pub trait Caller {
    /// The device is open, its kernels not yet compiled; `cut` is the part that is timed, if it is
    /// not all of one.
    fn opened(&mut self, cut: Option<Cut>) -> Result<(), Refusal>;

    /// The kernels are compiled: what is timed with them.
    fn work(&mut self) -> Result<Work, Refusal>;

    /// So many measurements begin.
    fn begin(&mut self, measurements: usize);

    /// One of them is done.
    fn measured(&mut self);
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A device that cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A link that the device lacks: [`LinkKind::Peer`] needs a second GPU.
    #[error("the device has no link {}", .0.name())]
    NoLink(LinkKind),
    /// Kernels that cannot be compiled.
    #[error(transparent)]
    Kernels(DeviceError),
    /// A measurement that failed, or that the memory has no room for.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// A refusal of the [`Caller`].
    #[error(transparent)]
    Refused(Refusal),
}

/// All that was measured. Quantities are in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The times from which runs are predicted.
    pub profile: Profile,
    /// Two readings of the clock with nothing between them; subtracted from all other times.
    pub nothing: Quantity,
    /// Launch time of a kernel on the host; `None` where the host waits for each kernel.
    pub launch: Option<Quantity>,
    /// A square product, and its floating-point operations.
    pub peak: (Quantity, u64),
    /// Whole stages, against the sum of their parts.
    pub checks: Vec<Checked>,
}

/// A pass of a whole stage, predicted and measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The stage, counted from 0, of two.
    pub stage: usize,
    pub layers: usize,
    /// F, B or W.
    pub pass: &'static str,
    /// Its time as the profile says.
    pub predicted: Nanos,
    /// Its time as a stage of the executor takes it, in nanoseconds.
    pub measured: Quantity,
}

/// Opens the device of `request`, and times there what `caller` asks for.
pub fn calibrate(request: &Request, caller: &mut dyn Caller) -> Result<Outcome, CalibrationError> {
    let calibration = Calibration { links: &request.links, caller };
    request.backend.with_target(&request.options, calibration)?
}

/// A calibration of the target that is opened for it.
struct Calibration<'a> {
    links: &'a [LinkKind],
    caller: &'a mut dyn Caller,
}

impl WithTarget for Calibration<'_> {
    type Output = Result<Outcome, CalibrationError>;

    fn run<T: Target>(self, target: &T) -> Self::Output {
        let Self { links, caller } = self;
        let is_missing = |kind: &&LinkKind| kind.is_of_gpus() && !target.has(**kind);
        if let Some(&kind) = links.iter().find(is_missing) {
            return Err(CalibrationError::NoLink(kind));
        }
        caller.opened(target.cut()).map_err(CalibrationError::Refused)?;
        // Kernels are compiled before anything is timed.
        target.ops().map_err(CalibrationError::Kernels)?;
        let work = caller.work().map_err(CalibrationError::Refused)?;
        check_memory(work.shape, work.neighbours, target.memory().or(work.free))?;
        let pinned = work.pin && machine::pin(0);
        Ok(Timing { target, links, work: &work, pinned, caller }.run()?)
    }
}

/// The measurements on one target.
struct Timing<'a, T: Target> {
    target: &'a T,
    links: &'a [LinkKind],
    work: &'a Work,
    pinned: bool,
    caller: &'a mut dyn Caller,
}

impl<T: Target> Timing<'_, T> {
    /// Takes all of them, one after the other.
    fn run(mut self) -> Result<Outcome, MeasureError> {
        let (target, Work { shape, rule, .. }) = (self.target, self.work);
        let message = shape.message();
        let of_links: usize = self.links.iter().map(|&kind| traffic(kind, message).len()).sum();
        self.caller.begin(KERNEL_MEASUREMENTS + of_links + CHECKED_STAGES);
        let load = self.load()?;
        let peak = target.peak(shape.one_layer().hidden());
        let done = || self.caller.measured();
        let times = kernel_times(|| target.ops(), *shape, peak, rule, done)?;
        // Links are timed without: a stage that waits for a value leaves its core or part idle.
        drop(load);
        let half = Rule { time: rule.time / 2, ..*rule };
        let links = self.links(&half, times.nothing.median().0)?;
        let ops = target.ops()?;
        let launch = match ops.runs_ahead() {
            true => Some(launch_time(ops, &half)?),
            false => None,
        };
        let KernelTimes { nothing, peak, layer, embedding, head, overhead, optimizer } = times;
        let (machine, model) = (target.describe(self.machine()), *shape);
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
        let load = self.load()?;
        let checks = self.checks(&profile, &half)?;
        drop(load);
        Ok(Outcome { profile, nothing, launch, peak, checks })
    }

    /// Neighbours at work.
    fn load(&self) -> Result<BackgroundLoad, MeasureError> {
        let Work { neighbours, shape, .. } = *self.work;
        Ok(BackgroundLoad::new(neighbours, self.target.neighbours(), shape, self.pinned)?)
    }

    /// Messages over each kind of link, less `empty` nanoseconds for the clock.
    fn links(&mut self, rule: &Rule, empty: u64) -> Result<Vec<Link>, MeasureError> {
        let core = || Ok(Cpu::<f32>::new());
        let (target, pinned, message) = (self.target, self.pinned, self.work.shape.message());
        let mut links = Vec::new();
        for &kind in self.links {
            let done = || self.caller.measured();
            let link = match kind.is_of_gpus() {
                true => target_link_times(target, kind, message, empty, rule, done)?,
                false => link_times(core, kind, message, empty, rule, pinned, done)?,
            };
            links.extend(link);
        }
        Ok(links)
    }

    /// The machine and the conditions of the measurements.
    fn machine(&self) -> Machine {
        let governor = machine::governor().map(|rule| format!("governor {rule}"));
        let clock = machine::megahertz().map(|clock| format!("{clock} MHz"));
        let clocks: Vec<String> = clock.into_iter().chain(governor).collect();
        Machine {
            cpu: machine::cpu(),
            cores: machine::cores(),
            os: machine::os(),
            clocks: (!clocks.is_empty()).then(|| clocks.join(", ")),
            pinned: self.pinned,
            neighbours: self.work.neighbours as u64,
            date: machine::today(),
            program: self.work.program.clone(),
            remark: self.work.remark.clone(),
            ..Machine::default()
        }
    }

    /// Whole stages of the executor, against the sum of their parts.
    fn checks(&mut self, profile: &Profile, rule: &Rule) -> Result<Vec<Checked>, MeasureError> {
        let model = profile.model.with_layers(CHECKED_LAYERS)?;
        let mut checks = Vec::new();
        for stage in 0..CHECKED_STAGES {
            let mut lone = LoneStage::new(self.target.ops()?, model, stage)?;
            let predicted = predict(profile, CHECKED_LAYERS, lone.shape());
            let predicted = predicted.map_err(|_| MeasureError::NoTimes("a stage"))?;
            let times = predicted.costs.chunks()[stage];
            let predicted = [times.forward, times.backward_input, times.backward_weight];
            let series = sample(&mut lone, check::SERIES, 0, rule)?;
            let layers = model.layers_by_chunk(lone.shape())?[stage];
            for ((pass, predicted), samples) in
                ["F", "B", "W"].into_iter().zip(predicted).zip(series)
            {
                let measured = Quantity::of(samples).ok_or(MeasureError::NoTimes("a stage"))?;
                checks.push(Checked { stage, layers, pass, predicted, measured });
            }
            self.caller.measured();
        }
        Ok(checks)
    }
}
