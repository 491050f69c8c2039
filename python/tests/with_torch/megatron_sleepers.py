"""A training script on Megatron-core whose passes sleep: a few cores hold the processes of many stages.

python megatron_sleepers.py FOLDER

It is the program examples/megatron_gpt.py, with a sleep in every layer: in F, in the gradient of its input
and in that of a weight of its own. Each rank writes FOLDER/RANK.json: the seconds of its steps, the most
bytes of tensors that it held in a step, and of the gradient of each parameter after the first step a digest
and the sum of its entries' sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
import megatron_gpt as example

ASKED = argparse.Namespace(
    stages=4, chunks=2, microbatches=8, layers=8, hidden=32, heads=2, tokens=16, vocabulary=64
)
#: Seconds of F, B and W of a chunk; the last chunk takes longer, as a head does.
TIMES = (0.06, 0.072, 0.048)
LAST = 1.4
STEPS = 6


class Sleep(torch.autograd.Function):
    """The same tensor, whose gradient comes late."""

    @staticmethod
    def forward(ctx: Any, value: Any, seconds: float) -> Any:
        ctx.seconds = seconds
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        time.sleep(ctx.seconds)
        return gradient, None


def slow(model: Any, factor: float) -> None:
    """Puts sleeps into the layers of a chunk."""
    forward, of_input, of_weight = (factor * one for one in TIMES)

    def after(layer: Any, _: Any, output: Any) -> Any:
        time.sleep(forward)
        hidden = Sleep.apply(output[0], of_input) * Sleep.apply(layer.scale, of_weight)
        return (hidden, *output[1:])

    for layer in model.decoder.layers:
        layer.scale = torch.nn.Parameter(torch.ones(()))
        layer.register_forward_hook(after)


def chunk_of_model(asked: Any, config: Any, place: int, own: Any = example.chunk_of_model) -> Any:
    made = own(asked, config, place)
    slow(made, LAST if made.post_process else 1.0)
    return made


def held(models: list[Any], data: Any) -> int:
    """The most bytes of tensors that are alive in a step, those of weights and gradients included."""
    from debubble.megatron._storages import Watch

    watch = Watch(on_gpu=False)
    for one in (one for model in models for one in model.parameters()):
        watch.see(one)
        watch.see(one.main_grad)
    with watch.mode:
        example.step(ASKED, models, data)
    return watch.peak()


def gradients(models: list[Any]) -> dict[str, Any]:
    """Digests and sums of the gradients."""
    named = {
        f"{place} {name}": one.main_grad
        for place, model in enumerate(models)
        for name, one in model.named_parameters()
    }
    digests = {name: hashlib.sha256(one.numpy().tobytes()).hexdigest() for name, one in named.items()}
    return {
        "gradients": digests,
        "sums": {name: float(one.double().abs().sum()) for name, one in named.items()},
    }


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    example.chunk_of_model = chunk_of_model
    dist.init_process_group("gloo")
    with example.on_device() as device:
        example.parallel_state.initialize_model_parallel(1, ASKED.stages, ASKED.chunks)
        models, _ = example.model_of(ASKED, device)
        shape = (ASKED.microbatches, 1, ASKED.tokens)
        data = torch.randint(0, ASKED.vocabulary, shape, generator=torch.Generator().manual_seed(0))
        seconds: list[float] = []
        found: dict[str, Any] = {}
        for _ in range(STEPS):
            dist.barrier()
            start = time.perf_counter()
            example.step(ASKED, models, data)
            dist.barrier()
            seconds.append(time.perf_counter() - start)
            found = found or gradients(models)
        most = held(models, data)
    answer = {"seconds": seconds, "held": most, **found}
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
