"""What the READMEs show of Python is so."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(readme: str) -> list[tuple[str, str]]:
    """The Python of a README, each with what it is said to print."""
    return BLOCK.findall((ROOT / readme).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("readme", "count"), [("README.md", 1), ("python/README.md", 6)])
def test_the_examples_of_a_readme_run_and_print_what_is_shown(
    readme: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas", reason="there is no pandas here")
    monkeypatch.chdir(tmp_path)
    found = blocks(readme)
    assert len(found) == count
    names: dict[str, object] = {"__name__": "readme"}
    for code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, readme, "exec"), names)
        assert printed.getvalue() == shown
