//! Small answers: examples, and questions in another form.

use std::path::Path;

use question::{Diagnostic, keywords, object};
use scenarios::Folder;
use serde::Serialize;

/// The examples in `folder`: questions to begin with, each with the name that links use.
pub(crate) fn examples(folder: Folder) -> Result<impl Serialize, Diagnostic> {
    let example = |(name, text): (&'static str, &'static str)| {
        let keys = keywords::document(Path::new(name), text)?;
        let comment = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = keys["title"].as_str().or(comment).unwrap_or(name).to_owned();
        Ok(object!(name = name, title = title, text = text))
    };
    let examples = folder.files().map(example).collect::<Result<Vec<_>, Diagnostic>>()?;
    Ok(object!(examples = examples))
}

/// The names of the built-in machines, clusters and models.
pub(crate) fn built_in() -> impl Serialize {
    object!(
        [machines] = scenarios::MACHINES.names(),
        [clusters] = scenarios::CLUSTERS.names(),
        models = planning::samples::model_names(),
    )
}
