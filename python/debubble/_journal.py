"""Journals of lists of questions: what has been answered, in a file that survives being killed at any moment.

A line says what wrote the journal, then each answer has a line with the digest of its question. A last line
without an end was being written when the process died: it is cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Set
from pathlib import Path
from typing import IO, Any, Optional, Union

from . import _debubble
from ._errors import InputError

#: The form of the lines; a journal of another one is refused.
_FORM = 1


class Journal:
    """A journal that is open for more, by this process alone.

    Attributes:
        known: The answers that it has of the questions that were asked, by their digest.
        notes: What its reader should know.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.known: dict[str, Any] = {}
        self.notes: list[str] = []

    def add(self, digest: str, kept: bytes) -> None:
        """Adds what is `kept` of an answer, an object of JSON, unless it is there."""
        if digest not in self.known:
            self._file.write(f'{{"question": "{digest}", '.encode() + kept[1:] + b"\n")
            self._file.flush()
            self.known[digest] = None

    def _read(self, path: Path, kind: str, digests: Set[str]) -> None:
        """Takes in what there is, if it is of such questions."""
        head = _head(kind)
        first = self._file.readline()
        if not first.endswith(b"\n"):
            if not head.startswith(first):
                raise _refused(f"{path} is not a journal of debubble", "name a file that is not there yet")
            self._file.seek(0)
            self._file.truncate()
            self._file.write(head)
            self._file.flush()
            return
        if first != head:
            raise _of_another(path, kind, first)
        others = 0
        end = self._file.tell()
        for number, line in enumerate(self._file, 2):
            if not line.endswith(b"\n"):
                break
            end += len(line)
            try:
                read = json.loads(line)
                digest, answer = read["question"], read["answer"]
            except (ValueError, KeyError, TypeError):
                self.notes.append(
                    f"{path}, line {number}: no answer can be read, so its question is answered again"
                )
                continue
            if digest in digests:
                self.known[digest] = answer
            else:
                others += 1
        if others and digests and not self.known:
            message = f"the answers in {path} are of other questions, or of other keys"
            raise _refused(message, "remove it, name another file, or ask what was asked before")
        self._file.seek(end)
        self._file.truncate()


@contextlib.contextmanager
def opened(
    path: Union[str, os.PathLike[str], None], kind: str, digests: Set[str]
) -> Iterator[Optional[Journal]]:
    """The journal at `path` of questions of a `kind` with such `digests`; `None` without a path.

    Raises:
        InputError: If it is of others, or another process writes it.
    """
    if path is None:
        yield None
        return
    name = Path(path)
    with name.open("a+b") as file:
        _lock(file, name)
        file.seek(0)
        journal = Journal(file)
        journal._read(name, kind, digests)
        yield journal


def _lock(file: IO[bytes], path: Path) -> None:
    """Keeps other processes off, where the system and the disk can."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _refused(
            f"{path} is being written", "wait for the other process, or name another file"
        ) from None
    except OSError:
        return


def _head(kind: str) -> bytes:
    version = _debubble.__version__
    return json.dumps({"journal": f"debubble {kind}", "form": _FORM, "version": version}).encode() + b"\n"


def _of_another(path: Path, kind: str, first: bytes) -> InputError:
    """Why a journal that begins with the line `first` is refused."""
    try:
        found = json.loads(first)
        name, version = str(found["journal"]), str(found["version"])
    except (ValueError, KeyError, TypeError):
        return _refused(f"{path} is not a journal of debubble", "name a file that is not there yet")
    message = f"{path} is a journal of {name} {version}, not of debubble {kind} {_debubble.__version__}"
    return _refused(message, "remove it, or name another file")


def _refused(message: str, cure: str) -> InputError:
    return InputError.with_help(message, cure, "resume")
