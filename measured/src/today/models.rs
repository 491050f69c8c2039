//! The models of the rows, from the table of their sizes.

use plan::{
    Attention, Biases, Experts, Ffn, Latent, LayerKind, Mamba, Mixer, Norm, Sizes, Transformer,
};
use scenarios::PAPER;
use serde::Deserialize;

use super::super::rows::table;

const MODELS: &str = PAPER.text("today-models.csv");
/// The vocabulary of GPT-3, padded as MLPerf pads it.
const GPT3_VOCABULARY: u64 = 51_200;
/// The width of the convolution of Mamba-2, in all its models.
const CONVOLUTION: u64 = 4;

/// A line of the table: sizes as its columns name them.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    name: String,
    layers: u64,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    ffn: Option<u64>,
    gated_ffn: String,
    vocab: u64,
    experts: Option<u64>,
    experts_per_token: Option<u64>,
    moe_ffn: Option<u64>,
    shared_ffn_total: Option<u64>,
    first_dense_layers: Option<u64>,
    q_lora_rank: Option<u64>,
    kv_lora_rank: Option<u64>,
    qk_rope_dim: Option<u64>,
    v_head_dim: Option<u64>,
    mtp_layers: u64,
    tied: String,
    qk_norm: String,
    bias: String,
    sliding_window: Option<u64>,
    sliding_pattern: String,
    layer_pattern: String,
    mamba_heads: Option<u64>,
    mamba_head_dim: Option<u64>,
    mamba_state: Option<u64>,
    mamba_groups: Option<u64>,
    note: String,
    #[cfg(test)]
    counted_total_b: f64,
}

/// The sizes of all models that rows may name.
pub(super) struct Models(Vec<Line>);

/// A model of a row, before it is known how it is trained.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    line: &'a Line,
    layers: u64,
    /// The first so many layers have an MLP instead of experts.
    dense: u64,
}

impl Models {
    /// The models of the table.
    pub(super) fn read() -> Result<Self, String> {
        table(MODELS).map(Self)
    }

    /// The model that rows call `name`.
    pub(super) fn named(&self, name: &str) -> Option<Model<'_>> {
        let (known, cut) = match name {
            "llama3.1-8b" => ("llama3-8b", None),
            "llama3.1-70b" => ("llama3-70b", None),
            "deepseekv2" => ("deepseek-v2", None),
            // The model of torchtitan's configuration of this name.
            "deepseek-v3-16b" => ("deepseek-v2-lite", None),
            // The number of its dense layers is not published: one is assumed.
            "deepseek-v3 cut to 14 layers" => ("deepseek-v3-671b", Some((14, 1))),
            own => (own, None),
        };
        let line = self.0.iter().find(|line| line.name == known)?;
        let (layers, dense) = cut.unwrap_or((line.layers, line.first_dense_layers.unwrap_or(0)));
        Some(Model { line, layers, dense })
    }
}

