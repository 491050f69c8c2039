//! The rows of a sweep as Parquet: the columns of the CSV, with types.
//!
//! A column holds 64-bit whole numbers, doubles, truths or text, and null where the CSV is empty.
//! The type of an axis is found in its values: the first of these types that all of them have. The
//! bytes depend on the rows alone.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use csv::{ByteRecord, Reader, ReaderBuilder};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use answer::sweep::kinds;
use question::sweep::columns::ColumnKind;

/// Rows of a group: held in memory at once, some hundred bytes each.
const GROUP: usize = 1 << 16;

/// Writes the rows that `rows` gives, each time from the first, under the names in the line
/// `header`.
///
/// # Errors
/// If they cannot be read or written, or a number has no place in 64 bits.
pub fn write<R: Read>(
    file: &mut File,
    header: &[u8],
    rows: impl Fn() -> io::Result<R>,
) -> io::Result<()> {
    let header = String::from_utf8_lossy(header);
    let names: Vec<&str> = header.trim_end().split(',').collect();
    let kinds = match kinds::known(&names) {
        Some(kinds) => kinds,
        None => kinds::of(&names, &mut reader(rows()?))?,
    };
    write_as(file, &names, &kinds, &mut reader(rows()?)).map_err(|error| match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    })
}

fn reader<R: Read>(rows: R) -> Reader<R> {
    ReaderBuilder::new().has_headers(false).from_reader(rows)
}

fn write_as<R: Read>(
    file: &mut File,
    names: &[&str],
    kinds: &[ColumnKind],
    rows: &mut Reader<R>,
) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("debubble ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let schema = Arc::new(schema(names, kinds)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group: Vec<Column> = kinds.iter().map(|&kind| Column::new(kind)).collect();
    let mut row = ByteRecord::new();
    let mut more = true;
    while more {
        let mut taken = 0;
        while taken < GROUP && more {
            more = rows.read_byte_record(&mut row).map_err(io::Error::from)?;
            if more {
                for ((column, value), name) in group.iter_mut().zip(&row).zip(names) {
                    column.add(value).ok_or_else(|| out_of_range(name, value))?;
                }
                taken += 1;
            }
        }
        if taken > 0 {
            let mut into = writer.next_row_group()?;
            group.iter_mut().try_for_each(|column| column.write(&mut into))?;
            into.close()?;
        }
    }
    writer.close().map(drop)
}

fn out_of_range(name: &str, value: &[u8]) -> ParquetError {
    let value = String::from_utf8_lossy(value);
    ParquetError::General(format!("{name} = {value} has no place in a column of Parquet"))
}

fn schema(names: &[&str], kinds: &[ColumnKind]) -> Result<Type, ParquetError> {
    let field = |(name, kind): (&&str, &ColumnKind)| {
        let (physical, logical) = match kind {
            ColumnKind::Whole => (Physical::INT64, None),
            ColumnKind::Decimal => (Physical::DOUBLE, None),
            ColumnKind::Truth => (Physical::BOOLEAN, None),
            ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical);
        let field = field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = names.iter().zip(kinds).map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("sweep").with_fields(fields).build()
}

/// The values of one column in one group, and which rows have one.
struct Column {
    values: Values,
    present: Vec<i16>,
}

enum Values {
    Whole(Vec<i64>),
    Decimal(Vec<f64>),
    Truth(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Column {
    fn new(kind: ColumnKind) -> Self {
        let values = match kind {
            ColumnKind::Whole => Values::Whole(Vec::new()),
            ColumnKind::Decimal => Values::Decimal(Vec::new()),
            ColumnKind::Truth => Values::Truth(Vec::new()),
            ColumnKind::Text => Values::Text(Vec::new()),
        };
        Self { values, present: Vec::new() }
    }

    /// Takes in a value, or that there is none; `None` if it does not fit.
    fn add(&mut self, value: &[u8]) -> Option<()> {
        self.present.push(i16::from(!value.is_empty()));
        if value.is_empty() {
            return Some(());
        }
        let text = std::str::from_utf8(value).ok();
        match &mut self.values {
            Values::Whole(values) => values.push(text?.parse().ok()?),
            Values::Decimal(values) => values.push(text?.parse().ok()?),
            Values::Truth(values) => values.push(text?.parse().ok()?),
            Values::Text(values) => values.push(value.to_vec().into()),
        }
        Some(())
    }

    /// Writes its values as the next column of `group`, and clears them.
    fn write<W: io::Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Whole(values) => write_column::<Int64Type, W>(group, values, &self.present),
            Values::Decimal(values) => write_column::<DoubleType, W>(group, values, &self.present),
            Values::Truth(values) => write_column::<BoolType, W>(group, values, &self.present),
            Values::Text(values) => write_column::<ByteArrayType, W>(group, values, &self.present),
        }?;
        self.present.clear();
        Ok(())
    }
}

fn write_column<T: DataType, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    present: &[i16],
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, Some(present), None)?;
        column.close()?;
    }
    values.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_named() {
        let mut file = tempfile::tempfile().unwrap();
        let error = write(&mut file, b"span_ns\n", || Ok(&b"18446744073709551615\n"[..]));
        assert!(error.unwrap_err().to_string().contains("span_ns = 18446744073709551615"));
    }
}
