"""Trains the models of the benchmark in the orders that are asked for, rank by rank."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from models import Gpt, Sleepers
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt


class Case(NamedTuple):
    """A model, cut for a pipeline."""

    name: str
    model: Any
    stages: int
    microbatches: int
    steps: int
    device: str = "cpu"


class Row(NamedTuple):
    """A schedule: its step as it was predicted and as it was measured, in nanoseconds."""

    case: str
    schedule: str
    predicted: int
    measured: int
    hop: float
    overhead: float


#: Named orders: name and chunks per rank.
NAMED = (("1f1b", 1), ("zb-h1", 1), ("1f1b-i", 2), ("zb-v", 2))


class Rank:
    """One rank of the pipeline of a case."""

    def __init__(self, case: Case, rank: int) -> None:
        self.case = case
        self.rank = rank
        self.device = torch.device("cuda", rank) if case.device == "cuda" else torch.device("cpu")
        if case.device == "cuda":
            torch.cuda.set_device(self.device)
        self.losses: list[torch.Tensor] = []
        self.modules: dict[int, torch.nn.Module] = {}

    def stages(self, mine: list[int], chunks: int) -> list[PipelineStage]:
        """The stages `mine` of a model in so many chunks."""
        self.modules = {chunk: self.case.model.chunk(chunk, chunks).to(self.device) for chunk in mine}
        return [PipelineStage(module, chunk, chunks, self.device) for chunk, module in self.modules.items()]

    def schedule(self, order: db.Schedule) -> Any:
        """The schedule of torch that runs `order`."""
        stages = self.stages(dbt.stages_of(order, self.rank), order.stages * order.chunks)
        return dbt.schedule(stages, order, loss_fn=self.case.model.loss)

    def steps(self, schedule: Any, count: int) -> None:
        """Runs steps, each from no gradients."""
        inputs, targets = (one.to(self.device) for one in self.case.model.data(self.case.microbatches))
        given = [inputs] if 0 in self.modules else []
        for _ in range(count):
            for module in self.modules.values():
                module.zero_grad()
            schedule.step(*given, target=targets, losses=self.losses)

    def recorded(self, order: db.Schedule) -> dbt.Recording:
        """Steps in an order, after one to warm up."""
        return self.recorded_steps(self.schedule(order))

    def recorded_dual_pipe_v(self) -> dbt.Recording:
        """The same by torch's own DualPipeV, in which most backwards are whole."""
        chunks = 2 * self.case.stages
        stages = self.stages([self.rank, chunks - 1 - self.rank], chunks)
        schedule = pipelining.ScheduleDualPipeV(stages, self.case.microbatches, loss_fn=self.case.model.loss)
        return self.recorded_steps(schedule)

    def recorded_steps(self, schedule: Any) -> dbt.Recording:
        """Steps of a schedule, after one to warm up."""
        with dbt.record(schedule, warmup=1) as rec:
            self.steps(schedule, 1 + self.case.steps)
        return rec


