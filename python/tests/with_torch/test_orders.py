"""Every order that is exported is loaded by real torch, and those that are run have the gradients of one
process to the bit.
"""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import pipelines
from torch.distributed.pipelining import PipelineStage

import debubble as db
import debubble.torch as dbt

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")


def is_in_shards(name: str) -> bool:
    """Whether the output layer is in shards over all stages."""
    return "vocab" in name or name == "interlaced"


#: The families that torch cannot run, by a word of the reason.
REFUSED = {
    **dict.fromkeys(("chimera", "dualpipe"), "mirrored"),
    **dict.fromkeys(filter(is_in_shards, db.schedules().rows.column("name")), "shards"),
}


def families() -> list[str]:
    return list(db.schedules().rows.column("name"))


def of_family(name: str, stages: int = 4, microbatches: int = 8) -> db.Schedule:
    """The order of a family, with whatever times it needs."""
    more: dict[str, Any] = {"vocab_s": "1ms", "vocab_t": "1ms", "offload_time": "5ms"}
    question = db.Question(stages=stages, microbatches=microbatches, **pipelines.TIMES, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return db.Schedule.from_text(db.export(question, name), name)


def exported(name: str, stages: int, microbatches: int) -> db.Schedule | str | None:
    """The order of a family; why torch cannot run it; or nothing where it does not exist."""
    try:
        wanted = of_family(name, stages, microbatches)
    except db.InputError:
        return None
    try:
        wanted.to_torch_csv()
    except db.InputError as error:
        return error.message
    return wanted


def unstarted(wanted: db.Schedule, rank: int) -> list[Any]:
    """Stages of torch without a process group."""
    chunks = wanted.stages * wanted.chunks
    made = []
    for chunk in dbt.stages_of(wanted, rank):
        stage = mock.create_autospec(PipelineStage, instance=True)
        stage.group_rank, stage.group_size, stage.submod = rank, wanted.stages, None
        stage.stage_index, stage.num_stages = chunk, chunks
        stage.is_first, stage.is_last = chunk == 0, chunk == chunks - 1
        made.append(stage)
    return made


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_every_order_is_loaded(stages: int) -> None:
    loaded = 0
    for name in families():
        for microbatches in sorted({stages, 2 * stages, 16, 64}):
            wanted = exported(name, stages, microbatches)
            if not isinstance(wanted, db.Schedule):
                continue
            if "OVERLAP_F_B" in wanted.to_torch_csv() and pipelines.VERSION < (2, 9):
                with pytest.raises(db.InputError, match="in pairs"):
                    dbt.schedule(unstarted(wanted, stages - 1), wanted, loss_fn=pipelines.loss)
                continue
            made = dbt.schedule(unstarted(wanted, stages - 1), wanted, loss_fn=pipelines.loss)
            rows = [[str(one) for one in made.pipeline_order[rank]] for rank in range(stages)]
            assert rows == [line.split(",") for line in wanted.to_torch_csv().splitlines()], name
            # Lowered: every value that another rank needs is sent and received once.
            texts = [str(one) for row in made.pipeline_order_with_comms.values() for one in row]
            sends = sorted(text for text in texts if "SEND" in text and "WAIT" not in text)
            assert len(sends) == len(set(sends)) == sum("RECV" in text for text in texts), name
            loaded += 1
    assert loaded >= 50, loaded


def test_what_torch_cannot_run_is_refused_with_the_reason() -> None:
    found = {name: exported(name, 4, 8) for name in families()}
    refused = {name: one for name, one in found.items() if isinstance(one, str)}
    assert refused.keys() == REFUSED.keys()
    for name, word in REFUSED.items():
        assert word in refused[name], (name, refused[name])
        with pytest.raises(db.InputError, match=word):
            dbt.stages_of(of_family(name), 0)


#: A subset that has every kind of slot and placement: one chunk and more, looped and in a V, BW and B with
#: W, pairs; the names, chunks and microbatches.
RUN = [
    ("gpipe", 1, 8),
    ("1f1b", 1, 8),
    ("zb-h1", 1, 8),
    ("zb-h2", 1, 8),
    ("1f1b-i", 2, 8),
    ("zb-v", 2, 8),
    ("v-min", 2, 8),
    ("dualpipe-v", 2, 8),
    ("hanayo", 2, 8),
]
if pipelines.VERSION < (2, 9):
    # It has no pairs.
    RUN.remove(("dualpipe-v", 2, 8))


def searched() -> db.Schedule:
    """An order that has no name."""
    keys = {**pipelines.TIMES, "forward": ["10ms", "6ms", "14ms", "9ms"], "memory_limit": "1.3p"}
    return db.search(db.Question(stages=4, microbatches=8, **keys), effort=1).schedule


def train(rank: int, orders: list[db.Schedule]) -> list[Any]:
    """Losses and gradients of a step in each order, without and with a recorder."""
    found = []
    for wanted in orders:
        plain = pipelines.Trained(rank, wanted)
        plain.step()
        recorded = pipelines.Trained(rank, wanted)
        with dbt.record(recorded.schedule, timeout=30) as rec:
            recorded.step()
        assert rec.schedule == wanted, rec.schedule
        comparable = db.compare(rec.timeline(), rec.timeline()).error
        assert comparable == 0.0
        both = [(one.losses, one.gradients()) for one in (plain, recorded)]
        found.append(both)
    return found


def test_losses_and_gradients_are_those_of_one_process_to_the_bit() -> None:
    orders = [pipelines.order(name, 4, microbatches, chunks) for name, chunks, microbatches in RUN]
    orders.append(searched())
    # By a fork per rank, which all orders share.
    by_rank = pipelines.ranks(4, train, orders)
    for one in by_rank:
        assert isinstance(one, list), one
    for at, wanted in enumerate(orders):
        losses, gradients = pipelines.alone(wanted)
        for run in (0, 1):
            of = [rank[at][run] for rank in by_rank]
            seen: dict[str, Any] = {}
            for _, part in of:
                seen.update(part)
            assert seen.keys() == gradients.keys(), wanted.name
            for name, gradient in gradients.items():
                assert torch.equal(seen[name], gradient), (wanted.name, name)
            run_losses = next(given for given, _ in of if given)
            assert all(torch.equal(ours, theirs) for ours, theirs in zip(run_losses, losses)), wanted.name
            assert len(run_losses) == wanted.microbatches


#: The times of a layer of experts, by segment: F, B and W, or F and B of what is sent.
CHAIN = [
    "attention=4.37ms/9.341ms/2.389ms",
    "dispatch=6.69ms/7.487ms",
    "experts=4.604ms/5.306ms/6.378ms",
    "combine=8.684ms/5.769ms",
]


def searched_pairs() -> db.Schedule:
    """A searched order of pairs on two streams, in a V."""
    question = db.Question(
        stages=4, microbatches=8, chunks=2, layers=8, hop="300us", chain_measured="beside", chain=CHAIN
    )
    return db.search(question, effort=1, placement="v").schedule


def test_a_searched_order_of_pairs_is_read_by_torch_and_trains_as_one_process() -> None:
    from torch.distributed.pipelining import schedules

    if not hasattr(schedules, "OVERLAP_F_B"):
        pytest.skip("torch has no pairs there")
    wanted = searched_pairs()
    rows = [line.split(",") for line in wanted.to_torch_csv().splitlines()]
    cells = [cell for row in rows for cell in row]
    pairs = [cell for cell in cells if cell.endswith(")OVERLAP_F_B")]
    assert len(pairs) >= 8, rows
    actions = [schedules._Action.from_str(cell) for cell in cells]
    assert [str(action) for action in actions] == cells
    for action in actions:
        if action.sub_actions:
            kinds = [part.computation_type.name for part in action.sub_actions]
            assert kinds[0] == "FORWARD", action
            assert kinds[1] in ("BACKWARD_INPUT", "FULL_BACKWARD"), action
    made = dbt.schedule(unstarted(wanted, 3), wanted, loss_fn=pipelines.loss)
    assert [[str(one) for one in made.pipeline_order[rank]] for rank in range(4)] == rows
    by_rank = pipelines.ranks(4, train, [wanted])
    for one in by_rank:
        assert isinstance(one, list), one
    losses, gradients = pipelines.alone(wanted)
    for run in (0, 1):
        of = [rank[0][run] for rank in by_rank]
        seen = {name: gradient for _, part in of for name, gradient in part.items()}
        assert seen.keys() == gradients.keys()
        assert all(torch.equal(seen[name], gradient) for name, gradient in gradients.items())
        run_losses = next(given for given, _ in of if given)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(run_losses, losses))
