//! Statements that are not read: what they may set is not known from there on.

use super::expression::PURE;
use super::reader::{ASSIGN, Reader, Value, begins, below, has};
use super::tokens::{Line, Token};

/// Functions that may change anything.
pub(super) const ANYTHING: &str = "exec eval compile globals locals vars delattr __import__";
/// Words before brackets that are no call.
const WORDS: &str =
    "if elif else and or not in is return while for with assert except del match case raise";
/// Statements of which all names may be bound.
const BINDING: &str = "with except del case async class def import from match global nonlocal";

impl Reader<'_> {
    /// Takes all as not known: fields of objects, parts of lists, and names.
    pub(super) fn lose_all(&mut self) {
        self.changes += 1;
        let line = self.line;
        let is_lost = |own: &&mut Value| !matches!(own, Value::Object(_) | Value::Base(_));
        for own in &mut self.objects {
            self.steps += own.fields.len() + own.of.len() + 1;
            own.lost = Some(line);
            let parts = own.of.iter_mut().filter(|_| own.class == "[]");
            parts
                .chain(own.fields.values_mut())
                .filter(is_lost)
                .for_each(|own| *own = Value::Unknown(line));
        }
        for own in &mut self.frames {
            self.steps += own.len();
            let plain = own.values_mut().filter(|own| matches!(own, Value::Plain(_)));
            plain.for_each(|own| *own = Value::Unknown(line));
        }
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
        all.iter().chain(&all).for_each(|line| self.scan(&line.tokens));
        let mut words = all.iter().flat_map(|line| &line.tokens);
        let is_inner = self.frames.len() > 1 && words.any(|word| word.is("return"));
        is_inner.then_some(Value::Unknown(line.number))
    }

    /// Whether `tokens` may hold an object that is not new.
    pub(super) fn has_objects(&self, tokens: &[Token]) -> bool {
        tokens.iter().enumerate().any(|(at, token)| {
            let is_field = at > 0 && tokens[at - 1].is(".");
            let is_key = tokens.get(at + 1).is_some_and(|next| next.is("="));
            let name = token.name().filter(|_| !is_field && !is_key);
            name.is_some_and(|name| match self.named(name) {
                Value::Outside(name) => has(ANYTHING, &name),
                value => !matches!(value, Value::Plain(_)),
            })
        })
    }

    /// Whether an operator may change the object in `tokens`, not only the field or the name.
    fn is_changed(&mut self, tokens: &[Token]) -> bool {
        match self.read(tokens) {
            Some(Value::Object(at)) => !self.objects[at].class.is_empty(),
            // It is this statement that has made it unknown.
            Some(Value::Unknown(line)) => line != self.line,
            value => !matches!(value, Some(Value::Plain(_))),
        }
    }

    /// Takes what `tokens` may set as not known: all where they call, else names and fields that they assign.
    pub(super) fn scan(&mut self, tokens: &[Token]) {
        self.steps += tokens.len();
        let is_own = |word: &str| self.frames.iter().any(|own| own.contains_key(word));
        let is_pure = |word: &str| has(WORDS, word) || has(PURE, word) && !is_own(word);
        let is_call = |pair: &[Token]| match &pair[0] {
            Token::Name(word) => pair[1].is("(") && !is_pure(word),
            before => pair[1].is("(") && (before.is(")") || before.is("]")),
        };
        let (mut depth, mut end) = (0, 0);
        let mut is_any = !begins(tokens, "def class")
            && tokens.windows(2).any(is_call)
            && self.has_objects(tokens);
        for (at, token) in tokens.iter().enumerate() {
            depth += token.step();
            if let Token::Mark(mark) = token
                && has(ASSIGN, mark)
                && depth == 0
            {
                end = at;
                // A list changes where it lies.
                is_any |= *mark != "=" && self.is_changed(&tokens[..at]);
            }
        }
        if is_any {
            self.lose_all();
        }
        let (is_all, mut is_for) = (begins(tokens, BINDING), false);
        for (at, token) in tokens.iter().enumerate() {
            let is = |own: Option<&Token>, words: &str| {
                own.is_some_and(|own| words.split(' ').any(|word| own.is(word)))
            };
            let before = at.checked_sub(1).map(|at| &tokens[at]);
            let behind = tokens.get(at + 1);
            is_for = token.is("for") || is_for && !token.is("in");
            let is_target = at < end || is_for || is_all || is(behind, ":=") || is(before, "as");
            match token {
                _ if !is_target || is(behind, ".") => {}
                Token::Mark("[") => self.lose_all(),
                Token::Name(field) if is(before, ".") => self.unset(field),
                Token::Name(name) => self.bind(name, Value::Unknown(self.line)),
                _ => {}
            }
        }
    }
}
