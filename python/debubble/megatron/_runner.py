"""The forward-backward function of Megatron-core that runs an order of debubble."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from .._errors import InputError
from .._orders import chunk_of
from .._schedule import Pass
from ._modules import load, schedules
from ._order import Order, Plan, schedule_of
from ._split import Backward
from ._transfers import Links, Transfers


def forward_backward_func(order: Order) -> ForwardBackward:
    """The function that runs an order, to be called as Megatron-core's own forward-backward functions.

    Args:
        order: A schedule, the answer of a search, an outcome, or the file of an order.

    Raises:
        InputError: If there is no such order, or Megatron-LM cannot run its passes.
    """
    return ForwardBackward(Plan(schedule_of(order)))


#: The argument of a training script that names the file of an order.
_ARGUMENT = "--debubble-order"


def use(order: Optional[Order] = None) -> ForwardBackward:
    """Makes Megatron's training loop run an order: to be called once, before `pretrain(..)`.

    Args:
        order: See `forward_backward_func`. Where it is left out, the file that `--debubble-order` names
            among the arguments of the script, as in the `megatron.sh` of a plan; the argument is taken out,
            for Megatron-LM refuses it.

    Raises:
        InputError: If there is no such order, Megatron-LM cannot run its passes, or Megatron-core is
            missing or too old.
    """
    made = forward_backward_func(_taken() if order is None else order)
    own = schedules().get_forward_backward_func

    def get_forward_backward_func(*_: Any, **__: Any) -> ForwardBackward:
        return made

    # Modules that took the function by its name have it, too.
    for module in list(sys.modules.values()):
        if getattr(module, "get_forward_backward_func", None) is own:
            module.get_forward_backward_func = get_forward_backward_func  # type: ignore[attr-defined]
    return made


def _taken() -> str:
    """The file that the arguments of the script name, which are left without it."""
    for at, argument in enumerate(sys.argv):
        name, equals, value = argument.partition("=")
        if name == _ARGUMENT and equals:
            del sys.argv[at]
            return value
        if name == _ARGUMENT and at + 1 < len(sys.argv):
            value = sys.argv[at + 1]
            del sys.argv[at : at + 2]
            return value
    message = "the arguments of the script name no order"
    cure = f"add {_ARGUMENT} FILE, as the megatron.sh of a plan does, or call use(FILE)"
    raise InputError.with_help(message, cure, "order")


class ForwardBackward:
    """Runs a step of Megatron in an order of debubble."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._links: Optional[Links] = None

    def __repr__(self) -> str:
        schedule = self._plan.schedule
        sizes = f"stages={schedule.stages}, microbatches={schedule.microbatches}"
        return f"ForwardBackward({schedule.name!r}, {sizes})"

    def __call__(
        self,
        *,
        forward_step_func: Callable[..., Any],
        data_iterator: Any,
        model: Any,
        num_microbatches: int,
        seq_length: int,
        micro_batch_size: int,
        decoder_seq_length: Optional[int] = None,
        forward_only: bool = False,
        collect_non_loss_data: bool = False,
        **others: Any,
    ) -> list[Any]:
        """One step, as Megatron-core's forward-backward functions take it.

        Returns:
            What the loss function gives for each microbatch, on the rank of the last chunk; else nothing.

        Raises:
            InputError: If the order is for another pipeline, model or number of microbatches, or the
                configuration has what the order does not run with.
        """
        chunks = list(model) if isinstance(model, Sequence) else [model]
        groups = _groups(others.pop("pg_collection", None))
        step = _Step(self._plan, chunks, data_iterator, groups, forward_step_func)
        step.check(num_microbatches, forward_only=forward_only, others=others)
        self._links = self._links or step.links()
        sizes = (decoder_seq_length or seq_length, micro_batch_size)
        return step.run(
            self._links,
            sizes,
            num_microbatches,
            forward_only=forward_only,
            collect=collect_non_loss_data,
            force_all_reduce=bool(others.get("force_all_reduce")),
        )


