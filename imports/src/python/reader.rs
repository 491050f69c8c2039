//! Statements of a recipe, read without being run: assignments of literals, calls with them, and functions of the file
//! that set them.
//!
//! What any other statement may set is not known from its line on: the fields and names that it writes, and the
//! objects that a call in it gets.

use std::collections::BTreeMap;

use serde_json::Value as Tree;

use super::expression::commas;
use super::tokens::{Line, Token};

#[derive(Clone, Debug)]
pub(super) enum Value {
    Plain(Tree),
    /// The place of an object among all.
    Object(usize),
    /// The same in a field that is only asked for, never set.
    Base(usize),
    /// A name that the file does not define.
    Outside(String),
    Function(usize),
    /// Set in a line that is not read.
    Unknown(usize),
}

/// An object with fields, or a list.
pub(super) struct Object {
    /// The class or the function that made it: `[]` for a list; empty for one of a base.
    pub(super) class: String,
    /// Arguments without names, or the parts of a list.
    pub(super) of: Vec<Value>,
    pub(super) fields: Names,
    pub(super) line: usize,
    /// The line that may have set any of its fields.
    pub(super) lost: Option<usize>,
}

/// A parameter of a function, with its star and its default.
type Parameter = (String, &'static str, Option<Value>);
pub(super) type Names = BTreeMap<String, Value>;

/// Operators that assign.
pub(super) const ASSIGN: &str = "= := += -= *= /= //= %= @= &= |= ^= **= <<= >>=";
/// Decorators that leave the configuration as it is.
const DECORATORS: &str = "factory autoconvert";
/// Statements that set nothing.
const SET_NOTHING: &str = "pass break continue raise";
/// Statements that are not followed.
const COMPOUND: &str = "for while try except finally with class async match case global nonlocal";
/// The most words and objects of a file that are looked at.
const MOST_STEPS: usize = 2_000_000;
const MOST_CALLS: usize = 8;

/// A file as far as it is read.
#[derive(Default)]
pub(super) struct Reader<'a> {
    pub(super) objects: Vec<Object>,
    functions: Vec<(Vec<Parameter>, &'a [Line])>,
    /// Names of the file, and those of the functions that are read in it.
    pub(super) frames: Vec<Names>,
    pub(super) line: usize,
    /// Changes so far.
    pub(super) changes: usize,
    pub(super) steps: usize,
}

pub(super) fn has(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|own| own == word)
}

/// Whether `tokens` begin with one of `words`.
pub(super) fn begins(tokens: &[Token], words: &str) -> bool {
    tokens.first().and_then(Token::name).is_some_and(|word| has(words, word))
}

/// `line` and those below it.
pub(super) fn below<'l>(line: &'l Line, all: &mut Vec<&'l Line>) {
    all.push(line);
    line.block.iter().for_each(|line| below(line, all));
}

impl<'a> Reader<'a> {
    /// Reads the statements of a file; `steps` were taken before.
    pub(super) fn new(lines: &'a [Line], steps: usize) -> Self {
        let mut own = Self { frames: vec![Names::new()], steps, ..Self::default() };
        own.block(lines);
        own
    }

    /// Whether it is too much to be read; nothing else of it is then.
    pub(super) fn is_long(&self) -> bool {
        self.steps > MOST_STEPS || self.objects.len() > MOST_STEPS / 100
    }

