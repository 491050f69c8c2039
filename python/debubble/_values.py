"""Keywords of Python as the keys of questions, by the schema of the question."""

from __future__ import annotations

import datetime
import difflib
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Generic, Optional, TypeVar, Union, overload

from . import _debubble
from ._errors import InputError

_T = TypeVar("_T")

#: A definition in a schema whose plain numbers have a unit in Python.
_TIME = "#/definitions/Time"
_SIZES = ("#/definitions/Size", "#/definitions/MemoryLimit")

_Node = Mapping[str, Any]

#: The questions by the function that takes their keys.
_HOMES = {
    "scenario": "debubble.Question",
    "search": "debubble.search",
    "plan": "debubble.plan",
    "replay": "debubble.replay",
    "fsdp": "debubble.fsdp",
    "rl": "debubble.rl",
    "encoder": "debubble.encoder",
    "failures": "debubble.failures",
    "reproduce": "debubble.reproduce",
}


class Key(Generic[_T]):
    """The value of a key as an attribute; `None` where it is not given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, question: None, owner: type) -> Key[_T]: ...
    @overload
    def __get__(self, question: object, owner: type) -> Optional[_T]: ...
    def __get__(self, question: Optional[object], owner: type) -> Union[Key[_T], _T, None]:
        if question is None:
            return self
        keyed: Any = question
        value: Optional[_T] = keyed.get(self._name)
        return value


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """The JSON schema of the questions called `name`."""
    loaded: dict[str, Any] = json.loads(_debubble.schema(name))
    return loaded


@functools.cache
def names(name: str) -> frozenset[str]:
    """The keys of the questions called `name`, as keywords."""
    return frozenset(key.replace("-", "_") for key in schema(name)["properties"])


@functools.cache
def quantities() -> Mapping[str, bool]:
    """The keys of questions that are times or sizes, as keywords; and whether each is a memory limit."""
    root = schema("scenario")
    reader = _Reader(root)
    kinds = {key: reader.kinds(node) for key, node in root["properties"].items()}
    return {
        key.replace("-", "_"): _SIZES[1] in kind for key, kind in kinds.items() if kind & {_TIME, *_SIZES}
    }


def parted(keys: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of a search, or of dead workers, among `keys`, and those of its question; one that neither
    has goes where the nearest is.
    """
    asked = names("scenario")
    known = asked | names("search") | names("failures")

    def is_asked(key: str) -> bool:
        near = [] if key in known else difflib.get_close_matches(key, sorted(known), 1)
        return (near or [key])[0] in asked

    own = {key: value for key, value in keys.items() if not is_asked(key)}
    return own, {key: value for key, value in keys.items() if key not in own}


def refuse(function: str, keys: Mapping[str, Any]) -> None:
    """Refuses `keys` of a `function` of the package that takes none.

    Raises:
        InputError: With the function that takes the key.
    """
    for key in keys:
        raise _misplaced(key, f"`debubble.{function}` has no key `{key}`")


def _misplaced(key: str, message: str) -> InputError:
    homes = [home for name, home in _HOMES.items() if key in names(name)]
    if homes:
        return InputError.with_help(message, f"`{key}` is a key of `{'`, `'.join(homes)}`", key)
    return InputError(message, message=message, key=key)


def document(name: str, keywords: Mapping[str, Any]) -> str:
    """The keywords of a question called `name` as JSON with the keys of files."""
    root = schema(name)
    for key, value in keywords.items():
        elsewhere = any(key in names(home) for home in _HOMES)
        if value is not None and elsewhere and key not in names(name):
            raise _misplaced(key, f"there is no key `{key}` here")
    return _written(lambda: _Reader(root).table(keywords, root))


def pairs(name: str, path: Iterable[str], keywords: Mapping[str, Any]) -> str:
    """The table at `path` of a question called `name` as JSON of pairs, in the order given."""
    root = node = schema(name)
    reader = _Reader(root)
    for key in path:
        node = reader.resolved(node).get("properties", {}).get(key, {})
    return _written(lambda: list(reader.table(keywords, node).items()))


#: How deep tables and lists may lie in each other: more than any question does.
_DEPTH = 24


def _written(read: Callable[[], Any]) -> str:
    """What `read` gives as JSON, unless it is nested without end."""
    try:
        found = read()
        if _is_deeper(found, _DEPTH):
            raise RecursionError
        return json.dumps(found)
    except RecursionError:
        message = f"values are nested more than {_DEPTH} deep"
        raise InputError(message, message=message) from None


def _is_deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return depth == 0 or any(_is_deeper(one, depth - 1) for one in inner)


