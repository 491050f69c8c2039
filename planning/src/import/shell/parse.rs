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
    Case(String, Vec<(Vec<String>, Self)>),
    /// A loop over words; without them, over the arguments of the script.
    For(String, Option<Vec<String>>, Box<Self>),
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
            Self::Case(_, arms) => arms.iter().map(|(_, body)| body).collect(),
            Self::Loop(_, condition, body) => vec![condition, body],
            _ => Vec::new(),
        }
    }

    /// The words in it that are expanded.
    pub(super) fn words(&self) -> Vec<&String> {
        match self {
            Self::Simple(own) => own.assigned.iter().chain(&own.words).collect(),
            Self::Case(word, arms) => {
                std::iter::once(word).chain(arms.iter().flat_map(|(all, _)| all)).collect()
            }
            Self::For(_, words, _) => words.iter().flatten().collect(),
            Self::Test(tokens) => tokens.iter().collect(),
            _ => Vec::new(),
        }
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

    /// The same, of one command at least.
    fn some(&mut self, ends: &[&str]) -> Result<Node, String> {
        match self.list(ends)? {
            Node::List(all) if all.is_empty() => self.wrong(),
            list => Ok(list),
        }
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
            let list = self.some(&[")"])?;
            self.expect(")")?;
            Node::Apart(Box::new(list))
        } else if self.keyword("{") {
            let list = self.some(&["}"])?;
            self.expect("}")?;
            list
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
            let condition = self.some(&["then"])?;
            self.expect("then")?;
            arms.push((condition, self.some(&["elif", "else", "fi"])?));
            if self.keyword("elif") {
                continue;
            }
            let last = self.keyword("else").then(|| self.some(&["fi"])).transpose()?;
            self.expect("fi")?;
            return Ok(Node::If(arms, last.map(Box::new)));
        }
    }

    fn for_loop(&mut self) -> Result<Node, String> {
        self.blanks();
        if let Some(sums) = self.sum("((") {
            self.lines_and_semicolon();
            return Ok(Node::Loop("for", Box::new(Node::Sum(sums)), self.body()?));
        }
        let (name, words) = self.header()?;
        Ok(Node::For(name, words, self.body()?))
    }

    /// The variable of a loop, and its words.
    fn header(&mut self) -> Result<(String, Option<Vec<String>>), String> {
        self.blanks();
        let name = self.word()?.filter(|name| is_name(name));
        let Some(name) = name else { return self.wrong() };
        self.lines();
        let mut words = None;
        if self.keyword("in") {
            let mut all = Vec::new();
            self.blanks();
            while let Some(word) = self.word()? {
                all.push(word);
                self.blanks();
            }
            words = Some(all);
        }
        self.lines_and_semicolon();
        Ok((name, words))
    }

    fn lines_and_semicolon(&mut self) {
        self.blanks();
        self.take(";");
        self.lines();
    }

    fn body(&mut self) -> Result<Box<Node>, String> {
        let (open, close) = if self.is_at("{") { ("{", "}") } else { ("do", "done") };
        self.expect(open)?;
        let list = self.some(&[close])?;
        self.expect(close)?;
        Ok(Box::new(list))
    }

    fn loop_while(&mut self, name: &'static str) -> Result<Node, String> {
        let condition = Box::new(self.some(&["do"])?);
        Ok(Node::Loop(name, condition, self.body()?))
    }

    fn case(&mut self) -> Result<Node, String> {
        self.blanks();
        let Some(word) = self.word()? else { return self.wrong() };
        self.lines();
        self.expect("in")?;
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.keyword("esac") {
                return Ok(Node::Case(word, arms));
            }
            self.take("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                let Some(pattern) = self.word()? else { return self.wrong() };
                patterns.push(pattern);
                self.blanks();
                if !self.take("|") {
                    break;
                }
            }
            self.expect(")")?;
            arms.push((patterns, self.list(&[";;", ";&", "esac"])?));
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
