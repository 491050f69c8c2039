//! The rates of a machine: a row for each, from which its field, its key in a file, its range and its line in the
//! book follow.

use std::fmt;

/// The range of a rate, and how a file writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateForm {
    /// A share of a peak rate, or of a time.
    Share,
    /// A ratio to what is counted, which may be above 1.
    Ratio,
    /// Elements of a matrix.
    Elements,
    /// A length of one side of a matrix.
    Length,
    /// How many times as long.
    Factor,
    /// A time with its unit; in seconds once it is read.
    Time,
}

impl RateForm {
    /// The least and the largest value; times have no other limits than those of the clock.
    #[must_use]
    pub const fn range(self) -> [f64; 2] {
        match self {
            Self::Share => [1e-3, 1.0],
            Self::Ratio => [1e-3, 1e3],
            Self::Elements => [0.0, 1e12],
            Self::Length => [0.0, 1e6],
            Self::Factor => [1.0, 1e3],
            Self::Time => [0.0, f64::INFINITY],
        }
    }
}

/// The value of a rate that a file leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    /// None: a file must give it.
    Required,
    /// That of [`Efficiency::IDEAL`].
    Ideal,
    /// That of the rate with this key.
    As(&'static str),
}

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("required"),
            Self::Ideal => f.write_str("ideal"),
            Self::As(other) => write!(f, "as {other}"),
        }
    }
}

/// A rate as machine files have it.
#[derive(Debug)]
pub struct Rate {
    /// Its key in the table `[efficiency]`.
    pub key: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// The measurement that gives it.
    pub source: &'static str,
    pub form: RateForm,
    pub otherwise: Otherwise,
    /// Its place.
    pub field: fn(&mut Efficiency) -> &mut f64,
}

macro_rules! rates {
    ($($about:literal, $source:literal; $key:literal $field:ident: $form:ident = $ideal:literal, $otherwise:expr;)+) => {
        /// The share of its rates that a machine reaches: a roofline with ramps, its constants fitted to
        /// measured iterations or assumed, as the machine's file says. Times are in seconds.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Efficiency {
            $(#[doc = $about] pub $field: f64,)+
        }

        impl Efficiency {
            /// A machine that reaches all its rates and hides nothing: the reference for measured ones.
            pub const IDEAL: Self = Self { $($field: $ideal,)+ };
        }

        /// All rates, each behind those that it may be equal to.
        pub static RATES: &[Rate] = &[$(Rate {
            key: $key,
            about: $about,
            source: $source,
            form: RateForm::$form,
            otherwise: $otherwise,
            field: |rates| &mut rates.$field,
        },)+];

        /// The keys of [`RATES`].
        pub const RATE_KEYS: &[&str] = &[$($key),+];
    };
}

use Otherwise::{As, Ideal, Required};

