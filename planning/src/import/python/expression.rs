//! Expressions: literals, names, fields, calls, and one operator between whole numbers. The value of any other is not
//! known; one that is not parsed makes its statement unread.

use serde_json::Value as Tree;

use super::reader::{Names, Reader, Value, has};
use super::tokens::Token;
use super::unread::ANYTHING;

/// Words behind one value and in front of another.
const OPERATORS: &str = "if else or and not in is == != < <= > >= | ^ & << >> + - * / // % @ **";
/// Functions that change none of their arguments.
pub(super) const PURE: &str = "int float str bool len sum abs round print isinstance hasattr getattr range tuple list dict set \
                    enumerate zip field cast deepcopy decoder_vocab_size";

/// A place among the words of a statement.
pub(super) struct Cursor<'t> {
    pub(super) tokens: &'t [Token],
    pub(super) at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn next(&mut self) -> Option<&'t Token> {
        let token = self.tokens.get(self.at);
        self.at += 1;
        token
    }

    pub(super) fn is(&self, words: &str) -> bool {
        let is = |token: &Token| words.split(' ').any(|word| token.is(word));
        self.tokens.get(self.at).is_some_and(is)
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        let is_it = self.is(word);
        self.at += usize::from(is_it);
        is_it
    }
}

/// Parts between brackets.
struct Parts {
    plain: Vec<Value>,
    named: Names,
    /// Whether there are others.
    is_open: bool,
    /// Whether any may hold an object that is not new.
    has_objects: bool,
}

