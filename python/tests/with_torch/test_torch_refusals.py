"""What `debubble.torch.schedule` refuses, and why."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt

RANKS = 2

V = pipelines.order("zb-v", RANKS, 8, 2)
H1 = pipelines.order("zb-h1", RANKS, 8)


def stages(rank: int, chunks: int, every: int) -> list[Any]:
    """Chunks that lie looped."""
    return [pipelines.stage(rank + RANKS * at, every) for at in range(chunks)]


def refused(rank: int) -> list[str]:
    """Messages of the rank, in the order of `SAID`."""
    looped = stages(rank, 2, 4)
    one = stages(rank, 1, 2)
    wide = pipelines.order("zb-h1", 4, 8)
    found = []
    for given, order, keywords in [
        (looped, V, {}),
        (one, V, {}),
        (one, wide, {}),
        (one, H1, {"n_microbatches": 4}),
        (one, "zb-h1", {}),
        (one, "zb-h0", {"n_microbatches": 8}),
        (stages(rank, 1, 3), "zb-h1", {"n_microbatches": 8}),
        (looped, "dualpipe", {"n_microbatches": 8}),
        (compiled(rank), H1, {}),
        (in_parallel(rank), H1, {}),
    ]:
        with pytest.raises(db.InputError) as caught:
            dbt.schedule(given, order, loss_fn=pipelines.loss, **keywords)
        found.append(caught.value.message)
    return found


def compiled(rank: int) -> list[Any]:
    module = torch.compile(pipelines.Block(rank), backend="eager")
    return [PipelineStage(module, rank, RANKS, torch.device("cpu"))]


def in_parallel(rank: int) -> list[Any]:
    module = torch.nn.parallel.DistributedDataParallel(pipelines.Block(rank))
    return [PipelineStage(module, rank, RANKS, torch.device("cpu"))]


SAID = [
    "the order 'zb-v' runs stages 1, 2 on rank 1, which was given stages 1, 3",
    "the order 'zb-v' is for 4 stages of torch, 2 per rank, and the model has 2",
    "the order 'zb-h1' is for 4 ranks, and the pipeline has 2",
    "the order 'zb-h1' has 8 microbatches, not 4",
    "how many microbatches zb-h1 is for is not said",
    "zb-h0",
    "3 stages of torch cannot be spread evenly over 2 ranks",
    "torch holds every chunk on one rank, and a mirrored placement has two copies of each",
    "stage 1 cannot run the order 'zb-h1': torch.compile cannot split the backward of a module",
    "DistributedDataParallel does not reduce the gradients of a split backward",
]


def test_orders_for_another_pipeline() -> None:
    other, told = pipelines.ranks(RANKS, refused)
    assert isinstance(other, list) and isinstance(told, list), (other, told)
    for message, said in zip(told, SAID):
        assert said in message
    assert len(told) == len(SAID)


def taken(rank: int, best: Any) -> list[Any]:
    """Everything that has an order is one, and so is the name of a family."""
    warnings.simplefilter("ignore")
    question = db.Question(stages=RANKS, microbatches=8, **pipelines.TIMES)
    found = db.search(question)
    every = [best, found, found[0], found.predicted, "zb-h1", "zb-2p"]
    return [
        dbt.schedule(
            stages(rank, 1, 2)[0], one, n_microbatches=8, loss_fn=pipelines.loss, scale_grads=False
        ).scale_grads
        for one in every
    ]


def test_whatever_has_an_order_is_one() -> None:
    assert pipelines.ranks(RANKS, taken, H1) == [[False] * 6] * RANKS


def test_what_is_no_order() -> None:
    with pytest.raises(TypeError, match="an order is a Schedule"):
        dbt.stages_of(7, 0)
    with pytest.raises(db.InputError, match="there is no rank 2: zb-v is for 2"):
        dbt.stages_of(V, 2)
    with pytest.raises(TypeError, match="stages are PipelineStages"):
        dbt.schedule([], V)
    assert [dbt.stages_of(V, rank) for rank in range(RANKS)] == [[0, 3], [1, 2]]


def profile_of_another(rank: int) -> str:
    """A profile of a model in 2 chunks knows nothing of one in 4."""
    trained = pipelines.Trained(rank, H1)
    with dbt.record(trained.schedule, timeout=30) as rec:
        for _ in range(2):
            trained.step()
    with pytest.raises(db.InputError) as caught:
        db.simulate(db.Question(profile=rec.profile(), stages=RANKS, microbatches=8, chunks=2), "zb-v")
    return caught.value.message


def test_a_profile_of_another_model() -> None:
    message = "the profile has 2 chunks, which cannot be put together to 4"
    assert pipelines.ranks(RANKS, profile_of_another) == [message] * RANKS


class Tied(pipelines.Block):
    """A block whose first weight is that of another one."""

    def __init__(self, chunk: int, other: pipelines.Block) -> None:
        super().__init__(chunk)
        self.up.weight = other.up.weight


class Reentrant(pipelines.Block):
    """A block that checkpoints in the way that torch cannot split."""

    def __init__(self, chunk: int) -> None:
        super().__init__(chunk)
        # Such a checkpoint has gradients only if its input has.
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(super().forward, self.scale * x, use_reentrant=True)


def silent(rank: int) -> list[str]:
    """What torch gets wrong in silence, or breaks down at, is refused."""
    found = []
    mine = dbt.stages_of(V, rank)
    blocks = [pipelines.Block(mine[0])]
    blocks.append(Tied(mine[1], blocks[0]))
    tied = [PipelineStage(block, at, 4, torch.device("cpu")) for block, at in zip(blocks, mine)]
    with pytest.raises(db.InputError) as caught:
        dbt.schedule(tied, V, loss_fn=pipelines.loss)
    found.append(str(caught.value))
    dbt.schedule(tied, V, loss_fn=pipelines.loss, scale_grads=False)
    trained = pipelines.Trained(rank, V)
    x, y = pipelines.batch(8)
    with pytest.raises(db.InputError) as caught:
        trained.schedule.step(*([x[:-1]] if rank == 0 else []), target=y[:-1])
    found.append(str(caught.value))
    return found


def test_what_goes_wrong_in_silence_is_refused() -> None:
    for told in pipelines.ranks(RANKS, silent):
        assert isinstance(told, list), told
        shared, cut = told
        assert "share the parameter up.weight" in shared and "scale_grads=False" in shared
        assert "a batch of 15 does not divide into 8 microbatches" in cut


def reentrant(rank: int) -> str:
    mine = dbt.stages_of(V, rank)
    given = [PipelineStage(Reentrant(chunk), chunk, 4, torch.device("cpu")) for chunk in mine]
    schedule = dbt.schedule(given, V, loss_fn=pipelines.loss)
    try:
        pipelines.step(schedule, given, 8, [])
    except db.InputError as error:
        return str(error)
    except Exception as error:  # The other rank waits for one that has ended.
        return type(error).__name__
    return "trained"


def without_eval(rank: int) -> str:
    with pytest.raises(db.InputError) as caught:
        pipelines.Trained(rank, V).schedule.eval()
    return caught.value.message


def test_a_torch_without_eval() -> None:
    if pipelines.VERSION != (2, 8):
        pytest.skip("this one has it")
    assert "has no eval()" in pipelines.ranks(RANKS, without_eval)[0]


def frozen(rank: int) -> str:
    mine = dbt.stages_of(V, rank)
    blocks = [pipelines.Block(chunk).requires_grad_(chunk > 1) for chunk in mine]
    given = [PipelineStage(block, chunk, 4, torch.device("cpu")) for block, chunk in zip(blocks, mine)]
    schedule = dbt.schedule(given, V, loss_fn=pipelines.loss)
    try:
        pipelines.step(schedule, given, 8, [])
    except db.InputError as error:
        return str(error)
    except Exception as error:
        return type(error).__name__
    return "trained"


def test_frozen_stages_in_front_train_or_are_refused() -> None:
    told = pipelines.ranks(RANKS, frozen)
    if pipelines.VERSION == (2, 12):
        assert any("needs no gradient" in str(one) for one in told), told
    else:
        assert told == ["trained"] * RANKS


class Checkpointed(pipelines.Block):
    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)


def notes_of_steps(rank: int, block: Any, order: db.Schedule) -> list[list[str]]:
    """The notes of each of two steps."""
    chunks = RANKS * order.chunks
    mine = dbt.stages_of(order, rank)
    given = [PipelineStage(block(chunk), chunk, chunks, torch.device("cpu")) for chunk in mine]
    schedule = dbt.schedule(given, order, loss_fn=pipelines.loss)
    found = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pipelines.step(schedule, given, 8, [])
        found.append([str(one.message) for one in caught if issubclass(one.category, db.Note)])
    return found


def test_checkpoints_under_split_backwards_are_noted_once() -> None:
    for first, second in pipelines.ranks(RANKS, notes_of_steps, Checkpointed, V):
        assert len(first) == 1 and second == []
        assert "the order 'zb-v' splits their backwards" in first[0]
        assert "in B and again in W" in first[0] and "1f1b-v" in first[0]


@pytest.mark.parametrize(
    ("block", "order"), [(pipelines.Block, V), (Checkpointed, pipelines.order("1f1b", RANKS, 8))]
)
def test_nothing_is_noted_without_both(block: Any, order: db.Schedule) -> None:
    assert pipelines.ranks(RANKS, notes_of_steps, block, order) == [[[], []]] * RANKS


def copies(rank: int) -> list[str]:
    """What is said of an order with copies to the host."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = stages(rank, 2, 4)
        schedule = dbt.schedule(given, "po-h", n_microbatches=8, loss_fn=pipelines.loss)
    pipelines.step(schedule, given, 8, [])
    return [str(one.message) for one in caught if issubclass(one.category, db.Note)]


