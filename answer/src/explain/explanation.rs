//! The explanation of a case.

use sim::explain::{Causes, Gaps, Link, PathSummary};
use sim::levers::Levers;

use crate::pairs::PairKind;

/// Why the stages of a case wait.
pub struct Explanation {
    /// The causes of their idle time.
    pub causes: Causes,
    /// The same of each gap between two slots, if that was wanted.
    pub gaps: Option<Gaps>,
    /// The chain of slots and transfers that makes the step as long as it is.
    pub path: Vec<Link>,
    /// The parts of that chain.
    pub summary: PathSummary,
    /// The changes that would shorten the step, and by how much.
    pub levers: Levers,
    /// The kinds of pairs of its order, where passes are chains of segments.
    pub pairs: Vec<PairKind>,
}
