//! The columns of files that lengths are taken from.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::IgnoredAny;
use traces::TraceError;

use super::lengths::{Form, MAX_ROWS, MAX_TABLE};
use crate::diagnostic::Diagnostic;
use crate::host::Context;

/// The names of the columns of the file at `path`: its header in CSV, the keys of its first row in JSONL, its schema
/// in Parquet. None of a plain list of numbers.
pub fn columns(context: &Context<'_>, path: &Path) -> Result<Vec<String>, Diagnostic> {
    let unreadable = |cause: String| Diagnostic::unreadable(path, &cause);
    match Form::of(path) {
        None => Ok(Vec::new()),
        Some(Form::Parquet) => {
            let content = context.read_bytes(path, MAX_TABLE)?;
            // No column has an empty name: the refusal says which there are.
            match traces::whole_numbers(content, "", MAX_ROWS) {
                Ok(_) => Ok(Vec::new()),
                Err(TraceError::NoColumn { found, .. }) => Ok(found),
                Err(error) => Err(unreadable(error.to_string())),
            }
        }
        Some(Form::Jsonl) => {
            let text = context.read_text(path, MAX_TABLE)?;
            let Some(row) = text.lines().find(|line| !line.trim().is_empty()) else {
                return Ok(Vec::new());
            };
            let keys: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_str(row);
            Ok(keys.map_err(|error| unreadable(error.to_string()))?.into_keys().collect())
        }
        Some(Form::Csv(delimiter)) => {
            let text = context.read_text(path, MAX_TABLE)?;
            let mut rows =
                csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
            let header = rows.headers().map_err(|error| unreadable(error.to_string()))?;
            let names = header.iter().map(|name| name.trim().to_owned());
            let is_name = |name: &String| !name.is_empty() && name.parse::<f64>().is_err();
            Ok(names.filter(is_name).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn found(name: &str, content: &[u8]) -> Result<Vec<String>, String> {
        let files = BTreeMap::from([(PathBuf::from(name), content.to_vec())]);
        columns(&Context::new(&files), Path::new(name)).map_err(|error| error.message)
    }

    #[test]
    fn columns_are_told_by_name() {
        for (name, content, expected) in [
            ("a.csv", "id,\"tokens, all\"\n1,2\n", vec!["id", "tokens, all"]),
            ("a.tsv", "id\t n \n1\t2\n", vec!["id", "n"]),
            ("a.csv", "12,30\n5\n", vec![]),
            ("a.jsonl", "\n{\"text\": \"x\", \"n\": [[[]]]}\n", vec!["n", "text"]),
            ("a.jsonl", "", vec![]),
            ("a.txt", "3 4\n", vec![]),
        ] {
            let names = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(found(name, content.as_bytes()), Ok(names), "{name}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (name, content) in
            [("a.jsonl", "[1]".as_bytes()), ("a.parquet", b"PAR1PAR1"), ("a.csv", b"\xff\xfe")]
        {
            let why = found(name, content).unwrap_err();
            assert!(why.contains(name), "{why}");
        }
        let deep = format!("{{\"n\": {}", "[".repeat(1 << 20));
        assert!(found("a.jsonl", deep.as_bytes()).is_err());
    }
}
