//! Follows the tree of a script: what is known is done, and what only a run knows leaves unknown what it may change.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::Node;
use super::scan::DEEPEST;
use super::value::{State, Truth, Value};
use super::{MOST_BYTES, MOST_WORK, Script, many};

/// The most rounds of a loop that are followed one by one.
const MOST_ROUNDS: usize = 256;

/// How a command goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break(usize),
    Continue(usize),
    Return,
    Exit,
    /// Only a run knows: it may leave a loop or a function.
    Lost,
}

pub(super) type Followed = Result<Flow, String>;

/// Follows a script.
pub(super) struct Reader<'g> {
    pub(super) script: Script,
    pub(super) given: &'g BTreeMap<String, String>,
    /// The text of a file beside the script.
    pub(super) beside: &'g dyn Fn(&str) -> Option<String>,
    pub(super) state: State,
    pub(super) status: Truth,
    pub(super) depth: u32,
    pub(super) used: usize,
    pub(super) bytes: usize,
    /// The loops that run, from outside.
    pub(super) parts: Vec<&'static str>,
    /// The name of what the last condition lacks.
    pub(super) doubt: Option<String>,
    /// Whether the last condition holds as the environment lacks a variable.
    pub(super) assumed: Cell<bool>,
    /// Whether a failure is looked at.
    tested: usize,
    /// The loops that run in this function.
    pub(super) loops: usize,
    /// The files beside the script in which it is.
    pub(super) in_file: usize,
    /// Whether the script's own arguments were asked for.
    pub(super) alone: bool,
}

