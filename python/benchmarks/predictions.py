"""How well steps of PyTorch are foretold: record, predict, run, compare.

Runs stages that sleep and a small GPT in named orders and a searched one, writes a table and pictures, and
says which bars hold. Exits 1 if one does not.

    python predictions.py --results results
    python predictions.py --short
    python predictions.py --device cpu
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import training
from device import choose
from ranks import ranks
from training import Case, Row, quiet

import debubble as db

#: How far a prediction of stages that sleep may be off, and how far two steps must be apart for their order
#: to be foretold.
BAR = 0.03

#: How far a prediction of torch's DualPipeV from its own recording may be off.
OWN_BAR = 0.05


class Line(NamedTuple):
    """The rounds of one schedule: medians."""

    case: str
    schedule: str
    predicted: float
    measured: float
    errors: list[float]
    hop: float
    overhead: float

    @property
    def error(self) -> float:
        return statistics.median(self.errors)


def main() -> None:
    asked = arguments()
    print(f"{asked.device}: {asked.reason}", flush=True)
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}", flush=True)
    bars = list(bits(asked.device))
    cases = list(cases_of(asked))
    rows: list[Row] = []
    pictures: dict[tuple[str, str], str] = {}
    for number in range(asked.rounds):
        for case in cases:
            found, drawn = run(case)
            rows += found
            pictures.update({(case.name, name): svg for name, svg in drawn.items()})
            for row in found:
                error = row.predicted / row.measured - 1
                print(f"round {number}  {row.case:22}  {row.schedule:10}  {error:+.2%}", flush=True)
    lines = list(medians(rows))
    print(table(lines))
    timed = list(held(lines))
    for text, holds in bars + timed:
        print(f"{'holds' if holds else 'FAILS'}: {text}")
    if asked.results:
        file = Path(asked.results) / f"torch-{asked.device}"
        file.with_suffix(".csv").write_text(comma_separated(lines, asked.rounds), encoding="utf-8")
        file.with_suffix(".svg").write_text(pictures[cases[0].name, "searched"], encoding="utf-8")
    # What a busy machine takes longer for says nothing of the code.
    sys.exit(not all(holds for _, holds in (bars if asked.short else bars + timed)))


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one small case, whose times are shown only")
    parser.add_argument("--rounds", type=int, help="how often all is repeated [default: 5, or 1 if short]")
    parser.add_argument("--results", help="the folder for the table and a picture")
    default = "cuda where torch sees two GPUs or more, else cpu"
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help=f"where the model is trained [default: {default}]"
    )
    asked = parser.parse_args()
    asked.rounds = asked.rounds or (1 if asked.short else 5)
    try:
        asked.device, asked.reason = choose(asked.device, torch.cuda.device_count())
    except ValueError as error:
        sys.exit(str(error))
    return asked


def cases_of(asked: Any) -> Iterable[Case]:
    if asked.short:
        yield training.sleepers(4, 8, 3, (4.0, 4.0, 3.0))
        return
    yield training.sleepers(4, 12, 4, (8.0, 8.0, 6.0))
    yield training.sleepers(8, 16, 4, (8.0, 8.0, 6.0))
    stages = 2 if asked.device == "cpu" else min(torch.cuda.device_count() // 2 * 2, 8)
    sizes = {} if asked.device == "cpu" else {"hidden": 2048, "heads": 16, "length": 1024}
    # Few microbatches: then schedules differ by more than a busy core does.
    yield training.gpt(stages, 2 * stages, 9, asked.device, batch=4, **sizes)
    yield training.gpt(stages, 2 * stages, 9, asked.device, batch=4, checkpointed=True, **sizes)


def told(found: list[Any]) -> list[Any]:
    """What the ranks told, if none of them failed."""
    failed = [one for one in found if one is None or isinstance(one, str)]
    if failed:
        sys.exit(failed[0] or "a rank has ended without a word")
    return found


def run(case: Case) -> tuple[list[Row], dict[str, str]]:
    """All schedules of a case, once."""
    backend = "cpu:gloo,cuda:nccl" if case.device == "cuda" else "gloo"
    return told(ranks(case.stages, training.worked, case, limit=600, backend=backend))[0]


def bits(device: str) -> Iterable[tuple[str, bool]]:
    """Whether losses and gradients are those of one process, to the bit in doubles."""
    case = training.gpt(2, 8, 1, "cpu", hidden=32, length=16, vocabulary=64, dtype=torch.float64)
    uneven = {1: (30, 20, 25), 2: (17, 12, 13)}
    orders = []
    for name, chunks in training.NAMED:
        question = db.Question(stages=2, microbatches=8, chunks=chunks, **times(uneven[chunks]))
        orders.append(quiet(db.simulate, question, name)[0].order)
    question = db.Question(stages=2, microbatches=8, chunks=2, **times(uneven[2]))
    found = quiet(db.search, question, placement="v").schedule
    orders.append(db.Schedule.from_text(found.to_text(), "searched"))
    by_rank = told(ranks(2, training.trained, case, orders))
    for at, order in enumerate(orders):
        losses, gradients = training.alone(case, order)
        ours = {name: one for rank in by_rank for name, one in rank[at][1].items()}
        last = next(rank[at][0] for rank in by_rank if rank[at][0])
        same = ours.keys() == gradients.keys() and len(last) == len(losses)
        same = same and all(torch.equal(ours[name], one) for name, one in gradients.items())
        same = same and all(map(torch.equal, last, losses))
        yield f"losses and gradients of {order.name} equal those of one process to the bit", same


def times(milliseconds: tuple[int, int, int]) -> dict[str, str]:
    keys = ("forward", "backward_input", "backward_weight")
    return {key: f"{one}ms" for key, one in zip(keys, milliseconds)}


def medians(rows: list[Row]) -> Iterable[Line]:
    names = dict.fromkeys((row.case, row.schedule) for row in rows)
    for case, schedule in names:
        of = [row for row in rows if (row.case, row.schedule) == (case, schedule)]
        yield Line(
            case,
            schedule,
            statistics.median(row.predicted for row in of) / 1e6,
            statistics.median(row.measured for row in of) / 1e6,
            [row.predicted / row.measured - 1 for row in of],
            statistics.median(row.hop for row in of) * 1e6,
            statistics.median(row.overhead for row in of) * 1e6,
        )


def held(lines: list[Line]) -> Iterable[tuple[str, bool]]:
    """The bars on times."""
    sleepy = [line for line in lines if line.case.startswith("sleepy")]
    worst = max(sleepy, key=lambda line: abs(line.error))
    text = f"stages that sleep are foretold within {BAR:.0%}: {worst.schedule} of {worst.case} is worst"
    yield f"{text}, {worst.error:+.2%}", abs(worst.error) <= BAR
    for line in lines:
        if line.schedule == "dualpipe-v":
            text = f"{line.case}: DualPipeV is foretold from its own recording within {OWN_BAR:.0%}"
            yield f"{text}: {line.error:+.2%}", abs(line.error) <= OWN_BAR
    for case in dict.fromkeys(line.case for line in lines):
        of = [line for line in lines if line.case == case]
        yield ranking(case, of)
        best = next(line for line in of if line.schedule == "searched")
        others = [line for line in of if line is not best and best.predicted < line.predicted]
        slower = [line.schedule for line in others if line.measured <= best.measured]
        text = f"{case}: the searched order is faster than all {len(others)} that are foretold to be slower"
        yield text + (f", but for {', '.join(slower)}" if slower else ""), not slower


def ranking(case: str, lines: list[Line]) -> tuple[str, bool]:
    pairs = [two for two in itertools.combinations(lines, 2) if apart(*two) > BAR]
    wrong = [
        f"{one.schedule} and {other.schedule}"
        for one, other in pairs
        if (one.measured < other.measured) != (one.predicted < other.predicted)
    ]
    text = f"{case}: {len(pairs)} pairs more than {BAR:.0%} apart are ranked as foretold"
    return text + (f", but for {', '.join(wrong)}" if wrong else ""), not wrong


def apart(one: Line, other: Line) -> float:
    return abs(one.measured / other.measured - 1)


def table(lines: list[Line]) -> str:
    names = f"{'model':22}  {'schedule':10}  {'predicted':>10}  {'measured':>10}"
    head = f"{names}  {'error':>7}  {'hop':>8}  overhead"
    rows = [
        f"{line.case:22}  {line.schedule:10}  {line.predicted:7.1f} ms  {line.measured:7.1f} ms  "
        f"{line.error:+7.2%}  {line.hop:5.0f} us  {line.overhead:5.0f} us"
        for line in lines
    ]
    return "\n".join([head, *rows])


def comma_separated(lines: list[Line], rounds: int) -> str:
    head = (
        "model,schedule,rounds,step_ms_predicted,step_ms_measured,error_percent,smallest_error,largest_error,"
        "hop_us,overhead_us"
    )
    rows = [
        f'"{line.case}",{line.schedule},{rounds},{line.predicted:.3f},{line.measured:.3f},'
        f"{100 * line.error:+.2f},{100 * min(line.errors):+.2f},{100 * max(line.errors):+.2f},"
        f"{line.hop:.0f},{line.overhead:.0f}"
        for line in lines
    ]
    return "\n".join([head, *rows]) + "\n"


if __name__ == "__main__":
    main()
