"""The notebooks under `examples/`: they run, their assertions hold, and they keep no output of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import debubble as db

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = ["figure-9", "schedule-for-a-profile", "price-a-cluster"]


def cells(name: str) -> list[dict[str, Any]]:
    loaded = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = loaded["cells"]
    return found


def test_every_notebook_is_tried() -> None:
    assert sorted(NOTEBOOKS) == sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_keeps_no_output(name: str) -> None:
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert sum("assert" in "".join(cell["source"]) for cell in code) >= 3


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_between_notebooks_lead_somewhere(name: str) -> None:
    for cell in cells(name):
        text = "".join(cell["source"])
        for target in (part.split(")")[0] for part in text.split("](")[1:]):
            assert target.startswith("https://") or (EXAMPLES / target).is_file(), target


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="there is no nbclient here")
    pytest.importorskip("ipykernel", reason="there is no ipykernel here")
    pytest.importorskip("pandas", reason="there is no pandas here")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(Path(db.__file__).absolute().parents[1]))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = [output["text"] for output in outputs if output.get("name") == "stderr"]
    # On a slow machine some searches take long enough for a progress bar, which begins its line anew.
    assert not [text for text in said if text.strip() and "\r" not in text], "notes or warnings"
    shown = [
        output["data"] for output in outputs if output["output_type"] in ("execute_result", "display_data")
    ]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert sum("<table" in page or "<pre" in page for page in pages) >= 3
    # Boxes of a colour are one path.
    assert any("<svg " in page and len(re.findall(r"<circle|M\d+ \d+h", page)) > 5 for page in pages)