impl<'g> Reader<'g> {
    pub(super) fn new(
        given: &'g BTreeMap<String, String>,
        variables: BTreeMap<String, Value>,
        beside: &'g dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            script: Script::default(),
            given,
            beside,
            state: State { variables, ..State::default() },
            status: Truth::Yes,
            depth: 0,
            used: 0,
            bytes: 0,
            parts: Vec::new(),
            doubt: None,
            assumed: Cell::new(false),
            tested: 0,
            loops: 0,
            in_file: 0,
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
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is nested too deeply".to_owned());
        }
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
            Node::Simple(simple) => return self.simple(simple),
            Node::List(all) => {
                for node in all {
                    let flow = self.follow(node)?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
            }
            Node::Joined(first, more) => return self.joined(first, more),
            Node::Pipe(parts) => {
                for part in parts {
                    self.apart(part)?;
                }
                // It may be that of any part.
                self.status = Truth::Unknown;
            }
            Node::Not(inner) => {
                let flow = self.test(inner)?;
                self.status = self.status.not();
                return Ok(flow);
            }
            Node::Apart(inner) => return self.apart(inner),
            Node::If(arms, last) => {
                let (conditions, bodies): (Vec<_>, Vec<_>) =
                    arms.iter().map(|(condition, body)| (condition, body)).unzip();
                let holds = |own: &mut Self, at: usize| own.test(&arms[at].0);
                return self.choose("an `if`", (&conditions, &bodies), last.as_deref(), holds);
            }
            Node::Case(word, arms) => return self.case(word, arms),
            Node::For(name, words, body) => return self.for_words(node, name, words.as_deref(), body),
            Node::Loop(name, condition, body, step) => {
                return self.repeat(node, name, (condition, body, step.as_deref()));
            }
            Node::Function(name, body) => {
                self.state.functions.insert(name.clone(), Some(Rc::clone(body)));
                self.status = Truth::Yes;
            }
            Node::Sum(text) => self.status = self.holds(text)?,
            Node::Test(tokens) => self.status = self.conditional(tokens)?,
        }
        Ok(Flow::Next)
    }

    /// Whether the sum `text` is another number than 0.
    pub(super) fn holds(&mut self, text: &str) -> Result<Truth, String> {
        let value = self.sum(text)?;
        self.doubt = value.as_ref().err().cloned();
        Ok(value.map_or(Truth::Unknown, |value| Truth::of(value != 0)))
    }

    fn case(&mut self, word: &str, arms: &[(Vec<String>, Node)]) -> Followed {
        let word = self.word(word)?;
        let bodies: Vec<&Node> = arms.iter().map(|(_, body)| body).collect();
        self.choose("a `case`", (&[], &bodies), None, |own, at| {
            own.doubt = super::doubt(&word);
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

    /// `part`, with the name of what the last condition lacks.
    fn in_doubt(&mut self, part: &str) -> String {
        match self.doubt.take().map(|name| super::in_words(&name)) {
            Some((name, true)) => {
                format!("{part} on {name}, which only a run knows (--set {name}=VALUE gives it)")
            }
            _ => format!("{part} on what only a run knows"),
        }
    }

    /// Follows a command whose failure ends nothing.
    fn test(&mut self, node: &Node) -> Followed {
        self.assumed.set(false);
        self.doubt = None;
        self.tested += 1;
        let flow = self.follow(node)?;
        self.tested -= 1;
        Ok(flow)
    }

    /// Follows a command in a shell of its own.
    pub(super) fn apart(&mut self, node: &Node) -> Followed {
        self.work((self.state.variables.len() + self.state.functions.len()) * 64)?;
        let before = self.state.clone();
        if self.follow(node)? == Flow::Lost {
            self.lose(&[node], "a subshell")?;
        }
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
            if self.status == Truth::Unknown {
                let part = self.in_doubt("a list of commands");
                flow = self.lose(&[node], &part)?;
            } else if self.status == wanted && self.assumed.get() {
                flow = self.follow_assumed(node)?.unwrap_or(Flow::Next);
                if flow == Flow::Next {
                    self.status = Truth::Unknown;
                }
            } else if self.status == wanted {
                flow = if at + 1 == more.len() { self.follow(node)? } else { self.test(node)? };
            }
        }
        Ok(flow)
    }

    /// Follows what runs as the environment lacks a variable; `None` if it ends the script, which then has the variable.
    fn follow_assumed(&mut self, node: &Node) -> Result<Option<Flow>, String> {
        self.work((self.state.variables.len() + self.state.functions.len()) * 64)?;
        let before = self.state.clone();
        let flow = self.follow(node)?;
        if flow == Flow::Exit {
            self.state = before;
            return Ok(None);
        }
        Ok(Some(flow))
    }

    /// Follows the first of `bodies` whose condition holds; where only a run knows it, all from there on are lost.
    fn choose(
        &mut self,
        part: &str,
        (conditions, bodies): (&[&Node], &[&Node]),
        last: Option<&Node>,
        mut holds: impl FnMut(&mut Self, usize) -> Followed,
    ) -> Followed {
        for (at, body) in bodies.iter().enumerate() {
            self.doubt = None;
            self.assumed.set(false);
            let left = holds(self, at)?;
            if left != Flow::Next {
                return Ok(left);
            }
            match self.status {
                Truth::No => {}
                Truth::Yes if self.assumed.get() => {
                    if let Some(flow) = self.follow_assumed(body)? {
                        return Ok(flow);
                    }
                }
                Truth::Yes => return self.follow(body),
                Truth::Unknown => {
                    let others = conditions.iter().skip(at + 1).chain(&bodies[at..]).copied();
                    let all: Vec<&Node> = others.chain(last).collect();
                    let part = self.in_doubt(part);
                    return self.lose(&all, &part);
                }
            }
        }
        match last {
            Some(last) => self.follow(last),
            None => {
                self.status = Truth::Yes;
                Ok(Flow::Next)
            }
        }
    }

    /// Calls a function with `arguments`.
    pub(super) fn call(&mut self, body: &Node, arguments: Vec<String>) -> Followed {
        let before = self.state.arguments.replace(arguments);
        self.state.locals.push(Vec::new());
        let loops = std::mem::take(&mut self.loops);
        let flow = self.follow(body)?;
        self.loops = loops;
        let locals = self.state.locals.pop().unwrap_or_default();
        self.state.restore(locals.into_iter());
        if flow == Flow::Lost {
            self.lose(&[body], "a function that a run may leave before")?;
        }
        self.state.arguments = before;
        Ok(if matches!(flow, Flow::Return | Flow::Lost) { Flow::Next } else { flow })
    }

    /// Follows a loop by `run`, within which it may be left early.
    fn within(
        &mut self,
        node: &Node,
        part: &'static str,
        run: impl FnOnce(&mut Self) -> Followed,
    ) -> Followed {
        self.parts.push(part);
        self.loops += 1;
        let flow = run(self)?;
        self.loops -= 1;
        self.parts.pop();
        self.status = Truth::Unknown;
        if flow == Flow::Lost { self.lose(&[node], part) } else { Ok(flow) }
    }

    /// Follows a round: how the loop ends, if it does.
    fn round(&mut self, body: &Node) -> Result<Option<Flow>, String> {
        Ok(match self.follow(body)? {
            Flow::Next | Flow::Continue(0 | 1) => None,
            Flow::Break(0 | 1) => Some(Flow::Next),
            Flow::Break(levels) => Some(Flow::Break(levels - 1)),
            Flow::Continue(levels) => Some(Flow::Continue(levels - 1)),
            flow => Some(flow),
        })
    }

    fn for_words(
        &mut self,
        node: &Node,
        name: &str,
        words: Option<&[String]>,
        body: &Node,
    ) -> Followed {
        let all = ["\"$@\"".to_owned()];
        let raw = words.unwrap_or(&all);
        let words = self.words(raw)?;
        let is_pattern = |word: &String| word.contains(['*', '?', '[']) && !word.contains(['$', '\'']);
        let is_open = raw.iter().any(is_pattern) || words.iter().any(|word| many(word).is_some());
        self.within(node, "a `for` loop", |own| {
            if is_open {
                return Ok(Flow::Lost);
            }
            for word in words {
                own.set_text(name, Self::named(&word, name))?;
                if let Some(flow) = own.round(body)? {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn repeat(
        &mut self,
        node: &Node,
        name: &str,
        (condition, body, step): (&Node, &Node, Option<&str>),
    ) -> Followed {
        let part = match name {
            "for" => "a `for` loop",
            "until" => "an `until` loop",
            _ => "a `while` loop",
        };
        self.within(node, part, |own| {
            for _ in 0..MOST_ROUNDS {
                match own.test(condition)? {
                    Flow::Next if own.status == Truth::of(name != "until") => {}
                    Flow::Next if own.status != Truth::Unknown => return Ok(Flow::Next),
                    flow @ (Flow::Exit | Flow::Return) => return Ok(flow),
                    _ => break,
                }
                if let Some(flow) = own.round(body)? {
                    return Ok(flow);
                }
                step.map(|step| own.sum(step)).transpose()?.map(Result::ok);
            }
            Ok(Flow::Lost)
        })
    }
}
