"""Writes `debubble/_keys.py`, the types of the keys of questions, from the schemas.

python python/tools/keys.py            writes the file
python python/tools/keys.py --check    fails if it is not what would be written
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import debubble

#: The file that is written.
FILE = Path(__file__).resolve().parents[1] / "debubble" / "_keys.py"

#: The schemas of the questions.
SCHEMAS = Path(__file__).resolve().parents[2] / "question" / "schemas"

_WIDTH = 110

_HEAD = '''\
"""The keys of questions as types: `python/tools/keys.py` writes this file from the schemas.

Every key may be `None`, which is as good as not to give it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Union

import numpy

from ._values import Key

if TYPE_CHECKING:
    from ._profile import Profile
    from ._question import Schedules
    from ._schedule import Schedule

_T = TypeVar("_T")

#: A value, or a list or an array of values.
OneOrMany = Union[_T, Iterable[_T]]

#: A whole number.
Whole = Union[int, "numpy.integer[Any]"]

#: A number.
Number = Union[float, "numpy.integer[Any]", "numpy.floating[Any]"]

#: A time: text with a unit as in `"29.7ms"`, a number of seconds, or a difference of times.
Time = Union[str, Number, datetime.timedelta, numpy.timedelta64]

#: A size: text with a unit as in `"38GiB"`, or a number of bytes.
Size = Union[str, Whole]

#: A memory limit: times the activations of p microbatches as in `"1.5p"`, or a size.
MemoryLimit = Union[str, Whole]

#: A number, or its text.
Share = Union[str, Number]