rates! {
    "Share of the peak rate that large matrix products reach.",
    "a product of 8192 x 8192 x 8192 in 16 bits, over the peak";
    "matmul" matmul: Share = 1.0, Required;

    "Rate of products and attention over that of others of the generation; no rate is above its peak.",
    "`plan --fit`, from single-node iterations";
    "power" power: Ratio = 1.0, Ideal;

    "Elements of a product's result that fill the device once more, for the last wave of tiles is not full: M x N results take as long as M N + fill.",
    "products of growing M N at one K: the intercept of their times";
    "fill" fill: Elements = 0.0, Required;

    "Inner size that a product loses to its beginning and end: K takes as long as K + depth.",
    "products of growing K at one M N: the intercept of their times";
    "depth" depth: Length = 0.0, Required;

    "Share of the peak rate that fused attention (FlashAttention) reaches.",
    "its forward at the sequence length of the model, over the peak";
    "flash" flash: Share = 1.0, Required;

    "Share of the memory bandwidth that streaming kernels reach.",
    "a copy of a gigabyte on the device, over the bandwidth";
    "memory" memory: Share = 1.0, Required;

    "Share of the link bandwidth that rings of collectives within a domain reach.",
    "bus bandwidth of a large all-reduce within a node, over the link's";
    "link" link: Share = 1.0, Required;

    "Share of the network bandwidth that rings over domains reach while gradients are reduced.",
    "bus bandwidth of a large all-reduce over nodes, for each NIC";
    "ring" ring: Share = 1.0, Required;

    "Of that, what is left where several rings have several members on each node, and share its NICs.",
    "two all-reduces at once over halves of each node, over one alone";
    "shared-ring" shared_ring: Share = 1.0, Required;

    "The same as ring, of collectives that run layer by layer in every microbatch (ZeRO 3).",
    "bus bandwidth of an all-gather of one layer over nodes";
    "sharded-ring" sharded_ring: Share = 1.0, As("ring");

    "Share of a node's network bandwidth that a collective of a tensor group over nodes reaches.",
    "bus bandwidth of an all-reduce of one layer's activations over two nodes";
    "tensor-network" tensor_network: Share = 1.0, Required;

    "Share of the network bandwidth that one transfer between stages reaches.",
    "a send of one microbatch's activations to another node (`debubble calibrate`)";
    "hop" hop: Share = 1.0, Required;

    "Time of a collective besides its bytes.",
    "an all-reduce of a few bytes";
    "collective-latency" collective_latency: Time = 0.0, Required;

    "Time of a transfer between stages besides its bytes.",
    "a send of a few bytes (`debubble calibrate`)";
    "hop-latency" hop_latency: Time = 0.0, Required;

    "Time of the host to launch all kernels of a layer's forward, recomputation and backward: a layer takes no less.",
    "an iteration of a tiny model, over its layers and microbatches";
    "launch" launch: Time = 0.0, Required;

    "How many times as long that takes with collectives in between.",
    "the same with tensor groups of two, over without";
    "launch-tensor" launch_tensor: Factor = 1.0, Required;

    "Rate of 16-bit products that all tokens meet, over that of experts in 16 bits, the head and the router.",
    "iterations of a dense model, over those of one with experts";
    "bf16" bf16: Share = 1.0, Ideal;

    "Share of the 8-bit peak that products with one scale for a tensor reach, over matmul.",
    "the product of matmul in 8 bits";
    "fp8" fp8: Share = 1.0, Ideal;

    "The same with a scale for each block.",
    "the same in that format";
    "fp8-block" fp8_block: Share = 1.0, As("fp8");

    "The same with a scale for each 32 numbers.",
    "the same in that format";
    "mxfp8" mxfp8: Share = 1.0, Ideal;

    "The same of the 4-bit peak.",
    "the same in that format";
    "nvfp4" nvfp4: Share = 1.0, Ideal;

    "Rate of the products of many experts in one kernel, over that of plain ones.",
    "a grouped product of the model's experts, over a plain one of as many FLOPs";
    "grouped" grouped: Ratio = 1.0, Ideal;

    "Rate of products of the head and the router, over that of plain ones in 16 bits.",
    "the product of the head, over matmul";
    "head" head: Ratio = 1.0, Ideal;

    "How many times as long the backward of fused attention takes as the forward: 2.5 by its FLOPs, five products, not two (Dao 2023, arXiv 2307.08691, section 3.1).",
    "both at the sequence length of the model";
    "flash-backward" flash_backward: Ratio = 2.5, Ideal;

    "How many times as long elementwise kernels take, with the gaps between them, as their bytes.",
    "a layer without its products and attention, over its bytes";
    "elementwise" elementwise: Ratio = 1.0, Ideal;

    "The same where no compiler fuses them, over that.",
    "the same layer in eager mode, over compiled";
    "eager" eager: Ratio = 1.0, Ideal;

    "How many times as long Megatron-LM computes with its defaults as in tuned recipes (`tuning = \"stock\"`).",
    "an iteration with the defaults, over one with the recipe's flags";
    "stock" stock: Ratio = 1.0, Ideal;

    "How many times as much the activation function of experts moves where it is not fused.",
    "that function alone, over its fused kernel";
    "unfused-activation" unfused_activation: Ratio = 1.0, Ideal;

    "How many times as long experts take, with the elementwise kernels around them, where these are fused.",
    "a layer with experts in both ways";
    "fused-experts" fused_experts: Ratio = 1.0, Ideal;

    "Share of the collectives of tensor groups that nothing hides.",
    "iterations with tensor groups of two, over without";
    "tensor-exposed" tensor_exposed: Share = 1.0, Ideal;

    "The same where they run beside products (overlap-tensor).",
    "the same with `--tp-comm-overlap`";
    "tensor-overlapped" tensor_overlapped: Share = 1.0, As("tensor-exposed");

    "Share of the transfers between stages that nothing hides where a stage has several chunks.",
    "iterations with two chunks per stage, over one";
    "stage-overlapped" stage_overlapped: Share = 1.0, Ideal;

    "Share of the exchange of context groups that nothing hides.",
    "iterations with context groups of two, over without";
    "context-exposed" context_exposed: Share = 1.0, Ideal;

    "Share of the link bandwidth that all-to-alls of experts reach, by the bytes that are counted.",
    "bus bandwidth of a large all-to-all within a node, over the link's";
    "expert-link" expert_link: Ratio = 1.0, As("link");

    "Share of the network bandwidth that they reach.",
    "bus bandwidth of a large all-to-all over nodes, for each NIC";
    "expert-network" expert_network: Ratio = 1.0, As("hop");

    "Share of them that nothing hides where they run beside another microbatch (overlap-experts).",
    "iterations with `--overlap-moe-expert-parallel-comm`, over without";
    "expert-overlapped" expert_overlapped: Share = 1.0, Ideal;

    "Share of the network bandwidth that rings of the gradients of experts reach.",
    "bus bandwidth of a large all-reduce among every n-th node, for each NIC";
    "expert-ring" expert_ring: Ratio = 1.0, As("ring");

    "The same as launch of a layer with experts.",
    "an iteration of a tiny model with experts, over its layers and microbatches";
    "launch-experts" launch_experts: Time = 0.0, As("launch");

    "How many times as long launches take with multi-head latent attention.",
    "the same with it, over without";
    "launch-latent" launch_latent: Ratio = 1.0, Ideal;

    "Time that a layer with experts takes besides, forward and backward together.",
    "`plan --validate` has the fit";
    "expert-latency" expert_latency: Time = 0.0, Ideal;

    "Time that a stage takes for a microbatch besides, where no CUDA graph launches it.",
    "iterations with twice the microbatches of half the size";
    "pass-latency" pass_latency: Time = 0.0, Ideal;

    "Time that a step takes besides.",
    "iterations of one microbatch: the intercept over batch sizes";
    "step-latency" step_latency: Time = 0.0, Ideal;

    "Added to step-latency for each doubling of the devices beyond 64: the slowest of many.",
    "the same on twice the devices";
    "step-doubling" step_doubling: Time = 0.0, Ideal;
}

