"""Orders of debubble as schedules of torch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

from .. import _documents
from .._errors import InputError, Note
from .._orders import Order, chunk_of, passes_of, schedule_of
from .._question import Question
from .._schedule import Schedule
from . import _guards, _runtime
from ._agree import Agreement, ranks_of
from ._record import NAME

#: What names an order, for errors.
_NAMED = "the name of a family"


def stages_of(order: Order, rank: int) -> list[int]:
    """The stages of torch that `rank` must build to run an order, ascending.

    Stages of torch are the chunks of debubble: of a V with p ranks, rank r has r and 2p-1-r.

    Args:
        order: A schedule, the answer of a search, or an outcome.
        rank: The rank in the pipeline, from 0.

    Raises:
        InputError: If torch cannot run the order, or there is no such rank.

    >>> import debubble as db
    >>> import debubble.torch as dbt
    >>> q = db.Question(stages=4, microbatches=8, forward="1ms", backward_input="1ms", backward_weight="1ms")
    >>> [dbt.stages_of(db.simulate(q, "zb-v")[0], rank) for rank in range(4)]
    [[0, 7], [1, 6], [2, 5], [3, 4]]
    """
    schedule = schedule_of(order, _NAMED)
    schedule.to_torch_csv()
    return _chunks(schedule, rank)


def schedule(
    stages: Union[Any, Sequence[Any]],
    order: Union[Order, str],
    *,
    n_microbatches: Optional[int] = None,
    loss_fn: Any = None,
    **keywords: Any,
) -> Any:
    """The schedule of torch that runs the stages of this rank in an order of debubble.

    Every rank of the pipeline makes it of the same order, with the stages that `stages_of` names for it.

    Args:
        stages: The stages of torch (`PipelineStage`) of this rank, or the only one.
        order: A schedule, the answer of a search, an outcome, or the name of a family. Where the order of a
            family depends on times, a name stands for the one for passes that all take as long.
        n_microbatches: The number of microbatches, m: that of the order.
        loss_fn: The loss of a microbatch, as torch's schedules take it.
        **keywords: Whatever else torch's schedules of several stages take, such as `scale_grads` and
            `args_chunk_spec`.

    Returns:
        An object with the methods of torch's schedules: `step`, `eval`.

    Raises:
        InputError: If torch cannot run the order, with the reason; if it is for other stages, ranks or
            microbatches; or if torch computes wrong gradients of the modules in it, or breaks down. A step
            raises it for a batch that does not divide into microbatches, and `eval()` in PyTorch 2.8, which
            has none.
    """
    torch = _runtime.torch()
    stage_class = torch.distributed.pipelining.PipelineStage
    given = list(stages) if isinstance(stages, Sequence) else [stages]
    if not given or not all(isinstance(one, stage_class) for one in given):
        raise TypeError("stages are PipelineStages of torch, one or a list, and at least one")
    given.sort(key=lambda stage: stage.stage_index)
    agreement = Agreement(ranks_of(given[0]))
    made, error = None, None
    try:
        made = _made(given, order, n_microbatches, {"loss_fn": loss_fn, **keywords}, agreement)
    except Exception as found:
        error = found
    agreement.go_on(error)
    return made


def _made(
    stages: Sequence[Any],
    order: Union[Order, str],
    microbatches: Optional[int],
    keywords: dict[str, Any],
    agreement: Agreement,
) -> Any:
    """The schedule, on this rank alone."""
    found = _family(order, stages[0], microbatches) if isinstance(order, str) else schedule_of(order, _NAMED)
    rows = found.to_torch_csv()
    _check(found, stages, microbatches)
    if any(line.partition("|")[2].strip() for line in found.to_text().splitlines()):
        left = "its copies to the host: all activations stay on the device"
        text = f"the order {found.name!r} runs without {left}"
        warnings.warn(text, Note, stacklevel=3)
    _guards.check_modules(found, stages, scales=bool(keywords.get("scale_grads", True)))
    sharded = _runtime.torch().distributed.fsdp.FSDPModule
    if not any(isinstance(one.submod, sharded) for one in stages) and _runtime.knows("max_active_stages"):
        # What stays unsharded matters to FSDP alone, and choosing it takes long.
        keywords.setdefault("max_active_stages", len(stages))
    made = _runtime.built(stages, rows, {"n_microbatches": found.microbatches, **keywords})
    setattr(made, NAME, found.name)
    _guards.watch(made, found, agreement)
    return made


def _family(name: str, stage: Any, microbatches: Optional[int]) -> Schedule:
    """The order of the family `name` for the pipeline of `stage`; as for passes that all take as long, if it
    depends on times.
    """
    if microbatches is None:
        raise InputError(f"how many microbatches {name} is for is not said", key="n_microbatches")
    if os.sep in name:
        return Schedule.from_file(name)
    ranks, chunks = int(stage.group_size), int(stage.num_stages)
    if chunks % ranks != 0:
        raise InputError(f"{chunks} stages of torch cannot be spread evenly over {ranks} ranks", key="stages")
    shards: dict[str, Any] = {"vocab_s": "1ms", "vocab_t": "1ms"} if "vocab" in name else {}
    question = Question(
        stages=ranks,
        microbatches=microbatches,
        chunks=chunks // ranks,
        forward="1ms",
        backward_input="1ms",
        backward_weight="1ms",
        offload_time="1ms",
        **shards,
    )
    return Schedule.from_text(_documents.export(question, name), name)


def _chunks(schedule: Schedule, rank: int) -> list[int]:
    if not 0 <= rank < schedule.stages:
        raise InputError(f"there is no rank {rank}: {schedule.name} is for {schedule.stages}", key="rank")
    return sorted({chunk_of(one) for one in passes_of(schedule, rank)})


def _check(schedule: Schedule, stages: Sequence[Any], microbatches: Optional[int]) -> None:
    """Refuses an order for another pipeline than that of `stages`."""
    name = f"the order {schedule.name!r}"
    ranks = int(stages[0].group_size)
    if schedule.stages != ranks:
        raise InputError(f"{name} is for {schedule.stages} ranks, and the pipeline has {ranks}", key="stages")
    if microbatches is not None and microbatches != schedule.microbatches:
        message = f"{name} has {schedule.microbatches} microbatches, not {microbatches}"
        raise InputError(message, key="n_microbatches")
    every = schedule.stages * schedule.chunks
    total = int(stages[0].num_stages)
    if total != every:
        message = (
            f"{name} is for {every} stages of torch, {schedule.chunks} per rank, and the model has {total}"
        )
        raise InputError(message, key="stages")
    rank = int(stages[0].group_rank)
    wanted, given = _chunks(schedule, rank), [int(stage.stage_index) for stage in stages]
    if given != wanted:
        message = f"{name} runs {_listed(wanted)} on rank {rank}, which was given {_listed(given)}"
        cure = f"build the stages that debubble.torch.stages_of(order, {rank}) names"
        raise InputError.with_help(message, cure, "stages")


def _listed(stages: Sequence[int]) -> str:
    return f"stage{'s' if len(stages) != 1 else ''} {', '.join(map(str, stages))}"
