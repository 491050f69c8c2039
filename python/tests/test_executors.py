"""Sweeps on other processes and machines."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import pytest
from pools import Renamed, RenamedPool

import debubble as db
from debubble import _debubble, _executors

AXES: dict[str, Any] = {"memory_limit": db.steps("1p", "3p", "0.5p"), "microbatches": [8, 12, 16]}
SCHEDULES = ["1f1b", "zb-h1", "zb-heuristic"]


def question() -> db.Question:
    return db.Question(
        stages=4, forward="10ms", backward_input="11ms", backward_weight="7ms", hop="500us", hidden=4096,
        heads=32, seq=1024, layers_per_stage=2, microbatch_size=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def here() -> str:
    """The rows as they are answered without an executor."""
    return db.sweep(question(), AXES, SCHEDULES).to_csv()


def swept(executor: Any, **keys: Any) -> str:
    return db.sweep(question(), AXES, SCHEDULES, executor=executor, **keys).to_csv()


@contextlib.contextmanager
def no_loss() -> Iterator[None]:
    """Fails if a part was answered here for want of a worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="workers lost", category=db.Note)
        yield


def start_methods() -> list[str]:
    return [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


# Executors of concurrent.futures and what looks like them.


def test_threads_give_the_same_rows(here: str) -> None:
    with ThreadPoolExecutor(3) as pool, no_loss():
        assert swept(pool) == here


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", start_methods())
def test_processes_give_the_same_rows(method: str, here: str) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool, no_loss():
        assert swept(pool) == here


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", start_methods())
def test_a_pool_of_multiprocessing_gives_the_same_rows(method: str, here: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool, no_loss():
        assert swept(pool) == here


class OnlyMap:
    """An executor that has `map` alone, and gives up after some results."""

    def __init__(self, results: Optional[int] = None) -> None:
        self.results = results

    def map(self, call: Callable[[Any], Any], parts: list[Any]) -> Iterator[Any]:
        return (call(part) for part in parts[: self.results])


def test_map_is_enough(here: str) -> None:
    with no_loss():
        assert swept(OnlyMap()) == here


def test_what_a_map_leaves_is_answered_here(here: str) -> None:
    with pytest.warns(
        db.Note, match="workers lost 4 of 6 parts, which were answered here; the first by Stop"
    ):
        assert swept(OnlyMap(2), parts=6) == here


@pytest.mark.parametrize("parts", [1, 2, 7, 44, 45, 46, 10**9])
def test_the_number_of_parts_does_not_change_the_rows(parts: int, here: str) -> None:
    with no_loss():
        assert swept(OnlyMap(), parts=parts) == here


@pytest.mark.parametrize("parts", [0, -1])
def test_a_grid_has_one_part_at_least(parts: int) -> None:
    with pytest.raises(db.InputError, match=f"parts: {parts} is too small"):
        swept(OnlyMap(), parts=parts)


@pytest.mark.parametrize("parts", [1.5, "2"])
def test_parts_are_a_whole_number(parts: Any) -> None:
    with pytest.raises(TypeError):
        swept(OnlyMap(), parts=parts)


@pytest.mark.parametrize("executor", [object(), 4, "dask"])
def test_what_is_no_executor_is_named(executor: Any) -> None:
    with pytest.raises(TypeError, match=f"executor: a {type(executor).__name__} has neither `submit` nor"):
        swept(executor)


class Asynchronous:
    """An executor whose results are coroutines, as those of an asynchronous client of Dask."""

    def submit(self, call: Callable[[Any], Any], part: Any) -> Any:
        async def rows() -> bytes:
            return bytes(call(part))

        return FutureOf(rows)


class FutureOf:
    """A future whose result is what a function gives."""

    def __init__(self, result: Callable[[], Any]) -> None:
        self.result = result

    def cancel(self) -> None:
        """Nobody looks."""


def test_an_asynchronous_executor_is_refused() -> None:
    with pytest.raises(TypeError, match="results are of type coroutine: one that is not asynchronous"):
        swept(Asynchronous())


class Inline(Executor):
    """Answers in this process, but where `fails` tells what goes wrong with a part instead."""

    def __init__(self, fails: Callable[[int], Optional[BaseException]] = lambda _: None) -> None:
        self.fails = fails
        self.futures: list[Future[Any]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **keys: Any) -> Future[Any]:
        future: Future[Any] = Future()
        error = self.fails(len(self.futures))
        self.futures.append(future)
        if error is None:
            future.set_result(call(*args, **keys))
        else:
            future.set_exception(error)
        return future


def test_every_lost_part_is_answered_here_and_told(here: str) -> None:
    lost = Inline(lambda part: OSError("the node\nis gone") if part % 3 == 0 else None)
    with pytest.warns(db.Note) as told:
        assert swept(lost, parts=9) == here
    (note,) = [str(one.message) for one in told if "workers lost" in str(one.message)]
    assert note == "workers lost 3 of 9 parts, which were answered here; the first by OSError: the node"
    assert {one.filename for one in told} == {__file__}


def test_a_pool_that_takes_no_work_costs_no_row(here: str) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.warns(db.Note, match="workers lost 45 of 45 parts"):
        assert swept(pool) == here


def test_an_error_of_the_question_gets_out() -> None:
    wrong = db.InputError("stages: 0 is too small", key="stages")
    with pytest.raises(db.InputError) as raised:
        swept(Inline(lambda part: wrong if part == 3 else None))
    assert raised.value.key == "stages"


def test_a_wrong_question_is_refused_before_a_worker_is_asked() -> None:
    pool = Inline()
    with pytest.raises(db.InputError, match="did you mean `microbatches`"):
        db.sweep(question(), {"microbatchs": [1, 2]}, "1f1b", executor=pool)
    assert not pool.futures


def test_progress_counts_the_questions_of_the_parts_that_are_done() -> None:
    told: list[tuple[int, Optional[int], str]] = []
    swept(OnlyMap(), parts=4, progress=lambda *seen: told.append(seen))
    assert told == [
        (11, 45, "questions"),
        (22, 45, "questions"),
        (33, 45, "questions"),
        (45, 45, "questions"),
    ]


# Ctrl-C.


def test_a_ctrl_c_keeps_the_rows_by_then_and_gives_up_the_rest(here: str) -> None:
    class Pressed(Inline):
        def submit(self, call: Callable[..., Any], /, *args: Any, **keys: Any) -> Future[Any]:
            if len(self.futures) < 2:
                return super().submit(call, *args, **keys)
            self.futures.append(Future())
            return self.futures[-1]

    pool = Pressed()
    with pytest.raises(db.Interrupted) as stopped:
        swept(pool, parts=5, progress=pressed_after(18))
    rows = stopped.value.answer.to_csv()
    assert rows == "".join(here.splitlines(keepends=True)[:19])
    assert [future.cancelled() for future in pool.futures] == [False, False, True, True, True]


def pressed_after(questions: int) -> Callable[[int, Optional[int], str], None]:
    """Presses Ctrl-C half a second after so many `questions` are done."""

    def progress(done: int, _: Optional[int], __: str) -> None:
        if done == questions:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    return progress


def test_a_ctrl_c_in_a_part_that_is_answered_here_keeps_its_rows() -> None:
    axes = {"microbatches": list(range(32, 96)), "forward": [f"{9000 + 10 * at}us" for at in range(200)]}
    questions = 64 * 200 * 2

    def progress(done: int, of: Optional[int], _: str) -> None:
        assert of == questions
        assert done <= questions
        os.kill(os.getpid(), signal.SIGINT)

    lost = Inline(lambda part: OSError("lost"))
    with pytest.raises(db.Interrupted) as stopped:
        db.sweep(
            question().replace(stages=8), axes, ["1f1b", "zb-h1"], executor=lost, parts=1, progress=progress
        )
    rows = stopped.value.answer.columns["index"].tolist()
    assert rows == list(range(len(rows)))
    assert len(rows) < questions


def interrupted_worker(part: Any) -> bytes:
    """Ends in the middle, as a worker that a Ctrl-C reaches."""
    half = (part[0], part[1], part[2], (part[2] + part[3]) // 2)
    rows, _ = _debubble.sweep(*half)
    with mock.patch.object(_debubble, "sweep", return_value=(rows, True)):
        return _executors.answer(part)


def test_a_worker_that_is_interrupted_costs_no_row(here: str) -> None:
    told = pytest.warns(
        db.Note, match="workers lost 3 of 3 parts.* WorkerInterruptedError: a worker was interr"
    )
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, told:
        assert swept(Renamed(pool, interrupted_worker), parts=3) == here


# Workers that die.


def killed_once(part: Any) -> bytes:
    """Kills its own process in the middle of the sweep, if nobody has done that before."""
    died = Path(os.environ["DEBUBBLE_TEST_DIED"])
    if part[2] > 15 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _executors.answer(part)


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the worker makes before it dies."""
    path = tmp_path / "died"
    monkeypatch.setenv("DEBUBBLE_TEST_DIED", str(path))
    return path


def test_a_killed_process_costs_no_row(died: Path, here: str) -> None:
    told = pytest.warns(db.Note, match="workers lost .* the first by BrokenProcessPool")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool, told:
        assert swept(Renamed(pool, killed_once)) == here
    assert died.exists()


def test_a_killed_process_of_a_pool_of_multiprocessing_costs_no_row(died: Path, here: str) -> None:
    told = pytest.warns(
        db.Note, match="workers lost .* the first by WorkerKilledError: a process of the pool"
    )
    with multiprocessing.get_context("spawn").Pool(2) as pool, told:
        assert swept(RenamedPool(pool, killed_once)) == here
    assert died.exists()


def test_a_pool_whose_processes_come_and_go_loses_nothing(here: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool, no_loss():
        assert swept(pool, parts=4) == here


# Files.


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with every kind of file that a question names."""
    first = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 F1.1 BW1.0 BW1.1\n"
    texts = {
        "first.txt": first,
        "second.txt": "F0.0 BW0.0 F0.1 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\n",
        "slow.csv": "time,stage,factor\n0ms,0,1\n1ms,1,1.5\n",
        "jitter.txt": "1.0\n1.1\n1.3\n",
        "near.toml": cluster("1GB/s"),
        "far.toml": cluster("1MB/s"),
        "short.csv": segments("1ms"),
        "long.csv": segments("2ms"),
    }
    folder = tmp_path / "asked from here"
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


def segments(forward: str) -> str:
    return f"layer,part,name,time\n0,F,all,{forward}\n0,B,all,1ms\n0,W,all,1ms\n"


def cluster(bandwidth: str) -> str:
    return f"""devices-per-node = 1
[intra]
bandwidth = "450GB/s"
latency = "8us"
[inter]
nics = 1
bandwidth = "{bandwidth}"
latency = "12us"
"""


def filed() -> list[tuple[db.Question, dict[str, Any], Any]]:
    """Sweeps that name files, and a schedule of one's own."""
    q = db.Question(stages=2, microbatches=2, forward="1ms", backward_input="1ms", backward_weight="1ms")
    own = db.Schedule.build(2, 2, lambda stage: [db.F(0), db.F(1), db.BW(1), db.BW(0)], name="mine")
    hops = {"hop": ["0ms", "1ms", "2ms"]}
    return [
        (q, {"schedule": ["first.txt", "second.txt", own]}, None),
        (q, hops, ["1f1b", "second.txt", own]),
        (q.replace(slowdown_profile="slow.csv"), hops, "1f1b"),
        (q.replace(jitter="pass=samples:jitter.txt", replicas=5), {"seed": [1, 2, 3]}, "1f1b"),
        (q.replace(message="1MB"), {"cluster": ["near.toml", "far.toml"]}, ["1f1b", "gpipe"]),
        (db.Question(stages=2, microbatches=2), {"chain_file": ["short.csv", "long.csv"]}, "1f1b"),
    ]


@pytest.mark.filterwarnings("ignore::debubble.Note")
@pytest.mark.parametrize("which", range(6))
def test_workers_need_none_of_the_files(which: int, files: Path, tmp_path: Path) -> None:
    q, axes, schedules = filed()[which]
    here = db.sweep(q, axes, schedules)
    assert len({tuple(row.items())[1:] for row in here}) == len(here)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=os.chdir, initargs=(elsewhere,)) as pool, no_loss():
        assert db.sweep(q, axes, schedules, executor=pool) == here
    assert "error" not in here.columns or not any(here.columns["error"])


# Dask and Ray.


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A client of two worker processes, which are started anew if they die."""
    distributed = pytest.importorskip("distributed", reason="there is no Dask here")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_dask_gives_the_same_rows(dask: Any, here: str) -> None:
    with no_loss():
        assert swept(dask) == here
        assert swept(dask.get_executor()) == here


@pytest.mark.slow
def test_dask_maps_questions(dask: Any) -> None:
    questions = [question().replace(microbatches=count) for count in (8, 12, 16)]
    answers = dask.gather(dask.map(db.simulate, questions, [SCHEDULES[:2]] * 3))
    assert [one.to_json() for one in answers] == [
        db.simulate(one, SCHEDULES[:2]).to_json() for one in questions
    ]
    order = answers[0]["zb-h1"].order
    assert dask.submit(db.Schedule.to_text, order).result() == order.to_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debubble.Note")
def test_workers_of_dask_need_none_of_the_files(dask: Any, files: Path, tmp_path: Path) -> None:
    dask.run(os.chdir, str(tmp_path))
    with no_loss():
        for q, axes, schedules in filed():
            assert db.sweep(q, axes, schedules, executor=dask) == db.sweep(q, axes, schedules)


class Killing:
    """An executor that kills a worker process of `pids` once it has handed over some parts."""

    def __init__(
        self, submit: Callable[[Callable[..., Any], Any], Any], pids: Callable[[], list[int]]
    ) -> None:
        self.inner, self.pids, self.handed = submit, pids, 0

    def submit(self, call: Callable[[Any], bytes], part: Any) -> Any:
        self.handed += 1
        if self.handed == 5:
            os.kill(self.pids()[0], signal.SIGKILL)
        return self.inner(call, part)


@pytest.mark.slow
def test_a_killed_worker_of_dask_costs_no_row(dask: Any, here: str) -> None:
    def pids() -> list[int]:
        return list(dask.run(os.getpid).values())

    before = set(pids())
    killing = Killing(dask.submit, pids)
    assert swept(killing) == here
    deadline = time.monotonic() + 60
    while len(set(pids()) - before) < 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert killing.handed == 45
    assert set(pids()) != before
    with no_loss():
        assert swept(dask) == here


@pytest.mark.slow
def test_a_part_that_kills_every_worker_of_dask_is_answered_here(dask: Any, here: str) -> None:
    class Deadly:
        def submit(self, call: Callable[[Any], bytes], part: Any) -> Any:
            return dask.submit(deadly, part) if part[2] == 0 else dask.submit(call, part)

    # A part beside it is lost too where it shares both workers that die.
    told = pytest.warns(db.Note, match="workers lost [123] of 3 parts.* KilledWorker")
    with pytest.importorskip("dask").config.set({"distributed.scheduler.allowed-failures": 1}), told:
        assert swept(Deadly(), parts=3) == here


def deadly(_: Any) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with two workers on this machine."""
    module = pytest.importorskip("ray", reason="there is no Ray here")
    paths = [str(Path(file).absolute().parent) for file in (__file__, Path(db.__file__).parent)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield module
        module.shutdown()


@pytest.mark.slow
def test_ray_gives_the_same_rows(ray: Any, here: str) -> None:
    with no_loss():
        assert swept(ray) == here


@pytest.mark.slow
def test_a_pool_of_ray_gives_the_same_rows(ray: Any, here: str) -> None:
    from ray.util.multiprocessing import Pool

    with Pool(2) as pool, no_loss():
        assert swept(pool) == here


@pytest.mark.slow
def test_a_killed_worker_of_ray_costs_no_row(ray: Any, died: Path, here: str) -> None:
    class Deadly:
        """The module `ray`, whose workers run another function."""

        get, cancel = staticmethod(ray.get), staticmethod(ray.cancel)

        def __init__(self, **options: Any) -> None:
            self.options = {"runtime_env": {"env_vars": {"DEBUBBLE_TEST_DIED": str(died)}}, **options}

        def remote(self, _: Callable[[Any], bytes]) -> Any:
            return ray.remote(**self.options)(killed_once)

    with no_loss():
        assert swept(Deadly()) == here, "tried again by Ray"
    assert died.exists()
    died.unlink()
    with pytest.warns(db.Note, match="workers lost 1 of 5 parts.* WorkerCrashedError"):
        assert swept(Deadly(max_retries=0), parts=5) == here


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debubble.Note")
def test_workers_of_ray_need_none_of_the_files(ray: Any, files: Path) -> None:
    with no_loss():
        for q, axes, schedules in filed():
            assert db.sweep(q, axes, schedules, executor=ray) == db.sweep(q, axes, schedules)


def wrong(_: Any) -> bytes:
    raise db.InputError("stages: 0 is too small", key="stages")


@pytest.mark.slow
def test_an_error_of_the_question_gets_out_of_dask_and_ray(dask: Any, ray: Any) -> None:
    class Wrong:
        get, cancel = staticmethod(ray.get), staticmethod(ray.cancel)

        def remote(self, _: Callable[[Any], bytes]) -> Any:
            return ray.remote(wrong)

    for executor in (Renamed(dask, wrong), Wrong()):
        with pytest.raises(db.InputError, match="stages: 0 is too small"):
            swept(executor)


def slow(part: Any) -> bytes:
    time.sleep(10 if part[2] else 0)
    return _executors.answer(part)


@pytest.mark.slow
def test_a_ctrl_c_keeps_what_ray_and_dask_have_done(ray: Any, dask: Any, here: str) -> None:
    class Slow:
        get, cancel = staticmethod(ray.get), staticmethod(ray.cancel)

        def remote(self, _: Callable[[Any], bytes]) -> Any:
            return ray.remote(slow)

    for executor in (Slow(), Renamed(dask, slow)):
        with pytest.raises(db.Interrupted) as stopped:
            swept(executor, parts=3, progress=pressed_after(15))
        assert stopped.value.answer.to_csv() == "".join(here.splitlines(keepends=True)[:16])