impl Rate {
    /// The rate with the key `key`.
    #[must_use]
    pub fn named(key: &str) -> Option<&'static Self> {
        RATES.iter().find(|rate| rate.key == key)
    }
}

impl Efficiency {
    /// The rates `given`, with those that are left out as their rows say.
    #[must_use]
    pub fn of(given: &[(&'static Rate, f64)]) -> Self {
        let mut all = Self::IDEAL;
        for rate in RATES {
            let own = given.iter().find(|(one, _)| one.key == rate.key).map(|(_, value)| *value);
            let otherwise = match rate.otherwise {
                As(other) => Self::named(&mut all, other),
                Required | Ideal => None,
            };
            if let Some(value) = own.or(otherwise) {
                *(rate.field)(&mut all) = value;
            }
        }
        all
    }

    fn named(all: &mut Self, key: &str) -> Option<f64> {
        Rate::named(key).map(|rate| *(rate.field)(all))
    }

    /// Whether constants of the software that hides exchanges are known, as they are of machines on which it was
    /// measured.
    #[must_use]
    pub fn has_hidden_exchanges(&self) -> bool {
        self.expert_overlapped < 1.0 && self.tensor_overlapped < self.tensor_exposed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_follow_what_they_are_equal_to() {
        for (at, rate) in RATES.iter().enumerate() {
            assert!(RATES[..at].iter().all(|one| one.key != rate.key), "{}", rate.key);
            assert!(rate.about.ends_with('.') && !rate.source.is_empty(), "{}", rate.key);
            if let As(other) = rate.otherwise {
                assert!(RATES[..at].iter().any(|one| one.key == other), "{}", rate.key);
            }
        }
    }

    #[test]
    fn a_rate_that_is_left_out_is_as_its_row_says() {
        let rate = |key: &str| Rate::named(key).unwrap();
        let all = Efficiency::of(&[(rate("ring"), 0.3), (rate("tensor-exposed"), 0.5)]);
        assert_eq!([all.sharded_ring, all.expert_ring, all.tensor_overlapped], [0.3, 0.3, 0.5]);
        assert_eq!([all.flash_backward, all.expert_link, all.launch], [2.5, 1.0, 0.0]);
    }
}
