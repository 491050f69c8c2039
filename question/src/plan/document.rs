//! The tables of a question, as TOML spells them.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use pipeline::Bytes;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use crate::keys::{list, text};
use crate::noise::syntax::{Slowdown, Stall, Straggler};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    pub(super) title: Option<String>,
    /// A config of Hugging Face, relative to the question, or the sizes.
    pub(super) model: ModelDocument,
    pub(super) sequence: Option<u64>,
    pub(super) attention: Option<String>,
    pub(super) tokens: f64,
    pub(super) batch: u64,
    pub(super) deadline_days: Option<f64>,
    pub(super) price: Option<String>,
    pub(super) framework: Option<String>,
    pub(super) plans: Option<u64>,
    pub(super) cluster: Vec<ClusterDocument>,
    #[serde(default)]
    pub(super) search: SearchDocument,
    #[serde(default)]
    pub(super) training: TrainingDocument,
    #[serde(default)]
    pub(super) noise: NoiseDocument,
}

pub(super) enum ModelDocument {
    File(PathBuf),
    Sizes(SizesDocument),
}

/// By hand, so that what is wrong in a table is said where it stands.
impl<'de> Deserialize<'de> for ModelDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModelVisitor)
    }
}

struct ModelVisitor;

impl<'de> Visitor<'de> for ModelVisitor {
    type Value = ModelDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a config.json, or a table of sizes")
    }

    fn visit_str<E>(self, name: &str) -> Result<ModelDocument, E> {
        Ok(ModelDocument::File(PathBuf::from(name)))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<ModelDocument, M::Error> {
        SizesDocument::deserialize(MapAccessDeserializer::new(map)).map(ModelDocument::Sizes)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SizesDocument {
    pub(super) layers: u64,
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: Option<u64>,
    /// Hidden size over heads, unless given.
    pub(super) head_size: Option<u64>,
    pub(super) qk_norm: Option<bool>,
    pub(super) ffn: Option<u64>,
    pub(super) gated: Option<bool>,
    pub(super) vocabulary: u64,
    pub(super) positions: Option<u64>,
    pub(super) experts: Option<u64>,
    pub(super) top_k: Option<u64>,
    pub(super) tied: Option<bool>,
    pub(super) biases: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ClusterDocument {
    pub(super) machine: Option<String>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(super) devices: Option<Vec<u64>>,
    pub(super) parts: Option<Vec<PartDocument>>,
    /// The profile that `debubble calibrate` measured of the model on the machine.
    pub(super) profile: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct PartDocument {
    pub(super) machine: String,
    pub(super) devices: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct SearchDocument {
    #[serde(deserialize_with = "one_or_many")]
    pub(super) tensor: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) pipeline: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) context: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) expert: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) zero: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) microbatch: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) chunks: Option<Vec<u64>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) schedule: Option<Vec<String>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) recompute: Option<Vec<String>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) split: Option<Vec<String>>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) vocabulary_parallel: Option<Vec<bool>>,
    /// The most that a plan may hold of a device.
    #[serde(default, deserialize_with = "text")]
    pub(super) memory_cap: Option<Bytes>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TrainingDocument {
    pub(super) gradient_bytes: Option<u64>,
    pub(super) optimizer_bytes: Option<u64>,
    pub(super) sequence_parallel: Option<bool>,
    pub(super) overlap_gradients: Option<bool>,
    pub(super) loss: Option<String>,
    pub(super) boundary: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) reserved: Option<Bytes>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct NoiseDocument {
    pub(super) jitter: Option<f64>,
    #[serde(default, deserialize_with = "text")]
    pub(super) stall: Option<Stall>,
    #[serde(default, deserialize_with = "text")]
    pub(super) straggler: Option<Straggler>,
    #[serde(default, deserialize_with = "list")]
    pub(super) slowdown: Option<Vec<Slowdown>>,
    pub(super) replicas: Option<u64>,
    pub(super) seed: Option<u64>,
}

/// Reads a list; a single value is a list of one.
fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_any(OneOrMany(PhantomData)).map(Some)
}

struct OneOrMany<T>(PhantomData<T>);

impl<T> OneOrMany<T> {
    fn one<'de, V, E>(value: V) -> Result<Vec<T>, E>
    where
        T: Deserialize<'de>,
        V: IntoDeserializer<'de, E>,
        E: serde::de::Error,
    {
        T::deserialize(value.into_deserializer()).map(|one| vec![one])
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Vec<T>, E> {
        Self::one(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}
