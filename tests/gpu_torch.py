"""The bubble of exported orders on one NVIDIA GPU, measured with torch and cuda-bindings alone.

debubble export --format torch-csv --schedule zb-h1 --stages 4 --microbatches 8 \
  --forward 1ms --backward-input 1ms --backward-weight 1ms > zb-h1.csv
python tests/gpu_torch.py zb-h1.csv [ORDER.csv ..] [--csv OUT.csv] [--timed 18.5ms,18.1ms,9.3ms]

A second witness: of debubble it has the order and nothing else. Each stage has an equal part of the GPU and
a stream on it. Each pass is a CUDA graph of the matrix products of a transformer layer, or only takes time,
and waits for the events of the passes whose values it takes. What is measured stands beside two replays of
the same order, with the medians of the measured passes and with the time that each pass took. Passes take
less time while few stages are busy, so the first differs where stages slow each other, the second only for
order and waits. Needs torch 2.8 or newer for CUDA and a driver for CUDA 12.5 or newer. Exit codes: 1 for
what this machine cannot run, 2 for what no machine can.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import io
import os
import re
import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Optional, Protocol

COLUMNS = [
    *("order", "stages", "chunks", "microbatches", "steps"),
    *("bubble_rate_measured", "bubble_rate_replayed", "difference_points"),
    # Replayed with the time of each pass in the step that counts: order and hand-over alone.
    "bubble_rate_by_own_times",
    *("bubble_rate_makespan_measured", "bubble_rate_makespan_replayed", "step_ms", "device"),
]
CELL = re.compile(r"([0-9]{1,6})([FIWB])([0-9]{1,6})")
# Bytes of an order that are read: a hundred times those of 64 stages with 512 microbatches.
LARGEST = 1 << 24
# How early a pass may seem to begin, in ms: events tell half a microsecond.
RESOLUTION = 0.01


class Failure(Exception):
    """Why nothing is measured, in a line."""

    code = 1


class Refused(Failure):
    """What is wrong with an order or a file."""

    code = 2


class Pass(NamedTuple):
    """A cell of an order: F, I (the input gradients), W (the weight gradients), or B, which is both."""

    stage: int
    chunk: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.chunk}{self.kind}{self.microbatch}"


Rows = list[list[Pass]]
Needs = dict[Pass, list[Pass]]
Spans = dict[Pass, tuple[float, float]]
# Stage, chunk and kind: passes of one take equally long.
Key = tuple[int, int, str]
Times = dict[Key, float]


class Order(NamedTuple):
    """An order that can be run: by stage, and as it is launched."""

    name: str
    rows: Rows
    chunks: int
    placement: str
    microbatches: int
    needs: Needs
    launches: list[Pass]


# What an order is, and when its passes run.


def read(path: Path) -> Order:
    """The order in the file at `path`."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Refused(f"{path}: is larger than {LARGEST >> 20} MiB")
        return parse(path.stem, data.decode())
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{path}: is not text") from None


