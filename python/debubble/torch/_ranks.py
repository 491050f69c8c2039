"""What the ranks of a pipeline tell each other: over gloo, each time with a limit."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .._errors import LostRank
from . import _clocks, _runtime

_Told = TypeVar("_Told")

#: How often this process has joined the same ranks.
_JOINED: dict[tuple[int, ...], int] = {}

#: How often two hosts ask each other for the time.
_ROUNDS = 32


def members_of(stage: Any) -> list[int]:
    """The ranks of the pipeline of `stage`, as the whole run numbers them."""
    distributed = _runtime.torch().distributed
    if stage.group is None:
        return list(range(distributed.get_world_size()))
    return [int(rank) for rank in distributed.get_process_group_ranks(stage.group)]


class Ranks:
    """The ranks of one pipeline. Every method is called by all of them."""

    def __init__(self, ranks: list[int], rank: int, timeout: float, of: str = "the recording") -> None:
        """Joins `ranks`, of which this is number `rank`, for what they do together: `of`.

        Raises:
            LostRank: If they are not all there after `timeout` seconds.
        """
        self.rank = rank
        self.count = len(ranks)
        self._global = ranks
        self._timeout = timeout
        self._of = of
        self._group: Any = None
        if self.count > 1:
            try:
                self._join(ranks)
            except BaseException:
                self.close()
                raise

    def _join(self, ranks: list[int]) -> None:
        at = tuple(ranks)
        _JOINED[at] = _JOINED.get(at, 0) + 1
        with self._heard("join"), _runtime.group_number(_JOINED[at]):
            self._group = self._distributed.new_group(
                ranks,
                timeout=datetime.timedelta(seconds=self._timeout),
                backend="gloo",
                use_local_synchronization=True,
            )
            self._meet()

    @property
    def _distributed(self) -> Any:
        return _runtime.torch().distributed

    @contextlib.contextmanager
    def _heard(self, what: str) -> Iterator[None]:
        """Says of errors of gloo that a rank is lost."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise LostRank(
                f"rank {self.rank} of the pipeline waited for the others to {what} {self._of}: one of "
                f"them has ended, or was not there within {self._timeout:g} s ({cause})"
            ) from error

    def _meet(self) -> None:
        limit = datetime.timedelta(seconds=self._timeout)
        self._distributed.monitored_barrier(self._group, timeout=limit, wait_all_ranks=True)

    def gathered(self, told: _Told, what: str) -> list[_Told]:
        """What each rank tells, in their order; `what` they do, in errors.

        Raises:
            LostRank: If a rank is gone or late.
        """
        if self._group is None:
            return [told]
        every: list[Any] = [None] * self.count
        with self._heard(what):
            self._meet()
            self._distributed.all_gather_object(every, (self.rank, told), group=self._group)
        # Groups of torch number their ranks as the whole run does, which need not be the order here.
        return [one for _, one in sorted(every, key=lambda both: both[0])]

    def highest(self, flags: Sequence[int]) -> list[int]:
        """The highest of each flag that any rank has: one message, as for every step.

        Raises:
            LostRank: If a rank is gone or late.
        """
        if self._group is None:
            return list(flags)
        told = _runtime.torch().tensor(flags)
        with self._heard("begin"):
            self._distributed.all_reduce(told, self._distributed.ReduceOp.MAX, group=self._group)
        return [int(one) for one in told]

    def offsets(self) -> list[int]:
        """How many nanoseconds the clock of each rank is ahead of that of rank 0.

        Clocks of ranks on the host of rank 0 are its own. The others are asked for the time over and over:
        the answer that came back soonest counts, as of half its way.

        Raises:
            LostRank: If a rank is gone or late.
        """
        hosts = self.gathered(_clocks.host(), "compare clocks for")
        mine = 0
        with self._heard("compare clocks for"):
            for other in (rank for rank in range(1, self.count) if hosts[rank] != hosts[0]):
                if self.rank == 0:
                    mine = self._serve(other)
                elif self.rank == other:
                    mine = self._ask()
        return self.gathered(0 if self.rank == 0 else mine, "compare clocks for")

    def _ask(self) -> int:
        """How far the clock of this rank is ahead of that of rank 0, which serves."""
        torch = _runtime.torch()
        said = torch.zeros(1, dtype=torch.int64)
        tries: list[tuple[int, int]] = []
        for _ in range(_ROUNDS):
            before = _clocks.now()
            self._distributed.send(said, self._global[0], group=self._group)
            self._distributed.recv(said, self._global[0], group=self._group)
            after = _clocks.now()
            tries.append((after - before, (before + after) // 2 - int(said.item())))
        return min(tries)[1]

    def _serve(self, other: int) -> int:
        torch = _runtime.torch()
        said = torch.zeros(1, dtype=torch.int64)
        for _ in range(_ROUNDS):
            self._distributed.recv(said, self._global[other], group=self._group)
            said[0] = _clocks.now()
            self._distributed.send(said, self._global[other], group=self._group)
        return 0

    def close(self) -> None:
        """Leaves the others: whoever waits for this rank learns of it."""
        group, self._group = self._group, None
        if group is not None:
            with contextlib.suppress(RuntimeError, ValueError):
                self._distributed.destroy_process_group(group)
