//! Kinds of devices. A kind is a variant of [`Backend`] and a folder: its facts, and how it is opened.

use std::fmt;

use profile::{Element, LinkKind};
use thiserror::Error;

use crate::error::DeviceError;
use crate::execution::{Executed, Execution, ExecutionError};
use crate::measured::Overheads;
use crate::run::timed;
use crate::target::{TargetOptions, WithTarget};
use crate::{cpu, cuda};

/// A kind of device that computes the passes of a schedule.
///
/// ```
/// use std::sync::Arc;
///
/// use executor::{Backend, Execution, Options, Plan, Transport};
/// use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
/// use profile::Element;
///
/// // Two stages whose passes take half a millisecond each; nothing is computed.
/// let shape = Shape::new(2, 1, 4)?;
/// let half = Nanos(500_000);
/// let times = PassTimes::new(half, half, half);
/// let costs = Costs::uniform(shape, times, Nanos(0));
/// let schedule = Family::ZbH1.schedule(&Problem::new(shape, costs.clone())?)?;
///
/// let options = Options { element: Element::F32, units: Vec::new(), may_share: false };
/// let executed = Backend::Timed.open(&options)?.execute(&Execution {
///     plan: Plan::new(schedule, 1)?,
///     meeting: None,
///     transport: Transport::Tcp,
///     costs: Arc::new(costs),
///     task: None,
///     prepare: Arc::new(|_stage| {}),
///     stopped: None,
/// })?;
/// let measured = executed.measured.ok_or("another process answers")?;
/// assert_eq!(measured.steps[0].timeline().stages[1].len(), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// Nothing is computed: passes and hops take the times they are told.
    Timed,
    /// The cores of this machine.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// NVIDIA GPUs on which nothing is computed: passes and hops take the times they are told.
    CudaTimed,
}

/// How values travel between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// As bytes, by way of the hosts.
    Tcp,
    /// From GPU to GPU by NCCL, a process for each GPU.
    Nccl,
}

/// The facts of a kind of device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct About {
    /// The name that it is chosen by.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// The work of passes there, for the help of `debubble execute`.
    pub runs: &'static str,
    /// The subject of measurements there, for the help of `debubble calibrate`; `None` where there
    /// is nothing to time.
    pub is_timed: Option<&'static str>,
    /// The name in results where the device has no name of its own.
    pub title: &'static str,
    /// The number formats that tensors may have, the default first; empty where nothing is
    /// computed.
    pub elements: &'static [Element],
    /// How values may travel between processes, first how they do where nobody says.
    pub transports: &'static [Transport],
    /// Whether stages take cores and memory of the host.
    pub is_host: bool,
    /// Whether there are units with numbers, which can be chosen, cut into parts and shared.
    pub has_units: bool,
    /// A variable of the environment that its driver reads when the program starts, and what it should
    /// be for a pipeline.
    pub variable: Option<(&'static str, &'static str)>,
}

/// Which devices of a kind are opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number format of tensors: one of [`About::elements`].
    pub element: Element,
    /// The numbers of the units, in the order in which stages are dealt to them; all if empty.
    pub units: Vec<usize>,
    /// Whether stages may share all of a unit that cannot be cut into parts.
    pub may_share: bool,
}

/// Why devices cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    /// A kind that this program was built without.
    #[error("this debubble was built without {what}")]
    NotBuilt {
        /// The feature that it was built without.
        what: &'static str,
        /// The remedy.
        cure: &'static str,
    },
    /// A device, driver or library that is missing or fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A unit that is not there.
    #[error("there is no GPU {unit}: there are {units}")]
    NoUnit {
        /// Its number.
        unit: usize,
        /// How many there are.
        units: usize,
    },
    /// A unit that is to be cut into no parts.
    #[error("a device cannot be cut into 0 parts")]
    NoParts,
    /// A unit that cannot be cut into so many parts.
    #[error("{error}")]
    Uncut {
        /// The error of the device.
        error: DeviceError,
        /// How many were asked for.
        parts: usize,
    },
    /// A kind of device on which there is nothing to time.
    #[error("there is nothing to time: passes take the times they are told")]
    NothingToTime,
    /// A unit that is asked for twice.
    #[error("GPU {unit} is named twice")]
    Twice {
        /// Its number.
        unit: usize,
    },
}

