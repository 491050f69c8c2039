"""Steps of a small GPT of Megatron-core on CPUs (gloo), in Megatron's own 1F1B and in orders of debubble.

python megatron_runs.py RANKS REPLICAS FOLDER KIND,KIND.. ORDER..

Writes FOLDER/NAME-KIND.json for each order, and with the name `megatron` for Megatron's own: the
losses, and the sum and the largest entry of the gradient of each parameter by its place in the model.
The weights of a layer follow from its place, so that every run has the same model, and the samples of a
replica from its number. Megatron's functions that name CUDA get the CPU in its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import types
import warnings
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.overrides import TorchFunctionMode

LAYERS, HIDDEN, VOCABULARY, TOKENS, SAMPLES, MICROBATCHES = 8, 16, 64, 8, 2, 8

#: The first layers, which are those of the front.
FRONT = 4


class Kind(NamedTuple):
    """What a step is of."""

    #: What a training loop adds: Megatron's DistributedDataParallel with overlapped reduction, scaled losses,
    #: and gradients finalised by Megatron.
    is_wrapped: bool = True
    forward_only: bool = False
    tied: bool = False
    sharded: bool = False
    tokens: int = TOKENS
    samples: int = SAMPLES
    #: Layers whose weights have no gradients: the front, or all but adapters.
    frozen: str = ""
    #: Whether the front runs without a graph.
    detached: bool = False
    settings: Mapping[str, Any] = types.MappingProxyType({})


KINDS = {
    "step": Kind(is_wrapped=False),
    "forward": Kind(is_wrapped=False, forward_only=True),
    "tied": Kind(tied=True),
    "untied": Kind(),
    "tokens": Kind(settings={"calculate_per_token_loss": True}),
    "frozen": Kind(frozen="front"),
    "detached": Kind(frozen="front", detached=True),
    "adapters": Kind(frozen="all"),
    "mtp": Kind(settings={"mtp_num_layers": 1, "mtp_loss_scaling_factor": 0.1}),
    "short": Kind(tokens=4, samples=3),
    "sharded": Kind(sharded=True),
}


class OnCpu(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def chunks(ranks: int, rank: int, per_rank: int, placement: str) -> list[int]:
    """The chunks of a rank: in a V, or looped."""
    if placement == "v":
        return [rank, 2 * ranks - 1 - rank]
    return [rank + ranks * turn for turn in range(per_rank)]


def config_of(ranks: int, per_rank: int, **others: Any) -> Any:
    from megatron.core.transformer.transformer_config import TransformerConfig

    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        use_cpu_initialization=True,
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=per_rank if per_rank > 1 else None,
        pipeline_dtype=torch.float32,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        **others,
    )


class Adapted(torch.nn.Module):
    """A linear layer of Megatron with an adapter beside it."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(HIDDEN, 2, bias=False)
        self.up = torch.nn.Linear(2, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        output, bias = self.base(x)
        return output + self.up(self.down(x)), bias


def model(config: Any, kind: Kind, ranks: int, per_rank: int, place: int, chunk: int) -> Any:
    """The chunk of the model, with weights that follow from the places of its layers."""
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.models.gpt.gpt_model import GPTModel

    spec = gpt_layer_specs.get_gpt_layer_local_spec()
    is_last = chunk == ranks * per_rank - 1
    virtual = place if per_rank > 1 else None
    mtp = None
    if config.mtp_num_layers and is_last:
        mtp = gpt_layer_specs.get_gpt_mtp_block_spec(config, spec, False, vp_stage=virtual)
    made = GPTModel(
        config,
        spec,
        vocab_size=VOCABULARY,
        max_sequence_length=TOKENS,
        pre_process=chunk == 0,
        post_process=is_last,
        share_embeddings_and_output_weights=kind.tied,
        vp_stage=virtual,
        mtp_block_spec=mtp,
    )
    if kind.frozen == "all":
        for layer in made.decoder.layers:
            layer.self_attention.linear_proj = Adapted(layer.self_attention.linear_proj)
    for name, parameter in named(made, ranks, per_rank, chunk):
        generator = torch.Generator().manual_seed(zlib.crc32(name.replace("base.", "").encode()))
        with torch.no_grad():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
        is_trained = {
            "": True,
            "front": "layers." in name and int(name.split(".")[2]) >= FRONT,
            "all": ".up." in name or ".down." in name,
        }
        parameter.requires_grad = is_trained[kind.frozen]
    return made


def named(made: Any, ranks: int, per_rank: int, chunk: int) -> list[tuple[str, Any]]:
    """The parameters of a chunk, with the places of layers in the whole model in their names."""
    each = LAYERS // (ranks * per_rank)
    found = []
    for name, parameter in made.named_parameters():
        parts = name.split(".")
        if parts[:2] == ["decoder", "layers"]:
            parts[2] = str(int(parts[2]) + each * chunk)
        found.append((".".join(parts), parameter))
    return found


def forward_step(kind: Kind, front: list[Any]) -> Any:
    """The function that runs a microbatch through a chunk, those of `front` without a graph."""

    def step(iterator: Any, chunk: Any) -> Any:
        x = next(iterator)
        positions = torch.arange(kind.tokens).expand(kind.samples, kind.tokens)
        mask = torch.triu(torch.ones(1, 1, kind.tokens, kind.tokens, dtype=torch.bool), 1)
        with torch.no_grad() if chunk in front else contextlib.nullcontext():
            output = chunk(x, positions, mask, labels=x)
        is_counted = x > VOCABULARY // 8

        def loss(each: torch.Tensor) -> Any:
            if kind.settings.get("calculate_per_token_loss"):
                found = (each * is_counted).sum()
                return found, is_counted.sum().int(), {"loss": found.detach()}
            return each.mean(), {"loss": each.mean().detach()}

        return output, loss

    return step


def wrapped(config: Any, kind: Kind, models: list[Any]) -> list[Any]:
    """The chunks in Megatron's DistributedDataParallel, with the functions that its training loop sets."""
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )

    settings = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=kind.sharded
    )
    made = [DistributedDataParallel(config, settings, one) for one in models]
    config.grad_scale_func = lambda loss: 4.0 * loss
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = [one.no_sync for one in made] if len(made) > 1 else made[0].no_sync
    for one in made:
        one.zero_grad_buffer()
    return made


