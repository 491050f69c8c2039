"""Signals, forks, threads, and an interpreter that shuts down."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import debubble as db

pytestmark = [
    pytest.mark.filterwarnings("ignore::debubble.Note"),
    # Threads are there before the fork: that is what is tried.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals and forks are those of Unix"),
]

#: Seconds that a program may take on a machine with much else to do.
PATIENCE = 300


def program(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `text` in an interpreter of its own, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


def output(text: str, **environment: str) -> str:
    """What `text` prints in an interpreter that ends well and says nothing else."""
    done = program(text, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


#: Long calls: each takes minutes unless it is interrupted. `watch` is called when the work has begun.
LONG = {
    "simulate": "db.simulate(noisy, ['1f1b', 'zb-h1'], progress=watch)",
    "sweep": "db.sweep(few, {'microbatches': list(range(8, 2000))}, 'zb-h1', progress=watch)",
    "search": "db.search(plain.replace(chunks=2), memory_limit='0.8p', effort=100_000, progress=watch)",
    "plan": "db.plan(**model, progress=watch)",
    "fsdp": "db.fsdp(devices=64, minibatch_size=64, minibatches=1_000_000, progress=watch)",
    "reproduce": "db.reproduce('table5', 'table8', beyond=True, effort=1_000_000, progress=watch)",
    "why": "outcome.why(progress=watch)",
}

#: What the programs share: a Ctrl-C of this process as soon as work is seen.
HEAD = """
import os, signal, sys, threading, time
import debubble as db
plain = db.Question(stages=8, microbatches=48, forward="3001us", backward_input="3.33ms", hop="777us",
                    backward_weight=[f"{1000 + 37 * stage}us" for stage in range(8)])
noisy = plain.replace(jitter=["pass=lognormal:0.1"], replicas=1_000_000)
few = noisy.replace(replicas=200)
model = dict(sequence=2048, tokens=3e11, batch=1536,
             model={"layers": 96, "hidden": 12288, "heads": 96, "vocabulary": 51200},
             cluster=[{"machine": "a100-80g", "devices": [256, 512, 1024]}])
sent = 0
def watch(done, of, what):
    global sent
    if done >= ENOUGH and sent < TIMES:
        sent += 1
        os.kill(os.getpid(), signal.SIGINT)
"""


def head(enough: int = 1, times: int = 1) -> str:
    return HEAD.replace("ENOUGH", str(enough)).replace("TIMES", str(times))


WHOLE = ["simulate", "sweep", "plan", "fsdp", "reproduce"]


@pytest.mark.parametrize("call", WHOLE)
def test_ctrl_c_leaves_what_there_is_by_then(call: str) -> None:
    told = output(
        f"""{head()}
try:
    {LONG[call]}
except db.Interrupted as interrupted:
    assert isinstance(interrupted, KeyboardInterrupt)
    print(type(interrupted.answer).__name__, "answer" in str(interrupted))
    repr(interrupted.answer)
"""
    )
    kind = {"simulate": "Answers", "sweep": "Sweep", "plan": "Planned", "fsdp": "Packed"}
    assert told == f"{kind.get(call, 'Reproduced')} True\n"


def test_ctrl_c_ends_a_search_with_the_best_so_far() -> None:
    told = output(
        f"""{head()}
found = {LONG["search"]}
print(found.interrupted, len(found), bool(db.verify(found.certificate)), found.schedule.microbatches)
"""
    )
    assert told == "True 1 True 48\n"


def test_ctrl_c_before_there_is_an_explanation_is_a_keyboard_interrupt() -> None:
    told = output(
        f"""{head(enough=0)}
big = db.Question(stages=48, microbatches=600, forward="3001us", backward_input="3.33ms", hop="777us",
                  backward_weight="1ms", cluster="dgx-a100", message="1MiB", steps=3)
outcome = db.simulate(big, "zb-h1")[0]
try:
    {LONG["why"]}
except KeyboardInterrupt as interrupted:
    print("interrupted", sent)
"""
    )
    assert told == "interrupted 1\n"


def test_a_second_ctrl_c_ends_at_once_and_leaves_a_package_that_answers() -> None:
    # A sweep ends between questions: one of a million replicas is not waited for after the second.
    told = output(
        f"""{head(enough=0, times=2)}
try:
    db.sweep(noisy, {{"microbatches": [48, 49, 50, 51]}}, "zb-h1", progress=watch)
except KeyboardInterrupt as interrupted:
    print(sent, isinstance(interrupted, db.Interrupted))
