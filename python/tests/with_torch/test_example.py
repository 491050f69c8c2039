"""The program of the page on PyTorch runs as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import debubble as db

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "torch_pipeline.py"


@pytest.mark.slow
def test_torch_pipeline(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(EXAMPLE), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    profile = db.Profile.from_file(tmp_path / "profile.toml")
    assert (profile.stages, profile.placement, len(profile.chunks)) == (2, "v", 4)
    searched = json.loads((tmp_path / "searched.json").read_text())
    assert searched["schedule"]["name"] == "zb-auto"
    # A step has whole backwards, and is none of these, where the order that was found has none.
    ran = {slot["slot"][0] for stage in searched["steps"][0]["stages"] for slot in stage["slots"]}
    assert len(searched["steps"]) == (5 if "W" in ran else 6)
    assert "measured on cpu, 5 steps" in done.stdout
