"""What all ranks have recorded, as one timeline."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._errors import InputError
from .._schedule import Schedule
from ._runtime import Step


class Pass(NamedTuple):
    """A pass that ran: when its rank began to wait for what it receives and when that wait was over, if it
    waited for anything, and when it ran; in nanoseconds.
    """

    step: Step
    asked: Optional[int]
    received: Optional[int]
    start: int
    end: int


class Ran(NamedTuple):
    """A step of one rank: its passes in their order, its end, and the sum of its losses, if it has them."""

    passes: list[Pass]
    end: int
    loss: Optional[float]


class Part(NamedTuple):
    """What one rank has recorded."""

    microbatches: int
    chunks: list[int]
    pairs: list[tuple[Step, Step]]
    steps: list[Ran]
    memory: list[dict[str, int]]
    wholes: dict[int, list[int]]
    message: int
    about: dict[str, Any]


class Offset(NamedTuple):
    """How far the clock of a rank was ahead of that of rank 0 before and after the recording."""

    before: int
    after: int


class Recorded(NamedTuple):
    """A recording: the order, the timeline as `debubble.compare` reads it, and what else was measured."""

    schedule: Schedule
    document: dict[str, Any]
    about: dict[str, Any]


#: Passes of one step by rank.
_Step = list[list[Pass]]


def put_together(name: str, parts: Sequence[Part], clocks: Sequence[Offset]) -> Recorded:
    """The recording of all ranks, whose clocks were apart as `clocks` says.

    Raises:
        InputError: If ranks recorded different steps, or the passes are not an order that debubble knows.
    """
    _agree(parts)
    steps = [_aligned(step, clocks) for step in zip(*(part.steps for part in parts))]
    slots = [list(_slots(part.steps[0].passes, part.pairs, rank)) for rank, part in enumerate(parts)]
    lines = [" ".join("&".join(map(_text, slot)) for slot in row) for row in slots]
    try:
        schedule = Schedule.from_text("\n".join(lines), name)
    except InputError as error:
        message = f"the passes that were recorded are not an order that debubble knows: {error.message}"
        raise InputError(message, message=message) from error
    homes = {chunk: rank for rank, part in enumerate(parts) for chunk in part.chunks}
    hops = _Hops(homes, [[ran.passes for ran in step] for step in steps])
    origin = min(_begins(step) for step in steps)
    document = {
        "version": 1,
        "source": "measured",
        "device": parts[0].about["device"],
        "schedule": {"name": name, "order": lines},
        "steps": [_step(step, slots, hops, origin) for step in steps],
    }
    return Recorded(schedule, document, _about(parts))


def _agree(parts: Sequence[Part]) -> None:
    """Refuses what ranks did not run alike."""
    counts = [len(part.steps) for part in parts]
    if len(set(counts)) > 1:
        other = next(rank for rank, count in enumerate(counts) if count != counts[0])
        raise InputError(f"rank 0 ran {counts[0]} steps, and rank {other} ran {counts[other]}")
    if counts[0] == 0:
        raise InputError("no training step ran in the `with` block of the recording")
    for rank, part in enumerate(parts):
        first = [one.step for one in part.steps[0].passes]
        for number, ran in enumerate(part.steps):
            if [one.step for one in ran.passes] != first:
                raise InputError(
                    f"rank {rank} ran other passes, or another order, in step {number} than in step 0"
                )


def _aligned(step: Sequence[Ran], clocks: Sequence[Offset]) -> list[Ran]:
    """The step with all times on the clock of rank 0. How far clocks are apart changes evenly in between,
    which is too little to tell within a recording: the middle counts.
    """

    def moved(ran: Ran, clock: Offset) -> Ran:
        ahead = (clock.before + clock.after) // 2
        passes = [
            one._replace(
                asked=None if one.asked is None else one.asked - ahead,
                received=None if one.received is None else one.received - ahead,
                start=one.start - ahead,
                end=one.end - ahead,
            )
            for one in ran.passes
        ]
        return ran._replace(passes=passes, end=ran.end - ahead)

    return [moved(ran, clock) for ran, clock in zip(step, clocks)]


def _slots(passes: Sequence[Pass], pairs: Iterable[tuple[Step, Step]], rank: int) -> Iterator[list[Step]]:
    """The passes of a rank as slots: those that run together as one."""
    left = iter(pairs)
    pair = next(left, None)
    steps = iter([one.step for one in passes])
    for step in steps:
        if pair is not None and step == pair[0]:
            if next(steps, None) != pair[1]:
                raise InputError(f"rank {rank} did not run {_text(pair[1])} together with {_text(pair[0])}")
            yield list(pair)
            pair = next(left, None)
        else:
            yield [step]


def _text(step: Step) -> str:
    return f"{step.kind}{step.chunk}.{step.microbatch}"


class _Value(NamedTuple):
    """What a pass makes for another chunk."""

    kind: str
    chunk: int
    microbatch: int


def _made_by(step: Step) -> Optional[_Value]:
    if step.kind == "W":
        return None
    return _Value("output" if step.kind == "F" else "gradient", step.chunk, step.microbatch)


def _needed_by(step: Step) -> Optional[_Value]:
    """What a pass needs of another chunk, whether there is one or not."""
    if step.kind == "W":
        return None
    if step.kind == "F":
        return _Value("output", step.chunk - 1, step.microbatch)
    return _Value("gradient", step.chunk + 1, step.microbatch)


class _Hops:
    """How long values are on their way from rank to rank.

    A wait that began before its value was made was over when the value came: only those measure the way.
    Of a value that was made before it was asked for, nobody knows when it came: it is taken to have needed
    as long as the median of its edge, of all edges where that has none, and no longer than until the wait
    was over.
    """

    def __init__(self, homes: Mapping[int, int], steps: Iterable[_Step]) -> None:
        self._homes = homes
        samples: dict[tuple[int, int], list[int]] = {}
        for ranks in steps:
            made = self.made(ranks)
            for rank, passes in enumerate(ranks):
                for one in passes:
                    value = self.received(one.step, rank)
                    if value is None or one.asked is None or one.received is None or value not in made:
                        continue
                    if made[value] > one.asked:
                        edge = (homes[value.chunk], rank)
                        samples.setdefault(edge, []).append(max(one.received - made[value], 0))
        self._median = {edge: int(statistics.median_low(of)) for edge, of in samples.items()}
        every = list(itertools.chain.from_iterable(samples.values()))
        self._all = int(statistics.median_low(every)) if every else 0

    @staticmethod
    def made(ranks: _Step) -> dict[_Value, int]:
        """When each value of a step was made."""
        found = ((_made_by(one.step), one.end) for passes in ranks for one in passes)
        return {value: end for value, end in found if value is not None}

    def received(self, step: Step, rank: int) -> Optional[_Value]:
        """What a pass of `rank` receives from another rank."""
        value = _needed_by(step)
        return value if value is not None and self._homes.get(value.chunk, rank) != rank else None

    def arrival(self, one: Pass, rank: int, made: Mapping[_Value, int]) -> Optional[tuple[_Value, int]]:
        """What a pass of `rank` received, and when it came."""
        value = self.received(one.step, rank)
        if value is None or value not in made:
            return None
        over = one.start if one.received is None else one.received
        if one.asked is not None and made[value] > one.asked:
            return value, over
        way = self._median.get((self._homes[value.chunk], rank), self._all)
        return value, min(over, made[value] + way)


def _begins(step: Sequence[Ran]) -> int:
    """When the first pass of a step began."""
    return min(ran.passes[0].start for ran in step if ran.passes)


def _step(
    step: Sequence[Ran], slots: Sequence[Sequence[list[Step]]], hops: _Hops, origin: int
) -> dict[str, Any]:
    begin = _begins(step)
    made = hops.made([ran.passes for ran in step])
    found: dict[str, Any] = {"began_ns": begin - origin, "stages": []}
    losses = [ran.loss for ran in step if ran.loss is not None]
    # JSON has no word for what is not a number.
    if losses and abs(losses[0]) < float("inf"):
        found["loss"] = losses[0]
    for rank, ran in enumerate(step):
        passes = iter(ran.passes)
        rows = []
        for slot in slots[rank]:
            together = list(itertools.islice(passes, len(slot)))
            arrivals = [hops.arrival(one, rank, made) for one in together]
            row: dict[str, Any] = {
                "slot": "&".join(map(_text, slot)),
                "start_ns": together[0].start - begin,
                "end_ns": together[-1].end - begin,
            }
            last = max((one for one in arrivals if one is not None), key=lambda one: one[1], default=None)
            if last is not None:
                value, at = last
                row["arrived"] = {
                    "value": value.kind,
                    "chunk": value.chunk,
                    "microbatch": value.microbatch,
                    "at_ns": max(at - begin, 0),
                }
            rows.append(row)
        found["stages"].append({"end_ns": max(ran.end, ran.passes[-1].end) - begin, "slots": rows})
    return found


def _about(parts: Sequence[Part]) -> dict[str, Any]:
    """What was measured besides times, and where."""
    about = {key: value for key, value in parts[0].about.items() if key != "device"}
    message = max(part.message for part in parts)
    if message:
        about["message_bytes"] = message
    rows = {row["chunk"]: row for part in parts for row in part.memory}
    if rows.keys() == {chunk for part in parts for chunk in part.chunks}:
        about["memory"] = [_footprint(row) for _, row in sorted(rows.items())]
    wholes = {chunk: times for part in parts for chunk, times in part.wholes.items()}
    if wholes:
        chunks = sorted(chunk for part in parts for chunk in part.chunks)
        about["whole_backward_ns"] = [wholes.get(chunk, []) for chunk in chunks]
    return about


def _footprint(row: Mapping[str, int]) -> dict[str, int]:
    """What a microbatch holds in a chunk. Where no backward is split, nothing is held from B to W: what
    would be is no more than until then.
    """
    until_backward = row["until_backward"]
    until_weight = row.get("until_weight", until_backward)
    return {"until_backward_bytes": until_backward, "until_weight_bytes": until_weight}


def text(document: Mapping[str, Any]) -> str:
    """A document as JSON on one line."""
    return json.dumps(document, separators=(",", ":"))
