//! The keys of a question: the same words as flags and in scenario files.

use std::path::PathBuf;

use pipeline::{Bandwidth, Bytes, LayerLayout, Limit, Nanos};

use super::hardware::HardwareKeys;
use super::table::{Lists, keys};
use crate::values::noise::{JitterOf, Slowdown, Stall, jitter_help};
use crate::values::packing::{LengthsKey, PackingKey};
use crate::values::passes::{
    Barriers, OffloadRatio, Recomputed, ReplicaShardingKey, ReshardKey, WorkFactor,
};
use crate::values::segments::{
    Amount, ContentionKey, InterleavingKey, LoneBackward, Measured, SegmentKey, WeightGradient,
};

/// Heading in the help of what activations take.
const ACTIVATIONS: &str = "Activation memory";
/// Heading in the help of recomputation.
const RECOMPUTE: &str = "Recomputation";
/// Heading in the help of copies to the host.
const HOST: &str = "Copies to the host";
/// Heading in the help of the output layer in shards.
const VOCABULARY: &str = "Output layer over all stages";
/// Heading in the help of the two streams of a device.
const STREAMS: &str = "Two streams in a device";
/// Heading in the help of collectives behind passes.
const SHARDING: &str = "Collectives of parameters";
/// Heading in the help of microbatches that differ.
const MICROBATCHES: &str = "Microbatches of unequal work";
/// Heading in the help of what makes durations differ.
const NOISE: &str = "Stragglers and noise";

