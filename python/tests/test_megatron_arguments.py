"""`debubble.megatron` takes the file of an order from the arguments of a training script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import debubble as db
import debubble.megatron._runner as runner


def test_the_file_is_taken_out_of_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["--debubble-order", "best.txt"], ["--debubble-order=best.txt"]):
        monkeypatch.setattr(sys, "argv", ["pretrain.py", "--bf16", *given, "--seed", "1"])
        assert runner._taken() == "best.txt"
        assert sys.argv == ["pretrain.py", "--bf16", "--seed", "1"]
    with pytest.raises(db.InputError, match="name no order"):
        runner._taken()
    monkeypatch.setattr(sys, "argv", ["pretrain.py", "--debubble-order"])
    with pytest.raises(db.InputError, match="name no order"):
        runner._taken()


#: Megatron-core as far as `use` asks for it, and a script that looks for the function as Megatron's own does.
PACKAGES = {
    "megatron/__init__.py": "",
    "megatron/core/__init__.py": "__version__ = '0.16.1'",
    "megatron/core/pipeline_parallel/__init__.py": "",
    "megatron/core/pipeline_parallel/schedules.py": "def get_forward_backward_func(): return 'own'",
    "pretrain.py": "import sys\n"
    "from megatron.core.pipeline_parallel.schedules import get_forward_backward_func\n"
    "print(sys.argv[1:], get_forward_backward_func())\n",
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for name, text in PACKAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ask = [sys.executable, "-m", "debubble.megatron", str(folder / "pretrain.py"), *arguments]
    return subprocess.run(ask, capture_output=True, text=True, check=False)


def test_a_training_script_runs_in_the_order(tmp_path: Path) -> None:
    order = tmp_path / "best.txt"
    db.Schedule.from_text("F0.0 B0.0 W0.0\nF1.0 BW1.0").save(order)
    done = run(tmp_path, "--bf16", "--debubble-order", str(order))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['--bf16'] ForwardBackward('best', stages=2, microbatches=1)"


def test_without_an_order_nothing_runs(tmp_path: Path) -> None:
    done = run(tmp_path, "--bf16")
    assert done.returncode != 0
    assert "name no order" in done.stderr
    assert not done.stdout
