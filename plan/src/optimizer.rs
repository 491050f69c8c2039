//! The optimizer of a training: its state, the bytes that its update moves, and the products of Muon.

use crate::costing::Costing;
use crate::machine::Machine;
use crate::memory::{Parameters, Share, sharers};
use crate::model::{LayerKind, Product, Role, Side, Trained, Transformer, number};
use crate::precision::Precision;
use crate::setup::{Setup, Zero};

/// How parameters are updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// By two moments of the gradient (Loshchilov and Hutter 2019).
    AdamW,
    /// Matrices of layers by their momentum made orthogonal, embeddings, head and adapters by [`Self::AdamW`]
    /// (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982). With ZeRO 1 each replica updates whole matrices
    /// (`dist_muon` of Megatron-LM).
    Muon,
    /// By their momentum.
    Sgd,
}

impl Update {
    pub const ALL: [Self; 3] = [Self::AdamW, Self::Muon, Self::Sgd];

    /// Its name in a question.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::Muon => "muon",
            Self::Sgd => "sgd",
        }
    }

    /// Bytes per parameter of its state, with a copy of the weight in 32 bits: of matrices of layers, and of the rest.
    const fn bytes(self) -> [u64; 2] {
        match self {
            Self::AdamW => [12, 12],
            Self::Muon => [8, 12],
            Self::Sgd => [8, 8],
        }
    }

    /// Bytes that it moves for a parameter: of matrices of layers, and of the rest.
    const fn traffic(self) -> [f64; 2] {
        match self {
            Self::AdamW => [ADAM_TRAFFIC; 2],
            Self::Muon => [ADAM_TRAFFIC - MOMENT_TRAFFIC, ADAM_TRAFFIC],
            Self::Sgd => [ADAM_TRAFFIC - MOMENT_TRAFFIC; 2],
        }
    }
}

/// Bytes that a step of Adam moves for one parameter: 4 + 4 + 4 read and written in 32 bits,
/// weights and gradients in 16. Fitted; 28 to 32 by counting.
const ADAM_TRAFFIC: f64 = 31.3;
/// Of these, the second moment: read and written in 32 bits.
const MOMENT_TRAFFIC: f64 = 8.0;
/// Seconds in which a host updates a parameter of a device that keeps its state there: by steps of Qwen3-0.6B on an H100 with
/// half and all of it on the host (NVIDIA-NeMo/RL, pull request 3628), less the copies.
const HOST_UPDATE: f64 = 1.28e-9;
/// Iterations of Newton and Schulz that make a matrix orthogonal, the default of Megatron-LM and PyTorch.
const ITERATIONS: f64 = 5.0;

/// The optimizer of a recipe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Optimizer {
    pub update: Update,
    /// Bytes per parameter of its state: of matrices of layers, and of embeddings, head and adapters.
    pub bytes: [u64; 2],
    /// The share of the parameters whose state is in the memory of the host, which updates them.
    pub on_host: f64,
    /// Seconds in which the host updates a parameter of a device.
    pub host_update: f64,
}

impl Optimizer {
    /// AdamW with weights and two moments in 32 bits.
    pub const ADAM_W: Self = Self {
        update: Update::AdamW,
        bytes: Update::AdamW.bytes(),
        on_host: 0.0,
        host_update: HOST_UPDATE,
    };

    /// `update` with a state of `bytes` per parameter, if they are given.
    #[must_use]
    pub fn new(update: Update, bytes: Option<u64>) -> Self {
        let bytes = bytes.map_or(update.bytes(), |bytes| [bytes; 2]);
        Self { update, bytes, ..Self::ADAM_W }
    }

    /// Whether its state has other sizes than usual.
    #[must_use]
    pub fn is_unusual(self) -> bool {
        self.bytes != self.update.bytes()
    }

    /// Bytes of its state on a device that has `trained` parameters.
    #[must_use]
    pub(crate) fn state(self, setup: &Setup, trained: Parameters) -> f64 {
        (1.0 - self.on_host) * Self::sum(self.bytes.map(number), setup, trained)
    }

    /// `each` for the parameters of layers and for the rest that a device updates.
    fn sum(each: [f64; 2], setup: &Setup, trained: Parameters) -> f64 {
        let parts = trained.by_precision().map(|part| part.shared(setup, Zero::Optimizer));
        each[0] * parts[0] + each[1] * parts[1]
    }
}

