"""Bad input is refused with key, place and cure: never a panic, a hang, or a silent wrong number."""

from __future__ import annotations

import datetime
import decimal
import io
import pathlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import debubble

#: The package as those call it who check no types.
db: Any = debubble
F, B, W, BW = db.F, db.B, db.W, db.BW

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

KEYS: dict[str, Any] = {"stages": 4, "microbatches": 8, "forward": "1ms", "backward": "2ms"}
NAN, INF = float("nan"), float("inf")


def simulated(**keys: Any) -> debubble.Outcome:
    answers: debubble.Answers = db.simulate(db.Question(**{**KEYS, **keys}), keys.get("schedule", "1f1b"))
    return answers[0]


#: The outcome with a forward of a millisecond.
PLAIN = {"span_ns": 33_000_000}


def refused(ask: Callable[..., object], *values: object) -> debubble.InputError:
    with pytest.raises(debubble.InputError) as raised:
        ask(*values)
    error = raised.value
    assert isinstance(error, ValueError)
    assert error.message
    assert error.message in " ".join(str(error).split()) or "\n" in str(error)
    return error


NUMBERS: list[Any] = [
    -1, 0, 1.5, 4.0, NAN, INF, -INF, 10**30, 2**63, 2**64, 10**9, True, "4", "", "\0", "\u0664", [4], (), {},
    {"a": 4}, object(), b"4", 1j, decimal.Decimal(4), numpy.float32(4), numpy.bool_(True), numpy.array([4]),
    numpy.array([4, 5]), {4}, range(4), datetime.timedelta(4), print,
]  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_what_is_no_number_of_stages_is_refused(value: Any) -> None:
    refused(lambda: simulated(stages=value))


@pytest.mark.parametrize("key", ["microbatches", "chunks", "seed", "replicas", "hidden", "group", "steps"])
@pytest.mark.parametrize("value", [-1, 1.5, NAN, 10**30, "x", object()], ids=repr)
def test_what_is_no_whole_number_names_its_key(key: str, value: Any) -> None:
    error = refused(lambda: simulated(**{key: value}))
    assert error.key == key
    assert key in str(error)


TIMES: list[Any] = [
    -1, -0.001, 1e-12, 1e300, 10**30, NAN, INF, -INF, "", " ", "1", "1 parsec", "1ms\0", "-1ms", "nan",
    "infs", "\U0001f4a5", ["1ms"] * 3, [], [None], [["1ms"] * 4], {"1ms"}, {"a": 1}, numpy.ones((1, 4)),
    b"1ms", bytearray(b"1ms"), memoryview(b"1ms"), object(), True, 1j, decimal.Decimal("0.001"),
    datetime.timedelta(days=-1), datetime.timedelta(days=999_999_999), numpy.timedelta64("NaT", "s"),
    numpy.timedelta64(1, "M"), numpy.timedelta64(10**18, "s"), numpy.timedelta64(2 * 10**10, "s"),
    numpy.datetime64("2020"),
]  # fmt: skip


@pytest.mark.parametrize("value", TIMES, ids=repr)
def test_what_is_no_time_is_refused(value: Any) -> None:
    refused(lambda: simulated(forward=value))


ONE_MILLISECOND: list[Any] = [
    0.001, "1ms", "1000us", "1e-3s", "1 ms", ["1ms"] * 4, ("1ms", 0.001, "1000us", "1000000ns"), [0.001] * 4,
    datetime.timedelta(milliseconds=1), [datetime.timedelta(milliseconds=1)] * 4, numpy.float64(0.001),
    numpy.full(4, 0.001), numpy.timedelta64(1, "ms"), numpy.timedelta64(1_000_000, "ns"),
    numpy.full(4, 1, dtype="timedelta64[ms]"), numpy.full(4, 1_000_000, dtype="timedelta64[ns]"),
    numpy.full(4, 100, dtype="timedelta64[10us]"), iter(["1ms"] * 4), (one for one in [0.001] * 4),
]  # fmt: skip


@pytest.mark.parametrize("value", ONE_MILLISECOND, ids=repr)
def test_a_millisecond_is_one_however_it_is_written(value: Any) -> None:
    assert simulated(forward=value).span_ns == PLAIN["span_ns"]


