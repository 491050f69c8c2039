//! One value, one per stage or one per chunk, as users give them, spread over the chunks.

use crate::fault::Fault;
use crate::shape::Shape;
use crate::units::{Bytes, Nanos};

/// A quantity that a stage's chunks share.
pub trait Share: Copy {
    /// Share number `index` of `shares` nearly equal whole shares that add up to the whole.
    #[must_use]
    fn share(self, index: u64, shares: u64) -> Self;
}

impl Share for Nanos {
    fn share(self, index: u64, shares: u64) -> Self {
        Self::share(self, index, shares)
    }
}

impl Share for Bytes {
    fn share(self, index: u64, shares: u64) -> Self {
        Self::share(self, index, shares)
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
}
