"""Answers as objects: indexing, columns, frames, explanations, pictures, pickles."""

from __future__ import annotations

import copy
import gc
import html.parser
import importlib
import io
import json
import pickle
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import doors
import numpy
import pytest

import debubble as db
from debubble import BW, B, F

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

TIMES: dict[str, Any] = {
    "stages": 4,
    "microbatches": 8,
    "forward": "10ms",
    "backward_input": "11ms",
    "backward_weight": "7ms",
    "hop": "500us",
}


def question(**more: Any) -> db.Question:
    return db.Question(**{**TIMES, **more})


@pytest.fixture(scope="module")
def answers() -> db.Answers:
    settings = [{"name": "near"}, {"name": "far", "hop": "4ms"}]
    return db.simulate(question(setting=settings), ["1f1b", "zb-h1", "zb-v"])


def test_outcomes_are_found_by_number_and_name(answers: db.Answers) -> None:
    assert isinstance(answers, Sequence)
    assert len(answers) == 6
    names = [(one.setting, one.schedule) for one in answers]
    assert names == [(setting, name) for setting in ("near", "far") for name in ("1f1b", "zb-h1", "zb-v")]
    assert answers["zb-h1"] is answers[1]
    assert answers["zb-h1", "far"] is answers[4]
    assert answers[-1] is answers["zb-v", "far"]
    assert answers[1:4] == [answers[1], answers[2], answers[3]]
    assert answers[::-1][0] is answers[5]
    assert answers[numpy.int64(2)] is answers[2]
    assert next(reversed(answers)) is answers[5]
    assert answers[3] in answers


def test_attributes_are_the_figures_of_the_json(answers: db.Answers) -> None:
    for one, figures in zip(answers, json.loads(answers.to_json())["results"]):
        assert one.to_dict() == figures
        assert json.loads(one.to_json()) == figures
        for name in (
            "stages", "microbatches", "chunks", "bubble_rate", "bubble_rate_makespan", "span_ns",
            "makespan_ns", "work_ns", "peak_activation_bytes", "peak_in_flight", "fits",
        ):  # fmt: skip
            assert getattr(one, name) == figures[name], name
        assert one.bubble_rate == (one.span_ns - one.work_ns) / one.span_ns


def test_columns_of_a_timeline_are_those_of_the_file(command: doors.Command, tmp_path: Path) -> None:
    outcome = db.simulate(question(), "zb-v")[0]
    timeline = outcome.timeline
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in TIMES.items()]
    command.stdout("simulate", *flags, "--schedule=zb-v", "--timeline", tmp_path / "t.json", "--json")
    recorded = json.loads((tmp_path / "t.json").read_text())
    assert recorded == json.loads(outcome.recorded())
    assert len(timeline) == 3 * 4 * 8 * 2 == len(outcome.order)
    for name, column in timeline.columns.items():
        assert column.shape == (len(timeline),)
        assert column.dtype == ("<U2" if name == "kind" else numpy.int64)
        assert column.flags.owndata or column.base is not None
    assert (timeline.end_ns > timeline.start_ns).all()
    assert int(timeline.end_ns.max()) == outcome.makespan_ns
    for stage in range(4):
        own = timeline.stage == stage
        assert (numpy.diff(timeline.start_ns[own]) > 0).all(), "stages run one pass after the other"
        kinds = [str(kind) for kind in timeline.kind[own]]
        rows = zip(kinds, timeline.microbatch[own].tolist(), timeline.chunk[own].tolist())
        assert [db.Pass(*row) for row in rows] == outcome.order.slots(stage)
    events = [one for one in json.loads(outcome.to_trace())["traceEvents"] if one["ph"] == "X"]
    begun = sorted(round(one["ts"] * 1000) for one in events if "microbatch" in one.get("args", {}))
    assert begun == sorted(timeline.start_ns.tolist())


def test_passes_that_run_together_share_a_slot() -> None:
    orders: list[list[Any]] = [[F(0), F(1) & BW(0), BW(1)]]
    schedule = db.Schedule.build(1, 2, orders)
    timeline = db.simulate(question(stages=1, microbatches=2), schedule)[0].timeline
    assert timeline.slot.tolist() == [0, 1, 1, 2]
    assert timeline.kind.tolist() == ["F", "F", "BW", "BW"]
    assert timeline.start_ns[1] == timeline.start_ns[2]
    assert timeline.end_ns[1] == timeline.end_ns[2]


