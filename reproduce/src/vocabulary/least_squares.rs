//! Least squares with few unknowns.

/// The `N` factors x that minimise the sum of (c x - y)^2 over the rows (c, y); `None` if the rows are
/// linearly dependent.
pub(super) fn least_squares<const N: usize>(
    rows: impl IntoIterator<Item = ([f64; N], f64)>,
) -> Option<[f64; N]> {
    let (mut normal, mut right) = ([[0.0; N]; N], [0.0; N]);
    for (factors, target) in rows {
        for i in 0..N {
            for j in 0..N {
                normal[i][j] += factors[i] * factors[j];
            }
            right[i] += factors[i] * target;
        }
    }
    solve(normal, right)
}

/// Gauss' elimination of a symmetric system, by the largest pivot of its column relative to its diagonal.
fn solve<const N: usize>(mut rows: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    let sizes: [f64; N] = std::array::from_fn(|i| rows[i][i]);
    for column in 0..N {
        let pivot =
            (column..N).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        right.swap(column, pivot);
        let lead = rows[column][column];
        if lead.abs() <= 1e-12 * sizes[column] {
            return None;
        }
        let (base, of_base) = (rows[column], right[column]);
        for row in (0..N).filter(|&row| row != column) {
            let times = rows[row][column] / lead;
            (0..N).for_each(|at| rows[row][at] -= times * base[at]);
            right[row] -= times * of_base;
        }
    }
    Some(std::array::from_fn(|i| right[i] / rows[i][i]))
}

#[cfg(test)]
mod tests {
    use super::least_squares;

    #[test]
    fn a_line_through_points_on_it_is_found() {
        let found = least_squares([1.0, 2.0, 5.0].map(|x| ([x, 1.0], 3.0 * x - 2.0))).unwrap();
        assert!((found[0] - 3.0).abs() < 1e-12 && (found[1] + 2.0).abs() < 1e-12, "{found:?}");
        // Off the line by 1, -2 and 1 at equal distances: the same line.
        let off = [(0.0, 1.0), (1.0, -2.0), (2.0, 1.0)].map(|(x, off)| ([x, 1.0], 4.0 * x + off));
        let found = least_squares(off).unwrap();
        assert!((found[0] - 4.0).abs() < 1e-12 && found[1].abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn dependent_constants_are_not_found() {
        assert_eq!(least_squares([([1.0, 1.0], 2.0), ([2.0, 2.0], 4.0)]), None);
        assert_eq!(least_squares::<2>([]), None);
    }
}
