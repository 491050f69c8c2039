//! Branch and bound: is there an order of this cost or less?
//!
//! Where windows do not settle it, a pair of passes is tried both ways, again and again. What is
//! decided makes windows smaller, so in the end either they contradict each other or every pair is
//! decided; and then the order with every pass as soon as it can is within the cost.
//!
//! *Which pair.* One that leaves little time whichever way it is, of passes that have been in the way before:
//! each [`Contradiction`] gives weight to the pass at which it came up and to the pair that was decided last, and the
//! time that a pair leaves is divided by its weight (the weighted degree of constraint programming, as
//! Grimes, Hebrard and Malapert use it for shops in *Closing the open shop*, 2009). Weights are kept from
//! question to question, so that a tree that was given up helps the next one.

use pipeline::{Order, Pass, Schedule};
use search::Instance;

use crate::compiled_instance::CompiledInstance;
use crate::windows::{Contradiction, Pair, Windows, passes};

/// A node of a branching log, as [`search::bounds::Proof`] has it.
type Node = Option<[Pass; 2]>;

/// The answer to the question.
pub(crate) enum Decision {
    /// There may be such an order: this one is worth timing.
    Order(Schedule),
    /// There is none: the log of the tree.
    None(Vec<Node>),
    /// The nodes allowed were too few, or the caller stopped the search.
    Unknown,
}

/// The open branches of a tree: pairs of passes of a stage, for all passes, once for each. Whoever
/// follows a log keeps windows for as many.
const MOST_OPEN: usize = 1 << 29;

/// How often each pass was in the way.
pub(crate) struct Weights {
    /// By pass.
    of: Vec<i64>,
    /// Added to the time that a pair leaves, so that weights count where that is none: about half a pass.
    grain: i64,
}

impl Weights {
    pub(crate) fn of(compiled: &CompiledInstance) -> Self {
        let times: i64 = compiled.lanes.iter().map(|lane| lane.time).sum();
        let grain = times / i64::try_from(2 * compiled.lanes.len()).unwrap_or(i64::MAX) + 1;
        Self { of: vec![1; compiled.passes()], grain }
    }

    /// Notes a contradiction at `pass`, behind the decision on `pair`.
    fn note(&mut self, pass: usize, pair: Option<Pair>) {
        self.of[pass] += 1;
        if let Some(Pair { first, second }) = pair {
            self.of[first] += 1;
            self.of[second] += 1;
        }
    }

    /// The time that `pair` leaves, counted both ways, and its weight.
    fn key(&self, pair: Pair, [one, two]: [i64; 2]) -> [i128; 2] {
        let weight = self.of[pair.first] + self.of[pair.second];
        let time = i128::from(one) + i128::from(two) + i128::from(self.grain);
        [time, i128::from(weight)]
    }
}

/// The question, and what may be spent on it.
pub(crate) struct Question<'a> {
    pub(crate) compiled: &'a CompiledInstance,
    /// Nodes of the tree.
    pub(crate) nodes: usize,
    /// The most branches that are open at a time.
    pub(crate) open: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Question<'_> {
    /// The most open branches of a tree over all orders of `compiled`.
    pub(crate) fn most_open(compiled: &CompiledInstance) -> usize {
        MOST_OPEN / (compiled.passes() * compiled.width * compiled.microbatches)
    }

    /// Answers it for the orders within `windows`, nothing where those contradict each other, and says how many nodes
    /// that took. `candidate` gives an order for the windows of a node, if there is one within cost and limits.
    pub(crate) fn decide(
        &self,
        windows: Option<&mut Windows>,
        weights: &mut Weights,
        candidate: &mut dyn FnMut(&Windows) -> Option<Schedule>,
    ) -> (Decision, usize) {
        let mut log = Vec::new();
        let decision = match windows {
            Some(windows) => self.grow(windows, &mut log, weights, candidate),
            None => {
                log.push(None);
                None
            }
        };
        let nodes = log.len();
        (decision.unwrap_or(Decision::None(log)), nodes)
    }

    /// Grows the tree; nothing where all of it is refuted.
    fn grow(
        &self,
        windows: &mut Windows,
        log: &mut Vec<Node>,
        weights: &mut Weights,
        candidate: &mut dyn FnMut(&Windows) -> Option<Schedule>,
    ) -> Option<Decision> {
        let compiled = self.compiled;
        // The other way of each pair on the path to the node, and the state in which it was decided.
        let mut open: Vec<(usize, Pair)> = Vec::new();
        let mut pair = None;
        loop {
            if (self.stop)() || log.len() >= self.nodes {
                return Some(Decision::Unknown);
            }
            let decided = pair.map_or(Ok(()), |pair| windows.decide(compiled, pair));
            let concluded = decided.and_then(|()| windows.conclude(compiled, self.stop));
            if let Err(Contradiction { pass }) = concluded {
                log.push(None);
                weights.note(pass, pair);
                let (mark, other) = open.pop()?;
                windows.undo(mark);
                pair = Some(other);
                continue;
            }
            if (self.stop)() {
                return Some(Decision::Unknown);
            }
            if let Some(order) = candidate(windows) {
                return Some(Decision::Order(order));
            }
            if open.len() + 2 > self.open {
                return Some(Decision::Unknown);
            }
            let Some(next) = next(compiled, windows, weights) else {
                return Some(Decision::Unknown);
            };
            log.push(Some([compiled.name(next.first), compiled.name(next.second)]));
            open.push((windows.mark(), next.turned()));
            pair = Some(next);
        }
    }
}

/// The passes of every stage by their heads.
pub(crate) fn schedule(
    instance: &Instance,
    compiled: &CompiledInstance,
    windows: &Windows,
) -> Option<Schedule> {
    let stage = |stage| {
        let mut order: Vec<usize> = passes(compiled, stage).map(|(_, pass)| pass).collect();
        // Of passes that take no time, those go first that must.
        let key = |&pass: &usize| {
            (windows.heads[pass], windows.surely_before(compiled, pass), windows.latest[pass], pass)
        };
        order.sort_by_key(key);
        order.into_iter().map(|pass| compiled.name(pass)).collect::<Order>()
    };
    let orders = (0..compiled.stages).map(stage).collect();
    Schedule::new(instance.shape, instance.placement, orders).ok()
}

/// The undecided pair that leaves least time for its weight, counted both ways: the one that goes first with
/// more time left comes first. Nothing where all pairs are decided.
fn next(compiled: &CompiledInstance, windows: &Windows, weights: &Weights) -> Option<Pair> {
    let mut best: Option<([i128; 2], Pair)> = None;
    for stage in 0..compiled.stages {
        for (lane, pass) in passes(compiled, stage) {
            for other in lane + 1..compiled.lanes_of(stage).end {
                let [fewest, most] = windows.range(compiled, pass, other);
                for microbatch in fewest..most {
                    let pair = Pair { first: pass, second: compiled.pass(other, microbatch) };
                    let [one, two] =
                        [pair, pair.turned()].map(|pair| spare(compiled, windows, pair));
                    let key = weights.key(pair, [one, two]);
                    // The one time by its weight is less than the other by its own.
                    if best.is_none_or(|(least, _)| key[0] * least[1] < least[0] * key[1]) {
                        best = Some((key, if one >= two { pair } else { pair.turned() }));
                    }
                }
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// The time left where one pass runs before the other.
fn spare(compiled: &CompiledInstance, windows: &Windows, Pair { first, second }: Pair) -> i64 {
    let time = compiled.lanes[first / compiled.microbatches].time;
    windows.latest[second] - windows.heads[first] - time
}
