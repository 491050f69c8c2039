//! A model from the table `[model]`: which keys go together, and what follows where one is left out.

mod layers;

use plan::{
    Attention, Biases, Experts, Indexer, Latent, Linear, Mamba, ModelError, Norm, Sizes,
    Transformer,
};
use question::diagnostic::Diagnostic;

use crate::document::SizesDocument;
use crate::reader::Reader;

/// The default width of convolutions.
const CONVOLUTION: u64 = 4;

/// Keys by their names, and what they say.
type Keys<const N: usize> = [(&'static str, Option<u64>); N];

impl Reader<'_> {
    /// The model of the table `given`.
    pub(crate) fn sizes(
        &self,
        given: &SizesDocument,
        attention: Attention,
    ) -> Result<Transformer, Diagnostic> {
        let Some(sequence) = self.document.sequence else {
            return Err(self.wrong("model", "sequence is missing: the tokens of a sample".into()));
        };
        let latent = self.latent(given)?;
        let indexer = self.indexer(given)?;
        let experts = self.experts(given)?;
        let linear = self.linear(given)?;
        let mamba = self.mamba(given)?;
        let kinds = self.kinds(given, sequence)?;
        let gated = given.gated.unwrap_or(false);
        let bias = given.biases.unwrap_or(!gated);
        let sizes = Sizes {
            layers: given.layers,
            hidden: given.hidden,
            heads: given.heads,
            kv_heads: given.kv_heads.unwrap_or(given.heads),
            head_size: self.head_size(given)?,
            value_size: given.value_size,
            ffn: self.ffn(given)?,
            gated,
            vocabulary: given.vocabulary,
            sequence,
            positions: given.positions.unwrap_or(0),
            experts,
            tied: given.tied.unwrap_or(false),
            biases: Biases { qkv: bias, output: bias, mlp: bias },
            norm: self.norm(given, gated)?,
            qk_norm: given.qk_norm.unwrap_or(false),
            attention,
            latent,
            indexer,
            // A window that no sample fills is none.
            window: given.window.filter(|window| *window == 0 || *window < sequence),
            mamba,
            linear,
            dense_ffn: given.dense_ffn,
            kinds,
            mtp: given.mtp.unwrap_or(0),
            norms: given.norms,
            sinks: given.sinks.unwrap_or(false),
            attention_gate: given.attention_gate.unwrap_or(false),
            shared_gate: given.shared_gate.unwrap_or(false),
            router_bias: given.router_bias.unwrap_or(false),
        };
        Transformer::new(sizes).map_err(|error| self.wrong(place(&error), error.to_string()))
    }

    fn head_size(&self, given: &SizesDocument) -> Result<u64, Diagnostic> {
        let SizesDocument { hidden, heads, .. } = *given;
        match (given.head_size, given.latent_keys) {
            (Some(size), _) => Ok(size),
            (None, Some(_)) => {
                let message =
                    "head-size is missing: with latent-keys it does not follow from heads";
                let cure = "write the size of a head with its rotated part: head-size = 192";
                Err(self.wrong("latent-keys", message.to_owned()).with_help(cure))
            }
            (None, None) if heads > 0 && hidden.is_multiple_of(heads) => Ok(hidden / heads),
            (None, None) => {
                let message = format!("a hidden size of {hidden} cannot be cut into {heads} heads");
                let cure = "give head-size where heads times their size is not the hidden size";
                Err(self.wrong("heads", message).with_help(cure))
            }
        }
    }

    /// The width of the MLP, or of an expert: 4 h is a rule of plain MLPs alone.
    fn ffn(&self, given: &SizesDocument) -> Result<u64, Diagnostic> {
        let of = match (given.experts, given.gated) {
            _ if given.ffn.is_some() => "",
            (Some(_), _) => "experts",
            (None, Some(true)) => "MLPs with a gate",
            (None, _) => "",
        };
        if of.is_empty() {
            return Ok(given.ffn.unwrap_or(given.hidden.saturating_mul(4)));
        }
        let message = format!("ffn is missing: {of} are not 4 times as wide as the hidden size");
        Err(self.wrong("model", message).with_help("write the width of one: ffn = 14336"))
    }

    fn norm(&self, given: &SizesDocument, gated: bool) -> Result<Norm, Diagnostic> {
        match given.norm.as_deref() {
            None => Ok(if gated { Norm::Rms } else { Norm::Layer }),
            Some("rms") => Ok(Norm::Rms),
            Some("layer") => Ok(Norm::Layer),
            Some(other) => {
                Err(self.wrong("norm", format!("norm is `{other}`: write rms or layer")))
            }
        }
    }

    fn latent(&self, given: &SizesDocument) -> Result<Option<Latent>, Diagnostic> {
        match (given.latent_keys, given.rotary_size) {
            (Some(keys), Some(rotary)) => {
                Ok(Some(Latent { query: given.latent_query, keys, rotary }))
            }
            (None, None) if given.latent_query.is_none() => Ok(None),
            (None, None) => {
                let message = "latent-query is given, but not latent-keys".to_owned();
                let cure =
                    "latent attention makes keys and values of a latent too: latent-keys = 512";
                Err(self.wrong("latent-query", message).with_help(cure))
            }
            (Some(_), None) | (None, Some(_)) => {
                let key = if given.latent_keys.is_some() { "latent-keys" } else { "rotary-size" };
                Err(self.wrong(key, "latent-keys and rotary-size belong together".into()))
            }
        }
    }

    fn indexer(&self, given: &SizesDocument) -> Result<Option<Indexer>, Diagnostic> {
        let keys = [
            ("index-heads", given.index_heads),
            ("index-head-size", given.index_head_size),
            ("index-top-k", given.index_top_k),
        ];
        let Some((key, _)) = keys.iter().find(|(_, value)| value.is_some()) else {
            return Ok(None);
        };
        if given.latent_keys.is_none() {
            let cure =
                "an indexer chooses among latents: give latent-keys, rotary-size and head-size";
            let message = format!("{key} is given, but not latent-keys");
            return Err(self.wrong(key, message).with_help(cure));
        }
        let [heads, head_size, top_k] = self.all_of(keys, "layers with an indexer")?;
        Ok(Some(Indexer { heads, head_size, top_k }))
    }

    fn experts(&self, given: &SizesDocument) -> Result<Option<Experts>, Diagnostic> {
        let experts = match (given.experts, given.top_k) {
            (Some(count), Some(top_k)) => {
                Some(Experts { count, top_k, shared: given.shared_ffn.unwrap_or(0) })
            }
            (None, None) => None,
            _ => return Err(self.wrong("experts", "experts and top-k belong together".into())),
        };
        let flag = |value: Option<bool>| value.filter(|value| *value).map(u64::from);
        let of_experts: Keys<6> = [
            ("shared-ffn", given.shared_ffn),
            ("shared-gate", flag(given.shared_gate)),
            ("router-bias", flag(given.router_bias)),
            ("dense-layers", given.dense_layers),
            ("experts-every", given.experts_every),
            ("dense-ffn", given.dense_ffn),
        ];
        if experts.is_none() {
            self.none_of(&of_experts, "there are no experts")?;
        }
        if given.shared_ffn.is_none() {
            self.none_of(&of_experts[1..2], "there is no shared-ffn")?;
        }
        Ok(experts)
    }

    fn mamba(&self, given: &SizesDocument) -> Result<Option<Mamba>, Diagnostic> {
        let keys = [
            ("mamba-heads", given.mamba_heads),
            ("mamba-head-size", given.mamba_head_size),
            ("mamba-state", given.mamba_state),
            ("mamba-groups", given.mamba_groups),
        ];
        let has_layers = given.pattern.as_ref().is_some_and(|pattern| pattern.contains('M'));
        let convolution = ("mamba-convolution", given.mamba_convolution);
        if !has_layers {
            let why = "no layer is of Mamba-2: pattern has no M";
            self.none_of(&keys, why)?;
            self.none_of(&[convolution], why)?;
            return Ok(None);
        }
        let [heads, head_size, state, groups] = self.all_of(keys, "layers of Mamba-2")?;
        let convolution = convolution.1.unwrap_or(CONVOLUTION);
        Ok(Some(Mamba { heads, head_size, state, groups, convolution }))
    }

    fn linear(&self, given: &SizesDocument) -> Result<Option<Linear>, Diagnostic> {
        let keys = [
            ("linear-key-heads", given.linear_key_heads),
            ("linear-value-heads", given.linear_value_heads),
            ("linear-key-size", given.linear_key_size),
            ("linear-value-size", given.linear_value_size),
        ];
        let convolution = ("linear-convolution", given.linear_convolution);
        if keys.iter().all(|(_, value)| value.is_none()) {
            self.none_of(&[convolution], "there is no linear attention")?;
            return Ok(None);
        }
        let [key_heads, value_heads, key_size, value_size] =
            self.all_of(keys, "layers of linear attention")?;
        let convolution = convolution.1.unwrap_or(CONVOLUTION);
        Ok(Some(Linear { key_heads, value_heads, key_size, value_size, convolution }))
    }

    /// Checks that none of `keys` is given: they describe nothing, because of `why`.
    fn none_of(&self, keys: &[(&str, Option<u64>)], why: &str) -> Result<(), Diagnostic> {
        match keys.iter().find(|(_, value)| value.is_some()) {
            Some((key, _)) => Err(self.wrong(key, format!("{key} is given, but {why}"))),
            None => Ok(()),
        }
    }

    /// The values of all `keys`, which `of` needs.
    fn all_of<const N: usize>(&self, keys: Keys<N>, of: &str) -> Result<[u64; N], Diagnostic> {
        if let Some((missing, _)) = keys.iter().find(|(_, value)| value.is_none()) {
            let given = keys.iter().find(|(_, value)| value.is_some());
            let key = given.map_or("model", |(key, _)| key);
            return Err(self.wrong(key, format!("{missing} is missing: {of} need it")));
        }
        Ok(keys.map(|(_, value)| value.unwrap_or_default()))
    }
}

/// The key that an error is about.
fn place(error: &ModelError) -> &'static str {
    match error {
        ModelError::Size { what, .. }
        | ModelError::Groups { what, .. }
        | ModelError::Missing { what, .. } => what,
        ModelError::KvHeads { .. } | ModelError::LatentHeads { .. } => "kv-heads",
        ModelError::Rotary { .. } => "rotary-size",
        ModelError::TopK { .. } => "top-k",
        ModelError::Positions { .. } => "positions",
        ModelError::Parameters
        | ModelError::Kinds { .. }
        | ModelError::Empty
        | ModelError::ManyKinds => "layers",
    }
}

#[cfg(test)]
mod tests;
