//! Describes products of row-major matrices to cuBLASLt, which is column-major.
#![forbid(unsafe_code)]

use gpt::Gemm;

/// A column-major matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Matrix {
    /// Rows in memory.
    pub(crate) rows: u64,
    /// Columns in memory.
    pub(crate) columns: u64,
    /// Leading dimension: elements from one column to the next.
    pub(crate) leading: i64,
    /// Whether the product uses it transposed.
    pub(crate) transposed: bool,
    /// Elements from one matrix to the next.
    pub(crate) stride: i64,
}

/// `count` products, result = op(first) op(second).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Product {
    pub(crate) first: Matrix,
    pub(crate) second: Matrix,
    pub(crate) result: Matrix,
    pub(crate) count: i32,
}

/// A row-major matrix `[rows, columns]` is its transpose in column-major order.
fn turned(rows: usize, columns: usize, transposed: bool) -> Option<Matrix> {
    let leading = i64::try_from(columns).ok()?;
    let stride = i64::try_from(rows.checked_mul(columns)?).ok()?;
    Some(Matrix { rows: columns as u64, columns: rows as u64, leading, transposed, stride })
}

/// C^T = op(B)^T op(A)^T: as every matrix is read as its transpose, B comes first, and the
/// transpositions stay. `None` beyond 64-bit sizes or 32-bit counts.
pub(crate) fn column_major(shape: Gemm) -> Option<Product> {
    let Gemm { rows, columns, inner, .. } = shape;
    let stored = |transpose, (rows, columns): (usize, usize)| {
        let (rows, columns) = if transpose { (columns, rows) } else { (rows, columns) };
        turned(rows, columns, transpose)
    };
    Some(Product {
        first: stored(shape.transpose_b, (inner, columns))?,
        second: stored(shape.transpose_a, (rows, inner))?,
        result: turned(rows, columns, false)?,
        count: i32::try_from(shape.count).ok()?,
    })
}

/// The alignment of `address`, in bytes, up to the 256 that cuBLASLt considers.
pub(crate) fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::cast_possible_truncation)] // small sizes
    /// Element (row, column) of op(matrix) number `i`, read column by column.
    fn at(matrix: Matrix, data: &[f64], i: usize, row: usize, column: usize) -> f64 {
        let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
        assert!((row as u64) < matrix.rows && (column as u64) < matrix.columns);
        data[i * matrix.stride as usize + column * matrix.leading as usize + row]
    }

    #[allow(clippy::cast_possible_truncation)] // small sizes
    /// The product that cuBLASLt computes by its definition.
    fn multiply(product: Product, first: &[f64], second: &[f64], len: usize) -> Vec<f64> {
        let result = product.result;
        let first_by = product.first;
        let inner = if first_by.transposed { first_by.rows } else { first_by.columns };
        let mut c = vec![f64::NAN; len];
        for i in 0..product.count as usize {
            for row in 0..result.rows as usize {
                for column in 0..result.columns as usize {
                    let place = i * result.stride as usize + column * result.leading as usize + row;
                    c[place] = (0..inner as usize)
                        .map(|k| {
                            at(first_by, first, i, row, k)
                                * at(product.second, second, i, k, column)
                        })
                        .sum();
                }
            }
        }
        c
    }

    /// The row-major product, as [`Gemm`] defines it.
    fn reference(shape: Gemm, a: &[f64], b: &[f64]) -> Vec<f64> {
        let Gemm { rows, columns, inner, .. } = shape;
        let mut c = Vec::new();
        for i in 0..shape.count {
            let (a, b) = (&a[i * rows * inner..], &b[i * inner * columns..]);
            for row in 0..rows {
                for column in 0..columns {
                    let a_at =
                        |k| if shape.transpose_a { a[k * rows + row] } else { a[row * inner + k] };
                    let b_at = |k| {
                        if shape.transpose_b {
                            b[column * inner + k]
                        } else {
                            b[k * columns + column]
                        }
                    };
                    c.push((0..inner).map(|k| a_at(k) * b_at(k)).sum());
                }
            }
        }
        c
    }

    #[test]
    fn column_by_column_it_is_the_same_product() {
        for (rows, columns, inner) in [(1, 1, 1), (2, 3, 5), (4, 1, 3), (1, 6, 2), (3, 3, 3)] {
            for (flags, count) in (0..4).flat_map(|flags| [(flags, 1), (flags, 3)]) {
                let (transpose_a, transpose_b) = (flags & 1 == 1, flags & 2 == 2);
                let shape =
                    Gemm { rows, columns, inner, transpose_a, transpose_b, count, scale: 1.0 };
                let a: Vec<f64> = (0..count * rows * inner).map(|i| (i * 7 % 11) as f64).collect();
                let b: Vec<f64> =
                    (0..count * inner * columns).map(|i| (i * 5 % 13) as f64).collect();
                let product = column_major(shape).unwrap();
                let got = multiply(product, &b, &a, count * rows * columns);
                assert_eq!(got, reference(shape, &a, &b), "{shape:?}");
            }
        }
    }

    #[test]
    fn sizes_beyond_64_bits_are_no_product() {
        let huge = Gemm {
            rows: usize::MAX,
            columns: 2,
            inner: 1,
            transpose_a: false,
            transpose_b: false,
            count: 1,
            scale: 1.0,
        };
        assert_eq!(column_major(huge), None);
        assert_eq!(column_major(Gemm { rows: 1, count: 1 << 40, ..huge }), None);
    }

    #[test]
    fn alignment_is_the_largest_power_of_two_up_to_256() {
        assert_eq!([256, 512, 260, 2, 0].map(alignment), [256, 256, 4, 2, 256]);
    }
}
