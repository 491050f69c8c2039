"""Where the processes of ranks come from: the benchmark beside these tests starts the same."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
