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
    from typing_extensions import Unpack

    from ._keys import QuestionKeys


def sweep(
    question: Union[Question, Profile],
    axes: Mapping[str, Any],
    schedules: Optional[Schedules] = None,
    *,
    executor: Any = None,
    parts: Optional[int] = None,
    progress: _ask.Progress = None,
    **keys: Unpack[QuestionKeys],
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
        parts: Into how many parts to cut the grid for the executor, from 1; by default, 64 at most.
        progress: See `debubble.Progress`.
        **keys: Keys over those of the question.

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
    question = check(question, keys)
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

    The columns are the axes, the metrics, and what the keys ask for, as in a frame: see `debubble.Table`.
    `to_csv` has those of the file that `debubble sweep` writes. Iteration gives the rows as dictionaries.

    >>> import debubble as db
    >>> q = db.Question(stages=4, forward="1ms", backward="2ms", schedule="1f1b")
    >>> [round(row["bubble_rate"], 3) for row in db.sweep(q, {"microbatches": [4, 16]})]
    [0.429, 0.158]
    """

    def __init__(self, inner: _debubble.Rows) -> None:
        self._inner = inner

    @functools.cached_property
    def _columns(self) -> _frames.Columns:
        columns = {name.replace("-", "_"): column for name, column in self._inner.columns().items()}
        kind, errors = columns["error"]
        columns["error"] = (kind, [None if text is None else _debubble.said(text) for text in errors])
        return _frames.widened(columns)

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
        """The rows as a frame of pandas."""
        return _frames.to_pandas(self._columns)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars; what is missing is null."""
        return _frames.to_polars(self._columns)

    def best(
        self, by: str = "bubble_rate", *, greatest: bool = False, fitting: bool = True
    ) -> _frames.Figures:
        """The row with the least `by`, or the `greatest`: see `debubble.Table.best`.

        >>> import debubble as db
        >>> q = db.Question(stages=4, forward="1ms", backward="2ms", schedule="1f1b")
        >>> db.sweep(q, {"microbatches": [4, 16]}).best().microbatches
        16
        """
        at = _frames.best(self._columns, by, greatest, fitting)
        return _frames.Figures(self.to_dicts()[at])

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the rows (`.csv`)."""
        _pictures.save(path, {".csv": self._inner.csv})

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return _frames.dicts(self._columns)

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


def _again(csv: bytes) -> Sweep:
    return Sweep(_debubble.Rows.of(csv))
