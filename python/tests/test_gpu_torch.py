"""tests/gpu_torch.py without a GPU: orders on streams of virtual time, and calls of stand-in libraries."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, Optional

import doors
import pytest

PROGRAM = doors.ROOT / "tests/gpu_torch.py"
gpu = doors.module(PROGRAM)


def golden(name: str) -> str:
    """A golden order as torch writes orders."""
    text = (doors.ROOT / f"tests/golden/{name}.txt").read_text(encoding="utf-8")
    kinds = {"F": "F", "B": "I", "W": "W", "BW": "B"}

    def cell(found: re.Match[str]) -> str:
        return f"{found[2]}{kinds[found[1]]}{found[3]}"

    return re.sub(r"(BW|[FBW])(\d+)\.(\d+)", cell, text).replace(" ", ",")


ORDERS = {name: golden(name) for name in ("1f1b", "zb-h1", "1f1b-i", "zb-v", "v-half")}
UNIT = {"F": 1.0, "I": 1.0, "W": 1.0, "B": 2.0}


class Virtual:
    """A device of virtual time. It knows for itself which passes make what a pass takes."""

    name = "virtual time"

    def __init__(
        self,
        order: Any,
        took: Optional[Callable[..., float]] = None,
        strict: bool = True,
        deaf: Optional[int] = None,
        host: float = 0.0,
    ) -> None:
        self.clocks = [0.0] * len(order.rows)
        self.took = took or (lambda one: UNIT[one.kind])
        self.strict, self.deaf, self.host = strict, deaf, host
        self.last, self.now = 0, 0.0
        self.made: dict[tuple[int, str, int], float] = {}

    def launch(self, one: Any) -> None:
        self.now += self.host
        start = max(self.clocks[one.stage], self.now)
        chunk, kind, k = one.chunk, one.kind, one.microbatch
        self.last = max(self.last, chunk)
        takes = {"F": [(chunk - 1, "F", k)], "W": [(chunk, "I", k)]}.get(kind, [(chunk, "F", k)])
        if kind in "IB" and chunk < self.last:
            takes.append((chunk + 1, "I" if (chunk + 1, "I", k) in self.made else "B", k))
        for key in takes:
            if self.strict and key[0] >= 0:
                assert key in self.made, f"{one} takes what {key} has not made"
                assert self.made[key] <= start, f"{one} begins before {key} has ended"
        self.clocks[one.stage] = start + self.took(one)
        self.made[chunk, kind, k] = self.clocks[one.stage]

    def record(self, stage: int) -> float:
        # A stream that is idle comes to an event when the host gives it.
        return max(self.clocks[stage], self.now)

    def wait(self, stage: int, event: float) -> None:
        if stage != self.deaf:
            self.clocks[stage] = max(self.clocks[stage], event)

    def done(self, event: float) -> bool:
        return event < self.now

    def settle(self) -> None:
        self.now = max([self.now, *self.clocks])
        self.clocks = [self.now] * len(self.clocks)
        self.made.clear()

    def since(self, base: float, event: float) -> float:
        return event - base


def run(tmp_path: Path, text: str, *flags: str, **device: Any) -> tuple[int, dict[str, str]]:
    """The exit code of the program for an order, and the row of its table."""
    path, table = tmp_path / "order.csv", tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    code = gpu.main([str(path), "--csv", str(table), *flags], lambda order, _: Virtual(order, **device))
    rows = []
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    return code, rows[0] if rows else {}


@pytest.mark.parametrize(
    ("name", "chunks", "work", "makespan"),
    # In units of F = I = W. The makespans are (m + p - 1) (F + B) of 1F1B, (2m + p - 1) (F + B) with two
    # chunks each, m (F + I + W) + (p - 1) of ZB-H1, and what torch's visualizer draws of a ZB-V.
    [("1f1b", 1, 24, 33), ("1f1b-i", 2, 48, 57), ("zb-h1", 1, 24, 27), ("zb-v", 2, 48, 51)],
)
def test_bubbles_are_those_of_the_closed_form(
    name: str, chunks: int, work: int, makespan: int, tmp_path: Path
) -> None:
    code, row = run(tmp_path, ORDERS[name], "--steps", "3")
    assert code == 0
    assert list(row) == gpu.COLUMNS
    shape = [row[key] for key in ("order", "stages", "chunks", "microbatches", "steps", "device")]
    assert shape == ["order", "4", str(chunks), "8", "3", "virtual time"]
    expected = f"{1 - work / makespan:.6f}"
    assert row["bubble_rate_makespan_measured"] == row["bubble_rate_makespan_replayed"] == expected
    assert row["bubble_rate_measured"] == row["bubble_rate_replayed"]
    assert float(row["difference_points"]) == 0.0
    assert float(row["step_ms"]) == makespan


def test_the_span_of_a_stage_is_that_of_1f1b(tmp_path: Path) -> None:
    """Its first stage works from the first to the last moment, so that span and makespan are one."""
    _, row = run(tmp_path, ORDERS["1f1b"])
    assert row["bubble_rate_measured"] == f"{3 / 11:.6f}"


@pytest.mark.parametrize("name", ORDERS)
def test_uneven_passes_are_replayed_as_they_ran(name: str, tmp_path: Path) -> None:
    for seed in range(5):

        def took(one: Any, seed: int = seed) -> float:
            return random.Random(f"{seed} {one[:3]}").uniform(1, 9)

        code, row = run(tmp_path, ORDERS[name], took=took)
        assert (code, float(row["difference_points"])) == (0, 0.0)
        assert float(row["bubble_rate_measured"]) > 0.05


def test_a_pass_that_takes_longer_once_is_told_from_the_medians(tmp_path: Path) -> None:
    def took(one: Any) -> float:
        return 4.0 if one.microbatch == 3 and one.kind == "F" else UNIT[one.kind]

    _, row = run(tmp_path, ORDERS["zb-h1"], took=took)
    assert float(row["bubble_rate_makespan_replayed"]) == pytest.approx(1 - 24 / 27, abs=1e-6)
    assert float(row["difference_points"]) > 1
    assert row["bubble_rate_by_own_times"] == row["bubble_rate_measured"]


def test_the_step_of_the_median_makespan_is_taken(tmp_path: Path) -> None:
    steps = iter([1.0, 5.0, 2.0, 3.0, 4.0])
    factor = [0.0]

    def took(one: Any) -> float:
        if str(one) == "0F0":
            factor[0] = next(steps)
        return factor[0] * UNIT[one.kind]

    _, row = run(tmp_path, ORDERS["1f1b"], "--warm-up", "1", "--steps", "4", took=took)
    assert float(row["step_ms"]) == 3 * 33


def test_measured_times_need_not_begin_with_the_step() -> None:
    order = gpu.parse("order", "0F0,0B0\n1F0,1B0\n")
    spans = {one: (start + 7, end + 7) for one, (start, end) in replayed(order, UNIT).items()}
    assert gpu.rates(order.rows, spans) == (0.5, 0.5, 6.0)


def replayed(order: Any, times: dict[str, float]) -> Any:
    return gpu.replay(order.rows, order.needs, lambda one: times[one.kind])


@pytest.mark.parametrize(
    "schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2", "1f1b-i --chunks 3", "zb-v", "v-min"]
)
def test_replays_are_those_of_debubble(schedule: str, command: doors.Command) -> None:
    times = ["--forward", "7ms", "--backward-input", "8ms", "--backward-weight", "5ms"]
    asked = ["--schedule", *schedule.split(), "--stages", 4, "--microbatches", 12, *times]
    text = command.stdout("export", "--format", "torch-csv", *asked)
    order = gpu.parse("order", text)
    answer = json.loads(command.stdout("simulate", "--json", *asked))["results"][0]
    # The times are those of a whole stage.
    each = {kind: ms / order.chunks for kind, ms in {"F": 7, "I": 8, "W": 5, "B": 13}.items()}
    ours = gpu.rates(order.rows, replayed(order, each))
    assert ours.by_span == pytest.approx(answer["bubble_rate"], abs=1e-6)
    assert ours.by_makespan == pytest.approx(answer["bubble_rate_makespan"], abs=1e-6)


def test_placements_are_told() -> None:
    found = {name: gpu.parse(name, text).placement for name, text in ORDERS.items()}
    assert found == {"1f1b": "loop", "zb-h1": "loop", "1f1b-i": "loop", "zb-v": "V", "v-half": "V"}
    assert gpu.parse("swapped", "1F0,1B0\n0F0,0B0\n").placement == "other"


def test_files_may_be_written_as_torch_writes_them() -> None:
    text = ORDERS["zb-h1"]
    loose = "\r\n".join(line.replace(",", ", ,") + ",," for line in text.splitlines())
    assert gpu.parse("order", loose) == gpu.parse("order", text)


# What goes wrong is noticed.


def test_passes_that_are_launched_too_early_are_noticed() -> None:
    order = gpu.parse("order", ORDERS["zb-h1"])
    for before, one in (("1F0", "2F0"), ("3I4", "2I4"), ("0I7", "0W7"), ("3F2", "3I2")):
        at = {str(each): place for place, each in enumerate(order.launches)}
        swapped = list(order.launches)
        swapped.insert(at[before], swapped.pop(at[one]))
        rows = [[each for each in swapped if each.stage == stage] for stage in range(4)]
        broken = order._replace(
            rows=rows, launches=swapped, needs={**order.needs, order.launches[at[one]]: []}
        )
        with pytest.raises(AssertionError, match=f"{one} takes what"):
            gpu.run_step(broken, Virtual(order))


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("stage", range(4))
def test_a_wait_that_is_left_out_is_noticed(
    name: str, stage: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def took(one: Any) -> float:
        return random.Random(str(one[:3])).uniform(1, 9)

    with pytest.raises(AssertionError, match="begins before"):
        run(tmp_path, ORDERS[name], deaf=stage, took=took)
    # By the program itself, too, from the times alone.
    code, row = run(tmp_path, ORDERS[name], deaf=stage, strict=False, took=took)
    assert (code, row) == (1, {})
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"gpu_torch: order: \d+[FIB]\d+ begins \d+\.\d{3} ms before \S+ ends, which it needs\n", said
    )


@pytest.mark.parametrize(("host", "late"), [(0.0, False), (0.001, False), (3.0, True)])
def test_a_host_that_falls_behind_is_noticed(
    host: float, late: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(tmp_path, ORDERS["1f1b"], "--steps", "2", host=host)
    found = re.search(r"the host is late for (\d+) of 128 passes", capsys.readouterr().out)
    assert code == 0 and found is not None
    assert (int(found[1]) > 0) == late


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no pass"),
        ("0F0,0B0\n\n", "row 1 has no pass"),
        ("0F0,0B0,0X1\n", "'0X1' in row 0: is not F, I, W or B"),
        ("0F0,0B0,0F1garbage\n", "'0F1garbage' in row 0: is not F, I, W or B"),
        ("\ufeff0F0,0B0\n", "'\\ufeff0F0' in row 0: is not F, I, W or B"),
        ("0F0,1RECV_F0,0B0\n", "'1RECV_F0' in row 0: is not F, I, W or B"),
        ("0F9999999,0B9999999\n", "'0F9999999' in row 0: is not F, I, W or B"),
        ("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "'(0F1;0B0)OVERLAP_F_B' in row 0: pairs are not run"),
        ("0F0,0B0\n0F1,0B1\n", "chunk 0 is in rows 0 and 1"),
        ("0F0,0F0,0B0\n", "0F0 is there twice"),
        ("1F0,1B0\n2F0,2B0\n", "there is no chunk 0, but one behind it"),
        ("0F0,0B0\n999999F0,999999B0\n", "there is no chunk 1, but one behind it"),
        ("0F0,1F0,1B0,0B0\n2F0,2B0\n", "rows have 1 to 2 chunks, not all as many"),
        ("0F0,0B0,0F2,0B2\n", "microbatch 1 of chunk 0 has no pass, not F I W or F B"),
        ("0F0,0I0\n", "microbatch 0 of chunk 0 has F I, not F I W or F B"),
        ("0F0,0I0,0W0,0B0\n", "microbatch 0 of chunk 0 has F I W B, not F I W or F B"),
        ("0B0,0F0\n", "the order waits for ever: stage 0 at 0B0"),
        ("0F0,0W0,0I0\n", "the order waits for ever: stage 0 at 0W0"),
        ("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0\n", ""),
        ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "the order waits for ever: stage 0 at 0B0"),
        (f"0F0,0B0,{'9' * 200_000}\n", "field larger than field limit (131072)"),
    ],
)
def test_malformed_orders_are_refused(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(tmp_path, text)
    said = capsys.readouterr().err
    assert (code, said) == ((2, f"gpu_torch: order: {why}\n") if why else (0, ""))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe0F0")
    (tmp_path / "large.csv").write_bytes(b"0F0," * (gpu.LARGEST // 4) + b"0B0")
    for name, why in (
        ("absent", "No such file"),
        ("binary", "is not text"),
        ("large", "is larger than 16 MiB"),
    ):
        assert gpu.main([str(tmp_path / f"{name}.csv")], Virtual) == 2
        said = capsys.readouterr().err
        assert said.startswith("gpu_torch: ") and why in said and said.count("\n") == 1


def test_a_table_that_cannot_be_written_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = tmp_path / "order.csv"
    order.write_text("0F0,0B0\n", encoding="utf-8")
    assert gpu.main([str(order), "--csv", str(tmp_path)], lambda order, _: Virtual(order)) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "flags",
    [
        ["--timed", "1ms,2ms"],
        ["--timed", "1ms,2ms,0ms"],
        ["--timed", "1,2,3"],
        ["--steps", "0"],
        ["--heads", "3"],
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        gpu.main([str(tmp_path / "order.csv"), *flags])
    assert stopped.value.code == 2
    assert flags[1] in capsys.readouterr().err


def test_times_have_units() -> None:
    found = gpu.timed("18.5ms, 18100us,0.0093s")
    assert found == pytest.approx({"F": 18.5, "I": 18.1, "W": 9.3, "B": 27.4})


# What a machine lacks is said.

TORCH = """
class version:
    cuda = {cuda!r}
