"""An order of passes as the ranks of a pipeline run it, and what travels between them."""

from __future__ import annotations

import functools
import os
import zlib
from typing import Any, NamedTuple, Union

from .. import _orders
from .._errors import InputError
from .._orders import chunk_of, passes_of
from .._schedule import Pass, Schedule

#: What has one order, or names the file of one.
Order = Union[_orders.Order, str, "os.PathLike[str]"]

#: The passes that a trainer runs as they are.
_RUN = ("F", "B", "W", "BW")


class Value(NamedTuple):
    """A value that one chunk makes for another: an activation (`F`) or a gradient (`B`)."""

    kind: str
    #: The chunk that takes it.
    chunk: int
    microbatch: int


def schedule_of(order: Order) -> Schedule:
    """The schedule of an order, or of the file of one.

    Raises:
        InputError: If the file has none, or the order has passes that Megatron-LM does not run.
    """
    if isinstance(order, (str, os.PathLike)):
        found = Schedule.from_file(order)
    else:
        found = _orders.schedule_of(order, "the name of a file")
    for rank in range(found.stages):
        for one in passes_of(found, rank):
            if one.kind not in _RUN:
                message = f"the order {found.name!r} has the pass {one.kind}, which Megatron-LM does not run"
                cure = "take an order without recomputation and copies: Megatron-LM recomputes by itself"
                raise InputError.with_help(message, cure, "order")
    return found


class Plan:
    """An order, with the place of each chunk and what travels from rank to rank in which order."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule: Schedule = schedule
        self.ranks: int = schedule.stages
        self.chunks: int = schedule.stages * schedule.chunks
        self.passes: list[list[Pass]] = [list(passes_of(schedule, rank)) for rank in range(self.ranks)]
        self.home: list[int] = [0] * self.chunks
        for rank, passes in enumerate(self.passes):
            for one in passes:
                self.home[chunk_of(one)] = rank
        self._check_order()

    def chunks_of(self, rank: int) -> list[int]:
        """The chunks of `rank`, ascending: its virtual pipeline stages."""
        return [chunk for chunk in range(self.chunks) if self.home[chunk] == rank]

    def splits(self, rank: int) -> bool:
        """Whether `rank` runs W apart."""
        return any(one.kind == "W" for one in self.passes[rank])

    def made(self, one: Pass) -> Union[Value, None]:
        """The value that a pass makes for another chunk."""
        chunk = chunk_of(one)
        if one.kind == "F":
            return Value("F", chunk + 1, one.microbatch) if chunk + 1 < self.chunks else None
        if one.kind in ("B", "BW"):
            return Value("B", chunk - 1, one.microbatch) if chunk > 0 else None
        return None

    def needed(self, one: Pass) -> Union[Value, None]:
        """The value that a pass takes of another chunk."""
        chunk = chunk_of(one)
        if one.kind == "F":
            return Value("F", chunk, one.microbatch) if chunk > 0 else None
        if one.kind in ("B", "BW"):
            return Value("B", chunk, one.microbatch) if chunk + 1 < self.chunks else None
        return None

    @functools.cached_property
    def label(self) -> str:
        """The name of the order, with a number that tells it from others of the name."""
        return f"{self.schedule.name!r} ({zlib.crc32(self.schedule.to_text().encode()):08x})"

    @functools.cached_property
    def own_routes(self) -> dict[tuple[int, int], list[Value]]:
        """The values that each rank sends to each other one in a step of training: see `routes`."""
        return self.routes(self.passes)

    def routes(self, passes: list[list[Pass]]) -> dict[tuple[int, int], list[Value]]:
        """The values that each rank sends to each other one, in the order in which `passes` make them."""
        found: dict[tuple[int, int], list[Value]] = {}
        for rank, own in enumerate(passes):
            for one in own:
                value = self.made(one)
                if value is not None and self.home[value.chunk] != rank:
                    found.setdefault((rank, self.home[value.chunk]), []).append(value)
        return found

    def forwards(self, microbatches: int) -> list[list[Pass]]:
        """The passes of a run without backward: chunk by chunk, all microbatches in turn."""
        of: Any = [
            [Pass("F", number, chunk) for chunk in self.chunks_of(rank) for number in range(microbatches)]
            for rank in range(self.ranks)
        ]
        return list(of)

    def _check_order(self) -> None:
        """Refuses an order whose forwards take data in another order than the loader gives them."""
        for passes in self.passes:
            last: dict[int, int] = {}
            for one in passes:
                chunk = chunk_of(one)
                if one.kind != "F":
                    continue
                if one.microbatch != last.get(chunk, -1) + 1:
                    message = (
                        f"the order {self.schedule.name!r} runs F of microbatch {one.microbatch} and chunk "
                        f"{chunk} out of turn: data come microbatch by microbatch"
                    )
                    raise InputError(message, message=message, key="order")
                last[chunk] = one.microbatch
