"""Orders of debubble in Megatron-core: losses and gradients are those of Megatron's own 1F1B, to the bit."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import debubble as db
import debubble.megatron as dbm
from debubble.megatron._order import Plan, Value
from debubble.megatron._split import Backward

pytest.importorskip("megatron.core")
import torch
from pipelines import TIMES, order

MICROBATCHES = 8


def orders(ranks: int) -> dict[str, db.Schedule]:
    """Whole and split backwards, looped chunks, a V and a searched order."""
    question = db.Question(stages=ranks, microbatches=MICROBATCHES, **TIMES)
    names = {"1f1b": 1, "1f1b-i": 2, "zb-h1": 1, "zb-2p": 1, "zb-v": 2}
    made = {name: order(name, ranks, MICROBATCHES, chunks) for name, chunks in names.items()}
    return {**made, "searched": db.search(question, memory_limit="1p").schedule}


def ran(script: str, *arguments: object) -> None:
    """Runs a script beside this file."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def steps(folder: Path, made: dict[str, db.Schedule], ranks: int, replicas: int, kinds: list[str]) -> Any:
    """Steps of orders, beside those of Megatron's own 1F1B: by name and kind."""
    for name, schedule in made.items():
        (folder / f"{name}.txt").write_text(schedule.to_text())
    files = [folder / f"{name}.txt" for name in made]
    ran("megatron_runs.py", ranks, replicas, folder, ",".join(kinds), *files)
    return lambda name, kind: json.loads((folder / f"{name}-{kind}.json").read_text())


#: How many gradients a step of each kind has at least.
GRADIENTS = {
    "step": 101,
    "tied": 101,
    "untied": 101,
    "tokens": 101,
    "short": 101,
    "frozen": 48,
    "detached": 48,
    "adapters": 16,
    "mtp": 120,
}


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_steps_are_those_of_megatron(ranks: int, tmp_path: Path) -> None:
    made = orders(ranks)
    found = steps(tmp_path, made, ranks, 1, ["forward", *GRADIENTS])
    for name, schedule in made.items():
        losses = found("megatron", "step")["losses"]
        assert found(name, "forward") == {"losses": losses, "gradients": {}}, name
        for kind, gradients in GRADIENTS.items():
            if schedule.placement == "v" and kind in ("tied", "mtp"):
                continue
            expected = found("megatron", kind)
            assert len(expected["losses"]) == MICROBATCHES
            assert len(expected["gradients"]) == gradients, kind
            assert found(name, kind) == expected, (name, kind)


@pytest.mark.slow
def test_replicas_with_the_distributed_optimizer_are_those_of_megatron(tmp_path: Path) -> None:
    made = {name: one for name, one in orders(2).items() if name in ("zb-h1", "1f1b-i", "zb-v")}
    found = steps(tmp_path, made, 2, 2, ["untied", "sharded"])
    expected = found("megatron", "untied")
    assert len(expected["losses"]) == 2 * MICROBATCHES
    for name in made:
        assert found(name, "untied") == expected, name
        assert found(name, "sharded") == expected, name


#: What every rank hears of a step that one of them does not run.
REFUSED = {
    "tied": "has both ends of the model on rank 0, tied",
    "mtp": "multi-token prediction shares",
    "placement": "its post_process is",
    "looped-in-a-v": "its post_process is",
    "chunks": "has 2 chunks on rank 1, the model 1",
    "iterators": "with data iterators for 1",
    "orders": "the order is '1f1b' (",
    "microbatches": "has 8 microbatches, the step 4",
    "samples": "the shape of an activation is (8, 2, 16) on rank 0 of the pipeline and (8, 1, 16) on rank 1",
    "evaluation": "forward_only is False on rank 0 of the pipeline and True on rank 1",
    "later-microbatches": "has 8 microbatches, the step 4",
    "later-samples": "and (8, 1, 16) on rank 1",
    "later-tokens": "and (4, 2, 16) on rank 1",
    "later-evaluation": "and True on rank 1",
    "later-setting": "recompute_granularity='full' does not allow",
    "adjust": "runs tensors of one shape",
    "communicator": "has its own transfers",
    "lengths": "runs sequences of one length",
    "experts": "does not run with overlap_moe_expert_parallel_comm",
    "embedding": "does not run with defer_embedding_wgrad_compute",
    "offloading": "does not run with fine_grained_activation_offloading",
    "graphs": "does not run with cuda_graph_impl='local'",
    "recompute": "recompute_granularity='selective' does not allow",
    "fusion": "gradient_accumulation_fusion would add gradients twice",
    "hidden": "and (8, 2, 32) on rank 1",
    "type": "its type is torch.float32 on rank 0 of the pipeline and torch.float64 on rank 1",
    "data": "gets torch.float32 of shape (8, 1, 16), and the step is called for torch.float32 of (8, 2, 16)",
}


def heard(folder: Path, name: str) -> list[Any]:
    """The type and the text of what each rank has heard, which must be soon."""
    every = json.loads((folder / f"{name}.json").read_text())
    assert all(seconds < 10 for *_, seconds in every), (name, every)
    return [error for *error, _ in every]