def test_columns_outlive_their_answer() -> None:
    answers = db.simulate(question(microbatches=400), "zb-h1")
    timeline = answers[0].timeline
    columns = dict(timeline.columns)
    kept = {name: column.copy() for name, column in columns.items()}
    del answers, timeline
    gc.collect()
    assert len(db.simulate(question(microbatches=400, forward="1ms"), "1f1b")[0].timeline) > 0
    for name, column in columns.items():
        assert (column == kept[name]).all()
    rows = db.sweep(question(), {"microbatches": list(range(4, 100))}, "1f1b")
    spans = rows.columns["span_ns"]
    first = spans.tolist()
    del rows
    gc.collect()
    assert spans.tolist() == first


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_the_rows_of_the_json(library: str, answers: db.Answers) -> None:
    pytest.importorskip(library)
    frame = getattr(answers, f"to_{library}")()
    results = answers.to_dict()["results"]
    assert frame.shape[0] == len(results)
    assert set(results[0]) <= {str(name).split(".")[0] for name in frame.columns}
    for name in ("schedule", "setting", "span_ns", "bubble_rate", "peak_in_flight"):
        assert list(map(_plain, frame[name])) == [one[name] for one in results]
    timeline = answers[0].timeline
    columns = getattr(timeline, f"to_{library}")()
    seconds = ["start_seconds", "end_seconds"]
    assert [name for name in columns.columns if name not in seconds] == list(timeline.columns)
    assert columns.shape == (len(timeline), 9)
    assert columns["end_seconds"].to_list() == timeline.end_seconds.tolist()
    assert columns["end_ns"].to_list() == timeline.end_ns.tolist()
    why = answers[0].why()
    levers = getattr(why, f"to_{library}")()
    assert levers.shape[0] == len(why.levers)


