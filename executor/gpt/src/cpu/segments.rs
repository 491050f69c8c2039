//! The kernels of attention over earlier segments on a core.

use crate::cpu::Cpu;
use crate::cpu::attention::softmax_backward;
use crate::cpu::real::Real;
use crate::cpu::tokens::softmax;
use crate::segment_kernels::SegmentKernels;
use runtime::DeviceError;

impl<T: Real> SegmentKernels for Cpu<T> {
    type Tensor = Vec<T>;

    fn join_segments(
        &mut self,
        heads: usize,
        each: usize,
        parts: &[&Vec<T>],
        all: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let mut to = all.chunks_exact_mut(each);
        for head in 0..heads {
            for (part, to) in parts.iter().zip(&mut to) {
                to.copy_from_slice(&part[head * each..(head + 1) * each]);
            }
        }
        Ok(())
    }

    fn segment_of(
        &mut self,
        heads: usize,
        each: usize,
        index: usize,
        count: usize,
        all: &Vec<T>,
        part: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        for (head, to) in part.chunks_exact_mut(each).take(heads).enumerate() {
            let from = (head * count + index) * each;
            to.copy_from_slice(&all[from..from + each]);
        }
        Ok(())
    }

    fn causal_softmax_behind(
        &mut self,
        heads: usize,
        rows: usize,
        columns: usize,
        x: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let scores = x[..heads * rows * columns].chunks_exact_mut(columns);
        for (index, row) in scores.enumerate() {
            let (seen, hidden) = row.split_at_mut(columns - rows + index % rows + 1);
            softmax(seen);
            hidden.fill(T::zero());
        }
        Ok(())
    }

    fn softmax_backward_behind(
        &mut self,
        heads: usize,
        rows: usize,
        columns: usize,
        scale: f32,
        p: &Vec<T>,
        dp: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let len = heads * rows * columns;
        softmax_backward(columns, T::of(scale.into()), &p[..len], &mut dp[..len]);
        Ok(())
    }
}
