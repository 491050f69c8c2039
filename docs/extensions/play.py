"""The directive ``play`` shows the page to play with inside a page of the book.

It asks a question in TOML, which is its content, or the scenario of the repository that its argument names::

    ```{play}
    :view: play
    stages = 4
    ...
    ```

Where the page has not been built (``make web``), a sentence and a link stand in its place.
"""

from __future__ import annotations

import html
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import tomllib
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

ROOT = Path(__file__).resolve().parents[2]
VIEWS = ("play", "search", "plan")


class play(nodes.General, nodes.Element):
    """A question that the page answers, and how tall the page is."""


class Play(SphinxDirective):
    """A question as TOML, or the path of a scenario: see the module."""

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "view": lambda value: directives.choice(value, VIEWS),
        "height": directives.positive_int,
        "title": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """The node, or an error where the question is not TOML."""
        if bool(self.arguments) == bool(self.content):
            raise self.error("a question is TOML or the path of a scenario, one of both")
        if self.arguments:
            path = ROOT / self.arguments[0]
            self.env.note_dependency(path)
            try:
                scenario = path.read_text(encoding="utf-8")
            except OSError as error:
                raise self.error(f"{self.arguments[0]}: {error}") from error
        else:
            scenario = "\n".join(self.content) + "\n"
        try:
            tomllib.loads(scenario)
        except tomllib.TOMLDecodeError as error:
            raise self.error(f"the question is not TOML: {error}") from error
        return [
            play(
                scenario=scenario,
                view=self.options.get("view", "play"),
                height=self.options.get("height", 560),
                title=self.options.get("title", "The question to play with"),
            )
        ]


def visit_html(translator: Any, node: play) -> None:
    """Writes the page inside the page, or what stands for it."""
    builder = translator.builder
    top = "../" * builder.current_docname.count("/")
    if not builder.config.play_built:
        link = builder.get_relative_uri(builder.current_docname, "how-to/web-page")
        translator.body.append(
            '<p class="play">Here the page to play with answers this question where it has been built'
            " with the book: <code>make web book</code>."
            f' <a href="{html.escape(link)}">The web page</a> says more.</p>\n'
        )
        raise nodes.SkipNode
    address = f"{top}play/index.html#embed=1&view={node['view']}&scenario={quote(node['scenario'], safe='')}"
    translator.body.append(
        f'<iframe class="play" loading="lazy" height="{node["height"]}" title="{html.escape(node["title"])}"'
        f' src="{html.escape(address)}"></iframe>\n'
    )
    raise nodes.SkipNode


def visit_text(translator: Any, node: play) -> None:
    """Leaves it out where nothing moves."""
    raise nodes.SkipNode


def find_page(app: Sphinx, config: Config) -> None:
    """Notes whether there is a page, so that all pages are written anew when that has changed."""
    config.play_built = Path(config.play_page).is_file()


def carry_page(app: Sphinx, failure: Exception | None) -> None:
    """Puts the page beside the book."""
    if failure is None and app.config.play_built:
        folder = Path(app.outdir) / "play"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(app.config.play_page, folder / "index.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directive."""
    app.add_config_value("play_page", "", "html", [str])
    app.add_config_value("play_built", False, "html", [bool])
    app.add_node(play, html=(visit_html, None), latex=(visit_text, None), text=(visit_text, None))
    app.add_directive("play", Play)
    app.connect("config-inited", find_page)
    app.connect("build-finished", carry_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
