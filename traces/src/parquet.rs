//! Reads the operations of a Parquet file, one row each.

use bytes::Bytes;
use parquet::basic::{Encoding, PageType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::error::{Place, TraceError};
use crate::operation::{LATEST, LONGEST, OpType, Operation, count, nanos};
use crate::{MAX_OPERATIONS, Trace};

/// The columns that are read.
const COLUMNS: [&str; 8] =
    ["dp_rank", "stage", "step", "optype", "start_ts", "duration", "mc", "mb_id"];

/// Nanoseconds per second, the unit of the columns of times.
const SECOND: f64 = 1e9;

/// Values asked for at once.
const BATCH: usize = 1 << 16;

/// The values of one column.
enum Values {
    Whole(Vec<i64>),
    Decimal(Vec<f64>),
    Optypes(Vec<OpType>),
}

pub(crate) fn read(content: Vec<u8>) -> Result<Trace, TraceError> {
    let file = SerializedFileReader::new(Bytes::from(content))?;
    let rows = rows(&file)?;
    let [dp_rank, stage, step, optype, start_ts, taken, chunk, microbatch] = columns(&file, rows)?;
    let whole = |values| if let Values::Whole(values) = values { values } else { Vec::new() };
    let decimal = |values| if let Values::Decimal(values) = values { values } else { Vec::new() };
    let [dp_rank, stage, step, chunk, microbatch] =
        [dp_rank, stage, step, chunk, microbatch].map(whole);
    let [start_ts, taken] = [start_ts, taken].map(decimal);
    let Values::Optypes(optypes) = optype else { return Err(TraceError::NotATrace) };
    let stages = stage.iter().max().map_or(1, |last| last.saturating_add(1));
    let operation = |row: usize| {
        let at = Place::Row(row);
        let optype = optypes[row];
        // What is no pass has -1 for both.
        let is_pass = matches!(optype, OpType::Pass(_));
        let local = if is_pass { count::<u16>(chunk[row], at, "mc")? } else { 0 };
        let stage = count::<u16>(stage[row], at, "stage")?;
        let lap = i64::from(local).saturating_mul(stages);
        Ok(Operation {
            step: count(step[row], at, "step")?,
            dp_rank: count(dp_rank[row], at, "dp_rank")?,
            stage,
            optype,
            chunk: count(lap.saturating_add(if is_pass { stage.into() } else { 0 }), at, "mc")?,
            microbatch: if is_pass { count(microbatch[row], at, "mb_id")? } else { 0 },
            start: nanos(start_ts[row], SECOND, LATEST, at, "start_ts")?,
            duration: nanos(taken[row], SECOND, LONGEST, at, "duration")?,
        })
    };
    let operations = (0..rows).map(operation).collect::<Result<_, TraceError>>()?;
    Ok(Trace { operations, skipped: 0 })
}

/// How many rows the file promises, before any memory is taken for them.
fn rows(file: &SerializedFileReader<Bytes>) -> Result<usize, TraceError> {
    let groups = file.metadata().row_groups().iter();
    let rows = groups.fold(0i64, |sum, group| sum.saturating_add(group.num_rows().max(0)));
    let rows = rows.max(file.metadata().file_metadata().num_rows());
    match usize::try_from(rows) {
        Ok(count) if count <= MAX_OPERATIONS => Ok(count),
        _ => Err(TraceError::TooMany { rows }),
    }
}

/// Reads the columns in the order of [`COLUMNS`], all of `rows` values.
fn columns(
    file: &SerializedFileReader<Bytes>,
    rows: usize,
) -> Result<[Values; COLUMNS.len()], TraceError> {
    let schema = file.metadata().file_metadata().schema_descr();
    let names = schema.columns().iter().map(|column| column.path().string());
    let names: Vec<String> = names.collect();
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let missing: Vec<&str> = COLUMNS.into_iter().filter(|column| place(column).is_none()).collect();
    if !missing.is_empty() {
        return Err(TraceError::MissingColumns { missing, found: names });
    }
    let mut values = COLUMNS.map(|_| Values::Whole(Vec::new()));
    for (column, values) in COLUMNS.into_iter().zip(&mut values) {
        let at = place(column).unwrap_or_default();
        let found = schema.column(at).physical_type();
        *values = empty(column, found)?;
        for group in 0..file.num_row_groups() {
            check_place(file, group, at)?;
            check_dictionary(file, group, at)?;
            let reader = file.get_row_group(group)?.get_column_reader(at)?;
            append(values, reader, column, rows)?;
        }
        if values.len() != rows {
            return Err(TraceError::CutOff { column, found: values.len(), rows });
        }
    }
    Ok(values)
}

/// Refuses a column that would begin or end before the file: the library would panic.
fn check_place(
    file: &SerializedFileReader<Bytes>,
    group: usize,
    at: usize,
) -> Result<(), ParquetError> {
    let column = file.metadata().row_group(group).column(at);
    let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    match first.min(column.compressed_size()) {
        0.. => Ok(()),
        _ => Err(ParquetError::General(format!(
            "column {} of row group {group} begins at byte {first} and has {} bytes",
            column.column_path().string(),
            column.compressed_size()
        ))),
    }
}

/// Refuses a column whose values point into a dictionary that it does not have: the library would
/// panic.
fn check_dictionary(
    file: &SerializedFileReader<Bytes>,
    group: usize,
    at: usize,
) -> Result<(), ParquetError> {
    let mut has_dictionary = false;
    for page in file.get_row_group(group)?.get_column_page_reader(at)? {
        let page = page?;
        has_dictionary |= page.page_type() == PageType::DICTIONARY_PAGE;
        let points =
            matches!(page.encoding(), Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
        if points && !has_dictionary {
            let message = format!("column {at} of row group {group} lacks its dictionary");
            return Err(ParquetError::General(message));
        }
    }
    Ok(())
}

/// The kind of values that `column` must have, if `found` is a way to write them.
fn empty(column: &'static str, found: Type) -> Result<Values, TraceError> {
    let (values, wanted, fits): (_, _, &[Type]) = match column {
        "optype" => (Values::Optypes(Vec::new()), "names", &[Type::BYTE_ARRAY]),
        "start_ts" | "duration" => {
            (Values::Decimal(Vec::new()), "decimal numbers", &[Type::FLOAT, Type::DOUBLE])
        }
        _ => (Values::Whole(Vec::new()), "whole numbers", &[Type::INT32, Type::INT64]),
    };
    match fits.contains(&found) {
        true => Ok(values),
        false => Err(TraceError::ColumnType { column, found: found.to_string(), wanted }),
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Whole(values) => values.len(),
            Self::Decimal(values) => values.len(),
            Self::Optypes(values) => values.len(),
        }
    }
}

/// Adds what `reader` holds to `values`, which were made for such a reader.
fn append(
    values: &mut Values,
    reader: ColumnReader,
    column: &'static str,
    rows: usize,
) -> Result<(), TraceError> {
    match (values, reader) {
        (Values::Whole(into), ColumnReader::Int32ColumnReader(reader)) => {
            take(into, reader, column, rows, |value, _| Ok(i64::from(value)))
        }
        (Values::Whole(into), ColumnReader::Int64ColumnReader(reader)) => {
            take(into, reader, column, rows, |value, _| Ok(value))
        }
        (Values::Decimal(into), ColumnReader::FloatColumnReader(reader)) => {
            take(into, reader, column, rows, |value, _| Ok(f64::from(value)))
        }
        (Values::Decimal(into), ColumnReader::DoubleColumnReader(reader)) => {
            take(into, reader, column, rows, |value, _| Ok(value))
        }
        (Values::Optypes(into), ColumnReader::ByteArrayColumnReader(reader)) => {
            take(into, reader, column, rows, |value: ByteArray, row| {
                let name = String::from_utf8_lossy(value.data());
                OpType::named(&name).ok_or_else(|| TraceError::UnknownOpType {
                    place: Place::Row(row),
                    name: name.chars().take(40).collect(),
                })
            })
        }
        // The schema said otherwise.
        (values, _) => Err(TraceError::CutOff { column, found: values.len(), rows }),
    }
}

/// Reads all values of `reader`, none of which may be null.
fn take<T: DataType, V>(
    into: &mut Vec<V>,
    mut reader: ColumnReaderImpl<T>,
    column: &'static str,
    rows: usize,
    value: impl Fn(T::T, usize) -> Result<V, TraceError>,
) -> Result<(), TraceError> {
    let (mut read, mut levels) = (Vec::new(), Vec::new());
    loop {
        read.clear();
        levels.clear();
        let (records, present, _) =
            reader.read_records(BATCH, Some(&mut levels), None, &mut read)?;
        if records == 0 {
            return Ok(());
        }
        let first = into.len();
        if present < records {
            let absent = levels.iter().position(|&level| level == 0).unwrap_or_default();
            return Err(TraceError::Absent { place: Place::Row(first + absent), column });
        }
        if first + records > rows {
            return Err(TraceError::CutOff { column, found: first + records, rows });
        }
        for (at, one) in read.drain(..).enumerate() {
            into.push(value(one, first + at)?);
        }
    }
}
