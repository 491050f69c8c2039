//! Stages on GPUs: their assignment to GPUs, and how the stages of one GPU share it.

use std::sync::Mutex;

use profile::Element as Kind;

use super::call::lock;
use super::overheads;
use super::{Bf16, Cuda, DeviceInfo, Element, Sharing, devices, split};
#[cfg(feature = "nccl")]
use gpt::Transport;
use gpt::{
    Devices, Executed, Execution, ExecutionError, F32_TOLERANCE, Joins, OpenError, Options, QUEUES,
};
use runtime::{DeviceError, Overheads};
#[cfg(feature = "nccl")]
use {
    gpt::Watched,
    runtime::{Failure, Measured, Plan, Rendezvous, join, join_directly},
};

/// Relative tolerance of losses and gradients in bf16 against the reference: a number keeps 8 bits,
/// every rounding errs by up to 2^-9, and a layer has a dozen roundings in sequence.
const BF16_TOLERANCE: f64 = 5e-2;

/// The number of hardware queues between the driver and a GPU, from the value of its variable,
/// `setting`: 8 by default.
fn queues(setting: Option<&str>) -> usize {
    setting.and_then(|setting| setting.trim().parse().ok()).unwrap_or(8)
}

/// The variables of launchers for the local rank of a process.
const LOCAL_RANKS: [&str; 3] = ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"];

/// The GPUs that stages run on.
#[derive(Debug)]
pub(super) struct Gpus {
    pub(super) infos: Vec<DeviceInfo>,
    element: Kind,
    /// Whether stages may share a GPU that cannot be partitioned.
    may_share: bool,
}

/// The kernels of every stage, and warnings about their times.
pub(super) struct Bench<E: Element> {
    stages: Vec<Mutex<Option<Cuda<E>>>>,
    pub(super) device: String,
    pub(super) notes: Vec<String>,
}

impl<E: Element> Bench<E> {
    /// Takes the kernels of `stage`, once.
    pub(super) fn take(&self, stage: usize) -> Result<Cuda<E>, DeviceError> {
        let one = self.stages.get(stage).and_then(|one| lock(one).take());
        one.ok_or_else(|| DeviceError::NotAtHand { what: format!("the GPU of stage {stage}") })
    }
}

/// Number of the `stages` stages on each GPU in use, in order: as equal as possible, on at most
/// `gpus` GPUs and at most one per stage.
fn deal(stages: usize, gpus: usize) -> Vec<usize> {
    let used = gpus.min(stages).max(1);
    let mut counts = vec![0; used];
    (0..stages).for_each(|stage| counts[stage * used / stages] += 1);
    counts
}

/// The GPU, of `gpus`, of the process with this `local` rank: GPU 0 where the launcher makes a
/// single one visible to each process.
fn own(local: usize, gpus: usize) -> Option<usize> {
    if gpus == 1 { Some(0) } else { Some(local).filter(|&local| local < gpus) }
}

/// The GPUs that `options` select.
pub fn open(options: &Options) -> Result<Box<dyn Devices>, OpenError> {
    Ok(Box::new(Gpus::open(options)?))
}

/// The GPUs of these numbers, or all.
pub fn chosen(wanted: &[usize]) -> Result<Vec<DeviceInfo>, OpenError> {
    let all = devices()?;
    if wanted.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<DeviceInfo> = Vec::new();
    for &unit in wanted {
        let found = all.get(unit).ok_or(OpenError::NoUnit { unit, units: all.len() })?;
        if chosen.contains(found) {
            return Err(OpenError::Twice { unit });
        }
        chosen.push(found.clone());
    }
    Ok(chosen)
}

impl Devices for Gpus {
    fn name(&self) -> &str {
        self.infos.first().map_or("", |info| &info.name)
    }

    /// Whether `device` names the GPU: the name of a measured partition follows the GPU's name.
    fn is_named(&self, device: &str) -> bool {
        device.split(',').next() == Some(self.name())
    }

    fn side_by_side(&self, stages: usize) -> usize {
        deal(stages, self.infos.len()).into_iter().max().unwrap_or(1)
    }

    fn overheads(&self, stages: usize) -> Result<Option<Overheads>, ExecutionError> {
        let bench = self.bench::<f32>(stages)?;
        let kernels = (0..stages).map(|stage| bench.take(stage)).collect::<Result<_, _>>()?;
        Ok(Some(overheads::measured(kernels)?))
    }

    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError> {
        match self.element {
            Kind::Bf16 => self.train_in::<Bf16>(execution, BF16_TOLERANCE),
            Kind::F32 => self.train_in::<f32>(execution, F32_TOLERANCE),
        }
    }
}

impl Gpus {
    /// The GPUs that `options` select.
    pub(super) fn open(options: &Options) -> Result<Self, OpenError> {
        let infos = chosen(&options.units)?;
        let Options { element, may_share, .. } = *options;
        Ok(Self { infos, element, may_share })
    }

    fn train_in<E: Element>(
        &self,
        execution: &Execution,
        tolerance: f64,
    ) -> Result<Executed, ExecutionError> {
        let (bench, first) = match execution.own_stage() {
            None => (self.bench::<E>(execution.stages())?, self.infos[0].ordinal),
            Some(stage) => self.of_process::<E>(execution, stage)?,
        };
        let (device, notes) = (bench.device.clone(), bench.notes.clone());
        let take = move |stage| bench.take(stage);
        let executed = execution.train(take, || Cuda::<E>::whole(first), tolerance)?;
        Ok(Executed { device: Some(device), notes, ..executed })
    }

