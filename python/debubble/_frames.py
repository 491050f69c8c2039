"""Rows as frames of pandas and polars, which are imported when they are asked for."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union, overload

import numpy

from . import _debubble, _values
from ._errors import InputError

if TYPE_CHECKING:
    import pandas
    import polars


class Figures(Mapping[str, Any]):
    """Named figures, read by key or as attributes; of times in nanoseconds, `_ns`, also `_seconds`.

    >>> figures = Figures({"step_ns": 12, "set-up": "t8"})
    >>> figures.step_ns, figures.step_seconds, figures["set-up"]
    (12, 1.2e-08, 't8')
    """

    __slots__ = ("_figures",)

    def __init__(self, figures: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_figures", dict(figures))

    def __getitem__(self, key: str) -> Any:
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._figures:
            return self._figures[name]
        twins = columns([self._figures])
        try:
            return _listed(twins[name][1])[0]
        except KeyError:
            raise AttributeError(f"there is no figure {name!r}: there are {', '.join(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("figures cannot be changed")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._figures})

    def __repr__(self) -> str:
        return f"Figures({self._figures!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Figures, (self._figures,)


class Table(Sequence[Figures]):
    """Rows of figures.

    Columns of a frame have names that Python can say. Figures within figures have names with a dot. Times are
    whole numbers of nanoseconds under `_ns`, and beside them numbers of seconds under `_seconds`. Keys of a
    question are the numbers that the keyword takes, seconds or bytes; a memory limit in multiples of the
    activations of p microbatches is that multiple, and its text stands under `memory_limit_text`. A key whose
    values have no common unit stays text. Whole numbers and truths that may be missing are nullable.

    >>> table = Table([{"lever": "hop", "change": -0.1}, {"lever": "memory", "change": 0.0}])
    >>> [row.lever for row in table]
    ['hop', 'memory']
    >>> table.column("change")
    [-0.1, 0.0]
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [Figures(row) for row in rows]

    @overload
    def __getitem__(self, at: int) -> Figures: ...
    @overload
    def __getitem__(self, at: slice) -> Table: ...
    def __getitem__(self, at: Union[int, slice]) -> Union[Figures, Table]:
        return Table(self._rows[at]) if isinstance(at, slice) else self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Table of {len(self)} rows"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._rows == other._rows

    def best(self, by: str, *, greatest: bool = False, fitting: bool = True) -> Figures:
        """The row with the least `by`, or the `greatest`; the first of equals. Asynchronous schedules, whose
        weights are stale, are left out unless there are no others.

        Args:
            by: A column of numbers of the frame, such as `"span_seconds"` or `"bubble_rate"`.
            greatest: Whether more is better.
            fitting: Whether to leave out rows that do not keep their memory limit: their `fits` is false.

        Raises:
            InputError: If there is no such column, or no row has a number there.
        """
        return self[best(columns(self._rows), by, greatest, fitting)]

    def column(self, name: str) -> list[Any]:
        """The figures called `name` of all rows, `None` where a row has none."""
        return [row.get(name) for row in self._rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(row) for row in self._rows]

    def to_json(self) -> str:
        """The rows as a JSON list."""
        return json.dumps(self.to_dicts(), indent=2, ensure_ascii=False)

    def _repr_html_(self) -> Optional[str]:
        return html(self.to_pandas)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas: see `debubble.Table`."""
        return to_pandas(columns(self._rows))

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars: see `debubble.Table`."""
        return to_polars(columns(self._rows))


class Tabular:
    """An answer with JSON, one list of which makes frames."""

    #: The list of the JSON whose rows make frames.
    _list = "results"

    def to_json(self) -> str:
        """All of it as JSON, as the command line prints it with `--json`."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The same as dictionaries."""
        return self._dict

    @functools.cached_property
    def _dict(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.to_json())
        return loaded

    @property
    def rows(self) -> Table:
        """The rows of the answer."""
        return Table(self.to_dict()[self._list])

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a frame of pandas: see `debubble.Table`."""
        return self.rows.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars: see `debubble.Table`."""
        return self.rows.to_polars()


def flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The figures of `row`, those within others under names with a dot."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{before}{name}."))
        else:
            found[before + name] = value
    return found


#: Columns by name, each with the kind of its values: `"whole"`, `"decimal"`, `"truth"`, `"text"`, `"other"`.
Columns = Mapping[str, tuple[str, Any]]

_NANOSECONDS = re.compile(r"_ns(?=$|[._])")


def columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The columns of the frame of `rows`."""
    each = [flat(row) for row in rows]
    names = dict.fromkeys(name for row in each for name in row)
    values = {name.replace("-", "_"): [row.get(name) for row in each] for name in names}
    return widened({name: (_kind(column), column) for name, column in values.items()})


def _kind(values: Sequence[Any]) -> str:
    """The kind of the values of a column."""
    types = {type(value) for value in values if value is not None}
    for kind, of in _KINDS.items():
        if types and types <= of:
            return kind
    return "other"


_KINDS: dict[str, set[type]] = {
    "truth": {bool},
    "whole": {int},
    "decimal": {int, float},
    "text": {str},
}


def widened(columns: Columns) -> Columns:
    """`columns` with keys of questions as numbers, and with seconds beside nanoseconds."""
    wide: dict[str, tuple[str, Any]] = {}
    for name, (kind, values) in columns.items():
        if kind == "text" and name in _values.quantities():
            wide.update(_quantities(name, values))
            continue
        wide[name] = (kind, _array(kind, values))
        twin = _NANOSECONDS.sub("_seconds", name)
        if twin != name and kind in ("whole", "decimal"):
            wide[twin] = ("decimal", _seconds(values))
        elif twin != name:
            wide[twin] = (kind, [_each(value) for value in values])
    return wide


def _quantities(name: str, texts: list[Optional[str]]) -> Columns:
    """The numbers of a key, and beside them what they leave out."""
    found = _debubble.quantities(texts)
    if found is None:
        return {name: ("text", texts)}
    unit, numbers = found
    if unit == "ns":
        return {name: ("decimal", _seconds(numbers)), f"{name}_ns": ("whole", _array("whole", numbers))}
    kind = "whole" if unit == "B" else "decimal"
    column = {name: (kind, _array(kind, numbers))}
    return {**column, f"{name}_text": ("text", texts)} if _values.quantities()[name] else column


def _seconds(nanoseconds: Any) -> Any:
    return _array("decimal", nanoseconds) / 1e9


def _each(value: Any) -> Any:
    """Nanoseconds, or lists of them, in seconds."""
    if isinstance(value, (list, tuple)):
        return [_each(one) for one in value]
    return value / 1e9 if isinstance(value, (int, float)) else value


def _array(kind: str, values: Any) -> Any:
    """The values as an array of numpy, where none is missing or what is missing is NaN."""
    if kind == "decimal":
        return numpy.array([math.nan if value is None else value for value in values], dtype=numpy.float64)
    dtype = {"whole": numpy.int64, "truth": numpy.bool_}.get(kind)
    if dtype is None or any(value is None for value in values):
        return values
    try:
        return numpy.asarray(values, dtype=dtype)
    except OverflowError:
        return values


def _listed(values: Any) -> list[Any]:
    """The values of a column as those of Python; what is missing is `None`."""
    plain: list[Any] = values if isinstance(values, list) else values.tolist()
    return [None if isinstance(value, float) and math.isnan(value) else value for value in plain]


def dicts(columns: Columns) -> Iterator[dict[str, Any]]:
    """The rows of `columns` as dictionaries."""
    plain = [_listed(values) for _, values in columns.values()]
    return (dict(zip(columns, row)) for row in zip(*plain))


def best(columns: Columns, by: str, greatest: bool, fitting: bool) -> int:
    """The number of the row with the least figure `by`, or the greatest. Rows of asynchronous schedules are
    left out, unless there are no others: their time and memory do not compare.

    Raises:
        InputError: If no row has one.
    """
    if by not in columns:
        raise InputError.with_help(
            f"there is no column `{by}`", f"the columns are {', '.join(columns)}", "by"
        )
    kind, values = columns[by]
    if kind not in ("whole", "decimal"):
        numbers = [name for name, (kind, _) in columns.items() if kind in ("whole", "decimal")]
        message = f"`{by}` has no numbers: nothing is best by it"
        raise InputError.with_help(message, f"columns of numbers are {', '.join(numbers)}", "by")
    found = {at: value for at, value in enumerate(_listed(values)) if value is not None}
    if "asynchronous" in columns:
        stale = _listed(columns["asynchronous"][1])
        found = {at: value for at, value in found.items() if not stale[at]} or found
    if fitting and "fits" in columns:
        fits = _listed(columns["fits"][1])
        kept = {at: value for at, value in found.items() if fits[at] is not False}
        if found and not kept:
            cure = "raise the limit, or name the best of all with `fitting=False`"
            raise InputError.with_help("no row keeps its memory limit", cure, "fitting")
        found = kept
    if not found:
        raise InputError(f"no row has a number under `{by}`", key="by")
    return (max if greatest else min)(found, key=lambda at: found[at])


def to_pandas(columns: Columns) -> pandas.DataFrame:
    """`columns` as a frame of pandas."""
    import pandas

    nullable: dict[str, Any] = {"whole": "Int64", "truth": "boolean"}
    frame = {
        name: pandas.array(values, dtype=nullable[kind])
        if kind in nullable and isinstance(values, list)
        else values
        for name, (kind, values) in columns.items()
    }
    return pandas.DataFrame(frame)


def to_polars(columns: Columns) -> polars.DataFrame:
    """`columns` as a frame of polars; what is missing is null."""
    import polars

    types: dict[str, Any] = {
        "whole": polars.Int64,
        "decimal": polars.Float64,
        "truth": polars.Boolean,
        "text": polars.String,
    }

    def series(name: str, kind: str, values: Any) -> polars.Series:
        if kind in types:
            return polars.Series(name, values, dtype=types[kind])
        return polars.DataFrame([{name: value} for value in values], infer_schema_length=None)[name]

    frame = polars.DataFrame([series(name, kind, values) for name, (kind, values) in columns.items()])
    return frame.with_columns(polars.selectors.float().fill_nan(None)) if frame.width else frame


def html(frame: Callable[[], pandas.DataFrame]) -> Optional[str]:
    """The `frame` as notebooks show it; nothing where there is no pandas."""
    try:
        return str(frame()._repr_html_())  # type: ignore[operator, unused-ignore]
    except ImportError:
        return None
