"""The ranks of a pipeline go on together, or are refused together: none waits for one that has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from .._errors import InputError
from . import _runtime
from ._ranks import Ranks, members_of

#: Seconds that ranks wait for each other, as torch's own groups of gloo do.
_LIMIT = 1800.0

#: The ranks that have joined, by their numbers; with the run that they are of.
_JOINED: dict[tuple[int, ...], tuple[Any, Ranks]] = {}


def ranks_of(stage: Any) -> Optional[Ranks]:
    """The ranks of the pipeline of `stage`, which all ask for it; nothing where there is only one, or where
    they have no network.
    """
    distributed = _runtime.torch().distributed
    if not distributed.is_initialized() or int(stage.group_size) == 1 or not distributed.is_gloo_available():
        return None
    if distributed.get_backend(stage.group) == "fake":
        return None
    members = tuple(members_of(stage))
    run, ranks = _JOINED.get(members, (None, None))
    if ranks is None or run is not distributed.group.WORLD:
        ranks = Ranks(list(members), members.index(distributed.get_rank()), _LIMIT, "the step")
        _JOINED[members] = distributed.group.WORLD, ranks
    return ranks


class Agreement:
    """What the ranks of one pipeline agree on before they build a schedule, and before each step."""

    def __init__(self, ranks: Optional[Ranks]) -> None:
        self._ranks = ranks

    def go_on(self, error: Optional[Exception]) -> None:
        """Goes on if no rank has an error.

        Raises:
            InputError: If another rank has one.
            Exception: `error`, if this rank has one.
        """
        self.highest(error, ())

    def highest(self, error: Optional[Exception], flags: Sequence[int]) -> list[int]:
        """The highest of each flag on any rank, where no rank has an error. Raises as `go_on`."""
        failed, *found = [int(error is not None), *flags]
        if self._ranks is not None:
            failed, *found = self._ranks.highest([failed, *flags])
        told = self._ranks.gathered(_said(error), "agree on") if failed and self._ranks is not None else []
        if error is not None:
            raise error
        for rank, (message, cure) in ((rank, one) for rank, one in enumerate(told) if one is not None):
            text = f"rank {rank} of the pipeline cannot go on: {message}"
            raise InputError.with_help(text, cure) if cure else InputError(text)
        return found


def _said(error: Optional[Exception]) -> Union[tuple[str, Optional[str]], None]:
    """What other ranks are told of an error: its message on one line, and the cure."""
    if error is None:
        return None
    if isinstance(error, InputError):
        return error.message, error.help
    return f"{type(error).__name__}: {error}".splitlines()[0], None
