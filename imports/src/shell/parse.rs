//! Scripts as trees, by the rules of bash.

use std::rc::Rc;

use super::scan::{Parser, is_name};

/// Words that begin no simple command.
const RESERVED: [&str; 11] =
    ["then", "do", "done", "fi", "else", "elif", "esac", "}", "in", "select", "coproc"];

/// A command, simple or compound. Words are as they are written, to be expanded.
pub(super) enum Node {
    Simple(Simple),
    /// Commands one after another.
    List(Vec<Self>),
    /// Commands behind `&&` (true) and `||`.
    Joined(Box<Self>, Vec<(bool, Self)>),
    /// Commands in shells of their own, joined by pipes or in the background.
    Pipe(Vec<Self>),
    Not(Box<Self>),
    /// A command in a shell of its own.
    Apart(Box<Self>),
    If(Vec<(Self, Self)>, Option<Box<Self>>),
    /// Whether a word is like one of the patterns, the condition of an arm of `case`.
    Match(Rc<str>, Vec<String>),
    /// A loop over words.
    For(String, Vec<String>, Box<Self>),
    /// A loop on a condition: its name, that and its body.
    Loop(&'static str, Box<Self>, Box<Self>),
    Function(String, Rc<Self>),
    Sum(String),
    Test(Vec<String>),
}

/// A simple command.
#[derive(Default)]
pub(super) struct Simple {
    pub(super) assigned: Vec<String>,
    pub(super) words: Vec<String>,
    /// The text of a here-document, and whether values are expanded in it.
    pub(super) input: Option<(String, bool)>,
}

impl Node {
    /// The commands of which it is made; none of a function.
    pub(super) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(all) | Self::Pipe(all) => all.iter().collect(),
            Self::Joined(first, more) => {
                std::iter::once(&**first).chain(more.iter().map(|(_, node)| node)).collect()
            }
            Self::Not(inner) | Self::Apart(inner) | Self::For(_, _, inner) => vec![inner],
            Self::If(arms, last) => {
                let arms = arms.iter().flat_map(|(condition, body)| [condition, body]);
                arms.chain(last.as_deref()).collect()
            }
            Self::Loop(_, condition, body) => vec![condition, body],
            _ => Vec::new(),
        }
    }

    /// The words in it that are expanded.
    pub(super) fn words(&self) -> Vec<&str> {
        let (first, all): (_, &[String]) = match self {
            Self::Simple(own) => {
                let all = own.assigned.iter().chain(&own.words);
                return all.map(String::as_str).collect();
            }
            Self::Match(word, patterns) => (Some(&**word), patterns),
            Self::For(_, words, _) | Self::Test(words) => (None, words),
            _ => (None, &[]),
        };
        first.into_iter().chain(all.iter().map(String::as_str)).collect()
    }
}

