"""Recordings of real torch: what stands in them, and that nothing of them stays."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules as of_torch

import debubble as db
import debubble.torch as dbt
from debubble.torch import _clocks, _runtime
from debubble.torch._memory import Memory

#: Torch's own schedules: the class, stages per rank, and where stages lie.
OWN: list[tuple[str, int, str]] = [
    ("ScheduleGPipe", 1, "looped"),
    ("Schedule1F1B", 1, "looped"),
    ("ScheduleInterleaved1F1B", 2, "looped"),
    ("ScheduleInterleavedZeroBubble", 2, "looped"),
    ("ScheduleLoopedBFS", 2, "looped"),
    ("ScheduleZBVZeroBubble", 2, "v"),
    ("ScheduleDualPipeV", 2, "v"),
]

# 2.8 has no DualPipeV. Before 2.12 torch's own V does not run over gloo: a rank sends messages to itself.
OWN = [
    one for one in OWN if hasattr(pipelining, one[0]) and (one[2] == "looped" or pipelines.VERSION >= (2, 12))
]

RANKS, MICROBATCHES = 2, 8


def own(rank: int, name: str, chunks: int, placement: str, microbatches: int = MICROBATCHES) -> Any:
    """One of torch's own schedules, and its stages on `rank`."""
    every = RANKS * chunks
    mine = [rank, every - 1 - rank] if placement == "v" else list(range(rank, every, RANKS))
    stages = [pipelines.stage(chunk, every) for chunk in mine]
    given = stages[0] if chunks == 1 else stages
    return getattr(pipelining, name)(given, microbatches, loss_fn=pipelines.loss), stages


def record_own(rank: int) -> list[Any]:
    found = []
    for name, chunks, placement in OWN:
        schedule, stages = own(rank, name, chunks, placement)
        losses: list[Any] = []
        before = dict(vars(schedule))
        with dbt.record(schedule, warmup=1, timeout=30) as rec:
            for _ in range(4):
                for one in stages:
                    one.submod.zero_grad()
                pipelines.step(schedule, stages, MICROBATCHES, losses)
        assert vars(schedule).keys() == before.keys()
        rows = [str(one) for one in (getattr(schedule, "pipeline_order", None) or {}).get(rank, []) if one]
        found.append((rec.to_json(), rec.timeline(), rows, sum(float(one) for one in losses)))
    return found


@pytest.fixture(scope="module")
def recorded() -> list[Any]:
    told = pipelines.ranks(RANKS, record_own)
    for one in told:
        assert isinstance(one, list), one
    return told


@pytest.mark.parametrize("at", range(len(OWN)), ids=[one[0] for one in OWN])
def test_torch_s_own_schedules(recorded: list[Any], at: int) -> None:
    _, chunks, placement = OWN[at]
    text, timeline, _, _ = recorded[0][at]
    # Every rank has the whole of it.
    assert recorded[1][at][:2] == (text, timeline)
    document = json.loads(text)
    assert json.loads(timeline) == {key: value for key, value in document.items() if key != "recording"}
    schedule = db.Schedule.from_text("\n".join(document["schedule"]["order"]))
    assert (schedule.stages, schedule.chunks, schedule.microbatches) == (RANKS, chunks, MICROBATCHES)
    assert schedule.placement == placement
    # Where backwards are split, one step has them whole.
    splits = any(one.startswith("W") for line in document["schedule"]["order"] for one in line.split())
    assert len(document["steps"]) == (2 if splits else 3)
    wholes = document["recording"].get("whole_backward_ns", [])
    assert [len(times) for times in wholes] == ([MICROBATCHES] * schedule.stages * chunks if splits else [])
    assert all(
        profile is not None
        for profile in db.Profile.of_recording(text.encode()).chunks.column("backward_seconds")
    )
    assert db.compare(timeline, timeline).error == 0.0
    loss = recorded[1 if placement == "looped" else 0][at][3]
    assert document["steps"][-1]["loss"] == pytest.approx(loss)
    check_order(schedule, [recorded[rank][at][2] for rank in range(RANKS)], chunks)
    for step in document["steps"]:
        check_step(step, schedule)


LETTERS = {"F": "F", "B": "I", "W": "W", "BW": "B"}


def check_order(schedule: db.Schedule, rows: list[list[str]], chunks: int) -> None:
    """What was recorded is the order that torch says, where it says it."""
    if chunks > 1:
        assert [line.split(",") for line in schedule.to_torch_csv().splitlines()] == rows


