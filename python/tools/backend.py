"""How installers build the package from a clone: maturin, and the command line in the wheel beside it."""

# maturin has no types.
# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import command
import maturin
from maturin import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    """The wheel, with the command line where its sources are here."""
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    if command.has_sources():
        command.add(Path(wheel_directory) / name, command.build())
    return name
