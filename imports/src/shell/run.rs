//! Follows the tree of a script: what is known is done, and what only a run knows leaves unknown what it may change.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Script;
use super::parse::Node;
use super::scan::DEEPEST;
use super::value::{State, Truth};

/// The most steps of following, and bytes of words that are looked at.
const MOST_WORK: usize = 64 << 20;
/// Steps for which a byte counts that is kept: values that name values may grow without end.
const WORK_OF_A_BYTE: usize = 16;

/// Whether the script ends.
pub(super) type Ended = Result<bool, String>;

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
    /// The name of what the last condition lacks; one that holds takes it as not set.
    pub(super) doubt: Option<String>,
    /// Whether it is in a file beside the script.
    pub(super) in_file: bool,
}

impl Reader<'_> {
    pub(super) fn work(&mut self, amount: usize) -> Result<(), String> {
        self.used = self.used.saturating_add(amount);
        match self.used > MOST_WORK {
            true => Err("its commands and values go beyond what is followed".to_owned()),
            false => Ok(()),
        }
    }

    /// Counts `words` that are kept.
    pub(super) fn spend(&mut self, words: &[String]) -> Result<(), String> {
        self.work(words.iter().map(|word| WORK_OF_A_BYTE * (word.len() + 1)).sum())
    }

    /// Goes one level deeper.
    pub(super) fn deepen(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth > DEEPEST {
            true => Err("it is nested too deeply".to_owned()),
            false => self.work(1),
        }
    }

    pub(super) fn follow(&mut self, node: &Node) -> Ended {
        self.deepen()?;
        let ended = self.node(node)?;
        self.depth -= 1;
        Ok(ended)
    }

    fn node(&mut self, node: &Node) -> Ended {
        match node {
            Node::Simple(simple) => return self.simple(simple),
            Node::List(all) => {
                for node in all {
                    if self.follow(node)? {
                        return Ok(true);
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
                let ended = self.test(inner)?;
                self.status = self.status.not();
                return Ok(ended);
            }
            Node::Apart(inner) => self.apart(inner)?,
            Node::If(arms, last) => return self.choose(arms, last.as_deref()),
            Node::Match(word, patterns) => {
                let word = self.word(word)?;
                self.status = Truth::No;
                for pattern in patterns {
                    match self.is_like(&word, pattern)? {
                        Truth::No => {}
                        truth if self.status != Truth::Yes => self.status = truth,
                        _ => {}
                    }
                }
                self.doubt = super::doubt(&word);
            }
            Node::For(_, words, _) => {
                let is_run = !self.words(words)?.is_empty();
                return self.looped(node, "a `for` loop", is_run);
            }
            Node::Loop(name, condition, ..) => {
                let is_sum = matches!(**condition, Node::Sum(_));
                let is_run = is_sum && *name == "for"
                    || self.test(condition)?
                    || self.status != Truth::of(*name == "until");
                let part = ["a `for` loop", "a `while` loop", "an `until` loop"];
                let part = part.into_iter().find(|part| part.contains(name)).unwrap_or(name);
                return self.looped(node, part, is_run);
            }
            Node::Function(name, body) => {
                self.state.functions.insert(name.clone(), Some(Rc::clone(body)));
                self.status = Truth::Yes;
            }
            Node::Sum(text) => self.status = self.holds(text)?,
            Node::Test(tokens) => self.status = self.conditional(tokens)?,
        }
        Ok(false)
    }

    /// Leaves unknown what a loop may change, if it `is_run`.
    fn looped(&mut self, node: &Node, part: &str, is_run: bool) -> Ended {
        self.status = Truth::Yes;
        if is_run { self.lose(&[node], part).map(|()| false) } else { Ok(false) }
    }

    /// Whether the sum `text` is another number than 0.
    pub(super) fn holds(&mut self, text: &str) -> Result<Truth, String> {
        let value = self.sum(text)?;
        self.doubt = value.as_ref().err().cloned();
        Ok(value.map_or(Truth::Unknown, |value| Truth::of(value != 0)))
    }

    /// Leaves unknown what `nodes` may change, as the last condition does not say whether they run.
    fn doubt(&mut self, nodes: &[&Node], part: &str) -> Result<(), String> {
        let part = match self.doubt.take().map(|name| super::in_words(&name)) {
            Some((name, true)) => {
                format!("{part} on {name}, which only a run knows (--set {name}=VALUE gives it)")
            }
            _ => format!("{part} on what only a run knows"),
        };
        self.lose(nodes, &part)
    }

    /// Follows a condition.
    fn test(&mut self, node: &Node) -> Ended {
        self.doubt = None;
        self.follow(node)
    }

    fn copied(&mut self) -> Result<State, String> {
        self.work((self.state.variables.len() + self.state.functions.len()) * 64)?;
        Ok(self.state.clone())
    }

    /// Follows a command in a shell of its own.
    pub(super) fn apart(&mut self, node: &Node) -> Result<(), String> {
        let before = self.copied()?;
        self.follow(node)?;
        self.state = before;
        Ok(())
    }

    fn joined(&mut self, first: &Node, more: &[(bool, Node)]) -> Ended {
        let mut ended = self.test(first)?;
        for (is_and, node) in more {
            if ended {
                return Ok(true);
            }
            let wanted = Truth::of(*is_and);
            if self.status == Truth::Unknown {
                self.doubt(&[node], "a list of commands")?;
            } else if self.status == wanted && self.doubt.is_some() {
                ended = self.follow_assumed(node)?.unwrap_or(false);
                self.status = Truth::Unknown;
            } else if self.status == wanted {
                ended = self.test(node)?;
            }
        }
        Ok(ended)
    }

    /// Follows what runs as the environment lacks a variable; `None` if it ends the script, which then has the variable.
    fn follow_assumed(&mut self, node: &Node) -> Result<Option<bool>, String> {
        let before = self.copied()?;
        if self.follow(node)? {
            self.state = before;
            return Ok(None);
        }
        Ok(Some(false))
    }

    /// Follows the first of `arms` whose condition holds; where only a run knows it, all from there on are lost.
    fn choose(&mut self, arms: &[(Node, Node)], last: Option<&Node>) -> Ended {
        for (at, (condition, body)) in arms.iter().enumerate() {
            if self.test(condition)? {
                return Ok(true);
            }
            match self.status {
                Truth::No => {}
                Truth::Yes if self.doubt.is_some() => {
                    if let Some(ended) = self.follow_assumed(body)? {
                        return Ok(ended);
                    }
                }
                Truth::Yes => return self.follow(body),
                Truth::Unknown => {
                    let is_case = matches!(condition, Node::Match(..));
                    let others = arms[at..].iter().flat_map(|(condition, body)| [condition, body]);
                    let all: Vec<&Node> = others.skip(1).chain(last).collect();
                    let part = if is_case { "a `case`" } else { "an `if`" };
                    return self.doubt(&all, part).map(|()| false);
                }
            }
        }
        self.status = Truth::Yes;
        last.map_or(Ok(false), |last| self.follow(last))
    }

    /// Calls a function with `arguments`, unless it has variables of its own or may be left early.
    pub(super) fn call(&mut self, body: &Node, arguments: Vec<String>) -> Ended {
        if super::effects::leaves(body) {
            self.lose(&[body], "a function with `local` or `return`")?;
            return Ok(false);
        }
        let before = self.state.arguments.replace(arguments);
        let ended = self.follow(body)?;
        self.state.arguments = before;
        Ok(ended)
    }
}
