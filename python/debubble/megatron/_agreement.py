"""What the ranks of a pipeline agree on before the passes of a step, and how a rank leaves one."""

from __future__ import annotations

import itertools
import pickle
import time
from typing import Any, NamedTuple, Optional

from .._errors import InputError, LostRank
from ._modules import load

#: How many steps of a rank the store keeps: more than ranks are apart.
_KEPT = 64

_agreements = itertools.count()


class Terms(NamedTuple):
    """What a rank is called with."""

    #: Why it does not run that.
    refusal: Optional[Exception]
    #: What all ranks of its pipeline must be called with, with its name.
    same: tuple[tuple[str, Any], ...]


def refusal_of(every: list[Terms]) -> Optional[Exception]:
    """Why a pipeline does not run a step: a refusal of a rank, or a difference between two."""
    for one in every:
        if one.refusal is not None:
            return one.refusal
    for rank, one in enumerate(every):
        for (name, value), (_, other) in zip(every[0].same, one.same):
            if value != other:
                message = f"{name} is {value} on rank 0 of the pipeline and {other} on rank {rank}"
                return InputError.with_help(message, "call all ranks with the same", "order")
    return None


class Agreement:
    """What the ranks of a pipeline have agreed on.

    In the first step all ranks of the job gather what they are called with, so that all refuse what one
    does not run. From then on a rank writes it into the store of the job, which costs some microseconds
    and waits for nobody, and reads that of its peers where it is new.

    Args:
        ranks: The global ranks of the pipeline.
        pairs: The ranks of the pipeline between which values travel.
        terms: What this rank is called with.

    Raises:
        InputError: If a rank of the job refuses, or two of a pipeline are called with different things.
    """

    def __init__(self, ranks: list[int], pairs: list[tuple[int, int]], terms: Terms) -> None:
        dist = load("torch.distributed")
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, (tuple(ranks), tuple(sorted(pairs)), terms))
        #: The pipelines of the job, with the pairs of each.
        self.pipelines: list[Any] = sorted({(own, between) for own, between, _ in every})
        for pipeline, _ in self.pipelines:
            refusal = refusal_of([every[rank][2] for rank in pipeline])
            if refusal is not None:
                raise refusal
        #: The global ranks of this pipeline.
        self.ranks: tuple[int, ...] = tuple(ranks)
        name = f"debubble/{next(_agreements)}/{self.ranks}"
        self._store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        self._size, self._rank = len(ranks), ranks.index(dist.get_rank())
        self._number = 0
        self._terms = terms
        self._known = {terms.same}

    def reach(self, terms: Terms) -> None:
        """Begins a step once all ranks of the pipeline agree on it: at once where it is known.

        Raises:
            InputError: If a rank refuses, or two are called with different things.
            LostRank: If a rank has left, or does not come.
        """
        self._number += 1
        self._terms = terms
        self._say(self._number, terms)
        if terms.refusal is None and terms.same in self._known:
            return
        refusal = refusal_of([self._heard(rank) for rank in range(self._size)])
        if refusal is not None:
            raise refusal
        self._known.add(terms.same)

    def leave(self, error: BaseException) -> BaseException:
        """Says why this rank does not end the step, which is what a peer has said where one left first."""
        if isinstance(error, LostRank):
            every = [self._said(rank, self._number) or self._terms for rank in range(self._size)]
            error = refusal_of(every) or error
        said = error
        if not isinstance(error, (InputError, LostRank)):
            said = LostRank(f"rank {self._rank} of the pipeline has left the step: {error!r}")
        for number in (self._number, self._number + 1):
            self._say(number, Terms(said, ()))  # type: ignore[arg-type]
        return error

    def _key(self, rank: int, number: int) -> str:
        return f"{rank}/{number % _KEPT}"

    def _say(self, number: int, terms: Terms) -> None:
        self._store.set(self._key(self._rank, number), pickle.dumps((number, terms)))

    def _said(self, rank: int, number: int) -> Optional[Terms]:
        """What a rank has said of a step, if it has come to it."""
        key = self._key(rank, number)
        if not self._store.check([key]):
            return None
        found, terms = pickle.loads(self._store.get(key))
        return terms if found == number else None

    def _heard(self, rank: int) -> Terms:
        """What a rank says of this step, once it comes to it."""
        end = time.monotonic() + self._store.timeout.total_seconds()
        while time.monotonic() < end:
            terms = self._said(rank, self._number)
            if terms is not None:
                return terms
            time.sleep(0.01)
        raise LostRank(f"rank {rank} of the pipeline does not come to the step")
