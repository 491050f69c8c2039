"""What answers have of their compiled part, and what a pickle holds of it: the texts that it gives."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from . import _frames
from ._errors import InputError


class Kept:
    """Texts in the place of the compiled part that gave them: it answers the same calls."""

    def __init__(self, fields: dict[str, Any], calls: dict[str, Any]) -> None:
        self._fields = fields
        self._calls = calls

    @classmethod
    def of(cls, inner: Any, fields: Iterable[str], calls: Iterable[tuple[Any, ...]]) -> Kept:
        """The `fields` of `inner`, and what it gives to `calls`, each a method and its arguments."""
        if isinstance(inner, cls):
            return inner
        given = {_call(name, args): _asked(inner, name, args) for name, *args in calls}
        return cls({name: getattr(inner, name) for name in fields}, given)

    def written(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"fields": self._fields, "calls": {name: _written(one) for name, one in self._calls.items()}}

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Kept:
        """What was written."""
        return cls(dict(written["fields"]), {name: _read(one) for name, one in written["calls"].items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._fields:
            return self._fields[name]
        return lambda *args: self._given(name, list(args))

    def _given(self, name: str, args: list[Any]) -> Any:
        try:
            given = self._calls[_call(name, args)]
        except KeyError:
            message = "a copy of this answer has its pictures in their own width alone"
            cure = "ask for the width before the answer is pickled or copied"
            raise InputError(f"{message}\n  help: {cure}", message=message) from None
        if isinstance(given, InputError):
            raise InputError._again(*given._parts())
        return given

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self._fields, self._calls)


#: The most characters of a text that is written as it is.
_PLAIN = 8192


def _written(value: Any) -> Any:
    """A value for JSON: bytes as text, and long texts, such as pictures, packed."""
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    if isinstance(value, InputError):
        return {"refused": value._parts()}
    if isinstance(value, str) and len(value) > _PLAIN:
        return {"packed": base64.b64encode(zlib.compress(value.encode())).decode()}
    return value


def _read(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    if "bytes" in written:
        return written["bytes"].encode()
    if "refused" in written:
        return InputError._again(*written["refused"])
    return zlib.decompress(base64.b64decode(written["packed"])).decode()


def _asked(inner: Any, name: str, args: list[Any]) -> Any:
    """What `inner` gives to a call: the refusal, where it refuses."""
    try:
        return getattr(inner, name)(*args)
    except InputError as refusal:
        return refusal


def _call(name: str, args: list[Any]) -> str:
    return f"{name}{args}"


class Compiled(_frames.Tabular):
    """An answer whose texts are given by its compiled part, or by what a copy holds of that."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def to_json(self) -> str:
        """All of it as JSON, as the command line prints it with `--json`."""
        return str(self._inner.json())

    def __repr__(self) -> str:
        return str(self._inner.table()).rstrip("\n")


class Answer(Compiled):
    """The same, with its answer in a sentence and what was warned of."""

    @property
    def headline(self) -> str:
        """The answer in a sentence; a line for each setting where there are a few, and nothing of a list."""
        return str(self.to_dict().get("headline", ""))

    @property
    def warnings(self) -> list[str]:
        """What was warned of, such as keys that had no influence."""
        return list(self._inner.warnings)