    /// Reads a block up to a `return`, whose value it gives.
    fn block(&mut self, lines: &'a [Line]) -> Option<Value> {
        // Whether the branch of the last `if` is taken, if that is known.
        let mut taken = None;
        for (at, line) in lines.iter().enumerate() {
            if self.is_long() {
                break;
            }
            self.line = line.number;
            self.steps += line.tokens.len();
            let before = std::mem::take(&mut taken);
            let value = match line.tokens[0].name().unwrap_or_default() {
                "elif" | "else" if before == Some(true) => {
                    taken = before;
                    None
                }
                word @ ("if" | "elif" | "else") => {
                    if word == "if" || before.is_some() {
                        taken = self.condition(line);
                    }
                    match taken {
                        Some(true) => self.block(&line.block),
                        Some(false) => None,
                        None => self.unread(line),
                    }
                }
                "def" => self.define(&lines[..at], line),
                "from" | "import" => self.import(&line.tokens),
                "return" if line.tokens.len() == 1 => Some(Value::Plain(Tree::Null)),
                "return" => self.read(&line.tokens[1..]).or_else(|| self.unread(line)),
                word if has(SET_NOTHING, word) => None,
                _ if line.tokens[0].is("@") => None,
                word if has(COMPOUND, word) => self.unread(line),
                _ if line.block.is_empty() && self.simple(&line.tokens) => None,
                _ => self.unread(line),
            };
            if let Some(Value::Unknown(_)) = value {
                // It may not have returned.
                lines[at + 1..].iter().for_each(|line| drop(self.unread(line)));
            }
            if value.is_some() {
                return value;
            }
        }
        None
    }

    /// Whether the condition of a branch holds, if that is known.
    fn condition(&mut self, line: &Line) -> Option<bool> {
        let [_, condition @ .., Token::Mark(":")] = line.tokens.as_slice() else { return None };
        let known = match condition.is_empty() {
            true => Value::Plain(true.into()),
            false => self.read(condition)?,
        };
        match known {
            _ if line.block.is_empty() => None,
            Value::Plain(Tree::Null) => Some(false),
            Value::Plain(Tree::Bool(is)) => Some(is),
            _ => None,
        }
    }

    /// Binds the names of an import.
    fn import(&mut self, tokens: &[Token]) -> Option<Value> {
        if tokens.last()?.is("*") {
            self.lose_all();
        }
        let words = tokens.iter().skip_while(|token| !token.is("import")).skip(1);
        let words: Vec<&str> = words.filter_map(Token::name).collect();
        for (at, name) in words.iter().enumerate() {
            let is_other = at > 1 && words[at - 1] == "as";
            let of = if is_other { words[at - 2] } else { name };
            self.bind(name, Value::Outside(of.to_owned()));
        }
        None
    }

    /// Binds the name of a function, which is read if it has no decorator of unknown effect and no words of others.
    fn define(&mut self, above: &[Line], line: &'a Line) -> Option<Value> {
        let name = line.tokens.get(1).and_then(Token::name)?;
        let mut all = Vec::new();
        below(line, &mut all);
        let mut words = all.iter().flat_map(|line| line.tokens.iter().filter_map(Token::name));
        let is_other = words.any(|word| has("yield await nonlocal global", word));
        let is_kept = |line: &Line| {
            let words = line.tokens.iter().take_while(|token| !token.is("("));
            words.filter_map(Token::name).last().is_some_and(|word| has(DECORATORS, word))
        };
        let mut decorators = above.iter().rev().take_while(|line| line.tokens[0].is("@"));
        let is_plain = decorators.all(is_kept) && !line.block.is_empty();
        let value = match is_plain && !is_other && self.frames.len() == 1 {
            true => {
                let end = line.tokens.iter().rposition(|token| token.is(")"))?;
                let parts = commas(line.tokens.get(3..end)?);
                let all = parts.filter_map(|part| self.parameter(part)).collect();
                self.functions.push((all, &line.block));
                Value::Function(self.functions.len() - 1)
            }
            false => Value::Unknown(line.number),
        };
        self.bind(name, value);
        None
    }

    /// A parameter of a function: its stars, its name and its default; none of one of them alone.
    fn parameter(&mut self, tokens: &[Token]) -> Option<Parameter> {
        let star = tokens.iter().find_map(|token| match token {
            Token::Mark(mark @ ("*" | "**")) => Some(*mark),
            _ => None,
        });
        let name = tokens.iter().take(2).find_map(Token::name)?.to_owned();
        let sign = tokens.iter().position(|token| token.is("="));
        let default =
            sign.map(|at| self.read(&tokens[at + 1..]).unwrap_or(Value::Unknown(self.line)));
        Some((name, star.filter(|_| tokens[0].name().is_none()).unwrap_or_default(), default))
    }

