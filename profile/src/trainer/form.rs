//! The file form of a trainer's profile: TOML, of `kind = "trainer"`.

use pipeline::{Bytes, Placement};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Backward, RecordedChunk, Resident, TrainerProfile};
use crate::document::{VERSION, check_half_width};
use crate::error::{ProfileError, fail, unplaced};
use crate::form::{FootprintDocument, QuantityDocument};
use crate::profile::Machine;
use crate::quantities::{read_quantity, write_quantity};
use crate::quantity::Quantity;
use crate::size::Size;

/// The `kind` of these files.
pub(crate) const KIND: &str = "trainer";

const CURE: &str = "profiles of trainers are made of a recording: mend the line, or record again";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    version: u64,
    kind: String,
    schedule: String,
    stages: Spanned<usize>,
    placement: Placement,
    microbatches: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    one_device: bool,
    half_width: Spanned<f64>,
    message: Option<Size>,
    machine: Machine,
    hop: Option<Spanned<QuantityDocument>>,
    overhead: Option<Spanned<QuantityDocument>>,
    chunk: Spanned<Vec<Spanned<ChunkDocument>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ChunkDocument {
    footprint: Option<FootprintDocument>,
    resident: Option<Resident>,
    forward: Spanned<QuantityDocument>,
    backward_input: Option<Spanned<QuantityDocument>>,
    backward_weight: Option<Spanned<QuantityDocument>>,
    backward: Option<Spanned<QuantityDocument>>,
}

impl TrainerProfile {
    /// Reads the file form.
    pub(crate) fn parse(text: &str) -> Result<Self, ProfileError> {
        let document: Document = toml::from_str(text).map_err(|error| ProfileError {
            message: error.message().to_owned(),
            place: error.span(),
            cure: CURE,
        })?;
        document.into_profile().map_err(|error| ProfileError { cure: CURE, ..error })
    }

    /// The file form, which [`AnyProfile::parse`](crate::AnyProfile::parse) reads back as the same.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = "# A trainer as it was recorded, chunk by chunk. Times are nanoseconds, sizes bytes.\n\
                    # low and high: the 95 % confidence interval of the median. The samples, in the\n\
                    # order taken, are what counts.\n";
        // Tables with text keys and numbers below 2^63: there is nothing that TOML cannot say.
        let body = toml::to_string(&Document::of(self)).unwrap_or_default();
        format!("{head}{body}")
    }
}

impl Document {
    fn of(profile: &TrainerProfile) -> Self {
        let half_width = profile.half_width;
        let quantity = |one: &Quantity| write_quantity(one, half_width);
        let chunk = |chunk: &RecordedChunk| {
            let (split, backward) = match &chunk.backward {
                Backward::Whole(whole) => (None, Some(whole)),
                Backward::Split { input, weight, whole } => (Some((input, weight)), whole.as_ref()),
            };
            let (input, weight) = split.unzip();
            unplaced(ChunkDocument {
                footprint: chunk.footprint.map(Into::into),
                resident: chunk.resident,
                forward: quantity(&chunk.forward),
                backward_input: input.map(quantity),
                backward_weight: weight.map(quantity),
                backward: backward.map(quantity),
            })
        };
        Self {
            version: VERSION,
            kind: KIND.to_owned(),
            schedule: profile.schedule.clone(),
            stages: unplaced(profile.stages),
            placement: profile.placement,
            microbatches: profile.microbatches,
            one_device: profile.one_device,
            half_width: unplaced(half_width),
            message: profile.message.map(|bytes| Size(bytes.0)),
            machine: profile.machine.clone(),
            hop: profile.hop.as_ref().map(quantity),
            overhead: profile.overhead.as_ref().map(quantity),
            chunk: unplaced(profile.chunks.iter().map(chunk).collect()),
        }
    }

    fn into_profile(self) -> Result<TrainerProfile, ProfileError> {
        let half_width = check_half_width(&self.half_width)?;
        let read = |one| read_quantity(one, half_width);
        let (stages, chunks) = (*self.stages.get_ref(), self.chunk.get_ref().len());
        if stages == 0 || !chunks.is_multiple_of(stages) || chunks == 0 {
            let message = format!("{chunks} chunks are not a pipeline of {stages} stages");
            return fail(self.stages.span(), message);
        }
        if chunks as u64 > pipeline::MAX_CHUNKS {
            let message = format!("{chunks} chunks: at most {}", pipeline::MAX_CHUNKS);
            return fail(self.stages.span(), message);
        }
        let chunks = self.chunk.into_inner().into_iter().map(|one| read_chunk(one, half_width));
        Ok(TrainerProfile {
            machine: self.machine,
            schedule: self.schedule,
            stages,
            placement: self.placement,
            microbatches: self.microbatches,
            one_device: self.one_device,
            half_width,
            message: self.message.map(|size| Bytes(size.0)),
            hop: self.hop.map(read).transpose()?,
            overhead: self.overhead.map(read).transpose()?,
            chunks: chunks.collect::<Result<_, _>>()?,
        })
    }
}

fn read_chunk(
    chunk: Spanned<ChunkDocument>,
    half_width: f64,
) -> Result<RecordedChunk, ProfileError> {
    let place = chunk.span();
    let ChunkDocument { footprint, resident, forward, backward_input, backward_weight, backward } =
        chunk.into_inner();
    let read = |one: Option<_>| one.map(|one| read_quantity(one, half_width)).transpose();
    let (whole, input, weight) = (read(backward)?, read(backward_input)?, read(backward_weight)?);
    let backward = match (input, weight, whole) {
        (Some(input), Some(weight), whole) => Backward::Split { input, weight, whole },
        (None, None, Some(whole)) => Backward::Whole(whole),
        _ => {
            let message =
                "a chunk has backward-input and backward-weight, or backward, or all three";
            return fail(place, message.to_owned());
        }
    };
    let forward = read_quantity(forward, half_width)?;
    let footprint = footprint.map(Into::into);
    Ok(RecordedChunk { forward, backward, footprint, resident })
}