#: A text, or the path of a file.
Name = Union[str, "os.PathLike[str]"]
'''

#: Definitions of the schemas whose values have a type of their own in Python.
_TYPES = ("Time", "Size", "MemoryLimit")

#: Types of keywords as those of values that are read.
_READ = {"Whole": "int", "Number": "float", "bool": "bool", "Share": "float"}

_VALUES = "The keys of a question as attributes: `None` where one is not given."

_Node = Mapping[str, Any]


def kinds() -> dict[str, tuple[str, str]]:
    """Schemas whose keys a function of the same name takes, with the type of these keywords and its base."""
    found = {}
    for schema in sorted(path.stem for path in SCHEMAS.glob("*.json")):
        taken = inspect.signature(getattr(debubble, schema, lambda: None)).parameters
        keys = re.fullmatch(r"Unpack\[(\w+)\]", str(taken["keys"].annotation)) if "keys" in taken else None
        if keys and keys[1] != "QuestionKeys":
            found[schema] = (keys[1], "QuestionKeys" if "question" in taken else "TypedDict")
    return found


def text() -> str:
    """The content of the file."""
    tables = [*_Tables("scenario").of_questions()]
    for schema, (name, base) in kinds().items():
        tables += _Tables(schema, name.removesuffix("Keys")).whole(name, base)
    return "\n\n".join([_HEAD, *tables])


class _Tables:
    """The tables of a schema as classes."""

    def __init__(self, schema: str, prefix: str = "") -> None:
        self.root = debubble.schema(schema)
        self.schema = schema
        self.prefix = prefix
        self.inner: dict[str, str] = {}

    def of_questions(self) -> Iterator[str]:
        """The keys of a setting, and those of a file over all its settings."""
        top = self.root["properties"]
        setting = top["setting"]["items"]["properties"]
        shared = {key: node for key, node in setting.items() if top.get(key) == node}
        own = {key: node for key, node in setting.items() if key not in shared}
        rest = {key: node for key, node in top.items() if key not in shared}
        yield self.table("_SharedKeys", "Keys of a question, and of each of its settings.", shared)
        base = "_SharedKeys"
        yield self.table("SettingKeys", "A question of its own within a question.", own, base)
        yield self.table("QuestionKeys", "A question, for `debubble.Question`.", rest, base)
        lines = ["class QuestionValues:", f'    """{_VALUES}"""', "", "    __slots__ = ()", ""]
        lines += [f"    {name}: Key[{self.read(key, top[key])}] = Key()" for key, name in _attributes(top)]
        yield "\n".join(lines) + "\n"

    def read(self, key: str, node: _Node) -> str:
        """The type of the values of the key `key` of a question that is there."""
        if key in ("schedule", "profile"):
            return {"schedule": "list[str | Schedule]", "profile": "str | Profile"}[key]
        if key == "setting":
            return "list[dict[str, Any]]"
        given = self.type(key, node)
        if given.startswith("Mapping["):
            return "dict[str, Any]"
        several = re.fullmatch(r"(?:OneOrMany|Iterable)\[(.*)\]", given)
        one = _READ.get(several[1] if several else given, "str")
        return f"list[{one}]" if several else one

    def whole(self, name: str, base: str) -> Iterator[str]:
        """All keys of the schema, after the tables within."""
        last = self.table(name, self.root["description"], self.root["properties"], base)
        yield from self.inner.values()
        yield last

    def table(self, name: str, description: str, keys: _Node, base: str = "TypedDict") -> str:
        lines = [f"class {name}({base}, total=False):", f'    """{description}"""']
        for key, node in keys.items():
            lines += ["", f"    {key.replace('-', '_')}: {self.type(key, node)} | None"]
            lines += _docstring(self.meaning(node))
        return "\n".join(lines) + "\n"

    def type(self, key: str, node: _Node) -> str:
        """The type of the values of the key `key`."""
        if key == "schedule" and self.schema in ("scenario", "replay"):
            return "Schedules"
        if key == "profile" and self.schema == "scenario":
            return "Union[Name, Profile]"
        if key == "setting":
            return "Iterable[SettingKeys | Mapping[str, Any]]"
        if "$ref" in node:
            return self.named(key, node["$ref"].rsplit("/", 1)[1])
        if "allOf" in node:
            (only,) = node["allOf"]
            return self.type(key, only)
        if "anyOf" in node:
            return self.alternatives(key, node["anyOf"])
        if "enum" in node or "oneOf" in node:
            names = node.get("enum") or [one["const"] for one in node["oneOf"]]
            return f"Literal[{', '.join(json.dumps(name) for name in names)}]"
        return self.simple(key, node)

    def simple(self, key: str, node: _Node) -> str:
        """The type of values that have no other than that of JSON."""
        kind = node["type"]
        if kind == "array":
            return f"Iterable[{self.type(key, node['items'])}]"
        if kind == "object":
            values = node.get("additionalProperties")
            within = self.type(key, values) if isinstance(values, Mapping) else "Any"
            return f"Mapping[str, {within}]"
        if isinstance(kind, list):
            return "Share"
        if kind == "string":
            return "str" if "pattern" in node else "Name"
        return {"integer": "Whole", "number": "Number", "boolean": "bool"}[kind]

    def alternatives(self, key: str, nodes: list[_Node]) -> str:
        """The type of values of either of `nodes`."""
        one, other = (self.type(key, node) for node in nodes)
        if other == f"Iterable[{one}]":
            return f"OneOrMany[{one}]"
        return f"{one} | {other}"

    def named(self, key: str, name: str) -> str:
        """The type of the definition `name`."""
        node = self.root["definitions"][name]
        if name in _TYPES:
            return name
        if "properties" not in node:
            return self.type(key, node)
        own = f"{self.prefix}{name.removesuffix('Document')}Keys"
        if own not in self.inner:
            self.inner[own] = ""
            self.inner[own] = self.table(own, node["description"], node["properties"])
        return f"{own} | Mapping[str, Any]"

    def meaning(self, node: _Node) -> list[str]:
        """The paragraphs that describe the values of `node`."""
        while "$ref" in node:
            node = self.root["definitions"][node["$ref"].rsplit("/", 1)[1]]
        said = [_plain(node["description"])]
        for name, meaning in self.values(node):
            said.append(f"`{name}`: {_plain(meaning)}")
        return said

    def values(self, node: _Node) -> Iterator[tuple[str, str]]:
        """The names that are values of `node`, with the meaning of each."""
        for one in (*node.get("allOf", ()), *node.get("anyOf", ())):
            yield from self.values(one)
        if "$ref" in node:
            yield from self.values(self.root["definitions"][node["$ref"].rsplit("/", 1)[1]])
        for one in node.get("oneOf", ()):
            yield one["const"], one["description"]


def _attributes(keys: _Node) -> list[tuple[str, str]]:
    """Keys with the names of their attributes."""
    return [(key, key.replace("-", "_")) for key in sorted(keys)]


def _plain(said: str) -> str:
    """What help says of flags, of keywords: as a sentence."""
    said = re.sub(r"(?<!`)--([a-z][a-z-]*)", lambda flag: f"`{flag[1].replace('-', '_')}`", said)
    return said if said.endswith(".") else f"{said}."


def _docstring(paragraphs: list[str]) -> list[str]:
    """The lines of a docstring below a key."""
    indent = "    "
    whole = f'{indent}"""{paragraphs[0]}"""'
    if len(paragraphs) == 1 and len(whole) <= _WIDTH:
        return [whole]
    first = textwrap.wrap(f'"""{paragraphs[0]}', _WIDTH - len(indent))
    rest = [
        line for paragraph in paragraphs[1:] for line in ["", *textwrap.wrap(paragraph, _WIDTH - len(indent))]
    ]
    return [f"{indent}{line}".rstrip() for line in [*first, *rest, '"""']]


def main() -> int:
    """Writes the file, or says whether it is as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args().check:
        FILE.write_text(text(), encoding="utf-8")
        return 0
    if FILE.read_text(encoding="utf-8") == text():
        return 0
    print(f"{FILE} is not what the schemas say: run python {Path(__file__).name}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
