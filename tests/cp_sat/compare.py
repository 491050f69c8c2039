"""Orders and bounds of CP-SAT beside those of `debubble search`, in the same processor time.

python tests/cp_sat/compare.py DEBUBBLE OUT.csv [--seconds S] [--longer S] [--better FOLDER] [--proved]
    [NAME..]

The names are those of records. Each pipeline is searched by both, with two threads and for the same
processor time. Where the order of the record is not proved optimal, CP-SAT then starts once more from that
order. With --longer, pipelines of up to 8 stages whose order neither proves optimal are searched again for
that time. Every order of CP-SAT is checked by `debubble verify`. What is better than the record goes into
the folder of --better, as certificates for `debubble records --add`. Fails if an order or a bound of one
contradicts the other, and with --proved if one of them leaves open whether its order is optimal.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from model import TICK, WORKERS, Program
from pipeline import Pipeline, certificate, cost, read

RECORDS = Path("results/records")
# Of each kind of pipeline with one chunk per stage, on 4, 8 and 16 stages.
NAMES = [
    *("equal-p4-m8-0.5p", "1.5b-p4-m12-0.75p", "ends-p4-m12-0.75p", "mixed-p4-m8-0.5p"),
    *("equal-p8-m16-0.5p", "equal-p8-m24-0.5p", "1.5b-p8-m16-0.75p", "6.2b-p8-m24-0.5p", "6.2b-p8-m24-0.75p"),
    *("ends-p8-m24-0.75p", "mixed-p8-m16-0.5p", "mixed-p8-m16-1p"),
    *("hop5-p8-m24-0.5p", "hop20-p8-m24-0.5p", "hop20-p8-m24-1p", "zb5-1.5b-p8-m24-1p", "zb5-1.5b-p8-m24-2p"),
    *("equal-p16-m32-0.5p", "6.2b-p16-m32-0.75p", "ends-p16-m32-0.75p", "mixed-p16-m48-0.5p"),
    *("hop5-p16-m32-0.5p", "hop20-p16-m32-0.5p", "zb-6.2b-p16-m48-0.75p"),
]
COLUMNS = [
    *("instance", "start", "budget, s", "debubble, ns", "bound, ns", "taken, s"),
    *("CP-SAT, ns", "CP-SAT bound, ns", "CP-SAT taken, s", "record, ns", "record bound, ns"),
    *("better order", "higher bound"),
]
# The start of CP-SAT.
FROM_NOTHING, FROM_RECORD = "none", "record"
# Pipelines of more stages are not searched for longer.
LONGER_STAGES = 8
# A backstop for machines that are busy, as a multiple of the processor time.
PATIENCE = 20


@dataclass(frozen=True)
class Answer:
    """Cost of an order, if there is one, and a bound, in nanoseconds, and the processor time of both."""

    cost: int | None
    bound: int
    seconds: float


def processor_time(process: int) -> float:
    """The processor time of another process so far, in seconds, where Linux tells it."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_children() -> float:
    """The processor time of all processes that have been started and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interrupted_after(seconds: float, command: list[str], said: Path) -> None:
    """Runs `command`, which prints to `said`, and interrupts it after so many seconds of processor time."""
    with said.open("wb") as out:
        threads = {**os.environ, "RAYON_NUM_THREADS": str(WORKERS)}
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=threads)
        interrupted = False
        while running.poll() is None:
            time.sleep(TICK)
            if processor_time(running.pid) >= seconds and not interrupted:
                running.send_signal(signal.SIGINT)
                interrupted = True
    if running.returncode not in (0, 130):
        raise SystemExit(f"{' '.join(command)}: exit code {running.returncode}")


def searched(program: str, pipeline: Pipeline, seconds: float, better: Path | None) -> Answer:
    """The result of `debubble search` when it is interrupted after so many seconds of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        question = Path(folder) / "question.toml"
        named = [program, "records", "--scenario", pipeline.name]
        asked = subprocess.run(named, capture_output=True, check=True)
        question.write_bytes(asked.stdout)
        limit = f"{seconds * PATIENCE:.0f}s"
        command = [program, "search", str(question), "--json", "--time-limit", limit]
        said = Path(folder) / "answer.json"
        before = of_children()
        interrupted_after(seconds, command, said)
        spent = of_children() - before
        answer: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))["results"][0]
        found = Answer(answer["cost_ns"], answer["bound_ns"], spent)
        if better is not None and (answer["cost_ns"] < pipeline.cost or found.bound > pipeline.bound):
            # To write a proof down takes time of its own, so that is done in a search once more.
            better.mkdir(parents=True, exist_ok=True)
            proof = better / f"{pipeline.name}.debubble.toml"
            interrupted_after(seconds, [*command, "--certificate", str(proof)], said)
        return found


