"""Writes scenarios/paper/expected-misses.csv anew, after predictions have changed: expected_misses.py DEBUBBLE.

Every cell that its own check misses gets a line with our figure of today. Reasons are kept; a cell that is new has
`?` for a reason, which a test refuses: write one, or mend the prediction. Cells that match now are dropped. Read the
difference before it is committed: a miss that grew is a prediction that got worse.
"""

import csv
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAPER = Path(__file__).parent.parent / "scenarios" / "paper"
FILE = PAPER / "expected-misses.csv"
HEAD = ["table", "row", "column", "ours", "width", "reason"]


def misses(program):
    """The cells that their own checks miss."""
    with tempfile.TemporaryDirectory() as folder:
        paper = Path(folder, "paper")
        shutil.copytree(PAPER, paper)
        (paper / FILE.name).write_text(",".join(HEAD) + "\n")
        command = [program, "reproduce", "all", "--json", "--no-files", "--paper", str(paper)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cells = json.loads(answer.stdout)["cells"]
    return [cell for cell in cells if cell["match"] is False and not is_quoted(cell)]


def is_quoted(cell):
    """Whether the cell is quoted from another table, whose line holds for it."""
    own = cell["row"].startswith("Vocabulary Parallelism")
    return cell["table"] == "overlap-gain" or cell["table"] == "headlines" and not own


def rounded(figure):
    """The figure with five significant digits, and a unit of the fourth."""
    digits = 4 - math.floor(math.log10(abs(figure))) if figure else 3
    return round(figure, digits), float(f"1e{1 - digits}")


def main():
    text = FILE.read_text()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    reasons = {(line["table"], line["row"], line["column"]): line["reason"] for line in lines}
    with FILE.open("w", newline="") as file:
        file.write("\n".join(comments) + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for cell in misses(sys.argv[1]):
            place = cell["table"], cell["row"], cell["column"]
            reason = reasons.get(place, "?")
            writer.writerow([*place, *(f"{one:g}" for one in rounded(cell["ours"])), reason])
            if reason == "?":
                print(f"no reason: {', '.join(place)}", file=sys.stderr)


main()
