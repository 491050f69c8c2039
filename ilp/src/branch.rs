//! Branch and bound: is there an order of this cost or less?
//!
//! Where windows do not settle it, a pair of passes is tried both ways, again and again. What is
//! decided makes windows smaller, so in the end either they contradict each other or every pair is
//! decided; and then the order with every pass as soon as it can is within the cost.

use pipeline::{Order, Schedule};
use search::Instance;

use crate::line::Line;
use crate::tree::{Node, Proof};
use crate::windows::{Contradiction, Pair, Windows, passes};

/// The answer to the question.
pub(crate) enum Decision {
    /// There may be such an order: this one is worth timing.
    Order(Schedule),
    /// There is none.
    None(Proof),
    /// The nodes allowed were too few, or somebody asked to end.
    Unknown,
}

/// The open branches of a tree: pairs of passes of a stage, for all passes, once for each. Whoever
/// follows a log keeps windows for as many.
const MOST_OPEN: usize = 1 << 29;

/// The question, and what may be spent on it.
pub(crate) struct Question<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) line: &'a Line,
    /// The cost, in nanoseconds.
    pub(crate) most: i64,
    /// Nodes of the tree.
    pub(crate) nodes: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Question<'_> {
    /// Answers it, and says how many nodes that took. `suits` says whether an order is within cost
    /// and limits.
    pub(crate) fn decide(&self, suits: &dyn Fn(&Schedule) -> bool) -> (Decision, usize) {
        let mut log = Vec::new();
        let decision = self.grow(&mut log, suits);
        let nodes = log.len();
        (decision.unwrap_or_else(|| Decision::None(Proof::new(log))), nodes)
    }

    /// Grows the tree; nothing where all of it is refuted.
    fn grow(&self, log: &mut Vec<Node>, suits: &dyn Fn(&Schedule) -> bool) -> Option<Decision> {
        let line = self.line;
        // Windows and the decision with which they are to be gone on.
        let mut open: Vec<(Windows, Option<Pair>)> = match Windows::within(line, self.most) {
            Ok(windows) => vec![(windows, None)],
            Err(Contradiction) => {
                log.push(Node::Leaf);
                return None;
            }
        };
        while let Some((mut windows, pair)) = open.pop() {
            if (self.stop)() || log.len() >= self.nodes {
                return Some(Decision::Unknown);
            }
            let decided = pair.map_or(Ok(()), |pair| windows.decide(line, pair));
            if decided.and_then(|()| windows.conclude(line, self.stop)).is_err() {
                log.push(Node::Leaf);
                continue;
            }
            if (self.stop)() {
                return Some(Decision::Unknown);
            }
            let order = schedule(self.instance, line, &windows);
            if let Some(order) = order.filter(suits) {
                return Some(Decision::Order(order));
            }
            let size = line.passes() * line.width * line.microbatches;
            if (open.len() + 2).saturating_mul(size) > MOST_OPEN {
                return Some(Decision::Unknown);
            }
            let Some(pair) = next(line, &windows) else { return Some(Decision::Unknown) };
            log.push(Node::Branch(line.name(pair.first), line.name(pair.second)));
            open.push((windows.clone(), Some(pair.turned())));
            open.push((windows, Some(pair)));
        }
        None
    }
}

/// The passes of every stage by their heads.
fn schedule(instance: &Instance, line: &Line, windows: &Windows) -> Option<Schedule> {
    let stage = |stage| {
        let mut order: Vec<usize> = passes(line, stage).map(|(_, pass)| pass).collect();
        order.sort_by_key(|&pass| (windows.heads[pass], windows.latest[pass], pass));
        order.into_iter().map(|pass| line.name(pass)).collect::<Order>()
    };
    let orders = (0..line.stages).map(stage).collect();
    Schedule::new(instance.shape, instance.placement, orders).ok()
}

/// The undecided pair that leaves least time whichever way it is: the one that goes first with more
/// time left comes first. Nothing where all pairs are decided.
fn next(line: &Line, windows: &Windows) -> Option<Pair> {
    let mut best: Option<((i64, i64), Pair)> = None;
    for stage in 0..line.stages {
        for (lane, pass) in passes(line, stage) {
            for other in lane + 1..(stage + 1) * line.width {
                let [fewest, most] = windows.range(line, pass, other);
                for microbatch in fewest..most {
                    let pair = Pair { first: pass, second: line.pass(other, microbatch) };
                    let [one, two] = [pair, pair.turned()].map(|pair| spare(line, windows, pair));
                    let key = (one.max(two), one.min(two));
                    if best.is_none_or(|(least, _)| key < least) {
                        best = Some((key, if one >= two { pair } else { pair.turned() }));
                    }
                }
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// The time left where one pass runs before the other.
fn spare(line: &Line, windows: &Windows, Pair { first, second }: Pair) -> i64 {
    let time = line.lanes[first / line.microbatches].time;
    windows.latest[second] - windows.heads[first] - time
}
