//! A profile of the steps of a trainer.

use pipeline::{
    Bytes, Footprint, Kind, Measurement, Nanos, Pass, Placement, Schedule, Shape, Slot, Step,
};
use thiserror::Error;

use super::{Backward, RecordedChunk, TrainerProfile};
use crate::limits::MAX_BYTES;
use crate::profile::Machine;
use crate::quantity::Quantity;

/// The samples that are kept of a quantity: of more, as many, evenly spread over the run.
const MOST_KEPT: usize = 1_000;
/// Target half-width of the interval of a median, as a fraction: runtimes in Python are noisier than kernels.
const HALF_WIDTH: f64 = 0.05;

/// Metadata and sizes of a recording, besides its steps.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// Where, when and with which program it was recorded.
    pub machine: Machine,
    /// The name of the schedule that ran.
    pub name: String,
    /// The bytes of a value that crosses between stages.
    pub message: Option<Bytes>,
    /// By chunk, the activation bytes of a microbatch; empty where they were not measured.
    pub footprints: Vec<Footprint>,
    /// By chunk, how long whole backwards took in steps that the recorder ran for that alone, in nanoseconds; empty
    /// where it ran none.
    pub whole_backwards: Vec<Vec<u64>>,
}

/// Why no profile can be made of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordedError {
    /// Passes that are missing.
    #[error(
        "no {kind} of chunk {chunk} ran alone: record a schedule in which it does, such as 1f1b or zb-h1"
    )]
    Missing {
        /// The kind of pass.
        kind: &'static str,
        chunk: usize,
    },
    /// Passes of which a profile knows nothing.
    #[error(
        "it has passes of a vocabulary that all stages share: a profile holds chunks; record a schedule \
         without them"
    )]
    Vocabulary,
    /// Sizes for another number of chunks.
    #[error("it has the sizes of {given} chunks, but the schedule has {chunks}")]
    Footprints {
        /// Sizes.
        given: usize,
        chunks: usize,
    },
    /// Times of whole backwards for another number of chunks.
    #[error("it has the whole backwards of {given} chunks, but the schedule has {chunks}")]
    WholeBackwards {
        /// Chunks with such times.
        given: usize,
        chunks: usize,
    },
    /// Profiles of other pipelines.
    #[error(
        "{other} was recorded with {what} than {first}: profiles are merged of recordings of one model, cut into the \
         same chunks"
    )]
    Differ {
        /// The schedule of the first recording.
        first: String,
        /// That of the other one.
        other: String,
        /// The difference.
        what: &'static str,
    },
    /// A size that cannot be.
    #[error("{bytes} bytes: a size is at most {MAX_BYTES}")]
    Size {
        /// The size.
        bytes: u64,
    },
}

/// The samples of one chunk, in nanoseconds.
#[derive(Clone, Default)]
struct Samples {
    forward: Vec<u64>,
    input: Vec<u64>,
    weight: Vec<u64>,
    whole: Vec<u64>,
}

impl Samples {
    fn add(&mut self, kind: Kind, took: u64) {
        match kind {
            Kind::F => self.forward.push(took),
            Kind::B => self.input.push(took),
            Kind::W => self.weight.push(took),
            Kind::BW => self.whole.push(took),
            Kind::S | Kind::T | Kind::R => {}
        }
    }
}

impl TrainerProfile {
    /// The profile of recorded `steps` of `schedule`. Passes that ran in pairs are ignored.
    ///
    /// A pass could begin when its stage was free and its values were there: its delay after that
    /// is overhead. A hop is sampled where the stage waited for it longer than the overhead of a pass:
    /// an earlier arrival is seen only after that overhead.
    pub fn recorded(
        schedule: &Schedule,
        steps: &[Step],
        facts: Facts,
    ) -> Result<Self, RecordedError> {
        let shape = schedule.shape();
        if shape.has_shards() {
            return Err(RecordedError::Vocabulary);
        }
        let chunks = usize::from(shape.chunks());
        check_sizes(&facts, chunks)?;
        let mut samples = vec![Samples::default(); chunks];
        for (samples, whole) in samples.iter_mut().zip(&facts.whole_backwards) {
            samples.whole.extend(whole);
        }
        let (mut overheads, mut waits) = (Vec::new(), Vec::new());
        for step in steps {
            let made = made(schedule, step);
            for slots in &step.stages {
                let mut free = None;
                for slot in slots {
                    if let Slot::One(Pass { kind, chunk, .. }) = slot.slot {
                        samples[usize::from(chunk)].add(kind, slot.end.0 - slot.start.0);
                    }
                    note(
                        slot,
                        free,
                        &mut overheads,
                        |value| made[shape.value_cell(value)],
                        &mut waits,
                    );
                    free = Some(slot.end);
                }
            }
        }
        let overhead = quantity(overheads);
        let least = overhead.as_ref().map_or(0, |one| one.median().0);
        let hops = waits.into_iter().filter(|&(waited, _)| waited > least).map(|(_, hop)| hop);
        let made = Self::of_samples((shape, schedule.placement()), samples, facts)?;
        Ok(Self { hop: quantity(hops.collect()), overhead, ..made })
    }

