"""Pipelines of real torch in processes of this machine, over gloo."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import socket
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt

#: Seconds after which ranks that still run are ended.
LIMIT = 90.0

#: Sizes of the small model.
BATCH, WIDTH = 2, 16

TIMES: dict[str, Any] = {"forward": "10ms", "backward_input": "11ms", "backward_weight": "7ms", "hop": "1ms"}


def ranks(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(rank, *args)` returns in each of `count` processes of one process group: a value, or the
    text of its exception. A process that ends without either leaves `None`.
    """
    torch.set_num_threads(1)
    # What is imported here need not be imported by each of them.
    fork = multiprocessing.get_context("fork")
    port = _port()
    ends, processes = [], []
    for rank in range(count):
        ours, theirs = fork.Pipe(duplex=False)
        processes.append(fork.Process(target=_run, args=(theirs, rank, count, port, work, args)))
        ends.append(ours)
    for process in processes:
        process.start()
    found = [_told(end, process) for end, process in zip(ends, processes)]
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
    return found


def _port() -> int:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _told(end: Any, process: Any) -> Any:
    """What a process tells before it ends."""
    if not wait([end, process.sentinel], LIMIT):
        process.kill()
        return f"it neither ended nor failed within {LIMIT} s"
    return pickle.loads(end.recv_bytes()) if end.poll() else None


def _run(end: Any, rank: int, count: int, port: int, work: Callable[..., Any], args: Any) -> None:
    warnings.simplefilter("ignore")
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count
    )
    try:
        told = work(rank, *args)
    except Exception as error:
        told = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    # Not as torch would hand over tensors: those are gone with the process.
    end.send_bytes(pickle.dumps(told))
    with contextlib.suppress(Exception):
        torch.distributed.destroy_process_group()


def order(name: str, stages: int, microbatches: int, chunks: int = 1) -> db.Schedule:
    """The order of a family."""
    question = db.Question(stages=stages, microbatches=microbatches, chunks=chunks, **TIMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return db.simulate(question, name)[0].order


class Block(torch.nn.Module):
    """A layer whose backward can be split."""

    def __init__(self, chunk: int) -> None:
        super().__init__()
        torch.manual_seed(chunk)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def stage(chunk: int, chunks: int) -> PipelineStage:
    """The chunk as a stage of torch."""
    return PipelineStage(Block(chunk), chunk, chunks, torch.device("cpu"))


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(output, target)


def batch(microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets."""
    torch.manual_seed(12345)
    shape = (BATCH * microbatches, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


class Trained:
    """A rank of a pipeline that trains the small model in an order."""

    def __init__(self, rank: int, wanted: db.Schedule, **keywords: Any) -> None:
        chunks = wanted.stages * wanted.chunks
        self.microbatches = wanted.microbatches
        self.stages = [stage(chunk, chunks) for chunk in dbt.stages_of(wanted, rank)]
        self.schedule = dbt.schedule(self.stages, wanted, loss_fn=loss, **keywords)
        self.losses: list[torch.Tensor] = []

    def step(self) -> None:
        step(self.schedule, self.stages, self.microbatches, self.losses)

    def gradients(self) -> dict[str, torch.Tensor]:
        return gradients(self.stages)


def step(schedule: Any, stages: list[Any], microbatches: int, losses: list[Any]) -> None:
    """A step of `schedule` with the batch."""
    x, y = batch(microbatches)
    inputs = [x] if any(one.is_first for one in stages) else []
    schedule.step(*inputs, target=y, losses=losses)


def gradients(stages: list[Any]) -> dict[str, torch.Tensor]:
    """The gradients of all parameters of `stages` by name."""
    return {
        f"{one.stage_index}.{name}": weight.grad.clone()
        for one in stages
        for name, weight in one.submod.named_parameters()
    }


def alone(wanted: db.Schedule) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Losses and gradients of one step of one process without a pipeline. Gradients of a chunk are added up
    in the order in which it works on microbatches: sums of floats depend on it.
    """
    blocks = [Block(chunk) for chunk in range(wanted.stages * wanted.chunks)]
    x, y = batch(wanted.microbatches)
    losses, by_microbatch = [], []
    for part, target in zip(x.chunk(wanted.microbatches), y.chunk(wanted.microbatches)):
        for block in blocks:
            part = block(part)
        losses.append(loss(part, target))
        names = {
            f"{at}.{name}": weight for at, one in enumerate(blocks) for name, weight in one.named_parameters()
        }
        found = torch.autograd.grad(losses[-1], list(names.values()))
        by_microbatch.append(dict(zip(names, found)))
    summed: dict[str, torch.Tensor] = {}
    for stage_slots in wanted:
        for slot in stage_slots:
            for one in [slot] if isinstance(slot, db.Pass) else slot:
                if one.kind in ("W", "BW"):
                    add(summed, by_microbatch[one.microbatch], f"{one.chunk}.")
    return [one.detach() for one in losses], {name: one / wanted.microbatches for name, one in summed.items()}


def add(sums: dict[str, torch.Tensor], more: dict[str, torch.Tensor], prefix: str) -> None:
    """Adds the gradients whose names begin with `prefix`."""
    for name, value in more.items():
        if name.startswith(prefix):
            sums[name] = sums[name] + value if name in sums else value