class _Reader:
    """Reads values by the definitions of a schema."""

    def __init__(self, root: _Node) -> None:
        self.root = root

    def table(self, keywords: Mapping[str, Any], node: _Node) -> dict[str, Any]:
        """A table: keys with underscores become those of files; what is `None` is not given."""
        properties = self.resolved(node).get("properties", {})
        read = {}
        for name, value in keywords.items():
            if value is None:
                continue
            name = str(name)
            key = name.replace("_", "-") if name not in properties else name
            read[key] = self.value(value, properties.get(key, {}), key)
        return read

    def resolved(self, node: _Node) -> _Node:
        """The definition that `node` stands for."""
        while "$ref" in node:
            found: Any = self.root
            for part in node["$ref"].lstrip("#/").split("/"):
                found = found[part]
            node = found
        if "properties" not in node:
            for one in (*node.get("allOf", ()), *node.get("anyOf", ())):
                inner = self.resolved(one)
                if "properties" in inner:
                    return inner
        return node

    def value(self, value: Any, node: _Node, key: str) -> Any:
        """One value of the key `key`, whose definition is `node`."""
        if isinstance(value, (bool, str)):
            return value
        if isinstance(value, Mapping):
            return self.range(value, node) if _is_range(value) else self.table(value, node)
        if isinstance(value, datetime.timedelta):
            return _of_timedelta(value)
        if isinstance(value, os.PathLike):
            return os.fsdecode(value)
        if isinstance(value, (int, float)):
            return self.number(value, node)
        if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return self.value(_of_numpy(value), node, key)
        if hasattr(value, "tolist") and not isinstance(value, memoryview):
            # Times of numpy keep their unit one by one only.
            is_time = getattr(getattr(value, "dtype", None), "kind", None) == "m"
            value = list(value) if is_time else value.tolist()
        # Bytes are not numbers, and a set has no order.
        if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview, Set)):
            item = self.item(node)
            return [self.value(one, item, key) for one in value]
        message = f"{key}: no key takes a value of the type `{type(value).__name__}`"
        cure = 'give text such as "29.7ms", a number, a timedelta, a path, or a list of those'
        raise InputError.with_help(message, cure, key)

    def range(self, value: Mapping[str, Any], node: _Node) -> dict[str, Any]:
        """The range of an axis: its numbers are those of the key, but for a factor."""
        return {
            name: one if name == "factor" else self.value(one, self.item(node), name)
            for name, one in value.items()
        }

    def number(self, value: float, node: _Node) -> Any:
        """A plain number: of a time seconds, of a size bytes."""
        kinds = self.kinds(node)
        if _TIME in kinds:
            return _seconds(value)
        if isinstance(value, int) and any(size in kinds for size in _SIZES):
            return f"{value}B"
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            # JSON has no such numbers: the key says what is wrong with the text.
            return str(value)
        return value

    def kinds(self, node: _Node) -> set[str]:
        """The definitions that `node` or its items may have."""
        found = {node["$ref"]} if "$ref" in node else set()
        for one in (*node.get("allOf", ()), *node.get("anyOf", ()), *self._items(node)):
            found |= self.kinds(one)
        if "$ref" in node and node["$ref"].startswith("#/definitions/key."):
            found |= self.kinds(self.root["definitions"][node["$ref"].rsplit("/", 1)[1]])
        return found

    def item(self, node: _Node) -> _Node:
        """The definition of the items of a list."""
        inner = node
        if "$ref" in inner:
            inner = self.resolved(inner)
        for one in (inner, *inner.get("anyOf", ())):
            if "items" in one:
                items: _Node = one["items"]
                return items
        return node

    @staticmethod
    def _items(node: _Node) -> list[_Node]:
        return [node["items"]] if isinstance(node.get("items"), Mapping) else []


def _seconds(value: float) -> str:
    """Seconds as text, to the nanosecond."""
    text = f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    # Less than half a nanosecond is refused, not made nothing.
    return f"{value}s" if value and text in ("0", "-0") else f"{text}s"


def _is_range(value: Mapping[str, Any]) -> bool:
    """Whether `value` is a range of an axis rather than a table of keys."""
    return "from" in value and "to" in value


def _of_timedelta(value: datetime.timedelta) -> str:
    """A time as text; those of pandas have nanoseconds, too."""
    microseconds = value // datetime.timedelta(microseconds=1)
    return f"{1000 * microseconds + getattr(value, 'nanoseconds', 0)}ns"


#: The units of times of numpy in nanoseconds, as far as they have a length and are no finer.
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def _of_numpy(value: Any) -> Any:
    """A number of numpy as one of Python; a time with its unit."""
    if value.dtype.kind != "m":
        return value.item()
    import numpy

    unit, count = numpy.datetime_data(value.dtype)
    if numpy.isnat(value) or unit not in _UNITS:
        return str(value)
    # Whole numbers of Python: those of numpy would overflow.
    return f"{int(value.astype('int64')) * count * _UNITS[unit]}ns"


def content(source: Any, name: str) -> tuple[str, Optional[dict[str, bytes]]]:
    """The path of `source`, and files in memory if it is not on the disk: a path, an open file, or bytes."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return name, {name: bytes(source)}
    if hasattr(source, "read"):
        read = source.read()
        if not isinstance(read, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"an open file gives text or bytes, not a {type(read).__name__}")
        named = getattr(source, "name", None)
        path = named if isinstance(named, str) else name
        return path, {path: read.encode() if isinstance(read, str) else bytes(read)}
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source), None
    raise TypeError(f"a path, an open file or bytes are needed, not a {type(source).__name__}")
