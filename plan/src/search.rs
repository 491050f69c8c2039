//! All set-ups of a question on a cluster, and the best of them.

use std::collections::BTreeMap;

use pipeline::{Chunks, Family, Nanos, Vocabulary};
use rayon::prelude::*;
use sim::Replay;

use crate::evaluate::{Evaluation, Ground, Overflow, Rejected};
use crate::model::Recompute;
use crate::orders::Orders;
use crate::setup::{Cluster, Setup, Split, Unfit, Zero};

/// The most set-ups of one cluster.
pub const MAX_SETUPS: usize = 200_000;
/// How many are simulated before the rest is held against the best of them. The same on any number
/// of threads, so that the answer is.
const ROUND: usize = 32;

/// The values that each part of a set-up may take; the replicas follow.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    /// t.
    pub tensor: Vec<u64>,
    /// p.
    pub pipeline: Vec<u64>,
    /// c.
    pub context: Vec<u64>,
    /// e.
    pub expert: Vec<u64>,
    /// ZeRO.
    pub zero: Vec<Zero>,
    /// b.
    pub microbatch: Vec<u64>,
    /// v, for schedules that have a choice.
    pub chunks: Vec<u64>,
    /// Schedules.
    pub families: Vec<Family>,
    /// Recomputation.
    pub recompute: Vec<Recompute>,
    /// How layers are dealt.
    pub split: Vec<Split>,
    /// Whether the vocabulary is shared by all stages.
    pub vocabulary_parallel: Vec<bool>,
}

impl Space {
    /// The set-ups on `cluster` whose groups multiply to its devices; `None` if there are more than
    /// [`MAX_SETUPS`].
    #[must_use]
    pub fn setups(&self, cluster: &Cluster) -> Option<Vec<Setup>> {
        let lists = [
            self.tensor.len(),
            self.pipeline.len(),
            self.context.len(),
            self.expert.len(),
            self.microbatch.len(),
        ];
        let products = lists.iter().fold(1, |product: usize, &len| product.saturating_mul(len));
        if products > 10 * MAX_SETUPS {
            return None;
        }
        let mut all = Vec::new();
        for groups in self.groups(cluster.devices()) {
            for &family in &self.families {
                // A pipeline of one stage has no order to choose: the first schedule stands for
                // all.
                if groups.pipeline == 1 && family != Family::OneFOneB {
                    continue;
                }
                for chunks in self.chunks_of(family) {
                    self.add_rest(&Setup { family, chunks, ..groups }, &mut all);
                    if all.len() > MAX_SETUPS {
                        return None;
                    }
                }
            }
        }
        Some(all)
    }

    /// Every choice of t, p, c, e and b whose rest is replicas; the other parts are the first ones.
    fn groups(&self, devices: u64) -> Vec<Setup> {
        let mut all = Vec::new();
        for (&tensor, &pipeline) in pairs(&self.tensor, &self.pipeline) {
            for (&context, &expert) in pairs(&self.context, &self.expert) {
                let model = tensor.saturating_mul(pipeline).saturating_mul(context);
                if model == 0 || !devices.is_multiple_of(model) {
                    continue;
                }
                all.extend(self.microbatch.iter().map(|&microbatch| Setup {
                    data: devices / model,
                    tensor,
                    pipeline,
                    context,
                    expert,
                    zero: Zero::None,
                    microbatch,
                    chunks: 1,
                    family: Family::OneFOneB,
                    recompute: Recompute::None,
                    split: Split::Even,
                    vocabulary_parallel: false,
                }));
            }
        }
        all
    }

    /// The numbers of chunks per stage that `family` is tried with.
    fn chunks_of(&self, family: Family) -> Vec<u64> {
        match family.about().chunks {
            Chunks::Exactly(chunks) => vec![u64::from(chunks)],
            // With one chunk, an interleaved schedule is the plain one.
            Chunks::Any { .. } => {
                self.chunks.iter().copied().filter(|&chunks| chunks > 1).collect()
            }
        }
    }

    fn add_rest(&self, setup: &Setup, all: &mut Vec<Setup>) {
        // A schedule with passes for it has the vocabulary on all stages.
        let shared = match setup.family.vocabulary() {
            Vocabulary::Whole => &self.vocabulary_parallel[..],
            Vocabulary::OneBarrier | Vocabulary::TwoBarriers => &[true],
        };
        for (&recompute, &zero) in pairs(&self.recompute, &self.zero) {
            for (&split, &vocabulary_parallel) in pairs(&self.split, shared) {
                // One stage has nothing to deal or to share.
                let single = setup.pipeline == 1;
                if single && (split != self.split[0] || vocabulary_parallel) {
                    continue;
                }
                all.push(Setup { recompute, zero, split, vocabulary_parallel, ..*setup });
            }
        }
    }
}

fn pairs<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The best set-ups, the fastest first.
    pub best: Vec<Evaluation>,
    /// How many were simulated.
    pub simulated: u64,
    /// How many were not, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Of those that no device holds, the one that lacks least.
    pub nearest: Option<(Setup, Overflow)>,
}

/// Why a set-up is left out although it may be possible.
pub const PRUNED: &str = "pruned: its lower bound is slower than the best plan";
/// Why a set-up is left out that no device holds.
pub const NO_MEMORY: &str = "more memory than a device has";
/// Why a set-up is left out that nobody waits for any more.
pub const STOPPED: &str = "not looked at before the search was ended";

