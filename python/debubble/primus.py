"""Orders of debubble in Primus, AMD's framework on Megatron-LM.

```python
import debubble.primus as dbp

dbp.use("best.json")  # in a patch or a training script, before training begins
```

Primus runs tables of nodes (`SchedulerNode`). `use` puts the table of an order in the place of one of
Primus' own schedules, whose name is the `pp_algorithm` of the run: `zero-bubble` for one chunk on a
rank, `1f1b-interleaved` for looped chunks and `zbv-formatted` for a V. Primus itself is not changed.
`debubble export --format primus` writes the table, `Schedule.to_primus` gives it.

The tables were run through Primus' own nodes at commit fd1eeabb; on GPUs they have not run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Union

from . import _orders
from ._errors import InputError
from ._schedule import Schedule
from .megatron._modules import load
from .megatron._order import Order

__all__ = ["table", "use"]

#: The folder of Primus' schedules.
_SCHEDULER = "primus.core.pipeline_parallel.scheduler"

#: The keys of a table, and the settings of Primus that must be as they say.
_SIZES = ("pp_size", "vpp_size", "micro_batches")
_SETTINGS = {
    "offload": "offload: true and offload_ops of Primus, which copy activations to the host",
    "combined_forward_backward": "overlap_moe_expert_parallel_comm: true, which runs passes in pairs",
}


def use(order: Order) -> str:
    """Puts an order in the place of one of Primus' schedules.

    Args:
        order: A schedule, the answer of a search, an outcome, the file of an order, or that of a table
            (`debubble export --format primus`).

    Returns:
        The name of that schedule: the `pp_algorithm` to train with.

    Raises:
        InputError: If there is no such order, Primus is not there, or it cannot run the passes of the order.
    """
    document = _document(order)
    name = str(document["pp_algorithm"])
    _primus("schedule_table_factory").pp_algorithm_map[name] = _schedule(document)
    return name


def table(order: Order) -> list[list[Any]]:
    """The nodes of each rank in their order, as Primus runs them.

    Raises:
        InputError: As `use`.
    """
    return _table(_document(order), _primus("scheduler_node"))


def _primus(name: str) -> Any:
    try:
        return load(f"{_SCHEDULER}.{name}")
    except ImportError as error:
        message = f"debubble.primus needs Primus, which cannot be loaded: {error}"
        cure = "add a clone of github.com/AMD-AGI/Primus to PYTHONPATH"
        raise InputError.with_help(message, cure) from error


def _document(order: Order) -> dict[str, Any]:
    """The table of an order, or of the file of one, with what it is for."""
    if not isinstance(order, (str, os.PathLike)):
        schedule = _orders.schedule_of(order, "the name of a file")
    elif os.fspath(order).endswith(".json"):
        return _read(order)
    else:
        schedule = Schedule.from_file(order)
    found: dict[str, Any] = json.loads(schedule.to_primus())
    return found


def _read(path: Union[str, os.PathLike[str]]) -> dict[str, Any]:
    """The table in a file, if it is one."""
    name = os.fspath(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise InputError(message, message=message, file=name) from error
    except (ValueError, RecursionError) as error:
        message = f"{name} is not JSON: {error}"
        raise InputError(message, message=message, file=name) from error
    wrong = _wrong(found)
    if wrong is not None:
        cure = "write it with `debubble export --format primus`, or name the file of an order"
        raise InputError.with_help(f"{name} is not a table of Primus: {wrong}", cure)
    table: dict[str, Any] = found
    return table


def _wrong(found: Any) -> Union[str, None]:
    """What a file lacks of a table."""
    if not isinstance(found, dict):
        return "it is not an object"
    if not isinstance(found.get("pp_algorithm"), str):
        return "pp_algorithm is not a name"
    for key in _SIZES:
        if type(found.get(key)) is not int or found[key] < 1:
            return f"{key} is not a number from 1"
    for key in _SETTINGS:
        if not isinstance(found.get(key), bool):
            return f"{key} is neither true nor false"
    ranks = found.get("table")
    if not isinstance(ranks, list) or len(ranks) != found["pp_size"]:
        return "table has no list of nodes for each rank"
    for rank, nodes in enumerate(ranks):
        for at, node in enumerate(nodes if isinstance(nodes, list) else [None]):
            if not _is_node(node, found):
                return f"node {at} of rank {rank} is none"
    return None


def _is_node(node: Any, found: dict[str, Any]) -> bool:
    if not isinstance(node, dict) or not isinstance(node.get("args"), dict):
        return False
    kind, chunk, number = node.get("func_type"), node.get("chunk"), node.get("mini_batch")
    if type(chunk) is not int or type(number) is not int or not isinstance(kind, str):
        return False
    ends = [node["args"].get(key) for key in ("from_pp_rank", "to_pp_rank")]
    is_transfer = kind in ("SF", "SB", "RF", "RB")
    is_between = all(type(end) is int and 0 <= end < found["pp_size"] for end in ends)
    is_placed = 0 <= chunk < found["vpp_size"] and 0 <= number < found["micro_batches"]
    return is_placed and (is_between if is_transfer else kind in ("F", "B", "W", "BW", "O", "R"))


def _schedule(document: dict[str, Any]) -> Any:
    """The class of Primus' schedules that has the table `document`."""
    base: Any = _primus("algorithms.base").PipelineScheduleAlgo
    nodes = _primus("scheduler_node")
    ends = _ends(document)
    first, last = (_end_of_model(document, ends, kind) for kind in ("RF", "SF"))

    class Ordered(base):  # type: ignore[misc]
        """An order of debubble."""

        def __init__(self, pp_size: int, vpp_size: int, micro_batches: int, **settings: Any) -> None:
            super().__init__(pp_size, vpp_size, micro_batches)
            _check(document, (pp_size, vpp_size, micro_batches), settings)

        def generate_schedule_table(self) -> list[list[Any]]:
            return _table(document, nodes)

        def direction_map(self, rank: int, chunk: int, func_type: Any) -> dict[str, Any]:
            letter = "F" if func_type == nodes.FuncType.F else "B"
            receive, send = (ends.get((rank, chunk, way + letter), (None, chunk)) for way in "RS")
            return {
                "prev": (receive[0], nodes.FuncType["R" + letter]),
                "next": (send[0], nodes.FuncType["S" + letter]),
                "recv_from_chunk": receive[1],
                "send_to_chunk": send[1],
            }

        def first_pp_stage_rank(self) -> int:
            return first

        def last_pp_stage_rank(self) -> int:
            return last

    return Ordered


