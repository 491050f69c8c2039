//! Weights that change while the pipeline runs: the backward of a microbatch uses the version of
//! its forward.

use std::collections::{BTreeMap, HashMap};

use pipeline::{Kind, Pass, Schedule};

use crate::model::chunk::Chunk;
use crate::ops::Ops;
use runtime::{DeviceError, Updates, Versions};

/// The versions of the weights of a stage.
pub(crate) struct History<O: Ops> {
    updates: Updates,
    per_step: u32,
    /// Number of updates so far: the number of the newest version, which the chunks themselves
    /// hold.
    newest: u32,
    /// Older versions in use: the weights of each chunk as kernels read them.
    old: BTreeMap<u32, Vec<O::Tensor>>,
    /// The version of each chunk and microbatch between forward and backward.
    used: HashMap<(u16, u32), u32>,
    /// Peak number of versions held at once so far.
    most: usize,
}

impl<O: Ops> History<O> {
    /// The history before the first update of a stage of `schedule`.
    pub(crate) fn new(updates: Updates, schedule: &Schedule) -> Self {
        let per_step = updates.per_step(schedule);
        let (old, used) = (BTreeMap::new(), HashMap::new());
        Self { updates, per_step, newest: 0, old, used, most: 1 }
    }

    /// Peak number of versions held at once so far, the newest included.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// The version that `pass` of `step` uses, if it is not the newest.
    pub(crate) fn version(&mut self, pass: Pass, step: u32) -> Result<Option<u32>, DeviceError> {
        let cell = (pass.chunk, pass.microbatch);
        let missing =
            || DeviceError::NotAtHand { what: format!("the version of the weights of {pass}") };
        let version = match (pass.kind, self.updates.versions) {
            (Kind::F, Versions::Stashed) => self.newest,
            (Kind::F, Versions::DoubleBuffered) => {
                let update = step * self.per_step + pass.microbatch / self.updates.microbatches;
                update.saturating_sub(1)
            }
            (Kind::R | Kind::B | Kind::BW, _) => *self.used.get(&cell).ok_or_else(missing)?,
            _ => return Ok(None),
        };
        if version != self.newest && !self.old.contains_key(&version) {
            return Err(missing());
        }
        if pass.kind == Kind::F {
            self.used.insert(cell, version);
        }
        Ok((version != self.newest).then_some(version))
    }

    /// Swaps the weights of chunk number `at` of the stage with those of an older version: once to
    /// use them, and again to restore the newest.
    pub(crate) fn exchange(&mut self, version: u32, at: usize, chunk: &mut Chunk<O>) {
        if let Some(old) = self.old.get_mut(&version).and_then(|all| all.get_mut(at)) {
            std::mem::swap(&mut chunk.state.weights, old);
        }
    }

    /// Records that `pass` is done, and frees versions that no other pass needs.
    pub(crate) fn done(&mut self, pass: Pass) {
        if matches!(pass.kind, Kind::B | Kind::BW) {
            self.used.remove(&(pass.chunk, pass.microbatch));
            self.let_go();
        }
    }

    /// Called before an update: keeps the newest version if later passes need it.
    pub(crate) fn keep(
        &mut self,
        ops: &mut O,
        chunks: &[(u16, Chunk<O>)],
    ) -> Result<(), DeviceError> {
        let is_needed = match self.updates.versions {
            Versions::Stashed => self.used.values().any(|&version| version == self.newest),
            Versions::DoubleBuffered => true,
        };
        if is_needed {
            let copies = chunks.iter().map(|(_, chunk)| ops.copy_tensor(&chunk.state.weights));
            self.old.insert(self.newest, copies.collect::<Result<_, _>>()?);
        }
        self.newest += 1;
        self.let_go();
        self.most = self.most.max(self.old.len() + 1);
        Ok(())
    }

    fn let_go(&mut self) {
        let Self { updates, newest, old, used, .. } = self;
        let is_next =
            |version: u32| updates.versions == Versions::DoubleBuffered && version + 1 >= *newest;
        old.retain(|&version, _| is_next(version) || used.values().any(|&one| one == version));
    }
}
