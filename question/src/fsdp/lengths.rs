//! Lengths of samples from files.

use std::fmt;
use std::path::{Path, PathBuf};

use fsdp::Lengths;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use traces::TraceError;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::quote;
use crate::values::packing::{LengthsKey, tokens};

/// The largest file of lengths.
const MAX_FILE: u64 = 64 << 20;
/// The largest file whose columns are read.
pub(super) const MAX_TABLE: u64 = 1 << 30;
/// The most rows of such a file.
pub(super) const MAX_ROWS: usize = 1 << 24;

/// What a build without Parquet, and texts that are not numbers, need.
const CURE: &str = "write the number of tokens as a column in CSV or JSONL";

/// A file whose columns have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Csv(u8),
    Jsonl,
    Parquet,
}

/// Forms by the endings of files.
const FORMS: [(&str, Form); 6] = [
    ("csv", Form::Csv(b',')),
    ("tsv", Form::Csv(b'\t')),
    ("jsonl", Form::Jsonl),
    ("ndjson", Form::Jsonl),
    ("parquet", Form::Parquet),
    ("pq", Form::Parquet),
];

impl Form {
    /// The form that the ending of `path` promises.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_lowercase();
        FORMS.into_iter().find(|(name, _)| *name == ending).map(|(_, form)| form)
    }
}

impl LengthsKey {
    /// The lengths; reads their file.
    pub fn read(&self, context: &Context<'_>) -> Result<Lengths, Diagnostic> {
        let made = match self {
            Self::Known(lengths, _) => return Ok(lengths.clone()),
            Self::File(path) => Lengths::drawn_from(read(context, path)?),
            Self::InOrder(path) => Lengths::in_order(read(context, path)?),
        };
        made.map_err(|fault| Diagnostic::new(fault.to_string()))
    }
}

/// Lengths from a file, or from a column of it: `data.parquet:length`.
fn read(context: &Context<'_>, path: &Path) -> Result<Vec<u32>, Diagnostic> {
    if let Some((file, column, form)) = column(path) {
        return match form {
            Form::Parquet => of_parquet(context, &file, &column),
            Form::Jsonl => of_jsonl(context, &file, &column),
            Form::Csv(delimiter) => of_csv(context, &file, &column, delimiter),
        };
    }
    if let Some(Form::Jsonl | Form::Parquet) = Form::of(path) {
        let cure = format!("write file:{}:COLUMN, with the name of a column", path.display());
        return Err(
            Diagnostic::unreadable(path, "it has columns, and none is named").with_help(cure)
        );
    }
    let text = context.read_text(path, MAX_FILE)?;
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("");
        let words = content.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty());
        for word in words {
            let length = tokens(word).map_err(|error| {
                let cause = format!("line {}: {error}", number + 1);
                Diagnostic::unreadable(path, &cause)
            })?;
            lengths.push(length);
        }
    }
    Ok(lengths)
}

/// The file, the column behind its last colon, and the form, where a file of columns stands before it.
fn column(path: &Path) -> Option<(PathBuf, String, Form)> {
    let (file, column) = path.to_str()?.rsplit_once(':')?;
    let form = Form::of(Path::new(file)).filter(|_| !column.is_empty())?;
    Some((PathBuf::from(file), column.to_owned(), form))
}

/// An error at line `line` of `path`, from 1.
fn at_line(path: &Path, line: u64, cause: &str) -> Diagnostic {
    Diagnostic::unreadable(path, &format!("line {line}: {cause}"))
}

/// The error of a file of too many rows.
fn too_many(path: &Path) -> Diagnostic {
    Diagnostic::unreadable(path, &format!("it has more than {MAX_ROWS} rows"))
        .with_help("take a sample of them")
}

fn of_parquet(context: &Context<'_>, path: &Path, column: &str) -> Result<Vec<u32>, Diagnostic> {
    let content = context.read_bytes(path, MAX_TABLE)?;
    let numbers = traces::whole_numbers(content, column, MAX_ROWS).map_err(|error| {
        let refused = Diagnostic::unreadable(path, &error.to_string());
        match error {
            TraceError::NoParquet | TraceError::NoNumbers { .. } => refused.with_help(CURE),
            _ => refused,
        }
    })?;
    let whole = |(row, number): (usize, i64)| {
        u32::try_from(number).map_err(|_| {
            let cause = format!("row {row}: `{number}` is not a number of tokens");
            Diagnostic::unreadable(path, &cause)
        })
    };
    numbers.into_iter().enumerate().map(whole).collect()
}

fn of_csv(
    context: &Context<'_>,
    path: &Path,
    column: &str,
    delimiter: u8,
) -> Result<Vec<u32>, Diagnostic> {
    let text = context.read_text(path, MAX_TABLE)?;
    let mut rows = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
    let unreadable = |error: csv::Error| Diagnostic::unreadable(path, &error.to_string());
    let headers = rows.headers().map_err(unreadable)?;
    let at = headers.iter().position(|name| name.trim() == column);
    let Some(at) = at else {
        let names: Vec<String> = headers.iter().take(40).map(quote::clip).collect();
        let cause = format!(
            "it has no column {}; its columns are {}",
            quote::clip(column),
            names.join(", ")
        );
        return Err(Diagnostic::unreadable(path, &cause));
    };
    let mut lengths = Vec::new();
    let mut row = csv::StringRecord::new();
    while rows.read_record(&mut row).map_err(unreadable)? {
        if lengths.len() == MAX_ROWS {
            return Err(too_many(path));
        }
        let line = row.position().map_or(0, csv::Position::line);
        let cell = row.get(at).unwrap_or_default();
        let length = tokens(cell).map_err(|_| {
            let cause = format!("`{}` is not a number of tokens", quote::clip(cell));
            at_line(path, line, &cause).with_help(CURE)
        })?;
        lengths.push(length);
    }
    Ok(lengths)
}

