"""Pipelines of real torch in processes of this machine, over gloo."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from ranks import ranks as ranks
from torch.distributed.pipelining import PipelineStage
from training import accumulated

import debubble as db
import debubble.torch as dbt

#: The first two numbers of the version of PyTorch.
VERSION = tuple(int(one) for one in torch.__version__.split(".")[:2])

#: Sizes of the small model.
BATCH, WIDTH = 2, 16

TIMES: dict[str, Any] = {"forward": "10ms", "backward_input": "11ms", "backward_weight": "7ms", "hop": "1ms"}


def order(name: str, stages: int, microbatches: int, chunks: int = 1) -> db.Schedule:
    """The order of a family."""
    question = db.Question(stages=stages, microbatches=microbatches, chunks=chunks, **TIMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return db.simulate(question, name)[0].order


class Block(torch.nn.Module):
    """A layer whose backward can be split."""

    def __init__(self, chunk: int) -> None:
        super().__init__()
        torch.manual_seed(chunk)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def stage(chunk: int, chunks: int) -> PipelineStage:
    """The chunk as a stage of torch."""
    return PipelineStage(Block(chunk), chunk, chunks, torch.device("cpu"))


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(output, target)


def batch(microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets."""
    torch.manual_seed(12345)
    shape = (BATCH * microbatches, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


class Trained:
    """A rank of a pipeline that trains the small model in an order."""

    def __init__(self, rank: int, wanted: db.Schedule, **keywords: Any) -> None:
        chunks = wanted.stages * wanted.chunks
        self.microbatches = wanted.microbatches
        self.stages = [stage(chunk, chunks) for chunk in dbt.stages_of(wanted, rank)]
        self.schedule = dbt.schedule(self.stages, wanted, loss_fn=loss, **keywords)
        self.losses: list[torch.Tensor] = []

    def step(self) -> None:
        step(self.schedule, self.stages, self.microbatches, self.losses)

    def gradients(self) -> dict[str, torch.Tensor]:
        return gradients(self.stages)


def step(schedule: Any, stages: list[Any], microbatches: int, losses: list[Any]) -> None:
    """A step of `schedule` with the batch."""
    x, y = batch(microbatches)
    inputs = [x] if any(one.is_first for one in stages) else []
    schedule.step(*inputs, target=y, losses=losses)


def gradients(stages: list[Any]) -> dict[str, torch.Tensor]:
    """The gradients of all parameters of `stages` by name."""
    return {
        f"{one.stage_index}.{name}": weight.grad.clone()
        for one in stages
        for name, weight in one.submod.named_parameters()
    }


def alone(wanted: db.Schedule) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Losses and gradients of one step of one process without a pipeline."""
    blocks: list[torch.nn.Module] = [Block(chunk) for chunk in range(wanted.stages * wanted.chunks)]
    return accumulated(blocks, batch(wanted.microbatches), loss, wanted)
