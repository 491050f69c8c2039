//! The experts of a config: which keys give their number, width and layers, by kind of model or by their names.

use plan::Experts;
use question::diagnostic::Diagnostic;
use serde_json::Value;

use super::Config;

/// The key of the width of an MLP.
const MLP: &str = "intermediate_size";

/// Where the router has a bias.
#[derive(Clone, Copy)]
pub(super) enum RouterBias {
    Never,
    Always,
    /// Where `topk_method` is `noaux_tc`, or missing.
    Balance,
    /// Where `topk_method` is `noaux_tc`, or one of these keys is true.
    Named,
}

/// The experts of a model.
#[derive(Clone, Copy)]
pub(super) struct ExpertKeys {
    /// The names of the width of one.
    pub(super) width: &'static [&'static str],
    /// The key of the width of the MLP in layers without experts.
    pub(super) dense_width: &'static str,
    /// The names of their number.
    pub(super) count: &'static [&'static str],
    /// The names of how many of them a token visits.
    pub(super) top_k: &'static [&'static str],
    /// The names of the number and the width of shared experts.
    pub(super) shared: &'static [&'static str],
    /// Whether there is one as wide as an expert, though no key says so.
    pub(super) shared_one: bool,
    /// Whether shared experts have a gate of their own.
    pub(super) shared_gate: bool,
    /// The names of which layers have an MLP instead of experts.
    pub(super) dense: &'static [&'static str],
    pub(super) router_bias: RouterBias,
}

/// The keys of the number of experts: one name each in older and newer configs.
const EXPERTS: &[&str] = &["num_local_experts", "num_experts"];
/// The key of how many experts a token visits.
pub(super) const TOP_K: &str = "num_experts_per_tok";

pub(super) const MIXTRAL_EXPERTS: ExpertKeys = ExpertKeys {
    width: &[MLP],
    dense_width: MLP,
    count: EXPERTS,
    top_k: &[TOP_K],
    shared: &[],
    shared_one: false,
    shared_gate: false,
    dense: &[],
    router_bias: RouterBias::Never,
};

pub(super) const QWEN_EXPERTS: ExpertKeys = ExpertKeys {
    width: &["moe_intermediate_size"],
    dense: &["decoder_sparse_step", "mlp_only_layers", "mlp_layer_types"],
    ..MIXTRAL_EXPERTS
};

pub(super) const SHARED_QWEN_EXPERTS: ExpertKeys =
    ExpertKeys { shared: &["shared_expert_intermediate_size"], shared_gate: true, ..QWEN_EXPERTS };

pub(super) const DEEPSEEK_EXPERTS: ExpertKeys = ExpertKeys {
    width: &["moe_intermediate_size"],
    count: &["n_routed_experts", "num_local_experts", "num_experts"],
    shared: &["n_shared_experts"],
    dense: &["first_k_dense_replace", "moe_layer_freq", "mlp_layer_types"],
    ..MIXTRAL_EXPERTS
};

pub(super) const BALANCED_EXPERTS: ExpertKeys =
    ExpertKeys { router_bias: RouterBias::Balance, ..DEEPSEEK_EXPERTS };

/// The names of the number of experts in configs of all kinds.
pub(super) const COUNTS: &[&str] = &[
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_routed_experts",
];
/// The names of the width of an expert, where it is not that of other MLPs.
pub(super) const WIDTHS: &[&str] = &[
    "moe_intermediate_size",
    "moe_ffn_hidden_size",
    "expert_intermediate_size",
    "expert_hidden_dim",
];
/// The names of how many experts a token visits.
pub(super) const TOP_KS: &[&str] =
    &[TOP_K, "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", "moe_top_k"];
/// The names of the number of shared experts, [`COUNTED`] of them, and of their width.
const SHARED: &[&str] = &[
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
];
const COUNTED: usize = 4;
/// The names of the number of dense layers before those with experts.
pub(super) const FIRST: &[&str] =
    &["first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "n_dense_layers"];
/// The names of every how many layers one has experts, the last of each group.
const STEPS: &[&str] = &["decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"];
/// Other names of which layers have experts.
const LISTS: &[&str] =
    &["moe_layer_end_index", "moe_layer_freq", "mlp_only_layers", "mlp_layer_types", "moe_layers"];
/// The names of whether the router has a bias.
const ROUTER_BIASES: &[&str] = &[
    "moe_router_enable_expert_bias",
    "moe_use_aux_free",
    "use_expert_bias",
    "use_moe_router_bias",
    "use_routing_bias",
];

/// Experts by the names of their keys, whatever the kind of model.
pub(super) const NAMED_EXPERTS: ExpertKeys = ExpertKeys {
    width: WIDTHS,
    count: COUNTS,
    top_k: TOP_KS,
    shared: SHARED,
    router_bias: RouterBias::Named,
    ..MIXTRAL_EXPERTS
};

impl ExpertKeys {
    pub(super) fn keys(&self) -> Vec<&'static str> {
        let mut read = vec![self.dense_width];
        read.extend(self.width);
        read.extend(self.count);
        read.extend(self.top_k);
        read.extend(self.shared);
        read.extend(self.dense);
        if matches!(self.router_bias, RouterBias::Named) {
            read.extend([ROUTER_BIASES, FIRST, STEPS, LISTS].concat());
        }
        read
    }
}

