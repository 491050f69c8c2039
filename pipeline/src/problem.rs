//! The problem that a family solves: a pipeline, its costs, and the memory it may use.

use std::fmt;
use std::str::FromStr;

use crate::copy_op::{CopyPart, CopyPolicy};
use crate::costs::{Costs, Footprint, Footprints};
use crate::fault::Fault;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};
use crate::units::{Bytes, UnitError};

/// How much activation memory each stage may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// A multiple of p times the activations of one microbatch on one stage (the paper's unit), in
    /// millionths.
    TimesP {
        /// A million stands for 1p.
        millionths: u64,
    },
    /// A number of bytes.
    Bytes(Bytes),
}

impl Limit {
    /// `multiple` times p times the activations of one microbatch on one stage.
    #[must_use]
    pub const fn times_p(multiple: u64) -> Self {
        Self::TimesP { millionths: multiple.saturating_mul(1_000_000) }
    }

    /// This limit in bytes, rounded down, where one microbatch holds `microbatch` on the stage
    /// that holds most.
    #[must_use]
    pub fn bytes(self, shape: Shape, microbatch: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::TimesP { millionths } => {
                let unit = u128::from(microbatch.0) * shape.stages() as u128;
                let bytes = unit.saturating_mul(u128::from(millionths)) / 1_000_000;
                Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
        }
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    /// Reads `1.5p` (at most six decimals) or a size, `38GiB`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some(number) = text.strip_suffix(['p', 'P']) else {
            return text.parse().map(Self::Bytes).map_err(|error| match error {
                UnitError::Missing { text, example, .. } => {
                    let units =
                        "p (times the activations of p microbatches) or B kB MB GB KiB MiB GiB";
                    UnitError::Missing {
                        text,
                        units,
                        example: format!("{}p or {example}", number(&example)),
                    }
                }
                other => other,
            });
        };
        // A million millionths make 1p as a million bytes make 1 MB: read exactly, like a size.
        match format!("{number}MB").parse() {
            Ok(Bytes(millionths)) => Ok(Self::TimesP { millionths }),
            Err(UnitError::Negative { .. }) => Err(UnitError::Negative { text: text.to_owned() }),
            Err(_) => Err(UnitError::NotANumber { text: text.to_owned(), example: "1.5p" }),
        }
    }
}

/// The digits an example begins with.
fn number(example: &str) -> &str {
    example.trim_end_matches(|c: char| c.is_ascii_alphabetic())
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::TimesP { millionths } => {
                let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
                let decimals = format!("{whole}.{rest:06}");
                f.pad(&format!("{}p", decimals.trim_end_matches('0').trim_end_matches('.')))
            }
        }
    }
}

/// Number of bytes that each stage of a pipeline may hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Limits(Vec<Bytes>);

impl Limits {
    /// Limits from one value for all stages, or one per stage.
    ///
    /// # Errors
    /// [`Fault::ValueCount`] for any other number.
    pub fn new(shape: Shape, limits: &[Bytes]) -> Result<Self, Fault> {
        each_stage(shape, limits).map(Self)
    }

    /// The limit of `stage`.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn of(&self, stage: usize) -> Bytes {
        self.0[stage]
    }

    /// The limits, by stage.
    #[must_use]
    pub fn by_stage(&self) -> &[Bytes] {
        &self.0
    }

    /// The one that all stages have, if they have the same.
    #[must_use]
    pub fn same(&self) -> Option<Bytes> {
        let first = *self.0.first()?;
        self.0.iter().all(|&one| one == first).then_some(first)
    }
}

/// One for every stage, from one for all or one per stage.
fn each_stage<T: Copy>(shape: Shape, values: &[T]) -> Result<Vec<T>, Fault> {
    let stages = shape.stages();
    match values {
        [all] => Ok(vec![*all; stages]),
        each if each.len() == stages => Ok(each.to_vec()),
        _ => {
            let chunks = u16::try_from(stages).unwrap_or(u16::MAX);
            Err(Fault::ValueCount { what: "memory-limit", given: values.len(), stages, chunks })
        }
    }
}

/// A pipeline, what its passes cost and hold, and the memory limit, for a family to order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    shape: Shape,
    costs: Costs,
    footprints: Footprints,
    /// The limits, by stage.
    limits: Option<Vec<Limit>>,
    group: Option<u64>,
    segments: u32,
    offload_chunks: Option<u64>,
    offload_part: CopyPart,
    reload_ahead: Option<u32>,
    max_inflight: Option<u32>,
    updates: u32,
}

