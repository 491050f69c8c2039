"""The answer from Python, from the command line and from a program in Rust is the same."""

from __future__ import annotations

import json
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Union

import doors
import pytest
import questions

import debubble as db
from debubble import _debubble

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
            assert list(map(_debubble.said, doors.notes(shell))) == python.warnings, one.keys
    assert QUESTIONS > answered > QUESTIONS // 2, f"{answered} of {QUESTIONS} have an answer"


def check_refusals(one: Asked, python: db.InputError, others: list[dict[str, Any]]) -> None:
    """The same in the words of Python. Who reads a file points into it, and may name no setting or key."""
    for other in others:
        message, cure, key = (other.get(part) for part in ("message", "help", "key"))
        worded = _debubble.said(message or "")
        named = python.message if "file" not in other else python.message[-len(worded) :]
        assert named == worded, one.keys
        assert python.help == (None if cure is None else _debubble.said(cure)), one.keys
        assert python.key == (None if key is None else key.replace("-", "_")), one.keys
    with pytest.raises(db.InputError) as beside:
        db.simulate(db.Question.from_toml(questions.toml(one.keys)), explain=one.explain, sort=one.sort)
    if "file" in others[0]:
        assert _debubble.said(beside.value.message) == _debubble.said(others[0]["message"])
        assert (beside.value.line, beside.value.column) == (others[0]["line"], others[0]["column"])


#: Values of every kind of key, and some that no key takes.
STRANGE: list[Any] = [
    0, 1, 2, 3, 7, 64, 0.5, 1e-9, -1.0, True, "", "x", "0ms", "1ns", "1ms", "1000000s", "0p", "0.5p", "2p",
    "1B", "1GiB", "10GB/s", "fair", "queue", "eager", "rendezvous:0", "rendezvous:99", "blocking", "barrier",
    "asynchronous", "post-validation:0.5", "wait", "report", "contiguous", "across-nodes", "0,0,1,1",
    "1ms:overlapped", "dgx-a100", "a100-pcie", "stage:3=1.5", "link:0-1=2", "device:0=1e9", "stage:0=0",
    "pass=lognormal:10", "hop=pareto:1.0001", "0.5:1s", "90us,400us", ["1ms", "2ms", "1ms", "0ms"],
]  # fmt: skip


def is_value(key: str, value: Any) -> bool:
    """Whether `key` takes `value`, as far as the key alone can say."""
    try:
        db.Question(**{key: value})
    except db.InputError:
        return False
    return True


def test_strange_values_are_answered_or_refused() -> None:
    keys = [key for key in db.schema()["properties"] if key not in ("schedule", "setting", "title", "source")]
    values = {key: [value for value in STRANGE if is_value(key, value)] for key in keys}
    names = [one.name for one in db.schedules().rows if one.name != "zb-auto"]
    base = {"forward": "1ms", "backward": "2ms"}
    answered = 0
    for number in range(2400):
        draw = random.Random(number)
        given: dict[str, Any] = {
            **base,
            "stages": draw.choice([1, 3, 4]),
            "microbatches": draw.choice([2, 8, 9]),
        }
        for key in draw.sample(keys, draw.choice([1, 2, 3])):
            given[key] = draw.choice(values[key] or STRANGE)
        asked = draw.sample(names, 2)
        # Of v-adaptive every lever makes the order anew, which takes minutes on many stages.
        explain = number % 5 == 0 and "v-adaptive" not in asked
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", db.Note)
                answers = db.simulate(db.Question(**given), asked, explain=explain)
        except db.InputError:
            continue
        answered += 1
        assert len(answers) == 2, given
        assert all(0 <= one.bubble_rate <= 1 and one.work_ns <= one.makespan_ns for one in answers), given
    assert answered > 100


def test_activations_without_a_size_go_to_the_host_without_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.Note)
        keys: dict[str, Any] = {"stages": 3, "microbatches": 2, "forward": "1ms", "backward": "2ms"}
        question = db.Question(**keys, offload_time="1us", exchange="1ms")
        for one in db.simulate(question, ["po-h", "po-f"]):
            assert one.peak_activation_bytes is None
            assert max(one.peak_in_flight) >= 1
