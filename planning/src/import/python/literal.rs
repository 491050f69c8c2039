//! Numbers, truth, and operators on whole numbers and words.

use serde_json::Value as Tree;

use super::reader::Value;
use super::tokens::Token;

/// `left` and `right` with an operator between.
pub(super) fn folded(operator: &Token, left: &Value, right: &Value) -> Option<Tree> {
    let word = match operator {
        Token::Mark(mark) => mark,
        token => token.name().unwrap_or_default(),
    };
    match (left, right) {
        (Value::Plain(Tree::Number(a)), Value::Plain(Tree::Number(b))) => {
            a.as_i64().zip(b.as_i64()).and_then(|(a, b)| whole(word, a, b))
        }
        (Value::Plain(Tree::String(a)), Value::Plain(Tree::String(b))) => match word {
            "==" => Some(Tree::Bool(a == b)),
            "!=" => Some(Tree::Bool(a != b)),
            "in" => Some(Tree::Bool(b.contains(a.as_str()))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a value counts as true, if that is known.
pub(super) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Plain(Tree::Null) => Some(false),
        Value::Plain(Tree::Bool(is)) => Some(*is),
        Value::Plain(Tree::Number(number)) => Some(number.as_f64() != Some(0.0)),
        Value::Plain(Tree::String(text)) => Some(!text.is_empty()),
        _ => None,
    }
}

/// A literal number.
pub(super) fn number(text: &str) -> Option<Tree> {
    let clean = text.replace('_', "").to_lowercase();
    let whole = match clean.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => clean.parse().ok(),
    };
    let number =
        || clean.parse::<f64>().ok().filter(|own| own.is_finite() && clean.contains(['.', 'e']));
    whole.map(Tree::from).or_else(|| number().map(Tree::from))
}

/// Operators on whole numbers.
fn whole(operator: &str, a: i64, b: i64) -> Option<Tree> {
    Some(match operator {
        "+" => Tree::from(a.checked_add(b)?),
        "-" => Tree::from(a.checked_sub(b)?),
        "*" => Tree::from(a.checked_mul(b)?),
        "//" => Tree::from(a.checked_div_euclid(b).filter(|_| b > 0)?),
        "==" => Tree::Bool(a == b),
        "!=" => Tree::Bool(a != b),
        "<" => Tree::Bool(a < b),
        "<=" => Tree::Bool(a <= b),
        ">" => Tree::Bool(a > b),
        ">=" => Tree::Bool(a >= b),
        _ => return None,
    })
}