def quiet(ask: Any, *args: Any, **keywords: Any) -> Any:
    """An answer without its notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.Note)
        return ask(*args, **keywords)


def named(name: str, chunks: int, case: Case) -> db.Schedule:
    """The order of a published schedule whose passes take equal times."""
    question = db.Question(
        stages=case.stages,
        microbatches=case.microbatches,
        chunks=chunks,
        forward="1ms",
        backward_input="1ms",
        backward_weight="1ms",
    )
    return quiet(db.simulate, question, name)[0].order


def question(profile: db.Profile, chunks: int) -> db.Question:
    """The pipeline that was recorded."""
    return db.Question(
        profile=profile, stages=profile.stages, microbatches=profile.microbatches, chunks=chunks
    )


def worked(rank: int, case: Case) -> Any:
    """Records the model in one schedule for each number of chunks, predicts every schedule and the best that
    a search finds, runs them all, and holds both against each other; and does so with torch's own DualPipeV,
    recorded in itself.
    """
    own = Rank(case, rank)
    profiles = {
        chunks: quiet(own.recorded(named(name, chunks, case)).profile)
        for name, chunks in (("zb-h1", 1), ("zb-v", 2))
    }
    theirs = own.recorded_dual_pipe_v()
    orders: list[Any] = [None]
    predicted: list[db.Outcome] = []
    if rank == 0:
        predicted = foretold(profiles)
        orders = [[one.order for one in predicted]]
        whole = quiet(theirs.profile)
        expected = quiet(db.simulate, question(whole, 2), theirs.schedule)[0]
    # One rank searches for all.
    torch.distributed.broadcast_object_list(orders)
    rows, pictures = [], {}
    for at, order in enumerate(orders[0]):
        rec = own.recorded(order)
        if rank == 0:
            comparison = db.compare(predicted[at], rec.timeline())
            profile = profiles[order.chunks]
            step = comparison.to_dict()
            pictures[order.name] = comparison.to_svg()
            rows.append(
                Row(case.name, order.name, *makespans(step), profile.hop or 0.0, profile.overhead or 0.0)
            )
    again = own.recorded_dual_pipe_v()
    if rank == 0:
        both = makespans(db.compare(expected, again.timeline()).to_dict())
        rows.append(Row(case.name, "dualpipe-v", *both, whole.hop or 0.0, whole.overhead or 0.0))
    return rows, pictures


def makespans(comparison: dict[str, Any]) -> tuple[int, int]:
    """The predicted and the measured step."""
    return comparison["predicted"]["makespan_ns"], comparison["measured"]["makespan_ns"]


def foretold(profiles: dict[int, db.Profile]) -> list[db.Outcome]:
    """The named schedules and the order that a search finds, as the profiles predict them."""
    found = [quiet(db.simulate, question(profiles[chunks], chunks), name)[0] for name, chunks in NAMED]
    best = quiet(db.search, question(profiles[2], 2), placement="v", memory_limit="2p", objective="makespan")
    order = db.Schedule.from_text(best.schedule.to_text(), "searched")
    return [*found, quiet(db.simulate, question(profiles[2], 2), order)[0]]


def trained(rank: int, case: Case, orders: list[db.Schedule]) -> Any:
    """Losses and gradients of one step in each order."""
    own, found = Rank(case, rank), []
    for order in orders:
        own.steps(own.schedule(order), 1)
        weights = {
            f"{chunk}.{name}": weight.grad.cpu()
            for chunk, module in own.modules.items()
            for name, weight in module.named_parameters()
        }
        found.append(([one.detach().cpu() for one in own.losses], weights))
    return found


def alone(case: Case, order: db.Schedule) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Losses and gradients of one step of one process without a pipeline."""
    chunks = order.stages * order.chunks
    modules = [case.model.chunk(chunk, chunks) for chunk in range(chunks)]
    return accumulated(modules, case.model.data(case.microbatches), case.model.loss, order)


def accumulated(
    modules: list[torch.nn.Module], batch: tuple[torch.Tensor, torch.Tensor], loss: Any, order: db.Schedule
) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Losses of the microbatches of a batch, and the means of their gradients by chunk and name. Gradients of
    a chunk are added up in the order in which it works on microbatches: sums of floats depend on it.
    """
    names = {
        f"{at}.{name}": one for at, whole in enumerate(modules) for name, one in whole.named_parameters()
    }
    inputs, targets = (one.chunk(order.microbatches) for one in batch)
    losses, by_microbatch = [], []
    for x, target in zip(inputs, targets):
        for module in modules:
            x = module(x)
        losses.append(loss(x, target))
        found = torch.autograd.grad(losses[-1], list(names.values()))
        by_microbatch.append(dict(zip(names, found)))
    sums: dict[str, torch.Tensor] = {}
    for one in (each for slots in order for slot in slots for each in passes(slot)):
        if one.kind in ("W", "BW"):
            for name, value in by_microbatch[one.microbatch].items():
                if name.startswith(f"{one.chunk}."):
                    sums[name] = sums[name] + value if name in sums else value
    means = {name: one / order.microbatches for name, one in sums.items()}
    return [one.detach() for one in losses], means


def passes(slot: Any) -> tuple[db.Pass, ...]:
    """The passes of a slot."""
    return (slot,) if isinstance(slot, db.Pass) else tuple(slot)


def sleepers(stages: int, microbatches: int, steps: int, times: tuple[float, float, float]) -> Case:
    """A pipeline of stages that sleep, two layers on each rank: `times` are F, I and W of a layer in
    milliseconds. The first chunk is light, and the last has a head on it.
    """
    shares = [0.6, *[1.0] * (2 * stages - 2), 1.6]
    layers = [tuple(share * one for one in times) for share in shares]
    return Case(f"sleepy, p={stages}", Sleepers(layers), stages, microbatches, steps)


def gpt(stages: int, microbatches: int, steps: int, device: str, **sizes: Any) -> Case:
    """A pipeline of a small GPT."""
    model = Gpt(layers=2 * stages, **sizes)
    name = "GPT, checkpointed" if model.checkpointed else "GPT"
    return Case(f"{name}, p={stages}", model, stages, microbatches, steps, device)
