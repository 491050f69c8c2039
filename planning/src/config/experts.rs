//! The experts of a config: which keys give their number, width and layers, by kind of model or by their names.

use plan::{Experts, Ffn, Sizes};
use question::diagnostic::Diagnostic;
use serde_json::Value;

use super::{Config, families};

/// The key of the width of an MLP.
const MLP: &str = "intermediate_size";

/// How wide the shared experts are, all together.
#[derive(Clone, Copy)]
pub(super) enum Shared {
    /// There are none.
    Never,
    /// As wide as an expert, times this key.
    Times(&'static str),
    /// As this key says.
    Width(&'static str),
    /// As wide as an expert.
    One,
    /// As the keys of their number or width say.
    Named,
}

/// Which layers have an MLP in place of experts.
#[derive(Clone, Copy)]
pub(super) enum Dense {
    /// None.
    Never,
    /// The first, as many as `first_k_dense_replace` says, and those that `moe_layer_freq` does not divide.
    First,
    /// All but every n-th, n of `decoder_sparse_step`, and those of `mlp_only_layers`.
    Step,
    /// All but every n-th, n of `interleave_moe_layer_step`, or all but `moe_layers`.
    Interleaved,
    /// Those before the first layer with experts, behind the last, and all but every n-th between them, by any
    /// of these keys.
    Named,
}

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
    pub(super) shared: Shared,
    /// Whether shared experts have a gate of their own.
    pub(super) shared_gate: bool,
    pub(super) dense: Dense,
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
    shared: Shared::Never,
    shared_gate: false,
    dense: Dense::Never,
    router_bias: RouterBias::Never,
};

pub(super) const QWEN_EXPERTS: ExpertKeys =
    ExpertKeys { width: &["moe_intermediate_size"], dense: Dense::Step, ..MIXTRAL_EXPERTS };

pub(super) const SHARED_QWEN_EXPERTS: ExpertKeys = ExpertKeys {
    shared: Shared::Width("shared_expert_intermediate_size"),
    shared_gate: true,
    ..QWEN_EXPERTS
};

pub(super) const DEEPSEEK_EXPERTS: ExpertKeys = ExpertKeys {
    width: &["moe_intermediate_size"],
    count: &["n_routed_experts", "num_local_experts", "num_experts"],
    shared: Shared::Times("n_shared_experts"),
    dense: Dense::First,
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
/// The names of the number of shared experts.
const SHARED: &[&str] =
    &["n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"];
/// The names of the width of shared experts.
const SHARED_WIDTHS: &[&str] = &[
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
];
/// The names of the number of dense layers before those with experts.
pub(super) const DENSE: &[&str] =
    &["first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "n_dense_layers"];
/// The names of every how many layers one has experts, the last of each group.
const STEPS: &[&str] = &[
    "decoder_sparse_step",
    "moe_layer_interval",
    "moe_every_n_layer",
    "interleave_moe_layer_step",
];
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
    dense_width: MLP,
    count: COUNTS,
    top_k: TOP_KS,
    shared: Shared::Named,
    shared_gate: false,
    dense: Dense::Named,
    router_bias: RouterBias::Named,
};

impl ExpertKeys {
    pub(super) fn keys(&self) -> Vec<&'static str> {
        let mut read = vec![self.dense_width];
        read.extend(self.width);
        read.extend(self.count);
        read.extend(self.top_k);
        match self.shared {
            Shared::Times(key) | Shared::Width(key) => read.push(key),
            Shared::Named => read.extend([SHARED, SHARED_WIDTHS].concat()),
            Shared::Never | Shared::One => {}
        }
        if matches!(self.router_bias, RouterBias::Named) {
            read.extend(ROUTER_BIASES);
        }
        if matches!(self.dense, Dense::Named) {
            read.extend([DENSE, STEPS].concat());
        }
        read.push(match self.dense {
            Dense::Never => "",
            Dense::First => "first_k_dense_replace moe_layer_freq mlp_layer_types",
            Dense::Step => "decoder_sparse_step mlp_only_layers mlp_layer_types",
            Dense::Interleaved => "interleave_moe_layer_step moe_layers",
            Dense::Named => {
                "moe_layer_end_index moe_layer_freq mlp_only_layers mlp_layer_types moe_layers"
            }
        });
        read
    }
}

impl Config<'_> {
    /// The experts of a model of unknown kind, by the names of their keys, if it has any.
    pub(super) fn named_experts(&self) -> Option<ExpertKeys> {
        let says = |names: &[&str]| names.iter().any(|name| self.has(name));
        let is_none = |name: &&str| !self.has(name) || self.keys[*name].as_u64() == Some(0);
        let width = if says(WIDTHS) { WIDTHS } else { &[MLP] };
        let is_planned = families::unplanned(self.model_type).is_none();
        (is_planned && !COUNTS.iter().all(is_none)).then_some(ExpertKeys { width, ..NAMED_EXPERTS })
    }

    /// What was read of experts by the names of their keys, in words.
    pub(super) fn named_in_words(&self, sizes: &Sizes) -> String {
        let Some(experts) = sizes.experts else { return String::new() };
        let router = if sizes.router_bias { "with" } else { "without" };
        let dense = sizes.kinds.iter().filter(|kind| kind.ffn == Ffn::Dense).count();
        format!(
            "; experts are read by the names of their keys: {} of width {}, {} for a token, shared \
             ones {} wide, {dense} dense layers, a router {router} a bias",
            experts.count, sizes.ffn, experts.top_k, experts.shared,
        )
    }

    pub(super) fn experts(&self, keys: &ExpertKeys) -> Result<Experts, Diagnostic> {
        let width = self.alike(keys.width)?;
        Ok(Experts {
            count: self.alike(keys.count)?,
            top_k: self.alike(keys.top_k)?,
            shared: match keys.shared {
                Shared::Never => 0,
                Shared::Times(key) => self.optional(&[key])?.unwrap_or(0).saturating_mul(width),
                Shared::Width(key) => self.required(&[key])?,
                Shared::One => width,
                Shared::Named => self.shared_width(width)?,
            },
        })
    }

    /// The width of all shared experts together, where an expert has `width`.
    fn shared_width(&self, width: u64) -> Result<u64, Diagnostic> {
        let (count, own) = (self.agreed(SHARED)?, self.agreed(SHARED_WIDTHS)?);
        let all = count.unwrap_or(0).saturating_mul(width);
        match (count, own) {
            (Some(0) | None, None) | (Some(0), Some(_)) => Ok(0),
            (_, None) => Ok(all),
            (None | Some(1), Some(own)) => Ok(own),
            (_, Some(own)) if own == all || own == width => Ok(all),
            (Some(count), Some(own)) => {
                let key = SHARED_WIDTHS.iter().find(|key| self.has(key)).unwrap_or(&SHARED[0]);
                let message = format!(
                    "{key} is {own}: whether each of {count} shared experts is so wide, or all together"
                );
                Err(self.file.wrong(key, message + ", is not known").with_help(self.cure()))
            }
        }
    }

    /// Whether each layer has experts, by any of the keys that say so.
    pub(super) fn named_layers(&self, layers: u64) -> Result<Vec<bool>, Diagnostic> {
        let first = self.agreed(DENSE)?.unwrap_or(0);
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
        let sparse = self.numbers("moe_layers")?.filter(|all| !all.is_empty());
        let has = |layer: u64| {
            layer >= first
                && last.is_none_or(|last| layer <= last)
                && layer.is_multiple_of(frequency)
                && (layer + 1).is_multiple_of(step)
                && !dense.contains(&layer)
                && sparse.as_ref().is_none_or(|all| all.contains(&layer))
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
