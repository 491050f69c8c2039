"""What torch gets wrong in orders of debubble, or breaks down at: refused before the first step, or at it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from .._errors import InputError, Note
from .._orders import passes_of
from .._schedule import Schedule
from . import _backward, _runtime
from ._agree import Agreement


def splits(schedule: Schedule, rank: int) -> bool:
    """Whether `rank` runs W apart in the order."""
    return any(one.kind == "W" for one in passes_of(schedule, rank))


def check_modules(schedule: Schedule, stages: Sequence[Any], *, scales: bool) -> None:
    """Refuses modules whose gradients torch gets wrong in `schedule`, or in which it breaks down.

    Args:
        schedule: The order.
        stages: The stages of this rank.
        scales: Whether torch divides the gradients of each stage by the number of microbatches.
    """
    if scales:
        _check_shared(stages)
    split = splits(schedule, int(stages[0].group_rank))
    for stage in stages:
        if stage.submod is None:
            continue
        modules = list(stage.submod.modules())
        found = _unfit(modules)
        if found is None and scales:
            found = _unscaled(stage)
        if found is None and split:
            found = _unfit_to_split(modules)
        if found is not None:
            why, cure = found
            message = f"stage {stage.stage_index} cannot run the order {schedule.name!r}: {why}"
            raise InputError.with_help(message, cure, "stages")


def _check_shared(stages: Sequence[Any]) -> None:
    """Refuses a parameter of two stages: torch would scale its gradient once for each."""
    owners: dict[int, tuple[int, str]] = {}
    for stage in stages:
        for name, parameter in stage.submod.named_parameters() if stage.submod is not None else ():
            other, first = owners.setdefault(id(parameter), (int(stage.stage_index), name))
            if other != int(stage.stage_index):
                message = (
                    f"stages {other} and {stage.stage_index} of this rank share the parameter {first}: torch "
                    "divides its gradient by the number of microbatches once for each"
                )
                cure = "pass scale_grads=False, and divide the loss by the number of microbatches"
                raise InputError.with_help(message, cure, "stages")


#: An order that splits no backward.
_WHOLE = "an order of whole backwards: 1f1b, 1f1b-v"


def _unfit(modules: Sequence[Any]) -> Optional[tuple[str, str]]:
    """Why a stage of `modules`, itself the first, has wrong gradients in any order, and what to do."""
    parallel = _runtime.torch().nn.parallel.DistributedDataParallel
    names = [
        *("replicate()" for one in modules if _runtime.is_replicated(one)),
        *("DistributedDataParallel inside of it" for one in modules[1:] if isinstance(one, parallel)),
    ]
    if not names:
        return None
    why = f"{names[0]} reduces the gradients of one microbatch while others are between forward and backward"
    return why, "torch.distributed._composable.replicate_with_fsdp.replicate, or reduce them behind the step"


def _unscaled(stage: Any) -> Optional[tuple[str, str]]:
    """Whether gradients of a stage lie where torch does not divide them."""
    for name, one in stage.submod.named_parameters():
        if one.requires_grad and _runtime.main_grad_of(one) is not None:
            why = f"torch divides gradients by the number of microbatches, but not the main_grad of {name}"
            return why, "pass scale_grads=False, and divide the loss by the number of microbatches"
    return None


def _unfit_to_split(modules: Sequence[Any]) -> Optional[tuple[str, str]]:
    """Why the backward of a stage of `modules`, itself the first, cannot be split, and what to do."""
    torch = _runtime.torch()
    if isinstance(modules[0], torch.nn.parallel.DistributedDataParallel):
        return "DistributedDataParallel does not reduce the gradients of a split backward", _WHOLE
    if any(_runtime.is_compiled(one) for one in modules):
        return "torch.compile cannot split the backward of a module", _WHOLE
    sharded = [isinstance(one, torch.distributed.fsdp.FSDPModule) for one in modules]
    if any(sharded) and not sharded[0]:
        why = "FSDP of a part of it frees the parameters of that after B, and W still needs them"
        return why, "fully_shard(module, reshard_after_forward=False) for the module of the stage, too"
    if any(_reshards(module) for module in modules):
        why = "FSDP frees its parameters after the forward, which W still needs"
        return why, "fully_shard(module, reshard_after_forward=False) for every module of the stage"
    return None


def can_split(module: Any) -> bool:
    """Whether the backward of a module can be split."""
    return _unfit_to_split(list(module.modules())) is None


def _reshards(module: Any) -> bool:
    """Whether FSDP2 frees the parameters of `module` after its forward."""
    if not isinstance(module, _runtime.torch().distributed.fsdp.FSDPModule):
        return False
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return any(getattr(group, "post_forward_mesh_info", None) is not None for group in groups)


def watch(made: Any, schedule: Schedule, agreement: Agreement) -> None:
    """Mends a schedule of torch that runs `schedule`, and puts guards around its methods: what is wrong is
    said in one line on all ranks, not in torch's traceback.
    """
    recomputed = _Recomputed()
    _runtime.mend(made, recomputed.watching(_backward.backward_input), _backward.backward_weight)
    run = made.step
    prepared = _Prepared(made, schedule, agreement)

    def step(*args: Any, **keywords: Any) -> Any:
        prepared.check(args, keywords)
        try:
            stepped = run(*args, **keywords)
        except Exception as error:
            known = _known(error)
            if known is None:
                raise
        else:
            if _runtime.is_training(made):
                recomputed.tell(schedule.name)
            return stepped
        # Not from torch's error, whose traceback has every rank's actions.
        raise InputError.with_help(*known)

    made.step = step
    made.eval = _runtime.forward_only(made) or _no_eval


class _Prepared:
    """What torch has prepared the stages of this rank for in the first step: which weights they train, and
    what sizes their inputs have.
    """

    def __init__(self, made: Any, schedule: Schedule, agreement: Agreement) -> None:
        self._made = made
        self._schedule = schedule
        self._agreement = agreement
        self._stages = _runtime.stages_in(made)
        self._trains: Optional[list[list[bool]]] = None
        self._sizes: list[Any] = []

    def check(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Before a step, or `eval()`: all ranks go on, or none. For other weights and sizes than before torch
        prepares again.

        Raises:
            InputError: If the step of any rank cannot run.
        """
        error = None
        try:
            if self._trains is None:
                check_modules(self._schedule, self._stages, scales=self._made.scale_grads)
            _check_batch(self._made, args, keywords)
        except InputError as found:
            error = found
        trains = [[one.requires_grad for one in stage.submod.parameters()] for stage in self._stages]
        sizes = _sizes(args, keywords) if self._stages[0].is_first else []
        change = self._change(trains, sizes)
        changed, fixed = self._agreement.highest(
            error, (change is not None, not _runtime.prepares_again(self._made))
        )
        if changed and fixed:
            self._agreement.go_on(change)
        elif changed:
            _runtime.prepare_again(self._made)
        self._trains, self._sizes = trains, sizes

    def _change(self, trains: list[list[bool]], sizes: list[Any]) -> Optional[InputError]:
        """How a step differs from those before, as an error."""
        if self._trains is None or (self._trains, self._sizes) == (trains, sizes):
            return None
        what = "which weights are trained" if sizes == self._sizes else "the sizes of the batch"
        message = f"{what} differs from the step before, for which PyTorch has prepared the stages"
        return InputError.with_help(message, "build stages and schedule anew", "stages")


