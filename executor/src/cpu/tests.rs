//! Every kernel against its formula, written down naively in f64; every way back against slopes.

use super::*;
use crate::random;

fn draw(len: usize, seed: u64) -> Vec<f64> {
    (0..len as u64).map(|index| random::normal(seed, index)).collect()
}

fn vector<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::of(x)).collect()
}

/// Compares within `tolerance`, for numbers of about 1.
#[track_caller]
fn assert_near<T: Real>(found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (x, y)) in found.iter().zip(expected).enumerate() {
        let error = (x.wide() - y).abs() / y.abs().max(1.0);
        assert!(error <= tolerance, "at {index}: {} instead of {y}", x.wide());
    }
}

/// The slope of `f` along every element of `x`.
fn slopes(x: &[f64], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-4;
    let (mut x, len) = (x.to_vec(), x.len());
    let mut slope = |index: usize| {
        let middle = x[index];
        let mut at = |value: f64| {
            x[index] = value;
            f(&x)
        };
        let near = at(middle + STEP) - at(middle - STEP);
        let far = at(middle + 2.0 * STEP) - at(middle - 2.0 * STEP);
        x[index] = middle;
        (8.0 * near - far) / (12.0 * STEP)
    };
    (0..len).map(&mut slope).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Runs a check in both precisions with what can be asked of each.
macro_rules! in_both {
    ($check:ident) => {
        $check::<f64>(1e-13);
        $check::<f32>(5e-6);
    };
}

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
                true => cpu.gemm_into_sums(shape, a, b, at).unwrap(),
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
    // Longer than the lanes of a sum, and no multiple of them.
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

#[test]
fn heads_apart_and_together() {
    let sizes = Heads { batch: 2, sequence: 3, heads: 2, width: 5 };
    let Heads { batch, sequence, heads, width } = sizes;
    let len = batch * sequence * heads * width;
    let qkv: Vec<f64> = draw(3 * len, 1);
    let mut parts = [vec![0.0; len], vec![0.0; len], vec![0.0; len]];
    let mut cpu = Cpu::new();
    cpu.split_heads(sizes, &qkv, parts.each_mut()).unwrap();
    for (part, apart) in parts.iter().enumerate() {
        for (index, x) in apart.iter().enumerate() {
            let (element, row) = (index % width, index / width);
            let (place, head) = (row % sequence, row / sequence % heads);
            let token = row / (sequence * heads) * sequence + place;
            assert_eq!(*x, qkv[((token * 3 + part) * heads + head) * width + element]);
        }
    }
    let mut again = vec![0.0; 3 * len];
    cpu.join_heads(sizes, parts.each_ref(), &mut again).unwrap();
    assert_eq!(again, qkv);

    let (mut merged, mut unmerged) = (vec![0.0; len], vec![0.0; len]);
    cpu.merge_heads(sizes, &parts[0], &mut merged).unwrap();
    let queries = qkv.chunks(heads * width).step_by(3).flatten();
    assert!(queries.eq(&merged));
    cpu.unmerge_heads(sizes, &merged, &mut unmerged).unwrap();
    assert_eq!(unmerged, parts[0]);
}

fn softmax_formula(n: usize, x: &[f64]) -> Vec<f64> {
    let mut p = x.to_vec();
    for (index, row) in p.chunks_mut(n).enumerate() {
        let seen = index % n + 1;
        let sum: f64 = row[..seen].iter().map(|x| x.exp()).sum();
        let each =
            |(place, x): (usize, &mut f64)| *x = if place < seen { x.exp() / sum } else { 0.0 };
        row.iter_mut().enumerate().for_each(each);
    }
    p
}

fn softmaxes<T: Real>(tolerance: f64) {
    let (count, n) = (2, 20);
    let x = draw(count * n * n, 1);
    let mut p = vector::<T>(&x);
    Cpu::new().causal_softmax(count, n, &mut p).unwrap();
    assert_near(&p, &softmax_formula(n, &x), tolerance);
    // What no exponential can hold, and what must not be hidden.
    let mut far = vector::<T>(&[1e4, f64::NAN, 1e4, 2e4]);
    Cpu::new().causal_softmax(1, 2, &mut far).unwrap();
    assert_near(&far, &[1.0, 0.0, 0.0, 1.0], 0.0);
    let mut bad = vector::<T>(&[f64::NAN]);
    Cpu::new().causal_softmax(1, 1, &mut bad).unwrap();
    assert!(bad[0].wide().is_nan());
}

#[test]
fn softmax_and_its_way_back() {
    in_both!(softmaxes);
    let (count, n) = (2, 6);
    let (x, mut dp) = (draw(count * n * n, 1), draw(count * n * n, 2));
    let expected = slopes(&x, |x| 0.5 * dot(&softmax_formula(n, x), &dp));
    Cpu::new().softmax_backward(count, n, 0.5, &softmax_formula(n, &x), &mut dp).unwrap();
    assert_near(&dp, &expected, 1e-10);
}

#[test]
fn embeddings_and_their_gradients() {
    let (sequence, columns, tokens) = (3, 4, vec![2, 0, 2, 1, 2, 0]);
    // Three rows of the table from 1, three positions behind.
    let (weights, dy) = (draw(1 + 6 * columns, 1), draw(tokens.len() * columns, 2));
    let mut cpu = Cpu::new();
    let mut forward = |weights: &[f64]| {
        let weights = weights.to_vec();
        let mut y = vec![f64::NAN; tokens.len() * columns];
        let table = At { buffer: &weights, from: 1 };
        let positions = At { buffer: &weights, from: 1 + 3 * columns };
        cpu.embed(sequence, columns, &tokens, table, positions, &mut y).unwrap();
        y
    };
    let y = forward(&weights);
    for (index, y) in y.iter().enumerate() {
        let (place, column) = (index / columns, index % columns);
        let token = tokens[place] as usize;
        let position = 3 + place % sequence;
        let row = |row: usize| weights[1 + row * columns + column];
        assert_eq!(*y, row(token) + row(position));
    }
    let expected: Vec<f64> =
        slopes(&weights, |weights| dot(&forward(weights), &dy)).iter().map(|x| x + 1.0).collect();
    let mut gradients = vec![1.0; weights.len()];
    cpu.embed_backward(sequence, columns, &tokens, &dy, &mut gradients, 1, 1 + 3 * columns)
        .unwrap();
    assert_near(&gradients, &expected, 1e-9);
}

fn entropy_formula(columns: usize, logits: &[f64], targets: &[u32]) -> f64 {
    let rows = logits.chunks(columns).zip(targets);
    rows.map(|(row, &target)| {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        sum.ln() - row[target as usize]
    })
    .sum()
}

fn entropies<T: Real>(tolerance: f64) {
    let (rows, columns, targets) = (3, 21, vec![20, 0, 7]);
    let logits = draw(rows * columns, 1);
    let mut loss = vector::<T>(&[1.0]);
    let mut cpu = Cpu::new();
    cpu.cross_entropy(rows, columns, 0.25, &vector(&logits), &targets, &mut loss).unwrap();
    let expected = 1.0 + 0.25 * entropy_formula(columns, &logits, &targets);
    assert_near(&loss, &[expected], tolerance);
}

#[test]
fn cross_entropy_and_its_way_back() {
    in_both!(entropies);
    let (rows, columns, targets) = (3, 21, vec![20, 0, 7]);
    let mut logits = draw(rows * columns, 1);
    let expected = slopes(&logits, |x| 0.25 * entropy_formula(columns, x, &targets));
    Cpu::new().cross_entropy_backward(rows, columns, 0.25, &mut logits, &targets).unwrap();
    assert_near(&logits, &expected, 1e-10);
}

#[test]
fn the_norm_finds_what_is_no_number() {
    let sums = draw(10_000, 1);
    let (squares, is_bad) = Cpu::new().norm(&sums).unwrap();
    assert!((squares / dot(&sums, &sums) - 1.0).abs() < 1e-12 && !is_bad);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut sums = sums.clone();
        sums[9_999] = bad;
        assert!(Cpu::new().norm(&sums).unwrap().1);
    }
    // The square of this is beyond f32.
    let (squares, is_bad) = Cpu::new().norm(&vec![1e30f32; 2]).unwrap();
    assert!((squares / 2e60 - 1.0).abs() < 1e-6 && !is_bad);
}

