//! One column of a row group, some thousand rows at a time.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};

use crate::error::{Place, TraceError};
use crate::operation::OpType;

/// Rows that are held at once.
const BATCH: usize = 1 << 13;

/// A column while it is read.
pub(super) struct Column {
    pub(super) name: &'static str,
    reader: Reader,
    levels: Vec<i16>,
}

/// A column's type, and its values in the current rows.
enum Reader {
    Whole32(ColumnReaderImpl<parquet::data_type::Int32Type>, Vec<i32>),
    Whole64(ColumnReaderImpl<parquet::data_type::Int64Type>, Vec<i64>),
    Single(ColumnReaderImpl<parquet::data_type::FloatType>, Vec<f32>),
    Double(ColumnReaderImpl<parquet::data_type::DoubleType>, Vec<f64>),
    Names(ColumnReaderImpl<parquet::data_type::ByteArrayType>, Vec<ByteArray>),
}

impl Column {
    /// The column `name`, which `reader` reads.
    pub(super) fn new(name: &'static str, reader: ColumnReader) -> Result<Self, TraceError> {
        let reader = match reader {
            ColumnReader::Int32ColumnReader(reader) => Reader::Whole32(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Reader::Whole64(reader, Vec::new()),
            ColumnReader::FloatColumnReader(reader) => Reader::Single(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Reader::Double(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => Reader::Names(reader, Vec::new()),
            // The schema said otherwise.
            _ => return Err(TraceError::NotATrace),
        };
        Ok(Self { name, reader, levels: Vec::new() })
    }

    /// Reads the next rows, of which `first` is the number in the file, and returns how many there
    /// are.
    pub(super) fn next(&mut self, first: usize) -> Result<usize, TraceError> {
        let (name, levels) = (self.name, &mut self.levels);
        match &mut self.reader {
            Reader::Whole32(reader, into) => take(reader, into, levels, (name, first)),
            Reader::Whole64(reader, into) => take(reader, into, levels, (name, first)),
            Reader::Single(reader, into) => take(reader, into, levels, (name, first)),
            Reader::Double(reader, into) => take(reader, into, levels, (name, first)),
            Reader::Names(reader, into) => take(reader, into, levels, (name, first)),
        }
    }

    /// The whole number of row `at` of those at hand.
    pub(super) fn whole(&self, at: usize) -> i64 {
        match &self.reader {
            Reader::Whole32(_, values) => values[at].into(),
            Reader::Whole64(_, values) => values[at],
            _ => 0,
        }
    }

    /// The decimal number of row `at` of those at hand.
    pub(super) fn decimal(&self, at: usize) -> f64 {
        match &self.reader {
            Reader::Single(_, values) => values[at].into(),
            Reader::Double(_, values) => values[at],
            _ => 0.0,
        }
    }

    /// The operation of row `at` of those at hand.
    pub(super) fn optype(&self, at: usize, place: Place) -> Result<OpType, TraceError> {
        let Reader::Names(_, names) = &self.reader else { return Err(TraceError::NotATrace) };
        let name = String::from_utf8_lossy(names[at].data());
        OpType::named(&name).ok_or_else(|| TraceError::UnknownOpType {
            place,
            name: name.chars().take(40).collect(),
        })
    }
}

/// Reads the next values, none of which may be absent; how many.
fn take<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    into: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
    (column, first): (&'static str, usize),
) -> Result<usize, TraceError> {
    into.clear();
    levels.clear();
    let (records, present, _) = reader.read_records(BATCH, Some(levels), None, into)?;
    match present < records {
        true => {
            let most = levels.iter().max().copied().unwrap_or(0);
            let absent = levels.iter().position(|&level| level < most.max(1)).unwrap_or_default();
            Err(TraceError::Absent { place: Place::Row(first + absent), column })
        }
        false => Ok(records),
    }
}
