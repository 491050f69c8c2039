//! The text of a proof, for arguments that rest on one.

use std::fmt;

use crate::{BoundArgument, Heads, Log, Refusal};

/// Evidence for an argument besides its stages: the raised starts of `prefixes`, or the log of
/// `branching`, which may count on raised starts, too.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Proof {
    /// Raised starts, which stand first.
    pub heads: Heads,
    pub log: Option<Log>,
}

impl Proof {
    /// The proof of `argument` in `text`.
    pub(crate) fn read(argument: BoundArgument, text: Option<&str>) -> Result<Self, Refusal> {
        let refuse = |why| Err(Refusal::Log { why });
        let Some(text) = text else {
            return match argument.is_branching() || argument.is_prefixes() {
                true => refuse("`branching` and `prefixes` need one"),
                false => Ok(Self::default()),
            };
        };
        // The words of raised starts have an `=`, those of a log have none.
        let (heads, log) = text.split_at(text.rfind('=').map_or(0, |last| {
            let rest = &text[last..];
            last + rest.find(|one: char| one.is_ascii_whitespace()).unwrap_or(rest.len())
        }));
        let heads = Heads::read(heads)?;
        if argument.is_branching() {
            return Ok(Self { heads, log: Some(Log::read(log)?) });
        }
        match argument.is_prefixes() && log.trim().is_empty() {
            true => Ok(Self { heads, log: None }),
            false => {
                refuse("only `branching` has a log, and only it and `prefixes` have raised starts")
            }
        }
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.count() == 0 && self.log.is_none()
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heads.fmt(f)?;
        self.log.iter().try_for_each(|log| log.fmt(f))
    }
}
