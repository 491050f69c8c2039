"""What a notebook stores of answers: one form of each, small, and the same picture as in a file."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy
import pytest

import debubble as db
from debubble import _pictures

pytestmark = pytest.mark.filterwarnings("ignore::debubble.Note")

#: The most bytes of the output of a cell, and of a notebook of typical cells, as files store them.
CELL, NOTEBOOK = 100_000, 400_000

CELLS = [
    """
import debubble as db
q = db.Question(
    stages=8, microbatches=24, hop="527us",
    forward="29.718ms", backward_input="29.444ms", backward_weight="19.927ms",
    hidden=4096, heads=32, seq=1024, layers_per_stage=4, microbatch_size=3, memory_limit="32GiB",
)
q
""",
    'answers = db.simulate(q, ["1f1b", "zb-h1", "zb-h2", "zb-v"])\nanswers',
    "answers.best()",
    "answers.best().timeline",
    "answers.best().why()",
    "answers.to_pandas()",
    'best = db.search(q, chunks=2, placement="v", memory_limit="0.75p")\nbest',
    "best.certificate",
    'db.sweep(q, {"memory_limit": db.steps("1p", "3p", "0.125p")}, ["zb-heuristic", "zb-v"])',
    """
db.plan(
    model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000}, sequence=1024, tokens=1e9,
    batch=64, cluster=[{"machine": "a100-80g", "devices": [8, 16]}],
)
""",
    'db.compare(answers["1f1b"], db.simulate(q, "1f1b", hop="2ms")["1f1b"])',
]

#: Larger than most.
LARGE = [
    """
