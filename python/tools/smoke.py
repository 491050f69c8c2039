"""Whether the installed package answers, and is of the version that is expected.

python python/tools/smoke.py VERSION
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import debubble as db

VERSION = sys.argv[1]
#: The bubble rates of a setting of 6.2B parameters by schedule.
EXPECTED = {"1f1b": "23.47%", "zb-h1": "13.23%", "zb-2p": "0.29%", "zb-v": "4.03%"}


def main() -> None:
    """Asks for a simulation, a search and its certificate, and for the version."""
    assert db.__version__ == VERSION, (db.__version__, VERSION)
    question = db.Question(
        stages=8, microbatches=24, forward="29.718ms", backward_input="29.444ms", backward_weight="19.927ms",
        hop="527us", hidden=4096, heads=32, seq=1024,
    )  # fmt: skip
    answers = db.simulate(question, list(EXPECTED))
    assert {one.schedule: f"{one.bubble_rate:.2%}" for one in answers} == EXPECTED, answers
    assert db.search(question, memory_limit="0.75p").certificate.verify().holds
    command = shutil.which("debubble", path=str(Path(sys.executable).parent))
    if command is not None:
        said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
        assert said.split()[1] == VERSION, said
    both = "" if command is None else ", and so does the command line"
    print(f"debubble {db.__version__} answers in Python {sys.version.split()[0]}{both}")


if __name__ == "__main__":
    main()
