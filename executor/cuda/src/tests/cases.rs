//! The launches of each operation, at awkward sizes, against its definition.

use super::super::kernels::{Kernels, NormBackward, State, TokenList};
use super::super::tokens::lay_out;
use super::{Data, Element, Machine, close, numbers, tolerance};
use gpt::{AdamW, Heads};

/// Expands to all cases for a test harness.
macro_rules! all {
    ($run:ident) => {
        $run! {
            biases_are_added_to_every_row, tensors_are_added, gelu_and_its_gradient,
            heads_are_split_and_joined, heads_are_merged_and_unmerged, rows_are_normalised,
            gradients_of_a_layer_norm, softmax_up_to_the_diagonal, gradients_of_a_softmax,
            rows_are_summed, tokens_are_embedded, gradients_of_an_embedding, losses_are_summed,
            gradients_of_a_loss, norms_see_what_is_bad, adamw_steps_and_goes_back,
            zero_sizes_launch_nothing,
        }
    };
}
pub(super) use all;

use Data::{Accumulator, Doubles, Elements, Words};

/// Rows and columns: one element, half a chunk, whole chunks, more chunks than threads.
const SHAPES: [(usize, usize); 5] = [(1, 1), (5, 7), (3, 64), (70, 9), (2, 4203)];

fn kernels<E: Element>() -> Kernels {
    Kernels::new(E::BYTES)
}

/// Elements before the position of an [`gpt::At`], so that it is not aligned.
const SKIP: usize = 3;

fn skipped<E: Element>(address: u64) -> u64 {
    address + (SKIP * E::BYTES) as u64
}

pub(super) fn biases_are_added_to_every_row<E: Element>(machine: &impl Machine) {
    for (rows, columns) in SHAPES {
        let (x, bias) = (numbers::<E>(1, rows * columns), numbers::<E>(2, SKIP + columns));
        let want: Vec<f64> =
            x.iter().enumerate().map(|(i, x)| x + bias[SKIP + i % columns]).collect();
        let got = machine.run::<E>(&[Elements(x), Elements(bias)], &|at| {
            kernels::<E>().add_bias(rows, columns, skipped::<E>(at[1]), at[0]).unwrap()
        });
        close("x", &got[0], &want, tolerance::<E>());
    }
}

pub(super) fn tensors_are_added<E: Element>(machine: &impl Machine) {
    for n in [1, 8, 2051] {
        let (x, to) = (numbers::<E>(1, n), numbers::<E>(2, n + 1));
        let mut want: Vec<f64> = x.iter().zip(&to).map(|(x, to)| x + to).collect();
        want.push(to[n]);
        let got = machine.run::<E>(&[Elements(x), Elements(to)], &|at| {
            kernels::<E>().add(n, at[0], at[1]).unwrap()
        });
        close("to", &got[1], &want, tolerance::<E>());
    }
}

pub(super) fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