/// Who waits for a search, and what several searches share.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Hears how many set-ups more are decided.
    pub done: &'a (dyn Fn(u64) + Sync),
    /// Whether to end with what is found so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Orders that were made before.
    pub orders: &'a Orders,
}

/// The `count` fastest of `setups`. `done` hears how many more are decided.
#[must_use]
pub fn search(
    ground: &Ground<'_>,
    setups: &[Setup],
    count: usize,
    done: &(impl Fn(u64) + Sync),
) -> Found {
    let orders = Orders::default();
    search_with(ground, setups, count, Watch { done, stop: &|| false, orders: &orders })
}

/// The `count` fastest of `setups`, or of those that were looked at before `watch` ended it; of two
/// that take as long, the one that is named first.
#[must_use]
pub fn search_with(ground: &Ground<'_>, setups: &[Setup], count: usize, watch: Watch<'_>) -> Found {
    let mut found = Found::default();
    // Costs are made again when they are needed: those of all set-ups would take gigabytes.
    let is_plain = |setup: &Setup| setup.pipeline > 1 && !setup.copies();
    let has_others = setups.iter().any(is_plain);
    let least = |setup: &Setup| {
        // Beside schedules that keep activations, copies are for where those have no room.
        let is_needless = has_others && setup.copies();
        if is_needless && setup.recompute != Recompute::None {
            Err(Unfit::Needless)?;
        }
        let costed = ground.cost(setup)?;
        ground.check_least(&costed)?;
        if is_needless && costed.has_room() {
            Err(Unfit::Needless)?;
        }
        Ok(ground.least(&costed))
    };
    let bounds: Vec<Option<Result<Nanos, Rejected>>> =
        setups.par_iter().map(|setup| (!(watch.stop)()).then(|| least(setup))).collect();
    let mut possible = Vec::new();
    for (at, bound) in bounds.into_iter().enumerate() {
        match bound {
            Some(Ok(least)) => {
                possible.push((least, at));
                continue;
            }
            Some(Err(rejected)) => found.leave_out(setups[at], &rejected),
            None => found.leave_out_all(STOPPED, 1),
        }
        (watch.done)(1);
    }
    possible.sort_unstable();
    let mut best = Best { kept: Vec::new(), count };
    let mut rest = &possible[..];
    while !rest.is_empty() {
        let hopeful = if (watch.stop)() { 0 } else { best.hopeful(rest) };
        let reason = if hopeful == 0 && best.hopeful(rest) > 0 { STOPPED } else { PRUNED };
        let hopeless = (rest.len() - hopeful) as u64;
        found.leave_out_all(reason, hopeless);
        let round;
        (round, rest) = rest[..hopeful].split_at(hopeful.min(ROUND));
        found.simulate(ground, setups, round, watch.orders, &mut best);
        (watch.done)(hopeless + round.len() as u64);
    }
    found.best = best.kept.into_iter().map(|(_, _, evaluation)| evaluation).collect();
    found
}

/// The fastest set-ups so far, by step and place.
struct Best {
    kept: Vec<(Nanos, usize, Evaluation)>,
    count: usize,
}

impl Best {
    fn add(&mut self, at: usize, evaluation: Evaluation) {
        self.kept.push((evaluation.step, at, evaluation));
    }

    fn keep_count(&mut self) {
        self.kept.sort_by_key(|&(step, at, _)| (step, at));
        self.kept.truncate(self.count);
    }

    /// How many of `ascending` bounds and places could still be among the best.
    fn hopeful(&self, ascending: &[(Nanos, usize)]) -> usize {
        match self.kept.last() {
            Some(&(step, at, _)) if self.kept.len() >= self.count => {
                ascending.partition_point(|bound| *bound < (step, at))
            }
            _ => ascending.len(),
        }
    }
}

impl Found {
    fn simulate(
        &mut self,
        ground: &Ground<'_>,
        setups: &[Setup],
        round: &[(Nanos, usize)],
        orders: &Orders,
        best: &mut Best,
    ) {
        let evaluate = |replay: &mut Replay, &(_, at): &(Nanos, usize)| {
            let costed = ground.cost(&setups[at]);
            (at, costed.and_then(|costed| ground.evaluate_in(costed, replay, orders)))
        };
        let all: Vec<_> = round.par_iter().map_init(Replay::new, evaluate).collect();
        for (at, evaluated) in all {
            match evaluated {
                Ok(evaluation) => {
                    self.simulated += 1;
                    best.add(at, evaluation);
                }
                Err(rejected) => self.leave_out(setups[at], &rejected),
            }
        }
        best.keep_count();
    }

    fn leave_out_all(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.left_out.entry(reason.to_owned()).or_default() += count;
        }
    }

    fn leave_out(&mut self, setup: Setup, rejected: &Rejected) {
        let reason = match rejected {
            Rejected::Unfit(unfit) => unfit.to_string(),
            Rejected::Schedule(_) => {
                format!("{} cannot do the shape or the memory", setup.family.name())
            }
            Rejected::Memory(_) => NO_MEMORY.to_owned(),
        };
        self.leave_out_all(&reason, 1);
        if let Rejected::Memory(overflow) = rejected {
            let lacks = |overflow: &Overflow| overflow.needs.0 - overflow.has.0;
            if self.nearest.is_none_or(|(_, known)| lacks(overflow) < lacks(&known)) {
                self.nearest = Some((setup, *overflow));
            }
        }
    }
}
