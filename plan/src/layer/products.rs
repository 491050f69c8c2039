//! Products of activations with weights.

use super::Task;
use super::part::{Group, Kernels, Part};
use crate::machine::Machine;
use crate::model::{Experts, Ffn, LayerKind, Mixer, number};
use crate::precision::Precision;

/// Rows of an expert's product that are padding, on the mean.
const PADDING: f64 = 64.0;
/// Bytes that a low-precision product moves besides for one number of its input or its result: it is
/// read in 16 bits and written in fewer, forward and transposed.
const QUANTIZED: f64 = 4.0;
/// Bytes that each pass moves for one weight of an expert: its gradient is added up in 32 bits in every
/// microbatch, and few rows meet it.
const EXPERT_WEIGHT: f64 = 4.0;

/// A product of M x K activations and K x N weights, of which `count` run together.
#[derive(Clone, Copy)]
struct Product {
    rows: f64,
    columns: f64,
    inner: f64,
    count: f64,
}

impl Product {
    const fn new(rows: f64, columns: f64, inner: f64) -> Self {
        Self { rows, columns, inner, count: 1.0 }
    }

    /// F, B and W on `machine`, whose large products run at `rate` FLOP/s: each backward has the sizes
    /// of the forward in another order.
    fn passes(self, machine: &Machine, rate: f64) -> [f64; 3] {
        let Self { rows: m, columns: n, inner: k, count } = self;
        [[m, n, k], [m, k, n], [n, k, m]].map(|sizes| machine.product(sizes, count, rate))
    }

    /// Seconds to make its input and its result low-precision numbers, in F, B and W.
    fn quantizing(self, machine: &Machine) -> [f64; 3] {
        let numbers = self.count * self.rows * (self.inner + self.columns);
        [machine.stream(numbers * QUANTIZED) / 3.0; 3]
    }
}

/// Adds the products of a layer of `kind` to `kernels`.
pub(super) fn add(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    let mut dense = |group: Group, product: Product| {
        let (machine, precision) = (task.machine, task.precision);
        let rate = machine.rate(precision);
        kernels.add(Part::Products, group, slowed(task, product.passes(machine, rate)));
        if precision.is_low() {
            kernels.add(Part::Elementwise, group, slowed(task, product.quantizing(machine)));
        }
    };
    for (group, product) in mixer(task, kind.mixer) {
        dense(group, product);
    }
    match (kind.ffn, task.model.experts) {
        (Ffn::Dense, experts) => {
            let width = task.model.dense_ffn.filter(|_| experts.is_some());
            for product in mlp(task, width.unwrap_or(task.model.ffn)) {
                dense(Group::Mlp, product);
            }
        }
        (Ffn::Experts, Some(experts)) => {
            if experts.shared > 0 {
                for product in mlp(task, experts.shared) {
                    dense(Group::Shared, product);
                }
            }
            routed(task, experts, kernels);
        }
        _ => {}
    }
}

/// F, B and W of kernels as the software of `task` runs them.
pub(super) fn slowed(task: &Task<'_>, passes: [f64; 3]) -> [f64; 3] {
    let slowdown = task.software.compute;
    passes.map(|seconds| seconds * slowdown)
}

/// The products of what mixes tokens.
fn mixer(task: &Task<'_>, mixer: Mixer) -> Vec<(Group, Product)> {
    let (model, tokens, t) = (task.model, task.tokens(), number(task.cut.tensor));
    let hidden = number(model.hidden);
    let into = |width: u64| {
        (Group::Projections, Product::new(tokens, number(width) / t, hidden))
    };
    let out = |width: u64| (Group::Projections, Product::new(tokens, hidden, number(width) / t));
    match mixer {
        Mixer::Full | Mixer::Window if model.latent.is_some() => latent(task),
        Mixer::Full | Mixer::Window => {
            vec![into(model.query_size() + 2 * model.key_size()), out(model.output_size())]
        }
        Mixer::Mamba => {
            let Some(mamba) = model.mamba else { return Vec::new() };
            vec![into(mamba.projected()), out(mamba.inner())]
        }
        Mixer::Linear => {
            let Some(linear) = model.linear else { return Vec::new() };
            vec![into(linear.projected()), out(linear.values())]
        }
        Mixer::None => Vec::new(),
    }
}

