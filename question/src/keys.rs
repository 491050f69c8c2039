//! The keys of a question: the same words as flags and in scenario files.

use std::path::{Path, PathBuf};

use pipeline::{Bandwidth, Bytes, LayerLayout, Limit, Nanos};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::case::{Barriers, Ratio, Recomputed, ReshardKey, ShardingKey};
use crate::chain::{
    ContentionKey, InterleavingKey, LoneBackward, Measured, SegmentKey, WeightGradient,
};
use crate::hardware::keys::HardwareKeys;
use crate::host::Context;
use crate::key_set::{Object, key_set, list, read, take, text};
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
    /// Layers of each chunk, as Megatron-LM writes them: 'Et*4|(t*4|)*14tmL', E embedding, t layer, m MTP
    /// layer, L loss, | ends a chunk, *n repeats. Gives p v; one value for all stages, or one per
    /// stage, is dealt to chunks by layers t
    #[cfg_attr(feature = "clap", arg(long, value_name = "LAYOUT"))]
    #[serde(deserialize_with = "text")]
    pub layout: Option<LayerLayout>,
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
    /// Latency of one transfer between two stages; or one per link between neighbouring stages (0-1, 1-2, ...),
    /// and then, where chunks go round in loops, that of the link from the last stage back to the first
    /// [default: 0ns]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub hop: Option<Vec<Nanos>>,
    /// Time that the runtime of a trainer takes before every pass: it counts as work of the stage
    /// [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub overhead: Option<Nanos>,
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
    /// Activations that a chunk discards after F and recomputes by a pass R before B: none, full
    /// (all but its input), selective (the core of attention), or its first so many layers; or one
    /// per stage, or one per chunk [default: none]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PART,..", value_delimiter = ',', help_heading = RECOMPUTE))]
    #[serde(deserialize_with = "list")]
    pub recompute: Option<Vec<Recomputed>>,
    /// R: time of a stage and microbatch; or one per stage, or one per chunk [default: the share of F that
    /// is run again; selective by FLOPs, from --hidden and --seq]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = RECOMPUTE))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub recompute_time: Option<Vec<Nanos>>,
    /// Time for which a trainer recomputes once more in W where a backward is split, as torch's checkpoints do: W
    /// takes so much longer, a whole backward does not; or one per stage, or one per chunk [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = RECOMPUTE))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub recompute_again: Option<Vec<Nanos>>,
    /// Bytes that F of a stage keeps of one microbatch until R; or one per stage, or one per chunk
    /// [default: the input of each chunk, by the model's sizes or --message, and the share that is not
    /// recomputed]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE,..", value_delimiter = ',', help_heading = RECOMPUTE))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub activation_kept: Option<Vec<Bytes>>,
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
    /// microbatch; or one per stage; for interlaced and what has vocab in its name
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
    /// Segments of a layer, in the order of F: a segment is a name and the times of F, B and W of a layer and
    /// microbatch, or of F and B, as in attention=4.4ms/9.3ms/2.4ms,dispatch=6.7ms/7.5ms; dispatch and
    /// combine run on the communication stream, all others on the compute stream, unless @communication
    /// or @compute says so; sizes in place of times move over the wires of --cluster. Takes the place of --forward
    /// and --backward, and needs --layers, --layers-per-stage or --layout
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=F/B[/W],..", value_delimiter = ',', help_heading = STREAMS))]
    #[serde(deserialize_with = "list")]
    pub chain: Option<Vec<SegmentKey>>,
    /// The same for layers without experts, the first --dense-layers of the model
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=F/B[/W],..", value_delimiter = ',', help_heading = STREAMS))]
    #[serde(deserialize_with = "list")]
    pub chain_dense: Option<Vec<SegmentKey>>,
    /// How many layers at the beginning of the model have no experts
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = STREAMS, allow_negative_numbers = true))]
    pub dense_layers: Option<u64>,
    /// The same for what the first chunk does before its layers: the embedding
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=F/B[/W],..", value_delimiter = ',', help_heading = STREAMS))]
    #[serde(deserialize_with = "list")]
    pub chain_head: Option<Vec<SegmentKey>>,
    /// The same for what the last chunk does behind its layers: output layer and loss
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=F/B[/W],..", value_delimiter = ',', help_heading = STREAMS))]
    #[serde(deserialize_with = "list")]
    pub chain_tail: Option<Vec<SegmentKey>>,
    /// The same for an MTP layer, m of --layout [default: as the other layers]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=F/B[/W],..", value_delimiter = ',', help_heading = STREAMS))]
    #[serde(deserialize_with = "list")]
    pub chain_mtp: Option<Vec<SegmentKey>>,
    /// Segments as they were measured, layer by layer, in place of --chain: CSV with the columns
    /// layer,part,name,time and, if wanted, stream and bytes; for the layers of a chunk, which all chunks
    /// then have, or for those of the whole model; in a scenario, relative to its folder
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv", help_heading = STREAMS))]
    pub chain_file: Option<PathBuf>,
    /// The order in which the segments of a pair come to the streams: none (one pass after the other),
    /// published (DualPipe's and Megatron-LM's), best (searched), or a line such as
    /// 'cB aF eB dF eW dB eF cF aB aW' [default: published]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", help_heading = STREAMS))]
    #[serde(deserialize_with = "text")]
    pub interleaving: Option<InterleavingKey>,
    /// Where W of a pair, or of a whole backward, is done: delayed, where it fits, or with-backward, right
    /// behind its B [default: delayed]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHERE", help_heading = STREAMS))]
    #[serde(deserialize_with = "text")]
    pub weight_gradient: Option<WeightGradient>,
    /// Order of a whole backward that stands alone: overlapped, its communication beside its own W, or
    /// in-one-piece [default: overlapped for what a search finds and for schedules that are published so,
    /// 1f1b-overlap and 1f1b-i-overlap, else in-one-piece]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", help_heading = STREAMS))]
    #[serde(deserialize_with = "text")]
    pub lone_backward: Option<LoneBackward>,
    /// The share of the compute that communication takes while it runs beside, and how many times as long it
    /// then takes, as in 0.15,1; or megatron-hopper, which is 0.35,1.31, fitted to measured steps of
    /// Megatron-LM on H100 [default: 0,1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOLD,SLOW", help_heading = STREAMS, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub contention: Option<ContentionKey>,
    /// How the times of segments were measured: alone, or beside the other stream, so that contention is in
    /// them [default: alone]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", help_heading = STREAMS))]
    #[serde(deserialize_with = "text")]
    pub chain_measured: Option<Measured>,
    /// Devices among which a layer's experts are spread: with sizes in --chain, the share of them that
    /// leaves a node
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = STREAMS, allow_negative_numbers = true))]
    pub expert_parallel: Option<u64>,
    /// Bytes of buffers of a stage's dispatch and combine, held while F or B runs; or one per stage, or one
    /// per chunk [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE,..", value_delimiter = ',', help_heading = STREAMS))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub communication_buffers: Option<Vec<Bytes>>,
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
    /// State that data-parallel replicas divide: none, optimizer (ZeRO-1), gradients (ZeRO-2) or fsdp (ZeRO-3).
    /// Parameters are then gathered and gradients reduced on a stream beside the passes of a stage
    /// [default: none]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", help_heading = SHARDING))]
    #[serde(deserialize_with = "text")]
    pub sharding: Option<ShardingKey>,
    /// Time to gather the parameters of a stage while no pass runs; or one per stage, or one per chunk
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = SHARDING))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub gather: Option<Vec<Nanos>>,
    /// Time to reduce the gradients of a stage while no pass runs; or one per stage, or one per chunk
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME,..", value_delimiter = ',', help_heading = SHARDING))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub reduce: Option<Vec<Nanos>>,
    /// How many chunks are gathered ahead beside the one that runs, for fsdp; torch's max_active_stages
    /// less one [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = SHARDING, allow_negative_numbers = true))]
    pub prefetch: Option<u64>,
    /// When fsdp drops the parameters of a chunk: never, but behind their last use, as torchtitan does in
    /// pipelines, or after-use, as soon as the look-ahead does not hold them [default: never]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHEN", help_heading = SHARDING))]
    #[serde(deserialize_with = "text")]
    pub reshard: Option<ReshardKey>,
    /// The share of the compute that a collective takes while it runs beside a pass, and how many times as
    /// long it then takes, as --contention says it [default: 0,1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOLD,SLOW", help_heading = SHARDING, allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub sharding_contention: Option<ContentionKey>,
    /// Bytes of the parameters of a stage, gathered: how much a stage holds of them is then said in bytes;
    /// or one per stage, or one per chunk
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE,..", value_delimiter = ',', help_heading = SHARDING))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(deserialize_with = "list")]
    pub parameter_bytes: Option<Vec<Bytes>>,
    /// The keys of the hardware.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[cfg_attr(feature = "schema", schemars(!skip, flatten))]
    #[serde(skip)]
    pub hardware: HardwareKeys,
}

