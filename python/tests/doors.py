"""The other doors of debubble: the command line, and a program in Rust.

The environment variable `DEBUBBLE` is the path of the command line; unless it is set, what `cargo build` has
left is taken.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import pytest

#: The folder with the sources.
ROOT = Path(__file__).resolve().parents[2]


class Command:
    """A program and how to call it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(
        self, *words: object, cwd: Optional[Path] = None, stdin: Optional[str] = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the program with `words`, whatever comes of it."""
        environment = {**os.environ, "RUST_BACKTRACE": "0"}
        return subprocess.run(
            [str(self.path), *map(str, words)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            cwd=cwd or ROOT,
            env=environment,
            timeout=600,
        )

    def stdout(self, *words: object, cwd: Optional[Path] = None, stdin: Optional[str] = None) -> str:
        """The output of the program, which must succeed."""
        done = self.run(*words, cwd=cwd, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


def module(path: Path) -> Any:
    """The program at `path` as a module, called as its file is."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None and found.loader is not None
    made = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = made
    found.loader.exec_module(made)
    return made


def _built() -> Path:
    return Path(os.environ.get("DEBUBBLE") or ROOT / "target/debug/debubble")


def command() -> Command:
    """The command line."""
    if not _built().exists():
        pytest.skip(f"the command line has not been built: there is no {_built()}")
    return Command(_built())


def example() -> Command:
    """The example `answer_questions`."""
    built = _built().parent / "examples" / "answer_questions"
    if not built.exists():
        pytest.skip(f"the example has not been built: there is no {built}")
    return Command(built)


def refusal(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The error that the command line has printed as JSON."""
    assert done.returncode == 2, (done.returncode, done.stdout[:400], done.stderr)
    error: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])["error"]
    return error


def notes(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command line has printed besides its answer."""
    lines = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    return [line["note"] for line in lines if "note" in line]


def same(text: str) -> str:
    """A document of JSON with every key and number as it stands, in one form."""
    return json.dumps(json.loads(text, parse_float=_Digits, parse_int=_Digits), default=str)


class _Digits:
    """A number as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return f"number {self.text}"


def flat(text: str) -> str:
    """`text` with single spaces, as wrapped lines are compared."""
    return re.sub(r"\s+", " ", text).strip()