pub(super) fn gelu_and_its_gradient<E: Element>(machine: &impl Machine) {
    for n in [3, 1029] {
        let x: Vec<f64> = numbers::<E>(1, n).iter().map(|x| E::nearest(4.0 * x).value()).collect();
        let dy = numbers::<E>(2, n);
        let y: Vec<f64> = x.iter().map(|x| gelu(*x)).collect();
        let slope = |x: f64| (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
        let dx: Vec<f64> = x.iter().zip(&dy).map(|(x, dy)| dy * slope(*x)).collect();
        let buffers = [Elements(x), Elements(vec![0.0; n]), Elements(dy)];
        let got = machine.run::<E>(&buffers, &|at| {
            let forward = kernels::<E>().gelu(n, at[0], at[1]).unwrap();
            [forward, kernels::<E>().gelu_backward(n, at[0], at[2]).unwrap()].concat()
        });
        close("y", &got[1], &y, tolerance::<E>());
        close("dx", &got[2], &dx, tolerance::<E>());
    }
}

const HEADS: [Heads; 3] = [
    Heads { batch: 1, sequence: 1, heads: 1, width: 1 },
    Heads { batch: 2, sequence: 5, heads: 3, width: 7 },
    Heads { batch: 3, sequence: 4, heads: 2, width: 16 },
];

/// Index in `[batch, sequence, between, heads, width]`, at `part` of `between`, of an element of
/// `[batch, heads, sequence, width]`.
pub(super) fn source(sizes: Heads, between: usize, part: usize, i: usize) -> usize {
    let Heads { sequence, heads, width, .. } = sizes;
    let (w, token) = (i % width, i / width % sequence);
    let (head, batch) = (i / width / sequence % heads, i / width / sequence / heads);
    (((batch * sequence + token) * between + part) * heads + head) * width + w
}

pub(super) fn heads_are_split_and_joined<E: Element>(machine: &impl Machine) {
    for sizes in HEADS {
        let n = sizes.batch * sizes.sequence * sizes.heads * sizes.width;
        let qkv = numbers::<E>(1, 3 * n);
        let nothing = Elements(vec![0.0; n]);
        let buffers = [
            Elements(qkv.clone()),
            nothing.clone(),
            nothing.clone(),
            nothing,
            Elements(vec![0.0; 3 * n]),
        ];
        let got = machine.run::<E>(&buffers, &|at| {
            let parts = [at[1], at[2], at[3]];
            let split = kernels::<E>().split_heads(sizes, at[0], parts).unwrap();
            [split, kernels::<E>().join_heads(sizes, parts, at[4]).unwrap()].concat()
        });
        for part in 0..3 {
            let want: Vec<f64> = (0..n).map(|i| qkv[source(sizes, 3, part, i)]).collect();
            close("part", &got[1 + part], &want, 0.0);
        }
        close("joined", &got[4], &qkv, 0.0);
    }
}

pub(super) fn heads_are_merged_and_unmerged<E: Element>(machine: &impl Machine) {
    for sizes in HEADS {
        let n = sizes.batch * sizes.sequence * sizes.heads * sizes.width;
        let x = numbers::<E>(1, n);
        let buffers = [Elements(x.clone()), Elements(vec![0.0; n]), Elements(vec![0.0; n])];
        let got = machine.run::<E>(&buffers, &|at| {
            let merged = kernels::<E>().merge_heads(sizes, at[0], at[1]).unwrap();
            [merged, kernels::<E>().unmerge_heads(sizes, at[1], at[2]).unwrap()].concat()
        });
        let back: Vec<f64> = (0..n).map(|i| got[1][source(sizes, 1, 0, i)]).collect();
        close("merged", &back, &x, 0.0);
        close("unmerged", &got[2], &x, 0.0);
    }
}

/// Mean and 1 / sqrt(variance + 1e-5).
pub(super) fn stats(row: &[f64]) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + 1e-5).sqrt())
}

pub(super) fn rows_are_normalised<E: Element>(machine: &impl Machine) {
    for (rows, columns) in SHAPES {
        // Far from 0, where the variance cancels unless the mean is subtracted first.
        let x: Vec<f64> =
            numbers::<E>(1, rows * columns).iter().map(|x| E::nearest(x + 30.0).value()).collect();
        let (gain, bias) = (numbers::<E>(2, SKIP + columns), numbers::<E>(3, columns));
        let (mut y, mut both) = (Vec::new(), Vec::new());
        for row in x.chunks(columns) {
            let (mean, rstd) = stats(row);
            y.extend((0..columns).map(|c| (row[c] - mean) * rstd * gain[SKIP + c] + bias[c]));
            both.extend([mean, rstd]);
        }
        let buffers = [
            Elements(x),
            Elements(gain),
            Elements(bias),
            Elements(vec![0.0; rows * columns]),
            Accumulator(vec![0.0; 2 * rows]),
        ];
        let got = machine.run::<E>(&buffers, &|at| {
            let of = [at[0], skipped::<E>(at[1]), at[2], at[3], at[4]];
            kernels::<E>().layer_norm(rows, columns, of).unwrap()
        });
        close("y", &got[3], &y, tolerance::<E>().max(1e-4));
        close("stats", &got[4], &both, 1e-4);
    }
}