def _plain(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def swept() -> db.Sweep:
    settings = [{"name": "near"}, {"name": "far", "hop": "4ms"}]
    axes = {"microbatches": [2, 8, 12], "memory_limit": ["1p", "2p"]}
    return db.sweep(question(setting=settings), axes, ["zb-heuristic", "dualpipe-v"])


def test_frames_of_a_sweep_have_its_types() -> None:
    rows = swept()
    assert any(rows.columns["error"])
    assert not all(rows.columns["error"])
    dicts = rows.to_dicts()
    assert len(dicts) == len(rows) == 2 * 2 * 6
    assert [row["index"] for row in dicts] == list(range(len(rows)))
    wrong = next(row for row in dicts if row["error"])
    assert (wrong["span_ns"], wrong["bubble_rate"]) == (None, None)
    assert all(type(value) in (int, float, str, bool, type(None)) for value in wrong.values())


def test_axes_are_the_numbers_that_keywords_take() -> None:
    pandas = pytest.importorskip("pandas")
    q = question(activation="1GiB")
    axes = {"memory_limit": ["4GiB", 6 << 30], "hop": ["500us", 0.004], "optimizer": ["0ms", "1ms"]}
    rows = db.sweep(
        q.replace(cluster="dgx-a100", message="1MiB", steps=2), {"optimizer": axes["optimizer"]}, "1f1b"
    )
    assert rows.columns["optimizer"].tolist() == [0, 0.001]
    rows = db.sweep(q, {"memory_limit": axes["memory_limit"], "hop": axes["hop"]}, "zb-heuristic")
    frame = rows.to_pandas()
    assert frame["memory_limit"].tolist() == [4 << 30, 4 << 30, 6 << 30, 6 << 30]
    assert frame["hop_ns"].tolist() == [500_000, 4_000_000] * 2
    kinds = [str(frame[name].dtype) for name in ("hop", "hop_ns", "memory_limit")]
    assert kinds == ["float64", "int64", "int64"]
    for row in rows:
        again = q.replace(memory_limit=row["memory_limit"], hop=row["hop"])
        assert db.simulate(again, "zb-heuristic")[0].span_ns == row["span_ns"]
    mixed = db.sweep(q, {"memory_limit": ["1p", "4GiB"]}, "zb-heuristic").to_pandas()
    assert mixed["memory_limit"].tolist() == ["1p", "4GiB"], "no unit is that of both"
    assert pandas.api.types.is_numeric_dtype(frame["memory_limit"])
    noisy = db.sweep(q.replace(jitter="pass=normal:0.05", replicas=4), {"seed": [1, 2]}, "1f1b").to_pandas()
    seconds = [name for name in noisy.columns if "_seconds" in name]
    assert len(seconds) > 30 and all(name.replace("_seconds", "_ns") in noisy.columns for name in seconds)
    assert all(str(name).isidentifier() for name in noisy.columns)


def test_chunks_that_do_not_apply_are_told_of() -> None:
    with pytest.warns(db.Note, match="zb-v: always 2 chunks per stage, chunks = 3 is ignored"):
        rows = db.sweep(question(), {"chunks": [2, 3]}, "zb-v")
    assert rows.columns["chunks_asked"].tolist() == [2, 3]
    assert rows.columns["chunks"].tolist() == [2, 2]


def test_asynchronous_schedules_are_the_best_only_where_there_are_no_others() -> None:
    names = ["pipedream", "1f1b", "zb-h1"]
    with pytest.warns(db.Note, match="pipedream: asynchronous"):
        answers = db.simulate(question(), names, sort="step")
    rows = db.sweep(question(), {"microbatches": [4, 8]}, names)
    alone = db.simulate(question(), "pipedream")
    listed = db.simulate_all([question()], names)
    every = db.simulate(question(), "all")
    assert answers["pipedream"].span_ns < answers["zb-h1"].span_ns
    assert [one.schedule for one in answers] == ["zb-h1", "1f1b", "pipedream"]
    assert answers.rows.column("asynchronous") == [False, False, True]
    for by in ("bubble_rate", "span_ns"):
        assert answers.best(by).schedule == rows.best(by).schedule == "zb-h1"
        assert listed.rows.best(by).schedule == "zb-h1"
        assert not every.best(by).schedule.startswith("pipedream")
    assert rows.columns["asynchronous"].tolist() == [True, False, False] * 2
    assert alone.best().schedule == "pipedream"
    assert "asynchronous" not in swept().columns


def test_the_best_is_the_least_or_the_greatest_that_fits() -> None:
    answers = db.simulate(question(memory_limit="1p"), ["1f1b", "zb-h1", "zb-h2"])
    fits = [one for one in answers if one.fits is not False]
    assert len(fits) == 2
    assert answers.best() is min(fits, key=lambda one: one.bubble_rate)
    assert answers.best("bubble_rate", greatest=True) is max(fits, key=lambda one: one.bubble_rate)
    assert answers.best("span_seconds", fitting=False) is min(answers, key=lambda one: one.span_ns)
    assert answers.best("span_seconds").span_seconds == answers.best("span_ns").span_ns / 1e9
    for wrong, words in [
        ("bubbles", "the columns are"),
        ("schedule", "columns of numbers are"),
        ("fits", "no numbers"),
    ]:
        with pytest.raises(db.InputError, match=words) as raised:
            answers.best(wrong)
        assert raised.value.key == "by"
    with pytest.raises(db.InputError, match="no row keeps its memory limit"):
        db.simulate(question(memory_limit="0.5p"), ["1f1b"]).best()
    with pytest.raises(db.InputError, match="`peak_activation_bytes` has no numbers"):
        answers.best("peak_activation_bytes")
    rows = swept()
    least = min(
        row["bubble_rate"] for row in rows if row["bubble_rate"] is not None and row["fits"] is not False
    )
    assert rows.best().bubble_rate == least
    every = found()
    assert every.best() is min(every, key=lambda one: one.cost_ns)
    assert packed().best("bubble_rate").bubble_rate == min(packed().rows.column("bubble_rate"))
    assert plan().plans.best("dollars").dollars == min(plan().plans.column("dollars"))


def test_frames_of_every_answer_have_names_and_numbers() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for name, make in MADE.items():
        answer = make()
        frame, other = answer.to_pandas(), answer.to_polars()
        assert isinstance(frame, pandas.DataFrame) and isinstance(other, polars.DataFrame)
        assert list(frame.columns) == other.columns and len(frame) == len(other) > 0
        for column in frame.columns:
            assert all(part.isidentifier() for part in column.split(".")), (name, column)
            if column.endswith("_ns") and frame[column].notna().any():
                seconds = frame[column.replace("_ns", "_seconds")]
                if isinstance(frame[column].iloc[0], list):
                    assert seconds.iloc[0] == [one / 1e9 for one in frame[column].iloc[0]]
                    continue
                assert pandas.api.types.is_numeric_dtype(frame[column]), (name, column)
                assert (seconds * 1e9 - frame[column].astype(float)).abs().max() < 1


def test_a_sweep_in_pandas_is_its_csv() -> None:
    pandas = pytest.importorskip("pandas")
    rows = swept()
    frame = rows.to_pandas()
    read = pandas.read_csv(io.StringIO(rows.to_csv()))
    plain = [name for name in frame.columns if not re.search("_seconds|_text$", name)]
    assert plain == [name.replace("-", "_") for name in read.columns]
    assert frame["memory_limit"].tolist() == [float(text[:-1]) for text in read["memory-limit"]]
    assert frame["span_ns"].dtype == "Int64"
    assert frame["span_ns"].isna().sum() == sum(error is not None for error in rows.columns["error"])
    for name in ("microbatches", "bubble_rate", "span_ns", "schedule", "setting"):
        theirs = read[name].astype("object").where(read[name].notna(), None).tolist()
        ours = frame[name].astype("object").where(frame[name].notna(), None).tolist()
        assert ours == theirs, name


def test_a_sweep_in_polars_is_its_csv() -> None:
    polars = pytest.importorskip("polars")
    rows = swept()
    frame = rows.to_polars()
    assert frame.schema["span_ns"] == polars.Int64
    assert frame["bubble_rate"].null_count() == frame["error"].is_not_null().sum() > 0
    read = polars.read_csv(io.StringIO(rows.to_csv()), infer_schema_length=None)
    for name in ("microbatches", "bubble_rate", "span_ns", "schedule", "setting"):
        assert frame[name].to_list() == read[name].to_list(), name


def test_why_is_the_explanation_of_simulate_and_its_causes_add_up() -> None:
    noisy = question(backward_weight=["7ms", "7ms", "9ms", "7ms"], jitter=["pass=lognormal:0.05"], seed=5)
    names = ["1f1b", "zb-h1", "zb-v"]
    explained = db.simulate(noisy, names, explain=True)
    plain = db.simulate(noisy, names)
    for one, other in zip(explained, plain):
        why = other.why()
        assert why.to_dict() == one.to_dict()["explain"]
        assert len(why.stages) == 4
        assert why.causes
        for stage in why.stages:
            assert sum(stage[cause] for cause in why.causes) == stage.idle_ns
            assert stage.busy_ns + stage.idle_ns + stage.get("optimizer_ns", 0) == why.cost_ns
        assert len(why.critical_path) > 0
        saved = [lever.get("saved_ns", 0) for lever in why.levers]
        assert len(saved) > 0
        assert "explain" not in other.to_dict()


def test_causes_of_streams_add_up_to_what_is_idle_and_what_is_exposed() -> None:
    chain = ["attention=4ms/9ms/2ms", "dispatch=6ms/7ms", "experts=4ms/5ms/6ms", "combine=8ms/5ms"]
    overlapped = db.Question(stages=4, microbatches=8, layers=16, hop="2ms", chain=chain)
    for one in db.simulate(overlapped, ["dualpipe", "1f1b-i-overlap"]):
        why = one.why()
        assert "communication_not_hidden_ns" in why.causes and "exposed_ns" not in why.causes
        for stage in why.stages:
            causes = sum(stage[cause] for cause in why.causes)
            assert causes == stage.idle_ns + stage.exposed_ns
            assert stage.busy_ns == stage.computing_ns + stage.exposed_ns
        used, hidden = one.compute_utilisation, one.communication_hidden
        assert used is not None and 0 < used < 1 - one.bubble_rate
        assert hidden is not None and 0 < hidden < 1
    plain = db.simulate(question(), "1f1b")[0]
    assert plain.compute_utilisation is None and plain.communication_hidden is None


def test_a_schedule_of_ones_own_goes_all_the_way_round() -> None:
    def order(stage: int) -> list[Any]:
        warm = [F(m) for m in range(4 - stage)]
        steady = [one for m in range(4 + stage) for one in (BW(m), F(m + 4 - stage))]
        cool = [BW(m) for m in range(4 + stage, 8)]
        return warm + steady + cool

    mine = db.Schedule.build(4, 8, order, name="mine")
    assert (mine.stages, mine.microbatches, mine.chunks, mine.placement, len(mine)) == (4, 8, 1, "looped", 64)
    assert db.Schedule.from_text(mine.to_text()) == mine
    assert db.Schedule.build(4, 8, list(mine)) == mine
    assert hash(db.Schedule.from_text(str(mine))) == hash(mine)
    assert mine != db.Schedule.from_text("F0.0 BW0.0")
    assert mine != "mine"
    assert len({mine, db.Schedule.from_text(str(mine))}) == 1
    assert [mine.slots(stage) for stage in range(4)] == list(mine)
    assert mine.slots(0)[0] == db.Pass("F", 0, 0)
    answers = db.simulate(question(), [mine, "1f1b"])
    assert answers["mine"].order == mine
    assert answers["mine"].span_ns == answers["1f1b"].span_ns
    assert db.simulate(question(schedule=[mine]))["mine"].to_dict() == answers["mine"].to_dict()
    again = db.sweep(question(), {"hop": ["0ms", "500us"]}, [mine])
    assert again.columns["span_ns"].tolist()[1] == answers["mine"].span_ns
    well_formed(mine.to_svg())


@pytest.mark.parametrize(
    ("name", "more", "placement", "chunks"),
    [
        ("1f1b-i", {"chunks": 2}, "looped", 2),
        ("zb-v", {}, "v", 2),
        ("dualpipe", {"microbatches": 8}, "mirrored", 1),
        ("vocab-1", {"vocab_s": "1ms", "vocab_t": "1ms"}, "looped", 1),
        ("po-h", {"chunks": 2, "offload_time": "1ms", "activation": "1GiB"}, "looped", 2),
    ],
)
def test_orders_of_every_kind_are_the_same_as_text(
    name: str, more: dict[str, Any], placement: str, chunks: int, tmp_path: Path
) -> None:
    outcome = db.simulate(question(**more), name)[0]
    order = outcome.order
    assert (order.placement, order.chunks, order.name) == (placement, chunks, name)
    order.save(tmp_path / "order.txt")
    again = db.Schedule.from_file(tmp_path / "order.txt")
    assert (again, again.name) == (order, "order")
    assert pickle.loads(pickle.dumps(order)) == order
    assert sum(len(slots) for slots in order) <= len(order)
    well_formed(order.to_svg())


def test_frames_of_pairs_have_both_passes() -> None:
    slots = db.simulate(question(stages=4, microbatches=8), "dualpipe-v")[0].order.slots(0)
    pairs = [slot for slot in slots if isinstance(slot, db.Pair)]
    assert pairs
    assert all(pair == (pair.first & pair.second) for pair in pairs)


def found() -> db.Found:
    return db.search(question(), memory_limits=["1p", "1.5p"], effort=0)


def test_a_found_order_is_what_it_says() -> None:
    every = found()
    assert [one.memory_limit for one in every] == ["1p", "1.5p"]
    for one in every:
        assert one.predicted.span_ns == one.cost_ns >= one.bound_ns
        assert one.gap == (one.cost_ns - one.bound_ns) / one.cost_ns
        assert one.predicted.order == one.schedule
        verified = db.verify(one.certificate)
        assert verified.holds
        assert verified.refused is None
        well_formed(one.to_svg())
    single = db.search(question(), memory_limit="1p", effort=0)
    assert single.schedule == every[0].schedule
    assert (single.cost_ns, single.bound_ns, single.gap) == (
        every[0].cost_ns,
        every[0].bound_ns,
        every[0].gap,
    )


def test_layers_that_are_searched_with_the_order_are_simulated_as_chosen() -> None:
    model = db.Question(
        stages=2,
        microbatches=4,
        layers=6,
        chain=["layer=3ms/3ms/3ms"],
        chain_tail=["head=4ms/4ms/4ms"],
        activation="6GB",
    )
    one = db.search(model, memory_limit="20GB", vary=["layers", "chunks"], max_chunks=2, effort=0)[0]
    assert one.predicted.span_ns == one.cost_ns
    assert one.question.layout == one.to_dict()["layout"]
    assert all(one.cost_ns <= other["cost_ns"] for other in one.to_dict()["joint"]["published"])


def test_the_integer_program_of_a_found_order_is_solved_and_written(tmp_path: Path) -> None:
    small = db.Question(
        stages=3, microbatches=6, forward="4ms", backward_input="4ms", backward_weight="4ms", hop="1ms"
    )
    solved = db.search(small, memory_limit="0.7p", effort=0, ilp=True)
    row = solved[0].to_dict()
    assert (row["argument"], row["binaries"], row["solved"]) == ("branching", 135, True)
    assert solved.gap == 0
    assert db.verify(solved.certificate).holds
    for form, begin in ((".lp", "\\ The order of passes"), (".mps", "* The order of passes")):
        solved.save(tmp_path / f"order{form}")
        assert (tmp_path / f"order{form}").read_text().startswith(begin)
    assert "o_F0_1_B0_0" in solved.to_lp()
    assert "o_F0_1_B0_0" in solved.to_mps()
    with pytest.raises(ValueError, match="search again"):
        pickle.loads(pickle.dumps(solved)).to_lp()


def test_a_found_order_of_several_settings_is_simulated_in_its_own() -> None:
    settings = [{"name": "near"}, {"name": "far", "hop": "4ms"}]
    for one in db.search(question(setting=settings), memory_limit="1p", effort=0):
        assert one.predicted.span_ns == one.cost_ns


def well_formed(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")


#: Elements of HTML that have no end.
_EMPTY = {"br", "hr", "img", "meta", "link", "input", "col", "wbr"}


class _Reader(html.parser.HTMLParser):
    """Asserts that every element ends where it should."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)


def page(text: str) -> set[str]:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader.seen


def plan() -> db.Planned:
    return db.plan(
        model={"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 8000},
        sequence=512,
        tokens=1e8,
        batch=8,
        cluster=[{"machine": "a100-80g", "devices": [2]}],
        search={"tensor": [1], "chunks": [1]},
    )


def packed() -> db.Packed:
    return db.fsdp(devices=2, minibatch_size=[1, 2], packing_ratio=1, minibatches=2)


def compared() -> db.Comparison:
    return db.compare(db.simulate(question(), "1f1b")[0], db.simulate(question(hop="2ms"), "1f1b")[0])


def replayed() -> db.Replayed:
    return db.replay(db.simulate(question(), "1f1b")[0].to_trace(), what_if=["balanced"])


def simulated() -> db.Answers:
    return db.simulate(question(hidden=1024, heads=8, seq=512), ["1f1b", "zb-v"], explain=True)


#: Something of every kind that a question is answered with.
MADE: dict[str, Callable[[], Any]] = {
    "answers": simulated,
    "found": found,
    "planned": plan,
    "packed": packed,
    "comparison": compared,
    "replayed": replayed,
    "verified": lambda: db.verify(found()[0].certificate),
    "reproduced": lambda: db.reproduce("table2"),
    "schedules": db.schedules,
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_notebook_shows_is_well_formed(name: str) -> None:
    answer = MADE[name]()
    shown = answer._repr_html_()
    assert page(shown) & {"table", "pre"}
    assert repr(answer)
    assert "\x1b" not in shown
    assert not hasattr(answer, "_repr_svg_"), "notebooks keep every form"
    if name in ("answers", "found", "planned", "packed", "comparison"):
        well_formed(answer.to_svg())


@pytest.mark.parametrize("name", [name for name in MADE if name != "schedules"])
def test_an_answer_begins_with_its_headline(name: str) -> None:
    answer = MADE[name]()
    headline = answer.headline.split()
    assert headline and repr(answer).split()[: len(headline)] == headline
    assert answer.to_dict()["headline"] == answer.headline


def test_what_else_is_drawn_is_well_formed(answers: db.Answers) -> None:
    explained = simulated()
    for svg in (answers.to_svg(), answers.front_svg(), explained.explain_svg(), answers[0].to_svg()):
        well_formed(svg)
    assert "html" in page(answers.to_html())
    assert "html" in page(plan().to_html())
    assert "table" in page(answers[0].why()._repr_html_())
    well_formed(found().front_svg())


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_a_notebook_shows_big_answers_in_few_bytes() -> None:
    most = 100_000
    big = db.simulate(question(stages=32, microbatches=256), ["1f1b", "zb-h1", "zb-v"])
    many = db.simulate(question(stages=8, microbatches=64), "all")
    wide = db.simulate(question(stages=8, microbatches=2_000), ["zb-v", "zb-h1"])
    for answers in (big, many, wide):
        assert len(answers._repr_html_()) < most
        assert len(repr(answers)) < most
    assert len(repr(db.sweep(question(), {"microbatches": list(range(1, 500))}, "1f1b"))) < 10_000
    assert len(repr(big[0].timeline)) < 200
    assert len(repr(big[0].order)) < 200


def pickled(protocol: int) -> Callable[[Any], Any]:
    return lambda one: pickle.loads(pickle.dumps(one, protocol))


def cloudpickled(one: Any) -> Any:
    cloudpickle = pytest.importorskip("cloudpickle")
    return pickle.loads(cloudpickle.dumps(one))


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle 2": pickled(2),
    "pickle": pickled(pickle.HIGHEST_PROTOCOL),
    "cloudpickle": cloudpickled,
}


@pytest.mark.parametrize("way", COPIES)
def test_questions_and_schedules_are_copied(way: str) -> None:
    mine = db.Schedule.from_text("F0.0 BW0.0", name="mïne")
    settings = [{"name": "a"}, {"name": "b", "hop": "1ms", "published": {"1f1b": "3"}}]
    for one in (db.Question(), question(schedule=["1f1b", mine], title="ü"), question(setting=settings)):
        again = COPIES[way](one)
        assert (again, hash(again), repr(again)) == (one, hash(one), repr(one))
        assert again.to_toml() == one.to_toml()
    schedule = COPIES[way](mine)
    assert (schedule, schedule.name, hash(schedule)) == (mine, "mïne", hash(mine))
    shape = {"stages": 1, "microbatches": 1}
    asked = COPIES[way](question(schedule=[mine], **shape))
    assert db.simulate(asked)["mïne"].order == mine


@pytest.mark.parametrize("way", COPIES)
def test_answers_are_copied_with_all_that_they_can_do(way: str) -> None:
    answers = simulated()
    again = COPIES[way](answers)
    assert again.to_json() == answers.to_json()
    assert len(again) == 2
    assert again["zb-v"].to_dict() == answers["zb-v"].to_dict()
    assert again.warnings == answers.warnings
    assert repr(again) == repr(answers)
    assert again.to_svg() == answers.to_svg()
    outcome = COPIES[way](answers["zb-v"])
    assert outcome.to_json() == answers["zb-v"].to_json()
    assert (outcome.timeline.end_ns == answers["zb-v"].timeline.end_ns).all()
    assert outcome.why().to_dict() == answers["zb-v"].why().to_dict()
    assert outcome.order == answers["zb-v"].order


@pytest.mark.parametrize("way", COPIES)
def test_documents_are_copied(way: str) -> None:
    for name in ("packed", "comparison", "replayed", "verified", "reproduced", "schedules", "planned"):
        document = MADE[name]()
        again = COPIES[way](COPIES[way](document))
        assert type(again) is type(document)
        assert again.to_json() == document.to_json()
        assert repr(again) == repr(document)
        assert again._repr_html_() == document._repr_html_()
        assert again.warnings == document.warnings
        if name != "planned":
            assert again.to_csv() == document.to_csv()
        if hasattr(document, "holds"):
            assert again.holds is document.holds


@pytest.mark.parametrize("way", COPIES)
def test_searches_are_copied(way: str) -> None:
    every = found()
    again = COPIES[way](COPIES[way](every))
    assert again.to_json() == every.to_json()
    assert (again.to_csv(), again.to_svg(), again.front_svg()) == (
        every.to_csv(),
        every.to_svg(),
        every.front_svg(),
    )
    assert [one.schedule for one in again] == [one.schedule for one in every]
    assert [one.certificate for one in again] == [one.certificate for one in every]
    one = COPIES[way](every[1])
    assert one.to_dict() == every[1].to_dict()
    assert one.schedule == every[1].schedule
    assert one.certificate == every[1].certificate
    assert one.predicted.span_ns == every[1].predicted.span_ns
    assert one.to_svg() == every[1].to_svg()
    assert ' width="317" ' in every[1].to_svg("1col")
    if "pickle" in way:
        with pytest.raises(db.InputError, match="own width alone"):
            one.to_svg("1col")


def test_pictures_are_as_wide_as_they_are_asked_to_be(tmp_path: Path) -> None:
    answers = db.simulate(question(), ["1f1b", "zb-h1"])
    for width, pixels in [("1col", 317), ("84mm", 317), ("900px", 900)]:
        answers.save(tmp_path / "wide.svg", width=width)
        assert f' width="{pixels}" ' in (tmp_path / "wide.svg").read_text(encoding="utf-8")
        assert f' width="{pixels}" ' in answers[0].to_svg(width)
        assert f' width="{pixels}" ' in answers.front_svg(width)
    with pytest.raises(db.InputError, match="`3cm` is not a width"):
        answers.to_svg("3cm")


@pytest.mark.parametrize("name", ["schedule", "planned", "packed", "comparison"])
def test_other_answers_draw_in_a_width_too(name: str, tmp_path: Path) -> None:
    answer = simulated()[0].order if name == "schedule" else MADE[name]()
    answer.save(tmp_path / "wide.svg", width="1col")
    svg = (tmp_path / "wide.svg").read_text(encoding="utf-8")
    well_formed(svg)
    assert ' width="317" ' in svg
    assert answer.to_svg(width="1col") == svg
    assert ' width="317" ' not in answer.to_svg()
    assert ' width="317" ' in simulated().explain_svg("1col")


@pytest.mark.parametrize("way", COPIES)
def test_rows_figures_and_timelines_are_copied(way: str) -> None:
    rows = swept()
    assert COPIES[way](rows) == rows
    assert COPIES[way](rows).to_dicts() == rows.to_dicts()
    table = packed().rows
    again = COPIES[way](table)
    assert again == table
    assert again[0].bubble_rate == table[0].bubble_rate
    assert COPIES[way](table[0]) == table[0]
    steps = db.steps("1p", "3p", "0.125p")
    assert dict(COPIES[way](steps)) == dict(steps)
    timeline = db.simulate(question(), "1f1b")[0].timeline
    other = COPIES[way](timeline)
    assert all((other.columns[name] == column).all() for name, column in timeline.columns.items())
    assert COPIES[way](F(3) & B(2)) == db.Pair(db.Pass("F", 3), db.Pass("B", 2))
    why = db.simulate(question(), "1f1b")[0].why()
    assert COPIES[way](why).to_dict() == why.to_dict()
    assert repr(COPIES[way](why)) == repr(why)


@pytest.mark.parametrize("way", COPIES)
def test_exceptions_are_copied(way: str) -> None:
    try:
        db.Question.from_toml('stages = "x"\n')
    except db.InputError as raised:
        error = raised
    again = COPIES[way](error)
    assert str(again) == str(error)
    for name in ("message", "help", "key", "file", "line", "column"):
        assert getattr(again, name) == getattr(error, name)
    interrupted = COPIES[way](db.Interrupted(swept()))
    assert interrupted.answer == swept()
    assert str(interrupted) == str(db.Interrupted(None))
    assert str(COPIES[way](db.InternalError("x"))) == "x"


def test_figures_cannot_be_changed_and_name_what_they_have() -> None:
    row = packed().rows[0]
    with pytest.raises(AttributeError):
        row.bubble_rate = 3
    with pytest.raises(AttributeError, match="bubble_rate"):
        _ = row.bubbles
    assert "bubble_rate" in dir(row)
    assert dict(row) == {**row}
    table = packed().rows
    assert table[1:].to_dicts() == table.to_dicts()[1:]
    assert json.loads(table.to_json()) == table.to_dicts()


def test_questions_are_equal_if_they_ask_the_same() -> None:
    assert question(hop=0.0005) == question(hop="500us") == question()
    assert hash(question(hop=0.0005)) == hash(question())
    assert question(hop="1ms") != question()
    assert question().replace(hop="1ms") == question(hop="1ms")
    assert db.Question.from_toml(question().to_toml()) == question()
    assert eval(repr(question()), {"Question": db.Question}) == question()
    assert question().replace(backward="18ms").backward == ["18ms"]
    # Beside B and W it is the time of a whole backward.
    assert question().replace(backward="18ms").backward_input == ["11ms"]


def test_the_package_has_what_it_names() -> None:
    for name in db.__all__:
        assert getattr(db, name) is not None
    assert importlib.import_module("debubble._debubble").__version__ == db.__version__
