//! Small answers: examples, and questions in another form.

use std::path::Path;

use question::{Diagnostic, keywords};
use scenarios::Folder;
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
    /// Its title, in a line.
    title: String,
    /// The question itself, as a scenario file.
    text: &'static str,
}

/// The examples in `folder`.
pub(crate) fn examples(folder: Folder) -> Result<Examples, Diagnostic> {
    let example = |(name, text)| {
        let keys = keywords::document(Path::new(name), text)?;
        let comment = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = keys["title"].as_str().or(comment).unwrap_or(name).to_owned();
        Ok(Example { name, title, text })
    };
    let examples = folder.files().map(example).collect::<Result<_, Diagnostic>>()?;
    Ok(Examples { examples })
}

/// The columns of a file.
#[derive(Serialize)]
pub(crate) struct Columns {
    /// Their names; none of a plain list.
    pub(crate) columns: Vec<String>,
}

/// The names of the built-in items.
#[derive(Serialize)]
pub(crate) struct BuiltIn {
    machines: Vec<&'static str>,
    clusters: Vec<&'static str>,
    models: Vec<String>,
}

/// Machines, clusters and models.
pub(crate) fn built_in() -> BuiltIn {
    BuiltIn {
        machines: scenarios::MACHINES.names().collect(),
        clusters: scenarios::CLUSTERS.names().collect(),
        models: planning::samples::model_names(),
    }
}
