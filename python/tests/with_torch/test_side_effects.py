"""What a step leaves besides its own gradients: those of steps before, other tensors, calls of hooks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

RANKS = 2


def orders(microbatches: int) -> list[db.Schedule]:
    """Whole backwards and split ones, looped and in a V."""
    return [
        pipelines.order(name, RANKS, microbatches, chunks)
        for name, chunks in [("1f1b", 1), ("zb-h1", 1), ("1f1b-v", 2), ("zb-v", 2)]
    ]


def built(rank: int, wanted: db.Schedule, block: Any, **keywords: Any) -> tuple[Any, list[Any]]:
    """A schedule of `block` in every chunk, and its stages."""
    chunks = wanted.stages * wanted.chunks
    mine = dbt.stages_of(wanted, rank)
    stages = [PipelineStage(block(at), at, chunks, torch.device("cpu")) for at in mine]
    return dbt.schedule(stages, wanted, loss_fn=pipelines.loss, **keywords), stages


def accumulated(rank: int, every: list[db.Schedule]) -> list[dict[str, Any]]:
    """Gradients after one step, and after two more without `zero_grad`."""
    found = []
    for wanted in every:
        schedule, stages = built(rank, wanted, pipelines.Block)
        for steps in (1, 2):
            for _ in range(steps):
                pipelines.step(schedule, stages, wanted.microbatches, [])
            found.append(pipelines.gradients(stages))
    return found


@pytest.mark.parametrize("microbatches", [8, 6])
def test_steps_add_to_gradients(microbatches: int) -> None:
    every = orders(microbatches)
    told = pipelines.ranks(RANKS, accumulated, every)
    for one in told:
        assert isinstance(one, list), one
    for at, wanted in enumerate(every):
        _, gradients = pipelines.alone(wanted)
        once, thrice = ({**told[0][number], **told[1][number]} for number in (2 * at, 2 * at + 1))
        assert once.keys() == thrice.keys() == gradients.keys()
        for name, gradient in gradients.items():
            assert torch.equal(once[name], gradient), (wanted.name, name)
            # Where m is no power of two, what is held is rounded once more.
            torch.testing.assert_close(thrice[name], 3 * gradient, rtol=1e-14, atol=1e-17)


class Fused(torch.autograd.Function):  # type: ignore[name-defined]
    """A layer whose backward adds the gradient of its weight to `main_grad`, as fused kernels do."""

    @staticmethod
    def forward(context: Any, x: Any, weight: Any) -> Any:
        context.save_for_backward(x)
        context.weight = weight
        return x @ weight

    @staticmethod
    def backward(context: Any, grad: Any) -> Any:
        (x,) = context.saved_tensors
        context.weight.main_grad += x.T @ grad
        return grad @ context.weight.T, None


class WithFused(pipelines.Block):
    """A fused layer between others, used `times` times."""

    times = 1

    def __init__(self, chunk: int) -> None:
        super().__init__(chunk)
        shape = (pipelines.WIDTH, pipelines.WIDTH)
        self.fused = torch.nn.Parameter(torch.randn(shape, dtype=torch.float64) / 8)
        self.fused.main_grad = torch.zeros(shape, dtype=torch.float64)

    def forward(self, x: Any) -> Any:
        for _ in range(self.times):
            x = super().forward(torch.tanh(Fused.apply(super().forward(x), self.fused)))
        return x


class Again(WithFused):
    times = 2


def main_grads(rank: int, block: Any, every: list[db.Schedule]) -> list[dict[str, Any]]:
    found = []
    for wanted in every:
        schedule, stages = built(rank, wanted, block, scale_grads=False)
        pipelines.step(schedule, stages, wanted.microbatches, [])
        assert all(one.submod.fused.grad is None for one in stages)
        found.append(
            {
                f"{one.stage_index}.{name}": weight.main_grad if weight.grad is None else weight.grad
                for one in stages
                for name, weight in one.submod.named_parameters()
            }
        )
    return found


@pytest.mark.parametrize("block", [WithFused, Again])
def test_a_fused_backward_runs_once(block: Any) -> None:
    every = orders(8)
    told = pipelines.ranks(RANKS, main_grads, block, every)
    for one in told:
        assert isinstance(one, list), one
    for at, wanted in enumerate(every):
        blocks = [block(chunk) for chunk in range(wanted.stages * wanted.chunks)]
        for x, target in zip(*(one.chunk(8) for one in pipelines.batch(8))):
            pipelines.loss(torch.nn.Sequential(*blocks)(x), target).backward()
        seen = {**told[0][at], **told[1][at]}
        for chunk, alone in enumerate(blocks):
            for name, weight in alone.named_parameters():
                expected = weight.main_grad if weight.grad is None else weight.grad
                torch.testing.assert_close(seen[f"{chunk}.{name}"], expected, rtol=1e-12, atol=1e-14)


def called(rank: int, every: list[db.Schedule]) -> list[dict[str, list[int]]]:
    """How often hooks of each parameter were called in a step: before it has its gradient, behind that, and
    those of the node that adds it.
    """
    found = []
    for wanted in every:
        schedule, stages = built(rank, wanted, pipelines.Block)
        calls: dict[str, list[int]] = {}
        nodes = []
        for one in stages:
            for name, weight in one.submod.named_parameters():
                count = calls.setdefault(f"{one.stage_index}.{name}", [0, 0, 0])
                nodes.append(weight.expand_as(weight).grad_fn.next_functions[0][0])
                weight.register_hook(counting(count, 0))
                weight.register_post_accumulate_grad_hook(counting(count, 1))
                nodes[-1].register_hook(counting(count, 2))
        pipelines.step(schedule, stages, wanted.microbatches, [])
        found.append(calls)
    return found


def counting(count: list[int], at: int) -> Any:
    def hook(*_: Any) -> None:
        count[at] += 1

    return hook


def test_hooks_are_called_once_a_microbatch() -> None:
    every = orders(8)
    told = pipelines.ranks(RANKS, called, every)
    for at, wanted in enumerate(every):
        calls = {**told[0][at], **told[1][at]}
        assert len(calls) == 4 * wanted.stages * wanted.chunks
        # Preparing for the first step runs tensor hooks, too, in some versions.
        assert all(count[0] >= 8 and count[1:] == [8, 8] for count in calls.values()), (wanted.name, calls)
