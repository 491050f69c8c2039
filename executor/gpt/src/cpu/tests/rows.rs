//! Products, biases, layer norm, GELU.

use super::*;

fn products<T: Real>(tolerance: f64) {
    let (rows, columns, inner, count) = (5, 7, 3, 2);
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let shape = Gemm { rows, columns, inner, transpose_a, transpose_b, count, scale: 0.5 };
        let (a, b) = (draw(4 + count * rows * inner, 1), draw(1 + count * inner * columns, 2));
        let before = draw(2 + count * rows * columns, 3);
        let mut expected = before.clone();
        for (index, c) in expected[2..].iter_mut().enumerate() {
            let (one, place) = (index / (rows * columns), index % (rows * columns));
            let (row, column) = (place / columns, place % columns);
            let left = |k: usize| if transpose_a { k * rows + row } else { row * inner + k };
            let right =
                |k: usize| if transpose_b { column * inner + k } else { k * columns + column };
            let term = |k: usize| {
                a[4 + one * rows * inner + left(k)] * b[1 + one * inner * columns + right(k)]
            };
            *c = 0.5 * (0..inner).map(term).sum::<f64>();
        }
        let (a, b) = (vector::<T>(&a), vector::<T>(&b));
        let run = |is_sum: bool| {
            let mut c = vector::<T>(&before);
            let at = At { buffer: &mut c, from: 2 };
            let (a, b) = (At { buffer: &a, from: 4 }, At { buffer: &b, from: 1 });
            let mut cpu = Cpu::new();
            match is_sum {
                true => cpu.gemm_accumulate(shape, a, b, at).unwrap(),
                false => cpu.gemm(shape, a, b, at).unwrap(),
            }
            c
        };
        assert_near(&run(false), &expected, tolerance);
        let added = |(index, x): (usize, &f64)| if index < 2 { *x } else { x + before[index] };
        let summed: Vec<f64> = expected.iter().enumerate().map(added).collect();
        assert_near(&run(true), &summed, tolerance);
    }
}

#[test]
fn products_of_matrices() {
    in_both!(products);
}

fn biases<T: Real>(tolerance: f64) {
    let (rows, columns) = (3, 4);
    let (x, bias) = (draw(rows * columns, 1), draw(2 + columns, 2));
    let mut cpu = Cpu::<T>::new();
    let mut y = vector(&x);
    let at = vector(&bias);
    cpu.add_bias(rows, columns, At { buffer: &at, from: 2 }, &mut y).unwrap();
    let expected: Vec<f64> =
        x.iter().enumerate().map(|(index, x)| x + bias[2 + index % columns]).collect();
    assert_near(&y, &expected, tolerance);

    let mut sums = vector(&bias);
    cpu.sum_rows(rows, columns, &vector(&x), At { buffer: &mut sums, from: 2 }).unwrap();
    let mut expected = bias.clone();
    x.iter().enumerate().for_each(|(index, x)| expected[2 + index % columns] += x);
    assert_near(&sums, &expected, tolerance);

    let mut sum = vector(&x);
    cpu.add(5, &vector(&draw(6, 3)), &mut sum).unwrap();
    let mut expected = x;
    (0..5).for_each(|index| expected[index] += draw(6, 3)[index]);
    assert_near(&sum, &expected, tolerance);
}

#[test]
fn biases_and_their_gradients() {
    in_both!(biases);
}

/// gain and bias one behind the other.
fn norm_formula(columns: usize, x: &[f64], weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = columns as f64;
    let (mut y, mut stats) = (Vec::new(), Vec::new());
    for row in x.chunks(columns) {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let rstd = 1.0 / (variance + 1e-5).sqrt();
        stats.extend([mean, rstd]);
        let scaled = row.iter().zip(weights).zip(&weights[columns..]);
        y.extend(scaled.map(|((x, gain), bias)| (x - mean) * rstd * gain + bias));
    }
    (y, stats)
}

fn layer_norms<T: Real>(tolerance: f64) {
    // Longer than the lanes of a sum, and not a multiple of them.
    let (rows, columns) = (3, 37);
    let (x, weights) = (draw(rows * columns, 1), draw(2 * columns, 2));
    let (expected, expected_stats) = norm_formula(columns, &x, &weights);
    let (x, weights) = (vector::<T>(&x), vector::<T>(&weights));
    let (mut y, mut stats) = (vec![T::zero(); rows * columns], vec![T::zero(); 2 * rows]);
    let (gain, bias) = (At::start(&weights), At { buffer: &weights, from: columns });
    Cpu::new().layer_norm(rows, columns, &x, gain, bias, &mut y, &mut stats).unwrap();
    assert_near(&y, &expected, tolerance);
    assert_near(&stats, &expected_stats, tolerance);
}

#[test]
fn layer_norm() {
    in_both!(layer_norms);
}

#[test]
fn the_way_back_through_layer_norm() {
    let (rows, columns) = (3, 19);
    let (x, weights, dy) = (draw(57, 1), draw(38, 2), draw(57, 3));
    let (_, stats) = norm_formula(columns, &x, &weights);
    let (mut dx, mut gradients) = (vec![f64::NAN; 57], vec![1.0; 40]);
    let gain = At::start(&weights);
    Cpu::new()
        .layer_norm_backward(rows, columns, &x, &stats, gain, &dy, &mut dx, &mut gradients, 21, 2)
        .unwrap();
    let along_x = slopes(&x, |x| dot(&norm_formula(columns, x, &weights).0, &dy));
    assert_near(&dx, &along_x, 1e-9);
    let along_weights = slopes(&weights, |weights| dot(&norm_formula(columns, &x, weights).0, &dy));
    let added: Vec<f64> = along_weights.iter().map(|slope| 1.0 + slope).collect();
    assert_near(&gradients[21..40], &added[..columns], 1e-9);
    assert_near(&gradients[2..21], &added[columns..], 1e-9);
    assert_eq!(gradients[..2], [1.0, 1.0]);
}

fn gelu_formula(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    0.5 * x * (1.0 + u.tanh())
}

fn gelus<T: Real>(tolerance: f64) {
    let mut x: Vec<f64> = draw(40, 1).iter().map(|x| 2.0 * x).collect();
    x.extend([0.0, 30.0, -30.0]);
    let mut y = vec![T::zero(); x.len()];
    Cpu::new().gelu(x.len(), &vector(&x), &mut y).unwrap();
    assert_near(&y, &x.iter().map(|&x| gelu_formula(x)).collect::<Vec<_>>(), tolerance);
}

#[test]
fn gelu_and_its_way_back() {
    in_both!(gelus);
    let (x, dy) = (draw(40, 1), draw(40, 2));
    let expected =
        slopes(&x, |x| dot(&x.iter().map(|&x| gelu_formula(x)).collect::<Vec<_>>(), &dy));
    let mut dx = dy;
    Cpu::new().gelu_backward(40, &x, &mut dx).unwrap();
    assert_near(&dx, &expected, 1e-10);
}
