//! Expressions: literals, names, fields, calls, one operator between whole numbers or texts, and a choice by it. The
//! value of any other is not known; one that is not parsed makes its statement unread.

use serde_json::Value as Tree;

use super::reader::{Names, Object, Reader, Value, has};
use super::tokens::Token;
use super::unread::ANYTHING;

/// Words behind one value and in front of another.
const OPERATORS: &str = "if else or and not in is == != < <= > >= | ^ & << >> + - * / // % @ ** ~";
/// Functions that change none of their arguments.
pub(super) const PURE: &str = "int float str bool len sum abs round print isinstance hasattr getattr range tuple list dict set \
                    enumerate zip field cast deepcopy decoder_vocab_size";

/// Parts between brackets.
#[derive(Default)]
struct Parts {
    plain: Vec<Value>,
    named: Names,
    /// Whether there are others.
    is_open: bool,
    /// Whether any may hold an object that is not new.
    has_objects: bool,
}

/// The parts of `tokens` between commas.
pub(super) fn commas(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    let mut depth = 0;
    let is_comma = move |token: &Token| {
        depth += token.step();
        depth == 0 && token.is(",")
    };
    tokens.split(is_comma).filter(|part| !part.is_empty())
}

/// What stands in the brackets that `tokens` begin with, and behind them.
fn brackets(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    let mut depth = 0;
    let is_end = |token: &Token| {
        depth += token.step();
        depth == 0
    };
    let end = tokens.iter().position(is_end)?;
    Some((tokens.get(1..end)?, &tokens[end + 1..]))
}

impl Reader<'_> {
    /// The value of `tokens`, if they are read: values with operators between.
    pub(super) fn read(&mut self, tokens: &[Token]) -> Option<Value> {
        let (mut depth, mut operators, before) = (0, Vec::new(), self.changes);
        let is_operator = |token: &Token| {
            depth += token.step();
            let is_it = depth == 0 && OPERATORS.split(' ').any(|word| token.is(word));
            operators.extend(is_it.then(|| token.clone()));
            is_it
        };
        let operands: Vec<&[Token]> = tokens.split(is_operator).collect();
        let operands = operands.into_iter().filter(|own| !own.is_empty());
        let all: Option<Vec<Value>> = operands.map(|own| self.chain(own)).collect();
        let mut all = all.filter(|all| !all.is_empty())?;
        if operators.is_empty() {
            return all.pop();
        }
        if self.changes > before {
            // Which of the parts ran is not known.
            return Some(self.anything());
        }
        Some(joined(&operators, &all).unwrap_or(Value::Unknown(self.line)))
    }

    /// An atom with the fields and calls behind it.
    fn chain(&mut self, tokens: &[Token]) -> Option<Value> {
        let (mut value, mut rest) = self.atom(tokens)?;
        while let Some(first) = rest.first() {
            value = match (first, rest.get(1).and_then(Token::name), rest.get(2)) {
                (Token::Mark("."), Some(name), Some(Token::Mark("("))) => {
                    let (inner, behind) = brackets(&rest[2..])?;
                    rest = behind;
                    let parts = self.parts(inner);
                    self.method(&value, name, parts)
                }
                (Token::Mark("."), Some(name), _) => {
                    rest = &rest[2..];
                    self.field(&value, name)
                }
                (Token::Mark(mark @ ("(" | "[")), ..) => {
                    let (inner, behind) = brackets(rest)?;
                    rest = behind;
                    let parts = self.parts(inner);
                    match *mark {
                        "(" => self.call(&value, parts),
                        _ => Value::Unknown(self.line),
                    }
                }
                _ => return None,
            };
        }
        Some(value)
    }

    /// The first value of `tokens`, and what is behind it.
    fn atom<'t>(&mut self, tokens: &'t [Token]) -> Option<(Value, &'t [Token])> {
        let (first, mut rest) = tokens.split_first()?;
        let value = match first {
            Token::Name(name) => match name.as_str() {
                // Those of JSON, too.
                "None" | "null" => Value::Plain(Tree::Null),
                "True" | "true" => Value::Plain(true.into()),
                "False" | "false" => Value::Plain(false.into()),
                "lambda" | "await" | "yield" => return None,
                name => self.named(name),
            },
            Token::Number(text) => Value::Plain(number(text)?),
            Token::Text(text) => {
                let mut text = text.clone();
                while let Some((Token::Text(more), behind)) = rest.split_first() {
                    text += more;
                    rest = behind;
                }
                Value::Plain(text.into())
            }
            Token::Formatted => Value::Unknown(self.line),
            Token::Mark(mark @ ("(" | "[" | "{")) => {
                let (inner, behind) = brackets(tokens)?;
                rest = behind;
                let mut parts = self.parts(inner);
                let is_one = parts.plain.len() == 1 && !inner.last()?.is(",");
                match *mark {
                    _ if parts.is_open => Value::Unknown(self.line),
                    "{" => self.object("{}", parts.plain, parts.named),
                    "(" if is_one => parts.plain.pop()?,
                    _ => self.object("[]", parts.plain, Names::new()),
                }
            }
            Token::Mark(_) => return None,
        };
        Some((value, rest))
    }

    /// The parts between the commas of `tokens`.
    fn parts(&mut self, tokens: &[Token]) -> Parts {
        let mut parts = Parts::default();
        for part in commas(tokens) {
            let (key, own) = match part {
                [Token::Name(key), Token::Mark("="), own @ ..]
                | [Token::Text(key), Token::Mark(":"), own @ ..] => (Some(key.clone()), own),
                own => (None, own),
            };
            let has_star = own.first().is_some_and(|first| first.is("*") || first.is("**"));
            let value = if has_star { None } else { self.read(own) };
            if value.is_none() {
                self.scan(own);
                parts.is_open |= key.is_none();
            }
            let value = value.unwrap_or(Value::Unknown(self.line));
            match key {
                Some(key) => drop(parts.named.insert(key, value)),
                None => parts.plain.push(value),
            }
        }
        parts.has_objects = self.has_objects(tokens);
        parts
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
        let line = self.line;
        let own = match owner {
            Value::Plain(_) if !parts.has_objects => return Value::Unknown(line),
            Value::Object(at) if !self.objects[*at].fields.contains_key(name) => {
                &mut self.objects[*at]
            }
            owner => {
                let callee = self.field(owner, name);
                return self.call(&callee, parts);
            }
        };
        if own.class == "{}" && own.lost.is_none() && name == "get" && !parts.is_open {
            return value_at(own, &parts.plain).unwrap_or(Value::Unknown(line));
        }
        if own.class == "[]" && !parts.has_objects {
            own.lost = Some(line);
            return Value::Unknown(line);
        }
        let class = format!("{}.{name}", own.class);
        let is_of_class = is_class(own.class.split('.').next().unwrap_or_default());
        let is_model = is_of_class && own.class.contains('.') && own.fields.is_empty();
        if is_model && !parts.has_objects && class.len() < 200 {
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
            Value::Outside(name) if !has(ANYTHING, name.rsplit('.').next().unwrap_or_default()) => {
                name.clone()
            }
            _ => return self.anything(),
        };
        if has(PURE, class.rsplit('.').next().unwrap_or_default()) {
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
        let line = self.line;
        self.objects
            .last_mut()
            .filter(|_| parts.is_open)
            .into_iter()
            .for_each(|own| own.lost = Some(line));
        made
    }
}

