"""Profiles of chunks on one device, beside recordings of the pipeline that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines

import debubble as db
import debubble.torch as dbt

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

RANKS, CHUNKS, MICROBATCHES = 2, 4, 8


def microbatch() -> tuple[Any, Any]:
    x, y = (one[: pipelines.BATCH] for one in pipelines.batch(MICROBATCHES))
    return x, y


def profiled(modules: Any, **keywords: Any) -> db.Profile:
    x, y = microbatch()
    keywords = {"loss_fn": pipelines.loss, "target": y, "repeats": 6, "warmup": 1, **keywords}
    return dbt.profile(modules, x, **keywords)


def recorded(rank: int) -> db.Profile:
    wanted = pipelines.order("zb-v", RANKS, MICROBATCHES, 2)
    stages = [
        torch.distributed.pipelining.PipelineStage(pipelines.Block(at), at, CHUNKS, torch.device("cpu"))
        for at in dbt.stages_of(wanted, rank)
    ]
    schedule = dbt.schedule(stages, wanted, loss_fn=pipelines.loss)
    with dbt.record(schedule, warmup=1, timeout=60) as rec:
        for _ in range(3):
            pipelines.step(schedule, stages, MICROBATCHES, [])
    return rec.profile()


def test_it_is_that_of_the_pipeline() -> None:
    made = profiled(
        [pipelines.Block(at) for at in range(CHUNKS)],
        stages=RANKS,
        placement="v",
        n_microbatches=MICROBATCHES,
    )
    of_pipeline = pipelines.ranks(RANKS, recorded)[0]
    assert isinstance(of_pipeline, db.Profile), of_pipeline
    for name in ("stages", "placement", "microbatches"):
        assert getattr(made, name) == getattr(of_pipeline, name)
    floats = pipelines.BATCH * pipelines.WIDTH * 8
    assert f"message = {floats}\n" in made.to_toml() and f"message = {floats}\n" in of_pipeline.to_toml()
    for ours, theirs in zip(made.chunks, of_pipeline.chunks):
        assert ours.keys() == theirs.keys()
        for name in ours:
            if name.endswith("_bytes"):
                assert ours[name] == theirs[name], (name, ours, theirs)
            elif name.endswith("_seconds"):
                assert ours[name] >= 0
    found = db.search(made, memory_limit="2p", effort=1)
    assert found.schedule.stages == RANKS and found.schedule.chunks == 2


def test_memory_is_that_of_autograd() -> None:
    """By hand, as for a recording: the input, that of GELU and of the second layer, twice as wide, and the
    output; until W the gradients of the outputs of both layers, too.
    """
    floats = pipelines.BATCH * pipelines.WIDTH * 8
    rows = profiled([pipelines.Block(at) for at in range(CHUNKS)]).chunks
    held = [(row["activation_bytes"], row["activation_until_weight_bytes"]) for row in rows]
    assert held[1] == held[2] == (6 * floats, 9 * floats), held
    assert held[3][0] == 6 * floats, held
    # Inputs of the model are the user's, and W of the first chunk does all the work.
    assert held[0] == (5 * floats, 6 * floats), held


class Noisy(pipelines.Block):
    """Draws numbers, and counts its forwards."""

    def __init__(self, chunk: int) -> None:
        super().__init__(chunk)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return torch.nn.functional.dropout(super().forward(x))


def test_nothing_is_left_behind() -> None:
    blocks = [Noisy(at) for at in range(2)]
    kept = torch.ones_like(blocks[1].up.bias)
    blocks[1].up.bias.grad = kept
    x, y = microbatch()
    before = torch.random.get_rng_state()
    dbt.profile(blocks, x, loss_fn=pipelines.loss, target=y, repeats=2, warmup=0)
    assert torch.equal(before, torch.random.get_rng_state())
    for block in blocks:
        assert int(dict(block.named_buffers())["calls"]) == 0
        grads = {name: one.grad for name, one in block.named_parameters() if one.grad is not None}
        assert grads == ({} if block is blocks[0] else {"up.bias": kept})
    assert torch.equal(kept, torch.ones_like(kept))


def test_chunks_may_be_made_one_after_the_other() -> None:
    alive: list[int] = []

    def chunks() -> Iterator[Any]:
        for at in range(3):
            module = pipelines.Block(at)
            module.register_forward_pre_hook(lambda *_, at=at: alive.append(at))
            yield module

    made = profiled(chunks, loss_fn=None, target=None)
    assert (made.stages, made.placement, made.microbatches) == (3, "looped", 6)
    assert len(made.chunks) == 3 and alive == sorted(alive)
    assert profiled(chunks()).stages == 3


def test_what_is_compiled_has_whole_backwards() -> None:
    blocks = [pipelines.Block(at) for at in range(2)]
    blocks[1].up.compile(backend="eager")
    rows = list(profiled(blocks).chunks)
    assert rows[0]["backward_weight_seconds"] is not None and rows[1]["backward_weight_seconds"] is None
    assert all(row["backward_seconds"] > 0 for row in rows)


class FrozenFront(pipelines.Block):
    def __init__(self, chunk: int) -> None:
        super().__init__(chunk)
        self.requires_grad_(chunk > 0)


def test_frozen_chunks_in_front_have_no_backward() -> None:
    rows = list(profiled([FrozenFront(at) for at in range(2)]).chunks)
    assert rows[0]["backward_seconds"] < rows[1]["backward_seconds"]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"placement": "w"}, "there is no placement 'w'"),
        ({"repeats": 0}, "repeats is 0: it is a whole number from 1"),
        ({"warmup": True}, "warmup is True"),
        ({"target": None}, "a loss needs a target"),
        ({"stages": 2}, "3 chunks cannot be spread over 2 stages"),
        ({"placement": "v"}, "3 chunks cannot be spread over 1 stages: in a V, two for each"),
    ],
)
def test_what_is_refused(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(db.InputError, match=said):
        profiled([pipelines.Block(at) for at in range(3)], **keywords)
