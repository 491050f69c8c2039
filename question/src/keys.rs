//! The keys of a question: the same words as flags and in scenario files.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pipeline::{Bandwidth, Bytes, Limit, Nanos, as_text};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;

use crate::case::{Barriers, Ratio};
use crate::hardware::keys::HardwareKeys;
use crate::host::Context;
#[cfg(any(feature = "clap", feature = "schema"))]
use crate::noise::syntax::jitter_help;
use crate::noise::syntax::{JitterOf, Slowdown, Stall};

/// The keys of a question about schedules. All of them are optional here: keys that are missing are named
/// when they are needed.
///
/// Keys are written and read as in scenario files: names with dashes, values with units as text, lists or
/// a single value, and nothing for keys that are not given.
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default, remote = "Self")]
#[cfg_attr(feature = "clap", command(next_help_heading = "The question"))]
pub struct Keys {
    /// Schedules to compare: names (see `debubble schedules`), files in the text form, or `all`
    /// for every one (simulate, sweep)
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE,..", value_delimiter = ','))]
    #[serde(deserialize_with = "list")]
    pub schedule: Option<Vec<String>>,
    /// Stages of the pipeline, p
    #[cfg_attr(feature = "clap", arg(long, value_name = "P", allow_negative_numbers = true))]
    pub stages: Option<u64>,
    /// Microbatches per step, m
    #[cfg_attr(feature = "clap", arg(long, value_name = "M", allow_negative_numbers = true))]
    pub microbatches: Option<u64>,
    /// Chunks per stage, v, for interleaved schedules
    #[cfg_attr(feature = "clap", arg(long, value_name = "V", allow_negative_numbers = true))]
    pub chunks: Option<u64>,
    /// Microbatches that go through a chunk one after the other, g, for gis [default: p]
    #[cfg_attr(feature = "clap", arg(long, value_name = "G", allow_negative_numbers = true))]
    pub group: Option<u64>,
    /// Segments of the sequence into which each microbatch is cut, k, for seq1f1b [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "K", allow_negative_numbers = true))]
    pub segments: Option<u64>,
    /// Times, hop and memory as `debubble calibrate` measured them, wherever no other key gives
    /// them; in a scenario, relative to its folder
    #[cfg_attr(feature = "clap", arg(long, value_name = "PROFILE.toml"))]
    pub profile: Option<PathBuf>,
    /// Layers of the whole model, for --profile and for `debubble execute`: cut into chunks as evenly
    /// as can be
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_negative_numbers = true))]
    pub layers: Option<u64>,
    /// F: forward time of a stage and microbatch; or one per stage, or one per chunk
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub forward: Option<Vec<Nanos>>,
    /// Backward time as profilers measure it, B and W together, in place of both; likewise. Split by
    /// FLOPs where --hidden and --seq are given, else into halves
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub backward: Option<Vec<Nanos>>,
    /// B: backward time for the input gradient; likewise
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub backward_input: Option<Vec<Nanos>>,
    /// W: backward time for the weight gradient; likewise
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub backward_weight: Option<Vec<Nanos>>,
    /// Latency of one transfer between two stages [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub hop: Option<Nanos>,
    /// Memory limit of every stage: `1.5p` (times the activations of p microbatches) or `38GiB`; or
    /// one per stage
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "LIMIT,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub memory_limit: Option<Vec<Limit>>,
    /// Hidden size h; with --heads and --seq: 34h+5as bytes held between F and B, 32h between B
    /// and W, per layer and token
    #[cfg_attr(feature = "clap", arg(long, value_name = "H", help_heading = "Activation memory"))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub hidden: Option<u64>,
    /// Attention heads a
    #[cfg_attr(feature = "clap", arg(long, value_name = "A", help_heading = "Activation memory"))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub heads: Option<u64>,
    /// Sequence length s
    #[cfg_attr(feature = "clap", arg(long, value_name = "S", help_heading = "Activation memory"))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub seq: Option<u64>,
    /// Layers on one stage; with --microbatch-size, memory counts whole stages and microbatches
    /// instead of one layer and token
    #[cfg_attr(feature = "clap", arg(long, value_name = "L", help_heading = "Activation memory"))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub layers_per_stage: Option<u64>,
    /// Samples in one microbatch, b
    #[cfg_attr(feature = "clap", arg(long, value_name = "B", help_heading = "Activation memory"))]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    pub microbatch_size: Option<u64>,
    /// Bytes a stage holds for one microbatch from F to B, in place of the model's sizes; or one
    /// per stage, or one per chunk
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SIZE,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "clap", arg(help_heading = "Activation memory"))]
    #[serde(deserialize_with = "list")]
    pub activation: Option<Vec<Bytes>>,
    /// Bytes still held from B to W [default: as from F to B]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SIZE,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "clap", arg(help_heading = "Activation memory"))]
    #[serde(deserialize_with = "list")]
    pub activation_until_weight: Option<Vec<Bytes>>,
    /// Time of copying a stage's activations of one microbatch to the host, and of copying them back,
    /// while the neighbour on the link copies too; or one per stage, or one per chunk
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "clap", arg(help_heading = HOST))]
    #[serde(deserialize_with = "list")]
    pub offload_time: Option<Vec<Nanos>>,
    /// The same as k: there and back, over F+B+W of the same chunk
    #[cfg_attr(feature = "clap", arg(long, value_name = "K", help_heading = HOST, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub offload_ratio: Option<Ratio>,
    /// The same as what a device has of its link to the host, with the bytes of activations
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE", help_heading = HOST, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub host_bandwidth: Option<Bandwidth>,
    /// Neighbouring stages on one link to the host, 1 or 2: a copy of a stage that has its link alone
    /// takes 0.7 of the time given [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = HOST, allow_negative_numbers = true))]
    pub devices_per_host_link: Option<u64>,
    /// Chunks of a stage that go to the host, those that live longest, for po-h and po-f
    /// [default: half of them, all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = HOST, allow_negative_numbers = true))]
    pub offload_chunks: Option<u64>,
    /// S: time of the output layer on a shard of the vocabulary up to the barrier, of a stage and
    /// microbatch; or one per stage; for vocab-1, vocab-2, interlaced and v-half-vocab-1, -2
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = VOCABULARY))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub vocab_s: Option<Vec<Nanos>>,
    /// T: time of the output layer on a shard behind the barrier; likewise
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = VOCABULARY))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub vocab_t: Option<Vec<Nanos>>,
    /// Time of the input layer's forward on a shard, which runs with S [default: 0ns]; likewise
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = VOCABULARY))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub vocab_input_forward: Option<Vec<Nanos>>,
    /// Time of the input layer's backward on a shard, which runs with T [default: 0ns]; likewise
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = VOCABULARY))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub vocab_input_backward: Option<Vec<Nanos>>,
    /// TFLOP/s that a device reaches in the output layer, in place of --vocab-s and --vocab-t: 6bshV
    /// FLOPs over p stages, V up to a multiple of 2p; with --vocabulary, --hidden, --seq and
    /// --microbatch-size
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE", help_heading = VOCABULARY, allow_negative_numbers = true))]
    pub vocab_tflops: Option<f64>,
    /// Time of every barrier behind S or T, from the end of the last stage's; or one behind S and one
    /// behind T, as in 90us,400us [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME[,TIME]", help_heading = VOCABULARY, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub vocab_barrier: Option<Barriers>,
    /// Time of the broadcast of the last chunk's output to all stages, before S [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", help_heading = VOCABULARY, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub vocab_broadcast: Option<Nanos>,
    /// Bytes a shard holds for one microbatch from S to T [default: 0B]; or one per stage
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE,..", value_delimiter = ',', help_heading = VOCABULARY))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub vocab_activation: Option<Vec<Bytes>>,
    /// Slow stages, devices and links: how many times as long their work takes, as in
    /// stage:3=1.5,link:2-3=2 (device k is stage k's unless stages share devices)
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT=FACTOR,..", value_delimiter = ',', help_heading = NOISE))]
    #[serde(deserialize_with = "list")]
    pub slowdown: Option<Vec<Slowdown>>,
    /// Slowdowns that change over time: a CSV file time,stage,factor, or time,factor for all
    /// stages; each factor holds from its time (as in 12.5s, from the start of the first step) on; in a
    /// scenario, relative to its folder
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv", help_heading = NOISE))]
    pub slowdown_profile: Option<PathBuf>,
    /// Random durations: each is multiplied by a factor drawn from one of
    /// [`LAWS`](crate::noise::syntax::LAWS)
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT=LAW,..", value_delimiter = ',', help_heading = NOISE))]
    #[cfg_attr(feature = "clap", arg(help = jitter_help()))]
    #[cfg_attr(feature = "schema", schemars(description = jitter_help()))]
    #[serde(deserialize_with = "list")]
    pub jitter: Option<Vec<JitterOf>>,
    /// Rare stalls: the probability that a pass lasts longer, and by how much, as in 0.001:50ms
    #[cfg_attr(feature = "clap", arg(long, value_name = "PROBABILITY:TIME", help_heading = NOISE))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub stall: Option<Stall>,
    /// Seed of all chance [default: 0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = NOISE, allow_negative_numbers = true))]
    pub seed: Option<u64>,
    /// Simulate that many replicas and say how step time and bubble are distributed; without it,
    /// only replica 0
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = NOISE, allow_negative_numbers = true))]
    pub replicas: Option<u64>,
    /// The keys of the hardware.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[cfg_attr(feature = "schema", schemars(!skip, flatten))]
    #[serde(skip)]
    pub hardware: HardwareKeys,
}

