//! Follows the tree of a script: what is known is done, and what only a run knows leaves unknown what it may change.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::Node;
use super::scan::DEEPEST;
use super::state::{State, Truth, Value};
use super::{MOST_BYTES, MOST_WORK, Script};

/// How a command goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break(usize),
    Continue(usize),
    Return,
    Exit,
}

pub(super) type Followed = Result<Flow, String>;

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
    pub(super) escaped: Option<State>,
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
    pub(super) fn test(&mut self, node: &Node) -> Followed {
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
                match self.follow_assumed(node)? {
                    Some(own) => flow = own,
                    None => self.status = wanted.not(),
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

    /// Follows what runs as the environment lacks a variable; `None` if it ends the script, which then has the variable.
    fn follow_assumed(&mut self, node: &Node) -> Result<Option<Flow>, String> {
        let before = self.snapshot()?;
        let flow = self.follow(node)?;
        if flow == Flow::Exit {
            self.state = before;
            return Ok(None);
        }
        Ok(Some(flow))
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
                Truth::Yes if self.assumed.get() => match self.follow_assumed(body)? {
                    None => continue,
                    flow => flow,
                },
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
        let locals = self.state.locals.pop().unwrap_or_default();
        self.state.restore(locals.into_iter());
        self.state.arguments = before;
        Ok(if flow == Flow::Return { Flow::Next } else { flow })
    }
}