import debubble as db
times = dict(forward="3ms", backward_input="3ms", backward_weight="2ms")
db.simulate(db.Question(stages=64, microbatches=512, **times), ["1f1b", "zb-h1", "zb-v"])
""",
    'db.simulate(db.Question(stages=8, microbatches=64, **times), "all")',
    'db.simulate(db.Question(stages=16, microbatches=2000, **times), "zb-v")[0]',
    'db.simulate(db.Question(stages=16, microbatches=128, **times), "zb-v")[0].order',
    'db.search(db.Question(stages=8, microbatches=32, **times), memory_limits=["1p", "2p"], effort=0)',
    "db.schedules()",
    'db.reproduce("table5")',
]


def stored(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int, Any]:
    """The bytes that a file has of the outputs of each cell, and of all; and the notebook."""
    nbclient = pytest.importorskip("nbclient", reason="there is no nbclient here")
    pytest.importorskip("ipykernel", reason="there is no ipykernel here")
    pytest.importorskip("pandas", reason="there is no pandas here")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(Path(db.__file__).absolute().parents[1]))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    file = folder / "cells.ipynb"
    nbformat.write(notebook, file)
    loaded = json.loads(file.read_text(encoding="utf-8"))
    sizes = [len(json.dumps(cell["outputs"], indent=1).encode()) for cell in loaded["cells"]]
    return sizes, file.stat().st_size, notebook


def test_a_notebook_of_typical_cells_is_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, whole, notebook = stored(CELLS, tmp_path, monkeypatch)
    assert len(sizes) == 11 and max(sizes) <= CELL, sizes
    assert whole <= NOTEBOOK, whole
    shown = [output.data for cell in notebook.cells for output in cell.outputs if "data" in output]
    assert len(shown) == 11
    for data in shown:
        assert set(data) == {"text/plain", "text/html"}, "one form beside the text"
    pictures = [data["text/html"] for data in shown if "<svg " in data["text/html"]]
    assert len(pictures) >= 5
    assert "<image" not in "".join(pictures) and "<p>" not in "".join(pictures), "typical ones are whole"


def test_large_answers_say_how_to_draw_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, _, notebook = stored(LARGE, tmp_path, monkeypatch)
    assert max(sizes) <= CELL, sizes
    outputs = [output for cell in notebook.cells for output in cell.outputs if "data" in output]
    pages = [output.data["text/html"] for output in outputs]
    assert all("<svg " in page for page in pages[:5])
    assert ["passes are pixels" in page.lower() for page in pages[:5]] == [True, True, True, True, False]
    assert "The first 6 of" in pages[1] and "<code>to_svg()</code> draws shapes, and all" in pages[1]


class Canvas:
    """What is seen of a picture of boxes: a colour for each pixel."""

    def __init__(self, svg: str) -> None:
        wide, tall = map(int, re.findall(r'(?:width|height)="(\d+)"', svg)[:2])
        self.pixels = numpy.zeros((tall, wide), dtype=numpy.int64)
        self.texts: list[tuple[int, int, str]] = []

    def box(self, left: int, top: int, right: int, bottom: int, colour: str) -> None:
        self.pixels[top:bottom, left:right] = int(colour[1:], 16)

    def corners(self, points: str, colour: str) -> None:
        """A shape of boxes side by side, each of whose corners is given."""
        every = [int(one) for one in re.findall(r"-?\d+", points)]
        for at in range(0, len(every), 8):
            self.box(every[at], every[at + 3], every[at + 4], every[at + 1], colour)

    def image(self, element: str) -> None:
        """Lays a PNG of a palette over what is there."""
        left, top, wide, tall = (int(value(element, one)) for one in ("x", "y", "width", "height"))
        data, at, chunks = base64.b64decode(element.split("base64,")[1].split("'")[0]), 8, {}
        while at < len(data):
            (length,) = struct.unpack(">I", data[at : at + 4])
            body = data[at + 4 : at + 8 + length]
            assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(body),)
            chunks[body[:4]] = body[4:]
            at += 12 + length
        assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (wide, tall)
        lines = numpy.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=numpy.uint8)
        rows = lines.reshape(tall, wide + 1)[:, 1:]
        red, green, blue = numpy.frombuffer(chunks[b"PLTE"], dtype=numpy.uint8).reshape(-1, 3).astype(int).T
        colours = (red << 16) | (green << 8) | blue
        under = self.pixels[top : top + tall, left : left + wide]
        under[rows > 0] = colours[rows[rows > 0]]


def value(element: str, name: str) -> str:
    found = re.search(rf"\b{name}=[\"']([^\"']*)[\"']", element)
    assert found is not None, element
    return found[1]


def painted(svg: str) -> Canvas:
    """The boxes and texts of a picture, as a file or a notebook has it."""
    canvas = Canvas(svg)
    for element in re.findall(r"<(?:rect|polygon|path|image|text) [^>]*>[^<]*", svg):
        kind = element.split()[0]
        if kind == "<text":
            place = int(value(element, "x")), int(value(element, "y"))
            canvas.texts.append((*place, element.split(">")[1].strip()))
        elif kind == "<image":
            canvas.image(element)
        elif (colour := value(element, "fill")) == "none":
            continue
        elif kind == "<polygon":
            canvas.corners(value(element, "points"), colour)
        elif kind == "<path":
            for box in re.findall(r"M(-?\d+) (-?\d+)h(\d+)v(\d+)h-?\d+z", value(element, "d")):
                left, top, wide, tall = map(int, box)
                canvas.box(left, top, left + wide, top + tall, colour)
        else:
            left, top, wide, tall = (int(value(element, one)) for one in ("x", "y", "width", "height"))
            canvas.box(left, top, left + wide, top + tall, colour)
    return canvas


def same(svg: str, other: str) -> bool:
    theirs, ours = painted(svg), painted(other)
    return bool((theirs.pixels == ours.pixels).all()) and sorted(theirs.texts) == sorted(ours.texts)


@pytest.mark.parametrize("as_pixels", [False, True])
@pytest.mark.parametrize("shape", [(4, 8), (16, 48), (4, 800)])
@pytest.mark.parametrize("name", ["1f1b", "zb-v", "dualpipe-v", "po-h", "1f1b-overlap"])
def test_a_picture_in_a_notebook_is_that_of_the_file(
    name: str, shape: tuple[int, int], as_pixels: bool
) -> None:
    more: dict[str, Any] = {"backward_input": "3ms", "backward_weight": "2ms", "forward": "2ms"}
    if name == "po-h":
        more.update(chunks=2, offload_time="1ms", activation="1GiB")
    if name == "1f1b-overlap":
        more = {"layers": 16, "chain": ["a=4ms/9ms/2ms", "dispatch=6ms/7ms", "b=4ms/5ms/6ms"]}
    q = db.Question(stages=shape[0], microbatches=shape[1], hop="1ms", **more)
    whole = db.simulate(q, [name, "gpipe"] if name == "1f1b" else name).to_svg("960px")
    small = _pictures.fitted(whole, as_pixels=as_pixels)
    assert len(small) < len(whole)
    assert as_pixels or "<image" not in small
    # Few boxes take fewer bytes than their pixels.
    assert ("<image" in small) == as_pixels or shape[1] < 40 or name == "1f1b-overlap"
    assert same(whole, small)


def test_a_bound_lies_over_the_passes() -> None:
    times = {"forward": "3ms", "backward_input": "2ms", "backward_weight": "4ms", "hop": "1ms"}
    found = db.search(db.Question(stages=4, microbatches=8, **times), memory_limit="1p", effort=0)  # type: ignore[arg-type]
    whole = found.to_svg("960px")
    assert painted(whole).pixels.max() > 0
    assert same(whole, found._repr_html_())


def test_pages_are_escaped() -> None:
    q = db.Question(
        stages=2, microbatches=2, forward="1ms", backward="2ms", title="<script>", setting=[{"name": "<b>"}]
    )
    for shown in (q._repr_html_(), db.simulate(q, "1f1b")._repr_html_()):
        assert "<script" not in shown and "<b>" not in shown
    text = db.Certificate("<script>\n" * 3)
    assert "<script" not in text._repr_html_()
    assert repr(text) == "<debubble.Certificate of 3 lines>" and text.splitlines()[0] == "<script>"
