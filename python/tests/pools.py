"""Pools that hand a call of the test to their workers instead of the one that they are given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


class Renamed:
    """Hands `call` to a pool of `concurrent.futures`, or to one like it."""

    def __init__(self, pool: Executor, call: Callable[[Any], bytes]) -> None:
        self.pool, self.call = pool, call

    def submit(self, _: Callable[[Any], bytes], work: Any) -> Any:
        return self.pool.submit(self.call, work)


class RenamedPool:
    """The same for a pool of `multiprocessing`."""

    def __init__(self, pool: Any, call: Callable[[Any], bytes]) -> None:
        self.pool, self.call = pool, call

    def apply_async(self, _: Callable[[Any], bytes], arguments: Any) -> Any:
        return self.pool.apply_async(self.call, arguments)
