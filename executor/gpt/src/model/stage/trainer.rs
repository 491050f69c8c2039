//! The boundary of a step on a stage: norm, update, and the gradients of another stage with the
//! same weights.

use super::Gpt;
use crate::model::chunk::Chunk;
use crate::model::shard::Shard;
use runtime::{DeviceError, Norm, Trainer, Undo};

use crate::model::replica;
use crate::ops::Ops;

impl<O: Ops> Trainer for Gpt<O> {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        let ops = &mut self.device.ops;
        let counted = self.chunks.iter().filter(|(number, _)| self.counted.contains(number));
        counted.into_iter().try_fold(Norm::default(), |norm, (_, chunk)| {
            let (squares, is_bad) = ops.norm(&chunk.gradients)?;
            Ok(norm.and(Norm { squares, is_bad }))
        })
    }

    fn shared_bytes(&self) -> usize {
        if self.is_shared { replica::shared_bytes(&self.device.ops, &self.chunks) } else { 0 }
    }

    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        if self.is_shared {
            replica::share(&mut self.device.ops, &self.chunks)
        } else {
            Ok(Vec::new())
        }
    }

    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        match self.is_shared {
            true => replica::merge(&mut self.device.ops, &mut self.chunks, theirs),
            false => Ok(()),
        }
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        let ops = &mut self.device.ops;
        if self.training.undo == Undo::Snapshot {
            self.snapshots.clear();
            let copies = self.chunks.iter().map(|(_, chunk)| ops.copy_state(&chunk.state));
            self.snapshots = copies.collect::<Result<_, _>>()?;
        }
        if let Some(history) = &mut self.history {
            history.keep(ops, &self.chunks)?;
        }
        self.updates += 1;
        for (_, Chunk { gradients, state, .. }) in &mut self.chunks {
            ops.adamw(self.training.rule, self.updates, scale, gradients, state)?;
        }
        Ok(())
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        let no_update = || DeviceError::NotAtHand { what: "an update to take back".to_owned() };
        let before = self.updates.checked_sub(1).ok_or_else(no_update)?;
        match self.training.undo {
            Undo::Inverse => {
                let ops = &mut self.device.ops;
                for (_, Chunk { gradients, state, .. }) in &mut self.chunks {
                    ops.adamw_undo(self.training.rule, self.updates, scale, gradients, state)?;
                }
            }
            Undo::Snapshot if self.snapshots.len() != self.chunks.len() => return Err(no_update()),
            Undo::Snapshot => {
                let states = std::mem::take(&mut self.snapshots);
                for ((_, chunk), state) in self.chunks.iter_mut().zip(states) {
                    chunk.state = state;
                }
            }
        }
        self.updates = before;
        Ok(())
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.step = step;
        self.shard.iter_mut().for_each(Shard::clear);
        let ops = &mut self.device.ops;
        self.chunks.iter_mut().try_for_each(|(_, chunk)| chunk.clear_loss(ops))
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        let ops = &mut self.device.ops;
        self.chunks.iter_mut().try_for_each(|(_, chunk)| ops.clear(&mut chunk.gradients))
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        let ops = &mut self.device.ops;
        let mut losses = self.chunks.iter().map(|(_, chunk)| chunk.loss(ops));
        losses.find_map(Result::transpose).transpose()
    }
}