impl Config<'_> {
    /// The experts of a model of unknown kind, by the names of their keys, if it has any.
    pub(super) fn named_experts(&self) -> Option<ExpertKeys> {
        let says = |names: &[&str]| names.iter().any(|name| self.has(name));
        let is_none = |name: &&str| !self.has(name) || self.keys[*name].as_u64() == Some(0);
        let width = if says(WIDTHS) { WIDTHS } else { &[MLP] };
        (!COUNTS.iter().all(is_none)).then_some(ExpertKeys { width, ..NAMED_EXPERTS })
    }

    pub(super) fn experts(&self, keys: &ExpertKeys) -> Result<Experts, Diagnostic> {
        let width = self.alike(keys.width)?;
        Ok(Experts {
            count: self.alike(keys.count)?,
            top_k: self.alike(keys.top_k)?,
            shared: if keys.shared_one { width } else { self.shared_width(width)? },
        })
    }

    /// The width of all shared experts together, where an expert has `width`.
    fn shared_width(&self, width: u64) -> Result<u64, Diagnostic> {
        let (counts, widths) = SHARED.split_at(COUNTED);
        let count = self.agreed(counts)?;
        let all = count.unwrap_or(0).saturating_mul(width);
        match self.agreed(widths)?.filter(|own| *own > 0) {
            None => Ok(all),
            Some(own) if count.unwrap_or(1) == 1 => Ok(own),
            Some(own) if own == all || own == width => Ok(all),
            Some(own) => {
                let key = widths.iter().find(|key| self.has(key)).unwrap_or(&MLP);
                let message = format!("{key} is {own}: of each shared expert, or of all together?");
                Err(self.file.wrong(key, message).with_help(self.cure()))
            }
        }
    }

    /// Whether each layer has experts, by any of the keys that say so.
    pub(super) fn named_layers(&self, layers: u64) -> Result<Vec<bool>, Diagnostic> {
        let first = self.agreed(FIRST)?.unwrap_or(0);
        // -1 is the last layer.
        let ends = self.keys.get("moe_layer_end_index").and_then(Value::as_i64) != Some(-1);
        let last = if ends { self.optional(&["moe_layer_end_index"])? } else { None };
        let frequency = self.step("moe_layer_freq", 1)?;
        self.agreed(STEPS)?;
        let step = match STEPS.iter().find(|key| self.has(key)) {
            Some(key) => self.step(key, 1)?,
            None => 1,
        };
        let dense = self.numbers("mlp_only_layers")?.unwrap_or_default();
        if let Some(sparse) = self.numbers("moe_layers")?.filter(|all| !all.is_empty()) {
            return Ok((0..layers).map(|layer| sparse.contains(&layer)).collect());
        }
        let has = |layer: u64| {
            layer >= first
                && last.is_none_or(|last| layer <= last)
                && layer.is_multiple_of(frequency)
                && (layer + 1).is_multiple_of(step)
                && !dense.contains(&layer)
        };
        Ok((0..layers).map(has).collect())
    }

    /// Whether the router has a bias; that of experts in balance is there unless another method is named.
    pub(super) fn has_router_bias(&self, experts: Option<ExpertKeys>) -> Result<bool, Diagnostic> {
        let method = self.keys.get("topk_method").and_then(|method| method.as_str());
        Ok(match experts.map(|keys| keys.router_bias) {
            None | Some(RouterBias::Never) => false,
            Some(RouterBias::Always) => true,
            Some(RouterBias::Balance) => method.is_none_or(|method| method == "noaux_tc"),
            Some(RouterBias::Named) => {
                let flags: Vec<Option<bool>> =
                    ROUTER_BIASES.iter().map(|key| self.flag(key)).collect::<Result<_, _>>()?;
                method == Some("noaux_tc") || flags.contains(&Some(true))
            }
        })
    }
}
