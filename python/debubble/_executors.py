"""Sweeps and lists of questions on other processes and machines.

Work is cut into parts: of a sweep some questions of its grid, of a list one question. Each is answered by a
worker that gets the documents and the files that they name. A part that a worker loses is answered here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _debubble
from ._errors import InputError, Note

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: The most parts into which a grid is cut by default.
_MOST_PARTS = 64

#: The document, its files, the first question and the one after the last, and the process that asks.
_Part = tuple[str, dict[str, bytes], int, int, int]

#: Is told the name, the count and the total of the work.
_Report = Callable[[str, int, Optional[int]], object]

#: What a worker calls with a part.
_Call = Callable[[Any], bytes]

#: The number of a part, and what waits for its result.
_Waits = Generator[tuple[int, Callable[[], Any]], None, None]

#: The number of a part and its result, `None` if its worker has lost it.
Handed = Generator[tuple[int, Optional[bytes]], None, None]

#: Seconds between two looks at the processes of a pool; at a future four times as often.
_BETWEEN_LOOKS = 0.2

#: The most parts among which one that is done is looked for at once: workers take them in their order.
_MOST_LOOKED_AT = 256


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
    with working_for(asking):
        rows, interrupted = _debubble.sweep(document, files, begin, end)
        if interrupted:
            raise KeyboardInterrupt
    return rows


@contextlib.contextmanager
def working_for(asking: int) -> Iterator[None]:
    """Work for the process `asking`.

    Raises:
        WorkerInterruptedError: In place of a `KeyboardInterrupt` in another process.
    """
    try:
        yield
    except KeyboardInterrupt:
        if os.getpid() == asking:
            raise
        raise WorkerInterruptedError("a worker was interrupted") from None


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
        with contextlib.closing(handed(executor, answer, work, losses)) as results:
            for (_, rows), end in zip(results, ends[1:]):
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
    tell(losses, f"{count} parts", 4)
    return pieces, False


def tell(losses: Sequence[BaseException], of: str, depth: int) -> None:
    """Warns of the parts that workers have lost."""
    if losses:
        first = f"{type(losses[0]).__name__}: {losses[0]}".splitlines()[0]
        text = f"workers lost {len(losses)} of {of}, which were answered here; the first by {first}"
        warnings.warn(text, Note, stacklevel=depth)


def handed(
    executor: Any, call: _Call, work: Sequence[Any], losses: list[BaseException], in_order: bool = True
) -> Handed:
    """Hands the parts over for `call`, and gives their results, as they are done unless `in_order`. Why one
    is lost goes into `losses`. Closing it gives up the parts that nobody has waited for.
    """
    with contextlib.closing(_waits(executor, call, work, in_order)) as waits:
        for number, wait in waits:
            yield number, _waited(wait, losses)


def _beyond(begin: int, questions: int, report: Optional[_Report]) -> Optional[_Report]:
    """Shows the progress of a part that begins at question number `begin` as that of all `questions`."""
    if report is None:
        return None
    whole = report
    return lambda what, done, _: whole(what, begin + done, questions)


def _waited(wait: Callable[[], Any], losses: list[BaseException]) -> Optional[bytes]:
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


def _waits(executor: Any, call: _Call, work: Sequence[Any], in_order: bool) -> _Waits:
    """For each part a function that waits for its result. Closing it gives up the parts that nobody has
    waited for.
    """
    if hasattr(executor, "remote") and hasattr(executor, "get"):
        remote = executor.remote(call)
        ready = None if in_order else lambda ref: bool(executor.wait([ref], timeout=0)[0])
        return _each(work, remote.remote, executor.get, executor.cancel, ready)
    if hasattr(executor, "submit"):
        ready = None if in_order else _is_done
        return _each(work, lambda part: executor.submit(call, part), _result, _cancel, ready)
    if hasattr(executor, "apply_async"):
        guard = _Guard()
        ready = None if in_order else guard.is_done
        return _each(work, lambda part: executor.apply_async(call, (part,)), guard.result, _leave, ready)
    if hasattr(executor, "map"):
        return _mapped(executor, call, work)
    kind = type(executor).__name__
    raise TypeError(f"executor: a {kind} has neither `submit` nor `map`, and is not the module `ray`")


def _each(
    work: Sequence[Any],
    submit: Callable[[Any], Any],
    result: Callable[[Any], Any],
    cancel: Callable[[Any], object],
    is_done: Optional[Callable[[Any], bool]],
) -> _Waits:
    """Hands over all parts at once, and waits for one after the other, or for those first that are done."""
    left: dict[int, Any] = {}
    try:
        for number, part in enumerate(work):
            try:
                left[number] = submit(part)
            except Exception as error:  # A pool that is broken takes no more work.
                left[number] = _Refused(error)
        for number in range(len(work)) if is_done is None else _as_done(left, is_done):
            future = left[number]
            yield (
                number,
                future.raised if isinstance(future, _Refused) else functools.partial(result, future),
            )
            del left[number]
    finally:
        for future in left.values():
            if not isinstance(future, _Refused):
                cancel(future)


def _as_done(left: dict[int, Any], is_done: Callable[[Any], bool]) -> Iterator[int]:
    """The numbers of what is `left`, those first that are done. Whoever takes one removes it."""
    pause = 0.001
    while left:
        looked_at = list(itertools.islice(left.items(), _MOST_LOOKED_AT))
        done = [number for number, future in looked_at if isinstance(future, _Refused) or is_done(future)]
        yield from done
        if done:
            pause = 0.001
        else:
            time.sleep(pause)
            pause = min(2 * pause, _BETWEEN_LOOKS / 4)


def _is_done(future: Any) -> bool:
    return not hasattr(future, "done") or bool(future.done())


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
    while not _is_done(future):
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
        while not self.is_done(handle):
            handle.wait(_BETWEEN_LOOKS)
        if not handle.ready():
            raise WorkerKilledError("a process of the pool was killed")
        return handle.get()

    def is_done(self, handle: Any) -> bool:
        """Whether nothing more is to be waited for: there is a result, or none is expected any more."""
        import multiprocessing

        self._children.update(multiprocessing.active_children())
        return bool(handle.ready()) or any(child.exitcode for child in self._children)


def _leave(_: Any) -> None:
    """Pools of `multiprocessing` finish what they have taken."""


def _mapped(executor: Any, call: _Call, work: Sequence[Any]) -> _Waits:
    """Of an executor that has `map` alone."""
    results: Optional[Iterator[Any]] = None

    def following() -> Any:
        nonlocal results
        if results is None:
            results = iter(executor.map(call, work))
        return next(results)

    for number in range(len(work)):
        yield number, following
