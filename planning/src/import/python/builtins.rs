//! Functions and methods that Python has.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::operators;
use super::values::{Heap, Table, Value};

/// Names of types, as `isinstance` asks for them.
fn is_instance(value: &Value, class: &Value) -> Option<bool> {
    let name = match class {
        Value::Outside(name) => name.to_string(),
        Value::Class(class) => class.borrow().class.clone(),
        Value::List(all) => {
            let all: Vec<Option<bool>> =
                all.borrow().iter().map(|class| is_instance(value, class)).collect();
            return match all.contains(&Some(true)) {
                true => Some(true),
                false => (!all.contains(&None)).then_some(false),
            };
        }
        _ => return None,
    };
    Some(match (value, name.as_str()) {
        (Value::Unknown | Value::Outside(_), _) => return None,
        (Value::Text(_), name) => name == "str",
        (Value::Whole(_), name) => name == "int",
        (Value::Bool(_), name) => name == "bool" || name == "int",
        (Value::Number(_), name) => name == "float",
        (Value::List(_), name) => name == "list" || name == "tuple",
        (Value::Table(table), name) => {
            let own = table.borrow();
            let is_dictionary = own.class.is_empty();
            match name {
                "str" | "int" | "bool" | "float" | "list" | "tuple" => false,
                "dict" => is_dictionary,
                name => own.class == name,
            }
        }
        _ => false,
    })
}

/// The value of the function `name` of Python for its arguments; `None` for another function.
pub(super) fn call(
    heap: &Heap,
    name: &str,
    plain: &[Value],
    named: &BTreeMap<String, Value>,
) -> Option<Value> {
    let first = plain.first();
    let known = |is: Option<bool>| is.map_or(Value::Unknown, Value::Bool);
    Some(match (name, first) {
        ("getattr", Some(owner)) => {
            let Some(Value::Text(field)) = plain.get(1) else { return Some(Value::Unknown) };
            match operators::field(owner, field) {
                Value::Unknown => plain.get(2).cloned().unwrap_or(Value::Unknown),
                value => value,
            }
        }
        ("hasattr", Some(owner)) => match (owner, plain.get(1)) {
            (Value::Table(table), Some(Value::Text(field))) => {
                Value::Bool(table.borrow().fields.contains_key(field.as_ref()))
            }
            _ => Value::Unknown,
        },
        ("isinstance", Some(value)) => {
            known(plain.get(1).and_then(|class| is_instance(value, class)))
        }
        ("len", Some(Value::List(parts))) => {
            i64::try_from(parts.borrow().len()).map_or(Value::Unknown, Value::Whole)
        }
        ("int", Some(value @ Value::Whole(_))) | ("cast", Some(value))
            if name == "int" || plain.len() == 2 =>
        {
            plain.get(1).unwrap_or(value).clone()
        }
        ("bool", Some(value)) => known(value.truth()),
        ("list" | "tuple", Some(Value::List(parts))) => heap.list(parts.borrow().clone()),
        ("dict", None) => heap.table(Table { fields: named.clone(), ..Table::default() }),
        ("deepcopy" | "copy", Some(value)) => copied(heap, value, 0),
        ("replace", Some(value @ Value::Table(_))) => {
            let copy = copied(heap, value, 0);
            if let Value::Table(table) = &copy {
                table.borrow_mut().fields.extend(named.clone());
            }
            copy
        }
        ("min" | "max", Some(_)) => {
            let numbers: Option<Vec<f64>> = plain.iter().map(Value::number).collect();
            let chosen = numbers.and_then(|numbers| {
                let all = numbers.iter().enumerate();
                match name {
                    "min" => all.min_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at),
                    _ => all.max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at),
                }
            });
            chosen.and_then(|at| plain.get(at).cloned()).unwrap_or(Value::Unknown)
        }
        ("field", _) => default_of_field(heap, named),
        _ => return None,
    })
}

