"""The keys of questions as types: `python/tools/keys.py` writes this file from the schemas.

Every key may be `None`, which is as good as not to give it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Union

import numpy

from ._values import Key

if TYPE_CHECKING:
    from ._profile import Profile
    from ._question import Schedules
    from ._schedule import Schedule

_T = TypeVar("_T")

#: A value, or a list or an array of values.
OneOrMany = Union[_T, Iterable[_T]]

#: A whole number.
Whole = Union[int, "numpy.integer[Any]"]

#: A number.
Number = Union[float, "numpy.integer[Any]", "numpy.floating[Any]"]

#: A time: text with a unit as in `"29.7ms"`, a number of seconds, or a difference of times.
Time = Union[str, Number, datetime.timedelta, numpy.timedelta64]

#: A size: text with a unit as in `"38GiB"`, or a number of bytes.
Size = Union[str, Whole]

#: A memory limit: times the activations of p microbatches as in `"1.5p"`, or a size.
MemoryLimit = Union[str, Whole]

#: A number, or its text.
Share = Union[str, Number]

#: A text, or the path of a file.
Name = Union[str, "os.PathLike[str]"]


class _SharedKeys(TypedDict, total=False):
    """Keys of a question, and of each of its settings."""

    activation: OneOrMany[Size] | None
    """Activation bytes of a microbatch on a stage, from F to B, instead of from the model's sizes; or one per
    stage, or one per chunk.
    """

    activation_kept: OneOrMany[Size] | None
    """Bytes that F of a stage keeps of one microbatch until R; or one per stage, or one per chunk [default:
    the input of each chunk, by the model's sizes or `message`, and the share that is not recomputed].
    """

    activation_until_weight: OneOrMany[Size] | None
    """Activation bytes from B to W [default: as from F to B; none where W takes no time]."""

    backward: OneOrMany[Time] | None
    """Backward time as profilers measure it, B and W together, instead of both; likewise. Split by FLOPs
    where `hidden` and `seq` are given, else into halves.
    """

    backward_input: OneOrMany[Time] | None
    """B: backward time for the input gradient; likewise."""

    backward_weight: OneOrMany[Time] | None
    """W: backward time for the weight gradient; likewise."""

    boundary: str | None
    """How stages wait for each other between steps: barrier, asynchronous, or post-validation:PROBABILITY
    that it fails [default: barrier].
    """

    bytes_per_parameter: Whole | None
    """Bytes per parameter of weights, gradients and optimizer state [default: 18 = 2 + 4 + 12, bf16 with fp32
    gradients, master weights and Adam moments].
    """

    chain: OneOrMany[str] | None
    """Segments of a layer, in the order of F: a segment is a name and the times of F, B and W of a layer and
    microbatch, or of F and B, as in attention=4.4ms/9.3ms/2.4ms,dispatch=6.7ms/7.5ms; dispatch and combine
    run on the communication stream, all other segments on the compute stream, unless @communication or
    @compute says so; sizes instead of times move over the wires of `cluster`. Takes the place of `forward`
    and `backward`, and needs `layers`, `layers_per_stage` or `layout`.
    """

    chain_dense: OneOrMany[str] | None
    """The same for layers without experts, the first `dense_layers` of the model."""

    chain_file: Name | None
    """Measured segments, layer by layer, instead of `chain`: CSV with the columns layer,part,name,time and,
    if wanted, stream and bytes; for the layers of a chunk, which all chunks then have, or for those of the
    whole model; in a scenario, relative to its folder.
    """

    chain_head: OneOrMany[str] | None
    """The same for what the first chunk does before its layers: the embedding."""

    chain_measured: str | None
    """How the times of segments were measured: alone, or while the other stream runs, so that contention is
    in them [default: alone].
    """

    chain_mtp: OneOrMany[str] | None
    """The same for an MTP layer, m of `layout` [default: as the other layers]."""

    chain_tail: OneOrMany[str] | None
    """The same for the work of the last chunk after its layers: output layer and loss."""

    chunks: Whole | None
    """Chunks per stage, v, for interleaved schedules."""

    cluster: Name | None
    """Cluster of the pipeline: dgx-a100, dgx-h100, dgx-h200, a100-roce, a100-pcie, or a file of that form, in
    a scenario first looked for in its folder [default: links that are never shared, with `hop`].
    """

    communication: Literal["overlapped", "blocking"] | None
    """Whether communication is overlapped, or blocking: on the compute stream [default: overlapped]."""

    communication_buffers: OneOrMany[Size] | None
    """Bytes of buffers of a stage's dispatch and combine, held while F or B runs; or one per stage, or one
    per chunk [default: 0B].
    """

    contention: str | None
    """The share of the compute that overlapped communication takes, and how many times as long it then takes,
    as in 0.15,1; or megatron-hopper, which is 0.35,1.31, fitted to measured steps of Megatron-LM on H100
    [default: 0,1].
    """

    dense_layers: Whole | None
    """How many layers at the beginning of the model have no experts."""

    device_memory: OneOrMany[Size] | None
    """Memory of every device; or one per device [default: the cluster's]."""

    devices_per_host_link: Whole | None
    """Neighbouring stages on one link to the host, 1 or 2: a copy of a stage that has its link alone takes
    0.7 of the time given [default: 2].
    """

    documents: Whole | None
    """Documents of a step, whose lengths `microbatch_lengths` then gives, packed into its microbatches
    [default: one document in each].
    """

    exchange: Time | None
    """Time of the all-reduce at the barrier, or of one hop of post-validation [default: 0ns]."""

    expert_parallel: Whole | None
    """Devices among which a layer's experts are spread: with sizes in `chain`, the share of them that leaves
    a node.
    """

    forward: OneOrMany[Time] | None
    """F: forward time of a stage and microbatch; or one per stage, or one per chunk."""

    gather: OneOrMany[Time] | None
    """Time to gather the parameters of a stage while no pass runs; or one per stage, or one per chunk."""

    gradient_reduction: str | None
    """Time to reduce the gradients of one chunk over data-parallel replicas: TIME, exposed after the stage's
    last pass, or TIME:overlapped, from the chunk's last W on [default: 0ns].
    """

    group: Whole | None
    """Microbatches that go through a chunk one after the other, g, for gis [default: p]."""

    heads: Whole | None
    """Attention heads a."""

    hidden: Whole | None
    """Hidden size h; with `heads` and `seq`: 34h+5as bytes held between F and B, 32h between B and W, per
    layer and token.
    """

    hop: OneOrMany[Time] | None
    """Latency of one transfer between two stages; or one per link between neighbouring stages (0-1, 1-2,
    ...), and then, where chunks go round in loops, that of the link from the last stage back to the first
    [default: 0ns].
    """

    host_bandwidth: str | None
    """The same as what a device has of its link to the host, with the bytes of activations."""

    interleaving: str | None
    """The order in which the segments of a pair enter the streams: none (one pass after the other), published
    (DualPipe's and Megatron-LM's), best (searched), or a line such as 'cB aF eB dF eW dB eF cF aB aW'
    [default: published].
    """

    jitter: OneOrMany[str] | None
    """Random durations, as in pass=lognormal:0.05,hop=pareto:2.5. Each is multiplied by a factor of mean 1:
    normal:SPREAD or lognormal:SPREAD (standard deviation), pareto:TAIL (tail index), or samples:FILE (one per
    line: factors as they are, or durations over their mean).
    """

    layers: Whole | None
    """Layers of the whole model, for `profile` and for `debubble execute`: cut into chunks as evenly as can
    be.
    """

    layers_per_stage: Whole | None
    """Layers on one stage; with `microbatch_size`, memory counts whole stages and microbatches instead of one
    layer and token.
    """

    layout: str | None
    """Layers of each chunk, as Megatron-LM writes them: 'Et*4|(t*4|)*14tmL', E embedding, t layer, m MTP
    layer, L loss, | ends a chunk, *n repeats. Gives p v; one value for all stages, or one per stage, is
    divided among chunks by their layers t.
    """

    lone_backward: str | None
    """Order of a whole backward outside a pair: overlapped, its communication overlapped with its own W, or
    in-one-piece [default: overlapped for what a search finds and for schedules that are published so, stp,
    1f1b-overlap and 1f1b-i-overlap, else in-one-piece].
    """

    max_inflight_offloads: Whole | None
    """Most copies to the host that are in flight when a stage goes on after a forward that `offload` copies:
    it waits for earlier ones, with 0 for each; as fine_grained_offloading_max_inflight_offloads of Megatron-
    LM [default: no limit, so that no pass waits for a copy to the host].
    """

    memory: OneOrMany[Size] | None
    """Memory of the device of every stage, all of it; or one per stage. The `profile` of a trainer that has
    its weights, gradients and optimizer state says what is left as memory limit of activations.
    """

    memory_limit: OneOrMany[MemoryLimit] | None
    """Memory limit of every stage: `1.5p` (times the activations of p microbatches) or `38GiB`; or one per
    stage.
    """

    message: Size | None
    """Size of one output or gradient [default: 2 bytes x hidden x seq x microbatch-size]."""

    microbatch_lengths: str | None
    """The same by the tokens of each microbatch, one document: uniform:LEAST-MOST,
    lognormal:MEDIAN:SIGMA:MOST, longtail:LEAST-MOST:INDEX (Pareto), file:FILE (drawn from it) or in-
    order:FILE. The times given are those of `seq` tokens [default: of the mean length]; attention grows with
    the square where `hidden` is given.
    """

    microbatch_size: Whole | None
    """Samples in one microbatch, b."""

    microbatch_work: OneOrMany[Share] | None
    """Work of each microbatch relative to the one whose times are given, as in 1,1,2,0.5: all scales the
    times of its passes. Orders of schedules are made for the mean microbatch, and a search also chooses which
    microbatch goes when. Every microbatch holds the memory given: give that of the largest.
    """

    microbatch_work_file: Name | None
    """The same from a CSV file with the column work, or with the columns forward, backward-input and
    backward-weight, a line for each microbatch; in a scenario, relative to its folder.
    """

    microbatches: Whole | None
    """Microbatches per step, m."""

    offload: Share | None
    """Part of each activation that is on the host between F and B, from 0 to 1; the cluster, or
    `offload_time` and its like, say how long it takes [default: 0; for po-h and po-f 1].
    """

    offload_chunks: Whole | None
    """Chunks of a stage that go to the host, those that live longest, for po-h and po-f [default: half of
    them, all].
    """

    offload_ratio: Share | None
    """The same as k: there and back, over F+B+W of the same chunk."""

    offload_time: OneOrMany[Time] | None
    """Time of copying a stage's activations of one microbatch to the host, and of copying them back, while
    the neighbour on the link copies too; or one per stage, or one per chunk.
    """

    optimizer: Time | None
    """Time of the optimizer on a stage [default: 0ns]."""

    overhead: Time | None
    """Time that the runtime of a trainer takes before every pass: it counts as work of the stage [default:
    0ns].
    """

    packing: Literal["in-order", "tokens", "work"] | None
    """How documents are packed: in-order (as they come, about as many tokens in each microbatch), tokens
    (equal tokens), or work (equal FLOPs, attention included) [default: in-order].

    `in-order`: As they come, about as many tokens in each microbatch.

    `tokens`: As equal numbers of tokens as can be.

    `work`: As equal work as can be, with that of attention.
    """

    parameter_bytes: OneOrMany[Size] | None
    """Bytes of the parameters of a stage, gathered: how much a stage holds of them is then said in bytes; or
    one per stage, or one per chunk.
    """

    prefetch: Whole | None
    """Number of chunks that are gathered ahead of the running one, for fsdp; torch's max_active_stages less
    one [default: 2].
    """

    profile: Union[Name, Profile] | None
    """Times, hop and memory as `debubble calibrate` measured them, wherever no other key gives them; in a
    scenario, relative to its folder.
    """

    protocol: str | None
    """When a transfer begins: eager, or rendezvous:AHEAD, when the receiver is AHEAD slots before the one
    that needs it, one by one between two stages [default: eager].
    """

    recompute: OneOrMany[str] | None
    """Activations that a chunk discards after F and recomputes by a pass R before B: none, full (all but its
    input), selective (the core of attention), or a number of first layers; or one per stage, or one per chunk
    [default: none].
    """

    recompute_again: OneOrMany[Time] | None
    """Time for which a trainer recomputes once more in W where a backward is split, as torch's checkpoints
    do: W takes so much longer, a whole backward does not; or one per stage, or one per chunk [default: 0ns].
    """

    recompute_time: OneOrMany[Time] | None
    """R: time of a stage and microbatch; or one per stage, or one per chunk [default: the share of F that is
    run again; selective by FLOPs, from `hidden` and `seq`].
    """

    reduce: OneOrMany[Time] | None
    """Time to reduce the gradients of a stage while no pass runs; or one per stage, or one per chunk."""

    reload_ahead: Whole | None
    """How many slots before its backward an activation is called back from the host [default: 2]."""

    replicas: Whole | None
    """Simulate that many replicas and say how step time and bubble are distributed; without it, only replica
    0.
    """

    reshard: str | None
    """When fsdp drops the parameters of a chunk: never (until their last use, as torchtitan does in
    pipelines), or after-use (as soon as the look-ahead allows) [default: never].
    """

    resident: OneOrMany[Size] | None
    """Resident bytes of a stage (weights, gradients, optimizer state); or one per stage."""

    rollback: Time | None
    """Time to take an optimizer step back [default: 0ns]."""

    schedule: Schedules | None
    """Schedules to compare: names (see `debubble schedules`), files in the text form, or `all` for every one
    (simulate, sweep).
    """

    seating: str | None
    """Which device each stage sits on: contiguous, across-nodes, or a list such as 0,0,1,1 [default:
    contiguous].
    """

    seed: Whole | None
    """Seed of all chance [default: 0]."""

    segments: Whole | None
    """Segments of the sequence into which each microbatch is cut, k, for seq1f1b [default: 2]."""

    seq: Whole | None
    """Sequence length s."""

    sharding: str | None
    """State that data-parallel replicas divide: none, optimizer (ZeRO-1), gradients (ZeRO-2) or fsdp
    (ZeRO-3). Parameters are then gathered and gradients reduced on a stream parallel to the passes of a stage
    [default: none].
    """

    sharding_contention: str | None
    """The share of the compute that a collective takes while it overlaps a pass, and how many times as long
    it then takes, as `contention` says it [default: 0,1].
    """

    sharing: Literal["fair", "queue"] | None
    """How transfers share a wire: fair (at once, max-min) or queue (one by one) [default: fair]."""

    slowdown: OneOrMany[str] | None
    """Slow stages, devices and links: how many times as long their work takes, as in stage:3=1.5,link:2-3=2
    (device k is stage k's unless stages share devices).
    """

    slowdown_profile: Name | None
    """Slowdowns that change over time: a CSV file time,stage,factor, or time,factor for all stages; each
    factor applies from its time (as in 12.5s, from the start of the first step) on; in a scenario, relative
    to its folder.
    """

    stages: Whole | None
    """Stages of the pipeline, p."""

    stall: str | None
    """Rare stalls: the probability that a pass takes longer, and the extra time, as in 0.001:50ms."""

    steps: Whole | None
    """Steps run in sequence [default: 1]."""

    vocab_activation: OneOrMany[Size] | None
    """Activation bytes of a microbatch on a shard, from S to T [default: 0B]; or one per stage."""

    vocab_barrier: str | None
    """Time of each barrier after S or T, from the end of the last stage's; or one after S and one after T, as
    in 90us,400us [default: 0ns].
    """

    vocab_broadcast: Time | None
    """Time of the broadcast of the last chunk's output to all stages, before S [default: 0ns]."""

    vocab_input_backward: OneOrMany[Time] | None
    """Time of the input layer's backward on a shard, which runs with T [default: 0ns]; likewise."""

    vocab_input_forward: OneOrMany[Time] | None
    """Time of the input layer's forward on a shard, which runs with S [default: 0ns]; likewise."""

    vocab_s: OneOrMany[Time] | None
    """S: time of the output layer on a shard of the vocabulary up to the barrier, of a stage and microbatch;
    or one per stage; for interlaced and what has vocab in its name.
    """

    vocab_t: OneOrMany[Time] | None
    """T: time of the output layer on a shard after the barrier; likewise."""

    vocab_tflops: Number | None
    """TFLOP/s that a device reaches in the output layer, instead of `vocab_s` and `vocab_t`: 6bshV FLOPs over
    p stages, V up to a multiple of 2p; with `vocabulary`, `hidden`, `seq` and `microbatch_size`.
    """

    vocabulary: Whole | None
    """Vocabulary V: with `hidden` and `layers_per_stage`, what stages hold all the time follows from the
    parameters, the embedding on the first chunk's stage, the LM head on the last's.
    """

    weight_gradient: str | None
    """When W of a pair, or of a whole backward, runs: delayed, where it fits, or with-backward, right after
    its B [default: delayed].
    """

    when_full: Literal["report", "wait"] | None
    """Behaviour where a device is full: report it, or let passes wait [default: report]."""


class SettingKeys(_SharedKeys, total=False):
    """A question of its own within a question."""

    name: Name | None
    """The name of the setting."""

    published: Mapping[str, Name] | None
    """By schedule, the published figure, as it is printed."""

    regenerated: Mapping[str, Name] | None
    """By schedule, the same figure with more digits, from the published code."""


class QuestionKeys(_SharedKeys, total=False):
    """A question, for `debubble.Question`."""

    convention: Mapping[str, Literal["span", "makespan", "makespan-first-wrap"]] | None
    """By schedule, which times of the timeline the published figures were computed from."""

    setting: Iterable[SettingKeys | Mapping[str, Any]] | None
    """Questions that share the keys at the top, each with keys of its own."""

    source: Name | None
    """Where the figures come from."""

    sweep: Mapping[str, Any] | None
    """Keys with all their values: every combination is a question."""

    title: Name | None
    """The title of the answer."""


class QuestionValues:
    """The keys of a question as attributes: `None` where one is not given."""

    __slots__ = ()

    activation: Key[list[str]] = Key()
    activation_kept: Key[list[str]] = Key()
    activation_until_weight: Key[list[str]] = Key()
    backward: Key[list[str]] = Key()
    backward_input: Key[list[str]] = Key()
    backward_weight: Key[list[str]] = Key()
    boundary: Key[str] = Key()
    bytes_per_parameter: Key[int] = Key()
    chain: Key[list[str]] = Key()
    chain_dense: Key[list[str]] = Key()
    chain_file: Key[str] = Key()
    chain_head: Key[list[str]] = Key()
    chain_measured: Key[str] = Key()
    chain_mtp: Key[list[str]] = Key()
    chain_tail: Key[list[str]] = Key()
    chunks: Key[int] = Key()
    cluster: Key[str] = Key()
    communication: Key[str] = Key()
    communication_buffers: Key[list[str]] = Key()
    contention: Key[str] = Key()
    convention: Key[dict[str, Any]] = Key()
    dense_layers: Key[int] = Key()
    device_memory: Key[list[str]] = Key()
    devices_per_host_link: Key[int] = Key()
    documents: Key[int] = Key()
    exchange: Key[str] = Key()
    expert_parallel: Key[int] = Key()
    forward: Key[list[str]] = Key()
    gather: Key[list[str]] = Key()
    gradient_reduction: Key[str] = Key()
    group: Key[int] = Key()
    heads: Key[int] = Key()
    hidden: Key[int] = Key()
    hop: Key[list[str]] = Key()
    host_bandwidth: Key[str] = Key()
    interleaving: Key[str] = Key()
    jitter: Key[list[str]] = Key()
    layers: Key[int] = Key()
    layers_per_stage: Key[int] = Key()
    layout: Key[str] = Key()
    lone_backward: Key[str] = Key()
    max_inflight_offloads: Key[int] = Key()
    memory: Key[list[str]] = Key()
    memory_limit: Key[list[str]] = Key()
    message: Key[str] = Key()
    microbatch_lengths: Key[str] = Key()
    microbatch_size: Key[int] = Key()
    microbatch_work: Key[list[float]] = Key()
    microbatch_work_file: Key[str] = Key()
    microbatches: Key[int] = Key()
    offload: Key[float] = Key()
    offload_chunks: Key[int] = Key()
    offload_ratio: Key[float] = Key()
    offload_time: Key[list[str]] = Key()
    optimizer: Key[str] = Key()
    overhead: Key[str] = Key()
    packing: Key[str] = Key()
    parameter_bytes: Key[list[str]] = Key()
    prefetch: Key[int] = Key()
    profile: Key[str | Profile] = Key()
    protocol: Key[str] = Key()
    recompute: Key[list[str]] = Key()
    recompute_again: Key[list[str]] = Key()
    recompute_time: Key[list[str]] = Key()
    reduce: Key[list[str]] = Key()
    reload_ahead: Key[int] = Key()
    replicas: Key[int] = Key()
    reshard: Key[str] = Key()
    resident: Key[list[str]] = Key()
    rollback: Key[str] = Key()
    schedule: Key[list[str | Schedule]] = Key()
    seating: Key[str] = Key()
    seed: Key[int] = Key()
    segments: Key[int] = Key()
    seq: Key[int] = Key()
    setting: Key[list[dict[str, Any]]] = Key()
    sharding: Key[str] = Key()
    sharding_contention: Key[str] = Key()
    sharing: Key[str] = Key()
    slowdown: Key[list[str]] = Key()
    slowdown_profile: Key[str] = Key()
    source: Key[str] = Key()
    stages: Key[int] = Key()
    stall: Key[str] = Key()
    steps: Key[int] = Key()
    sweep: Key[dict[str, Any]] = Key()
    title: Key[str] = Key()
    vocab_activation: Key[list[str]] = Key()
    vocab_barrier: Key[str] = Key()
    vocab_broadcast: Key[str] = Key()
    vocab_input_backward: Key[list[str]] = Key()
    vocab_input_forward: Key[list[str]] = Key()
    vocab_s: Key[list[str]] = Key()
    vocab_t: Key[list[str]] = Key()
    vocab_tflops: Key[float] = Key()
    vocabulary: Key[int] = Key()
    weight_gradient: Key[str] = Key()
    when_full: Key[str] = Key()


class EncoderKeys(TypedDict, total=False):
    """A question about an encoder in front of a language model."""

    activation: Size | None
    """Activation bytes of a microbatch on a stage, from F to B."""

    backward: Time | None
    """Backward time of a stage for a microbatch, inputs and weights together [default: twice the forward]."""

    chunks: Whole | None
    """Chunks per stage, for schedules that take any number."""

    effort: Whole | None
    """How long to search bubbles, in multiples of the default, which takes seconds [default: 1]."""

    encoder_activation: Size | None
    """Activation bytes of a microbatch in all layers of the encoder, from forward to backward."""

    encoder_backward: Time | None
    """Backward time of the encoder for a microbatch, inputs and weights together [default: twice the
    forward].
    """

    encoder_ffn: Whole | None
    """Width of the MLP of the encoder [default: that of its config, otherwise four times the hidden size]."""

    encoder_forward: Time | None
    """Forward time of the encoder for a microbatch, all its layers."""

    encoder_heads: Whole | None
    """Attention heads of the encoder [default: those of its config, otherwise of 64 each]."""

    encoder_hidden: Whole | None
    """Hidden size of the encoder, a vision transformer, instead of `encoder_forward`."""

    encoder_layers: Whole | None
    """Layers of the encoder, between which its passes are cut [default: those of its config, otherwise 24].
    """

    encoder_tokens: Whole | None
    """Patches of an image, which all attend to each other [default: those of its config, otherwise 1024]."""

    encoder_transfer: Time | None
    """How long the output of the encoder takes to the first stage, and its gradient back, where it runs on
    another one in bubbles [default: as `hop`].
    """

    encoder_work: OneOrMany[Share] | None
    """Work of the encoder for each microbatch relative to the one whose times are given, as in 1,0,2.5:
    unequal numbers of images.
    """

    forward: Time | None
    """Forward time of a stage for a microbatch."""

    frozen_encoder: bool | None
    """No weight of the encoder is trained: it has no backward."""

    hop: Time | None
    """Latency of a transfer between two stages [default: 0ns]."""

    images: Whole | None
    """Images of a sample [default: 1]."""

    layers: Whole | None
    """Layers of the language model, for `placement` spread and own-stages to cut it between them alone
    [default: cut anywhere].
    """

    machine: Name | None
    """The machine: a built-in one such as h100, or a file."""

    memory_limit: Size | None
    """Memory limit of a stage, for activations of model and encoder."""

    microbatch_size: Whole | None
    """Samples of a microbatch [default: 1]."""

    microbatches: Whole | None
    """Microbatches of a step [default: 32]."""

    model: Name | None
    """The language model, instead of `forward`: a config.json of Hugging Face, or a name such as llama3-70b.
    The vision_config of a config is the encoder, unless `encoder_hidden` or `encoder_forward` is given.
    """

    own_stages: Whole | None
    """Stages that `placement` own-stages gives to the encoder, of all of them [default: those of the shortest
    step].
    """

    placement: OneOrMany[Literal["first-stage", "own-stages", "spread", "bubbles"]] | None
    """Placement of the encoder: first-stage, own-stages, spread or bubbles [default: all four].

    `first-stage`: In front of the first chunk, on the first stage, as Megatron-LM has it.

    `own-stages`: On the first stages, which have none of the language model.

    `spread`: Layers of encoder and language model in turn, so that all chunks have equal work.

    `bubbles`: On every stage, in the time between passes of the language model.
    """

    recompute: Literal["full", "none"] | None
    """Activations that the backward computes again: full (of whole layers) or none [default: none].

    `full`: Those of whole layers (activation or gradient checkpointing).

    `none`: None.
    """

    schedule: OneOrMany[Name] | None
    """Schedules of the language model to compare [default: all published ones that can have an encoder in
    front].
    """

    seed: Whole | None
    """Seed of the search [default: 0]."""

    sequence: Whole | None
    """Tokens of a sample of the language model [default: those of the config, 4096 for names]."""

    stages: Whole | None
    """Stages of the pipeline [default: 8]."""

    tensor: Whole | None
    """Tensor-parallel devices of a stage, for model and encoder, with sequence parallelism [default: 1]."""

    weight: Time | None
    """The part of it that is for weights, W [default: half]."""


class FailureKeys(QuestionKeys, total=False):
    """The keys of a question about dead workers, besides those of its schedules."""

    checkpoint: Time | None
    """Time to write a checkpoint [default: 60s]."""

    checkpoint_interval: Time | None
    """Time between two checkpoints [default: that which loses least, Daly 2006]."""

    data_parallel: Whole | None
    """Data-parallel pipelines, each with the stages and microbatches of the question."""

    dead: OneOrMany[str] | None
    """Dead workers as PIPELINE.STAGE, both from 0, as in 0.1,2.3 [default: one, of the stage whose loss makes
    the step longest].
    """

    deal: Literal["balanced", "in-turn"] | None
    """How microbatches of dead workers are distributed over the live workers of their stage: balanced (each
    to the worker with the least work so far) or in-turn (from the first worker again for each dead one).

    `balanced`: Each to the worker with the least work so far.

    `in-turn`: In turn, from the first worker again for each dead one.
    """

    draws: Whole | None
    """Sets of dead workers that are drawn for each number of them."""

    effort: Whole | None
    """How long orders are searched, in multiples of the default; 0 for list schedules alone."""

    most_dead: Whole | None
    """Largest number of dead workers, drawn at random, to give a step for; 0 for none."""

    mtbf: Time | None
    """Mean time between failures of any of all workers, as in 2h: compares policies."""

    peer_hop: Time | None
    """Time of a transfer to a worker of another pipeline [default: as a hop within one]."""

    reconfigure: Time | None
    """Time from a failure until the other workers go on, and from a repair until the worker takes part:
    detection, new groups of collectives, weights from a peer [default: 30s].
    """

    repair: Time | None
    """Mean time until a dead worker is repaired or replaced [default: 3600s]."""

    restart: Time | None
    """Time to start all workers again from a checkpoint, once a spare is there [default: 600s]."""

    spares: Whole | None
    """Spare workers that run nothing until another dies, where policies wait for spares."""

    staggered: bool | None
    """Policies with a staggered optimizer: a stage begins its next step when its own optimizer is done."""

    timeline: bool | None
    """The passes of all live workers with their times, in the JSON."""

    update: Time | None
    """All-reduce of a stage's gradients over its pipelines, and its optimizer, after the last pass [default:
    `exchange` and `optimizer` of the question].
    """


class FsdpKeys(TypedDict, total=False):
    """A question about packing and communication."""

    bandwidth: str | None
    """Of every device, in and out, as in 50GB/s or 400Gbit/s."""

    communication: OneOrMany[Literal["collectives", "on-demand"]] | None
    """collectives or on-demand [default: both; only on-demand for lb-mini].

    `collectives`: Devices meet at every layer.

    `on-demand`: Devices meet at the end of the minibatch.
    """

    cost: str | None
    """Forward and backward time of a sample of s tokens: 1.5b or 7b (ODC's fits), linear:TIME per token, or
    quadratic:A,B for A (s/32000)^2 + B (s/32000) seconds [default: by `model` and `machine`, or 1.5b].
    """

    devices: OneOrMany[Whole] | None
    """Data-parallel devices, N."""

    devices_per_node: Whole | None
    """Devices of a node [default: all]."""

    jitter: str | None
    """Random durations of layers, as in pass=lognormal:0.05; the laws are those of `debubble simulate`."""

    latency: Time | None
    """Of one message [default: 0ns]."""

    layers: Whole | None
    """Layers of the model: how often devices meet in a microbatch, forward and backward [default: those of
    `model`, or 28].
    """

    lengths: str | None
    """How long samples are, in tokens: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST, longtail:LEAST-
    MOST:INDEX (Pareto), file:FILE (drawn from it) or in-order:FILE; of a file in CSV, JSONL or Parquet a
    column, as in file:data.parquet:length.
    """

    machine: Name | None
    """The machine, with `model`: a built-in one such as a100-80g, or a file; costs and links follow from it.
    """

    max_tokens: OneOrMany[Whole] | None
    """The most tokens of a microbatch."""

    method: OneOrMany[Literal["local-sort", "lb-micro", "lb-mini"]] | None
    """Packing methods: local-sort, lb-micro, lb-mini [default: all].

    `local-sort`: Sample i to device i mod N, one to a microbatch, the shortest first.

    `lb-micro`: Balanced over devices, with equally many microbatches.

    `lb-mini`: Balanced over devices, each with its own number of microbatches.
    """

    minibatch_size: OneOrMany[Whole] | None
    """Samples of a minibatch per device."""

    minibatches: Whole | None
    """How many minibatches to draw."""

    model: Name | None
    """The model, with `machine`: a config.json of Hugging Face, or a name such as qwen2.5-7b; costs, layers
    and parameters follow from it.
    """

    no_overlap: bool | None
    """Transfers do not hide behind computing."""

    node_bandwidth: str | None
    """Of each node to all other nodes, in and out, shared by its devices, as in 800Gbit/s."""

    owners: Whole | None
    """Devices that own parameters in on-demand communication [default: all]."""

    packing_ratio: OneOrMany[Share] | None
    """The most tokens of a microbatch over those of the longest sample [default: 1]."""

    parameters: Size | None
    """Size of all parameters as they travel [default: none, transfers take no time]."""

    pull_bandwidth: str | None
    """Largest bandwidth of a pull or push of one device with on-demand communication, if a ring gets more:
    owners are accessed in turn, over links of pairs [default: `bandwidth`].
    """

    recompute: Literal["full", "none"] | None
    """Activations that the backward computes again, for costs by `model`: full (of whole layers) or none.

    `full`: Those of whole layers (activation or gradient checkpointing).

    `none`: None.
    """

    seed: Whole | None
    """Seed of all chance."""

    sharding: Literal["full", "hybrid"] | None
    """Over which devices parameters are divided: full (all, FSDP) or hybrid (those of a node, and every node
    has all of them: HSDP).

    `full`: Over all devices.

    `hybrid`: Over the devices of a node; every node has all parameters.
    """

    slowdown: OneOrMany[str] | None
    """Slow devices: how many times as long their work takes, as in device:3=1.5."""

    stall: str | None
    """Rare stalls: the probability that a layer takes longer, and the extra time, as in 0.001:50ms."""


class PlanClusterKeys(TypedDict, total=False):
    """A cluster: a machine and its devices, or parts of several machines."""

    devices: OneOrMany[Whole] | None
    """The number of devices; several numbers are several clusters."""

    machine: Name | None
    """The machine: the name of one that is built in, or a file."""

    network: Name | None
    """Its network as it was measured: the output of nccl-tests or rccl-tests, or a table of bandwidths as CSV
    [default: `network` of the question].
    """

    parts: Iterable[PlanPartKeys | Mapping[str, Any]] | None
    """The parts of a cluster of several kinds of machines."""

    price: Number | None
    """Dollars for an hour of a device, however it is paid [default: that of the machine's file]."""

    profile: Name | None
    """A profile of the model on the machine, as `debubble calibrate` writes it [default: times by formulas].
    """


class PlanPartKeys(TypedDict, total=False):
    """Machines of one kind within a cluster."""

    devices: Whole | None
    """The number of its devices."""

    machine: Name | None
    """The machine: the name of one that is built in, or a file."""

    price: Number | None
    """Dollars for an hour of a device, however it is paid [default: that of the machine's file]."""


class PlanLengthsKeys(TypedDict, total=False):
    """Documents that are packed into sequences; tokens attend to those of their own alone."""

    documents: str | None
    """The lengths of documents in tokens, of which what goes beyond the end of a sequence goes on in the
    next: a distribution, such as `lognormal:800:1.2:131072`, or a file, such as `file:lengths.txt`, relative
    to the question [default: a sequence is one document].
    """

    seed: Whole | None
    """The seed by which lengths are drawn [default: 0]."""


class PlanSizesKeys(TypedDict, total=False):
    """The sizes of a transformer."""

    attention_gate: bool | None
    """Whether what attention gives is multiplied by a gate, as in Qwen3-Next [default: false]."""

    biases: bool | None
    """Whether linear layers have biases [default: true for plain MLPs, false for gated ones]."""

    dense_ffn: Whole | None
    """The width of the MLP of layers without experts, where others have them."""

    dense_layers: Whole | None
    """The first layers that have an MLP instead of experts [default: none]."""

    experts: Whole | None
    """The experts of a layer [default: none]."""

    experts_every: Whole | None
    """Every how many layers one has experts, where the others have an MLP [default: all have]."""

    ffn: Whole | None
    """The width of the MLP, or of one expert [default: 4 h for plain MLPs; else it must be given]."""

    full_every: Whole | None
    """Every how many layers one attends to all tokens, where the others have a window or linear attention: 6
    is five with a window and one without [default: none does].
    """

    gated: bool | None
    """Whether the MLP has a gate, as SwiGLU, and norms are RMS norms [default: false]."""

    head_size: Whole | None
    """The size of a head [default: the hidden size over the heads; with latent-keys it must be given]."""

    heads: Whole | None
    """The attention heads a."""

    hidden: Whole | None
    """The hidden size h."""

    index_head_size: Whole | None
    """The size of a head of the indexer, and of its key."""

    index_heads: Whole | None
    """The heads of an indexer, which chooses the keys that attention over latents goes to, as in
    DeepSeek-V3.2 [default: no indexer].
    """

    index_top_k: Whole | None
    """The most keys that the indexer chooses for a token."""

    kv_heads: Whole | None
    """The heads of keys and values, for grouped-query attention [default: as many as heads]."""

    latent_keys: Whole | None
    """The size of the latent that keys and values are made of, for multi-head latent attention [default: no
    latent].
    """

    latent_query: Whole | None
    """The size of the latent that queries are made of, with latent-keys [default: queries are projected
    directly].
    """

    layers: Whole | None
    """Transformer layers."""

    linear_convolution: Whole | None
    """The width of the convolution of linear attention [default: 4 tokens]."""

    linear_key_heads: Whole | None
    """The heads of queries and keys of linear attention with a gated delta rule, as in Qwen3-Next [default:
    no linear attention].
    """

    linear_key_size: Whole | None
    """The size of a head of queries and keys of linear attention."""

    linear_value_heads: Whole | None
    """The heads of values of linear attention."""

    linear_value_size: Whole | None
    """The size of a head of values of linear attention."""

    mamba_convolution: Whole | None
    """The width of the convolution of Mamba-2 [default: 4 tokens]."""

    mamba_groups: Whole | None
    """The groups of heads of Mamba-2 that share B and C."""

    mamba_head_size: Whole | None
    """The size of a head of Mamba-2."""

    mamba_heads: Whole | None
    """The heads of Mamba-2 layers, where pattern has them."""

    mamba_state: Whole | None
    """The size of the state of Mamba-2."""

    mtp: Whole | None
    """Layers of multi-token prediction behind the last one [default: 0]."""

    norm: Literal["rms", "layer"] | None
    """How normalisations are made: `rms`, with a scale, or `layer`, with a shift too [default: rms for gated
    MLPs, else layer].
    """

    norms: Whole | None
    """Normalisations of every layer [default: one before attention and one before the MLP]."""

    pattern: Name | None
    """A letter for each layer of a hybrid, as Megatron-LM and Nemotron-H write it: M is Mamba-2, * is
    attention, - an MLP and E experts, each a layer of its own [default: all layers have attention, and an MLP
    or experts].
    """

    positions: Whole | None
    """The learned positions [default: 0]."""

    qk_norm: bool | None
    """Whether queries and keys are normalised [default: false]."""

    rotary_size: Whole | None
    """The part of a head that is rotated and that all heads share in keys, with latent-keys."""

    router_bias: bool | None
    """Whether the router has a bias, learned or for balance [default: no bias]."""

    shared_ffn: Whole | None
    """The width of all shared experts together, which every token visits [default: none]."""

    shared_gate: bool | None
    """Whether shared experts are multiplied by a gate, as in Qwen2-MoE [default: no gate]."""

    sinks: bool | None
    """Whether every head has a learned sink, as in gpt-oss [default: false]."""

    tied: bool | None
    """Whether the embedding and the output layer share their weights [default: false]."""

    top_k: Whole | None
    """The experts that a token is sent to, where there are experts."""

    value_size: Whole | None
    """The size of a head's values [default: that of the head]."""

    vocabulary: Whole | None
    """The size V of the vocabulary."""

    window: Whole | None
    """The tokens that attention sees in layers with a window [default: all]."""


class PlanNoiseKeys(TypedDict, total=False):
    """How durations differ, and slow devices."""

    jitter: Number | None
    """The coefficient of variation of the durations of passes [default: 0.03]."""

    replicas: Whole | None
    """The number of replicas over which steps are averaged [default: 200]."""

    seed: Whole | None
    """The seed of all chance [default: 0]."""

    slowdown: OneOrMany[str] | None
    """Devices that are always slow, as in `device:3=1.5` [default: none]."""

    stall: str | None
    """Rare stalls: the probability that a pass takes longer, and the extra time, as in `0.001:50ms` [default:
    none].
    """

    straggler: str | None
    """Stragglers: the probability that a device is slow in a step, and how slow, as in `0.0001:1.5` [default:
    none].
    """


class PlanSearchKeys(TypedDict, total=False):
    """The set-ups that are tried. Keys that are left out follow from the model and each cluster."""

    chunks: OneOrMany[Whole] | None
    """Chunks per stage, for schedules that take several [default: 2, 3, 4, 6, 8]."""

    context: OneOrMany[Whole] | None
    """Context-parallel degrees [default: powers of two that leave each device 8,192 tokens of a sequence or
    more, at most 64].
    """

    expert: OneOrMany[Whole] | None
    """Expert-parallel degrees [default: powers of two up to the experts, at most 64]."""

    layout: str | None
    """The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    `Et*4|(t*4|)*14t*4L`, where E is the embedding, t a layer, L the loss, and | ends a chunk.
    """

    memory_cap: Size | None
    """The most memory that may be predicted of a device, without a margin for the error of predictions
    [default: what the device leaves, less that error].
    """

    microbatch: OneOrMany[Whole] | None
    """Samples of a microbatch [default: 1, 2, 4, 8]."""

    pipeline: OneOrMany[Whole] | None
    """Pipeline-parallel degrees [default: divisors of the devices up to the layers, at most 128]."""

    recompute: OneOrMany[Name] | None
    """Recomputation of activations: `none`, `selective` or `full` [default: all; selective with core
    attention alone].
    """

    schedule: OneOrMany[Name] | None
    """Schedules, by name; `zb-auto` searches orders for the best set-ups, as they share devices under the
    other schedules: one chunk per stage, two in a V, or as many as the best has [default: of 1f1b, 1f1b-i,
    zb-h1, zb-v, v-half, po-h, vocab-1, v-half-vocab-1 and zb-auto those that the framework runs].
    """

    software: Literal["all", "as given"] | None
    """Software that `[training]` leaves out: `all` turns on CUDA graphs, the dispatcher and the overlap of
    experts and of tensor groups where the framework and the machine have them, and `offload` for set-ups that
    fit only with it; `as given` leaves all off [default: all; as given with tuning = stock].
    """

    split: OneOrMany[Name] | None
    """How layers are split over stages: `even`, `balanced`, or `searched`: together with the order where that
    is searched, else balanced [default: searched].
    """

    tensor: OneOrMany[Whole] | None
    """Tensor-parallel degrees [default: powers of two up to the devices of a node, or 8 where more share fast
    links].
    """

    vocabulary_parallel: OneOrMany[bool] | None
    """Whether all stages share the embedding and the output layer [default: false]."""

    zero: OneOrMany[Whole] | None
    """Stages of ZeRO, 0 to 3 [default: 1, 3]."""


class PlanSetupKeys(TypedDict, total=False):
    """One set-up, with all parts of its step and memory, instead of a search."""

    chunks: Whole | None
    """The chunks of each stage, its virtual stages [default: those of the schedule or the layout; 1]."""

    context: Whole | None
    """The context-parallel degree [default: 1]."""

    data: Whole | None
    """The data-parallel degree [default: the devices over tensor, pipeline and context]."""

    dynamic_context: bool | None
    """Whether every microbatch deals the devices of a data x context group anew, so that each document has
    the fewest that hold it, at no more tokens of a device than `context` leaves it: dynamic (hybrid) context
    parallelism, as Megatron-LM has it; needs the table `[lengths]` [default: false].
    """

    expert: Whole | None
    """The expert-parallel degree: the devices that share the experts of a layer [default: 1]."""

    expert_tensor: Whole | None
    """The devices that share each product of an expert [default: as many as tensor]."""

    first_stage_layers: Whole | None
    """The layers of the first stage, where the other stages have equal numbers of them."""

    last_stage_layers: Whole | None
    """The layers of the last stage, where the other stages have equal numbers of them."""

    layout: str | None
    """The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    `Et*4|(t*4|)*14tmL`, where E is the embedding, t a layer, m one of multi-token prediction, L the loss, and
    | ends a chunk.
    """

    microbatch: Whole | None
    """The samples of a microbatch [default: 1]."""

    pipeline: Whole | None
    """The pipeline-parallel degree: the number of stages [default: 1]."""

    recompute: OneOrMany[Name] | None
    """Recomputation of activations: `none`, `selective`, `full`, `full-N` for the first N layers of each
    chunk, or modules as Megatron-LM names them, of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe and
    shared_experts, or `selective_op`, the selective mode of torchtitan [default: none].
    """

    recompute_layers: Whole | None
    """The layers of each chunk whose activations are recomputed, where `recompute` is `full`: the first of
    them [default: all].
    """

    reshard: Literal["after-forward", "after-last", "never"] | None
    """When parameters that ZeRO 3 gathered are given up: `after-forward`, to be gathered again for every
    pass, or `never` in a step, with gradients that are summed whole; of these `after-last` gives up those of
    a chunk behind its last backward [default: never in a pipeline, else after-forward].
    """

    schedule: Name | None
    """The schedule, by name; `zb-auto` is an order that is searched for this set-up, of one chunk per stage
    unless `chunks` says more: two lie in a V, any others looped [default: 1f1b; 1f1b-i with several chunks].
    """

    shard_groups: Whole | None
    """Groups of replicas of which each has all shards (HSDP) [default: 1]."""

    split: Literal["even", "balanced", "searched"] | None
    """How layers are split over stages: `even`, `balanced`, or, under `zb-auto`, `searched`: together with
    the order [default: even].
    """

    tensor: Whole | None
    """The tensor-parallel degree [default: 1]."""

    vocabulary_parallel: bool | None
    """Whether all stages share the embedding and the output layer [default: false]."""

    zero: Whole | None
    """The stage of ZeRO, 0 to 3: what replicas shard [default: 1]."""


class PlanTrainingKeys(TypedDict, total=False):
    """The recipe of training."""

    boundary: Literal["barrier", "post-validation"] | None
    """How stages wait for each other between steps: `barrier` or `post-validation` [default: barrier]."""

    capacity_factor: Number | None
    """The rows that an expert takes of each device, over those with all experts chosen alike; tokens that
    come to a full expert are dropped, as with Megatron-LM's `--moe-expert-capacity-factor` [default: none is
    dropped].
    """

    compiled: bool | None
    """Whether a compiler or kernels written by hand fuse what is elementwise; torchtitan without
    `torch.compile` runs it kernel by kernel [default: true].
    """

    contention: str | None
    """Contention of the streams with two-streams: the share of the compute that all-to-alls take while they
    run beside, and how many times as long these then take; or the name of such constants [default: 0.152,1,
    20 of 132 multiprocessors, with deepep and hybridep; megatron-hopper with alltoall].
    """

    context_exchange: Literal["ring", "all-gather"] | None
    """How keys and values reach all devices of a context group: `ring`, part by part beside attention, or
    `all-gather`, all before it [default: ring].
    """

    cuda_graph_modules: OneOrMany[Name] | None
    """The modules whose static buffers partial graphs hold, as Megatron-LM names them: any of attn, mlp, moe,
    moe_router, moe_preprocess and mamba. They change memory; launches are those of attention and router
    [default: attn and moe_router, as far as the model has them].
    """

    cuda_graphs: Literal["none", "partial", "full"] | None
    """The launches that CUDA graphs replace: `none`, `partial`, those of attention and router, or `full`,
    those of a whole step [default: none].
    """

    dispatcher: Literal["alltoall", "deepep", "hybridep"] | None
    """How tokens get to their experts: `alltoall`, once for each expert, or `deepep` or `hybridep`, once to
    each node [default: alltoall].
    """

    fp8_activation_input: bool | None
    """Whether the input of the activation function of MLPs and experts is kept in 8 bits [default: false]."""

    frozen: OneOrMany[Name] | None
    """Parts whose weights are not trained, and which have no adapters: `embedding`, `head`, or layers by
    their numbers from 0, such as `layers:0-23` [default: none; with lora-rank all weights but adapters].
    """

    fused_experts: bool | None
    """Whether the kernels around experts are fused, as in Megatron-LM from its releases of 2026 on [default:
    true on machines with products of 8 bits].
    """

    gradient_bytes: Whole | None
    """Bytes of gradients per parameter [default: 4]."""

    head_precision: Literal["bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4"] | None
    """The format of the product with the vocabulary [default: bf16]."""

    host_update: Time | None
    """The time in which the host updates a billion parameters of a device [default: 1.28s, by published steps
    of an H100].
    """

    imbalance: Share | None
    """How many times as much the fullest device of an expert group has to do as if all experts were chosen
    alike, 1 where routing is forced into balance; or how popular experts are, of which that follows:
    `zipf:EXPONENT`, `lognormal:SIGMA`, or a file of measured counts, such as `file:counts.csv`, relative to
    the question. A step then takes the mean of layers and microbatches; memory, and the P95 of a step, what
    95 % of them do not exceed [default: 1].
    """

    logit_bytes: Whole | None
    """Bytes of a logit while the loss is computed [default: 6; 12 with torchtitan]."""

    lora_modules: OneOrMany[Name] | None
    """The products with adapters: `attention`, `mlp` or `all-linear`, or names of Megatron-Bridge
    (linear_qkv, linear_proj, linear_fc1, linear_fc2), of PEFT (q_proj, k_proj, v_proj, o_proj, gate_proj,
    up_proj, down_proj), of mixers (in_proj, out_proj) or of torchtitan (wq, wk, wv, wo, w1, w2, w3) [default:
    attention and mlp].
    """

    lora_rank: Whole | None
    """The rank of adapters beside frozen weights (LoRA): these alone are trained [default: no adapters]."""

    loss: Literal["separate", "fused"] | None
    """How the loss is computed: `separate` or `fused` [default: separate]."""

    offload: OneOrMany[Name] | None
    """Inputs of parts of each layer that wait for the backward in the memory of the host: any of attn_norm,
    qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1 and moe_act, as Megatron-LM names them; attn_proj
    only with core_attn [default: none].
    """

    optimizer: Literal["adamw", "muon", "sgd"] | None
    """The optimizer: `adamw`, `muon`, which keeps one moment of the matrices of layers and makes it
    orthogonal by five iterations of Newton and Schulz, with adamw for the rest, or `sgd` with momentum
    [default: adamw].
    """

    optimizer_bytes: Whole | None
    """Bytes of optimizer state per parameter [default: 12; 8 with sgd, and of layers with muon]."""

    optimizer_offload: Number | None
    """The share of the parameters whose optimizer state is in the memory of the host, which updates them
    [default: 0].
    """

    overlap_experts: bool | None
    """Whether all-to-alls of experts run beside the compute of another microbatch [default: false]."""

    overlap_gradients: bool | None
    """Whether the reduction of gradients is overlapped with backward passes [default: true]."""

    overlap_parameters: bool | None
    """Whether parameters are gathered beside the passes that need others, and each chunk exchanges its own
    beside those of others [default: true on machines with products of 8 bits].
    """

    overlap_tensor: bool | None
    """Whether collectives of tensor groups run beside the products that they belong to [default: false]."""

    overlap_transfers: bool | None
    """Whether stages go on while their outputs travel to other stages: where a stage has several chunks, as
    in Megatron-LM; with one chunk it waits for each transfer [default: true on machines with products of 8
    bits].
    """

    pad_to_capacity: bool | None
    """Whether every expert gets as many rows as it takes, with padding for those that lack, as with Megatron-
    LM's `--moe-pad-expert-input-to-capacity` [default: false].
    """

    precision: Literal["bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4"] | None
    """The format of the large matrix products of layers: `bf16`, `fp8` with a scale for a tensor,
    `fp8-blockwise`, `mxfp8` or `nvfp4`; attention, router and norms stay wider [default: bf16].
    """

    reserved: Size | None
    """Memory that the framework and its libraries take of a device [default: 1GiB]."""

    sequence_parallel: bool | None
    """Whether tensor-parallel groups share the sequence between their layers [default: true]."""

    tuning: Literal["tuned", "stock"] | None
    """Whose software runs the step: `tuned`, Megatron-LM by a vendor's recipe for the model and the machine,
    or `stock`, with its defaults, which overlap less [default: the times of tuned, with the error of both].
    """

    two_streams: bool | None
    """Whether a forward and a backward that a schedule pairs share two streams, segment by segment, so that
    what is hidden of the all-to-alls of experts comes of the order of passes: for dualpipe, dualpipe-v, stp,
    1f1b-overlap and 1f1b-i-overlap, in place of overlap-experts [default: false].
    """

    weight_bytes: Whole | None
    """Bytes of a layer's weight as products read it; 1 where 8-bit weights have no transposed copy [default:
    2].
    """


class PlanKeys(TypedDict, total=False):
    """A question for the planner, as `PLAN.toml` writes it: typed, but not yet checked."""

    attention: Literal["flash", "core"] | None
    """How attention is computed: `flash`, in tiles, or `core`, with scores in memory [default: flash]."""

    batch: Whole | None
    """The samples of a global batch."""

    budget: Number | None
    """The dollars that training may cost [default: no limit]."""

    cluster: Iterable[PlanClusterKeys | Mapping[str, Any]] | None
    """The clusters to choose from."""

    confidence: Number | None
    """The odds with which a plan must meet deadline-days and budget, by published trainings [default: 0.5,
    even odds].
    """

    contingency: Number | None
    """How many times as long as its steps training takes, for restarts, evaluation and what else is not a
    step: odds are then those of trainings that take so long in the median [default: 1, with odds around the
    median of published trainings].
    """

    deadline_days: Number | None
    """The days after which training must be done [default: no deadline]."""

    framework: Literal["megatron", "torchtitan", "any"] | None
    """The training framework that must run the plan: `megatron`, `torchtitan` or `any` [default: any]."""

    lengths: PlanLengthsKeys | Mapping[str, Any] | None
    """Documents that are packed into the sequences."""

    model: Name | PlanSizesKeys | Mapping[str, Any] | None
    """The model: a `config.json` of Hugging Face, relative to the question, or its sizes."""

    network: Name | None
    """The network between the devices as it was measured, of all clusters, which then have one kind of
    machine: the output of nccl-tests or rccl-tests, or a CSV with columns collective, ranks, nodes, bytes and
    busbw [default: the rates of the machine].
    """

    noise: PlanNoiseKeys | Mapping[str, Any] | None
    """How durations differ, and slow devices."""

    plans: Whole | None
    """The number of plans that are printed for each cluster [default: 3]."""

    price: Literal["on-demand", "reserved", "spot"] | None
    """The price that is paid for machines: `on-demand`, `reserved` or `spot` [default: on-demand]."""

    search: PlanSearchKeys | Mapping[str, Any] | None
    """The set-ups that are tried."""

    sequence: Whole | None
    """The tokens of a sample [default: those of the `config.json`, at most 4096; for a table of sizes it must
    be given].
    """

    setup: PlanSetupKeys | Mapping[str, Any] | None
    """One set-up to answer, in place of a search [default: those of `[search]` are tried]."""

    storage: str | None
    """The rate at which storage takes a checkpoint from all devices together [default: as fast as they
    write].
    """

    title: Name | None
    """The title of the answer."""

    tokens: Number | None
    """The tokens to train on."""

    training: PlanTrainingKeys | Mapping[str, Any] | None
    """The recipe of training."""


class ReplayKeys(TypedDict, total=False):
    """Changes of a run that are tried on its trace."""

    backward_split: Number | None
    """Share of B in a backward pass, the rest being W [default: from `hidden` and `seq`, or 0.5]."""

    chunks: Whole | None
    """Chunks per stage, for schedules that take any number."""

    hidden: Whole | None
    """Hidden size h, for the share of B: (24h+8s) / (48h+8s)."""

    memory_limit: OneOrMany[MemoryLimit] | None
    """Memory limit of every stage, for schedules that are made for one: `1.5p`; or one per stage."""

    schedule: Schedules | None
    """Order the passes by these schedules, with the run's median times: compare them with no-stragglers, and
    with the run's own schedule.
    """

    seq: Whole | None
    """Sequence length s."""

    warmup_steps: Whole | None
    """Leave out the first N steps of the trace, which warm up."""

    what_if: OneOrMany[Literal["no-stragglers", "balanced", "free-links"]] | None
    """Change the run in these ways, one at a time.

    `no-stragglers`: Every pass takes the median of its kind and chunk over ranks, microbatches and steps.

    `balanced`: Every pass takes the mean of those medians over the stages.

    `free-links`: Transfers between stages take no time.
    """


class RlKeys(TypedDict, total=False):
    """A question about a step of reinforcement learning."""

    chunks: Whole | None
    """Chunks of layers on a stage of an interleaved pipeline [default: 2]."""

    communication: Literal["collectives", "on-demand"] | None
    """collectives or on-demand, which lb-mini needs.

    `collectives`: Devices meet at every layer.

    `on-demand`: Devices meet at the end of the minibatch.
    """

    context: Whole | None
    """Context-parallel devices: those that share each sequence."""

    cost: str | None
    """Forward and backward time of a sample on a device, instead of formulas: quadratic:A,B and more, as
    `debubble fsdp `cost`` has them.
    """

    critic: bool | None
    """A critic of the same size, as in PPO: values before the update, and its own updates."""

    devices: Whole | None
    """All devices."""

    engine_memory: Number | None
    """Share of a device's memory that an engine has for weights, keys and values [default: 0.5; 0.9 on
    separate devices].
    """

    epochs: Whole | None
    """How often the responses of a step are gone through."""

    expert: Whole | None
    """Devices that share the experts of a layer."""

    expert_tensor: Whole | None
    """Devices that share each expert [default: as train-tensor]."""

    generation_rate: Number | None
    """Tokens per second that an engine generates with as many sequences as it takes, as measured [default: by
    formulas].
    """

    log: Name | None
    """Log of the run that is asked about, of verl, slime or NeMo-RL: its lengths are taken, and its phases
    calibrate those of the answer.
    """

    log_prob_max_tokens: Whole | None
    """The same where log-probabilities are computed [default: as max-tokens]."""

    lora_rank: Whole | None
    """Rank of adapters on frozen weights (LoRA), on all products of layers: these alone are trained [default:
    no adapters].
    """

    machine: Name | None
    """The machine: a built-in one such as h100, or a file."""

    max_sequences: Whole | None
    """The most sequences that an engine generates at a time."""

    max_tokens: Whole | None
    """The most tokens of a microbatch of a device [default: those of the longest sample, shared by a
    sequence-parallel or context-parallel group].
    """

    method: Literal["local-sort", "lb-micro", "lb-mini"] | None
    """Packing method: local-sort, lb-micro or lb-mini.

    `local-sort`: Sample i to device i mod N, one to a microbatch, the shortest first.

    `lb-micro`: Balanced over devices, with equally many microbatches.

    `lb-mini`: Balanced over devices, each with its own number of microbatches.
    """

    mini_batch: Whole | None
    """Prompts of an update, with all their responses [default: all of a step]."""

    model: Name | None
    """The model that is trained: a config.json of Hugging Face, or a name such as qwen2.5-7b."""

    no_old_log_probs: bool | None
    """Log-probabilities of the policy before the update are not computed, as with one update of a step."""

    pipeline: Whole | None
    """Pipeline stages of a replica."""

    placement: Literal["colocated", "separate"] | None
    """Where rollout and training run: colocated (the same devices, in turn) or separate (separate devices in
    parallel, one step off-policy).

    `colocated`: On the same devices, in turn.

    `separate`: On separate devices, in parallel: one step off-policy.
    """

    prompt_lengths: str | None
    """How long prompts are, in tokens: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST, longtail:LEAST-
    MOST:INDEX, file:FILE or in-order:FILE, as `debubble fsdp `lengths`` has them.
    """

    prompts: Whole | None
    """Prompts of a step."""

    recompute: Literal["full", "none"] | None
    """Activations that the backward computes again: full (of whole layers) or none.

    `full`: Those of whole layers (activation or gradient checkpointing).

    `none`: None.
    """

    reference: bool | None
    """Log-probabilities of a reference model, for a KL term."""

    response_lengths: str | None
    """How long responses are, in tokens, in the same way; the longest is the limit of generation."""

    responses: Whole | None
    """Responses to each prompt."""

    reward: Time | None
    """Time of rewards after the rollout [default: 0ns]."""

    rollout_budget: Whole | None
    """The most tokens that a response gets in a step: longer ones go on in the next (partial rollouts)
    [default: all].
    """

    rollout_devices: Whole | None
    """The devices of the rollout where it is separate [default: half of them]."""

    schedule: Literal["1f1b", "1f1b-i", "zb-h1"] | None
    """Order of passes in a pipeline: 1f1b, 1f1b-i (interleaved) or zb-h1.

    `1f1b`: 1F1B.

    `1f1b-i`: Interleaved 1F1B: several chunks of layers on a stage.

    `zb-h1`: ZB-H1: 1F1B with the backward in two passes, in the same memory.
    """

    seed: Whole | None
    """Seed of all lengths."""

    sequence_parallel: Whole | None
    """Devices that share each sequence (Ulysses)."""

    step_latency: Time | None
    """Overhead of a decode step on top of memory reads and compute: scheduling, sampling, launches; more
    without CUDA graphs [default: 3ms].
    """

    steps: Whole | None
    """Steps that the mean is over."""

    strategy: Literal["fsdp", "megatron"] | None
    """Training: fsdp, or megatron (pipelines with tensor, context and expert parallelism).

    `fsdp`: Fully sharded data parallelism.

    `megatron`: Pipelines with tensor, context and expert parallelism, as Megatron-LM has them.
    """

    switch: Time | None
    """How long devices take to change between rollout and training, and back: offloading, waking [default:
    0ns].
    """

    sync: Time | None
    """How long new weights take to the engines [default: their bytes over the links]."""

    tensor: Whole | None
    """Tensor-parallel devices of an engine."""

    train_tensor: Whole | None
    """Tensor-parallel devices of a stage, which share activations too (sequence parallelism)."""


class SearchKeys(QuestionKeys, total=False):
    """The keys of a search, besides those of the settings that are searched."""

    activation_head: Size | None
    """Activation bytes of a microbatch on the first chunk from F to W, in addition to its layers, with
    `activation` [default: 0B].
    """

    activation_tail: Size | None
    """The same of the last chunk [default: 0B]."""

    effort: Whole | None
    """Search effort in multiples of the default, which takes seconds [default: 1; under `time_limit` without
    `ilp` until it ends].
    """

    ilp: bool | None
    """Then solve the order as an integer program, for `time_limit` at most [default: 30s], from the best
    order found on: a better one, and a proof of the optimum that `verify` can check.
    """

    max_chunks: Whole | None
    """The most chunks per stage that `vary` chunks tries [default: 3]."""

    memory_limits: OneOrMany[MemoryLimit] | None
    """Memory limits to search one after the other: bubble against memory. An order that fits one limit fits
    the larger ones.
    """

    mtp_layers: Whole | None
    """Layers of multi-token prediction (MTP) that `vary` places, besides `layers`; what they do is said by
    `chain_mtp` [default: 0].
    """

    objective: Literal["span", "makespan", "step", "mean", "p95", "p99"] | None
    """The cost to minimise. On a cluster, or over several steps, span and makespan are those of the last
    step, and the event engine is the judge, as in `simulate`. mean, p95 and p99 are of the step under the
    noise of the question, which ends as `boundary` says: with asynchronous, by default, at the span of the
    slowest stage, with barrier at the makespan.

    `span`: The longest time from the first to the last pass of a stage.

    `makespan`: The end of the last pass.

    `step`: The time per step on a cluster, or over several steps, with everything between two of them.

    `mean`: The mean of the step over replicas of the noise.

    `p95`: The step that 95 % of the replicas do not exceed.

    `p99`: The step that 99 % of the replicas do not exceed.
    """

    placement: Literal["looped", "v"] | None
    """Placement of chunks [default: looped; v for two chunks per stage, default].

    `looped`: Chunk c on stage c mod p.

    `v`: Down the stages and up again.
    """

    resident_head: Size | None
    """The same of what the first chunk has besides its layers, the embedding [default: 0B]."""

    resident_layer: Size | None
    """Resident bytes of a layer, also of an MTP layer (weights, gradients, optimizer state): with `vary`, the
    memory limit is then for them, too [default: 0B].
    """

    resident_tail: Size | None
    """The same of what the last chunk has besides its layers, the output layer [default: 0B]."""

    time_limit: Time | None
    """Stop each search after that time, with the best so far."""

    vary: OneOrMany[Literal["layers", "chunks", "placement", "recompute", "offload", "pairs", "all"]] | None
    """Search these together with the order, under one memory limit in bytes: layers (of each chunk), chunks
    (per stage, v), placement, recompute (what each chunk recomputes), offload (which chunks go to the host,
    with the time of a copy), pairs (whether F and B overlap on two streams, with a `chain` that communicates;
    pairs recompute nothing), or all of those for which the question has the keys.

    `layers`: How many layers each chunk has.

    `chunks`: Chunks per stage, v.

    `placement`: Placement of chunks.

    `recompute`: Recomputation of each chunk.

    `offload`: Which chunks copy their activations to the host.

    `pairs`: Whether F and B overlap as pairs on two streams.

    `all`: All of these for which the question has the keys.
    """

    warm_start: Name | None
    """Start from a certificate of the same question, which is checked first: from its order, its bound and
    its proof.
    """
