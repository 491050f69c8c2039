//! Initial weights, drawn by all cores, since billions of them take one core long.

use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::model::Layout;
use crate::operands::At;
use crate::ops::{Moments, Ops};
use runtime::DeviceError;

/// Numbers per block, the unit of work of a thread.
const BLOCK: usize = 1 << 16;
/// Blocks that a thread may draw in advance.
const DRAWN: usize = 2;

/// The range of block number `block` of `len` numbers.
fn range(block: usize, len: usize) -> Range<usize> {
    let from = block.saturating_mul(BLOCK).min(len);
    from..len.min(from + BLOCK)
}

/// Calls `take` with the initial values of `layout` under `seed`, block by block in order, drawn by
/// `threads` threads: the same numbers for any number of threads.
fn in_blocks<E>(
    layout: &Layout,
    seed: u64,
    threads: usize,
    mut take: impl FnMut(usize, &[f64]) -> Result<(), E>,
) -> Result<(), E> {
    let len = layout.parameters();
    let blocks = len.div_ceil(BLOCK);
    let threads = threads.min(blocks);
    if threads <= 1 {
        let ranges = (0..blocks).map(|block| range(block, len));
        return ranges.into_iter().try_for_each(|at| take(at.start, &layout.draw(seed, at)));
    }
    thread::scope(|scope| {
        // Thread k draws blocks k, k + threads, ...: they are consumed round-robin.
        let begin = |first: usize| -> Receiver<Vec<f64>> {
            let (done, drawn) = sync_channel(DRAWN);
            scope.spawn(move || {
                let own = (first..blocks).step_by(threads);
                // The receiver is dropped after a failure.
                own.map(|block| layout.draw(seed, range(block, len)))
                    .try_for_each(|values| done.send(values))
            });
            drawn
        };
        let drawing: Vec<_> = (0..threads).map(begin).collect();
        (0..blocks).try_for_each(|block| {
            let at = range(block, len);
            match drawing[block % threads].recv() {
                Ok(values) => take(at.start, &values),
                Err(_) => take(at.start, &layout.draw(seed, at)),
            }
        })
    })
}

/// Initial weights and optimizer state on the device of `ops`.
pub fn initial<O: Ops>(
    ops: &mut O,
    layout: &Layout,
    seed: u64,
) -> Result<Moments<O::Tensor, O::Accumulator>, DeviceError> {
    let len = layout.parameters();
    let mut state = Moments {
        weights: ops.tensor(len)?,
        master: ops.accumulator(len)?,
        first: ops.accumulator(len)?,
        second: ops.accumulator(len)?,
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    in_blocks(layout, seed, cores, |from, values| {
        ops.write(values, At { buffer: &mut state.weights, from })?;
        ops.write_accumulator(values, At { buffer: &mut state.master, from })
    })?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::model::Model;

    #[test]
    fn any_number_of_threads_draws_the_same_numbers() {
        // Three blocks and a part of a fourth.
        let layout = Layout::whole(Model::new(64, 2, 3, 700, 32, 1).unwrap());
        assert!(layout.parameters() > 3 * BLOCK && !layout.parameters().is_multiple_of(BLOCK));
        let all: Vec<u64> = layout.starts(5).map(f64::to_bits).collect();
        for threads in [1, 2, 3, 16] {
            let mut drawn = vec![0; all.len()];
            let mut next = 0;
            let take = |from: usize, values: &[f64]| {
                assert_eq!(from, next, "blocks come in order");
                next += values.len();
                drawn[from..next]
                    .copy_from_slice(&values.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
                Ok::<_, Infallible>(())
            };
            in_blocks(&layout, 5, threads, take).unwrap();
            assert!(next == all.len() && drawn == all, "{threads} threads");
        }
    }

    #[test]
    fn drawing_ends_where_taking_fails() {
        let layout = Layout::whole(Model::new(64, 2, 3, 700, 32, 1).unwrap());
        let failed = in_blocks(&layout, 0, 4, |from, _| if from == 0 { Ok(()) } else { Err(from) });
        assert_eq!(failed, Err(BLOCK));
    }
}
