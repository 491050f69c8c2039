"""Questions as mappings and attributes, and keys beside questions: refused where they go nowhere."""

from __future__ import annotations

import inspect
import random
import re
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import questions

import debubble as db
from debubble import _keys, _values

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

#: The package as those call it who check no types.
loose: Any = db

BASE: dict[str, Any] = {"stages": 4, "microbatches": 8, "forward": "1ms", "backward": "2ms"}


def question(**more: Any) -> db.Question:
    return db.Question(**{**BASE, **more})


def test_a_question_is_a_mapping_of_what_is_given() -> None:
    q = question(hop=0.001)
    assert isinstance(q, Mapping)
    assert dict(q) == {**BASE, "forward": ["1ms"], "backward": ["2ms"], "hop": ["1ms"]}
    assert list(q) == list(q.keys()) and len(q) == len(list(q)) == 5
    assert "hop" in q and "memory_limit" not in q and "memory-limit" not in q
    assert q.get("memory_limit", "2p") == "2p"
    with pytest.raises(KeyError):
        q["memory_limit"]
    assert list(q.items()) == list(zip(q.keys(), q.values()))
    q["hop"].append("2ms")
    assert q["hop"] == ["1ms"], "nobody changes a question"
    assert db.Question() == db.Question(**db.Question())


def test_every_key_is_an_attribute() -> None:
    q = question(memory_limit="1.5p")
    assert (q.stages, q.memory_limit, q.hop) == (4, ["1.5p"], None)
    assert set(_values.names("scenario")) <= set(dir(q))
    for key in _values.names("scenario") - set(q):
        assert getattr(q, key) is None
    with pytest.raises(AttributeError, match="did you mean `microbatches`"):
        _ = loose.Question(**BASE).microbatchs
    with pytest.raises(AttributeError):
        q.stages = 8  # type: ignore[misc]


def test_settings_have_what_they_do_not_share() -> None:
    q = question(hop="1ms", setting=[{"name": "near"}, {"name": "far", "hop": "4ms"}])
    assert (q.stages, q.hop) == (4, None)
    assert q["setting"] == [{"name": "near", "hop": ["1ms"]}, {"name": "far", "hop": ["4ms"]}]
    assert db.Question(**q) == q
    assert [one.hop or one["setting"][0]["hop"] for one in q.settings] == [["1ms"], ["4ms"]]
    spans = [one.span_ns for one in db.simulate(q, "1f1b")]
    assert [db.simulate(one, "1f1b")[0].span_ns for one in q.settings] == spans
    assert question().settings == [question()]
    shown = q._repr_html_()
    assert "near" in shown and "4ms" in shown and shown.count("<tr>") == 6


def test_own_schedules_are_read_back() -> None:
    mine = db.Schedule.from_text("F0.0 BW0.0", name="mine")
    q = db.Question(stages=1, microbatches=1, schedule=["1f1b", mine])
    assert q.schedule == ["1f1b", mine]
    assert db.Question(**q) == q


@pytest.mark.skipif(sys.version_info < (3, 10), reason="types are read as newer versions write them")
def test_random_questions_are_read_back_with_values_of_their_types() -> None:
    names = {**vars(_keys), "Schedule": db.Schedule, "Profile": db.Profile}
    hints = typing.get_type_hints(_keys.QuestionValues, names)
    seen = set()
    for number in range(300):
        draw = random.Random(number)
        try:
            q = db.Question(**questions.keywords(questions.question(draw), draw))
        except db.InputError:
            continue
        assert db.Question(**q) == q
        for key, value in q.items():
            seen.add(key)
            (kind,) = typing.get_args(hints[key])
            assert fits(value, kind), (key, value, kind)
    assert len(seen) > 30


def fits(value: Any, kind: Any) -> bool:
    """Whether `value` is of the type `kind`."""
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if typing.get_origin(kind) is dict or kind is Any:
        return kind is Any or isinstance(value, dict)
    return isinstance(value, inner or kind) or (kind is float and type(value) is int)