pub(super) fn gradients_of_a_layer_norm<E: Element>(machine: &impl Machine) {
    for (rows, columns) in [(1, 1), (5, 7), (3, 64), (130, 41), (2, 4203)] {
        let n = rows * columns;
        let (x, dy) = (numbers::<E>(1, n), numbers::<E>(2, n));
        let gain = numbers::<E>(3, SKIP + columns);
        let before = numbers::<f32>(4, 2 * columns + 1);
        let (mut dx, mut want) = (Vec::new(), before.clone());
        let mut both = Vec::new();
        for (row, dy) in x.chunks(columns).zip(dy.chunks(columns)) {
            let (mean, rstd) = stats(row);
            both.extend([mean, rstd]);
            let hat: Vec<f64> = row.iter().map(|x| (x - mean) * rstd).collect();
            let g: Vec<f64> = dy.iter().zip(&gain[SKIP..]).map(|(dy, gain)| dy * gain).collect();
            let sum = g.iter().sum::<f64>() / columns as f64;
            let dot = g.iter().zip(&hat).map(|(g, hat)| g * hat).sum::<f64>() / columns as f64;
            dx.extend((0..columns).map(|c| rstd * (g[c] - sum - hat[c] * dot)));
            for c in 0..columns {
                want[c] += dy[c] * hat[c];
                want[columns + 1 + c] += dy[c];
            }
        }
        let buffers = [
            Elements(x),
            Accumulator(both),
            Elements(gain),
            Elements(dy),
            Elements(vec![0.0; n]),
            Accumulator(vec![f64::NAN; 2 * Kernels::parts(rows, columns)]),
            Accumulator(before),
        ];
        let got = machine.run::<E>(&buffers, &|at| {
            let all = NormBackward {
                x: at[0],
                stats: at[1],
                gain: skipped::<E>(at[2]),
                dy: at[3],
                dx: at[4],
                parts: at[5],
                dgain: at[6],
                dbias: at[6] + 4 * (columns as u64 + 1),
            };
            kernels::<E>().layer_norm_backward(rows, columns, all).unwrap()
        });
        // With one column x is its mean, and rstd is 316.
        close("dx", &got[4], &dx, if columns == 1 { 2e-3 } else { tolerance::<E>() });
        close("gradients", &got[6], &want, 1e-4);
    }
}

pub(super) fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / sum).collect()
}

/// Softmax of each row of matrices `[n, n]` up to the diagonal.
pub(super) fn causal(x: &[f64], n: usize) -> Vec<f64> {
    let rows = x.chunks(n).enumerate();
    rows.flat_map(|(r, row)| {
        let mut p = softmax(&row[..=r % n]);
        p.resize(n, 0.0);
        p
    })
    .collect()
}

const SQUARES: [(usize, usize); 4] = [(1, 1), (2, 5), (3, 24), (1, 67)];

pub(super) fn softmax_up_to_the_diagonal<E: Element>(machine: &impl Machine) {
    for (count, n) in SQUARES {
        // Values whose exponentials overflow.
        let x: Vec<f64> =
            numbers::<E>(1, count * n * n).iter().map(|x| E::nearest(100.0 * x).value()).collect();
        let want = causal(&x, n);
        let got = machine.run::<E>(&[Elements(x)], &|at| {
            kernels::<E>().causal_softmax(count, n, at[0]).unwrap()
        });
        close("p", &got[0], &want, tolerance::<E>());
    }
}

pub(super) fn gradients_of_a_softmax<E: Element>(machine: &impl Machine) {
    for (count, n) in SQUARES {
        let p: Vec<f64> = causal(&numbers::<E>(1, count * n * n), n)
            .iter()
            .map(|p| E::nearest(*p).value())
            .collect();
        let dp = numbers::<E>(2, p.len());
        let mut want = Vec::new();
        for (r, (p, dp)) in p.chunks(n).zip(dp.chunks(n)).enumerate() {
            let dot: f64 = p[..=r % n].iter().zip(dp).map(|(p, dp)| p * dp).sum();
            want.extend(p.iter().zip(dp).map(|(p, dp)| 0.125 * p * (dp - dot)));
        }
        let got = machine.run::<E>(&[Elements(p), Elements(dp)], &|at| {
            kernels::<E>().softmax_backward(count, n, 0.125, at[0], at[1]).unwrap()
        });
        close("dx", &got[1], &want, tolerance::<E>());
    }
}

pub(super) fn rows_are_summed<E: Element>(machine: &impl Machine) {
    for (rows, columns) in [(1, 1), (64, 33), (65, 7), (300, 40)] {
        let x = numbers::<E>(1, rows * columns);
        let before = numbers::<f32>(2, columns + 2);
        let mut want = before.clone();
        x.iter().enumerate().for_each(|(i, x)| want[1 + i % columns] += x);
        let buffers = [
            Elements(x),
            Accumulator(vec![f64::NAN; Kernels::parts(rows, columns)]),
            Accumulator(before),
        ];
        let got = machine.run::<E>(&buffers, &|at| {
            Kernels::sum_rows(rows, columns, at[0], at[1], at[2] + 4).unwrap()
        });
        close("sums", &got[2], &want, 1e-5);
    }
}

