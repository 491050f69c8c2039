"""How installers build the package from a clone: extension and command line in one wheel.

On Linux one run of cargo builds both as `make` does, in two thirds of the time of two builds with LTO.
Elsewhere maturin knows how an extension is linked.
"""

# maturin has no types.
# pyright: basic

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

import command
import maturin
import pack
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
    if command.has_sources() and sys.platform == "linux" and not config_settings:
        with tempfile.TemporaryDirectory() as folder:
            info = Path(metadata_directory or Path(folder) / prepare_metadata_for_build_wheel(folder))
            built = command.build_both()
            wheel = pack.pack(built, Path(wheel_directory), pack.described(info))
        command.add(wheel, built / command.NAME)
        return wheel.name
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    if command.has_sources():
        command.add(Path(wheel_directory) / name, command.build())
    return name
