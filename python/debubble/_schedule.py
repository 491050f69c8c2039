"""Schedules: the order of passes of each stage."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

from . import _debubble, _pictures
from ._errors import InputError


class Pass(NamedTuple):
    """One pass: its kind, its microbatch, and its chunk.

    Kinds are `F` (forward), `B` (backward for the input), `W` (backward for the weights), `BW` (both), `R`
    (recompute), and `S` and `T` (work on a shard of the vocabulary). Chunks are numbered in model order
    over the whole model; `None` is the only chunk of the stage.
    """

    kind: str
    microbatch: int
    chunk: Optional[int] = None

    def __and__(self, other: Pass) -> Pair:
        """This pass and `other` run together, as one."""
        return Pair(self, other)


class Pair(NamedTuple):
    """Two passes that run together, as one."""

    first: Pass
    second: Pass


Slot = Union[Pass, Pair, str]


def F(microbatch: int, chunk: Optional[int] = None) -> Pass:
    """The forward of a microbatch."""
    return Pass("F", microbatch, chunk)


def B(microbatch: int, chunk: Optional[int] = None) -> Pass:
    """The backward of a microbatch for the input."""
    return Pass("B", microbatch, chunk)


def W(microbatch: int, chunk: Optional[int] = None) -> Pass:
    """The backward of a microbatch for the weights."""
    return Pass("W", microbatch, chunk)


def BW(microbatch: int, chunk: Optional[int] = None) -> Pass:
    """The whole backward of a microbatch in one pass."""
    return Pass("BW", microbatch, chunk)


def R(microbatch: int, chunk: Optional[int] = None) -> Pass:
    """The recomputation of what the forward of a microbatch discarded."""
    return Pass("R", microbatch, chunk)


class Schedule:
    r"""An order of passes of each stage that is free of deadlock.

    Make one with `from_text`, `from_file` or `build`, or take it from an answer. It can be simulated
    beside published schedules, drawn, saved and pickled.

    >>> import debubble as db
    >>> mine = db.Schedule.from_text("F0.0 F0.1 B0.0 W0.0 B0.1 W0.1\nF1.0 B1.0 W1.0 F1.1 B1.1 W1.1")
    >>> mine.stages, mine.microbatches, len(mine)
    (2, 2, 12)
    """

    __slots__ = ("_inner", "name")

    #: The name that answers show.
    name: str
    _inner: _debubble.Schedule

    def __init__(self) -> None:
        raise TypeError("make a schedule with Schedule.from_text, .from_file or .build")

    @classmethod
    def _of(cls, inner: _debubble.Schedule, name: str) -> Schedule:
        schedule = cls.__new__(cls)
        schedule._inner = inner
        schedule.name = name
        return schedule

    @classmethod
    def from_text(cls, text: str, name: str = "own") -> Schedule:
        """The schedule of `text`, one line per stage, as in `F0.0 F0.1 B0.0 W0.0`; or the CSV of torch.

        Raises:
            InputError: If it is not a schedule, with line and column, or waits for itself.
        """
        return cls._of(_debubble.Schedule.of(text), _named(name))

    @classmethod
    def from_file(cls, path: Union[str, os.PathLike[str]]) -> Schedule:
        """The schedule in the file at `path`, in the text form or the CSV of torch.

        Raises:
            InputError: If it cannot be read or is not a schedule, with file and line.
        """
        name, inner = _debubble.Schedule.read(os.fsdecode(path))
        return cls._of(inner, name)

    @classmethod
    def build(
        cls,
        stages: int,
        microbatches: int,
        order: Union[Callable[[int], Iterable[Slot]], Sequence[Iterable[Slot]]],
        name: str = "own",
    ) -> Schedule:
        """The schedule in which each stage runs the slots that `order` gives for it.

        Args:
            stages: The number of stages, p.
            microbatches: The number of microbatches, m: every stage must run all of them.
            order: A function of the number of a stage, from 0, or a list of the slots of each stage. A slot
                is a pass (`F(3)`, `B(3, chunk=1)`), a pair (`F(4) & B(2)`), or text (`"F0.3"`).
            name: The name that answers show.

        Raises:
            InputError: If a pass is missing, comes twice, or waits for itself; or if there are not `stages`
                orders.

        >>> import debubble as db
        >>> from debubble import F, BW
        >>> s = db.Schedule.build(2, 3, lambda stage: [F(0), F(1), F(2), BW(0), BW(1), BW(2)], name="mine")
        >>> print(s)
        F0.0 F0.1 F0.2 BW0.0 BW0.1 BW0.2
        F1.0 F1.1 F1.2 BW1.0 BW1.1 BW1.2
        """
        if stages > _MOST_STAGES:
            raise InputError(f"stages is {stages}: at most {_MOST_STAGES}", key="stages")
        if not callable(order) and len(order) != stages:
            raise InputError(f"stages is {stages}, but there are orders of {len(order)}", key="stages")
        orders = [list(order(stage) if callable(order) else order[stage]) for stage in range(stages)]
        lines = [" ".join(_text(slot, stage) for slot in slots) for stage, slots in enumerate(orders)]
        schedule = cls.from_text("\n".join(lines), name)
        if schedule.microbatches != microbatches:
            message = f"the order has {schedule.microbatches} microbatches, not {microbatches}"
            raise InputError(message, key="microbatches")
        return schedule

    @property
    def stages(self) -> int:
        """The number of stages, p."""
        return self._inner.stages

    @property
    def microbatches(self) -> int:
        """The number of microbatches, m."""
        return self._inner.microbatches

    @property
    def chunks(self) -> int:
        """The number of chunks per stage, v."""
        return self._inner.chunks

    @property
    def placement(self) -> str:
        """Placement of chunks: `looped`, `v` or `mirrored`."""
        return self._inner.placement

    def slots(self, stage: int) -> list[Union[Pass, Pair]]:
        """The slots of `stage`, from 0, in their order.

        >>> import debubble as db
        >>> db.Schedule.from_text("F0.0 BW0.0").slots(0)
        [Pass(kind='F', microbatch=0, chunk=0), Pass(kind='BW', microbatch=0, chunk=0)]
        """
        texts = self._inner.slots(stage) if 0 <= stage < self.stages else None
        if texts is None:
            raise IndexError(f"there is no stage {stage}: there are {self.stages}")
        return [_read(text) for text in texts]

    def to_text(self) -> str:
        """The text form, one line per stage."""
        return self._inner.text()

    def to_torch_csv(self) -> str:
        r"""The order as `torch.distributed.pipelining` loads it, one row per rank, without host copies.

        Raises:
            InputError: If torch cannot run it, with the reason.

        >>> import debubble as db
        >>> db.Schedule.from_text("F0.0 B0.0 W0.0\nF1.0 BW1.0").to_torch_csv()
        '0F0,0I0,0W0\n1F0,1B0\n'
        """
        return self._inner.torch_csv()

    def to_primus(self) -> str:
        r"""The order as a table of nodes for Primus: JSON, which `debubble.primus.use` reads.

        Raises:
            InputError: If Primus cannot run it, with the reason.

        >>> import json
        >>> import debubble as db
        >>> table = json.loads(db.Schedule.from_text("F0.0 B0.0 W0.0\nF1.0 BW1.0").to_primus())["table"]
        >>> [node["func_type"] for node in table[1]]
        ['RF', 'F', 'BW', 'SB']
        """
        return self._inner.primus()

    def to_svg(self, width: Optional[str] = None) -> str:
        """The order as SVG, with all passes equally long; `width` as in `Answers.front_svg`."""
        return self._inner.svg(width)

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the text form (`.txt`), the CSV of torch (`.csv`), the table of Primus (`.json`) or a
        picture (`.svg`) of that `width`.
        """
        forms = {
            ".txt": self.to_text,
            ".csv": self.to_torch_csv,
            ".json": self.to_primus,
            ".svg": lambda: self.to_svg(width),
        }
        _pictures.save(path, forms)

    def _path(self) -> str:
        """The name of a file in memory that stands for this schedule in a question."""
        return f"debubble:/{hash(self) & 0xFFFF_FFFF_FFFF_FFFF:016x}/{self.name}.txt"

    def __iter__(self) -> Iterator[list[Union[Pass, Pair]]]:
        return (self.slots(stage) for stage in range(self.stages))

    def __len__(self) -> int:
        """The number of passes."""
        return len(self._inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        shape = f"p={self.stages}, m={self.microbatches}, v={self.chunks}"
        return f"<debubble.Schedule {self.name!r}: {shape}, {len(self)} passes>"

    def _repr_html_(self) -> str:
        return _pictures.shown(lambda _, width: self.to_svg(width))

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule.from_text, (self.to_text(), self.name)


#: Chunks have numbers of 16 bits.
_MOST_STAGES = 65_535


def _named(name: str) -> str:
    """`name`, if answers can show it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a schedule is text, not a {type(name).__name__}")
    if not name or "/" in name:
        raise InputError(f"{name!r} is not a name of a schedule: it may not be empty, and has no `/`")
    return name


def _text(slot: Slot, stage: int) -> str:
    if isinstance(slot, str):
        if len(slot.split()) != 1:
            raise InputError(f"{slot!r} on stage {stage} is not one slot, such as F0.3 or F0.4&B0.2")
        return slot
    if isinstance(slot, Pair):
        return f"{_text(slot.first, stage)}&{_text(slot.second, stage)}"
    if isinstance(slot, Pass):
        return _text(f"{slot.kind}{stage if slot.chunk is None else slot.chunk}.{slot.microbatch}", stage)
    raise TypeError(f"a slot is a Pass, a Pair or text, not a {type(slot).__name__}")


_PASS = re.compile(r"([A-Z]+)(\d+)\.(\d+)")


def _read(text: str) -> Union[Pass, Pair]:
    passes = [Pass(kind, int(microbatch), int(chunk)) for kind, chunk, microbatch in _PASS.findall(text)]
    return passes[0] if len(passes) == 1 else Pair(passes[0], passes[1])