def gather_shards(models: list[Any]) -> None:
    """Gives each replica the whole gradients, of which the distributed optimizer leaves it a shard."""
    from megatron.core import parallel_state

    group = parallel_state.get_data_parallel_group()
    for bucket in (bucket for one in models for groups in one.bucket_groups for bucket in groups.buckets):
        own = bucket.grad_data.chunk(group.size())[group.rank()].clone()
        dist.all_gather_into_tensor(bucket.grad_data, own, group=group)


def prepared(kind: Kind, ranks: int, per_rank: int, placement: str) -> tuple[list[Any], list[int], Any]:
    """The chunks of this rank, their numbers, and what runs a microbatch through one."""
    from megatron.core import parallel_state

    # Groups are made once: each has threads of its own.
    if not parallel_state.is_initialized():
        parallel_state.initialize_model_parallel(1, ranks)
    parallel_state.set_virtual_pipeline_model_parallel_world_size(per_rank if per_rank > 1 else None)
    parallel_state.set_virtual_pipeline_model_parallel_rank(0 if per_rank > 1 else None)
    config = config_of(ranks, per_rank, **kind.settings)
    rank = parallel_state.get_pipeline_model_parallel_rank()
    own = chunks(ranks, rank, per_rank, placement)
    models = [model(config, kind, ranks, per_rank, place, chunk) for place, chunk in enumerate(own)]
    if kind.is_wrapped:
        models = wrapped(config, kind, models)
    is_front = kind.detached and LAYERS // (ranks * per_rank)
    front = [one for one, chunk in zip(models, own) if is_front and (chunk + 1) * is_front <= FRONT]
    return models, own, forward_step(kind, front)


