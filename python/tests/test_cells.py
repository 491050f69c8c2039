"""What a notebook stores of answers: one form of each, small, and the same picture as in a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest

import debubble as db

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
    model={"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32000}, sequence=1024, tokens=1e9, batch=64,
    cluster=[{"machine": "a100-80g", "devices": [8, 16]}],
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
    'db.search(db.Question(stages=8, microbatches=32, **times), memory_limits=["1p", "1.5p", "2p"], effort=0)',
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
    assert "In a notebook" not in "".join(pictures), "typical pictures are whole"


def test_large_answers_say_how_to_draw_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, _, notebook = stored(LARGE, tmp_path, monkeypatch)
    assert max(sizes) <= CELL, sizes
    html = [
        output.data["text/html"] for cell in notebook.cells for output in cell.outputs if "data" in output
    ]
    assert "timelines are drawn: <code>to_svg()</code> draws all" in html[0]
    assert "the first 6 of" in html[1] or "the first 3 of" in html[1]


class Canvas:
    """What is seen of a picture of boxes: a colour for each pixel."""

    def __init__(self, svg: str) -> None:
        wide, tall = map(int, re.search(r'width="(\d+)" height="(\d+)"', svg).groups())  # type: ignore[union-attr]
        self.pixels = numpy.zeros((tall, wide), dtype=numpy.int64)
        self.texts: list[tuple[int, int, str]] = []

    def box(self, left: int, top: int, right: int, bottom: int, colour: str) -> None:
        self.pixels[top:bottom, left:right] = int(colour[1:], 16)


def painted(svg: str) -> Canvas:
    """The boxes and texts of a picture as a file has it."""
    canvas = Canvas(svg)
    for element in re.findall(r'<rect [^>]*fill="#[^>]*>|<text [^>]*>[^<]*', svg):
        x, y = (int(re.search(rf'\b{name}="(-?\d+)"', element)[1]) for name in "xy")  # type: ignore[index]
        if element.startswith("<text"):
            canvas.texts.append((x, y, element.split(">")[1].strip()))
            continue
        wide, tall, colour = re.search(r'width="(\d+)" height="(\d+)".*fill="(#\w+)"', element).groups()  # type: ignore[union-attr]
        canvas.box(x, y, x + int(wide), y + int(tall), colour)
    return canvas


def repainted(html: str) -> Canvas:
    """The same of a picture as a notebook has it."""
    canvas = Canvas(html)
    for element in re.findall(r"<path [^>]*>|<text [^>]*>[^<]*", html):
        if element.startswith("<text"):
            x, y, text = re.match(r"<text x='(-?\d+)' y='(-?\d+)'>(.*)", element).groups()  # type: ignore[union-attr]
            canvas.texts.append((int(x), int(y), text))
            continue
        colour = re.search(r"fill='(#\w+)'", element)
        for box in re.findall(r"M(-?\d+) (-?\d+)h(\d+)v(\d+)h-?\d+z", element):
            left, top, wide, tall = map(int, box)
            assert colour is not None
            canvas.box(left, top, left + wide, top + tall, colour[1])
    return canvas


@pytest.mark.parametrize("name", ["1f1b", "zb-v", "dualpipe-v", "po-h", "1f1b-overlap"])
def test_a_picture_in_a_notebook_is_that_of_the_file(name: str) -> None:
    more: dict[str, Any] = {"backward_input": "3ms", "backward_weight": "2ms", "forward": "2ms"}
    if name == "po-h":
        more.update(chunks=2, offload_time="1ms", activation="1GiB")
    if name == "1f1b-overlap":
        more = {"layers": 16, "chain": ["a=4ms/9ms/2ms", "dispatch=6ms/7ms", "b=4ms/5ms/6ms"]}
    one = db.simulate(
        db.Question(stages=4, microbatches=8, hop="1ms", **more), [name, "gpipe"][: 1 + (name == "1f1b")]
    )
    whole, small = one.to_svg("960px"), one._repr_html_()
    whole_canvas, small_canvas = painted(whole), repainted(small[small.index("<svg") :])
    assert len(small) < len(whole)
    assert (whole_canvas.pixels == small_canvas.pixels).all()
    assert sorted(whole_canvas.texts) == sorted(small_canvas.texts)


def test_a_bound_lies_over_the_passes() -> None:
    found = db.search(
        db.Question(
            stages=4, microbatches=8, forward="3ms", backward_input="2ms", backward_weight="4ms", hop="1ms"
        ),
        memory_limit="1p",
        effort=0,
    )
    whole, small = found.to_svg("960px"), found._repr_html_()
    canvas = repainted(small[small.index("<svg") :])
    assert (painted(whole).pixels == canvas.pixels).all()


def test_pages_are_escaped() -> None:
    q = db.Question(
        stages=2, microbatches=2, forward="1ms", backward="2ms", title="<script>", setting=[{"name": "<b>"}]
    )
    for shown in (q._repr_html_(), db.simulate(q, "1f1b")._repr_html_()):
        assert "<script" not in shown and "<b>" not in shown
    text = db.Certificate("<script>\n" * 3)
    assert "<script" not in text._repr_html_()
    assert repr(text) == "<debubble.Certificate of 3 lines>" and text.splitlines()[0] == "<script>"
