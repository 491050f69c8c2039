"""What an order that is searched gains over every named schedule, in the questions of scenarios/plan.

python tests/plan_auto.py DEBUBBLE OUT.csv [PLAN.toml ..]

A question with [search] is asked as it stands. One with [setup] is asked under each of SCHEDULES in turn,
with its layers dealt evenly by time, since a layout is made for one number of chunks, and under the searched
order dealt together with it. The gain is that over
the fastest named schedule which surely fits; one that is faster but for the error of predicted memory has a
row of its own.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SEARCHED = "zb-auto"
# Each with its chunks per stage, where the schedule has a choice.
SCHEDULES: list[tuple[str, int | None]] = [
    ("1f1b", None),
    ("1f1b-i", 2),
    ("1f1b-i", 4),
    ("1f1b-i", 8),
    ("zb-h1", None),
    ("zb-2p", None),
    ("zb-v", None),
    ("v-half", None),
    ("dualpipe-v", None),
    (SEARCHED, 1),
    (SEARCHED, 2),
    (SEARCHED, 4),
    (SEARCHED, 8),
]
COLUMNS = [
    *("question", "machine", "devices", "plan", "schedule", "chunks", "layers", "limit"),
    *("step, s", "peak, GiB", "fits", "gain"),
]
# What a set-up says of its schedule.
OF_SCHEDULE = re.compile(r"^(schedule|layout|chunks|split) *=.*\n", re.MULTILINE)

Plan = dict[str, Any]


def ask(program: str, question: Path) -> dict[str, Any] | None:
    """The answer to `question`; none where it is refused."""
    command = [program, "plan", str(question), "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode == 2:
        return None
    out.check_returncode()
    answer: dict[str, Any] = json.loads(out.stdout)
    return answer


def under_each_schedule(program: str, question: Path) -> list[Plan]:
    """The plans of the set-up of `question` that fit or may fit, under each of SCHEDULES."""
    text = OF_SCHEDULE.sub("", question.read_text(encoding="utf-8"))
    plans = []
    with tempfile.TemporaryDirectory() as folder:
        for schedule, chunks in SCHEDULES:
            split = "searched" if schedule == SEARCHED else "balanced"
            own = f'[setup]\nschedule = "{schedule}"\nsplit = "{split}"\n'
            own += f"chunks = {chunks}\n" if chunks else ""
            file = Path(folder) / question.name
            file.write_text(re.sub(r"^\[setup\].*\n", own, text, flags=re.MULTILINE), encoding="utf-8")
            answer = ask(program, file)
            if answer is not None and answer["setups"][0]["may_fit"]:
                plans.append({**answer["plans"][0], "fits": answer["setups"][0]["fits"]})
    return plans


def plans_of(program: str, question: Path) -> list[Plan]:
    """All plans of `question`."""
    if "[setup]" in question.read_text(encoding="utf-8"):
        return under_each_schedule(program, question)
    answer = ask(program, question)
    return [] if answer is None else list(answer["plans"])


def name(plan: Plan) -> str:
    """How `plan` shares devices."""
    groups = [("d", "data"), ("t", "tensor"), ("p", "pipeline"), ("c", "context"), ("e", "expert")]
    parts = [f"{letter}{plan[key]}" for letter, key in groups if plan[key] > 1]
    return " ".join([*parts, f"b{plan['microbatch']}", f"z{plan['zero']}", f"m{plan['microbatches']}"])


def rows(question: Path, plans: list[Plan]) -> list[list[object]]:
    """For each cluster the best plan with a named schedule, and with a searched order."""
    clusters = list(dict.fromkeys((plan["machine"], plan["devices"]) for plan in plans))
    return [row for cluster in clusters for row in rows_of(question, cluster, plans)]


def rows_of(question: Path, cluster: tuple[str, int], plans: list[Plan]) -> list[list[object]]:
    """The rows of one cluster."""
    own = [plan for plan in plans if (plan["machine"], plan["devices"]) == cluster]
    fits = [plan for plan in own if plan.get("fits", True)]
    kinds = [
        [plan for plan in fits if plan["schedule"] != SEARCHED],
        [plan for plan in own if plan["schedule"] != SEARCHED],
        [plan for plan in fits if plan["schedule"] == SEARCHED],
    ]
    best = [min(kind, key=lambda plan: plan["step_ns"]) for kind in kinds if kind]
    all_rows: list[list[object]] = []
    for at, plan in enumerate(best):
        if plan in best[:at]:
            continue
        all_rows.append(
            [
                question.stem,
                *cluster,
                name(plan),
                plan["schedule"],
                plan["chunks"],
                plan["split"],
                plan["memory_limit"] or "",
                f"{plan['step_ns'] / 1e9:.4f}",
                f"{plan['peak_bytes'] / 2**30:.1f}",
                "yes" if plan.get("fits", True) else "may",
                f"{best[0]['step_ns'] / plan['step_ns'] - 1:.4f}",
            ]
        )
    return all_rows


def main() -> None:
    """Asks every question, and writes the table."""
    program, out, *files = sys.argv[1:]
    questions = [Path(file) for file in files] or sorted(Path("scenarios/plan").glob("*.toml"))
    with Path(out).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for question in questions:
            table.writerows(rows(question, plans_of(program, question)))


main()
