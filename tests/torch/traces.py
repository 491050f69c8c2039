"""Traces of `torch.profiler`, one for each rank of a small pipeline on CPUs (gloo).

python tests/torch/traces.py RANKS FOLDER SCHEDULE.. [--steps N] [--strip]

Writes FOLDER/SCHEDULE.RANK.json for each rank, and the same without the names of passes to
FOLDER/unnamed/SCHEDULE.RANK.json.gz. torch names no passes of Schedule1F1B: the stages do here. Stages sleep
for exact times, so that many ranks need few cores: F takes 20 ms, the gradient of the input 20 ms, that of
the weights 10 ms, and what comes last adds 10 ms to its F. With --strip only that is kept which
`debubble replay` reads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.pipelining.schedules as schedules
import torch.multiprocessing
from torch.distributed.pipelining import PipelineStage
from torch.profiler import ProfilerActivity, profile, record_function, schedule

MICROBATCHES = 8


class Sleep(torch.autograd.Function):
    """What it is given, after a time; and its gradient, after another."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        ctx.backward_seconds = backward
        time.sleep(forward)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(ctx.backward_seconds)
        return gradient, None, None


class Stage(torch.nn.Module):
    """A stage whose passes take exact times: I runs only the node of x, W only that of the weight."""

    def __init__(self, forward: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.forward_seconds = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = Sleep.apply(self.weight, 0.0, 0.01)
        return Sleep.apply(x, self.forward_seconds, 0.02) + weight


class NamedStage(PipelineStage):
    """A stage that names its passes as GPipe does."""

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        with record_function(f"Forward {fwd_chunk_id}"):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        with record_function(f"Backward {bwd_chunk_id}"):
            return super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)


def run(rank: int, ranks: int, names: list[str], folder: str, steps: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for name in names:
        profiled(rank, ranks, name, Path(folder) / f"{name}.{rank}.json", steps)
    dist.destroy_process_group()


def profiled(rank: int, ranks: int, name: str, path: Path, steps: int) -> None:
    kind = getattr(schedules, name)
    several = issubclass(kind, schedules.PipelineScheduleMulti)
    chunks = 2 * ranks if several else ranks
    mine = [rank]
    if several:
        is_v = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
        mine.append(chunks - 1 - rank if is_v else rank + ranks)

    def stage(chunk: int) -> PipelineStage:
        forward = 0.03 if chunk == chunks - 1 else 0.02
        made = NamedStage if name == "Schedule1F1B" else PipelineStage
        return made(Stage(forward), chunk, chunks, torch.device("cpu"))

    stages = [stage(chunk) for chunk in mine]
    pipeline = kind(
        stages if several else stages[0],
        n_microbatches=MICROBATCHES,
        loss_fn=lambda y, target: ((y - target) ** 2).mean(),
    )
    x = torch.ones(MICROBATCHES, 4, requires_grad=True)

    def step() -> None:
        inputs = (x,) if 0 in mine else ()
        target = {"target": x.detach(), "losses": []} if chunks - 1 in mine else {}
        dist.barrier()
        pipeline.step(*inputs, **target)

    step()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=steps),
        on_trace_ready=lambda seen: seen.export_chrome_trace(str(path)),
    ) as seen:
        for _ in range(steps + 1):
            step()
            seen.step()


NAMES = ("PP:", "Forward", "Backward")
READ = ("ph", "cat", "name", "ts", "dur")


def is_named(event: dict[str, Any]) -> bool:
    """Whether the event names a pass."""
    name: str = event["name"]
    return event.get("cat") == "user_annotation" and name.startswith(NAMES)


def is_read(event: dict[str, Any]) -> bool:
    name: str = event["name"]
    return name.startswith((*NAMES, "ProfilerStep", "gloo:recv", "gloo:send")) and "WAIT" not in name


def is_read_unnamed(event: dict[str, Any]) -> bool:
    name: str = event["name"]
    is_operator: bool = event.get("args", {}).get("Fwd thread id") == 0
    return name.startswith(("ProfilerStep", "gloo:", "c10d::", "autograd::engine")) or is_operator


def stripped(trace: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """The trace with what is read of `events`, and one event that is not."""
    host = next(event for event in trace["traceEvents"] if event.get("cat") == "cpu_op")
    keys = ("schemaVersion", "distributedInfo", "baseTimeNanoseconds")
    head: dict[str, Any] = {key: trace[key] for key in keys}
    head["distributedInfo"] = {key: head["distributedInfo"][key] for key in ("backend", "rank", "world_size")}
    return {**head, "traceEvents": [{key: host[key] for key in READ}, *events]}


def stripped_named(trace: dict[str, Any]) -> dict[str, Any]:
    events = [event for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
    return stripped(trace, [{key: event[key] for key in READ} for event in events if is_read(event)])


def stripped_unnamed(trace: dict[str, Any]) -> dict[str, Any]:
    read = ("Sequence number", "Fwd thread id")
    events = []
    for event in trace["traceEvents"]:
        if event.get("cat") in ("cpu_op", "user_annotation") and is_read_unnamed(event):
            args = {key: event["args"][key] for key in read if key in event.get("args", {})}
            events.append({**{key: event[key] for key in (*READ, "tid")}, "args": args})
    return stripped(trace, events)


def written(trace: dict[str, Any]) -> str:
    return json.dumps(trace, separators=(",", ":")).replace('{"ph"', '\n{"ph"') + "\n"


def separated(path: Path, strip: bool) -> None:
    """Writes the trace at `path` without the names of passes, too; and only what is read, if `strip`."""
    trace = json.loads(path.read_text())
    unnamed = {**trace, "traceEvents": [event for event in trace["traceEvents"] if not is_named(event)]}
    if strip:
        path.write_text(written(stripped_named(trace)))
        unnamed = stripped_unnamed(unnamed)
    folder = path.parent / "unnamed"
    folder.mkdir(exist_ok=True)
    packed = gzip.compress(written(unnamed).encode(), mtime=0)
    (folder / f"{path.name}.gz").write_bytes(packed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("schedules", nargs="+")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--strip", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = (asked.ranks, asked.schedules, str(asked.folder), asked.steps, port)
    torch.multiprocessing.spawn(run, args=arguments, nprocs=asked.ranks)
    paths = [path for name in asked.schedules for path in asked.folder.glob(f"{name}.*.json")]
    for path in paths:
        separated(path, asked.strip)


if __name__ == "__main__":
    main()
