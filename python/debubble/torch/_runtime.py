"""All that is used of PyTorch beyond its public names, and which versions it was tried with.

No other file of the package may name what begins with an underscore in `torch`.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import importlib
import inspect
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

from .._errors import InputError, Note

#: The oldest version of PyTorch whose runtime has all that is needed and gets split backwards right.
OLDEST = (2, 8)

#: The versions that the tests were run with.
TRIED = ("2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")

#: The private names, by where they are looked for.
_NAMES = {
    "torch.distributed.pipelining.schedules": (
        "_PipelineScheduleRuntime",
        "_Action",
        "_wait_batch_p2p",
        "OptimizedModule",
    ),
    "torch.distributed.pipelining.schedules._PipelineSchedule": ("_maybe_compute_loss",),
    "torch.distributed.pipelining.stage": ("stage_backward_input", "stage_backward_weight"),
}


class Step(NamedTuple):
    """One pass as torch's runtime was asked for it."""

    kind: str
    chunk: int
    microbatch: int


@functools.cache
def torch() -> Any:
    """The module `torch`.

    Raises:
        InputError: If it is not there, too old, or lacks a name that is needed.
    """
    try:
        found: Any = importlib.import_module("torch")
        importlib.import_module("torch.distributed.pipelining.schedules")
    except ImportError as error:
        message = f"debubble.torch needs PyTorch {_oldest()} or newer, which cannot be loaded: {error}"
        raise InputError(message, message=message, help="pip install torch") from error
    _check(str(found.__version__))
    return found


def _oldest() -> str:
    return ".".join(map(str, OLDEST))


def _check(version: str) -> None:
    """Refuses a version that is too old or has changed, and warns of one that was never tried."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        message = f"debubble.torch needs PyTorch {_oldest()} or newer, and this is {version}"
        raise InputError(message, message=message, help="pip install --upgrade torch")
    for place, names in _NAMES.items():
        for name in names:
            if not hasattr(_found(place), name):
                message = (
                    f"PyTorch {version} has no `{place}.{name}`: "
                    f"debubble.torch was tried with {', '.join(TRIED)}"
                )
                raise InputError(message, message=message, help="install one of those versions")
    if ".".join(numbers.groups()) not in TRIED:
        text = f"debubble.torch was tried with PyTorch {', '.join(TRIED)}, and this is {version}"
        warnings.warn(text, Note, stacklevel=4)


def _found(place: str) -> Any:
    """The module or class of the dotted name `place`, or nothing."""
    module, _, name = place.rpartition(".")
    return (
        getattr(_schedules(), name, None) if module.endswith("schedules") else importlib.import_module(place)
    )


def _schedules() -> Any:
    return importlib.import_module("torch.distributed.pipelining.schedules")


def machine(device: Any) -> tuple[str, str]:
    """The software with its version, and the name of `device`."""
    found = torch()
    device = found.device(device)
    name = found.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"torch {found.__version__}", str(name)


def stages_in(schedule: Any) -> list[Any]:
    """The stages that `schedule` runs on this rank, in ascending order.

    Raises:
        InputError: If PyTorch is missing or too old.
        TypeError: If it is not a schedule of torch.
    """
    torch()
    stages = getattr(schedule, "_stages", None) or [getattr(schedule, "_stage", None)]
    if not isinstance(schedule, _schedules()._PipelineSchedule) or stages[0] is None:
        raise TypeError(
            f"a schedule of torch.distributed.pipelining is needed, not a {type(schedule).__name__}"
        )
    return sorted(stages, key=lambda stage: stage.stage_index)


def microbatches_of(schedule: Any) -> int:
    """The number of microbatches that `schedule` cuts a batch into."""
    return int(schedule._n_microbatches)


def is_training(schedule: Any) -> bool:
    """Whether the step that `schedule` is about to run has backwards: `eval()` has none."""
    return bool(schedule._has_backward)


def fingerprint(schedule: Any) -> str:
    """The same text on all ranks whose schedules have the same order."""
    order = getattr(schedule, "pipeline_order", None) or {}
    text = repr(sorted((rank, [str(action) for action in row]) for rank, row in order.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def splits(schedule: Any) -> bool:
    """Whether any rank runs W apart in the order of `schedule`."""
    order = getattr(schedule, "pipeline_order", None) or {}
    actions = (action for row in order.values() for action in row if action is not None)
    parts = (part for action in actions for part in (getattr(action, "sub_actions", None) or (action,)))
    return any(_letters(part) == "W" for part in parts)


def _letters(action: Any) -> str:
    """The letters of an action in torch's CSV: numbers stand for them before 2.11."""
    kind = action.computation_type
    return str(kind.value) if isinstance(kind.value, str) else str(kind)


