"""The profile of chunks that were timed one after the other on one device, as a trainer's profile."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional


@dataclasses.dataclass
class Resident:
    """Bytes of a chunk besides activations: weights and all else that lies there for good, gradients, state of the
    optimizer, and the most that a pass takes for itself.
    """

    weights: int
    gradients: int
    optimizer: int
    transient: int


@dataclasses.dataclass
class Chunk:
    """What one chunk takes and holds of a microbatch, and its memory besides: samples in nanoseconds, bytes.

    `whole` has B and W in one pass. `input` and `weight`, B and W apart, are empty where the chunk is not
    split.
    """

    forward: list[int]
    whole: list[int]
    input: list[int]
    weight: list[int]
    until_backward: int
    until_weight: int
    resident: Optional[Resident] = None


def text(
    chunks: Sequence[Chunk],
    *,
    program: str,
    stages: int,
    placement: str,
    microbatches: int,
    message: Optional[int],
    device: str,
    schedule: str = "one-device",
    half_width: float = 0.05,
    remark: str = "",
) -> str:
    """The TOML that `debubble.Profile.from_file` reads.

    Args:
        chunks: The chunks in the order of the model.
        program: The software that ran them, with its version.
        stages: The stages of the pipeline that the chunks are for.
        placement: `"looped"` or `"v"`: the stage of each chunk.
        microbatches: The microbatches of a step.
        message: The bytes of an activation between chunks, if there are several.
        device: The name of the device.
        schedule: What ran, in the place of the name of a schedule.
        half_width: Half the interval of a median, over the median, up to which it is called tight.
        remark: What a reader of the times has to know.
    """
    head: dict[str, Any] = {
        "version": 1,
        "kind": "trainer",
        "schedule": schedule,
        "stages": stages,
        "placement": placement,
        "microbatches": microbatches,
        "one-device": True,
        "half-width": half_width,
        **({} if message is None else {"message": message}),
    }
    about = {**machine(program, device), "pinned": False, **({"remark": remark} if remark else {})}
    lines = [*_rows(head), "", "[machine]", *_rows(about)]
    for chunk in chunks:
        lines += ["", "[[chunk]]", *_rows(_quantities(chunk))]
    return "\n".join([*lines, ""])


def _quantities(chunk: Chunk) -> dict[str, Any]:
    """The keys of a chunk."""
    samples = {
        "forward": chunk.forward,
        "backward-input": chunk.input,
        "backward-weight": chunk.weight,
        "backward": chunk.whole,
    }
    resident = chunk.resident
    sizes = {} if resident is None else dataclasses.asdict(resident)
    held = {"pass" if name == "transient" else name: size for name, size in sizes.items()}
    return {
        **({"resident": held} if held else {}),
        "footprint": {"until-backward": chunk.until_backward, "until-weight": chunk.until_weight},
        **{name: {"samples": taken} for name, taken in samples.items() if taken},
    }


def _rows(table: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name} = {_value(value)}" for name, value in table.items())


def _value(value: Any) -> str:
    """A value of TOML: texts, numbers and lists are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_rows(value)) + " }"
    return json.dumps(value, ensure_ascii=False)


def machine(program: str, device: str) -> dict[str, Any]:
    """The machine, the day and the program."""
    return {
        "program": program,
        "device": device,
        "date": datetime.date.today().isoformat(),
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "os": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    """The name of the processor, or nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