print(len(db.sweep(plain, {{"microbatches": [8, 16]}}, "zb-h1")))
"""
    )
    assert told == "2 False\n2\n"


def test_what_a_handler_of_a_signal_raises_gets_out() -> None:
    told = output(
        f"""{head()}
class Alarm(Exception):
    pass
def handler(number, frame):
    raise Alarm("time is up")
signal.signal(signal.SIGALRM, handler)
for call in (lambda watch: {LONG["simulate"]}, lambda watch: {LONG["search"]}, lambda watch: {LONG["sweep"]}):
    rung = []
    def watch(done, of, what):
        if done and not rung:
            rung.append(True)
            signal.raise_signal(signal.SIGALRM)
    try:
        call(watch)
    except Alarm as alarm:
        print(alarm)
print(len(db.simulate(plain, "1f1b")))
"""
    )
    assert told == "time is up\n" * 3 + "1\n"


@pytest.mark.parametrize("call", ["simulate", "sweep", "search", "plan", "fsdp", "reproduce"])
def test_what_a_progress_function_raises_gets_out_and_ends_the_work(call: str) -> None:
    told = output(
        f"""{head()}
def watch(done, of, what):
    assert isinstance(done, int) and isinstance(of, (int, type(None))) and isinstance(what, str)
    raise LookupError("enough")
try:
    {LONG[call]}
except LookupError as error:
    print(error)
"""
    )
    assert told == "enough\n"


def test_ctrl_c_to_the_process_from_outside() -> None:
    text = f"""{head()}
def watch(done, of, what):
    if done:
        print("working", flush=True)