fn of_jsonl(context: &Context<'_>, path: &Path, column: &str) -> Result<Vec<u32>, Diagnostic> {
    let text = context.read_text(path, MAX_TABLE)?;
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if lengths.len() == MAX_ROWS {
            return Err(too_many(path));
        }
        let wrong = |cause: &str| at_line(path, number as u64 + 1, cause);
        let mut json = serde_json::Deserializer::from_str(line);
        let found = json.deserialize_map(Row(column)).and_then(|found| json.end().map(|()| found));
        let found = found.map_err(|error| wrong(&error.to_string()))?;
        let missing = || wrong(&format!("it has no key {}", quote::clip(column)));
        let found = found.ok_or_else(missing)?;
        let whole = match found {
            Cell::Length(length) => u32::try_from(length).ok(),
            Cell::Other => None,
        };
        let not = || {
            let column = quote::clip(column);
            wrong(&format!("{column} is neither a number of tokens nor a list of them"))
                .with_help(CURE)
        };
        lengths.push(whole.ok_or_else(not)?);
    }
    Ok(lengths)
}

/// The value of a key.
enum Cell {
    /// A number, or how many items a list has.
    Length(u64),
    Other,
}

/// Reads an object, and keeps nothing but the value of one key.
struct Row<'a>(&'a str);

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Option<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Option<Cell>, M::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsKey(self.0))? {
            if !is_it {
                map.next_value::<IgnoredAny>()?;
            } else if found.replace(map.next_value_seed(OfCell)?).is_some() {
                return Err(M::Error::custom("it has the key twice"));
            }
        }
        Ok(found)
    }
}

/// Whether a key is the one that is looked for.
struct IsKey<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Reads a value.
struct OfCell;

impl<'de> DeserializeSeed<'de> for OfCell {
    type Value = Cell;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cell, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OfCell {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Cell, E> {
        Ok(Cell::Length(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Cell, E> {
        Ok(Cell::Other)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Cell, E> {
        // Tables write whole numbers beside absent ones as decimals.
        let whole = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked before.
        Ok(if whole { Cell::Length(number as u64) } else { Cell::Other })
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Cell, E> {
        Ok(Cell::Other)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Cell, E> {
        Ok(Cell::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Cell, E> {
        Ok(Cell::Other)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Cell, S::Error> {
        let mut count = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Cell::Length(count))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Cell, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cell::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn lengths(name: &str, content: &str, key: &str) -> Result<Vec<u32>, String> {
        let files = BTreeMap::from([(PathBuf::from(name), content.as_bytes().to_vec())]);
        let context = Context::new(&files);
        let key: LengthsKey = key.parse().unwrap();
        let LengthsKey::InOrder(path) = &key else { unreachable!() };
        let lengths = read(&context, path).map_err(|error| error.message)?;
        key.read(&context).map(|_| lengths).map_err(|error| error.message)
    }

    #[test]
    fn columns_are_read_by_name() {
        let rows = "{\"id\": [1], \"n\": 7}\n\n{\"n\": [1, [2], \"c\"], \"x\": {}}\n{\"n\": 5.0}\n";
        assert_eq!(lengths("r.jsonl", rows, "in-order:r.jsonl:n"), Ok(vec![7, 3, 5]));
        let rows = "id,\"tokens, all\"\na, 12\nb,30\n";
        assert_eq!(lengths("a/r.CSV", rows, "in-order:a/r.CSV:tokens, all"), Ok(vec![12, 30]));
        assert_eq!(lengths("r.tsv", "a\tb\n1\t2\n", "in-order:r.tsv:b"), Ok(vec![2]));
        // Plain lists stay as they are, also in a file of that ending.
        assert_eq!(lengths("r.csv", "3,4 # five\n6", "in-order:r.csv"), Ok(vec![3, 4, 6]));
    }

    #[test]
    fn what_is_no_length_is_refused_at_its_line() {
        let refused =
            |name: &str, content: &str, key: &str| lengths(name, content, key).unwrap_err();
        let of = |value: &str| {
            refused("r.jsonl", &format!("{{\"n\": 1}}\n{{\"n\": {value}}}\n"), "in-order:r.jsonl:n")
        };
        for value in ["-1", "1.5", "\"text\"", "null", "{}", "true", "1e12", "5000000000"] {
            assert!(of(value).contains("line 2: n is neither"), "{value}: {}", of(value));
        }
        assert!(of("0").contains("tokens of a sample"), "{}", of("0"));
        assert!(of("1, \"n\": 2").contains("twice"));
        assert!(of("1} {").contains("line 2"));
        let missing = refused("r.jsonl", "{\"m\": 1}", "in-order:r.jsonl:n");
        assert!(missing.contains("no key n"), "{missing}");
        assert!(refused("r.jsonl", "[1]", "in-order:r.jsonl:n").contains("line 1"));
        let csv = refused("r.csv", "a,b\n1,2\n", "in-order:r.csv:c");
        assert!(csv.contains("no column c; its columns are a, b"), "{csv}");
        let csv = refused("r.csv", "a,b\n1,2\n1,x\n", "in-order:r.csv:b");
        assert!(csv.contains("line 3: `x`"), "{csv}");
        assert!(refused("r.jsonl", "", "in-order:r.jsonl").contains("none is named"));
    }

    #[test]
    fn nesting_takes_neither_stack_nor_memory() {
        let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
        let row = format!("{{\"n\": {deep}, \"x\": {deep}}}");
        assert_eq!(lengths("r.jsonl", &row, "in-order:r.jsonl:n"), Ok(vec![1]));
    }
}
