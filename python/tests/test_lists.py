"""Lists of questions, their journals, and what a search tells of its improvements."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pools import Renamed, RenamedPool

import debubble as db
from debubble import _debubble, _lists

pytestmark = pytest.mark.filterwarnings("ignore:no activation sizes are given")

SPAWN = multiprocessing.get_context("spawn")
PLAN: dict[str, Any] = {
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000},
    "sequence": 1024,
    "tokens": 1e9,
    "cluster": [{"machine": "a100-80g", "devices": [8]}],
    "search": {"tensor": [1], "chunks": [1]},
}


def question(**keys: Any) -> db.Question:
    base = {"stages": 4, "microbatches": 8, "hop": "500us", "memory_limit": "1p"}
    times = {"forward": "10ms", "backward_input": "11ms", "backward_weight": "7ms"}
    return db.Question(**{**base, **times, **keys})


def asked() -> list[db.Question]:
    """Five questions, the fourth of which has no answer."""
    counts = [question(microbatches=count) for count in (8, 9, 10)]
    return [*counts, question(memory_limit="0.1p"), question(stages=2)]


@pytest.fixture(scope="module")
def here() -> db.AnswerList[db.Found]:
    """The answers without an executor."""
    return db.search_all(asked())


@pytest.fixture(autouse=True)
def _no_loss() -> Iterator[None]:
    """Fails if a question was answered here for want of a worker and nobody expects it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="workers lost", category=db.Note)
        yield


def same(found: db.AnswerList[db.Found], here: db.AnswerList[db.Found]) -> bool:
    """Whether two lists are the same to the byte."""
    return found.to_json() == here.to_json() and _orders(found) == _orders(here)


def _orders(found: db.AnswerList[db.Found]) -> list[Any]:
    return [[(one.schedule, one.certificate, falling(one)) for one in each] for each in found.answers]


def falling(found: db.Found | db.FoundOrder) -> list[tuple[int, int, int | None]]:
    """A history without its times, which no two searches share."""
    return [(row.steps, row.cost_ns, row.bound_ns) for row in found.history]


# Order and failures.


def test_answers_are_those_of_single_calls_in_their_order(here: db.AnswerList[db.Found]) -> None:
    assert len(here) == 5
    for one, q in zip(here, asked()):
        if isinstance(one, db.Failure):
            with pytest.raises(db.InputError) as alone:
                db.search(q)
            assert str(one.error) == str(alone.value)
            assert one.error.key == alone.value.key
        else:
            assert one.to_json() == db.search(q).to_json()


def test_a_question_without_an_answer_is_a_failure(here: db.AnswerList[db.Found]) -> None:
    (failure,) = here.failures
    assert here[3] is failure
    assert failure.index == 3
    assert "memory limit" in failure.error.message
    assert len(here.answers) == 4
    assert json.loads(here.to_json())[3]["error"]["message"] == failure.error.message
    assert repr(here) == "<debubble.AnswerList of 4 answers and 1 failures>"


def test_rows_have_the_number_of_their_question(here: db.AnswerList[db.Found]) -> None:
    assert here.rows.column("index") == [0, 1, 2, 3, 4]
    assert here.rows.column("microbatches") == [8, 9, 10, None, 8]
    assert [error is None for error in here.rows.column("error")] == [True, True, True, False, True]
    frame = here.to_pandas()
    assert frame["index"].tolist() == [0, 1, 2, 3, 4]
    assert here.to_polars()["error"].null_count() == 4


def test_a_list_is_sliced_saved_and_pickled(here: db.AnswerList[db.Found], tmp_path: Path) -> None:
    assert here[1:3] == list(here)[1:3]
    here.save(tmp_path / "answers.json")
    assert json.loads((tmp_path / "answers.json").read_text()) == json.loads(here.to_json())
    assert pickle.loads(pickle.dumps(here)).to_json() == here.to_json()


def test_an_empty_list_has_no_answers(tmp_path: Path) -> None:
    assert len(db.search_all([], resume=tmp_path / "none.jsonl")) == 0
    with ThreadPoolExecutor(1) as pool:
        assert len(db.simulate_all(iter([]), executor=pool)) == 0


