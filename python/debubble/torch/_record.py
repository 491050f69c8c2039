"""Recording the steps of a schedule of torch as they run."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Any, Literal, NamedTuple, Optional, Union

from .. import _one_device, _pictures
from .._errors import InputError
from .._profile import Profile
from .._schedule import Schedule
from . import _clocks, _runtime, _timeline
from ._memory import Memory
from ._ranks import Ranks, members_of

#: The names that orders of `debubble.torch.schedule` were asked for under, by attribute of the schedule.
NAME = "debubble_name"


def record(
    schedule: Any,
    *,
    warmup: int = 0,
    clock: Optional[Literal["cpu", "cuda"]] = None,
    timeout: float = 60.0,
    whole_backwards: bool = True,
) -> Recording:
    """Records the training steps that `schedule` runs in a `with` block, on all ranks together.

    Every rank of the pipeline enters and leaves the block; behind it each of them has the whole recording,
    on one clock. Passes run as they would without it: nothing waits for a GPU, whose passes are timed by
    events on its streams, and gradients are the same to the bit. Steps of `eval()` are not recorded.

    A whole backward takes a trainer less than B and then W. So where the order splits backwards, the second
    step and then every eighth runs each backward of the order whole, B and W in one pass: the profile has the
    times, the timeline has none of these steps.

    Args:
        schedule: A schedule of `torch.distributed.pipelining`: of one stage per rank, of several, or one
            that `debubble.torch.schedule` made.
        warmup: How many steps run first without being recorded.
        clock: `"cuda"` times by events, `"cpu"` by the host; else by the device of the stages.
        timeout: Seconds to wait for other ranks at either end of the block.
        whole_backwards: Whether to measure whole backwards where the order splits them.

    Raises:
        InputError: If PyTorch is too old, the clock is not there, or ranks disagree on stages, microbatches,
            the order, or the steps that they ran.
        LostRank: If a rank does not come to either end of the block in time.
    """
    stages = _runtime.stages_in(schedule)
    _runtime.check_recording(schedule)
    if isinstance(warmup, bool) or not isinstance(warmup, int) or warmup < 0:
        raise InputError(f"warmup is {warmup!r}: it is a number of steps", key="warmup")
    if not timeout > 0:
        raise InputError(f"timeout is {timeout!r}: it is a number of seconds above 0", key="timeout")
    clock_of = _clocks.clock_of(stages, clock)
    return Recording(schedule, stages, warmup, clock_of, timeout, whole_backwards=bool(whole_backwards))


class Recording:
    """Steps of a schedule of torch as they ran on all ranks: what `debubble.torch.record` gives.

    It has its content once its `with` block is over.
    """

    def __init__(
        self,
        schedule: Any,
        stages: list[Any],
        warmup: int,
        clock: _clocks.Clock,
        timeout: float,
        *,
        whole_backwards: bool,
    ) -> None:
        self._torch_schedule = schedule
        self._stages = stages
        self._timeout = timeout
        on_gpu = isinstance(clock, _clocks.CudaClock)
        self._probes = whole_backwards and _runtime.splits(schedule)
        self._tape = _Tape(
            schedule, clock, Memory(on_gpu), warmup, sizes_first=not on_gpu, probes=self._probes
        )
        self._open = contextlib.ExitStack()
        self._entered = False
        self._ranks: Optional[Ranks] = None
        self._offsets: list[int] = []
        self._recorded: Optional[_timeline.Recorded] = None

    def __enter__(self) -> Recording:
        if self._entered:
            raise InputError("a recording is made once: ask debubble.torch.record for another")
        self._entered = True
        stage = self._stages[0]
        members = members_of(stage)
        ranks = Ranks(members, members.index(_runtime.torch().distributed.get_rank()), self._timeout)
        try:
            self._agree(ranks)
            self._offsets = ranks.offsets()
        except BaseException:
            ranks.close()
            raise
        self._ranks = ranks
        self._open.enter_context(_runtime.hooked(self._torch_schedule, self._tape.hooks()))
        return self

    def _agree(self, ranks: Ranks) -> None:
        """Refuses to begin where ranks differ in what all of them must share."""
        mine = {
            "microbatches": _runtime.microbatches_of(self._torch_schedule),
            "stages of torch": int(self._stages[0].num_stages),
            "ranks": int(self._stages[0].group_size),
            "orders": _runtime.fingerprint(self._torch_schedule),
            "whole backwards to be measured": self._probes,
        }
        told = ranks.gathered(mine, "begin")
        for what in mine:
            for rank, other in enumerate(told):
                if other[what] != told[0][what]:
                    said = "" if what == "orders" else f": {told[0][what]} and {other[what]}"
                    raise InputError(f"ranks 0 and {rank} of the pipeline disagree on the {what}{said}")

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._open.close()
        ranks, self._ranks = self._ranks, None
        if ranks is None:
            return
        try:
            if kind is None:
                self._gather(ranks)
        finally:
            # Whoever fails leaves at once, so that the others need not wait for the limit.
            ranks.close()

    def _gather(self, ranks: Ranks) -> None:
        part = self._part()
        offsets = ranks.offsets()
        parts = ranks.gathered(part, "end")
        clocks = [_timeline.Offset(*both) for both in zip(self._offsets, offsets)]
        name = getattr(self._torch_schedule, NAME, None) or _class_name(self._torch_schedule)
        self._recorded = _timeline.put_together(name, parts, clocks)

    def _part(self) -> _timeline.Part:
        """What this rank has recorded."""
        stage = self._stages[0]
        return _timeline.Part(
            microbatches=_runtime.microbatches_of(self._torch_schedule),
            chunks=[int(one.stage_index) for one in self._stages],
            pairs=_runtime.pairs_of(self._torch_schedule, int(stage.group_rank)),
            steps=self._tape.read(),
            memory=self._tape.memory.rows(),
            wholes=self._tape.read_wholes(),
            message=self._tape.message,
            about=_one_device.machine(*_runtime.machine(stage.device)),
        )

    @property
    def _whole(self) -> _timeline.Recorded:
        if self._recorded is None:
            raise InputError(
                "nothing is recorded: the `with` block of the recording is not over, or ended with an error"
            )
        return self._recorded

    @property
    def schedule(self) -> Schedule:
        """The order that ran."""
        return self._whole.schedule

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self._whole.document["steps"])

    def timeline(self) -> bytes:
        """The steps as a measured timeline, for `debubble.compare`."""
        return _pictures.lines(_timeline.text(self._whole.document)).encode()

    def to_json(self) -> str:
        """The timeline, and under `recording` the sizes of messages and memory and the machine."""
        return _timeline.text({**self._whole.document, "recording": self._whole.about})

    def profile(self) -> Profile:
        """The times, hops, messages and memory that were measured, for `debubble.search` and `simulate`.

        Raises:
            InputError: If a pass is missing that every profile needs.
        """
        return Profile.of_recording(self.to_json().encode())

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the recording (`.json`), for `debubble compare`, `debubble profile` and
        `debubble.Profile.of_recording`; or the order (`.txt`, `.csv`, `.svg`).
        """
        if os.fsdecode(path).lower().endswith(".json"):
            _pictures.save(path, {".json": lambda: _pictures.lines(self.to_json())})
        else:
            self.schedule.save(path)

    def __repr__(self) -> str:
        if self._recorded is None:
            return "<debubble.torch.Recording of nothing yet>"
        wholes = self._tape.probed
        more = f", and {wholes} with whole backwards" if wholes else ""
        steps = f"{self.steps} steps of {self.schedule!r}{more}"
        return f"<debubble.torch.Recording {self.schedule.name!r}: {steps}>"


