//! What a shell knows, and what is known where one of two ways was gone.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::Node;
use super::run::{Flow, Followed, Reader};

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
#[derive(Clone, PartialEq)]
pub(super) enum Value {
    Text(Rc<str>),
    List(Rc<Vec<String>>),
    Unset,
    /// Only a run knows it; whether it may have flags.
    Unknown(bool),
}

impl Value {
    fn has_flags(&self) -> bool {
        match self {
            Self::Text(text) => text.contains("--"),
            Self::List(all) => all.iter().any(|word| word.contains("--")),
            Self::Unset => false,
            Self::Unknown(flags) => *flags,
        }
    }
}

/// What a parameter holds.
pub(super) enum Held {
    Set(Vec<String>),
    Unset,
    /// The script does not set it; its mark.
    Absent(String),
    /// Only a run knows it; its mark.
    Unknown(String),
}

impl Held {
    /// The element at `index` of an array.
    pub(super) fn at(self, index: Option<i64>) -> Self {
        let Self::Set(mut all) = self else { return self };
        let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let index = index.map(|index| if index < 0 { index.saturating_add(length) } else { index });
        // Before it, any number of words may stand.
        let several = all.iter().position(|word| super::many(word).is_some());
        let index = index.filter(|index| {
            several.is_none_or(|several| usize::try_from(*index).is_ok_and(|index| index < several))
        });
        match index.map(usize::try_from) {
            Some(Ok(index)) if index < all.len() => Self::Set(vec![all.swap_remove(index)]),
            Some(_) => Self::Unset,
            None => Self::Unknown(super::mark("%index")),
        }
    }
}

/// What a shell knows.
#[derive(Clone, PartialEq, Default)]
pub(super) struct State {
    pub(super) variables: BTreeMap<String, Value>,
    /// Variables that are declared in special ways, by the letter of it.
    pub(super) odd: BTreeMap<String, char>,
    /// Functions by name; `None` for one that is not known.
    pub(super) functions: BTreeMap<String, Option<Rc<Node>>>,
    /// Of a function, or set by the script.
    pub(super) arguments: Option<Vec<String>>,
    /// Variables of the functions that run, with their values outside.
    pub(super) locals: Vec<Vec<(String, Option<Value>)>>,
    /// Whether text that is not read was run.
    pub(super) forgotten: bool,
    /// Whether a command that fails ends the script.
    pub(super) ends_on_failure: bool,
}

impl State {
    /// Gives variables the values that they had.
    pub(super) fn restore(&mut self, old: impl Iterator<Item = (String, Option<Value>)>) {
        for (name, old) in old {
            match old {
                Some(old) => drop(self.variables.insert(name, old)),
                None => drop(self.variables.remove(&name)),
            }
        }
    }
}

impl Reader<'_> {
    pub(super) fn snapshot(&mut self) -> Result<State, String> {
        let all = &self.state;
        self.work(all.variables.len() * 64 + all.functions.len() * 64 + 64)?;
        Ok(self.state.clone())
    }

    /// Leaves all unknown that was set so far.
    pub(super) fn forget(&mut self) {
        let given = self.given;
        for (name, value) in &mut self.state.variables {
            if !given.contains_key(name) {
                *value = Value::Unknown(value.has_flags());
            }
        }
        self.state.forgotten = true;
    }

    /// What is known if either `self.state` or `other` holds.
    fn join(&mut self, other: State) -> Result<(), String> {
        self.work((self.state.variables.len() + other.variables.len()) * 64)?;
        if self.state.locals != other.locals || self.state.arguments != other.arguments {
            return Err(
                "`local`, `set --` or `shift` in a part that only a run decides on".to_owned()
            );
        }
        let own = &mut self.state;
        let names: Vec<String> =
            other.variables.keys().chain(own.variables.keys()).cloned().collect();
        for name in names {
            let (a, b) = (own.variables.get(&name), other.variables.get(&name));
            if a != b {
                let flags = a.is_some_and(Value::has_flags) || b.is_some_and(Value::has_flags);
                own.variables.insert(name, Value::Unknown(flags));
            }
        }
        for (name, body) in &other.functions {
            if own.functions.get(name) != Some(body) {
                own.functions.insert(name.clone(), None);
            }
        }
        let added: Vec<String> = own
            .functions
            .keys()
            .filter(|name| !other.functions.contains_key(*name))
            .cloned()
            .collect();
        own.functions.extend(added.into_iter().map(|name| (name, None)));
        own.odd.extend(other.odd);
        own.forgotten |= other.forgotten;
        own.ends_on_failure &= other.ends_on_failure;
        Ok(())
    }

    /// Goes on from where either a part ended or another did.
    pub(super) fn merge(&mut self, flow: Flow, (other, state): (Flow, State)) -> Followed {
        match (flow, other) {
            (Flow::Exit, _) => {
                self.state = state;
                Ok(other)
            }
            (_, Flow::Exit) => Ok(flow),
            (flow, other) if flow == other => self.join(state).map(|()| flow),
            (Flow::Next, _) => self.escape(state).map(|()| flow),
            (_, _) => {
                let own = std::mem::replace(&mut self.state, state);
                self.escape(own).map(|()| other)
            }
        }
    }

    pub(super) fn escape(&mut self, state: State) -> Result<(), String> {
        let Some(old) = self.escaped.take() else {
            self.escaped = Some(state);
            return Ok(());
        };
        let own = std::mem::replace(&mut self.state, state);
        self.join(old)?;
        self.escaped = Some(std::mem::replace(&mut self.state, own));
        Ok(())
    }

    pub(super) fn join_escaped(&mut self) -> Result<(), String> {
        match self.escaped.clone() {
            Some(state) => self.join(state),
            None => Ok(()),
        }
    }
}
