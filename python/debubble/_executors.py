"""Sweeps on other processes and machines.

The grid is cut into parts; each is answered by a worker that gets the document of the grid and the files
that it names. A part that a worker loses is answered here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Optional

from . import _debubble
from ._errors import InputError, Note

#: The most parts into which a grid is cut unless told.
_MOST_PARTS = 64

_Part = tuple[str, dict[str, bytes], int, int]


def answer(part: _Part) -> bytes:
    """The rows of a part, on a worker."""
    document, files, begin, end = part
    rows, _ = _debubble.sweep(document, files, begin, end)
    return rows


def answered(
    executor: Any,
    document: str,
    files: dict[str, bytes],
    questions: int,
    parts: Optional[int],
    report: Optional[Callable[[str, int, Optional[int]], object]],
) -> tuple[list[bytes], bool]:
    """The rows of all parts in their order, and whether a Ctrl-C came before the last."""
    count = max(1, min(questions, _MOST_PARTS if parts is None else parts))
    ends = [questions * number // count for number in range(count + 1)]
    work = [(document, files, begin, end) for begin, end in zip(ends, ends[1:])]
    pieces: list[bytes] = []
    lost = 0
    try:
        for number, result in enumerate(_results(executor, work)):
            try:
                pieces.append(result())
            except InputError:
                raise
            except Exception:  # Whatever an executor raises where a worker dies.
                lost += 1
                pieces.append(answer(work[number]))
            if report is not None:
                report("questions", ends[number + 1], questions)
    except KeyboardInterrupt:
        return pieces, True
    if lost:
        warnings.warn(f"workers lost {lost} of {count} parts, which were answered here", Note, stacklevel=4)
    return pieces, False


def _results(executor: Any, work: list[_Part]) -> Iterable[Callable[[], bytes]]:
    """For each part a function that waits for its rows."""
    if hasattr(executor, "remote") and hasattr(executor, "get"):
        remote = executor.remote(answer)
        return [_fetched(executor, remote.remote(part)) for part in work]
    if hasattr(executor, "submit"):
        return _submitted(executor, work)
    if hasattr(executor, "map"):
        return _mapped(executor, work)
    kind = type(executor).__name__
    raise TypeError(f"executor: a {kind} has neither `submit` nor `map`, and is not the module `ray`")


def _fetched(ray: Any, reference: Any) -> Callable[[], bytes]:
    """A function that waits for what `reference` of Ray stands for."""
    return lambda: bytes(ray.get(reference))


def _submitted(executor: Any, work: list[_Part]) -> Iterable[Callable[[], bytes]]:
    futures: list[Any] = []
    for part in work:
        try:
            futures.append(executor.submit(answer, part))
        except Exception as error:  # A pool that is broken takes no more work.
            futures.append(_Failed(error))
    try:
        for future in futures:
            yield future.result
    finally:
        for future in futures:
            future.cancel()


class _Failed:
    """Work that could not be handed over."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def result(self) -> bytes:
        raise self._error

    def cancel(self) -> None:
        """There is nothing to cancel."""


def _mapped(executor: Any, work: list[_Part]) -> Iterable[Callable[[], bytes]]:
    results = iter(executor.map(answer, work))

    def following() -> bytes:
        return bytes(next(results))

    return [following] * len(work)