/// Heading in the help of copies to the host.
#[cfg(feature = "clap")]
const HOST: &str = "Copies to the host";
/// Heading in the help of the output layer in shards.
#[cfg(feature = "clap")]
const VOCABULARY: &str = "Output layer over all stages";

/// Heading in the help of what makes durations differ.
#[cfg(feature = "clap")]
const NOISE: &str = "Stragglers and noise";

/// Gives a set of optional keys its list of names, lets one set override another, and writes the keys that
/// are given.
macro_rules! key_set {
    ($set:ident { $($field:ident: $name:literal),* $(,)? } $(and $nested:ident)?) => {
        impl $set {
            /// The names of all keys.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The names of the keys that say something.
            pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
                let all = [$(self.$field.is_some()),*];
                Self::NAMES.iter().copied().zip(all).filter(|(_, given)| *given).map(|(name, _)| name)
            }

            /// These keys, and those of `other` where these say nothing.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self {
                    $($field: self.$field.or(other.$field),)*
                    $($nested: self.$nested.or(other.$nested),)?
                }
            }

            /// Adds the keys that are given to `map`.
            pub(crate) fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(if let Some(value) = &self.$field {
                    map.serialize_entry($name, value)?;
                })*
                $(self.$nested.write(map)?;)?
                Ok(())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                self.write(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}
