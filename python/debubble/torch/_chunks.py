"""The chunks of a pipeline, profiled one after the other on one device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union

from .. import _one_device
from .._errors import InputError
from .._profile import Profile
from . import _backward, _clocks, _guards, _runtime
from ._memory import Memory

#: The chunks that a stage has, by placement: in a loop any number.
_PLACEMENTS = {"looped": None, "v": 2}


def profile(
    stage_modules: Union[Iterable[Any], Callable[[], Iterable[Any]]],
    example: Any,
    *,
    loss_fn: Optional[Callable[..., Any]] = None,
    target: Any = None,
    stages: Optional[int] = None,
    placement: str = "looped",
    n_microbatches: Optional[int] = None,
    repeats: int = 10,
    warmup: int = 3,
) -> Profile:
    """The profile of a pipeline whose chunks run one after the other on one device, without other ranks.

    Each chunk runs F, the whole backward, and B and W apart, as `debubble.torch.schedule` runs them.
    Gradients, buffers and random numbers are left as they were. There are no hops and no overhead of a
    runtime in it: a question gives `hop` itself.

    Args:
        stage_modules: The modules of all chunks in the order of the model, on the device that they are
            profiled on. An iterator, or a function that gives one, may make each when it is asked for the
            next: no more than two are held at a time.
        example: A microbatch of the first chunk: a tensor, or a tuple of its arguments.
        loss_fn: The loss of a microbatch, as torch's schedules take it; without one, the gradient of the
            last output is 1.
        target: The target of the microbatch.
        stages: The stages of the pipeline; one for each chunk, or in a V for every two.
        placement: `"looped"` or `"v"`.
        n_microbatches: The microbatches of a step; two for each stage.
        repeats: How often each backward is timed, whole and split.
        warmup: How often all passes run before.

    Raises:
        InputError: If chunks cannot be spread over stages so, or a number is out of range.
    """
    if placement not in _PLACEMENTS:
        raise InputError(f"there is no placement {placement!r}: there are looped and v", key="placement")
    for name, number, least in (("repeats", repeats, 1), ("warmup", warmup, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise InputError(f"{name} is {number!r}: it is a whole number from {least}", key=name)
    if loss_fn is not None and target is None:
        raise InputError("a loss needs a target: the one of the microbatch", key="target")
    given = stage_modules() if callable(stage_modules) else stage_modules
    inputs = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    device = next(one.device for one in inputs if _runtime.torch().is_tensor(one))
    chunks: list[_one_device.Chunk] = []
    messages: list[int] = []
    for module, is_last in _with_last(given):
        loss = (lambda output: loss_fn(output, target)) if is_last and loss_fn is not None else None
        chunk = _Chunk(len(chunks), module, device, inputs, loss, [example, target])
        chunks.append(chunk.measured(warmup, repeats))
        inputs = chunk.next_inputs()
        messages += [] if is_last else [_bytes(inputs)]
    count = _stages(len(chunks), stages, placement)
    program, name = _runtime.machine(device)
    text = _one_device.text(
        chunks,
        program=program,
        stages=count,
        placement=placement,
        microbatches=2 * count if n_microbatches is None else n_microbatches,
        message=max(messages, default=None),
        device=name,
    )
    return Profile.from_file(text.encode())


def _with_last(modules: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Each module, and whether it is the last."""
    left = iter(modules)
    module = next(left, None)
    while module is not None:
        following = next(left, None)
        yield module, following is None
        module = following


def _stages(chunks: int, stages: Optional[int], placement: str) -> int:
    """The stages of a pipeline of so many chunks.

    Raises:
        InputError: If they cannot have them.
    """
    each = _PLACEMENTS[placement]
    count = chunks // (each or 1) if stages is None else stages
    if count < 1 or chunks % count != 0 or (each is not None and chunks != each * count):
        where = "in a V, two for each" if each else "the same number for each"
        raise InputError(f"{chunks} chunks cannot be spread over {count} stages: {where}", key="stages")
    return count


