//! The text of a proof, for arguments that rest on one.

use std::fmt;

use crate::{Argument, Heads, Log, Refusal};

/// The part of a certificate that an argument rests on beside stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The log of `branching`.
    Branches(Log),
    /// The raised starts of `prefixes`.
    Heads(Heads),
}

impl Proof {
    /// The proof of `argument`, if it rests on one.
    ///
    /// # Errors
    /// [`Refusal::Log`] if it is missing, is there for nothing, or cannot be read.
    pub(crate) fn read(argument: Argument, text: Option<&str>) -> Result<Option<Self>, Refusal> {
        match (argument.is_branching(), argument.is_prefixes(), text) {
            (true, _, Some(text)) => Ok(Some(Self::Branches(Log::read(text)?))),
            (_, true, Some(text)) => Ok(Some(Self::Heads(Heads::read(text)?))),
            (false, false, None) => Ok(None),
            _ => Err(Refusal::Log {
                why: "`branching` and `prefixes` need one, and no other argument has one",
            }),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branches(log) => log.fmt(f),
            Self::Heads(heads) => heads.fmt(f),
        }
    }
}
