//! Every operation through [`Ops`], whose parameter order differs from the kernels'.

use super::super::element::{Bf16, Element};
use super::super::memory::Buffer;
use super::super::stage::Cuda;
use super::gpu::{filled, gpu};
use super::{cases, close, numbers, tolerance};
use gpt::{AdamW, At, Heads, Moments, Ops};

/// Index of the values in a buffer of tensors or accumulators.
const FROM: usize = 2;

fn at<T>(buffer: T) -> At<T> {
    At { buffer, from: FROM }
}

fn sums<E: Element>(cuda: &mut Cuda<E>, values: &[f64]) -> Buffer<f32> {
    let mut sums = cuda.accumulator(values.len()).unwrap();
    cuda.write_accumulator(values, At::start(&mut sums)).unwrap();
    sums
}

fn on_both(test: fn(&mut Cuda<f32>), again: fn(&mut Cuda<Bf16>)) {
    if let (Some(mut one), Some(mut other)) = (gpu(), gpu()) {
        test(&mut one);
        again(&mut other);
    }
}

fn element_by_element<E: Element>(cuda: &mut Cuda<E>) {
    let (rows, columns, n) = (3, 5, 15);
    let (x, y) = (numbers::<E>(1, n), numbers::<E>(2, n));
    let bias = numbers::<E>(3, FROM + columns);
    let (of_x, of_bias) = (filled(cuda, &x), filled(cuda, &bias));
    let mut to = filled(cuda, &y);
    cuda.add(n, &of_x, &mut to).unwrap();
    let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    close("add", &cuda.read(&to).unwrap(), &sum, tolerance::<E>());
    let mut to = filled(cuda, &y);
    cuda.add_bias(rows, columns, at(&of_bias), &mut to).unwrap();
    let want: Vec<f64> = (0..n).map(|i| y[i] + bias[FROM + i % columns]).collect();
    close("add_bias", &cuda.read(&to).unwrap(), &want, tolerance::<E>());
    let mut into = sums(cuda, &[1.0; FROM + 5]);
    cuda.sum_rows(rows, columns, &of_x, at(&mut into)).unwrap();
    let column = |c: usize| 1.0 + (0..rows).map(|r| x[r * columns + c]).sum::<f64>();
    let want: Vec<f64> = [1.0, 1.0].into_iter().chain((0..columns).map(column)).collect();
    close("sum_rows", &cuda.read_accumulator(&into).unwrap(), &want, 1e-5);
    let mut to = cuda.tensor(n).unwrap();
    cuda.gelu(n, &of_x, &mut to).unwrap();
    let want: Vec<f64> = x.iter().map(|x| cases::gelu(*x)).collect();
    close("gelu", &cuda.read(&to).unwrap(), &want, tolerance::<E>());
    let mut dy = filled(cuda, &y);
    cuda.gelu_backward(n, &of_x, &mut dy).unwrap();
    let slope = |x: f64| (cases::gelu(x + 1e-5) - cases::gelu(x - 1e-5)) / 2e-5;
    let want: Vec<f64> = x.iter().zip(&y).map(|(x, dy)| dy * slope(*x)).collect();
    close("gelu_backward", &cuda.read(&dy).unwrap(), &want, tolerance::<E>());
}

fn layer_norms<E: Element>(cuda: &mut Cuda<E>) {
    let (rows, columns, n) = (3, 6, 18);
    let (x, dy) = (numbers::<E>(1, n), numbers::<E>(2, n));
    // Gain, then bias, after FROM elements, as in a stage's weights.
    let weights = numbers::<E>(3, FROM + 2 * columns);
    let (gain, bias) = weights[FROM..].split_at(columns);
    let (of_x, of_weights) = (filled(cuda, &x), filled(cuda, &weights));
    let mut y = cuda.tensor(n).unwrap();
    let mut stats = cuda.accumulator(2 * rows).unwrap();
    let of_bias = At { buffer: &of_weights, from: FROM + columns };
    let of_gain = || at(&of_weights);
    cuda.layer_norm(rows, columns, &of_x, of_gain(), of_bias, &mut y, &mut stats).unwrap();
    let hat: Vec<f64> = x
        .chunks(columns)
        .flat_map(|row| {
            let (mean, rstd) = cases::stats(row);
            row.iter().map(move |x| (x - mean) * rstd)
        })
        .collect();
    let want: Vec<f64> = (0..n).map(|i| hat[i] * gain[i % columns] + bias[i % columns]).collect();
    close("layer_norm", &cuda.read(&y).unwrap(), &want, tolerance::<E>());
    let of_dy = filled(cuda, &dy);
    let mut dx = cuda.tensor(n).unwrap();
    let mut gradients = sums(cuda, &[1.0; 14]);
    let (dgain, dbias) = (1, 8);
    cuda.layer_norm_backward(
        rows,
        columns,
        &of_x,
        &stats,
        of_gain(),
        &of_dy,
        &mut dx,
        &mut gradients,
        dgain,
        dbias,
    )
    .unwrap();
    let mut want = vec![1.0; 14];
    for i in 0..n {
        want[dgain + i % columns] += dy[i] * hat[i];
        want[dbias + i % columns] += dy[i];
    }
    close("gradients", &cuda.read_accumulator(&gradients).unwrap(), &want, 1e-4);
    let mut want = Vec::new();
    for (r, row) in x.chunks(columns).enumerate() {
        let rstd = cases::stats(row).1;
        let g: Vec<f64> = (0..columns).map(|c| dy[r * columns + c] * gain[c]).collect();
        let hat = &hat[r * columns..];
        let sum = g.iter().sum::<f64>() / columns as f64;
        let dot = g.iter().zip(hat).map(|(g, hat)| g * hat).sum::<f64>() / columns as f64;
        want.extend((0..columns).map(|c| rstd * (g[c] - sum - hat[c] * dot)));
    }
    close("dx", &cuda.read(&dx).unwrap(), &want, tolerance::<E>());
}

