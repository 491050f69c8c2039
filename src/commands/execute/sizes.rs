//! The sizes of the model that a run trains, and whether it fits the machine.

use executor::{Model, ModelError, Undo};
use pipeline::{Bytes, Shape};
use profile::Profile;

use super::flags::Execute;
use super::job::Job;
use super::kinds::Against;
use super::run::plan;
use crate::error::Error;
use native::memory;
use question::format;
use question::keys::Keys;

/// Bytes of an element of a core.
const F32_BYTES: usize = 4;
/// Bytes of an element of the reference that runs are held against.
const F64_BYTES: usize = 8;

/// The defaults of hidden, heads, seq and microbatch-size.
const DEFAULTS: [u64; 4] = [64, 4, 32, 1];

/// Default size of the vocabulary: a token per byte.
const VOCABULARY: u64 = 256;

/// The sizes of a model as a question gives them.
#[derive(Clone, Copy)]
pub struct Sizes {
    hidden: u64,
    heads: u64,
    seq: u64,
    microbatch_size: u64,
    vocabulary: u64,
    layers: Option<u64>,
    /// As the question gives it.
    pub layers_per_stage: Option<u64>,
}

impl Sizes {
    /// Takes the sizes out of `keys`; missing ones are those of `profile`, or small.
    pub fn take(keys: &mut Keys, vocabulary: Option<u64>, profile: Option<&Profile>) -> Self {
        let measured = |key: &str| {
            let sizes = profile.map(|profile| profile.model.sizes());
            let mut sizes = sizes.into_iter().flatten();
            sizes.find(|(name, _)| *name == key).map(|(_, size)| size as u64)
        };
        let [hidden, heads, seq, size] = DEFAULTS;
        let or = |given: Option<u64>, key, default| given.or(measured(key)).unwrap_or(default);
        let (layers, layers_per_stage) = (keys.layers.take(), keys.layers_per_stage.take());
        Self {
            hidden: or(keys.hidden.take(), "hidden", hidden),
            heads: or(keys.heads.take(), "heads", heads),
            seq: or(keys.seq.take(), "seq", seq),
            microbatch_size: or(keys.microbatch_size.take(), "microbatch-size", size),
            vocabulary: or(vocabulary, "vocabulary", VOCABULARY),
            layers,
            layers_per_stage,
        }
    }

    /// The model over `shape`: a layer for each of `most_chunks` where nothing is said of layers.
    ///
    /// # Errors
    /// No model, or one that cannot be cut into that many chunks.
    pub fn model(self, shape: Shape, most_chunks: usize) -> Result<Model, ModelError> {
        let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let stages = shape.stages() as u64;
        let of_stages = self.layers_per_stage.map(|layers| layers.saturating_mul(stages));
        let model = Model::new(
            count(self.hidden),
            count(self.heads),
            self.layers.or(of_stages).map_or(most_chunks, count),
            count(self.vocabulary),
            count(self.seq),
            count(self.microbatch_size),
        )?;
        model.layers_by_chunk(shape)?;
        Ok(model)
    }
}

/// Checks that the stages of `job` that this machine runs, `stage` or all of them, have room in its
/// memory, and so has the reference they are held against.
pub fn check_memory(job: &Job, stage: Option<usize>, execute: &Execute) -> Result<(), Error> {
    let (Some(model), Some(free)) = (job.model, memory::free()) else { return Ok(()) };
    let fault = |error: ModelError| job.case.error(&error);
    let (plan, undo) = (plan(job, execute)?, Undo::default());
    let needs = executor::needs(model, &plan, F32_BYTES, undo, &job.recompute);
    let needs = needs.map_err(fault)?;
    let own = needs.iter().enumerate().filter(|(at, _)| stage.is_none_or(|stage| stage == *at));
    // Stages on a GPU take none of this memory.
    let own = own.filter(|_| execute.backend().about().is_host);
    let mut all = own.fold(0u64, |all, (_, bytes)| all.saturating_add(bytes.0));
    if let Some(against) = execute.check {
        let element = match against {
            Against::F64 => F64_BYTES,
            Against::Device => F32_BYTES,
        };
        let reference = executor::reference_needs(model, element).map_err(fault)?;
        // The gradients of both are kept as f64.
        let gradients = (model.parameters() as u64).saturating_mul(16);
        all = all.saturating_add(reference.0).saturating_add(gradients);
    }
    if all <= free {
        return Ok(());
    }
    let [all, free] = [all, free].map(|bytes| format::size(Bytes(bytes)));
    let what = match stage {
        Some(stage) => format!("stage {stage}"),
        None => format!("{} stages", needs.len()),
    };
    let message = format!(
        "training {} parameters takes about {all} for {what} on this machine, but only {free} are free",
        model.parameters()
    );
    let cure = "give fewer --layers, a smaller --hidden, --seq, --vocabulary or --microbatch-size, \
                or fewer microbatches in flight (--schedule); or run the stages on several machines";
    Err(job.case.error(&message).with_help(cure).into())
}