class _Chunk:
    """A chunk that runs alone, with what `_memory` asks of a stage of torch."""

    def __init__(
        self, at: int, module: Any, device: Any, inputs: Sequence[Any], loss: Any, given: Sequence[Any]
    ) -> None:
        self.stage_index = at
        self.submod = module
        self.device = device
        self.is_first = at == 0
        #: By microbatch, outputs and inputs between F and its backward.
        self.fwd_cache: dict[int, tuple[Sequence[Any], Sequence[Any]]] = {}
        #: By microbatch, what is held between B and W.
        self.backward_state: dict[int, Any] = {}
        self._inputs = inputs
        self._outputs: Sequence[Any] = ()
        self._loss = loss
        self._given = given
        self._splits = _guards.can_split(module)
        on_gpu = device.type == "cuda"
        self._clock = _clocks.CudaClock(_runtime.torch().cuda, device) if on_gpu else _clocks.HostClock()
        self._memory = Memory(on_gpu)
        self._marks: dict[str, list[tuple[Any, Any]]] = {"F": [], "BW": [], "B": [], "W": []}

    def measured(self, warmup: int, repeats: int) -> _one_device.Chunk:
        """Times and sizes."""
        with _left_as_it_was(self.submod, self.device):
            # Looking at what autograd saves takes time: that is done apart.
            for _ in range(3):
                self._microbatch(splits=self._splits, measures=True)
            for _ in range(warmup):
                self._round()
            for marks in self._marks.values():
                marks.clear()
            self._clock.begin()
            for _ in range(repeats):
                self._round()
            self._clock.finish()
        row = self._memory.rows()[0]
        read = self._clock.read
        times = {
            kind: [max(read(end) - read(start), 0) for start, end in marks]
            for kind, marks in self._marks.items()
        }
        return _one_device.Chunk(
            forward=times["F"],
            whole=times["BW"],
            input=times["B"],
            weight=times["W"],
            until_backward=row["until_backward"],
            until_weight=row.get("until_weight", row["until_backward"]),
        )

    def next_inputs(self) -> tuple[Any, ...]:
        """What the next chunk is called with."""
        return tuple(one.detach().requires_grad_(one.requires_grad) for one in self._outputs)

    def _round(self) -> None:
        """All passes that are timed."""
        self._microbatch(splits=False)
        if self._splits:
            self._microbatch(splits=True)

    def _microbatch(self, *, splits: bool, measures: bool = False) -> None:
        """The passes of a microbatch."""
        inputs = self._inputs
        if not self.is_first:
            inputs = [one.detach().requires_grad_(one.requires_grad) for one in inputs]
        around = self._memory.forward(self, 0, self._given) if measures else contextlib.nullcontext()
        with around, self._timed("F"):
            made = self.submod(*inputs)
            outputs = tuple(made) if isinstance(made, (tuple, list)) else (made,)
            roots = outputs if self._loss is None else (self._loss(made),)
        self.fwd_cache[0] = outputs, [one for one in inputs if _runtime.torch().is_tensor(one)]
        self._outputs = [one.detach().requires_grad_(one.requires_grad) for one in outputs]
        if measures:
            self._memory.made(self, 0)
        grads = None if self._loss is not None else [_runtime.torch().ones_like(one) for one in outputs]
        del made, outputs
        around = self._memory.backward(self, 0, not splits) if measures else contextlib.nullcontext()
        if splits:
            self._split(roots, grads, inputs, around)
        else:
            with around, self._timed("BW"):
                _whole(roots, grads)
            self.fwd_cache.clear()

    def _split(self, roots: Sequence[Any], grads: Any, inputs: Sequence[Any], around: Any) -> None:
        """B and W; on the first chunk W does the work of both."""
        weights, groups = list(self.submod.parameters()), None
        with around:
            with self._timed("B"):
                if not self.is_first:
                    _, groups = _backward.backward_input(roots, grads, inputs, weights)
            self.fwd_cache.clear()
            self.backward_state[0] = inputs, groups, roots, grads
        with self._timed("W"):
            if groups is None:
                _whole(roots, grads)
            else:
                _backward.backward_weight(weights, groups)
        self.backward_state.clear()

    @contextlib.contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        start = self._clock.mark()
        yield
        self._marks[kind].append((start, self._clock.mark()))


def _whole(roots: Sequence[Any], grads: Optional[Sequence[Any]]) -> None:
    """The whole backward, which chunks without a gradient have none of."""
    edges, came = _backward.roots(roots, grads)
    if edges:
        _runtime.torch().autograd.backward(edges, came)


@contextlib.contextmanager
def _left_as_it_was(module: Any, device: Any) -> Iterator[None]:
    """Leaves gradients, buffers and random numbers as they were."""
    torch = _runtime.torch()
    gradients = [(one, one.grad) for one in module.parameters()]
    buffers = [(one, one.clone()) for one in module.buffers()]
    for one, _ in gradients:
        one.grad = None
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
            yield
    finally:
        for one, grad in gradients:
            one.grad = grad
        with torch.no_grad():
            for one, before in buffers:
                one.copy_(before)


def _bytes(values: Iterable[Any]) -> int:
    """The bytes of the tensors among `values`."""
    return sum(one.numel() * one.element_size() for one in values if _runtime.torch().is_tensor(one))
