//! Row-wise and element-wise kernels: biases, layer norm, GELU, AdamW.

use crate::cpu::real::{Real, sum, sum_over};
use crate::ops::{AdamW, Moments};

/// The constant added to the variance.
const EPSILON: f64 = 1e-5;

pub(super) fn add_bias<T: Real>(columns: usize, bias: &[T], x: &mut [T]) {
    for row in x.chunks_exact_mut(columns) {
        add(bias, row);
    }
}

pub(super) fn sum_rows<T: Real>(columns: usize, x: &[T], into: &mut [T]) {
    for row in x.chunks_exact(columns) {
        add(row, into);
    }
}

pub(super) fn add<T: Real>(x: &[T], to: &mut [T]) {
    for (to, &x) in to.iter_mut().zip(x) {
        *to += x;
    }
}

fn count<T: Real>(n: usize) -> T {
    T::of(n as f64)
}

pub(super) fn layer_norm<T: Real>(
    columns: usize,
    x: &[T],
    gain: &[T],
    bias: &[T],
    y: &mut [T],
    stats: &mut [T],
) {
    let rows = x.chunks_exact(columns).zip(y.chunks_exact_mut(columns));
    for ((x, y), stats) in rows.zip(stats.chunks_exact_mut(2)) {
        let mean = sum(x) / count(columns);
        let variance = sum_over(x, x, |x, _| (x - mean) * (x - mean)) / count(columns);
        let rstd = T::of(1.0 / (variance.wide() + EPSILON).sqrt());
        stats.copy_from_slice(&[mean, rstd]);
        for (((y, &x), &gain), &bias) in y.iter_mut().zip(x).zip(gain).zip(bias) {
            *y = (x - mean) * rstd * gain + bias;
        }
    }
}

/// The slices that the backward of a layer norm reads.
pub(super) struct NormBack<'a, T> {
    pub(super) x: &'a [T],
    pub(super) stats: &'a [T],
    pub(super) gain: &'a [T],
    pub(super) dy: &'a [T],
}

/// dx = rstd (g - mean(g) - n mean(g n)) with n = (x - mean) rstd and g = dy gain.
pub(super) fn layer_norm_backward<T: Real>(
    columns: usize,
    from: &NormBack<'_, T>,
    dx: &mut [T],
    dgain: &mut [T],
    dbias: &mut [T],
) {
    let rows = from.x.chunks_exact(columns).zip(from.dy.chunks_exact(columns));
    let rows = rows.zip(dx.chunks_exact_mut(columns)).zip(from.stats.chunks_exact(2));
    for (((x, dy), dx), stats) in rows {
        let (mean, rstd) = (stats[0], stats[1]);
        for ((dgain, &x), &dy) in dgain.iter_mut().zip(x).zip(dy) {
            *dgain += dy * ((x - mean) * rstd);
        }
        add(dy, dbias);
        for ((dx, &dy), &gain) in dx.iter_mut().zip(dy).zip(from.gain) {
            *dx = dy * gain;
        }
        let g_mean = sum(dx) / count(columns);
        let gn_mean = sum_over(dx, x, |g, x| g * ((x - mean) * rstd)) / count(columns);
        for (dx, &x) in dx.iter_mut().zip(x) {
            *dx = rstd * (*dx - g_mean - (x - mean) * rstd * gn_mean);
        }
    }
}

/// GELU(x) = x / 2 (1 + tanh(u)) = x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
const CUBIC: f64 = 0.044_715;

/// 2 sqrt(2 / pi).
fn twice_root<T: Real>() -> T {
    T::of(std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2)
}

pub(super) fn gelu<T: Real>(x: &[T], y: &mut [T]) {
    let (root, cubic, one) = (twice_root::<T>(), T::of(CUBIC), T::one());
    for (y, &x) in y.iter_mut().zip(x) {
        *y = x / (one + (-(root * (x + cubic * x * x * x))).exp());
    }
}

