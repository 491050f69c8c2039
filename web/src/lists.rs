//! Small answers: examples, and questions in another form.

use serde::Serialize;
use serde_json::Value;

/// The keys of a scenario.
#[derive(Serialize)]
pub(crate) struct Keys {
    /// By name, as in the file.
    pub(crate) keys: Value,
}

/// A scenario.
#[derive(Serialize)]
pub(crate) struct Text {
    /// As a file.
    pub(crate) text: String,
}

/// Questions to begin with.
#[derive(Serialize)]
pub(crate) struct Examples {
    examples: Vec<Example>,
}

/// A question to begin with.
#[derive(Serialize)]
struct Example {
    /// The name that links use.
    name: &'static str,
    /// The question itself, as a scenario file.
    text: &'static str,
}

/// All examples.
pub(crate) fn examples() -> Examples {
    let example = |(name, text)| Example { name, text };
    Examples { examples: scenarios::EXAMPLES.files().map(example).collect() }
}