def test_pandas_has_times_to_the_nanosecond() -> None:
    pandas = pytest.importorskip("pandas")
    for value in (
        pandas.Timedelta("1ms"),
        pandas.Series([0.001] * 4),
        pandas.Series(["1ms"] * 4),
        pandas.Series([pandas.Timedelta("1ms")] * 4),
    ):
        assert simulated(forward=value).span_ns == PLAIN["span_ns"]
    one = db.Question(forward=[pandas.Timedelta(1_234_567, "ns")])
    assert one == db.Question(forward="1234567ns")
    for nothing in (pandas.NaT, pandas.NA):
        refused(lambda value: simulated(forward=value), nothing)


@pytest.mark.parametrize("stages", [4, numpy.int64(4), numpy.uint8(4), numpy.array(4)], ids=repr)
def test_whole_numbers_of_numpy_are_numbers(stages: Any) -> None:
    assert simulated(stages=stages).span_ns == PLAIN["span_ns"]


def test_too_much_is_refused_before_it_takes_memory() -> None:
    assert refused(lambda: simulated(microbatches=10**9)).key == "microbatches"
    assert refused(lambda: simulated(stages=10**9)).key == "stages"
    refused(lambda: simulated(replicas=10**12))
    refused(lambda: db.fsdp(devices=10**9, minibatches=10**9))
    refused(lambda: db.fsdp(devices=16_000, minibatch_size=10**12))
    refused(lambda: db.sweep(db.Question(**KEYS), {"stages": db.steps(1, 10**12, 1)}, "1f1b"))
    axes = {"stages": list(range(1, 10**4)), "microbatches": list(range(1, 10**5))}
    refused(lambda: db.sweep(db.Question(**KEYS), axes, "1f1b"))
    refused(lambda: db.Schedule.build(10**9, 1, lambda stage: 1 / 0))
    refused(lambda: db.Schedule.from_text("F0.4294967295 BW0.4294967295"))
    refused(lambda: db.search(db.Question(**{**KEYS, "microbatches": 10**7}), memory_limit="1p"))


def test_a_wrong_key_is_told_which_one_was_meant() -> None:
    for wrong, meant in {
        "microbatchs": "microbatches",
        "Stages": "stages",
        "memorylimit": "memory_limit",
    }.items():
        error = refused(lambda key: db.Question(**{key: 4}), wrong)
        assert f"`{meant}`" in error.message
        assert error.key == wrong
    for key in ("", "a b", "\0", "\U0001f4a5", "x" * 10_000, "source ", "a.b", "[a]", "a = 3\nb"):
        assert "there is no key" in refused(lambda key: db.Question(**{key: 4}), key).message
    assert "did you mean `name`" in refused(lambda: db.Question(setting=[{"nme": "x"}])).message
    question = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms")
    assert "give memory_limit" in str(refused(lambda: db.search(question, memory="16GiB")))
    assert "did you mean `devices`" in refused(lambda: db.fsdp(devicez=3)).message
    assert "no key `nope`" in refused(lambda: db.search(db.Question(**KEYS), nope=3)).message
    assert "no key `nope`" in refused(lambda: db.plan(nope=3)).message
    assert "no key `nope`" in refused(lambda: db.Question().replace(nope=3)).message
    inner = refused(lambda: db.Question(setting=[{"name": "a", "setting": []}])).message
    assert "did you mean `setting`" not in inner


def test_a_key_that_lacks_says_so() -> None:
    assert "stages" in refused(lambda: db.simulate(db.Question(forward="1ms"), "1f1b")).message
    assert refused(lambda: db.simulate(db.Question(**KEYS))).help


def test_values_that_hold_themselves_are_refused() -> None:
    table: dict[str, Any] = {}
    table["setting"] = [table]
    refused(lambda: db.Question(**table))
    row: list[Any] = []
    row.append(row)
    refused(lambda: db.Question(forward=row))
    deep: Any = "1ms"
    for _ in range(100_000):
        deep = [deep]
    refused(lambda: db.Question(forward=deep))
    refused(lambda: db.sweep(db.Question(**KEYS), {"forward": row}, "1f1b"))


