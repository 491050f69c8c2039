//! Answers of a sweep, row by row.

pub mod row;