fn moments<T: Real>(weight: f64, first: f64, second: f64) -> Moments<Vec<T>, Vec<T>> {
    let one = |x: f64| vector(&[x]);
    Moments { weights: one(weight), master: one(weight), first: one(first), second: one(second) }
}

#[test]
fn adamw_by_hand() {
    let rule =
        AdamW { learning_rate: 0.1, beta1: 0.5, beta2: 0.75, epsilon: 0.5, weight_decay: 0.2 };
    let mut state = moments::<f64>(1.0, 2.0, 4.0);
    // g = 2; m = 0.5 * 2 + 0.5 * 2 = 2, without bias 2 / 0.75; v = 0.75 * 4 + 0.25 * 4 = 4, without
    // bias 4 / 0.4375; w = 1 - 0.1 (m / (sqrt(v) + 0.5) + 0.2).
    Cpu::new().adamw(rule, 2, 0.5, &vec![4.0], &mut state).unwrap();
    let change = (2.0 / 0.75) / ((4.0f64 / 0.4375).sqrt() + 0.5) + 0.2;
    assert_near(&state.master, &[1.0 - 0.1 * change], 1e-15);
    assert_near(&state.first, &[2.0], 1e-15);
    assert_near(&state.second, &[4.0], 1e-15);
    assert_eq!(state.weights, state.master);
}

