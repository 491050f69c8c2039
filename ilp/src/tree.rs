//! The branching log of a refutation: which pairs of passes were tried both ways.

use std::fmt;

use pipeline::Pass;

/// A node of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    /// First all orders in which the one pass runs before the other, then all others.
    Branch(Pass, Pass),
    /// The windows contradict each other.
    Leaf,
}

/// A proof that no order costs less than a bound: a binary tree, written from its root with the first
/// branch of each node before the second. At a leaf nothing more is decided: windows that follow from
/// the cost and from what was decided on the way to the leaf contradict each other.
///
/// As text it is a list of words: `F0.3<B0.1` is a node, whose first branch has F of chunk 0 and
/// microbatch 3 run before B of microbatch 1, and whose second has it the other way round; `x` is a
/// leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    nodes: Vec<Node>,
}

impl Proof {
    pub(crate) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// Pairs of passes that were tried both ways.
    #[must_use]
    pub fn branches(&self) -> usize {
        self.nodes.len() / 2
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            let separator = if at == 0 {
                ""
            } else if at % 8 == 0 {
                "\n"
            } else {
                " "
            };
            match node {
                Node::Branch(first, second) => write!(f, "{separator}{first}<{second}")?,
                Node::Leaf => write!(f, "{separator}x")?,
            }
        }
        Ok(())
    }
}
