"""Ranks go on together or are refused together: no rank waits for one that has stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt
from debubble.torch import _runtime

RANKS = 2

H1 = pipelines.order("zb-h1", RANKS, 8)
ZB_V = pipelines.order("zb-v", RANKS, 8, 2)
V_1F1B = pipelines.order("1f1b-v", RANKS, 8, 2)

#: What PyTorch learns in the first step, other steps may change in versions that prepare anew.
PREPARES_ANEW = pipelines.VERSION >= (2, 12)


def compiled(block: Any) -> None:
    block.up = torch.compile(block.up, backend="eager")


def compiled_in_place(block: Any) -> None:
    block.down.compile(backend="eager")


def replicated(block: Any) -> None:
    from torch.distributed._composable.replicate import replicate

    replicate(block)


def in_parallel(block: Any) -> None:
    block.up = torch.nn.parallel.DistributedDataParallel(block.up)


def sharded_in_part(block: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (RANKS,))
    fully_shard(block.up, mesh=mesh, reshard_after_forward=False)


def fused(block: Any) -> None:
    block.up.weight.main_grad = torch.zeros_like(block.up.weight)


#: What is done to a block, the orders that refuse it, and words of the message.
UNFIT: list[tuple[Callable[[Any], None], list[db.Schedule], list[str]]] = [
    (compiled, [H1, ZB_V], ["torch.compile cannot split", "1f1b-v"]),
    (compiled_in_place, [H1, ZB_V], ["torch.compile cannot split", "1f1b-v"]),
    (sharded_in_part, [ZB_V], ["FSDP of a part", "for the module of the stage, too"]),
    (replicated, [ZB_V, V_1F1B], ["replicate() reduces", "replicate_with_fsdp"]),
    (in_parallel, [ZB_V, V_1F1B], ["DistributedDataParallel inside of it", "replicate_with_fsdp"]),
    (fused, [ZB_V, V_1F1B], ["main_grad of up.weight", "scale_grads=False"]),
]


def refused(rank: int, change: Callable[[Any], None], wanted: db.Schedule, before: bool) -> str:
    """What is said of a block that only rank 1 has, before the schedule is built or behind that."""
    chunks = wanted.stages * wanted.chunks
    blocks = {at: pipelines.Block(at) for at in dbt.stages_of(wanted, rank)}
    stages = [PipelineStage(block, at, chunks, torch.device("cpu")) for at, block in blocks.items()]

    def spoil() -> None:
        # Each rank takes part where modules are spread over ranks.
        change(next(iter(blocks.values())) if rank == 1 else pipelines.Block(9))

    passes: list[int] = []
    for block in blocks.values():
        block.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        if before:
            spoil()
        schedule = dbt.schedule(stages, wanted, loss_fn=pipelines.loss)
        if not before:
            spoil()
        pipelines.step(schedule, stages, wanted.microbatches, [])
    except db.InputError as error:
        assert not passes
        return str(error)
    return "trained"


@pytest.mark.parametrize("before", [True, False], ids=["built", "first step"])
@pytest.mark.parametrize(("change", "every", "words"), UNFIT, ids=lambda one: getattr(one, "__name__", ""))
def test_what_one_rank_cannot_run_is_refused_on_all(
    change: Any, every: list[db.Schedule], words: list[str], before: bool
) -> None:
    for wanted in every:
        other, mine = pipelines.ranks(RANKS, refused, change, wanted, before)
        assert mine.startswith("stage 1 cannot run the order"), mine
        assert all(word in mine for word in words), mine
        assert other == f"rank 1 of the pipeline cannot go on: {mine}"


def of_another_order(rank: int) -> str:
    wanted = H1 if rank == 0 else pipelines.order("zb-h1", RANKS, 4)
    stage = pipelines.stage(rank, RANKS)
    try:
        dbt.schedule(stage, wanted, loss_fn=pipelines.loss, n_microbatches=8)
    except db.InputError as error:
        return error.message
    return "built"


def test_errors_of_any_kind_reach_all() -> None:
    mine = "the order 'zb-h1' has 4 microbatches, not 8"
    assert pipelines.ranks(RANKS, of_another_order) == [f"rank 1 of the pipeline cannot go on: {mine}", mine]


def alone(wanted: db.Schedule, prepared: Callable[[list[Any]], None], batch: Any) -> dict[str, Any]:
    """Gradients of one process."""
    blocks: list[Any] = [pipelines.Block(at) for at in range(wanted.stages * wanted.chunks)]
    prepared(blocks)
    for x, target in zip(*(one.chunk(wanted.microbatches) for one in batch)):
        (pipelines.loss(torch.nn.Sequential(*blocks)(x), target) / wanted.microbatches).backward()
    named = ((at, *one) for at, block in enumerate(blocks) for one in block.named_parameters())
    return {f"{at}.{name}": weight.grad for at, name, weight in named}


def freezes(blocks: list[Any]) -> None:
    """Nothing before the last chunk is trained."""
    for block in blocks[:-1]:
        block.requires_grad_(False)


def trains(blocks: list[Any]) -> None:
    for block in blocks:
        block.requires_grad_(True)


def of_sizes(*sizes: int) -> tuple[Any, Any]:
    torch.manual_seed(sum(sizes))
    x, y = (torch.randn(*sizes, pipelines.WIDTH, dtype=torch.float64) for _ in range(2))
    return x, y


#: Each step: what is trained, and the sizes of its batch.
STEPS: Any = {
    "unfreezing": [(freezes, (16,)), (freezes, (16,)), (trains, (16,)), (trains, (16,))],
    "freezing": [(trains, (16,)), (freezes, (16,))],
    "batch": [(trains, (16,)), (trains, (24,)), (trains, (16,))],
    "sequence": [(trains, (16, 5)), (trains, (16, 7)), (trains, (16, 7))],
}


def changing(rank: int, what: str, wanted: db.Schedule, example: Any) -> list[Any]:
    """Gradients of each step, or the message of the first that is refused and then the step before again."""
    chunks = wanted.stages * wanted.chunks
    blocks = [pipelines.Block(at) for at in range(chunks)]
    stages = []
    for at in dbt.stages_of(wanted, rank):
        sizes = {}
        if example is not None:
            sizes["input_args"] = example.clone().requires_grad_(at > 0)
            sizes["output_args"] = example.clone().requires_grad_()
        stages.append(PipelineStage(blocks[at], at, chunks, torch.device("cpu"), **sizes))
    schedule = dbt.schedule(stages, wanted, loss_fn=pipelines.loss)
    found: list[Any] = []

    def step(prepared: Any, sizes: Any) -> None:
        prepared(blocks)
        x, y = of_sizes(*sizes)
        for one in stages:
            one.submod.zero_grad()
        schedule.step(*([x] if stages[0].is_first else []), target=y)
        found.append(
            {
                f"{one.stage_index}.{name}": weight.grad
                for one in stages
                for name, weight in one.submod.named_parameters()
            }
        )

    for number, one in enumerate(STEPS[what]):
        try:
            step(*one)
        except db.InputError as error:
            found.append(str(error))
            step(*STEPS[what][number - 1])
            break
    return found


@pytest.mark.parametrize("wanted", [ZB_V, H1, V_1F1B], ids=lambda order: order.name)
@pytest.mark.parametrize("what", STEPS)
def test_a_step_that_differs_is_right_or_refused_on_all(what: str, wanted: db.Schedule) -> None:
    if what.endswith("freezing") and pipelines.VERSION == (2, 12):
        pytest.skip("torch sends a gradient that is none: refused, in test_torch_refusals.py")
    told = pipelines.ranks(RANKS, changing, what, wanted, None)
    for one in told:
        assert isinstance(one, list), one
    if any(isinstance(one, str) for one in told[0]):
        assert not PREPARES_ANEW
        check_refused(told)
        return
    assert len(told[0]) == len(told[1]) == len(STEPS[what])
    for (prepared, sizes), *ranks in zip(STEPS[what], *told):
        expected = alone(wanted, prepared, of_sizes(*sizes))
        seen = {**ranks[0], **ranks[1]}
        assert seen.keys() == expected.keys()
        for name, grad in expected.items():
            torch.testing.assert_close(seen[name], grad, rtol=1e-12, atol=1e-15)


def check_refused(told: list[list[Any]]) -> None:
    """All ranks say the same of the same step, and train on in the one before."""
    messages = [[at for at, one in enumerate(rank) if isinstance(one, str)] for rank in told]
    assert messages[0] == messages[1] and len(messages[0]) == 1, messages
    at = messages[0][0]
    assert all("differs from the step before" in rank[at] and "anew" in rank[at] for rank in told), told
    for rank in told:
        again, before = rank[at + 1], rank[at - 1]
        assert all(again[name] is before[name] or torch.equal(again[name], before[name]) for name in before)


def test_stages_of_given_sizes_refuse_others() -> None:
    check_refused(pipelines.ranks(RANKS, changing, "batch", ZB_V, of_sizes(2)[0]))


def cut(rank: int) -> str:
    """Only rank 0 has a batch that does not divide."""
    trained = pipelines.Trained(rank, H1)
    x, y = pipelines.batch(8)
    try:
        trained.schedule.step(*([x[:-1]] if rank == 0 else []), target=y)
    except db.InputError as error:
        return error.message
    return "trained"


def test_a_batch_that_does_not_divide_stops_all() -> None:
    mine = "a batch of 15 does not divide into 8 microbatches"
    assert pipelines.ranks(RANKS, cut) == [mine, f"rank 0 of the pipeline cannot go on: {mine}"]


def compiled_blocks(rank: int) -> Any:
    """Blocks that are compiled train in an order of whole backwards."""
    chunks = 2 * RANKS
    stages = []
    for at in dbt.stages_of(V_1F1B, rank):
        block = pipelines.Block(at)
        block.up.compile(backend="aot_eager")
        stages.append(PipelineStage(block, at, chunks, torch.device("cpu")))
    schedule = dbt.schedule(stages, V_1F1B, loss_fn=pipelines.loss)
    pipelines.step(schedule, stages, 8, [])
    return pipelines.gradients(stages)


def test_compiled_blocks_train_in_whole_backwards() -> None:
    told = pipelines.ranks(RANKS, compiled_blocks)
    for one in told:
        assert isinstance(one, dict), one
    _, gradients = pipelines.alone(V_1F1B)
    for name, grad in gradients.items():
        torch.testing.assert_close({**told[0], **told[1]}[name], grad, rtol=1e-12, atol=1e-15)


def lost(rank: int) -> str:
    trained = pipelines.Trained(rank, H1)
    if rank == 1:
        return "left"
    try:
        trained.step()
    except db.LostRank as error:
        return str(error)
    return "trained"


def test_a_rank_that_has_ended_is_a_message() -> None:
    told, _ = pipelines.ranks(RANKS, lost)
    assert told.startswith("rank 0 of the pipeline waited for the others to begin the step: one of them")


def one_group(rank: int) -> list[bool]:
    """Schedules of the same ranks share what they agree over."""
    joined = [pipelines.Trained(rank, wanted).schedule for wanted in (H1, ZB_V)]
    from debubble.torch import _agree

    prepares = _runtime.prepares_again(joined[0])
    return [len(joined) == 2, len(_agree._JOINED) == 1, prepares or not PREPARES_ANEW]


def test_ranks_join_once() -> None:
    assert pipelines.ranks(RANKS, one_group) == [[True] * 3] * RANKS
