"""Advice for a run, through Python: what it is made of, its files, and copies of it."""

import copy
import pickle
from pathlib import Path

import pytest

import debubble as db

SCRIPT = """#!/bin/bash
PP=4
torchrun --nproc-per-node 8 --nnodes 1 pretrain_gpt.py \\
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 \\
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 \\
  --pipeline-model-parallel-size $PP \\
  --micro-batch-size 1 --global-batch-size $BATCH \\
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \\
  --train-iters 100 --bf16
"""


def log(seconds: float) -> str:
    line = " iteration {:8d}/ 100 | elapsed time per iteration (ms): {:.1f} | global batch size: 64 |\n"
    return "".join(line.format(at, 1e3 * seconds) for at in range(1, 12))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return path


def advised(*sources, **keywords) -> db.Advice:
    return db.advise(*sources, machine="a100-80g", variables={"BATCH": 64}, **keywords)


def test_a_log_calibrates(script: Path, tmp_path: Path) -> None:
    blind = advised(script)
    assert blind.calibration is None
    step = blind.current.step_ns / 1e9
    (tmp_path / "run.log").write_text(log(1.2 * step))
    advice = advised(script, tmp_path / "run.log")
    found = advice.calibration
    assert found is not None
    assert found.iterations == 11
    assert found.blind == pytest.approx(step)
    assert abs(found.calibrated / found.measured - 1) < 0.1
    assert "steady iterations" in " ".join(advice.warnings + advice.notes)


def test_changes_are_a_table(script: Path) -> None:
    advice = advised(script)
    assert advice.first is not None
    assert advice.first.gain == max(change.gain for change in advice.changes)
    assert {change.certainty for change in advice.changes} <= {"sure", "likely", "not-resolved"}
    areas = advice.changes.column("area")
    assert "recomputation" in areas
    assert len(set(areas)) == len(areas)
    assert repr(advice).splitlines()[0].startswith(f"Change first: {advice.first.change} (")
    assert "<svg" in advice._repr_html_()


def test_files_are_written(script: Path, tmp_path: Path) -> None:
    advice = advised(script)
    place = next(at for at, change in enumerate(advice.changes) if change.area == "recomputation")
    names = advice.export(tmp_path / "out", place)
    assert "train.sh.diff" in names
    difference = (tmp_path / "out" / "train.sh.diff").read_text()
    removed = [line for line in difference.splitlines()[2:] if line.startswith("-")]
    assert removed
    assert all("recompute" in line for line in removed)
    with pytest.raises(db.InputError, match="there is no change"):
        advice.export(tmp_path / "none", 99)
    assert not (tmp_path / "none").exists()
    advice.save(tmp_path / "advice.json")
    advice.save(tmp_path / "advice.svg")
    assert (tmp_path / "advice.svg").read_text().startswith("<svg")


def test_copies_say_the_same(script: Path, tmp_path: Path) -> None:
    advice = advised(script)
    for other in (pickle.loads(pickle.dumps(advice)), copy.deepcopy(advice)):
        assert other.to_json() == advice.to_json()
        assert repr(other) == repr(advice)
        assert other.export(tmp_path / "copy") == advice.export(tmp_path / "own")
        with pytest.raises(ValueError, match="unpickled"):
            other.export(tmp_path / "copy", 0)


def test_contents_are_read_as_files(script: Path) -> None:
    assert advised(SCRIPT.encode()).current.step_ns == advised(script).current.step_ns


def test_bad_runs_are_refused(script: Path, tmp_path: Path) -> None:
    with pytest.raises(db.InputError, match="no file"):
        db.advise()
    with pytest.raises(db.InputError, match="BATCH"):
        db.advise(script)
    (tmp_path / "empty.log").write_text("nothing\n")
    with pytest.raises(db.InputError, match="three steady iterations"):
        advised(script, tmp_path / "empty.log")
    with pytest.raises(db.InputError, match="nowhere"):
        advised(tmp_path / "nowhere.sh")
