"""What every call shares: warnings, progress, and what a Ctrl-C leaves."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional, TypeVar, Union

from ._errors import Interrupted, Note

#: `True` and `False` show and hide progress; a function is called with the steps that are done, how many
#: there are (`None` if nobody knows), and what they are.
Progress = Union[bool, Callable[[int, Optional[int], str], object], None]

#: What the compiled part calls: the name, the count and the total of the work.
Report = Callable[[str, int, Optional[int]], object]

_Answer = TypeVar("_Answer")


class Improvement(NamedTuple):
    """A better order than a search had before.

    >>> import debubble as db
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> told = []
    >>> best = db.search(q, memory_limit="1p", on_improvement=told.append)
    >>> told[-1].cost_ns == best.cost_ns
    True
    """

    cost_ns: int
    """The cost of the order, in nanoseconds."""
    bound_ns: Optional[int]
    """The lower bound on the cost of any order, in nanoseconds, where one is known by then."""
    steps: int
    """The steps of the search by then: passes placed or timed, of a joint search choices tried."""
    at: int
    """The number of the result that it will be part of, as in `found[at]`."""
    elapsed_ns: int = 0
    """The nanoseconds since the search began."""

    @property
    def cost_seconds(self) -> float:
        """The cost in seconds."""
        return self.cost_ns / 1e9

    @property
    def bound_seconds(self) -> Optional[float]:
        """The bound in seconds."""
        return None if self.bound_ns is None else self.bound_ns / 1e9

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the search began."""
        return self.elapsed_ns / 1e9


#: Seconds of work before a bar is shown.
_PATIENCE = 2.0


def note(texts: list[str], depth: int = 2) -> None:
    """Warns the caller's caller of `texts`."""
    for text in texts:
        warnings.warn(text, Note, stacklevel=depth + 1)


def whole(answer: _Answer, interrupted: bool) -> _Answer:
    """`answer`, unless a Ctrl-C cut it short: then an exception that holds it."""
    if interrupted:
        raise Interrupted(answer)
    return answer


@contextlib.contextmanager
def watching(progress: Progress) -> Iterator[Optional[Report]]:
    """Shows the progress of the work inside, if it is long."""
    if progress is False:
        yield None
    elif callable(progress):
        told = progress
        yield lambda what, done, of: told(done, of, what)
    elif progress is not True and progress is not None:
        raise TypeError(f"progress is True, False or a function, not a {type(progress).__name__}")
    else:
        bar = _Bar(always=progress is True)
        try:
            yield bar.show
        finally:
            bar.close()


class _Bar:
    """A bar of tqdm if that is there, else a line on a terminal."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._begun = time.monotonic()
        self._bar: Any = None
        self._is_line = False

    def show(self, what: str, done: int, of: Optional[int]) -> None:
        if time.monotonic() - self._begun < _PATIENCE or not (self._always or _is_watched()):
            return
        if self._bar is None and not self._is_line:
            self._bar = _tqdm()
            self._is_line = self._bar is None
        if self._bar is not None:
            self._bar.total = of
            self._bar.set_description(what, refresh=False)
            self._bar.n = done
            self._bar.refresh()
        elif sys.stderr is not None:
            share = "" if of is None else f" of {of}"
            sys.stderr.write(f"\r\x1b[K{what}: {done}{share}")
            sys.stderr.flush()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._is_line and sys.stderr is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _is_watched() -> bool:
    """Whether somebody looks on: a terminal, or a notebook."""
    stderr = sys.stderr
    return "ipykernel" in sys.modules or (stderr is not None and stderr.isatty())


def _tqdm() -> Any:
    with warnings.catch_warnings():
        # A notebook without widgets gets a bar of text, and no word on how to get another.
        warnings.simplefilter("ignore")
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm(leave=False)
