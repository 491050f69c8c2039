"""The loop of the page on PyTorch runs as it stands, in a trainer with two ranks."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import pipelines

import debubble as db
import debubble.torch as dbt

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial" / "pytorch.md"


def blocks() -> list[str]:
    """The code of the page."""
    return re.findall(r"^```\{code-block\} python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def typed(rank: int) -> Any:
    warnings.simplefilter("ignore")
    trained = pipelines.Trained(rank, pipelines.order("zb-h1", 2, 8))
    x, y = pipelines.batch(8)
    names: dict[str, Any] = {
        "schedule": trained.schedule,
        "stages": trained.stages,
        "loss": pipelines.loss,
        "inputs": [x] if trained.stages[0].is_first else [],
        "y": y,
    }
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks()[0], str(PAGE), "exec"), names)
    return names["best"].schedule.to_text(), printed.getvalue()


def test_the_loop_of_the_page() -> None:
    told = pipelines.ranks(2, typed)
    assert isinstance(told[0], tuple), told[0]
    assert told[0][0] == told[1][0]
    assert "measured on cpu, 5 steps" in told[0][1]
    assert "the difference by" in told[0][1]


@pytest.mark.filterwarnings("ignore::debubble.Note")
def test_one_device_of_the_page() -> None:
    x, y = (one[: pipelines.BATCH] for one in pipelines.batch(8))
    modules = [pipelines.Block(at) for at in range(4)]
    names: dict[str, Any] = {"db": db, "dbt": dbt, "modules": modules, "x": x, "y": y, "loss": pipelines.loss}
    exec(compile(blocks()[1], str(PAGE), "exec"), names)
    best = names["best"].schedule
    assert (best.stages, best.chunks, best.microbatches, best.placement) == (2, 2, 8, "v")
