"""Packs the Python package as a wheel, with what cargo has built: extension and command line.

    python python/tools/pack.py target/debug FOLDER

For `pip install .`, and for trying the package in clean environments with the build of the tests. Wheels
for everyone are built by maturin, optimised and for older systems: `make wheel`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Optional

import command

ROOT = Path(__file__).resolve().parents[2]


def value(file: str, key: str) -> str:
    """What a line of a TOML file says of a key; a string or a list of strings, as JSON writes them too."""
    found = re.search(rf"^{key} = (.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{file} has no {key}"
    return found[1]


def described(info: Path) -> dict[str, bytes]:
    """The files of the folder `info` of a package that describe it, by their path within it."""
    paths = [path for path in info.rglob("*") if path.is_file() and path.name not in ("RECORD", "WHEEL")]
    return {path.relative_to(info).as_posix(): path.read_bytes() for path in sorted(paths)}


def metadata(number: str) -> str:
    """The metadata that an installer needs."""
    needs: list[str] = json.loads(value("pyproject.toml", "dependencies"))
    python: str = json.loads(value("pyproject.toml", "requires-python"))
    lines = ["Metadata-Version: 2.1", "Name: debubble", f"Version: {number}", f"Requires-Python: {python}"]
    return "\n".join([*lines, *(f"Requires-Dist: {one}" for one in needs), ""])


def files(built: Path) -> dict[str, bytes]:
    """The package as it is installed, by path."""
    package = ROOT / "python/debubble"
    paths = [path for path in package.rglob("*") if path.suffix in {".py", ".pyi"} or path.name == "py.typed"]
    found = {f"debubble/{path.relative_to(package).as_posix()}": path.read_bytes() for path in sorted(paths)}
    found["debubble/_debubble.abi3.so"] = (built / "lib_debubble.so").read_bytes()
    return found


def pack(built: Path, folder: Path, about: Optional[dict[str, bytes]] = None) -> Path:
    """Writes the wheel into the folder; `about` are the files that describe the package."""
    number: str = json.loads(value("Cargo.toml", "version"))
    tag = "cp39-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    all_files = files(built)
    info = f"debubble-{number}.dist-info"
    about = about or {"METADATA": metadata(number).encode()}
    all_files.update({f"{info}/{name}": data for name, data in about.items()})
    wheel = f"Wheel-Version: 1.0\nGenerator: pack.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    all_files[f"{info}/WHEEL"] = wheel.encode()
    record = []
    for name, data in all_files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}")
    all_files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"debubble-{number}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in all_files.items():
            archive.writestr(name, data)
    return path


def main() -> int:
    """Packs what cargo has built in the first folder into the second."""
    if len(sys.argv) != 3:
        print("pack: name the folder of what cargo has built, and the one of the wheel", file=sys.stderr)
        return 2
    built = Path(sys.argv[1])
    wheel = pack(built, Path(sys.argv[2]))
    command.add(wheel, built / command.NAME)
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
