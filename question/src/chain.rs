//! Segments in a CSV file, one row for each segment of each layer, as they were measured.

use std::path::Path;

use pipeline::overlap::{Contention, Part, Segment, SegmentName, Stream};
use serde::Deserialize;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::quote;
use crate::values::segments::usual_stream;

/// The largest file of segments.
const MAX_FILE: u64 = 16 << 20;

/// The columns, the first four of which must be there.
const COLUMNS: &str = "layer,part,name,time[,stream][,bytes]";

/// A row: a segment of a layer.
pub(crate) struct Row {
    /// Its layer, from 0 in model order.
    pub(crate) layer: u32,
    pub(crate) part: Part,
    /// As it was measured, under no contention.
    pub(crate) segment: Segment,
}

/// A row as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    layer: u32,
    part: String,
    name: String,
    time: String,
    #[serde(default)]
    stream: Option<String>,
    #[serde(default)]
    bytes: Option<String>,
}

/// The rows of the file at `path`, in their order.
pub(crate) fn read(context: &Context<'_>, path: &Path) -> Result<Vec<Row>, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let fail = |line: u64, message: String| {
        let name = quote::path(path);
        Diagnostic::file(path, format!("{name}, line {line}: {message}"))
            .with_help(format!("a file of segments is CSV with the columns {COLUMNS}"))
    };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| fail(1, error.to_string()))?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            fail(error.position().map_or(1, csv::Position::line), error.to_string())
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let written: Written =
            record.deserialize(Some(&headers)).map_err(|error| fail(line, error.to_string()))?;
        rows.push(row(written).map_err(|message| fail(line, message))?);
    }
    if rows.is_empty() {
        return Err(fail(1, "there are no segments".to_owned()));
    }
    Ok(rows)
}

fn row(written: Written) -> Result<Row, String> {
    let Written { layer, part, name, time, stream, bytes } = written;
    let part = Part::ALL.into_iter().find(|one| part == one.letter().to_string());
    let part = part.ok_or("the part is F, B or W")?;
    let name: SegmentName = name.parse().map_err(|error| format!("{error}"))?;
    let stream = match stream.as_deref().unwrap_or("") {
        "" => usual_stream(&name),
        text => Stream::named(text).ok_or("the stream is compute or communication")?,
    };
    let time = time.parse().map_err(|error| format!("{error}"))?;
    let bytes = match bytes.as_deref().unwrap_or("") {
        "" => None,
        text => Some(text.parse().map_err(|error| format!("{error}"))?),
    };
    let segment = Segment { name, stream, time, bytes, contention: Contention::NONE };
    Ok(Row { layer, part, segment })
}
