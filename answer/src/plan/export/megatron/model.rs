//! The model as arguments of Megatron-LM.

use plan::{Ffn, LayerKind, Mixer, Norm, Transformer};

/// The arguments of `model`, with comments on features that have no argument.
pub(super) fn arguments(model: &Transformer, rotary_base: Option<u64>) -> Vec<String> {
    let mut lines = vec![
        format!("--num-layers {}", model.layers),
        format!("--hidden-size {}", model.hidden),
        format!("--ffn-hidden-size {}", model.dense_width()),
        format!("--num-attention-heads {}", model.heads),
    ];
    lines.extend(attention(model));
    lines.extend(mixers(model));
    let mut add = |line: &str| lines.push(line.to_owned());
    if !model.biases.mlp {
        add("--disable-bias-linear");
        if model.biases.qkv {
            add("--add-qkv-bias");
        }
    }
    if model.gated {
        add("--swiglu");
    }
    if model.norm == Norm::Rms {
        add("--normalization RMSNorm");
    }
    if let Some(norms) = unusual_norms(model) {
        add(&format!(
            "# {norms} normalisations a layer: a layer spec of its own (--spec) has them"
        ));
    }
    if model.positions == 0 {
        add("--position-embedding-type rope");
        match rotary_base {
            Some(base) => add(&format!("--rotary-base {base}")),
            None => add("# --rotary-base: that of the model, 10000 by default"),
        }
    }
    lines.extend(experts(model));
    let mut add = |line: String| lines.push(line);
    if model.mtp > 0 {
        add(format!("--mtp-num-layers {}", model.mtp));
    }
    if !model.tied {
        add("--untie-embeddings-and-output-weights".to_owned());
    }
    add(format!("--vocab-size {}", model.vocabulary));
    add(format!("--seq-length {}", model.sequence));
    add(format!("--max-position-embeddings {}", model.positions.max(model.sequence)));
    lines
}

/// Normalisations of a layer where they are not those of Megatron-LM: one before each part of it.
fn unusual_norms(model: &Transformer) -> Option<u64> {
    let usual =
        |kind: &LayerKind| u64::from(kind.mixer != Mixer::None) + u64::from(kind.ffn != Ffn::None);
    let norms = model.norms?;
    model.layer_kinds().iter().any(|kind| usual(kind) != norms).then_some(norms)
}

/// Heads, and the latents of MLA.
fn attention(model: &Transformer) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |line: String| lines.push(line);
    if model.kv_heads != model.heads {
        add("--group-query-attention".to_owned());
        add(format!("--num-query-groups {}", model.kv_heads));
    }
    if let Some(latent) = model.latent {
        add("--multi-latent-attention".to_owned());
        if let Some(query) = latent.query {
            add(format!("--q-lora-rank {query}"));
        }
        add(format!("--kv-lora-rank {}", latent.keys));
        add(format!("--qk-head-dim {}", model.head_size - latent.rotary));
        add(format!("--qk-pos-emb-head-dim {}", latent.rotary));
        add(format!("--v-head-dim {}", model.value_head_size()));
        indexer(model).into_iter().for_each(&mut add);
    } else {
        if model.heads * model.head_size != model.hidden {
            add(format!("--kv-channels {}", model.head_size));
        }
        if model.value_head_size() != model.head_size {
            add("# value-size: without latents Megatron-LM has values as wide as keys".to_owned());
        }
    }
    // The normalisations of latents are under this argument too.
    if model.qk_norm || model.latent.is_some() {
        add("--qk-layernorm".to_owned());
    }
    if model.sinks {
        add("--softmax-type learnable".to_owned());
    }
    if model.attention_gate {
        add("--attention-output-gate".to_owned());
    }
    lines
}

/// The indexer of sparse attention, whose loss and fused kernels are off by default. Its attention has neither a fused
/// rotation nor a ring of context groups.
fn indexer(model: &Transformer) -> Vec<String> {
    let Some(indexer) = model.indexer else { return Vec::new() };
    let lines = [
        "--experimental-attention-variant dsa".to_owned(),
        format!("--dsa-indexer-n-heads {}", indexer.heads),
        format!("--dsa-indexer-head-dim {}", indexer.head_size),
        format!("--dsa-indexer-topk {}", indexer.top_k),
        "--dsa-indexer-use-sparse-loss".to_owned(),
        "# --dsa-indexer-loss-coeff: that of Megatron-LM's own test, give yours".to_owned(),
        "--dsa-indexer-loss-coeff 0.01".to_owned(),
        "--dsa-kernel-backend cudnn".to_owned(),
        "--no-rope-fusion".to_owned(),
        "--cp-comm-type allgather".to_owned(),
    ];
    lines.into()
}