def test_copies_to_the_host_are_left_out_with_a_note() -> None:
    message = "the order 'po-h' runs without its copies to the host: all activations stay on the device"
    assert pipelines.ranks(RANKS, copies) == [[message]] * RANKS


def fully_sharded(rank: int, reshards: Any, steps: int = 1) -> str:
    """Two ranks of a pipeline, each a group of two that shard its chunks, or without `reshards` are alike."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (RANKS, 2), mesh_dim_names=("pipeline", "data"))
    mine = dbt.stages_of(V, mesh["pipeline"].get_local_rank())
    blocks = {}
    for chunk in mine:
        blocks[chunk] = pipelines.Block(chunk)
        if reshards is None:
            from torch.distributed._composable.replicate_with_fsdp import replicate

            replicate(blocks[chunk], mesh=mesh["data"])
        else:
            fully_shard(blocks[chunk], mesh=mesh["data"], reshard_after_forward=reshards)
    group = mesh["pipeline"].get_group()
    given = [PipelineStage(one, at, 4, torch.device("cpu"), group=group) for at, one in blocks.items()]
    try:
        schedule = dbt.schedule(given, V, loss_fn=pipelines.loss)
    except db.InputError as error:
        # The other pipeline still needs the store of rank 0.
        torch.distributed.barrier()
        return str(error)
    for _ in range(steps):
        pipelines.step(schedule, given, 8, [])
    _, gradients = pipelines.alone(V)
    for chunk, block in blocks.items():
        for name, weight in block.named_parameters():
            torch.testing.assert_close(weight.grad.full_tensor(), steps * gradients[f"{chunk}.{name}"])
    return "trained"


def test_fsdp_that_reshards_is_refused_and_trains_otherwise() -> None:
    for told in pipelines.ranks(2 * RANKS, fully_sharded, True):
        assert "FSDP frees its parameters" in told and "reshard_after_forward=False" in told
    for steps in (1, 2):
        assert pipelines.ranks(2 * RANKS, fully_sharded, False, steps) == ["trained"] * 2 * RANKS


def test_replicas_by_fsdp_train() -> None:
    pytest.importorskip("torch.distributed._composable.replicate_with_fsdp")
    assert pipelines.ranks(2 * RANKS, fully_sharded, None, 2) == ["trained"] * 2 * RANKS


def test_reentrant_checkpoints_are_named() -> None:
    told = pipelines.ranks(RANKS, reentrant)
    assert any("use_reentrant=False" in str(one) for one in told), told