def pairs_of(schedule: Any, rank: int) -> list[tuple[Step, Step]]:
    """The passes of `rank` that run together, in their order (`OVERLAP_F_B`)."""
    found: list[tuple[Step, Step]] = []
    for action in (getattr(schedule, "pipeline_order", None) or {}).get(rank, ()):
        parts = getattr(action, "sub_actions", None) or ()
        if len(parts) == 2:
            first, second = (
                Step(_KINDS[_letters(part)], int(part.stage_index), int(part.microbatch_index))
                for part in parts
            )
            found.append((first, second))
    return found


#: Torch's letters of passes as kinds of debubble.
_KINDS = {"F": "F", "I": "B", "W": "W", "B": "BW"}


def newest_loss(schedule: Any) -> Optional[Any]:
    """The loss that was computed last in the step that runs, as a tensor without its graph."""
    losses = schedule._internal_losses
    return losses[-1].detach() if losses else None


#: What is called instead of a function: the function, and its arguments.
Around = Callable[..., Any]


class Hooks(NamedTuple):
    """What is called in place of torch's functions; each gets the function first, then its arguments."""

    step: Around
    forward: Around
    loss: Around
    backward: Around
    weight: Around
    wait: Around


def check_recording(schedule: Any) -> None:
    """Refuses a version whose stages do not show what a recording takes.

    Raises:
        InputError: If it is an unknown one.
    """
    if not all(
        hasattr(stage, "_forward_chunk_states") or hasattr(stage, "fwd_cache")
        for stage in stages_in(schedule)
    ):
        message = f"PyTorch {torch().__version__} cannot be recorded: it hides what a forward keeps"
        raise InputError(message, message=message, help=f"install one of {', '.join(TRIED)}")


@contextlib.contextmanager
def hooked(schedule: Any, hooks: Hooks) -> Iterator[None]:
    """Puts `hooks` around the functions of `schedule` and of its stages, and takes them off at the end."""
    with contextlib.ExitStack() as put:
        for stage in stages_in(schedule):
            _put(put, stage, "forward_one_chunk", functools.partial(hooks.forward, stage))
            _put(put, stage, "backward_one_chunk", functools.partial(hooks.backward, stage))
            _put(put, stage, "backward_weight_one_chunk", functools.partial(hooks.weight, stage))
        _put(put, schedule, "_maybe_compute_loss", hooks.loss)
        _put(put, schedule, "step", hooks.step)
        _put(put, _schedules(), "_wait_batch_p2p", hooks.wait)
        yield


def _put(put: contextlib.ExitStack, owner: Any, name: str, around: Around) -> None:
    """Puts `around` before the attribute `name` of `owner` until `put` is closed."""
    _set(put, owner, name, functools.partial(around, getattr(owner, name)))


def received_by(stage: Any, microbatch: int) -> list[Any]:
    """What the forward of `microbatch`, which has just run, began with and keeps for the backward."""
    return [] if stage.is_first else list(_forward_of(stage, microbatch)[1])


def outputs_of(stage: Any, microbatch: int) -> list[Any]:
    """What the forward of `microbatch` has made and is still held: sends are waited for now and then."""
    return [one for one in _forward_of(stage, microbatch)[0] if one is not None]


