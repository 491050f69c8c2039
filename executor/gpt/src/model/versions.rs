//! Weights that change while the pipeline runs: a microbatch goes back through a stage with the version
//! that it came forward with.

use std::collections::{BTreeMap, HashMap};

use pipeline::{Kind, Pass, Schedule};

use crate::model::chunk::Chunk;
use crate::ops::Ops;
use runtime::{DeviceError, Updates, Versions};

/// The versions of the weights of a stage.
pub(crate) struct History<O: Ops> {
    updates: Updates,
    per_step: u32,
    /// How many updates were made: the number of the newest version, which the chunks themselves hold.
    newest: u32,
    /// Older versions that are still needed: the weights of each chunk as kernels read them.
    old: BTreeMap<u32, Vec<O::Tensor>>,
    /// The version of each chunk and microbatch that has come forward and not gone back.
    used: HashMap<(u16, u32), u32>,
    /// The most versions held at once so far.
    most: usize,
}

impl<O: Ops> History<O> {
    /// Before the first update of a stage of `schedule`.
    pub(crate) fn new(updates: Updates, schedule: &Schedule) -> Self {
        let per_step = updates.per_step(schedule);
        let (old, used) = (BTreeMap::new(), HashMap::new());
        Self { updates, per_step, newest: 0, old, used, most: 1 }
    }

    /// The most versions held at once so far, the newest among them.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// The version that `pass` of `step` works with, if it is not the newest.
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

    /// Exchanges the weights of chunk number `at` of the stage with those of an older version: once to
    /// work with them, and again to have the newest back.
    pub(crate) fn exchange(&mut self, version: u32, at: usize, chunk: &mut Chunk<O>) {
        if let Some(old) = self.old.get_mut(&version).and_then(|all| all.get_mut(at)) {
            std::mem::swap(&mut chunk.state.weights, old);
        }
    }

    /// Takes note that `pass` is done, and lets go of what no other needs.
    pub(crate) fn done(&mut self, pass: Pass) {
        if matches!(pass.kind, Kind::B | Kind::BW) {
            self.used.remove(&(pass.chunk, pass.microbatch));
            self.let_go();
        }
    }

    /// Before an update: keeps the newest version if it is needed behind it.
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
