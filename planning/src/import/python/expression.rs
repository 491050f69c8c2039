//! Expressions: literals, names, fields, calls, and one operator between whole numbers or words. The value of any
//! other is not known; one that is not parsed makes its statement unread.

use serde_json::Value as Tree;

use super::literal::{folded, number, truth};
use super::reader::{Names, Reader, Value, has};
use super::tokens::Token;
use super::unread::ANYTHING;

/// Words behind one value and in front of another.
const OPERATORS: &str = "or and not in is == != < <= > >= | ^ & << >> + - * / // % @ **";
/// Functions that change none of their arguments.
pub(super) const PURE: &str = "int float str bool len sum abs round print isinstance hasattr getattr range tuple list dict set \
                    enumerate zip field cast deepcopy decoder_vocab_size";
/// The deepest nesting of expressions.
const MOST_DEEP: usize = 100;

/// A place among the words of a statement.
pub(super) struct Cursor<'t> {
    pub(super) tokens: &'t [Token],
    pub(super) at: usize,
    pub(super) depth: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn is(&self, words: &str) -> bool {
        let is = |token: &Token| words.split(' ').any(|word| token.is(word));
        self.peek().is_some_and(is)
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        let is_it = self.is(word);
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes a name or a text in front of `mark`.
    pub(super) fn key(&mut self, mark: &str) -> Option<&'t str> {
        let key = match self.peek()? {
            Token::Name(word) if mark == "=" => word,
            Token::Text(word) if mark == ":" => word,
            _ => return None,
        };
        self.tokens.get(self.at + 1).filter(|next| next.is(mark))?;
        self.at += 2;
        Some(key)
    }
}

/// Parts between brackets.
pub(super) struct Parts {
    plain: Vec<Value>,
    named: Names,
    /// Whether there are others.
    is_open: bool,
    /// How many objects there were before.
    before: usize,
}

