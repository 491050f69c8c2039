"""The file ``llms.txt`` of the book: title, first sentence and address of each page, in reading order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx


def in_order(app: Sphinx, page: str) -> Iterator[str]:
    """A page and those below it."""
    yield page
    for below in app.env.toctree_includes.get(page, []):
        yield from in_order(app, below)


def first_sentence(app: Sphinx, page: str) -> str:
    """The first sentence of a page, if it has text."""
    for paragraph in app.env.get_doctree(page).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            return " ".join(paragraph.astext().split()).partition(". ")[0].rstrip(".:") + "."
    return ""


def write(app: Sphinx, failure: Exception | None) -> None:
    """Writes the file next to the pages."""
    if failure is not None or app.builder.format != "html":
        return
    root = app.config.root_doc
    lines = [f"# {app.config.project} {app.config.release}", "", f"> {first_sentence(app, root)}", ""]
    for page in in_order(app, root):
        title, depth = app.env.titles[page].astext(), page.count("/")
        if page.endswith("/index") and depth == 1:
            lines += ["", f"## {title}", ""]
        lines.append(f"- [{title}]({app.builder.get_target_uri(page)}): {first_sentence(app, page)}")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the writer to the end of a build."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
