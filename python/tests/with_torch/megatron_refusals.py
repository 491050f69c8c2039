"""What every rank hears of steps that the order does not run, in real Megatron-core over gloo.

python megatron_refusals.py REPLICAS FOLDER CASE..

Two ranks a pipeline. Writes FOLDER/CASE.json: for each rank the type and text of its error, and its seconds.
Each case has a function of its own; the rank that is at fault is the last of the job.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron_runs import KINDS, MICROBATCHES, call, on_cpu, prepared, spawn

import debubble as db
import debubble.megatron as dbm

RANKS = 2

#: A step: the function, its models, what runs a microbatch, and whether this rank is at fault.
Case = Callable[[Any, list[Any], Any, bool], Any]


def order(family: str) -> db.Schedule:
    """The order of a family."""
    chunks = 2 if family in ("1f1b-i", "zb-v") else 1
    sizes: dict[str, Any] = {"stages": RANKS, "microbatches": MICROBATCHES, "chunks": chunks}
    return db.simulate(db.Question(**sizes, forward="1ms", backward="2ms"), family)[0].order


def called(**others: Any) -> Case:
    """A step whose last rank is called with other things."""
    return lambda function, models, forward, is_wrong: call(
        function, KINDS["step"], models, forward, **(others if is_wrong else {})
    )


def then(first: Case, second: Case) -> Case:
    """A step, and another."""

    def run(*step: Any) -> Any:
        first(*step)
        return second(*step)

    return run


def later(**others: Any) -> Case:
    """A step whose last rank is called with other things in the second step."""
    return then(called(), called(**others))


def setting(name: str, value: Any) -> Case:
    """A step whose last rank has a setting."""

    def run(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
        if is_wrong:
            setattr(models[0].config, name, value)
        return call(function, KINDS["step"], models, forward)

    return run


def forward_that(fault: Callable[[Any], Any], at: int) -> Case:
    """A step whose last rank does something with the output of a microbatch."""

    def run(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
        passes = 0

        def wrong(*arguments: Any) -> Any:
            nonlocal passes
            passes += 1
            output, loss = forward(*arguments)
            return (fault(output) if is_wrong and passes == at else output), loss

        return call(function, KINDS["step"], models, wrong)

    return run


def stop(_: Any) -> Any:
    raise KeyError("no data")


def tied(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
    """A model whose ends are on a rank, and tied."""
    for one in models:
        one.share_embeddings_and_output_weights = not is_wrong
    return call(function, KINDS["step"], models, forward)


def predicting(function: Any, models: list[Any], forward: Any, _: bool) -> Any:
    """A model with multi-token prediction."""
    models[0].config.mtp_num_layers = 1
    return call(function, KINDS["step"], models, forward)


def few(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
    """A rank that has one chunk of two."""
    return call(function, KINDS["step"], models[:1] if is_wrong else models, forward)


def iterators(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
    """A rank that has data for one chunk of two."""
    others: dict[str, Any] = {"data_iterator": [iter([])]} if is_wrong else {}
    return call(function, KINDS["step"], models, forward, **others)


def other_order(function: Any, models: list[Any], forward: Any, is_wrong: bool) -> Any:
    """A rank that has another order of the same name."""
    made = dbm.forward_backward_func(order("gpipe"))
    return call(made if is_wrong else function, KINDS["step"], models, forward)


#: The family, the placement of the model, and what is done.
CASES: dict[str, tuple[str, str, Case]] = {
    "held": ("zb-h1", "looped", called()),
    "tied": ("zb-v", "v", tied),
    "mtp": ("zb-v", "v", predicting),
    "placement": ("zb-v", "looped", called()),
    "looped-in-a-v": ("1f1b-i", "v", called()),
    "chunks": ("zb-v", "v", few),
    "iterators": ("zb-v", "v", iterators),
    "orders": ("1f1b", "looped", other_order),
    "microbatches": ("zb-h1", "looped", called(num_microbatches=4)),
    "samples": ("zb-h1", "looped", called(micro_batch_size=1)),
    "evaluation": ("zb-h1", "looped", called(forward_only=True)),
    "later-microbatches": ("zb-h1", "looped", later(num_microbatches=4)),
    "later-samples": ("zb-h1", "looped", later(micro_batch_size=1)),
    "later-tokens": ("zb-h1", "looped", later(seq_length=4)),
    "later-evaluation": ("zb-h1", "looped", later(forward_only=True)),
    "later-setting": ("zb-h1", "looped", then(called(), setting("recompute_granularity", "full"))),
    "adjust": ("1f1b", "looped", called(adjust_tensor_shapes_fn=print)),
    "communicator": ("1f1b", "looped", called(p2p_communicator=print)),
    "lengths": ("1f1b", "looped", setting("variable_seq_lengths", True)),
    "experts": ("1f1b", "looped", setting("overlap_moe_expert_parallel_comm", True)),
    "embedding": ("1f1b", "looped", setting("defer_embedding_wgrad_compute", True)),
    "offloading": ("1f1b", "looped", setting("fine_grained_activation_offloading", True)),
    "graphs": ("1f1b", "looped", setting("cuda_graph_impl", "local")),
    "recompute": ("zb-h1", "looped", setting("recompute_granularity", "selective")),
    "fusion": ("zb-h1", "looped", setting("gradient_accumulation_fusion", True)),
    "hidden": ("1f1b", "looped", setting("hidden_size", 32)),
    "type": ("1f1b", "looped", setting("pipeline_dtype", torch.float64)),
    "data": ("1f1b-i", "looped", forward_that(lambda output: output[:, :1], 2)),
    "error": ("zb-h1", "looped", forward_that(stop, 3)),
    "later-error": ("zb-v", "v", then(called(), forward_that(stop, 5))),
}


def run(rank: int, replicas: int, folder: str, names: list[str], port: int) -> None:
    with on_cpu(rank, RANKS * replicas, port):
        for name in names:
            family, placement, case = CASES[name]
            made = order(family)
            function = dbm.forward_backward_func(made)
            models, _, forward = prepared(KINDS["step"], RANKS, made.chunks, placement)
            start, error = time.monotonic(), None
            try:
                case(function, models, forward, rank == RANKS * replicas - 1)
            except Exception as found:
                error = found
            heard = [type(error).__name__, str(error), time.monotonic() - start]
            every: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(every, heard)
            if rank == 0:
                (Path(folder) / f"{name}.json").write_text(json.dumps(every))


if __name__ == "__main__":
    replicas = int(sys.argv[1])
    warnings.simplefilter("ignore")
    spawn(run, RANKS * replicas, replicas, sys.argv[2], sys.argv[3:] or list(CASES))