/// The products of multi-head latent attention: down to the latents, of which every device of a tensor
/// group does its share of the tokens, and up from them.
fn latent(task: &Task<'_>) -> Vec<(Group, Product)> {
    let model = task.model;
    let Some(latent) = model.latent else { return Vec::new() };
    let (tokens, t) = (task.tokens(), number(task.cut.tensor));
    let (hidden, heads) = (number(model.hidden), number(model.heads) / t);
    let value = number(model.value_size());
    let nope = number(model.head_size.saturating_sub(latent.rotary));
    let (keys, rotary) = (number(latent.keys), number(latent.rotary));
    let queries = heads * number(model.head_size);
    let mut all = match latent.query {
        Some(rank) => vec![
            (Group::Projections, Product::new(tokens / t, number(rank), hidden)),
            (Group::LatentUp, Product::new(tokens, queries, number(rank))),
        ],
        None => vec![(Group::LatentUp, Product::new(tokens, queries, hidden))],
    };
    all.push((Group::Projections, Product::new(tokens / t, keys + rotary, hidden)));
    all.push((Group::LatentUp, Product::new(tokens, heads * (nope + value), keys)));
    all.push((Group::Projections, Product::new(tokens, hidden, heads * value)));
    all
}

/// Both products of an MLP of `width`, gate and up in one.
fn mlp(task: &Task<'_>, width: u64) -> [Product; 2] {
    let (tokens, hidden) = (task.tokens(), number(task.model.hidden));
    let own = number(width) / number(task.cut.tensor);
    let up = own * if task.model.gated { 2.0 } else { 1.0 };
    [Product::new(tokens, up, hidden), Product::new(tokens, hidden, own)]
}

/// Rows that the routed experts of a device get in a microbatch: as many as it brought, for the tokens
/// of a tensor group are shared by its devices, and meet again where they share an expert.
pub(super) fn rows(task: &Task<'_>, experts: Experts) -> f64 {
    let groups = number(task.cut.tensor) / number(task.cut.expert_tensor);
    task.tokens() * number(experts.top_k) / groups
}

/// Adds the products of the routed experts and of the router.
fn routed(task: &Task<'_>, experts: Experts, kernels: &mut Kernels) {
    let (model, machine, cut) = (task.model, task.machine, task.cut);
    let (hidden, tensor) = (number(model.hidden), number(cut.expert_tensor));
    let local = (number(experts.count) / number(cut.expert)).max(1.0);
    let rows = rows(task, experts) / local + PADDING;
    let own = number(model.ffn) / tensor;
    let up = own * if model.gated { 2.0 } else { 1.0 };
    let products =
        [Product { count: local, ..Product::new(rows, up, hidden) }, Product { count: local, ..Product::new(rows, hidden, own) }];
    let rate = machine.rate(task.precision) * machine.efficiency.grouped;
    let weights = machine.stream(local * (up + own) * hidden * EXPERT_WEIGHT);
    let imbalance = task.imbalance * task.fused();
    for product in products {
        let passes = product.passes(machine, rate).map(|seconds| seconds * imbalance);
        kernels.add(Part::Experts, Group::Routed, slowed(task, passes));
        if task.precision.is_low() {
            let own = product.quantizing(machine).map(|seconds| seconds * task.fused());
            kernels.add(Part::Elementwise, Group::Routed, slowed(task, own));
        }
    }
    kernels.add(Part::Experts, Group::Routed, slowed(task, [weights * imbalance; 3]));
    let router = Product::new(task.tokens() / number(cut.tensor), number(experts.count), hidden);
    let rate = machine.rate(Precision::Bf16) * machine.efficiency.head;
    kernels.add(Part::Products, Group::Routed, slowed(task, router.passes(machine, rate)));
}
