//! Attention, embeddings and the loss.

use super::*;

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
    // A number whose exponential overflows, and a NaN that must propagate.
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