/// Windows, linear attention and Mamba-2.
fn mixers(model: &Transformer) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |line: String| lines.push(line);
    let has = |mixer: Mixer| model.layer_kinds().iter().any(|kind| kind.mixer == mixer);
    let is_not_full = |kind: LayerKind| kind.mixer != Mixer::Full;
    if let Some(window) = model.window.filter(|_| has(Mixer::Window)) {
        // Tokens before and behind a token, which is one of the window itself.
        add(format!("--window-size {},0", window - 1));
        if has(Mixer::Full) {
            add(format!("--window-attn-skip-freq {}", frequency(model, is_not_full, 0)));
        }
    }
    if let Some(linear) = model.linear.filter(|_| has(Mixer::Linear)) {
        add("--experimental-attention-variant gdn".to_owned());
        add(format!("--linear-attention-freq {}", frequency(model, is_not_full, 0)));
        add(format!("--linear-conv-kernel-dim {}", linear.convolution));
        add(format!("--linear-num-key-heads {}", linear.key_heads));
        add(format!("--linear-num-value-heads {}", linear.value_heads));
        add(format!("--linear-key-head-dim {}", linear.key_size));
        add(format!("--linear-value-head-dim {}", linear.value_size));
    }
    if let Some(mamba) = model.mamba.filter(|_| has(Mixer::Mamba)) {
        add(format!("--mamba-num-heads {}", mamba.heads));
        add(format!("--mamba-head-dim {}", mamba.head_size));
        add(format!("--mamba-state-dim {}", mamba.state));
        add(format!("--mamba-num-groups {}", mamba.groups));
    }
    lines
}

/// Experts, those that are shared, and the layers without.
fn experts(model: &Transformer) -> Vec<String> {
    let Some(experts) = model.experts else { return Vec::new() };
    let mut lines = vec![
        format!("--num-experts {}", experts.count),
        format!("--moe-ffn-hidden-size {}", model.ffn),
        format!("--moe-router-topk {}", experts.top_k),
    ];
    let mut add = |line: String| lines.push(line);
    if experts.shared > 0 {
        add(format!("--moe-shared-expert-intermediate-size {}", experts.shared));
        if model.shared_gate {
            add("--moe-shared-expert-gate".to_owned());
        }
    }
    let is_dense = model.layer_kinds().iter().any(|kind| kind.ffn == Ffn::Dense);
    if is_dense && !is_hybrid(model) {
        let has_experts = |kind: LayerKind| kind.ffn == Ffn::Experts;
        add(format!("--moe-layer-freq {}", frequency(model, has_experts, 1)));
    }
    // The bias of a router is learned where linear layers have biases, and else keeps experts in balance.
    if model.router_bias && !model.biases.mlp {
        add("--moe-router-score-function sigmoid".to_owned());
        add("--moe-router-enable-expert-bias".to_owned());
    }
    lines
}

/// Which layers are of a kind, as a list in Python's words: `[0]*3+[1]*58`. Where the last of every n layers
/// alone has the value `rare`, Megatron-LM takes n, but for experts, whose n it counts from the first.
fn frequency(model: &Transformer, is: impl Fn(LayerKind) -> bool, rare: u8) -> String {
    let of: Vec<u8> = (0..model.layers).map(|layer| u8::from(is(model.kind_of(layer)))).collect();
    let first = of.iter().position(|one| *one == rare).unwrap_or(0);
    let periodic = of
        .iter()
        .enumerate()
        .all(|(at, one)| (*one == rare) == ((at + 1).is_multiple_of(first + 1)));
    if rare == 0 && periodic {
        return (first + 1).to_string();
    }
    let runs = of.chunk_by(|one, next| one == next);
    let runs: Vec<String> = runs.map(|run| format!("[{}]*{}", run[0], run.len())).collect();
    format!("'{}'", runs.join("+"))
}

/// Whether each layer of `model` is one part alone, which Megatron-LM writes as letters.
pub(super) fn is_hybrid(model: &Transformer) -> bool {
    model.layer_kinds().iter().all(|kind| kind.letter().is_some())
}

/// The letters of the layers of a hybrid, with a stroke where a chunk of `layers` ends; behind them those of
/// multi-token prediction.
pub(super) fn hybrid_pattern(model: &Transformer, layers: &[u64]) -> String {
    let letter = |layer: u64| model.kind_of(layer).letter();
    let mut from = 0;
    let chunks: Vec<String> = layers
        .iter()
        .map(|count| {
            let own = from..(from + count).min(model.layers);
            from = own.end;
            own.filter_map(letter).collect()
        })
        .collect();
    let predicted = (0..model.mtp).map(|_| model.mtp_kind().letter());
    let predicted: String = predicted.flatten().map(|letter| format!("/{letter}")).collect();
    format!("--hybrid-layer-pattern '{}{predicted}'", chunks.join("|"))
}