def test_schedules_have_an_order() -> None:
    for wrong in ({"1f1b", "zb-h1"}, b"1f1b", 3, object(), [None], [3], [["1f1b"]]):
        with pytest.raises(TypeError, match="schedule"):
            db.simulate(db.Question(**KEYS), wrong)
    for wrong in ("", " ", "nope", "1F1B", "1f1b\0", " 1f1b", "ünïcode", "x" * 100_000, [], ["1f1b", "nope"]):
        refused(lambda name: db.simulate(db.Question(**KEYS), name), wrong)
    assert "`1f1b`" in refused(lambda: db.simulate(db.Question(**KEYS), "1F1B")).message


def test_names_of_settings_and_titles_may_be_any_text() -> None:
    name = 'ünï "q" \\ \n <svg>&amp; \u2028 \U0001f4a5'
    answers = db.simulate(db.Question(**KEYS, title=name, setting=[{"name": name}]), "1f1b")
    assert answers["1f1b", name].setting == name
    for page in (answers.to_svg(), answers.front_svg(), answers._repr_html_()):
        assert "<svg>&amp; " not in page
    assert db.Question.from_toml(db.Question(title=name).to_toml()).title == name


def test_lone_surrogates_are_no_text() -> None:
    for ask in (
        lambda: db.simulate(db.Question(**KEYS), "\ud800"),
        lambda: db.Question.from_toml("\ud800"),
        lambda: db.Schedule.from_text("\ud800"),
    ):
        with pytest.raises(ValueError, match="surrogates"):
            ask()
    refused(lambda: db.Question(title="\ud800"))


FILES: list[Any] = ["nope.toml", "/", "/nope/nope", "a\0b", pathlib.Path("nope.toml"), "x" * 5000]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file)[:20])
def test_files_that_cannot_be_read_are_named(file: Any) -> None:
    asks: list[Callable[[], object]] = [
        lambda: db.Question.from_file(file),
        lambda: db.plan(file),
        lambda: db.replay(file),
        lambda: db.verify(file),
        lambda: db.compare(file, file),
    ]
    for ask in asks:
        error = refused(ask)
        assert error.file is not None
        assert "cannot read" in error.message


def test_files_of_schedules_and_clusters_that_cannot_be_read_are_named(tmp_path: pathlib.Path) -> None:
    asks: list[Callable[[pathlib.Path], object]] = [
        lambda file: db.Schedule.from_file(file),
        lambda file: db.simulate(db.Question(**KEYS), file),
        lambda file: simulated(cluster=file, message="1MiB"),
        lambda file: simulated(slowdown_profile=file),
        lambda file: simulated(jitter=f"pass=samples:{file}"),
        lambda file: db.fsdp(lengths=f"file:{file}"),
    ]
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\0")
    for file in (tmp_path, tmp_path / "no.txt", binary):
        for ask in asks:
            assert str(file) in refused(lambda ask, file: ask(file), ask, file).message


@pytest.mark.skipif(not pathlib.Path("/dev/zero").exists(), reason="there is no endless file")
def test_a_file_without_end_is_not_read_to_its_end() -> None:
    assert "larger than" in refused(lambda: db.Question.from_file("/dev/zero")).message
    assert "larger than" in refused(lambda: db.simulate(db.Question(**KEYS), "/dev/zero")).message


def test_files_without_an_end_are_refused() -> None:
    with pytest.raises(db.InputError, match="/dev/zero"):
        db.Schedule.from_file("/dev/zero")