impl Problem {
    /// A problem without footprints or limit. Activations are then counted, one unit for each
    /// chunk and microbatch from the start of F to the end of W: M_W = M_B, so that limits in
    /// multiples of p are kept for all equal footprints with M_W <= M_B.
    ///
    /// # Errors
    /// If the costs are those of another pipeline, or overflow.
    pub fn new(shape: Shape, costs: Costs) -> Result<Self, Fault> {
        costs.check(shape)?;
        let unit = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
        let footprints = Footprints::uniform(shape, unit);
        Ok(Self {
            shape,
            costs,
            footprints,
            limits: None,
            group: None,
            segments: 1,
            offload_chunks: None,
            offload_part: CopyPart::WHOLE,
            reload_ahead: None,
            max_inflight: None,
            updates: 1,
        })
    }

    /// The same with other `costs`.
    ///
    /// # Errors
    /// If they are those of another pipeline, or overflow.
    pub fn with_costs(self, costs: Costs) -> Result<Self, Fault> {
        costs.check(self.shape)?;
        Ok(Self { costs, ..self })
    }

    /// Whether this problem and `other` are alike but for what passes cost.
    #[must_use]
    pub fn differs_in_costs_alone(&self, other: &Self) -> bool {
        let Self { shape, costs: _, footprints, limits, .. } = self;
        let rest = |of: &Self| {
            let Self { group, segments, offload_chunks, offload_part, updates, .. } = *of;
            let copies = (offload_chunks, offload_part, of.reload_ahead, of.max_inflight);
            (group, segments, copies, updates)
        };
        (shape, footprints, limits) == (&other.shape, &other.footprints, &other.limits)
            && rest(self) == rest(other)
    }

    /// The same where all microbatches have the mean work of all.
    #[must_use]
    pub fn of_mean_microbatch(self) -> Self {
        Self { costs: self.costs.of_mean_microbatch(), ..self }
    }

    /// The same with `footprints`.
    ///
    /// # Errors
    /// If they are those of another pipeline, or overflow.
    pub fn with_footprints(self, footprints: Footprints) -> Result<Self, Fault> {
        footprints.check(self.shape)?;
        Ok(Self { footprints, ..self })
    }

    /// The same under `limit` on every stage.
    #[must_use]
    pub fn with_limit(self, limit: Limit) -> Self {
        Self { limits: Some(vec![limit; self.shape.stages()]), ..self }
    }

    /// The same under `limits`: one for all stages, or one per stage.
    ///
    /// # Errors
    /// [`Fault::ValueCount`] for any other number.
    pub fn with_limits(self, limits: &[Limit]) -> Result<Self, Fault> {
        Ok(Self { limits: Some(each_stage(self.shape, limits)?), ..self })
    }

    /// The same with groups of `group` microbatches, for families that have them.
    #[must_use]
    pub fn with_group(self, group: u64) -> Self {
        Self { group: Some(group), ..self }
    }

    /// The same where each `segments` microbatches of the shape are the segments of one: for
    /// families that cut microbatches, whose passes are those of segments. Costs and footprints are
    /// those of a segment; a limit in multiples of p counts whole microbatches.
    ///
    /// # Errors
    /// [`Fault::Zero`] if there are no segments.
    pub fn with_segments(self, segments: u32) -> Result<Self, Fault> {
        if segments == 0 {
            return Err(Fault::Zero { what: "segments" });
        }
        Ok(Self { segments, ..self })
    }

    /// The same with `chunks` of each stage on the host between forward and backward, for families
    /// that copy.
    #[must_use]
    pub fn with_offload_chunks(self, chunks: u64) -> Self {
        Self { offload_chunks: Some(chunks), ..self }
    }

    /// The same with `part` of an activation copied, for families that copy.
    #[must_use]
    pub fn with_offload_part(self, part: CopyPart) -> Self {
        Self { offload_part: part, ..self }
    }

    /// The same where any order copies to the host, and calls an activation back when its backward is
    /// `ahead` slots away ([`Schedule::offloaded`](crate::Schedule::offloaded)).
    #[must_use]
    pub fn with_reload_ahead(self, ahead: u32) -> Self {
        Self { reload_ahead: Some(ahead), ..self }
    }