pub(super) fn tokens_are_embedded<E: Element>(machine: &impl Machine) {
    for columns in [1, 7, 40] {
        let (sequence, tokens) = (3, vec![4, 0, 1, 1, 4, 2]);
        let (table, places) = (numbers::<E>(1, SKIP + 5 * columns), numbers::<E>(2, 3 * columns));
        let want: Vec<f64> = (0..6 * columns)
            .map(|i| {
                let (row, c) = (i / columns, i % columns);
                table[SKIP + tokens[row] as usize * columns + c]
                    + places[row % sequence * columns + c]
            })
            .collect();
        let nothing = Elements(vec![0.0; 6 * columns]);
        let buffers = [Words(tokens), Elements(table), Elements(places), nothing];
        let got = machine.run::<E>(&buffers, &|at| {
            let of = [at[0], skipped::<E>(at[1]), at[2], at[3]];
            kernels::<E>().embed(6, sequence, columns, of).unwrap()
        });
        close("y", &got[3], &want, tolerance::<E>());
    }
}

pub(super) fn gradients_of_an_embedding<E: Element>(machine: &impl Machine) {
    for columns in [1, 7, 600] {
        let (sequence, tokens) = (3, [4, 0, 1, 1, 4, 1]);
        let list = lay_out(&tokens).unwrap();
        let dy = numbers::<E>(1, 6 * columns);
        let before = numbers::<f32>(2, 1 + 8 * columns);
        let mut want = before.clone();
        for (i, dy) in dy.iter().enumerate() {
            let (row, c) = (i / columns, i % columns);
            want[1 + tokens[row] as usize * columns + c] += dy;
            want[1 + (5 + row % sequence) * columns + c] += dy;
        }
        let buffers = [Words(list.words.clone()), Elements(dy), Accumulator(before)];
        let got = machine.run::<E>(&buffers, &|at| {
            let order = at[0] + 4 * list.len as u64;
            let starts = order + 4 * list.len as u64;
            let of = TokenList { tokens: at[0], order, starts, runs: list.runs };
            let table = at[2] + 4;
            let to = [at[1], table, table + 4 * 5 * columns as u64];
            kernels::<E>().embed_backward(6, sequence, columns, of, to).unwrap()
        });
        close("gradients", &got[2], &want, 1e-5);
    }
}

const LOGITS: [(usize, usize); 4] = [(1, 1), (3, 7), (40, 40), (2, 5003)];

fn logits_and_targets<E: Element>(rows: usize, columns: usize) -> (Vec<f64>, Vec<u32>) {
    let logits =
        numbers::<E>(1, rows * columns).iter().map(|x| E::nearest(60.0 * x).value()).collect();
    let target = |row| u32::try_from(row * 13 % columns).unwrap();
    (logits, (0..rows).map(target).collect())
}

pub(super) fn losses_are_summed<E: Element>(machine: &impl Machine) {
    for (rows, columns) in LOGITS {
        let (logits, targets) = logits_and_targets::<E>(rows, columns);
        let mut sum = 0.0;
        for (row, target) in logits.chunks(columns).zip(&targets) {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exponents: f64 = row.iter().map(|x| (x - most).exp()).sum();
            sum += most + exponents.ln() - row[*target as usize];
        }
        let scratch = Accumulator(vec![f64::NAN; rows]);
        let buffers = [Elements(logits), Words(targets), scratch, Accumulator(vec![1.5, 9.0])];
        let got = machine.run::<E>(&buffers, &|at| {
            let of = [at[0], at[1], at[2], at[3]];
            kernels::<E>().cross_entropy(rows, columns, 0.25, of).unwrap()
        });
        close("loss", &got[3], &[1.5 + 0.25 * sum, 9.0], 1e-5);
    }
}

pub(super) fn gradients_of_a_loss<E: Element>(machine: &impl Machine) {
    for (rows, columns) in LOGITS {
        let (logits, targets) = logits_and_targets::<E>(rows, columns);
        let mut want = Vec::new();
        for (row, target) in logits.chunks(columns).zip(&targets) {
            let mut p = softmax(row);
            p[*target as usize] -= 1.0;
            want.extend(p.iter().map(|p| 0.25 * p));
        }
        let got = machine.run::<E>(&[Elements(logits), Words(targets)], &|at| {
            kernels::<E>().cross_entropy_backward(rows, columns, 0.25, at[0], at[1]).unwrap()
        });
        close("gradient", &got[0], &want, tolerance::<E>());
    }
}