keys! {
    /// The keys of a question about schedules. All of them are optional here: keys that are missing are named
    /// when they are needed.
    ///
    /// Keys are written and read as in scenario files: names with dashes, values with units as text, lists or
    /// a single value, and nothing for keys that are not given.
    pub struct Keys: "The question", Lists::OfTexts;

    /// Schedules to compare: names (see `debubble schedules`), files in the text form, or `all`
    /// for every one (simulate, sweep)
    schedule: Option<Vec<String>>, label: "Schedules", value: "NAME|FILE,..";
    /// Stages of the pipeline, p
    stages: Option<u64>, label: "Stages (p)", value: "P";
    /// Microbatches per step, m
    microbatches: Option<u64>, label: "Microbatches (m)", value: "M";
    /// Chunks per stage, v, for interleaved schedules
    chunks: Option<u64>, label: "Chunks per stage (v)", value: "V";
    /// Microbatches that go through a chunk one after the other, g, for gis [default: p]
    group: Option<u64>, label: "Microbatches in a group (g)", value: "G";
    /// Segments of the sequence into which each microbatch is cut, k, for seq1f1b [default: 2]
    segments: Option<u64>, label: "Segments of a sequence (k)", value: "K";
    /// Times, hop and memory as `debubble calibrate` measured them, wherever no other key gives
    /// them; in a scenario, relative to its folder
    profile: Option<PathBuf>, label: "Profile of measured times", value: "PROFILE.toml";
    /// Layers of the whole model, for --profile and for `debubble execute`: cut into chunks as evenly
    /// as can be
    layers: Option<u64>, label: "Layers of the model", value: "N";
    /// Layers of each chunk, as Megatron-LM writes them: 'Et*4|(t*4|)*14tmL', E embedding, t layer, m MTP
    /// layer, L loss, | ends a chunk, *n repeats. Gives p v; one value for all stages, or one per
    /// stage, is divided among chunks by their layers t
    layout: Option<LayerLayout>, label: "Layers of each chunk", value: "LAYOUT";
    /// F: forward time of a stage and microbatch; or one per stage, or one per chunk
    forward: Option<Vec<Nanos>>, label: "F (forward)", value: "TIME,..";
    /// Backward time as profilers measure it, B and W together, instead of both; likewise. Split by
    /// FLOPs where --hidden and --seq are given, else into halves
    backward: Option<Vec<Nanos>>, label: "Whole backward (B and W)", value: "TIME,..";
    /// B: backward time for the input gradient; likewise
    backward_input: Option<Vec<Nanos>>, label: "B (input gradient)", value: "TIME,..";
    /// W: backward time for the weight gradient; likewise
    backward_weight: Option<Vec<Nanos>>, label: "W (weight gradient)", value: "TIME,..";
    /// Latency of one transfer between two stages; or one per link between neighbouring stages (0-1, 1-2, ...),
    /// and then, where chunks go round in loops, that of the link from the last stage back to the first
    /// [default: 0ns]
    hop: Option<Vec<Nanos>>, label: "Time of a hop between stages", value: "TIME,..";
    /// Time that the runtime of a trainer takes before every pass: it counts as work of the stage
    /// [default: 0ns]
    overhead: Option<Nanos>, label: "Runtime overhead of a pass", value: "TIME";
    /// Work of each microbatch relative to the one whose times are given, as in 1,1,2,0.5: all scales the times of
    /// its passes. Orders of schedules are made for the mean microbatch, and a search also chooses which
    /// microbatch goes when. Every microbatch holds the memory given: give that of the largest
    microbatch_work: Option<Vec<WorkFactor>>, label: "Work of each microbatch", value: "FACTOR,..", heading: MICROBATCHES;
    /// The same from a CSV file with the column work, or with the columns forward, backward-input and
    /// backward-weight, a line for each microbatch; in a scenario, relative to its folder
    microbatch_work_file: Option<PathBuf>, label: "Work of each microbatch (CSV file)", value: "FILE.csv",
        heading: MICROBATCHES;
    /// The same by the tokens of each microbatch, one document: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST,
    /// longtail:LEAST-MOST:INDEX (Pareto), file:FILE (drawn from it) or in-order:FILE. The times given are those of
    /// --seq tokens [default: of the mean length]; attention grows with the square where --hidden is given
    microbatch_lengths: Option<LengthsKey>, label: "Lengths of microbatches", value: "LAW", heading: MICROBATCHES;
    /// Documents of a step, whose lengths --microbatch-lengths then gives, packed into its microbatches [default: one
    /// document in each]
    documents: Option<u64>, label: "Documents of a step", value: "N", heading: MICROBATCHES;
    /// How documents are packed: in-order (as they come, about as many tokens in each microbatch), tokens (equal
    /// tokens), or work (equal FLOPs, attention included) [default: in-order]
    packing: Option<PackingKey>, label: "Packing of documents", value: "HOW", heading: MICROBATCHES;
    /// Memory limit of every stage: `1.5p` (times the activations of p microbatches) or `38GiB`; or
    /// one per stage
    memory_limit: Option<Vec<Limit>>, label: "Memory limit of a stage", value: "LIMIT,..";
    /// Memory of the device of every stage, all of it; or one per stage. The --profile of a trainer that has its
    /// weights, gradients and optimizer state says what is left as memory limit of activations
    memory: Option<Vec<Bytes>>, label: "Memory of a stage's device", value: "SIZE,..";
    /// Hidden size h; with --heads and --seq: 34h+5as bytes held between F and B, 32h between B
    /// and W, per layer and token
    hidden: Option<u64>, label: "Hidden size (h)", value: "H", heading: ACTIVATIONS;
    /// Attention heads a
    heads: Option<u64>, label: "Attention heads (a)", value: "A", heading: ACTIVATIONS;
    /// Sequence length s
    seq: Option<u64>, label: "Sequence length (s)", value: "S", heading: ACTIVATIONS;
    /// Layers on one stage; with --microbatch-size, memory counts whole stages and microbatches
    /// instead of one layer and token
    layers_per_stage: Option<u64>, label: "Layers per stage", value: "L", heading: ACTIVATIONS;
    /// Samples in one microbatch, b
    microbatch_size: Option<u64>, label: "Samples in a microbatch (b)", value: "B", heading: ACTIVATIONS;
    /// Activation bytes of a microbatch on a stage, from F to B, instead of from the model's sizes; or one
    /// per stage, or one per chunk
    activation: Option<Vec<Bytes>>, label: "Activations of a microbatch", value: "SIZE,..", heading: ACTIVATIONS;
    /// Activation bytes from B to W [default: as from F to B; none where W takes no time]
    activation_until_weight: Option<Vec<Bytes>>, label: "Activations kept from B to W", value: "SIZE,..",
        heading: ACTIVATIONS;
    /// Activations that a chunk discards after F and recomputes by a pass R before B: none, full (all but its input),
    /// selective (the core of attention), or a number of first layers; or one per stage, or one per chunk [default:
    /// none]
    recompute: Option<Vec<Recomputed>>, label: "Recomputation", value: "PART,..", heading: RECOMPUTE;
    /// R: time of a stage and microbatch; or one per stage, or one per chunk [default: the share of F that
    /// is run again; selective by FLOPs, from --hidden and --seq]
    recompute_time: Option<Vec<Nanos>>, label: "R (recomputation)", value: "TIME,..", heading: RECOMPUTE;
    /// Time for which a trainer recomputes once more in W where a backward is split, as torch's checkpoints do: W
    /// takes so much longer, a whole backward does not; or one per stage, or one per chunk [default: 0ns]
    recompute_again: Option<Vec<Nanos>>, label: "Second recomputation, in W", value: "TIME,..", heading: RECOMPUTE;
    /// Bytes that F of a stage keeps of one microbatch until R; or one per stage, or one per chunk
    /// [default: the input of each chunk, by the model's sizes or --message, and the share that is not
    /// recomputed]
    activation_kept: Option<Vec<Bytes>>, label: "Activations kept from F to R", value: "SIZE,..", heading: RECOMPUTE;
    /// Time of copying a stage's activations of one microbatch to the host, and of copying them back,
    /// while the neighbour on the link copies too; or one per stage, or one per chunk
    offload_time: Option<Vec<Nanos>>, label: "Time of a copy to the host", value: "TIME,..", heading: HOST;
    /// The same as k: there and back, over F+B+W of the same chunk
    offload_ratio: Option<OffloadRatio>, label: "Copy time over F + B + W (k)", value: "K", heading: HOST;
    /// The same as what a device has of its link to the host, with the bytes of activations
    host_bandwidth: Option<Bandwidth>, label: "Bandwidth to the host", value: "RATE", heading: HOST;
    /// Neighbouring stages on one link to the host, 1 or 2: a copy of a stage that has its link alone
    /// takes 0.7 of the time given [default: 2]
    devices_per_host_link: Option<u64>, label: "Devices per host link", value: "N", heading: HOST;
    /// Chunks of a stage that go to the host, those that live longest, for po-h and po-f
    /// [default: half of them, all]
    offload_chunks: Option<u64>, label: "Offloaded chunks per stage", value: "N", heading: HOST;
    /// S: time of the output layer on a shard of the vocabulary up to the barrier, of a stage and
    /// microbatch; or one per stage; for interlaced and what has vocab in its name
    vocab_s: Option<Vec<Nanos>>, label: "S (output layer, before the barrier)", value: "TIME,..", heading: VOCABULARY;
    /// T: time of the output layer on a shard after the barrier; likewise
    vocab_t: Option<Vec<Nanos>>, label: "T (output layer, after the barrier)", value: "TIME,..", heading: VOCABULARY;
    /// Time of the input layer's forward on a shard, which runs with S [default: 0ns]; likewise
    vocab_input_forward: Option<Vec<Nanos>>, label: "Forward of the input layer", value: "TIME,..", heading: VOCABULARY;
    /// Time of the input layer's backward on a shard, which runs with T [default: 0ns]; likewise
    vocab_input_backward: Option<Vec<Nanos>>, label: "Backward of the input layer", value: "TIME,..", heading: VOCABULARY;
    /// TFLOP/s that a device reaches in the output layer, instead of --vocab-s and --vocab-t: 6bshV
    /// FLOPs over p stages, V up to a multiple of 2p; with --vocabulary, --hidden, --seq and
    /// --microbatch-size
    vocab_tflops: Option<f64>, label: "Throughput of the output layer (TFLOP/s)", value: "RATE", heading: VOCABULARY;
    /// Time of each barrier after S or T, from the end of the last stage's; or one after S and one after T, as in
    /// 90us,400us [default: 0ns]
    vocab_barrier: Option<Barriers>, label: "Barrier after S or T", value: "TIME[,TIME]", heading: VOCABULARY;
    /// Time of the broadcast of the last chunk's output to all stages, before S [default: 0ns]
    vocab_broadcast: Option<Nanos>, label: "Broadcast before S", value: "TIME", heading: VOCABULARY;
    /// Activation bytes of a microbatch on a shard, from S to T [default: 0B]; or one per stage
    vocab_activation: Option<Vec<Bytes>>, label: "Activations of a shard from S to T", value: "SIZE,..", heading: VOCABULARY;
    /// Segments of a layer, in the order of F: a segment is a name and the times of F, B and W of a layer and
    /// microbatch, or of F and B, as in attention=4.4ms/9.3ms/2.4ms,dispatch=6.7ms/7.5ms; dispatch and
    /// combine run on the communication stream, all other segments on the compute stream, unless @communication
    /// or @compute says so; sizes instead of times move over the wires of --cluster. Takes the place of --forward
    /// and --backward, and needs --layers, --layers-per-stage or --layout
    chain: Option<Vec<SegmentKey>>, label: "Segments of a layer", value: "NAME=F/B[/W],..", heading: STREAMS;
    /// The same for layers without experts, the first --dense-layers of the model
    chain_dense: Option<Vec<SegmentKey>>, label: "Segments of a dense layer", value: "NAME=F/B[/W],..", heading: STREAMS;
    /// How many layers at the beginning of the model have no experts
    dense_layers: Option<u64>, label: "Dense layers at the start", value: "N", heading: STREAMS;
    /// The same for what the first chunk does before its layers: the embedding
    chain_head: Option<Vec<SegmentKey>>, label: "Segments of the embedding", value: "NAME=F/B[/W],..", heading: STREAMS;
    /// The same for the work of the last chunk after its layers: output layer and loss
    chain_tail: Option<Vec<SegmentKey>>, label: "Segments of the output layer and loss", value: "NAME=F/B[/W],..",
        heading: STREAMS;
    /// The same for an MTP layer, m of --layout [default: as the other layers]
    chain_mtp: Option<Vec<SegmentKey>>, label: "Segments of an MTP layer", value: "NAME=F/B[/W],..", heading: STREAMS;
    /// Measured segments, layer by layer, instead of --chain: CSV with the columns
    /// layer,part,name,time and, if wanted, stream and bytes; for the layers of a chunk, which all chunks
    /// then have, or for those of the whole model; in a scenario, relative to its folder
    chain_file: Option<PathBuf>, label: "Measured segments (CSV file)", value: "FILE.csv", heading: STREAMS;
    /// The order in which the segments of a pair enter the streams: none (one pass after the other),
    /// published (DualPipe's and Megatron-LM's), best (searched), or a line such as
    /// 'cB aF eB dF eW dB eF cF aB aW' [default: published]
    interleaving: Option<InterleavingKey>, label: "Order of segments in a pair", value: "HOW", heading: STREAMS;
    /// When W of a pair, or of a whole backward, runs: delayed, where it fits, or with-backward, right after its B
    /// [default: delayed]
    weight_gradient: Option<WeightGradient>, label: "Place of W in a pair", value: "WHERE", heading: STREAMS;
    /// Order of a whole backward outside a pair: overlapped, its communication overlapped with its own W, or
    /// in-one-piece [default: overlapped for what a search finds and for schedules that are published so,
    /// stp, 1f1b-overlap and 1f1b-i-overlap, else in-one-piece]
    lone_backward: Option<LoneBackward>, label: "Order of a lone backward", value: "HOW", heading: STREAMS;
    /// The share of the compute that overlapped communication takes, and how many times as long it
    /// then takes, as in 0.15,1; or megatron-hopper, which is 0.35,1.31, fitted to measured steps of
    /// Megatron-LM on H100 [default: 0,1]
    contention: Option<ContentionKey>, label: "Contention of the two streams", value: "HOLD,SLOW", heading: STREAMS;
    /// How the times of segments were measured: alone, or while the other stream runs, so that contention is in
    /// them [default: alone]
    chain_measured: Option<Measured>, label: "Measurement of segments", value: "HOW", heading: STREAMS;
    /// Devices among which a layer's experts are spread: with sizes in --chain, the share of them that
    /// leaves a node
    expert_parallel: Option<u64>, label: "Expert parallelism (devices)", value: "N", heading: STREAMS;
    /// Bytes of buffers of a stage's dispatch and combine, held while F or B runs; or one per stage, or one
    /// per chunk [default: 0B]
    communication_buffers: Option<Vec<Bytes>>, label: "Communication buffers", value: "SIZE,..", heading: STREAMS;
    /// Slow stages, devices and links: how many times as long their work takes, as in
    /// stage:3=1.5,link:2-3=2 (device k is stage k's unless stages share devices)
    slowdown: Option<Vec<Slowdown>>, label: "Slow stages, devices and links", value: "WHAT=FACTOR,..", heading: NOISE;
    /// Slowdowns that change over time: a CSV file time,stage,factor, or time,factor for all
    /// stages; each factor applies from its time (as in 12.5s, from the start of the first step) on; in a
    /// scenario, relative to its folder
    slowdown_profile: Option<PathBuf>, label: "Slowdowns over time (CSV file)", value: "FILE.csv", heading: NOISE;
    /// Random durations: each is multiplied by a factor drawn from one of
    /// [`LAWS`](crate::values::noise::LAWS)
    jitter: Option<Vec<JitterOf>>, label: "Jitter", value: "WHAT=LAW,..", heading: NOISE, made: Some(jitter_help);
    /// Rare stalls: the probability that a pass takes longer, and the extra time, as in 0.001:50ms
    stall: Option<Stall>, label: "Rare stalls", value: "PROBABILITY:TIME", heading: NOISE;
    /// Seed of all chance [default: 0]
    seed: Option<u64>, label: "Random seed", value: "N", heading: NOISE;
    /// Simulate that many replicas and say how step time and bubble are distributed; without it,
    /// only replica 0
    replicas: Option<u64>, label: "Replicas (Monte Carlo)", value: "N", heading: NOISE;
    /// State that data-parallel replicas divide: none, optimizer (ZeRO-1), gradients (ZeRO-2) or fsdp (ZeRO-3).
    /// Parameters are then gathered and gradients reduced on a stream parallel to the passes of a stage
    /// [default: none]
    sharding: Option<ReplicaShardingKey>, label: "Sharded state (ZeRO, FSDP)", value: "WHAT", heading: SHARDING;
    /// Time to gather the parameters of a stage while no pass runs; or one per stage, or one per chunk
    gather: Option<Vec<Nanos>>, label: "Parameter gather of a stage", value: "TIME,..", heading: SHARDING;
    /// Time to reduce the gradients of a stage while no pass runs; or one per stage, or one per chunk
    reduce: Option<Vec<Nanos>>, label: "Gradient reduction of a stage", value: "TIME,..", heading: SHARDING;
    /// Number of chunks that are gathered ahead of the running one, for fsdp; torch's max_active_stages
    /// less one [default: 2]
    prefetch: Option<u64>, label: "Chunks gathered ahead", value: "N", heading: SHARDING;
    /// When fsdp drops the parameters of a chunk: never (until their last use, as torchtitan does in pipelines),
    /// or after-use (as soon as the look-ahead allows) [default: never]
    reshard: Option<ReshardKey>, label: "Release of gathered parameters", value: "WHEN", heading: SHARDING;
    /// The share of the compute that a collective takes while it overlaps a pass, and how many times as
    /// long it then takes, as --contention says it [default: 0,1]
    sharding_contention: Option<ContentionKey>, label: "Contention of collectives", value: "HOLD,SLOW", heading: SHARDING;
    /// Bytes of the parameters of a stage, gathered: how much a stage holds of them is then said in bytes;
    /// or one per stage, or one per chunk
    parameter_bytes: Option<Vec<Bytes>>, label: "Parameters of a stage (bytes)", value: "SIZE,..", heading: SHARDING;

    and /// The keys of the hardware.
    hardware: HardwareKeys;
}
#[cfg(feature = "clap")]
crate::keys::flags::flags!(Keys);