def solved(program: str, pipeline: Pipeline, seconds: float, hinted: bool, better: Path | None) -> Answer:
    """The results of CP-SAT, each order checked by `debubble verify`."""
    constraints = Program(pipeline)
    if hinted:
        constraints.hint(pipeline.order)
    found = constraints.solve(seconds)
    if found.order is None:
        return Answer(None, found.bound, found.seconds)
    own = cost(pipeline, found.order)
    text = certificate(pipeline, found.order)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.toml"
        file.write_text(text, encoding="utf-8")
        subprocess.run([program, "verify", str(file)], stdout=subprocess.DEVNULL, check=True)
    if better is not None and own < pipeline.cost:
        better.mkdir(parents=True, exist_ok=True)
        (better / f"{pipeline.name}.cp-sat.toml").write_text(text, encoding="utf-8")
    return Answer(own, found.bound, found.seconds)


def winner(ours: int | None, theirs: int | None, less_is_better: bool) -> str:
    """Whose number is better; none of ours or theirs is worse than any."""
    if ours == theirs:
        return "same"
    if ours is None or theirs is None:
        return "CP-SAT" if ours is None else "debubble"
    return "debubble" if (ours < theirs) == less_is_better else "CP-SAT"


def contradictions(pipeline: Pipeline, ours: Answer, theirs: Answer) -> list[str]:
    """Orders that cost less than a bound of anybody."""
    costs = {"debubble": ours.cost, "CP-SAT": theirs.cost, "the record": pipeline.cost}
    bounds = {"debubble": ours.bound, "CP-SAT": theirs.bound, "the record": pipeline.bound}
    return [
        f"{pipeline.name}: the order of {by} costs {own}, less than {bound}, the bound of {of}"
        for by, own in costs.items()
        for of, bound in bounds.items()
        if own is not None and own < bound
    ]


def row(pipeline: Pipeline, start: str, seconds: float, ours: Answer, theirs: Answer) -> list[object]:
    return [
        *(pipeline.name, start, f"{seconds:g}", ours.cost, ours.bound, f"{ours.seconds:.1f}"),
        *(theirs.cost or "", theirs.bound, f"{theirs.seconds:.1f}", pipeline.cost, pipeline.bound),
        winner(ours.cost, theirs.cost, True),
        winner(ours.bound, theirs.bound, False),
    ]


class Study:
    """The table as it grows, and what is wrong."""

    def __init__(self, program: str, file: TextIO, better: Path | None, proved: bool) -> None:
        self.program, self.better, self.proved = program, better, proved
        self.file = file
        self.table = csv.writer(file, lineterminator="\n")
        self.table.writerow(COLUMNS)
        self.wrong: list[str] = []

    def compare(self, pipeline: Pipeline, seconds: float, start: str) -> bool:
        """Writes a row; whether somebody proves an order optimal."""
        hinted = start == FROM_RECORD
        known = Answer(pipeline.cost, pipeline.bound, 0.0)
        ours = known if hinted else searched(self.program, pipeline, seconds, self.better)
        theirs = solved(self.program, pipeline, seconds, hinted, self.better)
        cells = row(pipeline, start, seconds, ours, theirs)
        self.table.writerow(cells)
        self.file.flush()
        print(*cells, flush=True)
        self.wrong.extend(contradictions(pipeline, ours, theirs))
        proofs = [one.cost == one.bound for one in (ours, theirs)]
        if self.proved and not all(proofs):
            self.wrong.append(f"{pipeline.name}: one of both leaves open whether its order is optimal")
        return any(proofs)


def main() -> None:
    """Compares each pipeline, and writes the table."""
    asked = argparse.ArgumentParser(description="CP-SAT beside debubble search")
    asked.add_argument("program")
    asked.add_argument("out", type=Path)
    asked.add_argument("names", nargs="*", default=NAMES)
    asked.add_argument("--seconds", type=float, default=20.0)
    asked.add_argument("--longer", type=float)
    asked.add_argument("--better", type=Path)
    asked.add_argument("--proved", action="store_true")
    given = asked.parse_intermixed_args()
    pipelines = [read(RECORDS / f"{name}.toml") for name in given.names]
    with given.out.open("w", encoding="utf-8", newline="") as file:
        study = Study(given.program, file, given.better, given.proved)
        unproved = [one for one in pipelines if not study.compare(one, given.seconds, FROM_NOTHING)]
        for one in pipelines:
            if one.cost != one.bound:
                study.compare(one, given.seconds, FROM_RECORD)
        for one in unproved:
            if given.longer is not None and one.stages <= LONGER_STAGES:
                study.compare(one, given.longer, FROM_NOTHING)
    if study.wrong:
        sys.exit("\n".join(study.wrong))


if __name__ == "__main__":
    main()
