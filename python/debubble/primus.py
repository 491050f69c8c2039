"""Orders of debubble in Primus, AMD's framework on Megatron-LM.

```python
import debubble.primus as dbp

dbp.use("best.txt")  # in a patch or a training script, before training begins
```

Primus runs tables of nodes (`SchedulerNode`). `use` puts the table of an order in the place of one of
Primus' own schedules, whose name is the `pp_algorithm` of the run: `zero-bubble` for one chunk on a
rank, `1f1b-interleaved` for looped chunks and `zbv-formatted` for a V. Primus itself is not changed.

The tables were run through Primus' own nodes at commit fd1eeabb; on GPUs they have not run.
"""

from __future__ import annotations

from typing import Any

from ._errors import InputError
from ._orders import chunk_of
from ._schedule import Pass
from .megatron._modules import load
from .megatron._order import Order, Plan, schedule_of

__all__ = ["table", "use"]

#: The name of Primus' schedule in whose place an order is put, by the placement of chunks.
_NAMES = {"one": "zero-bubble", "looped": "1f1b-interleaved", "v": "zbv-formatted"}

#: The folder of Primus' schedules.
_SCHEDULER = "primus.core.pipeline_parallel.scheduler"


def use(order: Order) -> str:
    """Puts an order in the place of one of Primus' schedules.

    Args:
        order: A schedule, the answer of a search, an outcome, or the file of an order.

    Returns:
        The name of that schedule: the `pp_algorithm` to train with.

    Raises:
        InputError: If there is no such order, Primus is not there, or it cannot run the passes of the order.
    """
    plan = Plan(schedule_of(order))
    placement = plan.schedule.placement if plan.schedule.chunks > 1 else "one"
    if placement not in _NAMES:
        message = f"Primus has no schedule with chunks placed as in {plan.schedule.name!r}"
        raise InputError(message, message=message, key="order")
    name = _NAMES[placement]
    _primus("schedule_table_factory").pp_algorithm_map[name] = _schedule(plan)
    return name


def table(order: Order) -> list[list[Any]]:
    """The nodes of each rank in their order, as Primus runs them.

    Raises:
        InputError: As `use`.
    """
    return _table(Plan(schedule_of(order)), _primus("scheduler_node"))


def _primus(name: str) -> Any:
    try:
        return load(f"{_SCHEDULER}.{name}")
    except ImportError as error:
        message = f"debubble.primus needs Primus, which cannot be loaded: {error}"
        cure = "add a clone of github.com/AMD-AGI/Primus to PYTHONPATH"
        raise InputError.with_help(message, cure) from error


def _schedule(plan: Plan) -> Any:
    """The class of Primus' schedules that has the order of `plan`."""
    base: Any = _primus("algorithms.base").PipelineScheduleAlgo
    nodes = _primus("scheduler_node")

    class Ordered(base):  # type: ignore[misc]
        """An order of debubble."""

        def __init__(self, pp_size: int, vpp_size: int, micro_batches: int, **settings: Any) -> None:
            super().__init__(pp_size, vpp_size, micro_batches)
            _check(plan, (pp_size, vpp_size, micro_batches), settings)

        def generate_schedule_table(self) -> list[list[Any]]:
            return _table(plan, nodes)

        def direction_map(self, rank: int, chunk: int, func_type: Any) -> dict[str, Any]:
            return _direction(plan, nodes.FuncType, rank, chunk, func_type)

        def first_pp_stage_rank(self) -> int:
            return plan.home[0]

        def last_pp_stage_rank(self) -> int:
            return plan.home[-1]

    return Ordered


def _check(plan: Plan, sizes: tuple[int, int, int], settings: dict[str, Any]) -> None:
    """Refuses another pipeline, and settings that change the order."""
    schedule = plan.schedule
    own = (schedule.stages, schedule.chunks, schedule.microbatches)
    if sizes != own:
        words = "{} ranks, {} chunks on each and {} microbatches"
        message = f"the order {schedule.name!r} is for {words.format(*own)}, not {words.format(*sizes)}"
        raise InputError(message, message=message, key="order")
    for name, value in settings.items():
        if value:
            message = f"the order {schedule.name!r} does not run with {name}={value!r} of Primus"
            raise InputError(message, message=message, key="order")


def _times(plan: Plan) -> dict[tuple[int, Pass], int]:
    """The step of each pass, where every pass takes one and begins as soon as it can."""
    times: dict[tuple[int, Pass], int] = {}
    made: dict[Any, int] = {}
    at, clock = [0] * plan.ranks, [0] * plan.ranks
    moved = True
    while moved:
        moved = False
        for rank in range(plan.ranks):
            while at[rank] < len(plan.passes[rank]):
                one = plan.passes[rank][at[rank]]
                needed = plan.needed(one)
                if needed is not None and needed not in made:
                    break
                time = max(clock[rank], made.get(needed, -1) + 1)
                times[rank, one] = time
                value = plan.made(one)
                if value is not None:
                    made[value] = time
                clock[rank], at[rank], moved = time + 1, at[rank] + 1, True
    return times


def _table(plan: Plan, nodes: Any) -> list[list[Any]]:
    """The nodes of all ranks. A value is sent and received in the step behind the pass that makes it, on both
    ranks before the passes of that step and in the same order.
    """
    kinds, make = nodes.FuncType, nodes.SchedulerNode
    places = [{chunk: at for at, chunk in enumerate(plan.chunks_of(rank))} for rank in range(plan.ranks)]
    found: list[list[tuple[tuple[int, ...], Any]]] = [[] for _ in range(plan.ranks)]
    for (rank, one), time in _times(plan).items():
        chunk = chunk_of(one)
        args = {"time_step": time}
        place = places[rank][chunk]
        node = make(func_type=kinds[one.kind], mini_batch=one.microbatch, chunk=place, args=args)
        found[rank].append(((time, 1, 0, 0, 0, 0), node))
        value = plan.made(one)
        if value is None:
            continue
        target = plan.home[value.chunk]
        taken = places[target][value.chunk]
        ends = {"from_pp_rank": rank, "to_pp_rank": target, "time_step": time + 1}
        letter = value.kind
        send = make(
            func_type=kinds["S" + letter],
            mini_batch=one.microbatch,
            chunk=place,
            args={**ends, "send_to_chunk": taken},
        )
        receive = make(
            func_type=kinds["R" + letter],
            mini_batch=one.microbatch,
            chunk=taken,
            args={**ends, "recv_from_chunk": place},
        )
        turn = (time + 1, 0, min(rank, target), rank, value.chunk)
        found[rank].append(((*turn, 0), send))
        found[target].append(((*turn, 1), receive))
    return [[node for _, node in sorted(own, key=lambda entry: entry[0])] for own in found]


def _direction(plan: Plan, kinds: Any, rank: int, place: int, kind: Any) -> dict[str, Any]:
    """Where the value of a pass comes from and goes to, as Primus' schedules say it."""
    chunk = plan.chunks_of(rank)[place]
    step = 1 if kind == kinds.F else -1
    letter = "F" if kind == kinds.F else "B"

    def end(other: int) -> tuple[Any, Any]:
        if not 0 <= other < plan.chunks:
            return None, place
        home = plan.home[other]
        return home, plan.chunks_of(home).index(other)

    (previous, from_place), (following, to_place) = end(chunk - step), end(chunk + step)
    return {
        "prev": (previous, kinds["R" + letter]),
        "next": (following, kinds["S" + letter]),
        "recv_from_chunk": from_place,
        "send_to_chunk": to_place,
    }
