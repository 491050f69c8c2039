"""The forward-backward function of Megatron-core that runs an order of debubble."""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from .._errors import InputError, Note
from .._orders import chunk_of
from .._schedule import Pass
from ._agreement import Agreement, Terms
from ._modules import load, replace, schedules
from ._order import Order, Plan, schedule_of
from ._refusals import refusal
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
    replace(own, get_forward_backward_func)
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
            InputError: If the order is for another pipeline, model or number of microbatches, the
                configuration has what the order does not run with, or the ranks of the pipeline are
                called with different things: on all of them.
            LostRank: If another rank has left the step.
        """
        chunks = list(model) if isinstance(model, Sequence) else [model]
        groups = _groups(others.pop("pg_collection", None))
        step = _Step(self._plan, chunks, data_iterator, groups, forward_step_func)
        why = refusal(step, num_microbatches, forward_only=forward_only, others=others)
        form = step.form(decoder_seq_length or seq_length, micro_batch_size)
        terms = Terms(why, step.same(num_microbatches, form, forward_only=forward_only))
        links = self._linked(step, terms)
        try:
            links.agreement.reach(terms)
            return step.run(
                links,
                form,
                num_microbatches,
                forward_only=forward_only,
                collect=collect_non_loss_data,
                force_all_reduce=bool(others.get("force_all_reduce")),
            )
        except BaseException as error:
            # The peers, which would wait for this rank, get an error, too.
            self._links = None
            error = links.agreement.leave(error)
            links.close()
            raise error

    def _linked(self, step: _Step, terms: Terms) -> Links:
        """The groups of all transfers, which all ranks of the job make in their first step.

        Raises:
            InputError: If a rank does not run what it is called with.
        """
        if self._links is None:
            pairs = set(self._plan.own_routes) | set(self._plan.routes(self._plan.forwards(1)))
            backend = load("torch.distributed").get_backend(step.groups.pp)
            self._links = Links(Agreement(step.ranks, list(pairs), terms), backend)
        return self._links


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
        own = plan.chunks_of(self.rank) if len(self.ranks) == plan.ranks else []
        self.places = {chunk: place for place, chunk in enumerate(own)}

    def form(self, tokens: int, samples: int) -> dict[str, Any]:
        """Shape, type and device of an activation between stages."""
        tokens //= self.groups.cp.size()
        if self.config.sequence_parallel:
            tokens //= self.groups.tp.size()
        parameter = next(one for model in self.models for one in model.parameters())
        return {
            "size": (tokens, samples, int(self.config.hidden_size)),
            "dtype": self.config.pipeline_dtype or parameter.dtype,
            "device": parameter.device,
        }

    def same(
        self, microbatches: int, form: dict[str, Any], *, forward_only: bool
    ) -> tuple[tuple[str, Any], ...]:
        """What all ranks of the pipeline must be called with."""
        return (
            ("the order", self.plan.label),
            ("forward_only", forward_only),
            ("num_microbatches", microbatches),
            ("the shape of an activation", form["size"]),
            ("its type", str(form["dtype"])),
        )

    def _defers(self) -> bool:
        """Whether Transformer Engine puts off the gradients of weights by itself."""
        return bool(getattr(self.config, "delay_wgrad_compute", False))

    def run(
        self,
        links: Links,
        form: dict[str, Any],
        microbatches: int,
        *,
        forward_only: bool,
        collect: bool,
        force_all_reduce: bool,
    ) -> list[Any]:
        torch = load("torch")
        passes = self.plan.forwards(microbatches) if forward_only else self.plan.passes
        routes = self.plan.routes(passes) if forward_only else self.plan.own_routes
        self.transfers = Transfers(links, routes, self.rank, form)
        self.microbatches, self.forward_only, self.collect = microbatches, forward_only, collect
        self.kept: dict[tuple[int, int], Backward] = {}
        self.losses: list[Any] = []
        self.tokens: Any = torch.zeros([], dtype=torch.int, device=form["device"])
        own = list(enumerate(passes[self.rank]))
        last = {chunk_of(one): at for at, one in own if one.kind in ("W", "BW")}
        whole = {chunk_of(one): at for at, one in own if one.kind in ("B", "BW")}
        with self._timed("forward-backward"), contextlib.ExitStack() as unsynced:
            pending = self._without_sync(unsynced)
            for at, one in own:
                chunk = chunk_of(one)
                if last.get(chunk) == at or (whole.get(chunk) == at and not self._splits(one)):
                    # Gradients of this chunk are exchanged from now on.
                    pending[self.places[chunk]].close()
                self._pass(one)
        links.end()
        if not forward_only:
            self._finalize(force_all_reduce)
        return self.losses

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
        if not is_whole and not backward.is_split:
            why = f"chunk {chunk} uses a weight twice: its B is the whole backward, and its W nothing"
            warnings.warn(why, Note, stacklevel=1)
        found = backward.whole(gradient) if is_whole else backward.input(gradient)
        if one.kind == "BW":
            del self.kept[chunk, one.microbatch]
            if self._defers():
                self._deferred(chunk)
        made = self.plan.made(one)
        if made is not None:
            self.transfers.send(made, found, self.plan.home[made.chunk])

    def _splits(self, one: Pass) -> bool:
        """Whether W of a microbatch makes gradients of weights, and not its B."""
        return self._defers() or self.kept[chunk_of(one), one.microbatch].is_split

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
        tokens = None
        if self.config.calculate_per_token_loss:
            # Megatron takes them from the last rank, which need not have the last chunk.
            tokens = self.tokens
            load("torch.distributed").all_reduce(tokens, group=self.groups.pp)
        known = inspect.signature(function).parameters
        given = {"pg_collection": self.groups, "force_all_reduce": force_all_reduce}
        function(self.models, tokens, **{name: value for name, value in given.items() if name in known})


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