/// The default of a field of a dataclass.
fn default_of_field(heap: &Heap, named: &BTreeMap<String, Value>) -> Value {
    match (named.get("default"), named.get("default_factory")) {
        (Some(value), _) => value.clone(),
        (None, Some(Value::Class(class))) => heap.table(Table::clone(&class.borrow())),
        (None, Some(Value::Outside(name))) if name.as_ref() == "list" => heap.list(Vec::new()),
        _ => Value::Unknown,
    }
}

/// A copy of `value` with copies of all objects in it.
fn copied(heap: &Heap, value: &Value, depth: usize) -> Value {
    if depth > 16 {
        return Value::Unknown;
    }
    match value {
        Value::List(parts) => {
            heap.list(parts.borrow().iter().map(|part| copied(heap, part, depth + 1)).collect())
        }
        Value::Table(table) => {
            let table = table.borrow();
            let fields = table
                .fields
                .iter()
                .map(|(key, field)| (key.clone(), copied(heap, field, depth + 1)));
            let (class, made_of) = (table.class.clone(), table.made_of.clone());
            heap.table(Table { class, made_of, fields: fields.collect() })
        }
        other => other.clone(),
    }
}

/// The longest list that grows.
const MOST_PARTS: usize = 10_000;

/// The value of method `name` of `owner` for its arguments; `None` for one that Python's own types do not have.
pub(super) fn method(
    heap: &Heap,
    owner: &Value,
    name: &str,
    plain: &[Value],
    named: &BTreeMap<String, Value>,
) -> Option<Value> {
    match (owner, name) {
        // Objects of NeMo-Run: a class, or a function that is called later, and its arguments.
        (Value::Outside(own), "Config" | "Partial")
            if matches!(own.as_ref(), "run" | "nemo_run") =>
        {
            let class = plain.first()?;
            let mut table = match class {
                Value::Class(class) => Table::clone(&class.borrow()),
                Value::Function(function, _) => {
                    Table { class: function.name.clone(), ..Table::default() }
                }
                Value::Outside(name) => Table { class: name.to_string(), ..Table::default() },
                _ => Table { class: "run".to_owned(), ..Table::default() },
            };
            table.made_of = plain[1..].to_vec();
            table.fields.extend(named.clone());
            Some(heap.table(table))
        }
        (Value::List(parts), "append" | "extend") => {
            let more = match (name, plain.first()?) {
                ("extend", Value::List(more)) => more.borrow().clone(),
                ("extend", _) => Vec::new(),
                (_, one) => vec![one.clone()],
            };
            let mut parts = parts.borrow_mut();
            if parts.len() + more.len() <= MOST_PARTS {
                parts.extend(more);
            }
            Some(Value::None)
        }
        (Value::Text(text), "lower") => Some(Value::text(&text.to_lowercase())),
        (Value::Text(text), "upper") => Some(Value::text(&text.to_uppercase())),
        (Value::Text(text), "startswith") => match plain.first()? {
            Value::Text(start) => Some(Value::Bool(text.starts_with(start.as_ref()))),
            _ => Some(Value::Unknown),
        },
        (Value::Text(_), _) => Some(Value::Unknown),
        (Value::Table(table), "get") if table.borrow().class.is_empty() => {
            let found =
                plain.first()?.key().and_then(|key| table.borrow().fields.get(&key).cloned());
            Some(found.or_else(|| plain.get(1).cloned()).unwrap_or(Value::None))
        }
        (Value::Table(table), "update") if table.borrow().class.is_empty() => {
            let mut fields = named.clone();
            plain.iter().for_each(|other| operators::spread(other, &mut fields));
            table.borrow_mut().fields.extend(fields);
            Some(Value::None)
        }
        // A method of an object: what it makes is known by the object.
        (Value::Table(table), _) if !table.borrow().fields.contains_key(name) => {
            let class = format!("{}.{name}", table.borrow().class);
            if class.len() > 200 {
                return Some(Value::Unknown);
            }
            let mut made_of = vec![Value::Table(Rc::clone(table))];
            made_of.extend(plain.iter().cloned());
            Some(heap.table(Table { class, made_of, fields: named.clone() }))
        }
        _ => None,
    }
}