    /// The same with at most `copies` to the host in flight, where any order copies
    /// ([`CopyPolicy::max_inflight`]).
    #[must_use]
    pub fn with_max_inflight(self, copies: u32) -> Self {
        Self { max_inflight: Some(copies), ..self }
    }

    /// The same with other `microbatches`, all of the same work.
    ///
    /// # Errors
    /// Of the shape: none, or too many passes; if costs or footprints overflow, or microbatches differ in work.
    pub fn with_microbatches(self, microbatches: u32) -> Result<Self, Fault> {
        let shape = self.shape.with_microbatches(microbatches)?;
        self.costs.check(shape)?;
        self.footprints.check(shape)?;
        Ok(Self { shape, ..self })
    }

    /// How many slots ahead activations are called back, if any order is to copy.
    #[must_use]
    pub const fn reload_ahead(&self) -> Option<u32> {
        self.reload_ahead
    }

    /// `schedule` with the copies to the host that this problem asks of any order, if it does.
    #[must_use]
    pub fn offloaded(&self, schedule: Schedule) -> Schedule {
        let policy = CopyPolicy { part: self.offload_part, max_inflight: self.max_inflight };
        match self.reload_ahead {
            Some(ahead) => schedule.offloaded(policy, ahead),
            None => schedule,
        }
    }

    /// Whether orders get copies to the host ([`Self::offloaded`]).
    #[must_use]
    pub const fn copies_to_host(&self) -> bool {
        self.reload_ahead.is_some()
    }

    /// How many chunks of each stage go to the host, if that was said.
    #[must_use]
    pub const fn offload_chunks(&self) -> Option<u64> {
        self.offload_chunks
    }

    /// The part of an activation that is copied to the host: all of it by default.
    #[must_use]
    pub const fn offload_part(&self) -> CopyPart {
        self.offload_part
    }

    /// The same where the microbatches of the shape are those of `updates` updates of the weights:
    /// for families that never flush, whose schedules are runs of several.
    ///
    /// # Errors
    /// [`Fault::Zero`] if there are no updates.
    pub fn with_updates(self, updates: u32) -> Result<Self, Fault> {
        if updates == 0 {
            return Err(Fault::Zero { what: "updates" });
        }
        Ok(Self { updates, ..self })
    }

    /// How many microbatches make a group, if that was said.
    #[must_use]
    pub const fn group(&self) -> Option<u64> {
        self.group
    }

    /// How many microbatches of the shape are the segments of one; 1 where none is cut.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Number of updates of the weights that the microbatches of the shape are; 1 for a step that flushes.
    #[must_use]
    pub const fn updates(&self) -> u32 {
        self.updates
    }

    /// Stages, chunks and microbatches.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Durations of passes.
    #[must_use]
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The activations that one microbatch holds in each chunk.
    #[must_use]
    pub const fn footprints(&self) -> &Footprints {
        &self.footprints
    }

