//! The layers of a model, in words, where they differ from each other or are not plain.

use plan::{Ffn, LayerKind, Mixer, Transformer, number};

/// Its layers by kind, latents, indexers, shared experts and layers of multi-token prediction; nothing where all
/// layers have attention to all tokens of queries, keys and values, and one MLP or routed experts alone.
pub(super) fn layers(model: &Transformer) -> Option<String> {
    let kinds = shapes(model);
    let is_plain =
        matches!(kinds[..], [(only, _)] if only.mixer == Mixer::Full && only.ffn != Ffn::None);
    let mut parts = Vec::new();
    if !is_plain {
        let own = kinds.iter();
        parts.extend(own.map(|(kind, count)| format!("{count} with {}", words(model, *kind))));
    }
    let mut more = Vec::new();
    if let Some(latent) = model.latent {
        more.push(match latent.query {
            Some(query) => {
                format!("queries of a latent of {query}, keys and values of one of {}", latent.keys)
            }
            None => format!("keys and values of a latent of {}", latent.keys),
        });
    }
    if let Some(index) = model.indexer {
        let heads = format!("an indexer with {} heads of {}", index.heads, index.head_size);
        more.push(format!("{heads} chooses {} keys of a token", index.top_k));
    }
    if let Some(experts) = model.experts.filter(|experts| experts.shared > 0) {
        more.push(format!("shared experts {} wide", experts.shared));
    }
    if model.mtp > 0 {
        more.push(format!("{} behind them for multi-token prediction", model.mtp));
    }
    let all = [parts.join(", "), more.join("; ")];
    let all: Vec<String> = all.into_iter().filter(|part| !part.is_empty()).collect();
    (!all.is_empty()).then(|| format!("layers: {}", all.join("; ")))
}

/// The kinds of layers, whatever is trained of them, each with its number.
fn shapes(model: &Transformer) -> Vec<(LayerKind, u64)> {
    let mut all: Vec<(LayerKind, u64)> = Vec::new();
    let counts = model.counts(0..model.layers);
    for (kind, count) in model.layer_kinds().iter().zip(counts.iter()) {
        match all.iter_mut().find(|(known, _)| *known == kind.shape()) {
            Some((_, known)) => *known += count,
            None => all.push((kind.shape(), count)),
        }
    }
    all
}

/// What is trained, where that is not all, in words.
pub(super) fn trained(model: &Transformer) -> Option<String> {
    let frozen = model.frozen();
    if frozen.is_none() {
        return None;
    }
    let trained = format!("trained: {:.6} B", number(model.trained_parameters()) / 1e9);
    let layers: Vec<String> =
        frozen.layers.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
    let parts = [
        (frozen.embedding && frozen.adapters.is_none()).then(|| "embedding".to_owned()),
        (frozen.head && frozen.adapters.is_none()).then(|| "head".to_owned()),
        (!layers.is_empty()).then(|| format!("layers {}", layers.join(", "))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let adapters = frozen.adapters.map(|one| {
        format!("adapters of rank {} for {}; all other weights are frozen", one.rank, one.targets)
    });
    let left_out = (!parts.is_empty()).then(|| match frozen.adapters {
        Some(_) => format!("no adapters in {}", parts.join(", ")),
        None => format!("frozen are {}", parts.join(", ")),
    });
    let all: Vec<String> = [Some(trained), adapters, left_out].into_iter().flatten().collect();
    Some(all.join("; "))
}

/// A kind of layers in words.
fn words(model: &Transformer, kind: LayerKind) -> String {
    let mixer = match (kind.mixer, model.window) {
        (Mixer::Full, _) => "attention".to_owned(),
        (Mixer::Window, window) => format!("attention to {} tokens", window.unwrap_or(0)),
        (Mixer::Mamba, _) => "Mamba-2".to_owned(),
        (Mixer::Linear, _) => "linear attention".to_owned(),
        (Mixer::None, _) => String::new(),
    };
    let ffn = match kind.ffn {
        Ffn::Dense => "an MLP",
        Ffn::Experts => "experts",
        Ffn::None => "",
    };
    let both = [mixer.as_str(), ffn];
    let parts: Vec<&str> = both.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" and ")
}

#[cfg(test)]
mod tests {
    use plan::{Experts, Indexer, Latent, Sizes};

    use super::*;

    fn plain() -> Sizes {
        Sizes {
            layers: 3,
            hidden: 64,
            heads: 4,
            kv_heads: 4,
            head_size: 16,
            ffn: 128,
            vocabulary: 1000,
            sequence: 512,
            ..Sizes::default()
        }
    }

    fn said(sizes: Sizes) -> Option<String> {
        layers(&Transformer::new(sizes).unwrap())
    }

    #[test]
    fn what_is_not_plain_is_said() {
        assert_eq!(said(plain()), None);
        let experts = Experts { count: 8, top_k: 2, shared: 0 };
        assert_eq!(said(Sizes { experts: Some(experts), ..plain() }), None);
        let dense = LayerKind::default();
        let sparse = LayerKind { ffn: Ffn::Experts, ..dense };
        let deepseek = Sizes {
            experts: Some(Experts { shared: 256, ..experts }),
            latent: Some(Latent { query: Some(48), keys: 32, rotary: 4 }),
            kinds: vec![dense, sparse, sparse],
            mtp: 1,
            ..plain()
        };
        let words = "layers: 1 with attention and an MLP, 2 with attention and experts; queries of a \
                     latent of 48, keys and values of one of 32; shared experts 256 wide; 1 behind them \
                     for multi-token prediction";
        assert_eq!(said(deepseek.clone()).as_deref(), Some(words));
        let indexer = Some(Indexer { heads: 8, head_size: 32, top_k: 64 });
        let sparse = said(Sizes { indexer, ..deepseek }).unwrap();
        assert!(
            sparse.contains("; an indexer with 8 heads of 32 chooses 64 keys of a token; shared")
        );
        let window = LayerKind { mixer: Mixer::Window, ..dense };
        let kinds = vec![window, dense, window];
        let gemma = Sizes { window: Some(128), kinds, ..plain() };
        let words =
            "layers: 2 with attention to 128 tokens and an MLP, 1 with attention and an MLP";
        assert_eq!(said(gemma).as_deref(), Some(words));
    }
}