def test_mistakes_in_files_have_file_line_and_column(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "ünï.toml"
    file.write_text('stages = 4\nmicrobatches = "8"\n', encoding="utf-8")
    sources: list[Any] = [file, str(file), file.open(encoding="utf-8"), file.open("rb")]
    for source in sources:
        error = refused(lambda source: db.Question.from_file(source), source)
        assert (error.file, error.line, error.column, error.key) == (str(file), 2, 16, "microbatches")
        assert "ünï.toml:2:16" in str(error)
    for memory in (file.read_bytes(), io.BytesIO(file.read_bytes()), io.StringIO(file.read_text("utf-8"))):
        error = refused(lambda source: db.Question.from_file(source), memory)
        assert (error.file, error.line, error.column) == ("scenario.toml", 2, 16)
    order = tmp_path / "order.txt"
    order.write_text("F0.0 BW0.0\nF1.0 BV1.0\n")
    error = refused(lambda: db.Schedule.from_file(order))
    assert (error.file, error.line, error.column) == (str(order), 2, 6)
    assert "order.txt" in error.message
    late = refused(lambda: db.simulate(db.Question.from_toml("stages = 4\nmicrobatches = 0\n"), "1f1b"))
    assert late.message


def test_only_files_are_read() -> None:
    class Odd:
        name = 7

        def read(self) -> object:
            return 5

    class Broken:
        def read(self) -> bytes:
            raise OSError("the disk is gone")

    for source in (3, None, object(), Odd(), ["a"]):
        with pytest.raises(TypeError):
            db.Question.from_file(source)
    with pytest.raises(OSError, match="the disk is gone"):
        db.Question.from_file(Broken())
    closed = io.BytesIO(b"")
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        db.Question.from_file(closed)
    for text in (3, b"stages = 4", None):
        with pytest.raises(TypeError):
            db.Question.from_toml(text)
    refused(lambda: db.Question.from_file(b"x" * (17 << 20)))
    refused(lambda: db.Question.from_toml("forward = " + "[" * 100_000))


TEXTS = [
    "", " ", "\n\n", "F0.0", "BW0.0 F0.0", "F0.0 F0.0 BW0.0", "F0.0 B0.0", "F0.0 BW0.0\nF1.0",
    "F0.0 BW0.0\n\nF1.0 BW1.0", "F0.4294967296 BW0.0", "F0.99999999999999999999 BW0.0", "F70000.0 BW0.0",
    "F0.1 BW0.1", "F0.1000000 BW0.1000000", "X0.0", "F0", "F0.0&", "&", "F0.0&BW0.0", "F0.0|BW0.0", "\0",
    "\U0001f4a5", "F0.0 " * 100_000, "\n" * 100_000, "f0.0 bw0.0", "F-1.0 BW0.0", "F0.0 BW0.0 #x",
    "F0.0 BW1.0\nF1.0 BW0.0", "A" * 1_000_000, "F0.0 S0.0 T0.0 BW0.0", "F\u0663.0 BW0.0",
    "vocabulary 3\nF0.0 BW0.0", "vocabulary 1", "F0.0 BW0.0 | O0.0@7", "F0.0 BW0.0 |2",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:24]))
def test_hostile_texts_of_schedules_are_refused(text: str) -> None:
    refused(lambda: db.Schedule.from_text(text))


def test_wrong_orders_are_refused() -> None:
    build = db.Schedule.build
    one = [F(0), BW(0)]
    asks: dict[str, Callable[[], object]] = {
        "not 2": lambda: build(1, 2, lambda stage: one),
        "but there are orders of 1": lambda: build(2, 1, [one]),
        "but there are orders of 2": lambda: build(1, 1, [one, one]),
        "BW0.1 is missing": lambda: build(1, 2, lambda stage: [F(0), F(1), BW(0)]),
        "already done": lambda: build(1, 1, lambda stage: [F(0), F(0), BW(0)]),
        "deadlock": lambda: build(2, 1, [one, [BW(0), F(0)]]),
        "F0.-1": lambda: build(1, 1, lambda stage: [F(-1), BW(-1)]),
        "F0.0.5": lambda: build(1, 1, lambda stage: [F(0.5), BW(0)]),
        "not one slot": lambda: build(1, 1, lambda stage: ["F0.0 BW0.0"]),
        "is not one": lambda: build(1, 1, lambda stage: [db.Pass("F0.0 BW", 0)]),
        "X0.0": lambda: build(1, 1, lambda stage: [db.Pass("X", 0), BW(0)]),
        "is empty": lambda: build(0, 1, lambda stage: one),
        "waits for": lambda: build(1, 1, lambda stage: [F(0), W(0), B(0)]),
        "name": lambda: build(1, 1, lambda stage: one, name="a/b"),
    }
    for words, ask in asks.items():
        assert words in refused(ask).message
    wrong: list[Callable[[], object]] = [
        lambda: build(1, 1, lambda stage: [3]),
        lambda: build(1, 1, lambda stage: [("F", 0)]),
        lambda: build(1, 1, lambda stage: None),
        lambda: build(1.0, 1, lambda stage: one),
        lambda: build(1, 1, lambda stage: one, name=3),
        lambda: db.Schedule.from_text(b"F0.0 BW0.0"),
        db.Schedule,
    ]
    for ask in wrong:
        with pytest.raises(TypeError):
            ask()
    with pytest.raises(ZeroDivisionError):
        build(1, 1, lambda stage: 1 / 0)
    refused(lambda: db.simulate(db.Question(**KEYS), build(1, 1, lambda stage: one)))


