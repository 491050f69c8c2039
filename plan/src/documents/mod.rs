//! Steps with documents packed into sequences, so that the microbatches of a step differ in the work of
//! attention.
//!
//! A pass of a microbatch has the time of the layer formulas for its share of token pairs that attend
//! to each other. The order of passes is that of the set-up, made for even microbatches, as in
//! trainers. The step of a replica is run by the event engine, and replicas wait for the slowest one
//! after their last passes; those that share experts wait for each other in every microbatch.

mod dynamic;
mod groups;
mod times;

use pipeline::{Kind, Nanos, Pass, Value};
use rayon::prelude::*;
use sim::engine::{Durations, EngineError};

use crate::costed::Rejected;
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::model::number;
use crate::noise::{affordable, of_slowest};
use crate::setup::{Recipe, Setup};

pub use self::dynamic::{Dynamic, GroupShare, dynamic};

/// The most steps that are drawn.
const STEPS: u64 = 200;
/// Parts of the range of shares, at whose ends passes are computed, with linear interpolation between.
const GRID: usize = 32;

/// Steps of uneven microbatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DocumentSteps {
    /// How many were drawn: of one replica, or of all where their devices are regrouped.
    pub drawn: u64,
    pub mean: Nanos,
    /// 95th percentile of the step.
    pub p95: Nanos,
}

impl Setup {
    /// Replicas that share the experts of a layer, and so wait for each other in every microbatch.
    #[must_use]
    pub const fn replicas_together(&self) -> u64 {
        let (group, replica) =
            (self.expert.saturating_mul(self.expert_tensor), self.tensor * self.context);
        let together = group.div_ceil(if replica == 0 { 1 } else { replica });
        if together > self.data { self.data } else { together }
    }
}

/// The steps of `finalist`, which `inputs` came to, of sequences in which the shares `attended` of all pairs
/// of tokens attend to each other, one behind the other. Nothing if `stop` is so before the last.
pub fn document_steps(
    inputs: &Inputs<'_>,
    finalist: &Finalist,
    attended: &[f64],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<DocumentSteps>, FinalistError> {
    let setup = &finalist.costed().setup;
    let blocks = Blocks::of(setup, finalist.costed().shape.microbatches(), attended);
    let passes = Passes::of(inputs, finalist)?;
    let drawn = blocks.count().min(affordable(finalist)).clamp(1, STEPS);
    let one = |block: u64| {
        let step = || finalist.step_under(&passes.under(&blocks.shares(block)));
        (!stop()).then(step).transpose()
    };
    let steps: Result<Option<Vec<Nanos>>, EngineError> =
        (0..drawn).into_par_iter().map(one).collect();
    let Some(steps) = steps? else { return Ok(None) };
    let groups = setup.data.div_ceil(setup.replicas_together().max(1));
    let [mean, p95] = of_slowest(steps, groups);
    Ok(Some(DocumentSteps { drawn, mean, p95 }))
}

/// The sequences of all replicas, step by step.
struct Blocks<'a> {
    attended: &'a [f64],
    /// Sequences of a microbatch, microbatches of a step, replicas that wait for each other in each.
    sizes: [usize; 3],
}

impl<'a> Blocks<'a> {
    fn of(setup: &Setup, microbatches: u32, attended: &'a [f64]) -> Self {
        let sizes = [setup.microbatch, microbatches.into(), setup.replicas_together().max(1)];
        Self { attended, sizes: sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX)) }
    }

    /// How many steps there are whose sequences are all different.
    fn count(&self) -> u64 {
        let own = self.sizes.iter().fold(1, |product: usize, &size| product.saturating_mul(size));
        (self.attended.len() / own.max(1)).max(1) as u64
    }

    /// The share of each microbatch of step `block`: of the replica that has most to do.
    fn shares(&self, block: u64) -> Vec<f64> {
        let [own, microbatches, replicas] = self.sizes;
        let own = own.min(self.attended.len());
        let replica = own.saturating_mul(microbatches);
        let first = usize::try_from(block)
            .unwrap_or(usize::MAX)
            .saturating_mul(replica.saturating_mul(replicas));
        let all = self.attended.len().max(1);
        let share = |at: usize| self.attended.get(at % all).copied().unwrap_or(1.0);
        let mean = |from: usize| {
            let sum: f64 = (0..own).map(|at| share(from.wrapping_add(at))).sum();
            sum / number(own.max(1) as u64)
        };
        // More replicas than there are sequences have no others.
        let replicas = replicas.min(all);
        let most = |microbatch: usize| {
            let at = first.wrapping_add(microbatch.wrapping_mul(own));
            let of = |one: usize| mean(at.wrapping_add(one.wrapping_mul(replica)));
            (0..replicas).map(of).fold(0.0, f64::max)
        };
        (0..microbatches).map(most).collect()
    }
}

/// F, B and W of every chunk in nanoseconds, by the share of pairs of tokens that attend to each other.
struct Passes {
    /// At each point of the grid.
    at: Vec<Vec<[f64; 3]>>,
    /// The share of even microbatches.
    even: f64,
}

impl Passes {
    fn of(inputs: &Inputs<'_>, finalist: &Finalist) -> Result<Self, FinalistError> {
        let point = |at: usize| {
            let attended = number(at as u64) / number(GRID as u64);
            let recipe = Recipe { attended, ..inputs.recipe.clone() };
            times::passes(&Inputs { recipe: &recipe, ..*inputs }, finalist.costed())
        };
        let at: Result<Vec<_>, Rejected> = (0..=GRID).map(point).collect();
        Ok(Self { at: at?, even: inputs.recipe.attended })
    }

    /// F, B and W of `chunk` for a microbatch of that share.
    fn of_chunk(&self, chunk: u16, share: f64) -> [f64; 3] {
        let (below, part) = times::place(share, GRID);
        let [low, high] = [below, below + 1].map(|at| self.at[at][usize::from(chunk)]);
        std::array::from_fn(|pass| low[pass] + (high[pass] - low[pass]) * part)
    }

    /// The durations of microbatches of those shares.
    fn under(&self, shares: &[f64]) -> Uneven {
        let chunks = u16::try_from(self.at[0].len()).unwrap_or(u16::MAX);
        let of = |chunk: u16| {
            let even = self.of_chunk(chunk, self.even);
            let more = |share: &f64| {
                let own = self.of_chunk(chunk, *share);
                std::array::from_fn(|pass| times::whole(own[pass] - even[pass]))
            };
            shares.iter().map(more).collect()
        };
        Uneven { more: (0..chunks).map(of).collect() }
    }
}

/// The durations of uneven microbatches.
struct Uneven {
    /// By chunk and microbatch, by how many nanoseconds F, B and W take longer than those of even ones.
    more: Vec<Vec<[i64; 3]>>,
}

impl Durations for Uneven {
    fn pass(&self, nominal: u64, _: usize, pass: Pass, _: u32, _: u64) -> u64 {
        let own = || self.more.get(usize::from(pass.chunk))?.get(pass.microbatch as usize);
        let [forward, backward, weight] = match pass.kind {
            Kind::S | Kind::T => return nominal,
            _ => own().copied().unwrap_or_default(),
        };
        nominal.saturating_add_signed(match pass.kind {
            Kind::F | Kind::R => forward,
            Kind::B => backward,
            Kind::W => weight,
            _ => backward.saturating_add(weight),
        })
    }

    fn hop(&self, nominal: u64, _: Value, _: usize, _: usize, _: u32, _: u64) -> u64 {
        nominal
    }
}
