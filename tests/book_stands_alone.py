"""Fails where a page of the book would fetch something from another host: book_stands_alone.py FOLDER."""

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


def main() -> int:
    """Looks through all pages and styles."""
    folder = Path(sys.argv[1])
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        print(f"{folder}: there is no book")
        return 1
    failures = 0
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
