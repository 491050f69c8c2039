//! Reads the operations of a Parquet file, one row each.

mod column;
mod numbers;
mod pages;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::reader::get_column_reader;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use self::column::Column;
pub use self::numbers::whole_numbers;
use self::pages::Pages;
use crate::error::{Place, TraceError};
use crate::guard::guarded;
use crate::numbers::{LATEST, LONGEST, count, nanos};
use crate::operation::{MAX_OPERATIONS, OpType, Operation};

/// The columns that are read.
const COLUMNS: [&str; 8] =
    ["dp_rank", "stage", "step", "optype", "start_ts", "duration", "mc", "mb_id"];

/// Nanoseconds per second, the unit of the columns of times.
const SECOND: f64 = 1e9;

/// Rows of a file however short it is.
const SMALL: u64 = 1 << 16;
/// The most rows for each byte beyond. Every operation of a rank begins at a time of its own, which
/// takes bits: real runs have some bytes for each row.
const MOST_OF_A_BYTE: u64 = 8;

/// Reads `content`, of which no more than `most` operations are taken.
pub(crate) fn read(content: Vec<u8>, most: usize) -> Result<Vec<Operation>, TraceError> {
    let content = Bytes::from(content);
    // A file at which the library panics is reported like a file that it refuses.
    guarded(|| decode(&content, most)).unwrap_or_else(|what| Err(TraceError::Damaged(what)))
}

fn decode(content: &Bytes, most: usize) -> Result<Vec<Operation>, TraceError> {
    let file = SerializedFileReader::new(content.clone())?;
    let rows = rows(&file, content.len() as u64, most)?;
    let places = places(&file)?;
    let mut operations = Vec::new();
    operations.try_reserve_exact(rows).map_err(|_| TraceError::NoMemory { rows })?;
    for group in file.metadata().row_groups() {
        take_group(content, group, places, rows, &mut operations)?;
    }
    if operations.len() != rows {
        let [column, ..] = COLUMNS;
        return Err(TraceError::CutOff { column, found: operations.len(), rows });
    }
    name_chunks(&mut operations)?;
    Ok(operations)
}

/// Number of rows that the file promises, before any memory is taken for them.
fn rows(file: &SerializedFileReader<Bytes>, bytes: u64, most: usize) -> Result<usize, TraceError> {
    let groups = file.metadata().row_groups().iter();
    let rows = groups.fold(0i64, |sum, group| sum.saturating_add(group.num_rows().max(0)));
    let rows = rows.max(file.metadata().file_metadata().num_rows());
    let too_many = |most| TraceError::TooMany { rows, most };
    let count = usize::try_from(rows).map_err(|_| too_many(MAX_OPERATIONS))?;
    let plausible = SMALL.saturating_add(bytes.saturating_mul(MOST_OF_A_BYTE));
    if count <= MAX_OPERATIONS && count as u64 > plausible {
        return Err(TraceError::Implausible { rows: count, bytes });
    }
    match count <= most {
        true => Ok(count),
        false => Err(too_many(most)),
    }
}

/// Where the columns stand in the file, in the order of [`COLUMNS`].
fn places(file: &SerializedFileReader<Bytes>) -> Result<[usize; COLUMNS.len()], TraceError> {
    let schema = file.metadata().file_metadata().schema_descr();
    let names = schema.columns().iter().map(|column| column.path().string());
    let names: Vec<String> = names.collect();
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let missing: Vec<&str> = COLUMNS.into_iter().filter(|column| place(column).is_none()).collect();
    if !missing.is_empty() {
        return Err(TraceError::MissingColumns { missing, found: names });
    }
    let places = COLUMNS.map(|column| place(column).unwrap_or_default());
    for (column, at) in COLUMNS.into_iter().zip(places) {
        let found = schema.column(at);
        let (wanted, fits): (_, &[Type]) = match column {
            "optype" => ("names", &[Type::BYTE_ARRAY]),
            "start_ts" | "duration" => ("decimal numbers", &[Type::FLOAT, Type::DOUBLE]),
            _ => ("whole numbers", &[Type::INT32, Type::INT64]),
        };
        let kind = match found.max_rep_level() {
            0 => found.physical_type().to_string(),
            _ => "lists".to_owned(),
        };
        if found.max_rep_level() > 0 || !fits.contains(&found.physical_type()) {
            return Err(TraceError::ColumnType { column, found: kind, wanted });
        }
    }
    Ok(places)
}

/// Reads the rows of `group`, all columns side by side, so that no column is ever held whole.
fn take_group(
    content: &Bytes,
    group: &RowGroupMetaData,
    places: [usize; COLUMNS.len()],
    rows: usize,
    operations: &mut Vec<Operation>,
) -> Result<(), TraceError> {
    let promised = usize::try_from(group.num_rows()).unwrap_or(0);
    let open = |(name, at): (&'static str, usize)| {
        let metadata = group.column(at);
        let pages = Pages::new(content, metadata, promised)?;
        let reader = get_column_reader(metadata.column_descr_ptr(), Box::new(pages));
        Column::new(name, reader)
    };
    let columns = COLUMNS.into_iter().zip(places).map(open);
    let mut columns = columns.collect::<Result<Vec<Column>, TraceError>>()?;
    loop {
        let first = operations.len();
        let mut taken = None;
        for column in &mut columns {
            let count = column.next(first)?;
            if *taken.get_or_insert(count) != count || first + count > rows {
                return Err(TraceError::CutOff { column: column.name, found: first + count, rows });
            }
        }
        match taken.unwrap_or(0) {
            0 => return Ok(()),
            count => (0..count).try_for_each(|at| {
                operations.push(operation(&columns, at, Place::Row(first + at))?);
                Ok::<_, TraceError>(())
            })?,
        }
    }
}

/// The operation of row `at` of what `columns` hold, with the chunk that it is of its stage.
fn operation(columns: &[Column], at: usize, place: Place) -> Result<Operation, TraceError> {
    let [dp_rank, stage, step, optype, start_ts, taken, chunk, microbatch] = columns else {
        return Err(TraceError::NotATrace);
    };
    let optype = optype.optype(at, place)?;
    // An operation other than a pass has -1 for both.
    let is_pass = matches!(optype, OpType::Pass(_));
    let of_pass = |column: &Column| if is_pass { column.whole(at) } else { 0 };
    Ok(Operation {
        step: count(step.whole(at), place, "step")?,
        dp_rank: count(dp_rank.whole(at), place, "dp_rank")?,
        stage: count(stage.whole(at), place, "stage")?,
        optype,
        chunk: count(of_pass(chunk), place, "mc")?,
        microbatch: count(of_pass(microbatch), place, "mb_id")?,
        start: nanos(start_ts.decimal(at), SECOND, LATEST, place, "start_ts")?,
        duration: nanos(taken.decimal(at), SECOND, LONGEST, place, "duration")?,
    })
}

/// Numbers the chunks of passes over the whole model, now that it is known how many stages it has.
fn name_chunks(operations: &mut [Operation]) -> Result<(), TraceError> {
    let stages = operations.iter().map(|one| i64::from(one.stage) + 1).max().unwrap_or(1);
    for (row, one) in operations.iter_mut().enumerate() {
        if matches!(one.optype, OpType::Pass(_)) {
            let chunk = i64::from(one.chunk) * stages + i64::from(one.stage);
            one.chunk = count(chunk, Place::Row(row), "mc")?;
        }
    }
    Ok(())
}
