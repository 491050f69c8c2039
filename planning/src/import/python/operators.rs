//! Operators on values.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::values::{Heap, Table, Value};

/// The longest list or text that operators make.
const MOST_PARTS: usize = 10_000;

/// Field `name` of `owner`.
pub(super) fn field(owner: &Value, name: &str) -> Value {
    match owner {
        Value::Table(table) => table.borrow().fields.get(name).cloned().unwrap_or(Value::Unknown),
        Value::Class(class) => {
            let class = class.borrow();
            let outside = || Value::Outside(Rc::from(format!("{}.{name}", class.class).as_str()));
            class.fields.get(name).cloned().unwrap_or_else(outside)
        }
        Value::Outside(own) if own.len() < 200 => {
            Value::Outside(Rc::from(format!("{own}.{name}").as_str()))
        }
        _ => Value::Unknown,
    }
}

/// Part `index` of `owner`.
pub(super) fn part(owner: &Value, index: &Value) -> Value {
    match (owner, index) {
        (Value::List(parts), Value::Whole(at)) => {
            let parts = parts.borrow();
            let at = match usize::try_from(*at) {
                Ok(at) => Some(at),
                Err(_) => {
                    let back = at.checked_neg().and_then(|back| usize::try_from(back).ok());
                    back.and_then(|back| parts.len().checked_sub(back))
                }
            };
            at.and_then(|at| parts.get(at).cloned()).unwrap_or(Value::Unknown)
        }
        (Value::Table(table), index) => {
            let value = index.key().and_then(|key| table.borrow().fields.get(&key).cloned());
            value.unwrap_or(Value::Unknown)
        }
        // A type with parameters.
        (Value::Outside(_) | Value::Class(_), _) => owner.clone(),
        _ => Value::Unknown,
    }
}

/// Adds the keys of `value` to `fields`.
pub(super) fn spread(value: &Value, fields: &mut BTreeMap<String, Value>) {
    if let Value::Table(table) = value {
        fields.extend(table.borrow().fields.clone());
    }
}

pub(super) fn minus(value: &Value) -> Value {
    match value {
        Value::Whole(number) => number.checked_neg().map_or(Value::Unknown, Value::Whole),
        Value::Number(number) => Value::Number(-number),
        _ => Value::Unknown,
    }
}

/// `left` and `right` with `operator` between.
pub(super) fn binary(heap: &Heap, operator: &str, left: &Value, right: &Value) -> Value {
    let known = |is: Option<bool>| is.map_or(Value::Unknown, Value::Bool);
    match operator {
        "==" => known(left.equals(right)),
        "!=" => known(left.equals(right).map(|is| !is)),
        "in" => known(contains(right, left)),
        "not in" => known(contains(right, left).map(|is| !is)),
        "<" | ">" | "<=" | ">=" => {
            let (Some(a), Some(b)) = (left.number(), right.number()) else { return Value::Unknown };
            Value::Bool(match operator {
                "<" => a < b,
                ">" => a > b,
                "<=" => a <= b,
                _ => a >= b,
            })
        }
        "|" => merged(heap, left, right),
        _ => arithmetic(heap, operator, left, right),
    }
}

fn contains(all: &Value, one: &Value) -> Option<bool> {
    match (all, one) {
        (Value::List(parts), one) => {
            let equal: Vec<Option<bool>> =
                parts.borrow().iter().map(|part| part.equals(one)).collect();
            match equal.contains(&Some(true)) {
                true => Some(true),
                false => (!equal.contains(&None)).then_some(false),
            }
        }
        (Value::Text(text), Value::Text(one)) => Some(text.contains(one.as_ref())),
        (Value::Table(table), one) => Some(table.borrow().fields.contains_key(&one.key()?)),
        _ => None,
    }
}

/// The keys of two dictionaries.
fn merged(heap: &Heap, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Table(own), Value::Table(_)) => {
            let mut table = Table::clone(&own.borrow());
            spread(right, &mut table.fields);
            heap.table(table)
        }
        _ => Value::Unknown,
    }
}

fn arithmetic(heap: &Heap, operator: &str, left: &Value, right: &Value) -> Value {
    match (operator, left, right) {
        ("+", Value::Text(a), Value::Text(b)) if a.len() + b.len() <= MOST_PARTS => {
            Value::text(&format!("{a}{b}"))
        }
        ("+", Value::List(a), Value::List(b)) => {
            let all: Vec<Value> = a.borrow().iter().chain(b.borrow().iter()).cloned().collect();
            if all.len() > MOST_PARTS { Value::Unknown } else { heap.list(all) }
        }
        ("*", Value::List(parts), Value::Whole(times))
        | ("*", Value::Whole(times), Value::List(parts)) => {
            let parts = parts.borrow();
            let times = usize::try_from(*times).unwrap_or(0);
            match parts.len().checked_mul(times).filter(|all| *all <= MOST_PARTS) {
                Some(all) => heap.list(parts.iter().cycle().take(all).cloned().collect()),
                None => Value::Unknown,
            }
        }
        (_, Value::Whole(a), Value::Whole(b)) => whole(operator, *a, *b),
        _ => match (left.number(), right.number()) {
            (Some(a), Some(b)) => fraction(operator, a, b),
            _ => Value::Unknown,
        },
    }
}

#[allow(clippy::cast_precision_loss)] // Sizes of recipes.
fn whole(operator: &str, a: i64, b: i64) -> Value {
    let result = match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" => a.checked_div_euclid(b).filter(|_| b > 0),
        "%" => a.checked_rem_euclid(b).filter(|_| b > 0),
        "**" => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        "/" => return fraction(operator, a as f64, b as f64),
        _ => None,
    };
    result.map_or(Value::Unknown, Value::Whole)
}

fn fraction(operator: &str, a: f64, b: f64) -> Value {
    let result = match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "**" => a.powf(b),
        _ => return Value::Unknown,
    };
    if result.is_finite() { Value::Number(result) } else { Value::Unknown }
}