class _Pass(NamedTuple):
    """One pass as it was called, with the wait before it; times are marks of the clock."""

    step: _runtime.Step
    asked: Any
    received: Any
    start: Any
    end: Any


#: Of so many steps that are recorded, one more runs before the next with all backwards whole.
_STEPS_PER_PROBE = 8


class _Tape:
    """Notes the passes of one rank while they run."""

    def __init__(
        self,
        schedule: Any,
        clock: _clocks.Clock,
        memory: Memory,
        warmup: int,
        *,
        sizes_first: bool,
        probes: bool,
    ) -> None:
        self.memory = memory
        #: Bytes of one activation that leaves this rank, or 0.
        self.message = 0
        self._schedule = schedule
        self._clock = clock
        self._warmup = warmup
        #: Whether memory is measured while the last step warms up, rather than in the first that is recorded:
        #: looking at what autograd saves takes time, and asking an allocator that is not warm misleads.
        self._sizes_first = sizes_first and warmup > 0
        self._measures = False
        self._local = {int(stage.stage_index) for stage in _runtime.stages_in(schedule)}
        self._steps: list[tuple[list[_Pass], list[Any], Any]] = []
        self._passes: Optional[list[_Pass]] = None
        self._losses: list[Any] = []
        self._wait: tuple[Any, Any] = (None, None)
        self._probes = probes
        #: Whether the step that runs has its backwards whole.
        self._whole = False
        #: Backwards of that step which were split in the order, by chunk and microbatch.
        self._joined: set[tuple[int, int]] = set()
        #: Whole backwards: their chunk, and marks of the clock.
        self._wholes: list[tuple[int, Any, Any]] = []
        #: The steps that ran so.
        self.probed = 0

    def hooks(self) -> _runtime.Hooks:
        """What is called in place of torch's functions."""
        return _runtime.Hooks(
            self._step, self._forward, self._loss, self._backward, self._weight, self._waited
        )

    def _step(self, run: Any, *args: Any, **keywords: Any) -> Any:
        if not _runtime.is_training(self._schedule) or self._passes is not None:
            return run(*args, **keywords)
        warms_up = self._warmup > 0
        if warms_up:
            self._warmup -= 1
            if self._warmup > 0 or not self._sizes_first:
                return run(*args, **keywords)
        if not warms_up and self._is_probe():
            return self._probe(run, *args, **keywords)
        self._passes, self._losses, self._wait = [], [], (None, None)
        # Memory is measured once, so that the other steps are as fast as ever.
        self._measures = warms_up if self._sizes_first else not self._steps
        self._clock.begin()
        try:
            made = run(*args, **keywords)
            if not warms_up:
                self._steps.append((self._passes, self._losses, self._clock.mark()))
        finally:
            self._passes = None
        return made

    def _is_probe(self) -> bool:
        """Whether the next step is to have whole backwards: the second, and then every eighth."""
        return self._probes and len(self._steps) > self.probed * _STEPS_PER_PROBE

    def _probe(self, run: Any, *args: Any, **keywords: Any) -> Any:
        """Runs a step in which each split backward is whole: it is not a step of the order."""
        self._whole, self._joined = True, set()
        self._clock.begin()
        try:
            made = run(*args, **keywords)
        finally:
            self._whole = False
        self.probed += 1
        return made

    def _run_whole(
        self, stage: Any, run: Any, microbatch: int, loss: Any, full: bool, *args: Any, **keywords: Any
    ) -> Any:
        """Runs a backward whole in a step that is run for that."""
        chunk = int(stage.stage_index)
        if not full:
            self._joined.add((chunk, int(microbatch)))
        start = self._clock.mark()
        made = run(microbatch, loss, True, *args, **keywords)
        self._wholes.append((chunk, start, self._clock.mark()))
        return made

    def _waited(self, run: Any, work: Any) -> Any:
        """The last wait before a pass is the one for what it receives."""
        if self._passes is None:
            return run(work)
        asked = self._clock.mark()
        made = run(work)
        self._wait = (asked, self._clock.mark())
        return made

    def _note(self, kind: str, stage: Any, microbatch: int, start: Any) -> None:
        if self._passes is not None:
            step = _runtime.Step(kind, int(stage.stage_index), int(microbatch))
            self._passes.append(_Pass(step, *self._wait, start, self._clock.mark()))
            self._wait = (None, None)

    def _forward(self, stage: Any, run: Any, microbatch: int, *args: Any, **keywords: Any) -> Any:
        if self._passes is None:
            return run(microbatch, *args, **keywords)
        given = [args, keywords]
        measured = self.memory.forward(stage, microbatch, given)
        with measured if self._measures else contextlib.nullcontext():
            start = self._clock.mark()
            made = run(microbatch, *args, **keywords)
            self._note("F", stage, microbatch, start)
        if self._measures:
            self.memory.made(stage, microbatch)
            if not stage.is_last and int(stage.stage_index) + 1 not in self._local:
                self.message = max(self.message, _bytes(made))
        return made

    def _loss(self, run: Any, stage: Any, output: Any, targets: Any, *args: Any, **keywords: Any) -> Any:
        """The loss is part of the forward of the last chunk, which has just run."""
        passes = self._passes
        if not passes or not stage.is_last:
            return run(stage, output, targets, *args, **keywords)
        measured = self.memory.loss(stage, passes[-1].step.microbatch, [targets])
        with measured if self._measures else contextlib.nullcontext():
            made = run(stage, output, targets, *args, **keywords)
            passes[-1] = passes[-1]._replace(end=self._clock.mark())
        loss = _runtime.newest_loss(self._schedule)
        if loss is not None:
            self._losses.append(loss)
        return made

    def _backward(
        self,
        stage: Any,
        run: Any,
        microbatch: int,
        loss: Any = None,
        full_backward: bool = True,
        *args: Any,
        **keywords: Any,
    ) -> Any:
        if self._whole:
            return self._run_whole(stage, run, microbatch, loss, full_backward, *args, **keywords)
        if self._passes is None:
            return run(microbatch, loss, full_backward, *args, **keywords)
        measured = self.memory.backward(stage, microbatch, full_backward)
        with measured if self._measures else contextlib.nullcontext():
            start = self._clock.mark()
            made = run(microbatch, loss, full_backward, *args, **keywords)
            self._note("BW" if full_backward else "B", stage, microbatch, start)
        return made

    def _weight(self, stage: Any, run: Any, microbatch: int, *args: Any, **keywords: Any) -> Any:
        if self._whole and (int(stage.stage_index), int(microbatch)) in self._joined:
            return None
        start = None if self._passes is None else self._clock.mark()
        made = run(microbatch, *args, **keywords)
        self._note("W", stage, microbatch, start)
        return made

    def read(self) -> list[_timeline.Ran]:
        """The steps, with all times in nanoseconds of this host."""
        self._clock.finish()
        read = self._clock.read
        steps: list[_timeline.Ran] = []
        for passes, losses, end in self._steps:
            ran = [
                _timeline.Pass(
                    one.step,
                    None if one.asked is None else read(one.asked),
                    None if one.received is None else read(one.received),
                    read(one.start),
                    read(one.end),
                )
                for one in passes
            ]
            loss = sum(float(one.sum().item()) for one in losses) if losses else None
            steps.append(_timeline.Ran(ran, read(end), loss))
        return steps

    def read_wholes(self) -> dict[int, list[int]]:
        """By chunk, how long whole backwards took in steps that were run for them, in nanoseconds."""
        self._clock.finish()
        read = self._clock.read
        found: dict[int, list[int]] = {}
        for chunk, start, end in self._wholes:
            found.setdefault(chunk, []).append(max(read(end) - read(start), 0))
        return found


def _bytes(output: Any) -> int:
    """Bytes of the tensors of an output."""
    parts = output if isinstance(output, (tuple, list)) else [output]
    return sum(one.numel() * one.element_size() for one in parts if _runtime.torch().is_tensor(one))


def _class_name(schedule: Any) -> str:
    name = type(schedule).__name__
    return "torch" if name.startswith("_") else name.removeprefix("Schedule")