@pytest.mark.parametrize(
    "ask",
    [
        lambda q, **keys: db.simulate(q, "zb-heuristic", **keys).to_json(),
        lambda q, **keys: db.simulate_all([q], "zb-heuristic", **keys).to_json(),
        lambda q, **keys: db.search(q, effort=0, **keys).to_json(),
        lambda q, **keys: db.search_all([q], effort=0, **keys).to_json(),
        lambda q, **keys: db.sweep(q, {"hop": ["0ms", "1ms"]}, "zb-heuristic", **keys).to_csv(),
        lambda q, **keys: db.export(q, "zb-heuristic", **keys),
    ],
    ids=["simulate", "simulate_all", "search", "search_all", "sweep", "export"],
)
def test_keys_beside_a_question_go_over_its_own(ask: Callable[..., str]) -> None:
    keys: dict[str, Any] = {"memory_limit": "1.5p", "microbatches": 6, "hop": 0.001}
    assert ask(question(memory_limit="1p"), **keys) == ask(question().replace(**keys))
    with pytest.raises(db.InputError, match="no key `microbatchs`"):
        ask(question(), microbatchs=4)


def test_chunks_of_a_search_are_those_of_its_question() -> None:
    found = db.search(question(), memory_limit="1p", chunks=2, effort=0)
    assert found.schedule.chunks == 2


MISPLACED: dict[str, Callable[[], object]] = {
    "`memory_limit` is a key of `debubble.Question`": lambda: loose.verify("x", memory_limit="1p"),
    "`stages` is a key of `debubble.Question`": lambda: loose.compare(b"", b"", stages=4),
    "`hop` is a key of `debubble.Question`": lambda: loose.plan(hop="1ms"),
    "`effort` is a key of `debubble.search`": lambda: loose.simulate(question(), "1f1b", effort=3),
    "`max_chunks` is a key of `debubble.search`": lambda: loose.Question(max_chunks=3),
    "`what_if` is a key of `debubble.replay`": lambda: loose.search(question(), what_if="balanced"),
    "`devices` is a key of `debubble.fsdp`": lambda: loose.Question(devices=4),
    "`tokens` is a key of `debubble.plan`": lambda: loose.fsdp(tokens=1e9),
    "`microbatches` is a key": lambda: loose.replay(b"[]", microbatches=4),
    "`deadline_days` is a key of `debubble.plan`": lambda: loose.reproduce("table2", deadline_days=4),
    "`chunks` is a key of `debubble.Question`": lambda: loose.advise(b"", chunks=4),
}


@pytest.mark.parametrize("words", MISPLACED)
def test_a_key_of_another_function_says_where_it_goes(words: str) -> None:
    with pytest.raises(db.InputError) as raised:
        MISPLACED[words]()
    assert words in str(raised.value)
    assert raised.value.key is not None and raised.value.key in str(raised.value)


def test_no_function_answers_a_key_with_a_bare_type_error() -> None:
    first: dict[str, tuple[Any, ...]] = {
        "sweep": (question(), {"hop": ["1ms"]}, "1f1b"),
        "compare": (b"", b""),
        "advise": (b"",),
        "verify": (b"",),
        "replay": (b"[]",),
        "simulate": (question(), "1f1b"),
        "search": (question(),),
        "failures": (question(), "1f1b"),
        "export": (question(), "1f1b"),
        "reproduce": ("table2",),
        "plan": (),
        "fsdp": (),
        "simulate_all": ([question()], "1f1b"),
        "search_all": ([question()],),
    }
    for name, words in first.items():
        with pytest.raises(db.InputError, match="nope"):
            getattr(loose, name)(*words, nope=4)


