"""What an order does not run with: found before the first pass of a step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from .._errors import InputError

if TYPE_CHECKING:
    from ._runner import _Step

#: What is wrong with the order for a step, and the cure where it is not plain.
_Wrong = Iterator[tuple[str, Optional[str]]]


def refusal(
    step: _Step, microbatches: int, *, forward_only: bool, others: dict[str, Any]
) -> Optional[InputError]:
    """Why an order does not run a step, if it does not."""
    wrong = itertools.chain(
        _sizes(step, None if forward_only else microbatches),
        _calls(step, others),
        _settings(step),
        _ends(step),
    )
    for why, cure in wrong:
        message = f"the order {step.plan.schedule.name!r} {why}"
        if cure is None:
            return InputError(message, message=message, key="order")
        return InputError.with_help(message, cure, "order")
    return None


def _sizes(step: _Step, microbatches: Optional[int]) -> _Wrong:
    """Other numbers of ranks, chunks or microbatches."""
    schedule, ranks, rank = step.plan.schedule, len(step.ranks), step.rank
    chunks, given, data = len(step.places), len(step.models), len(step.data)
    if ranks != schedule.stages:
        yield f"is for {schedule.stages} ranks, the pipeline has {ranks}", None
    if given != chunks:
        yield f"has {chunks} chunks on rank {rank}, the model {given}", None
    if data != chunks:
        yield f"has {chunks} chunks on rank {rank}, with data iterators for {data}", None
    if microbatches not in (None, schedule.microbatches):
        yield f"has {schedule.microbatches} microbatches, the step {microbatches}", None


def _calls(step: _Step, others: dict[str, Any]) -> _Wrong:
    """Arguments of the call."""
    if others.get("adjust_tensor_shapes_fn") is not None:
        yield "runs tensors of one shape", None
    if others.get("p2p_communicator") is not None:
        yield "has its own transfers between stages", None


def _settings(step: _Step) -> _Wrong:
    """Settings of the model."""

    def has(key: str) -> bool:
        return bool(getattr(step.config, key, False))

    if has("variable_seq_lengths"):
        yield "runs sequences of one length", None
    for key in (
        "overlap_moe_expert_parallel_comm",
        "defer_embedding_wgrad_compute",
        "fine_grained_activation_offloading",
    ):
        if has(key):
            yield f"does not run with {key}", None
    graphs = getattr(step.config, "cuda_graph_impl", "none")
    if graphs != "none":
        yield f"does not run with cuda_graph_impl={graphs!r}", None
    if not step.plan.splits(step.rank):
        return
    recompute = getattr(step.config, "recompute_granularity", None)
    if recompute is not None:
        yield f"splits backwards, which recompute_granularity={recompute!r} does not allow", None
    if has("gradient_accumulation_fusion") and not has("delay_wgrad_compute"):
        cure = "set gradient_accumulation_fusion=False (--no-gradient-accumulation-fusion)"
        yield "splits backwards, and gradient_accumulation_fusion would add gradients twice", cure


def _ends(step: _Step) -> _Wrong:
    """Ends of the model that are on other chunks, or are tied on one rank."""
    last = step.plan.chunks - 1
    models = {chunk: unwrapped(step.models[place]) for chunk, place in step.places.items()}
    for chunk, model in models.items():
        for name, end in (("pre_process", 0), ("post_process", last)):
            is_end = bool(getattr(model, name, chunk == end))
            if is_end != (chunk == end):
                cure = f"build that chunk with {name}={chunk == end}, or take an order of another placement"
                yield f"has chunk {chunk} of {last + 1} on rank {step.rank}: its {name} is {is_end}", cure
    if len(models) == 1 or not {0, last} <= models.keys():
        return
    both = f"has both ends of the model on rank {step.rank}"
    if any(getattr(models[end], "share_embeddings_and_output_weights", False) for end in (0, last)):
        yield f"{both}, tied", "untie them (--untie-embeddings-and-output-weights), or take a looped order"
    if getattr(step.config, "mtp_num_layers", None):
        yield f"{both}, whose embedding multi-token prediction shares", "take a looped order"


def unwrapped(model: Any) -> Any:
    """A model without the wrappers around it."""
    while hasattr(model, "module"):
        model = model.module
    return model
