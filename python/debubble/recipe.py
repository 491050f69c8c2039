"""`python -m debubble.recipe MODULE:FUNCTION`: the configuration that a recipe makes, for `debubble import`.

```sh
python -m debubble.recipe megatron.bridge.recipes.llama:llama3_8b_pretrain_config > llama3.json
debubble import llama3.json
```

The function is imported and called where its framework is installed, and each key of what it returns is
written with the value that it really has. `--set name=value` gives the function an argument. The file
needs nothing but Python: `python recipe.py MODULE:FUNCTION` does the same without debubble.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import json
import math
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

__all__ = ["document", "main"]

#: The deepest nesting of objects, and the most values, that are written.
_DEEPEST, _MOST = 24, 50_000

#: Distributions of frameworks by the first names of their modules.
_DISTRIBUTIONS = {"megatron": "megatron-bridge", "nemo": "nemo-toolkit"}


class _Writer:
    """Keys and values of an object, each by its path."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.count = 0

    def add(self, path: str, value: Any, above: tuple[int, ...]) -> None:
        """Writes `value` under `path`, behind the objects `above`."""
        self.count += 1
        if self.count > _MOST:
            raise ValueError(f"it has more than {_MOST} values")
        fields = _fields(value)
        if fields is None:
            self.keys[path] = self._leaf(value, above)
        elif id(value) not in above and len(above) < _DEEPEST:
            if not isinstance(value, Mapping):
                self.keys[_joined(path, "class")] = _class(value)
            for name, inner in fields:
                self.add(_joined(path, name), inner, (*above, id(value)))

    def _leaf(self, value: Any, above: tuple[int, ...]) -> Any:
        """A value without fields, or a list of any."""
        if isinstance(value, (list, tuple, set, frozenset)):
            if id(value) in above or len(above) >= _DEEPEST:
                return []
            return [self._part(part, (*above, id(value))) for part in value]
        return _plain(value)

    def _part(self, value: Any, above: tuple[int, ...]) -> Any:
        """A part of a list, an object with its fields below it."""
        self.count += 1
        if self.count > _MOST:
            raise ValueError(f"it has more than {_MOST} values")
        fields = _fields(value)
        if fields is None:
            return self._leaf(value, above)
        own = {} if isinstance(value, Mapping) else {"class": _class(value)}
        if id(value) in above or len(above) >= _DEEPEST:
            return own
        return {**own, **{name: self._part(field, (*above, id(value))) for name, field in fields}}


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _class(value: Any) -> str:
    """The class of an object, or what an object of Fiddle or NeMo-Run makes."""
    made = getattr(value, "__fn_or_cls__", None) or type(value)
    return str(getattr(made, "__qualname__", made))


def _fields(value: Any) -> Optional[list[tuple[str, Any]]]:
    """The fields of an object with their names; none of a value without fields."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, enum.Enum, type)):
        return None
    if callable(value) and hasattr(value, "__qualname__"):
        return None
    found = _of_object(value)
    return None if found is None else [(name, field) for name, field in found if _is_name(name)]


def _of_object(value: Any) -> Optional[Iterator[tuple[Any, Any]]]:
    if hasattr(value, "__fn_or_cls__"):
        return iter({**_defaults(value.__fn_or_cls__), **value.__arguments__}.items())
    if isinstance(value, Mapping):
        return iter(dict(value).items())
    if type(value).__module__.split(".")[0] in ("torch", "numpy", "jax"):
        return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        more = [name for name in getattr(value, "__dict__", {}) if name not in names]
        return iter([(name, getattr(value, name)) for name in names + more if hasattr(value, name)])
    own = getattr(value, "__dict__", None)
    return None if own is None else iter(dict(own).items())


def _defaults(made: Any) -> dict[str, Any]:
    """The arguments that a class or a function has by itself."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return {}
    # Fields of dataclasses that are made anew for each object stand there as a mark.
    found = {one.name: one.default for one in parameters if one.default is not one.empty}
    return {name: value for name, value in found.items() if "dataclasses" not in type(value).__module__}


def _is_name(name: Any) -> bool:
    """Whether a key is one of a configuration; those with dots, as of modules, are none."""
    return isinstance(name, str) and not name.startswith("_") and "." not in name and name != "class"


def _plain(value: Any) -> Any:
    """A value as JSON has it: enumerations by their words, others by their names."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(getattr(value, "__qualname__", value))


def _version(module: str) -> str:
    """The version of the framework that has `module`."""
    first = module.split(".")[0]
    for name in (_DISTRIBUTIONS.get(first, first), first):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return f"{first} {getattr(sys.modules.get(first), '__version__', 'of unknown version')}"


def document(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the function `name`, as `module:function`, makes of `arguments`.

    Raises:
        ValueError: If it is no such name, or what it makes is not an object with fields.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"{name} is not of the form module:function")
    made: Any = importlib.import_module(module)
    for part in function.split("."):
        made = getattr(made, part)
    if callable(made) and not hasattr(made, "__fn_or_cls__"):
        made = made(**arguments)
    if _fields(made) is None:
        raise ValueError(f"{name} makes {_plain(made)!r}, which has no fields")
    writer = _Writer()
    writer.add("", made, ())
    header = {"module": module, "function": function, "framework": _version(module)}
    return {"debubble_recipe": {**header, "arguments": sorted(arguments)}, "keys": writer.keys}


def _argument(text: str) -> tuple[str, Any]:
    """An argument `name=value`, whose value is a literal of Python or a word."""
    name, sign, value = text.partition("=")
    if not name.isidentifier() or not sign:
        raise argparse.ArgumentTypeError(f"{text} is not of the form name=value")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main(words: Optional[list[str]] = None) -> None:
    """Writes the configuration of the recipe that `words` name."""
    parser = argparse.ArgumentParser(
        prog="python -m debubble.recipe", description="Writes the configuration that a recipe makes, as JSON."
    )
    parser.add_argument("recipe", metavar="MODULE:FUNCTION")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], type=_argument)
    given = parser.parse_args(words)
    try:
        found = document(given.recipe, dict(given.set))
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise SystemExit(f"{given.recipe}: {error}") from error
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if not __package__:
        # As a script, beside which there are folders with the names of frameworks.
        sys.path[0] = str(Path.cwd())
    main()
