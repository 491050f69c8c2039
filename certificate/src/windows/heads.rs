//! The text of raised heads.

use std::fmt;

use pipeline::Pass;

use crate::Refusal;
use crate::read_pass::read_pass;

/// A longer list is refused before it is kept.
pub const MAX_HEADS: usize = 1 << 16;

/// Passes that no order starts sooner than it says, in the order in which that is shown: each from the windows of
/// the microbatches up to its own, and from those before it in the list.
///
/// `B0.11=2158000` says that B of chunk 0 and microbatch 11 does not start before 2158000 ns after the first F of
/// the pipeline.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Heads {
    heads: Vec<(Pass, u64)>,
}

impl Heads {
    /// Those of `list`, in its order.
    #[must_use]
    pub fn new(list: impl IntoIterator<Item = (Pass, u64)>) -> Self {
        Self { heads: list.into_iter().collect() }
    }

    /// Reads a list: whether it is one, not what is in it.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let refuse = |why| Refusal::Log { why };
        if text.split_ascii_whitespace().nth(MAX_HEADS).is_some() {
            return Err(refuse("it has more than 65536 starts"));
        }
        let head = |word: &str| {
            let (pass, start) = word.split_once('=')?;
            let plain = !start.is_empty() && start.bytes().all(|byte| byte.is_ascii_digit());
            Some((read_pass(pass)?, start.parse().ok().filter(|_| plain)?))
        };
        let heads = text.split_ascii_whitespace().map(head).collect::<Option<Vec<_>>>();
        let heads = heads.ok_or_else(|| refuse("a word is not a start, as in B0.11=2158000"))?;
        Ok(Self { heads })
    }

    /// Their number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// Each pass with its start, in nanoseconds, in the order of the list.
    #[must_use]
    pub fn list(&self) -> &[(Pass, u64)] {
        &self.heads
    }
}

impl fmt::Display for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (pass, start)) in self.heads.iter().enumerate() {
            write!(f, "{pass}={start}")?;
            let is_last = at + 1 == self.heads.len();
            f.write_str(if at % 4 == 3 || is_last { "\n" } else { " " })?;
        }
        Ok(())
    }
}
