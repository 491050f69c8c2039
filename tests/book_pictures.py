"""Draws the pictures of schedules by the commands that stand below them in the book.

book_pictures.py PROGRAM FOLDER, where FOLDER has the pages. The pictures are new each time.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r"^\| Drawn by \| `debubble (.*)` \|$", re.MULTILINE)


def main() -> None:
    """Draws all of them."""
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    pictures = folder / "pictures"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir()
    for page in sorted(folder.glob("*.md")):
        for command in COMMAND.findall(page.read_text(encoding="utf-8")):
            subprocess.run([program, *shlex.split(command)], cwd=pictures, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
