"""Sweeps: a grid of questions in one call, here or on other machines."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _ask, _debubble, _executors, _frames, _pictures, _values
from ._errors import InputError
from ._profile import Profile
from ._question import Question, Schedules, check, named

if TYPE_CHECKING:
    import pandas
    import polars


def sweep(
    question: Union[Question, Profile],
    axes: Mapping[str, Any],
    schedules: Optional[Schedules] = None,
    *,
    executor: Any = None,
    parts: Optional[int] = None,
    progress: _ask.Progress = None,
) -> Sweep:
    """Answers a grid of questions: every combination of the values of the axes.

    Args:
        question: The keys that all questions share; of several settings each has the whole grid.
        axes: Keys with their values: a list, `debubble.steps` or `debubble.factors`; the slowest first.
        schedules: The schedules to compare, in place of those that the question names.
        executor: Where to answer, if not here: anything with `submit` or `map` as `concurrent.futures` has
            them, such as its pools and `dask.distributed.Client`; the module `ray`; or a `Pool` of
            `multiprocessing` or `ray.util.multiprocessing`. Workers need this package, but none of the files
            that the question names. The rows are the same as here; what a worker that dies leaves is
            answered here.
        parts: Into how many parts to cut the grid for the executor, from 1; unless told, 64 at most.
        progress: See `debubble.Progress`.

    Returns:
        A row for each question, in the order of the grid. A question that has no answer has a row with the
        reason under `error`.

    Raises:
        InputError: If a key or value is wrong, or no question has an answer.
        Interrupted: After a Ctrl-C, with the rows that there were by then.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms")
    >>> rows = db.sweep(q, {"microbatches": [4, 8, 16]}, ["1f1b", "zb-h1"])
    >>> len(rows), rows.columns["schedule"][:2]
    (6, ['1f1b', 'zb-h1'])
    """
    if parts is not None and operator.index(parts) < 1:
        raise InputError(f"parts: {parts} is too small: a grid has one part at least", key="parts")
    names, files = named(schedules)
    question = check(question)
    if not isinstance(axes, Mapping):
        raise TypeError(f"axes are a dictionary of keys and their values, not a {type(axes).__name__}")
    asked = question if names is None else question.replace(schedule=names)
    values = {key: named(value)[0] if key == "schedule" else value for key, value in axes.items()}
    own = {} if "schedule" not in axes else named(axes["schedule"])[1]
    grid = _debubble.Grid.of(
        asked._inner,
        _values.pairs("sweep", ["sweep"], values),
        {**question._files, **files, **own},
    )
    _ask.note(grid.warnings)
    document, shipped = grid.parts()
    with _ask.watching(progress) as report:
        if executor is None:
            piece, interrupted = _debubble.sweep(document, shipped, 0, len(grid), report)
            pieces = [piece]
        else:
            pieces, interrupted = _executors.answered(executor, document, shipped, len(grid), parts, report)
    return _ask.whole(Sweep(grid.rows(pieces, interrupted)), interrupted)


class Sweep:
    """The rows of a sweep, one for each question.

    The columns are those of the file that `debubble sweep` writes: the axes, the metrics, and what the keys
    ask for. Iteration gives the rows as dictionaries.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms", schedule="1f1b")
    >>> [round(row["bubble_rate"], 3) for row in db.sweep(q, {"microbatches": [4, 16]})]
    [0.429, 0.158]
    """

    def __init__(self, inner: _debubble.Rows) -> None:
        self._inner = inner

    @functools.cached_property
    def _columns(self) -> Mapping[str, tuple[str, Any]]:
        return self._inner.columns()

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name: arrays of numpy of numbers and truths (a number that is missing is NaN), and
        lists of texts, and of whole numbers and truths that are missing in some row, with `None` there.
        """
        return {name: values for name, (_, values) in self._columns.items()}

    def to_csv(self) -> str:
        """The rows as CSV, as `debubble sweep` writes them."""
        return self._inner.csv().decode()

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return list(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas; whole numbers and truths that may be missing are nullable."""
        import pandas

        nullable: dict[str, Any] = {"whole": "Int64", "truth": "boolean"}
        frame = {
            name: pandas.array(values, dtype=nullable[kind])
            if kind in nullable and isinstance(values, list)
            else values
            for name, (kind, values) in self._columns.items()
        }
        return pandas.DataFrame(frame)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars; what is missing is null."""
        import polars

        types = {
            "whole": polars.Int64,
            "decimal": polars.Float64,
            "truth": polars.Boolean,
            "text": polars.String,
        }
        columns = [
            polars.Series(name, values, dtype=types[kind]) for name, (kind, values) in self._columns.items()
        ]
        return polars.DataFrame(columns).with_columns(polars.selectors.float().fill_nan(None))

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the rows (`.csv`)."""
        _pictures.save(path, {".csv": self._inner.csv})

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = {name: _plain(values) for name, values in self.columns.items()}
        rows = zip(*columns.values())
        return (dict(zip(columns, row)) for row in rows)

    def __len__(self) -> int:
        return len(self.columns["index"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sweep) and self._inner.csv() == other._inner.csv()

    def __repr__(self) -> str:
        return f"<debubble.Sweep of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> Optional[str]:
        return _frames.html(self.to_pandas)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._inner.csv(),)


def _plain(values: Any) -> list[Any]:
    """The values of a column as those of Python; what is missing is `None`."""
    plain: list[Any] = values if isinstance(values, list) else values.tolist()
    return [None if value != value else value for value in plain]


def _again(csv: bytes) -> Sweep:
    return Sweep(_debubble.Rows.of(csv))
