//! Kinds of devices. A kind is a variant of [`Backend`] and a folder: its properties, and how it is
//! opened.

use gpt::{About, Devices, OpenError, Options, TargetOptions, WithTarget};
use profile::LinkKind;

/// The CUDA kinds of a program that was built without CUDA.
#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::{Devices, LinkKind, OpenError, Options, TargetOptions, WithTarget};

    const NOT_BUILT: OpenError = OpenError::NotBuilt {
        what: "CUDA",
        cure: "build it with `cargo build --release`, which needs no CUDA; or use --device cpu",
    };

    pub(super) fn open(_: &Options) -> Result<Box<dyn Devices>, OpenError> {
        Err(NOT_BUILT)
    }

    pub(super) fn open_timed(_: &Options) -> Result<Box<dyn Devices>, OpenError> {
        Err(NOT_BUILT)
    }

    pub(super) fn with_target<W: WithTarget>(
        _: &TargetOptions,
        _: W,
    ) -> Result<W::Output, OpenError> {
        Err(NOT_BUILT)
    }

    pub(super) const fn links() -> Vec<LinkKind> {
        Vec::new()
    }
}

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
///     rendezvous: None,
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
    /// Computes nothing: passes and hops take their given times.
    Timed,
    /// The cores of this machine.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// NVIDIA GPUs that compute nothing: passes and hops take their given times.
    CudaTimed,
}

impl Backend {
    /// All kinds, in the order in which the help lists them.
    pub const ALL: [Self; 4] = [Self::Timed, Self::Cpu, Self::Cuda, Self::CudaTimed];

    /// Its properties.
    #[must_use]
    pub const fn about(self) -> &'static About {
        match self {
            Self::Timed => &gpt::TIMED,
            Self::Cpu => &gpt::CPU,
            Self::Cuda => &gpt::CUDA,
            Self::CudaTimed => &gpt::CUDA_TIMED,
        }
    }

    /// Opens the devices that `options` select.
    pub fn open(self, options: &Options) -> Result<Box<dyn Devices>, OpenError> {
        match self {
            Self::Timed => Ok(Box::new(gpt::Clock)),
            Self::Cpu => Ok(Box::new(gpt::Cores)),
            Self::Cuda => cuda::open(options),
            Self::CudaTimed => cuda::open_timed(options),
        }
    }

    /// Opens the part of a device that `options` select for timing, and runs `with` on it.
    pub fn with_target<W: WithTarget>(
        self,
        options: &TargetOptions,
        with: W,
    ) -> Result<W::Output, OpenError> {
        match self {
            Self::Timed | Self::CudaTimed => Err(OpenError::NothingToTime),
            Self::Cpu => Ok(with.run(&gpt::Core)),
            Self::Cuda => cuda::with_target(options, with),
        }
    }

    /// The links that are timed by default.
    #[must_use]
    pub fn links(self) -> Vec<LinkKind> {
        match self {
            Self::Timed | Self::CudaTimed => Vec::new(),
            Self::Cpu => gpt::links(),
            Self::Cuda => cuda::links(),
        }
    }

    /// Whether activations can be offloaded to the host while passes run.
    #[must_use]
    pub const fn copies_to_host(self) -> bool {
        self.about().is_host
    }

    /// Whether it has kernels of an output layer in shards.
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

    use profile::Element;

    use super::*;

    #[test]
    fn kinds_are_told_apart_and_say_what_they_are() {
        let names: BTreeSet<&str> = Backend::ALL.iter().map(|kind| kind.about().name).collect();
        assert_eq!(names.len(), Backend::ALL.len());
        for kind in Backend::ALL {
            let about = kind.about();
            assert!(!about.transports.is_empty() && !about.runs.is_empty(), "{kind:?}");
            // A kind that computes can be timed, and its kernels have links to time.
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