def _check(document: dict[str, Any], sizes: tuple[int, ...], settings: dict[str, Any]) -> None:
    """Refuses another pipeline, and settings that change the order."""

    def refuse(why: str) -> None:
        message = f"the order for {document['pp_algorithm']} {why}"
        raise InputError(message, message=message, key="order")

    own = tuple(document[key] for key in _SIZES)
    if sizes != own:
        words = "{} ranks, {} chunks on each and {} microbatches"
        refuse(f"is for {words.format(*own)}, not {words.format(*sizes)}")
    for name, value in settings.items():
        if value and not document.get(name if name in _SETTINGS else ""):
            refuse(f"does not run with {name}={value!r} of Primus")
    for name, setting in _SETTINGS.items():
        if document[name] and not settings.get(name):
            refuse(f"needs {setting}")


def _table(document: dict[str, Any], nodes: Any) -> list[list[Any]]:
    """The nodes of all ranks, new ones each time: Primus keeps tensors in them."""
    kinds, make = nodes.FuncType, nodes.SchedulerNode

    def node(one: dict[str, Any]) -> Any:
        kind = kinds[one["func_type"]]
        return make(func_type=kind, mini_batch=one["mini_batch"], chunk=one["chunk"], args=dict(one["args"]))

    return [[node(one) for one in own] for own in document["table"]]


def _ends(document: dict[str, Any]) -> dict[tuple[int, int, str], tuple[int, int]]:
    """By rank, chunk and kind of a transfer, the rank and the chunk at its other end."""
    found: dict[tuple[int, int, str], tuple[int, int]] = {}
    for rank, own in enumerate(document["table"]):
        for one in own:
            kind, args = one["func_type"], one["args"]
            if kind in ("SF", "SB"):
                found[rank, one["chunk"], kind] = (args["to_pp_rank"], args["send_to_chunk"])
            elif kind in ("RF", "RB"):
                found[rank, one["chunk"], kind] = (args["from_pp_rank"], args["recv_from_chunk"])
    return found


def _end_of_model(document: dict[str, Any], ends: dict[tuple[int, int, str], Any], kind: str) -> int:
    """The rank of the chunk whose forwards have no transfer of that kind."""
    chunks = ((rank, one["chunk"]) for rank, own in enumerate(document["table"]) for one in own)
    return next((rank for rank, chunk in chunks if (rank, chunk, kind) not in ends), 0)
