"""A rank of a training script, alone: its chunks are timed where the script asks Megatron for a step."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import math
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from .._errors import InputError
from ..torch import _clocks
from ._modules import load, replace, schedules
from ._refusals import unwrapped
from ._split import Backward
from ._storages import Watch, bytes_of
from ._world import World


class Task(NamedTuple):
    """A visit: the rank of a job, the script with its arguments, and how often its passes are timed."""

    rank: int
    world: int
    script: list[str]
    repeats: int
    warmup: int
    #: The folder of what visits leave: `RANK.json`, and what rank 0 broadcasts.
    folder: Path

    @property
    def answer(self) -> Path:
        """The file of what this visit has found."""
        return self.folder / f"{self.rank}.json"


def run(task: Task) -> None:
    """Runs the script as a rank of its job. The process ends where the script asks for its first step.

    Raises:
        InputError: If the script ends before.
    """
    os.environ.update(RANK=str(task.rank), WORLD_SIZE=str(task.world), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    world = World(task.rank, task.world, task.folder / "broadcasts")
    world.enter()
    state = load("megatron.core.parallel_state")
    replace(state.initialize_model_parallel, _sized(task, state.initialize_model_parallel))
    visit = Visit(task, world)
    replace(schedules().get_forward_backward_func, lambda *_, **__: visit)
    sys.argv = list(task.script)
    # As the interpreter does for a script.
    sys.path.insert(0, str(Path(task.script[0]).resolve().parent))
    runpy.run_path(task.script[0], run_name="__main__")
    message = "the script ended and never asked Megatron-core for its forward-backward function"
    raise InputError(message, message=message)


def _sized(task: Task, own: Callable[..., Any]) -> Callable[..., Any]:
    """`initialize_model_parallel`, which says how many processes a smaller job than that asked for lacks."""

    def initialize_model_parallel(*given: Any, **named: Any) -> Any:
        names = ("tensor_model_parallel_size", "pipeline_model_parallel_size")
        sizes = {**dict(zip(names, given)), **named}
        asked = [sizes.get(name) or 1 for name in (*names, "context_parallel_size")]
        needs = math.lcm(math.prod(asked), (sizes.get("expert_model_parallel_size") or 1) * asked[1])
        if task.world % needs:
            _leave(task, {"needs": needs})
        return own(*given, **named)

    return initialize_model_parallel


def _leave(task: Task, answer: dict[str, Any]) -> None:
    """Ends the process: the script's own end would save, log and wait for others."""
    task.answer.write_text(json.dumps(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@dataclasses.dataclass
class Timed:
    """What the passes of a chunk take and hold, as numbers for a file of JSON."""

    chunk: int
    forward: list[int] = dataclasses.field(default_factory=list)
    whole: list[int] = dataclasses.field(default_factory=list)
    input: list[int] = dataclasses.field(default_factory=list)
    weight: list[int] = dataclasses.field(default_factory=list)
    until_backward: int = 0
    until_weight: int = 0
    #: By pass, the most that it takes besides what is held before or after it.
    transient: dict[str, int] = dataclasses.field(default_factory=dict)
    parameters: int = 0
    weights: int = 0
    gradients: int = 0
    #: Why its backward is never split, where it is not.
    unsplit: Optional[str] = None
    #: By pass: name, ranks, bytes and number of its collectives.
    collectives: dict[str, list[list[Any]]] = dataclasses.field(default_factory=dict)


class Visit:
    """Stands where Megatron's forward-backward function does, times the chunks of this rank and ends."""

    def __init__(self, task: Task, world: World) -> None:
        self._task = task
        self._world = world

    def __call__(self, *, forward_only: bool = False, **given: Any) -> list[Any]:
        """Nothing for evaluations; the first step of training is the visit."""
        if forward_only:
            return []
        rank = _Rank(given, self._task)
        answer = rank.answer()
        self._world.save()
        _leave(self._task, answer)
        return []


class _Rank:
    """The chunks of a rank, as the script hands them to Megatron's forward-backward function."""

    def __init__(self, given: dict[str, Any], task: Task) -> None:
        state, torch = load("megatron.core.parallel_state"), load("torch")
        self.task = task
        self.given = given
        model, data = given["model"], given["data_iterator"]
        self.models = list(model) if isinstance(model, Sequence) else [model]
        self.data = list(data) if isinstance(data, list) else [data] * len(self.models)
        self.config = schedules().get_model_config(self.models[0])
        self.pipeline = load("torch.distributed").get_process_group_ranks(
            state.get_pipeline_model_parallel_group()
        )
        self.stage = self.pipeline.index(task.rank)
        self.microbatches = int(given["num_microbatches"])
        parameter = next(self.models[0].parameters())
        self.device, self.dtype = parameter.device, self.config.pipeline_dtype or parameter.dtype
        self.on_gpu = self.device.type == "cuda"
        self.clock: Any = _clocks.CudaClock(torch.cuda, self.device) if self.on_gpu else _clocks.HostClock()
        tokens = int(given.get("decoder_seq_length") or given["seq_length"])
        tokens //= int(state.get_context_parallel_world_size())
        if self.config.sequence_parallel:
            tokens //= int(state.get_tensor_model_parallel_world_size())
        self.shape = (tokens, int(given["micro_batch_size"]), int(self.config.hidden_size))
        self._batches: dict[int, Any] = {}

    def answer(self) -> dict[str, Any]:
        """What the visit has found."""
        torch = load("torch")
        held = int(torch.cuda.memory_allocated()) if self.on_gpu else 0
        with self._unsynced():
            chunks = [_Chunk(self, place).timed() for place in range(len(self.models))]
        known = sum(one.weights + one.gradients for one in chunks)
        state, failure = _optimizer_state(self.models)
        # Other buffers of the script lie there for good, too; master weights are of the optimizer.
        master = state.pop("master", 0)
        chunks[0].weights += max(held - known - master, 0)
        return {
            "stages": len(self.pipeline),
            "pipeline": self.pipeline,
            "microbatches": self.microbatches,
            "message": math.prod(self.shape) * torch.empty([], dtype=self.dtype).element_size(),
            "device": torch.cuda.get_device_name(self.device) if self.on_gpu else self.device.type,
            "program": f"torch {torch.__version__}, megatron-core {load('megatron.core').__version__}",
            "optimizer": None if failure else master + state["moments"],
            "optimizer_failure": failure,
            "chunks": [dataclasses.asdict(one) for one in chunks],
        }

    def batch(self, place: int) -> Any:
        """An iterator that gives the first batch of the script's own data again and again."""
        if self.data[place] is None:
            return None
        if place not in self._batches:
            self._batches[place] = next(self.data[place])
        return iter(lambda: self._batches[place], object())

    def value(self) -> Any:
        """An activation or a gradient between stages."""
        return load("torch").randn(self.shape, dtype=self.dtype, device=self.device)

    @contextlib.contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Without the exchange of gradients, as in all microbatches but the last."""
        given = self.config.no_sync_func
        functions = given if isinstance(given, (list, tuple)) else [given] if given else []
        with contextlib.ExitStack() as stack:
            for function in functions:
                stack.enter_context(function())
            yield


class _Chunk:
    """A chunk of the model on its rank."""

    def __init__(self, rank: _Rank, place: int) -> None:
        self.rank, self.place = rank, place
        self.model, self.config = rank.models[place], rank.config
        stages = len(rank.pipeline)
        self.number = place * stages + rank.stage
        self.is_first, self.is_last = self.number == 0, self.number == stages * len(rank.models) - 1
        self.defers = bool(getattr(self.config, "delay_wgrad_compute", False))

    def timed(self) -> Timed:
        """Warm-up, then whole and split backwards in turn, then a round of each that counts bytes."""
        found = Timed(self.number, unsplit=self._unsplit())
        for _ in range(max(1, self.rank.task.warmup)):
            self._round(None)
            if found.unsplit is None:
                self._round(None, is_split=True)
        marks: list[tuple[list[int], Any, Any]] = []
        for _ in range(self.rank.task.repeats):
            self._round(_Timer(self.rank.clock, marks, [found.forward, found.whole]))
            if found.unsplit is None:
                self._round(
                    _Timer(self.rank.clock, marks, [found.forward, found.input, found.weight]), is_split=True
                )
        self.rank.clock.finish()
        for samples, start, end in marks:
            samples.append(max(self.rank.clock.read(end) - self.rank.clock.read(start), 1))
        self._measure(found)
        return found

    def _unsplit(self) -> Optional[str]:
        if self.defers:
            return None
        if getattr(self.config, "recompute_granularity", None) is not None:
            return "Megatron's checkpoints cannot be split"
        if getattr(self.config, "gradient_accumulation_fusion", False):
            return "gradient_accumulation_fusion without delay_wgrad_compute cannot be split"
        return None

    def _forward(self) -> Backward:
        """F, as Megatron runs it."""
        state = load("megatron.core.parallel_state")
        virtual = self.place if len(self.rank.models) > 1 else None
        if virtual is not None:
            state.set_virtual_pipeline_model_parallel_rank(virtual)
        taken = None if self.is_first else self.rank.value().requires_grad_()
        output, _ = schedules().forward_step(
            self.rank.given["forward_step_func"],
            self.rank.batch(self.place),
            self.model,
            self.rank.microbatches,
            taken,
            [],
            self.config,
            state.get_context_parallel_world_size(),
            # Weights are cast once a step in narrow formats, not once a microbatch.
            is_first_microbatch=False,
            current_microbatch=0,
            vp_stage=virtual,
            is_last_stage=self.is_last,
        )
        if isinstance(output, (list, tuple)):
            output = output[0]
        if self.is_last and self.config.grad_scale_func is not None:
            output = self.config.grad_scale_func(output)
        return Backward(output, taken)

    def _round(self, seen: Union[_Timer, _Counter, None], is_split: bool = False) -> None:
        """F and the backward of a microbatch; `seen` is called around each pass."""
        around: Callable[[], Any] = seen.around if seen is not None else contextlib.nullcontext
        with around():
            backward = self._forward()
        gradient = None if self.is_last else self.rank.value()
        with around():
            if is_split and not self.defers:
                backward.input(gradient)
            else:
                backward.whole(gradient)
                if not is_split:
                    self._deferred()
        del gradient
        if is_split:
            with around():
                if self.defers:
                    self._deferred()
                else:
                    backward.weight()

    def _deferred(self) -> None:
        """The gradients of weights that Transformer Engine has put off."""
        if self.defers:
            for module in self.model.modules():
                if getattr(module, "need_backward_dw", lambda: False)():
                    module.backward_dw()

    def _measure(self, found: Timed) -> None:
        """Bytes and collectives: of a microbatch in each round, and of the chunk besides."""
        # Megatron's wrappers have a list of that name.
        buffers = list(unwrapped(self.model).buffers())
        parameters = list(self.model.parameters())
        own = [getattr(one, "main_grad", None) for one in parameters]
        gradients = [one.grad if main is None else main for one, main in zip(parameters, own)]
        found.parameters = sum(int(one.numel()) for one in parameters)
        found.weights = bytes_of([*parameters, *buffers])
        found.gradients = bytes_of([one for one in gradients if one is not None])
        known = [*parameters, *buffers, *(one for one in gradients if one is not None)]
        for is_split in (False, True)[: 1 if found.unsplit else 2]:
            counter = _Counter(Watch(self.rank.on_gpu), known)
            with counter.watch.mode:
                self._round(counter, is_split)
            counter.take(found, is_split)


class _Timer:
    """Marks the begin and the end of the passes of a round, each for a list of samples."""

    def __init__(self, clock: Any, marks: list[tuple[list[int], Any, Any]], samples: list[list[int]]) -> None:
        self._clock, self._marks, self._samples = clock, marks, iter(samples)
        clock.begin()

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Around a pass."""
        start = self._clock.mark()
        yield
        self._marks.append((next(self._samples), start, self._clock.mark()))


class _Counter:
    """Counts bytes and collectives of the passes of a round."""

    def __init__(self, watch: Watch, known: list[Any]) -> None:
        self.watch = watch
        for one in known:
            watch.see(one)
        self._before = watch.held()
        #: By pass: bytes held after it, the most within it, and its collectives.
        self._passes: list[tuple[int, int, list[list[Any]]]] = []

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Around a pass."""
        self.watch.peak()
        self.watch.collectives.clear()
        yield
        counted = [[*one, count] for one, count in sorted(self.watch.collectives.items())]
        self._passes.append((self.watch.held() - self._before, self.watch.peak() - self._before, counted))

    def take(self, found: Timed, is_split: bool) -> None:
        """Gives `found` what was counted."""
        held = [one for one, _, _ in self._passes]
        names = ("forward", "input", "weight") if is_split else ("forward", "whole")
        found.until_backward = max(found.until_backward, held[0])
        if is_split:
            found.until_weight = held[1]
        most = [max(held[0], 0), held[0], held[1] if is_split else 0]
        for name, (_, peak, counted), own in zip(names, self._passes, most):
            found.transient[name] = max(found.transient.get(name, 0), peak - own)
            found.collectives[name] = counted


def _optimizer_state(models: list[Any]) -> tuple[dict[str, int], Optional[str]]:
    """Bytes of master weights and of the optimizers' state, which a step of zero gradients makes."""
    torch = load("torch")
    own = {one.untyped_storage()._cdata for model in models for one in model.parameters()}
    sizes = {"master": 0, "moments": 0}
    made = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]
    for optimizer in made:
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        sizes["master"] += bytes_of(one for one in parameters if one.untyped_storage()._cdata not in own)
        try:
            for one in parameters:
                if one.grad is None:
                    one.grad = torch.zeros_like(one)
            optimizer.step()
        except Exception as error:  # Whatever the optimizer of the script breaks down at.
            return sizes, f"{type(error).__name__}: {error}"
        state = [one for of in optimizer.state.values() for one in of.values() if torch.is_tensor(one)]
        sizes["moments"] += bytes_of(state)
    return sizes, None
