//! Linear equations with a symmetric, positive definite matrix.

/// A symmetric matrix, by rows.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    size: usize,
    entries: Vec<f64>,
}

impl Matrix {
    pub(super) fn zero(size: usize) -> Self {
        Self { size, entries: vec![0.0; size * size] }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.size + column]
    }

    /// The entry of the diagonal in row `index`.
    pub(super) fn diagonal(&mut self, index: usize) -> &mut f64 {
        &mut self.entries[index * self.size + index]
    }

    /// Adds `weight` times the product of `vector` with itself.
    pub(super) fn add_square(&mut self, vector: &[f64], weight: f64) {
        for (row, a) in self.entries.chunks_exact_mut(self.size.max(1)).zip(vector) {
            if *a != 0.0 {
                for (entry, b) in row.iter_mut().zip(vector) {
                    *entry += weight * a * b;
                }
            }
        }
    }
}

/// The solution of `matrix` x = `right` by Cholesky's factors, or `None` if the matrix is not positive
/// definite.
pub(super) fn solved(matrix: &Matrix, right: &[f64]) -> Option<Vec<f64>> {
    let size = matrix.size;
    let mut factor = Matrix::zero(size);
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| factor.at(row, k) * factor.at(column, k)).sum();
            let rest = matrix.at(row, column) - known;
            factor.entries[row * size + column] = if row == column {
                if !(rest > 0.0 && rest.is_finite()) {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / factor.at(column, column)
            };
        }
    }
    let mut solution = right.to_vec();
    for row in 0..size {
        let known: f64 = (0..row).map(|k| factor.at(row, k) * solution[k]).sum();
        solution[row] = (solution[row] - known) / factor.at(row, row);
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|k| factor.at(k, row) * solution[k]).sum();
        solution[row] = (solution[row] - known) / factor.at(row, row);
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let mut matrix = Matrix::zero(3);
        for vector in [[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [2.0, 0.0, 1.0]] {
            matrix.add_square(&vector, 0.5);
        }
        let right = [1.0, -2.0, 3.0];
        let solution = solved(&matrix, &right).unwrap();
        for (row, right) in right.iter().enumerate() {
            let sum: f64 = (0..3).map(|column| matrix.at(row, column) * solution[column]).sum();
            assert!((sum - right).abs() < 1e-12, "{sum}");
        }
        assert_eq!(solved(&Matrix::zero(2), &[0.0, 0.0]), None);
        assert_eq!(solved(&Matrix::zero(0), &[]), Some(vec![]));
    }
}