impl Keys {
    /// These keys, and those of `other` where these are not given.
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
        if self.of_unequal_microbatches().next().is_some() {
            (other.microbatch_work, other.microbatch_work_file) = (None, None);
            other.microbatch_lengths = None;
            (other.documents, other.packing) = (None, None);
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

    fn given_under(&self, heading: &str) -> impl Iterator<Item = &'static str> + use<> {
        let names = self.given_rows().filter(|row| row.heading == heading).map(|row| row.name);
        names.collect::<Vec<_>>().into_iter()
    }

    /// The names of the keys about the two streams that say something, but for those that give the chains.
    pub fn of_streams(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given_under(STREAMS).filter(|name| !["chain", "chain-file"].contains(name))
    }

    /// The names of the keys about collectives of parameters that say something, but for `sharding` itself.
    pub fn of_sharding(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given_under(SHARDING).filter(|name| *name != "sharding")
    }

    /// The names of the keys that give the work of each microbatch and say something.
    pub fn of_unequal_microbatches(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given_under(MICROBATCHES).filter(|name| name.starts_with("microbatch"))
    }

    /// The names of the keys about the output layer in shards that say something.
    pub fn of_vocabulary(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.given_under(VOCABULARY)
    }

    /// Whether they give segments that move bytes over wires, or may do so in a file.
    #[must_use]
    pub fn moves_bytes(&self) -> bool {
        self.chain_file.is_some() || self.segment_sizes().next().is_some()
    }

    /// The segments whose amounts are sizes, with their self.
    pub(crate) fn segment_sizes(&self) -> impl Iterator<Item = (&'static str, &SegmentKey, Bytes)> {
        let all = [
            ("chain", &self.chain),
            ("chain-dense", &self.chain_dense),
            ("chain-head", &self.chain_head),
            ("chain-tail", &self.chain_tail),
            ("chain-mtp", &self.chain_mtp),
        ];
        let segments = all
            .into_iter()
            .flat_map(|(key, segments)| segments.iter().flatten().map(move |one| (key, one)));
        segments.flat_map(|(key, one)| {
            [one.forward, one.backward].into_iter().filter_map(move |amount| match amount {
                Amount::Time(_) => None,
                Amount::Bytes(bytes) => Some((key, one, bytes)),
            })
        })
    }
}