fn attention<E: Element>(cuda: &mut Cuda<E>) {
    let sizes = Heads { batch: 2, sequence: 3, heads: 2, width: 4 };
    let n = 48;
    let x = numbers::<E>(1, 3 * n);
    let qkv = filled(cuda, &x);
    let [mut q, mut k, mut v] = [0; 3].map(|_| cuda.tensor(n).unwrap());
    cuda.split_heads(sizes, &qkv, [&mut q, &mut k, &mut v]).unwrap();
    for (part, tensor) in [&q, &k, &v].into_iter().enumerate() {
        let want: Vec<f64> = (0..n).map(|i| x[cases::source(sizes, 3, part, i)]).collect();
        close("split_heads", &cuda.read(tensor).unwrap(), &want, 0.0);
    }
    let mut joined = cuda.tensor(3 * n).unwrap();
    cuda.join_heads(sizes, [&q, &k, &v], &mut joined).unwrap();
    close("join_heads", &cuda.read(&joined).unwrap(), &x, 0.0);
    let (mut merged, mut back) = (cuda.tensor(n).unwrap(), cuda.tensor(n).unwrap());
    cuda.merge_heads(sizes, &q, &mut merged).unwrap();
    let (heads, tokens) = (cuda.read(&q).unwrap(), cuda.read(&merged).unwrap());
    let want: Vec<f64> = (0..n).map(|i| tokens[cases::source(sizes, 1, 0, i)]).collect();
    close("merge_heads", &want, &heads, 0.0);
    cuda.unmerge_heads(sizes, &merged, &mut back).unwrap();
    close("unmerge_heads", &cuda.read(&back).unwrap(), &heads, 0.0);
    let (count, n) = (2, 4);
    let x = numbers::<E>(2, count * n * n);
    let mut p = filled(cuda, &x);
    cuda.causal_softmax(count, n, &mut p).unwrap();
    let p_values = cuda.read(&p).unwrap();
    close("causal_softmax", &p_values, &cases::causal(&x, n), tolerance::<E>());
    let dp = numbers::<E>(3, count * n * n);
    let mut of_dp = filled(cuda, &dp);
    cuda.softmax_backward(count, n, 0.5, &p, &mut of_dp).unwrap();
    let mut want = Vec::new();
    for (p, dp) in p_values.chunks(n).zip(dp.chunks(n)) {
        let dot: f64 = p.iter().zip(dp).map(|(p, dp)| p * dp).sum();
        want.extend(p.iter().zip(dp).map(|(p, dp)| 0.5 * p * (dp - dot)));
    }
    close("softmax_backward", &cuda.read(&of_dp).unwrap(), &want, tolerance::<E>());
}