impl Reader<'_> {
    /// The value of all of `tokens`, if they are read.
    pub(super) fn read(&mut self, tokens: &[Token]) -> Option<Value> {
        let mut cursor = Cursor { tokens, at: 0 };
        let value = self.expression(&mut cursor)?;
        (cursor.at == tokens.len()).then_some(value)
    }

    /// Values with operators between.
    pub(super) fn expression(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        let (mut all, mut operators, before) = (Vec::new(), Vec::new(), self.changes);
        loop {
            while cursor.is("not - + ~") {
                operators.extend(cursor.next());
            }
            all.push(self.chain(cursor)?);
            if !cursor.is(OPERATORS) {
                break;
            }
            operators.extend(cursor.next());
        }
        if !operators.is_empty() && self.changes > before {
            // Which of the parts ran is not known.
            return Some(self.anything());
        }
        let number = |at: usize| match all.get(at) {
            Some(Value::Plain(Tree::Number(own))) => own.as_i64(),
            _ => None,
        };
        let known = match (operators.as_slice(), number(0), number(1)) {
            ([], ..) => return all.pop(),
            ([Token::Mark("-")], Some(one), None) if all.len() == 1 => one.checked_neg(),
            ([Token::Mark(mark)], Some(a), Some(b)) => match *mark {
                "+" => a.checked_add(b),
                "-" => a.checked_sub(b),
                "*" => a.checked_mul(b),
                "//" => a.checked_div_euclid(b).filter(|_| b > 0),
                _ => None,
            },
            _ => None,
        };
        Some(known.map_or(Value::Unknown(self.line), |known| Value::Plain(known.into())))
    }

    /// An atom with the fields and calls behind it.
    fn chain(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        let mut value = self.atom(cursor)?;
        loop {
            if cursor.take(".") {
                let name = cursor.next()?.name()?;
                value = match cursor.take("(") {
                    true => {
                        let parts = self.parts(cursor, ")")?;
                        self.method(&value, name, parts)
                    }
                    false => self.field(&value, name),
                };
            } else if cursor.take("(") {
                let parts = self.parts(cursor, ")")?;
                value = self.call(&value, parts);
            } else if cursor.take("[") {
                self.parts(cursor, "]")?;
                value = Value::Unknown(self.line);
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self, cursor: &mut Cursor<'_>) -> Option<Value> {
        Some(match cursor.next()? {
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
                while let Some(Token::Text(more)) = cursor.tokens.get(cursor.at) {
                    text += more;
                    cursor.at += 1;
                }
                Value::Plain(text.into())
            }
            Token::Formatted => Value::Unknown(self.line),
            Token::Mark("(") => {
                let mut parts = self.parts(cursor, ")")?;
                let is_one = parts.plain.len() == 1 && !cursor.tokens[cursor.at - 2].is(",");
                match is_one && !parts.is_open {
                    true => parts.plain.pop()?,
                    false => self.list(parts),
                }
            }
            Token::Mark("[") => {
                let parts = self.parts(cursor, "]")?;
                self.list(parts)
            }
            Token::Mark("{") => {
                self.parts(cursor, "}")?;
                Value::Unknown(self.line)
            }
            _ => return None,
        })
    }

    fn list(&mut self, parts: Parts) -> Value {
        match parts.is_open {
            true => Value::Unknown(self.line),
            false => self.object("[]", parts.plain, Names::new()),
        }
    }

    /// The parts up to the bracket `end`.
    fn parts(&mut self, cursor: &mut Cursor<'_>, end: &str) -> Option<Parts> {
        let (plain, named) = (Vec::new(), Names::new());
        let mut parts = Parts { plain, named, is_open: false, has_objects: false };
        let first = cursor.at;
        let ends = format!(", {end}");
        while !cursor.take(end) {
            let key = match cursor.tokens.get(cursor.at..cursor.at + 2) {
                Some([Token::Name(key), Token::Mark("=")]) => Some(key.clone()),
                _ => None,
            };
            cursor.at += if key.is_some() { 2 } else { 0 };
            let begin = cursor.at;
            let value = self.expression(cursor).filter(|_| cursor.is(&ends));
            if value.is_none() {
                cursor.at = begin;
                let mut inner = 0;
                while inner > 0 || !cursor.is(&ends) {
                    inner += cursor.next()?.step();
                }
                self.scan(&cursor.tokens[begin..cursor.at]);
                parts.is_open |= key.is_none();
            }
            let value = value.unwrap_or(Value::Unknown(self.line));
            match key {
                Some(key) => drop(parts.named.insert(key, value)),
                None => parts.plain.push(value),
            }
            if !cursor.take(",") && !cursor.is(end) {
                return None;
            }
        }
        parts.has_objects = self.has_objects(&cursor.tokens[first..cursor.at]);
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
        match self.objects[at].fields.get(name) {
            Some(Value::Base(at)) => return Value::Object(*at),
            Some(value) => return value.clone(),
            None => {}
        }
        let (lost, made) = (self.objects[at].lost, self.objects.len());
        self.object("", Vec::new(), Names::new());
        self.objects[made].lost = lost;
        self.objects[at].fields.insert(name.to_owned(), Value::Base(made));
        Value::Object(made)
    }

    fn method(&mut self, owner: &Value, name: &str, mut parts: Parts) -> Value {
        let at = match owner {
            Value::Plain(_) if !parts.has_objects => return Value::Unknown(self.line),
            Value::Object(at) if !self.objects[*at].fields.contains_key(name) => *at,
            owner => {
                let callee = self.field(owner, name);
                return self.call(&callee, parts);
            }
        };
        let (line, own) = (self.line, &mut self.objects[at]);
        if own.class == "[]" && !parts.has_objects {
            own.lost = Some(line);
            return Value::Unknown(line);
        }
        let class = format!("{}.{name}", own.class);
        let is_of_class = is_class(own.class.split('.').next().unwrap_or_default());
        if is_of_class && own.class.contains('.') && own.fields.is_empty() && class.len() < 200 {
            // A model by the name that it was made of.
            parts.plain.insert(0, owner.clone());
            return self.object(&class, parts.plain, parts.named);
        }
        self.anything()
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
        let last = class.rsplit('.').next().unwrap_or_default();
        if has(ANYTHING, last) {
            return self.anything();
        }
        if has(PURE, last) {
            return Value::Unknown(self.line);
        }
        if class.ends_with("run.Config") || class.ends_with("run.Partial") {
            // Objects of NeMo-Run: a class, or a function that is called later.
            if let Some(Value::Outside(name)) = parts.plain.first()
                && is_class(name)
            {
                class.clone_from(name);
            }
            parts.plain.drain(..1.min(parts.plain.len()));
        } else if !is_class(&class) {
            if parts.is_open || parts.has_objects {
                return self.anything();
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

/// A literal number.
fn number(text: &str) -> Option<Tree> {
    let clean = text.replace('_', "").to_lowercase();
    let number = || clean.parse::<f64>().ok().filter(|own| own.is_finite());
    clean.parse::<i64>().map(Tree::from).ok().or_else(|| number().map(Tree::from))
}

/// Whether a call by this name makes an object of a class.
fn is_class(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.starts_with(|c: char| c.is_ascii_uppercase())
}
