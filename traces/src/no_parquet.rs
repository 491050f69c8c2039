//! Stands in for the reader of Parquet files where it is not built.

use crate::error::TraceError;
use crate::operation::Operation;

/// Reads nothing.
pub(crate) fn read(_content: Vec<u8>, _most: usize) -> Result<Vec<Operation>, TraceError> {
    Err(TraceError::NoParquet)
}

/// Reads nothing.
pub fn whole_numbers(
    _content: Vec<u8>,
    _column: &str,
    _most: usize,
) -> Result<Vec<i64>, TraceError> {
    Err(TraceError::NoParquet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_is_refused() {
        assert!(matches!(crate::read(b"PAR1".to_vec()), Err(TraceError::NoParquet)));
    }
}
