"""Steps of a small GPT of Megatron-core on CPUs (gloo), in Megatron's own 1F1B and in orders of debubble.

python megatron_runs.py RANKS FOLDER ORDER..

Writes FOLDER/NAME-KIND.json for each order, and with the name `megatron` for Megatron's own: the
losses, and the sum and the largest entry of the gradient of each parameter by its place in the model.
Kinds are `step`, `forward` without backward, and `whole` with what a training loop adds: Megatron's
DistributedDataParallel with overlapped reduction, scaled losses, gradients finalised by Megatron and,
in a looped order, tied embeddings. The weights of a layer follow from its place, so that every run has
the same model. Megatron's functions that name CUDA get the CPU in its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.overrides import TorchFunctionMode

LAYERS, HIDDEN, VOCABULARY, TOKENS, SAMPLES, MICROBATCHES = 8, 16, 64, 8, 2, 8


class OnCpu(TorchFunctionMode):
    """Tensors that are asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        persist_layer_norm=False,
        **others,
    )


def model(config: Any, ranks: int, per_rank: int, place: int, chunk: int, *, tied: bool) -> Any:
    """The chunk of the model, with weights that follow from the places of its layers."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel

    made = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=VOCABULARY,
        max_sequence_length=TOKENS,
        pre_process=chunk == 0,
        post_process=chunk == ranks * per_rank - 1,
        share_embeddings_and_output_weights=tied,
        vp_stage=place if per_rank > 1 else None,
    )
    for name, parameter in named(made, ranks, per_rank, chunk):
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        with torch.no_grad():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return made


def named(made: Any, ranks: int, per_rank: int, chunk: int) -> list[tuple[str, Any]]:
    """The parameters of a chunk, with the places of layers in the whole model in their names."""
    each = LAYERS // (ranks * per_rank)
    found = []
    for name, parameter in made.named_parameters():
        parts = name.split(".")
        if "layers" in parts:
            at = parts.index("layers") + 1
            parts[at] = str(int(parts[at]) + each * chunk)
        found.append((".".join(parts), parameter))
    return found


def forward_step(iterator: Any, chunk: Any) -> Any:
    x = next(iterator)
    positions = torch.arange(TOKENS).expand(SAMPLES, TOKENS)
    mask = torch.triu(torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool), 1)
    output = chunk(x, positions, mask, labels=x)
    return output, lambda loss: (loss.mean(), {"loss": loss.mean().detach()})


def wrapped(config: Any, models: list[Any]) -> list[Any]:
    """The chunks in Megatron's DistributedDataParallel, with the functions that its training loop sets."""
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )

    settings = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=True)
    made = [DistributedDataParallel(config, settings, one) for one in models]
    config.grad_scale_func = lambda loss: 4.0 * loss
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = [one.no_sync for one in made] if len(made) > 1 else made[0].no_sync
    for one in made:
        one.zero_grad_buffer()
    return made


def step(function: Any, sizes: tuple[int, int, int, str], kind: str) -> dict[str, Any]:
    """One step by `function`: losses and gradients of this rank."""
    from megatron.core import parallel_state

    ranks, rank, per_rank, placement = sizes
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(1, ranks, per_rank if per_rank > 1 else None)
    config = config_of(ranks, per_rank, gradient_accumulation_fusion=False)
    own = chunks(ranks, rank, per_rank, placement)
    tied = kind == "whole" and placement == "looped"
    made = [model(config, ranks, per_rank, place, chunk, tied=tied) for place, chunk in enumerate(own)]
    models = wrapped(config, made) if kind == "whole" else made
    generator = torch.Generator().manual_seed(0)
    data = [torch.randint(0, VOCABULARY, (SAMPLES, TOKENS), generator=generator) for _ in range(MICROBATCHES)]
    iterators = [iter(data) for _ in models]
    losses = function()(
        forward_step_func=forward_step,
        data_iterator=iterators if len(models) > 1 else iterators[0],
        model=models,
        num_microbatches=MICROBATCHES,
        seq_length=TOKENS,
        micro_batch_size=SAMPLES,
        forward_only=kind == "forward",
    )
    gradients = {}
    for one, chunk in zip(made, own):
        for name, parameter in named(one, ranks, per_rank, chunk):
            gradient = parameter.main_grad if kind == "whole" else parameter.grad
            if gradient is not None:
                gradients[name] = [float(gradient.double().sum()), float(gradient.abs().max())]
    return {"losses": [float(one["loss"]) for one in losses], "gradients": gradients}


def run(rank: int, ranks: int, folder: str, orders: list[str], port: int) -> None:
    warnings.filterwarnings("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    from megatron.core import tensor_parallel
    from megatron.core.pipeline_parallel import schedules

    import debubble as db
    import debubble.megatron as dbm

    # Its states are those of GPUs; nothing here drops anything at random.
    tensor_parallel.random.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()
    with OnCpu():
        own = schedules.get_forward_backward_func
        for kind in ("step", "whole"):
            write(folder, f"megatron-{kind}", rank, step(own, (ranks, rank, 1, "looped"), kind))
        # A V has its embeddings untied.
        write(folder, "megatron-untied", rank, step(own, (ranks, rank, 1, "untied"), "whole"))
        for path in orders:
            order = db.Schedule.from_file(path)
            function = dbm.forward_backward_func(order)
            placement = "v" if order.placement == "v" else "looped"
            for kind in ("step", "forward", "whole"):
                found = step(lambda made=function: made, (ranks, rank, order.chunks, placement), kind)
                write(folder, f"{Path(path).stem}-{kind}", rank, found)
    dist.destroy_process_group()


def write(folder: str, name: str, rank: int, found: dict[str, Any]) -> None:
    """Gathers what all ranks have found, and writes it on the first."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if rank == 0:
        losses = [loss for one in every for loss in one["losses"]]
        gradients = {name: entry for one in every for name, entry in one["gradients"].items()}
        text = json.dumps({"losses": losses, "gradients": gradients})
        (Path(folder) / f"{name}.json").write_text(text)


def main() -> None:
    ranks, folder, orders = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run, args=(ranks, folder, orders, port), nprocs=ranks)


if __name__ == "__main__":
    main()