fn undone<T: Real>(tolerance: f64) {
    let (mut cpu, rule) = (Cpu::<T>::new(), AdamW::default());
    let start = draw(100, 1);
    let mut state = Moments {
        weights: vector(&start),
        master: vector(&start),
        first: vec![T::zero(); 100],
        second: vec![T::zero(); 100],
    };
    for step in 1..=3 {
        let gradients = vector(&draw(100, 10 + u64::from(step)));
        let before = cpu.copy_state(&state).unwrap();
        cpu.adamw(rule, step, 0.7, &gradients, &mut state).unwrap();
        assert_ne!(state.master, before.master);
        let mut back = cpu.copy_state(&state).unwrap();
        cpu.adamw_undo(rule, step, 0.7, &gradients, &mut back).unwrap();
        assert_near(&back.master, &read(&before.master), tolerance);
        assert_near(&back.first, &read(&before.first), tolerance);
        assert_near(&back.second, &read(&before.second), tolerance);
        assert_eq!(back.weights, back.master);
    }
}

#[test]
fn an_update_taken_back_leaves_what_was() {
    undone::<f64>(1e-12);
    undone::<f32>(2e-6);
}

#[test]
fn numbers_travel_as_bytes() {
    let mut cpu = Cpu::<f32>::new();
    let mut tensor = cpu.tensor(4).unwrap();
    cpu.write(&[1.5, -2.0, 3.0], At { buffer: &mut tensor, from: 1 }).unwrap();
    assert_eq!(cpu.read(&tensor).unwrap()[1..], [1.5, -2.0, 3.0]);
    let handed = cpu.hand(tensor.clone()).unwrap();
    let bytes = cpu.pack(handed).unwrap();
    assert_eq!(bytes.len(), 4 * cpu.element_bytes());
    assert_eq!(bytes[4..8], 1.5f32.to_le_bytes());
    let handed = cpu.unpack(&bytes).unwrap();
    assert_eq!(cpu.take(handed).unwrap(), tensor);
    assert!(matches!(cpu.unpack(&bytes[..15]), Err(DeviceError::Call { .. })));
}

#[test]
fn memory_that_nobody_has_is_refused() {
    let error = Cpu::<f64>::new().tensor(1 << 59).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}