pub(crate) use key_set;

key_set!(Keys {
    schedule: "schedule",
    stages: "stages",
    microbatches: "microbatches",
    chunks: "chunks",
    group: "group",
    segments: "segments",
    profile: "profile",
    layers: "layers",
    forward: "forward",
    backward: "backward",
    backward_input: "backward-input",
    backward_weight: "backward-weight",
    hop: "hop",
    memory_limit: "memory-limit",
    hidden: "hidden",
    heads: "heads",
    seq: "seq",
    layers_per_stage: "layers-per-stage",
    microbatch_size: "microbatch-size",
    activation: "activation",
    activation_until_weight: "activation-until-weight",
    offload_time: "offload-time",
    offload_ratio: "offload-ratio",
    host_bandwidth: "host-bandwidth",
    devices_per_host_link: "devices-per-host-link",
    offload_chunks: "offload-chunks",
    vocab_s: "vocab-s",
    vocab_t: "vocab-t",
    vocab_input_forward: "vocab-input-forward",
    vocab_input_backward: "vocab-input-backward",
    vocab_tflops: "vocab-tflops",
    vocab_barrier: "vocab-barrier",
    vocab_broadcast: "vocab-broadcast",
    vocab_activation: "vocab-activation",
    slowdown: "slowdown",
    slowdown_profile: "slowdown-profile",
    jitter: "jitter",
    stall: "stall",
    seed: "seed",
    replicas: "replicas",
} and hardware);