def test_lists_of_plans_and_simulations_are_those_of_single_calls(tmp_path: Path) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(_debubble.toml(json.dumps({**PLAN, "batch": 32})))
    plans = db.plan_all([file, {**PLAN, "batch": 64}, {**PLAN, "batch": 64, "layerz": 3}])
    assert [isinstance(one, db.Failure) for one in plans] == [False, False, True]
    assert plans.answers[0].to_json() == db.plan(file).to_json()
    assert plans.answers[1].to_json() == db.plan(PLAN, batch=64).to_json()
    assert "layerz" in plans.failures[0].error.message
    answers = db.simulate_all(asked(), (name for name in ("1f1b", "zb-h1")), front=True)
    answered = [*asked()[:3], asked()[4]]
    for one, q in zip(answers.answers, answered):
        assert one.to_json() == db.simulate(q, ["1f1b", "zb-h1"], front=True).to_json()


@pytest.mark.parametrize("wrong", [question(), "asked.toml", 4, PLAN])
def test_a_single_question_is_no_list(wrong: Any) -> None:
    for call in (db.search_all, db.simulate_all, db.plan_all):
        with pytest.raises(TypeError, match="a list of questions is needed"):
            call(wrong)


def test_what_is_wrong_with_every_question_is_raised() -> None:
    with pytest.raises(db.InputError, match="did you mean `effort`"):
        db.search_all(asked(), efort=2)
    with pytest.raises(db.InputError, match="exclude each other"):
        db.search_all(asked(), memory_limit="1p", memory_limits=["1p"])
    with pytest.raises(TypeError, match=r"a debubble.Question is needed, not a str"):
        db.search_all([question(), "1f1b"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="has neither `submit` nor `map`"):
        db.search_all(asked(), executor=object())


# Executors.


def test_threads_give_the_same_answers(here: db.AnswerList[db.Found]) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert same(db.search_all(asked(), executor=pool), here)


def test_processes_give_the_same_answers(here: db.AnswerList[db.Found]) -> None:
    with ProcessPoolExecutor(2, SPAWN) as pool:
        found = db.search_all(asked(), executor=pool)
        assert same(found, here)
        assert str(found.failures[0].error) == str(here.failures[0].error)
        assert found.answers[0].to_svg() == here.answers[0].to_svg()
        assert found.answers[0].predicted.span_ns == here.answers[0].predicted.span_ns
        assert db.verify(found.answers[0].certificate).holds
        answers = db.simulate_all(asked(), "1f1b", executor=pool)
        assert answers.to_json() == db.simulate_all(asked(), "1f1b").to_json()
        batches = [{**PLAN, "batch": batch} for batch in (32, 64)]
        plans = db.plan_all(batches, executor=pool)
        assert plans.to_json() == db.plan_all(batches).to_json()
        assert repr(plans.answers[0]) == repr(db.plan(batches[0]))


def test_a_pool_of_multiprocessing_gives_the_same_answers(here: db.AnswerList[db.Found]) -> None:
    with SPAWN.Pool(2) as pool:
        assert same(db.search_all(asked(), executor=pool), here)


class OnlyMap:
    """An executor that has `map` alone."""

    def map(self, call: Callable[[Any], Any], parts: list[Any]) -> Iterator[Any]:
        return map(call, parts)


def test_map_is_enough(here: db.AnswerList[db.Found]) -> None:
    told: list[tuple[Any, ...]] = []
    assert same(db.search_all(asked(), executor=OnlyMap(), progress=lambda *seen: told.append(seen)), here)
    assert told == [(done, 5, "questions") for done in range(1, 6)]


def test_warnings_of_workers_are_told_once() -> None:
    with warnings.catch_warnings(record=True) as told, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        db.search_all(asked(), executor=pool)
    notes = [one for one in told if "no activation sizes" in str(one.message)]
    assert len(notes) == 1
    assert notes[0].filename == __file__


def killed_once(work: Any) -> bytes:
    """Kills its own process at a question of 10 microbatches, if nobody has done that before."""
    died = Path(os.environ["DEBUBBLE_TEST_DIED"])
    if work[0]._question["microbatches"] == 10 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _lists.answer(work)


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the worker makes before it dies."""
    path = tmp_path / "died"
    monkeypatch.setenv("DEBUBBLE_TEST_DIED", str(path))
    return path


def test_a_killed_process_costs_no_answer(died: Path, here: db.AnswerList[db.Found]) -> None:
    told = pytest.warns(db.Note, match="workers lost . of 5 questions.* the first by BrokenProcessPool")
    with ProcessPoolExecutor(1, SPAWN) as pool, told as notes:
        assert same(db.search_all(asked(), executor=Renamed(pool, killed_once)), here)
    assert died.exists()
    assert {one.filename for one in notes} == {__file__}


def test_a_killed_process_of_a_pool_of_multiprocessing_costs_no_answer(
    died: Path, here: db.AnswerList[db.Found]
) -> None:
    told = pytest.warns(db.Note, match="workers lost . of 5 questions.* the first by WorkerKilledError")
    with SPAWN.Pool(1) as pool, told:
        assert same(db.search_all(asked(), executor=RenamedPool(pool, killed_once)), here)
    assert died.exists()


def interrupted_worker(work: Any) -> bytes:
    """Is cut short, as a worker that a Ctrl-C reaches."""
    cut = mock.Mock(warnings=[], interrupted=True)
    with mock.patch.object(_debubble, "search", return_value=cut):
        return _lists.answer(work)


def test_a_worker_that_is_interrupted_costs_no_answer(here: db.AnswerList[db.Found]) -> None:
    told = pytest.warns(db.Note, match="workers lost 5 of 5 questions.* WorkerInterruptedError")
    with ProcessPoolExecutor(1, SPAWN) as pool, told:
        assert same(db.search_all(asked(), executor=Renamed(pool, interrupted_worker)), here)


@pytest.mark.slow
def test_dask_and_ray_give_the_same_answers(here: db.AnswerList[db.Found]) -> None:
    distributed = pytest.importorskip("distributed", reason="there is no Dask here")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **options) as cluster:
        with distributed.Client(cluster) as client:
            assert same(db.search_all(asked(), executor=client), here)
    ray = pytest.importorskip("ray", reason="there is no Ray here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(db.__file__).absolute().parent.parent))
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        try:
            assert same(db.search_all(asked(), executor=ray), here)
        finally:
            ray.shutdown()


# Files.


@pytest.mark.filterwarnings("ignore::debubble.Note")
def test_workers_need_none_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, elsewhere = tmp_path / "asked from here", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(folder)
    Path("slow.csv").write_text("time,stage,factor\n0ms,0,1\n1ms,1,1.5\n")
    Path("jitter.txt").write_text("1.0\n1.1\n1.3\n")
    Path("near.toml").write_text(
        'devices-per-node = 1\n[intra]\nbandwidth = "450GB/s"\nlatency = "8us"\n'
        '[inter]\nnics = 1\nbandwidth = "1GB/s"\nlatency = "12us"\n'
    )
    Path("first.txt").write_text("F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n")
    Path("chain.csv").write_text(
        "layer,part,name,time\n0,F,attention,2ms\n0,F,experts,1ms\n0,B,experts,1ms\n0,B,attention,2ms\n"
        "0,W,attention,1ms\n0,W,experts,1ms\n"
    )
    Path("model.toml").write_text(_debubble.toml(json.dumps({**PLAN, "batch": 32})))
    q = db.Question(stages=2, microbatches=2, forward="1ms", backward_input="1ms", backward_weight="1ms")
    own = db.Schedule.build(2, 2, lambda stage: [db.F(0), db.F(1), db.BW(1), db.BW(0)], name="mine")
    simulated = [
        q.replace(slowdown_profile="slow.csv"),
        q.replace(jitter="pass=samples:jitter.txt", replicas=5),
        q.replace(cluster="near.toml", message="1MB"),
        db.Question(stages=2, microbatches=2, chain_file="chain.csv"),
    ]
    searched = [q.replace(cluster="near.toml", message="1MB"), q.replace(hop="1ms", schedule="none.txt")]
    initial: dict[str, Any] = {"initializer": os.chdir, "initargs": (elsewhere,)}
    with ProcessPoolExecutor(1, SPAWN, **initial) as pool:
        for schedules in ("first.txt", own, ["1f1b", "first.txt"]):
            here = db.simulate_all(simulated, schedules)
            assert not here.failures
            assert db.simulate_all(simulated, schedules, executor=pool).to_json() == here.to_json()
        assert (
            db.search_all(searched, executor=pool).to_json() == (found := db.search_all(searched)).to_json()
        )
        assert isinstance(found[0], db.Found)
        plans = db.plan_all(["model.toml", "none.toml"], executor=pool)
        assert plans.to_json() == db.plan_all(["model.toml", "none.toml"]).to_json()
        assert len(plans.failures) == 1


# Journals.


def test_a_list_is_continued_after_an_interruption(tmp_path: Path, here: db.AnswerList[db.Found]) -> None:
    journal = tmp_path / "answers.jsonl"

    def pressed(done: int, _: Any, __: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(db.Interrupted) as stopped:
        db.search_all(asked(), resume=journal, progress=pressed)
    partial = stopped.value.answer
    assert [isinstance(one, db.Failure) for one in partial] == [False, False, True, True, True]
    assert "not answered" in partial[2].error.message
    assert len(journal.read_bytes().splitlines()) == 3

    with mock.patch.object(_debubble, "search", wraps=_debubble.search) as search:
        assert same(db.search_all(asked(), resume=journal), here)
        assert search.call_count == 3
        assert same(db.search_all(asked(), resume=journal), here)
        assert search.call_count == 4, "a failure is asked again"


def test_what_workers_answer_is_in_the_journal(tmp_path: Path, here: db.AnswerList[db.Found]) -> None:
    journal = tmp_path / "answers.jsonl"
    with ThreadPoolExecutor(2) as pool:
        db.search_all(asked()[:2], resume=journal, executor=pool)
        assert same(db.search_all(asked(), resume=journal, executor=pool), here)
    with mock.patch.object(_debubble, "search", wraps=_debubble.search) as search:
        assert same(db.search_all(list(reversed(asked()))[::-1], resume=journal), here)
        assert search.call_count == 1


def test_an_answer_that_is_done_is_in_the_journal_before_an_earlier_one(tmp_path: Path) -> None:
    journal = tmp_path / "answers.jsonl"

    class Slow(Executor):
        """Never answers the first question."""

        def submit(self, call: Callable[..., Any], /, *args: Any, **keys: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if args[0][0]._question["microbatches"] != 8:
                future.set_result(call(*args, **keys))
            return future

    def pressed(done: int, _: Any, __: str) -> None:
        if done == 2:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(db.Interrupted) as stopped:
        db.search_all(asked()[:3], executor=Slow(), resume=journal, progress=pressed)
    assert [isinstance(one, db.Failure) for one in stopped.value.answer] == [True, False, False]
    assert len(journal.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 100, 10_000])
def test_a_torn_line_is_cut_off(cut: int, tmp_path: Path, here: db.AnswerList[db.Found]) -> None:
    journal = tmp_path / "answers.jsonl"
    db.search_all(asked(), resume=journal)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-cut])
    with mock.patch.object(_debubble, "search", wraps=_debubble.search) as search:
        assert same(db.search_all(asked(), resume=journal), here)
        assert search.call_count == 2
    assert journal.read_bytes() == whole


def test_a_torn_first_line_begins_anew(tmp_path: Path, here: db.AnswerList[db.Found]) -> None:
    journal = tmp_path / "answers.jsonl"
    db.search_all(asked(), resume=journal)
    whole = journal.read_bytes()
    for length in (0, 1, whole.index(b"\n")):
        journal.write_bytes(whole[:length])
        assert same(db.search_all(asked(), resume=journal), here)
        assert journal.read_bytes() == whole


def test_a_damaged_line_is_answered_again(tmp_path: Path, here: db.AnswerList[db.Found]) -> None:
    journal = tmp_path / "answers.jsonl"
    db.search_all(asked(), resume=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"question": \n'
    journal.write_bytes(b"".join(lines))
    with pytest.warns(db.Note, match="line 3: no answer can be read, so its question is answered again"):
        assert same(db.search_all(asked(), resume=journal), here)


def test_a_journal_of_others_is_refused_and_stays(tmp_path: Path) -> None:
    journal = tmp_path / "answers.jsonl"
    db.search_all(asked()[:2], resume=journal)
    whole = journal.read_bytes()
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: db.search_all(asked()[3:], resume=journal), "other questions, or of other keys"),
        (lambda: db.search_all(asked(), effort=2, resume=journal), "other questions, or of other keys"),
        (lambda: db.simulate_all(asked(), "1f1b", resume=journal), "a journal of debubble search"),
    ]
    for call, message in calls:
        with pytest.raises(db.InputError, match=message) as refused:
            call()
        assert refused.value.help is not None and "name another file" in refused.value.help
        assert refused.value.key == "resume"
        assert journal.read_bytes() == whole
    journal.write_bytes(whole.replace(_debubble.__version__.encode(), b"0.0.1", 1))
    with pytest.raises(db.InputError, match=r"of debubble search 0\.0\.1, not of debubble search"):
        db.search_all(asked(), resume=journal)
    for text in ("stages = 4", "a,b\n1,2\n", "[]\n", "{}\n"):
        journal.write_text(text)
        with pytest.raises(db.InputError, match="is not a journal of debubble"):
            db.search_all(asked(), resume=journal)
        assert journal.read_text() == text


def test_a_journal_that_is_being_written_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "answers.jsonl"

    def ask_again(*_: Any) -> None:
        with pytest.raises(db.InputError, match="is being written"):
            db.search_all(asked()[:1], resume=journal)

    db.search_all(asked()[:1], resume=journal, progress=ask_again)


def test_a_file_that_changes_is_another_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    order = Path("own.txt")
    order.write_text("F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n")
    q = db.Question(stages=2, microbatches=2, forward="1ms", backward="2ms")
    db.simulate_all([q], "own.txt", resume="a.jsonl")
    order.write_text("F0.0 BW0.0 F0.1 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\n")
    with pytest.raises(db.InputError, match="other questions"):
        db.simulate_all([q], "own.txt", resume="a.jsonl")


def test_plans_and_simulations_are_continued(tmp_path: Path) -> None:
    batches = [{**PLAN, "batch": batch} for batch in (32, 64)]
    first = db.plan_all(batches, resume=tmp_path / "plans.jsonl")
    again = db.plan_all(batches, resume=tmp_path / "plans.jsonl")
    assert again.to_json() == first.to_json()
    assert again.answers[0].to_csv() == first.answers[0].to_csv()
    assert again.answers[0].to_html() == first.answers[0].to_html()
    assert again.answers[0].export(tmp_path / "runs") == first.answers[0].export(tmp_path / "more")
    simulated = db.simulate_all(asked(), "1f1b", explain=True, resume=tmp_path / "simulated.jsonl")
    continued = db.simulate_all(asked(), "1f1b", explain=True, resume=tmp_path / "simulated.jsonl")
    assert continued.to_json() == simulated.to_json()
    assert continued.answers[0].to_svg() == simulated.answers[0].to_svg()


# History and improvements.


def hard(**keys: Any) -> db.Question:
    """A question whose search improves on what is published."""
    times = {"forward": ["10ms", "11ms", "9ms", "10ms"], "backward_input": "11ms", "backward_weight": "7ms"}
    base = {"stages": 4, "microbatches": 12, "hop": "2ms", "memory_limit": "0.75p", **times}
    return db.Question(**{**base, **keys})


def falls(history: db.Table) -> bool:
    steps, costs = history.column("steps"), history.column("cost_ns")
    return steps == sorted(steps) and costs == sorted(costs, reverse=True)


def test_a_history_falls_and_ends_at_the_cost() -> None:
    best = db.search(hard())
    assert len(best.history) > 1
    assert falls(best.history)
    assert best.history[-1].cost_ns == best.cost_ns
    assert pickle.loads(pickle.dumps(best)).history == best.history


@pytest.mark.parametrize(
    "keys", [{"ilp": True, "time_limit": "1s"}, {"vary": "layers"}, {"objective": "makespan"}]
)
def test_every_search_of_costs_has_its_history(keys: dict[str, Any]) -> None:
    times = {"forward": "10ms", "backward_input": "11ms", "backward_weight": "7ms"}
    sizes = {"layers": 7, "activation": "1MiB"} if "vary" in keys else {}
    q = hard(stages=3, microbatches=5, **times, **sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.Note)
        best = db.search(q, **keys)
    assert falls(best.history)
    assert best.history[-1].cost_ns == best.cost_ns


def test_a_smaller_limit_ends_the_history_of_a_larger_one() -> None:
    told: list[db.Improvement] = []
    found = db.search(
        hard(memory_limit=None), memory_limits=["0.5p", "0.75p", "1p"], on_improvement=told.append
    )
    for at, one in enumerate(found):
        assert falls(one.history)
        assert one.history[-1].cost_ns == one.cost_ns
        assert [seen.cost_ns for seen in told if seen.at == at][-1] == one.cost_ns
    with pytest.raises(ValueError, match="there are 3 results"):
        _ = found.history


@pytest.mark.filterwarnings("ignore::debubble.Note")
@pytest.mark.parametrize(
    "keys", [{"jitter": "pass=lognormal:0.05", "replicas": 20}, {"cluster": "dgx-a100", "message": "1MB"}]
)
def test_a_search_by_simulation_has_a_history_of_what_it_estimates(keys: dict[str, Any]) -> None:
    objective: Any = "mean" if "jitter" in keys else "step"
    best = db.search(hard(**keys), objective=objective)
    assert best.history
    assert falls(best.history)


def test_every_improvement_is_told_in_its_order() -> None:
    told: list[db.Improvement] = []
    best = db.search(hard(), on_improvement=told.append)
    costs = [one.cost_ns for one in told]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == best.cost_ns
    history = dict.fromkeys((one.steps, one.cost_ns) for one in told)
    assert list(history) == [(row.steps, row.cost_ns) for row in best.history[: len(history)]]
    assert all(one.bound_ns is not None and one.bound_ns <= best.bound_ns for one in told)
    assert {one.at for one in told} == {0}


def test_an_exception_of_the_callback_ends_the_search() -> None:
    def enough(now: db.Improvement) -> None:
        raise LookupError(now.cost_ns)

    with pytest.raises(LookupError):
        db.search(hard(), on_improvement=enough, effort=10_000)
    with pytest.raises(LookupError):  # Of a search that is over at once, too.
        db.search(question(), on_improvement=enough)


def test_a_history_has_times_and_bounds() -> None:
    best = db.search(hard())
    frame = best.history.to_pandas()
    assert list(frame.columns) == [
        "steps", "elapsed_ns", "elapsed_seconds", "cost_ns", "cost_seconds", "bound_ns", "bound_seconds",
    ]  # fmt: skip
    assert frame["elapsed_ns"].is_monotonic_increasing and frame["elapsed_ns"].notna().all()
    assert frame["bound_ns"].iloc[-1] == best.bound_ns
    assert (frame["bound_ns"].dropna() <= best.cost_ns).all()
    assert (frame["cost_seconds"] * 1e9).round().tolist() == frame["cost_ns"].tolist()
    with ThreadPoolExecutor(1) as pool:
        (sent,) = db.search_all([hard()], executor=pool).answers
    assert sent.history.column("elapsed_ns") == [None] * len(best.history)


def test_a_search_ends_where_it_is_told_so() -> None:
    told = []

    def enough(now: db.Improvement) -> bool:
        told.append(now)
        return False

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "interrupted", db.Note)
        found = db.search(hard(microbatches=128), on_improvement=enough, effort=1000)
    assert found.interrupted and len(told) >= 1
    assert found.cost_ns <= told[0].cost_ns and len(told) == 1
    assert db.verify(found.certificate).holds
    assert told[0].cost_seconds == told[0].cost_ns / 1e9 and told[0].elapsed_seconds > 0
    # Anything else goes on.
    whole = db.search(hard(), on_improvement=lambda now: 0)
    assert not whole.interrupted


def test_the_best_of_a_list_is_an_answer() -> None:
    answers = db.simulate_all([question(microbatches=count, memory_limit=None) for count in (8, 16)], "1f1b")
    assert answers.best("bubble_rate") is answers[1]
    assert answers.best("span_seconds") is answers[0]
    assert answers.best("span_seconds", greatest=True) is answers[1]
    found = db.search_all([question(), question(memory_limit="0.1p")])
    assert found.best("cost_ns") is found[0]
