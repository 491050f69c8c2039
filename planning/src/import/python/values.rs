//! Values of Python, as far as recipes have them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value as Tree};

use super::run::Module;
use super::syntax::Function;

/// A value.
#[derive(Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(Rc<str>),
    List(Rc<RefCell<Vec<Value>>>),
    Table(Rc<RefCell<Table>>),
    Function(Rc<Function>, Rc<Module>),
    /// A class with the fields that its instances begin with.
    Class(Rc<RefCell<Table>>),
    Module(Rc<Module>),
    /// A name whose module is not there.
    Outside(Rc<str>),
    Unknown,
}

/// An object with fields, or a dictionary.
#[derive(Clone, Default)]
pub(super) struct Table {
    /// The class or the function that made it; a dictionary has none.
    pub(super) class: String,
    /// Arguments without names that it was made of.
    pub(super) made_of: Vec<Value>,
    pub(super) fields: BTreeMap<String, Value>,
}

/// All lists, objects and classes, which may hold each other in rings, or in chains of any length: they are emptied
/// one by one.
#[derive(Default)]
pub(super) struct Heap {
    all: RefCell<Vec<Value>>,
}

impl Heap {
    pub(super) fn list(&self, parts: Vec<Value>) -> Value {
        self.kept(Value::List(Rc::new(RefCell::new(parts))))
    }

    pub(super) fn table(&self, table: Table) -> Value {
        self.kept(Value::Table(Rc::new(RefCell::new(table))))
    }

    pub(super) fn class(&self, table: Table) -> Value {
        self.kept(Value::Class(Rc::new(RefCell::new(table))))
    }

    fn kept(&self, value: Value) -> Value {
        self.all.borrow_mut().push(value.clone());
        value
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for value in self.all.get_mut() {
            match value {
                Value::List(parts) => parts.borrow_mut().clear(),
                Value::Table(table) | Value::Class(table) => {
                    let emptied = std::mem::take(&mut *table.borrow_mut());
                    drop(emptied);
                }
                _ => {}
            }
        }
    }
}

/// The most values of a tree.
const MOST_VALUES: usize = 50_000;
/// The deepest nesting of a tree.
const MOST_DEEP: usize = 24;

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(Rc::from(text))
    }

    /// Whether it counts as true, if that is known.
    pub(super) fn truth(&self) -> Option<bool> {
        Some(match self {
            Self::None => false,
            Self::Bool(is) => *is,
            Self::Whole(number) => *number != 0,
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(parts) => !parts.borrow().is_empty(),
            Self::Table(_) | Self::Function(..) | Self::Class(_) | Self::Module(_) => true,
            Self::Outside(_) | Self::Unknown => return None,
        })
    }

    /// Whether it equals `other`, if that is known.
    pub(super) fn equals(&self, other: &Self) -> Option<bool> {
        Some(match (self, other) {
            (Self::Unknown | Self::Outside(_), _) | (_, Self::Unknown | Self::Outside(_)) => {
                return None;
            }
            (Self::None, Self::None) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) if Rc::ptr_eq(a, b) => true,
            (Self::List(a), Self::List(b)) => {
                let (a, b) = (a.borrow(), b.borrow());
                let simple = |value: &Self| !matches!(value, Self::List(_) | Self::Table(_));
                if !a.iter().chain(b.iter()).all(simple) {
                    return None;
                }
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b) == Some(true))
            }
            (a, b) => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
                _ => false,
            },
        })
    }

    /// It as a number.
    #[allow(clippy::cast_precision_loss)] // Sizes of recipes.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// It as the key of a dictionary.
    pub(super) fn key(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.to_string()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Bool(is) => Some(is.to_string()),
            Self::None => Some("None".to_owned()),
            Self::List(parts) => {
                let parts: Option<Vec<String>> = parts
                    .borrow()
                    .iter()
                    .map(|part| match part {
                        Self::List(_) => None,
                        part => part.key(),
                    })
                    .collect();
                Some(format!("({})", parts?.join(",")))
            }
            _ => None,
        }
    }

    /// It as a tree of keys. An object that a call made whose body is not known has the call as its class, under `class`,
    /// and what it was made of, under `of`.
    pub(super) fn tree(&self) -> Tree {
        tree(self, 0, &mut 0)
    }
}

fn tree(value: &Value, depth: usize, count: &mut usize) -> Tree {
    *count += 1;
    if depth > MOST_DEEP || *count > MOST_VALUES {
        return Tree::Null;
    }
    match value {
        Value::None | Value::Unknown | Value::Function(..) | Value::Module(_) => Tree::Null,
        Value::Bool(is) => Tree::Bool(*is),
        Value::Whole(number) => Tree::from(*number),
        Value::Number(number) => Tree::from(*number),
        Value::Text(text) => Tree::from(text.to_string()),
        Value::Outside(name) => Tree::from(name.to_string()),
        Value::Class(class) => Tree::from(class.borrow().class.clone()),
        Value::List(parts) => {
            let parts = parts.borrow();
            Tree::Array(parts.iter().map(|part| tree(part, depth + 1, count)).collect())
        }
        Value::Table(table) => {
            let table = table.borrow();
            let mut all = Map::new();
            if !table.class.is_empty() {
                all.insert("class".to_owned(), Tree::from(table.class.clone()));
                let parts = table.made_of.iter().map(|part| tree(part, depth + 1, count));
                all.insert("of".to_owned(), Tree::Array(parts.collect()));
            }
            for (key, field) in &table.fields {
                // A field that nothing is known of is not there.
                if !matches!(field, Value::Unknown) {
                    all.insert(key.clone(), tree(field, depth + 1, count));
                }
            }
            Tree::Object(all)
        }
    }
}