def test_a_stage_that_is_not_there() -> None:
    schedule = db.Schedule.from_text("F0.0 BW0.0")
    for stage in (1, -1, 2**70):
        with pytest.raises(IndexError):
            schedule.slots(stage)


def test_an_outcome_that_is_not_there_is_a_key_or_index_error() -> None:
    answers = db.simulate(db.Question(**KEYS), ["1f1b", "zb-h1"])
    for which in ("zb-v", ("1f1b", "far"), (), ("1f1b", "a", "b"), None, 3.0, b"1f1b"):
        with pytest.raises(KeyError, match="1f1b, zb-h1"):
            answers[which]
    for at in (2, -3, 10**30):
        with pytest.raises(IndexError):
            answers[at]
    found = db.search(db.Question(**KEYS), memory_limits=["1p", "2p"], effort=0)
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(ValueError, match="2 results"):
        _ = found.schedule


def test_what_is_no_question_is_a_type_error() -> None:
    for wrong in ("question.toml", None, 3, {}, KEYS):
        for ask in (
            lambda one: db.simulate(one, "1f1b"),
            lambda one: db.search(one, memory_limit="1p"),
            lambda one: db.sweep(one, {"stages": [2]}, "1f1b"),
            lambda one: db.export(one, "1f1b"),
        ):
            with pytest.raises(TypeError, match="Question"):
                ask(wrong)
    for axes in (3, None, "stages", [("stages", [2])]):
        with pytest.raises(TypeError, match="axes"):
            db.sweep(db.Question(**KEYS), axes, "1f1b")
    with pytest.raises(TypeError, match="progress"):
        db.simulate(db.Question(**KEYS), "1f1b", progress=3)
    with pytest.raises(TypeError, match="executor"):
        db.sweep(db.Question(**KEYS), {"stages": [2]}, "1f1b", executor=3)


AXES: list[dict[Any, Any]] = [
    {}, {"nope": [1]}, {"stages": []}, {"stages": 4}, {"stages": "4"}, {"stages": None}, {"stages": [4, 4]},
    {"stages": [-1]}, {"stages": [2, "x"]}, {"stages": db.steps(2, 1, 1)}, {"stages": db.steps(2, 4, 0)},
    {"stages": db.factors(1, 8, 1)}, {"stages": db.steps("a", "b", "c")}, {"stages": db.steps(NAN, 1, 1)},
    {"stages": {2, 3}}, {"stages": {"from": 1}}, {"stages": {"from": 1, "to": 2, "step": 1, "factor": 2}},
    {"title": ["x"]}, {"setting": [1]}, {"forward": [NAN]}, {"seed": [2**64]}, {1: [2]}, {"hop": [object()]},
]  # fmt: skip


@pytest.mark.parametrize("axes", AXES, ids=repr)
def test_what_is_no_axis_is_refused(axes: dict[Any, Any]) -> None:
    refused(lambda: db.sweep(db.Question(**KEYS), axes, "1f1b"))


def test_steps_are_in_the_units_of_their_key() -> None:
    question = db.Question(**KEYS, activation="1GiB")
    hops = ["0ms", "0.5ms", "1ms"]
    expected = db.sweep(question, {"hop": hops}, "1f1b").columns["span_ns"].tolist()
    half = datetime.timedelta(microseconds=500)
    for axis in (
        db.steps(0, 0.001, 0.0005),
        db.steps("0ms", "1ms", "0.5ms"),
        db.steps(datetime.timedelta(0), 2 * half, half),
        [0, 0.0005, 0.001],
    ):
        assert db.sweep(question, {"hop": axis}, "1f1b").columns["span_ns"].tolist() == expected
    sizes = db.sweep(question, {"memory_limit": db.steps(4 << 30, 8 << 30, 2 << 30)}, "zb-heuristic")
    assert len(sizes) == 3


