"""Orders as trainers run them: what has one, and its passes on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

from ._answers import Outcome
from ._schedule import Pair, Pass, Schedule
from ._search import Found, FoundOrder

#: What has one order.
Order = Union[Schedule, Found, FoundOrder, Outcome]


def schedule_of(order: Any, name: str) -> Schedule:
    """The schedule of what has one order.

    Args:
        order: A schedule, the answer of a search, or an outcome.
        name: What names an order where one is asked for, for the error.

    Raises:
        TypeError: If it is none of them.
    """
    if isinstance(order, Schedule):
        return order
    if isinstance(order, (Found, FoundOrder)):
        return order.schedule
    if isinstance(order, Outcome):
        return order.order
    kinds = f"a Schedule, the answer of a search, an Outcome or {name}"
    raise TypeError(f"an order is {kinds}, not a {type(order).__name__}")


def passes_of(schedule: Schedule, rank: int) -> Iterator[Pass]:
    """The passes of `rank` in their order, those that run together one by one."""
    for slot in schedule.slots(rank):
        yield from slot if isinstance(slot, Pair) else (slot,)


def chunk_of(one: Pass) -> int:
    """The chunk of a pass of a schedule, which numbers all of them."""
    return int(one.chunk or 0)