pub(super) fn gelu_backward<T: Real>(x: &[T], dy: &mut [T]) {
    let (root, cubic, one) = (twice_root::<T>(), T::of(CUBIC), T::one());
    let slope = T::of(3.0 * CUBIC);
    for (dy, &x) in dy.iter_mut().zip(x) {
        let share = one / (one + (-(root * (x + cubic * x * x * x))).exp());
        *dy *= share + x * share * (one - share) * root * (one + slope * x * x);
    }
}

pub(super) fn norm<T: Real>(sums: &[T]) -> (f64, bool) {
    const AT_ONCE: usize = 1 << 12;
    let mut wide = Vec::with_capacity(AT_ONCE);
    sums.chunks(AT_ONCE).fold((0.0, false), |(squares, is_bad), chunk| {
        wide.clear();
        wide.extend(chunk.iter().map(|x| x.wide()));
        let here = sum_over(&wide, &wide, |x, y| x * y);
        (squares + here, is_bad || wide.iter().any(|x| !x.is_finite()))
    })
}

/// The factors of an AdamW update at one step number.
struct Step {
    rule: AdamW,
    scale: f64,
    first_bias: f64,
    second_bias: f64,
}

impl Step {
    fn new(rule: AdamW, step: u32, scale: f64) -> Self {
        let bias = |beta: f64| 1.0 - libm::pow(beta, step.into());
        Self { rule, scale, first_bias: bias(rule.beta1), second_bias: bias(rule.beta2) }
    }

    /// rate m' / (sqrt(v') + eps).
    fn change(&self, first: f64, second: f64) -> f64 {
        let root = (second / self.second_bias).sqrt() + self.rule.epsilon;
        self.rule.learning_rate * (first / self.first_bias) / root
    }

    /// The factor of a weight under weight decay.
    fn left(&self) -> f64 {
        1.0 - self.rule.learning_rate * self.rule.weight_decay
    }
}

/// Every weight is computed in f64 and rounded once.
pub(super) fn adamw<T: Real>(
    rule: AdamW,
    step: u32,
    scale: f64,
    gradients: &[T],
    state: &mut Moments<Vec<T>, Vec<T>>,
) {
    let step = Step::new(rule, step, scale);
    for_each(gradients, state, |gradient, [weight, first, second]| {
        let gradient = gradient * step.scale;
        let first = rule.beta1 * first + (1.0 - rule.beta1) * gradient;
        let second = rule.beta2 * second + (1.0 - rule.beta2) * gradient * gradient;
        [weight * step.left() - step.change(first, second), first, second]
    });
}

pub(super) fn adamw_undo<T: Real>(
    rule: AdamW,
    step: u32,
    scale: f64,
    gradients: &[T],
    state: &mut Moments<Vec<T>, Vec<T>>,
) {
    let step = Step::new(rule, step, scale);
    for_each(gradients, state, |gradient, [weight, first, second]| {
        let gradient = gradient * step.scale;
        let weight = (weight + step.change(first, second)) / step.left();
        let first = (first - (1.0 - rule.beta1) * gradient) / rule.beta1;
        let second = (second - (1.0 - rule.beta2) * gradient * gradient) / rule.beta2;
        // Rounding must not make a second moment negative.
        [weight, first, second.max(0.0)]
    });
}

/// Applies `rule` to (gradient, [weight, m, v]) of every parameter.
fn for_each<T: Real>(
    gradients: &[T],
    state: &mut Moments<Vec<T>, Vec<T>>,
    rule: impl Fn(f64, [f64; 3]) -> [f64; 3],
) {
    let Moments { weights, master, first, second } = state;
    let kept = master.iter_mut().zip(first).zip(second);
    for ((((master, first), second), read), gradient) in kept.zip(weights).zip(gradients) {
        let before = [master.wide(), first.wide(), second.wide()];
        [*master, *first, *second] = rule(gradient.wide(), before).map(T::of);
        *read = *master;
    }
}