impl Model<'_> {
    pub(super) fn name(&self) -> &str {
        &self.line.name
    }

    pub(super) fn has_experts(&self) -> bool {
        self.line.experts.is_some()
    }

    /// Whether its activation function has a gate.
    pub(super) fn is_gated(&self) -> bool {
        self.line.gated_ffn == "yes"
    }

    /// Layers of multi-token prediction that it has.
    pub(super) fn mtp(&self) -> u64 {
        self.line.mtp_layers
    }

    /// The same with its first `layers` alone.
    pub(super) fn cut_to(self, layers: u64) -> Self {
        Self { layers, dense: self.dense.min(layers), ..self }
    }

    /// Whether layers are left out of it.
    pub(super) fn is_cut(&self) -> bool {
        self.layers != self.line.layers
    }

    pub(super) fn layers(&self) -> u64 {
        self.layers
    }

    /// The model on sequences of this length, with its MTP layers if `mtp`.
    pub(super) fn transformer(&self, sequence: u64, mtp: bool) -> Result<Transformer, String> {
        Transformer::new(self.sizes(sequence, mtp)).map_err(|error| error.to_string())
    }

    fn sizes(&self, sequence: u64, mtp: bool) -> Sizes {
        let Self { line, layers, .. } = *self;
        let is_gpt3 = line.name == "gpt3-175b";
        let is = |cell: &str| cell == "yes";
        let experts = line.experts.map(|count| Experts {
            count,
            top_k: line.experts_per_token.unwrap_or(1),
            shared: line.shared_ffn_total.unwrap_or(0),
        });
        let ffn = line.moe_ffn.or(line.ffn).unwrap_or(0);
        Sizes {
            layers,
            hidden: line.hidden,
            heads: line.heads,
            kv_heads: line.kv_heads,
            head_size: line.head_dim,
            ffn,
            gated: is(&line.gated_ffn),
            vocabulary: if is_gpt3 { GPT3_VOCABULARY } else { line.vocab },
            sequence,
            positions: if is_gpt3 { sequence } else { 0 },
            experts,
            tied: is(&line.tied),
            biases: Biases { qkv: is(&line.bias), output: is(&line.bias), mlp: is(&line.bias) },
            norm: if is_gpt3 || line.note.contains("LayerNorm") { Norm::Layer } else { Norm::Rms },
            qk_norm: is(&line.qk_norm),
            attention: Attention::Flash,
            value_size: line.v_head_dim,
            indexer: None,
            latent: line.kv_lora_rank.map(|keys| Latent {
                query: line.q_lora_rank.filter(|rank| *rank > 0),
                keys,
                rotary: line.qk_rope_dim.unwrap_or(0),
            }),
            window: line.sliding_window,
            mamba: line.mamba_heads.map(|heads| Mamba {
                heads,
                head_size: line.mamba_head_dim.unwrap_or(0),
                state: line.mamba_state.unwrap_or(0),
                groups: line.mamba_groups.unwrap_or(0),
                convolution: CONVOLUTION,
            }),
            linear: None,
            dense_ffn: line.ffn.filter(|_| experts.is_some()),
            kinds: (0..layers).map(|layer| self.kind(layer)).collect(),
            mtp: if mtp { line.mtp_layers } else { 0 },
            norms: self.norms(),
            sinks: line.name.starts_with("gpt-oss"),
            attention_gate: false,
            shared_gate: false,
            router_bias: line.name.starts_with("gpt-oss") || line.v_head_dim.is_some(),
        }
    }

    /// Normalisations of a layer, where they are not the usual two.
    fn norms(&self) -> Option<u64> {
        if !self.line.layer_pattern.is_empty() {
            // Layers of hybrids mix tokens or have an MLP, with one norm each.
            return Some(1);
        }
        self.line.name.starts_with("gemma").then_some(4)
    }

    /// The kind of layer `layer`, from 0.
    fn kind(&self, layer: u64) -> LayerKind {
        let line = self.line;
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        match line.layer_pattern.as_bytes().get(at) {
            Some(b'M') => return LayerKind::of(Mixer::Mamba, Ffn::None),
            Some(b'*') => return LayerKind::of(Mixer::Full, Ffn::None),
            Some(b'E') => return LayerKind::of(Mixer::None, Ffn::Experts),
            Some(_) => return LayerKind::of(Mixer::None, Ffn::Dense),
            None => {}
        }
        let mixer = match line.sliding_pattern.as_str() {
            "sliding, full alternating" if layer.is_multiple_of(2) => Mixer::Window,
            "5 sliding, 1 full" if layer % 6 != 5 => Mixer::Window,
            _ => Mixer::Full,
        };
        let alternates = line.sliding_pattern == "dense, experts alternating";
        let is_dense =
            line.experts.is_none() || layer < self.dense || alternates && layer.is_multiple_of(2);
        LayerKind::of(mixer, if is_dense { Ffn::Dense } else { Ffn::Experts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_of_the_table_is_a_transformer() {
        let models = Models::read().unwrap();
        assert!(models.0.len() >= 21);
        for line in &models.0 {
            let model = models.named(&line.name).unwrap();
            let transformer = model.transformer(2048, true).unwrap();
            assert_eq!(transformer.layers, line.layers);
            let counted = transformer.parameters() as f64 / 1e9;
            if line.name != "gpt3-175b" {
                assert!((counted - line.counted_total_b).abs() < 6e-4, "{}: {counted}", line.name);
            }
        }
        assert!(models.named("deepseek-v4-flash").is_none());
    }

    #[test]
    fn layers_are_of_the_kinds_that_the_table_says() {
        let models = Models::read().unwrap();
        let count = |name: &str, is: fn(&LayerKind) -> bool| {
            let model = models.named(name).unwrap();
            (0..model.layers()).filter(|layer| is(&model.kind(*layer))).count()
        };
        assert_eq!(count("deepseek-v3-671b", |kind| kind.ffn == Ffn::Dense), 3);
        assert_eq!(count("gpt-oss-120b", |kind| kind.mixer == Mixer::Window), 18);
        assert_eq!(count("gemma-3-27b", |kind| kind.mixer == Mixer::Full), 10);
        assert_eq!(count("nemotron-h-8b", |kind| kind.mixer == Mixer::Full), 4);
        assert_eq!(count("nemotron-3-nano-30b-a3b", |kind| kind.ffn == Ffn::Experts), 23);
        let cut = models.named("deepseek-v3 cut to 14 layers").unwrap();
        assert_eq!((cut.layers(), cut.mtp()), (14, 1));
    }
}
