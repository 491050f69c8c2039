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
from debubble.megatron._split import Backward, joins

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


@pytest.mark.parametrize("ranks", [2, 4])
def test_steps_are_those_of_megatron(ranks: int, tmp_path: Path) -> None:
    made = orders(ranks)
    for name, schedule in made.items():
        (tmp_path / f"{name}.txt").write_text(schedule.to_text())
    script = Path(__file__).with_name("megatron_runs.py")
    files = [str(tmp_path / f"{name}.txt") for name in made]
    done = subprocess.run(
        [sys.executable, str(script), str(ranks), str(tmp_path), *files],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]

    def found(name: str) -> Any:
        return json.loads((tmp_path / f"{name}.json").read_text())

    expected = found("megatron-step")
    assert len(expected["losses"]) == MICROBATCHES
    assert len(expected["gradients"]) > 100
    for name, schedule in made.items():
        assert found(f"{name}-step") == expected, name
        forward = found(f"{name}-forward")
        assert forward == {"losses": expected["losses"], "gradients": {}}, name
        whole = "megatron-untied" if schedule.placement == "v" else "megatron-whole"
        assert found(f"{name}-whole") == found(whole), name


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


def test_a_weight_that_is_used_twice_is_refused() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    with pytest.raises(db.InputError, match="used twice"):
        joins(Twice()(x).grad_fn, x)


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
