//! Products of matrices, by the kernels of `matrixmultiply`.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeError};

use crate::cpu::real::Real;
use crate::operands::{At, Gemm};
use runtime::DeviceError;

/// C = scale op(A) op(B) + beta C for every product.
pub(super) fn gemm<T: Real>(
    shape: Gemm,
    a: &[T],
    b: &[T],
    beta: T,
    c: At<&mut Vec<T>>,
) -> Result<(), DeviceError> {
    let Gemm { rows, columns, inner, transpose_a, transpose_b, count, scale } = shape;
    let scale = T::of(scale.into());
    let At { buffer, from } = c;
    let c = &mut buffer[from..];
    for one in 0..count {
        let a = matrix(&a[one * rows * inner..][..rows * inner], rows, inner, transpose_a)?;
        let b =
            matrix(&b[one * inner * columns..][..inner * columns], inner, columns, transpose_b)?;
        let c = &mut c[one * rows * columns..][..rows * columns];
        let mut c = ArrayViewMut2::from_shape((rows, columns), c).map_err(wrong_shape)?;
        general_mat_mul(scale, &a, &b, beta, &mut c);
    }
    Ok(())
}

/// A matrix `[rows, columns]`, stored transposed if `transposed`.
fn matrix<T>(
    elements: &[T],
    rows: usize,
    columns: usize,
    transposed: bool,
) -> Result<ArrayView2<'_, T>, DeviceError> {
    let view = match transposed {
        false => ArrayView2::from_shape((rows, columns), elements),
        true => ArrayView2::from_shape((columns, rows), elements).map(ArrayView2::reversed_axes),
    };
    view.map_err(wrong_shape)
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` hands it over.
fn wrong_shape(error: ShapeError) -> DeviceError {
    DeviceError::Call { call: "gemm", message: error.to_string() }
}