    /// Whether there is a memory limit.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.limits.is_some()
    }

    /// The limits in bytes, where a multiple of p counts the activations of the stage that holds
    /// most; `None` if memory is not limited.
    ///
    /// # Errors
    /// [`Fault::BelowOneMicrobatch`] if a stage cannot do even one alone, in any order.
    pub fn limits(&self, placement: Placement) -> Result<Option<Limits>, Fault> {
        self.limits_above(placement, self.footprints.least_peaks(self.shape, placement))
    }

    /// The same for orders that copy to the host: a stage must hold its largest chunk alone.
    ///
    /// # Errors
    /// [`Fault::BelowOneMicrobatch`] if a stage cannot.
    pub fn limits_with_copies(&self, placement: Placement) -> Result<Option<Limits>, Fault> {
        let peaks = self.footprints.least_peaks_with_copies(self.shape, placement);
        self.limits_above(placement, peaks)
    }

    /// The limits, all of which must be at least the `peaks` of one microbatch.
    fn limits_above(
        &self,
        placement: Placement,
        peaks: Vec<Bytes>,
    ) -> Result<Option<Limits>, Fault> {
        let Some(limits) = &self.limits else { return Ok(None) };
        let most = self.one_microbatch(placement).into_iter().max().unwrap_or_default();
        let most = Bytes(most.0.saturating_mul(self.segments.into()));
        let limits: Vec<Bytes> = limits.iter().map(|one| one.bytes(self.shape, most)).collect();
        let peaks = peaks.into_iter().zip(&limits).enumerate();
        let over = peaks.filter(|(_, (needs, limit))| needs > limit);
        let highest = over.max_by_key(|&(stage, (needs, _))| (needs, std::cmp::Reverse(stage)));
        match highest {
            Some((stage, (needs, &limit))) => {
                Err(Fault::BelowOneMicrobatch { stage, needs, limit })
            }
            None => Ok(Some(Limits(limits))),
        }
    }

    /// The same without buffers, under limits that leave room for those of one pass on each stage. Families use this
    /// form where a limit shapes their order, since their passes run one at a time.
    ///
    /// # Errors
    /// Those of [`Self::limits`].
    pub(crate) fn without_buffers(&self, placement: Placement) -> Result<Self, Fault> {
        let mut buffers = vec![Bytes(0); self.shape.stages()];
        for chunk in 0..self.shape.chunks() {
            for microbatch in [0, self.shape.microbatches() - 1] {
                let stage = placement.stage(self.shape, chunk, microbatch);
                buffers[stage] = buffers[stage].max(self.footprints.buffers(chunk));
            }
        }
        let limits = self.limits(placement)?.map(|limits| {
            let room = limits.by_stage().iter().zip(&buffers);
            room.map(|(limit, buffers)| Limit::Bytes(Bytes(limit.0.saturating_sub(buffers.0))))
                .collect()
        });
        let footprints = self.footprints.clone().with_buffers(Vec::new());
        Ok(Self { footprints, limits, ..self.clone() })
    }

    /// The activations that one microbatch holds on each stage between F and B, over all its
    /// chunks.
    fn one_microbatch(&self, placement: Placement) -> Vec<Bytes> {
        let mut units = vec![Bytes(0); self.shape.stages()];
        // The first and the last microbatch stand for both directions of a mirrored placement.
        for microbatch in [0, self.shape.microbatches() - 1] {
            let mut held = vec![Bytes(0); self.shape.stages()];
            for chunk in 0..self.shape.chunks() {
                let stage = placement.stage(self.shape, chunk, microbatch);
                held[stage] += self.footprints.of(chunk).until_backward;
                units[stage] = units[stage].max(held[stage]);
            }
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_one_for_all_stages_or_one_each() {
        let shape = Shape::new(3, 2, 1).unwrap();
        let problem =
            Problem::new(shape, Costs::uniform(shape, Default::default(), Default::default()));
        let [small, large] = [Limit::Bytes(Bytes(4)), Limit::times_p(1)];
        let resolved = |limits: &[Limit]| {
            let problem = problem.clone()?.with_limits(limits)?;
            problem.limits(Placement::Vee).map(|limits| limits.unwrap().by_stage().to_vec())
        };
        // One microbatch holds 2 units on a stage of two chunks: 1p is 6.
        assert_eq!(resolved(&[large]), Ok(vec![Bytes(6); 3]));
        assert_eq!(resolved(&[large, small, large]), Ok([6, 4, 6].map(Bytes).to_vec()));
        for given in [0, 2, 4, 6] {
            let fault = resolved(&vec![small; given]).unwrap_err();
            assert!(matches!(fault, Fault::ValueCount { what: "memory-limit", .. }), "{fault}");
        }
        let below = resolved(&[large, Limit::Bytes(Bytes(1)), small]);
        let [needs, limit] = [2, 1].map(Bytes);
        assert_eq!(below, Err(Fault::BelowOneMicrobatch { stage: 1, needs, limit }));
        assert_eq!(Limits::new(shape, &[Bytes(5)]).unwrap().same(), Some(Bytes(5)));
        assert_eq!(Limits::new(shape, &[5, 6, 5].map(Bytes)).unwrap().same(), None);
    }

    #[test]
    fn limits_are_read_and_printed() {
        let read = |text: &str| text.parse::<Limit>();
        assert_eq!(read("1.125p"), Ok(Limit::TimesP { millionths: 1_125_000 }));
        assert_eq!(read("38GiB"), Ok(Limit::Bytes(Bytes(38 << 30))));
        for text in ["2p", "1.125p", "0.5p", "38GiB"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert!(read("2").unwrap_err().to_string().contains("2p or 2GiB"));
        assert!(read("-1p").unwrap_err().to_string().contains("negative"));
        assert!(read("NaNp").unwrap_err().to_string().contains("1.5p"));
    }
}