impl Costing<'_> {
    /// The optimizer on the stage that has most to do, in seconds, of the `trained` parameters, where stages have `shares`
    /// of the model.
    pub(crate) fn optimizer(&self, trained: &[Parameters], shares: &[Share]) -> f64 {
        let optimizer @ Optimizer { update, on_host, .. } = self.inputs.recipe.optimizer;
        let one = |(stage, parameters): (usize, &Parameters)| {
            let machine = self.machines[stage];
            let moved = machine.stream(Optimizer::sum(update.traffic(), self.setup, *parameters));
            let own = match update {
                Update::Muon => moved + self.orthogonal(machine, shares[stage]),
                Update::AdamW | Update::Sgd => moved,
            };
            match on_host > 0.0 {
                // The copies of gradients and weights hide little of the update of the host.
                true => {
                    (1.0 - on_host) * own + on_host * self.on_host(optimizer, machine, *parameters)
                }
                false => own,
            }
        };
        trained.iter().enumerate().map(one).fold(0.0, f64::max)
    }

    /// Seconds in which the host updates all of the `trained` parameters of a device: gradients are copied to it, and weights
    /// back in 16 bits.
    fn on_host(&self, optimizer: Optimizer, machine: &Machine, trained: Parameters) -> f64 {
        let bytes = number(self.inputs.recipe.gradient_bytes) + 2.0;
        let rate = machine.host.map_or(0.0, |host| host.rate_of_device());
        trained.shared(self.setup, Zero::Optimizer) * (bytes / rate + optimizer.host_update)
    }

    /// Seconds that a device of a stage with `share` of the model makes matrices orthogonal: all of them, or with ZeRO those
    /// that are its own, as many as replicas have in the mean and at least one.
    fn orthogonal(&self, machine: &Machine, share: Share) -> f64 {
        let (model, setup) = (self.inputs.model, self.setup);
        let kinds = model.layer_kinds().iter().zip(share.layers.iter());
        let layers = kinds.map(|(kind, count)| (*kind, number(count)));
        let layers = layers.chain([(model.mtp_kind(), number(share.mtp))]);
        // Of matrices that all replicas have, and of those of experts.
        let [mut all, mut largest] = [[0.0; 2]; 2];
        for (kind, layers) in layers.filter(|(_, layers)| *layers > 0.0) {
            for Matrices { sides, count, of_experts } in matrices(model, setup, kind) {
                let (time, of) = (newton_schulz(machine, sides), usize::from(of_experts));
                all[of] += layers * count * time;
                largest[of] = f64::max(largest[of], time);
            }
        }
        let sharers = sharers(setup, Zero::Optimizer);
        (0..2).map(|of| f64::max(all[of] / sharers[of], largest[of])).sum()
    }
}

/// Matrices of a layer on a device.
struct Matrices {
    sides: [f64; 2],
    count: f64,
    of_experts: bool,
}

/// The trained matrices of a layer of `kind` as a device of `setup` has them: tensor groups make their own shards orthogonal
/// (`--muon-tp-mode blockwise`), and queries, keys and values are matrices of their own (`--muon-split-qkv`), the
/// defaults of Megatron-LM.
fn matrices(model: &Transformer, setup: &Setup, kind: LayerKind) -> Vec<Matrices> {
    if kind.trained != Trained::Whole {
        return Vec::new();
    }
    let of = |product: Product| {
        let of_experts = product.role == Role::RoutedExpert;
        let (group, count) = match (of_experts, model.experts) {
            (true, Some(experts)) => {
                (setup.expert_tensor, number(experts.count) / number(setup.expert))
            }
            _ => (setup.tensor, 1.0),
        };
        let is_fused = product.role == Role::Attention && product.side == Side::Outer;
        let outers = match is_fused && model.latent.is_none() {
            true => {
                let (keys, values) = (model.head_size, model.value_head_size());
                let [keys, values] = [keys, values].map(|size| model.kv_heads * size);
                vec![product.outer - keys - values, keys, values]
            }
            false => vec![product.outer],
        };
        let sides = move |outer| Product { outer, ..product }.divided(number(group));
        outers.into_iter().map(move |outer| Matrices { sides: sides(outer), count, of_experts })
    };
    model.products_of(kind).iter().copied().flat_map(of).collect()
}

/// Seconds to make a matrix of `sides` orthogonal: in each iteration the products of the matrix with itself, of the result
/// with itself, and of that with the matrix, 4 m^2 n + 2 m^3 FLOPs with m the shorter side.
fn newton_schulz(machine: &Machine, [one, other]: [f64; 2]) -> f64 {
    let (m, n) = (one.min(other), one.max(other));
    let rate = machine.rate(Precision::Bf16);
    let products = [[m, m, n], [m, m, m], [m, n, m]];
    ITERATIONS * products.map(|sizes| machine.product(sizes, 1.0, rate)).iter().sum::<f64>()
}
