"""What a pickle holds of an answer: the texts that its compiled part gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
        given = {_call(name, args): getattr(inner, name)(*args) for name, *args in calls}
        return cls({name: getattr(inner, name) for name in fields}, given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._fields:
            return self._fields[name]
        return lambda *args: self._given(name, list(args))

    def _given(self, name: str, args: list[Any]) -> Any:
        try:
            return self._calls[_call(name, args)]
        except KeyError:
            message = "a copy of this answer has its pictures in their own width alone"
            cure = "ask for the width before the answer is pickled or copied"
            raise InputError(f"{message}\n  help: {cure}", message=message) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self._fields, self._calls)


def _call(name: str, args: list[Any]) -> str:
    return f"{name}{args}"
