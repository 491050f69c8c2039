"""`eval()` of an order: outputs and losses of all microbatches, before, between and behind steps."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pipelines

import debubble as db
import debubble.torch as dbt

#: Orders with one chunk and more, looped and in a V, with pairs, and ranks.
ORDERS = [
    ("1f1b", 1, 2),
    ("zb-h1", 1, 2),
    ("1f1b-i", 2, 2),
    ("zb-v", 2, 2),
    ("dualpipe-v", 2, 2),
    ("zb-v", 2, 4),
]


def evaluated(rank: int, orders: list[db.Schedule]) -> list[Any]:
    """For each order, evaluations and steps in turn, beginning with either; the last of each is recorded."""
    return [turns(rank, wanted, begins) for wanted in orders for begins in ("eval", "step")]


def turns(rank: int, wanted: db.Schedule, begins: str) -> list[tuple[str, Any]]:
    trained = pipelines.Trained(rank, wanted)
    x, y = pipelines.batch(wanted.microbatches)
    inputs = [x] if any(one.is_first for one in trained.stages) else []

    def evaluate() -> Any:
        losses: list[Any] = []
        output = trained.schedule.eval(*inputs, target=y, losses=losses)
        assert all(weight.grad is None for one in trained.stages for weight in one.submod.parameters())
        return "eval", (output, losses)

    def step() -> Any:
        trained.step()
        made = trained.gradients()
        for one in trained.stages:
            one.submod.zero_grad()
        return "step", made

    both = [evaluate, step] if begins == "eval" else [step, evaluate]
    found = [turn() for turn in (*both, *both)]
    with dbt.record(trained.schedule, timeout=30) as rec:
        found += [turn() for turn in both]
    assert rec.steps == 1 and rec.schedule == wanted
    return found


@pytest.mark.filterwarnings("ignore::debubble.Note")
@pytest.mark.parametrize("ranks", [2, 4])
def test_outputs_losses_and_the_steps_between(ranks: int) -> None:
    if pipelines.VERSION == (2, 8):
        pytest.skip("it has no eval(): refused, in test_torch_refusals.py")
    orders = [pipelines.order(name, ranks, 8, chunks) for name, chunks, count in ORDERS if count == ranks]
    told = pipelines.ranks(ranks, evaluated, orders)
    for one in told:
        assert isinstance(one, list), one
    for at in range(2 * len(orders)):
        check(orders[at // 2], [rank[at] for rank in told])


def check(wanted: db.Schedule, told: list[Any]) -> None:
    """What the ranks had in their turns is what one process has."""
    losses, gradients = pipelines.alone(wanted)
    expected = pipelines.batch(wanted.microbatches)[0]
    with torch.no_grad():
        for chunk in range(wanted.stages * wanted.chunks):
            expected = pipelines.Block(chunk)(expected)
    for turn in zip(*told):
        kinds, found = {kind for kind, _ in turn}, [one for _, one in turn]
        if kinds == {"step"}:
            seen = {name: grad for rank in found for name, grad in rank.items()}
            assert all(torch.equal(seen[name], one) for name, one in gradients.items()), wanted.name
            continue
        outputs = [output for output, _ in found if output is not None]
        assert len(outputs) == 1, wanted.name
        torch.testing.assert_close(outputs[0], expected, rtol=1e-13, atol=1e-13)
        ours = next(given for _, given in found if given)
        assert len(ours) == wanted.microbatches
        assert all(torch.allclose(mine, one, rtol=1e-13) for mine, one in zip(ours, losses))