#[cfg(test)]
mod tests {
    use plan::Sizes;

    use super::*;

    fn model(kinds: Vec<LayerKind>) -> Transformer {
        let experts = plan::Experts { count: 4, top_k: 2, shared: 0 };
        let mamba = plan::Mamba { heads: 8, head_size: 8, state: 16, groups: 1, convolution: 4 };
        let sizes = Sizes {
            layers: kinds.len() as u64,
            hidden: 64,
            heads: 4,
            kv_heads: 4,
            head_size: 16,
            ffn: 128,
            vocabulary: 1000,
            sequence: 512,
            experts: Some(experts),
            window: Some(128),
            mamba: Some(mamba),
            dense_ffn: Some(256),
            kinds,
            ..Sizes::default()
        };
        Transformer::new(sizes).unwrap()
    }

    fn line(model: &Transformer, flag: &str) -> Option<String> {
        let lines = arguments(model, None);
        let own = lines.into_iter().find(|line| line.split(' ').next() == Some(flag));
        own.map(|line| line.split_once(' ').map_or(String::new(), |(_, value)| value.to_owned()))
    }

    #[test]
    fn layers_are_written_as_megatron_reads_them() {
        let full = LayerKind::default();
        let sparse = LayerKind { ffn: Ffn::Experts, ..full };
        let window = LayerKind { mixer: Mixer::Window, ..full };
        let first = model(vec![full, sparse, sparse, sparse]);
        assert_eq!(line(&first, "--moe-layer-freq").as_deref(), Some("'[0]*1+[1]*3'"));
        assert_eq!(line(&first, "--ffn-hidden-size").as_deref(), Some("256"));
        assert_eq!(line(&first, "--moe-ffn-hidden-size").as_deref(), Some("128"));
        let last = model(vec![full, sparse, full, sparse]);
        let listed = "'[0]*1+[1]*1+[0]*1+[1]*1'";
        assert_eq!(line(&last, "--moe-layer-freq").as_deref(), Some(listed));
        let windows = model(vec![window, window, full, window, window, full, window]);
        assert_eq!(line(&windows, "--window-attn-skip-freq").as_deref(), Some("3"));
        assert_eq!(line(&windows, "--window-size").as_deref(), Some("127,0"));
        let odd = model(vec![full, window, window]);
        assert_eq!(line(&odd, "--window-attn-skip-freq").as_deref(), Some("'[0]*1+[1]*2'"));
        let all = model(vec![window, window]);
        assert_eq!(line(&all, "--window-attn-skip-freq"), None);
        assert!(!is_hybrid(&all));
    }

    /// What is read of it again is held in tests/it/import.rs.
    #[test]
    fn an_indexer_is_written_as_megatron_reads_it() {
        let indexer = plan::Indexer { heads: 8, head_size: 32, top_k: 64 };
        let latent = plan::Latent { query: Some(24), keys: 12, rotary: 4 };
        let dense = model(vec![LayerKind::default(); 2]);
        let sizes = Sizes { indexer: Some(indexer), latent: Some(latent), ..(*dense).clone() };
        let sparse = Transformer::new(sizes).unwrap();
        for (flag, value) in [
            ("--experimental-attention-variant", "dsa"),
            ("--dsa-indexer-n-heads", "8"),
            ("--dsa-indexer-head-dim", "32"),
            ("--dsa-indexer-topk", "64"),
            ("--cp-comm-type", "allgather"),
        ] {
            assert_eq!(line(&sparse, flag).as_deref(), Some(value));
            assert_eq!(line(&dense, flag), None);
        }
    }

    #[test]
    fn hybrids_are_letters_with_a_stroke_between_chunks() {
        let kinds: Option<Vec<LayerKind>> = "MEM*E-".chars().map(LayerKind::of_letter).collect();
        let hybrid = model(kinds.unwrap());
        assert!(is_hybrid(&hybrid));
        let pattern = hybrid_pattern(&hybrid, &[2, 3, 1]);
        assert_eq!(pattern, "--hybrid-layer-pattern 'ME|M*E|-'");
        assert_eq!(line(&hybrid, "--moe-layer-freq"), None);
        assert_eq!(line(&hybrid, "--mamba-num-heads").as_deref(), Some("8"));
        let more = Transformer::new(Sizes { mtp: 2, ..(*hybrid).clone() }).unwrap();
        // Layers behind the last are of multi-token prediction.
        assert_eq!(hybrid_pattern(&more, &[8]), "--hybrid-layer-pattern 'MEM*E-/-/-'");
    }
}