fn embedding_and_loss<E: Element>(cuda: &mut Cuda<E>) {
    let (sequence, columns, vocabulary) = (2, 3, 5);
    let numbers_of = [4u32, 0, 4, 2];
    let tokens = cuda.tokens(&numbers_of).unwrap();
    let table = numbers::<E>(1, FROM + vocabulary * columns);
    let places = numbers::<E>(2, FROM + sequence * columns);
    let (of_table, of_places) = (filled(cuda, &table), filled(cuda, &places));
    let mut y = cuda.tensor(12).unwrap();
    cuda.embed(sequence, columns, &tokens, at(&of_table), at(&of_places), &mut y).unwrap();
    let word = |i: usize| numbers_of[i / columns] as usize * columns + i % columns;
    let place = |i: usize| i / columns % sequence * columns + i % columns;
    let want: Vec<f64> = (0..12).map(|i| table[FROM + word(i)] + places[FROM + place(i)]).collect();
    close("embed", &cuda.read(&y).unwrap(), &want, tolerance::<E>());
    let dy = numbers::<E>(3, 12);
    let of_dy = filled(cuda, &dy);
    let mut gradients = sums(cuda, &[1.0; 30]);
    let (to_table, to_places) = (1, 20);
    cuda.embed_backward(sequence, columns, &tokens, &of_dy, &mut gradients, to_table, to_places)
        .unwrap();
    let mut want = vec![1.0; 30];
    for (i, dy) in dy.iter().enumerate() {
        want[to_table + word(i)] += dy;
        want[to_places + place(i)] += dy;
    }
    close("embed_backward", &cuda.read_accumulator(&gradients).unwrap(), &want, 1e-5);
    let logits = numbers::<E>(4, 4 * vocabulary);
    let mut of_logits = filled(cuda, &logits);
    let mut loss = sums(cuda, &[1.0]);
    cuda.cross_entropy(4, vocabulary, 0.5, &of_logits, &tokens, &mut loss).unwrap();
    cuda.cross_entropy_backward(4, vocabulary, 0.5, &mut of_logits, &tokens).unwrap();
    let (mut total, mut want) = (1.0, Vec::new());
    for (row, target) in logits.chunks(vocabulary).zip(numbers_of) {
        let mut p = cases::softmax(row);
        total -= 0.5 * p[target as usize].ln();
        p[target as usize] -= 1.0;
        want.extend(p.iter().map(|p| 0.5 * p));
    }
    close("cross_entropy", &cuda.read_accumulator(&loss).unwrap(), &[total], 1e-5);
    close("gradient", &cuda.read(&of_logits).unwrap(), &want, tolerance::<E>());
}

fn optimizer<E: Element>(cuda: &mut Cuda<E>) {
    let n = 20;
    let [w, m, g] = [1, 2, 4].map(|seed| numbers::<f32>(seed, n));
    let v: Vec<f64> = numbers::<f32>(3, n).iter().map(|v| v.abs()).collect();
    let gradients = sums(cuda, &g);
    let (squares, is_bad) = cuda.norm(&gradients).unwrap();
    close("norm", &[squares], &[g.iter().map(|g| g * g).sum()], 1e-9);
    assert!(!is_bad);
    let broken = sums(cuda, &[1.0, f64::NAN]);
    assert!(cuda.norm(&broken).unwrap().1);
    let mut state = Moments {
        weights: filled(cuda, &w),
        master: sums(cuda, &w),
        first: sums(cuda, &m),
        second: sums(cuda, &v),
    };
    let rule = AdamW::default();
    cuda.adamw(rule, 3, 0.5, &gradients, &mut state).unwrap();
    let copy = cuda.copy_state(&state).unwrap();
    let first: Vec<f64> = m.iter().zip(&g).map(|(m, g)| 0.9 * m + 0.05 * g).collect();
    close("first", &cuda.read_accumulator(&copy.first).unwrap(), &first, 1e-5);
    let second: Vec<f64> = v.iter().zip(&g).map(|(v, g)| 0.95 * v + 0.0125 * g * g).collect();
    close("second", &cuda.read_accumulator(&copy.second).unwrap(), &second, 1e-5);
    let stepped = cuda.read_accumulator(&copy.master).unwrap();
    close("weights", &cuda.read(&copy.weights).unwrap(), &stepped, tolerance::<E>());
    assert!(stepped.iter().zip(&w).all(|(new, old)| new != old));
    cuda.adamw_undo(rule, 3, 0.5, &gradients, &mut state).unwrap();
    close("undone", &cuda.read_accumulator(&state.master).unwrap(), &w, 2e-6);
    close("undone", &cuda.read_accumulator(&state.second).unwrap(), &v, 2e-6);
    let mut gradients = gradients;
    cuda.clear(&mut gradients).unwrap();
    assert_eq!(cuda.read_accumulator(&gradients).unwrap(), vec![0.0; n]);
}

#[test]
fn operations_element_by_element() {
    on_both(element_by_element, element_by_element);
}

#[test]
fn operations_of_a_layer_norm() {
    on_both(layer_norms, layer_norms);
}

#[test]
fn operations_of_attention() {
    on_both(attention, attention);
}

#[test]
fn operations_at_both_ends_of_the_model() {
    on_both(embedding_and_loss, embedding_and_loss);
}

#[test]
fn operations_of_the_optimizer() {
    on_both(optimizer, optimizer);
}
