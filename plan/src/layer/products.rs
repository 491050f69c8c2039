//! Products of activations with weights.

use super::Task;
use super::part::{Group, Kernels, Part};
use crate::machine::Machine;
use crate::model::{Experts, Ffn, LayerKind, Product, Role, Side, Trained, number};
use crate::precision::Precision;

/// Rows of an expert's product that are padding, on the mean, where a device has several experts.
const PADDING: f64 = 64.0;
/// Extra bytes that a low-precision product moves for one number of its input or its result: it is read
/// in 16 bits and written in fewer, forward and transposed.
const QUANTIZED: f64 = 4.0;
/// Bytes that each pass moves for one weight of several experts: its gradient is added up in 32 bits in every
/// microbatch, and few rows meet it.
const EXPERT_WEIGHT: f64 = 4.0;

/// A product of M x K activations and K x N weights, of which `count` run together.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: f64,
    pub(super) columns: f64,
    pub(super) inner: f64,
    pub(super) count: f64,
}

impl Sizes {
    /// F, B and W on `machine`, whose large products run at `rate` FLOP/s: each backward has the sizes
    /// of the forward in another order.
    pub(super) fn passes(self, machine: &Machine, rate: f64) -> [f64; 3] {
        let Self { rows: m, columns: n, inner: k, count } = self;
        [[m, n, k], [m, k, n], [n, k, m]].map(|sizes| machine.product(sizes, count, rate))
    }

    /// Seconds to make its input and its result low-precision numbers, in F, B and W. A transposed copy is for the
    /// gradient of the weights alone: where these are frozen, a quarter of the bytes is left out.
    fn quantizing(self, machine: &Machine, trained: Trained) -> [f64; 3] {
        let numbers = self.count * self.rows * (self.inner + self.columns);
        let all = machine.stream(numbers * QUANTIZED);
        match trained {
            Trained::Whole => [all / 3.0; 3],
            frozen => frozen.of_passes([all * 0.375; 3]),
        }
    }
}

/// `product` as a device of `task` does it: a tensor group shares one side, or the tokens.
pub(super) fn shared(task: &Task<'_>, product: Product) -> Sizes {
    let (tokens, t) = (task.tokens(), number(task.partition.tensor));
    // An indexer's products are not shared: each device does them for all tokens.
    let is_split = product.side == Side::Neither && product.role != Role::Indexer;
    let rows = if is_split { tokens / t } else { tokens };
    let [columns, inner] = product.divided(t);
    Sizes { rows, columns, inner, count: 1.0 }
}

/// Adds the products of a layer of `kind` to `kernels`.
pub(super) fn add(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    let products = task.model.products_of(kind);
    for &product in products {
        match (product.role, task.model.experts) {
            (Role::RoutedExpert, Some(experts)) => {
                routed(task, kind.trained, experts, product, kernels);
            }
            (Role::Router, _) => router(task, kind.trained, product, kernels),
            _ => plain(task, kind.trained, product, kernels),
        }
    }
    if let Some(experts) = task.model.experts.filter(|_| kind.ffn == Ffn::Experts) {
        let own = products.iter().filter(|product| product.role == Role::RoutedExpert);
        let weights: u64 = own.map(|product| product.inner * product.outer).sum();
        if is_grouped(task, experts) {
            let local = local(task, experts) / number(task.partition.expert_tensor);
            let seconds = task.machine.stream(local * number(weights) * EXPERT_WEIGHT);
            let passes = [seconds * task.experts() * task.load.mean; 3];
            kernels.add(Part::Experts, Group::Routed, kind.trained.of_passes(passes));
        }
    }
}

/// Adds a product that all tokens meet.
fn plain(task: &Task<'_>, trained: Trained, product: Product, kernels: &mut Kernels) {
    let group = match product.role {
        Role::Dense => Group::Mlp,
        Role::SharedExpert => Group::Shared,
        Role::Attention if task.model.is_up(&product) => Group::LatentUp,
        Role::Indexer => Group::Scores,
        _ => Group::Projections,
    };
    let (machine, sizes) = (task.machine, shared(task, product));
    let mut passes = sizes.passes(machine, machine.plain_rate(task.precision));
    if product.role == Role::Indexer {
        // Its inputs are detached: they have no gradient.
        passes[1] = 0.0;
    }
    kernels.add(Part::Products, group, task.slowed(trained.of_passes(passes)));
    if task.precision.is_low() {
        let quantizing = sizes.quantizing(machine, trained);
        kernels.add(Part::Elementwise, group, task.slowed(quantizing));
    }
}

