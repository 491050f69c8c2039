//! Follows the tree of a script: what is known is done, and what only a run knows leaves unknown what it may change.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::parse::{Loop, Node};
use super::scan::DEEPEST;
use super::{MOST_BYTES, MOST_WORK, Script};

/// The most rounds of a loop that are followed one by one.
const MOST_ROUNDS: usize = 256;

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
    /// Variables whose assignments are not followed.
    pub(super) odd: BTreeSet<String>,
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

/// How a command goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break(usize),
    Continue(usize),
    Return,
    Exit,
}

type Followed = Result<Flow, String>;

/// Follows a script.
pub(super) struct Reader<'g> {
    pub(super) script: Script,
    pub(super) given: &'g BTreeMap<String, String>,
    pub(super) state: State,
    pub(super) status: Truth,
    pub(super) depth: u32,
    pub(super) used: usize,
    pub(super) bytes: usize,
    /// Parts that only a run decides on, from outside.
    pub(super) parts: Vec<String>,
    /// The name of what the last condition lacks.
    pub(super) doubt: Option<String>,
    /// Whether the last condition holds as the environment lacks a variable.
    pub(super) assumed: Cell<bool>,
    /// The states in which loops and functions may be left early.
    escaped: Option<State>,
    /// Whether a failure is looked at.
    tested: usize,
    /// The loops that run in this function.
    pub(super) loops: usize,
    /// Whether the script's own arguments were asked for.
    pub(super) alone: bool,
}

impl<'g> Reader<'g> {
    pub(super) fn new(
        given: &'g BTreeMap<String, String>,
        variables: BTreeMap<String, Value>,
    ) -> Self {
        Self {
            script: Script::default(),
            given,
            state: State { variables, ..State::default() },
            status: Truth::Yes,
            depth: 0,
            used: 0,
            bytes: 0,
            parts: Vec::new(),
            doubt: None,
            assumed: Cell::new(false),
            escaped: None,
            tested: 0,
            loops: 0,
            alone: false,
        }
    }

    pub(super) fn work(&mut self, amount: usize) -> Result<(), String> {
        self.used = self.used.saturating_add(amount);
        match self.used > MOST_WORK {
            true => Err("its loops and values go beyond what is followed".to_owned()),
            false => Ok(()),
        }
    }

    /// Counts `words` that are kept.
    pub(super) fn spend(&mut self, words: &[String]) -> Result<(), String> {
        self.bytes += words.iter().map(|word| word.len() + 1).sum::<usize>();
        match self.bytes > MOST_BYTES {
            true => Err(format!("its values grow beyond {} MiB", MOST_BYTES >> 20)),
            false => Ok(()),
        }
    }

