"""The answer from Python, from the command line and from a program in Rust is the same."""

from __future__ import annotations

import json
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Union

import debubble as db
import doors
import pytest
import questions

QUESTIONS = 200


class Asked:
    """A question, with what is asked of it besides, and its answer or refusal from Python."""

    def __init__(self, number: int) -> None:
        draw = random.Random(number)
        self.number = number
        self.keys = questions.question(draw)
        self.explain = draw.random() < 0.15
        self.sort = draw.choice([None, None, "bubble", "memory", "step"])
        self.keywords = questions.keywords(self.keys, draw)

    def line(self) -> str:
        """For the program in Rust."""
        asked: dict[str, Any] = {"question": self.keys, "explain": self.explain}
        if self.sort is not None:
            asked["sort"] = self.sort
        return json.dumps(asked) + "\n"

    def python(self) -> Union[db.Answers, db.InputError]:
        """From this package."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", db.Note)
                question = db.Question(**self.keywords)
                return db.simulate(question, explain=self.explain, sort=self.sort)
        except db.InputError as error:
            return error

    def words(self, folder: Path) -> list[str]:
        """For the command line: every other question is asked by flags, the others in a file."""
        more = ["--explain"] * self.explain
        more += [] if self.sort is None else ["--sort", self.sort]
        if "setting" not in self.keys and self.number % 2 == 0:
            return ["simulate", *questions.flags(self.keys), *more, "--json"]
        file = folder / f"{self.number}.toml"
        file.write_text(questions.toml(self.keys), encoding="utf-8")
        return ["simulate", str(file), *more, "--json"]


def test_random_questions_have_one_answer_whoever_is_asked(
    command: doors.Command, example: doors.Command, tmp_path: Path
) -> None:
    every = [Asked(number) for number in range(QUESTIONS)]
    with ThreadPoolExecutor(2) as pool:
        printing = pool.map(lambda one: command.run(*one.words(tmp_path)), every)
        told = example.stdout(stdin="".join(one.line() for one in every)).splitlines()
        given = [one.python() for one in every]
        printed = list(printing)
    assert len(told) == QUESTIONS
    answered = 0
    for one, python, shell, rust in zip(every, given, printed, told):
        if isinstance(python, db.InputError):
            check_refusals(one, python, [doors.refusal(shell), json.loads(rust)["error"]])
        else:
            answered += 1
            assert shell.returncode == 0, (one.keys, shell.stderr)
            assert python.to_json() + "\n" == shell.stdout, one.keys
            assert doors.same(python.to_json()) == doors.same(rust), one.keys
            assert doors.notes(shell) == python.warnings, one.keys
    assert QUESTIONS > answered > QUESTIONS // 2, f"{answered} of {QUESTIONS} have an answer"


def check_refusals(one: Asked, python: db.InputError, others: list[dict[str, Any]]) -> None:
    """The same words. Who reads a file points into it, and so need not name the setting or the key."""
    for other in others:
        named = python.message if "file" not in other else python.message[-len(other["message"]) :]
        assert named == other["message"], one.keys
        assert python.help == other.get("help"), one.keys
        assert python.key == other.get("key"), one.keys
    with pytest.raises(db.InputError) as beside:
        db.simulate(db.Question.from_toml(questions.toml(one.keys)), explain=one.explain, sort=one.sort)
    if "file" in others[0]:
        assert beside.value.message == others[0]["message"]
        assert (beside.value.line, beside.value.column) == (others[0]["line"], others[0]["column"])