    /// The kernels of all `stages` stages, in this process.
    pub(super) fn bench<E: Element>(&self, stages: usize) -> Result<Bench<E>, ExecutionError> {
        let mut bench = Bench { stages: Vec::new(), device: String::new(), notes: Vec::new() };
        let mut names: Vec<String> = Vec::new();
        for (info, count) in self.infos.iter().zip(deal(stages, self.infos.len())) {
            let (kernels, sharing) = split::<E>(info.ordinal, count, self.may_share)
                .map_err(|error| uncut(error, count))?;
            bench.stages.extend(kernels.into_iter().map(|one| Mutex::new(Some(one))));
            names.push(format!("GPU {}: {}", info.ordinal, seating(info, count, &sharing)));
            bench.notes.extend(warning(info, count, &sharing));
        }
        let driver = &self.infos[0].driver;
        bench.device = format!("{}; driver {driver}; {}", names.join("; "), E::NAME);
        Ok(bench)
    }

    /// The kernels of `stage`, whose process has a GPU to itself, and the number of that GPU.
    fn of_process<E: Element>(
        &self,
        execution: &Execution,
        stage: usize,
    ) -> Result<(Bench<E>, usize), ExecutionError> {
        let variable = |name: &&str| std::env::var(name).ok()?.parse::<usize>().ok();
        let local = LOCAL_RANKS.iter().find_map(variable).unwrap_or(stage);
        let Some(info) = own(local, self.infos.len()).map(|at| &self.infos[at]) else {
            return Err(ExecutionError::NoUnit { local, units: self.infos.len() });
        };
        let kernels = Cuda::whole(info.ordinal)?;
        let mut stages: Vec<_> = (0..execution.stages()).map(|_| Mutex::new(None)).collect();
        stages[stage] = Mutex::new(Some(kernels));
        let device = format!("{}; driver {}; {}", info.name, info.driver, E::NAME);
        Ok((Bench { stages, device, notes: Vec::new() }, info.ordinal))
    }
}

#[cfg(not(feature = "nccl"))]
impl<E: Element> Joins for Cuda<E> {}

#[cfg(feature = "nccl")]
impl<E: Element> Joins for Cuda<E> {
    fn join(
        transport: Transport,
        plan: &Plan,
        rendezvous: &Rendezvous,
        make: impl FnOnce(usize) -> Result<Watched<Self>, DeviceError>,
    ) -> Result<Option<Measured>, Failure> {
        match transport {
            Transport::Tcp => join(plan, rendezvous, make),
            Transport::Nccl => join_directly(plan, rendezvous, make),
        }
    }
}

/// The error of a GPU that cannot be partitioned for `stages` stages, or another `error` of it.
fn uncut(error: DeviceError, stages: usize) -> ExecutionError {
    match error {
        DeviceError::Call { .. } => ExecutionError::Uncut { error, stages },
        other => other.into(),
    }
}

/// A description of how `count` stages share a GPU.
fn seating(info: &DeviceInfo, count: usize, sharing: &Sharing) -> String {
    let DeviceInfo { name, multiprocessors: all, .. } = info;
    match sharing {
        Sharing::Whole => format!("{name}, one stage on {all} multiprocessors"),
        Sharing::Partitioned { multiprocessors } => {
            format!("{name}, {count} stages on {multiprocessors} of {all} multiprocessors each")
        }
        Sharing::Shared => format!("{name}, {count} stages share {all} multiprocessors"),
    }
}

/// Warnings about conditions that distort the times of `count` stages on a GPU.
fn warning(info: &DeviceInfo, count: usize, sharing: &Sharing) -> Vec<String> {
    let mut warnings = Vec::new();
    if *sharing == Sharing::Shared {
        warnings.push(format!(
            "the stages on GPU {} have no multiprocessors of their own: passes that run at a time \
             slow each other, and the bubble is not that of {count} devices",
            info.ordinal
        ));
    }
    // A stage has a compute stream and a transfer stream.
    let queues = queues(std::env::var(QUEUES).ok().as_deref());
    if 2 * count > queues {
        warnings.push(format!(
            "{count} stages on GPU {} have more streams than the driver has queues, {queues}: set \
             {QUEUES}=32, or they may wait for each other",
            info.ordinal
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_dealt_block_by_block() {
        assert_eq!(deal(8, 1), [8]);
        assert_eq!(deal(8, 3), [3, 3, 2]);
        assert_eq!(deal(4, 4), [1; 4]);
        assert_eq!(deal(2, 4), [1; 2]);
        for (stages, gpus) in (1..40).flat_map(|stages| (1..9).map(move |gpus| (stages, gpus))) {
            let counts = deal(stages, gpus);
            assert_eq!(counts.iter().sum::<usize>(), stages);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn the_driver_has_as_many_queues_as_it_is_told() {
        assert_eq!([None, Some("32"), Some(" 1 "), Some("x")].map(queues), [8, 32, 1, 8]);
    }

    #[test]
    fn processes_take_the_gpu_of_their_number_or_the_one_they_see() {
        assert_eq!(own(3, 4), Some(3));
        assert_eq!(own(4, 4), None);
        assert_eq!(own(3, 1), Some(0));
    }
}
