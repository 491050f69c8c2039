"""Fails where a page of the book would fetch something from another host, or is missing in its llms.txt:
book_stands_alone.py FOLDER.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
STYLE = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
# What a browser does not fetch, but whoever follows a link.
LINKS = {"canonical", "author", "license"}


class Fetched(HTMLParser):
    """Collects the addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        fetched = [given.get(name, "") for name in ("src", "srcset", "poster", "data")]
        if tag == "link" and given.get("rel", "") not in LINKS:
            fetched.append(given.get("href", ""))
        self.found += [address for address in fetched if FOREIGN.match(address)]
        self.found += STYLE.findall(given.get("style", ""))


LISTED = re.compile(r"^- \[[^\n]+\]\(([^)\n]+)\): \S", re.MULTILINE)
# Pages that Sphinx adds, and the page to play with.
ADDED = {"genindex.html", "search.html", "py-modindex.html"}


def unlisted(folder: Path, pages: list[Path]) -> set[str]:
    """Pages that llms.txt does not describe, or describes though there are none."""
    listed = set(LISTED.findall((folder / "llms.txt").read_text(encoding="utf-8")))
    names = {page.relative_to(folder).as_posix() for page in pages}
    return listed ^ {name for name in names - ADDED if not name.startswith(("_", "play/"))}


def main() -> int:
    """Looks through all pages and styles."""
    folder = Path(sys.argv[1])
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        print(f"{folder}: there is no book")
        return 1
    missing = unlisted(folder, pages)
    for page in sorted(missing):
        print(f"{folder}/llms.txt and the pages differ: {page}")
    failures = len(missing)
    for file in [*pages, *sorted(folder.rglob("*.css"))]:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".css":
            found = STYLE.findall(text)
        else:
            parser = Fetched()
            parser.feed(text)
            found = parser.found
        for address in found:
            print(f"{file}: a browser fetches {address}")
            failures += 1
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
