//! Statements that are not read: what they may set is not known from there on.

use std::collections::{BTreeMap, BTreeSet};

use super::expression::PURE;
use super::reader::{ASSIGN, Reader, Value, begins, below, has};
use super::tokens::{Line, Token};

/// Functions that may change anything.
pub(super) const ANYTHING: &str = "exec eval compile globals locals vars delattr __import__";
/// Words before brackets that are no call.
const WORDS: &str =
    "if elif else and or not in is return while for with assert except del match case raise";

impl Reader<'_> {
    /// The objects that `values` hold; none if they may hold any.
    pub(super) fn reached<'v>(
        &self,
        values: impl Iterator<Item = &'v Value>,
    ) -> Option<BTreeSet<usize>> {
        let mut all: Vec<&Value> = values.collect();
        let mut seen = BTreeSet::new();
        while let Some(value) = all.pop() {
            match value {
                Value::Unknown(_) | Value::Function(_) => return None,
                Value::Outside(name) if has(ANYTHING, name) => return None,
                Value::Object(at) if seen.insert(*at) => {
                    let own = &self.objects[*at];
                    all.extend(own.of.iter().chain(own.fields.values()));
                    // It may be a method of the object above.
                    seen.extend(
                        own.home.iter().filter(|_| own.fields.is_empty()).map(|(home, _)| *home),
                    );
                }
                _ => {}
            }
        }
        Some(seen)
    }

    /// Takes all objects that `values` hold as not known, and all if they may hold any.
    pub(super) fn lose<'v>(&mut self, values: impl Iterator<Item = &'v Value>) {
        match self.reached(values) {
            Some(all) => all.into_iter().for_each(|at| self.lose_one(at)),
            None => self.lose_all(),
        }
    }

    pub(super) fn lose_all(&mut self) {
        (0..self.objects.len()).for_each(|at| self.lose_one(at));
        let line = self.line;
        self.steps += self.frames.iter().map(BTreeMap::len).sum::<usize>();
        let all = self.frames.iter_mut().flat_map(BTreeMap::values_mut);
        all.filter(|own| matches!(own, Value::Plain(_)))
            .for_each(|own| *own = Value::Unknown(line));
    }

    fn lose_one(&mut self, at: usize) {
        self.changes += 1;
        let (line, own) = (self.line, &mut self.objects[at]);
        self.steps += own.fields.len() + own.of.len() + 1;
        own.lost = Some(line);
        let parts = own.of.iter_mut().filter(|_| own.class == "[]");
        let all = parts.chain(own.fields.values_mut());
        all.filter(|own| !matches!(own, Value::Object(_)))
            .for_each(|own| *own = Value::Unknown(line));
    }

    /// Takes `field` of every object as not known.
    pub(super) fn unset(&mut self, field: &str) {
        (0..self.objects.len()).for_each(|at| self.set(at, field, Value::Unknown(self.line)));
        self.steps += self.objects.len();
    }

    /// Takes what `line` and those below it may set as not known; a value if they may return.
    pub(super) fn unread(&mut self, line: &Line) -> Option<Value> {
        let mut all = Vec::new();
        below(line, &mut all);
        self.line = line.number;
        // A loop may come by once more, with other names.
        for line in all.iter().chain(&all) {
            match begins(&line.tokens, "from import") {
                true => drop(self.import(line, false)),
                false => self.scan(&line.tokens),
            }
        }
        let mut words = all.iter().flat_map(|line| &line.tokens);
        let is_inner = self.frames.len() > 1 && words.any(|word| word.is("return"));
        is_inner.then_some(Value::Unknown(line.number))
    }

    /// Takes what `tokens` may set as not known: names and fields that they assign, and what calls may change.
    pub(super) fn scan(&mut self, tokens: &[Token]) {
        self.steps += tokens.len();
        let is_own = |word: &str| self.frames.iter().any(|own| own.contains_key(word));
        let is_pure = |word: &str| has(WORDS, word) || has(PURE, word) && !is_own(word);
        let is_call = |pair: &[Token]| match &pair[0] {
            Token::Name(word) => pair[1].is("(") && !is_pure(word),
            before => pair[1].is("(") && (before.is(")") || before.is("]")),
        };
        let is_called = !begins(tokens, "def class") && tokens.windows(2).any(is_call);
        let (mut depth, mut is_for, mut end) = (0, begins(tokens, "del case"), 0);
        for (at, token) in tokens.iter().enumerate() {
            depth += token.step();
            if let Token::Mark(mark) = token
                && depth == 0
                && has(ASSIGN, mark)
            {
                end = at;
                if *mark != "=" {
                    // A list changes where it lies.
                    match self.read(&tokens[..at]).unwrap_or(Value::Unknown(self.line)) {
                        Value::Object(own) if self.objects[own].home.is_some() => {}
                        old => self.lose(std::iter::once(&old)),
                    }
                }
            }
        }
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &tokens[at]);
            let behind = tokens.get(at + 1);
            let is = |own: Option<&Token>, word: &str| own.is_some_and(|own| own.is(word));
            is_for = token.is("for") || is_for && !token.is("in");
            let is_target = at < end
                || is_for
                || is(behind, ":=")
                || ["as", "def", "class"].iter().any(|word| is(before, word));
            match token {
                Token::Text(key) if is_target || is_called => self.unset(key),
                Token::Name(name) if is(before, ".") => {
                    if is_target && !is(behind, ".") {
                        self.unset(name);
                    }
                }
                Token::Name(name) => {
                    let value = self.named(name);
                    if is_called || is_target && is(behind, "[") {
                        self.lose(std::iter::once(&value));
                    }
                    if is_target && !is(behind, ".") && !is(behind, "[") {
                        self.bind(name, Value::Unknown(self.line));
                    }
                }
                _ => {}
            }
        }
    }
}
