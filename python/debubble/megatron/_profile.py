"""`python -m debubble.megatron profile SCRIPT ARGS..`: times the chunks of a script on one device."""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from .. import _pictures, simulate
from .._errors import InputError
from .._one_device import Chunk, Resident, text
from .._orders import chunk_of, passes_of
from .._profile import Profile
from .._schedule import Schedule
from . import _links, _visit
from ._modules import schedules

_ABOUT = """\
Times the passes of every chunk of a Megatron training script on one device, and writes a profile.

The script runs once for each stage, alone, as that rank of the whole job; its collectives move nothing.
Where it asks Megatron-core for a step, F, B, W and whole backwards of its chunks are timed, and their
bytes counted.
"""

_EXAMPLES = """\
examples:
  python -m debubble.megatron profile pretrain_gpt.py --pipeline-model-parallel-size 4 ...
  python -m debubble.megatron profile --world-size 64 --output big.toml pretrain_gpt.py ...
  debubble search profile.toml --memory 70GiB --export best.txt
"""

#: Arguments of Megatron-LM that tell the devices of the smallest job.
_SIZES = ("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size")

#: The last lines of a script that failed.
_LAST = 20


def main(arguments: Sequence[str]) -> None:
    """Makes the profile that the arguments ask for.

    Raises:
        InputError: If the script fails, or never asks for a step.
    """
    asked = _parser().parse_args(arguments)
    if not Path(asked.script).exists():
        raise InputError.with_help(f"there is no script {asked.script}", "name it behind the options")
    links = None if asked.links is None else _links.read(asked.links)
    # Loaded once, before the processes of the visits part.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedules()
    with tempfile.TemporaryDirectory(prefix="debubble-") as folder:
        answers = _visits(asked, Path(folder))
    made, notes = _profile(asked, answers, links)
    made.save(asked.output)
    stages = _stages(made, answers)
    if asked.json is not None:
        chunks = [row for answer in answers for row in answer["chunks"]]
        document = {"stages": stages, "chunks": chunks, "notes": notes}
        _pictures.save(asked.json, {".json": lambda: _pictures.lines(json.dumps(document))})
    lines = [_table(made, stages), *(f"note: {note}" for note in notes), "", f"written: {asked.output}"]
    lines.append(f"next: debubble search {asked.output} --memory 80GiB --export best.txt")
    sys.stdout.write("\n".join([*lines, ""]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m debubble.megatron profile",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", default="profile.toml", metavar="FILE.toml", help="the profile [%(default)s]"
    )
    parser.add_argument("--json", metavar="FILE.json", help="samples, bytes and collectives of every chunk")
    parser.add_argument("--repeats", type=_count, default=15, metavar="N", help="timed rounds [%(default)s]")
    parser.add_argument(
        "--warmup", type=_count, default=2, metavar="N", help="rounds before them [%(default)s]"
    )
    parser.add_argument(
        "--world-size", type=_count, metavar="N", help="devices of the whole job [the fewest that it runs on]"
    )
    parser.add_argument(
        "--links",
        metavar="FILE.csv",
        help="measured collectives (columns collective, ranks, bytes, seconds), to be added to the passes",
    )
    parser.add_argument("script", metavar="SCRIPT", help="the training script")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 1000000")
    return number


def _visits(asked: Any, folder: Path) -> list[dict[str, Any]]:
    """What the visit of each stage has found, in their order."""
    world = asked.world_size or _least(asked.rest)
    script = [asked.script, *asked.rest]

    def visit(rank: int) -> dict[str, Any]:
        return _apart(_visit.Task(rank, world, script, asked.repeats, asked.warmup, folder))

    first = visit(0)
    if "needs" in first:
        if asked.world_size is not None:
            message = f"a job of {world} devices does not divide into groups of {first['needs']}"
            raise InputError.with_help(message, f"--world-size: a multiple of {first['needs']}", "world-size")
        world = int(first["needs"])
        first = visit(0)
    answers = [first]
    for rank in first["pipeline"][1:]:
        sys.stderr.write(f"stage {len(answers)} of {first['stages']} ..\n")
        answers.append(visit(rank))
    return answers


def _least(arguments: Sequence[str]) -> int:
    """The devices of the smallest job with these arguments of Megatron-LM; 1 for other scripts."""
    joined = " ".join(arguments)
    found = 1
    for name in _SIZES:
        given = re.findall(rf"--{name}[ =](\d+)", joined)
        found *= max(int(given[-1]), 1) if given else 1
    return found


def _apart(task: _visit.Task) -> dict[str, Any]:
    """A visit in a process of its own: globals of a training script are set once."""
    log = task.folder / "log"
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _be(task, log)
    _, status = os.waitpid(child, 0)
    if task.answer.exists():
        answer: dict[str, Any] = json.loads(task.answer.read_text())
        return answer
    last = "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-_LAST:])
    code = os.waitstatus_to_exitcode(status)
    message = f"rank {task.rank} of {task.world} did not reach its first step (exit {code}):\n{last}"
    cure = "run the script with torchrun first; --world-size says how many devices its job has"
    raise InputError.with_help(message, cure, "script")


def _be(task: _visit.Task, log: Path) -> None:
    """This process as a visit, whose output goes to `log`."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    # Where a notebook or a test has others in their places.
    sys.stdout = sys.stderr = os.fdopen(out, "w")
    try:
        _visit.run(task)
    except InputError as error:
        sys.stderr.write(f"{error.message}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _profile(
    asked: Any, answers: list[dict[str, Any]], links: Optional[_links.Links]
) -> tuple[Profile, list[str]]:
    """The profile, and what its reader has to know."""
    first = answers[0]
    rows = [(answer, row) for answer in answers for row in answer["chunks"]]
    rows.sort(key=lambda one: one[1]["chunk"])
    notes = _notes(rows, answers, links)
    per_stage = len(rows) // first["stages"]
    content = text(
        [_chunk(row, answer, links) for answer, row in rows],
        program=" ".join([first["program"] + ":", asked.script, *asked.rest]),
        stages=first["stages"],
        placement="looped",
        microbatches=first["microbatches"],
        message=first["message"],
        device=first["device"],
        schedule="1f1b" if per_stage == 1 else "1f1b-i",
        remark="; ".join(notes),
    )
    return Profile.from_file(content.encode()), notes


def _chunk(row: Mapping[str, Any], answer: Mapping[str, Any], links: Optional[_links.Links]) -> Chunk:
    added = {name: 0 if links is None else links.time(of) for name, of in row["collectives"].items()}
    samples = {name: row[name] for name in ("forward", "whole", "input", "weight")}
    longer = {name: [one + added.get(name, 0) for one in of] for name, of in samples.items()}
    resident = None
    if answer["optimizer"] is not None:
        # The optimizer of a rank has one state for all of its chunks: dealt by their parameters.
        every = max(sum(one["parameters"] for one in answer["chunks"]), 1)
        state = answer["optimizer"] * row["parameters"] // every
        resident = Resident(row["weights"], row["gradients"], state, max(row["transient"].values()))
    return Chunk(
        **longer,
        until_backward=row["until_backward"],
        until_weight=row["until_weight"],
        resident=resident,
    )


def _notes(
    rows: list[tuple[dict[str, Any], dict[str, Any]]],
    answers: list[dict[str, Any]],
    links: Optional[_links.Links],
) -> list[str]:
    """What the times do not hold, and what could not be measured."""
    notes = []
    reasons: dict[str, list[int]] = collections.defaultdict(list)
    for _, row in rows:
        if row["unsplit"]:
            reasons[row["unsplit"]].append(row["chunk"])
    for reason, chunks in reasons.items():
        of = ", ".join(map(str, chunks))
        notes.append(f"whole backwards alone on chunk {of}: {reason}")
    failures = {answer["optimizer_failure"] for answer in answers if answer["optimizer_failure"]}
    for failure in failures:
        notes.append(f"the state of the optimizer is unknown, and with it what --memory leaves: {failure}")
    if not failures and not any(answer["optimizer"] for answer in answers):
        notes.append("the script has made no optimizer by its first step: its state is counted as nothing")
    notes += _links.notes([row for _, row in rows], links)
    return notes


def _stages(profile: Profile, answers: list[dict[str, Any]]) -> list[dict[str, Optional[int]]]:
    """The memory of each stage in the order that the trainer runs, in bytes."""
    with warnings.catch_warnings():
        # The search says them where they matter.
        warnings.simplefilter("ignore")
        order = simulate(profile, profile.schedule, chunks=len(profile.chunks) // profile.stages)[0].order
    found: list[dict[str, Optional[int]]] = []
    for answer, peak in zip(answers, peaks(order, answers)):
        held = {name: sum(row[name] for row in answer["chunks"]) for name in ("weights", "gradients")}
        found.append({**held, "optimizer": answer["optimizer"], "peak": peak})
    return found


def _table(profile: Profile, stages: list[dict[str, Optional[int]]]) -> str:
    """The profile, and the memory of each stage."""
    lines = [repr(profile), "", "stage" + "".join(f"{name:>11}" for name in stages[0])]
    for stage, sizes in enumerate(stages):
        lines.append(f"{stage:<5}" + "".join(f"{_size(one):>11}" for one in sizes.values()))
    lines.append(f"peak: the most that a stage holds in {profile.schedule}, activations and all of these.")
    return "\n".join(lines)


#: Passes by their names in an answer.
_PASSES = {"F": "forward", "B": "input", "W": "weight", "BW": "whole"}


def peaks(order: Schedule, answers: list[dict[str, Any]]) -> list[Optional[int]]:
    """The most bytes that each stage holds in `order`; unknown where the state of its optimizer is."""
    found: list[Optional[int]] = []
    for stage, answer in enumerate(answers):
        rows = {row["chunk"]: row for row in answer["chunks"]}
        held: dict[tuple[int, int], int] = {}
        most = 0
        for one in passes_of(order, stage):
            row, key = rows[chunk_of(one)], (chunk_of(one), one.microbatch)
            if one.kind == "F":
                held[key] = row["until_backward"]
            most = max(most, sum(held.values()) + row["transient"].get(_PASSES[one.kind], 0))
            if one.kind == "B":
                held[key] = row["until_weight"]
            elif one.kind in ("W", "BW"):
                del held[key]
        fixed = sum(row["weights"] + row["gradients"] for row in rows.values())
        state = answer["optimizer"]
        found.append(None if state is None else most + fixed + state)
    return found


def _size(size: Optional[int]) -> str:
    if size is None:
        return "unknown"
    for unit, of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= of:
            return f"{size / of:.2f}{unit}"
    return f"{size}B"