def parse(name: str, text: str) -> Order:
    """The order called `name` that is written as `text`, once nothing of it is missing or waits for ever."""

    def refuse(why: str) -> NoReturn:
        raise Refused(f"{name}: {why}")

    def cell(stage: int, word: str) -> Pass:
        found = CELL.fullmatch(word)
        if found is None:
            why = "pairs are not run" if word.endswith("OVERLAP_F_B") else "is not F, I, W or B"
            refuse(f"{word[:40]!r} in row {stage}: {why}")
        return Pass(stage, int(found[1]), found[2], int(found[3]))

    try:
        table = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        refuse(str(error))
    rows = [[cell(stage, word.strip()) for word in row if word.strip()] for stage, row in enumerate(table)]
    if not rows or [] in rows:
        refuse(f"row {rows.index([])} has no pass" if rows else "there is no pass")
    passes = [one for row in rows for one in row]
    cells = {(one.chunk, one.kind, one.microbatch): one for one in passes}
    homes: dict[int, int] = {}
    for one in passes:
        if homes.setdefault(one.chunk, one.stage) != one.stage:
            refuse(f"chunk {one.chunk} is in rows {homes[one.chunk]} and {one.stage}")
        if cells[one.chunk, one.kind, one.microbatch] is not one:
            refuse(f"{one} is there twice")
    for chunk in range(len(homes)):
        if chunk not in homes:
            refuse(f"there is no chunk {chunk}, but one behind it")
    counts = Counter(homes.values()).values()
    if min(counts) < max(counts):
        refuse(f"rows have {min(counts)} to {max(counts)} chunks, not all as many")
    microbatches = 1 + max(one.microbatch for one in passes)
    for chunk, microbatch in ((c, k) for c in range(len(homes)) for k in range(microbatches)):
        kinds = "".join(kind for kind in "FIWB" if (chunk, kind, microbatch) in cells)
        if kinds not in ("FIW", "FB"):
            have = " ".join(kinds) or "no pass"
            refuse(f"microbatch {microbatch} of chunk {chunk} has {have}, not F I W or F B")

    def made(chunk: int, kinds: str, microbatch: int) -> list[Pass]:
        return [cells[key] for kind in kinds if (key := (chunk, kind, microbatch)) in cells]

    needs: Needs = {}
    for one in passes:
        if one.kind == "F":
            needs[one] = made(one.chunk - 1, "F", one.microbatch)
        elif one.kind == "W":
            needs[one] = made(one.chunk, "I", one.microbatch)
        else:
            needs[one] = made(one.chunk, "F", one.microbatch) + made(one.chunk + 1, "IB", one.microbatch)
    # Launched by the time they would begin, so that no stage runs dry while the host is busy with another.
    spans = replay(rows, needs, lambda one: 2.0 if one.kind == "B" else 1.0)
    for stage, row in enumerate(rows):
        if row[-1] not in spans:
            stuck = next(one for one in row if one not in spans)
            refuse(f"the order waits for ever: stage {stage} at {stuck}")
    launches = sorted(passes, key=lambda one: (spans[one][0], one.stage))
    return Order(name, rows, max(counts), placement(homes, len(rows)), microbatches, needs, launches)