def check_step(step: dict[str, Any], schedule: db.Schedule) -> None:
    """Causes come before effects, on the clock of all ranks."""
    ends: dict[tuple[str, int, int], int] = {}
    slots = [slot for stage in step["stages"] for slot in stage["slots"]]
    for slot in slots:
        for one in slot["slot"].split("&"):
            kind = one.rstrip("0123456789.")
            chunk, microbatch = map(int, one[len(kind) :].split("."))
            if kind != "W":
                ends["output" if kind == "F" else "gradient", chunk, microbatch] = slot["end_ns"]
    assert min(slot["start_ns"] for slot in slots) == 0
    came = 0
    for slot in slots:
        arrived = slot.get("arrived")
        if arrived is not None:
            value = (arrived["value"], arrived["chunk"], arrived["microbatch"])
            assert ends[value] <= arrived["at_ns"] <= slot["end_ns"]
            came += 1
    assert came >= schedule.microbatches * 2 * (schedule.stages - 1)


def test_memory_is_that_of_autograd(recorded: list[Any]) -> None:
    """By hand: the block saves its input, and the inputs of GELU and of the second layer, twice as wide."""
    floats = pipelines.BATCH * pipelines.WIDTH * 8
    whole = json.loads(recorded[0][1][0])["recording"]
    assert whole["message_bytes"] == floats
    # Inputs of the model and targets belong to the user; the loss saves the output.
    # Before 2.15 the first stage keeps its output, which it has sent.
    kept = 4 if pipelines.VERSION >= (2, 15) else 5
    assert [row["until_backward_bytes"] for row in whole["memory"]] == [kept * floats, 6 * floats]
    split = json.loads(recorded[0][3][0])["recording"]["memory"]
    # The runtime waits for a send after the backward: until then the output is held, too.
    assert split[1]["until_backward_bytes"] == 6 * floats
    # Until W the graph is still held, and the gradients of input, output, and the outputs of both layers, of
    # which the last is that of the output.
    assert split[1]["until_weight_bytes"] == 10 * floats


def test_memory_of_a_gpu_is_how_its_allocator_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = [0]
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated[0])
    stage = SimpleNamespace(stage_index=3, device="cuda:0", is_first=True)
    memory = Memory(on_gpu=True)
    assert memory.rows() == []
    for microbatch in range(3):
        with memory.forward(stage, microbatch, []):
            # What a first pass takes for good is not held by a microbatch.
            allocated[0] += 5000 if microbatch == 0 else 100
        memory.made(stage, microbatch)
        with memory.loss(stage, microbatch, []):
            allocated[0] += 10
    assert memory.rows() == [{"chunk": 3, "until_backward": 110}]
    for microbatch in range(3):
        with memory.backward(stage, microbatch, is_whole=False):
            allocated[0] += 700 if microbatch == 0 else -40
    assert memory.rows() == [{"chunk": 3, "until_backward": 110, "until_weight": 70}]


def bare(rank: int) -> Any:
    """An error inside of the block: it comes out as it was, and nothing stays behind."""
    schedule, stages = own(rank, "Schedule1F1B", 1, "looped")
    before = [dict(vars(stages[0])).keys(), dict(vars(schedule)).keys(), of_torch._wait_batch_p2p]
    rec = dbt.record(schedule, timeout=20)
    with pytest.raises(ZeroDivisionError), rec:
        raise ZeroDivisionError
    after = [dict(vars(stages[0])).keys(), dict(vars(schedule)).keys(), of_torch._wait_batch_p2p]
    with pytest.raises(db.InputError, match="nothing is recorded"):
        rec.timeline()
    with pytest.raises(db.InputError, match="once"), rec:
        pass
    x, y = pipelines.batch(MICROBATCHES)
    # Torch 2.11 trains no more where the first step is an evaluation.
    pipelines.step(schedule, stages, MICROBATCHES, [])
    evaluate = getattr(schedule, "eval", lambda *_, **__: None)
    with pytest.raises(db.InputError, match="no training step"), dbt.record(schedule, timeout=20):
        evaluate(*([x] if rank == 0 else []), target=y)
    pipelines.step(schedule, stages, MICROBATCHES, [])
    return before == after


def test_nothing_stays_after_an_error() -> None:
    assert pipelines.ranks(RANKS, bare) == [True, True]