    /// The value of function `at` for its arguments.
    pub(super) fn follow(&mut self, at: usize, plain: Vec<Value>, mut named: Names) -> Value {
        if self.frames.len() > MOST_CALLS {
            self.lose_all();
            return Value::Unknown(self.line);
        }
        let (parameters, body) = self.functions[at].clone();
        let (mut names, mut plain, line) = (Names::new(), plain.into_iter(), self.line);
        for (name, star, default) in parameters {
            let value = match star {
                "*" => self.object("[]", plain.by_ref().collect(), Names::new()),
                "**" => self.object("{}", Vec::new(), std::mem::take(&mut named)),
                _ => {
                    let own = plain.next().or_else(|| named.remove(&name)).or(default);
                    own.unwrap_or(Value::Outside(name.clone()))
                }
            };
            names.insert(name, value);
        }
        self.frames.push(names);
        let value = self.block(body);
        self.frames.pop();
        self.line = line;
        value.unwrap_or(Value::Plain(Tree::Null))
    }

    /// Reads an assignment or a call; whether it is one that is read.
    fn simple(&mut self, tokens: &[Token]) -> bool {
        let mut depth = 0;
        let is_sign = |(_, token): &(usize, &Token)| {
            depth += token.step();
            depth == 0
                && matches!(token, Token::Mark(mark) if has(ASSIGN, mark) || matches!(*mark, ":" | ";"))
        };
        let signs: Vec<(usize, &Token)> = tokens.iter().enumerate().filter(is_sign).collect();
        let (end, begin) = match signs.as_slice() {
            [] => return self.read(tokens).is_some(),
            [(at, Token::Mark("="))] => (*at, at + 1),
            // The type stands between.
            [(at, Token::Mark(":")), (sign, Token::Mark("="))] => (*at, sign + 1),
            [(at, Token::Mark(sign))] => {
                return self.change(&tokens[..*at], sign, &tokens[at + 1..]);
            }
            _ => return false,
        };
        let Some(value) = self.read(&tokens[begin..]) else { return false };
        match &tokens[..end] {
            [Token::Name(name)] => self.bind(name, value),
            [owner @ .., Token::Mark("."), Token::Name(field)] => match self.read(owner) {
                Some(Value::Object(at)) => self.set(at, field, value),
                Some(_) => self.unset(field),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Reads an assignment of a number that is made of the one before, as `*=` does; whether it is one that is read.
    fn change(&mut self, target: &[Token], sign: &str, own: &[Token]) -> bool {
        let operators = [("+=", "+"), ("-=", "-"), ("*=", "*"), ("//=", "//")];
        let Some((_, operator)) = operators.iter().find(|(own, _)| *own == sign) else {
            return false;
        };
        // Lists and objects change in place.
        if !matches!(self.read(target), Some(Value::Plain(Tree::Number(_)))) {
            return false;
        }
        let [equals, operator, open, close] = ["=", operator, "(", ")"].map(Token::Mark);
        let sum = [target, &[equals], target, &[operator, open], own, &[close]].concat();
        self.simple(&sum)
    }

    pub(super) fn set(&mut self, at: usize, field: &str, value: Value) {
        self.changes += 1;
        self.objects[at].fields.insert(field.to_owned(), value);
    }

    pub(super) fn bind(&mut self, name: &str, value: Value) {
        self.changes += 1;
        self.frames.last_mut().and_then(|own| own.insert(name.to_owned(), value));
    }

    pub(super) fn named(&self, name: &str) -> Value {
        let own = self.frames.last().and_then(|own| own.get(name));
        let value = own.or_else(|| self.frames[0].get(name)).cloned();
        value.unwrap_or_else(|| Value::Outside(name.to_owned()))
    }

    pub(super) fn object(&mut self, class: &str, of: Vec<Value>, fields: Names) -> Value {
        let (class, line) = (class.to_owned(), self.line);
        self.objects.push(Object { class, of, fields, line, lost: None });
        Value::Object(self.objects.len() - 1)
    }
}
