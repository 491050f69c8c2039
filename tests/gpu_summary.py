"""The summary of a run of gpu.sh in Markdown: bubbles measured beside predicted and published, and all steps.

    python3 gpu_summary.py WORK > summary.md

WORK is the folder with the tables and logs of the run. Files that are not there, or not yet, are left out.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# Tables of `debubble execute`, by the middle of their names, in the order of the summary.
TABLES = {
    "timed": "timed stages",
    "unequal": "timed stages, unequal microbatches",
    "by-profile": "kernels, by profile",
    "few-microbatches": "few microbatches",
    "larger-microbatches": "larger microbatches",
    "post-validation": "post-validation",
    "in-a-v": "two chunks",
    "searched": "searched",
}
# Tables of gpu_torch.py.
WITNESSES = {"timed": "timed stages, by torch", "kernels": "kernels, by torch"}

BUBBLES = [
    *("run", "schedule", "p", "m", "measured", "predicted", "by busy stages", "difference, points"),
    *("published", "host-bound"),
]


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table by the names of its columns; none where there is no table."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(file)]
    except OSError:
        return []


def lines_of(path: Path) -> list[str]:
    """The lines of a text; none where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def percent(share: str, digits: int = 2) -> str:
    """A share of 1 in percent."""
    try:
        return f"{100 * float(share):.{digits}f} %"
    except ValueError:
        return share


def points(measured: str, predicted: str) -> str:
    """Measured less predicted, in percentage points."""
    try:
        return f"{100 * (float(measured) - float(predicted)):+.2f}"
    except ValueError:
        return ""


def executed(run: str, row: dict[str, str]) -> list[str]:
    """A row of `debubble execute`: by makespan where the published rate is."""
    by = "_makespan" if row.get("published_convention", "").startswith("makespan") else ""
    measured = row.get(f"bubble_rate{by}_measured", "")
    simulated = row.get(f"bubble_rate{by}_simulated", "")
    busy = "" if by else row.get("bubble_rate_by_busy_stages", "")
    bound = row.get("host_bound_percent", "")
    return [
        *(run, row.get("schedule", ""), row.get("stages", ""), row.get("microbatches", "")),
        *(percent(measured), percent(simulated), percent(busy), points(measured, busy or simulated)),
        *(percent(row.get("bubble_rate_published", "")), f"{bound} %" if bound else ""),
    ]


def witnessed(run: str, row: dict[str, str]) -> list[str]:
    """A row of gpu_torch.py, whose prediction is a replay with its own medians; the difference is that to a
    replay with the time of each pass, where there is one.
    """
    measured, replayed = row.get("bubble_rate_measured", ""), row.get("bubble_rate_replayed", "")
    own = row.get("bubble_rate_by_own_times", "")
    return [
        *(run, row.get("order", ""), row.get("stages", ""), row.get("microbatches", "")),
        *(percent(measured), percent(replayed), "", points(measured, own or replayed), "", ""),
    ]


def bubbles(work: Path) -> Iterator[list[str]]:
    """All bubbles that were measured."""
    for name, run in TABLES.items():
        yield from (executed(run, row) for row in rows_of(work / f"measured-gpu-{name}.csv"))
        if name in WITNESSES:
            table = rows_of(work / f"witness-gpu-{name}.csv")
            yield from (witnessed(WITNESSES[name], row) for row in table)
        elif name == "by-profile":
            table = rows_of(work / "witness-gpu-kernels.csv")
            yield from (witnessed(WITNESSES["kernels"], row) for row in table)


def table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A table in Markdown, and an empty line behind it."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    return [line(header), line(["---"] * len(header)), *map(line, rows), ""]


def clocks(work: Path) -> list[str]:
    """The clock of the multiprocessors while bubbles were measured."""
    found = []
    for row in rows_of(work / "gpu-clocks.csv"):
        cell = next((value for key, value in row.items() if "clocks" in key and "sm" in key), "")
        digits = cell.replace("MHz", "").strip()
        if digits.isdecimal():
            found.append(int(digits))
    if not found:
        return []
    low, middle, high = min(found), round(statistics.median(found)), max(found)
    return [f"- Clock of the multiprocessors in `bubbles`: {low} to {high} MHz, {middle} MHz in the median"]


def machine(work: Path) -> Iterator[str]:
    """The chip, the driver, its clocks, and the cost of the host."""
    yield from (f"- {line}" for line in lines_of(work / "device.txt")[:1])
    for row in rows_of(work / "gpu.csv")[:1]:
        yield "- " + ", ".join(f"{key.strip()} {value.strip()}" for key, value in row.items())
    yield from clocks(work)
    for name in ("timed-row", "by-profile"):
        yield from (
            f"- {line} ({name})" for line in lines_of(work / f"{name}.log") if line.startswith("host: ")
        )


def steps(work: Path) -> list[list[str]]:
    """The last state of every step."""
    found: dict[str, list[str]] = {}
    for line in lines_of(work / "steps.tsv"):
        name, *rest = line.split("\t")
        if len(rest) == 2:
            found[name] = [name, rest[0], rest[1]]
    return list(found.values())


def summary(work: Path) -> Iterator[str]:
    """The lines of the summary."""
    yield from ["# Bubbles on a GPU", "", *machine(work), ""]
    yield "Bubble rates within the longest span of a stage; within the makespan where the published rate is."
    yield "Measured less predicted: by busy stages where that is predicted; torch: by the time of each pass."
    yield ""
    yield from table(BUBBLES, bubbles(work))
    compared = lines_of(work / "compared-gpu.txt")
    if compared:
        yield from ["## The difference between alone and measured, zb-h1", "", "```", *compared, "```", ""]
    ratios = [row for path in sorted(work.glob("gpu-ratio-*.csv")) for row in csv.reader(lines_of(path))]
    if ratios:
        header = ["model", "F, us", "B, us", "W, us", "B / F", "W / F", "B / F of A100", "W / F of A100"]
        yield from ["## F : B : W", "", *table(header, ratios)]
    products = [
        line for name in ("gpu-products", "gpu-products-torch") for line in lines_of(work / f"{name}.txt")
    ]
    if products:
        yield from ["## Products, ours and torch's", "", "```", *products, "```", ""]
    yield from ["## Steps", "", *table(["step", "state", "seconds"], steps(work))]


def main() -> int:
    """Prints the summary of the folder that is named."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("gpu_summary: name the folder of the tables and logs", file=sys.stderr)
        return 2
    print("\n".join(summary(Path(sys.argv[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
