//! What a shell knows.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::parse::Node;

/// Whether a condition holds, or a command succeeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    Yes,
    No,
    /// Only a run knows.
    Unknown,
}

impl Truth {
    pub(super) const fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(super) const fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// The value of a variable.
#[derive(Clone)]
pub(super) enum Value {
    /// The words of an array, the one of a text, or none where it is not set.
    Words(Rc<Vec<String>>),
    /// Only a run knows it; whether it may have flags.
    Unknown(bool),
}

impl Value {
    pub(super) fn of(text: String) -> Self {
        Self::Words(Rc::new(vec![text]))
    }

    pub(super) fn has_flags(&self) -> bool {
        match self {
            Self::Words(all) => all.iter().any(|word| word.contains("--")),
            Self::Unknown(flags) => *flags,
        }
    }
}

/// What a parameter holds.
pub(super) enum Held {
    Set(Vec<String>),
    /// Only a run knows it: its mark, and whether the script does not set it.
    Unknown(String, bool),
}

impl Held {
    /// The element at `index` of an array.
    pub(super) fn at(self, index: Option<i64>) -> Self {
        let Self::Set(mut all) = self else { return self };
        let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let index = index.map(|index| if index < 0 { index.saturating_add(length) } else { index });
        // Behind one that may be several, any number of words may stand.
        let certain = all.iter().position(|word| super::many(word).is_some()).unwrap_or(all.len());
        match index.map(|index| usize::try_from(index).unwrap_or(usize::MAX)) {
            Some(index) if index < certain => Self::Set(vec![all.swap_remove(index)]),
            Some(_) if certain == all.len() => Self::Set(Vec::new()),
            _ => Self::Unknown(super::mark("%index"), false),
        }
    }
}

/// What a shell knows.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) variables: BTreeMap<String, Value>,
    /// Variables that are declared in ways that are not followed.
    pub(super) odd: BTreeSet<String>,
    /// Functions by name; `None` for one that is not known.
    pub(super) functions: BTreeMap<String, Option<Rc<Node>>>,
    /// Of a function, or set by the script.
    pub(super) arguments: Option<Vec<String>>,
    /// Whether text that is not read was run.
    pub(super) forgotten: bool,
    /// Whether it may have left the folder in which it began.
    pub(super) has_moved: bool,
}
