"""PyTorch and Megatron-core, which are loaded when they are needed first."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .._errors import InputError

#: The oldest version of Megatron-core that is tried.
OLDEST = (0, 15)


def load(name: str) -> Any:
    """The module `name` of PyTorch or of Megatron-core."""
    return importlib.import_module(name)


def schedules() -> Any:
    """The schedules of Megatron-core.

    Raises:
        InputError: If it is not there, or too old.
    """
    try:
        version = str(load("megatron.core").__version__)
        found = load("megatron.core.pipeline_parallel.schedules")
    except ImportError as error:
        message = f"debubble.megatron needs Megatron-core, which cannot be loaded: {error}"
        raise InputError(message, message=message, help="pip install megatron-core") from error
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        message = f"debubble.megatron needs Megatron-core {oldest}, and this is {version}"
        raise InputError(message, message=message, help="pip install --upgrade megatron-core")
    return found


def replace(own: Any, other: Any) -> None:
    """Puts `other` in the place of the function `own` in every module that has it under its name."""
    name = str(own.__name__)
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is own:
            setattr(module, name, other)