class _Step:
    """One step of one rank."""

    def __init__(self, plan: Plan, chunks: list[Any], data: Any, groups: Any, forward: Any) -> None:
        dist = load("torch.distributed")
        self.plan = plan
        self.models = chunks
        self.groups = groups
        self.forward_step_func = forward
        self.rank = dist.get_rank(groups.pp)
        self.ranks = dist.get_process_group_ranks(groups.pp)
        self.data = list(data) if isinstance(data, list) else [data] * len(chunks)
        self.config = schedules().get_model_config(chunks[0])
        self.places: dict[int, int] = {}

    def check(self, microbatches: int, *, forward_only: bool, others: dict[str, Any]) -> None:
        """Refuses a pipeline, a model or a configuration that the order is not for."""
        schedule, config = self.plan.schedule, self.config
        name = f"the order {schedule.name!r}"
        own = self.plan.chunks_of(self.rank) if len(self.ranks) == self.plan.ranks else []
        splits = bool(own) and self.plan.splits(self.rank)
        recompute = getattr(config, "recompute_granularity", None)

        def has(key: str) -> bool:
            return bool(getattr(config, key, False))

        ranks, given = len(self.ranks), len(self.models)
        fuses = has("gradient_accumulation_fusion") and not self._defers()
        wrong = [
            (ranks != schedule.stages, f"is for {schedule.stages} ranks, the pipeline has {ranks}"),
            (given != len(own), f"has {len(own)} chunks on rank {self.rank}, the model {given}"),
            (
                not forward_only and microbatches != schedule.microbatches,
                f"has {schedule.microbatches} microbatches, the step {microbatches}",
            ),
            (has("variable_seq_lengths"), "runs sequences of one length"),
            (has("overlap_moe_expert_parallel_comm"), "does not run with overlap_moe_expert_parallel_comm"),
            (
                splits and recompute is not None,
                f"splits backwards, which recompute_granularity={recompute!r} does not allow",
            ),
            (
                splits and fuses,
                "splits backwards: set gradient_accumulation_fusion=False or delay_wgrad_compute=True",
            ),
            (others.get("adjust_tensor_shapes_fn") is not None, "runs tensors of one shape"),
            (others.get("p2p_communicator") is not None, "has its own transfers between stages"),
        ]
        for is_wrong, why in wrong:
            if is_wrong:
                message = f"{name} {why}"
                raise InputError(message, message=message, key="order")
        self.places = {chunk: place for place, chunk in enumerate(own)}
        self._check_tied(own)

    def _check_tied(self, own: list[int]) -> None:
        """Refuses an embedding that is tied to an output layer of another chunk of this rank."""
        if not {0, self.plan.chunks - 1} <= set(own) or len(own) == 1:
            return
        ends = [_unwrapped(self.models[self.places[chunk]]) for chunk in (0, self.plan.chunks - 1)]
        if any(getattr(end, "share_embeddings_and_output_weights", False) for end in ends):
            message = (
                f"the order {self.plan.schedule.name!r} has both ends of the model on rank {self.rank}, tied"
            )
            cure = (
                "train with untied embeddings (--untie-embeddings-and-output-weights), or take a looped order"
            )
            raise InputError.with_help(message, cure, "order")

    def _defers(self) -> bool:
        """Whether Transformer Engine puts off the gradients of weights by itself."""
        return bool(getattr(self.config, "delay_wgrad_compute", False))

    def links(self) -> Links:
        """The groups of all transfers of the order."""
        dist = load("torch.distributed")
        pairs = set(self.plan.own_routes) | set(self.plan.routes(self.plan.forwards(1)))
        return Links(list(pairs), self.ranks, dist.get_backend(self.groups.pp))

    def run(
        self,
        links: Links,
        sizes: tuple[int, int],
        microbatches: int,
        *,
        forward_only: bool,
        collect: bool,
        force_all_reduce: bool,
    ) -> list[Any]:
        torch = load("torch")
        passes = self.plan.forwards(microbatches) if forward_only else self.plan.passes
        routes = self.plan.routes(passes) if forward_only else self.plan.own_routes
        parameter = next(self.models[0].parameters())
        self.transfers = Transfers(
            links,
            routes,
            self.rank,
            self.ranks,
            shape=self._shape(*sizes),
            dtype=self.config.pipeline_dtype or parameter.dtype,
            device=parameter.device,
        )
        self.microbatches, self.forward_only, self.collect = microbatches, forward_only, collect
        self.kept: dict[tuple[int, int], Backward] = {}
        self.losses: list[Any] = []
        self.tokens: Any = torch.zeros([], dtype=torch.int, device=parameter.device)
        own = list(enumerate(passes[self.rank]))
        last = {chunk_of(one): at for at, one in own if one.kind in ("W", "BW")}
        with self._timed("forward-backward"), contextlib.ExitStack() as unsynced:
            pending = self._without_sync(unsynced)
            for at, one in own:
                chunk = chunk_of(one)
                if last.get(chunk) == at:
                    # Gradients of this chunk are exchanged from now on.
                    pending[self.places[chunk]].close()
                self._pass(one)
        self.transfers.end()
        if not forward_only:
            self._finalize(force_all_reduce)
        return self.losses

    def _shape(self, tokens: int, samples: int) -> tuple[int, ...]:
        """The shape of an activation between stages."""
        tokens //= self.groups.cp.size()
        if self.config.sequence_parallel:
            tokens //= self.groups.tp.size()
        return (tokens, samples, int(self.config.hidden_size))

    def _without_sync(self, stack: contextlib.ExitStack) -> list[contextlib.ExitStack]:
        """By chunk, a context in which gradients are not exchanged."""
        given = self.config.no_sync_func
        if isinstance(given, (list, tuple)):
            pending = [stack.enter_context(contextlib.ExitStack()) for _ in given]
            for own, function in zip(pending, given):
                own.enter_context(function())
            return pending
        # One context of all chunks ends with the first of them that exchanges.
        own = stack.enter_context(contextlib.ExitStack())
        if given is not None:
            own.enter_context(given())
        return [own] * len(self.models)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        timers = self.config.timers
        level = 1 if name == "forward-backward" else 2
        if timers is not None:
            timers(name, log_level=level).start()
        yield
        if timers is not None:
            timers(name).stop()

    def _pass(self, one: Pass) -> None:
        chunk = chunk_of(one)
        if one.kind == "F":
            self._forward(one, chunk)
            return
        with self._timed("backward-compute"):
            if one.kind == "W":
                self._weight(one, chunk)
            else:
                self._backward(one, chunk)

    def _forward(self, one: Pass, chunk: int) -> None:
        torch = load("torch")
        needed = self.plan.needed(one)
        taken = None
        if needed is not None:
            taken = self.transfers.receive(needed, self.plan.home[chunk - 1])
            taken = taken.detach().requires_grad_(not self.forward_only)
        place, is_last = self.places[chunk], chunk + 1 == self.plan.chunks
        virtual = place if len(self.models) > 1 else None
        _set_virtual(virtual)
        with torch.set_grad_enabled(not self.forward_only):
            output, tokens = schedules().forward_step(
                self.forward_step_func,
                self.data[place],
                self.models[place],
                self.microbatches,
                taken,
                self.losses,
                self.config,
                self.groups.cp.size(),
                collect_non_loss_data=self.collect,
                is_first_microbatch=one.microbatch == 0,
                current_microbatch=one.microbatch,
                vp_stage=virtual,
                is_last_stage=is_last,
            )
        if is_last:
            self.tokens += tokens
        made = self.plan.made(one)
        if made is not None:
            self.transfers.send(made, output.detach(), self.plan.home[made.chunk])
        if not self.forward_only:
            if is_last and self.config.grad_scale_func is not None:
                output = self.config.grad_scale_func(output)
            self.kept[chunk, one.microbatch] = Backward(output, taken)

    def _backward(self, one: Pass, chunk: int) -> None:
        needed = self.plan.needed(one)
        gradient = self.transfers.receive(needed, self.plan.home[chunk + 1]) if needed is not None else None
        backward = self.kept[chunk, one.microbatch]
        is_whole = one.kind == "BW" or self._defers()
        found = backward.whole(gradient) if is_whole else backward.input(gradient)
        if one.kind == "BW":
            del self.kept[chunk, one.microbatch]
            if self._defers():
                self._deferred(chunk)
        made = self.plan.made(one)
        if made is not None:
            self.transfers.send(made, found, self.plan.home[made.chunk])

    def _weight(self, one: Pass, chunk: int) -> None:
        backward = self.kept.pop((chunk, one.microbatch))
        if self._defers():
            self._deferred(chunk)
        else:
            backward.weight()

    def _deferred(self, chunk: int) -> None:
        """The gradients of weights that Transformer Engine has put off, the oldest of each layer."""
        for module in self.models[self.places[chunk]].modules():
            needs = getattr(module, "need_backward_dw", None)
            if needs is not None and needs():
                module.backward_dw()

    def _finalize(self, force_all_reduce: bool) -> None:
        function = self.config.finalize_model_grads_func
        if function is None:
            return
        tokens = self.tokens if self.config.calculate_per_token_loss else None
        known = inspect.signature(function).parameters
        given = {"pg_collection": self.groups, "force_all_reduce": force_all_reduce}
        function(self.models, tokens, **{name: value for name, value in given.items() if name in known})


def _unwrapped(model: Any) -> Any:
    """A model without the wrappers around it."""
    while hasattr(model, "module"):
        model = model.module
    return model


def _set_virtual(place: Optional[int]) -> None:
    """Tells Megatron which virtual stage runs."""
    if place is not None:
        load("megatron.core.parallel_state").set_virtual_pipeline_model_parallel_rank(place)


def _groups(given: Any) -> Any:
    """The process groups of the model: those given, or those of Megatron's state."""
    if given is not None:
        return given
    state = load("megatron.core.parallel_state")
    groups = load("megatron.core.process_groups_config").ProcessGroupCollection()
    groups.tp = state.get_tensor_model_parallel_group()
    groups.pp = state.get_pipeline_model_parallel_group()
    groups.cp = state.get_context_parallel_group()
    groups.embd = state.get_embedding_group(check_initialized=False)
    groups.pos_embd = state.get_position_embedding_group(check_initialized=False)
    groups.dp_cp = state.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=False)
    return groups
