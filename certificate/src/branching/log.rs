//! The text of a branching log.

use std::fmt;

use pipeline::Pass;

use crate::Refusal;
use crate::read_pass::read_pass;

/// A log with more words is refused before it is kept.
pub const MAX_WORDS: usize = 1 << 21;

/// A branching log: the nodes of a binary tree from its root, the first branch of each before the second.
///
/// `F0.3<B0.1` is a node: F of chunk 0 and microbatch 3 runs before B of microbatch 1 in its first
/// branch, and behind it in its second. `x` is a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    pub(super) nodes: Vec<Option<[Pass; 2]>>,
}

impl Log {
    /// Reads a log: whether it is a tree, not what is in it.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let refuse = |why| Err(Refusal::Log { why });
        if text.split_ascii_whitespace().nth(MAX_WORDS).is_some() {
            return refuse("it has more than two million words");
        }
        let node = |word: &str| {
            let passes = |(first, second)| Some([read_pass(first)?, read_pass(second)?]);
            match word {
                "x" => Ok(None),
                _ => word.split_once('<').and_then(passes).map(Some).ok_or(Refusal::Log {
                    why: "a word is neither `x` nor two passes, as in F0.3<B0.1",
                }),
            }
        };
        let nodes: Result<Vec<_>, _> = text.split_ascii_whitespace().map(node).collect();
        Self::new(nodes?)
    }

    /// The log of these nodes, pairs or leaves.
    pub fn new(nodes: Vec<Option<[Pass; 2]>>) -> Result<Self, Refusal> {
        let refuse = |why| Err(Refusal::Log { why });
        if nodes.len() > MAX_WORDS {
            return refuse("it has more than two million words");
        }
        let mut open = 1u32;
        for node in &nodes {
            if open == 0 {
                return refuse("something follows its last leaf");
            }
            open = if node.is_some() { open + 1 } else { open - 1 };
        }
        if open == 0 { Ok(Self { nodes }) } else { refuse("a branch does not end in a leaf") }
    }

    /// The nodes, pairs or leaves.
    #[must_use]
    pub fn nodes(&self) -> &[Option<[Pass; 2]>] {
        &self.nodes
    }

    /// The number of pairs of passes that were tried both ways.
    #[must_use]
    pub fn branches(&self) -> usize {
        self.nodes.len() / 2
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            match node {
                Some([first, second]) => write!(f, "{first}<{second}")?,
                None => f.write_str("x")?,
            }
            f.write_str(if at % 8 == 7 { "\n" } else { " " })?;
        }
        Ok(())
    }
}