/// Heading in the help of recomputation.
#[cfg(feature = "clap")]
const RECOMPUTE: &str = "Recomputation";
/// Heading in the help of copies to the host.
#[cfg(feature = "clap")]
const HOST: &str = "Copies to the host";
/// Heading in the help of the output layer in shards.
#[cfg(feature = "clap")]
const VOCABULARY: &str = "Output layer over all stages";

/// Heading in the help of the two streams of a device.
#[cfg(feature = "clap")]
const STREAMS: &str = "Two streams in a device";

/// Heading in the help of collectives behind passes.
#[cfg(feature = "clap")]
const SHARDING: &str = "Collectives of parameters";

/// Heading in the help of what makes durations differ.
#[cfg(feature = "clap")]
const NOISE: &str = "Stragglers and noise";

key_set!(Keys {
    schedule: "schedule",
    stages: "stages",
    microbatches: "microbatches",
    chunks: "chunks",
    group: "group",
    segments: "segments",
    profile: "profile",
    layers: "layers",
    layout: "layout",
    forward: "forward",
    backward: "backward",
    backward_input: "backward-input",
    backward_weight: "backward-weight",
    hop: "hop",
    overhead: "overhead",
    memory_limit: "memory-limit",
    hidden: "hidden",
    heads: "heads",
    seq: "seq",
    layers_per_stage: "layers-per-stage",
    microbatch_size: "microbatch-size",
    activation: "activation",
    activation_until_weight: "activation-until-weight",
    recompute: "recompute",
    recompute_time: "recompute-time",
    recompute_again: "recompute-again",
    activation_kept: "activation-kept",
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
    chain: "chain",
    chain_dense: "chain-dense",
    dense_layers: "dense-layers",
    chain_head: "chain-head",
    chain_tail: "chain-tail",
    chain_mtp: "chain-mtp",
    chain_file: "chain-file",
    interleaving: "interleaving",
    weight_gradient: "weight-gradient",
    lone_backward: "lone-backward",
    contention: "contention",
    chain_measured: "chain-measured",
    expert_parallel: "expert-parallel",
    communication_buffers: "communication-buffers",
    slowdown: "slowdown",
    slowdown_profile: "slowdown-profile",
    jitter: "jitter",
    stall: "stall",
    seed: "seed",
    replicas: "replicas",
    sharding: "sharding",
    gather: "gather",
    reduce: "reduce",
    prefetch: "prefetch",
    reshard: "reshard",
    sharding_contention: "sharding-contention",
    parameter_bytes: "parameter-bytes",
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
        let has_apart = self.backward_input.is_some() || self.backward_weight.is_some();
        let others_apart = other.backward_input.is_some() && other.backward_weight.is_some();
        // Beside both it is the time of a whole backward, else it is split.
        if self.backward.is_some() && !has_apart && !others_apart {
            (other.backward_input, other.backward_weight) = (None, None);
        }
        if has_apart {
            other.backward = None;
        }
        if self.has_chain() {
            (other.forward, other.backward) = (None, None);
            (other.backward_input, other.backward_weight) = (None, None);
        }
        if self.forward.is_some() {
            (other.chain, other.chain_file) = (None, None);
        }
        if self.chain.is_some() {
            other.chain_file = None;
        }
        if self.chain_file.is_some() {
            other.chain = None;
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

    /// Whether passes are given as chains of segments.
    #[must_use]
    pub const fn has_chain(&self) -> bool {
        self.chain.is_some() || self.chain_file.is_some()
    }

    /// The names of the keys about the two streams that say something, but for those that give the chains.
    pub fn of_streams(&self) -> impl Iterator<Item = &'static str> + use<> {
        const NAMES: [&str; 12] = [
            "chain-dense",
            "dense-layers",
            "chain-head",
            "chain-tail",
            "chain-mtp",
            "interleaving",
            "weight-gradient",
            "lone-backward",
            "contention",
            "chain-measured",
            "expert-parallel",
            "communication-buffers",
        ];
        self.given().filter(|name| NAMES.contains(name))
    }

    /// The names of the keys about collectives of parameters that say something, but for `sharding` itself.
    pub fn of_sharding(&self) -> impl Iterator<Item = &'static str> + use<> {
        const NAMES: [&str; 6] =
            ["gather", "reduce", "prefetch", "reshard", "sharding-contention", "parameter-bytes"];
        self.given().filter(|name| NAMES.contains(name))
    }

    /// The names of the keys about the output layer in shards that say something.
    pub fn of_vocabulary(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given().filter(|name| name.starts_with("vocab-"))
    }

    /// Reads the profiles from `folder`, unless their paths are absolute; and the cluster, if it is
    /// a file there.
    pub fn files_in(&mut self, context: &Context<'_>, folder: &Path) {
        let paths = [&mut self.profile, &mut self.slowdown_profile, &mut self.chain_file];
        for path in paths.into_iter().flatten() {
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
