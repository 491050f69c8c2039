"""Clocks: that of the host for processors, events for GPUs; and how far clocks of two hosts are apart."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any, Literal, Optional, Protocol

from .._errors import InputError
from . import _runtime

#: What a clock gives for a moment: nanoseconds, or an event of CUDA that is read later.
Mark = Any

#: Which clock times the passes.
ClockName = Literal["cpu", "cuda"]


def now() -> int:
    """Nanoseconds of the clock that all processes of a host share."""
    return time.perf_counter_ns()


def host() -> str:
    """The same text in all processes that share the clock of `now`."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


class Clock(Protocol):
    """Times passes without holding them up."""

    def begin(self) -> None:
        """Called before every step."""

    def mark(self) -> Mark:
        """This moment, as the device reaches it."""
        ...

    def finish(self) -> None:
        """Waits until all moments are known."""

    def read(self, mark: Mark) -> int:
        """A moment in nanoseconds of `now`."""
        ...


class HostClock:
    """The clock of the host: for processors, where a pass is over when its call returns."""

    def begin(self) -> None:
        """Nothing to do."""

    def mark(self) -> Mark:
        """Nanoseconds."""
        return now()

    def finish(self) -> None:
        """Nothing to do."""

    def read(self, mark: Mark) -> int:
        """Nanoseconds."""
        return int(mark)


class CudaClock:
    """Events on the current stream of a GPU: nothing waits for them while passes run.

    The GPU is waited for before the first step and after the last. Times of events are differences in
    milliseconds of single precision, so each step counts from an event of its own.
    """

    def __init__(self, cuda: Any, device: Any) -> None:
        self._cuda = cuda
        self._device = device
        self._zero, self._zero_ns = self._anchor()
        self._base = self._zero

    def _anchor(self) -> tuple[Any, int]:
        """An event, and when it was on the clock of the host: the closest of several tries."""
        tries: list[tuple[int, int, Any]] = []
        for _ in range(8):
            self._cuda.synchronize(self._device)
            before = now()
            event = self._event()
            event.synchronize()
            after = now()
            tries.append((after - before, (before + after) // 2, event))
        _, middle, event = min(tries, key=lambda one: one[0])
        return event, middle

    def _event(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def begin(self) -> None:
        """An event that the times of the step are counted from."""
        self._base = self._event()

    def mark(self) -> Mark:
        """An event, and the one of its step."""
        return self._base, self._event()

    def finish(self) -> None:
        """Waits for the GPU."""
        self._cuda.synchronize(self._device)

    def read(self, mark: Mark) -> int:
        """Nanoseconds from the events."""
        base, event = mark
        milliseconds: list[float] = [self._zero.elapsed_time(base), base.elapsed_time(event)]
        return self._zero_ns + sum(round(one * 1e6) for one in milliseconds)


def clock_of(stages: list[Any], name: Optional[str]) -> Clock:
    """The clock called `name`, else that of the device of `stages`.

    Raises:
        InputError: If it is that of GPUs where there are none, or stages sit elsewhere.
    """
    torch = _runtime.torch()
    kinds = sorted({torch.device(stage.device).type for stage in stages})
    if name is None:
        name = "cuda" if kinds == ["cuda"] else "cpu"
    if name == "cpu":
        return HostClock()
    if name != "cuda":
        raise InputError(f"there is no clock {name!r}: there are cpu and cuda", key="clock")
    if not torch.cuda.is_available():
        message = "passes cannot be timed by events of CUDA: PyTorch finds no GPU here"
        raise InputError(message, message=message, help="leave `clock` out", key="clock")
    devices = {str(stage.device) for stage in stages}
    if kinds != ["cuda"] or len(devices) != 1:
        where = ", ".join(sorted(devices))
        message = f"passes cannot be timed by events of CUDA: stages of this rank sit on {where}"
        raise InputError(message, key="clock")
    return CudaClock(torch.cuda, torch.device(stages[0].device))