class cuda:
    @staticmethod
    def is_available():
        import warnings
        warnings.warn("a driver too old")
        return False
__version__ = "2.11.0"
"""


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"torch/__init__.py": "raise ImportError('no torch\\nhere')"}, "torch cannot be imported: no torch"),
        ({"torch/__init__.py": "raise OSError('libcudart.so')"}, "torch cannot be imported: libcudart.so"),
        ({"torch/notes.txt": ""}, "torch cannot be imported: it is not installed"),
        ({"torch/__init__.py": TORCH.format(cuda=None)}, "torch 2.11.0 is built without CUDA"),
        (
            {"torch/__init__.py": TORCH.format(cuda="12.8"), "cuda/__init__.py": ""},
            "cuda-bindings cannot be imported: No module named 'cuda.bindings'",
        ),
        (
            {
                "torch/__init__.py": TORCH.format(cuda="12.8"),
                **dict.fromkeys(
                    ["cuda/__init__.py", "cuda/bindings/__init__.py", "cuda/bindings/driver.py"], ""
                ),
            },
            "torch finds no GPU, or a driver too old for its CUDA 12.8",
        ),
    ],
)
def test_what_a_machine_lacks_is_a_line(files: dict[str, str], why: str, tmp_path: Path) -> None:
    for name, text in {**files, "order.csv": ORDERS["zb-h1"]}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if "torch/__init__.py" not in files and importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "order.csv")],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpu_torch: {why}\n")


# The calls of torch and of the driver, with stand-ins.


class Driver:
    """A driver whose GPU has so many multiprocessors."""

    CUdevResourceType = types.SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUgreenCtxCreate_flags = types.SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)
    CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    class Error(int):
        name = "CUDA_ERROR_NOT_SUPPORTED"

    def __init__(self, all: int = 132, groups: int = 99, says: Optional[tuple[int, int]] = (8, 8)) -> None:
        self.all, self.groups, self.says = all, groups, says
        self.calls: list[tuple[Any, ...]] = []

    def resource(self, count: int) -> Any:
        sm = types.SimpleNamespace(smCount=count)
        if self.says is not None:
            sm.minSmPartitionSize, sm.smCoscheduledAlignment = self.says
        return types.SimpleNamespace(sm=sm)

    def cuInit(self, flags: int) -> Any:
        return (self.Error(flags),)

    def cuDeviceGet(self, ordinal: int) -> Any:
        return self.Error(0), f"gpu {ordinal}"

    def cuDeviceGetDevResource(self, device: str, type: int) -> Any:
        assert (device, type) == ("gpu 0", 1)
        return self.Error(0), self.resource(self.all)

    def cuDevSmResourceSplitByCount(self, groups: int, whole: Any, flags: int, least: int) -> Any:
        assert (whole.sm.smCount, flags) == (self.all, 0)
        self.calls.append(("split", groups, least))
        count = min(groups, self.groups)
        rest = self.resource(self.all - count * least)
        return self.Error(0), [self.resource(least) for _ in range(groups)], count, rest

    def cuDevResourceGenerateDesc(self, resources: list[Any], count: int) -> Any:
        assert len(resources) == count == 1
        return self.Error(0), resources[0].sm.smCount

    def cuGreenCtxCreate(self, described: int, device: str, flags: int) -> Any:
        assert (device, flags) == ("gpu 0", 1)
        self.calls.append(("context", described))
        return self.Error(0), len(self.calls)

    def cuGreenCtxStreamCreate(self, context: int, flags: int, priority: int) -> Any:
        assert (flags, priority) == (1, 0)
        return self.Error(0), 100 + context


class Stream:
    """A stream that is given what takes virtual time."""

    def __init__(self, raw: int) -> None:
        self.raw, self.clock = raw, 0.0

    def wait_event(self, event: Any) -> None:
        self.clock = max(self.clock, event.at)


class Event:
    """An event of torch."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self, stream: Stream) -> None:
        self.at = stream.clock

    def query(self) -> bool:
        return False

    def elapsed_time(self, other: Event) -> float:
        return other.at - self.at


