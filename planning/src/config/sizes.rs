//! The sizes of a model from the keys of its config.

use plan::{
    Attention, Biases, Experts, Ffn, Indexer, Latent, LayerKind, Linear, Mamba, Mixer, Norm, Sizes,
};
use question::diagnostic::Diagnostic;

use super::Config;
use super::families::{AttentionBias, Family, QkNorm};

impl Config<'_> {
    /// Keys as GPT-2 has them: everything has a bias, positions are learned, the head is tied.
    pub(super) fn gpt2(&self, sequence: u64, attention: Attention) -> Result<Sizes, Diagnostic> {
        let hidden = self.required(&["n_embd"])?;
        let heads = self.required(&["n_head"])?;
        Ok(Sizes {
            layers: self.required(&["n_layer"])?,
            hidden,
            heads,
            kv_heads: heads,
            head_size: self.head_size("n_head", hidden, heads)?,
            ffn: self.optional(&["n_inner"])?.unwrap_or(hidden.saturating_mul(4)),
            gated: false,
            vocabulary: self.required(&["vocab_size"])?,
            sequence,
            positions: self.required(&["n_positions", "n_ctx"])?,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(true),
            biases: Biases { qkv: true, output: true, mlp: true },
            norm: Norm::Layer,
            attention,
            ..Sizes::default()
        })
    }

    /// Keys as Llama, Mistral, Mixtral, Qwen, DeepSeek, Gemma and those after them have: gated, rotary,
    /// RMS norms.
    pub(super) fn llama(
        &self,
        family: &Family,
        sequence: u64,
        attention: Attention,
    ) -> Result<Sizes, Diagnostic> {
        let hidden = self.required(&["hidden_size"])?;
        let heads = self.usual(family, "num_attention_heads")?;
        let layers = self.required(&["num_hidden_layers"])?;
        let kinds = self.layers(family, layers, sequence)?;
        let experts = family.experts.map(|keys| self.experts(&keys)).transpose()?;
        let is_mixed = kinds.kinds.iter().any(|kind| kind.ffn == Ffn::Dense);
        let (width, dense_width) = match family.experts {
            Some(keys) if is_mixed => (keys.width, Some(keys.dense_width)),
            Some(keys) => (keys.width, None),
            None => (&["intermediate_size"][..], None),
        };
        let has_linear = kinds.kinds.iter().any(|kind| kind.mixer == Mixer::Linear);
        let biases = self.biases(family)?;
        let plain = Sizes {
            layers,
            hidden,
            heads,
            ffn: self.alike(width)?,
            dense_ffn: dense_width.map(|key| self.required(&[key])).transpose()?,
            gated: true,
            vocabulary: self.usual(family, "vocab_size")?,
            sequence,
            experts,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(family.tied),
            biases,
            router_bias: self.has_router_bias(family.experts)?,
            norm: Norm::Rms,
            qk_norm: match family.qk_norm {
                QkNorm::Never => false,
                QkNorm::Always => true,
                QkNorm::Key(key) => self.flag(key)?.unwrap_or(false),
            },
            attention,
            window: kinds.window,
            linear: has_linear.then(|| self.linear()).transpose()?,
            kinds: kinds.kinds,
            mtp: family.mtp.map_or(Ok(None), |key| self.optional(&[key]))?.unwrap_or(0),
            norms: family.norms,
            sinks: family.sinks,
            attention_gate: family.attention_gate,
            shared_gate: family.experts.is_some_and(|keys| keys.shared_gate),
            ..Sizes::default()
        };
        self.heads_of(family, plain)
    }

    /// `plain` with the sizes of its heads: of latents, or of heads of keys and values.
    fn heads_of(&self, family: &Family, plain: Sizes) -> Result<Sizes, Diagnostic> {
        let Sizes { hidden, heads, .. } = plain;
        if family.latent {
            let rotary = self.required(&["qk_rope_head_dim"])?;
            let unrotated = self.required(&["qk_nope_head_dim"])?;
            let latent = Latent {
                query: self.optional(&["q_lora_rank"])?.filter(|rank| *rank > 0),
                keys: self.required(&["kv_lora_rank"])?,
                rotary,
            };
            let indexer = || {
                Ok(Indexer {
                    heads: self.required(&["index_n_heads"])?,
                    head_size: self.required(&["index_head_dim"])?,
                    top_k: self.required(&["index_topk"])?,
                })
            };
            return Ok(Sizes {
                indexer: family.indexer.then(indexer).transpose()?,
                kv_heads: heads,
                head_size: rotary.saturating_add(unrotated),
                value_size: Some(self.required(&["v_head_dim"])?),
                latent: Some(latent),
                ..plain
            });
        }
        let kv_heads = self.optional(&["num_key_value_heads"])?;
        let head_size = match self.optional(&["head_dim"])?.or(family.default("head_dim")) {
            Some(size) => size,
            None => self.head_size("num_attention_heads", hidden, heads)?,
        };
        let kv_heads = kv_heads.or(family.default("num_key_value_heads")).unwrap_or(heads);
        Ok(Sizes { kv_heads, head_size, ..plain })
    }

    /// Keys as Nemotron-H has them: each layer is Mamba-2, attention, an MLP or experts alone; no gates.
    pub(super) fn hybrid(&self, sequence: u64, attention: Attention) -> Result<Sizes, Diagnostic> {
        let kinds = self.hybrid_kinds()?;
        let layers = kinds.len() as u64;
        if let Some(given) = self.optional(&["num_hidden_layers"])?.filter(|given| *given != layers)
        {
            let message =
                format!("num_hidden_layers is {given}, but the pattern has {layers} layers");
            return Err(self.file.wrong("num_hidden_layers", message));
        }
        let has = |is: fn(&plan::LayerKind) -> bool| kinds.iter().any(is);
        let has_experts = has(|kind| kind.ffn == Ffn::Experts);
        let has_dense = has(|kind| kind.ffn == Ffn::Dense);
        let hidden = self.required(&["hidden_size"])?;
        let heads = self.required(&["num_attention_heads"])?;
        let head_size = match self.optional(&["head_dim", "attention_head_dim"])? {
            Some(size) => size,
            None => self.head_size("num_attention_heads", hidden, heads)?,
        };
        let experts = || {
            Ok(Experts {
                count: self.required(&["n_routed_experts"])?,
                top_k: self.required(&["num_experts_per_tok"])?,
                shared: self.optional(&["moe_shared_expert_intermediate_size"])?.unwrap_or(0),
            })
        };
        let width = if has_experts { "moe_intermediate_size" } else { "intermediate_size" };
        let is_mixed = has_experts && has_dense;
        Ok(Sizes {
            layers,
            hidden,
            heads,
            kv_heads: self.optional(&["num_key_value_heads"])?.unwrap_or(heads),
            head_size,
            ffn: self.required(&[width])?,
            dense_ffn: is_mixed.then(|| self.required(&["intermediate_size"])).transpose()?,
            vocabulary: self.required(&["vocab_size"])?,
            sequence,
            experts: has_experts.then(experts).transpose()?,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(false),
            norm: Norm::Rms,
            attention,
            mamba: has(|kind| kind.mixer == Mixer::Mamba).then(|| self.mamba()).transpose()?,
            kinds,
            router_bias: has_experts,
            ..Sizes::default()
        })
    }

    /// Keys as Granite 4 and Bamba have them: Mamba-2 or attention in each layer, and behind it an MLP or experts.
    pub(super) fn beside_mamba(
        &self,
        sequence: u64,
        attention: Attention,
    ) -> Result<Sizes, Diagnostic> {
        let layers = self.required(&["num_hidden_layers"])?;
        let (hidden, heads) =
            (self.required(&["hidden_size"])?, self.required(&["num_attention_heads"])?);
        let count = self.optional(&["num_local_experts"])?.unwrap_or(0);
        let shared = self.optional(&["shared_intermediate_size"])?;
        let experts = || {
            let top_k = self.required(&["num_experts_per_tok"])?;
            Ok(Experts { count, top_k, shared: shared.unwrap_or(0) })
        };
        let ffn = if count > 0 { Ffn::Experts } else { Ffn::Dense };
        let mixers = self.mamba_mixers(layers)?;
        let bias = self.flag("attention_bias")?.unwrap_or(false);
        Ok(Sizes {
            layers,
            hidden,
            heads,
            kv_heads: self.optional(&["num_key_value_heads"])?.unwrap_or(heads),
            head_size: match self.optional(&["head_dim"])? {
                Some(size) => size,
                None => self.head_size("num_attention_heads", hidden, heads)?,
            },
            // Without experts there is the shared MLP alone.
            ffn: match shared.filter(|_| count == 0) {
                Some(width) => width,
                None => self.required(&["intermediate_size"])?,
            },
            gated: true,
            vocabulary: self.required(&["vocab_size"])?,
            sequence,
            experts: (count > 0).then(experts).transpose()?,
            tied: self.flag("tie_word_embeddings")?.unwrap_or(false),
            biases: Biases { qkv: bias, output: bias, mlp: false },
            norm: Norm::Rms,
            attention,
            mamba: mixers.contains(&Mixer::Mamba).then(|| self.granite_mamba()).transpose()?,
            kinds: mixers.into_iter().map(|mixer| LayerKind::of(mixer, ffn)).collect(),
            ..Sizes::default()
        })
    }

    fn granite_mamba(&self) -> Result<Mamba, Diagnostic> {
        Ok(Mamba {
            heads: self.required(&["mamba_n_heads"])?,
            head_size: self.required(&["mamba_d_head"])?,
            state: self.required(&["mamba_d_state"])?,
            groups: self.required(&["mamba_n_groups"])?,
            convolution: self.required(&["mamba_d_conv"])?,
        })
    }

    fn mamba(&self) -> Result<Mamba, Diagnostic> {
        Ok(Mamba {
            heads: self.required(&["mamba_num_heads"])?,
            head_size: self.required(&["mamba_head_dim"])?,
            state: self.required(&["ssm_state_size"])?,
            groups: self.required(&["n_groups", "mamba_n_groups"])?,
            convolution: self.required(&["conv_kernel", "mamba_d_conv"])?,
        })
    }

    fn linear(&self) -> Result<Linear, Diagnostic> {
        Ok(Linear {
            key_heads: self.required(&["linear_num_key_heads"])?,
            value_heads: self.required(&["linear_num_value_heads"])?,
            key_size: self.required(&["linear_key_head_dim"])?,
            value_size: self.required(&["linear_value_head_dim"])?,
            convolution: self.required(&["linear_conv_kernel_dim"])?,
        })
    }

    fn biases(&self, family: &Family) -> Result<Biases, Diagnostic> {
        let flag = |key: &str, unless: bool| Ok(self.flag(key)?.unwrap_or(unless));
        let [qkv, output] = match family.bias {
            AttentionBias::Never => [false, false],
            AttentionBias::Qkv => [true, false],
            AttentionBias::QkvUnless(key) => [flag(key, true)?, false],
            AttentionBias::QkvKey(key) => [flag(key, false)?, false],
            AttentionBias::Key(key) => [flag(key, false)?; 2],
        };
        let mlp = family.mlp_bias && flag("mlp_bias", false)?;
        Ok(Biases { qkv, output, mlp: mlp || (family.expert_bias && qkv) })
    }

    /// The value of `key`, or what the class of `family` takes.
    fn usual(&self, family: &Family, key: &str) -> Result<u64, Diagnostic> {
        let given = self.optional(&[key])?.or(family.default(key));
        given.ok_or_else(|| self.missing(&[key]))
    }

    fn head_size(&self, key: &str, hidden: u64, heads: u64) -> Result<u64, Diagnostic> {
        if heads > 0 && hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        let message = format!("a hidden size of {hidden} cannot be cut into {heads} heads");
        Err(self.file.wrong(key, message))
    }
}
