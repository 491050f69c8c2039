"""Record, search, run, compare: the whole way, as the package says it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines

import debubble as db
import debubble.torch as dbt


def loop(rank: int) -> Any:
    warnings.simplefilter("ignore")
    trained = pipelines.Trained(rank, pipelines.order("zb-h1", 4, 8))
    with dbt.record(trained.schedule, warmup=1, timeout=30) as rec:
        for _ in range(4):
            trained.step()
    profile = rec.profile()
    best = db.search(profile, memory_limit="1p")
    again = pipelines.Trained(rank, best.schedule)
    with dbt.record(again.schedule, timeout=30) as rec:
        again.step()
    compared = db.compare(best.predicted, rec.timeline())
    return profile.to_toml(), best.schedule.to_text(), compared.to_dict()["measured"], repr(rec)


def test_the_whole_way() -> None:
    told = pipelines.ranks(4, loop)
    assert isinstance(told[0], tuple), told[0]
    # Every rank has the same recording, and so finds the same order.
    assert all(one == told[0] for one in told)
    profile, order, measured, said = told[0]
    read = db.Profile.from_file(profile.encode())
    assert (read.stages, read.microbatches, read.schedule) == (4, 8, "zb-h1")
    assert read.hop is not None and read.hop > 0
    assert all(row.activation_bytes > 0 for row in read.chunks)
    assert db.Schedule.from_text(order).stages == 4
    assert measured["makespan_ns"] > 0
    assert "'zb-auto': 1 steps" in said