def placement(homes: dict[int, int], stages: int) -> str:
    """How chunks lie on `stages` stages: in a loop, to and fro in a V, or otherwise."""
    if all(stage == chunk % stages for chunk, stage in homes.items()):
        return "loop"
    turns = ((chunk // stages % 2, chunk % stages, stage) for chunk, stage in homes.items())
    return "V" if all(stage == (stages - 1 - at if back else at) for back, at, stage in turns) else "other"


def replay(rows: Rows, needs: Needs, time: Callable[[Pass], float]) -> Spans:
    """When passes that take `time` run, as early as they can; without those that would wait for ever."""
    spans: Spans = {}
    clocks, heads = [0.0] * len(rows), [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for stage, row in enumerate(rows):
            while heads[stage] < len(row) and all(other in spans for other in needs[row[heads[stage]]]):
                one = row[heads[stage]]
                start = max([clocks[stage], *(spans[other][1] for other in needs[one])])
                clocks[stage] = start + time(one)
                spans[one] = start, clocks[stage]
                heads[stage] += 1
                moved = True
    return spans


class Rates(NamedTuple):
    """Bubble rates by the longest span of a stage and by the makespan, and the makespan."""

    by_span: float
    by_makespan: float
    makespan: float


def rates(rows: Rows, spans: Spans) -> Rates:
    """How much of a step is bubble: the share of it in which the average stage does nothing."""
    busy = sum(end - start for start, end in spans.values())
    span = max(spans[row[-1]][1] - spans[row[0]][0] for row in rows)
    makespan = max(end for _, end in spans.values()) - min(start for start, _ in spans.values())
    by_span, by_makespan = (1 - busy / (len(rows) * whole) for whole in (span, makespan))
    return Rates(by_span, by_makespan, makespan)


# How an order is run, on whatever has streams and events.


class Device(Protocol):
    """A stream for each stage."""

    name: str

    # Puts a pass into the stream of its stage.
    def launch(self, one: Pass) -> None: ...

    # An event behind all that the stream of `stage` has been given.
    def record(self, stage: int) -> Any: ...

    # Lets what the stream of `stage` is given from now on wait for `event`.
    def wait(self, stage: int, event: Any) -> None: ...

    # Whether its stream has come to `event`.
    def done(self, event: Any) -> bool: ...

    # Waits for all streams.
    def settle(self) -> None: ...

    # The time from one event to another, of any streams, in ms.
    def since(self, base: Any, event: Any) -> float: ...


def run_step(order: Order, device: Device) -> tuple[Spans, int]:
    """When the passes of a step run, and how many of them the host launches too late."""
    previous = {one: before for row in order.rows for before, one in zip(row, row[1:])}
    starts: dict[Pass, Any] = {}
    ends: dict[Pass, Any] = {}
    late = 0
    base = device.record(0)
    for one in order.launches:
        needs = order.needs[one]
        for other in needs:
            if other.stage != one.stage:
                device.wait(one.stage, ends[other])
        before = [*needs, previous[one]] if one in previous else needs
        late += bool(before) and all(device.done(ends[other]) for other in before)
        starts[one] = device.record(one.stage)
        device.launch(one)
        ends[one] = device.record(one.stage)
    device.settle()
    spans = {one: (device.since(base, starts[one]), device.since(base, ends[one])) for one in order.launches}
    for one, (start, _) in spans.items():
        for other in order.needs[one]:
            early = spans[other][1] - start
            if early > RESOLUTION:
                why = f"begins {early:.3f} ms before {other} ends, which it needs"
                raise Failure(f"{order.name}: {one} {why}")
    return spans, late


def witness(order: Order, device: Device, warm_up: int, steps: int) -> list[Any]:
    """Runs `order` and prints what is measured beside what is replayed: the row of the table."""
    for _ in range(warm_up):
        run_step(order, device)
    ran = [run_step(order, device) for _ in range(steps)]
    took: dict[Key, list[float]] = {}
    for spans, _ in ran:
        for one, (start, end) in spans.items():
            took.setdefault(one[:3], []).append(end - start)
    # Of the step with the median makespan, as `debubble execute` takes it.
    in_time = sorted(ran, key=lambda step: rates(order.rows, step[0]).makespan)
    middle = in_time[(steps - 1) // 2][0]
    measured = rates(order.rows, middle)
    times = {key: statistics.median_low(all) for key, all in took.items()}
    replayed = rates(order.rows, replay(order.rows, order.needs, lambda one: times[one[:3]]))
    own = replay(order.rows, order.needs, lambda one: middle[one][1] - middle[one][0])
    by_own_times = rates(order.rows, own).by_span
    late, launched = sum(late for _, late in ran), steps * len(order.launches)
    print(f"{order.name}: {len(order.rows)} stages, chunks {order.chunks} ({order.placement}), ", end="")
    print(f"{order.microbatches} microbatches, {steps} steps on {device.name}")
    for what in ("by_span", "by_makespan"):
        one, other = getattr(measured, what), getattr(replayed, what)
        print(f"  bubble rate {what.replace('_', ' '):<11}  measured {one:7.2%}  ", end="")
        print(f"replayed {other:7.2%}  {100 * (one - other):+.2f} points")
    print(f"  with the time of each pass in that step, replayed {by_own_times:.2%} by span")
    print(f"  median step {measured.makespan:.3f} ms; the host is late for {late} of {launched} passes")
    shape = [order.name, len(order.rows), order.chunks, order.microbatches, steps]
    by_span = [f"{measured.by_span:.6f}", f"{replayed.by_span:.6f}"]
    points = f"{100 * (measured.by_span - replayed.by_span):.4f}"
    by_makespan = [f"{measured.by_makespan:.6f}", f"{replayed.by_makespan:.6f}"]
    own_times = f"{by_own_times:.6f}"
    return [*shape, *by_span, points, own_times, *by_makespan, f"{measured.makespan:.3f}", device.name]


# What a pass computes.


class Chunk:
    """Transformer layers, attention and MLP with residuals, without norms, mask and dropout.

    All microbatches share one set of tensors, so values are those of whichever came last; that takes as long.
    Neighbours hand on events, no values.
    """

    def __init__(self, torch: Any, options: argparse.Namespace, **kind: Any) -> None:
        hidden = options.hidden
        shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]
        self.torch, self.heads = torch, options.heads
        self.layers = [
            [torch.randn(shape, **kind) / shape[0] ** 0.5 for shape in shapes]
            for _ in range(options.layers_per_chunk)
        ]
        self.gradients = [[torch.zeros(shape, **kind) for shape in shapes] for _ in self.layers]
        self.input, self.output_gradient = torch.randn((2, options.batch, options.seq, hidden), **kind)

    def compute(self, kind: str) -> None:
        """One pass; B is I and W."""
        if kind == "F":
            self.forward()
        if kind in "IB":
            self.input_gradients()
        if kind in "WB":
            self.weight_gradients()

    def forward(self) -> None:
        """F: 24 b s h^2 + 4 b s^2 h floating-point operations a layer."""
        self.kept: list[Any] = []
        x, gelu = self.input, self.torch.nn.functional.gelu
        for qkv, out, up, down in self.layers:
            batch, seq, hidden = x.shape
            parts = (x @ qkv).view(batch, seq, 3, self.heads, hidden // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            q = q * (hidden // self.heads) ** -0.5
            shares = (q @ k.mT).softmax(-1)
            mixed = (shares @ v).transpose(1, 2).reshape(x.shape)
            y = x + mixed @ out
            wide = y @ up
            active = gelu(wide)
            self.kept.append((q, k, v, shares, wide, (x, mixed, y, active)))
            x = y + active @ down
        self.output = x

    def input_gradients(self) -> None:
        """I: 24 b s h^2 + 8 b s^2 h operations a layer."""
        aten, dz = self.torch.ops.aten, self.output_gradient
        self.factors: list[Any] = []
        for (qkv, out, up, down), (q, k, v, shares, wide, _) in zip(self.layers[::-1], self.kept[::-1]):
            dwide = aten.gelu_backward(dz @ down.T, wide)
            dy = dz + dwide @ up.T
            dmixed = (dy @ out.T).view(*dz.shape[:2], self.heads, -1).transpose(1, 2)
            dscores = aten._softmax_backward_data(dmixed @ v.mT, shares, -1, shares.dtype)
            dq = (dscores @ k) * q.shape[-1] ** -0.5
            parts = self.torch.stack((dq, dscores.mT @ q, shares.mT @ dmixed))
            dqkv = parts.permute(1, 3, 0, 2, 4).reshape(*dz.shape[:2], -1)
            self.factors.append((dqkv, dy, dwide, dz))
            dz = dy + dqkv @ qkv.T
        self.input_gradient = dz

    def weight_gradients(self) -> None:
        """W: 24 b s h^2 operations a layer, added to the gradients there are."""
        for gradients, kept, factors in zip(self.gradients, self.kept, self.factors[::-1]):
            for gradient, taken, given in zip(gradients, kept[-1], factors):
                gradient.addmm_(taken.flatten(0, 1).T, given.flatten(0, 1))


# One GPU in parts.


def imported(module: str, package: str) -> Any:
    """The module of that name."""
    try:
        found = importlib.import_module(module)
    except (ImportError, OSError, RuntimeError) as error:
        raise Failure(f"{package} cannot be imported: {str(error).partition(chr(10))[0]}") from None
    # A folder of that name beside a program is found where there is no such package.
    if found.__file__ is None:
        raise Failure(f"{package} cannot be imported: it is not installed")
    return found


def libraries() -> tuple[Any, Any]:
    """Torch with a GPU, and the driver's functions."""
    # Streams that share one of the 8 queues there are without this wait for each other.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    torch = imported("torch", "torch")
    if torch.version.cuda is None:
        raise Failure(f"torch {torch.__version__} is built without CUDA")
    driver = imported("cuda.bindings.driver", "cuda-bindings")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not torch.cuda.is_available():
            raise Failure(f"torch finds no GPU, or a driver too old for its CUDA {torch.version.cuda}")
    return torch, driver


def call(driver: Any, name: str, *arguments: Any) -> Any:
    """What the driver's function `name` returns behind its error."""
    try:
        error, *results = getattr(driver, name)(*arguments)
    except RuntimeError:
        raise Failure(f"the driver has no {name}: green contexts need one for CUDA 12.5 or newer") from None
    if int(error) != 0:
        raise Failure(f"{name}: {error.name}")
    return results if len(results) > 1 else results[0] if results else None


def share(all: int, parts: int, least: int, alignment: int) -> int:
    """Multiprocessors of each of equal parts of `all`."""
    each = all // parts // alignment * alignment
    if each < least:
        raise Failure(f"the GPU's {all} multiprocessors cannot be cut into {parts} parts of {least} or more")
    return each


@functools.cache
def cut(parts: int) -> tuple[list[Any], int]:
    """A stream on each of as many equal parts of the first GPU, and the multiprocessors of a part.

    Parts live as long as the program: torch keeps workspaces for their streams.
    """
    torch, driver = libraries()
    if not hasattr(driver, "cuGreenCtxStreamCreate"):
        raise Failure("cuda-bindings has no green contexts: they need that of CUDA 12.5 or newer")
    torch.zeros(1, device="cuda")  # The primary context is there, whose memory and events the parts share.
    call(driver, "cuInit", 0)
    gpu = call(driver, "cuDeviceGet", torch.cuda.current_device())
    all = call(driver, "cuDeviceGetDevResource", gpu, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
    # Drivers and bindings before CUDA 13 do not say what parts are multiples of.
    least, alignment = {7: (2, 2), 8: (4, 2)}.get(torch.cuda.get_device_capability()[0], (8, 8))
    least = getattr(all.sm, "minSmPartitionSize", 0) or least
    alignment = getattr(all.sm, "smCoscheduledAlignment", 0) or alignment
    each = share(all.sm.smCount, parts, least, alignment)
    groups, count, _ = call(driver, "cuDevSmResourceSplitByCount", parts, all, 0, each)
    if count < parts:
        raise Failure(f"the GPU is cut into {count} parts of {each} multiprocessors, not {parts}")
    streams = []
    for group in groups[:parts]:
        described = call(driver, "cuDevResourceGenerateDesc", [group], 1)
        flags = int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
        context = call(driver, "cuGreenCtxCreate", described, gpu, flags)
        flags = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        raw = call(driver, "cuGreenCtxStreamCreate", context, flags, 0)
        streams.append(torch.cuda.ExternalStream(int(raw)))
    return streams, groups[0].sm.smCount


class Gpu:
    """The stages of an order on equal parts of the first GPU."""

    def __init__(self, order: Order, options: argparse.Namespace) -> None:
        self.torch, _ = libraries()
        self.streams, each = cut(len(order.rows))
        gpu = self.torch.cuda.get_device_name()
        self.name = f"{gpu}: {len(order.rows)} parts of {each} multiprocessors"
        keys = sorted({one[:3] for one in order.launches})
        if options.timed:
            self.name += ", timed"
            self.work = self._timed(keys, options.timed)
            return
        try:
            self.work = self._captured(keys, options)
        except self.torch.cuda.OutOfMemoryError:
            raise Failure(f"{order.name}: the GPU has too little memory for these sizes") from None

    def _timed(self, keys: list[Key], times: dict[str, float]) -> dict[Key, Callable[[], Any]]:
        """Passes that take `times`, on a multiprocessor that counts its cycles."""
        sleep, cycles, rates = self.torch.cuda._sleep, 50_000_000, []
        with self.torch.cuda.stream(self.streams[0]):
            for _ in range(5):
                begin, _, end = self.record(0), sleep(cycles), self.record(0)
                self.settle()
                rates.append(cycles / self.since(begin, end))
        rate = statistics.median(rates)
        return {key: functools.partial(sleep, max(1, round(rate * times[key[2]]))) for key in keys}

    def _captured(self, keys: list[Key], options: Any) -> dict[Key, Callable[[], Any]]:
        """A CUDA graph for each pass of each chunk, whose kernels stay on the part they are captured on."""
        torch, work = self.torch, {}
        # Graphs hold what is allocated while they are captured, not the weights.
        self.chunks: list[Chunk] = []
        for stage, chunk in sorted({key[:2] for key in keys}):
            layers = Chunk(torch, options, device="cuda", dtype=torch.bfloat16)
            self.chunks.append(layers)
            torch.cuda.synchronize()
            # What libraries allocate at first is not captured.
            with torch.cuda.stream(self.streams[stage]):
                for kind in "FIW":
                    layers.compute(kind)
            torch.cuda.synchronize()
            # W is captured last, for it reads what I has left.
            for kind in [kind for kind in "FBIW" if (stage, chunk, kind) in keys]:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.streams[stage]):
                    layers.compute(kind)
                work[stage, chunk, kind] = graph.replay
        return work

    def launch(self, one: Pass) -> None:
        """Replays the graph of a pass, or sleeps."""
        with self.torch.cuda.stream(self.streams[one.stage]):
            self.work[one[:3]]()

    def record(self, stage: int) -> Any:
        """An event with a time."""
        # It belongs to the primary context, as do green contexts, so any stream may wait for it.
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(self.streams[stage])
        return event

    def wait(self, stage: int, event: Any) -> None:
        """Lets a stream wait."""
        self.streams[stage].wait_event(event)

    def done(self, event: Any) -> bool:
        """Asks the driver."""
        return bool(event.query())

    def settle(self) -> None:
        """Waits for the GPU."""
        self.torch.cuda.synchronize()

    def since(self, base: Any, event: Any) -> float:
        """By the GPU's clock, which all streams share: parts are of one primary context."""
        return float(base.elapsed_time(event))


# The command line.


def timed(text: str) -> dict[str, float]:
    """Times of F, I and W, as in 18.5ms,18.1ms,9.3ms: ms by kind of pass."""
    units = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    found = [re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s)", part.strip()) for part in text.split(",")]
    times = [float(one[1]) * units[one[2]] for one in found if one is not None]
    if len(found) != 3 or len(times) != 3 or not all(0 < time <= 60_000 for time in times):
        raise argparse.ArgumentTypeError(f"{text!r} is not three times up to 60s, as in 18.5ms,18.1ms,9.3ms")
    return {**dict(zip("FIW", times)), "B": times[1] + times[2]}


def number(text: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if not re.fullmatch("[0-9]{1,6}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to 999999")
    return int(text)


def flags(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    """What is asked."""
    parser = argparse.ArgumentParser(prog="gpu_torch.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("orders", nargs="+", type=Path, metavar="ORDER.csv", help="what debubble exports")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table, a row per order")
    parser.add_argument(
        "--timed", type=timed, metavar="F,I,W", help="let passes take these times, and no more"
    )
    numbers = {"hidden": 2048, "heads": 16, "seq": 1024, "batch": 2, "layers-per-chunk": 1}
    numbers.update({"warm-up": 2, "steps": 5})
    for name, default in numbers.items():
        kind = functools.partial(number, least=0 if name == "warm-up" else 1)
        parser.add_argument(
            f"--{name}", type=kind, default=default, metavar="N", help=f"[default: {default}]"
        )
    options = parser.parse_args(arguments)
    if options.hidden % options.heads:
        parser.error(f"--hidden {options.hidden} is not a multiple of --heads {options.heads}")
    return options


def save(path: Optional[Path], rows: list[list[Any]]) -> None:
    """Writes the table anew, if one is asked for."""
    try:
        if path is not None:
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def main(
    arguments: Optional[Sequence[str]] = None, device: Callable[[Order, argparse.Namespace], Device] = Gpu
) -> int:
    """Runs all orders, each on a device of its own: the exit code."""
    options = flags(arguments)
    try:
        orders = [read(path) for path in options.orders]
        rows: list[list[Any]] = []
        save(options.csv, rows)
        for order in orders:
            rows.append(witness(order, device(order, options), options.warm_up, options.steps))
            # What has been measured outlives whatever stops the next.
            save(options.csv, rows)
    except Failure as failure:
        print(f"gpu_torch: {failure}", file=sys.stderr)
        return failure.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
