//! One value, one per stage or one per chunk, as users give them, spread over the chunks.

use crate::fault::Fault;
use crate::shape::Shape;
use crate::units::{Bytes, Nanos};

/// A quantity that a stage's chunks share.
pub trait Share: Copy {
    /// Share number `index` of `shares` nearly equal whole shares that add up to the whole.
    #[must_use]
    fn share(self, index: u64, shares: u64) -> Self;

    /// `part` of `whole` equal parts, to the nearest unit.
    #[must_use]
    fn part(self, part: u64, whole: u64) -> Self;
}

/// `part` of the `whole` equal parts of `value`, to the nearest unit.
fn part_of(value: u64, part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    let parts = u128::from(value) * u128::from(part);
    u64::try_from((parts + whole / 2) / whole).unwrap_or(u64::MAX)
}

impl Share for Nanos {
    fn share(self, index: u64, shares: u64) -> Self {
        Self::share(self, index, shares)
    }

    fn part(self, part: u64, whole: u64) -> Self {
        Self(part_of(self.0, part, whole))
    }
}

impl Share for Bytes {
    fn share(self, index: u64, shares: u64) -> Self {
        Self::share(self, index, shares)
    }

    fn part(self, part: u64, whole: u64) -> Self {
        Self(part_of(self.0, part, whole))
    }
}

/// The value of every chunk in model order, from one value for all stages, one per stage (the
/// stage's chunks share it), or one per chunk. `stage_of` says where a chunk lives.
///
/// # Errors
/// [`Fault::ValueCount`] for any other number of values.
pub fn spread<T: Share>(
    what: &'static str,
    values: &[T],
    shape: Shape,
    stage_of: impl Fn(u16) -> usize,
) -> Result<Vec<T>, Fault> {
    let (stages, chunks) = (shape.stages(), shape.chunks());
    if values.len() == usize::from(chunks) {
        return Ok(values.to_vec());
    }
    let shares = u64::from(shape.chunks_per_stage());
    let share = |chunk: u16, whole: T| whole.share(u64::from(chunk) / stages as u64, shares);
    match values {
        [all] => Ok((0..chunks).map(|chunk| share(chunk, *all)).collect()),
        each if each.len() == stages => {
            Ok((0..chunks).map(|chunk| share(chunk, each[stage_of(chunk)])).collect())
        }
        _ => Err(Fault::ValueCount { what, given: values.len(), stages, chunks }),
    }
}

/// The value of every chunk in model order as [`spread`] has it, where the chunks have `layers` layers: a value
/// for all stages is that of the mean stage, and one of a stage is shared by its chunks, by layers both.
///
/// # Errors
/// [`Fault::ValueCount`] for any other number of values.
pub fn spread_by_layers<T: Share>(
    what: &'static str,
    values: &[T],
    shape: Shape,
    layers: &[u64],
    stage_of: impl Fn(u16) -> usize,
) -> Result<Vec<T>, Fault> {
    let even = spread(what, values, shape, &stage_of)?;
    let (stages, chunks) = (shape.stages(), usize::from(shape.chunks()));
    if values.len() == chunks || layers.len() != chunks {
        return Ok(even);
    }
    let mut of_stage = vec![0_u64; stages];
    let mut all = 0_u64;
    for (chunk, &layers) in (0..).zip(layers) {
        of_stage[stage_of(chunk)] += layers;
        all += layers;
    }
    let one = |(chunk, (&layers, even)): (u16, (&u64, T))| {
        let stage = stage_of(chunk);
        match values {
            [mean] => mean.part(layers.saturating_mul(stages as u64), all),
            // A stage without layers has its time from the ends of the model.
            _ if of_stage[stage] == 0 => even,
            each => each[stage].part(layers, of_stage[stage]),
        }
    };
    Ok((0..).zip(layers.iter().zip(even)).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Placement;

    #[test]
    fn values_for_all_stages_or_each_stage_or_each_chunk() {
        let shape = Shape::new(2, 2, 1).unwrap();
        let vee = |chunk| Placement::Vee.stage(shape, chunk, 0);
        let spread = |values: &[u64]| {
            let values: Vec<Nanos> = values.iter().copied().map(Nanos).collect();
            let chunks = spread("forward", &values, shape, vee)?;
            Ok::<_, Fault>(chunks.into_iter().map(|nanos| nanos.0).collect::<Vec<_>>())
        };
        assert_eq!(spread(&[7]), Ok(vec![4, 4, 3, 3]));
        assert_eq!(spread(&[10, 20]), Ok(vec![5, 10, 10, 5]));
        assert_eq!(spread(&[1, 2, 3, 4]), Ok(vec![1, 2, 3, 4]));
        let fault = Fault::ValueCount { what: "forward", given: 3, stages: 2, chunks: 4 };
        assert_eq!(spread(&[1, 2, 3]), Err(fault));
    }

    #[test]
    fn layers_share_what_stages_have() {
        let shape = Shape::new(2, 2, 1).unwrap();
        let spread = |values: &[u64], layers: &[u64]| {
            let values: Vec<Nanos> = values.iter().copied().map(Nanos).collect();
            let looped = |chunk| Placement::Looped.stage(shape, chunk, 0);
            let chunks = spread_by_layers("forward", &values, shape, layers, looped)?;
            Ok::<_, Fault>(chunks.into_iter().map(|nanos| nanos.0).collect::<Vec<_>>())
        };
        // Eight layers on two stages: four take 100.
        assert_eq!(spread(&[100], &[2, 3, 3, 0]), Ok(vec![50, 75, 75, 0]));
        assert_eq!(spread(&[100, 40], &[1, 0, 3, 0]), Ok(vec![25, 20, 75, 20]));
        assert_eq!(spread(&[1, 2, 3, 4], &[9, 0, 0, 0]), Ok(vec![1, 2, 3, 4]));
        assert!(spread(&[1, 2, 3], &[1, 1, 1, 1]).is_err());
    }
}
