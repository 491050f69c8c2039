"""Tables of Primus: every pass, each transfer on both ranks, no deadlock.

Primus itself is a stand-in with the names that `debubble.primus` uses of it.
"""

from __future__ import annotations

import sys
import types
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

import debubble as db
import debubble.primus as dbp

RANKS, MICROBATCHES = 4, 12


FuncType = Enum("FuncType", "F B W BW FB SF SB RF RB O R")


@dataclass
class SchedulerNode:
    func_type: FuncType
    mini_batch: int
    chunk: int
    args: Any = None
    meta: Any = None


class PipelineScheduleAlgo:
    def __init__(self, pp_size: int, vpp_size: int, micro_batches: int) -> None:
        self.pp_size, self.vpp_size, self.micro_batches = pp_size, vpp_size, micro_batches


@pytest.fixture
def primus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table of Primus' schedules."""
    root = "primus.core.pipeline_parallel.scheduler"
    for at in range(root.count(".") + 1):
        name = ".".join(root.split(".")[: at + 1])
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    parts: dict[str, dict[str, Any]] = {
        "algorithms": {},
        "algorithms.base": {"PipelineScheduleAlgo": PipelineScheduleAlgo},
        "scheduler_node": {"FuncType": FuncType, "SchedulerNode": SchedulerNode},
        "schedule_table_factory": {"pp_algorithm_map": {}},
    }
    for name, values in parts.items():
        module = types.ModuleType(f"{root}.{name}")
        for key, value in values.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, f"{root}.{name}", module)
    return sys.modules[f"{root}.schedule_table_factory"]


def question(chunks: int) -> db.Question:
    return db.Question(
        stages=RANKS,
        microbatches=MICROBATCHES,
        chunks=chunks,
        forward="10ms",
        backward_input="11ms",
        backward_weight="7ms",
        activation="1GiB",
        hop="1ms",
    )


def orders() -> dict[str, Any]:
    names = {"1f1b": 1, "zb-h1": 1, "1f1b-i": 2, "zb-v": 2}
    made: dict[str, Any] = {name: db.simulate(question(chunks), name)[0] for name, chunks in names.items()}
    made["searched"] = db.search(question(1), memory_limit="1p")
    made["searched V"] = db.search(question(2), placement="v", memory_limit="0.75p")
    return made


def ran(table: list[list[Any]]) -> int:
    """The nodes that run where a receive waits for its send and all ranks follow their order."""
    at, done = [0] * len(table), 0
    sent: Counter[Any] = Counter()
    moved = True
    while moved:
        moved = False
        for rank, nodes in enumerate(table):
            while at[rank] < len(nodes):
                node = nodes[at[rank]]
                name = node.func_type.name
                if name in ("SF", "SB"):
                    sent[name[1], node.args["from_pp_rank"], node.args["to_pp_rank"]] += 1
                if name in ("RF", "RB"):
                    link = (name[1], node.args["from_pp_rank"], node.args["to_pp_rank"])
                    if not sent[link]:
                        break
                    sent[link] -= 1
                at[rank], done, moved = at[rank] + 1, done + 1, True
    return done


def test_tables_have_all_passes_and_do_not_wait_for_ever(primus: Any) -> None:
    for name, order in orders().items():
        known = dbp.use(order)
        chunks = 1 if name in ("1f1b", "zb-h1", "searched") else 2
        placement = (
            {"1f1b-i": "1f1b-interleaved"}.get(name, "zbv-formatted") if chunks == 2 else "zero-bubble"
        )
        assert known == placement, name
        made = primus.pp_algorithm_map[known](RANKS, chunks, MICROBATCHES)
        table = made.generate_schedule_table()
        count = Counter(node.func_type.name for row in table for node in row)
        cells, between = chunks * RANKS * MICROBATCHES, (chunks * RANKS - 1) * MICROBATCHES
        assert count["F"] == cells
        assert count["B"] + count["BW"] == cells
        assert count["B"] == count["W"]
        assert count["SF"] == count["RF"] == count["SB"] == count["RB"] == between
        assert ran(table) == sum(map(len, table)), name
        assert made.last_pp_stage_rank() == (0 if placement == "zbv-formatted" else RANKS - 1)


def test_passes_keep_the_order_of_the_schedule(primus: Any) -> None:
    found = db.search(question(2), placement="v", memory_limit="0.75p")
    schedule = found.schedule
    for rank, row in enumerate(dbp.table(found)):
        passes = [node for node in row if node.func_type.name in ("F", "B", "W", "BW")]
        own = [(node.func_type.name, node.mini_batch, node.chunk) for node in passes]
        places = {rank: 0, 2 * RANKS - 1 - rank: 1}
        slots: Any = schedule.slots(rank)
        assert own == [(one.kind, one.microbatch, places[one.chunk]) for one in slots]


def test_directions_are_those_of_the_transfers(primus: Any) -> None:
    known = dbp.use(db.simulate(question(2), "zb-v")[0])
    made = primus.pp_algorithm_map[known](RANKS, 2, MICROBATCHES)
    first = made.direction_map(0, 0, FuncType.F)
    assert first["prev"][0] is None
    assert first["next"] == (1, FuncType.SF)
    turn = made.direction_map(RANKS - 1, 0, FuncType.F)
    assert turn["next"] == (RANKS - 1, FuncType.SF)
    assert turn["send_to_chunk"] == 1
    back = made.direction_map(0, 1, FuncType.B)
    assert back["prev"][0] is None
    assert back["next"] == (1, FuncType.SB)


def test_other_pipelines_and_settings_are_refused(primus: Any) -> None:
    known = dbp.use(db.simulate(question(1), "zb-h1")[0])
    schedule = primus.pp_algorithm_map[known]
    with pytest.raises(db.InputError, match="4 ranks, 1 chunks on each and 12 microbatches, not 4"):
        schedule(RANKS, 1, MICROBATCHES + 1)
    with pytest.raises(db.InputError, match="offload=True"):
        schedule(RANKS, 1, MICROBATCHES, offload=True)


def test_without_primus_the_error_says_so() -> None:
    with pytest.raises(db.InputError, match="needs Primus"):
        dbp.use(db.simulate(question(1), "1f1b")[0])