impl Reader<'_> {
    /// The value of all of `tokens`, if they are read.
    pub(super) fn read(&mut self, tokens: &[Token]) -> Option<Value> {
        let mut cursor = Cursor { tokens, at: 0, depth: 0 };
        let mut parts = vec![self.expression(&mut cursor)?];
        let is_list = cursor.is(",");
        while cursor.take(",") && cursor.at < tokens.len() {
            parts.push(self.expression(&mut cursor)?);
        }
        let value = if is_list { self.object("[]", parts, Names::new()) } else { parts.pop()? };
        (cursor.at == tokens.len()).then_some(value)
    }

    pub(super) fn expression(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        cursor.depth += 1;
        let before = self.changes;
        let (mut value, mut is_one) =
            self.operation(cursor).filter(|_| cursor.depth < MOST_DEEP)?;
        if cursor.take("if") {
            let (condition, _) = self.operation(cursor)?;
            let other = if cursor.take("else") { self.expression(cursor)? } else { return None };
            is_one = false;
            value = match truth(&condition) {
                Some(true) => value,
                Some(false) => other,
                None => Value::Unknown(self.line),
            };
        }
        if !is_one && self.changes > before {
            // Which of the parts ran is not known.
            value = self.anything();
        }
        cursor.depth -= 1;
        Some(value)
    }

    /// Values with operators between, and whether it is one without.
    fn operation(&mut self, cursor: &mut Cursor<'_>) -> Option<(Value, bool)> {
        let (mut all, mut operators) = (Vec::new(), Vec::new());
        loop {
            while cursor.is("not - + ~") && cursor.tokens.get(cursor.at + 1).is_some() {
                operators.extend(cursor.peek());
                cursor.at += 1;
            }
            all.push(self.chain(cursor)?);
            if !cursor.is(OPERATORS) {
                break;
            }
            operators.extend(cursor.peek());
            cursor.at += 1;
        }
        let value = match (all.as_slice(), operators.as_slice()) {
            ([_], []) => all.pop()?,
            ([Value::Plain(Tree::Number(one))], [Token::Mark("-")]) => {
                let whole = one.as_i64().and_then(i64::checked_neg).map(Tree::from);
                Value::Plain(whole.or_else(|| one.as_f64().map(|one| Tree::from(-one)))?)
            }
            ([left, right], [operator]) => self.value(folded(operator, left, right)),
            _ => Value::Unknown(self.line),
        };
        Some((value, operators.is_empty()))
    }

    /// A value if it is known.
    pub(super) fn value(&self, known: Option<Tree>) -> Value {
        known.map_or(Value::Unknown(self.line), Value::Plain)
    }

    /// An atom with the fields and calls behind it.
    fn chain(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        let mut value = self.atom(cursor)?;
        loop {
            if cursor.take(".") {
                let name = cursor.peek()?.name()?;
                cursor.at += 1;
                value = match cursor.take("(") {
                    true => {
                        let parts = self.parts(cursor, ")", "=")?;
                        self.method(&value, name, parts)
                    }
                    false => self.field(&value, name),
                };
            } else if cursor.take("(") {
                let parts = self.parts(cursor, ")", "=")?;
                value = self.call(&value, parts);
            } else if cursor.take("[") {
                self.parts(cursor, "]", "")?;
                value = Value::Unknown(self.line);
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        let token = cursor.peek()?;
        cursor.at += 1;
        Some(match token {
            Token::Name(name) => match name.as_str() {
                "None" => Value::Plain(Tree::Null),
                "True" => Value::Plain(true.into()),
                "False" => Value::Plain(false.into()),
                "lambda" | "await" | "yield" => return None,
                name => self.named(name),
            },
            Token::Number(text) => Value::Plain(number(text)?),
            Token::Text(text) => {
                let mut text = text.clone();
                while let Some(Token::Text(more)) = cursor.peek() {
                    text += more;
                    cursor.at += 1;
                }
                let is_plain = cursor.peek() != Some(&Token::Formatted);
                is_plain.then(|| Value::Plain(text.into()))?
            }
            Token::Formatted => Value::Unknown(self.line),
            Token::Mark("(") => {
                let mut parts = self.parts(cursor, ")", "")?;
                let is_list = parts.plain.len() != 1 || cursor.tokens[cursor.at - 2].is(",");
                match parts.is_open {
                    true => Value::Unknown(self.line),
                    false if is_list => self.object("[]", parts.plain, Names::new()),
                    false => parts.plain.pop()?,
                }
            }
            Token::Mark("[") => {
                let parts = self.parts(cursor, "]", "")?;
                match parts.is_open {
                    true => Value::Unknown(self.line),
                    false => self.object("[]", parts.plain, Names::new()),
                }
            }
            Token::Mark("{") => {
                let parts = self.parts(cursor, "}", ":")?;
                match parts.is_open || !parts.plain.is_empty() {
                    true => Value::Unknown(self.line),
                    false => self.object("{}", Vec::new(), parts.named),
                }
            }
            _ => return None,
        })
    }

    /// The parts up to the bracket `end`, with names in front of `mark`.
    fn parts(&mut self, cursor: &mut Cursor<'_>, end: &str, mark: &str) -> Option<Parts> {
        let (plain, named, before) = (Vec::new(), Names::new(), self.objects.len());
        let mut parts = Parts { plain, named, is_open: false, before };
        let ends = format!(", {end}");
        while !cursor.take(end) {
            let (begin, depth) = (cursor.at, cursor.depth);
            let key = cursor.key(mark);
            match (self.expression(cursor).filter(|_| cursor.is(&ends)), key) {
                (Some(value), Some(key)) => drop(parts.named.insert(key.to_owned(), value)),
                (Some(value), None) => parts.plain.push(value),
                (None, key) => {
                    (cursor.at, cursor.depth) = (begin, depth);
                    let mut inner = 0;
                    while inner > 0 || !cursor.is(&ends) {
                        inner += cursor.peek()?.step();
                        cursor.at += 1;
                    }
                    self.scan(&cursor.tokens[begin..cursor.at]);
                    parts.is_open |= key.is_none();
                    key.into_iter().for_each(|key| {
                        parts.named.insert(key.to_owned(), Value::Unknown(self.line));
                    });
                }
            }
            if !cursor.take(",") && !cursor.is(end) {
                return None;
            }
        }
        Some(parts)
    }

    /// Field `name` of `owner`; one that the file has not set is an object of a base.
    fn field(&mut self, owner: &Value, name: &str) -> Value {
        let at = match owner {
            Value::Outside(own) if own.len() < 200 => {
                return Value::Outside(format!("{own}.{name}"));
            }
            // Its table of fields is the object itself.
            Value::Object(_) if name.starts_with("__") => return owner.clone(),
            Value::Object(at) => *at,
            _ => return Value::Unknown(self.line),
        };
        if let Some(value) = self.objects[at].fields.get(name) {
            return value.clone();
        }
        let made = self.object("", Vec::new(), Names::new());
        let lost = self.objects[at].lost;
        if let Some(own) = self.objects.last_mut() {
            (own.lost, own.home) = (lost, Some((at, name.to_owned())));
        }
        self.objects[at].fields.insert(name.to_owned(), made.clone());
        made
    }

    fn method(&mut self, owner: &Value, name: &str, mut parts: Parts) -> Value {
        let at = match owner {
            Value::Plain(_) => return self.changed(&parts),
            Value::Object(at) if !self.objects[*at].fields.contains_key(name) => *at,
            owner => {
                let callee = self.field(owner, name);
                return self.call(&callee, parts);
            }
        };
        let own = &self.objects[at];
        if own.class == "{}" && own.lost.is_none() && name == "get" {
            let [Value::Plain(Tree::String(key)), other @ ..] = parts.plain.as_slice() else {
                return Value::Unknown(self.line);
            };
            return own
                .fields
                .get(key)
                .or(other.first())
                .cloned()
                .unwrap_or(Value::Plain(Tree::Null));
        }
        let is_of_class =
            own.class.starts_with(|c: char| c.is_ascii_uppercase()) && own.class.contains('.');
        let class = format!("{}.{name}", own.class);
        if is_of_class && own.fields.is_empty() && class.len() < 200 {
            // A model by the name that it was made of.
            parts.plain.insert(0, owner.clone());
            return self.object(&class, parts.plain, parts.named);
        }
        parts.plain.push(owner.clone());
        self.changed(&parts)
    }

    /// Takes the arguments as changed, and all if one of them may be any object.
    fn changed(&mut self, parts: &Parts) -> Value {
        self.lose_reached(parts.plain.iter().chain(parts.named.values()));
        Value::Unknown(self.line)
    }

    /// A value of which nothing is known, not even what it has changed.
    fn anything(&mut self) -> Value {
        self.lose_all();
        Value::Unknown(self.line)
    }

    fn call(&mut self, callee: &Value, mut parts: Parts) -> Value {
        let mut class = match callee {
            Value::Function(at) if !parts.is_open => {
                return self.follow(*at, parts.plain, parts.named);
            }
            Value::Outside(name) => name.clone(),
            _ => return self.anything(),
        };
        let last = class.rsplit('.').next().unwrap_or_default().to_owned();
        if let ("setattr", [Value::Object(at), Value::Plain(Tree::String(field)), value]) =
            (last.as_str(), parts.plain.as_slice())
        {
            self.set(*at, field, value.clone());
            return Value::Plain(Tree::Null);
        }
        if has(ANYTHING, &last) {
            return self.anything();
        }
        if last == "dict" && parts.plain.is_empty() && !parts.is_open {
            return self.object("{}", Vec::new(), parts.named);
        }
        if has(PURE, &last) {
            return Value::Unknown(self.line);
        }
        if class.ends_with("run.Config") || class.ends_with("run.Partial") {
            // Objects of NeMo-Run: a class, or a function that is called later.
            class = match parts.plain.first() {
                Some(Value::Outside(name)) if is_class(name) => name.clone(),
                _ => class,
            };
            parts.plain.drain(..1.min(parts.plain.len()));
        } else if !is_class(&class) {
            let own = self.reached(parts.plain.iter().chain(parts.named.values()));
            let is_new = own.is_some_and(|own| own.iter().all(|at| *at >= parts.before));
            if parts.is_open || !is_new {
                return self.changed(&parts);
            }
            // A mark of arguments by name, of which only the function knows what they set.
            parts.plain.extend((!parts.named.is_empty()).then(|| Value::Plain(true.into())));
        }
        let made = self.object(&class, parts.plain, parts.named);
        if let Some(own) = self.objects.last_mut().filter(|_| parts.is_open) {
            own.lost = Some(self.line);
        }
        made
    }
}

/// Whether a call by this name makes an object of a class.
fn is_class(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.starts_with(|c: char| c.is_ascii_uppercase())
}
