"""Rows as frames of pandas and polars, which are imported when they are asked for."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union, overload

if TYPE_CHECKING:
    import pandas
    import polars


class Figures(Mapping[str, Any]):
    """Named figures, read by key or as attributes.

    >>> figures = Figures({"step_ns": 12, "set-up": "t8"})
    >>> figures.step_ns, figures["set-up"]
    (12, 't8')
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
        try:
            return self._figures[name]
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
        """The rows as a frame of pandas; figures within figures get names with a dot."""
        return to_pandas(self.to_dicts())

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars; figures within figures get names with a dot."""
        return to_polars(self.to_dicts())


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
        """The rows as a frame of pandas; figures within figures get names with a dot."""
        return self.rows.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a frame of polars; figures within figures get names with a dot."""
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


def to_pandas(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """`rows` as a frame of pandas."""
    import pandas

    return pandas.DataFrame([flat(row) for row in rows])


def to_polars(rows: Sequence[Mapping[str, Any]]) -> polars.DataFrame:
    """`rows` as a frame of polars."""
    import polars

    return polars.DataFrame([flat(row) for row in rows], infer_schema_length=None)


def html(frame: Callable[[], pandas.DataFrame]) -> Optional[str]:
    """The `frame` as notebooks show it; nothing where there is no pandas."""
    try:
        return str(frame()._repr_html_())  # type: ignore[operator, unused-ignore]
    except ImportError:
        return None