pub(super) fn norms_see_what_is_bad<E: Element>(machine: &impl Machine) {
    let run = |x: Vec<f64>| {
        let n = x.len();
        let scratch = Doubles(vec![f64::NAN; Kernels::norm_parts(n)]);
        let buffers = [Accumulator(x), scratch, Doubles(vec![0.0; 2])];
        machine.run::<E>(&buffers, &|at| Kernels::norm(n, at[0], at[1], at[2]).unwrap()).remove(2)
    };
    for n in [0, 1, 255, 70_000] {
        let x = numbers::<f32>(1, n);
        let squares: f64 = x.iter().map(|x| x * x).sum();
        close("norm", &run(x), &[squares, 0.0], 1e-12);
    }
    let bad = run(vec![1.0, f64::NAN, f64::INFINITY, 2.0, f64::NEG_INFINITY]);
    assert_eq!(bad[1], 3.0);
}

pub(super) fn adamw_steps_and_goes_back<E: Element>(machine: &impl Machine) {
    let rule = AdamW::default();
    let (n, step, scale) = (300, 7, 0.5);
    let positive = |values: Vec<f64>| values.iter().map(|v| v.abs()).collect::<Vec<f64>>();
    let (w, m) = (numbers::<f32>(1, n), numbers::<f32>(2, n));
    let (v, g) = (positive(numbers::<f32>(3, n)), numbers::<f32>(4, n));
    let (mut ws, mut ms, mut vs) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n {
        let g = g[i] * scale;
        let m = rule.beta1 * m[i] + (1.0 - rule.beta1) * g;
        let v = rule.beta2 * v[i] + (1.0 - rule.beta2) * g * g;
        let (m_hat, v_hat) = (m / (1.0 - rule.beta1.powi(7)), v / (1.0 - rule.beta2.powi(7)));
        let ratio = m_hat / (v_hat.sqrt() + rule.epsilon);
        ws.push(w[i] - rule.learning_rate * (ratio + rule.weight_decay * w[i]));
        ms.push(m);
        vs.push(v);
    }
    let nothing = Elements(vec![0.0; n]);
    let buffers = [
        nothing,
        Accumulator(w.clone()),
        Accumulator(m.clone()),
        Accumulator(v.clone()),
        Accumulator(g),
    ];
    let launches = |at: &[u64], undo| {
        let [weights, master, first, second, gradients] = [at[0], at[1], at[2], at[3], at[4]];
        let state = State { weights, master, first, second, gradients };
        Kernels::adamw(rule, step, scale, n, state, undo).unwrap()
    };
    let got = machine.run::<E>(&buffers, &|at| launches(at, false));
    let tight = 2e-6;
    close("weights", &got[0], &ws, tolerance::<E>());
    close("master", &got[1], &ws, tight);
    close("first", &got[2], &ms, tight);
    close("second", &got[3], &vs, tight);
    let both = |at: &[u64]| [launches(at, false), launches(at, true)].concat();
    let got = machine.run::<E>(&buffers, &both);
    close("weights", &got[0], &w, tolerance::<E>());
    close("master", &got[1], &w, tight);
    close("first", &got[2], &m, tight);
    close("second", &got[3], &v, tight);
}

pub(super) fn zero_sizes_launch_nothing<E: Element>(machine: &impl Machine) {
    let kernels = kernels::<E>();
    let none = Heads { batch: 0, sequence: 4, heads: 2, width: 8 };
    let got = machine.run::<E>(&[Elements(vec![1.0])], &|at| {
        let at = at[0];
        let state = State { weights: at, master: at, first: at, second: at, gradients: at };
        [
            kernels.add(0, at, at).unwrap(),
            kernels.add_bias(0, 5, at, at).unwrap(),
            kernels.layer_norm(0, 5, [at; 5]).unwrap(),
            kernels.causal_softmax(4, 0, at).unwrap(),
            kernels.split_heads(none, at, [at; 3]).unwrap(),
            kernels.cross_entropy(0, 5, 1.0, [at; 4]).unwrap(),
            Kernels::sum_rows(0, 5, at, at, at).unwrap(),
            Kernels::adamw(AdamW::default(), 1, 1.0, 0, state, false).unwrap(),
        ]
        .concat()
    });
    assert_eq!(got, [[1.0]]);
}
