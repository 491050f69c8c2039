"""Puts the command line into a wheel, so that `pip install debubble` gives both.

    python python/tools/command.py WHEEL...

builds it for the system of the wheels, for glibc 2.17 where cargo-zigbuild is installed, and for both kinds
of Mac on macOS, and adds it to each of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "debubble.exe" if os.name == "nt" else "debubble"
_PARTS = ["--locked", "--package", "debubble", "--bin", "debubble", "--features", "debubble/parquet"]
BUILD = ["--profile", "dist", *_PARTS]
OLD_GLIBC = "2.17"
MACS = ["aarch64-apple-darwin", "x86_64-apple-darwin"]


def has_sources() -> bool:
    """Whether the sources of the command line are here: those of a release of the package lack them."""
    return (ROOT / "src" / "main.rs").is_file()


def _run(words: list[str], cwd: Path = ROOT) -> str:
    return subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def _folder() -> Path:
    """Where cargo builds."""
    metadata = json.loads(_run(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]))
    return Path(metadata["target_directory"])


def _host() -> str:
    lines = _run(["rustc", "-vV"]).splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def build() -> Path:
    """Builds the command line."""
    folder = _folder()
    if platform.system() == "Darwin":
        for target in MACS:
            _run(["cargo", "build", *BUILD, "--target", target])
        both = folder / "python" / NAME
        both.parent.mkdir(parents=True, exist_ok=True)
        _run(
            [
                "lipo",
                "-create",
                "-output",
                str(both),
                *(str(folder / target / "dist" / NAME) for target in MACS),
            ]
        )
        return both
    if platform.system() == "Linux" and shutil.which("cargo-zigbuild"):
        host = _host()
        _run(["cargo", "zigbuild", *BUILD, "--target", f"{host}.{OLD_GLIBC}"])
        return folder / host / "dist" / NAME
    _run(["cargo", "build", *BUILD])
    return folder / "dist" / NAME


def build_both() -> Path:
    """Builds command line and extension at once, as `make` does; where they are."""
    _run(["cargo", "build", "--release", *_PARTS, "--package", "debubble-python", "--lib"])
    return _folder() / "release"


def add(wheel: Path, program: Path) -> None:
    """Adds `program` to `wheel` as a command."""
    with zipfile.ZipFile(wheel) as archive:
        parts = [(entry, archive.read(entry)) for entry in archive.infolist()]
    record = next(entry.filename for entry, _ in parts if entry.filename.endswith(".dist-info/RECORD"))
    command = record.replace(".dist-info/RECORD", f".data/scripts/{NAME}")
    data = program.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    line = f"{command},sha256={digest},{len(data)}\n".encode()
    entry = zipfile.ZipInfo(command, date_time=parts[0][0].date_time)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100755 << 16
    partial = wheel.with_name(wheel.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for one, content in parts:
            if one.filename == command:
                continue
            if one.filename == record:
                kept = [
                    line
                    for line in content.splitlines(keepends=True)
                    if not line.startswith(command.encode())
                ]
                archive.writestr(entry, data)
                content = line + b"".join(kept)
            archive.writestr(one, content)
    partial.replace(wheel)


def main() -> int:
    """Adds the command line to the wheels that are named."""
    if not sys.argv[1:]:
        print("command: name the wheels to add the command line to", file=sys.stderr)
        return 2
    program = build()
    for wheel in sys.argv[1:]:
        add(Path(wheel), program)
        print(f"{wheel}: {Path(wheel).stat().st_size // 1000} kB with the command line")
    return 0


if __name__ == "__main__":
    sys.exit(main())