def test_a_place_to_write_that_is_not_there(tmp_path: pathlib.Path) -> None:
    answers = db.simulate(db.Question(**KEYS), "1f1b")
    for name in ("x.nope", "x", "", "x.JSON.gz"):
        assert ".json" in str(refused(lambda name: answers.save(tmp_path / name), name))
    with pytest.raises(FileNotFoundError) as raised:
        answers.save(tmp_path / "nowhere" / "x.json")
    assert raised.value.filename == str(tmp_path / "nowhere" / "x.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(IsADirectoryError):
        answers.save(tmp_path / "folder.json")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder.json"]


def test_keys_that_need_or_exclude_each_other() -> None:
    question = db.Question(**KEYS)
    trace = db.simulate(question, "1f1b")[0].to_trace()
    small: dict[str, Any] = {"devices": 2, "minibatch_size": 1, "minibatches": 2}
    asks: dict[str, Callable[[], object]] = {
        "bandwidth": lambda: db.fsdp(**small, parameters="1GB"),
        "parameters": lambda: db.fsdp(**small, bandwidth="50GB/s"),
        "latency": lambda: db.fsdp(**small, latency="1us"),
        "owners": lambda: db.fsdp(**small, owners=1),
        "no_overlap": lambda: db.fsdp(**small, no_overlap=True),
        "packing_ratio": lambda: db.fsdp(**small, packing_ratio=1, max_tokens=10**6),
        "memory_limits": lambda: db.search(question, memory_limit="1p", memory_limits=["1p", "2p"]),
        "hidden": lambda: db.replay(trace, schedule="zb-h1", hidden=1024),
        "backward_split": lambda: db.replay(trace, schedule="zb-h1", hidden=1, seq=1, backward_split=0.5),
        "backward": lambda: simulated(backward_input="1ms"),
    }
    for words, ask in asks.items():
        assert words in refused(ask).message


def test_other_questions_refuse_what_they_do_not_know() -> None:
    question = db.Question(**KEYS)
    first = db.simulate(question, ["1f1b", "zb-h1"])
    asks: dict[str, Callable[[], object]] = {
        "did you mean": lambda: db.reproduce("table55"),
        "cannot read": lambda: db.reproduce("table2", paper="/nope"),
        "at most": lambda: db.reproduce("table5", beyond=True, effort=10**9),
        "there is no question": lambda: db.schema("x"),
        "one schedule": lambda: db.export(question, ["1f1b", "zb-h1"]),
        "are text, torch-csv, primus, chrome": lambda: db.export(question, "1f1b", format="svg"),
        "at least": lambda: db.search(question, memory_limit="0.01p"),
        "cannot be compared": lambda: db.compare(first[0], first[1]),
        "not a timeline": lambda: db.compare(first[0], b"{}"),
        "no operations": lambda: db.replay(b"[]"),
        "Parquet": lambda: db.replay(b"PAR1" + bytes(100) + b"PAR1"),
        "the key `model` is missing": lambda: db.plan(),
        "sort": lambda: db.simulate(question, "1f1b", sort="speed"),
        "no key `exact`": lambda: db.search(question, memory_limit="1p", exact=True),
        "there is no picture": lambda: db.schedules().to_svg(),
    }
    for words, ask in asks.items():
        error = refused(ask)
        assert words in str(error), words
    with pytest.raises(TypeError, match="not both"):
        db.plan("plan.toml", tokens=1e9)


def test_an_error_is_a_value_with_all_its_parts() -> None:
    error = refused(lambda: db.Question(stages=4, microbatchs=8))
    assert (error.key, error.file, error.line, error.column) == ("microbatchs", None, None, None)
    assert str(error).startswith(error.message)
    assert error.help is not None
    assert error.help.split()[0] in str(error)
