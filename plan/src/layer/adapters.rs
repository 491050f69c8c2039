//! Products of adapters: of low rank, so that the memory, and not the arithmetic, sets their time.

use super::part::{Group, Kernels, Part};
use super::products::{Rows, Sizes, rows_of};
use super::{HALF, Task, longer};
use crate::machine::{Machine, all_reduce};
use crate::model::{Adapter, LayerKind, Product, Role, number};
use crate::precision::Precision;

/// How often the forward of an adapter moves a number of its result outside of its products: it is scaled (read,
/// written) and added to that of the frozen product (both read, one written). By counting.
const FORWARD_TRAFFIC: f64 = 5.0;
/// The same of the backward: the gradient of the result is scaled.
const BACKWARD_TRAFFIC: f64 = 2.0;
/// The same of a number of the input, whose two gradients are added.
const INPUT_TRAFFIC: f64 = 3.0;

/// Adds the adapters of a layer of `kind` to `kernels`.
pub(super) fn add(task: &Task<'_>, kind: LayerKind, kernels: &mut Kernels) {
    for product in task.model.products_of(kind) {
        for adapter in task.model.adapters_of(kind, product) {
            one(task, *product, adapter, kernels);
        }
    }
}

/// Adds `adapter` of `product`, which the devices of a tensor group share as they share the product.
fn one(task: &Task<'_>, product: Product, adapter: Adapter, kernels: &mut Kernels) {
    let Rows { rows, count, shares: [inner_share, outer_share], slow } = rows_of(task, product);
    let (inner, outer) = (number(adapter.inner) * inner_share, number(adapter.outer));
    let (rank, outer) = (number(adapter.rank), outer * inner_share * outer_share);
    let down = Sizes { rows, columns: rank * outer_share, inner, count };
    let up = Sizes { rows, columns: outer, inner: rank, count };
    let machine = task.machine;
    let [down, up] = [down, up].map(|sizes| passes(sizes, machine));
    let (part, group) = place(task, product);
    kernels.add(part, group, std::array::from_fn(|pass| (down[pass] + up[pass]) * slow));
    // Each is one plain kernel: none of what makes the small kernels between products slower than their bytes.
    let moved = |numbers: f64| machine.stream(count * rows * numbers * HALF) * slow;
    let back = BACKWARD_TRAFFIC * outer + INPUT_TRAFFIC * inner;
    let traffic = [moved(FORWARD_TRAFFIC * outer), moved(back), 0.0];
    kernels.add(Part::Elementwise, group, traffic);
    let tensor = task.partition.tensor;
    if product.role != Role::RoutedExpert && inner_share * outer_share < 1.0 {
        let latency = machine.efficiency.collective_latency;
        let ring = machine.tensor_ring(tensor);
        let between = all_reduce(rows * rank * HALF, tensor, ring, latency);
        kernels.add(Part::Tensor, group, [between, between, 0.0]);
    }
}

/// F, B and W of a thin product in 16 bits: its arithmetic or its bytes.
fn passes(sizes: Sizes, machine: &Machine) -> [f64; 3] {
    let Sizes { rows, columns, inner, count } = sizes;
    let bytes = HALF * count * (rows * inner + inner * columns + rows * columns);
    let moved = machine.stream(bytes);
    sizes.passes(machine, machine.rate(Precision::Bf16)).map(|seconds| longer(seconds, moved))
}

/// The part and the group of the kernels of `product`, which its adapters are recomputed with.
fn place(task: &Task<'_>, product: Product) -> (Part, Group) {
    match product.role {
        Role::RoutedExpert => (Part::Experts, Group::Routed),
        Role::Dense => (Part::Products, Group::Mlp),
        Role::SharedExpert => (Part::Products, Group::Shared),
        Role::Attention if task.model.is_up(&product) => (Part::Products, Group::LatentUp),
        _ => (Part::Products, Group::Projections),
    }
}
