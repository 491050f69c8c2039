"""Profiles of trainers: what their passes took, as they were recorded."""

from __future__ import annotations

import hashlib
import json
import os
from typing import IO, Any, Optional, Union

from . import _ask, _debubble, _frames, _pictures, _values


class Profile:
    """What the passes of a trainer took, chunk by chunk, with its hops, its memory and what its runtime does
    between passes.

    `debubble.simulate`, `search` and `sweep` take it in place of a question: it has the stages and
    microbatches that were recorded. `debubble.Question(profile=profile, ...)` asks for others.
    """

    __slots__ = ("_figures", "_inner")

    _inner: _debubble.Profile
    _figures: dict[str, Any]

    @classmethod
    def _of(cls, inner: _debubble.Profile) -> Profile:
        profile = cls.__new__(cls)
        profile._inner = inner
        profile._figures = json.loads(inner.json())
        return profile

    @classmethod
    def of_recording(cls, source: Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]) -> Profile:
        """The profile of a recorded run: a path, an open file, or its content as bytes.

        Recordings are what `debubble.torch.record` saves, the timelines of `debubble execute`, and logs of
        Megatron-LM with `--timing-log-level 2 --timing-log-option all`, which know F and whole backwards.

        Raises:
            InputError: If it cannot be read, or holds too little.
        """
        return cls._recorded(source)

    @classmethod
    def of_recordings(cls, *sources: Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]) -> Profile:
        """The profile of several recorded runs of one model, cut into the same chunks: each a path, an open
        file, or its content as bytes.

        A run whose backwards are whole and one that splits them together tell what a search needs: the times
        of B, W, and of both in one pass.

        Raises:
            InputError: If one cannot be read or holds too little, or they are of other chunks.
        """
        return cls._recorded(*sources)

    @classmethod
    def _recorded(cls, *sources: Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]) -> Profile:
        """The profile of `sources`, with notes to the caller's caller."""
        paths: list[str] = []
        files: dict[str, bytes] = {}
        for number, source in enumerate(sources):
            name = "recording.json" if len(sources) == 1 else f"recording-{number}.json"
            path, held = _values.content(source, name)
            paths.append(path)
            files.update(held or {})
        inner = _debubble.Profile.recorded(paths, files or None)
        _ask.note(inner.warnings, 3)
        return cls._of(inner)

    @classmethod
    def from_file(cls, source: Union[str, os.PathLike[str], IO[str], IO[bytes], bytes]) -> Profile:
        """The profile in a file that `save` wrote: a path, an open file, or its content as bytes.

        Raises:
            InputError: If it cannot be read or understood, with the line.
        """
        path, files = _values.content(source, "profile.toml")
        return cls._of(_debubble.Profile.read(path, files))

    @property
    def schedule(self) -> str:
        """The name of the schedule that ran."""
        return str(self._figures["schedule"])

    @property
    def stages(self) -> int:
        """Stages of the pipeline that ran."""
        return int(self._figures["stages"])

    @property
    def placement(self) -> str:
        """Where its chunks lay: `"looped"`, `"v"` or `"mirrored"`."""
        return str(self._figures["placement"])

    @property
    def microbatches(self) -> int:
        """Microbatches of its steps."""
        return int(self._figures["microbatches"])

    @property
    def chunks(self) -> _frames.Table:
        """Means in seconds and activations in bytes, a row for each chunk; `None` where there is none."""
        return _frames.Table(self._figures["chunks"])

    @property
    def hop(self) -> Optional[float]:
        """Seconds from the end of a pass to the arrival of its value elsewhere, where a stage ever waited."""
        hop: Optional[float] = self._figures["hop_seconds"]
        return hop

    @property
    def overhead(self) -> Optional[float]:
        """Seconds by which passes begin later than they could, on average."""
        overhead: Optional[float] = self._figures["overhead_seconds"]
        return overhead

    def to_toml(self) -> str:
        """The content of a file that `--profile` and `from_file` read, with all samples."""
        return self._inner.toml()

    def to_json(self) -> str:
        """The means as JSON."""
        return self._inner.json()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the file that `--profile` and `from_file` read (`.toml`), or the means (`.json`)."""
        _pictures.save(path, {".toml": self.to_toml, ".json": lambda: _pictures.lines(self.to_json())})

    def _file(self) -> tuple[str, bytes]:
        """A name of its own, and its content."""
        content = self.to_toml().encode()
        return f"profile-{hashlib.sha256(content).hexdigest()[:16]}.toml", content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self.to_toml() == other.to_toml()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        return self._inner.table().rstrip("\n")

    def _repr_html_(self) -> str:
        return self._inner.table_html()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.to_toml(),)


def _again(text: str) -> Profile:
    return Profile.from_file(text.encode())