#: Mistakes of every kind, none of them in a file.
MISTAKES: list[Callable[[], object]] = [
    lambda: db.simulate(question()),
    lambda: db.simulate(db.Question(stages=4, microbatches=8), "1f1b"),
    lambda: db.simulate(question(backward_weight="1ms"), "1f1b"),
    lambda: db.simulate(question(memory_limit="4GiB"), "zb-heuristic"),
    lambda: db.simulate(question(communication_buffers="1MiB"), "1f1b"),
    lambda: db.simulate(question(host_bandwidth="10GB/s", chunks=2), "po-h"),
    lambda: db.simulate(question(chunks=2), "po-h"),
    lambda: db.simulate(question(layers=8), "1f1b"),
    lambda: db.simulate(question(sharding="optimizer", prefetch=2), "1f1b"),
    lambda: db.simulate(question(when_full="wait"), "1f1b"),
    lambda: db.simulate(question(cluster="dgx-a100"), "1f1b"),
    lambda: db.simulate(question(cluster="dgx-a100", message="1MiB", expert_parallel=3), "1f1b"),
    lambda: db.simulate(question(chain_tail="a=1ms/1ms"), "1f1b"),
    lambda: db.simulate(question(microbatches=10**9), "1f1b"),
    lambda: db.simulate(question(stages=10**9), "1f1b"),
    lambda: db.search(question(), memory_limit="0.01p"),
    lambda: db.search(question(), memory_limit="1p", memory_limits=["1p"]),
    lambda: db.search(question(), memory_limit="1p", vary="layers"),
    lambda: db.search(question(), memory_limit="1GiB", vary="all"),
    lambda: db.search(question(), memory_limit="1p", objective="p95"),
    lambda: db.search(question(), memory_limit="1p", objective="step"),
    lambda: db.search(question(), memory_limit="1p", max_chunks=3),
    lambda: db.search(question(), memory_limit="1p", placement="v", vary="placement"),
    lambda: db.search(question(jitter="pass=lognormal:0.1", replicas=2), memory_limit="1p", objective="p99"),
    lambda: db.failures(question(), "1f1b"),
    lambda: db.failures(question(), "1f1b", data_parallel=2, dead=["0.1", "1.1"]),
    lambda: db.failures(question(), "1f1b", data_parallel=2, dead="4.0"),
    lambda: db.failures(question(), "zb-h1", data_parallel=2, memory_limit="0.01p"),
    lambda: db.failures(question(), "dualpipe", data_parallel=2),
    lambda: db.failures(question(), "1f1b", data_parallel=2, mtbf="10s", repair="1000000s"),
    lambda: db.fsdp(devices=2, minibatch_size=1, minibatches=2, parameters="1GB"),
    lambda: db.fsdp(devices=2, minibatch_size=1, minibatches=2, bandwidth="1GB/s", sharding="hybrid"),
    lambda: db.fsdp(devices=2, minibatch_size=1, minibatches=2, packing_ratio=1, max_tokens=10**6),
    lambda: db.replay(b"[]", what_if="balanced", backward_split=0.5, hidden=1, seq=1),
    lambda: db.sweep(question(), {"memory_limit": ["4GiB", "5GiB"]}, "zb-heuristic"),
    lambda: db.sweep(question(), {"hop": []}, "1f1b"),
    lambda: db.sweep(question(), {"hop": ["1 parsec"]}, "1f1b"),
    lambda: db.plan(model={"layers": 8, "hidden": 1024, "head": 16}),
    lambda: db.plan(model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 1000}, tokens=-1),
    lambda: loose.Question(memorylimit=3),
    lambda: loose.Question(forward=object()),
]


@pytest.mark.parametrize("ask", MISTAKES, ids=lambda ask: inspect.getsource(ask).strip()[8:60])
def test_mistakes_name_keywords_and_no_flags(ask: Callable[[], object]) -> None:
    with pytest.raises(db.InputError) as raised:
        ask()
    error = raised.value
    prose = "".join(str(error).split("`")[::2]) + " ".join(re.findall(r"`[\w-]+`", str(error)))
    assert "--" not in prose.replace("───", ""), str(error)
    keys = {
        key
        for name in ("scenario", "search", "failures", "fsdp", "replay", "plan")
        for key in db.schema(name)["properties"]
    }
    hyphened = {key for key in keys if "-" in key}
    assert not hyphened & set(re.findall(r"[a-z]+(?:-[a-z]+)+", str(error))), str(error)
    assert error.key is None or "-" not in error.key


def test_notes_and_rows_of_a_sweep_name_keywords() -> None:
    with pytest.warns(db.Note) as told:
        db.simulate(question(seed=3), "1f1b")
    assert told and not any("--" in str(one.message) for one in told)
    rows = db.sweep(question(), {"memory_limit": ["1p", "4GiB"]}, "zb-heuristic")
    errors = [error for error in rows.columns["error"] if error]
    assert errors
    assert not any("--" in error for error in errors), errors


def test_keys_of_a_file_are_named_as_they_stand_there() -> None:
    with pytest.raises(db.InputError, match="`memory-limit`") as raised:
        db.Question.from_toml('memorylimit = "1p"\n')
    assert "--" not in (raised.value.help or "")
    assert raised.value.key == "memorylimit"
