"""Sweeps on other processes and machines.

The grid is cut into parts; each is answered by a worker that gets the document of the grid and the files
that it names. A part that a worker loses is answered here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _debubble
from ._errors import InputError, Note

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: The most parts into which a grid is cut unless told.
_MOST_PARTS = 64

#: The document, its files, the first question and the one after the last, and the process that asks.
_Part = tuple[str, dict[str, bytes], int, int, int]

#: Is told the name, the count and the total of the work.
_Report = Callable[[str, int, Optional[int]], object]

#: Waits for the rows of a part.
_Wait = Callable[[], Any]
_Waits = Generator[_Wait, None, None]


#: Seconds between two looks at the processes of a pool; at a future four times as often.
_BETWEEN_LOOKS = 0.2


class WorkerKilledError(RuntimeError):
    """A process of a pool has died."""


class WorkerInterruptedError(RuntimeError):
    """A worker was asked to end in the middle of a part."""


def answer(part: _Part) -> bytes:
    """The rows of a part, on a worker.

    Raises:
        WorkerInterruptedError: If somebody interrupts the worker: then rows are missing, and a
            `KeyboardInterrupt` would be taken for a Ctrl-C of whoever waits for them.
    """
    document, files, begin, end, asking = part
    try:
        rows, interrupted = _debubble.sweep(document, files, begin, end)
        if interrupted:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        if os.getpid() == asking:
            raise
        raise WorkerInterruptedError("a worker was interrupted") from None
    return rows


def answered(
    executor: Any,
    document: str,
    files: dict[str, bytes],
    questions: int,
    parts: Optional[int],
    report: Optional[_Report],
) -> tuple[list[bytes], bool]:
    """The rows of all parts in their order, and whether a Ctrl-C came before the last."""
    count = max(1, min(questions, _MOST_PARTS if parts is None else parts))
    ends = [questions * number // count for number in range(count + 1)]
    work = [(document, files, begin, end, os.getpid()) for begin, end in zip(ends, ends[1:])]
    pieces: list[bytes] = []
    losses: list[BaseException] = []
    try:
        with contextlib.closing(_waits(executor, work)) as waits:
            for wait, end in zip(waits, ends[1:]):
                rows = _waited(wait, losses)
                if rows is None:
                    begin = ends[len(pieces)]
                    shown = _beyond(begin, questions, report)
                    rows, interrupted = _debubble.sweep(document, files, begin, end, shown)
                    if interrupted:
                        return [*pieces, rows], True
                pieces.append(rows)
                if report is not None:
                    report("questions", end, questions)
    except KeyboardInterrupt:
        return pieces, True
    if losses:
        first = f"{type(losses[0]).__name__}: {losses[0]}".splitlines()[0]
        text = f"workers lost {len(losses)} of {count} parts, which were answered here; the first by {first}"
        warnings.warn(text, Note, stacklevel=3)
    return pieces, False


def _beyond(begin: int, questions: int, report: Optional[_Report]) -> Optional[_Report]:
    """Shows the progress of a part that begins at question number `begin` as that of all `questions`."""
    if report is None:
        return None
    whole = report
    return lambda what, done, _: whole(what, begin + done, questions)


def _waited(wait: _Wait, losses: list[BaseException]) -> Optional[bytes]:
    """The rows that `wait` gives; `None`, and why among the `losses`, if their worker has lost them."""
    try:
        rows = wait()
    except (InputError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # Whatever an executor raises where a worker dies.
        cause = getattr(error, "cause", None)  # Ray wraps what a worker has raised.
        losses.append(cause if isinstance(cause, BaseException) else error)
        return None
    if not isinstance(rows, bytes):
        if hasattr(rows, "close"):
            rows.close()  # A coroutine that nobody will await.
        kind = type(rows).__name__
        raise TypeError(f"executor: its results are of type {kind}: one that is not asynchronous is needed")
    return rows


def _waits(executor: Any, work: Sequence[_Part]) -> _Waits:
    """For each part a function that waits for its rows. Closing it gives up the parts that nobody has
    waited for.
    """
    if hasattr(executor, "remote") and hasattr(executor, "get"):
        remote = executor.remote(answer)
        return _each(work, remote.remote, executor.get, executor.cancel)
    if hasattr(executor, "submit"):
        return _each(work, lambda part: executor.submit(answer, part), _result, _cancel)
    if hasattr(executor, "apply_async"):
        guard = _Guard()
        return _each(work, lambda part: executor.apply_async(answer, (part,)), guard.result, _leave)
    if hasattr(executor, "map"):
        return _mapped(executor, work)
    kind = type(executor).__name__
    raise TypeError(f"executor: a {kind} has neither `submit` nor `map`, and is not the module `ray`")


def _each(
    work: Sequence[_Part],
    submit: Callable[[_Part], Any],
    result: Callable[[Any], Any],
    cancel: Callable[[Any], object],
) -> _Waits:
    """Hands over all parts at once, and waits for one after the other."""
    handed: list[Any] = []
    waited = 0
    try:
        for part in work:
            try:
                handed.append(submit(part))
            except Exception as error:  # A pool that is broken takes no more work.
                handed.append(_Refused(error))
        for future in handed:
            yield future.raised if isinstance(future, _Refused) else functools.partial(result, future)
            waited += 1
    finally:
        for future in handed[waited:]:
            if not isinstance(future, _Refused):
                cancel(future)


class _Refused:
    """A part that an executor did not take."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def raised(self) -> bytes:
        raise self._error


def _result(future: Any) -> Any:
    """The result of `future`, looked for again and again: where a library such as polars takes signals first,
    a Ctrl-C does not end the wait of `future.result()`.
    """
    pause = 0.001
    while hasattr(future, "done") and not future.done():
        time.sleep(pause)
        pause = min(2 * pause, _BETWEEN_LOOKS / 4)
    return future.result()


def _cancel(future: Any) -> None:
    future.cancel()


class _Guard:
    """Waits for pools of `multiprocessing`, which never say that a worker was killed: they start another
    one, and the part that the first one had stays open for ever. Once a process that this one has started
    has died, nothing is expected of the pool any more but what is there.
    """

    def __init__(self) -> None:
        self._children: set[BaseProcess] = set()

    def result(self, handle: Any) -> Any:
        """The result behind `handle`.

        Raises:
            WorkerKilledError: If a process has died and there is no result.
        """
        import multiprocessing

        while not handle.ready():
            handle.wait(_BETWEEN_LOOKS)
            self._children.update(multiprocessing.active_children())
            if any(child.exitcode for child in self._children) and not handle.ready():
                raise WorkerKilledError("a process of the pool was killed")
        return handle.get()


def _leave(_: Any) -> None:
    """Pools of `multiprocessing` finish what they have taken."""


def _mapped(executor: Any, work: Sequence[_Part]) -> _Waits:
    """Of an executor that has `map` alone."""
    results: Optional[Iterator[Any]] = None

    def following() -> Any:
        nonlocal results
        if results is None:
            results = iter(executor.map(answer, work))
        return next(results)

    for _ in work:
        yield following