@pytest.mark.slow
def test_every_rank_refuses_what_one_does_not_run(tmp_path: Path) -> None:
    ran("megatron_refusals.py", 1, tmp_path)
    assert heard(tmp_path, "held") == [["NoneType", "None"]] * 2
    for name, message in REFUSED.items():
        every = heard(tmp_path, name)
        assert every[0] == every[1], name
        assert every[0][0] == "InputError" and message in every[0][1], (name, every)
    for name in ("error", "later-error"):
        lost, own = heard(tmp_path, name)
        assert own == ["KeyError", "'no data'"]
        assert lost == ["LostRank", "rank 1 of the pipeline has left the step: KeyError('no data')"]


@pytest.mark.slow
def test_all_replicas_refuse_in_the_first_step(tmp_path: Path) -> None:
    ran("megatron_refusals.py", 2, tmp_path, "held", "chunks", "microbatches")
    assert heard(tmp_path, "held") == [["NoneType", "None"]] * 4
    for name in ("chunks", "microbatches"):
        every = heard(tmp_path, name)
        assert every[0][0] == "InputError" and REFUSED[name] in every[0][1], (name, every)
        assert every == every[:1] * 4


class Twice(torch.nn.Module):
    """A module that uses a weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(self.one(x))


def test_a_split_backward_is_the_whole_one() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.LayerNorm(4), torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4, bias=False)
    )
    start = torch.randn(3, 4)
    found = []
    for is_split in (False, True):
        x = start.clone().requires_grad_()
        module.zero_grad()
        backward = Backward(x + module(x), x)
        gradient = torch.ones(3, 4)
        if is_split:
            of_input = backward.input(gradient)
            assert all(parameter.grad is None for parameter in module.parameters())
            backward.weight()
        else:
            of_input = backward.whole(gradient)
        found.append([of_input, *(parameter.grad.clone() for parameter in module.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_a_chunk_that_uses_a_weight_twice_has_whole_backwards() -> None:
    torch.manual_seed(0)
    module, start = Twice(), torch.randn(2, 4)
    found = []
    for is_split in (False, True):
        x = start.clone().requires_grad_()
        module.zero_grad()
        backward = Backward(module(x), x)
        assert not backward.is_split
        gradient = torch.ones(2, 4)
        found.append([backward.input(gradient) if is_split else backward.whole(gradient)])
        if is_split:
            backward.weight()
        found[-1].extend(parameter.grad.clone() for parameter in module.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_a_chunk_that_does_not_use_its_input_trains_all_the_same() -> None:
    module, start = torch.nn.Linear(4, 4), torch.randn(2, 4)
    for is_split in (False, True):
        x = torch.randn(2, 4, requires_grad=True)
        module.zero_grad()
        backward = Backward(module(start), x)
        gradient = torch.ones(2, 4)
        of_input = backward.input(gradient) if is_split else backward.whole(gradient)
        if is_split:
            backward.weight()
        assert torch.equal(of_input, torch.zeros(2, 4))
        assert torch.equal(module.bias.grad, torch.full((4,), 2.0))


def test_routes_are_in_the_order_in_which_values_are_made() -> None:
    plan = Plan(order("zb-v", 2, 3, 2))
    routes = plan.routes(plan.passes)
    assert set(routes) == {(0, 1), (1, 0)}
    made = [value for one in plan.passes[0] if (value := plan.made(one)) and plan.home[value.chunk] == 1]
    assert routes[0, 1] == made
    # Both chunks in the middle are of one rank: what travels between them stays there.
    assert all(value not in (*routes[0, 1], *routes[1, 0]) for value in (Value("F", 2, 0), Value("B", 1, 0)))


def test_files_and_orders_that_megatron_cannot_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(db.InputError, match="nowhere"):
        dbm.forward_backward_func(tmp_path / "nowhere.txt")
    with pytest.raises(TypeError, match="an order is"):
        dbm.forward_backward_func(3)  # type: ignore[arg-type]
    question = db.Question(stages=2, microbatches=2, recompute="full", **TIMES)
    recomputed = db.simulate(question, "1f1b")[0].order
    with pytest.raises(db.InputError, match="pass R"):
        dbm.forward_backward_func(recomputed)
    turned = db.Schedule.from_text("F0.1 F0.0 BW0.1 BW0.0\n")
    with pytest.raises(db.InputError, match="out of turn"):
        dbm.forward_backward_func(turned)


def test_every_module_that_has_the_function_gets_the_order() -> None:
    from megatron.core.pipeline_parallel import schedules

    own = schedules.get_forward_backward_func
    training = types.ModuleType("some_training")
    training.get_forward_backward_func = own  # type: ignore[attr-defined]
    sys.modules["some_training"] = training
    try:
        made = dbm.use(order("1f1b", 2, 4))
        assert training.get_forward_backward_func() is made  # type: ignore[attr-defined]
        assert schedules.get_forward_backward_func(pp_size=2, vp_size=None) is made
        assert repr(made) == "ForwardBackward('1f1b', stages=2, microbatches=4)"
    finally:
        del sys.modules["some_training"]
        for module in list(sys.modules.values()):
            if getattr(module, "get_forward_backward_func", None) not in (None, own):
                module.get_forward_backward_func = own  # type: ignore[attr-defined]