    fn snapshot(&mut self) -> Result<State, String> {
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
    fn merge(&mut self, flow: Flow, (other, state): (Flow, State)) -> Followed {
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

    fn escape(&mut self, state: State) -> Result<(), String> {
        let Some(old) = self.escaped.take() else {
            self.escaped = Some(state);
            return Ok(());
        };
        let own = std::mem::replace(&mut self.state, state);
        self.join(old)?;
        self.escaped = Some(std::mem::replace(&mut self.state, own));
        Ok(())
    }

    fn join_escaped(&mut self) -> Result<(), String> {
        match self.escaped.clone() {
            Some(state) => self.join(state),
            None => Ok(()),
        }
    }

    pub(super) fn follow(&mut self, node: &Node) -> Followed {
        self.work(1)?;
        if self.depth > DEEPEST {
            return Err("it is nested too deeply".to_owned());
        }
        self.depth += 1;
        let flow = self.node(node)?;
        self.depth -= 1;
        let may_end = matches!(
            node,
            Node::Simple(_) | Node::Pipe(_) | Node::Apart(_) | Node::Sum(_) | Node::Test(_)
        );
        let fails = may_end && self.status == Truth::No && flow == Flow::Next;
        Ok(match fails && self.state.ends_on_failure && self.tested == 0 {
            true => Flow::Exit,
            false => flow,
        })
    }

    fn node(&mut self, node: &Node) -> Followed {
        match node {
            Node::Simple(simple) => self.simple(simple),
            Node::List(all) => {
                for node in all {
                    let flow = self.follow(node)?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                Ok(Flow::Next)
            }
            Node::Joined(first, more) => self.joined(first, more),
            Node::Pipe(parts) => {
                for part in parts {
                    self.apart(part)?;
                }
                // It may be that of any part.
                self.status = Truth::Unknown;
                Ok(Flow::Next)
            }
            Node::Not(inner) => {
                let flow = self.test(inner)?;
                self.status = self.status.not();
                Ok(flow)
            }
            Node::Apart(inner) => self.apart(inner),
            Node::If(arms, last) => {
                let bodies = arms.iter().map(|(_, body)| body).collect();
                self.choose("an `if`", bodies, last.as_deref(), |own, at| own.test(&arms[at].0))
            }
            Node::Case(word, arms) => self.case(word, arms),
            Node::For(name, words, body) => self.for_words(name, words.as_deref(), body),
            Node::Loop(own) => self.repeat(own),
            Node::Function(name, body) => {
                self.state.functions.insert(name.clone(), Some(Rc::clone(body)));
                self.status = Truth::Yes;
                Ok(Flow::Next)
            }
            Node::Sum(text) => {
                self.status = self.holds(text)?;
                Ok(Flow::Next)
            }
            Node::Test(tokens) => {
                self.status = self.conditional(tokens)?;
                Ok(Flow::Next)
            }
        }
    }

    /// Whether the sum `text` is another number than 0.
    pub(super) fn holds(&mut self, text: &str) -> Result<Truth, String> {
        let value = self.sum(text)?;
        self.doubt = value.as_ref().err().cloned();
        Ok(value.map_or(Truth::Unknown, |value| Truth::of(value != 0)))
    }

    fn case(&mut self, word: &str, arms: &[(Vec<String>, Node)]) -> Followed {
        let word = self.word(word)?;
        let doubt = self.doubt_of(&word);
        let bodies = arms.iter().map(|(_, body)| body).collect();
        self.choose("a `case`", bodies, None, |own, at| {
            own.doubt.clone_from(&doubt);
            own.status = Truth::No;
            for pattern in &arms[at].0 {
                match own.is_like(&word, pattern)? {
                    Truth::No => {}
                    truth => own.status = truth,
                }
                if own.status == Truth::Yes {
                    break;
                }
            }
            Ok(Flow::Next)
        })
    }

    /// The name of what is not known in `word`.
    pub(super) fn doubt_of(&self, word: &str) -> Option<String> {
        let names = word.contains(super::UNKNOWN).then(|| super::unknowns(word).0);
        names?.first().map(|name| (*name).to_owned())
    }

    fn push_part(&mut self, part: &str) {
        let part = match self.doubt.take().map(|name| super::in_words(&name)) {
            Some((name, true)) => {
                format!("{part} on {name}, which only a run knows (--set {name}=VALUE gives it)")
            }
            _ => format!("{part} on what only a run knows"),
        };
        self.parts.push(part);
    }

    /// Follows a command whose failure ends nothing.
    fn test(&mut self, node: &Node) -> Followed {
        self.assumed.set(false);
        self.tested += 1;
        let flow = self.follow(node)?;
        self.tested -= 1;
        Ok(flow)
    }

    /// Follows a command in a shell of its own.
    pub(super) fn apart(&mut self, node: &Node) -> Followed {
        let before = self.snapshot()?;
        let escaped = self.escaped.take();
        self.follow(node)?;
        self.escaped = escaped;
        self.state = before;
        Ok(Flow::Next)
    }

    fn joined(&mut self, first: &Node, more: &[(bool, Node)]) -> Followed {
        let mut flow = self.test(first)?;
        for (at, (is_and, node)) in more.iter().enumerate() {
            if flow != Flow::Next {
                return Ok(flow);
            }
            let wanted = Truth::of(*is_and);
            let is_last = at + 1 == more.len();
            let status = self.status;
            if status == wanted.not() {
                continue;
            }
            if status == wanted && self.assumed.get() {
                let before = self.snapshot()?;
                flow = self.follow(node)?;
                if flow == Flow::Exit {
                    (self.state, self.status, flow) = (before, wanted.not(), Flow::Next);
                }
                continue;
            }
            let before = if status == Truth::Unknown { Some(self.snapshot()?) } else { None };
            if before.is_some() {
                self.push_part("a list of commands");
            }
            flow = if is_last { self.follow(node)? } else { self.test(node)? };
            if let Some(before) = before {
                self.parts.pop();
                self.status = if flow == Flow::Next { Truth::Unknown } else { wanted.not() };
                flow = self.merge(flow, (Flow::Next, before))?;
            }
        }
        Ok(flow)
    }

    /// Follows the first of `bodies` whose condition holds, or all that may be it.
    fn choose(
        &mut self,
        part: &'static str,
        bodies: Vec<&Node>,
        last: Option<&Node>,
        mut holds: impl FnMut(&mut Self, usize) -> Followed,
    ) -> Followed {
        let parts = self.parts.len();
        let mut others: Option<(Flow, State)> = None;
        let mut flow = None;
        for (at, body) in bodies.into_iter().enumerate() {
            self.doubt = None;
            self.assumed.set(false);
            let left = holds(self, at)?;
            flow = match self.status {
                _ if left != Flow::Next => Some(left),
                Truth::No => continue,
                Truth::Yes if self.assumed.get() => {
                    // A script that ends without a variable has it.
                    let before = self.snapshot()?;
                    let flow = self.follow(body)?;
                    if flow == Flow::Exit {
                        self.state = before;
                        continue;
                    }
                    Some(flow)
                }
                Truth::Yes => Some(self.follow(body)?),
                Truth::Unknown => None,
            };
            if flow.is_some() {
                break;
            }
            let before = self.snapshot()?;
            self.push_part(part);
            let mut own = self.follow(body)?;
            if let Some(others) = others.take() {
                own = self.merge(own, others)?;
            }
            others = Some((own, std::mem::replace(&mut self.state, before)));
        }
        let flow = match (flow, last) {
            (Some(flow), _) => flow,
            (None, Some(last)) => self.follow(last)?,
            (None, None) => {
                self.status = Truth::Yes;
                Flow::Next
            }
        };
        self.parts.truncate(parts);
        match others {
            None => Ok(flow),
            Some(others) => {
                self.status = Truth::Unknown;
                self.merge(flow, others)
            }
        }
    }

    /// Follows a loop by `run`, within which it may be left early.
    fn within(&mut self, part: &'static str, run: impl FnOnce(&mut Self) -> Followed) -> Followed {
        let escaped = self.escaped.take();
        self.parts.push(format!("{part}, which is not followed to a launch"));
        self.loops += 1;
        let flow = run(self)?;
        self.loops -= 1;
        self.parts.pop();
        self.join_escaped()?;
        if let Some(old) = escaped {
            self.escape(old)?;
        }
        if self.escaped.is_some() || flow == Flow::Next {
            self.status = Truth::Unknown;
        }
        Ok(flow)
    }

    /// Follows a round: whether the loop ends, and how it goes on then.
    fn round(&mut self, body: &Node) -> Result<Option<Flow>, String> {
        let flow = self.follow(body)?;
        self.join_escaped()?;
        Ok(match flow {
            Flow::Next | Flow::Continue(0 | 1) => None,
            Flow::Break(0 | 1) => Some(Flow::Next),
            Flow::Break(levels) => Some(Flow::Break(levels - 1)),
            Flow::Continue(levels) => Some(Flow::Continue(levels - 1)),
            flow => Some(flow),
        })
    }

    /// Follows rounds of a loop until they change nothing more.
    fn settle(
        &mut self,
        mut round: impl FnMut(&mut Self) -> Result<Option<Flow>, String>,
    ) -> Followed {
        loop {
            let before = self.snapshot()?;
            let flow = round(self)?.unwrap_or(Flow::Next);
            self.merge(flow, (Flow::Next, before.clone()))?;
            if self.state == before {
                return Ok(Flow::Next);
            }
        }
    }

    fn for_words(&mut self, name: &str, words: Option<&[String]>, body: &Node) -> Followed {
        let all = ["\"$@\"".to_owned()];
        let raw = words.unwrap_or(&all);
        let words = self.words(raw)?;
        let is_known = !words.iter().any(|word| super::many(word).is_some())
            && !raw.iter().any(|word| {
                word.contains(['*', '?', '[']) && !word.contains('$') && !word.contains('\'')
            });
        self.within("a `for` loop", |own| {
            if is_known {
                for word in words {
                    let word = Self::named(&word, name);
                    own.set_text(name, word)?;
                    if let Some(flow) = own.round(body)? {
                        return Ok(flow);
                    }
                }
                return Ok(Flow::Next);
            }
            own.settle(|own| {
                own.set(name, Value::Unknown(false));
                own.round(body)
            })
        })
    }

    fn repeat(&mut self, own: &Loop) -> Followed {
        let wanted = Truth::of(own.name != "until");
        let part = match own.name {
            "for" => "a `for` loop",
            "until" => "an `until` loop",
            _ => "a `while` loop",
        };
        let round = |reader: &mut Self| -> Result<Option<Flow>, String> {
            let flow = reader.round(&own.body)?;
            if let (None, Some(step)) = (flow, &own.step) {
                reader.sum(step)?.ok();
            }
            Ok(flow)
        };
        self.within(part, |reader| {
            for _ in 0..MOST_ROUNDS {
                let flow = reader.test(&own.condition)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                match reader.status {
                    Truth::Unknown => break,
                    status if status != wanted => return Ok(Flow::Next),
                    _ => {}
                }
                if let Some(flow) = round(reader)? {
                    return Ok(flow);
                }
            }
            reader.settle(|reader| {
                let flow = round(reader)?;
                match flow {
                    None => reader
                        .test(&own.condition)
                        .map(|flow| Some(flow).filter(|flow| *flow != Flow::Next)),
                    flow => Ok(flow),
                }
            })
        })
    }

    /// Calls a function with `arguments`.
    pub(super) fn call(&mut self, body: &Node, arguments: Vec<String>) -> Followed {
        let before = self.state.arguments.replace(arguments);
        let escaped = self.escaped.take();
        self.state.locals.push(Vec::new());
        let loops = std::mem::take(&mut self.loops);
        let flow = self.follow(body)?;
        self.loops = loops;
        if self.escaped.is_some() {
            self.status = Truth::Unknown;
        }
        self.join_escaped()?;
        self.escaped = escaped;
        for (name, old) in self.state.locals.pop().unwrap_or_default() {
            match old {
                Some(old) => drop(self.state.variables.insert(name, old)),
                None => drop(self.state.variables.remove(&name)),
            }
        }
        self.state.arguments = before;
        Ok(if flow == Flow::Return { Flow::Next } else { flow })
    }
}
