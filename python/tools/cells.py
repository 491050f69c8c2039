"""Writes the Python of examples as files, for type checkers: the cells of each notebook, and the blocks of
each README and page of the book, one after the other.

python python/tools/cells.py FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def cells(notebook: Path) -> Iterator[str]:
    """The code of a notebook, cell by cell."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def blocks(readme: Path) -> Iterator[str]:
    """The Python of a page, block by block, but that which shows what is refused."""
    for block in _BLOCK.findall(readme.read_text(encoding="utf-8")):
        if "except db.InputError" not in block:
            yield block


def main() -> None:
    """Writes all of them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    found = {f"{one.stem}-notebook": cells(one) for one in ROOT.glob("examples/*.ipynb")}
    found["readme"] = blocks(ROOT / "README.md")
    found["package"] = blocks(ROOT / "python" / "README.md")
    found |= {f"{one.parent.name}-{one.stem}-page": blocks(one) for one in ROOT.glob("docs/*/*.md")}
    for name, parts in found.items():
        module = re.sub(r"\W", "_", name) + ".py"
        (folder / module).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    # What is read, not kept: looser than the package, and expressions that show themselves.
    settings = {
        "typeCheckingMode": "basic",
        "reportOperatorIssue": False,
        "reportOptionalMemberAccess": False,
        "reportUnusedExpression": False,
        "reportMissingModuleSource": False,
        "extraPaths": [str(ROOT / "python")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")


if __name__ == "__main__":
    main()