def dies(rank: int, when: str) -> Any:
    schedule, stages = own(rank, "Schedule1F1B", 1, "looped")
    if when == "before" and rank == 1:
        os._exit(3)
    begun = time.monotonic()
    try:
        with dbt.record(schedule, timeout=3):
            pipelines.step(schedule, stages, MICROBATCHES, [])
            if when == "inside" and rank == 1:
                os._exit(3)
            if when == "late" and rank == 1:
                time.sleep(6)
            if when == "error" and rank == 1:
                raise ZeroDivisionError
    except (db.LostRank, ZeroDivisionError) as error:
        return str(error), time.monotonic() - begun
    return "recorded", 0.0


@pytest.mark.parametrize("when", ["before", "inside", "late", "error"])
def test_a_rank_that_is_lost_is_a_message(when: str) -> None:
    told = pipelines.ranks(RANKS, dies, when)
    message, seconds = told[0]
    assert message.startswith("rank 0 of the pipeline waited for the others to "), told
    assert "3 s" in message
    assert seconds < 15
    if when in ("before", "inside"):
        assert told[1] is None


def disagrees(rank: int, what: str) -> Any:
    if what == "microbatches":
        schedule, _ = own(rank, "Schedule1F1B", 1, "looped", 8 if rank == 0 else 4)
    elif what == "stages":
        schedule, _ = own(rank, "ScheduleLoopedBFS", 1 + rank if rank else 2, "looped")
        if rank == 1:
            schedule, _ = of_two_more()
    else:
        wanted = pipelines.order("1f1b" if rank == 0 else "gpipe", RANKS, MICROBATCHES)
        schedule = dbt.schedule([pipelines.stage(rank, RANKS)], wanted, loss_fn=pipelines.loss)
    try:
        with dbt.record(schedule, timeout=20):
            return "entered"
    except db.InputError as error:
        return str(error)


def of_two_more() -> Any:
    stages = [pipelines.stage(chunk, 3 * RANKS) for chunk in (1, 3, 5)]
    return pipelining.ScheduleLoopedBFS(stages, MICROBATCHES, loss_fn=pipelines.loss), stages


@pytest.mark.parametrize(
    ("what", "said"),
    [("microbatches", "microbatches: 8 and 4"), ("stages", "stages of torch: 4 and 6"), ("orders", "orders")],
)
def test_ranks_that_disagree_are_told(what: str, said: str) -> None:
    message = f"ranks 0 and 1 of the pipeline disagree on the {said}"
    assert pipelines.ranks(RANKS, disagrees, what) == [message, message]


def far_apart(rank: int) -> Any:
    """The host of rank 1 has a clock of its own, five seconds ahead."""
    schedule, stages = own(rank, "Schedule1F1B", 1, "looped")
    ahead = 5_000_000_000
    if rank == 1:
        real = time.perf_counter_ns
        _clocks.now = lambda: real() + ahead
        _clocks.host = lambda: "another"
    rec = dbt.record(schedule, timeout=20)
    with rec:
        for _ in range(2):
            pipelines.step(schedule, stages, MICROBATCHES, [])
    return rec.timeline(), rec._offsets


def test_clocks_of_hosts_are_aligned() -> None:
    told = pipelines.ranks(RANKS, far_apart)
    timeline, offsets = told[0]
    assert offsets[0] == 0
    # Half of the fastest way there and back is all that can be wrong.
    assert abs(offsets[1] - 5_000_000_000) < 5_000_000
    step = json.loads(timeline)["steps"][0]
    assert max(stage["end_ns"] for stage in step["stages"]) < 2_000_000_000


def saved(rank: int, folder: str) -> Any:
    schedule, stages = own(rank, "Schedule1F1B", 1, "looped")
    with dbt.record(schedule, timeout=20) as rec:
        pipelines.step(schedule, stages, MICROBATCHES, [])
    if rank == 0:
        rec.save(Path(folder) / "run.json")
        rec.save(Path(folder) / "order.csv")
        assert Path(folder, "run.json").read_text() == rec.to_json() + "\n"
        assert db.compare(Path(folder) / "run.json", rec.timeline()).error == 0.0
        assert db.Profile.of_recording(Path(folder) / "run.json") == rec.profile()
        with pytest.raises(FileNotFoundError):
            rec.save(Path(folder) / "nowhere" / "run.json")
    return sorted(path.name for path in Path(folder).iterdir()), repr(rec)


