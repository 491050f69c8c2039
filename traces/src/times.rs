//! How long operations take: as measured, or as they might have.

use std::collections::BTreeMap;

use pipeline::{Kind, Nanos, Pass};

use crate::hops::median;
use crate::operation::{OpType, Operation};
use crate::run::Run;

/// Duration of every operation of a run by itself, for [`Run::predict`].
#[derive(Clone)]
pub struct Times {
    pub(crate) own: Vec<u64>,
    /// How long each hesitates before it starts; empty if none does.
    pub(crate) launch: Vec<u64>,
    pub(crate) free_links: bool,
}

impl Times {
    /// The times of the run itself. Operations start as soon as they can.
    #[must_use]
    pub fn measured(run: &Run) -> Self {
        Self { own: run.own().to_vec(), launch: Vec::new(), free_links: false }
    }

    /// The same, but between two operations of a rank passes what always passes between two such
    /// operations on that stage: the shortest delay of the run, as what the host or something that
    /// the trace leaves out takes. Longer ones are waits that nothing in the trace explains.
    #[must_use]
    pub fn with_launch_delays(self, run: &Run) -> Self {
        let delays = run.launch_delays();
        let mut before = None;
        let mut keys = Vec::with_capacity(delays.len());
        for one in run.operations() {
            let rank = (one.step, one.dp_rank, one.stage);
            let follows = before.filter(|&(other, _)| other == rank).map(|(_, optype)| optype);
            keys.push((one.stage, one.optype, follows));
            before = Some((rank, one.optype));
        }
        let mut shortest = BTreeMap::new();
        for (key, delay) in keys.iter().zip(delays) {
            shortest
                .entry(key)
                .and_modify(|least: &mut u64| *least = delay.min(*least))
                .or_insert(delay);
        }
        Self { launch: keys.iter().map(|key| shortest[key]).collect(), ..self }
    }

    /// The same times with transfers between stages that take no time.
    #[must_use]
    pub fn with_free_links(mut self, run: &Run) -> Self {
        for (own, one) in self.own.iter_mut().zip(run.operations()) {
            if matches!(one.optype, OpType::Transfer(..)) {
                *own = 0;
            }
        }
        Self { free_links: true, ..self }
    }

    /// The same times with the durations that `time` gives for passes; all other durations stay as they are.
    #[must_use]
    pub fn with_passes(
        mut self,
        run: &Run,
        time: impl Fn(&Operation, Pass) -> Option<Nanos>,
    ) -> Self {
        for (own, one) in self.own.iter_mut().zip(run.operations()) {
            if let Some(nanos) = one.pass().and_then(|pass| time(one, pass)) {
                *own = nanos.0;
            }
        }
        self
    }
}

/// The median time of each kind of pass in each chunk, over data-parallel ranks, microbatches and
/// steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medians {
    passes: BTreeMap<(Kind, u16), Nanos>,
    transfer: Nanos,
}

impl Medians {
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let timed = || run.operations().iter().zip(run.own().iter().copied());
        let passes = timed().filter_map(|(one, own)| Some((one.pass()?, own)));
        let passes = medians(passes.map(|(pass, own)| ((pass.kind, pass.chunk), own)));
        let transfers = timed().filter(|(one, _)| matches!(one.optype, OpType::Transfer(..)));
        let transfer = medians(transfers.map(|(_, own)| ((), own)));
        Self {
            passes: passes.into_iter().map(|(key, nanos)| (key, Nanos(nanos))).collect(),
            transfer: Nanos(transfer.get(&()).copied().unwrap_or_else(|| run.hop())),
        }
    }

    /// The median of `kind` in `chunk`; 0 if the run has none.
    #[must_use]
    pub fn pass(&self, kind: Kind, chunk: u16) -> Nanos {
        self.passes.get(&(kind, chunk)).copied().unwrap_or_default()
    }

    /// The median of a transfer between two stages; the median of the estimated hops if the
    /// trace has no transfers.
    #[must_use]
    pub const fn transfer(&self) -> Nanos {
        self.transfer
    }

    /// The mean over the chunks: the same work, spread evenly over the stages.
    #[must_use]
    pub fn balanced(&self, kind: Kind) -> Nanos {
        let times = self.by_chunk(kind);
        let sum: u128 = times.iter().copied().map(u128::from).sum();
        Nanos(u64::try_from(sum / times.len().max(1) as u128).unwrap_or(u64::MAX))
    }

    /// The median over the chunks: what an ordinary stage takes.
    #[must_use]
    pub fn typical(&self, kind: Kind) -> Nanos {
        Nanos(median(&mut self.by_chunk(kind)))
    }

    fn by_chunk(&self, kind: Kind) -> Vec<u64> {
        let of_kind = self.passes.iter().filter(|((one, _), _)| *one == kind);
        of_kind.map(|(_, nanos)| nanos.0).collect()
    }
}

/// The median of each group.
fn medians<K: Ord>(values: impl Iterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    let mut groups: BTreeMap<K, Vec<u64>> = BTreeMap::new();
    values.for_each(|(key, value)| groups.entry(key).or_default().push(value));
    groups.into_iter().map(|(key, mut values)| (key, median(&mut values))).collect()
}
