"""A pipeline of records with one chunk per stage: its certificate as read, and what an order costs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A pass of a stage: F, B or W, and its microbatch.
Pass = tuple[str, int]
# The passes of each stage.
Order = list[list[Pass]]

KINDS = "FBW"
PASS = re.compile(r"([FBW])(\d+)\.(\d+)")


@dataclass(frozen=True)
class Pipeline:
    """Times in nanoseconds and sizes in bytes, by stage."""

    name: str
    text: str
    microbatches: int
    times: dict[str, list[int]]
    hop: int
    until_backward: list[int]
    until_weight: list[int]
    limits: list[int] | None
    makespan: bool
    cost: int
    bound: int
    order: Order

    @property
    def stages(self) -> int:
        return len(self.limits or self.until_backward)

    def first_start(self, stage: int) -> int:
        """When the first F arrives, which is the first pass of the stage and starts then."""
        return sum(self.times["F"][:stage]) + stage * self.hop

    def begins(self, stage: int) -> int:
        """From when on the time of the stage counts: its first pass, or the start of the step."""
        return 0 if self.makespan else self.first_start(stage)


def read(file: Path) -> Pipeline:
    """The pipeline and the order of the record in `file`."""
    text = file.read_text(encoding="utf-8")
    form: dict[str, Any] = tomllib.loads(text)
    lines = form["schedule"].split("\n")[:-1]
    order = [[passed(word, stage, file) for word in line.split()] for stage, line in enumerate(lines)]
    if len(form["forward-ns"]) != len(order) or not isinstance(form["hop-ns"], int):
        raise SystemExit(f"{file}: the model has one chunk per stage and one time of a hop")
    whole = [b + w for b, w in zip(form["backward-input-ns"], form["backward-weight-ns"], strict=True)]
    if form.get("backward-ns", whole) != whole or "recompute-ns" in form:
        raise SystemExit(f"{file}: the model has split backwards and no recomputation")
    return Pipeline(
        name=file.stem,
        text=text,
        microbatches=len(order[0]) // len(KINDS),
        times={"F": form["forward-ns"], "B": form["backward-input-ns"], "W": form["backward-weight-ns"]},
        hop=form["hop-ns"],
        until_backward=form["until-backward-bytes"],
        until_weight=form["until-weight-bytes"],
        limits=form.get("memory-limit-bytes"),
        makespan=form["objective"] == "makespan",
        cost=form["cost-ns"],
        bound=form["bound-ns"],
        order=order,
    )


def passed(word: str, stage: int, file: Path) -> Pass:
    found = PASS.fullmatch(word)
    if found is None or int(found[2]) != stage:
        raise SystemExit(f"{file}: {word} on stage {stage}: the model has F, B and W, one chunk per stage")
    return found[1], int(found[3])


def starts(pipeline: Pipeline, order: Order) -> dict[tuple[int, Pass], int]:
    """When each pass of `order` starts: as soon as its stage is free and what it needs has arrived."""
    begun: dict[tuple[int, Pass], int] = {}
    free, at = [0] * pipeline.stages, [0] * pipeline.stages
    moved = True
    while moved:
        moved = False
        for stage, passes in enumerate(order):
            while at[stage] < len(passes):
                one = passes[at[stage]]
                ready = arrival(pipeline, begun, stage, one)
                if ready is None:
                    break
                begun[stage, one] = max(ready, free[stage])
                free[stage] = begun[stage, one] + pipeline.times[one[0]][stage]
                at[stage] += 1
                moved = True
    if len(begun) != sum(map(len, order)):
        raise SystemExit(f"{pipeline.name}: the order waits for ever")
    return begun


def needs(pipeline: Pipeline, stage: int, one: Pass) -> list[tuple[int, Pass, int]]:
    """The passes that `one` of `stage` needs, with their stages and the time from there."""
    kind, microbatch = one
    if kind == "W":
        return [(stage, ("B", microbatch), 0)]
    if kind == "F":
        return [(stage - 1, one, pipeline.hop)] if stage > 0 else []
    own = (stage, ("F", microbatch), 0)
    return [own, (stage + 1, one, pipeline.hop)] if stage + 1 < pipeline.stages else [own]


def arrival(pipeline: Pipeline, begun: dict[tuple[int, Pass], int], stage: int, one: Pass) -> int | None:
    """When all that `one` needs is there; none where it is not known yet."""
    when = 0
    for other, needed, hop in needs(pipeline, stage, one):
        if (other, needed) not in begun:
            return None
        when = max(when, begun[other, needed] + pipeline.times[needed[0]][other] + hop)
    return when


def cost(pipeline: Pipeline, order: Order) -> int:
    """The cost of `order` by the objective of the record."""
    begun = starts(pipeline, order)
    last = [
        begun[stage, passes[-1]] + pipeline.times[passes[-1][0]][stage] - pipeline.begins(stage)
        for stage, passes in enumerate(order)
    ]
    return max(last)


def certificate(pipeline: Pipeline, order: Order) -> str:
    """`order` as a certificate of the same pipeline, which claims its cost and no bound."""
    own = cost(pipeline, order)
    lines = [" ".join(f"{kind}{stage}.{mb}" for kind, mb in passes) for stage, passes in enumerate(order)]
    claims = {"cost-ns": own, "bound-ns": 0, "gap-ns": own, "argument": '"work"', "stages": "[0]"}
    text = pipeline.text.split('\nproof = """', 1)[0]
    text = re.sub(r'schedule = """\n.*?"""', "", text, flags=re.DOTALL)
    for key, value in claims.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    schedule = "\n".join(lines)
    return f'{text.rstrip()}\nschedule = """\n{schedule}\n"""\n'