/// All keys of a question, those of the hardware among the others.
impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Object::deserialize(from)?;
        let hardware = take(&mut all, HardwareKeys::NAMES).map_err(D::Error::custom)?;
        let Own(keys) = read(all).map_err(D::Error::custom)?;
        Ok(Self { hardware, ..keys })
    }
}

/// [`Keys`] without those of the hardware, which are a set of their own.
pub(crate) struct Own(pub(crate) Keys);

impl<'de> Deserialize<'de> for Own {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Keys::deserialize(from).map(Own)
    }
}

/// Keys with their values, before they are checked.
pub(crate) type Object = serde_json::Map<String, Value>;

/// Removes the keys `names` from `all` and reads them.
pub(crate) fn take<T: DeserializeOwned>(
    all: &mut Object,
    names: &[&str],
) -> Result<T, serde_json::Error> {
    read(names.iter().filter_map(|name| all.remove_entry(*name)).collect())
}

/// Reads the keys `all`.
pub(crate) fn read<T: DeserializeOwned>(all: Object) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(all))
}

impl Keys {
    /// These keys, and those of `other` where these say nothing.
    ///
    /// The ways to give footprints exclude each other, and so do those to give the times of backward
    /// passes and of shards, and those to give the time of a copy to the host: naming one here drops
    /// the others there.
    #[must_use]
    pub fn over(self, mut other: Self) -> Self {
        if self.activation.is_some() {
            (other.hidden, other.heads, other.seq) = (None, None, None);
            (other.layers_per_stage, other.microbatch_size) = (None, None);
        }
        if self.hidden.or(self.heads).or(self.seq).is_some() {
            (other.activation, other.activation_until_weight) = (None, None);
        }
        if self.backward.is_some() {
            (other.backward_input, other.backward_weight) = (None, None);
        }
        if self.backward_input.is_some() || self.backward_weight.is_some() {
            other.backward = None;
        }
        if self.vocab_s.is_some() || self.vocab_t.is_some() {
            other.vocab_tflops = None;
        }
        if self.vocab_tflops.is_some() {
            (other.vocab_s, other.vocab_t) = (None, None);
        }
        let copies = self.offload_time.is_some() || self.offload_ratio.is_some();
        if copies || self.host_bandwidth.is_some() {
            other.offload_time = None;
            (other.offload_ratio, other.host_bandwidth) = (None, None);
        }
        self.or(other)
    }

    /// The names of the keys about the output layer in shards that say something.
    pub fn of_vocabulary(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given().filter(|name| name.starts_with("vocab-"))
    }

    /// Reads the profiles from `folder`, unless their paths are absolute; and the cluster, if it is
    /// a file there.
    pub fn files_in(&mut self, context: &Context<'_>, folder: &Path) {
        for path in [&mut self.profile, &mut self.slowdown_profile].into_iter().flatten() {
            *path = folder.join(&*path);
        }
        for schedule in self.schedule.iter_mut().flatten() {
            let beside = folder.join(&*schedule);
            if schedule.contains(['/', '.']) && context.exists(&beside) {
                *schedule = beside.to_string_lossy().into_owned();
            }
        }
        if let Some(cluster) = &mut self.hardware.cluster {
            let beside = folder.join(&*cluster);
            if cluster.contains(['/', '.']) && context.exists(&beside) {
                *cluster = beside.to_string_lossy().into_owned();
            }
        }
    }
}

/// Reads one value by its `FromStr`.
pub fn text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    as_text::deserialize(deserializer).map(Some)
}

/// Reads one value, or a list of them, by their `FromStr`.
pub fn list<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    deserializer.deserialize_any(List(PhantomData)).map(Some)
}

/// Reads one text or a list of them.
struct List<T>(PhantomData<T>);

impl<'de, T: FromStr<Err: fmt::Display>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        text.parse().map(|value| vec![value]).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(One(value)) = items.next_element::<One<T>>()? {
            values.push(value);
        }
        Ok(values)
    }
}

/// One element of a list.
struct One<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_text::deserialize(deserializer).map(One)
    }
}