    /// The profile of passes that were timed by stage alone: of each stage F and the whole backward of one of its
    /// chunks, which are taken to be alike, in nanoseconds.
    pub fn timed(
        shape: Shape,
        placement: Placement,
        passes: &[[Vec<u64>; 2]],
        facts: Facts,
    ) -> Result<Self, RecordedError> {
        let mut samples = vec![Samples::default(); usize::from(shape.chunks())];
        for (stage, [forward, whole]) in passes.iter().enumerate().take(shape.stages()) {
            for chunk in placement.chunks_of(shape, stage) {
                let (forward, whole) = (forward.clone(), whole.clone());
                samples[usize::from(chunk)] = Samples { forward, whole, ..Samples::default() };
            }
        }
        Self::of_samples((shape, placement), samples, facts)
    }

    fn of_samples(
        (shape, placement): (Shape, Placement),
        samples: Vec<Samples>,
        facts: Facts,
    ) -> Result<Self, RecordedError> {
        let footprint = |chunk: usize| facts.footprints.get(chunk).copied();
        let chunks = samples.into_iter().enumerate();
        let chunks = chunks.map(|(chunk, samples)| whole(samples, chunk, footprint(chunk)));
        Ok(Self {
            chunks: chunks.collect::<Result<_, _>>()?,
            machine: facts.machine,
            schedule: facts.name,
            stages: shape.stages(),
            placement,
            microbatches: shape.microbatches(),
            one_device: false,
            half_width: HALF_WIDTH,
            message: facts.message,
            hop: None,
            overhead: None,
        })
    }
}

fn check_sizes(facts: &Facts, chunks: usize) -> Result<(), RecordedError> {
    let given = facts.whole_backwards.len();
    if given != 0 && given != chunks {
        return Err(RecordedError::WholeBackwards { given, chunks });
    }
    let given = facts.footprints.len();
    if given != 0 && given != chunks {
        return Err(RecordedError::Footprints { given, chunks });
    }
    let of = |one: &Footprint| [one.until_backward.0, one.until_weight.0];
    let message = facts.message.map(|message| message.0);
    match facts.footprints.iter().flat_map(of).chain(message).find(|&bytes| bytes > MAX_BYTES) {
        Some(bytes) => Err(RecordedError::Size { bytes }),
        None => Ok(()),
    }
}

/// When each value of a step was made, by its cell.
fn made(schedule: &Schedule, step: &Step) -> Vec<Nanos> {
    let shape = schedule.shape();
    let mut made = vec![Nanos(0); shape.value_cells()];
    for slot in step.stages.iter().flatten() {
        for value in slot.slot.passes().filter_map(Pass::makes) {
            made[shape.value_cell(value)] = slot.end;
        }
    }
    made
}

/// Notes how late `slot` began on a stage that was `free`, and, of a value from elsewhere, how long the
/// stage waited for it and how long the value was on its way.
fn note(
    slot: &Measurement,
    free: Option<Nanos>,
    overheads: &mut Vec<u64>,
    made: impl Fn(pipeline::Value) -> Nanos,
    waits: &mut Vec<(u64, u64)>,
) {
    let ready = free.max(slot.arrived.map(|(_, at)| at));
    if let Some(ready) = ready {
        overheads.push(slot.start.0.saturating_sub(ready.0));
    }
    if let Some((value, at)) = slot.arrived
        && let Some(hop) = at.0.checked_sub(made(value).0)
    {
        waits.push((at.0.saturating_sub(free.unwrap_or_default().0), hop));
    }
}

fn whole(
    samples: Samples,
    chunk: usize,
    footprint: Option<Footprint>,
) -> Result<RecordedChunk, RecordedError> {
    let Samples { forward, input, weight, whole } = samples;
    let missing = |kind| RecordedError::Missing { kind, chunk };
    let forward = quantity(forward).ok_or(missing("F"))?;
    let backward = match (quantity(input).zip(quantity(weight)), quantity(whole)) {
        (Some((input, weight)), whole) => Backward::Split { input, weight, whole },
        (None, Some(whole)) => Backward::Whole(whole),
        (None, None) => return Err(missing("backward pass")),
    };
    Ok(RecordedChunk { forward, backward, footprint, resident: None })
}

fn quantity(samples: Vec<u64>) -> Option<Quantity> {
    let count = samples.len();
    if count <= MOST_KEPT {
        return Quantity::of(samples);
    }
    Quantity::of((0..MOST_KEPT).map(|at| samples[at * count / MOST_KEPT]).collect())
}
