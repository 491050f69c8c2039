"""Advice for a run: what to change first, from its script and its log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Optional, Union

from . import _ask, _debubble, _frames, _pictures, _values
from ._documents import Source
from ._errors import InputError
from ._frames import Figures
from ._kept import Answer, Kept


def advise(
    *sources: Source,
    machine: Optional[str] = None,
    devices: Optional[int] = None,
    vocabulary: Optional[int] = None,
    variables: Optional[Mapping[str, object]] = None,
    progress: _ask.Progress = None,
    **keys: NoReturn,
) -> Advice:
    """Says what to change first of a run, from its launch script, its log or a question with `setup`.

    Steady iterations of the log calibrate the machine. Then every part of the set-up that changes without
    other hardware is tried.

    Args:
        *sources: Scripts, logs and question files: one has the set-up, any may have iterations.
        machine: The machine of the run: one that is built in, or a file.
        devices: The devices of the run, if the launch does not say them.
        vocabulary: The size of the vocabulary, if neither the script nor its tokenizer says it.
        variables: Values of variables of the script, over its own.
        progress: See `debubble.Progress`.
        **keys: None: files have the question.

    Raises:
        InputError: If a file cannot be read, none has a set-up, or its set-up cannot be run.
        Interrupted: After a Ctrl-C, with the changes that had been tried.

    >>> import debubble as db
    >>> script = (
    ...     b"torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 16 --hidden-size 2048 "
    ...     b"--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    ...     b"--vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16 "
    ...     b"--pipeline-model-parallel-size 4 --recompute-activations --train-iters 100"
    ... )
    >>> advice = db.advise(script, machine="a100-80g")
    >>> advice.first.gain > 0, len(advice.changes) > 1
    (True, True)
    """
    _values.refuse("advise", keys)
    if not sources:
        raise InputError("there is no file to read: name a script or a log")
    paths: list[str] = []
    files: dict[str, bytes] = {}
    for number, source in enumerate(sources, 1):
        path, content = _values.content(source, f"run-{number}")
        paths.append(path)
        files.update(content or {})
    own = {name: str(value) for name, value in (variables or {}).items()}
    with _ask.watching(progress) as report:
        inner = _debubble.advise(paths, machine, devices, vocabulary, own, files, report)
    _ask.note(inner.warnings)
    return _ask.whole(Advice(inner), inner.interrupted)


#: What a pickle holds of advice.
_FIELDS = ("warnings", "interrupted")
_CALLS = (("json",), ("table",))


class Advice(Answer):
    """The changes of a run, the largest gain first.

    `changes` are all, `first` is the one to make first, `calibration` says how far the prediction is from the
    measured step, and `export` writes the changed arguments of the script.
    """

    _list = "changes"

    @property
    def notes(self) -> list[str]:
        """Assumptions and facts of the files."""
        return list(self.to_dict()["notes"])

    @property
    def changes(self) -> _frames.Table:
        """The best change of each part of the set-up: `area`, `change`, `step_ns`, `gain` (a share of the
        step), `error` (of 95 % of published pairs of such set-ups), `certainty`, `memory_bytes`,
        `device_bytes`, `framework` and `risk`.
        """
        return self.rows

    @property
    def first(self) -> Optional[Figures]:
        """The change to make first; `None` if no gain is likely to be more than predictions are off."""
        likely = (change for change in self.changes if change.certainty != "not-resolved")
        return next(likely, None)

    @property
    def current(self) -> Figures:
        """The set-up of the run, with every part of its step and its memory."""
        return Figures(self.to_dict()["current"])

    @property
    def calibration(self) -> Optional[Figures]:
        """The measured step in seconds, and the step predicted `blind` and `calibrated`.

        `None` without a log.
        """
        calibration = self.to_dict()["calibration"]
        return None if calibration is None else Figures(calibration)

    def to_svg(self, width: Optional[str] = None) -> str:
        """The gains as SVG; `width` as in `Answers.front_svg`."""
        return str(self._inner.svg(*_pictures.wide(width)))

    def export(self, folder: Union[str, os.PathLike[str]], change: Optional[int] = None) -> list[str]:
        """Writes the files of a change into `folder`, which is made if its parent is there.

        They are the changed arguments of the script as a difference, the question, the calibrated machine,
        and the configurations of trainers. Gives the names of the files.

        Args:
            folder: Where to write.
            change: The place of the change in `changes`, from 0; by default that of `first`.

        Raises:
            ValueError: If the advice was unpickled and `change` is given: ask its question again.
            InputError: If there is no such change.
        """
        into = Path(folder)
        if isinstance(self._inner, Kept) and change is not None:
            raise ValueError("unpickled advice has the files of `first` alone: ask its question again")
        files, notes = self._inner.export() if change is None else self._inner.export(change)
        into.mkdir(exist_ok=True)
        _ask.note(notes)
        for name, content in files:
            (into / name).write_text(content, encoding="utf-8")
        return [name for name, _ in files]

    def save(self, path: Union[str, os.PathLike[str]], *, width: Optional[str] = None) -> None:
        """Writes the advice (`.json`), its tables (`.txt`), or the gains as a picture (`.svg`)."""
        forms = {
            ".json": lambda: _pictures.lines(self.to_json()),
            ".txt": lambda: str(self._inner.table()),
            ".svg": lambda: self.to_svg(width),
        }
        _pictures.save(path, forms)

    def _repr_html_(self) -> str:
        pictures = {"": self.to_svg()} if len(self.changes) else {}
        return _pictures.few(pictures, _pictures.plain(str(self._inner.table())))

    def _kept(self) -> Kept:
        # Without a change there is nothing to draw, and without a likely one nothing to write.
        drawn = (("svg",),) if len(self.changes) else ()
        written = (("export",),) if self.first is not None else ()
        return Kept.of(self._inner, _FIELDS, (*_CALLS, *drawn, *written))

    def __reduce__(self) -> tuple[Any, ...]:
        return Advice, (self._kept(),)