def test_files(tmp_path: Path) -> None:
    told = pipelines.ranks(RANKS, saved, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["order.csv", "run.json"]
    assert "1 steps" in told[1][1]
    assert db.Schedule.from_file(tmp_path / "order.csv").microbatches == MICROBATCHES


def test_events_of_cuda_need_cuda() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    message = pipelines.ranks(1, without_cuda)[0]
    assert message == "passes cannot be timed by events of CUDA: PyTorch finds no GPU here"


def without_cuda(rank: int) -> str:
    schedule = of_torch.ScheduleGPipe(pipelines.stage(rank, 1), 2, loss_fn=pipelines.loss)
    with pytest.raises(db.InputError) as caught:
        dbt.record(schedule, clock="cuda")
    with pytest.raises(db.InputError, match="there is no clock 'sundial'"):
        dbt.record(schedule, clock="sundial")
    return caught.value.message


def test_what_is_no_schedule() -> None:
    with pytest.raises(TypeError, match="a schedule of torch"):
        dbt.record("1f1b")


def test_torch_that_is_too_old_or_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(db.InputError, match=r"needs PyTorch 2\.8 or newer, and this is 2\.7\.1"):
        _runtime._check("2.7.1")
    with pytest.warns(db.Note, match=r"tried with PyTorch 2\.8, .* 2\.15, and this is 3\.0\.0"):
        _runtime._check("3.0.0")
    monkeypatch.delattr(of_torch, "_wait_batch_p2p")
    with pytest.raises(db.InputError, match=r"has no `.*_wait_batch_p2p`"):
        _runtime._check("2.15.0")


def side_by_side(rank: int) -> Any:
    """Two pipelines of two ranks in one run."""
    copy, place = divmod(rank, RANKS)
    pipeline = [torch.distributed.new_group([2 * one, 2 * one + 1]) for one in range(2)][copy]
    module, device = pipelines.Block(place), torch.device("cpu")
    stage = pipelining.PipelineStage(module, place, RANKS, device, group=pipeline)
    wanted = pipelines.order("1f1b" if copy == 0 else "gpipe", RANKS, MICROBATCHES)
    schedule = dbt.schedule(stage, wanted, loss_fn=pipelines.loss)
    with dbt.record(schedule, timeout=20) as rec:
        pipelines.step(schedule, [stage], MICROBATCHES, [])
    return rec.schedule.to_text(), rec.timeline()


def test_pipelines_side_by_side_are_recorded_apart() -> None:
    told = pipelines.ranks(2 * RANKS, side_by_side)
    assert told[0] == told[1] and told[2] == told[3], told
    orders = [pipelines.order(name, RANKS, MICROBATCHES).to_text() for name in ("1f1b", "gpipe")]
    assert [told[0][0], told[2][0]] == orders


def probed(rank: int) -> tuple[bool, int]:
    """Whether a step with whole backwards has the gradients of one without; and how many steps are told."""
    schedule, stages = own(rank, "ScheduleZBVZeroBubble", 2, "v")
    made = []
    with dbt.record(schedule, timeout=30) as rec:
        for _ in range(2):
            for one in stages:
                one.submod.zero_grad()
            pipelines.step(schedule, stages, MICROBATCHES, [])
            made.append(pipelines.gradients(stages))
    assert "and 1 with whole backwards" in repr(rec)
    return all(torch.equal(made[0][name], made[1][name]) for name in made[0]), rec.steps


def test_a_step_with_whole_backwards_trains_as_the_others() -> None:
    if pipelines.VERSION < (2, 12):
        pytest.skip("torch's own V does not run over gloo there")
    assert pipelines.ranks(RANKS, probed) == [(True, 1), (True, 1)]


def test_recordings_of_two_schedules_make_one_profile(recorded: list[Any]) -> None:
    whole, split = (recorded[0][at][0].encode() for at in (2, 3))
    alone = db.Profile.of_recording(whole)
    both = db.Profile.of_recordings(whole, split)
    assert alone.chunks.column("backward_weight_seconds")[0] is None
    assert all(one is not None for one in both.chunks.column("backward_weight_seconds"))
    assert " and " in both.schedule
    with pytest.raises(db.InputError, match="other chunks"):
        db.Profile.of_recordings(whole, recorded[0][1][0].encode())