#: Keywords of a step that are not inputs of the model.
_NO_INPUTS = ("target", "target_mbs", "losses", "return_outputs", "loss_kwargs", "finalize_gradients")


def _sizes(args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """The sizes of what the first stage gets: of its positional inputs, else of its keywords."""
    given = [*args, *(keywords.get("arg_mbs") or ())]
    left = given or [one for name, one in keywords.items() if name not in _NO_INPUTS]
    found = []
    while left:
        one = left.pop()
        if _runtime.torch().is_tensor(one):
            found.append((one.shape, one.dtype))
        elif isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
    return found


def _no_eval(*_: Any, **__: Any) -> Any:
    message = f"PyTorch {_runtime.torch().__version__} has no eval() of a schedule"
    raise InputError.with_help(message, "pip install --upgrade torch")


class _Recomputed:
    """Whether a B of the first step runs modules: those of a checkpoint, which W then runs again."""

    def __init__(self) -> None:
        self._watches = True
        self._modules = 0

    def watching(self, backward_input: Callable[..., Any]) -> Callable[..., Any]:
        """`backward_input`, watched in the first step."""

        def watched(*args: Any, **keywords: Any) -> Any:
            if not self._watches:
                return backward_input(*args, **keywords)
            # On GPUs it is a thread of autograd that runs them: the hook is that of all threads.
            hook = _runtime.torch().nn.modules.module.register_module_forward_pre_hook(self._count)
            try:
                return backward_input(*args, **keywords)
            finally:
                hook.remove()

        return watched

    def _count(self, *_: Any) -> None:
        self._modules += 1

    def tell(self, name: str) -> None:
        """After the first step: what checkpoints cost, if there are any."""
        if self._watches and self._modules > 0:
            text = (
                f"stages checkpoint, and the order {name!r} splits their backwards: torch recomputes in B "
                "and again in W, there once for each group of weights. Record this model and search over "
                "its profile, which has these costs, or run an order of whole backwards: 1f1b, 1f1b-v"
            )
            warnings.warn(text, Note, stacklevel=4)
        self._watches = False


def _check_batch(made: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuses a batch that does not divide into microbatches, unless the user says how it is cut."""
    if getattr(made, "_args_chunk_spec", None) or getattr(made, "_kwargs_chunk_spec", None):
        return
    microbatches = _runtime.microbatches_of(made)
    is_tensor = _runtime.torch().is_tensor
    for one in (*args, *keywords.values()):
        if is_tensor(one) and one.dim() > 0 and int(one.shape[0]) % microbatches != 0:
            message = f"a batch of {int(one.shape[0])} does not divide into {microbatches} microbatches"
            cure = "drop or pad the last batch, as drop_last=True of a DataLoader does"
            raise InputError.with_help(message, cure)


#: What a trouble of torch says, what that means, and what to do.
_TROUBLES = (
    (
        ("Checkpointing is not compatible with .grad()", "use_reentrant"),
        "a stage checkpoints with use_reentrant=True, whose backward torch cannot split",
        "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
    ),
    (
        ("has gradients None and is expecting to send gradients",),
        "the input of a stage needs no gradient, as behind stages without trainable weights, and PyTorch "
        "2.12 sends one all the same",
        "another version of PyTorch",
    ),
)


def _known(error: Optional[BaseException]) -> Optional[tuple[str, str]]:
    """What it means that torch broke down, and what to do, if that is known."""
    while error is not None:
        for texts, message, cure in _TROUBLES:
            if any(text in str(error) for text in texts):
                return message, cure
        error = error.__cause__ or error.__context__
    return None
