//! Statements that are not read: what they may set is not known from there on.

use super::expression::PURE;
use super::reader::{ASSIGN, Reader, Value, begins, below, has};
use super::tokens::{Line, Token};

/// Functions that may change anything.
pub(super) const ANYTHING: &str = "exec eval compile globals locals vars delattr __import__";
/// Words before brackets that are not a call.
const WORDS: &str =
    "if elif else and or not in is return while for with assert except del match case raise";
/// Words behind which names are bound, up to the end of the statement.
const BINDING: &str = "with except del case async class def import from match global nonlocal as";

impl Reader<'_> {
    /// Takes all as not known: fields of objects, parts of lists, and names.
    pub(super) fn lose_all(&mut self) {
        self.changes += 1;
        let lost = Value::Unknown(self.line);
        for own in &mut self.objects {
            self.steps += own.fields.len() + own.of.len() + 1;
            own.lost = Some(self.line);
            let parts = own.of.iter_mut().filter(|_| own.class == "[]");
            let all = parts.chain(own.fields.values_mut());
            all.filter(|own| !matches!(own, Value::Object(_) | Value::Base(_)))
                .for_each(|own| own.clone_from(&lost));
        }
        let names = self.frames.iter_mut().flat_map(|own| own.values_mut());
        names
            .filter(|own| matches!(own, Value::Plain(_) | Value::Function(_)))
            .for_each(|own| own.clone_from(&lost));
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
        let is_call = |pair: &[Token]| {
            let is_value = pair[0].is(")") || pair[0].is("]");
            pair[1].is("(") && pair[0].name().map_or(is_value, |word| !is_pure(word))
        };
        let is_called = !begins(tokens, "def class") && tokens.windows(2).any(is_call);
        let mut depth = 0;
        let is_sign = |token: &Token| {
            depth += token.step();
            matches!(token, Token::Mark(mark) if has(ASSIGN, mark)) && depth == 0
        };
        let signs: Vec<bool> = tokens.iter().map(is_sign).collect();
        let end = signs.iter().rposition(|is_it| *is_it).unwrap_or(0);
        // A list changes where it lies.
        let is_changed = end > 0 && !tokens[end].is("=") && self.is_changed(&tokens[..end]);
        if is_changed || is_called && self.has_objects(tokens) {
            self.lose_all();
        }
        let (mut is_all, mut is_for) = (false, false);
        for (at, token) in tokens.iter().enumerate() {
            let is = |at: Option<usize>, word: &str| {
                at.and_then(|at| tokens.get(at)).is_some_and(|own| own.is(word))
            };
            let (before, behind) = (at.checked_sub(1), Some(at + 1));
            is_for = token.is("for") || is_for && !token.is("in");
            let is_target = at < end || is_for || is_all || is(behind, ":=");
            is_all |= token.name().is_some_and(|word| has(BINDING, word)) && !is(before, ".");
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