/// Adds the choice of experts, which stays in 16 bits.
fn router(task: &Task<'_>, trained: Trained, product: Product, kernels: &mut Kernels) {
    let machine = task.machine;
    let rate = machine.rate(Precision::Bf16) * machine.efficiency.head;
    let passes = trained.of_passes(shared(task, product).passes(machine, rate));
    kernels.add(Part::Products, Group::Routed, task.slowed(passes));
}

/// Rows that the routed experts of a device get in a microbatch: as many as it brought, for the tokens
/// of a tensor group are shared by its devices, and meet again where they share an expert.
pub(super) fn rows(task: &Task<'_>, experts: Experts) -> f64 {
    let groups = number(task.partition.tensor) / number(task.partition.expert_tensor);
    task.tokens() * number(experts.top_k) / groups
}

/// How a device sees a product and the adapters beside it.
pub(super) struct Rows {
    /// Rows of each.
    pub(super) rows: f64,
    /// Products that run together.
    pub(super) count: f64,
    /// The shares of the inner and of the outer side that the device has.
    pub(super) shares: [f64; 2],
    /// Factor on the time.
    pub(super) slow: f64,
}

/// `product`, of a routed expert or of all tokens, as a device of `task` sees it.
pub(super) fn rows_of(task: &Task<'_>, product: Product) -> Rows {
    if let (Role::RoutedExpert, Some(experts)) = (product.role, task.model.experts) {
        let Sizes { rows, columns, inner, count } = sizes_of_routed(task, experts, product);
        let shares = [inner / number(product.inner), columns / number(product.outer)];
        let rows = rows + padding(task, experts);
        return Rows { rows, count, shares, slow: task.experts() * task.load.mean };
    }
    let Sizes { rows, columns, inner, count } = shared(task, product);
    let shares = [inner / number(product.inner), columns / number(product.outer)];
    Rows { rows, count, shares, slow: task.software.compute }
}

/// Routed experts of a device.
fn local(task: &Task<'_>, experts: Experts) -> f64 {
    number(experts.count) / number(task.partition.expert)
}

/// Whether products of several experts run together. One expert is a plain product.
fn is_grouped(task: &Task<'_>, experts: Experts) -> bool {
    local(task, experts) > 1.0
}

fn padding(task: &Task<'_>, experts: Experts) -> f64 {
    if is_grouped(task, experts) { PADDING } else { 0.0 }
}

/// `product` of each routed expert of a device, without padding.
fn sizes_of_routed(task: &Task<'_>, experts: Experts, product: Product) -> Sizes {
    let local = local(task, experts).max(1.0);
    let [columns, inner] = product.divided(number(task.partition.expert_tensor));
    Sizes { rows: rows(task, experts) / local, columns, inner, count: local }
}

/// Adds `product` of each routed expert of a device.
fn routed(
    task: &Task<'_>,
    trained: Trained,
    experts: Experts,
    product: Product,
    kernels: &mut Kernels,
) {
    let machine = task.machine;
    let plain = sizes_of_routed(task, experts, product);
    let sizes = Sizes { rows: plain.rows + padding(task, experts), ..plain };
    let rate = match is_grouped(task, experts) {
        true => machine.rate(task.precision) * machine.efficiency.grouped,
        false => machine.plain_rate(task.precision),
    };
    let slow =
        |passes: [f64; 3], times: f64| passes.map(|seconds| seconds * task.experts() * times);
    let passes = trained.of_passes(sizes.passes(machine, rate));
    kernels.add(Part::Experts, Group::Routed, slow(passes, task.load.mean));
    if task.precision.is_low() {
        let passes = plain.quantizing(machine, trained);
        kernels.add(Part::Elementwise, Group::Routed, slow(passes, task.load.sent));
    }
}
