"""What type checkers let through is what the package takes, and what they refuse it refuses, too.

CI runs mypy over this file, with a warning for every `type: ignore` that ignores nothing.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy
import pytest

import debubble as db

TIMES: dict[str, Any] = {"forward": "1ms", "backward_input": "1ms", "backward_weight": "1ms"}


def test_times_are_text_numbers_and_differences_of_times() -> None:
    questions = [
        db.Question(stages=2, forward="1ms"),
        db.Question(stages=2, forward=0.001),
        db.Question(stages=2, forward=numpy.float64(0.001)),
        db.Question(stages=2, forward=datetime.timedelta(milliseconds=1)),
        db.Question(stages=2, forward=numpy.timedelta64(1, "ms")),
        db.Question(stages=2, forward=["1ms"]),
        db.Question(stages=numpy.int64(2), forward=numpy.array([0.001])),
    ]
    assert {str(question.forward) for question in questions} == {"['1ms']"}


def test_schedules_are_names_paths_and_orders() -> None:
    own = db.Schedule.from_text("F0.0 F0.1 BW0.0 BW0.1\nF1.0 BW1.0 F1.1 BW1.1", name="mine")
    q = db.Question(stages=2, microbatches=2, schedule=["1f1b", own], **TIMES)
    assert [one.schedule for one in db.simulate(q)] == ["1f1b", "mine"]
    assert db.simulate(q, own)[0].schedule == "mine"
    with pytest.raises(db.InputError):
        db.simulate(q, Path("no-such-schedule.txt"))


def test_none_is_as_good_as_nothing() -> None:
    assert db.Question(stages=4, hop=None) == db.Question(stages=4)


def test_settings_are_questions_of_their_own() -> None:
    q = db.Question(stages=2, setting=[{"name": "near", "hop": "1us"}, {"name": "far", "hop": 0.001}])
    assert len(q) == 2


def test_a_key_that_there_is_not_is_refused() -> None:
    with pytest.raises(db.InputError):
        db.Question(stages=4, microbatchs=8)  # type: ignore[call-arg]


def test_a_value_that_there_is_not_is_refused() -> None:
    with pytest.raises(db.InputError):
        db.Question(stages=4, sharing="unfair")  # type: ignore[arg-type]
    with pytest.raises(db.InputError):
        db.Question(stages="four")  # type: ignore[arg-type]
    with pytest.raises(db.InputError):
        db.search(db.Question(stages=2, microbatches=2, **TIMES), objective="memory")  # type: ignore[arg-type]


def test_tables_within_a_plan_are_typed() -> None:
    with pytest.raises(db.InputError):
        db.plan(model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000}, price="free")  # type: ignore[arg-type]


def test_answers_have_types() -> None:
    answers = db.simulate(db.Question(stages=2, microbatches=2, schedule="1f1b", **TIMES))
    rate: float = answers[0].bubble_rate
    several: list[db.Outcome] = answers[0:1]
    starts: numpy.ndarray[Any, numpy.dtype[numpy.int64]] = answers["1f1b"].timeline.start_ns
    assert rate == several[0].bubble_rate
    assert starts.dtype == numpy.int64