/// Opened devices of one kind.
pub trait Devices: fmt::Debug {
    /// The name in profiles of the device that computes a stage.
    fn name(&self) -> &str;

    /// Whether a profile that was measured on `device` is of one of these.
    fn is_named(&self, device: &str) -> bool {
        device == self.name()
    }

    /// The most of `stages` stages that compute side by side on what they share.
    fn side_by_side(&self, stages: usize) -> usize;

    /// The cost of the host for `stages` stages of one process; `None` where passes run on the host.
    ///
    /// # Errors
    /// Whatever stops a device.
    fn overheads(&self, stages: usize) -> Result<Option<Overheads>, ExecutionError> {
        let _ = stages;
        Ok(None)
    }

    /// Runs the stages of this process.
    ///
    /// # Errors
    /// Whatever stops a device or the run.
    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError>;
}

impl Backend {
    /// All kinds, in the order in which the help lists them.
    pub const ALL: [Self; 4] = [Self::Timed, Self::Cpu, Self::Cuda, Self::CudaTimed];

    /// The facts of it.
    #[must_use]
    pub const fn about(self) -> &'static About {
        match self {
            Self::Timed => &timed::ABOUT,
            Self::Cpu => &cpu::backend::ABOUT,
            Self::Cuda => &cuda::ABOUT,
            Self::CudaTimed => &cuda::TIMED,
        }
    }

    /// Opens the devices that `options` ask for.
    ///
    /// # Errors
    /// A kind that is not built in, or what is missing.
    pub fn open(self, options: &Options) -> Result<Box<dyn Devices>, OpenError> {
        match self {
            Self::Timed => Ok(Box::new(timed::Clock)),
            Self::Cpu => Ok(Box::new(cpu::backend::Cores)),
            Self::Cuda => cuda::open(options),
            Self::CudaTimed => cuda::open_timed(options),
        }
    }

    /// Opens the part of a device that `options` ask for, to be timed, and does `with` it what it is for.
    ///
    /// # Errors
    /// A kind that is not built in, or what is missing.
    pub fn with_target<W: WithTarget>(
        self,
        options: &TargetOptions,
        with: W,
    ) -> Result<W::Output, OpenError> {
        match self {
            Self::Timed | Self::CudaTimed => Err(OpenError::NothingToTime),
            Self::Cpu => Ok(with.run(&cpu::backend::Core)),
            Self::Cuda => cuda::with_target(options, with),
        }
    }

    /// The links that are timed where nobody asks for others.
    #[must_use]
    pub fn links(self) -> Vec<LinkKind> {
        match self {
            Self::Timed | Self::CudaTimed => Vec::new(),
            Self::Cpu => cpu::backend::links(),
            Self::Cuda => cuda::links(),
        }
    }

    /// Whether activations can be copied to the host while passes run.
    #[must_use]
    pub const fn copies_to_host(self) -> bool {
        self.about().is_host
    }

    /// Whether there are kernels of an output layer in shards.
    #[must_use]
    pub const fn runs_shards(self) -> bool {
        self.about().is_host
    }

    /// Whether it computes, so that a model is trained on it.
    #[must_use]
    pub const fn trains(self) -> bool {
        !self.about().elements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_are_told_apart_and_say_what_they_are() {
        let names: BTreeSet<&str> = Backend::ALL.iter().map(|kind| kind.about().name).collect();
        assert_eq!(names.len(), Backend::ALL.len());
        for kind in Backend::ALL {
            let about = kind.about();
            assert!(!about.transports.is_empty() && !about.runs.is_empty(), "{kind:?}");
            // What computes can be timed, and its kernels have links to be timed with.
            assert_eq!(kind.trains(), about.is_timed.is_some(), "{kind:?}");
            assert!(about.is_host || about.has_units, "{kind:?}");
        }
        assert!(Backend::Cpu.links().contains(&LinkKind::Queue));
    }

    #[test]
    fn a_kind_that_needs_nothing_is_opened() {
        let options = Options { element: Element::F32, units: Vec::new(), may_share: false };
        for kind in [Backend::Timed, Backend::Cpu] {
            let devices = kind.open(&options).unwrap();
            assert!(devices.is_named(devices.name()), "{kind:?}");
            assert!((1..=4).contains(&devices.side_by_side(4)), "{kind:?}");
        }
    }
}