def _forward_of(stage: Any, microbatch: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a stage keeps of a forward for the backward: outputs, and what it was called with."""
    # Before 2.15 a pair in a table of another name.
    states = getattr(stage, "_forward_chunk_states", None)
    if states is None:
        outputs, inputs = stage.fwd_cache[microbatch]
        return outputs, inputs
    return states[microbatch].live_outputs, states[microbatch].input_values


def kept_for_weight(stage: Any, microbatch: int) -> Any:
    """What a stage holds besides its graph between I and W of `microbatch`: tensors in lists and tables."""
    return stage.backward_state.get(microbatch)


def built(stages: Sequence[Any], rows: str, keywords: dict[str, Any]) -> Any:
    """The runtime of torch with the order in `rows`, its CSV of passes alone."""
    module = _schedules()
    if "OVERLAP_F_B" in rows and not hasattr(module, "OVERLAP_F_B"):
        message = (
            f"the order runs forwards and backwards in pairs, which PyTorch {torch().__version__} cannot"
        )
        raise InputError.with_help(message, "pip install --upgrade torch, or another order")
    schedule = module._PipelineScheduleRuntime(list(stages), **keywords)
    cells = list(csv.reader(io.StringIO(rows)))
    schedule.pipeline_order = {
        rank: [module._Action.from_str(cell) for cell in row] for rank, row in enumerate(cells)
    }
    # Named otherwise in 2.8.
    lower = getattr(schedule, "_prepare_schedule_with_comms", None) or schedule._load_actions
    lower(schedule.pipeline_order)
    return schedule


def knows(keyword: str) -> bool:
    """Whether torch's runtime of orders takes `keyword`."""
    classes = _schedules()._PipelineScheduleRuntime.__mro__
    return any(keyword in inspect.signature(one.__init__).parameters for one in classes)


def is_compiled(module: Any) -> bool:
    """Whether `module` went through `torch.compile`, or its own `compile()`."""
    return isinstance(module, _schedules().OptimizedModule) or module._compiled_call_impl is not None


def is_replicated(module: Any) -> bool:
    """Whether `module` went through the `replicate()` that stands for `DistributedDataParallel`."""
    composable = sys.modules.get("torch.distributed._composable.replicate")
    return composable is not None and isinstance(module, composable.DDP)


def prepares_again(schedule: Any) -> bool:
    """Whether stages can be prepared for other inputs than those of the first step: in versions that ask
    which stages know their sizes, and unless they do.
    """
    modes = [getattr(stage, "_inference_mode", "unknown") for stage in stages_in(schedule)]
    return all(mode is None or getattr(mode, "name", "") == "DYNAMIC" for mode in modes)


def prepare_again(schedule: Any) -> None:
    """Lets the next step of `schedule` prepare its stages as the first one did. All ranks do so together."""
    schedule._stages_forward_initialized = schedule._stages_backward_initialized = False


def version() -> tuple[int, int]:
    """The first two numbers of the version of PyTorch."""
    major, minor = str(torch().__version__).split(".")[:2]
    return int(major), int(re.sub(r"\D.*", "", minor) or 0)


@contextlib.contextmanager
def group_number(number: int) -> Iterator[None]:
    """Lets a group of processes that is made here be told from one of the same ranks that is gone: before
    2.14 it has the name of that, under which the others look for those who have left.
    """
    module = torch().distributed.distributed_c10d
    with contextlib.ExitStack() as put:
        name = getattr(module, "_hash_ranks_to_str", None)
        if name is not None and version() < (2, 14):
            _set(put, module, "_hash_ranks_to_str", lambda ranks: name([*ranks, "recording", number]))
        yield


def memory_of(tensor: Any) -> Any:
    """The same for tensors that share memory."""
    local = getattr(tensor, "_local_tensor", tensor)
    return local.untyped_storage().data_ptr() if local.layout == torch().strided else id(local)


def is_view(tensor: Any) -> bool:
    """Whether a tensor is a view of another one, which cannot be detached in place."""
    return bool(tensor._is_view())


def mend(schedule: Any, backward_input: Any, backward_weight: Any) -> None:
    """Puts right what this version does wrong in a step of `schedule`, a runtime that `built` has made.

    - B and W are those that are given, in all versions.
    - 2.8 and 2.9 do not divide the gradients of a stage whose last backward is split by the number of
      microbatches.
    - What gradients hold before a step is not divided together with what it adds.
    - Newer ones run backwards to learn what gradients are like: these leave nothing in `main_grad`.
    - 2.9 to 2.11 begin with a message of each stage to its neighbours. Gloo ends the process where one is for
      its own rank, and in 2.9 for the size of all: those between two stages of one rank are left out.
    """
    for stage in stages_in(schedule):
        stage._prepare_backward_infra = functools.partial(
            _without_traces, stage, stage._prepare_backward_infra
        )
        if (2, 9) <= version() < (2, 12):
            stage._get_init_p2p_neighbors_ops = functools.partial(
                _between_ranks, stage, stage._get_init_p2p_neighbors_ops
            )
    run = schedule.step

    def step(*args: Any, **keywords: Any) -> Any:
        late = version() < (2, 10) and schedule.scale_grads
        if schedule.scale_grads and is_training(schedule):
            _multiply_held(schedule, finalizes=keywords.get("finalize_gradients", True))
        with contextlib.ExitStack() as put:
            module = importlib.import_module("torch.distributed.pipelining.stage")
            _set(put, module, "stage_backward_input", backward_input)
            _set(put, module, "stage_backward_weight", backward_weight)
            if late:
                _set(put, schedule, "scale_grads", False)
            made = run(*args, **keywords)
        if late and is_training(schedule):
            for stage in stages_in(schedule):
                stage.scale_grads(microbatches_of(schedule))
        return made

    schedule.step = step


def _without_traces(stage: Any, run: Any, *args: Any, **keywords: Any) -> Any:
    """Runs what may run backwards of `stage`, and undoes what fused ones add to gradients of their own."""
    grads = [one.main_grad for one in stage.submod.parameters() if main_grad_of(one) is not None]
    held = [grad.clone() if bool(grad.any()) else None for grad in grads]
    made = run(*args, **keywords)
    for grad, before in zip(grads, held):
        if before is None:
            grad.zero_()
        else:
            grad.copy_(before)
    return made


def main_grad_of(parameter: Any) -> Any:
    """The tensor that fused kernels add the gradient of `parameter` to, where there is one."""
    grad = getattr(parameter, "main_grad", None)
    return grad if torch().is_tensor(grad) else None


def _multiply_held(schedule: Any, *, finalizes: bool) -> None:
    """Multiplies gradients that steps before have left by what this one divides them by: itself with what it
    adds. FSDP divides only where the step finalizes.
    """
    for stage in stages_in(schedule):
        if finalizes or not isinstance(stage.submod, torch().distributed.fsdp.FSDPModule):
            for one in stage.submod.parameters():
                if one.grad is not None:
                    one.grad.mul_(microbatches_of(schedule))


def forward_only(schedule: Any) -> Any:
    """`eval()` of a runtime that `built` has made: what its order has of forwards alone, which torch runs for
    a pipeline with both ends on one rank, too. Nothing, where there is no `eval()`: in 2.8.
    """
    run = getattr(schedule, "eval", None)
    if run is None:
        return None
    keeps = {"F", "SEND_F", "RECV_F", "WAIT_SEND_F", "UNSHARD", "RESHARD"}
    actions = schedule.pipeline_order_with_comms
    forwards = {
        rank: [
            part
            for action in row
            for part in (getattr(action, "sub_actions", None) or (action,))
            if _letters(part) in keeps
        ]
        for rank, row in actions.items()
    }

    def evaluate(*args: Any, **keywords: Any) -> Any:
        # Before 2.12 stages that begin without backwards are never prepared for them.
        flags = [
            name for name in ("_stages_initialized", "_stages_forward_initialized") if name in vars(schedule)
        ]
        begun = {name: getattr(schedule, name) for name in flags} if version() < (2, 12) else {}
        try:
            with contextlib.ExitStack() as put:
                _set(put, schedule, "pipeline_order_with_comms", forwards)
                return run(*args, **keywords)
        finally:
            vars(schedule).update(begun)

    return evaluate


def _between_ranks(stage: Any, messages: Any) -> list[Any]:
    found = [one for one in messages() if one.group_peer != stage.group_rank]
    for one in found:
        # 2.9 sends integers to where floats are received.
        one.tensor = one.tensor.to(torch().get_default_dtype())
    return found


def _set(put: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Sets an attribute until `put` is closed."""
    own = vars(owner)
    if name in own:
        put.callback(setattr, owner, name, own[name])
    else:
        put.callback(delattr, owner, name)
    setattr(owner, name, value)