def call(function: Any, kind: Kind, models: list[Any], forward: Any, **others: Any) -> Any:
    """One step by `function`."""
    from megatron.core import parallel_state

    generator = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
    shape = (kind.samples, kind.tokens)
    data = [torch.randint(0, VOCABULARY, shape, generator=generator) for _ in range(MICROBATCHES)]
    iterators = [iter(data) for _ in models]
    given = {
        "forward_step_func": forward,
        "data_iterator": iterators if len(models) > 1 else iterators[0],
        "model": models,
        "num_microbatches": MICROBATCHES,
        "seq_length": kind.tokens,
        "micro_batch_size": kind.samples,
        "forward_only": kind.forward_only,
    }
    return function(**{**given, **others})


def step(function: Any, ranks: int, per_rank: int, placement: str, kind: Kind) -> dict[str, Any]:
    """One step by what `function` gives: losses and gradients of this rank."""
    models, own, forward = prepared(kind, ranks, per_rank, placement)
    if kind.is_wrapped:
        # Megatron overlaps the reduction from the second step on.
        call(function(), kind, models, forward)
        for one in models:
            one.zero_grad_buffer()
            assert not any(getattr(group, "is_first_batch", False) for group in one.bucket_groups)
    losses = call(function(), kind, models, forward)
    if kind.sharded:
        gather_shards(models)
    gradients = {}
    for one, chunk in zip(models, own):
        made = one.module if kind.is_wrapped else one
        for name, parameter in named(made, ranks, per_rank, chunk):
            gradient = getattr(parameter, "main_grad", None) if kind.is_wrapped else parameter.grad
            if gradient is not None:
                gradients[name] = [float(gradient.double().sum()), float(gradient.abs().max())]
    return {"losses": [float(one["loss"]) for one in losses], "gradients": gradients}


@contextlib.contextmanager
def on_cpu(rank: int, world: int, port: int) -> Iterator[None]:
    """The process group of this rank, with Megatron on the CPU."""
    warnings.filterwarnings("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    dist.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import tensor_parallel

    # Its states are those of GPUs; nothing here drops anything at random.
    tensor_parallel.random.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()
    with OnCpu():
        yield
    dist.destroy_process_group()


def run(rank: int, ranks: int, replicas: int, folder: str, names: str, orders: list[str], port: int) -> None:
    kinds = {name: KINDS[name] for name in names.split(",")}
    with on_cpu(rank, ranks * replicas, port):
        from megatron.core.pipeline_parallel import schedules

        import debubble as db
        import debubble.megatron as dbm

        own = schedules.get_forward_backward_func
        for name, kind in kinds.items():
            write(folder, f"megatron-{name}", step(own, ranks, 1, "looped", kind))
        for path in orders:
            order = db.Schedule.from_file(path)
            function = dbm.forward_backward_func(order)
            placement = "v" if order.placement == "v" else "looped"
            for name, kind in kinds.items():
                # A V has neither tied embeddings nor multi-token prediction.
                if placement == "v" and name in ("tied", "mtp"):
                    continue
                found = step(lambda made=function: made, ranks, order.chunks, placement, kind)
                write(folder, f"{Path(path).stem}-{name}", found)


def write(folder: str, name: str, found: dict[str, Any]) -> None:
    """Gathers what all ranks have found, and writes it on the first."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if dist.get_rank() == 0:
        losses = [loss for one in every for loss in one["losses"]]
        gradients = {name: entry for one in every for name, entry in one["gradients"].items()}
        text = json.dumps({"losses": losses, "gradients": gradients})
        (Path(folder) / f"{name}.json").write_text(text)


def spawn(function: Any, world: int, *arguments: Any) -> None:
    """Runs a function in a process for each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(function, args=(*arguments, port), nprocs=world)


if __name__ == "__main__":
    ranks, replicas = int(sys.argv[1]), int(sys.argv[2])
    spawn(run, ranks * replicas, ranks, replicas, sys.argv[3], sys.argv[4], sys.argv[5:])
