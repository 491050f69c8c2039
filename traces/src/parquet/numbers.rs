//! One column of whole numbers, by its name.

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::reader::get_column_reader;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::column::Column;
use super::pages::Pages;
use super::{MOST_OF_A_BYTE, SMALL};
use crate::error::TraceError;
use crate::guard::guarded;

/// The column in errors about its values.
const NAME: &str = "of these numbers";

/// The numbers of `column` in the Parquet file `content`, of at most `most` rows. None of them may be absent.
pub fn whole_numbers(content: Vec<u8>, column: &str, most: usize) -> Result<Vec<i64>, TraceError> {
    let content = Bytes::from(content);
    guarded(|| decode(&content, column, most)).unwrap_or_else(|what| Err(TraceError::Damaged(what)))
}

fn decode(content: &Bytes, column: &str, most: usize) -> Result<Vec<i64>, TraceError> {
    let file = SerializedFileReader::new(content.clone())?;
    let rows = rows(&file, content.len() as u64, most)?;
    let at = place(&file, column)?;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(rows).map_err(|_| TraceError::NoMemory { rows })?;
    for group in file.metadata().row_groups() {
        let metadata = group.column(at);
        let promised = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = Pages::new(content, metadata, promised)?;
        let reader = get_column_reader(metadata.column_descr_ptr(), Box::new(pages));
        let mut column = Column::new(NAME, reader)?;
        loop {
            let count = column.next(numbers.len())?;
            if numbers.len() + count > rows {
                let found = numbers.len() + count;
                return Err(TraceError::CutOff { column: NAME, found, rows });
            }
            if count == 0 {
                break;
            }
            numbers.extend((0..count).map(|row| column.whole(row)));
        }
    }
    match numbers.len() == rows {
        true => Ok(numbers),
        false => Err(TraceError::CutOff { column: NAME, found: numbers.len(), rows }),
    }
}

/// Number of rows that the file promises, before any memory is taken for them.
fn rows(file: &SerializedFileReader<Bytes>, bytes: u64, most: usize) -> Result<usize, TraceError> {
    let groups = file.metadata().row_groups().iter();
    let rows = groups.fold(0i64, |sum, group| sum.saturating_add(group.num_rows().max(0)));
    let rows = rows.max(file.metadata().file_metadata().num_rows());
    let count = usize::try_from(rows).unwrap_or(usize::MAX);
    if count > most {
        return Err(TraceError::TooManyRows { rows, most });
    }
    // Equal numbers pack tightly: memory for them is no more than the bound.
    match count as u64 <= SMALL.saturating_add(bytes.saturating_mul(MOST_OF_A_BYTE)) {
        true => Ok(count),
        false => Err(TraceError::Implausible { rows: count, bytes }),
    }
}

/// Where the column stands in the file.
fn place(file: &SerializedFileReader<Bytes>, column: &str) -> Result<usize, TraceError> {
    let schema = file.metadata().file_metadata().schema_descr();
    let names = schema.columns().iter().map(|one| one.path().string());
    let names: Vec<String> = names.collect();
    let Some(at) = names.iter().position(|name| name == column) else {
        let list = names.iter().any(|name| name.starts_with(&format!("{column}.")));
        let column = column.to_owned();
        return Err(match list {
            true => TraceError::NoNumbers { column, found: "lists or structures".to_owned() },
            false => TraceError::NoColumn { column, found: names },
        });
    };
    let own = schema.column(at);
    let fits = [Type::INT32, Type::INT64].contains(&own.physical_type());
    match fits && own.max_rep_level() == 0 {
        true => Ok(at),
        false => Err(TraceError::NoNumbers {
            column: column.to_owned(),
            found: own.physical_type().to_string(),
        }),
    }
}
