"""Tables of Primus: every pass, each transfer on both ranks, no deadlock, copies to the host in their turn.

Primus is a stand-in with the names that `debubble.primus` uses of it. Where DEBUBBLE_FRAMEWORKS names a
folder with a clone of github.com/AMD-AGI/Primus in `primus`, its nodes, pass of transfers and runner are
asked too.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import types
import warnings
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
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


def question(chunks: int, **more: Any) -> db.Question:
    return db.Question(
        **more,
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


def with_copies(share: float = 1.0) -> db.Schedule:
    """A V whose activations spend their time on the host."""
    asked = question(2, offload=share, offload_time="4ms")
    return db.Schedule.from_text(db.export(asked, "zb-v"), "zb-v copied")


def paired() -> db.Schedule:
    """A searched order of pairs on two streams, in a V."""
    chain = [
        "attention=4.37ms/9.341ms/2.389ms",
        "dispatch=6.69ms/7.487ms",
        "experts=4.604ms/5.306ms/6.378ms",
        "combine=8.684ms/5.769ms",
    ]
    asked = db.Question(
        stages=RANKS,
        microbatches=MICROBATCHES,
        chunks=2,
        layers=8,
        hop="300us",
        chain=chain,
        chain_measured="beside",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.Note)
        return db.search(asked, effort=1, placement="v").schedule


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


def test_copies_lie_between_forward_and_backward_and_need_the_setting(primus: Any) -> None:
    order = with_copies()
    known = dbp.use(order)
    assert known == "zbv-formatted"
    with pytest.raises(db.InputError, match="needs offload: true"):
        primus.pp_algorithm_map[known](RANKS, 2, MICROBATCHES)
    table = primus.pp_algorithm_map[known](RANKS, 2, MICROBATCHES, offload=True).generate_schedule_table()
    count = Counter(node.func_type.name for row in table for node in row)
    assert count["O"] == count["R"] > 0
    assert count["O"] == sum(bool((node.args or {}).get("should_offload")) for row in table for node in row)
    assert ran(table) == sum(map(len, table))
    looped = db.export(question(1, offload=1.0, offload_time="4ms"), "zb-h1")
    with pytest.raises(db.InputError, match="copies activations to the host in a V alone"):
        dbp.use(db.Schedule.from_text(looped))


def test_pairs_run_combined_and_need_the_setting(primus: Any) -> None:
    order = paired()
    known = dbp.use(order)
    with pytest.raises(db.InputError, match="needs overlap_moe_expert_parallel_comm"):
        primus.pp_algorithm_map[known](RANKS, 2, MICROBATCHES)
    made = primus.pp_algorithm_map[known](RANKS, 2, MICROBATCHES, combined_forward_backward=True)
    table = made.generate_schedule_table()
    assert ran(table) == sum(map(len, table))
    groups = sum("combined_group" in node.args for row in table for node in row)
    pairs = sum(isinstance(slot, db.Pair) for slots in order for slot in slots)
    assert groups == 2 * pairs > 0


def test_a_file_of_a_table_is_the_order_it_was_written_from(primus: Any, tmp_path: Path) -> None:
    found = db.search(question(2), placement="v", memory_limit="0.75p")
    found.schedule.save(tmp_path / "best.json")
    assert dbp.use(tmp_path / "best.json") == "zbv-formatted"
    assert dbp.table(tmp_path / "best.json") == dbp.table(found)
    assert sum(map(len, dbp.table(found))) == 624


def test_other_files_are_refused(primus: Any, tmp_path: Path) -> None:
    right = json.loads(db.simulate(question(1), "1f1b")[0].order.to_primus())

    def refused(words: str, **changed: Any) -> None:
        path = tmp_path / "other.json"
        path.write_text(json.dumps({**right, **changed}))
        with pytest.raises(db.InputError, match=words):
            dbp.use(path)

    refused("pp_algorithm is not a name", pp_algorithm=3)
    refused("vpp_size is not a number from 1", vpp_size=True)
    refused("offload is neither true nor false", offload="no")
    refused("no list of nodes for each rank", table=right["table"][:2])
    node = right["table"][0][0]
    wrong = ({"func_type": "X"}, {"chunk": 1}, {"mini_batch": -1}, {"args": None}, {"func_type": "SF"})
    for changed in wrong:
        refused("node 0 of rank 0 is none", table=[[{**node, **changed}], *right["table"][1:]])
    (tmp_path / "text.json").write_text("F0.0")
    with pytest.raises(db.InputError, match="is not JSON"):
        dbp.use(tmp_path / "text.json")
    with pytest.raises(db.InputError, match="cannot be read"):
        dbp.use(tmp_path / "none.json")


class Buffer:
    """Stands for Primus' buffer of activations on the host: it refuses what would lose one."""

    record_offload_memory_info = False

    def __init__(self) -> None:
        self.states: dict[Any, str] = {}

    def step(self, key: Any, old: str, new: str) -> None:
        assert self.states.get(key, "") == old, (key, self.states.get(key), new)
        self.states[key] = new

    def check_empty(self) -> None:
        assert set(self.states.values()) <= {"used"}, self.states


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Primus itself, with stand-ins for its logs and for its buffer, which needs a GPU."""
    folder = os.environ.get("DEBUBBLE_FRAMEWORKS", "")
    clone = Path(folder, "primus")
    if not folder or not (clone / "primus" / "core").is_dir():
        pytest.skip("DEBUBBLE_FRAMEWORKS names no folder with a clone of Primus")
    for name in [name for name in sys.modules if name.split(".")[0] == "primus"]:
        monkeypatch.delitem(sys.modules, name)
    # Its launcher, which the package itself loads, is not a part of this.
    package = types.ModuleType("primus")
    package.__path__ = [str(clone / "primus")]
    logs = types.ModuleType("primus.core.utils.module_utils")
    logs.log_rank_0 = print  # type: ignore[attr-defined]
    handler = types.ModuleType("primus.core.pipeline_parallel.handler.offload_handler")
    buffers = threading.local()

    class OfThread:
        record_offload_memory_info = False

        def check_empty(self) -> None:
            buffers.own.check_empty()

    handler.OFFLOAD_BUFFER = OfThread()  # type: ignore[attr-defined]
    for module in (package, logs, handler):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield buffers
    for name in [name for name in sys.modules if name.split(".")[0] == "primus"]:
        del sys.modules[name]


class Ranks:
    """Runs a table in Primus' runner, a thread for each rank.

    Transfers begin as Primus' handler begins them: those that stand together in one step at once, and each
    waits until the other end has begun.
    """

    def __init__(self, table: list[list[Any]], buffers: Any) -> None:
        self.table, self.buffers = table, buffers
        self.begun: set[Any] = set()
        self.changed = threading.Condition()
        self.done = 0
        self.wrong: list[BaseException] = []

    def run(self) -> int:
        threads = [threading.Thread(target=self._rank, args=(rank,)) for rank in range(len(self.table))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.wrong:
            raise self.wrong[0]
        return self.done

    def _rank(self, rank: int) -> None:
        from primus.core.pipeline_parallel.scheduler.scheduler import ScheduleRunner
        from primus.core.pipeline_parallel.scheduler.scheduler_node import FuncType as Kind

        self.buffers.own = Buffer()
        pending: list[Any] = []
        handlers = {kind: functools.partial(self._pass, rank) for kind in Kind}
        for kind in (Kind.SF, Kind.SB, Kind.RF, Kind.RB):
            handlers[kind] = functools.partial(self._transfer, pending)
        handlers[Kind.FB] = functools.partial(self._pair, rank)
        try:
            ScheduleRunner(handlers).run(self.table, rank)
        except BaseException as error:
            self.wrong.append(error)

    def _pass(self, rank: int, node: Any, at: int, row: list[Any]) -> None:
        key, own = (node.mini_batch, node.chunk), self.buffers.own
        name = node.func_type.name
        before = {(one.func_type.name, one.mini_batch, one.chunk) for one in row[:at]}
        if name == "F" and node.args.get("should_offload"):
            own.step(key, "", "copying")
        elif name == "O":
            own.step(key, "copying", "on host")
        elif name == "R":
            own.step(key, "on host", "back")
        elif name in ("B", "BW"):
            assert ("F", *key) in before, node
            if key in own.states:
                own.step(key, "back", "used")
        elif name == "W":
            assert ("B", *key) in before, node
        self._count(1)

    def _pair(self, rank: int, node: Any, at: int, row: list[Any]) -> None:
        group = node.args["combined_group"]
        if str(node) != group[0]:
            return
        nodes = row[at : at + len(group)]
        assert [str(one) for one in nodes] == group
        assert [one.func_type.name for one in nodes] == ["F", "B"]
        for place, one in enumerate(nodes):
            self._pass(rank, one, at + place, row)

    def _transfer(self, pending: list[Any], node: Any, at: int, row: list[Any]) -> None:
        pending.append(node)
        for following in row[at + 1 : at + 2]:
            is_transfer = following.func_type.name in ("SF", "SB", "RF", "RB")
            if is_transfer and following.args["time_step"] == node.args["time_step"]:
                return
        with self.changed:
            self.begun.update(map(_end, pending))
            self.changed.notify_all()
            others = {_end(one, other=True) for one in pending}
            assert self.changed.wait_for(lambda: others <= self.begun, timeout=20), f"{node} waits for ever"
        self._count(len(pending))
        pending.clear()

    def _count(self, nodes: int) -> None:
        with self.changed:
            self.done += nodes


def _end(node: Any, *, other: bool = False) -> Any:
    """A transfer and which end of it a node is."""
    is_send = (node.func_type.name[0] == "S") != other
    args = node.args
    taken = args["send_to_chunk"] if node.func_type.name[0] == "S" else node.chunk
    key = (node.func_type.name[1], args["from_pp_rank"], args["to_pp_rank"], node.mini_batch, taken)
    return (is_send, key)


def _told(node: Any) -> tuple[Any, ...]:
    args = {name: value for name, value in node.args.items() if "pp_rank" in name or "chunk" in name}
    return (node.args["time_step"], node.func_type.name, node.mini_batch, node.chunk, *sorted(args.items()))


def test_primus_runs_every_node(real: Any) -> None:
    from primus.core.pipeline_parallel.scheduler.schedule_table_factory import produce_schedule_instance

    cases: dict[str, tuple[Any, dict[str, bool]]] = {name: (order, {}) for name, order in orders().items()}
    cases["copies"] = (with_copies(), {"offload": True})
    cases["half copied"] = (with_copies(0.5), {"offload": True})
    cases["pairs"] = (paired(), {"combined_forward_backward": True})
    for name, (order, settings) in cases.items():
        known = dbp.use(order)
        chunks = 1 if name in ("1f1b", "zb-h1", "searched") else 2
        sys.modules[
            "primus.core.pipeline_parallel.scheduler.schedule_table_factory"
        ]._schedule_instance_cache.clear()
        made = produce_schedule_instance(known, RANKS, chunks, MICROBATCHES, **settings)
        table = made.generate_schedule_table()
        nodes = sum(map(len, table))
        assert Ranks(table, real).run() == nodes, name
        if name == "searched V":
            assert nodes == 624
        own: list[Counter[Any]] = [Counter() for _ in table]
        for rank, row in enumerate(table):
            for node in row:
                kind = node.func_type
                if kind.name not in ("F", "B", "BW"):
                    continue
                # Primus knows the directions of B alone.
                asked = type(kind).F if kind.name == "F" else type(kind).B
                cell = (node.mini_batch, node.chunk)
                for given in made.generate_send_recv_nodes_comm_pair(rank, *cell, asked):
                    if given is not None:
                        given[1].args["time_step"] = node.args["time_step"] + 1
                        own[given[0]][_told(given[1])] += 1
        for rank, row in enumerate(table):
            ours = Counter(_told(node) for node in row if node.func_type.name in ("SF", "SB", "RF", "RB"))
            assert ours == own[rank], (name, rank)


def test_the_v_is_that_of_primus_itself(real: Any) -> None:
    """Passes at the same steps have the same transfers by Primus' own V."""
    from primus.core.pipeline_parallel.scheduler.algorithms.zbv_formatted import ScheduleZBVFormatted

    for order in (db.search(question(2), placement="v", memory_limit="0.75p"), with_copies()):
        table = dbp.table(order)
        theirs: Any = ScheduleZBVFormatted(RANKS, 2, MICROBATCHES)
        theirs.time_step_nodes = [{} for _ in range(RANKS)]
        for rank, row in enumerate(table):
            for node in row:
                if node.func_type.name in ("F", "B", "W"):
                    theirs._insert_compute_node(
                        rank, node.mini_batch, node.chunk, node.func_type, node.args["time_step"]
                    )
        made = theirs._calculate_schedule_table_by_time_step_nodes()
        for ours, own in zip(table, made):
            kept = [_told(node) for node in ours if node.func_type.name not in ("O", "R")]
            assert Counter(kept) == Counter(map(_told, own))


def test_without_primus_the_error_says_so() -> None:
    with pytest.raises(db.InputError, match="needs Primus"):
        dbp.use(db.simulate(question(1), "1f1b")[0])