try:
    {LONG["simulate"]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"working\n"
    child.send_signal(signal.SIGINT)
    rest, errors = child.communicate(timeout=PATIENCE)
    assert (child.returncode, errors) == (0, b"")
    assert rest.splitlines()[-1] == b"interrupted"


def question(**more: Any) -> db.Question:
    keys = {"stages": 4, "microbatches": 8, "forward": "1ms", "backward": "2ms", **more}
    return db.Question(**keys)


AXES = {"microbatches": [4, 8, 12, 16], "hop": ["0ms", "1ms"]}


def swept(_: object = None) -> str:
    return db.sweep(question(), AXES, ["1f1b", "zb-h1"]).to_csv()


def in_a_child(work: Callable[[], object]) -> None:
    """Forks a process for `work`, which must end without an error."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def test_a_forked_child_answers_after_its_parent_has_asked() -> None:
    expected = swept()

    def work() -> None:
        assert swept() == expected
        in_a_child(lambda: None if swept() == expected else os._exit(3))

    in_a_child(work)
    assert swept() == expected


def test_a_child_that_is_forked_while_another_thread_asks_answers() -> None:
    expected = swept()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            swept()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            in_a_child(lambda: None if swept() == expected else os._exit(3))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes_answer(method: str) -> None:
    expected = swept()
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(swept, range(4), timeout=PATIENCE)) == [expected] * 4
        rows = db.sweep(question(), AXES, ["1f1b", "zb-h1"], executor=pool)
    assert rows.to_csv() == expected


def test_many_threads_get_the_answers_of_one() -> None:
    hops = [f"{number}us" for number in range(64)]

    def asked(hop: str) -> tuple[str, str]:
        one = question(hop=hop, jitter=["pass=lognormal:0.1"], replicas=8)
        return db.simulate(one, ["1f1b", "zb-h1"]).to_json(), db.sweep(one, AXES, "zb-h2").to_csv()

    alone = [asked(hop) for hop in hops]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(asked, hops)) == alone
    assert len(set(alone)) == len(hops)


def test_one_answer_is_read_by_many_threads() -> None:
    answers = db.simulate(question(), ["1f1b", "zb-h1"], explain=True)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(
            pool.map(lambda _: (answers.to_svg(), len(answers[1].timeline), answers[1].why()), range(16))
        )
    assert len({svg for svg, _, _ in drawn}) == 1
    assert len({why.to_json() for _, _, why in drawn}) == 1


def test_an_interpreter_ends_while_a_thread_asks() -> None:
    for _ in range(3):
        told = output(
            f"""{head()}
seen = threading.Event()
def watch(done, of, what):
    seen.set()
for call in (lambda: {LONG["simulate"]}, lambda: {LONG["search"]}):
    threading.Thread(target=call, daemon=True).start()
    seen.wait()
print("the end")
"""
        )
        assert told == "the end\n"


def test_an_interpreter_is_taken_apart_while_many_threads_show_their_progress() -> None:
    # Each look of a thread may fall into the end, which takes longer than threads go without one.
    for _ in range(2):
        told = output(
            f"""{head()}
class Slow:
    def __del__(self, sleep=time.sleep):
        for _ in range(20):
            sleep(0.01)
slow = Slow()
seen = threading.Barrier(13)
def ask():
    first = []
    def watch(done, of, what):
        if not first:
            first.append(seen.wait())
    # An answer may be there before anybody has looked.
    while not first:
        db.simulate(noisy.replace(replicas=20_000), "1f1b", progress=watch)
for _ in range(12):
    threading.Thread(target=ask, daemon=True).start()
seen.wait()
print("the end")
"""
        )
        assert told == "the end\n"


def test_threads_look_up_no_more_once_the_interpreter_begins_to_end() -> None:
    # What is registered before the import is called after the package has heard of the end.
    told = output(
        f"""
import atexit, threading, time
looks, answers = [], []
def late():
    before = len(looks)
    time.sleep(0.3)
    print("looks", len(looks) - before)
    asks.join()
    print("answers", len(answers))
    own = []
    db.simulate(some, "1f1b", progress=lambda *_: own.append(1))
    print("own looks", len(own) > 0)
atexit.register(late)
{head()}
some = noisy.replace(replicas=200_000)
seen = threading.Event()
def watch(done, of, what):
    looks.append(done)
    seen.set()
asks = threading.Thread(target=lambda: answers.append(db.simulate(some, "1f1b", progress=watch)), daemon=True)
asks.start()
seen.wait()
"""
    )
    assert told == "looks 0\nanswers 1\nown looks True\n"


def test_a_child_that_is_forked_while_its_parent_looks_up_ends_at_once() -> None:
    told = output(
        f"""{head()}
import os
child = []
def watch(done, of, what):
    if not child:
        child.append(os.fork())
        if child[0] == 0:
            begun = time.monotonic()
            import atexit
            atexit._run_exitfuncs()
            os._exit(time.monotonic() - begun > 0.9)
db.simulate(noisy.replace(replicas=40_000), ["1f1b", "zb-h1"], progress=watch)
print(os.waitpid(child[0], 0)[1])
"""
    )
    assert told == "0\n"


def test_calls_are_answered_when_the_interpreter_ends() -> None:
    told = output(
        """
        import atexit
        import debubble as db

        q = db.Question(stages=4, microbatches=8, forward="1ms", backward="2ms")

        class Late:
            def __init__(self, name):
                self.name = name

            def __del__(self):
                try:
                    print(self.name, round(self.simulate(self.question, "1f1b")[0].bubble_rate, 3))
                except Exception as error:
                    print(self.name, "refused")

            simulate = staticmethod(db.simulate)
            question = q

        atexit.register(lambda: print("atexit", len(db.sweep(q, {"microbatches": [4, 8]}, "zb-h1"))))
        kept = Late("at shutdown")
        cycle = Late("cycle")
        cycle.itself = cycle
        del cycle
        """
    )
    lines = told.splitlines()
    assert "atexit 2" in lines
    assert len(lines) >= 2


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does")
def test_what_the_package_cannot_do_is_an_internal_error_and_not_the_end() -> None:
    told = output(
        """
        import resource
        import debubble as db
        from pathlib import Path

        db.schema("scenario")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits = resource.getrlimit(resource.RLIMIT_AS)
        # Too little for the stack of a thread.
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), limits[1]))
        try:
            db.Question(stages=4)
        except db.InternalError as error:
            print(isinstance(error, RuntimeError), "no thread can be started" in str(error))
        resource.setrlimit(resource.RLIMIT_AS, limits)
        print(dict(db.Question(stages=4)))
        """
    )
    assert told == "True True\n{'stages': 4}\n"


def test_a_bar_is_shown_and_taken_away() -> None:
    done = program(
        f"""{head()}
import debubble._ask as ask
ask._PATIENCE = 0.0
ask._tqdm = lambda: None
noisy = noisy.replace(replicas=300)
db.simulate(noisy, "zb-h1", progress=True)
db.simulate(noisy, "zb-h1", progress=False)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or done.stderr.endswith("\x1b[K")


def test_progress_is_told_with_how_much_there_is() -> None:
    told: list[tuple[int, Any, str]] = []
    one = question(stages=8, microbatches=64, jitter=["pass=lognormal:0.1"], replicas=20000)
    db.simulate(one, ["zb-h1", "1f1b"], progress=lambda done, of, what: told.append((done, of, what)))
    assert told, "this takes longer than progress is looked at"
    assert all(of is None or 0 <= done <= of for done, of, _ in told)
    assert all(what for _, _, what in told)