impl Parser<'_> {
    /// Commands up to one of `ends`, which is not read.
    pub(super) fn list(&mut self, ends: &[&str]) -> Result<Node, String> {
        self.deeper(|own| {
            let mut all = Vec::new();
            loop {
                own.lines();
                if own.rest().is_empty() || ends.iter().any(|end| own.is_at(end)) {
                    return Ok(Node::List(all));
                }
                let node = own.joined()?;
                own.blanks();
                let goes_on = !own.rest().starts_with(";;") && !own.rest().starts_with(";&");
                if own.take("&") {
                    all.push(Node::Pipe(vec![node]));
                    continue;
                }
                all.push(node);
                let ended = goes_on && own.take(";") || own.rest().starts_with('\n');
                if !ended && !own.rest().is_empty() && !ends.iter().any(|end| own.is_at(end)) {
                    return own.wrong();
                }
            }
        })
    }

    /// One command at least, up to one of `ends`, of which a single one is read.
    fn some(&mut self, ends: &[&str]) -> Result<Node, String> {
        let list = self.list(ends)?;
        let is_empty = matches!(&list, Node::List(all) if all.is_empty());
        let is_closed = ends.len() > 1 || self.keyword(ends[0]);
        if is_empty || !is_closed { self.wrong() } else { Ok(list) }
    }

    fn joined(&mut self) -> Result<Node, String> {
        let first = self.pipe()?;
        let mut more = Vec::new();
        loop {
            self.blanks();
            let is_and = self.take("&&");
            if !is_and && !self.take("||") {
                break;
            }
            self.lines();
            more.push((is_and, self.pipe()?));
        }
        Ok(if more.is_empty() { first } else { Node::Joined(Box::new(first), more) })
    }

    fn pipe(&mut self) -> Result<Node, String> {
        let mut negated = false;
        loop {
            self.blanks();
            if self.keyword("!") {
                negated = !negated;
            } else if !self.keyword("time") && !self.keyword("-p") {
                break;
            }
        }
        let mut parts = vec![self.command()?];
        loop {
            self.blanks();
            if self.rest().starts_with("||") || !(self.take("|&") || self.take("|")) {
                break;
            }
            self.lines();
            parts.push(self.command()?);
        }
        let one = if parts.len() == 1 { parts.pop() } else { None };
        let node = one.unwrap_or(Node::Pipe(parts));
        Ok(if negated { Node::Not(Box::new(node)) } else { node })
    }

    fn command(&mut self) -> Result<Node, String> {
        self.blanks();
        let Some(node) = self.compound()? else { return self.simple() };
        loop {
            self.blanks();
            let start = self.at;
            self.at += self.rest().bytes().take_while(u8::is_ascii_digit).count();
            if self.redirect()?.is_none() {
                self.at = start;
                return Ok(node);
            }
        }
    }

    fn compound(&mut self) -> Result<Option<Node>, String> {
        if let Some(sum) = self.sum("((") {
            return Ok(Some(Node::Sum(sum)));
        }
        Ok(Some(if self.take("(") {
            Node::Apart(Box::new(self.some(&[")"])?))
        } else if self.keyword("{") {
            self.some(&["}"])?
        } else if self.keyword("[[") {
            self.test()?
        } else if self.keyword("if") {
            self.branches()?
        } else if self.keyword("for") {
            self.for_loop()?
        } else if self.keyword("while") {
            self.loop_while("while")?
        } else if self.keyword("until") {
            self.loop_while("until")?
        } else if self.keyword("case") {
            self.case()?
        } else if self.keyword("function") {
            self.blanks();
            let name = self.word()?.unwrap_or_default();
            self.function(name)?
        } else {
            return Ok(None);
        }))
    }

    /// The function `name`, behind its name.
    fn function(&mut self, name: String) -> Result<Node, String> {
        self.blanks();
        if self.take("(") {
            self.blanks();
            self.expect(")")?;
        }
        self.lines();
        Ok(Node::Function(name, Rc::new(self.deeper(Self::command)?)))
    }

    fn branches(&mut self) -> Result<Node, String> {
        let mut arms = Vec::new();
        loop {
            arms.push((self.some(&["then"])?, self.some(&["elif", "else", "fi"])?));
            if self.keyword("elif") {
                continue;
            }
            let is_last = self.keyword("else");
            let last = is_last.then(|| self.some(&["fi"]).map(Box::new)).transpose()?;
            return if is_last || self.keyword("fi") {
                Ok(Node::If(arms, last))
            } else {
                self.wrong()
            };
        }
    }

    fn for_loop(&mut self) -> Result<Node, String> {
        self.blanks();
        if let Some(sums) = self.sum("((") {
            return Ok(Node::Loop("for", Box::new(Node::Sum(sums)), self.body()?));
        }
        let Some(name) = self.word()?.filter(|name| is_name(name)) else { return self.wrong() };
        self.lines();
        let words = match self.keyword("in") {
            true => self.words(false)?,
            false => vec!["\"$@\"".to_owned()],
        };
        Ok(Node::For(name, words, self.body()?))
    }

    fn body(&mut self) -> Result<Box<Node>, String> {
        self.blanks();
        self.take(";");
        self.lines();
        let close = if self.keyword("{") { "}" } else { "done" };
        if close == "done" {
            self.expect("do")?;
        }
        self.some(&[close]).map(Box::new)
    }

    fn loop_while(&mut self, name: &'static str) -> Result<Node, String> {
        let condition = self.list(&["do"])?;
        Ok(Node::Loop(name, Box::new(condition), self.body()?))
    }

    fn case(&mut self) -> Result<Node, String> {
        self.blanks();
        let Some(word) = self.word()?.map(Rc::from) else { return self.wrong() };
        self.lines();
        self.expect("in")?;
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.keyword("esac") {
                return Ok(Node::If(arms, None));
            }
            self.take("(");
            let mut patterns = self.words(false)?;
            while self.take("|") {
                patterns.append(&mut self.words(false)?);
            }
            self.expect(")")?;
            arms.push((Node::Match(Rc::clone(&word), patterns), self.list(&[";;", ";&", "esac"])?));
            if self.rest().starts_with(";&") || self.rest().starts_with(";;&") {
                return self.wrong();
            }
            self.take(";;");
        }
    }

    /// The words and signs of a test, up to `]]`.
    fn test(&mut self) -> Result<Node, String> {
        let mut all: Vec<String> = Vec::new();
        loop {
            self.lines();
            let sign = ["&&", "||", "(", ")", "<", ">"].into_iter().find(|sign| self.take(sign));
            let token = match sign {
                Some(sign) => Some(sign.to_owned()),
                None if all.last().is_some_and(|last| last == "=~") => {
                    self.at += self.rest().find([' ', '\t', '\n']).unwrap_or(self.rest().len());
                    Some("regex".to_owned())
                }
                None => self.word()?,
            };
            match token {
                None => return self.wrong(),
                Some(token) if token == "]]" => return Ok(Node::Test(all)),
                Some(token) => all.push(token),
            }
        }
    }

    fn simple(&mut self) -> Result<Node, String> {
        let mut own = Simple::default();
        let mut is_begun = false;
        loop {
            self.blanks();
            if let Some(input) = self.redirect()? {
                own.input = input.or(own.input);
                is_begun = true;
                continue;
            }
            let Some(word) = self.word()? else { break };
            // The number of a file that is redirected.
            let is_file = word.bytes().all(|byte| byte.is_ascii_digit());
            if is_file && self.rest().starts_with(['<', '>']) {
                continue;
            }
            is_begun = true;
            if own.words.is_empty() && super::commands::parts(&word).is_some() {
                own.assigned.push(word);
                continue;
            }
            let is_first = own.words.is_empty() && own.assigned.is_empty();
            if is_first && RESERVED.contains(&word.as_str()) {
                return self.wrong();
            }
            self.blanks();
            if is_first && self.rest().starts_with('(') {
                return self.function(word);
            }
            self.launches |= super::is_launcher(&word);
            own.words.push(word);
        }
        match is_begun {
            true => Ok(Node::Simple(own)),
            false => self.wrong(),
        }
    }
}
