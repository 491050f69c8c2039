"""Where the benchmark runs: on the cores of this machine, or on its GPUs."""

from __future__ import annotations

from typing import Optional

#: A pipeline has at least two stages, each on a GPU of its own.
NEEDED = 2


def choose(asked: Optional[str], gpus: int) -> tuple[str, str]:
    """The device and why it is that, where `asked` is `cpu`, `cuda` or nothing and torch sees `gpus` GPUs.

    Raises ValueError where GPUs are asked for and there are too few.
    """
    count = {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs")
    if asked == "cpu":
        return "cpu", "asked for by --device"
    if gpus >= NEEDED:
        return "cuda", f"torch sees {count}"
    reason = f"torch sees {count}, {NEEDED} are needed"
    if asked == "cuda":
        raise ValueError(f"--device cuda: {reason}")
    return "cpu", reason
