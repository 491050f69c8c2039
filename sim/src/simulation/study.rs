//! The study of a simulation: one run without noise, one of replica 0, and all that is read from
//! them.

use std::borrow::Cow;

use pipeline::{Bytes, Fault, Footprint, Footprints, Memory, Metrics, Timeline, peak_in_flight};

use super::{Simulation, SimulationError};
use crate::engine::Run;
use crate::occupancy::{Occupancy, activation_peaks};
use crate::replay::Replay;

/// Which details of the run are kept beside the figures. They are decided before it runs, since
/// keeping all of every run would take too much memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Details {
    /// When each slot runs.
    pub timeline: bool,
    /// Everything that happens, transfers too: for traces, pages and recorded timelines.
    pub run: bool,
    /// Keeps the runs that [`Simulation::causes`] needs where the event engine makes them: the run,
    /// and under noise the run without it. Other runs are quicker repeated than kept.
    pub causes: bool,
}

/// The parts of a run that are kept.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Kept {
    /// Its figures alone.
    #[default]
    Nothing,
    /// When each slot ran.
    Timeline(Timeline),
    /// Everything.
    Run(Run),
}

impl Kept {
    /// When each slot ran, if that was kept.
    #[must_use]
    pub const fn timeline(&self) -> Option<&Timeline> {
        match self {
            Self::Nothing => None,
            Self::Timeline(timeline) => Some(timeline),
            Self::Run(run) => Some(&run.timeline),
        }
    }

    /// Keeps the parts that `wants` asks for; the rest is dropped.
    #[must_use]
    pub fn reduced_to(self, wants: Details) -> Self {
        match self {
            Self::Run(run) if !(wants.run || wants.causes) => match wants.timeline {
                true => Self::Timeline(run.timeline),
                false => Self::Nothing,
            },
            kept => kept,
        }
    }

    /// Everything that happened, if it was kept.
    #[must_use]
    pub const fn run(&self) -> Option<&Run> {
        match self {
            Self::Run(run) => Some(run),
            Self::Nothing | Self::Timeline(_) => None,
        }
    }
}

/// The results of a simulation.
#[derive(Clone, Debug)]
pub struct Study {
    /// When each stage worked; under noise, in replica 0.
    pub metrics: Metrics,
    /// The same without noise, if there is any.
    pub noise_free: Option<Metrics>,
    /// The most activation bytes that each stage holds, without noise.
    pub memory: Memory,
    /// The most chunk activations that each stage holds, without noise.
    pub in_flight: Vec<u32>,
    /// The memory of each device, if it is on hardware; under noise, in replica 0.
    pub occupancy: Option<Occupancy>,
    /// The part of the run that was kept, replica 0 under noise. On hardware it is always the whole
    /// run, of which the caller drops what is not wanted once it has been read:
    /// [`Kept::reduced_to`].
    pub kept: Kept,
    /// The run without noise, if there is noise, and causes are wanted of a run on hardware.
    pub nominal: Option<Run>,
}

impl Simulation<'_> {
    /// Runs the schedule once without noise and, where there is noise, once in replica 0.
    ///
    /// # Errors
    /// If costs or footprints are those of another pipeline, the clock overflows, or the pipeline
    /// gets stuck.
    pub fn study(&self, wants: Details, replay: &mut Replay) -> Result<Study, SimulationError> {
        let causes = wants.causes && self.hardware.is_some();
        let whole = wants.run || causes;
        let details = wants.timeline || whole;
        let copies = self.schedule.copies().is_some();
        let Some(shown) = self.shown() else {
            let (metrics, run) = self.observe(None, details || copies, replay)?;
            let occupancy = run.as_ref().map_or(Ok(None), |run| self.occupancy(run))?;
            let (memory, in_flight) = self.memory(run.as_ref())?;
            let kept = self.keep(run, None, wants.timeline, whole);
            let (noise_free, nominal) = (None, None);
            return Ok(Study { metrics, noise_free, memory, in_flight, occupancy, kept, nominal });
        };
        let (noise_free, nominal) = self.observe(None, copies, replay)?;
        let memory = self.memory(nominal.as_ref());
        let nominal = nominal.filter(|_| causes);
        let (metrics, run) = self.observe(Some(shown), details, replay)?;
        let occupancy = run.as_ref().map_or(Ok(None), |run| self.occupancy(run))?;
        let (memory, in_flight) = memory?;
        let kept = self.keep(run, Some(shown), wants.timeline, whole);
        let noise_free = Some(noise_free);
        Ok(Study { metrics, noise_free, memory, in_flight, occupancy, kept, nominal })
    }

    /// The memory of each device over `run`, if the simulation is on hardware.
    ///
    /// # Errors
    /// If so much is held that it cannot be counted.
    pub fn occupancy(&self, run: &Run) -> Result<Option<Occupancy>, SimulationError> {
        let (Some(hardware), Some(job)) = (self.hardware, self.job()) else { return Ok(None) };
        let nothing = Footprints::uniform(self.schedule.shape(), Footprint::default());
        let (resident, capacities) = (&hardware.resident, hardware.capacities.as_deref());
        if hardware.measures_activations {
            return Ok(Some(Occupancy::of(run, &job, self.footprints, resident, capacities)?));
        }
        // Activations without a size have none on their way to the host either.
        let mut run = Cow::Borrowed(run);
        if !run.copies.is_empty() {
            run.to_mut().copies.iter_mut().for_each(|copy| copy.bytes = Bytes(0));
        }
        Ok(Some(Occupancy::of(&run, &job, &nothing, resident, capacities)?))
    }

    /// The metrics of `replica`, and the run if `details` are wanted or a run is what it takes.
    fn observe(
        &self,
        replica: Option<u64>,
        details: bool,
        replay: &mut Replay,
    ) -> Result<(Metrics, Option<Run>), SimulationError> {
        if self.hardware.is_none() && !details {
            return Ok((self.metrics(replica, replay)?, None));
        }
        let run = self.walk(replica, replay)?;
        Ok((self.metrics_of(&run), Some(run)))
    }

    fn keep(&self, run: Option<Run>, replica: Option<u64>, timeline: bool, whole: bool) -> Kept {
        match run {
            Some(run) if whole || self.hardware.is_some() => {
                Kept::Run(self.completed(run, replica))
            }
            Some(run) if timeline => Kept::Timeline(run.timeline),
            _ => Kept::Nothing,
        }
    }

    /// The peak activation memory of each stage and its peak number of chunk activations: along the
    /// order, or over the time of `run`, one without noise, where activations go to the host
    /// meanwhile.
    fn memory(&self, run: Option<&Run>) -> Result<(Memory, Vec<u32>), Fault> {
        let (schedule, footprints) = (self.schedule, self.footprints);
        let Some((copies, run)) = schedule.copies().zip(run) else {
            return Ok((Memory::of(schedule, footprints)?, peak_in_flight(schedule)));
        };
        let peak = activation_peaks(schedule, &run.timeline, &run.copies, footprints)?;
        // An activation only partly on the host counts as held on the device.
        let one = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
        let bytes = copies.part().of_bytes(one.until_backward);
        let mut moved = run.copies.clone();
        moved.iter_mut().for_each(|copy| copy.bytes = bytes);
        let ones = Footprints::uniform(schedule.shape(), one);
        let counts = activation_peaks(schedule, &run.timeline, &moved, &ones)?;
        let small = |count: Bytes| u32::try_from(count.0).unwrap_or(u32::MAX);
        Ok((Memory { peak }, counts.into_iter().map(small).collect()))
    }
}
