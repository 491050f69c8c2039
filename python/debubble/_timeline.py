"""When passes run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _frames, _pictures

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    from numpy.typing import NDArray


class Timeline:
    """When every pass of a step runs, as columns of equal length: one entry per pass.

    The passes of a stage stand in the order in which they run, stage after stage. Two passes that run
    together share a slot and its times. Time 0 is the start of the step.

    Attributes:
        stage: The stage, from 0.
        slot: The number of the slot, from 0, over all stages.
        kind: `F`, `B`, `W`, `BW`, `S`, `T` or `R`.
        chunk: The chunk of the model, in model order.
        microbatch: The microbatch, from 0.
        start_ns: When the slot begins, in nanoseconds.
        end_ns: When the slot ends, in nanoseconds.

    >>> import debubble as db
    >>> q = db.Question(stages=2, microbatches=2, forward="1ms", backward="2ms")
    >>> t = db.simulate(q, "1f1b")["1f1b"].timeline
    >>> t.stage.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    >>> int((t.end_ns - t.start_ns).max())
    2000000
    """

    __slots__ = ("chunk", "end_ns", "kind", "microbatch", "slot", "stage", "start_ns")

    stage: NDArray[numpy.int64]
    slot: NDArray[numpy.int64]
    kind: NDArray[numpy.str_]
    chunk: NDArray[numpy.int64]
    microbatch: NDArray[numpy.int64]
    start_ns: NDArray[numpy.int64]
    end_ns: NDArray[numpy.int64]

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        for name in self.__slots__:
            setattr(self, name, columns[name])

    @property
    def start_seconds(self) -> NDArray[numpy.float64]:
        """When the slot begins, in seconds."""
        return self.start_ns / 1e9

    @property
    def end_seconds(self) -> NDArray[numpy.float64]:
        """When the slot ends, in seconds."""
        return self.end_ns / 1e9

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return {name: getattr(self, name) for name in _NAMES}

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a frame of pandas, with `start_seconds` and `end_seconds`."""
        return _frames.to_pandas(self._wide())

    def to_polars(self) -> polars.DataFrame:
        """The columns as a frame of polars, with `start_seconds` and `end_seconds`."""
        return _frames.to_polars(self._wide())

    def _wide(self) -> _frames.Columns:
        kinds = {"kind": "text"}
        return _frames.widened({name: (kinds.get(name, "whole"), one) for name, one in self.columns.items()})

    def __len__(self) -> int:
        """The number of passes."""
        return len(self.stage)

    def __repr__(self) -> str:
        return f"<debubble.Timeline of {len(self)} passes>"

    def _repr_html_(self) -> str:
        head = ["stage", "passes", "first begins", "last ends", "busy"]
        rows = []
        for stage in range(int(self.stage.max()) + 1 if len(self) else 0):
            own = self.stage == stage
            starts, ends = self.start_ns[own], self.end_ns[own]
            # Passes that run together share their time.
            first = [True, *(starts[1:] != starts[:-1]).tolist()]
            times = [starts.min(), ends.max(), (ends - starts)[first].sum()] if len(starts) else [0, 0, 0]
            rows.append([str(stage), str(len(starts)), *(f"{time / 1e6:.3f} ms" for time in times)])
        return _pictures.table(head, rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Timeline, (self.columns,)


#: The names of the columns, in the order in which frames show them.
_NAMES = ("stage", "slot", "kind", "chunk", "microbatch", "start_ns", "end_ns")