class Torch:
    """The part of torch that runs passes; a GPU whose cycle is a nanosecond."""

    bfloat16 = "bf16"

    def __init__(self) -> None:
        self.cuda = self
        self.current: Optional[Stream] = None
        self.streams: list[Stream] = []
        self.Event, self.OutOfMemoryError = Event, MemoryError
        self.capturing: Optional[list[float]] = None

    def zeros(self, count: int, device: str) -> None:
        assert (count, device) == (1, "cuda")

    def current_device(self) -> int:
        return 0

    def get_device_name(self) -> str:
        return "GPU"

    def get_device_capability(self) -> tuple[int, int]:
        return self.capability

    capability = (9, 0)

    def ExternalStream(self, raw: int) -> Stream:
        self.streams.append(Stream(raw))
        return self.streams[-1]

    def stream(self, stream: Stream) -> Any:
        torch = self

        class Within:
            def __enter__(self) -> None:
                self.outer, torch.current = torch.current, stream

            def __exit__(self, *_: object) -> None:
                torch.current = self.outer

        return Within()

    def work(self, ms: float) -> None:
        assert self.current is not None, "work is put into a stream of a stage"
        if self.capturing is None:
            self.current.clock += ms
        else:
            self.capturing.append(ms)

    def _sleep(self, cycles: int) -> None:
        self.work(cycles / 1e6)

    def synchronize(self) -> None:
        assert self.capturing is None
        now = max([0.0, *(stream.clock for stream in self.streams)])
        for stream in self.streams:
            stream.clock = now

    def CUDAGraph(self) -> Any:
        graph = types.SimpleNamespace(work=[])
        graph.replay = lambda: self.work(sum(graph.work))
        return graph

    def graph(self, graph: Any, stream: Stream) -> Any:
        torch, within = self, self.stream(stream)

        class Capture:
            def __enter__(self) -> None:
                within.__enter__()
                torch.capturing = graph.work

            def __exit__(self, *_: object) -> None:
                torch.capturing = None
                within.__exit__()

        return Capture()


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand-ins of torch and the driver, which the program takes for theirs."""

    def put(driver: Optional[Any] = None) -> tuple[Torch, Any]:
        both = Torch(), driver or Driver()
        monkeypatch.setattr(gpu, "libraries", lambda: both)
        gpu.cut.cache_clear()
        return both

    yield put
    gpu.cut.cache_clear()


def told(tmp_path: Path, text: str, *flags: str) -> tuple[int, dict[str, str]]:
    """As `run`, on the program's own device."""
    path, table = tmp_path / "order.csv", tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    code = gpu.main([str(path), "--csv", str(table), *flags])
    if not table.exists():
        return code, {}
    with table.open(encoding="utf-8", newline="") as file:
        return code, next(csv.DictReader(file), {})


