"""Recordings of PyTorch, as far as they need none of it: ranks put together, clocks, and what is said where
it is missing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

import debubble as db
import debubble.torch as dbt
from debubble.torch import _clocks, _runtime, _timeline
from debubble.torch._runtime import Step
from debubble.torch._timeline import Offset, Part, Pass, Ran

ABOUT = {"program": "torch 0.0", "device": "a test", "cpu": "", "cores": 2, "os": "", "date": ""}
HERE = Offset(0, 0)


def part(chunk: int, *passes: Pass, loss: float | None = None, **more: Any) -> Part:
    """A rank with one chunk that ran one step."""
    fields = {"pairs": [], "memory": [], "wholes": {}, "message": 0, **more}
    steps = fields.pop("steps", [Ran(list(passes), passes[-1].end, loss)] if passes else [])
    return Part(1, [chunk], steps=steps, about=ABOUT, **fields)


def ran(
    kind: str, chunk: int, start: int, end: int, asked: int | None = None, came: int | None = None
) -> Pass:
    return Pass(Step(kind, chunk, 0), asked, came, start, end)


def pipeline() -> list[Part]:
    """Two ranks and one microbatch: F for 10, 7 on its way, BW for 20, 9 on its way."""
    return [
        part(0, ran("F", 0, 100, 110), ran("BW", 0, 160, 180, 112, 158)),
        part(1, ran("F", 1, 120, 129, 50, 117), ran("BW", 1, 130, 149), loss=0.5),
    ]


def recorded(parts: list[Part], clocks: list[Offset] | None = None) -> dict[str, Any]:
    return _timeline.put_together("a test", parts, clocks or [HERE] * len(parts)).document


def slots(document: dict[str, Any]) -> dict[str, Any]:
    return {one["slot"]: one for stage in document["steps"][0]["stages"] for one in stage["slots"]}


def test_waits_that_began_before_their_value_was_made_measure_the_way() -> None:
    found = slots(recorded(pipeline()))
    output = {"value": "output", "chunk": 0, "microbatch": 0, "at_ns": 17}
    gradient = {"value": "gradient", "chunk": 1, "microbatch": 0, "at_ns": 58}
    assert found["F1.0"] == {"slot": "F1.0", "start_ns": 20, "end_ns": 29, "arrived": output}
    assert found["BW0.0"] == {"slot": "BW0.0", "start_ns": 60, "end_ns": 80, "arrived": gradient}
    assert "arrived" not in found["BW1.0"] and "arrived" not in found["F0.0"]


def two_microbatches(asked: int, came: int) -> list[Part]:
    """The second forward is asked for at `asked`, long after it was made at 30."""

    def of(kind: str, chunk: int, microbatch: int, start: int, end: int, *wait: int) -> Pass:
        asked, came = wait or (None, None)
        return Pass(Step(kind, chunk, microbatch), asked, came, start, end)

    first = [of("F", 0, 0, 0, 10), of("F", 0, 1, 20, 30), of("BW", 0, 0, 200, 210, 40, 199)]
    last = [
        of("F", 1, 0, 16, 90, 0, 15),
        of("F", 1, 1, came, came + 9, asked, came),
        of("BW", 1, 0, 120, 130),
    ]
    first.append(of("BW", 0, 1, 300, 310, 220, 299))
    last.append(of("BW", 1, 1, 240, 250))
    return [part(0, *first), part(1, *last)]


@pytest.mark.parametrize(("asked", "came", "arrived"), [(91, 92, 35), (31, 33, 33)])
def test_of_others_the_median_way_is_taken_but_no_longer_than_the_wait(
    asked: int, came: int, arrived: int
) -> None:
    parts = two_microbatches(asked, came)
    if asked < 90:
        # The rank was free before.
        parts[1].steps[0].passes[0] = parts[1].steps[0].passes[0]._replace(end=came - 2)
    assert slots(recorded(parts))["F1.1"]["arrived"]["at_ns"] == arrived


def test_clocks_are_put_right() -> None:
    ahead = 5_000
    first, last = pipeline()
    moved = [
        one._replace(
            start=one.start + ahead,
            end=one.end + ahead,
            asked=one.asked and one.asked + ahead,
            received=one.received and one.received + ahead,
        )
        for one in last.steps[0].passes
    ]
    shifted = last._replace(steps=[Ran(moved, moved[-1].end, 0.5)])
    clocks = [HERE, Offset(ahead - 2, ahead + 2)]
    assert recorded([first, shifted], clocks) == recorded([first, last])


def test_pairs_are_one_slot() -> None:
    passes = [
        Pass(Step("F", 0, 0), None, None, 0, 5),
        Pass(Step("F", 0, 1), None, None, 5, 9),
        Pass(Step("BW", 0, 0), None, None, 10, 20),
        Pass(Step("BW", 0, 1), None, None, 20, 30),
    ]
    pair = (Step("F", 0, 1), Step("BW", 0, 0))
    whole = _timeline.put_together("p", [part(0, *passes, pairs=[pair])], [HERE])
    assert whole.schedule.to_text() == "F0.0 F0.1&BW0.0 BW0.1\n"
    assert slots(whole.document)["F0.1&BW0.0"] == {"slot": "F0.1&BW0.0", "start_ns": 5, "end_ns": 20}
    with pytest.raises(db.InputError, match=r"rank 0 did not run W0\.0 together with F0\.1"):
        recorded([part(0, *passes, pairs=[(pair[0], Step("W", 0, 0))])])


def test_what_ranks_did_not_run_alike_is_refused() -> None:
    first, last = pipeline()
    with pytest.raises(db.InputError, match="rank 0 ran 1 steps, and rank 1 ran 2"):
        recorded([first, last._replace(steps=last.steps * 2)])
    with pytest.raises(db.InputError, match="no training step"):
        recorded([first._replace(steps=[]), last._replace(steps=[])])
    other = Ran(last.steps[0].passes[:1], 200, None)
    with pytest.raises(db.InputError, match="rank 1 ran other passes, or another order, in step 1"):
        recorded([first._replace(steps=first.steps * 2), last._replace(steps=[*last.steps, other])])
    with pytest.raises(db.InputError, match="not an order that debubble knows"):
        recorded([first, first])


def test_a_recording_is_a_timeline_and_a_profile() -> None:
    rows = [{"chunk": 0, "until_backward": 64}, {"chunk": 1, "until_backward": 32, "until_weight": 48}]
    first, last = pipeline()
    parts = [first._replace(memory=rows[:1], message=8), last._replace(memory=rows[1:])]
    whole = _timeline.put_together("two", parts, [HERE] * 2)
    text = _timeline.text({**whole.document, "recording": whole.about}).encode()
    assert db.compare(text, text).error == 0.0
    assert json.loads(text)["steps"][0]["loss"] == 0.5
    profile = db.Profile.of_recording(text)
    assert [row.activation_bytes for row in profile.chunks] == [64, 32]
    assert [row.activation_until_weight_bytes for row in profile.chunks] == [64, 48]
    # Of one chunk it is not known: then of none.
    partly = _timeline.put_together("two", [first, parts[1]], [HERE] * 2)
    assert "memory" not in partly.about


class Event:
    """An event of CUDA: when it was recorded, in milliseconds."""

    clock = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self, stream: object) -> None:
        Event.clock += 1.5
        self.at = Event.clock

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: Event) -> float:
        return later.at - self.at


class Cuda:
    """A GPU that does nothing."""

    Event = Event
    waited = 0

    def synchronize(self, device: object) -> None:
        self.waited += 1

    def current_stream(self, device: object) -> None:
        return None


def test_events_are_read_on_the_clock_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clocks, "now", iter(range(1_000, 100_000, 100)).__next__)
    cuda = Cuda()
    clock = _clocks.CudaClock(cuda, "cuda:0")
    before = cuda.waited
    clock.begin()
    marks = [clock.mark() for _ in range(3)]
    # Nothing waits for the GPU while passes run.
    assert cuda.waited == before
    clock.finish()
    read = [clock.read(mark) for mark in marks]
    assert [later - sooner for sooner, later in zip(read, read[1:])] == [1_500_000, 1_500_000]
    # The first of the tries, all of which took equally long: eight events, that of the step, the mark.
    assert read[0] == 1_050 + 9 * 1_500_000


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    _runtime.torch.cache_clear()
    order = db.Schedule.from_text("F0.0 BW0.0")
    assert dbt.stages_of(order, 0) == [0]
    for call in (lambda: dbt.record(None), lambda: dbt.schedule([None], order)):
        with pytest.raises(
            db.InputError, match=r"needs PyTorch 2\.8 or newer, which cannot be loaded"
        ) as caught:
            call()
        assert caught.value.help == "pip install torch"
    _runtime.torch.cache_clear()