/// The value that table `own` has for the key in `of`, or the one that stands behind it.
fn value_at(own: &Object, of: &[Value]) -> Option<Value> {
    let [Value::Plain(Tree::String(key)), other @ ..] = of else { return None };
    match own.fields.get(key).or(other.first()) {
        Some(Value::Base(_)) => None,
        value => Some(value.cloned().unwrap_or(Value::Plain(Tree::Null))),
    }
}

/// The value of `all` with `operators` between, if it is known.
fn joined(operators: &[Token], all: &[Value]) -> Option<Value> {
    let words: Vec<&str> = operators.iter().map(Token::word).collect();
    let (own, is, other) = match (words.as_slice(), all) {
        (["-"], [Value::Plain(Tree::Number(one))]) => {
            return one.as_i64()?.checked_neg().map(|one| Value::Plain(one.into()));
        }
        ([word], [left, right]) => return folded(word, left, right).map(Value::Plain),
        (["if", "else"], [own, Value::Plain(is), other]) => (own, is.clone(), other),
        (["if", word, "else"], [own, left, right, other]) => {
            (own, folded(word, left, right)?, other)
        }
        _ => return None,
    };
    is.as_bool().map(|is| if is { own.clone() } else { other.clone() })
}

/// `left` and `right`, whole numbers or texts, with the operator `word` between.
fn folded(word: &str, left: &Value, right: &Value) -> Option<Tree> {
    let (Value::Plain(left), Value::Plain(right)) = (left, right) else { return None };
    if let (Tree::String(a), Tree::String(b)) = (left, right) {
        return match word {
            "==" => Some((a == b).into()),
            "!=" => Some((a != b).into()),
            "in" => Some(b.contains(a.as_str()).into()),
            _ => None,
        };
    }
    let (a, b) = (left.as_i64()?, right.as_i64()?);
    let number = match word {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" => a.checked_div_euclid(b).filter(|_| b > 0),
        _ => None,
    };
    let truth = match word {
        "==" => Some(a == b),
        "!=" => Some(a != b),
        "<" => Some(a < b),
        "<=" => Some(a <= b),
        ">" => Some(a > b),
        ">=" => Some(a >= b),
        _ => None,
    };
    number.map(Tree::from).or_else(|| truth.map(Tree::from))
}

/// A literal number.
fn number(text: &str) -> Option<Tree> {
    let clean = text.replace('_', "");
    let number = || clean.parse::<f64>().ok().filter(|own| own.is_finite());
    clean.parse::<i64>().map(Tree::from).ok().or_else(|| number().map(Tree::from))
}

/// Whether a call by this name makes an object of a class.
fn is_class(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.starts_with(|c: char| c.is_ascii_uppercase())
}