def test_timed_passes_take_their_times_on_parts_of_the_gpu(tmp_path: Path, libraries: Any) -> None:
    _, driver = libraries()
    code, row = told(tmp_path, ORDERS["zb-h1"], "--timed", "2ms,2ms,2ms")
    assert (code, float(row["step_ms"])) == (0, 54.0)
    assert float(row["bubble_rate_makespan_measured"]) == pytest.approx(1 - 24 / 27, abs=1e-6)
    assert row["device"] == "GPU: 4 parts of 32 multiprocessors, timed"
    assert driver.calls == [("split", 4, 32)] + [("context", 32)] * 4


def test_each_pass_of_each_chunk_is_captured_once(
    tmp_path: Path, libraries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, _ = libraries()
    done: list[str] = []

    class Chunk:
        def __init__(self, given: Any, options: argparse.Namespace, **kind: Any) -> None:
            assert (given, kind) == (torch, {"device": "cuda", "dtype": "bf16"})
            assert options.hidden == 512

        def compute(self, kind: str) -> None:
            done.append(kind + ("*" if torch.capturing is not None else ""))
            torch.work(UNIT[kind])

    monkeypatch.setattr(gpu, "Chunk", Chunk)
    code, row = told(tmp_path, ORDERS["zb-v"], "--hidden", "512")
    assert (code, float(row["step_ms"])) == (0, 51.0)
    assert done == ["F", "I", "W", "F*", "I*", "W*"] * 8
    code, row = told(tmp_path, ORDERS["1f1b"], "--hidden", "512")
    assert (code, float(row["step_ms"])) == (0, 33.0)
    assert done[48:] == ["F", "I", "W", "F*", "B*"] * 4
    kept = gpu.Gpu(gpu.parse("order", ORDERS["zb-v"]), gpu.flags(["-", "--hidden", "512"])).chunks
    assert len(kept) == 8, "weights outlive the capture"


@pytest.mark.parametrize(
    ("driver", "capability", "code", "said"),
    [
        (Driver(108, says=None), (8, 0), 0, ("split", 8, 12)),
        (Driver(108, says=(0, 0)), (8, 0), 0, ("split", 8, 12)),
        (Driver(132, says=None), (9, 0), 0, ("split", 8, 16)),
        (Driver(148, says=(8, 8)), (10, 0), 0, ("split", 8, 16)),
        (Driver(148, says=(2, 2)), (10, 0), 0, ("split", 8, 18)),
        (Driver(30, says=None), (8, 6), 1, "the GPU's 30 multiprocessors cannot be cut into 8 parts of 4"),
        (
            Driver(132, says=(24, 8)),
            (9, 0),
            1,
            "132 multiprocessors cannot be cut into 8 parts of 24 or more",
        ),
        (Driver(132, groups=7), (9, 0), 1, "the GPU is cut into 7 parts of 16 multiprocessors, not 8"),
    ],
)
def test_parts_are_as_large_as_they_may_be(
    driver: Driver,
    capability: tuple[int, int],
    code: int,
    said: Any,
    tmp_path: Path,
    libraries: Any,
    capsys: Any,
) -> None:
    torch, _ = libraries(driver)
    torch.capability = capability
    text = "".join(f"{chunk}F0,{chunk}B0\n" for chunk in range(8))
    assert told(tmp_path, text, "--timed", "1ms,1ms,1ms")[0] == code
    if code == 0:
        assert driver.calls[0] == said
    else:
        line = capsys.readouterr().err
        assert said in line and line.count("\n") == 1


def test_drivers_that_cannot_cut_are_a_line(tmp_path: Path, libraries: Any, capsys: Any) -> None:
    class Old(Driver):
        def cuGreenCtxCreate(self, *_: object) -> Any:
            raise RuntimeError('Function "cuGreenCtxCreate" not found')

    class Unable(Driver):
        def cuDeviceGetDevResource(self, *_: object) -> Any:
            return self.Error(801), None

    class Bindings(Driver):
        @property
        def cuGreenCtxStreamCreate(self) -> Any:
            raise AttributeError

    for driver, why in (
        (Old(), "the driver has no cuGreenCtxCreate: green contexts need one for CUDA 12.5 or newer"),
        (Bindings(), "cuda-bindings has no green contexts: they need that of CUDA 12.5 or newer"),
        (Unable(), "cuDeviceGetDevResource: CUDA_ERROR_NOT_SUPPORTED"),
    ):
        libraries(driver)
        assert told(tmp_path, ORDERS["1f1b"], "--timed", "1ms,1ms,1ms") == (1, {})
        assert capsys.readouterr().err == f"gpu_torch: {why}\n"


def test_too_little_memory_is_a_line(
    tmp_path: Path, libraries: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    libraries()

    def chunk(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(gpu, "Chunk", chunk)
    assert told(tmp_path, ORDERS["1f1b"]) == (1, {})
    assert capsys.readouterr().err == "gpu_torch: order: the GPU has too little memory for these sizes\n"


# What passes compute.


def test_passes_compute_what_autograd_does() -> None:
    torch = pytest.importorskip("torch")
    sizes = ["--hidden", "32", "--heads", "4", "--seq", "8", "--batch", "2", "--layers-per-chunk", "3"]
    torch.manual_seed(1)
    chunk = gpu.Chunk(torch, gpu.flags(["-", *sizes]), dtype=torch.float64)
    leaves = [chunk.input, *(weight for layer in chunk.layers for weight in layer)]
    for leaf in leaves:
        leaf.requires_grad_()
    chunk.input = chunk.input.clone()
    x = chunk.input
    for qkv, out, up, down in chunk.layers:
        q, k, v = (part.view(2, 8, 4, 8).transpose(1, 2) for part in (x @ qkv).split(32, dim=-1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        y = x + mixed.transpose(1, 2).reshape(2, 8, 32) @ out
        x = y + torch.nn.functional.gelu(y @ up) @ down
    expected = torch.autograd.grad(x, leaves, chunk.output_gradient)
    with torch.no_grad():
        chunk.compute("F")
        torch.testing.assert_close(chunk.output, x)
        for again, kinds in enumerate(("IW", "B"), 1):
            for kind in kinds:
                chunk.compute(kind)
            torch.testing.assert_close(chunk.input_gradient, expected[0])
            found = [gradient for layer in chunk.gradients for gradient in layer]
            torch.testing.assert_close(found, [again * one for one in expected[1:]])


def test_passes_do_the_work_that_is_said() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    chunk = gpu.Chunk(torch, gpu.flags(["-", "--hidden", "32", "--heads", "4", "--seq", "8", "--batch", "2"]))
    products, attention = 2 * 8 * 32 * 32, 2 * 8 * 8 * 32
    work = {"F": 24 * products + 4 * attention, "I": 24 * products + 8 * attention, "W": 24 * products}

    def in_place(_: object, one: Any, other: Any, *__: object, **___: object) -> int:
        return 2 * one[0] * one[1] * other[1]

    counted = {torch.ops.aten.addmm_: in_place}
    for kind, expected in {**work, "B": work["I"] + work["W"]}.items():
        with FlopCounterMode(display=False, custom_mapping=counted) as counter:
            chunk.compute(kind)
        assert counter.get_total_flops() == expected
